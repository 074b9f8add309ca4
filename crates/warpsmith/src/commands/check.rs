//! `check`: checks that kernels give correct results.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use chips::{Chip, Target};
use family::tuned_table::is_tuned;
use family::{Catalog, Family};
use gpu::accelerator::{DevicePool, Lease, VirtualDevice};
use gpu::device::Device;
use indexmap::{IndexMap, IndexSet};
use indicatif::ProgressBar;
use lab::bench::CHOSEN;
use lab::check::{
    self, Case, CaseOutcome, CaseResult, CheckEnvironment, CheckError, CheckGroup, CheckPlan, CheckSubject,
    Depth, FailurePolicy, PlanSize, cut_to_size,
};
use op::{AnyOp, AnyProblem, CheckDevice, Refusal};
use report::ci::{CiCase, CiFinding, CiReport, CiStatus, Location};
use sanitize::Suppressions;
use sanitize::suppressions::RuleUse;
use schemars::JsonSchema;
use serde::Serialize;
use text::count;
use vgpu::Checks;

use super::bench::require_class;
use super::{lend_device, tuned_preset, workbench};
use crate::ci_output;
use crate::cli::{CheckOptions, Global, KernelOptions, MAX_CASES};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::findings;
use crate::ops;
use crate::printer::{BAD, FAINT, GOOD, Printer, STRONG, styled};
use crate::progress;
use crate::sandboxed;
use crate::snippet;
use crate::suppressed;
use crate::tables::Table;
use text::quote;

/// The largest launch on the virtual GPU: half a head of S = 2048 at D = 64. Larger problems are reduced. A case has
/// three launches or more.
const VIRTUAL_FLOPS: f64 = 5.5e8;
/// From this multiple of the error of one rounding, the precision is told. A kernel that rounds an intermediate value to
/// the type of the output, too, has about 2.
const MANY_ROUNDINGS: f64 = 4.0;
/// How many times longer a plain kernel takes than a fused one for the same work.
const PLAIN_COST: f64 = 16.0;
/// Problems up to this size are checked with every class of inputs and at full depth.
const SMALL_FLOPS: f64 = 1.3e6;
/// The largest problem of `--hard`, which runs it hundreds of times: 16 queries of one head, with all their keys.
const SEARCH_FLOPS: f64 = SMALL_FLOPS;
/// The largest problem that a sweep checks at full depth; the headline suite is below it. For larger problems the
/// references of the redrawn inputs would take longer than everything else, so they are checked at full depth only if
/// they are named, and with one class.
const SWEEP_FLOPS: f64 = 5e10;
/// With more results than this, the table has one line per kernel instead of one per result.
const MAX_LINES: usize = 40;

/// Checks kernels on problems.
pub fn run(options: &CheckOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    ci_output::require_writable(&options.ci)?;
    let catalog = global.catalog()?;
    let ops = ops::all_of_command(global, &options.kernels.families, &catalog)?;
    let device = super::device(global)?;
    let target = device.target();
    sandboxed::warn(printer);
    let mut planned = Vec::new();
    let mut extent = PlanSize::default();
    for op in ops {
        let (plan, problems) = plan(&*op, options, global, &catalog, &device)?;
        look_up_tuned(&*op, options, &plan, &problems, printer)?;
        let own = plan.extent(&*op);
        require_supported(&*op, options, &plan, &own)?;
        ops::require_reference(&*op, printer)?;
        extent.add(own);
        planned.push((op, plan));
    }

    let compiler = super::compiler(global, printer)?;
    let stop = super::stop_on_interrupt();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.jobs.map_or(cores, usize::from);
    let suppressions = suppressions(options, global)?;
    let devices = devices(&device, options, suppressions.clone(), (threads, &stop))?;
    let open_device = |lease| devices.open(lease);
    // A GPU that cannot be opened is reported once, not as a failure of every kernel.
    if let Err(reason) = open_device(Lease::Shared) {
        return if stop.load(Ordering::Relaxed) {
            Ok(Exit::Incomplete)
        } else {
            Err(CommandError::missing(reason))
        };
    }
    // Of the cases, or of the steps of their searches. It is shown when the kernels are compiled.
    let bar: OnceLock<ProgressBar> = OnceLock::new();
    let largest = Mutex::new(0.0_f64);
    let searched = |share: f64| show_step(bar.get(), &largest, share);
    let environment = CheckEnvironment {
        compiler: &compiler,
        device: &open_device,
        threads,
        searched: &searched,
        failures: FailurePolicy {
            most: NonZeroUsize::new(options.max_failures).map(NonZeroUsize::get),
            draw_again: global.input_seed.is_none(),
        },
        stop: &stop,
    };
    let started = Instant::now();
    let requests: Vec<_> = planned.iter().flat_map(|(op, plan)| plan.requests(&**op, &compiler)).collect();
    let compiling = progress::counting(requests.len() as u64, "compiling");
    check::compile(&requests, &environment, &|| compiling.inc(1))
        .map_err(|error| CommandError::missing(error.to_string()))?;
    compiling.finish_and_clear();
    let verdicts = extent.verdicts as u64;
    let bar = bar.get_or_init(|| match options.hard {
        Some(steps) => progress::counting(verdicts * steps, "searching"),
        None => progress::counting(verdicts, "checking"),
    });
    let failed = AtomicUsize::new(0);
    let done = |verdict: &CaseResult| {
        if options.hard.is_some() {
            return; // the steps are counted
        }
        if !verdict.passed() {
            let failed = failed.fetch_add(1, Ordering::Relaxed) + 1;
            bar.set_message(format!("checking, {failed} failed"));
        }
        bar.inc(1);
    };
    let verdicts = run_plans(&planned, &environment, &done)?;
    bar.finish_and_clear();

    let run = Run {
        device: device.to_string(),
        target,
        sanitized: options.sanitize,
        complete: verdicts.len() == extent.verdicts || !stop.load(Ordering::Relaxed),
        skipped: if stop.load(Ordering::Relaxed) { 0 } else { extent.verdicts - verdicts.len() },
        seconds: started.elapsed().as_secs_f64(),
        extent: &extent,
        suppressions: suppressions.as_ref().map(|rules| rules.uses()).unwrap_or_default(),
        verdicts: &verdicts,
    };
    show(&run, options, global, &catalog, printer)?;
    suppressed::tell(suppressions.as_deref(), printer);
    if ci_output::is_wanted(&options.ci) {
        ci_output::write(&run.ci_report(options, global, &catalog), &options.ci, printer)?;
    }
    Ok(match () {
        () if verdicts.iter().any(|verdict| !verdict.passed()) => Exit::ProblemFound,
        () if !run.complete => Exit::Incomplete,
        () => Exit::Success,
    })
}

