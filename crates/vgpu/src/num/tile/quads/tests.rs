use super::*;

/// A small number that differs between positions, exact in f16.
fn value(seed: usize) -> f32 {
    (seed * 37 % 29) as f32 * 0.25 - 3.5
}

fn put(d: &mut [Lanes], elem: Elem, lane: usize, i: usize, x: f32) {
    match elem {
        Elem::F16 => d[i / 2][lane] |= codec::f32_to_f16_rn(x) << (16 * (i % 2)),
        _ => d[i][lane] = x.to_bits(),
    }
}

/// The tables of the manual, written once more and independently: `%laneid` and `i` to row and column.
#[test]
fn every_layout_and_type_matches_a_product_of_matrices() {
    for (a_columns, b_columns) in [(false, false), (false, true), (true, false), (true, true)] {
        for (c, d) in [(Elem::F16, Elem::F16), (Elem::F32, Elem::F32), (Elem::F16, Elem::F32)] {
            let form = Quads { a_columns, b_columns, c, d };
            let in_a = |q: usize, m: usize, k: usize| value(q * 32 + m * 4 + k);
            let in_b = |q: usize, k: usize, n: usize| value(1000 + q * 32 + k * 8 + n);
            let in_c = |q: usize, m: usize, n: usize| value(5000 + q * 64 + m * 8 + n);
            let (mut ra, mut rb) = ([[0; 32]; 2], [[0; 32]; 2]);
            let mut rc = vec![[0; 32]; Quads::registers(c)];
            for lane in 0..32 {
                let quad = lane % 16 / 4;
                let lower = lane >= 16;
                for i in 0..4 {
                    let own = if lower { lane % 4 + 4 } else { lane % 4 };
                    let counted = if lower { i + 4 } else { i };
                    let x = if a_columns { in_a(quad, counted, lane % 4) } else { in_a(quad, own, i) };
                    put(&mut ra, Elem::F16, lane, i, x);
                    let y = if b_columns { in_b(quad, i, own) } else { in_b(quad, lane % 4, counted) };
                    put(&mut rb, Elem::F16, lane, i, y);
                }
                for i in 0..8 {
                    let (row, col) = accumulator(c, lane, i);
                    put(&mut rc, c, lane, i, in_c(quad, row, col));
                }
            }
            let mut rd = vec![[0; 32]; Quads::registers(d)];
            form.mma([&ra[0], &ra[1]], [&rb[0], &rb[1]], &rc.iter().collect::<Vec<_>>(), &mut rd);
            for lane in 0..32 {
                let quad = lane % 16 / 4;
                for i in 0..8 {
                    let (row, col) = accumulator(d, lane, i);
                    let exact: f32 = in_c(quad, row, col)
                        + (0..4).map(|k| in_a(quad, row, k) * in_b(quad, k, col)).sum::<f32>();
                    let got = match d {
                        Elem::F16 => codec::f16_to_f32(rd[i / 2][lane] >> (16 * (i % 2)) & 0xffff),
                        _ => f32::from_bits(rd[i][lane]),
                    };
                    // All values are multiples of 1/16 and small: f16 holds the sums exactly.
                    assert_eq!(got, exact, "lane {lane}, element {i} of {form:?}");
                }
            }
        }
    }
}

fn accumulator(elem: Elem, lane: usize, i: usize) -> (usize, usize) {
    let lower = if lane >= 16 { 4 } else { 0 };
    if elem == Elem::F16 {
        return (lane % 4 + lower, i);
    }
    let row = (lane & 0b1) + (i & 0b10);
    (row + lower, (i & 0b100) + (lane & 0b10) + (i & 0b1))
}
