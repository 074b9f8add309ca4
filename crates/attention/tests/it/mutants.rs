//! Mutants of the kernels' numerics: small changes that a test on ordinary inputs may miss. `check` must refuse every
//! mutant with its default classes of inputs. A mutant is a replacement in the source, as in `planted_faults.rs`.
//!
//! The harness does what `check` does for a named problem: it tries one class after the other, the hard classes first,
//! each with the usual launches, and stops at the first class on which the mutant is refused. A second test checks that
//! the sources without a change pass on all classes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use chips::Chip;
use family::Catalog;
use gpu::device::Device;
use lab::check::{self, Case, CaseResult, CheckEnvironment, CheckGroup, CheckPlan, CheckSubject, Depth};
use op::{CheckDevice, OpInputs as _};
use warpsmith_attention::Attention;

use crate::common::{compiler, device, problem};

/// A kernel and a problem.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    family: &'static str,
    preset: &'static str,
    knobs: &'static [(&'static str, &'static str)],
    problem: &'static str,
    chip: &'static str,
}

struct Mutant {
    name: &'static str,
    place: Place,
    /// The path below `kernels/attention`.
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
}

const HOPPER: Place =
    Place { family: "hopper", preset: "d256", knobs: &[], problem: "b1h1sq16sk260d64-fp16", chip: "h200" };
const HOPPER_BF16: Place = Place { problem: "b1h4sq16sk130d64-bf16", ..HOPPER };
const HOPPER_CAUSAL: Place = Place { problem: "b1h1s70d64-causal-fp16", ..HOPPER };
const HOPPER_LAZY: Place = Place { knobs: &[("RUNNING_MAX", "lazy")], ..HOPPER };
/// Many heads: some must have light keys only after the first step, where the range of the weights is chosen.
const HOPPER_FP8: Place = Place {
    preset: "fp8-d256",
    knobs: &[("TRANSPOSE", "inside")],
    problem: "b1h16sq16sk520d128-e4m3",
    ..HOPPER
};
const HOPPER_FP8_LAZY: Place = Place { preset: "fp8-d128", knobs: &[("RUNNING_MAX", "lazy")], ..HOPPER_FP8 };
const MMA: Place =
    Place { family: "mma", preset: "d64", knobs: &[], problem: "b1h1sq16sk260d64-fp16", chip: "l4" };
const MMA_BF16: Place = Place { problem: "b1h4sq16sk130d64-bf16", ..MMA };
const MMA_CAUSAL: Place = Place { problem: "b1h1s70d64-causal-fp16", ..MMA };
const MMA_FP8: Place = Place { preset: "rows16-stages2", problem: "b1h2sq16sk260d64-e4m3", ..MMA };
const WMMA: Place =
    Place { family: "wmma", preset: "stage-2", knobs: &[], problem: "b1h1sq16sk200d64-fp16", chip: "l4" };
