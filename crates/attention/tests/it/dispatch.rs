//! Which pick of a tuned table is used for which problem, and the message if there is none.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail.

use std::fs;
use std::path::Path;

use chips::Chip;
use family::tuned_table::{Pick, Table};
use family::{Catalog, Family};
use gpu::device::Device;
use lab::check::{CheckGroup, CheckPlan, CheckSubject, cut_to_size};
use op::OpProblems as _;
use op::dispatch::{self, UnusablePick};
use times::{MeasuredMicros, ModelledMicros, Time};
use warpsmith_attention::{Attention, Problem};

use crate::common::problem;

/// Settings that differ in their keys per step. They are valid everywhere unless stated otherwise.
const NARROW: &[(&str, &str)] = &[("BLOCK_N", "32")];
const USUAL: &[(&str, &str)] = &[("BLOCK_N", "64")];
const WIDE: &[(&str, &str)] = &[("BLOCK_N", "128"), ("Q_IN", "shared")];
/// Needs more shared memory than a block has on an L4, but less than on an H200.
const LARGE: &[(&str, &str)] = &[("BLOCK_N", "128"), ("Q_IN", "shared"), ("STAGES", "3")];

fn pick(gpu: &str, problem: &str, time: Time, knobs: &[(&str, &str)]) -> Pick {
    Pick {
        gpu: gpu.to_owned(),
        problem: problem.to_owned(),
        family: "attention/mma".to_owned(),
        time,
        speedup: None,
        baseline: "defaults".to_owned(),
        build: "3f9a".to_owned(),
        commit: None,
        knobs: knobs.iter().map(|(knob, value)| ((*knob).to_owned(), (*value).to_owned())).collect(),
    }
}

/// Times are in milliseconds, so that all are plausible.
fn measured(millis: f64) -> Time {
    Time::Measured(MeasuredMicros(1000.0 * millis))
}

fn modelled(millis: f64) -> Time {
    Time::Modelled(ModelledMicros(1000.0 * millis))
}

fn put(root: &Path, family: &str, picks: Vec<Pick>) {
    let table = Table { picks, ..Table::default() };
    table.write(&root.join("attention").join(family).join("tuned.toml")).unwrap();
}

/// The built-in families, with these picks for `mma` instead of its own.
fn with(picks: Vec<Pick>) -> Catalog {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "mma", picks);
    Catalog::load(Some(folder.path())).unwrap()
}

fn virtual_gpu(id: &str) -> Device {
    Device::Virtual { chip: Chip::by_name(id).unwrap() }
}

/// The keys per step of the setting that `tuned` selects.
fn block_n(family: &Family, device: &Device, name: &str) -> Result<String, op::Refusal> {
    let problem = problem(name);
    let candidate = dispatch::candidate(&Attention, family, Some("tuned"), &[], (&problem, device))?;
    Ok(candidate.knobs["BLOCK_N"].to_string())
}

#[test]
fn a_problems_own_pick_is_preferred_then_the_nearest_by_ratio() {
    let catalog = with(vec![
        pick("NVIDIA L4", "b1h8s512d64-fp16", measured(9.0), NARROW),
        pick("NVIDIA L4", "b64h8s512d64-fp16", measured(300.0), WIDE),
        // As much work as the first problem, but another problem.
        pick("NVIDIA L4", "b8h1s512d64-fp16", measured(9.0), USUAL),
    ]);
    let (mma, l4) = (catalog.family("mma").unwrap(), virtual_gpu("l4"));
    for (name, keys) in [
        ("b1h8s512d64-fp16", "32"),
        ("b64h8s512d64-fp16", "128"),
        ("b8h1s512d64-fp16", "64"),
        ("b2h8s512d64-fp16", "32"),
        ("b1h1s17d64-fp16", "32"),
        // 16 times the first and a quarter of the second; by difference the first would be nearer.
        ("b16h8s512d64-fp16", "128"),
        ("b2h64s4096d64-fp16", "128"),
        ("b2h8sq1024sk256d64-fp16", "32"),
    ] {
        assert_eq!(block_n(mma, &l4, name).as_deref(), Ok(keys), "{name}");
    }
}

