//! Integer and bit instructions with edge cases that Rust's operators do not have.

/// `mul.hi.u32`.
#[inline(always)]
pub fn mul_hi_u32(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

/// `mul.hi.s32`.
#[inline(always)]
pub fn mul_hi_s32(a: u32, b: u32) -> u32 {
    ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
}

/// `mul.hi.u64`.
#[inline(always)]
pub fn mul_hi_u64(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// `mul.hi.s64`.
#[inline(always)]
pub fn mul_hi_s64(a: u64, b: u64) -> u64 {
    ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
}

/// `mul.hi.u16`.
#[inline(always)]
pub fn mul_hi_u16(a: u32, b: u32) -> u32 {
    ((a & 0xffff) * (b & 0xffff)) >> 16
}

/// `mul.hi.s16`. The result is sign-extended.
#[inline(always)]
pub fn mul_hi_s16(a: u32, b: u32) -> u32 {
    ((i32::from(a as i16) * i32::from(b as i16)) >> 16) as u32
}

/// `mad.hi.sat.s32`. The sum clamps.
#[inline(always)]
pub fn mad_hi_sat_s32(a: u32, b: u32, c: u32) -> u32 {
    (mul_hi_s32(a, b) as i32).saturating_add(c as i32) as u32
}

#[inline(always)]
fn low24_u(x: u32) -> u64 {
    u64::from(x & 0x00ff_ffff)
}

#[inline(always)]
fn low24_s(x: u32) -> i64 {
    i64::from((x << 8) as i32 >> 8)
}

/// `mul24.lo.u32`: the low 32 bits of the 48-bit product.
#[inline(always)]
pub fn mul24_lo_u32(a: u32, b: u32) -> u32 {
    (low24_u(a) * low24_u(b)) as u32
}

/// `mul24.hi.u32`: bits 16 to 47 of the product.
#[inline(always)]
pub fn mul24_hi_u32(a: u32, b: u32) -> u32 {
    ((low24_u(a) * low24_u(b)) >> 16) as u32
}

/// `mul24.lo.s32`: the low 32 bits of the 48-bit product.
#[inline(always)]
pub fn mul24_lo_s32(a: u32, b: u32) -> u32 {
    (low24_s(a) * low24_s(b)) as u32
}

/// `mul24.hi.s32`: bits 16 to 47 of the product.
#[inline(always)]
pub fn mul24_hi_s32(a: u32, b: u32) -> u32 {
    ((low24_s(a) * low24_s(b)) >> 16) as u32
}

/// `mad24.hi.sat.s32`. The sum clamps.
#[inline(always)]
pub fn mad24_hi_sat_s32(a: u32, b: u32, c: u32) -> u32 {
    (mul24_hi_s32(a, b) as i32).saturating_add(c as i32) as u32
}

/// `shl.b32`. An amount above 31 gives zero.
#[inline(always)]
pub fn shl32(a: u32, n: u32) -> u32 {
    if n > 31 { 0 } else { a << (n & 31) }
}

/// `shr.u32`. An amount above 31 gives zero.
#[inline(always)]
pub fn shr_u32(a: u32, n: u32) -> u32 {
    if n > 31 { 0 } else { a >> (n & 31) }
}

/// `shr.s32`. An amount above 31 fills the result with the sign.
#[inline(always)]
pub fn shr_s32(a: u32, n: u32) -> u32 {
    (a as i32 >> n.min(31)) as u32
}

/// `shl.b64`. An amount above 63 gives zero.
#[inline(always)]
pub fn shl64(a: u64, n: u32) -> u64 {
    if n > 63 { 0 } else { a << (n & 63) }
}

/// `shr.u64`. An amount above 63 gives zero.
#[inline(always)]
pub fn shr_u64(a: u64, n: u32) -> u64 {
    if n > 63 { 0 } else { a >> (n & 63) }
}

/// `shr.s64`. An amount above 63 fills the result with the sign.
#[inline(always)]
pub fn shr_s64(a: u64, n: u32) -> u64 {
    (a as i64 >> n.min(63)) as u64
}

/// `shl.b16`.
#[inline(always)]
pub fn shl16(a: u32, n: u32) -> u32 {
    shl32(a, n) & 0xffff
}

/// `shr.u16`.
#[inline(always)]
pub fn shr_u16(a: u32, n: u32) -> u32 {
    shr_u32(a & 0xffff, n)
}

/// `shr.s16`. The result is sign-extended.
#[inline(always)]
pub fn shr_s16(a: u32, n: u32) -> u32 {
    shr_s32(i32::from(a as i16) as u32, n)
}

/// `shf.l`: the high word of `b:a` shifted left. `.wrap` takes the amount modulo 32, and `.clamp` limits it to 32.
#[inline(always)]
pub fn shf_l(a: u32, b: u32, n: u32, wrap: bool) -> u32 {
    let n = if wrap { n & 31 } else { n.min(32) };
    let both = u64::from(b) << 32 | u64::from(a);
    (both << n >> 32) as u32
}

/// `shf.r`: the low word of `b:a` shifted right. The amount is treated as in [`shf_l`].
#[inline(always)]
pub fn shf_r(a: u32, b: u32, n: u32, wrap: bool) -> u32 {
    let n = if wrap { n & 31 } else { n.min(32) };
    let both = u64::from(b) << 32 | u64::from(a);
    (both >> n) as u32
}

/// `bfe.u32`. The position and the length are the low bytes of `b` and `c`. Bits above bit 31 read as zero.
#[inline(always)]
pub fn bfe_u32(a: u32, b: u32, c: u32) -> u32 {
    let (pos, len) = (b & 0xff, c & 0xff);
    let field = shr_u32(a, pos);
    if len > 31 { field } else { field & ((1 << len) - 1) }
}

/// `bfe.s32`. The sign is the top bit of the field, or bit 31 of `a` if the field extends beyond bit 31.
#[inline(always)]
pub fn bfe_s32(a: u32, b: u32, c: u32) -> u32 {
    let (pos, len) = (b & 0xff, c & 0xff);
    if len == 0 {
        return 0;
    }
    let field = shr_s32(a, pos);
    let up = 32 - len.min(32);
    ((field << up) as i32 >> up) as u32
}

/// `bfe.u64`. Hardware uses the whole position and length here. The manual says that it uses their low bytes.
#[inline(always)]
pub fn bfe_u64(a: u64, pos: u32, len: u32) -> u64 {
    let field = shr_u64(a, pos);
    if len > 63 { field } else { field & ((1 << len) - 1) }
}

/// `bfe.s64`. It uses the whole position and length, as [`bfe_u64`] does.
#[inline(always)]
pub fn bfe_s64(a: u64, pos: u32, len: u32) -> u64 {
    if len == 0 {
        return 0;
    }
    let up = 64 - len.min(64);
    ((shr_s64(a, pos) << up) as i64 >> up) as u64
}

/// `bfi.b32 f, a, b, c, d`: inserts the low bits of `a` into `b` at position `c` with length `d`.
#[inline(always)]
pub fn bfi_b32(a: u32, b: u32, c: u32, d: u32) -> u32 {
    let (pos, len) = (c & 0xff, d & 0xff);
    let mask = shl32(if len > 31 { u32::MAX } else { (1 << len) - 1 }, pos);
    b & !mask | shl32(a, pos) & mask
}

/// `bfi.b64`. It uses the whole position and length, as [`bfe_u64`] does.
#[inline(always)]
pub fn bfi_b64(a: u64, b: u64, pos: u32, len: u32) -> u64 {
    let mask = shl64(if len > 63 { u64::MAX } else { (1 << len) - 1 }, pos);
    b & !mask | shl64(a, pos) & mask
}

/// `bmsk.clamp` and `bmsk.wrap`: a mask of `len` ones from bit `pos` upwards.
#[inline(always)]
pub fn bmsk(pos: u32, len: u32, wrap: bool) -> u32 {
    let (pos, len) = if wrap { (pos & 31, len & 31) } else { (pos, len) };
    shl32(if len > 31 { u32::MAX } else { (1 << len) - 1 }, pos)
}

/// `szext`: sign- or zero-extends the low `n` bits of `a`.
#[inline(always)]
pub fn szext(a: u32, n: u32, signed: bool, wrap: bool) -> u32 {
    let n = if wrap { n & 31 } else { n.min(32) };
    if n == 0 {
        return 0;
    }
    let up = 32 - n;
    if signed { ((a << up) as i32 >> up) as u32 } else { a << up >> up }
}

/// Modes of `prmt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prmt {
    /// No mode: four selectors of four bits. The top bit of a selector replicates the sign of the byte.
    Index,
    /// Forward four extract.
    F4e,
    /// Backward four extract.
    B4e,
    /// Replicate eight.
    Rc8,
    /// Edge clamp left.
    Ecl,
    /// Edge clamp right.
    Ecr,
    /// Replicate sixteen.
    Rc16,
}

/// `prmt.b32 d, a, b, c`. Bytes 0-3 are the bytes of `a`, and bytes 4-7 those of `b`.
#[inline(always)]
pub fn prmt(a: u32, b: u32, c: u32, mode: Prmt) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    let s = c & 3;
    let select = match mode {
        Prmt::Index => c & 0xffff,
        Prmt::F4e => nibbles(|i| s + i),
        Prmt::B4e => nibbles(|i| s.wrapping_sub(i) & 7),
        Prmt::Rc8 => nibbles(|_| s),
        Prmt::Ecl => nibbles(|i| i.max(s)),
        Prmt::Ecr => nibbles(|i| i.min(s)),
        Prmt::Rc16 => nibbles(|i| (s & 1) * 2 + (i & 1)),
    };
    let mut d = 0;
    for i in 0..4 {
        let sel = select >> (4 * i) & 0xf;
        let byte = (bytes >> (8 * (sel & 7))) as u32 & 0xff;
        let byte = if sel & 8 != 0 { if byte & 0x80 != 0 { 0xff } else { 0 } } else { byte };
        d |= byte << (8 * i);
    }
    d
}

