//! `check`: whether kernels give the right answer.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use attention::Attention;
use chips::{Chip, Target};
use comfy_table::{CellAlignment, Table, presets::NOTHING};
use family::tuned::is_tuned;
use family::{Catalog, Family};
use gpu::accelerator::{DevicePool, Lease, VirtualDevice};
use gpu::device::Device;
use lab::check::{
    self, Case, CaseOutcome, CaseResult, CheckEnvironment, CheckGroup, CheckPlan, CheckSubject, Depth,
    PlanSize, cut_to_size,
};
use op::{CheckDevice, Op, Refusal};
use serde::Serialize;
use vgpu::Checks;

use super::{lend_device, tuned, workbench};
use crate::cli::{CheckOptions, Global, MOST_CASES};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::findings;
use crate::printer::{BAD, FAINT, GOOD, Printer, STRONG, styled};
use crate::progress;
use crate::quote;
use crate::sandboxed;

/// What one launch of a case may take on the virtual GPU before the problem is cut: half a head of S = 2048 at D = 64. A
/// case is three launches or more.
const VIRTUAL_FLOPS: f64 = 5.5e8;
/// A plain kernel takes that many times as long for the same work.
const PLAIN_COST: f64 = 16.0;
/// Cases up to this size also get every class of inputs, and are asked for the same bits twice.
const SMALL_FLOPS: f64 = 1.3e6;
/// Whole problems up to this size are asked everything about in a sweep too: the headline's are. Of larger ones, where the
/// right answers to redrawn inputs take longer than everything else, only those that were named.
const SWEEP_FLOPS: f64 = 5e10;
/// With more verdicts than this the table has a line per kernel, not per verdict.
const LINES: usize = 40;

pub fn run(options: &CheckOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    let op = Attention;
    let catalog = Catalog::load(global.kernels.as_deref())?;
    let device = super::device(global)?;
    let target = device.target();
    let (plan, problems) = plan(op, options, global, &catalog, &device)?;
    look_up_tuned(op, options, &plan, &problems, printer)?;
    let extent = plan.extent(&op);
    refuse_what_was_asked_for(op, options, &plan, &extent)?;

    let compiler = super::build::compiler(global, printer)?;
    let stop = super::stop_on_interrupt();
    let checks = if options.sanitize { Checks::All } else { Checks::None };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.jobs.map_or(cores, usize::from);
    let devices = match &device {
        Device::Virtual { chip } => Devices::Virtual { chip, checks },
        Device::Cuda { .. } if options.sanitize => {
            return Err(CommandError::usage("--sanitize needs the virtual GPU").hint("add --device virtual"));
        }
        Device::Cuda { index, .. } => {
            let limit = Duration::from_secs_f64(options.limit);
            sandboxed::warn(printer);
            Devices::Lent(lend_device::pool(*index, limit, threads, &stop)?)
        }
    };
    let make = |lease| devices.one(lease);
    // A GPU that cannot be opened is what is wrong, not every kernel.
    if let Err(reason) = make(Lease::Shared) {
        return if stop.load(Ordering::Relaxed) {
            Ok(Exit::Incomplete)
        } else {
            Err(CommandError::lacking(reason))
        };
    }
    let bench = CheckEnvironment { compiler: &compiler, device: &make, threads, stop: &stop };
    let started = Instant::now();
    let requests = plan.requests(&op, &compiler);
    let bar = progress::counting(requests.len() as u64, "compiling");
    check::compile(&requests, &bench, &|| bar.inc(1))
        .map_err(|error| CommandError::lacking(error.to_string()))?;
    bar.finish_and_clear();
    let bar = progress::counting(extent.verdicts as u64, "checking");
    let verdicts = check::run(&op, &plan, &bench, &|verdict| {
        if !verdict.passed() {
            bar.suspend(|| printer.message(&format!("{}: {}", styled(BAD, "failed"), title(verdict))));
        }
        bar.inc(1);
    })
    .map_err(|error| CommandError::lacking(error.to_string()))?;
    bar.finish_and_clear();

    let run = Run {
        device: device.to_string(),
        target,
        sanitized: options.sanitize,
        complete: verdicts.len() == extent.verdicts,
        seconds: started.elapsed().as_secs_f64(),
        extent: &extent,
        verdicts: &verdicts,
    };
    if let Some(folder) = &options.svg {
        save_pictures(folder, &verdicts, printer)?;
    }
    if printer.is_json() {
        printer.json("check", &run);
    } else {
        run.print(options, global, &catalog, printer);
    }
    Ok(match () {
        () if verdicts.iter().any(|verdict| !verdict.passed()) => Exit::Finding,
        () if !run.complete => Exit::Incomplete,
        () => Exit::Holds,
    })
}