#[test]
fn a_pick_of_the_same_regime_is_preferred_to_a_nearer_one() {
    let catalog = with(vec![
        pick("NVIDIA L4", "b1h8s512d64-fp16", measured(9.0), NARROW),
        pick("NVIDIA L4", "b1h8sq1sk64d64-fp16", measured(9.0), USUAL),
        pick("NVIDIA L4", "b99h8sq1sk64d64-fp16", measured(9.0), WIDE),
    ]);
    let (mma, l4) = (catalog.family("mma").unwrap(), virtual_gpu("l4"));
    for (name, keys) in [
        // Few queries: of few heads, of some (like the others with few queries) and of many, whatever the number of keys.
        ("b2h8sq1sk131072d64-fp16", "64"),
        ("b1h8sq64sk1024d64-fp16", "64"),
        ("b1h160kv16sq4sk64d64-fp16", "64"),
        ("b5h8sq1sk64d64-fp16", "64"),
        ("b1h132sq2sk40d64-fp16", "128"),
        // Many queries, or as few keys.
        ("b1h8sq65sk4096d64-fp16", "32"),
        ("b1h8sq64sk1023d64-fp16", "32"),
        ("b1h1s1d64-fp16", "32"),
    ] {
        assert_eq!(block_n(mma, &l4, name).as_deref(), Ok(keys), "{name}");
    }
    // With picks for many queries only, they are better than none.
    let catalog = with(vec![pick("NVIDIA L4", "b1h8s512d64-fp16", measured(9.0), NARROW)]);
    assert_eq!(block_n(catalog.family("mma").unwrap(), &l4, "b1h8sq1sk512d64-fp16").as_deref(), Ok("32"));
}

#[test]
fn few_queries_get_the_family_for_few_queries_on_an_h200() {
    let catalog = Catalog::load(None).unwrap();
    for (name, expected) in [
        ("b1h32kv8sq1sk8192d128-bf16", "hopper-decode"),
        ("b64h32kv8sq1sk4096d128-fp16", "hopper-decode"),
        ("b3h16kv2sq16sk777d64-causal-fp16", "hopper-decode"),
        ("b2h8sq3sk100d80-causal-tl-bf16", "hopper-decode"),
        ("b20h12kv4sq1sk5000d96-fp16", "hopper-decode"),
        ("b1h1sq1sk100d256-fp16", "hopper-decode"),
        ("b1h32kv8sq1sk8192d128-e4m3", "hopper"),
        ("b1h8sq65sk8192d128-bf16", "hopper"),
        ("b1h8s512d64-fp16", "hopper"),
    ] {
        let choice = dispatch::choose(&Attention, &catalog, &virtual_gpu("h200"), &problem(name));
        assert_eq!(choice.unwrap().0.name, expected, "{name}");
    }
    // Another GPU has no kernel of it.
    let (family, _) =
        dispatch::choose(&Attention, &catalog, &virtual_gpu("l4"), &problem("b1h32kv8sq1sk8192d128-bf16"))
            .unwrap();
    assert_eq!(family.name, "mma");
}

#[test]
fn many_short_sequences_get_tiles_of_their_length_on_an_h200() {
    let catalog = Catalog::load(None).unwrap();
    let choice = |name: &str| {
        let (family, candidate) =
            dispatch::choose(&Attention, &catalog, &virtual_gpu("h200"), &problem(name)).unwrap();
        format!("{} {}", family.name, candidate.label(family))
    };
    let of_short = "hopper defaults BLOCK_N=64 RUNNING_MAX=integers";
    for name in ["b32h16s128d64-fp16", "b40h8kv2s100d64-bf16", "b300h1s128d64-causal-fp16"] {
        assert_eq!(choice(name), of_short, "{name}");
    }
    // Fewer or longer sequences keep their own settings.
    for name in ["b16h16s128d64-fp16", "b32h16s129d64-fp16", "b8h16s512d64-fp16"] {
        assert_ne!(choice(name), of_short, "{name}");
    }
}

