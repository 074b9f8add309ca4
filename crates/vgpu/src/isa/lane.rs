//! Lane-wise operations: a scalar function is applied to the 32 lanes of up to three registers.
//!
//! Every operation is compiled three times (baseline x86-64, AVX2 + FMA, AVX-512) from one inlined body. The
//! instruction stores the function pointer for this machine, so execution needs no dispatch per lane or per instruction
//! set.

use crate::num::simd::instance;

/// Writes the results of `f(a, b, c)` to the lanes of `d` whose bit in `mask` is set. The pointers are `[u32; 32]` or
/// `[u64; 32]` registers. Unused pointers are not read. `imm` is the instruction's constant.
pub type LaneFn = unsafe fn(d: *mut u32, a: *const u32, b: *const u32, c: *const u32, mask: u32, imm: u32);

/// A lane-wise predicate. Returns the mask of lanes for which it holds. The bits of inactive lanes are arbitrary.
pub type TestFn = unsafe fn(a: *const u32, b: *const u32) -> u32;

/// A type of a lane's value. `Store` is the type in the register.
pub trait Lane: Copy {
    type Store: Copy + Default;
    const WIDE: bool;
    fn get(s: Self::Store) -> Self;
    fn put(self) -> Self::Store;
}

macro_rules! lanes {
    ($($ty:ty, $store:ty, $wide:expr, |$g:ident| $get:expr, |$p:ident| $put:expr;)+) => { $(
        impl Lane for $ty {
            type Store = $store;
            const WIDE: bool = $wide;
            #[inline(always)]
            fn get($g: $store) -> Self { $get }
            #[inline(always)]
            fn put(self) -> $store { let $p = self; $put }
        }
    )+ };
}
lanes! {
    u8, u32, false, |s| s as u8, |v| v as u32;
    i8, u32, false, |s| s as i8, |v| v as u32;
    u16, u32, false, |s| s as u16, |v| v as u32;
    i16, u32, false, |s| s as i16, |v| v as u16 as u32;
    u32, u32, false, |s| s, |v| v;
    i32, u32, false, |s| s as i32, |v| v as u32;
    u64, u64, true, |s| s, |v| v;
    i64, u64, true, |s| s as i64, |v| v as u64;
    f32, u32, false, |s| f32::from_bits(s), |v| v.to_bits();
    f64, u64, true, |s| f64::from_bits(s), |v| v.to_bits();
}

/// Represents an operand that the operation does not have.
impl Lane for () {
    type Store = ();
    const WIDE: bool = false;
    #[inline(always)]
    fn get((): ()) {}
    #[inline(always)]
    fn put(self) {}
}

pub trait LaneOp {
    type D: Lane;
    type A: Lane;
    type B: Lane;
    type C: Lane;
    fn f(a: Self::A, b: Self::B, c: Self::C, imm: u32) -> Self::D;

    /// Whether a result needs [`LaneOp::second_look`]. This keeps slow code for rare results out of the loop over the
    /// lanes.
    #[inline(always)]
    fn is_doubtful(_d: Self::D, _imm: u32) -> bool {
        false
    }

    /// Returns the correct result where the result of [`LaneOp::f`] was doubtful.
    #[inline(always)]
    fn second_look(a: Self::A, b: Self::B, c: Self::C, imm: u32) -> Self::D {
        Self::f(a, b, c, imm)
    }
}

pub trait TestOp {
    type T: Lane;
    fn f(a: Self::T, b: Self::T) -> bool;
}

#[inline(always)]
unsafe fn lane_body<O: LaneOp>(
    d: *mut u32,
    a: *const u32,
    b: *const u32,
    c: *const u32,
    mask: u32,
    imm: u32,
) {
    type Reg<L> = [<L as Lane>::Store; 32];
    // SAFETY: the caller passes registers of the widths that `O` names (see `Op::Lane`). `()` has no bytes to read.
    // Operands are copied before the result is stored, so `d` may be one of them.
    unsafe {
        let (a, b, c) = (*a.cast::<Reg<O::A>>(), *b.cast::<Reg<O::B>>(), *c.cast::<Reg<O::C>>());
        let mut out = [<O::D as Lane>::Store::default(); 32];
        for l in 0..32 {
            out[l] = O::f(O::A::get(a[l]), O::B::get(b[l]), O::C::get(c[l]), imm).put();
        }
        let doubtful = |result: <O::D as Lane>::Store| O::is_doubtful(O::D::get(result), imm);
        if out.iter().fold(false, |any, result| any | doubtful(*result)) {
            for l in 0..32 {
                if doubtful(out[l]) {
                    out[l] = O::second_look(O::A::get(a[l]), O::B::get(b[l]), O::C::get(c[l]), imm).put();
                }
            }
        }
        let d = d.cast::<Reg<O::D>>();
        if mask == u32::MAX {
            *d = out;
        } else {
            let old = *d;
            for l in 0..32 {
                out[l] = if mask >> l & 1 == 1 { out[l] } else { old[l] };
            }
            *d = out;
        }
    }
}

