//! Finds what limits a kernel from its metrics, with a table of rules. Each rule gives evidence, levers and an estimate
//! of the possible gain.
//!
//! There are two sorts of rules. A *class* names the kind of limit (tensor cores, memory, latency) but no cause, so its
//! weight is one twentieth of the remaining room. A *cause* has found something avoidable (bank conflicts, half-empty
//! sectors, idle lanes, spills), and its weight is the share of the time spent on it. So a cause comes before the class
//! that it leads to, unless the cause is small.

use runlog::record::Direction::{self, Down, Up};
use runlog::record::{Diagnosis, Lever, Metrics};
use text::count;

/// The share of the remaining room that a lever without a known cause is assumed to gain.
const CLASS_WEIGHT: f64 = 0.05;
/// The least modelled speedup that counts as a gain.
const LEAST_GAIN: f64 = 1.01;
/// The assumed share of the time if the stall reasons are unknown.
const UNKNOWN_SHARE: f64 = 0.3;

const GLOBAL_WAITS: [&str; 2] = ["long_scoreboard", "lg_throttle"];
const SHARED_WAITS: [&str; 2] = ["short_scoreboard", "mio_throttle"];

type Rule = fn(&Metrics) -> Option<Diagnosis>;

const RULES: [Rule; 14] = [
    compute_bound,
    memory_bound,
    unit_bound,
    latency_bound,
    tensor_cores_idle,
    spilling,
    bank_conflicts,
    strided_loads,
    no_staging,
    divergent_branches,
    barriers,
    small_blocks,
    low_occupancy,
    idle_multiprocessors,
];

/// Applies all rules and returns the diagnoses, the largest possible gain first. Idle tensor cores are a problem only
/// of an op that has matrix products, and a lever that is a knob is advice only for a kernel that has the knob.
pub fn diagnose(metrics: &Metrics, has_matrix_products: bool, knobs: &[&str]) -> Vec<Diagnosis> {
    let mut found: Vec<Diagnosis> = RULES.iter().filter_map(|rule| rule(metrics)).collect();
    found.retain(|diagnosis| has_matrix_products || diagnosis.rule != TENSOR_CORES_IDLE);
    for diagnosis in &mut found {
        let has_knob = |(knob, _): &(String, Direction)| knobs.contains(&knob.as_str());
        diagnosis.levers.retain(|lever| lever.steps.is_empty() || lever.steps.iter().any(has_knob));
    }
    found.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    found
}

fn diagnosis(rule: &str, weight: f64, evidence: String, levers: &[Lever]) -> Diagnosis {
    Diagnosis { rule: rule.to_owned(), weight: weight.clamp(0.0, 1.0), evidence, levers: levers.to_vec() }
}

/// A change, and the knobs that carry it out in families that have them.
fn lever(change: &str, steps: &[(&str, Direction)]) -> Lever {
    let steps = steps.iter().map(|(knob, direction)| ((*knob).to_owned(), *direction)).collect();
    Lever { change: change.to_owned(), steps, tried: None }
}

/// Removes advice that contradicts better advice. A lever that was tried without a gain is removed. Of two levers that
/// change a knob in opposite directions, the one with the gain stays or, if none was tried, that of the heavier
/// diagnosis, which comes first.
pub fn without_contradictions(diagnoses: &mut [Diagnosis]) {
    let gains = |lever: &Lever| lever.tried.as_ref().is_some_and(|tried| tried.speedup >= LEAST_GAIN);
    for diagnosis in diagnoses.iter_mut() {
        diagnosis.levers.retain(|lever| lever.tried.is_none() || gains(lever));
    }
    let opposite = |direction: Direction| if direction == Up { Down } else { Up };
    let contradicts = |one: &Lever, other: &Lever| {
        one.steps.iter().any(|(knob, direction)| other.steps.contains(&(knob.clone(), opposite(*direction))))
    };
    // Levers with a gain are considered first.
    let mut kept: Vec<Lever> = Vec::new();
    let all = || diagnoses.iter().flat_map(|diagnosis| &diagnosis.levers);
    for lever in all().filter(|lever| gains(lever)).chain(all().filter(|lever| !gains(lever))) {
        if !kept.iter().any(|known| contradicts(known, lever)) {
            kept.push(lever.clone());
        }
    }
    for diagnosis in diagnoses.iter_mut() {
        diagnosis.levers.retain(|lever| kept.contains(lever));
    }
}