#[test]
fn problems_for_serving_get_a_family_that_has_their_features() {
    let catalog = Catalog::load(None).unwrap();
    for (name, gpu, expected) in [
        ("b64h32kv8sq1sk4096d128-page16-bf16", "h200", "hopper-decode"),
        ("b8h32kv8sq1sk4096d128-ragged-bf16", "h200", "hopper-decode"),
        ("b1h8s512d64-window100-sink-fp16", "h200", "hopper"),
        ("b32h32kv8s4096d128-causal-packed-bf16", "h200", "hopper"),
        ("b8h32kv8sq1sk4096d128-ragged-e4m3", "h200", "reference"),
        ("b8h32kv8sq1sk4096d128-page16-bf16", "l4", "mma"),
    ] {
        let choice = dispatch::choose(&Attention, &catalog, &virtual_gpu(gpu), &problem(name));
        assert_eq!(choice.unwrap().0.name, expected, "{name}");
    }
}

#[test]
fn a_pick_is_used_only_for_its_own_kind_and_gpu() {
    let catalog = with(vec![
        pick("virtual l4", "b1h8s512d64-fp16", modelled(9.0), NARROW),
        pick("NVIDIA H200", "b1h8s512d64-causal-fp16", measured(5.0), WIDE),
    ]);
    let mma = catalog.family("mma").unwrap();
    let real = |name: &str| Device::Cuda { index: 0, name: name.to_owned(), target: chips::Target::Sm90a };
    let l4 = virtual_gpu("l4");
    assert_eq!(block_n(mma, &l4, "b4h8s512d64-fp16").as_deref(), Ok("32"));
    let h200 = real("NVIDIA H200");
    assert_eq!(block_n(mma, &h200, "b1h8s640d64-causal-fp16").as_deref(), Ok("128"));
    // The virtual GPU models the real one, so picks measured there are used.
    assert_eq!(block_n(mma, &virtual_gpu("h200"), "b1h8s640d64-causal-fp16").as_deref(), Ok("128"));

    let refusal = |device: &Device, name: &str| block_n(mma, device, name).unwrap_err();
    for name in
        ["b1h8s512d64-bf16", "b1h8s512d128-fp16", "b1h8s512d64-causal-fp16", "b1h8s512d64-causal-tl-fp16"]
    {
        let refusal = refusal(&l4, name);
        assert_eq!(refusal.message, format!("mma has no tuned setting for {name} on L4"));
        assert_eq!(refusal.hint.as_deref(), Some("its table for this GPU has d64-fp16, of any size"));
    }
    let unknown = refusal(&real("NVIDIA B200"), "b1h8s512d64-fp16");
    assert_eq!(unknown.hint.as_deref(), Some("its table is for virtual l4, NVIDIA H200"));
    let empty = with(Vec::new());
    let empty = block_n(empty.family("mma").unwrap(), &l4, "b1h8s512d64-fp16").unwrap_err();
    assert!(empty.hint.unwrap().starts_with("its table is empty"));
}

#[test]
fn a_measured_pick_is_preferred_to_an_equally_near_modelled_one() {
    let near = |first: Time, second: Time| {
        let name = "b1h8s512d64-fp16";
        let catalog = with(vec![pick("NVIDIA L4", name, first, NARROW), pick("L4", name, second, WIDE)]);
        block_n(catalog.family("mma").unwrap(), &virtual_gpu("l4"), "b2h8s512d64-fp16").unwrap()
    };
    assert_eq!(near(modelled(4.0), measured(9.0)), "128");
    assert_eq!(near(measured(9.0), modelled(4.0)), "32");
}

#[test]
fn a_setting_that_does_not_fit_the_gpu_is_skipped() {
    let large = pick("NVIDIA L4", "b1h8s512d64-fp16", measured(9.0), LARGE);
    let far = pick("NVIDIA L4", "b64h8s512d64-fp16", measured(300.0), NARROW);
    let catalog = with(vec![large.clone(), far]);
    assert_eq!(
        block_n(catalog.family("mma").unwrap(), &virtual_gpu("l4"), "b1h8s512d64-fp16").unwrap(),
        "32"
    );
    let catalog = with(vec![large]);
    let refusal =
        block_n(catalog.family("mma").unwrap(), &virtual_gpu("l4"), "b1h8s512d64-fp16").unwrap_err();
    let hint = refusal.hint.unwrap();
    assert!(hint.starts_with("the nearest pick is not allowed: mma needs 114744 bytes"), "{hint}");
}