fn plan<'c>(
    op: Attention,
    options: &CheckOptions,
    global: &Global,
    catalog: &'c Catalog,
    device: &Device,
) -> Result<(CheckPlan<'c, attention::Problem>, Vec<attention::Problem>), CommandError> {
    let all = op.classes();
    let unknown = |name: &&String| *name != "all" && !all.contains(&name.as_str());
    if let Some(name) = options.class.iter().find(unknown) {
        let hint = format!("classes: {}, all", all.join(", "));
        return Err(CommandError::usage(format!("there is no class of inputs `{name}`")).hint(hint));
    }
    let wanted = Wanted::new(op, options, global)?;
    let (plain, fused): (Vec<_>, Vec<_>) =
        subjects(op, options, catalog)?.into_iter().partition(|subject| subject.family.plain);
    let cut = !options.full_size && matches!(device, Device::Virtual { .. });
    let limit = |cost: f64| if cut { VIRTUAL_FLOPS / cost } else { f64::INFINITY };
    let mut groups = Vec::new();
    for (subjects, limit) in [(plain, limit(PLAIN_COST)), (fused, limit(1.0))] {
        if !subjects.is_empty() {
            wanted.refuse_too_many(op, options)?;
            groups.push(CheckGroup { subjects, cases: wanted.cases(op, options, global, limit) });
        }
    }
    let problems = [wanted.problems, wanted.edges].concat();
    Ok((CheckPlan { device: device.clone(), groups }, problems))
}

/// What `tuned` stands for, where it was asked for.
fn look_up_tuned(
    op: Attention,
    options: &CheckOptions,
    plan: &CheckPlan<'_, attention::Problem>,
    problems: &[attention::Problem],
    printer: &Printer,
) -> Result<(), CommandError> {
    let subjects = plan.groups.iter().flat_map(|group| &group.subjects);
    let tuned = subjects.filter(|subject| subject.preset.as_deref().is_some_and(is_tuned));
    let families: Vec<&Family> = tuned.map(|subject| subject.family).collect();
    let named = options.problem.iter().map(|name| op.problems(name)).collect::<Result<Vec<_>, _>>()?.concat();
    let others: Vec<_> = problems.iter().filter(|problem| !named.contains(problem)).copied().collect();
    tuned::look_up(&families, (&named, &others), &plan.device, printer)
}

/// The problems to check on, and those of them that get every class of inputs where they are small.
struct Wanted {
    problems: Vec<attention::Problem>,
    edges: Vec<attention::Problem>,
    /// Whether nothing was asked for by name.
    sweep: bool,
}

impl Wanted {
    fn new(op: Attention, options: &CheckOptions, global: &Global) -> Result<Self, Refusal> {
        let expand = |names: &[String]| -> Result<Vec<attention::Problem>, Refusal> {
            let problems: Result<Vec<_>, _> = names.iter().map(|name| op.problems(name)).collect();
            Ok(problems?.into_iter().flatten().collect())
        };
        if options.problem.is_empty() && options.suite.is_empty() && options.fuzz.is_none() {
            return Ok(Wanted { problems: expand(&op.usual())?, edges: expand(&op.edges())?, sweep: true });
        }
        let mut problems = expand(&options.problem)?;
        for suite in &options.suite {
            problems.extend(lab::suite::find(&op, suite)?.problems);
        }
        let draws = 0..options.fuzz.unwrap_or(0);
        problems.extend(draws.map(|index| op.fuzzed(global.seed.wrapping_add(index))));
        Ok(Wanted { problems, edges: Vec::new(), sweep: false })
    }

