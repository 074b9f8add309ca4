//! Checks whether a family supports a problem, before anything is compiled, allocated or launched.

use family::{Candidate, Family, Sizes, Value};

use crate::problem::{Dtype, Problem};
use crate::tensor::Layout;

/// Why a family does not support a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// The family declares the axis, but not this value.
    #[error("{family} does not support {axis} {wanted} (it supports {supported})")]
    Value {
        /// The family's name.
        family: String,
        /// The axis, as manifests name it.
        axis: &'static str,
        /// The value that the problem requires.
        wanted: String,
        /// The values that the family declares, separated by commas.
        supported: String,
    },
    /// The family does not declare the axis at all.
    #[error("{family} does not declare {axis}, so {wanted} is not supported")]
    Silent {
        /// The family's name.
        family: String,
        /// The axis, as manifests name it.
        axis: &'static str,
        /// The value that the problem requires.
        wanted: String,
    },
    /// The family does not support a feature for serving.
    #[error("{family} does not support {feature} problems (it does not declare `{feature}` in [supports])")]
    Feature {
        /// The family's name.
        family: String,
        /// The feature, which is also the axis of manifests.
        feature: &'static str,
    },
    /// A compile-time axis of the candidate has another value than the problem.
    #[error("the kernel was compiled for {axis} {made_for}, but the problem has {wanted}")]
    Specialised {
        /// The axis, as manifests name it.
        axis: &'static str,
        /// The value that the kernel was compiled for.
        made_for: String,
        /// The value that the problem requires.
        wanted: String,
    },
    /// The candidate adds FP8 products in one level, and the problem has too many keys for that.
    #[error(
        "{family} with PROMOTION_INTERVAL=0 adds FP8 products with 13 bits: this is accurate up to {MOST_KEYS_OF_ONE_LEVEL} \
         keys, but the problem has {keys}"
    )]
    OneLevel {
        /// The family's full name.
        family: String,
        /// The keys of the problem.
        keys: usize,
    },
    /// The candidate computes all keys at once, and the problem has another number of keys than its tiles.
    #[error(
        "{family} with SPLIT_KV and RUNNING_MAX=lazy computes all keys at once: the problem must have {least} to {most} \
         keys, not {keys}"
    )]
    AtOnce {
        /// The family's full name.
        family: String,
        /// The fewest keys that need all tiles.
        least: usize,
        /// The keys of all tiles.
        most: usize,
        /// The keys of the problem.
        keys: usize,
    },
    /// The family computes another op.
    #[error("{family} is a family of op `{op}`, not of attention")]
    Op {
        /// The family's name.
        family: String,
        /// The op that the family computes.
        op: String,
    },
}

/// Most keys for which a kernel may add all its FP8 products with `wgmma`, which cuts sums to 13 bits. Values that do not
/// cancel lose more with every key: random positive values 1.6% at 1024 keys and 3.5% at 2048. The tolerance is 3%.
pub const MOST_KEYS_OF_ONE_LEVEL: usize = 1536;

/// The knob of families with FP8 `wgmma`: the steps after which products are added to wider sums. 0 means never.
const LEVELS_KNOB: &str = "PROMOTION_INTERVAL";

/// The axis of families whose FP8 kernels can have outputs of several types. Without it they have the usual one.
const FP8_OUTPUT: &str = "fp8_output";

/// The axis of kernels that can compute the log-sum-exp.
const LSE: &str = "lse";

/// The axes of a problem itself: the first of [`required_axes`].
const OF_PROBLEM: usize = 4;

/// Compile-time axes of families with features for serving, which follow from the features: whether there is any, whether
/// scores are capped, and the rows of a page that one tensor copy can load (0: no pages).
const SERVING: &str = "serving";
const SOFTCAP: &str = "softcap";
const PAGE_ROWS: &str = "page_rows";

/// Most rows of a tensor copy that a family uses.
const MOST_PAGE_ROWS: u32 = 128;