#[inline(always)]
unsafe fn test_body<O: TestOp>(a: *const u32, b: *const u32) -> u32 {
    type Reg<L> = [<L as Lane>::Store; 32];
    // SAFETY: as in `lane_body`.
    unsafe {
        let (a, b) = (*a.cast::<Reg<O::T>>(), *b.cast::<Reg<O::T>>());
        let mut hit = [0u32; 32];
        for l in 0..32 {
            hit[l] = u32::from(O::f(O::T::get(a[l]), O::T::get(b[l]))) << l;
        }
        hit.iter().fold(0, |m, h| m | h)
    }
}

fn lane_fn<O: LaneOp>() -> LaneFn {
    instance!(lane_body<O: LaneOp>(d: *mut u32, a: *const u32, b: *const u32, c: *const u32, mask: u32, imm: u32))
}

fn test_fn<O: TestOp>() -> TestFn {
    instance!(test_body<O: TestOp>(a: *const u32, b: *const u32) -> u32)
}

/// A lane function and the widths of its registers: the result, then the sources.
#[derive(Clone, Copy, Debug)]
pub struct LaneSpec {
    pub f: LaneFn,
    pub wide: [bool; 4],
    /// Number of registers that the function reads.
    pub sources: usize,
}

pub fn lane_spec<O: LaneOp>() -> LaneSpec {
    let read = [
        size_of::<<O::A as Lane>::Store>(),
        size_of::<<O::B as Lane>::Store>(),
        size_of::<<O::C as Lane>::Store>(),
    ];
    LaneSpec {
        f: lane_fn::<O>(),
        wide: [O::D::WIDE, O::A::WIDE, O::B::WIDE, O::C::WIDE],
        sources: read.into_iter().filter(|bytes| *bytes > 0).count(),
    }
}

/// A test function, and whether it compares 64-bit registers.
#[derive(Clone, Copy, Debug)]
pub struct TestSpec {
    pub f: TestFn,
    pub wide: bool,
}

pub fn test_spec<O: TestOp>() -> TestSpec {
    TestSpec { f: test_fn::<O>(), wide: O::T::WIDE }
}

/// `lane!(|a: u32, b: u32| -> u32 { a & b })` is the [`LaneSpec`] of that function. A fourth parameter after `;` is the
/// instruction's constant.
macro_rules! lane {
    (|$a:ident : $ta:ty $(; $imm:ident)?| -> $td:ty $body:block) => {
        $crate::isa::lane::lane!(@ ($a: $ta, _b: (), _c: ()) ($($imm)?) -> $td $body)
    };
    (|$a:ident : $ta:ty, $b:ident : $tb:ty $(; $imm:ident)?| -> $td:ty $body:block) => {
        $crate::isa::lane::lane!(@ ($a: $ta, $b: $tb, _c: ()) ($($imm)?) -> $td $body)
    };
    (|$a:ident : $ta:ty, $b:ident : $tb:ty, $c:ident : $tc:ty $(; $imm:ident)?| -> $td:ty $body:block) => {
        $crate::isa::lane::lane!(@ ($a: $ta, $b: $tb, $c: $tc) ($($imm)?) -> $td $body)
    };
    (@ ($a:ident : $ta:ty, $b:ident : $tb:ty, $c:ident : $tc:ty) () -> $td:ty $body:block) => {
        $crate::isa::lane::lane!(@ ($a: $ta, $b: $tb, $c: $tc) (_imm) -> $td $body)
    };
    (@ ($a:ident : $ta:ty, $b:ident : $tb:ty, $c:ident : $tc:ty) ($imm:ident) -> $td:ty $body:block $($more:item)*) => {{
        struct F;
        impl $crate::isa::lane::LaneOp for F {
            type D = $td;
            type A = $ta;
            type B = $tb;
            type C = $tc;
            #[inline(always)]
            fn f($a: $ta, $b: $tb, $c: $tc, $imm: u32) -> $td { $body }
            $($more)*
        }
        $crate::isa::lane::lane_spec::<F>()
    }};
}
pub(crate) use lane;

/// `test!(|a: i32, b| a < b)` is the [`TestSpec`] of that predicate.
macro_rules! test {
    (|$a:ident : $t:ty, $b:ident| $body:expr) => {{
        struct F;
        impl $crate::isa::lane::TestOp for F {
            type T = $t;
            #[inline(always)]
            fn f($a: $t, $b: $t) -> bool {
                $body
            }
        }
        $crate::isa::lane::test_spec::<F>()
    }};
}
pub(crate) use test;
