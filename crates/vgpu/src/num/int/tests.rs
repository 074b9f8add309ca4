use super::*;
use crate::num::testing::Rng;

#[test]
fn shifts_clamp_their_amount() {
    assert_eq!((shl32(1, 31), shl32(1, 32), shl32(1, u32::MAX)), (1 << 31, 0, 0));
    assert_eq!((shr_u32(1 << 31, 31), shr_u32(u32::MAX, 32)), (1, 0));
    assert_eq!((shr_s32(1 << 31, 32), shr_s32(1 << 30, 99)), (u32::MAX, 0));
    assert_eq!((shl64(1, 64), shr_u64(u64::MAX, 64), shr_s64(1 << 63, 1000)), (0, 0, u64::MAX));
    assert_eq!((shl16(0x8001, 1), shr_u16(0x18000, 15), shr_s16(0x8000, 40)), (2, 1, u32::MAX));
}

#[test]
fn funnel_shifts_wrap_or_clamp() {
    let (lo, hi) = (0x8000_0001, 0x4000_0003);
    assert_eq!(shf_l(lo, hi, 0, true), hi);
    assert_eq!(shf_l(lo, hi, 1, true), 0x8000_0007);
    assert_eq!(shf_l(lo, hi, 33, true), 0x8000_0007);
    assert_eq!(shf_l(lo, hi, 33, false), lo);
    assert_eq!(shf_r(lo, hi, 1, false), 0xc000_0000);
    assert_eq!(shf_r(lo, hi, 32, true), lo);
    assert_eq!(shf_r(lo, hi, 32, false), hi);
}

/// Compares with the manual's pseudocode, bit by bit.
#[test]
fn bit_fields_match_the_manual() {
    fn bfe(a: u64, pos: u32, len: u32, signed: bool, msb: u32) -> u64 {
        let sign = if !signed || len == 0 { 0 } else { a >> (pos + len - 1).min(msb) & 1 };
        (0..=msb).fold(0, |d, i| {
            let bit = if i < len && pos + i <= msb { a >> (pos + i) & 1 } else { sign };
            d | bit << i
        })
    }
    fn bfi(a: u64, b: u64, pos: u32, len: u32, msb: u32) -> u64 {
        (0..len).fold(
            b,
            |f, i| if pos + i <= msb { f & !(1 << (pos + i)) | (a >> i & 1) << (pos + i) } else { f },
        )
    }
    let mut rng = Rng(41);
    for _ in 0..50_000 {
        let (a, b) = (rng.u64(), rng.u64());
        let (pos, len) = (rng.below(80) as u32, rng.below(80) as u32);
        let (x, y) = (a as u32, b as u32);
        assert_eq!(u64::from(bfe_u32(x, pos, len)), bfe(u64::from(x), pos, len, false, 31));
        assert_eq!(
            u64::from(bfe_s32(x, pos, len)),
            bfe(u64::from(x), pos, len, true, 31),
            "{x:#x} {pos} {len}"
        );
        assert_eq!(bfe_u64(a, pos, len), bfe(a, pos, len, false, 63));
        assert_eq!(bfe_s64(a, pos, len), bfe(a, pos, len, true, 63));
        assert_eq!(u64::from(bfi_b32(x, y, pos, len)), bfi(u64::from(x), u64::from(y), pos, len, 31));
        assert_eq!(bfi_b64(a, b, pos, len), bfi(a, b, pos, len, 63));
    }
    assert_eq!(bfe_u32(0xabcd, 0x104, 0x108), 0xbc, "only the low bytes of position and length count");
}

#[test]
fn byte_permutes_match_the_tables() {
    let (a, b) = (0x3322_1100, 0x7766_5544);
    assert_eq!(prmt(a, b, 0x7531, Prmt::Index), 0x7755_3311);
    assert_eq!(prmt(0x80, 0x7f00_0000, 0x0f8, Prmt::Index), 0x8080_00ff, "selector bit 3 spreads the sign");
    let of = |mode| [0, 1, 2, 3].map(|c| prmt(a, b, c, mode));
    assert_eq!(of(Prmt::F4e), [0x3322_1100, 0x4433_2211, 0x5544_3322, 0x6655_4433]);
    assert_eq!(of(Prmt::B4e), [0x5566_7700, 0x6677_0011, 0x7700_1122, 0x0011_2233]);
    assert_eq!(of(Prmt::Rc8), [0, 0x1111_1111, 0x2222_2222, 0x3333_3333]);
    assert_eq!(of(Prmt::Ecl), [0x3322_1100, 0x3322_1111, 0x3322_2222, 0x3333_3333]);
    assert_eq!(of(Prmt::Ecr), [0, 0x1111_1100, 0x2222_1100, 0x3322_1100]);
    assert_eq!(of(Prmt::Rc16), [0x1100_1100, 0x3322_3322, 0x1100_1100, 0x3322_3322]);
}

