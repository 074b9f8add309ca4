//! Event logs that the tests of several crates share. Not part of the public interface.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail.

use std::path::Path;

use op::{Complaint, Work};
use stats::{NoiseFloor, Paired, Samples, StopReason, compare};
use times::ModelledMicros;

use crate::record::{
    Diagnosis, HotLine, Inversion, InversionResult, Lever, ListedLine, Metrics, Profile, Roofline,
};
use crate::{
    BuildRecord, Ceiling, CheckRecord, Event, Exchange, Fact, FailureKind, Manifest, MeasuredMicros,
    Modelled, ProblemTime, ResultId, RunOutcome, RunState, SampleSet, Search, Speed, Stage, StageKey,
    StageOutcome, TargetVerdict, Telemetry, Time, Timer, Trial, TrialResult, Utc, Writer, read,
};

/// The problem of all events.
pub const PROBLEM: &str = "b1h8s512d64-fp16";
/// The name of the peer.
pub const TORCH: &str = "pytorch flash";

/// Deterministic times close to `micros`, in nanoseconds.
pub fn times(micros: f64, count: usize) -> Vec<f64> {
    (0..count).map(|i| micros * 1000.0 * (1.0 + 0.0005 * (i * 7 % 11) as f64)).collect()
}

/// Samples with fixed metadata.
pub fn sampled(session: u32, samples_ns: Vec<f64>) -> SampleSet {
    SampleSet {
        timer: Timer::GraphHot,
        session,
        samples_ns,
        per_block: 2,
        processes: 1,
        warmup: 10,
        stopped: StopReason::Tight,
        work: Some(Work { flops: 5.4e8, bytes: 2_097_152 }),
        matrix: Some("fp16".to_owned()),
        apart_ns: vec![("quantise".to_owned(), 1500.0)],
        telemetry: Telemetry {
            sm_clock_mhz: Some((1980, 1980)),
            throttled: Some(vec![]),
            ..Telemetry::default()
        },
    }
}

/// The events of one timed subject.
pub fn bench(of: &ResultId, session: u32, samples_ns: Vec<f64>) -> [Event; 3] {
    let key = StageKey { stage: Stage::Bench, of: of.clone() };
    [
        Event::StageStarted { key: key.clone() },
        Event::Sampled { of: of.clone(), sampled: sampled(session, samples_ns) },
        Event::StageFinished { key, outcome: StageOutcome::Done },
    ]
}

/// A build record.
pub fn built(registers: u32, spill_bytes: u32) -> BuildRecord {
    BuildRecord {
        setting: String::new(),
        code_hash: "c0de".to_owned(),
        target: "sm_90a".to_owned(),
        compiler: "NVRTC 13.0.88".to_owned(),
        registers,
        spill_bytes,
        shared_bytes: 49_152,
        registers_limit: Some(168),
        spill_bytes_limit: Some(0),
        serialised_wgmma: 0,
        serialised_wgmma_limit: Some(0),
        compile_ms: 412.5,
        from_cache: false,
    }
}

/// A check record that passed or failed.
pub fn checked(passed: bool) -> CheckRecord {
    let complaint = Complaint { kind: "elements".to_owned(), message: "3 of 512 | too far\noff".to_owned() };
    CheckRecord {
        passed,
        error: Some(3.1e-4),
        limit: Some(1e-3),
        cases: 9,
        complaints: if passed { vec![] } else { vec![complaint] },
        repeats: None,
        sanitized: passed,
    }
}

/// The manifest of a bench on an H200.
pub fn manifest() -> Manifest {
    let mut manifest = Manifest::new("bench", vec!["warpsmith".into(), "bench".into()], 7);
    manifest.started = Utc::from_unix_millis(1_794_721_630_123);
    manifest.gpu = Fact::Known("NVIDIA H200".to_owned());
    manifest.device = Fact::Known("cuda:0".to_owned());
    manifest
}

