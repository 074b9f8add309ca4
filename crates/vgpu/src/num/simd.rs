//! Compiles a function once per instruction-set level and selects one version at run time.

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
                match $crate::num::cpu::level() {
                    // SAFETY: `level` returns this level only if the CPU has every feature named above.
                    $crate::num::cpu::Level::V4 => return unsafe { v4($($arg),*) },
                    // SAFETY: as above.
                    $crate::num::cpu::Level::V3 => return unsafe { v3($($arg),*) },
                    $crate::num::cpu::Level::Baseline => {}
                }
            }
            $body::<false>($($arg),*)
        }
    )+ };
}
pub(crate) use per_isa;

/// Returns a pointer to the version of an `#[inline(always)]` function that is compiled for this machine:
/// `instance!(body<T: Trait>(a: *const u32) -> u32)`. After `;` may follow a version that is written by hand for AVX-512.
macro_rules! instance {
    ($body:ident $(<$g:ident: $bound:ident>)? ($($arg:ident: $ty:ty),*) $(-> $ret:ty)?) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        unsafe fn v4$(<$g: $bound>)?($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: the caller guarantees what the called function requires.
            unsafe { $body$(::<$g>)?($($arg),*) }
        }
        $crate::num::simd::instance!($body $(<$g: $bound>)? ($($arg: $ty),*) $(-> $ret)?; v4$(::<$g>)?)
    }};
    ($body:ident $(<$g:ident: $bound:ident>)? ($($arg:ident: $ty:ty),*) $(-> $ret:ty)?; $v4:expr) => {{
        unsafe fn baseline$(<$g: $bound>)?($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: the caller guarantees what the called function requires.
            unsafe { $body$(::<$g>)?($($arg),*) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        unsafe fn v3$(<$g: $bound>)?($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: the caller guarantees what the called function requires.
            unsafe { $body$(::<$g>)?($($arg),*) }
        }
        let version: unsafe fn($($ty),*) $(-> $ret)? = match $crate::num::cpu::level() {
            #[cfg(target_arch = "x86_64")]
            $crate::num::cpu::Level::V4 => $v4,
            #[cfg(target_arch = "x86_64")]
            $crate::num::cpu::Level::V3 => v3$(::<$g>)?,
            _ => baseline$(::<$g>)?,
        };
        version
    }};
}
pub(crate) use instance;