/// With rows that see no key.
const WMMA_MASKED: Place = Place { problem: "b1h1sq65sk17d64-causal-fp16", ..WMMA };

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "hopper: the output is not rescaled when a running maximum is raised",
        place: HOPPER,
        file: "hopper/rows.cuh",
        right: "if (needs_rescale) multiply_output(rescale_factor);",
        wrong: "",
    },
    Mutant {
        name: "hopper: the sums are not rescaled when a running maximum is raised",
        place: HOPPER,
        file: "hopper/rows.cuh",
        right: "sum[i] *= rescale_factor[i / SUMS_OF_ROW];",
        wrong: "sum[i] *= 1.0f;",
    },
    Mutant {
        name: "hopper: a rescale factor is never below 2^-6",
        place: HOPPER,
        file: "hopper/rows.cuh",
        right: "rescale_factor[row] = ptx::exp2_approx(running_max[row] - to[row]);",
        wrong: "rescale_factor[row] = ptx::exp2_approx(fmaxf(running_max[row] - to[row], -6.0f));",
    },
    Mutant {
        name: "hopper: the maximum leaves out the last keys of a tile",
        place: HOPPER,
        file: "hopper/rows.cuh",
        right: "for (int i = 4; i < BLOCK_N / 2; ++i) chain[i % 4] = fmaxf",
        wrong: "for (int i = 4; i < BLOCK_N / 2 - 8; ++i) chain[i % 4] = fmaxf",
    },
    Mutant {
        name: "hopper: the running maximum of a row without keys is 0",
        place: HOPPER_BF16,
        file: "hopper/rows.cuh",
        right: "running_max[0] = running_max[1] = NOTHING_SEEN;",
        wrong: "running_max[0] = running_max[1] = 0.0f;",
    },
    Mutant {
        name: "hopper: a row has the running maximum of its neighbour",
        place: HOPPER,
        file: "hopper/rows.cuh",
        right: "scores[i] = ptx::exp2_approx(fmaf(scores[i], scale, -running_max[i / 2 % 2]));",
        wrong: "scores[i] = ptx::exp2_approx(fmaf(scores[i], scale, -running_max[0]));",
    },
    Mutant {
        name: "hopper: running maxima lag 20 bits",
        place: HOPPER,
        file: "hopper/rows.cuh",
        right: "return exponent > running_max[row] + LARGEST_EXPONENT;",
        wrong: "return exponent > running_max[row] + 20.0f;",
    },
    Mutant {
        name: "hopper: each lane has its own maximum",
        place: HOPPER,
        file: "hopper/rows.cuh",
        right: "most[row] = group_max<4>(largest[row]) * scale;",
        wrong: "most[row] = largest[row] * scale;",
    },
    Mutant {
        name: "hopper: light weights are lost",
        place: HOPPER,
        file: "hopper/rows_16bit.cuh",
        right: "pack(scores[2 * i], scores[2 * i + 1])",
        wrong: "pack(scores[2 * i] < 1e-3f ? 0.0f : scores[2 * i], scores[2 * i + 1] < 1e-3f ? 0.0f : scores[2 * i + 1])",
    },
    Mutant {
        name: "hopper: the mask hides one key too few",
        place: HOPPER_CAUSAL,
        file: "hopper/rows.cuh",
        right: "if (i / 4 * 8 + i % 2 >= visible[i / 2 % 2])",
        wrong: "if (i / 4 * 8 + i % 2 > visible[i / 2 % 2])",
    },
    Mutant {
        name: "hopper: the last row is lost",
        place: HOPPER,
        file: "hopper/rows_16bit.cuh",
        right: "if (first + 4 * i < rows.end &&",
        wrong: "if (first + 4 * i < rows.end - 1 &&",
    },
    Mutant {
        name: "hopper: the log-sum-exp is that of a rounded sum",
        place: HOPPER,
        file: "hopper/rows.cuh",
        right: "log_sum_exp(statistics.running_max[row], statistics.sum[row]);",
        wrong: "log_sum_exp(statistics.running_max[row], __bfloat162float(__float2bfloat16(statistics.sum[row])));",
    },
    Mutant {
        name: "hopper, lazy maximum: weights that are too large stay",
        place: HOPPER_LAZY,
        file: "hopper/stream.cuh",
        right: "        rows.fit_weights();\n",
        wrong: "",
    },
    Mutant {
        name: "hopper, lazy maximum: the sum of a step is not lowered with its weights",
        place: HOPPER_LAZY,
        file: "hopper/rows_16bit.cuh",
        right: "            step_sum[row] *= factor[row];\n",
        wrong: "",
    },
    Mutant {
        name: "hopper, lazy maximum: the output is not lowered with the weights",
        place: HOPPER_LAZY,
        file: "hopper/rows_16bit.cuh",
        right: "        multiply_output(factor);\n",
        wrong: "",
    },
    Mutant {
        name: "hopper, FP8: light weights are lost",
        place: HOPPER_FP8,
        file: "hopper/rows_fp8.cuh",
        right: "return e4m3::encode4(p[0], p[1], p[4], p[5]);",
        wrong: "const auto k = [](float x) { return x < 1.0f ? 0.0f : x; };\n        return e4m3::encode4(k(p[0]), k(p[1]), k(p[4]), k(p[5]));",
    },
    Mutant {
        name: "hopper, FP8: each lane looks for its own light weights",
        place: HOPPER_FP8,
        file: "hopper/rows.cuh",
        right: "-group_max<4>(-smallest[row]) * scale",
        wrong: "smallest[row] * scale",
    },
    Mutant {
        name: "hopper, FP8, lazy maximum: light weights are not noticed",
        place: HOPPER_FP8_LAZY,
        file: "hopper/rows_fp8.cuh",
        right: "fits &= codes + ranges.light_offset[i % 2];",
        wrong: "",
    },
    Mutant {
        name: "hopper, FP8, lazy maximum: weights of 448 are not noticed",
        place: HOPPER_FP8_LAZY,
        file: "hopper/rows_fp8.cuh",
        right: "unsigned fits = ~(codes + FIND_LARGEST);",
        wrong: "unsigned fits = HIGHEST_BITS;",
    },
    Mutant {
        name: "hopper, FP8, lazy maximum: the sum of a step is not rescaled with its weights",
        place: HOPPER_FP8_LAZY,
        file: "hopper/rows_fp8.cuh",
        right: "        step_sum[0] *= rescale_factor[0];\n",
        wrong: "",
    },
    Mutant {
        name: "mma: the sums are not rescaled when an origin rises",
        place: MMA_BF16,
        file: "mma/rows.cuh",
        right: "sum[i / 2][i % 2] *= correction[i / 2][i % 2];",
        wrong: "",
    },
    Mutant {
        name: "mma: each lane has its own maximum",
        place: MMA,
        file: "mma/rows.cuh",
        right: "fmaxf(from, group_max<4>(largest[i / 2][i % 2]))",
        wrong: "fmaxf(from, largest[i / 2][i % 2])",
    },
    Mutant {
        name: "mma: origins lag 24 bits",
        place: MMA,
        file: "mma/rows_16bit.cuh",
        right: "static constexpr float RESCALE_THRESHOLD = 8.0f;",
        wrong: "static constexpr float RESCALE_THRESHOLD = 24.0f;",
    },
    Mutant {
        name: "mma: the maximum leaves out the last keys of a tile",
        place: MMA,
        file: "mma/rows.cuh",
        right: "for (int block = 1; block < SCORE_BLOCKS; ++block)",
        wrong: "for (int block = 1; block < SCORE_BLOCKS - 1; ++block)",
    },
    Mutant {
        name: "mma: the origin of a row without keys is 0",
        place: MMA_BF16,
        file: "mma/rows.cuh",
        right: "origin[i / 2][i % 2] = NOTHING_SEEN;",
        wrong: "origin[i / 2][i % 2] = 0.0f;",
    },
    Mutant {
        name: "mma: the sum is that of rounded weights",
        place: MMA_BF16,
        file: "mma/rows_16bit.cuh",
        right: "sum[strip][half] += w.x + w.y;",
        wrong: "sum[strip][half] += __bfloat162float(__float2bfloat16(w.x)) + __bfloat162float(__float2bfloat16(w.y));",
    },
    Mutant {
        name: "mma: a tile is skipped if its weights are light",
        place: MMA,
        file: "mma/rows_16bit.cuh",
        right: "p[step][strip][word] = pack(w.x, w.y, static_cast<const Output*>(nullptr));",
        wrong: "p[step][strip][word] = __any_sync(0xffffffffu, fmaxf(w.x, w.y) > 0.002f) ? pack(w.x, w.y, static_cast<const Output*>(nullptr)) : 0;",
    },
    Mutant {
        name: "mma: the mask hides one key too few",
        place: MMA_CAUSAL,
        file: "mma/scores.cuh",
        right: "if (i / 2 * 8 + i % 2 >= visible) score",
        wrong: "if (i / 2 * 8 + i % 2 > visible) score",
    },
    Mutant {
        name: "mma, FP8: a correction is applied again in the next step",
        place: MMA_FP8,
        file: "mma/rows_fp8.cuh",
        right: "if constexpr (SUMS_APART) correction_is_one();\n            return;",
        wrong: "return;",
    },
    Mutant {
        name: "mma, FP8: the weights use a fraction of the format's range",
        place: MMA_FP8,
        file: "mma/rows_fp8.cuh",
        right: "constexpr float WEIGHT_SHIFT = FP8_WEIGHTS ? 8.0f : 0.0f;",
        wrong: "constexpr float WEIGHT_SHIFT = FP8_WEIGHTS ? 1.0f : 0.0f;",
    },
    Mutant {
        name: "wmma: the sum is not rescaled when the maximum rises",
        place: WMMA,
        file: "wmma/kernel.cu",
        right: "    state.sum *= correction;\n",
        wrong: "",
    },
    Mutant {
        name: "wmma: a rescale by exp(m - m)",
        place: WMMA,
        file: "wmma/kernel.cu",
        right: "ptx::exp2_approx(state.maximum - origin);",
        wrong: "state.maximum == negative_infinity() ? 0.0f : ptx::exp2_approx(largest - origin);",
    },
    Mutant {
        name: "wmma: the maximum is that of the last tile",
        place: WMMA,
        file: "wmma/kernel.cu",
        right: "    float largest = state.maximum;\n",
        wrong: "    float largest = negative_infinity();\n",
    },
    Mutant {
        name: "wmma: each lane has its own maximum",
        place: WMMA,
        file: "wmma/kernel.cu",
        right: "    largest = group_max<ROW_THREADS>(largest);\n",
        wrong: "",
    },
    Mutant {
        name: "wmma: a row without a visible key subtracts -inf from -inf",
        place: WMMA_MASKED,
        file: "common/softmax.cuh",
        right: "return row_maximum == negative_infinity() ? 0.0f : row_maximum;",
        wrong: "return row_maximum;",
    },
    Mutant {
        name: "wmma: log2 e has five digits",
        place: WMMA,
        file: "common/softmax.cuh",
        right: "constexpr float LOG2_E = 1.4426950408889634f;",
        wrong: "constexpr float LOG2_E = 1.4426f;",
    },
    Mutant {
        name: "wmma: the log-sum-exp has a short ln 2",
        place: WMMA,
        file: "common/softmax.cuh",
        right: "(row_maximum + log2f(row_sum)) * LN_2",
        wrong: "(row_maximum + log2f(row_sum)) * 0.6931f",
    },
];