/// Prints the results and saves the pictures that the options ask for.
fn show(
    run: &Run<'_>,
    options: &CheckOptions,
    global: &Global,
    catalog: &Catalog,
    printer: &Printer,
) -> Result<(), CommandError> {
    if let Some(folder) = &options.svg {
        save_pictures(folder, run.verdicts, printer)?;
    }
    if printer.is_json() {
        run.print_json(options, printer);
    } else {
        run.print(options, global, catalog, printer);
    }
    Ok(())
}

/// The known findings, and the sources whose lines they may name.
fn suppressions(options: &CheckOptions, global: &Global) -> Result<Option<Arc<Suppressions>>, CommandError> {
    let sources = global.catalog()?;
    let texts = move |name: &str| {
        let mut families = sources.entries().iter().filter_map(|entry| entry.family.as_ref().ok());
        families.find_map(|family| family.source_text(name)).map(str::to_owned)
    };
    suppressed::read(options.suppressions.as_deref(), texts)
}

/// The devices that run the kernels.
fn devices(
    device: &Device,
    options: &CheckOptions,
    suppressions: Option<Arc<Suppressions>>,
    (threads, stop): (usize, &Arc<AtomicBool>),
) -> Result<Devices, CommandError> {
    let checks = if options.sanitize { Checks::All } else { Checks::None };
    match device {
        Device::Virtual { chip } => Ok(Devices::Virtual { chip, checks, limit: options.limit, suppressions }),
        Device::Cuda { .. } if options.sanitize => {
            Err(CommandError::usage("--sanitize needs the virtual GPU").hint("add `--device virtual`"))
        }
        Device::Cuda { index, .. } => {
            let limit = Duration::from_secs_f64(options.limit.unwrap_or(120.0));
            Ok(Devices::Lent(lend_device::pool(*index, limit, threads, stop)?))
        }
    }
}

