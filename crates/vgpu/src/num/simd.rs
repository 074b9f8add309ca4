//! Compiles a bulk function once per instruction-set level and picks one at run time.

/// x86-64 levels a bulk function is compiled for.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Level {
    Baseline = 1,
    /// AVX2, FMA and F16C: x86-64-v3.
    V3,
    /// AVX-512 F, BW, DQ and VL: x86-64-v4.
    V4,
}

/// The level of this machine, looked up once.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn level() -> Level {
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
    const UNKNOWN: u8 = 0;
    static LEVEL: AtomicU8 = AtomicU8::new(UNKNOWN);
    match LEVEL.load(Relaxed) {
        UNKNOWN => {
            let level = detect();
            LEVEL.store(level as u8, Relaxed);
            level
        }
        known if known == Level::V4 as u8 => Level::V4,
        known if known == Level::V3 as u8 => Level::V3,
        _ => Level::Baseline,
    }
}

#[cfg(target_arch = "x86_64")]
#[cold]
fn detect() -> Level {
    if !(is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt"))
    {
        return Level::Baseline;
    }
    if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
    {
        Level::V4
    } else {
        Level::V3
    }
}

/// Wraps a function whose body is `#[inline(always)]` code generic over `F16C` (whether the half-precision
/// conversion instructions and AVX2 may be used) so that it runs at the best level of the machine.
///
/// `per_isa! { pub fn name = body where (a: &Lanes, out: &mut Lanes); }` defines `name`, which calls
/// `body::<true>` or `body::<false>` under the right target features.
macro_rules! per_isa {
    ($( $(#[$meta:meta])* $vis:vis fn $name:ident = $body:ident where ( $($arg:ident : $ty:ty),* $(,)? ) $(-> $ret:ty)?; )+) => { $(
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        #[inline]
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
                #[allow(clippy::too_many_arguments)]
                fn v4($($arg: $ty),*) $(-> $ret)? { $body::<true>($($arg),*) }
                #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
                #[allow(clippy::too_many_arguments)]
                fn v3($($arg: $ty),*) $(-> $ret)? { $body::<true>($($arg),*) }
                match $crate::num::simd::level() {
                    // SAFETY: `level` has seen every feature named above.
                    $crate::num::simd::Level::V4 => return unsafe { v4($($arg),*) },
                    // SAFETY: as above.
                    $crate::num::simd::Level::V3 => return unsafe { v3($($arg),*) },
                    $crate::num::simd::Level::Baseline => {}
                }
            }
            $body::<false>($($arg),*)
        }
    )+ };
}
pub(crate) use per_isa;
