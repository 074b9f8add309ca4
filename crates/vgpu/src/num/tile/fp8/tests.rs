use super::*;
use crate::num::Lanes;
use crate::num::codec;
use crate::num::tile::warpgroup::{Decoded, Rows, Warpgroup, warpgroup};

/// (type of a, of b, a row of A, a column of B, c, d), as codes. d is the result of an H200, and differs from sums with
/// f32 fractions and from sums with 14 bits.
type Element = (Elem, Elem, [u8; K], [u8; K], u32, u32);

#[rustfmt::skip]
const H200: [Element; 5] = [
    (
        Elem::E4m3, Elem::E4m3,
        [0xf1, 0xf0, 0x5f, 0x58, 0xe1, 0xf2, 0x50, 0x51, 0x64, 0xdf, 0x5d, 0xe9, 0xf2, 0x5b, 0x71, 0x73, 0xef, 0x70, 0x4b, 0x59, 0x65, 0xf8, 0x74, 0xf2, 0xef, 0xf5, 0xea, 0xd5, 0x62, 0x6f, 0x70, 0xf0],
        [0x6c, 0xc9, 0x57, 0xdb, 0xea, 0x64, 0xec, 0x6e, 0x66, 0xe2, 0xe3, 0xde, 0xdb, 0x6e, 0x79, 0xef, 0xee, 0xec, 0xdb, 0x71, 0x6b, 0xd3, 0xe6, 0xf7, 0xeb, 0xe9, 0x6f, 0xdb, 0xec, 0x73, 0xe2, 0x67],
        0x0000_0000, 0x478e_1400,
    ),
    (
        Elem::E4m3, Elem::E4m3,
        [0x61, 0xe2, 0x22, 0x55, 0x45, 0x30, 0xc1, 0x14, 0xad, 0x9a, 0xdc, 0xac, 0xbd, 0xeb, 0xa0, 0xcb, 0xc3, 0x8f, 0x44, 0x00, 0x11, 0x87, 0x8c, 0x62, 0xae, 0xa6, 0x37, 0x2b, 0xc0, 0xbc, 0x3c, 0x64],
        [0x66, 0xbb, 0x5f, 0xdc, 0x68, 0x89, 0x7b, 0xad, 0x4f, 0x03, 0xd9, 0x68, 0x9d, 0xc3, 0x8b, 0x3b, 0xba, 0xc2, 0x73, 0x7d, 0xb1, 0x03, 0xcf, 0x04, 0x2d, 0x66, 0x48, 0xea, 0xd9, 0x58, 0x37, 0x99],
        0x4274_4cef, 0x4515_1c00,
    ),
    (
        Elem::E4m3, Elem::E5m2,
        [0x7a, 0xe0, 0x44, 0x8a, 0x88, 0x62, 0x45, 0x12, 0xf1, 0x77, 0x5c, 0xe3, 0x2b, 0x2d, 0xfc, 0xdf, 0xda, 0x49, 0x99, 0x78, 0x27, 0xcf, 0x68, 0x72, 0xce, 0x8e, 0xdd, 0x15, 0x51, 0xa6, 0x43, 0x12],
        [0x64, 0x5a, 0x61, 0x37, 0x9d, 0x17, 0x65, 0x05, 0xf2, 0x68, 0x8c, 0x91, 0x16, 0x64, 0xb3, 0x3a, 0xdc, 0x2f, 0xb0, 0x39, 0x75, 0x9a, 0x78, 0x45, 0x3b, 0xac, 0x70, 0xa5, 0x5d, 0x5e, 0x86, 0xf6],
        0xc872_10fe, 0x4a81_5000,
    ),
    (
        Elem::E5m2, Elem::E4m3,
        [0xae, 0x89, 0x53, 0x2f, 0xb5, 0x28, 0x4c, 0xf5, 0x41, 0xd4, 0xbc, 0x26, 0x4c, 0x1c, 0x27, 0x3c, 0x1e, 0xf6, 0x64, 0xc1, 0x73, 0xee, 0x27, 0x79, 0x52, 0x1d, 0xcc, 0xcf, 0x70, 0x35, 0x63, 0xb0],
        [0x0d, 0x8b, 0x22, 0xb5, 0xf2, 0xf5, 0xbd, 0x03, 0x2f, 0xa0, 0x09, 0x42, 0x4e, 0xfc, 0x48, 0x36, 0x6c, 0x9c, 0x3d, 0xc3, 0x04, 0x77, 0x28, 0x4e, 0x69, 0xda, 0xf8, 0xcd, 0x98, 0x60, 0x22, 0x27],
        0xb818_6e13, 0xc98f_9c00,
    ),
    (
        Elem::E5m2, Elem::E5m2,
        [0x15, 0x65, 0x75, 0x6c, 0xbd, 0x6a, 0x7a, 0xa4, 0x07, 0x57, 0x98, 0x11, 0x2c, 0x59, 0x5c, 0xd2, 0xf5, 0x55, 0x72, 0x72, 0x62, 0x45, 0xe1, 0xe5, 0x3c, 0xc7, 0x0d, 0x19, 0x2d, 0x51, 0xac, 0x6f],
        [0x4e, 0x5f, 0xc9, 0x59, 0x77, 0x19, 0x0a, 0x25, 0x83, 0x2a, 0x09, 0x5b, 0x73, 0x6d, 0x5a, 0x1d, 0x8b, 0x32, 0xbe, 0x18, 0x3f, 0xee, 0xf7, 0xf9, 0x9d, 0x1d, 0x56, 0xd6, 0xdd, 0x29, 0x0e, 0x91],
        0xbb27_deef, 0x4c8a_7400,
    ),
];