    /// Refuses more cases than a check could ever come to the end of, before they take memory.
    fn refuse_too_many(&self, op: Attention, options: &CheckOptions) -> Result<(), CommandError> {
        let classes = op.classes().len().max(options.class.len()) as u64;
        let problems = (self.problems.len() + self.edges.len()) as u64;
        let cases = problems.saturating_mul(classes).saturating_mul(options.seeds);
        if cases <= MOST_CASES {
            return Ok(());
        }
        let (problems, seeds) = (self.problems.len() + self.edges.len(), options.seeds);
        let message = format!(
            "{problems} problems with up to {classes} classes of inputs and {seeds} seeds are {cases} cases; \
             {MOST_CASES} are allowed"
        );
        Err(CommandError::usage(message).hint("lower --seeds or --fuzz, or name a --problem and a --class"))
    }

    fn cases(
        &self,
        op: Attention,
        options: &CheckOptions,
        global: &Global,
        limit: f64,
    ) -> Vec<Case<attention::Problem>> {
        let all = op.classes();
        let mut cases = Vec::new();
        // A sweep has the classes on its small shapes. Other problems get them on a small part of themselves.
        let parts: &[_] = if options.class.is_empty() && !self.sweep { &self.problems } else { &[] };
        let parts: Vec<_> = parts.iter().copied().filter(|it| op.work(it).flops > SMALL_FLOPS).collect();
        let sets = [(&self.problems, false, limit), (&self.edges, true, limit), (&parts, true, SMALL_FLOPS)];
        for (problems, edges, limit) in sets {
            for (problem, cut_from) in cut_to_size(&op, problems, limit) {
                let flops = op.work(&problem).flops;
                let small = flops <= SMALL_FLOPS;
                let classes: Vec<&str> = match options.class.as_slice() {
                    [] if edges && (small || limit <= SMALL_FLOPS) => all.clone(),
                    [] => vec![all[0]],
                    some if some.iter().any(|name| name == "all") => all.clone(),
                    some => some.iter().map(String::as_str).collect(),
                };
                let depth = match () {
                    () if small => Depth::Full,
                    () if limit.is_finite() => Depth::Usual,
                    () if self.sweep && flops > SWEEP_FLOPS => Depth::Usual,
                    () => Depth::Full,
                };
                for class in classes {
                    for offset in 0..options.seeds {
                        let seed = global.secret().wrapping_add(offset);
                        let cut_from = cut_from.clone();
                        cases.push(Case { problem, cut_from, class: class.to_owned(), seed, depth });
                    }
                }
            }
        }
        cases
    }
}

/// Every preset of every family, or those that were named.
fn subjects<'c>(
    op: Attention,
    options: &CheckOptions,
    catalog: &'c Catalog,
) -> Result<Vec<CheckSubject<'c>>, CommandError> {
    let mut families: Vec<&Family> = Vec::new();
    if options.families.is_empty() {
        for entry in catalog.entries().iter().filter(|entry| entry.op == op.name()) {
            families.push(entry.family.as_ref().map_err(|error| CommandError::usage(error.to_string()))?);
        }
    }
    for name in &options.families {
        families.push(catalog.family(name)?);
    }
    let mut subjects = Vec::new();
    for family in families {
        if options.preset.is_empty() && !options.set.is_empty() {
            subjects.push(CheckSubject { family, preset: None, knobs: options.set.clone() });
            continue;
        }
        let has = |name: &&String| family.has_preset(name);
        let named: Vec<&String> = options.preset.iter().filter(has).collect();
        let presets: Vec<String> = match named.as_slice() {
            [] if options.preset.is_empty() => family.presets.iter().map(|it| it.name.clone()).collect(),
            some => some.iter().map(|name| (*name).clone()).collect(),
        };
        for preset in presets {
            subjects.push(CheckSubject { family, preset: Some(preset), knobs: options.set.clone() });
        }
    }
    // A preset may belong to one of several families; one that belongs to none is a mistake.
    for name in &options.preset {
        if !subjects.iter().any(|subject| subject.preset.as_ref() == Some(name)) {
            return Err(workbench::no_preset(name, catalog));
        }
    }
    Ok(subjects)
}