/// A log with at least one event of most kinds, as a small bench writes it.
pub fn bench_log() -> Vec<Event> {
    let good = ResultId::new(PROBLEM, "wmma stage-2", "3f9a");
    let wrong = ResultId::new(PROBLEM, "wmma stage-3", "77aa");
    let torch = ResultId::new(PROBLEM, TORCH, "torch 2.9.1+cu130");
    let (fast, slow) = (times(10.0, 40), times(20.0, 40));
    let (candidate, baseline) = (Samples::new(fast.clone()).unwrap(), Samples::new(slow.clone()).unwrap());
    let control = Paired::new(&baseline, &baseline, 2).unwrap().speedup(1);
    let noise_floor = NoiseFloor::from_control(&control, 0.0005);
    let comparison = compare(&Paired::new(&baseline, &candidate, 2).unwrap(), noise_floor, 7);
    let mut events = vec![
        Event::RunStarted { manifest: Box::new(manifest()) },
        Event::Baseline { name: TORCH.to_owned(), version: Fact::Known("torch 2.9.1+cu130".to_owned()) },
        Event::Baseline { name: "pytorch cudnn".to_owned(), version: Fact::unavailable("no cudnn") },
        Event::Ceiling {
            ceiling: Ceiling { speed: Speed::MatrixTflops(800.0), matrix: Some("fp16".into()), samples: 50 },
        },
        Event::Ceiling { ceiling: Ceiling { speed: Speed::CopyGbPerS(4000.0), matrix: None, samples: 50 } },
        Event::Ceiling {
            ceiling: Ceiling { speed: Speed::LaunchFloorUs(MeasuredMicros(1.8)), matrix: None, samples: 50 },
        },
        Event::Built { of: good.clone(), build: built(128, 0) },
        Event::Checked { of: good.clone(), check: checked(true) },
        Event::Built { of: wrong.clone(), build: built(128, 0) },
        Event::Checked { of: wrong.clone(), check: checked(false) },
        Event::CandidateFailed {
            of: wrong,
            stage: Stage::Check,
            failure: FailureKind::WrongAnswer,
            reason: "3 of 512 elements".to_owned(),
        },
    ];
    events.extend(bench(&torch, 0, slow));
    events.extend(bench(&good, 0, fast));
    events.push(Event::Control {
        problem: PROBLEM.to_owned(),
        subject: TORCH.to_owned(),
        session: 0,
        timer: Timer::GraphHot,
        processes: 2,
        speedup: control,
        noise_floor,
    });
    events.push(Event::Verdict {
        problem: PROBLEM.to_owned(),
        candidate: "wmma stage-2".to_owned(),
        baseline: TORCH.to_owned(),
        session: 0,
        timer: Timer::GraphHot,
        comparison,
    });
    events.push(Event::Modelled {
        of: good,
        modelled: Modelled {
            gpu: "l4".to_owned(),
            time_us: ModelledMicros(31.5),
            limiter: Some("tensor".to_owned()),
            work: None,
            model: None,
            counts: None,
        },
    });
    events.push(Event::Resumed { manifest: Box::new(manifest()) });
    events.push(Event::Target {
        target: TargetVerdict {
            target: "at least 2x over pytorch flash".to_owned(),
            problem: None,
            met: Some(true),
            evidence: "2.00x".to_owned(),
        },
    });
    events.push(Event::Note { text: "clocks are not locked".to_owned() });
    events.push(Event::RunFinished { outcome: RunOutcome::ProblemFound });
    events
}

/// Writes the events to a log, reads it back, and derives the state.
pub fn state_from(events: &[Event]) -> RunState {
    let folder = files::partial_path(&std::env::temp_dir().join("warpsmith-log"));
    std::fs::create_dir(&folder).unwrap();
    write(&folder, events);
    let log = read(&folder);
    std::fs::remove_dir_all(&folder).unwrap();
    RunState::from_log(&log.unwrap())
}

/// Writes the events to a new log in `folder`.
pub fn write(folder: &Path, events: &[Event]) {
    let mut writer = Writer::create(folder).unwrap();
    for event in events {
        writer.append(event).unwrap();
    }
}

/// A kernel name that tries to inject HTML and scripts.
pub const HOSTILE: &str = "evil</td></svg></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'&";

/// A name that is too long to display.
pub fn long_name() -> String {
    format!("mma {}", (0..40).map(|i| format!("KNOB_{i}={i}")).collect::<Vec<_>>().join(" "))
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

/// A search over `STAGES`, `BLOCK_N` and a knob without effect, on the virtual GPU: thirteen trials, of which two fail
/// and one compiles to the same machine code as an earlier one.
pub fn search_log() -> Vec<Event> {
    let mut manifest = manifest();
    "evolve".clone_into(&mut manifest.command);
    manifest.gpu = Fact::Known("virtual l4".to_owned());
    manifest.device = Fact::Known("virtual:l4".to_owned());
    let mut events = vec![Event::RunStarted { manifest: Box::new(manifest) }];
    events.extend(search_events());
    events.push(Event::RunFinished { outcome: RunOutcome::Success });
    events
}

/// Knobs, parent, result (a score, the number of an identical trial, or a failure), and whether the trial is an elite.
type Planned<'p> = ([&'p str; 3], Option<u32>, Result<f64, Option<u32>>, bool);