#[inline(always)]
fn nibbles(f: impl Fn(u32) -> u32) -> u32 {
    f(0) | f(1) << 4 | f(2) << 8 | f(3) << 12
}

/// `lop3.b32`. `table` is the value of the function at `(0xf0, 0xcc, 0xaa)`.
#[inline(always)]
pub fn lop3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    // Shannon expansion over `a`, then `b`, then `c`. With a constant table it folds to a few operations.
    let pick = |bit: u32| if table >> bit & 1 == 1 { u32::MAX } else { 0 };
    let over_c = |b0: u32| (pick(b0) & !c) | (pick(b0 + 1) & c);
    let over_b = |b0: u32| (over_c(b0) & !b) | (over_c(b0 + 2) & b);
    (over_b(0) & !a) | (over_b(4) & a)
}

/// `bfind.u32`: the position of the top set bit, or all ones if no bit is set. `.shiftamt` gives the shift that moves
/// this bit to bit 31.
#[inline(always)]
pub fn bfind_u32(a: u32, shift_amount: bool) -> u32 {
    if a == 0 {
        return u32::MAX;
    }
    if shift_amount { a.leading_zeros() } else { a.ilog2() }
}

/// `bfind.s32`: the position of the top bit that differs from the sign.
#[inline(always)]
pub fn bfind_s32(a: u32, shift_amount: bool) -> u32 {
    bfind_u32(if (a as i32) < 0 { !a } else { a }, shift_amount)
}