/// What was asked for by name must be possible; what a sweep leaves out is only counted.
fn refuse_what_was_asked_for(
    op: Attention,
    options: &CheckOptions,
    plan: &CheckPlan<'_, attention::Problem>,
    extent: &PlanSize,
) -> Result<(), CommandError> {
    // A kernel named by its preset or knobs must take every problem named; of a family, one preset must.
    let exact = !options.preset.is_empty() || !options.set.is_empty();
    let subjects: Vec<&CheckSubject<'_>> = plan.groups.iter().flat_map(|group| &group.subjects).collect();
    for name in &options.problem {
        for problem in op.problems(name)? {
            let refusal = |subject: &&CheckSubject<'_>| subject.candidate(&op, &problem, &plan.device).err();
            if exact {
                subjects.iter().find_map(refusal).map_or(Ok(()), Err)?;
            }
            for family in &options.families {
                let own = subjects.iter().filter(|subject| subject.family.name == *family);
                let refusals: Vec<Option<Refusal>> = own.map(refusal).collect();
                if let Some(Some(first)) = refusals.iter().find(|_| refusals.iter().all(Option::is_some)) {
                    return Err(first.clone().into());
                }
            }
        }
    }
    if extent.verdicts == 0 {
        let reasons: Vec<String> = extent.refusals.keys().cloned().collect();
        return Err(CommandError::usage(reasons.join("; "))
            .hint("`warpsmith kernels` shows what each family supports"));
    }
    Ok(())
}

/// Where devices to check on come from.
enum Devices {
    Virtual { chip: &'static Chip, checks: Checks },
    Lent(Arc<DevicePool>),
}

impl Devices {
    fn one(&self, lease: Lease) -> Result<Box<dyn CheckDevice>, String> {
        match self {
            Devices::Virtual { chip, checks } => {
                let mut device = VirtualDevice::new(chip);
                device.options.checks = *checks;
                device.options.threads = 1;
                Ok(Box::new(device))
            }
            Devices::Lent(pool) => Ok(Box::new(pool.lend(lease).map_err(|error| error.to_string())?)),
        }
    }
}

#[derive(Serialize)]
struct Run<'a> {
    device: String,
    target: Target,
    sanitized: bool,
    complete: bool,
    seconds: f64,
    #[serde(flatten)]
    extent: &'a PlanSize,
    #[serde(rename = "cases")]
    verdicts: &'a [CaseResult],
}