/// Runs the plans of all ops, one after the other.
fn run_plans(
    planned: &[(Box<AnyOp>, CheckPlan<'_, AnyProblem>)],
    environment: &CheckEnvironment<'_>,
    done: &(dyn Fn(&CaseResult) + Sync),
) -> Result<Vec<CaseResult>, CommandError> {
    let mut verdicts = Vec::new();
    for (op, plan) in planned {
        let results = check::run(&**op, plan, environment, done).map_err(|error| match error {
            CheckError::Refused(refusal) => refusal.into(),
            CheckError::Threads(error) => CommandError::missing(error.to_string()),
        })?;
        // Several ops may have a family of the same name.
        let name = |family: String| {
            if planned.len() > 1 { format!("{}/{family}", op.name()) } else { family }
        };
        verdicts.extend(results.into_iter().map(|it| CaseResult { family: name(it.family), ..it }));
    }
    Ok(verdicts)
}

/// Shows a step of a search and the largest share of a limit so far.
fn show_step(bar: Option<&ProgressBar>, largest: &Mutex<f64>, share: f64) {
    let mut largest = largest.lock().unwrap_or_else(PoisonError::into_inner);
    *largest = largest.max(share);
    if let Some(bar) = bar {
        bar.set_message(format!("searching, at most {:.0}% of a limit so far", 100.0 * *largest));
        bar.inc(1);
    }
}

/// The plan of a check and its problems before they are reduced, from the options.
fn plan<'c>(
    op: &AnyOp,
    options: &CheckOptions,
    global: &Global,
    catalog: &'c Catalog,
    device: &Device,
) -> Result<(CheckPlan<'c, AnyProblem>, Vec<AnyProblem>), CommandError> {
    for name in options.class.iter().filter(|name| *name != "all") {
        require_class(op, name)?;
    }
    let selection = Selection::new(op, options, global)?;
    let (plain, fused): (Vec<_>, Vec<_>) =
        subjects(op, options, catalog)?.into_iter().partition(|subject| subject.family.plain);
    let cut = !options.full_size && matches!(device, Device::Virtual { .. });
    let limit = |cost: f64| if cut { VIRTUAL_FLOPS / cost } else { f64::INFINITY };
    let mut groups = Vec::new();
    for (subjects, limit) in [(plain, limit(PLAIN_COST)), (fused, limit(1.0))] {
        if !subjects.is_empty() {
            selection.require_bounded(op, options)?;
            groups.push(CheckGroup { subjects, cases: selection.cases(op, options, global, limit) });
        }
    }
    if options.kernels.families.iter().any(|name| name == CHOSEN) {
        for problem in &selection.problems {
            let subject = chosen(op, options, catalog, (device, problem))?;
            let limit = limit(if subject.family.plain { PLAIN_COST } else { 1.0 });
            let (edges, classed) = (Vec::new(), Vec::new());
            let own = Selection { problems: vec![problem.clone()], edges, classed, is_sweep: false };
            own.require_bounded(op, options)?;
            groups.push(CheckGroup { subjects: vec![subject], cases: own.cases(op, options, global, limit) });
        }
    }
    let problems = [selection.problems, selection.edges].concat();
    Ok((CheckPlan { device: device.clone(), groups }, problems))
}

/// Resolves `tuned`, if it is a preset of the plan.
fn look_up_tuned(
    op: &AnyOp,
    options: &CheckOptions,
    plan: &CheckPlan<'_, AnyProblem>,
    problems: &[AnyProblem],
    printer: &Printer,
) -> Result<(), CommandError> {
    let subjects = plan.groups.iter().flat_map(|group| &group.subjects);
    let tuned = subjects.filter(|subject| subject.preset.as_deref().is_some_and(is_tuned));
    let families: Vec<&Family> = tuned.map(|subject| subject.family).collect();
    let named = options.problem.iter().map(|name| op.problems(name)).collect::<Result<Vec<_>, _>>()?.concat();
    let others: Vec<_> = problems.iter().filter(|problem| !named.contains(problem)).cloned().collect();
    tuned_preset::look_up(op, &families, (&named, &others), &plan.device, printer)
}

/// The problems to check.
struct Selection {
    problems: Vec<AnyProblem>,
    /// Edge-case shapes. The small ones are checked with every class of inputs.
    edges: Vec<AnyProblem>,
    /// Shapes that are checked with every hard class of inputs.
    classed: Vec<AnyProblem>,
    /// Whether the user named no problem and no suite.
    is_sweep: bool,
}

impl Selection {
    fn new(op: &AnyOp, options: &CheckOptions, global: &Global) -> Result<Self, Refusal> {
        let expand = |names: &[String]| -> Result<Vec<AnyProblem>, Refusal> {
            let problems: Result<Vec<_>, _> = names.iter().map(|name| op.problems(name)).collect();
            Ok(problems?.into_iter().flatten().collect())
        };
        if options.problem.is_empty() && options.suite.is_empty() && options.fuzz.is_none() {
            let classed = expand(&op.class_problems())?;
            if options.hard.is_some() {
                let small = || expand(&[op.small_problem()]);
                let problems = if classed.is_empty() { small()? } else { classed };
                return Ok(Selection { problems, edges: Vec::new(), classed: Vec::new(), is_sweep: false });
            }
            let (problems, edges) = (expand(&op.default_problems())?, expand(&op.edge_problems())?);
            return Ok(Selection { problems, edges, classed, is_sweep: true });
        }
        let mut problems = expand(&options.problem)?;
        for suite in &options.suite {
            problems.extend(lab::suite::find(op, suite)?.problems);
        }
        let draws = 0..options.fuzz.unwrap_or(0);
        problems.extend(draws.map(|index| op.fuzzed(global.seed.wrapping_add(index))));
        Ok(Selection { problems, edges: Vec::new(), classed: Vec::new(), is_sweep: false })
    }

    /// Returns an error for more cases than a check could finish, before they are allocated.
    fn require_bounded(&self, op: &AnyOp, options: &CheckOptions) -> Result<(), CommandError> {
        let classes = op.classes().len().max(options.class.len()) as u64;
        let problems = (self.problems.len() + self.edges.len()) as u64;
        let cases = problems.saturating_mul(classes).saturating_mul(options.seeds);
        if cases <= MAX_CASES {
            return Ok(());
        }
        let (problems, seeds) = (self.problems.len() + self.edges.len(), options.seeds);
        let message = format!(
            "{problems} problems with up to {classes} classes of inputs and {seeds} seeds give {cases} cases; \
             {MAX_CASES} are allowed"
        );
        Err(CommandError::usage(message).hint("lower --seeds or --fuzz, or name a --problem and a --class"))
    }

    fn cases(
        &self,
        op: &AnyOp,
        options: &CheckOptions,
        global: &Global,
        limit: f64,
    ) -> Vec<Case<AnyProblem>> {
        let all = op.classes();
        let mut cases = Vec::new();
        if let Some(search) = options.hard {
            let limit = if options.full_size { f64::INFINITY } else { SEARCH_FLOPS };
            for (problem, cut_from) in cut_to_size(op, &self.problems, limit) {
                for offset in 0..options.seeds {
                    let (class, depth) = (all[0].to_owned(), Depth::Usual);
                    let seed = global.secret_seed().wrapping_add(offset);
                    let (problem, cut_from) = (problem.clone(), cut_from.clone());
                    cases.push(Case { problem, cut_from, class, seed, depth, search });
                }
            }
            return cases;
        }
        // A sweep checks every class on its small shapes. For named problems, every class is checked on a small part.
        let parts: &[_] = if options.class.is_empty() && !self.is_sweep { &self.problems } else { &[] };
        let parts: Vec<_> = parts.iter().filter(|it| op.work(it).flops > SMALL_FLOPS).cloned().collect();
        let hard = op.hard_classes();
        let classed: &[_] = if options.class.is_empty() { &self.classed } else { &[] };
        let sets = [
            (self.problems.as_slice(), false, limit),
            (self.edges.as_slice(), true, limit),
            (parts.as_slice(), true, SMALL_FLOPS),
            (classed, true, limit),
        ];
        for (problems, edges, limit) in sets {
            for (problem, cut_from) in cut_to_size(op, problems, limit) {
                let flops = op.work(&problem).flops;
                let small = flops <= SMALL_FLOPS;
                let classes: Vec<&str> = match options.class.as_slice() {
                    [] if classed.contains(&problem) => hard.clone(),
                    [] if small && (edges || !self.is_sweep) || edges && limit <= SMALL_FLOPS => all.clone(),
                    [] => vec![all[0]],
                    some if some.iter().any(|name| name == "all") => all.clone(),
                    some => some.iter().map(String::as_str).collect(),
                };
                for (index, class) in classes.into_iter().enumerate() {
                    // A joined class is for many heads at little cost.
                    let is_chosen = !self.is_sweep && index == 0 && !op.joined_classes().contains(&class);
                    let depth = if small || !limit.is_finite() && (is_chosen || flops <= SWEEP_FLOPS) {
                        Depth::Full
                    } else {
                        Depth::Usual
                    };
                    for offset in 0..options.seeds {
                        let seed = global.secret_seed().wrapping_add(offset);
                        let cut_from = cut_from.clone();
                        let problem = problem.clone();
                        let class = class.to_owned();
                        cases.push(Case { problem, cut_from, class, seed, depth, search: 0 });
                    }
                }
            }
        }
        cases
    }
}

/// The subjects: every preset of every family, or the named ones.
fn subjects<'c>(
    op: &AnyOp,
    options: &CheckOptions,
    catalog: &'c Catalog,
) -> Result<Vec<CheckSubject<'c>>, CommandError> {
    let named = options.kernels.families.iter().filter(|name| *name != CHOSEN).cloned();
    let named: Vec<String> = named.collect();
    if named.is_empty() && !options.kernels.families.is_empty() {
        return Ok(Vec::new());
    }
    let families = ops::named_families(op, &named, catalog)?;
    let mut subjects = Vec::new();
    for &family in &families {
        if options.kernels.preset.is_empty() && !options.kernels.knobs.set.is_empty() {
            subjects.push(CheckSubject { family, preset: None, knobs: options.kernels.knobs.set.clone() });
            continue;
        }
        let has = |name: &&String| family.has_preset(name);
        let named: Vec<&String> = options.kernels.preset.iter().filter(has).collect();
        let presets: Vec<String> = match named.as_slice() {
            [] if options.kernels.preset.is_empty() => {
                family.presets.iter().map(|it| it.name.clone()).collect()
            }
            some => some.iter().map(|name| (*name).clone()).collect(),
        };
        for preset in presets {
            subjects.push(CheckSubject {
                family,
                preset: Some(preset),
                knobs: options.kernels.knobs.set.clone(),
            });
        }
    }
    // A preset may exist in only some of the families, but it must exist in one.
    for name in &options.kernels.preset {
        if !subjects.iter().any(|subject| subject.preset.as_ref() == Some(name)) {
            return Err(workbench::unknown_preset(name, &families, catalog));
        }
    }
    Ok(subjects)
}