/// `bfind.u64`. See [`bfind_u32`]; `.shiftamt` moves the bit to bit 63.
#[inline(always)]
pub fn bfind_u64(a: u64, shift_amount: bool) -> u32 {
    if a == 0 {
        return u32::MAX;
    }
    if shift_amount { a.leading_zeros() } else { a.ilog2() }
}

/// `bfind.s64`. See [`bfind_s32`].
#[inline(always)]
pub fn bfind_s64(a: u64, shift_amount: bool) -> u32 {
    bfind_u64(if (a as i64) < 0 { !a } else { a }, shift_amount)
}

/// `fns.b32`: the position of the `offset`-th set bit of `mask`, counted from `base`. A positive offset counts
/// upwards, a negative one downwards. An offset of 0 tests bit `base` itself. The result is all ones if no such bit
/// is set.
#[inline]
pub fn fns(mask: u32, base: u32, offset: i32) -> u32 {
    if base > 31 {
        return u32::MAX;
    }
    if offset == 0 {
        return if mask >> base & 1 == 1 { base } else { u32::MAX };
    }
    let mut left = offset.unsigned_abs();
    let mut pos = base as i32;
    while (0..32).contains(&pos) {
        if mask >> pos & 1 == 1 {
            left -= 1;
            if left == 0 {
                return pos as u32;
            }
        }
        pos += offset.signum();
    }
    u32::MAX
}