/// Tensor-pipe and DRAM utilisation, which determine the class.
fn pipes(metrics: &Metrics) -> Option<(f64, f64)> {
    Some((*metrics.tensor_active_percent.known()?, *metrics.dram_percent.known()?))
}

fn pipe_evidence(tensor: f64, dram: f64) -> String {
    // Adding 0 removes the sign of a negative zero.
    let (tensor, dram) = (tensor + 0.0, dram + 0.0);
    format!("tensor pipe active {tensor:.1}%, DRAM {dram:.1}%")
}

fn stall_share(metrics: &Metrics, reasons: &[&str]) -> f64 {
    metrics.stalled(reasons).unwrap_or(UNKNOWN_SHARE)
}

fn stall_evidence(metrics: &Metrics, reasons: &[&str]) -> String {
    match metrics.stalled(reasons) {
        Some(share) => format!("{:.0}% of warps' time in {}", 100.0 * share, reasons.join(" and ")),
        None => "the stall reasons of the warps are unknown".to_owned(),
    }
}

// ---- classes ----

fn compute_bound(metrics: &Metrics) -> Option<Diagnosis> {
    let (tensor, dram) = pipes(metrics)?;
    (tensor > 50.0 && dram < 70.0).then(|| {
        diagnosis(
            "compute-bound",
            CLASS_WEIGHT * (1.0 - tensor / 100.0),
            pipe_evidence(tensor, dram),
            &[
                lever("larger tile: more products per loaded operand", &[("BLOCK_M", Up), ("BLOCK_N", Up)]),
                lever("FP8 where the accuracy allows", &[]),
                lever("wgmma", &[]),
            ],
        )
    })
}

fn memory_bound(metrics: &Metrics) -> Option<Diagnosis> {
    let dram = *metrics.dram_percent.known()?;
    (dram > 70.0).then(|| {
        diagnosis(
            "memory-bound",
            CLASS_WEIGHT * dram / 100.0,
            format!("DRAM {dram:.1}%"),
            &[
                lever("larger tile: the operands are read fewer times", &[("BLOCK_M", Up)]),
                lever("order of the work for L2 hits", &[]),
                lever("fusion with the kernel before or after, which saves a pass over memory", &[]),
                lever("narrower inputs", &[]),
            ],
        )
    })
}

/// From this share of the time, a unit limits the kernel: it is not waiting for latency.
const BUSY_PERCENT: f64 = 60.0;

/// The resource of the model that limits the kernel, if it is a unit that is busy for most of the time. Tensor cores and
/// DRAM have rules of their own.
fn busiest_unit(metrics: &Metrics) -> Option<&(String, f64)> {
    let has_rule = |name: &str| ["tensor cores", "DRAM bandwidth", "latency"].contains(&name);
    metrics.resources.first().filter(|(name, percent)| !has_rule(name) && *percent >= BUSY_PERCENT)
}

fn unit_bound(metrics: &Metrics) -> Option<Diagnosis> {
    let (unit, percent) = busiest_unit(metrics)?;
    let levers: &[Lever] = &match unit.as_str() {
        "load/store units" => [
            lever("wider loads and stores: 16 bytes per thread", &[]),
            lever("operands kept in registers for several uses", &[]),
        ],
        "shared memory" => [
            lever("wider accesses to shared memory, or ldmatrix", &[]),
            lever("larger tile of each thread: more uses of each loaded value", &[]),
        ],
        "L2 bandwidth" => [
            lever("tiles in shared memory, shared by more threads", &[]),
            lever("larger tile: the operands are read fewer times", &[("BLOCK_M", Up), ("BLOCK_N", Up)]),
        ],
        _ => [
            lever("fewer instructions: unrolled loops, indices computed once", &[]),
            lever("wider types where the accuracy allows, such as half2", &[]),
        ],
    };
    let evidence = format!("{unit} busy for {percent:.0}% of the time");
    Some(diagnosis("unit-bound", CLASS_WEIGHT * percent / 100.0, evidence, levers))
}

fn latency_bound(metrics: &Metrics) -> Option<Diagnosis> {
    let (tensor, dram) = pipes(metrics)?;
    let busiest = metrics.sm_busy_percent.known().copied().unwrap_or(0.0).max(tensor).max(dram);
    (tensor < 40.0 && dram < 40.0 && busiest_unit(metrics).is_none()).then(|| {
        let mut evidence = pipe_evidence(tensor, dram);
        if let Some((reason, percent)) = metrics.stalls.iter().find(|(name, _)| name != "selected") {
            evidence += &format!("; {percent:.0}% of warps' time in {reason}");
        }
        diagnosis(
            "latency-bound",
            CLASS_WEIGHT * (1.0 - busiest / 100.0),
            evidence,
            &[
                lever("cp.async depth (STAGES)", &[("STAGES", Up)]),
                lever("producer warps", &[("PRODUCER_WARPS", Up)]),
                lever("more warps or blocks per multiprocessor", &[("NUM_WARPS", Up), ("BLOCK_M", Down)]),
                lever("more independent loads of each thread before their first use", &[]),
            ],
        )
    })
}