/// The kernel that the dispatcher chooses for a problem.
fn chosen<'c>(
    op: &AnyOp,
    options: &CheckOptions,
    catalog: &'c Catalog,
    (device, problem): (&Device, &AnyProblem),
) -> Result<CheckSubject<'c>, CommandError> {
    let KernelOptions { preset, knobs, .. } = &options.kernels;
    if !preset.is_empty() || !knobs.set.is_empty() {
        return Err(CommandError::usage(format!("`{CHOSEN}` chooses the setting itself"))
            .hint("name a family to set its preset or knobs"));
    }
    let (family, candidate) = op::dispatch::choose(op, catalog, device, problem)?;
    let knobs = candidate.knobs.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
    Ok(CheckSubject { family, preset: candidate.preset, knobs })
}

/// Returns an error if a named kernel does not support a named problem. A sweep only counts unsupported combinations.
fn require_supported(
    op: &AnyOp,
    options: &CheckOptions,
    plan: &CheckPlan<'_, AnyProblem>,
    extent: &PlanSize,
) -> Result<(), CommandError> {
    // A kernel named by its preset or knobs must support every named problem; of a named family, one preset must.
    let exact = !options.kernels.preset.is_empty() || !options.kernels.knobs.set.is_empty();
    let subjects: Vec<&CheckSubject<'_>> = plan.groups.iter().flat_map(|group| &group.subjects).collect();
    for name in &options.problem {
        for problem in op.problems(name)? {
            let refusal = |subject: &&CheckSubject<'_>| subject.candidate(op, &problem, &plan.device).err();
            if exact {
                subjects.iter().find_map(refusal).map_or(Ok(()), Err)?;
            }
            for family in &options.kernels.families {
                let own = subjects.iter().filter(|subject| subject.family.name == *family);
                let refusals: Vec<Option<Refusal>> = own.map(refusal).collect();
                if let Some(Some(first)) = refusals.iter().find(|_| refusals.iter().all(Option::is_some)) {
                    return Err(first.clone().into());
                }
            }
        }
    }
    if extent.verdicts == 0 {
        let most = 3;
        let mut reasons: Vec<String> = extent.refusals.keys().take(most).cloned().collect();
        if extent.refusals.len() > most {
            reasons.push(format!("and {}", count(extent.refusals.len() - most, "other reason")));
        }
        let hint = setting_hint(op, plan);
        let usual = "`warpsmith kernels` shows what each family supports".to_owned();
        return Err(CommandError::usage(reasons.join("; ")).hint(hint.unwrap_or(usual)));
    }
    Ok(())
}

/// The most useful hint about the settings of a plan that no kernel supports: a knob that was meant, or else the values
/// that one can have.
fn setting_hint(op: &AnyOp, plan: &CheckPlan<'_, AnyProblem>) -> Option<String> {
    let mut hints = Vec::new();
    for group in &plan.groups {
        let Some(case) = group.cases.first() else { continue };
        let refused = |subject: &CheckSubject<'_>| subject.candidate(op, &case.problem, &plan.device).err();
        hints.extend(group.subjects.iter().filter_map(refused).filter_map(|refusal| refusal.hint));
    }
    hints.sort_by_key(|hint| {
        if hint.starts_with("did you mean") { 0 } else { 1 + usize::from(!hint.contains(" is one of ")) }
    });
    hints.into_iter().next()
}

