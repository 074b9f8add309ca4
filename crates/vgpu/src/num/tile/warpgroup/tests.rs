use super::*;

/// Codes of small numbers, and now and then of an infinity or a NaN.
fn word(seed: usize) -> u32 {
    let mix = (seed as u32).wrapping_mul(0x9e37_79b9);
    match mix % 251 {
        0 => 0x7c00_7c00,
        1 => 0x7fc0_7fc0,
        _ => (mix >> 3 & 0x83ff_83ff) + 0x3800_3800,
    }
}

/// The vector forms give the bits of the plain form, for all numbers of columns and with and without sums to add to.
#[test]
fn every_instruction_set_computes_the_same_bits() {
    for (elem, n, keep, negate) in [
        (Elem::F16, 8, true, false),
        (Elem::F16, 24, false, false),
        (Elem::F16, 128, true, true),
        (Elem::Bf16, 16, true, false),
        (Elem::Tf32, 40, true, false),
        (Elem::Tf32, 16, false, true),
    ] {
        let op = Warpgroup { a: elem, b: elem, d: Elem::F32, n, negate, satfinite: false };
        let a: [Lanes; 4] =
            std::array::from_fn(|register| std::array::from_fn(|l| word(1000 + 32 * register + l)));
        let chunk = |at: usize| -> [u8; 16] {
            let words: [[u8; 4]; 4] = std::array::from_fn(|i| word(4 * at + i).to_le_bytes());
            words.as_flattened().try_into().expect("16 bytes")
        };
        let columns: Vec<Columns> = (0..usize::from(n) / 8)
            .map(|group| {
                [0, 1].map(|half| std::array::from_fn(|line| chunk(2000 + 16 * group + 8 * half + line)))
            })
            .collect();
        let mut b = Decoded::default();
        b.decode(elem, false, &columns);
        let sums = vec![std::array::from_fn(|l| (l as f32 - 7.5).to_bits()); op.registers()];
        let run = |compute: &dyn Fn(&[*mut u32])| {
            let mut d: Vec<Lanes> = sums.clone();
            let registers: Vec<*mut u32> = d.iter_mut().map(|lanes| lanes.as_mut_ptr()).collect();
            compute(&registers);
            d
        };
        let plain = run(&|d| body::<false>(&op, &Rows::Fragment(a.each_ref()), &b, d, keep));
        // SAFETY: the registers are different and have 32 lanes.
        let best = run(&|d| unsafe { warpgroup(op, &Rows::Fragment(a.each_ref()), &b, d, keep) });
        assert_eq!(plain, best, "{op:?}, keep {keep}");
        // The registers of a fragment are the upper and lower eight rows of the first chunks, then of the second ones.
        let chunks =
            std::array::from_fn(|row| [0, 2].map(|half| decode::as_rows(&a[half + row / 8])[row % 8]));
        // SAFETY: as above.
        let from_memory = run(&|d| unsafe { warpgroup(op, &Rows::Chunks(&chunks), &b, d, keep) });
        assert_eq!(best, from_memory, "{op:?}, keep {keep}");
        assert_ne!(plain, sums, "{op:?}");
    }
}