#[test]
fn lop3_is_its_truth_table() {
    for table in 0..=255u8 {
        assert_eq!(lop3(0xf0, 0xcc, 0xaa, table) & 0xff, u32::from(table));
    }
    let (a, b, c) = (0x1234_5678, 0x9abc_def0, 0x0f1e_2d3c);
    assert_eq!(lop3(a, b, c, 0x96), a ^ b ^ c);
    assert_eq!(lop3(a, b, c, 0xca), a & b | !a & c);
}

#[test]
fn finding_bits() {
    assert_eq!((bfind_u32(0, false), bfind_u32(0, true)), (u32::MAX, u32::MAX));
    assert_eq!((bfind_u32(0x0010_0000, false), bfind_u32(0x0010_0000, true)), (20, 11));
    assert_eq!((bfind_s32(u32::MAX, false), bfind_s32(!0x100, false)), (u32::MAX, 8));
    assert_eq!((bfind_u64(1 << 40, false), bfind_s64(!(1 << 40), true)), (40, 23));
    assert_eq!(fns(0b1011_0010, 0, 1), 1);
    assert_eq!(fns(0b1011_0010, 0, 3), 5);
    assert_eq!(fns(0b1011_0010, 5, -2), 4);
    assert_eq!((fns(0b1011_0010, 5, 0), fns(0b1011_0010, 6, 0), fns(1, 0, 2)), (5, u32::MAX, u32::MAX));
}

#[test]
fn products_and_their_upper_halves() {
    let mut rng = Rng(42);
    for _ in 0..20_000 {
        let (a, b, c) = (rng.u64(), rng.u64(), rng.u32());
        let (x, y) = (a as u32, b as u32);
        assert_eq!(mul_hi_u64(a, b), ((u128::from(a) * u128::from(b)) >> 64) as u64);
        assert_eq!(
            u128::from(mul_hi_u32(x, y)) << 32 | u128::from(x.wrapping_mul(y)),
            u128::from(x) * u128::from(y)
        );
        let wide = i64::from(x as i32) * i64::from(y as i32);
        assert_eq!(mul_hi_s32(x, y) as i32, (wide >> 32) as i32);
        let sum = (wide >> 32) + i64::from(c as i32);
        assert_eq!(
            i64::from(mad_hi_sat_s32(x, y, c) as i32),
            sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX))
        );
        let (p, q) = (i64::from((x << 8) as i32 >> 8), i64::from((y << 8) as i32 >> 8));
        assert_eq!((mul24_lo_s32(x, y), mul24_hi_s32(x, y)), ((p * q) as u32, ((p * q) >> 16) as u32));
    }
    assert_eq!(mul_hi_s16(0x8000, 0x7fff), (-16384i32) as u32);
}

#[test]
fn dot_products_and_differences() {
    let (a, b) = (0x80_01_ff_7f, 0x02_fe_03_81);
    let signed = 127 * -127 + -3 + -2 + -128 * 2;
    assert_eq!(dp4a(a, b, 100, true, true) as i32, signed + 100);
    let unsigned = 127 * 129 + 255 * 3 + 254 + 128 * 2;
    assert_eq!(dp4a(a, b, 100, false, false), unsigned + 100);
    assert_eq!(dp2a(0xfffe_0003, 0x0102_0304, 1, true, true, false) as i32, 3 * 4 - 2 * 3 + 1);
    assert_eq!(dp2a(0xfffe_0003, 0x0102_0304, 1, false, true, true), 3 * 2 + 0xfffe + 1);
    assert_eq!((sad_u32(3, 5, 1), sad_s32((-3i32) as u32, 5, 1)), (3, 9));
    assert_eq!(sad_s32(1 << 31, i32::MAX as u32, 0), u32::MAX);
}

#[test]
fn masks_and_extensions() {
    assert_eq!(
        (bmsk(4, 8, false), bmsk(28, 8, false), bmsk(36, 8, false), bmsk(36, 40, true)),
        (0xff0, 0xf000_0000, 0, 0xff0)
    );
    assert_eq!(
        (szext(0xff, 8, true, false), szext(0xff, 8, false, false), szext(5, 0, true, false)),
        (!0, 0xff, 0)
    );
    assert_eq!((szext(0xff, 99, true, false), szext(0xff, 40, true, true)), (0xff, !0));
    assert_eq!(
        each16x2(0x7fff_ffff, 0x0001_0001, |a, b| (a as i16).wrapping_add(b as i16) as u16),
        0x8000_0000
    );
}