fn search_events() -> Vec<Event> {
    let knobs =
        [("STAGES", texts(["1", "2", "3"])), ("BLOCK_N", texts(["32", "64"])), ("UNUSED", texts(["0", "1"]))];
    let search = Search {
        family: "attention/mma".to_owned(),
        baseline: "stage-2".to_owned(),
        problems: texts([PROBLEM, "b2h8s2048d64-causal-e4m3"]),
        knobs: knobs.into_iter().map(|(knob, values)| (knob.to_owned(), values)).collect(),
        raw_points: 12,
        legal_points: 12,
        proposer: "command".to_owned(),
        strategy: "evolution".to_owned(),
        budget: 32,
        elites: 3,
        seed: 7,
        ahead: Some(2),
    };
    let exchange = |number: u32, outcome| Exchange {
        number,
        proposer: "command".to_owned(),
        prompt: serde_json::Value::Null,
        answer: HOSTILE.to_owned(),
        outcome,
    };
    let mut events = vec![
        Event::SearchStarted { search },
        Event::Proposed { exchange: exchange(1, Ok("mma STAGES=3".to_owned())) },
        Event::Proposed { exchange: exchange(2, Err(format!("no JSON: {HOSTILE}"))) },
    ];
    let plan: [Planned<'_>; 13] = [
        (["2", "32", "0"], None, Ok(1.0), false),
        (["1", "32", "0"], Some(0), Ok(0.71), false),
        (["3", "32", "0"], Some(0), Ok(1.22), true),
        (["2", "64", "0"], Some(0), Ok(1.06), true),
        (["2", "64", "1"], Some(3), Err(Some(3)), false),
        (["3", "64", "0"], Some(2), Ok(1.31), true),
        (["1", "64", "0"], Some(1), Ok(0.76), false),
        (["4", "64", "0"], Some(5), Err(None), false),
        (["3", "16", "0"], Some(5), Ok(1.27), true),
        (["1", "16", "0"], Some(6), Ok(0.68), false),
        (["3", "48", "0"], Some(5), Ok(1.36), true),
        (["4", "48", "0"], Some(10), Err(None), false),
        (["2", "48", "0"], Some(10), Ok(1.04), false),
    ];
    for (number, (values, parent, result, elite)) in plan.into_iter().enumerate() {
        let [stages, block, unused] = values;
        let code_hash = format!("c{stages}-{block}");
        let result = match result {
            Ok(score) => TrialResult::Timed {
                build: format!("b{stages}-{block}-{unused}"),
                code_hash,
                registers: 96 + 8 * number as u32,
                shared_bytes: 16_384 * (number as u64 + 1),
                score,
                problems: [(PROBLEM, 40.0), ("b2h8s2048d64-causal-e4m3", 900.0)]
                    .map(|(problem, micros)| ProblemTime {
                        problem: problem.to_owned(),
                        time: Time::Modelled(ModelledMicros(micros / score)),
                        baseline: Time::Modelled(ModelledMicros(micros)),
                        speedup: score,
                        interval: None,
                        limiter: None,
                    })
                    .to_vec(),
                elite,
            },
            Err(Some(as_trial)) => TrialResult::Same { as_trial, code_hash },
            Err(None) => TrialResult::Failed {
                stage: Stage::Build,
                failure: FailureKind::TooLarge,
                reason: format!("needs 131072 bytes of shared memory; sm_89 has 101376 {HOSTILE}"),
            },
        };
        let candidate = match number {
            8 => long_name(),
            9 => HOSTILE.to_owned(),
            _ => format!("mma STAGES={stages} BLOCK_N={block}"),
        };
        let names = ["STAGES", "BLOCK_N", "UNUSED"].map(str::to_owned);
        let trial = Trial {
            number: number as u32,
            candidate,
            knobs: names.into_iter().zip(values.map(str::to_owned)).collect(),
            parent,
            origin: if number == 0 { "baseline" } else { "neighbour" }.to_owned(),
            source: None,
            done_by: None,
            result,
        };
        events.push(Event::Tried { trial: Box::new(trial) });
    }
    events
}