/// The source of the devices that kernels are checked on.
enum Devices {
    Virtual {
        chip: &'static Chip,
        checks: Checks,
        limit: Option<f64>,
        suppressions: Option<Arc<Suppressions>>,
    },
    Lent(Arc<DevicePool>),
}

impl Devices {
    fn open(&self, lease: Lease) -> Result<Box<dyn CheckDevice>, String> {
        match self {
            Devices::Virtual { chip, checks, limit, suppressions } => {
                let mut device = VirtualDevice::new(chip);
                device.filter = suppressions.clone().map(|rules| rules as _);
                device.options.checks = *checks;
                device.options.threads = 1;
                if let Some(limit) = limit {
                    device.options.time_limit = Some(Duration::from_secs_f64(*limit));
                }
                Ok(Box::new(device))
            }
            Devices::Lent(pool) => Ok(Box::new(pool.lend(lease).map_err(|error| error.to_string())?)),
        }
    }
}

/// The results of a check.
#[derive(JsonSchema, Serialize)]
pub struct Run<'a> {
    device: String,
    target: Target,
    sanitized: bool,
    complete: bool,
    /// Runs that were not done, because their kernel had failed --max-failures times with the same cause.
    skipped: usize,
    seconds: f64,
    #[serde(flatten)]
    extent: &'a PlanSize,
    /// The known findings of --suppressions, with the number of findings that each matched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suppressions: Vec<RuleUse>,
    #[serde(rename = "cases")]
    verdicts: &'a [CaseResult],
}

/// The results of a check without every run.
#[derive(JsonSchema, Serialize)]
pub struct Compact<'a> {
    device: &'a str,
    target: Target,
    sanitized: bool,
    complete: bool,
    /// Runs that were not done, because their kernel had failed --max-failures times with the same cause.
    skipped: usize,
    seconds: f64,
    /// Combinations that were not run, by reason.
    refusals: usize,
    #[serde(skip_serializing_if = "<[RuleUse]>::is_empty")]
    suppressions: &'a [RuleUse],
    kernels: Vec<CheckedKernel<'a>>,
    failures: Vec<CompactFailure<'a>>,
}

/// All runs of one kernel.
#[derive(JsonSchema, Serialize)]
struct CheckedKernel<'a> {
    family: &'a str,
    kernel: &'a str,
    runs: usize,
    failed: usize,
    /// The largest error of the runs that passed, as a share of its limit.
    worst_share: Option<f64>,
    /// The problem and the class of that run.
    worst_case: Option<String>,
}

/// Failures with the same cause.
#[derive(JsonSchema, Serialize)]
struct CompactFailure<'a> {
    family: &'a str,
    kernel: &'a str,
    problem: &'a str,
    class: &'a str,
    seed: u64,
    /// How many runs fail for this cause.
    runs: usize,
    /// What is wrong, the checkers' findings first.
    messages: Vec<String>,
}

/// How many messages of a failure the compact document has.
const COMPACT_MESSAGES: usize = 4;

impl<'a> Compact<'a> {
    fn new(run: &'a Run<'_>) -> Self {
        let mut kernels: indexmap::IndexMap<(&str, &str), CheckedKernel<'_>> = indexmap::IndexMap::new();
        for verdict in run.verdicts {
            let CaseResult { family, kernel, problem, class, .. } = verdict;
            let entry = kernels.entry((family, kernel)).or_insert_with(|| CheckedKernel {
                family,
                kernel,
                runs: 0,
                failed: 0,
                worst_share: None,
                worst_case: None,
            });
            entry.runs += 1;
            entry.failed += usize::from(!verdict.passed());
            let share = verdict.judgement().map(|it| it.error / it.limit).filter(|share| share.is_finite());
            if let Some(share) = share.filter(|share| verdict.passed() && entry.worst_share < Some(*share)) {
                (entry.worst_share, entry.worst_case) = (Some(share), Some(format!("{problem}, {class}")));
            }
        }
        let failure = |group: &check::FailureGroup<'a>| {
            let CaseResult { family, kernel, problem, class, seed, findings, outcome, .. } = group.example();
            let found = findings.iter().map(|it| format!("[{}] {}", it.kind, it.message));
            let told: Vec<String> = match outcome {
                CaseOutcome::Passed { .. } => Vec::new(),
                CaseOutcome::Broken { reason, .. } => vec![reason.clone()],
                CaseOutcome::Failed { complaints, .. } => complaints
                    .iter()
                    .filter(|complaint| !findings.iter().any(|it| it.kind.name() == complaint.kind))
                    .map(|complaint| format!("[{}] {}", complaint.kind, complaint.message))
                    .collect(),
            };
            let messages = found.chain(told).take(COMPACT_MESSAGES).collect();
            let runs = group.results.len();
            CompactFailure { family, kernel, problem, class, seed: *seed, runs, messages }
        };
        Compact {
            device: &run.device,
            target: run.target,
            sanitized: run.sanitized,
            complete: run.complete,
            skipped: run.skipped,
            seconds: run.seconds,
            refusals: run.extent.refusals.values().sum(),
            suppressions: &run.suppressions,
            kernels: kernels.into_values().collect(),
            failures: check::group_failures(run.verdicts).iter().map(failure).collect(),
        }
    }
}