fn serving_axes(problem: &Problem) -> [(&'static str, Value); 3] {
    // A box of a power of two rows never crosses the end of a page if the power divides its size.
    let rows = |size: u32| (1 << size.trailing_zeros().min(31)).min(MOST_PAGE_ROWS);
    let rows = problem.serving.page_size.map_or(0, rows);
    [
        (SERVING, Value::Bool(!problem.serving.is_plain())),
        (SOFTCAP, Value::Bool(problem.serving.softcap.is_some())),
        (PAGE_ROWS, Value::Int(i64::from(rows))),
    ]
}

/// The values that a problem requires, axis by axis, with the names of the manifests.
fn required_axes(problem: &Problem, layout: Layout, lse: bool) -> [(&'static str, Value); 7] {
    let text = |word: &str| Value::Text(word.to_owned());
    // 16-bit types leave no choice, so kernels for them are compiled for the usual output of FP8.
    let fp8_output = if problem.dtype == Dtype::E4m3 { problem.output } else { Dtype::E4m3.output() };
    [
        ("dtype", text(problem.dtype.name())),
        ("head_dim", Value::Int(problem.head_dim as i64)),
        ("mask", text(problem.mask.name())),
        (FP8_OUTPUT, text(fp8_output.name())),
        ("layout", text(layout.name())),
        ("gqa", Value::Bool(problem.is_grouped())),
        (LSE, Value::Bool(lse)),
    ]
}

/// Refuses a problem that the family does not support and names the missing capability.
pub fn check(family: &Family, problem: &Problem, layout: Layout, lse: bool) -> Result<(), Unsupported> {
    if family.op != "attention" {
        return Err(Unsupported::Op { family: family.name.clone(), op: family.op.clone() });
    }
    check_features(family, problem, layout, Some(lse))
}

/// The same for a family of any op on problems of attention. `lse` is `None` for ops that do not compute it.
pub(crate) fn check_features(
    family: &Family,
    problem: &Problem,
    layout: Layout,
    lse: Option<bool>,
) -> Result<(), Unsupported> {
    let required = required_axes(problem, layout, lse == Some(true)).into_iter();
    for (axis, value) in required.filter(|(axis, _)| *axis != LSE || lse.is_some()) {
        let declared = family.axis(axis).map(|declared| declared.values.as_slice());
        check_axis(&family.name, axis, &value, declared)?;
    }
    for (feature, _) in problem.serving.by_name().into_iter().filter(|(_, has)| *has) {
        let declared = family.axis(feature);
        if !declared.is_some_and(|declared| declared.values.contains(&Value::Bool(true))) {
            return Err(Unsupported::Feature { family: family.name.clone(), feature });
        }
    }
    Ok(())
}

/// Refuses a value of an axis that is not among those that the family declares.
fn check_axis(
    family: &str,
    axis: &'static str,
    value: &Value,
    declared: Option<&[Value]>,
) -> Result<(), Unsupported> {
    let (family, wanted) = (family.to_owned(), value.to_string());
    match declared {
        Some(values) if values.contains(value) => Ok(()),
        Some(values) => {
            let supported: Vec<String> = values.iter().map(ToString::to_string).collect();
            Err(Unsupported::Value { family, axis, wanted, supported: supported.join(", ") })
        }
        None if axis == FP8_OUTPUT && wanted == Dtype::E4m3.output().name() => Ok(()),
        None => Err(Unsupported::Silent { family, axis, wanted }),
    }
}

/// The values of the axes that a kernel may be compiled for.
fn compiled_axes(problem: &Problem) -> impl Iterator<Item = (&'static str, Value)> {
    // Layout and LSE are not part of a problem; `check` covers families that specialise on them.
    let of_problem = required_axes(problem, Layout::default(), false).into_iter().take(OF_PROBLEM);
    of_problem.chain(serving_axes(problem))
}

/// Refuses a problem that differs from the candidate's compile-time axes.
pub fn check_candidate(candidate: &Candidate, problem: &Problem) -> Result<(), Unsupported> {
    for (axis, value) in compiled_axes(problem) {
        if let Some(made_for) = candidate.axes.get(axis).filter(|made_for| **made_for != value) {
            let (made_for, wanted) = (made_for.to_string(), value.to_string());
            return Err(Unsupported::Specialised { axis, made_for, wanted });
        }
    }
    Ok(())
}

/// Refuses a problem with more keys than the candidate is accurate for ([`MOST_KEYS_OF_ONE_LEVEL`]), or with another
/// number of keys than it computes at once. For other numbers such a candidate would be right, but slow: it must not be
/// chosen for a problem only because it is the pick of a similar one.
pub fn check_keys(candidate: &Candidate, problem: &Problem) -> Result<(), Unsupported> {
    let has_one_level = candidate.knobs.get(LEVELS_KNOB) == Some(&Value::Int(0));
    if problem.dtype == Dtype::E4m3 && has_one_level && problem.seq_k > MOST_KEYS_OF_ONE_LEVEL {
        return Err(Unsupported::OneLevel { family: candidate.family.clone(), keys: problem.seq_k });
    }
    let is_at_once = candidate.knobs.get("SPLIT_KV") == Some(&Value::Bool(true))
        && candidate.knobs.get("RUNNING_MAX") == Some(&Value::Text("lazy".to_owned()));
    if is_at_once {
        let number = |knob: &str| match candidate.knobs.get(knob) {
            Some(&Value::Int(value)) => usize::try_from(value).unwrap_or(0),
            _ => 0,
        };
        let (step, tiles) = (number("BLOCK_N"), number("WARPGROUPS") * number("STAGES"));
        if problem.seq_k.div_ceil(step.max(1)) != tiles {
            let (least, most) = (step * tiles.saturating_sub(1) + 1, step * tiles);
            let family = candidate.family.clone();
            return Err(Unsupported::AtOnce { family, least, most, keys: problem.seq_k });
        }
    }
    Ok(())
}

/// The compile-time axes of a problem, as [`Family::candidate`] takes them. Call [`check`] first: its errors are
/// clearer.
pub fn axes(family: &Family, problem: &Problem) -> Vec<(String, String)> {
    let specialised = |name: &str| family.axis(name).is_some_and(|axis| axis.specialised);
    compiled_axes(problem)
        .filter(|(name, _)| specialised(name))
        .map(|(name, value)| (name.to_owned(), value.to_string()))
        .collect()
}

/// The run-time sizes of a problem, for the family's launch rule.
pub fn sizes(problem: &Problem) -> Sizes {
    let sizes = [
        ("batch", problem.batch),
        ("heads", problem.heads),
        ("kv_heads", problem.kv_heads),
        ("seq_q", problem.seq_q),
        ("seq_k", problem.seq_k),
    ];
    sizes.into_iter().map(|(name, size)| (name.to_owned(), size as i64)).collect()
}

#[cfg(test)]
mod tests {
    use family::Catalog;

    use super::*;

    fn refusal(family: &str, problem: &str) -> String {
        let catalog = Catalog::load(None).expect("the embedded kernels");
        let problem: Problem = problem.parse().unwrap_or_else(|error| panic!("{error}"));
        let family = catalog.family(family).expect("an embedded family");
        check(family, &problem, Layout::Bhsd, true).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn the_missing_capability_is_named() {
        assert_eq!(
            refusal("wmma", "b1h8s512d72-fp16"),
            "wmma does not support head_dim 72 (it supports 64, 128)"
        );
        assert_eq!(
            refusal("wmma", "b1h8s512d64-bf16"),
            "wmma does not support dtype bf16 (it supports fp16, e4m3)"
        );
        assert_eq!(refusal("wmma", "b1h8kv2sq3sk9d128-causal-tl-e4m3"), "");
        assert_eq!(refusal("reference", "b1h8s512d80-causal-bf16"), "");
    }

    #[test]
    fn every_feature_is_refused_by_every_family_that_does_not_declare_it() {
        const FEATURES: [(&str, &str); 6] = [
            ("ragged", "ragged"),
            ("packed", "packed"),
            ("page16", "paged"),
            ("window9", "window"),
            ("sink", "sink"),
            ("cap30", "softcap"),
        ];
        for (suffix, feature) in FEATURES {
            assert_eq!(
                refusal("wmma", &format!("b2h4sq1sk64d64-{suffix}-fp16")),
                format!(
                    "wmma does not support {feature} problems (it does not declare `{feature}` in [supports])"
                )
            );
        }
        for family in ["reference", "mma", "hopper", "hopper-decode"] {
            for (suffix, _) in FEATURES {
                assert_eq!(refusal(family, &format!("b2h4sq1sk64d64-{suffix}-bf16")), "");
            }
        }
    }

    #[test]
    fn a_copy_has_as_many_rows_as_fit_every_page() {
        for (size, rows) in [(1, 1), (16, 16), (24, 8), (96, 32), (128, 128), (256, 128), (640, 128)] {
            let problem: Problem = format!("b1h1sq1sk64d64-page{size}").parse().expect("a valid name");
            let expected =
                [(SERVING, Value::Bool(true)), (SOFTCAP, Value::Bool(false)), (PAGE_ROWS, Value::Int(rows))];
            assert_eq!(serving_axes(&problem), expected, "{size}");
        }
    }

    #[test]
    fn a_family_that_does_not_declare_it_has_the_usual_output_of_fp8() {
        assert_eq!(refusal("wmma", "b1h8s512d64-e4m3-obf16"), "");
        let checked = |output: &str, declared: Option<&[Value]>| {
            let value = Value::Text(output.to_owned());
            check_axis("old", FP8_OUTPUT, &value, declared).map_err(|error| error.to_string())
        };
        assert_eq!(checked("fp16", None), Ok(()));
        let silent = "old does not declare fp8_output, so bf16 is not supported";
        assert_eq!(checked("bf16", None), Err(silent.to_owned()));
        let declared = [Value::Text("fp16".to_owned())];
        let refused = "old does not support fp8_output bf16 (it supports fp16)";
        assert_eq!(checked("bf16", Some(&declared)), Err(refused.to_owned()));
    }

    #[test]
    fn a_kernel_compiled_for_another_problem_is_refused() {
        let catalog = Catalog::load(None).expect("the embedded kernels");
        let family = catalog.family("wmma").expect("an embedded family");
        let problem: Problem = "b1h8s512d128-e4m3".parse().expect("a valid name");
        let candidate = family.candidate(Some("stage-c"), &[], &axes(family, &problem)).expect("supported");
        assert_eq!(check_candidate(&candidate, &problem), Ok(()));
        let other = Problem { head_dim: 64, ..problem };
        let error = check_candidate(&candidate, &other).expect_err("another head dimension");
        assert_eq!(error.to_string(), "the kernel was compiled for head_dim 128, but the problem has 64");
    }

    #[test]
    fn fp8_products_in_one_level_are_refused_for_many_keys() {
        let catalog = Catalog::load(None).expect("the embedded kernels");
        let family = catalog.family("hopper").expect("an embedded family");
        let checked = |preset: &str, problem: &str| {
            let problem: Problem = problem.parse().expect("a valid name");
            let candidate = family.candidate(Some(preset), &[], &axes(family, &problem)).expect("supported");
            check_keys(&candidate, &problem)
        };
        assert_eq!(checked("fp8-d64-short", "b1h8sq4096sk1536d64-e4m3"), Ok(()));
        assert_eq!(
            checked("fp8-d64-short", "b1h8sq64sk1537d64-e4m3").map_err(|error| error.to_string()),
            Err("attention/hopper with PROMOTION_INTERVAL=0 adds FP8 products with 13 bits: this is accurate up to 1536 keys, \
                 but the problem has 1537"
                .to_owned())
        );
        assert_eq!(checked("fp8-d64", "b1h8s16384d64-e4m3"), Ok(()));
        assert_eq!(checked("d64-short", "b1h8s16384d64-fp16"), Ok(()));
    }
}