const TENSOR_CORES_IDLE: &str = "tensor cores idle";

fn tensor_cores_idle(metrics: &Metrics) -> Option<Diagnosis> {
    let tensor = *metrics.tensor_active_percent.known()?;
    (tensor < 10.0).then(|| {
        // Without tensor cores the products run on units that are ten times slower.
        let unused = metrics.tensor_instructions.known() == Some(&0);
        let weight = if unused { 0.9 } else { CLASS_WEIGHT * (1.0 - tensor / 100.0) };
        let evidence = format!(
            "tensor pipe active {tensor:.1}%{}",
            if unused { ", no tensor-core instruction at all" } else { "" }
        );
        diagnosis(
            TENSOR_CORES_IDLE,
            weight,
            evidence,
            &[
                lever("the products on the tensor cores", &[]),
                lever("larger tile", &[("BLOCK_M", Up), ("BLOCK_N", Up)]),
                lever("cp.async depth", &[("STAGES", Up)]),
            ],
        )
    })
}

// ---- causes ----

fn spilling(metrics: &Metrics) -> Option<Diagnosis> {
    let bytes = *metrics.local_bytes.known()?;
    (bytes > 0).then(|| {
        // Two estimates. First: the share of local memory in the L1 traffic, times the share of the time spent waiting
        // for memory. Second: the share of local-memory instructions (a word for each of 32 lanes) in all instructions,
        // times how busy the SM is.
        let global = global_bytes(metrics).unwrap_or(0.0);
        let part = bytes as f64 / (bytes as f64 + global);
        let waiting = stall_share(metrics, &["long_scoreboard", "lg_throttle"]);
        let busy = metrics.sm_busy_percent.known().map_or(UNKNOWN_SHARE, |busy| busy / 100.0);
        let instructions = metrics.instructions.known().map_or(0.0, |all| bytes as f64 / 128.0 / *all as f64);
        // On an H200, spills were 4.5% of the instructions and cost 27% of the time: they are in the middle of
        // dependent arithmetic, which neither estimate sees.
        let least = if instructions > 0.01 { 0.1 } else { 0.0 };
        let mut evidence =
            format!("{bytes} bytes of local memory moved, {:.0}% of the traffic", 100.0 * part);
        if let (Some(spilled), Some(registers)) = (metrics.spill_bytes.known(), metrics.registers.known()) {
            evidence += &format!("; {spilled} bytes spilled per thread at {registers} registers");
        }
        diagnosis(
            "spilling",
            (part * waiting).max(instructions.min(1.0) * busy).max(least),
            evidence,
            &[
                lever("unroll less", &[]),
                lever("smaller tile per thread", &[("BLOCK_N", Down), ("BLOCK_M", Down)]),
                lever("more registers: launch bounds, fewer threads", &[]),
            ],
        )
    })
}

fn bank_conflicts(metrics: &Metrics) -> Option<Diagnosis> {
    let (conflicts, wavefronts) = (*metrics.bank_conflicts.known()?, *metrics.shared_wavefronts.known()?);
    let part = conflicts as f64 / wavefronts.max(1) as f64;
    (part > 0.1).then(|| {
        diagnosis(
            "bank conflicts",
            part * stall_share(metrics, &SHARED_WAITS),
            format!(
                "{conflicts} of {wavefronts} shared wavefronts ({:.0}%) are conflicts; {}",
                100.0 * part,
                stall_evidence(metrics, &SHARED_WAITS)
            ),
            &[
                lever("swizzle (SWIZZLE)", &[("SWIZZLE", Up)]),
                lever("rows padded by 16 bytes", &[]),
                lever("ldmatrix instead of single loads", &[]),
            ],
        )
    })
}