impl Run<'_> {
    fn print_json(&self, options: &CheckOptions, printer: &Printer) {
        if options.compact {
            printer.json("check-compact", &Compact::new(self));
        } else {
            printer.json("check", self);
        }
    }

    fn print(&self, options: &CheckOptions, global: &Global, catalog: &Catalog, printer: &Printer) {
        let table =
            if self.verdicts.len() <= MAX_LINES { lines(self.verdicts) } else { summary(self.verdicts) };
        printer.data(&table);
        let failed: Vec<&CaseResult> = self.verdicts.iter().filter(|verdict| !verdict.passed()).collect();
        for group in check::group_failures(self.verdicts) {
            printer.verbatim_data(&format!("\n{}", failure(&group, options, global, catalog)));
        }
        if self.skipped > 0 {
            let (skipped, most) = (count(self.skipped, "run"), options.max_failures);
            printer.data(&format!(
                "\nnot done: {skipped} of kernels that had failed {most} times with the same cause; \
                 --max-failures 0 does all"
            ));
        }
        let cut = self.verdicts.iter().filter(|verdict| !verdict.cut_from.is_empty()).count();
        if cut > 0 {
            let text =
                format!("{} used reduced problems with the same edges (see --full-size)", count(cut, "run"));
            printer.data(&styled(FAINT, text));
        }
        for note in self.notes() {
            printer.data(&format!("note: {note}"));
        }
        if let Some(text) = self.precision() {
            printer.data(&styled(FAINT, text));
        }
        if let Some(text) = self.compared() {
            printer.data(&styled(FAINT, text));
        }
        if let Some(seed) = only_seed(self.verdicts) {
            printer.data(&styled(FAINT, format!("to repeat with the same inputs: --input-seed {seed}")));
        }
        let unsupported: usize = self.extent.refusals.values().sum();
        if unsupported > 0 {
            let unsupported = count(unsupported, "unsupported combination");
            let text = format!("not run: {unsupported} (--json lists them)");
            printer.data(&styled(FAINT, text));
        }
        let under = if self.sanitized { ", under all checkers" } else { "" };
        let total = self.verdicts.len();
        let (device, seconds) = (&self.device, self.seconds);
        if !self.complete {
            let missing = self.extent.verdicts - total - self.skipped;
            printer.data(&styled(
                BAD,
                format!("stopped: {missing} of {} runs were not done", self.extent.verdicts),
            ));
        }
        let runs = count(total, "run");
        printer.data(&if failed.is_empty() {
            styled(GOOD, format!("{total} of {runs} passed on {device}{under}, in {seconds:.0} s"))
        } else {
            styled(BAD, format!("{} of {runs} failed on {device}{under}, in {seconds:.0} s", failed.len()))
        });
    }
}

impl Run<'_> {
    /// The results for CI systems.
    fn ci_report(&self, options: &CheckOptions, global: &Global, catalog: &Catalog) -> CiReport {
        let groups = check::group_failures(self.verdicts);
        let case = |verdict: &CaseResult| {
            let of = |group: &&check::FailureGroup<'_>| {
                group.results.iter().any(|result| std::ptr::eq(*result, verdict))
            };
            let group = groups.iter().find(of);
            match group.map(check::FailureGroup::example).filter(|it| !std::ptr::eq(*it, verdict)) {
                Some(example) => CiCase {
                    same_cause_as: Some(ci_name(example, options)),
                    ..CiCase::new(ci_name(verdict, options), CiStatus::Failed, error_text(verdict))
                },
                None => ci_case(verdict, group, options, (global, catalog)),
            }
        };
        let mut cases: Vec<CiCase> = self.verdicts.iter().map(case).collect();
        let missing = self.extent.verdicts - self.verdicts.len() - self.skipped;
        if missing > 0 {
            let detail = format!("the check was stopped; {missing} runs were not done");
            cases.push(CiCase::new("check", CiStatus::Incomplete, detail));
        }
        CiReport::new("check", &self.device, cases)
    }

    /// The precision of kernels that passed with errors far above those of one rounding; `None` if there are none.
    fn precision(&self) -> Option<String> {
        let passed = self.verdicts.iter().filter(|verdict| verdict.passed() && verdict.class == "normal");
        let judged = passed.filter_map(|verdict| Some((verdict.judgement()?.roundings?, verdict)));
        let (roundings, verdict) = judged.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
        let CaseResult { family, kernel, .. } = verdict;
        (roundings > MANY_ROUNDINGS).then(|| {
            format!(
                "precision: the error of {family} {kernel} is {roundings:.0} times that of rounding an exact answer"
            )
        })
    }

    /// The distinct notes about the kernels, each with the problems that it is about, unless these are all.
    fn notes(&self) -> Vec<String> {
        let mut all: IndexMap<&str, IndexSet<&str>> = IndexMap::new();
        let mut noted: IndexMap<(&str, &str), IndexSet<&str>> = IndexMap::new();
        for CaseResult { family, problem, notes, .. } in self.verdicts {
            all.entry(family).or_default().insert(problem);
            for note in notes {
                noted.entry((family, note)).or_default().insert(problem);
            }
        }
        let one = |((family, note), problems): (&(&str, &str), &IndexSet<&str>)| {
            let others = problems.len() - 1;
            let place = match problems.first() {
                Some(first) if problems.len() < all[family].len() && others == 0 => format!(" (on {first})"),
                Some(first) if problems.len() < all[family].len() => {
                    format!(" (on {first} and {})", count(others, "other problem"))
                }
                _ => String::new(),
            };
            format!("{family}: {note}{place}")
        };
        noted.iter().map(one).collect()
    }

    /// The number of launches and the share of elements that was compared.
    fn compared(&self) -> Option<String> {
        let launches: usize = self.verdicts.iter().map(|verdict| verdict.launches).sum();
        let judgements = self.verdicts.iter().filter_map(CaseResult::judgement);
        let shares =
            judgements.filter(|it| it.is_sampled()).map(|it| it.compared as f64 / it.elements as f64);
        let shares: Vec<f64> = shares.collect();
        let smallest = shares.iter().copied().reduce(f64::min);
        (launches > 0).then(|| match smallest {
            None => format!("{} judged; every element was compared", count(launches, "launch")),
            Some(smallest) => format!(
                "{} judged; {} on large problems compared at least one element in {:.0}, \
                 different rows in every launch",
                count(launches, "launch"),
                count(shares.len(), "run"),
                (1.0 / smallest).ceil()
            ),
        })
    }
}