#[test]
fn unusable_picks_are_skipped_and_listed_with_a_reason() {
    let name = "b1h8s512d64-fp16";
    let mut other = pick("NVIDIA L4", name, measured(1.0), NARROW);
    other.family = "attention/wmma".to_owned();
    let catalog = with(vec![
        pick("NVIDIA L4", name, measured(1.0), &[("UNROLL", "2")]),
        pick("NVIDIA L4", name, measured(1.0), &[("BLOCK_N", "33")]),
        pick("NVIDIA L4", name, measured(1.0), &[("BLOCK_M", "16"), ("NUM_WARPS", "8")]),
        pick("NVIDIA L4", "b1h8s512", measured(1.0), NARROW),
        pick("NVIDIA L4", "canonical", measured(1.0), NARROW),
        other,
        // Times that cannot be true: below the floor of a launch and of the problem, and measured without a GPU.
        pick("NVIDIA L4", name, measured(1e-7), NARROW),
        pick("NVIDIA L4", "b8h8s4096d64-fp16", measured(0.1), NARROW),
        pick("virtual l4", name, measured(1.0), NARROW),
        // Knobs that a pick does not list keep their defaults.
        pick("NVIDIA L4", "b8h8s512d64-fp16", measured(1.0), WIDE),
    ]);
    let mma = catalog.family("mma").unwrap();
    let (usable, stale) = dispatch::picks(&Attention, mma);
    assert_eq!(usable.len(), 1);
    let reasons: Vec<&str> = stale.iter().map(|UnusablePick { reason, .. }| reason.as_str()).collect();
    assert_eq!(
        [reasons[0], reasons[1], reasons[3], reasons[4], reasons[5]],
        [
            "mma has no knob `UNROLL`",
            "mma: BLOCK_N cannot be 33",
            "`b1h8s512`: the head dimension (d) is missing",
            "`canonical` does not name exactly one problem",
            "it belongs to attention/wmma",
        ]
    );
    assert!(reasons[6].contains("is not a plausible time"), "{}", reasons[6]);
    assert!(reasons[7].contains("at the device's peak rates"), "{}", reasons[7]);
    assert!(reasons[8].contains("only modelled times"), "{}", reasons[8]);
    assert!(reasons[2].contains("a warp takes 16 or 32 rows"), "{}", reasons[2]);
    assert_eq!(block_n(mma, &virtual_gpu("l4"), name).as_deref(), Ok("128"));
}

#[test]
fn knobs_override_the_pick_and_the_label_uses_the_nearest_preset() {
    let knobs = [
        ("BLOCK_M", "64"),
        ("BLOCK_N", "64"),
        ("NUM_WARPS", "4"),
        ("STAGES", "1"),
        ("Q_IN", "shared"),
        ("PERSISTENT", "58"),
    ];
    let name = "b1h8s512d64-causal-fp16";
    let mut own = pick("NVIDIA L4", name, measured(9.0), &knobs);
    own.baseline = "rows16".to_owned();
    let catalog = with(vec![own]);
    let (mma, l4) = (catalog.family("mma").unwrap(), virtual_gpu("l4"));
    let candidate = |knobs: &[(String, String)]| {
        dispatch::candidate(&Attention, mma, Some("Tuned"), knobs, (&problem(name), &l4))
    };
    assert_eq!(candidate(&[]).unwrap().label(mma), "rows16 PERSISTENT=58");
    let set = |knob: &str, value: &str| [(knob.to_owned(), value.to_owned())];
    assert_eq!(candidate(&set("SWIZZLE", "false")).unwrap().label(mma), "rows16 SWIZZLE=false PERSISTENT=58");
    assert!(candidate(&set("NUM_WARPS", "16")).unwrap_err().message.contains("a warp takes 16 or 32 rows"));
    let known = dispatch::candidate(&Attention, mma, Some("rows16"), &[], (&problem(name), &l4)).unwrap();
    assert_eq!(known, Attention.candidate(mma, Some("rows16"), &[], &problem(name)).unwrap());
}