fn strided_loads(metrics: &Metrics) -> Option<Diagnosis> {
    let used = *metrics.sector_use_percent.known()?;
    (used < 75.0).then(|| {
        let sectors = metrics.sectors_per_request.known();
        let sectors = sectors.map_or(String::new(), |count| format!("{count:.1} sectors per request, "));
        diagnosis(
            "strided loads",
            (1.0 - used / 100.0) * stall_share(metrics, &GLOBAL_WAITS),
            format!(
                "{sectors}{used:.0}% of their bytes requested; {}",
                stall_evidence(metrics, &GLOBAL_WAITS)
            ),
            &[
                lever("neighbouring lanes on neighbouring 16-byte pieces", &[]),
                lever("contiguous layout of the inputs", &[]),
            ],
        )
    })
}

fn no_staging(metrics: &Metrics) -> Option<Diagnosis> {
    let (requests, products) = (*metrics.global_requests.known()?, *metrics.tensor_instructions.known()?);
    let each = requests as f64 / products.max(1) as f64;
    // A staged tile serves many products. Even 16x16 tiles need less than one request per product.
    (products > 0 && each >= 1.0).then(|| {
        diagnosis(
            "no staging",
            (1.0 - 0.25 / each) * stall_share(metrics, &GLOBAL_WAITS),
            format!(
                "{each:.1} global requests per tensor-core product; {}",
                stall_evidence(metrics, &GLOBAL_WAITS)
            ),
            &[
                lever("tiles in shared memory, filled by cp.async (STAGES)", &[("STAGES", Up)]),
                lever("producer warps", &[("PRODUCER_WARPS", Up)]),
                lever("larger tile", &[("BLOCK_M", Up), ("BLOCK_N", Up)]),
            ],
        )
    })
}

fn divergent_branches(metrics: &Metrics) -> Option<Diagnosis> {
    let active = *metrics.threads_per_instruction.known()?;
    (active < 28.0).then(|| {
        let branches = match (metrics.divergent_branches.known(), metrics.branches.known()) {
            (Some(divergent), Some(all)) => format!("; {divergent} of {all} branches split their warp"),
            (Some(divergent), None) => format!("; {divergent} branches split their warp"),
            _ => String::new(),
        };
        diagnosis(
            "divergent branches",
            1.0 - active / 32.0,
            format!("{active:.1} of 32 threads active per instruction{branches}"),
            &[
                lever("select instead of branching", &[]),
                lever("work divided by warps, not by lanes", &[]),
                lever("masks on whole tiles only", &[]),
            ],
        )
    })
}

fn barriers(metrics: &Metrics) -> Option<Diagnosis> {
    let waiting = metrics.stalled(&["barrier"])?;
    (waiting > 0.2).then(|| {
        let count = metrics.barriers.known().zip(metrics.instructions.known());
        let count = count.map_or(String::new(), |(barriers, instructions)| {
            format!("; one warp instruction in {} is a barrier", instructions / barriers.max(&1))
        });
        diagnosis(
            "barriers",
            waiting,
            format!("{}{count}", stall_evidence(metrics, &["barrier"])),
            &[
                lever("fewer barriers: named ones, __syncwarp, mbarriers", &[]),
                lever("producer warps", &[("PRODUCER_WARPS", Up)]),
                lever("cp.async depth (STAGES)", &[("STAGES", Up)]),
            ],
        )
    })
}

fn small_blocks(metrics: &Metrics) -> Option<Diagnosis> {
    let threads = *metrics.threads_per_block.known()?;
    (threads < 128).then(|| {
        let missing = 1.0 - f64::from(threads) / 128.0;
        diagnosis(
            "small blocks",
            missing * stall_share(metrics, &GLOBAL_WAITS).max(UNKNOWN_SHARE),
            format!(
                "{threads} threads per block: less than one warp for each of the 4 schedulers, and small tiles"
            ),
            &[lever("larger tile (BLOCK_M)", &[("BLOCK_M", Up)]), lever("more warps (NUM_WARPS)", &[("NUM_WARPS", Up)])],
        )
    })
}

fn low_occupancy(metrics: &Metrics) -> Option<Diagnosis> {
    let allowed = *metrics.theoretical_occupancy_percent.known()?;
    let (tensor, dram) = pipes(metrics)?;
    (allowed < 20.0 && tensor < 40.0 && dram < 40.0).then(|| {
        let registers = metrics.registers.known();
        let registers = registers.map_or(String::new(), |count| format!(", {count} registers per thread"));
        diagnosis(
            "low occupancy",
            CLASS_WEIGHT * (1.0 - allowed / 100.0) * stall_share(metrics, &GLOBAL_WAITS),
            format!("resources allow {allowed:.0}% of the warps{registers}"),
            &[
                lever("fewer registers or less shared memory per block", &[]),
                lever("smaller tile", &[("BLOCK_N", Down), ("BLOCK_M", Down)]),
                lever("cp.async depth instead of warps", &[("STAGES", Up)]),
            ],
        )
    })
}