/// `dp4a`: adds four products of bytes to `c`, wrapping.
#[inline(always)]
pub fn dp4a(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool) -> u32 {
    let mut d = c;
    for i in 0..4 {
        let x = byte(a, i, a_signed).wrapping_mul(byte(b, i, b_signed));
        d = d.wrapping_add(x as u32);
    }
    d
}

/// `dp2a.lo` and `dp2a.hi`: multiplies the two 16-bit halves of `a` by the lower or upper two bytes of `b`, and adds
/// the products to `c`, wrapping.
#[inline(always)]
pub fn dp2a(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool, hi: bool) -> u32 {
    let mut d = c;
    for i in 0..2 {
        let half = (a >> (16 * i)) as u16;
        let half = if a_signed { i32::from(half as i16) } else { i32::from(half) };
        let x = half.wrapping_mul(byte(b, i + if hi { 2 } else { 0 }, b_signed));
        d = d.wrapping_add(x as u32);
    }
    d
}

#[inline(always)]
fn byte(x: u32, i: u32, signed: bool) -> i32 {
    let b = (x >> (8 * i)) as u8;
    if signed { i32::from(b as i8) } else { i32::from(b) }
}

/// `sad.u32`: `|a - b| + c`.
#[inline(always)]
pub fn sad_u32(a: u32, b: u32, c: u32) -> u32 {
    a.abs_diff(b).wrapping_add(c)
}

/// `sad.s32`: `|a - b| + c`.
#[inline(always)]
pub fn sad_s32(a: u32, b: u32, c: u32) -> u32 {
    (a as i32).abs_diff(b as i32).wrapping_add(c)
}

/// `sad.u64`: `|a - b| + c`.
#[inline(always)]
pub fn sad_u64(a: u64, b: u64, c: u64) -> u64 {
    a.abs_diff(b).wrapping_add(c)
}

/// `sad.s64`: `|a - b| + c`.
#[inline(always)]
pub fn sad_s64(a: u64, b: u64, c: u64) -> u64 {
    (a as i64).abs_diff(b as i64).wrapping_add(c)
}

/// Applies `f` to both 16-bit halves of the operands, for `add`, `min` and `max` of `u16x2` and `s16x2`.
#[inline(always)]
pub fn each16x2(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    let lo = f(a as u16, b as u16);
    let hi = f((a >> 16) as u16, (b >> 16) as u16);
    u32::from(hi) << 16 | u32::from(lo)
}

#[cfg(test)]
mod tests;
