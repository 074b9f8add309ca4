use super::*;
use crate::num::testing::Rng;
use crate::num::tile::{Fragment, Shape, error_bound};

type Runner = fn(&Mma, &[&Lanes], &[&Lanes], &[&Lanes], &mut [Lanes]);

/// Every supported form.
fn forms() -> Vec<Mma> {
    use Elem::{B1, Bf16, E4m3, E5m2, F16, F32, S4, S8, S32, Tf32, U4, U8};
    let mut out = vec![];
    for m in [8, 16, 32] {
        for n in [8, 16, 32] {
            for k in [4, 8, 16, 32, 64, 128, 256] {
                for wmma in [false, true] {
                    for (a, b) in
                        [(F16, F16), (Bf16, Bf16), (Tf32, Tf32), (E4m3, E4m3), (E4m3, E5m2), (E5m2, E5m2)]
                    {
                        for (c, d) in [(F32, F32), (F16, F16), (F16, F32), (F32, F16)] {
                            out.push(Mma { wmma, ..Mma::new(Shape::new(m, n, k), a, b, c, d) });
                        }
                    }
                    for (a, b) in [(S8, S8), (U8, U8), (S8, U8), (U8, S8), (S4, S4), (U4, S4), (B1, B1)] {
                        out.push(Mma { wmma, ..Mma::new(Shape::new(m, n, k), a, b, S32, S32) });
                    }
                }
            }
        }
    }
    out.retain(is_supported);
    out
}

/// Converts a fragment to a matrix of exact numbers with the layout table.
fn matrix(f: &Fragment, regs: &[Lanes]) -> Vec<f64> {
    let mut out = vec![0.0; f.rows * f.cols];
    for lane in 0..32 {
        for i in 0..f.elems() {
            let (row, col) = f.position(lane, i);
            let bits = f.elem.bits() as u32;
            let code = (regs[i / f.per_reg()][lane] >> (bits * (i % f.per_reg()) as u32))
                & (u32::MAX >> (32 - bits));
            out[row * f.cols + col] = match f.elem {
                Elem::F16 => f64::from(codec::f16_to_f32(code)),
                Elem::Bf16 => f64::from(codec::bf16_to_f32(code)),
                Elem::Tf32 => f64::from(codec::tf32_to_f32(code)),
                Elem::E4m3 => f64::from(codec::e4m3_to_f32(code as u8)),
                Elem::E5m2 => f64::from(codec::e5m2_to_f32(code as u8)),
                Elem::F32 => f64::from(f32::from_bits(code)),
                Elem::S8 => f64::from(code as i8),
                Elem::S4 => f64::from((code << 28) as i32 >> 28),
                Elem::S32 => f64::from(code as i32),
                _ => f64::from(code),
            };
        }
    }
    out
}

fn random(rng: &mut Rng, f: &Fragment) -> Vec<Lanes> {
    let mut regs: Vec<Lanes> = (0..f.distinct)
        .map(|_| {
            rng.lanes(|r| match f.elem {
                // Numbers around one, with both signs.
                Elem::F16 => r.u32() & 0x8fff_8fff | 0x3000_3000,
                Elem::Bf16 => r.u32() & 0x81ff_81ff | 0x3e00_3e00,
                Elem::E4m3 => r.u32() & 0x9f9f_9f9f | 0x2020_2020,
                Elem::E5m2 => r.u32() & 0x8f8f_8f8f | 0x3030_3030,
                Elem::Tf32 | Elem::F32 => r.u32() & 0x81ff_ffff | 0x3e00_0000,
                Elem::S32 => r.u32() >> 8,
                _ => r.u32(),
            })
        })
        .collect();
    for i in f.distinct..f.regs {
        regs.push(regs[i % f.distinct]);
    }
    regs
}

fn refs(regs: &[Lanes]) -> Vec<&Lanes> {
    regs.iter().collect()
}