fn decoded(elem: Elem, codes: &[u8; K]) -> [f32; K] {
    codes.map(|code| if elem == Elem::E4m3 { codec::e4m3_to_f32(code) } else { codec::e5m2_to_f32(code) })
}

/// The sum of a row and a column, computed in column 5 of sixteen.
fn sum(a: (Elem, &[u8; K]), b: (Elem, &[u8; K]), c: u32) -> u32 {
    let (numbers, column) = (decoded(a.0, a.1), decoded(b.0, b.1));
    let exponents = exponents(&numbers, least(a.0));
    let mut q = [[0.0; 16]; K];
    for k in 0..K {
        q[k][5] = column[k];
    }
    let q_exponents = q.map(|row| self::exponents(&row, least(b.0)));
    let mut sums = [0.0; 16];
    sums[5] = f32::from_bits(c);
    add_row(&Factors { numbers: &numbers, exponents: &exponents }, &q, &q_exponents, &mut sums);
    let finite = numbers.iter().all(|x| x.is_finite());
    assert!(!finite || (0..16).all(|col| col == 5 || sums[col].to_bits() == 0), "{sums:?}");
    sums[5].to_bits()
}

#[test]
fn sums_have_the_bits_of_an_h200() {
    for (a, b, row, column, c, want) in H200 {
        assert_eq!(sum((a, &row), (b, &column), c), want, "{a:?} {b:?}");
    }
}

const ONES: (Elem, &[u8; K]) = (Elem::E4m3, &[0x38; K]);

#[test]
fn a_sum_has_13_fraction_bits() {
    // The unit is 2^(14 - 13) = 2: c loses its lowest bit, and every product becomes zero.
    assert_eq!(f32::from_bits(sum(ONES, ONES, 16_385f32.to_bits())), 16_384.0);
    assert_eq!(f32::from_bits(sum(ONES, ONES, 16_383f32.to_bits())), 16_414.0, "16415 has 14 fraction bits");
    // Sums of equal terms stop growing.
    let mut c = 0;
    for _ in 0..4096 / K {
        c = sum(ONES, ONES, c);
    }
    assert_eq!(f32::from_bits(c), 4096.0);
    for _ in 0..65_536 / K {
        c = sum(ONES, ONES, c);
    }
    assert_eq!(f32::from_bits(c), 16_384.0);
}