#[test]
fn the_best_family_is_the_fastest_for_the_nearest_problem() {
    let folder = tempfile::tempdir().unwrap();
    let wmma = |name: &str, time: Time| Pick {
        family: "attention/wmma".to_owned(),
        ..pick("NVIDIA L4", name, time, &[])
    };
    let (near, far) = ("b1h8s512d64-fp16", "b8h8s512d64-fp16");
    let best = |mma: Pick, wmma: Pick| {
        put(folder.path(), "mma", vec![mma]);
        put(folder.path(), "wmma", vec![wmma]);
        let catalog = Catalog::load(Some(folder.path())).unwrap();
        let (family, _) = dispatch::choose(&Attention, &catalog, &virtual_gpu("l4"), &problem(near)).unwrap();
        family.name.clone()
    };
    let mma = |name: &str, time: Time| pick("NVIDIA L4", name, time, &[]);
    assert_eq!(best(mma(near, measured(9.0)), wmma(near, measured(8.0))), "wmma");
    assert_eq!(best(mma(near, measured(9.0)), wmma(near, measured(10.0))), "mma");
    // Times of different problems, or a measured and a modelled time, are not comparable.
    assert_eq!(best(mma(near, measured(9.0)), wmma(far, measured(1.0))), "mma");
    assert_eq!(best(mma(near, measured(9.0)), wmma(near, modelled(1.0))), "mma");
    // A pick of the other 16-bit type is better than none; one of FP8 is not used.
    assert_eq!(best(mma("b1h8s512d64-bf16", measured(9.0)), wmma("mission-e4m3", measured(1.0))), "mma");
}

#[test]
fn every_supported_problem_has_a_choice_on_every_gpu() {
    let catalog = Catalog::load(None).unwrap();
    for gpu in ["h200", "l4", "a100", "4090"] {
        for name in [
            "mission",
            "b1h1s1d64-bf16",
            "b3h5sq77sk1000d80-causal-tl-fp16",
            "b1h2kv1s300d96-causal-bf16",
            "b2h4s100d256-fp16",
            "b4h16s4096d128-causal-bf16",
        ] {
            let (device, problem) = (virtual_gpu(gpu), problem(name));
            let (family, candidate) = dispatch::choose(&Attention, &catalog, &device, &problem).unwrap();
            assert!(family.check_target(&candidate, device.target()).is_ok(), "{gpu} {name}");
            assert_ne!(family.name, "reference", "{gpu} {name}");
        }
    }
}

#[test]
fn without_picks_the_choice_is_a_preset_of_a_preferred_family() {
    let folder = tempfile::tempdir().unwrap();
    for family in ["hopper", "hopper-decode", "mma", "wmma"] {
        put(folder.path(), family, Vec::new());
    }
    let catalog = Catalog::load(Some(folder.path())).unwrap();
    let chosen = |gpu: &str, name: &str| {
        let found = dispatch::choose(&Attention, &catalog, &virtual_gpu(gpu), &problem(name));
        found.map(|(family, candidate)| format!("{} {}", family.name, candidate.label(family)))
    };
    assert_eq!(chosen("h200", "fa_d64_s4096").as_deref(), Ok("hopper d64"));
    assert_eq!(chosen("h200", "b1h1s9d256-bf16").as_deref(), Ok("hopper d256"));
    assert_eq!(chosen("l4", "b4h16s4096d128-causal-bf16").as_deref(), Ok("mma d128"));
    let refusal = chosen("l4", "b1h1s9d40-fp16").unwrap_err();
    assert_eq!(refusal.message, "no family supports b1h1s9d40-fp16 on L4");
}

#[test]
fn the_choice_on_an_h200_is_the_faster_family() {
    let catalog = Catalog::load(None).unwrap();
    for (name, expected) in [
        ("mission", "hopper"),
        ("mission-bf16", "hopper"),
        ("small", "hopper"),
        ("wide", "hopper"),
        ("long", "hopper"),
        ("fa_d128_s4096", "hopper"),
        ("mission-e4m3", "hopper"),
        ("fa_d256_s1024_causal-e4m3", "hopper"),
    ] {
        let (family, _) =
            dispatch::choose(&Attention, &catalog, &virtual_gpu("h200"), &problem(name)).unwrap();
        assert_eq!(family.name, expected, "{name}");
    }
}

