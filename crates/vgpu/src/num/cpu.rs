//! The instruction-set level of the host CPU. This module detects it once, and all code that is compiled per level uses
//! it.
//!
//! A function that is compiled for a level may use every feature that its `#[target_feature]` names. An instruction
//! that the CPU lacks can give a wrong number without a fault (`lzcnt` runs as `bsr` on older CPUs), so [`level`]
//! returns a level only if the CPU has all of its features.

/// The x86-64 levels that functions are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Level {
    /// x86-64-v1, or a CPU that is not x86-64.
    Baseline = 1,
    /// AVX2, FMA, F16C, BMI1, BMI2, LZCNT and POPCNT: x86-64-v3.
    V3,
    /// The features of `V3` and AVX-512 F, BW, DQ and VL: x86-64-v4.
    V4,
}

/// The level of the host CPU, detected on the first call.
#[inline(always)]
pub fn level() -> Level {
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
    macro_rules! has {
        ($($feature:tt)+) => { [$(($feature, is_x86_feature_detected!($feature))),+] };
    }
    choose(
        &has!("avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt" "popcnt"),
        &has!("avx512f" "avx512bw" "avx512dq" "avx512vl"),
    )
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Level {
    Level::Baseline
}

/// The level of a CPU, given the features of level 3 and those that level 4 adds.
#[cfg(target_arch = "x86_64")]
fn choose(v3: &[(&str, bool)], v4: &[(&str, bool)]) -> Level {
    let all = |features: &[(&str, bool)]| features.iter().all(|(_, has)| *has);
    match (all(v3), all(v4)) {
        (true, true) => Level::V4,
        (true, false) => Level::V3,
        _ => Level::Baseline,
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    const V3: [&str; 7] = ["avx2", "fma", "f16c", "bmi1", "bmi2", "lzcnt", "popcnt"];
    const V4: [&str; 4] = ["avx512f", "avx512bw", "avx512dq", "avx512vl"];

    fn with<const N: usize>(names: [&'static str; N], missing: &str) -> [(&'static str, bool); N] {
        names.map(|name| (name, name != missing))
    }

    #[test]
    fn a_cpu_that_lacks_one_feature_gets_the_level_below() {
        assert_eq!(choose(&with(V3, ""), &with(V4, "")), Level::V4);
        for missing in V4 {
            assert_eq!(choose(&with(V3, missing), &with(V4, missing)), Level::V3, "{missing}");
        }
        for missing in V3 {
            assert_eq!(choose(&with(V3, missing), &with(V4, missing)), Level::Baseline, "{missing}");
        }
    }

    /// [`detect`] must query every feature that code of this crate is compiled with.
    #[test]
    fn every_enabled_feature_is_detected() {
        let sources = [
            include_str!("../exec/survey.rs"),
            include_str!("simd.rs"),
            include_str!("tile/vector.rs"),
            include_str!("tile/decode.rs"),
        ];
        for text in sources {
            for list in text.split("enable = \"").skip(1) {
                let list = list.split('"').next().unwrap_or("");
                for feature in list.split(',') {
                    // AVX2 includes AVX.
                    assert!(V3.contains(&feature) || V4.contains(&feature) || feature == "avx", "{feature}");
                }
            }
            assert!(!text.contains("is_x86_feature_detected"), "features are detected in cpu.rs alone");
        }
    }
}
