use super::*;

/// Every supported form, with the number of registers that the manual gives for a, b and the accumulators.
fn forms() -> Vec<(bool, Shape, Elem, Elem, [usize; 3])> {
    use Elem::{B1, Bf16, E4m3, F16, F32, F64, S4, S8, S32, Tf32};
    let s = Shape::new;
    vec![
        (false, s(16, 8, 8), F16, F16, [2, 1, 2]),
        (false, s(16, 8, 16), F16, F32, [4, 2, 4]),
        (false, s(16, 8, 8), Bf16, F32, [2, 1, 4]),
        (false, s(16, 8, 4), Tf32, F32, [2, 1, 4]),
        (false, s(16, 8, 8), Tf32, F32, [4, 2, 4]),
        (false, s(16, 8, 32), E4m3, F32, [4, 2, 4]),
        (false, s(8, 8, 16), S8, S32, [1, 1, 2]),
        (false, s(16, 8, 16), S8, S32, [2, 1, 4]),
        (false, s(16, 8, 32), S8, S32, [4, 2, 4]),
        (false, s(16, 8, 64), S4, S32, [4, 2, 4]),
        (false, s(16, 8, 256), B1, S32, [4, 2, 4]),
        (false, s(8, 8, 4), F64, F64, [1, 1, 2]),
        (false, s(16, 8, 16), F64, F64, [8, 4, 4]),
        (true, s(16, 16, 16), F16, F32, [8, 8, 8]),
        (true, s(32, 8, 16), F16, F16, [8, 8, 4]),
        (true, s(8, 32, 16), F16, F32, [8, 8, 8]),
        (true, s(16, 16, 16), Bf16, F32, [4, 4, 8]),
        (true, s(32, 8, 16), Bf16, F32, [8, 2, 8]),
        (true, s(8, 32, 16), Bf16, F32, [2, 8, 8]),
        (true, s(16, 16, 16), S8, S32, [2, 2, 8]),
        (true, s(8, 32, 16), S8, S32, [1, 4, 8]),
        (true, s(16, 16, 8), Tf32, F32, [4, 4, 8]),
        (true, s(8, 8, 4), F64, F64, [1, 1, 2]),
    ]
}

#[test]
fn every_element_is_held_once_by_every_copy() {
    for (is_wmma, shape, operand_elem, sum_elem, regs) in forms() {
        for (operand, regs) in [Operand::A, Operand::B, Operand::C].into_iter().zip(regs) {
            let elem = if operand == Operand::C { sum_elem } else { operand_elem };
            let f = if is_wmma { wmma(shape, operand, elem) } else { mma(shape, operand, elem) }.unwrap();
            assert_eq!(f.regs, regs, "{shape:?} {operand:?} {elem:?}");
            let mut held = vec![0; f.rows * f.cols];
            for lane in 0..32 {
                for i in 0..f.elems() {
                    let (row, col) = f.position(lane, i);
                    held[row * f.cols + col] += 1;
                }
            }
            let copies = f.regs / f.distinct;
            assert!(held.iter().all(|&n| n == copies), "{shape:?} {operand:?} {elem:?}: {held:?}");
        }
    }
}

/// Expected positions are rows of the manual's tables.
#[test]
fn positions_match_the_manual() {
    let shape = Shape::new(16, 8, 16);
    let a = mma(shape, Operand::A, Elem::F16).unwrap();
    let of = |f: &Fragment, lane: usize| -> Vec<_> { (0..f.elems()).map(|i| f.position(lane, i)).collect() };
    assert_eq!(of(&a, 6), [(1, 4), (1, 5), (9, 4), (9, 5), (1, 12), (1, 13), (9, 12), (9, 13)]);
    let b = mma(shape, Operand::B, Elem::F16).unwrap();
    assert_eq!(of(&b, 6), [(4, 1), (5, 1), (12, 1), (13, 1)]);
    let c = mma(shape, Operand::C, Elem::F32).unwrap();
    assert_eq!(of(&c, 6), [(1, 4), (1, 5), (9, 4), (9, 5)]);
    let a = mma(Shape::new(16, 8, 32), Operand::A, Elem::S8).unwrap();
    assert_eq!(of(&a, 31)[..5], [(7, 12), (7, 13), (7, 14), (7, 15), (15, 12)]);
    let b = mma(Shape::new(16, 8, 8), Operand::B, Elem::Tf32).unwrap();
    assert_eq!(of(&b, 7), [(3, 1), (7, 1)]);
}

/// Expected positions were read from an H200: the first elements of lane 0 and of lane 5.
#[test]
fn wmma_fragments_are_those_of_hardware() {
    let square = Shape::new(16, 16, 16);
    let of = |f: Option<Fragment>, lane: usize, n: usize| -> Vec<_> {
        let f = f.unwrap();
        (0..n).map(|i| f.position(lane, i)).collect()
    };
    let a = wmma(square, Operand::A, Elem::F16);
    assert_eq!(
        of(a, 0, 10),
        [(0, 0), (0, 1), (8, 0), (8, 1), (0, 8), (0, 9), (8, 8), (8, 9), (0, 0), (0, 1)]
    );
    let b = wmma(square, Operand::B, Elem::F16);
    assert_eq!(of(b, 0, 8), [(0, 0), (1, 0), (8, 0), (9, 0), (0, 8), (1, 8), (8, 8), (9, 8)]);
    let c = wmma(square, Operand::C, Elem::F32);
    assert_eq!(of(c, 5, 8), [(1, 2), (1, 3), (9, 2), (9, 3), (1, 10), (1, 11), (9, 10), (9, 11)]);
    let wide = Shape::new(8, 32, 16);
    let b = wmma(wide, Operand::B, Elem::Bf16);
    assert_eq!(
        of(b, 0, 10),
        [(0, 0), (1, 0), (0, 8), (1, 8), (8, 0), (9, 0), (8, 8), (9, 8), (0, 16), (1, 16)]
    );
    let c = wmma(wide, Operand::C, Elem::F32);
    assert_eq!(of(c, 4, 4), [(0, 1), (1, 1), (0, 9), (1, 9)]);
    let tall = wmma(Shape::new(32, 8, 16), Operand::A, Elem::S8);
    assert_eq!(of(tall, 1, 9)[4..], [(8, 4), (8, 5), (8, 6), (8, 7), (16, 4)]);
}
