//! A plan of checks: the kernels it compiles, and the order of its results.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use chips::Chip;
use family::Catalog;
use gpu::device::Device;
use lab::check::{self, Case, CheckEnvironment, CheckGroup, CheckPlan, CheckSubject, Depth};
use op::CheckDevice;
use warpsmith_attention::Attention;

use crate::common::{compiler, device, problem};

#[test]
fn every_kernel_is_compiled_once_and_results_are_in_plan_order() {
    let catalog = Catalog::load(None).expect("the built-in families");
    let family = catalog.family("wmma").expect("wmma");
    let presets = ["stage-1", "stage-2", "stage-4"];
    let problems = ["b1h2s17d64-fp16", "b1h1s33d64-causal-fp16", "b1h1s16d128-fp16"];
    let subject =
        |preset: &&str| CheckSubject { family, preset: Some((*preset).to_owned()), knobs: Vec::new() };
    let case = |name: &&str| Case {
        problem: problem(name),
        cut_from: Vec::new(),
        class: "normal".to_owned(),
        seed: 1,
        depth: Depth::Usual,
        search: 0,
    };
    let group = CheckGroup {
        subjects: presets.iter().map(subject).collect(),
        cases: problems.iter().map(case).collect(),
    };
    let chip = Chip::by_name("l4").expect("an L4");
    let plan = CheckPlan { device: Device::Virtual { chip }, groups: vec![group] };

    // Lengths and masks are not compiled in; head dimensions are.
    let requests = plan.requests(&Attention, compiler());
    assert_eq!(requests.len(), 2 * presets.len());

    let stop = AtomicBool::new(false);
    let make = |_| Ok(Box::new(device("l4")) as Box<dyn CheckDevice>);
    let bench = CheckEnvironment {
        compiler: compiler(),
        device: &make,
        threads: 3,
        searched: &|_| (),
        failures: check::FailurePolicy::default(),
        stop: &stop,
    };
    let compiled = AtomicUsize::new(0);
    let count = || {
        compiled.fetch_add(1, Ordering::Relaxed);
    };
    check::compile(&requests, &bench, &count).expect("threads");
    assert_eq!(compiled.into_inner(), requests.len());

    let verdicts = check::run(&Attention, &plan, &bench, &|_| ()).expect("threads");
    let got: Vec<(&str, &str)> =
        verdicts.iter().map(|it| (it.problem.as_str(), it.kernel.as_str())).collect();
    let expected: Vec<(&str, &str)> =
        problems.iter().flat_map(|problem| presets.iter().map(move |preset| (*problem, *preset))).collect();
    assert_eq!(got, expected);
    assert!(verdicts.iter().all(check::CaseResult::passed), "{verdicts:#?}");

    // No case starts after a stop.
    stop.store(true, Ordering::Relaxed);
    assert!(check::run(&Attention, &plan, &bench, &|_| ()).expect("threads").is_empty());
}