#[test]
fn extreme_sums_take_the_long_way() {
    let zeros = (Elem::E4m3, &[0; K]);
    let fraction_cut = |x: f32| f32::from_bits(x.to_bits() & !LOW_BITS);
    for x in [f32::MIN_POSITIVE, 1.2345e-33, -3.3e38, 1e37] {
        assert_eq!(f32::from_bits(sum(zeros, ONES, x.to_bits())), fraction_cut(x), "{x}");
    }
    assert_eq!(sum(zeros, ONES, 0x8000_0000), 0, "a sum that is zero is +0");
    assert_eq!(sum(ONES, ONES, f32::INFINITY.to_bits()), f32::INFINITY.to_bits());
    assert!(f32::from_bits(sum((Elem::E4m3, &[0x7f; K]), ONES, 0)).is_nan());
}

/// The whole instruction: every element of D is the sum of its row and column.
#[test]
fn products_of_a_warpgroup_have_such_sums() {
    let code = |row: usize, k: usize| ((row * 37 + k * 11) % 120 + row % 2 * 128) as u8;
    let block = |of: &dyn Fn(usize, usize) -> u8, first_row: usize, first_k: usize| -> Lanes {
        std::array::from_fn(|lane| {
            let byte = |i: usize| of(first_row + lane / 4, first_k + lane % 4 * 4 + i);
            u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
        })
    };
    let a = [(0, 0), (8, 0), (0, 16), (8, 16)].map(|(row, k)| block(&code, row, k));
    let column = |col: usize, k: usize| code(3 * col + 1, 31 - k);
    let op = Warpgroup { a: Elem::E4m3, b: Elem::E4m3, d: Elem::F32, n: 16, negate: false, satfinite: false };
    let mut b = Decoded::default();
    let block = |first: usize, k: usize| {
        std::array::from_fn(|line| std::array::from_fn(|byte| column(first + line, k + byte)))
    };
    b.decode(Elem::E4m3, false, &[[block(0, 0), block(0, 16)], [block(8, 0), block(8, 16)]]);
    let mut d = vec![[300f32.to_bits(); 32]; op.registers()];
    let registers: Vec<*mut u32> = d.iter_mut().map(|lanes| lanes.as_mut_ptr()).collect();
    // SAFETY: these are eight registers of 32 lanes, and nothing else uses them.
    unsafe { warpgroup(op, &Rows::Fragment(a.each_ref()), &b, &registers, true) };
    for (register, lanes) in d.iter().enumerate() {
        for (lane, got) in lanes.iter().enumerate() {
            let row = lane / 4 + register / 2 % 2 * 8;
            let col = register / 4 * 8 + lane % 4 * 2 + register % 2;
            let (x, y) = (std::array::from_fn(|k| code(row, k)), std::array::from_fn(|k| column(col, k)));
            assert_eq!(*got, sum((Elem::E4m3, &x), (Elem::E4m3, &y), 300f32.to_bits()), "{row} {col}");
        }
    }
}

#[test]
fn columns_have_the_sums_of_consecutive_instructions() {
    let (first, second) = (&H200[0], &H200[1]);
    let row: Vec<f32> = [first, second].iter().flat_map(|element| decoded(Elem::E4m3, &element.2)).collect();
    let column: Vec<f32> =
        [first, second].iter().flat_map(|element| decoded(Elem::E4m3, &element.3)).collect();
    let one = sum((Elem::E4m3, &first.2), (Elem::E4m3, &first.3), 0);
    assert_eq!(one, first.5, "the first result of an H200");
    let alone = sum((Elem::E4m3, &second.2), (Elem::E4m3, &second.3), 0);
    let both = sum((Elem::E4m3, &second.2), (Elem::E4m3, &second.3), one);

    let mut columns = E4m3Columns::default();
    let vectors: Vec<f32> = column.iter().map(|_| 1.0).chain(column.iter().copied()).collect();
    columns.set(&vectors, column.len());
    let sums = columns.sums(&row);
    assert_eq!(sums.joined[1].to_bits(), both);
    assert_eq!(sums.apart[1], f32::from_bits(one) + f32::from_bits(alone));
    assert_eq!(sums.joined[2], 0.0, "a vector that is missing");

    // Elements that are missing in the last instruction are zeros.
    columns.set(&column[..40], 40);
    let mut padded = second.3;
    padded[8..].fill(0);
    assert_eq!(
        columns.sums(&row[..40]).joined[0].to_bits(),
        sum((Elem::E4m3, &second.2), (Elem::E4m3, &padded), one)
    );
}