/// The repository's kernels of a family, with a change.
fn kernels(family: &str, change: Option<&Mutant>, folder: &Path) -> Catalog {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/attention");
    for part in ["common", family] {
        let to = folder.join("attention").join(part);
        fs::create_dir_all(&to).expect("a temporary folder");
        for entry in fs::read_dir(kernels.join(part)).expect("the kernels").flatten() {
            let mut text = fs::read_to_string(entry.path()).expect("a source");
            if let Some(mutant) =
                change.filter(|it| Path::new(it.file) == Path::new(part).join(entry.file_name()))
            {
                let Mutant { name, right, .. } = mutant;
                assert!(text.contains(right), "{name}: the source no longer has `{right}`");
                text = text.replace(right, mutant.wrong);
            }
            fs::write(to.join(entry.file_name()), text).expect("a temporary file");
        }
    }
    Catalog::load(Some(folder)).expect("the same manifests")
}

/// The results of a kernel on the classes of a default check, up to the first that fails.
fn check(place: &Place, change: Option<&Mutant>, seed: u64) -> Vec<CaseResult> {
    let mut classes = Attention.classes();
    let hard = Attention.hard_classes();
    classes.sort_by_key(|class| !hard.contains(class));
    check_classes(place, change, &classes, seed, 0)
}

