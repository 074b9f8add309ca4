//! Gradients: every preset of the families on the virtual GPU with all checks, and kernels with planted faults.

use std::sync::atomic::AtomicBool;

use chips::Chip;
use family::{Catalog, Family};
use gpu::device::Device;
use lab::check::{
    self, Case, CaseOutcome, CaseResult, CheckEnvironment, CheckGroup, CheckPlan, CheckSubject, Depth,
};
use op::{CheckDevice, OpProblems};
use vgpu::Kind;
use warpsmith_attention::AttentionBackward;

use crate::common::{changed_kernels, compiler, device, problem};

/// A preset, knobs, a problem and a class of inputs.
type Run<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);

/// Checks settings of a family, each on a problem and a class.
fn check(family: &Family, chip: &str, runs: &[Run<'_>], depth: Depth) -> Vec<CaseResult> {
    let group = |(preset, knobs, name, class): &Run<'_>| {
        let knobs = knobs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let subject = CheckSubject { family, preset: Some((*preset).to_owned()), knobs };
        let problem = problem(name);
        let class = (*class).to_owned();
        let case = Case { problem, cut_from: Vec::new(), class, seed: 5, depth, search: 0 };
        CheckGroup { subjects: vec![subject], cases: vec![case] }
    };
    let groups = runs.iter().map(group).collect();
    let chip = Chip::by_name(chip).expect("a chip of the table");
    let plan = CheckPlan { device: Device::Virtual { chip }, groups };
    let stop = AtomicBool::new(false);
    let make = |_| Ok(Box::new(device(chip.id)) as Box<dyn CheckDevice>);
    let environment = CheckEnvironment {
        compiler: compiler(),
        device: &make,
        threads: 2,
        searched: &|_| (),
        failures: check::FailurePolicy::default(),
        stop: &stop,
    };
    check::run(&AttentionBackward, &plan, &environment, &|_| ()).expect("a thread")
}