#[test]
fn products_match_f64_within_the_bound() {
    let mut rng = Rng(71);
    let forms = forms();
    assert!(forms.len() > 50, "{}", forms.len());
    for op in forms {
        let [fa, fb, fc, fd] = op.fragments().unwrap();
        for _ in 0..3 {
            let (a, b, c) = (random(&mut rng, &fa), random(&mut rng, &fb), random(&mut rng, &fc));
            let (ma, mb, mc) = (matrix(&fa, &a), matrix(&fb, &b), matrix(&fc, &c));
            for run in [mma as Runner, body::<false>] {
                let mut d = vec![[0; 32]; fd.regs];
                run(&op, &refs(&a), &refs(&b), &refs(&c), &mut d);
                let md = matrix(&fd, &d);
                for row in 0..fd.rows {
                    for col in 0..fd.cols {
                        let at = row * fd.cols + col;
                        let (mut sum, mut magnitude) = (mc[at], mc[at].abs());
                        for k in 0..fa.cols {
                            let (x, y) = (ma[row * fa.cols + k], mb[k * fb.cols + col]);
                            let product = if op.a == Elem::B1 { f64::from(x != y) } else { x * y };
                            sum += product;
                            magnitude += product.abs();
                        }
                        let error = (md[at] - sum).abs();
                        assert!(
                            error <= error_bound(&op, magnitude),
                            "{op:?} ({row}, {col}): {} for {sum}",
                            md[at]
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn integer_sums_wrap_or_clamp() {
    let ones = [[0x0101_0101; 32]; 4];
    let top = [[i32::MAX as u32; 32]; 4];
    let mut op = Mma::new(Shape::new(16, 8, 32), Elem::S8, Elem::U8, Elem::S32, Elem::S32);
    let mut d = [[0; 32]; 4];
    mma(&op, &refs(&ones), &refs(&ones[..2]), &refs(&top), &mut d);
    assert_eq!(d, [[i32::MIN as u32 + 31; 32]; 4]);
    op.satfinite = true;
    mma(&op, &refs(&ones), &refs(&ones[..2]), &refs(&top), &mut d);
    assert_eq!(d, top);
}

#[test]
fn single_bits_count_and_or_xor() {
    let mut op = Mma::new(Shape::new(16, 8, 256), Elem::B1, Elem::B1, Elem::S32, Elem::S32);
    let (a, b, c) = ([[0xffff_0000; 32]; 4], [[0xff00_ff00; 32]; 2], [[5; 32]; 4]);
    let mut d = [[0; 32]; 4];
    for (bit_op, per_word) in [(BitOp::Xor, 16), (BitOp::And, 8)] {
        op.bit_op = bit_op;
        mma(&op, &refs(&a), &refs(&b), &refs(&c), &mut d);
        assert_eq!(d, [[5 + 8 * per_word; 32]; 4]);
    }
}

#[test]
fn infinities_and_nans_reach_the_result() {
    let op = Mma::new(Shape::new(16, 8, 16), Elem::F16, Elem::F16, Elem::F32, Elem::F32);
    let one = 0x3c00_3c00;
    let (mut a, b, c) = ([[one; 32]; 4], [[one; 32]; 2], [[0; 32]; 4]);
    a[0][0] = 0x7c00_3c00; // row 0, column 1
    a[1][4] = 0x7e01_3c00; // row 9, column 1
    let mut d = [[0; 32]; 4];
    mma(&op, &refs(&a), &refs(&b), &refs(&c), &mut d);
    assert_eq!(d[0][0], f32::INFINITY.to_bits());
    assert_eq!(d[2][4], NAN_F32);
    assert_eq!(f32::from_bits(d[0][4]), 16.0);
}

#[test]
fn f64_tiles_are_fused_in_order() {
    let mut rng = Rng(72);
    for k in [4, 8, 16] {
        let op = Mma::new(Shape::new(16, 8, k), Elem::F64, Elem::F64, Elem::F64, Elem::F64);
        let [fa, fb, fc, fd] = op.fragments().unwrap();
        let mut regs = |n: usize| -> Vec<Lanes64> {
            (0..n)
                .map(|_| std::array::from_fn(|_| rng.u64() & 0x803f_ffff_ffff_ffff | 0x3fc0_0000_0000_0000))
                .collect()
        };
        let (a, b, c) = (regs(fa.regs), regs(fb.regs), regs(fc.regs));
        let mut d = vec![[0; 32]; fd.regs];
        let r = |x: &[Lanes64]| -> Vec<Lanes64> { x.to_vec() };
        let (ra, rb, rc) = (r(&a), r(&b), r(&c));
        mma_f64(
            &op,
            &ra.iter().collect::<Vec<_>>(),
            &rb.iter().collect::<Vec<_>>(),
            &rc.iter().collect::<Vec<_>>(),
            &mut d,
        );
        // Row 1, column 2 is in lane 5 of the first register. The positions of its operands come from the manual's
        // formulas.
        let mut sum = f64::from_bits(c[0][5]);
        for step in 0..usize::from(k) {
            let x = f64::from_bits(a[step / 4 * 2][4 + step % 4]);
            let y = f64::from_bits(b[step / 4][2 * 4 + step % 4]);
            sum = x.mul_add(y, sum);
        }
        assert_eq!(d[0][5], sum.to_bits());
    }
}
