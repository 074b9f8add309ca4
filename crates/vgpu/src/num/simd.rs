//! Compiles a bulk function once per instruction-set level and selects one version at run time.

/// Defines a function that runs `$body` at the highest instruction-set level of the machine.
///
/// The body must be `#[inline(always)]` and generic over `F16C`. `F16C` says whether the body may use AVX2 and the
/// half-precision conversion instructions.
///
/// `per_isa! { pub fn name = body where (a: &Lanes, out: &mut Lanes); }` defines `name`. It calls `body::<true>` or
/// `body::<false>` under the matching target features.
macro_rules! per_isa {
    ($( $(#[$meta:meta])* $vis:vis fn $name:ident = $body:ident where ( $($arg:ident : $ty:ty),* $(,)? ) $(-> $ret:ty)?; )+) => { $(
        $(#[$meta])*
        #[inline]
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
                fn v4($($arg: $ty),*) $(-> $ret)? { $body::<true>($($arg),*) }
                #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
                fn v3($($arg: $ty),*) $(-> $ret)? { $body::<true>($($arg),*) }
                match $crate::cpu::level() {
                    // SAFETY: `level` returns this level only if the CPU has every feature named above.
                    $crate::cpu::Level::V4 => return unsafe { v4($($arg),*) },
                    // SAFETY: as above.
                    $crate::cpu::Level::V3 => return unsafe { v3($($arg),*) },
                    $crate::cpu::Level::Baseline => {}
                }
            }
            $body::<false>($($arg),*)
        }
    )+ };
}
pub(crate) use per_isa;