/// The name of a case: `wmma stage-2 on b1h2s17d64-fp16, normal, seed 1`.
fn title(verdict: &CaseResult) -> String {
    let CaseResult { family, kernel, problem, class, seed, .. } = verdict;
    format!("{family} {kernel} on {problem}, {class}, seed {seed}")
}

/// The name of a result for CI systems.
fn ci_name(verdict: &CaseResult, options: &CheckOptions) -> String {
    let CaseResult { family, kernel, problem, class, seed, .. } = verdict;
    // The seed is random, so it is shown only if it distinguishes cases.
    let seed = if options.seeds > 1 { format!(", seed {seed}") } else { String::new() };
    format!("{family} {kernel} on {problem}, {class}{seed}")
}

/// The error of a result in words.
fn error_text(verdict: &CaseResult) -> String {
    verdict.judgement().map_or_else(String::new, |judgement| {
        format!("relative error {:.1e} ({:.1e} allowed)", judgement.error, judgement.limit)
    })
}

/// One result for CI systems. The example of a group tells the findings of the group, each once.
fn ci_case(
    verdict: &CaseResult,
    group: Option<&check::FailureGroup<'_>>,
    options: &CheckOptions,
    (global, catalog): (&Global, &Catalog),
) -> CiCase {
    let CaseResult { family, kernel, .. } = verdict;
    let kernel = format!("{family} {kernel}");
    let name = ci_name(verdict, options);
    let status = if verdict.passed() { CiStatus::Passed } else { CiStatus::Failed };
    let mut case = CiCase::new(&name, status, error_text(verdict));
    let family = catalog.family(family).ok();
    let sources = |name: &str| family.and_then(|family| family.source_text(name)).map(str::to_owned);
    let folder = global.kernels.as_deref();
    let paths = |name: &str| family.and_then(|family| ci_output::family_path(family, folder, name));
    let findings = group.map_or_else(
        || verdict.findings.iter().collect(),
        |group| group.findings().into_iter().map(|shared| shared.finding).collect::<Vec<_>>(),
    );
    let findings = findings.into_iter();
    case.findings = findings.map(|it| ci_output::finding(it, &kernel, &sources, &paths)).collect();
    let own = family.and_then(|family| paths(family.source_name()));
    let mut add = |kind: &str, message: &str| {
        let mut finding = CiFinding::new(kind, &name, message);
        finding.location = own.as_ref().map(|path| Location::file(report::ci::display_path(path)));
        case.findings.push(finding);
    };
    match &verdict.outcome {
        CaseOutcome::Passed { .. } => {}
        CaseOutcome::Broken { reason, diagnostics } if diagnostics.is_empty() => {
            add("broken", &format!("{name}: {reason}"));
        }
        CaseOutcome::Broken { diagnostics, .. } => {
            let diagnostics = diagnostics.iter();
            case.findings.extend(diagnostics.map(|it| ci_output::diagnostic(it, &kernel, &paths)));
        }
        CaseOutcome::Failed { .. } => {
            for (result, complaint) in group.map(check::FailureGroup::complaints).unwrap_or_default() {
                add(&complaint.kind, &format!("{}: {}", ci_name(result, options), complaint.message));
            }
        }
    }
    case
}

/// A table with one line per result.
fn lines(verdicts: &[CaseResult]) -> String {
    // Columns without information are left out.
    let has_seeds = only_seed(verdicts).is_none();
    let quantisation = |verdict: &CaseResult| verdict.judgement().and_then(|it| it.quantisation);
    let is_quantised = verdicts.iter().any(|verdict| quantisation(verdict).is_some());
    let mut titles = vec!["kernel", "problem", "class"];
    titles.extend(has_seeds.then_some("seed"));
    titles.extend(["error", "limit"]);
    titles.extend(is_quantised.then_some("quantisation"));
    titles.push("");
    let mut table = Table::new(&titles, &["seed", "error", "limit", "quantisation"]);
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.1e}"));
    for verdict in verdicts {
        let CaseResult { family, kernel, problem, class, seed, .. } = verdict;
        let mut row = vec![format!("{family} {kernel}"), problem.clone(), class.clone()];
        row.extend(has_seeds.then(|| seed.to_string()));
        row.push(number(verdict.judgement().map(|it| it.error)));
        row.push(number(verdict.judgement().map(|it| it.limit)));
        row.extend(is_quantised.then(|| number(quantisation(verdict))));
        row.push(if verdict.passed() { styled(GOOD, "passed") } else { styled(BAD, "failed") });
        table.row(row);
    }
    table.text()
}

/// The seed of all results, if they have the same one.
fn only_seed(verdicts: &[CaseResult]) -> Option<u64> {
    let first = verdicts.first()?.seed;
    verdicts.iter().all(|verdict| verdict.seed == first).then_some(first)
}

/// A table with one line per kernel.
fn summary(verdicts: &[CaseResult]) -> String {
    let mut kernels: indexmap::IndexMap<(&str, &str), Vec<&CaseResult>> = indexmap::IndexMap::new();
    for verdict in verdicts {
        kernels.entry((&verdict.family, &verdict.kernel)).or_default().push(verdict);
    }
    let mut table = Table::new(
        &["kernel", "runs", "passed", "largest error", "of its limit", "at"],
        &["runs", "passed", "largest error", "of its limit"],
    );
    for ((family, kernel), verdicts) in kernels {
        let passed = verdicts.iter().filter(|verdict| verdict.passed()).count();
        let share = |judgement: &check::Judgement| {
            if judgement.limit > 0.0 { judgement.error / judgement.limit } else { 0.0 }
        };
        let closest = verdicts
            .iter()
            .filter_map(|verdict| match &verdict.outcome {
                CaseOutcome::Passed { judgement } => Some((judgement, verdict)),
                _ => None,
            })
            .max_by(|(a, _), (b, _)| share(a).total_cmp(&share(b)));
        let mut row = vec![format!("{family} {kernel}"), verdicts.len().to_string(), passed.to_string()];
        if let Some((judgement, verdict)) = closest {
            row.push(format!("{:.1e}", judgement.error));
            row.push(format!("{:.0}%", 100.0 * share(judgement)));
            row.push(format!("{} {}", verdict.problem, verdict.class));
        }
        table.row(row);
    }
    table.text()
}