impl Run<'_> {
    fn print(&self, options: &CheckOptions, global: &Global, catalog: &Catalog, printer: &Printer) {
        let table = if self.verdicts.len() <= LINES { lines(self.verdicts) } else { summary(self.verdicts) };
        printer.data(&table);
        let wrong: Vec<&CaseResult> = self.verdicts.iter().filter(|verdict| !verdict.passed()).collect();
        for verdict in &wrong {
            printer.data(&format!("\n{}", failure(verdict, options, global, catalog)));
        }
        let cut = self.verdicts.iter().filter(|verdict| !verdict.cut_from.is_empty()).count();
        if cut > 0 {
            let words = format!(
                "{cut} runs on problems cut to size: fewer heads, then fewer queries, every key (--full-size: whole)"
            );
            printer.data(&styled(FAINT, words));
        }
        for note in self.notes() {
            printer.data(&format!("note: {note}"));
        }
        if let Some(words) = self.compared() {
            printer.data(&styled(FAINT, words));
        }
        let left_out: usize = self.extent.refusals.values().sum();
        if left_out > 0 {
            let words =
                format!("{left_out} combinations are not supported and were not run (--json lists them)");
            printer.data(&styled(FAINT, words));
        }
        let under = if self.sanitized { ", under all checkers" } else { "" };
        let total = self.verdicts.len();
        let (count, device, seconds) = (wrong.len(), &self.device, self.seconds);
        if !self.complete {
            let missing = self.extent.verdicts - total;
            printer.data(&styled(
                BAD,
                format!("stopped: {missing} of {} runs were not done", self.extent.verdicts),
            ));
        }
        printer.data(&if count == 0 {
            styled(GOOD, format!("{total} of {total} runs are right on {device}{under}, in {seconds:.0} s"))
        } else {
            styled(BAD, format!("{count} of {total} runs are wrong on {device}{under}, in {seconds:.0} s"))
        });
    }
}

impl Run<'_> {
    /// What a reader should know of the kernels, each once.
    fn notes(&self) -> indexmap::IndexSet<String> {
        let of = |verdict: &CaseResult| {
            let CaseResult { family, notes, .. } = verdict;
            notes.iter().map(|note| format!("{family}: {note}")).collect::<Vec<_>>()
        };
        self.verdicts.iter().flat_map(of).collect()
    }

    /// How much was launched and compared.
    fn compared(&self) -> Option<String> {
        let launches: usize = self.verdicts.iter().map(|verdict| verdict.launches).sum();
        let judgements = self.verdicts.iter().filter_map(CaseResult::judgement);
        let shares =
            judgements.filter(|it| it.is_sampled()).map(|it| it.compared as f64 / it.elements as f64);
        let shares: Vec<f64> = shares.collect();
        let least = shares.iter().copied().reduce(f64::min);
        (launches > 0).then(|| match least {
            None => format!("{launches} launches judged, every element compared"),
            Some(least) => format!(
                "{launches} launches judged; {} runs on large problems compared {:.1}% of the elements or more, other \
                 rows for every launch",
                shares.len(),
                100.0 * least
            ),
        })
    }
}

/// `wmma stage-2 on b1h2s17d64-fp16, normal, seed 1`
fn title(verdict: &CaseResult) -> String {
    let CaseResult { family, kernel, problem, class, seed, .. } = verdict;
    format!("{family} {kernel} on {problem}, {class}, seed {seed}")
}

/// A line per verdict.
fn lines(verdicts: &[CaseResult]) -> String {
    let mut table = new_table(&["kernel", "problem", "class", "seed", "error", "limit", "quantisation", ""]);
    for verdict in verdicts {
        let CaseResult { family, kernel, problem, class, seed, .. } = verdict;
        let mut row = vec![format!("{family} {kernel}"), problem.clone(), class.clone(), seed.to_string()];
        row.extend(match verdict.judgement() {
            Some(judgement) => [
                format!("{:.1e}", judgement.error),
                format!("{:.1e}", judgement.limit),
                judgement.quantisation.map_or_else(String::new, |error| format!("{error:.1e}")),
            ],
            None => [const { String::new() }; 3],
        });
        row.push(if verdict.passed() { styled(GOOD, "right") } else { styled(BAD, "wrong") });
        table.add_row(row);
    }
    trimmed(&table)
}

