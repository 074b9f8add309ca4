use super::*;

/// Pseudo-random numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A value as the bits of an element and as a number. All products and sums of a test are exact in f16.
fn random(elem: Elem, numbers: &mut Numbers) -> (u32, f64) {
    let n = numbers.below(7) as i32 - 3;
    match elem {
        Elem::U8 | Elem::U4 => (n.unsigned_abs(), f64::from(n.abs())),
        Elem::S8 => (n as u32 & 0xff, f64::from(n)),
        Elem::S4 => (n as u32 & 0xf, f64::from(n)),
        Elem::S32 => (n as u32, f64::from(n)),
        Elem::F16 => (codec::f32_to_f16_rn(n as f32), f64::from(n)),
        Elem::Bf16 => (codec::f32_to_bf16_rn(n as f32), f64::from(n)),
        Elem::E4m3 => (u32::from(codec::f32_to_e4m3(n as f32)), f64::from(n)),
        Elem::E5m2 => (u32::from(codec::f32_to_e5m2(n as f32)), f64::from(n)),
        _ => ((n as f32).to_bits(), f64::from(n)),
    }
}

/// Puts an element into the registers of a fragment.
fn put(regs: &mut [Lanes], elem: Elem, lane: usize, i: usize, bits: u32) {
    let width = elem.bits();
    let per = 32 / width;
    regs[i / per][lane] |= bits << (width * (i % per) % 32);
}

/// Which lane holds the metadata of a group, and at which bit: the figures of the manual, one row per kind of form.
fn place(elem: Elem, k: usize, selector: usize, row: usize, group: usize) -> (usize, usize) {
    let first = row % 8 * 4;
    let lower_half = row >= 8;
    match (elem.bits(), k) {
        (16, 16) | (32, 8) => (first + selector, group * 4 + if lower_half { 16 } else { 0 }),
        (16, 32) | (32, 16) => {
            (first + 2 * selector + group / 4, group % 4 * 4 + if lower_half { 16 } else { 0 })
        }
        (8, 32) | (4, 64) => (first + 2 * selector + usize::from(lower_half), group * 4),
        _ => (first + 2 * (group / 8) + usize::from(lower_half), group % 8 * 4),
    }
}

#[test]
fn every_form_matches_a_product_of_matrices() {
    use Elem::{Bf16, E4m3, E5m2, F16, F32, S4, S8, S32, Tf32, U4, U8};
    let forms = [
        (F16, F16, F32, 16),
        (F16, F16, F16, 32),
        (Bf16, Bf16, F32, 16),
        (Bf16, Bf16, F32, 32),
        (Tf32, Tf32, F32, 8),
        (Tf32, Tf32, F32, 16),
        (S8, U8, S32, 32),
        (U8, S8, S32, 64),
        (S4, U4, S32, 64),
        (U4, S4, S32, 128),
        (E4m3, E5m2, F32, 64),
        (E5m2, E4m3, F16, 64),
    ];
    for (ea, eb, ec, k) in forms {
        let op = Mma::new(Shape::new(16, 8, k), ea, eb, ec, ec);
        assert!(is_supported(&op), "{op:?}");
        for selector in 0..selectors(&op) as usize {
            check(&op, selector);
        }
    }
}

fn check(op: &Mma, selector: usize) {
    let k = usize::from(op.shape.k);
    let mut numbers = Numbers(7 + selector as u64);
    let [fa, fb, fc, fd] = fragments(op).expect("fragments");
    let Group { columns, kept } = group(op.a);
    // The sparse matrix, and the columns of its kept elements in order.
    let mut dense_a = vec![0f64; 16 * k];
    let mut packed_bits = vec![0u32; 16 * k / 2];
    let mut metadata = [0u32; 32];
    for row in 0..16 {
        for g in 0..k / columns {
            let (code, chosen): (u32, Vec<usize>) = if op.a == Elem::Tf32 {
                [(0b0100, vec![0]), (0b1110, vec![1])][numbers.below(2) as usize].clone()
            } else {
                let (low, high) = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)][numbers.below(6) as usize];
                let chosen = if kept == 2 {
                    vec![low, high]
                } else {
                    vec![2 * low, 2 * low + 1, 2 * high, 2 * high + 1]
                };
                ((low | high << 2) as u32, chosen)
            };
            let (lane, bit) = place(op.a, k, selector, row, g);
            metadata[lane] |= code << bit;
            for (n, within) in chosen.iter().enumerate() {
                let (bits, x) = random(op.a, &mut numbers);
                dense_a[row * k + g * columns + within] = x;
                packed_bits[row * k / 2 + g * kept + n] = bits;
            }
        }
    }
    let mut dense_b = vec![0f64; k * 8];
    let mut regs_a = vec![[0; 32]; fa.regs];
    let mut regs_b = vec![[0; 32]; fb.regs];
    let mut regs_c = vec![[0; 32]; fc.regs];
    let mut dense_c = vec![0f64; 16 * 8];
    for lane in 0..32 {
        for i in 0..fa.elems() {
            let (row, col) = fa.position(lane, i);
            put(&mut regs_a, op.a, lane, i, packed_bits[row * k / 2 + col]);
        }
        for i in 0..fb.elems() {
            let (row, col) = fb.position(lane, i);
            let (bits, x) = random(op.b, &mut numbers);
            dense_b[row * 8 + col] = x;
            put(&mut regs_b, op.b, lane, i, bits);
        }
        for i in 0..fc.elems() {
            let (row, col) = fc.position(lane, i);
            let (bits, x) = random(op.c, &mut numbers);
            dense_c[row * 8 + col] = x;
            put(&mut regs_c, op.c, lane, i, bits);
        }
    }
    let mut regs_d = vec![[0xdead_beef; 32]; fd.regs];
    let a: Vec<&Lanes> = regs_a.iter().collect();
    let b: Vec<&Lanes> = regs_b.iter().collect();
    let c: Vec<&Lanes> = regs_c.iter().collect();
    mma(op, &a, &b, &c, &metadata, selector, &mut regs_d);
    for lane in 0..32 {
        for i in 0..fd.elems() {
            let (row, col) = fd.position(lane, i);
            let exact = dense_c[row * 8 + col]
                + (0..k).map(|n| dense_a[row * k + n] * dense_b[n * 8 + col]).sum::<f64>();
            let got = match op.d {
                Elem::S32 => f64::from(regs_d[i][lane] as i32),
                Elem::F16 => f64::from(codec::f16_to_f32(regs_d[i / 2][lane] >> (16 * (i % 2)) & 0xffff)),
                _ => f64::from(f32::from_bits(regs_d[i][lane])),
            };
            assert_eq!(got, exact, "lane {lane}, element {i}, selector {selector} of {op:?}");
        }
    }
}