/// Seeds of which one must refuse a mutant. A default check has many more cases of every class.
const SEEDS: [u64; 4] = [11, 13, 14, 15];

/// The results on some classes, up to the first that fails. With `search`, the steps of a search from all classes.
fn check_classes(
    place: &Place,
    change: Option<&Mutant>,
    classes: &[&str],
    seed: u64,
    search: u64,
) -> Vec<CaseResult> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let catalog = kernels(place.family, change, folder.path());
    let family = catalog.family(place.family).expect("the family");
    let knobs: Vec<_> =
        place.knobs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let chip = Chip::by_name(place.chip).expect("a chip of the table");
    let stop = AtomicBool::new(false);
    let make = |_| Ok(Box::new(device(chip.id)) as Box<dyn CheckDevice>);
    let environment = CheckEnvironment {
        compiler: compiler(),
        device: &make,
        threads: 1,
        searched: &|_| (),
        failures: check::FailurePolicy::default(),
        stop: &stop,
    };
    let mut results: Vec<CaseResult> = Vec::new();
    for class in classes {
        let subject = CheckSubject { family, preset: Some(place.preset.to_owned()), knobs: knobs.clone() };
        let case = Case {
            problem: problem(place.problem),
            cut_from: Vec::new(),
            class: (*class).to_owned(),
            seed,
            depth: Depth::Usual,
            search,
        };
        let groups = vec![CheckGroup { subjects: vec![subject], cases: vec![case] }];
        let plan = CheckPlan { device: Device::Virtual { chip }, groups };
        results.extend(check::run(&Attention, &plan, &environment, &|_| ()).expect("a thread"));
        if results.last().is_some_and(|result| !result.passed()) {
            break;
        }
    }
    results
}