/// A line per kernel.
fn summary(verdicts: &[CaseResult]) -> String {
    let mut kernels: indexmap::IndexMap<(&str, &str), Vec<&CaseResult>> = indexmap::IndexMap::new();
    for verdict in verdicts {
        kernels.entry((&verdict.family, &verdict.kernel)).or_default().push(verdict);
    }
    let mut table = new_table(&["kernel", "runs", "right", "largest error", "of its limit", "at"]);
    for ((family, kernel), verdicts) in kernels {
        let right = verdicts.iter().filter(|verdict| verdict.passed()).count();
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
        let mut row = vec![format!("{family} {kernel}"), verdicts.len().to_string(), right.to_string()];
        if let Some((judgement, verdict)) = closest {
            row.push(format!("{:.1e}", judgement.error));
            row.push(format!("{:.0}%", 100.0 * share(judgement)));
            row.push(format!("{} {}", verdict.problem, verdict.class));
        }
        table.add_row(row);
    }
    trimmed(&table)
}

fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(header);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        let number = !matches!(header[index], "kernel" | "problem" | "class" | "at" | "");
        column.set_cell_alignment(if number { CellAlignment::Right } else { CellAlignment::Left });
    }
    table
}

fn trimmed(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Everything about a wrong verdict, and how to repeat it.
fn failure(verdict: &CaseResult, options: &CheckOptions, global: &Global, catalog: &Catalog) -> String {
    const FINDINGS: usize = 3;
    let mut text = format!("{}: {}\n", styled(BAD, "wrong"), styled(STRONG, title(verdict)));
    match &verdict.outcome {
        CaseOutcome::Passed { .. } => {}
        CaseOutcome::Broken { reason } => text += &format!("  [broken] {reason}\n"),
        CaseOutcome::Failed { complaints, .. } => {
            // Findings are shown with their source below.
            let is_finding = |kind: &str| verdict.findings.iter().any(|it| it.kind.to_string() == kind);
            for complaint in complaints.iter().filter(|complaint| !is_finding(&complaint.kind)) {
                text += &format!("  [{}] {}\n", complaint.kind, complaint.message);
            }
        }
    }
    let family = catalog.family(&verdict.family).ok();
    let sources = |name: &str| family.and_then(|family| family.text_of(name)).map(str::to_owned);
    for finding in verdict.findings.iter().take(FINDINGS) {
        text += &format!("{}\n", findings::render(finding, &sources));
    }
    if verdict.findings.len() > FINDINGS {
        text += &format!("  and {} more findings (--json lists them)\n", verdict.findings.len() - FINDINGS);
    }
    if let Some(picture) = &verdict.picture {
        for line in picture.text.lines() {
            text += &format!("  {line}\n");
        }
    }
    text + &format!("  repeat: {}", repeat(verdict, options, global))
}

/// The command that does exactly this again.
fn repeat(verdict: &CaseResult, options: &CheckOptions, global: &Global) -> String {
    let mut words = vec!["warpsmith check".to_owned()];
    let is_flag = verdict.family.starts_with('-');
    words.extend((!is_flag).then(|| quote::word(&verdict.family)));
    words.extend(verdict.preset.iter().map(|preset| quote::flag("--preset", preset)));
    words.extend(verdict.knobs.iter().map(|(name, value)| quote::flag("--set", format!("{name}={value}"))));
    words.push(quote::flag("--problem", &verdict.problem));
    words.push(quote::flag("--class", &verdict.class));
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
    words.extend(global.kernels.iter().map(|folder| quote::flag("--kernels", folder)));
    words.extend(is_flag.then(|| format!("-- {}", quote::word(&verdict.family))));
    words.join(" ")
}

fn save_pictures(folder: &Path, verdicts: &[CaseResult], printer: &Printer) -> Result<(), CommandError> {
    let failed =
        |error: std::io::Error| CommandError::usage(format!("cannot write to {}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    for verdict in verdicts {
        if let Some(picture) = &verdict.picture {
            let CaseResult { family, kernel, problem, class, seed, .. } = verdict;
            let name = format!("{family}-{kernel}-{problem}-{class}-{seed}.svg").replace(['+', '='], "_");
            let name = gpu::paths::file_name(&name);
            fs::write(folder.join(&name), &picture.svg).map_err(failed)?;
            printer.message(&format!("wrote {}", folder.join(&name).display()));
        }
    }
    Ok(())
}