/// A pick for few keys may be the nearest in size to a problem with many, but would be wrong there.
#[test]
fn fp8_products_of_many_keys_are_never_added_in_one_level() {
    let catalog = Catalog::load(None).unwrap();
    let h200 = virtual_gpu("h200");
    for head_dim in [64, 80, 96, 128, 256] {
        for mask in ["", "-causal", "-causal-tl"] {
            for shape in
                ["b1h1s2049", "b1h8s3072", "b16h16s2500", "b1h1sq1sk8192", "b4h16s4096", "b1h8s16384"]
            {
                let problem = problem(&format!("{shape}d{head_dim}{mask}-e4m3"));
                let (family, candidate) = dispatch::choose(&Attention, &catalog, &h200, &problem).unwrap();
                assert_eq!(family.name, "hopper", "{problem}");
                assert_ne!(candidate.knobs["PROMOTION_INTERVAL"].to_string(), "0", "{problem}");
            }
        }
    }
    let hopper = catalog.family("hopper").unwrap();
    let steps = |name: &str| {
        let place = (&problem(name), &h200);
        let candidate = dispatch::candidate(&Attention, hopper, Some("tuned"), &[], place);
        candidate.map(|it| it.knobs["PROMOTION_INTERVAL"].to_string())
    };
    assert_eq!(steps("fa_d256_s1024-e4m3").as_deref(), Ok("0"));
    assert_eq!(steps("b16h8s1025d256-e4m3").as_deref(), Ok("0"));
    assert_eq!(steps("b16h8sq64sk2049d256-e4m3").as_deref(), Ok("16"));
}

/// A setting that computes all keys at once is slow for other numbers of keys, so a similar problem must not get it.
#[test]
fn a_setting_for_one_number_of_keys_is_not_used_for_another() {
    let catalog = Catalog::load(None).unwrap();
    let h200 = virtual_gpu("h200");
    let is_at_once = |name: &str| {
        let (_, candidate) = dispatch::choose(&Attention, &catalog, &h200, &problem(name)).unwrap();
        let is = |knob: &str, value: &str| {
            candidate.knobs.get(knob).is_some_and(|actual| actual.to_string() == value)
        };
        is("SPLIT_KV", "true") && is("RUNNING_MAX", "lazy")
    };
    for name in [
        "mission",
        "small",
        "v3_small_causal",
        "b1h4s512d64-fp16",
        "b1h8sq300sk500d64-fp16",
        "mission-bf16",
        "b1h8s400d64-bf16",
    ] {
        assert!(is_at_once(name), "{name}");
    }
    for name in ["b1h8s256d64-fp16", "b1h8s384d64-fp16", "b1h8s513d64-fp16", "b1h8s384d64-bf16"] {
        assert!(!is_at_once(name), "{name}");
    }
    let hopper = catalog.family("hopper").unwrap();
    let refused =
        Attention.candidate(hopper, Some("split-512"), &[], &problem("b1h8s256d64-fp16")).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("must have 385 to 512 keys, not 256"), "{text}");
}

/// Two problems that become the same when reduced may have two settings; both must be checked.
/// The relative error of one head varies more than that of many, so more of its keys need residuals.
#[test]
fn fp8_with_one_head_has_residuals_for_half_of_its_keys() {
    let catalog = Catalog::load(None).unwrap();
    for name in
        ["b1h1s512d64-e4m3", "b1h1sq16sk512d64-e4m3", "b1h1sq1sk512d64-e4m3", "b1h1s512d64-causal-e4m3"]
    {
        let chosen = dispatch::choose(&Attention, &catalog, &virtual_gpu("h200"), &problem(name));
        let (_, candidate) = chosen.unwrap();
        assert_eq!(candidate.knobs["RESIDUAL_BLOCKS"].to_string(), "2", "{name}");
    }
}