fn profile_events() -> Vec<Event> {
    let diagnosis = |rule: &str, weight: f64, evidence: &str, levers: Vec<String>| Diagnosis {
        rule: rule.to_owned(),
        weight,
        evidence: evidence.to_owned(),
        levers: levers.into_iter().map(|change| Lever { change, steps: Vec::new(), tried: None }).collect(),
    };
    let profile = Profile {
        source: "virtual:l4".to_owned(),
        notes: Vec::new(),
        metrics: Metrics {
            time: Some(Time::Modelled(ModelledMicros(31.5))),
            tensor_active_percent: Fact::Known(22.5),
            dram_percent: Fact::Known(31.0),
            sm_busy_percent: Fact::Known(64.2),
            l2_hit_percent: Fact::unavailable("the model has no L2"),
            bank_conflicts: Fact::Known(1_048_576),
            shared_wavefronts: Fact::Known(4_194_304),
            sectors_per_request: Fact::Known(4.0),
            registers: Fact::Known(128),
            local_bytes: Fact::Known(0),
            stalls: vec![("long scoreboard".to_owned(), 41.0), (HOSTILE.to_owned(), 12.5)],
            ..Metrics::default()
        },
        roofline: Some(Roofline {
            flops_per_byte: 256.0,
            tflops: 17.1,
            peak_tflops: 121.0,
            peak_gb_per_s: 300.0,
            peaks: "data sheet".to_owned(),
        }),
        diagnoses: vec![
            diagnosis(
                "latency-bound",
                0.6,
                "tensor 22.5%, DRAM 31.0%: both below 40%",
                texts(["more stages of cp.async", "more warps per block"]),
            ),
            diagnosis("bank conflicts", 0.25, "25% of wavefronts are extra", texts(["XOR swizzle", HOSTILE])),
        ],
        hot_lines: vec![HotLine {
            file: "kernel.cu".to_owned(),
            line: 181,
            text: "        wmma::mma_sync(scores, q, k, scores); // <- hot".to_owned(),
            share_percent: 38.5,
            of: "instructions".to_owned(),
        }],
        listing: [
            (179, "    for (int k = 0; k < 4; k++) {", None),
            (181, HOSTILE, Some(38.5)),
            (182, "    }", None),
        ]
        .map(|(line, text, share_percent)| ListedLine {
            file: "kernel.cu".to_owned(),
            line,
            text: text.to_owned(),
            share_percent,
        })
        .to_vec(),
    };
    vec![Event::Profiled { of: ResultId::new(PROBLEM, "wmma stage-2", "3f9a"), profile: Box::new(profile) }]
}

fn inversion_events() -> Vec<Event> {
    let inversion = |pathology: &str, setting: &str, cost: Option<f64>| Inversion {
        problem: PROBLEM.to_owned(),
        healthy: "wmma stage-2".to_owned(),
        pathology: pathology.to_owned(),
        setting: setting.to_owned(),
        result: match cost {
            Some(cost) => InversionResult::Timed {
                time: Time::Modelled(ModelledMicros(31.5 * cost)),
                healthy: Time::Modelled(ModelledMicros(31.5)),
                cost,
                evidence: "sectors per request 4.0 to 32.0".to_owned(),
            },
            None => InversionResult::Failed { reason: "hang after 120 s".to_owned() },
        },
        advice: "read whole rows of 128 bytes".to_owned(),
    };
    [
        inversion("extra barriers", "PATHOLOGY=barriers", Some(1.18)),
        inversion("strided loads", "PATHOLOGY=strided", Some(3.4)),
        inversion("over-unrolling", "PATHOLOGY=unroll", Some(0.99)),
        inversion("tiny blocks", "PATHOLOGY=tiny", None),
    ]
    .map(|inversion| Event::Inverted { inversion })
    .to_vec()
}

/// A log with everything that a report can show: a bench on a GPU, a search, a profile and an inversion on the virtual
/// GPU, a missed target, and texts that try to inject HTML.
pub fn full_log() -> Vec<Event> {
    let mut events = bench_log();
    events.pop();
    events.extend(search_events());
    events.extend(profile_events());
    events.extend(inversion_events());
    events.push(Event::Target {
        target: TargetVerdict {
            target: "at least 15x over math".to_owned(),
            problem: Some(PROBLEM.to_owned()),
            met: Some(false),
            evidence: "wmma stage-2: 6.00x (5.98 - 6.02)".to_owned(),
        },
    });
    events.push(Event::Note { text: HOSTILE.to_owned() });
    events.push(Event::RunFinished { outcome: RunOutcome::ProblemFound });
    events
}