/// The cause of a group of failed results: an example, the findings at different lines, and the command that repeats the
/// example.
fn failure(
    group: &check::FailureGroup<'_>,
    options: &CheckOptions,
    global: &Global,
    catalog: &Catalog,
) -> String {
    const MAX_FINDINGS: usize = 3;
    let verdict = group.example();
    let mut text = format!("{}: {}", styled(BAD, "failed"), styled(STRONG, title(verdict)));
    if group.results.len() > 1 {
        text += &format!(" (and {} with the same cause)", count(group.results.len() - 1, "more run"));
    }
    text.push('\n');
    match &verdict.outcome {
        CaseOutcome::Passed { .. } => {}
        CaseOutcome::Broken { reason, diagnostics } => {
            for diagnostic in diagnostics {
                text += &format!("{}\n", snippet::diagnostic(diagnostic));
            }
            text += &format!("  [broken] {reason}\n");
        }
        CaseOutcome::Failed { .. } => {
            // Findings are shown below, with their source lines.
            for (result, complaint) in group.complaints() {
                let other = !std::ptr::eq(result, verdict);
                let place = if other { format!("{}: ", title(result)) } else { String::new() };
                text += &format!("  [{}] {place}{}\n", complaint.kind, complaint.message);
            }
        }
    }
    let family = catalog.family(&verdict.family).ok();
    let sources = |name: &str| family.and_then(|family| family.source_text(name)).map(str::to_owned);
    let found = group.findings();
    for shared in found.iter().take(MAX_FINDINGS) {
        text += &format!("{}\n", findings::render(shared.finding, &sources));
    }
    if found.len() > MAX_FINDINGS {
        let more = count(found.len() - MAX_FINDINGS, "more finding");
        text += &format!("  and {more} of other kinds or at other lines (--json lists them)\n");
    }
    if let Some(picture) = &verdict.picture {
        for line in picture.text.lines() {
            text += &format!("  {line}\n");
        }
    }
    text + &format!("  repeat: {}", repeat(verdict, options, global))
}

/// The command line that repeats a case.
fn repeat(verdict: &CaseResult, options: &CheckOptions, global: &Global) -> String {
    let mut words = vec!["warpsmith check".to_owned()];
    // A file that declares its op is named itself.
    let file = global.kernels.as_ref().filter(|path| path.is_file());
    let name = file.map_or_else(|| verdict.family.clone(), |file| file.display().to_string());
    let is_flag = name.starts_with('-');
    words.extend((!is_flag).then(|| quote::word(&name)));
    words.extend(verdict.preset.iter().map(|preset| quote::flag("--preset", preset)));
    words.extend(verdict.knobs.iter().map(|(name, value)| quote::flag("--set", format!("{name}={value}"))));
    words.push(quote::flag("--problem", &verdict.problem));
    words.push(match &verdict.search {
        // A shorter search makes the same steps.
        Some(search) => format!("--hard {}", search.worst_step),
        None => quote::flag("--class", &verdict.class),
    });
    words.push(format!("--input-seed {}", verdict.seed));
    if options.sanitize {
        words.push("--sanitize".to_owned());
    }
    if options.full_size {
        words.push("--full-size".to_owned());
    }
    if global.device != "auto" {
        words.push(quote::flag("--device", &global.device));
    }
    let folder = global.kernels.iter().filter(|_| file.is_none());
    words.extend(folder.map(|folder| quote::flag("--kernels", folder)));
    words.extend(super::workbench::array_flags(&global.arrays));
    words.extend(is_flag.then(|| format!("-- {}", quote::word(&name))));
    words.join(" ")
}

/// Writes the error maps of failed cases.
fn save_pictures(folder: &Path, verdicts: &[CaseResult], printer: &Printer) -> Result<(), CommandError> {
    let failed =
        |error: std::io::Error| CommandError::usage(format!("cannot write to {}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    for verdict in verdicts {
        if let Some(picture) = &verdict.picture {
            let CaseResult { family, kernel, problem, class, seed, .. } = verdict;
            let name = format!("{family}-{kernel}-{problem}-{class}-{seed}.svg").replace([' ', '='], "_");
            let name = files::file_name(&name);
            fs::write(folder.join(&name), &picture.svg).map_err(failed)?;
            printer.message(&format!("wrote {}", folder.join(&name).display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{self, Command};

    #[test]
    fn every_input_of_a_large_problem_is_redrawn_with_its_first_class_only() {
        let words = "warpsmith check --problem fa_d64_s1024 --problem mission --class sink --class drift";
        let (global, Command::Check(options)) = cli::parse(words.split(' ')).unwrap().into_parts() else {
            panic!("another command");
        };
        let catalog = Catalog::load(None).unwrap();
        let op = ops::named("attention", &catalog).unwrap();
        let selection = Selection::new(&*op, &options, &global).unwrap();
        let cases = selection.cases(&*op, &options, &global, f64::INFINITY);
        let depths: Vec<_> = cases.iter().map(|case| (case.class.as_str(), case.depth)).collect();
        let large = [("sink", Depth::Full), ("drift", Depth::Usual)];
        let small = [("sink", Depth::Full), ("drift", Depth::Full)];
        assert_eq!(depths, [large, small].concat());
    }
}