/// Applies a function to all items on all cores.
fn in_parallel<T: Sync>(items: &[T], work: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let worker = || -> Vec<String> {
        let items = std::iter::from_fn(|| items.get(next.fetch_add(1, Ordering::Relaxed)));
        items.filter_map(&work).collect()
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    })
}

#[test]
fn every_mutant_is_refused() {
    let survivors = in_parallel(MUTANTS, |mutant| {
        let mut outcome = String::new();
        for seed in SEEDS {
            let results = check(&mutant.place, Some(mutant), seed);
            let last = results.last().expect("a class");
            if matches!(last.outcome, check::CaseOutcome::Failed { .. }) {
                println!("{}: refused by class {}", mutant.name, last.class);
                return None;
            }
            outcome = format!("{}: {:?}", mutant.name, last.outcome);
        }
        Some(outcome)
    });
    assert!(survivors.is_empty(), "not refused:\n{}", survivors.join("\n"));
}

#[test]
fn the_kernels_of_the_mutants_pass_without_a_change() {
    let places: BTreeSet<Place> = MUTANTS.iter().map(|mutant| mutant.place).collect();
    let places: Vec<Place> = places.into_iter().collect();
    let refused = in_parallel(&places, |place| {
        let results = check(place, None, SEEDS[0]);
        let last = results.last().filter(|last| !last.passed())?;
        let Place { family, preset, problem, .. } = place;
        Some(format!("{family} {preset} on {problem}, {}: {:?}", last.class, last.outcome))
    });
    assert!(refused.is_empty(), "refused:\n{}", refused.join("\n"));
}

#[test]
fn a_search_finds_a_mutant_that_ordinary_inputs_miss_and_can_be_repeated() {
    let name = "mma: a tile is skipped if its weights are light";
    let mutant = MUTANTS.iter().find(|mutant| mutant.name == name).expect("the mutant");
    let place = Place { problem: "b1h1sq8sk96d64-fp16", ..MMA };
    assert!(check_classes(&place, Some(mutant), &["uniform"], SEEDS[0], 0)[0].passed());
    let search = |change, steps| {
        let [result] =
            check_classes(&place, change, &["normal"], SEEDS[0], steps).try_into().expect("one result");
        let CaseResult { search, .. } = &result;
        (result.passed(), search.clone().expect("a search"))
    };
    let (passed, found) = search(Some(mutant), 40);
    assert!(!passed && found.share.is_some_and(|share| share > 1.0), "{found:?}");
    // The same steps again, and no more than are needed.
    let (_, again) = search(Some(mutant), found.worst_step);
    assert_eq!((again.share, &again.changes, &again.class), (found.share, &found.changes, &found.class));
    let (passed, right) = search(None, 40);
    assert!(passed && right.share.is_some_and(|share| share > 0.0 && share <= 1.0), "{right:?}");
}