#[test]
fn a_case_reduced_from_several_problems_is_checked_with_all_their_picks() {
    let originals = ["b2h8s2048d64-fp16", "b4h8s2048d64-fp16", "b8h8s2048d64-fp16"];
    let catalog = with(vec![
        pick("NVIDIA L4", originals[0], measured(9.0), NARROW),
        pick("NVIDIA L4", originals[1], measured(9.0), WIDE),
        pick("NVIDIA L4", originals[2], measured(9.0), NARROW),
        pick("NVIDIA L4", "b1h1s2048d64-fp16", measured(9.0), USUAL),
    ]);
    let family = catalog.family("mma").unwrap();
    let problems: Vec<Problem> = originals.map(problem).to_vec();
    let [(problem, cut_from)] = cut_to_size(&Attention, &problems, 1.1e9).try_into().unwrap();
    assert_eq!(cut_from, problems);
    let case = lab::check::Case {
        problem,
        cut_from,
        class: "normal".to_owned(),
        seed: 1,
        depth: lab::check::Depth::Usual,
        search: 0,
    };
    let subject = |preset: &str| CheckSubject { family, preset: Some(preset.to_owned()), knobs: Vec::new() };
    let extent = |preset: &str| {
        let groups = vec![CheckGroup { subjects: vec![subject(preset)], cases: vec![case.clone()] }];
        CheckPlan { device: virtual_gpu("l4"), groups }.extent(&Attention).verdicts
    };
    assert_eq!((extent("tuned"), extent("d64")), (2, 1));
}

/// Fails if a change of a family makes picks of its table unusable.
#[test]
fn every_built_in_pick_is_usable_for_its_own_problem() {
    let catalog = Catalog::load(None).unwrap();
    let entries = catalog.entries().iter().filter(|entry| entry.op == "attention");
    let families = entries.map(|entry| entry.family.as_ref().unwrap());
    let mut count = 0;
    for family in families {
        let (usable, stale) = dispatch::picks(&Attention, family);
        assert!(stale.is_empty(), "{stale:?}");
        for own in usable {
            let gpu = own.pick.gpu.trim_start_matches("virtual ");
            let device = virtual_gpu(gpu);
            let found = dispatch::pick(&Attention, family, &device, &own.problem).unwrap();
            assert_eq!(found.problem, own.problem);
            count += 1;
        }
    }
    assert!(count > 0, "no family has a tuned table");
}

/// A user's table replaces the embedded one, alone or next to a manifest. A user's family without a table has none,
/// because the embedded table is about another kernel.
#[test]
fn a_folders_table_replaces_the_embedded_one() {
    let own = Catalog::load(None).unwrap();
    assert!(!own.family("mma").unwrap().tuned.picks.is_empty());
    let replaced = with(vec![pick("NVIDIA L4", "b1h8s512d64-fp16", measured(9.0), NARROW)]);
    assert_eq!(replaced.family("mma").unwrap().tuned.picks.len(), 1);

    let folder = tempfile::tempdir().unwrap();
    let family = folder.path().join("attention/mma");
    fs::create_dir_all(&family).unwrap();
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/attention/mma/kernel.toml");
    fs::copy(manifest, family.join("kernel.toml")).unwrap();
    let user = Catalog::load(Some(folder.path())).unwrap();
    assert!(user.family("mma").unwrap().tuned.picks.is_empty());

    fs::write(family.join("tuned.toml"), "schema = 2\n").unwrap();
    let newer = Catalog::load(Some(folder.path())).unwrap();
    let error = newer.family("mma").unwrap_err().to_string();
    assert!(error.ends_with(
        "tuned.toml:1:1: schema: was written by a newer version (schema 2; this program reads 1)"
    ));
    put(folder.path(), "nma", Vec::new());
    fs::remove_file(family.join("tuned.toml")).unwrap();
    let lost = Catalog::load(Some(folder.path())).unwrap();
    let error = lost.family("nma").unwrap_err().to_string();
    assert!(
        error.ends_with("nma/tuned.toml:1:1: kernel.toml: there is no kernel.toml next to the tuned table")
    );
}