fn expect_right(name: &str, chip: &str, runs: &[Run<'_>]) {
    let catalog = Catalog::load(None).expect("the embedded kernels");
    let family = catalog.family(name).expect("an embedded family");
    let results = check(family, chip, runs, Depth::Full);
    assert_eq!(results.len(), runs.len());
    for (run, result) in runs.iter().zip(&results) {
        assert!(matches!(result.outcome, CaseOutcome::Passed { .. }), "{run:?}: {:?}", result.outcome);
        assert!(result.findings.is_empty(), "{run:?}: {:?}", result.findings);
    }
}

#[test]
fn the_reference_family_has_the_right_gradients() {
    let runs: [Run<'_>; 4] = [
        ("default", &[], "b1h4kv2sq20sk33d64-causal-fp16", "normal"),
        ("default", &[], "b1h1sq33sk10d80-causal-tl-bf16", "normal"),
        ("default", &[], "b1h1s9d256-bf16", "normal"),
        ("default", &[], "b1h2s17d64-fp16", "large"),
    ];
    expect_right("reference-backward", "l4", &runs);
}

#[test]
fn mma_has_the_right_gradients() {
    let runs: [Run<'_>; 7] = [
        ("d64", &[], "b2h4kv2sq40sk33d64-causal-bf16", "normal"),
        ("d64", &[], "b1h1sq33sk70d64-causal-tl-fp16", "normal"),
        ("d64", &[], "b1h1s1d64-fp16", "normal"),
        ("d128", &[], "b1h2sq17sk65d128-fp16", "normal"),
        ("d128", &[], "b1h1s70d96-causal-fp16", "sink"),
        ("d128", &[], "b1h1sq65sk17d80-causal-bf16", "drift"),
        ("d256", &[], "b1h1sq20sk40d256-causal-bf16", "normal"),
    ];
    expect_right("mma-backward", "l4", &runs);
}

#[test]
fn hopper_has_the_right_gradients() {
    let jitter: &[(&str, &str)] = &[("JITTER", "true")];
    let runs: [Run<'_>; 11] = [
        ("d64", &[], "b2h4kv2sq300sk133d64-causal-bf16", "normal"),
        ("d64", jitter, "b1h1sq33sk70d64-causal-tl-fp16", "normal"),
        ("d64", &[], "b1h1s1d64-fp16", "normal"),
        ("d128", jitter, "b1h2kv1sq140sk65d128-fp16", "normal"),
        ("d128", &[], "b1h1s150d96-causal-fp16", "sink"),
        ("d128", &[], "b1h1sq165sk17d80-causal-bf16", "drift"),
        ("d128", &[], "b1h1sq100sk70d64-bf16", "normal"),
        ("d256", jitter, "b1h1sq70sk90d256-causal-bf16", "normal"),
        ("d256", &[], "b1h4kv2sq140sk90d256-fp16", "normal"),
        (
            "d64",
            &[("LATE_DQ", "false"), ("PING_PONG", "0"), ("BLOCK_M", "64")],
            "b1h2kv1sq140sk133d64-causal-fp16",
            "normal",
        ),
        ("d128", &[("DQ_DIRECT", "true")], "b1h4kv2sq140sk90d128-bf16", "normal"),
    ];
    expect_right("hopper-backward", "h200", &runs);
}

/// Every trial repeats its first launch and compares the bits.
#[test]
fn hopper_adds_in_order_if_asked() {
    let jitter: &[(&str, &str)] = &[("JITTER", "true")];
    let runs: [Run<'_>; 4] = [
        ("d64-ordered", jitter, "b1h4kv2sq200sk390d64-bf16", "normal"),
        ("d128-ordered", jitter, "b2h1sq140sk300d128-causal-fp16", "normal"),
        ("d128-ordered", &[], "b1h1sq300sk140d128-causal-bf16", "normal"),
        ("d256-ordered", jitter, "b1h1sq70sk150d256-causal-tl-bf16", "normal"),
    ];
    expect_right("hopper-backward", "h200", &runs);
}

/// A replacement in a source below `kernels/attention_backward`, which a check must detect.
struct Fault {
    name: &'static str,
    family: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
    preset: &'static str,
    problem: &'static str,
    /// A finding of one of these kinds must be among the complaints; empty: any complaint about the output.
    found: &'static [Kind],
}

const HOPPER: Fault = Fault {
    name: "",
    family: "hopper-backward",
    file: "hopper-backward/consumer.cuh",
    right: "",
    wrong: "",
    preset: "d64-ordered",
    problem: "b1h1sq140sk150d64-causal-fp16",
    found: &[],
};
const MMA: Fault = Fault {
    family: "mma-backward",
    file: "mma-backward/kernel.cu",
    preset: "d128",
    problem: "b1h2kv1sq40sk50d64-causal-bf16",
    ..HOPPER
};

/// Not among them: blocks that do not wait for their turn. The virtual GPU runs them in the order in which they start, and
/// their places have the same order, so the sums have the right bits whether they wait or not.
const FAULTS: &[Fault] = &[
    Fault {
        name: "delta is not subtracted",
        right: "dp[block][i] = p * (dp[block][i] - statistics()[STATISTICS + statistic]);",
        wrong: "dp[block][i] = p * dp[block][i];",
        ..MMA
    },
    Fault {
        name: "the diagonal is one off",
        right: "key <= query + args.forward.diagonal);",
        wrong: "key < query + args.forward.diagonal);",
        ..MMA
    },
    Fault {
        name: "dK and dV have only the first query head of a group",
        right: "head < (kv_head + 1) * group; ++head",
        wrong: "head < kv_head * group + 1; ++head",
        ..MMA
    },
    Fault {
        name: "dK without the scale of the scores",
        right: "forward.seq_k, dk, forward.softmax_scale);",
        wrong: "forward.seq_k, dk, 1.0f);",
        ..MMA
    },
    Fault {
        name: "a tile is replaced while other warps read it",
        right: "            add(dk, dp, q);\n            __syncthreads();",
        wrong: "            add(dk, dp, q);",
        found: &[Kind::Race],
        ..MMA
    },
    Fault {
        name: "LSE is not scaled to base 2",
        file: "common/backward.cuh",
        right: "-negative_infinity() : lse * LOG2_E;",
        wrong: "-negative_infinity() : lse;",
        ..MMA
    },
    Fault {
        name: "the last unmasked tile is one too early",
        file: "hopper-backward/candidate.cuh",
        right: "whole = (query + BLOCK_M - 1) / BLOCK_M;",
        wrong: "whole = query / BLOCK_M;",
        problem: "b1h1sq300sk256d64-causal-fp16",
        ..HOPPER
    },
    Fault {
        name: "the tensor cores read dS whose writes are not fenced",
        right: "        tma::fence_shared_writes();\n        jitter(tile + 1);",
        wrong: "        jitter(tile + 1);",
        found: &[Kind::ProxyFence],
        ..HOPPER
    },
    Fault {
        name: "dS of the other warpgroup is not awaited",
        right: "        jitter(tile + 1);\n        consumers_sync();",
        wrong: "        jitter(tile + 1);",
        found: &[Kind::Race],
        ..HOPPER
    },
    Fault {
        name: "LATE_DQ: dS of the other warpgroup is not awaited",
        right: "        ptx::mbarrier_wait(ds_full(late.stage), late.parity);\n",
        wrong: "",
        preset: "d64",
        problem: "b1h1sq300sk150d64-fp16",
        found: &[Kind::Race],
        ..HOPPER
    },
    Fault {
        name: "LATE_DQ: dS is replaced while the other warpgroup's product reads it",
        right: "        ptx::mbarrier_wait(ds_free(scores.stage), scores.parity ^ 1);\n",
        wrong: "",
        preset: "d64",
        problem: "b1h1sq400sk150d64-fp16",
        found: &[Kind::Race],
        ..HOPPER
    },
    Fault {
        name: "wide heads: P and dS of the other warpgroup are not awaited",
        file: "hopper-backward/consumer_wide.cuh",
        right: "        ptx::named_barrier_sync<1, CONSUMERS * 128>();\n",
        wrong: "",
        preset: "d256",
        problem: "b1h1sq140sk70d256-fp16",
        found: &[],
        ..HOPPER
    },
    Fault {
        name: "dQ is overwritten while the copy engine reads it",
        right: "        ptx::mbarrier_wait(dq_free(group), dq.parity ^ 1);\n",
        wrong: "",
        problem: "b1h1sq300sk150d64-fp16",
        found: &[Kind::Race, Kind::AsyncNotWaited],
        ..HOPPER
    },
    Fault {
        name: "the copy engine may still read dQ when it is released",
        file: "hopper-backward/kernel.cu",
        right: "            tma::stores_read();\n",
        wrong: "            asm volatile(\"cp.async.bulk.commit_group;\" ::: \"memory\");\n",
        problem: "b1h1sq300sk150d64-fp16",
        found: &[Kind::Race, Kind::AsyncNotWaited],
        ..HOPPER
    },
    Fault {
        name: "dQ is not zeroed",
        file: "hopper-backward/kernel.cu",
        right: "dq[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);",
        wrong: "{}",
        ..HOPPER
    },
];

#[test]
fn every_planted_fault_in_a_backward_kernel_is_detected() {
    let mut undetected = Vec::new();
    for fault in FAULTS {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let change = (fault.file, fault.right, fault.wrong);
        let catalog = changed_kernels("attention_backward", fault.family, change, folder.path());
        let family = catalog.family(fault.family).expect("the family");
        let results = check(family, "h200", &[(fault.preset, &[], fault.problem, "normal")], Depth::Full);
        let [result] = results.as_slice() else { panic!("{}: {} results", fault.name, results.len()) };
        let is_failed = matches!(result.outcome, CaseOutcome::Failed { .. });
        let is_found = fault.found.is_empty()
            || result.findings.iter().any(|finding| fault.found.contains(&finding.kind));
        if !(is_failed && is_found) {
            undetected.push(format!("{}: {:?} {:?}", fault.name, result.outcome, result.findings));
        }
    }
    assert!(undetected.is_empty(), "not detected as expected:\n{}", undetected.join("\n"));
}

#[test]
fn the_families_of_the_op_refuse_what_they_do_not_have() {
    let catalog = Catalog::load(None).expect("the embedded kernels");
    let [forward, backward] = ["hopper", "hopper-backward"].map(|name| catalog.family(name).unwrap());
    let small = problem("b1h1s16d64-fp16");
    assert!(AttentionBackward.candidate(backward, Some("d64"), &[], &small).is_ok());
    assert!(AttentionBackward.candidate(backward, Some("d64"), &[], &problem("b1h1s16d64-e4m3")).is_err());
    assert!(warpsmith_attention::run::candidate(backward, Some("d64"), &[], &small).is_err());
    assert_eq!(forward.op, "attention");
}