fn idle_multiprocessors(metrics: &Metrics) -> Option<Diagnosis> {
    let (blocks, sms) = (*metrics.blocks.known()?, u64::from(*metrics.sms.known()?));
    (blocks < sms).then(|| {
        diagnosis(
            "idle multiprocessors",
            1.0 - blocks as f64 / sms as f64,
            format!("{} on {}", count(blocks as usize, "block"), count(sms as usize, "multiprocessor")),
            &[
                lever("smaller tile (BLOCK_M): more blocks", &[("BLOCK_M", Down)]),
                lever("the work of a block split among several", &[]),
            ],
        )
    })
}

/// Bytes of global memory that went through L1.
fn global_bytes(metrics: &Metrics) -> Option<f64> {
    let (requests, sectors) = (*metrics.global_requests.known()?, *metrics.sectors_per_request.known()?);
    Some(requests as f64 * sectors * 32.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use runlog::Fact;
    use runlog::record::TriedLever;

    fn metrics(tensor: f64, dram: f64) -> Metrics {
        Metrics {
            tensor_active_percent: Fact::Known(tensor),
            dram_percent: Fact::Known(dram),
            ..Metrics::default()
        }
    }

    const KNOBS: [&str; 3] = ["BLOCK_M", "STAGES", "NUM_WARPS"];

    #[test]
    fn a_busy_unit_is_no_latency_and_advice_names_only_knobs_of_the_kernel() {
        let busy = |unit: &str, percent: f64| Metrics {
            resources: vec![(unit.to_owned(), percent), ("latency".to_owned(), 20.0)],
            ..metrics(-0.0, 5.0)
        };
        let of = |metrics: &Metrics| diagnose(metrics, false, &[]);
        for unit in ["load/store units", "shared memory", "L2 bandwidth", "integer pipe"] {
            let found = of(&busy(unit, 87.0));
            assert_eq!(found.iter().map(|it| it.rule.as_str()).collect::<Vec<_>>(), ["unit-bound"], "{unit}");
            assert_eq!(found[0].evidence, format!("{unit} busy for 87% of the time"));
        }
        let waiting = of(&busy("load/store units", 30.0));
        assert_eq!(waiting[0].rule, "latency-bound");
        assert!(waiting[0].evidence.starts_with("tensor pipe active 0.0%"), "{waiting:?}");
        let changes = |found: &[Diagnosis]| found.iter().flat_map(|it| it.levers.clone()).collect::<Vec<_>>();
        assert!(changes(&waiting).iter().all(|it| it.steps.is_empty()), "{waiting:?}");
        let with_knob = diagnose(&busy("load/store units", 30.0), false, &["STAGES"]);
        assert!(changes(&with_knob).iter().any(|it| it.change.contains("STAGES")));
    }

    fn rules(metrics: &Metrics) -> Vec<String> {
        diagnose(metrics, true, &KNOBS).into_iter().map(|found| found.rule).collect()
    }

    #[test]
    fn tensor_pipe_and_dram_determine_the_class() {
        for (tensor, dram, expected) in [
            (60.0, 30.0, &["compute-bound"][..]),
            (50.1, 69.9, &["compute-bound"]),
            (50.0, 69.9, &[]),
            (60.0, 80.0, &["memory-bound"]),
            (20.0, 70.1, &["memory-bound"]),
            (45.0, 70.0, &[]),
            (39.9, 39.9, &["latency-bound"]),
            (40.0, 10.0, &[]),
            (9.9, 50.0, &["tensor cores idle"]),
            (10.0, 50.0, &[]),
        ] {
            assert_eq!(rules(&metrics(tensor, dram)), expected, "{tensor} {dram}");
        }
        let both = rules(&metrics(5.0, 5.0));
        assert!(both.contains(&"latency-bound".to_owned()) && both.contains(&"tensor cores idle".to_owned()));
        let without_products = diagnose(&metrics(5.0, 5.0), false, &KNOBS);
        assert!(without_products.iter().all(|found| found.rule == "latency-bound"), "{without_products:?}");
    }

    #[test]
    fn unknown_metrics_give_no_diagnosis() {
        assert_eq!(rules(&Metrics::default()), Vec::<String>::new());
        let half = Metrics { tensor_active_percent: Fact::Known(80.0), ..Metrics::default() };
        assert_eq!(rules(&half), Vec::<String>::new());
    }

    #[test]
    fn every_cause_is_found_by_its_own_metric() {
        let stalls = [("long_scoreboard", 40.0), ("barrier", 5.0), ("mio_throttle", 20.0)];
        let stalls: Vec<(String, f64)> =
            stalls.into_iter().map(|(name, percent)| (name.to_owned(), percent)).collect();
        let healthy = Metrics {
            bank_conflicts: Fact::Known(1),
            shared_wavefronts: Fact::Known(1000),
            global_requests: Fact::Known(100),
            sectors_per_request: Fact::Known(16.0),
            sector_use_percent: Fact::Known(100.0),
            local_bytes: Fact::Known(0),
            threads_per_instruction: Fact::Known(31.5),
            tensor_instructions: Fact::Known(1000),
            threads_per_block: Fact::Known(128),
            theoretical_occupancy_percent: Fact::Known(50.0),
            blocks: Fact::Known(264),
            sms: Fact::Known(132),
            stalls: stalls.clone(),
            ..metrics(45.0, 45.0)
        };
        assert_eq!(rules(&healthy), Vec::<String>::new());
        let mut waiting = stalls;
        waiting[1].1 = 30.0;
        for (rule, unhealthy) in [
            ("bank conflicts", Metrics { bank_conflicts: Fact::Known(500), ..healthy.clone() }),
            ("strided loads", Metrics { sector_use_percent: Fact::Known(50.0), ..healthy.clone() }),
            ("no staging", Metrics { global_requests: Fact::Known(4000), ..healthy.clone() }),
            ("spilling", Metrics { local_bytes: Fact::Known(4), ..healthy.clone() }),
            ("divergent branches", Metrics { threads_per_instruction: Fact::Known(20.0), ..healthy.clone() }),
            ("barriers", Metrics { stalls: waiting, ..healthy.clone() }),
            ("small blocks", Metrics { threads_per_block: Fact::Known(64), ..healthy.clone() }),
            ("idle multiprocessors", Metrics { blocks: Fact::Known(64), ..healthy.clone() }),
        ] {
            let found = diagnose(&unhealthy, true, &KNOBS);
            assert_eq!(found.len(), 1, "{rule}: {found:?}");
            assert_eq!(found[0].rule, rule);
            assert!(!found[0].levers.is_empty() && !found[0].evidence.is_empty());
            assert!(found[0].weight > 0.0 && found[0].weight <= 1.0, "{found:?}");
        }
    }

    #[test]
    fn advice_does_not_contradict_itself() {
        let tried = |change: &str, step: (&str, Direction), speedup: Option<f64>| {
            let tried = speedup.map(|speedup| TriedLever { setting: String::new(), speedup });
            Lever { tried, ..lever(change, &[step]) }
        };
        let kept = |levers: [Lever; 2]| {
            let [first, second] = levers.map(|lever| diagnosis("limit", 0.5, String::new(), &[lever]));
            let mut both = [first, second];
            without_contradictions(&mut both);
            both.iter().flat_map(|it| &it.levers).map(|it| it.change.clone()).collect::<Vec<_>>()
        };
        let (up, down) = (("BLOCK_M", Up), ("BLOCK_M", Down));
        // Untried: the heavier diagnosis, which comes first, wins.
        assert_eq!(kept([tried("smaller", down, None), tried("larger", up, None)]), ["smaller"]);
        // A gain wins, wherever it stands, and a loss is never advice.
        assert_eq!(kept([tried("smaller", down, None), tried("larger", up, Some(1.2))]), ["larger"]);
        assert_eq!(kept([tried("smaller", down, Some(0.9)), tried("larger", up, None)]), ["larger"]);
        assert_eq!(kept([tried("smaller", down, None), tried("deeper", ("STAGES", Up), None)]).len(), 2);
    }

    #[test]
    fn a_large_cause_comes_before_its_class_and_a_small_one_after() {
        let with = |conflicts: u64| Metrics {
            bank_conflicts: Fact::Known(conflicts),
            shared_wavefronts: Fact::Known(1000),
            stalls: vec![("mio_throttle".to_owned(), 25.0)],
            ..metrics(20.0, 5.0)
        };
        assert_eq!(rules(&with(600)), ["bank conflicts", "latency-bound"]);
        assert_eq!(rules(&with(120)), ["latency-bound", "bank conflicts"]);
    }
}
