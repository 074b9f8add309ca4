//! `build`: compiles candidates and shows their resources and occupancy.

use std::path::Path;

use chips::{CHIPS, Chip, DoesNotFit, Occupancy, Resources, Target};
use compiler::{BuildError, BuildOutcome, Compiler, Entry, Request};
use family::tuned_table::is_tuned;
use family::{Candidate, Catalog, Family, SettingError};
use gpu::device::Device;
use op::dispatch;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{BuildOptions, Global};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ops;
use crate::printer::{BAD, FAINT, GOOD, Printer, STRONG, WARN, styled};
use crate::progress;
use crate::snippet;
use crate::tables::Table;

/// One candidate to build for one target. A candidate that the manifest refuses is a job too: its row shows the reason.
#[derive(Clone)]
struct Job<'a> {
    family: &'a Family,
    candidate: Candidate,
    target: Target,
    request: Result<Request, SettingError>,
}

#[derive(JsonSchema, Serialize)]
pub struct Document<'a> {
    compiler: &'a str,
    builds: &'a [Row],
    broken_families: &'a [String],
}

/// The result of a job.
#[derive(JsonSchema, Serialize)]
struct Row {
    family: String,
    /// The preset and the knobs that differ from it.
    setting: String,
    knobs: indexmap::IndexMap<String, family::Value>,
    axes: indexmap::IndexMap<String, family::Value>,
    target: Target,
    #[serde(flatten)]
    result: RowResult,
}

#[derive(JsonSchema, Serialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
enum RowResult {
    Built(Built),
    /// The manifest or the target does not allow it; nothing was compiled.
    Refused {
        reason: String,
    },
    /// The compiler reported errors.
    Failed {
        reason: String,
        diagnostics: Vec<compiler::Diagnostic>,
    },
}

#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct Built {
    build: String,
    code: String,
    cached: bool,
    /// The time that this build took.
    elapsed_ms: f64,
    /// The time that the compiler took; for a cached build, when it ran.
    compile_ms: f64,
    #[serde(flatten)]
    entry: Entry,
    threads_per_block: u32,
    dynamic_shared_bytes: u64,
    occupancy: Vec<ChipOccupancy>,
    /// The resources that exceed the family's limits.
    over_limits: Vec<String>,
    warnings: Vec<compiler::Diagnostic>,
}

/// The occupancy on one GPU.
#[derive(JsonSchema, Serialize)]
struct ChipOccupancy {
    gpu: String,
    #[serde(flatten)]
    fit: Fit,
}

#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
enum Fit {
    Fits(Occupancy),
    No(DoesNotFit),
}

/// Builds one candidate, or with `--all` every preset.
pub fn run(options: &BuildOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    let catalog = global.catalog()?;
    let archs = options
        .arch
        .iter()
        .map(|name| name.parse::<Target>().map_err(|error| unknown_target(name, &error)))
        .collect::<Result<Vec<_>, _>>()?;
    let (jobs, broken) = if options.all {
        plan_all(options, &archs, &catalog)?
    } else {
        (plan_named(options, global, &archs, &catalog, printer)?, Vec::new())
    };

    let compiler = super::compiler(global, printer)?;
    let rows = execute(&jobs, &compiler, options, printer)?;
    if printer.is_json() {
        printer.json(
            "build",
            &Document { compiler: compiler.identity(), builds: &rows, broken_families: &broken },
        );
    } else if options.all {
        printer.data(&table(&rows));
    } else {
        let details: Vec<String> = rows.iter().filter_map(detail).collect();
        if !details.is_empty() {
            printer.data(&details.join("\n\n"));
        }
    }
    explain(&rows, &broken, printer);
    let all_built =
        rows.iter().all(|row| matches!(&row.result, RowResult::Built(built) if built.over_limits.is_empty()));
    Ok(if all_built && broken.is_empty() { Exit::Success } else { Exit::ProblemFound })
}

/// The error for a target that does not exist.
pub fn unknown_target(name: &str, error: &chips::UnknownTarget) -> CommandError {
    let near = family::nearest(name, Target::ALL.iter().map(|target| target.name()));
    let failure = CommandError::usage(error.to_string());
    match near {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure,
    }
}

/// The jobs for the named family, or for those families of the named op that have the preset.
fn plan_named<'a>(
    options: &BuildOptions,
    global: &Global,
    archs: &[Target],
    catalog: &'a Catalog,
    printer: &Printer,
) -> Result<Vec<Job<'a>>, CommandError> {
    let name = options.family.clone().unwrap_or_default();
    if !ops::names(catalog).contains(&name) {
        return plan_one(catalog.family(&name)?, options, global, (archs, catalog), printer);
    }
    let op = ops::named(&name, catalog)?;
    let mut families = ops::families(&*op, catalog)?;
    let target = if archs.is_empty() { vec![super::device(global)?.target()] } else { archs.to_vec() };
    families.retain(|family| target.iter().all(|target| family.targets.contains(target)));
    if let Some(preset) = &options.preset {
        let all = families.clone();
        families.retain(|family| family.has_preset(preset));
        if families.is_empty() {
            return Err(super::workbench::unknown_preset(preset, &all, catalog));
        }
    }
    let jobs = families.iter().map(|family| plan_one(family, options, global, (archs, catalog), printer));
    Ok(jobs.collect::<Result<Vec<_>, _>>()?.concat())
}

/// The jobs for one candidate: the named targets, or the device's target. An invalid candidate is a usage error.
fn plan_one<'a>(
    family: &'a Family,
    options: &BuildOptions,
    global: &Global,
    (archs, catalog): (&[Target], &Catalog),
    printer: &Printer,
) -> Result<Vec<Job<'a>>, CommandError> {
    let device = || super::device(global);
    let preset = options.preset.as_deref();
    let candidate = match &options.problem {
        Some(problem) => candidate_for(family, problem, options, (&device()?, catalog), printer)?,
        None if preset.is_some_and(is_tuned) => {
            return Err(CommandError::usage("`--preset tuned` needs a problem")
                .hint("add --problem NAME; `warpsmith kernels FAMILY` lists the tuned picks"));
        }
        None => family.candidate(preset, &options.knobs.set, &options.axis)?,
    };
    let targets = if archs.is_empty() { vec![device()?.target()] } else { archs.to_vec() };
    targets
        .into_iter()
        .map(|target| {
            let request = Ok(family.request(&candidate, target)?);
            Ok(Job { family, candidate: candidate.clone(), target, request })
        })
        .collect()
}

/// The candidate for a problem. The problem sets the compile-time axes and selects the `tuned` pick.
fn candidate_for(
    family: &Family,
    problem: &str,
    options: &BuildOptions,
    (device, catalog): (&Device, &Catalog),
    printer: &Printer,
) -> Result<Candidate, CommandError> {
    let op = &*ops::named(&family.op, catalog)?;
    let problem = ops::problem(op, problem)?;
    let preset = options.preset.as_deref();
    if preset.is_some_and(is_tuned) {
        super::tuned_preset::look_up(op, &[family], (std::slice::from_ref(&problem), &[]), device, printer)?;
    }
    Ok(dispatch::candidate(op, family, preset, &options.knobs.set, (&problem, device))?)
}

/// The jobs for every preset and every target, and the errors of families whose manifest is invalid.
fn plan_all<'a>(
    options: &BuildOptions,
    archs: &[Target],
    catalog: &'a Catalog,
) -> Result<(Vec<Job<'a>>, Vec<String>), CommandError> {
    let mut broken = Vec::new();
    let mut families = Vec::new();
    if let Some(name) = &options.family {
        families.push(catalog.family(name)?);
    } else {
        for entry in catalog.entries() {
            match &entry.family {
                Ok(family) => families.push(family),
                Err(error) => broken.push(error.to_string()),
            }
        }
    }
    let mut jobs = Vec::new();
    for family in families {
        let settings = if options.every_axis { family.axis_settings() } else { vec![options.axis.clone()] };
        for preset in &family.presets {
            for axes in &settings {
                let candidate = match family.candidate(Some(&preset.name), &[], axes) {
                    Ok(candidate) => candidate,
                    // With --every-axis, a combination that a preset's constraints exclude is not an error.
                    Err(SettingError::Constraint { .. }) if options.every_axis => continue,
                    Err(error) => return Err(error.into()),
                };
                for &target in
                    family.targets.iter().filter(|target| archs.is_empty() || archs.contains(target))
                {
                    let request = family.request(&candidate, target);
                    // The preset is valid, but not on this target.
                    if matches!(request, Err(SettingError::Constraint { .. })) {
                        continue;
                    }
                    jobs.push(Job { family, candidate: candidate.clone(), target, request });
                }
            }
        }
    }
    if jobs.is_empty() && broken.is_empty() {
        return Err(CommandError::usage("no family supports these targets"));
    }
    Ok((jobs, broken))
}

/// Compiles the jobs in parallel and returns one row per job.
fn execute(
    jobs: &[Job],
    compiler: &Compiler,
    options: &BuildOptions,
    printer: &Printer,
) -> Result<Vec<Row>, CommandError> {
    let requests: Vec<Request> = jobs.iter().filter_map(|job| job.request.as_ref().ok().cloned()).collect();
    let threads = options
        .jobs
        .map_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get), usize::from);
    let bar = progress::counting(requests.len() as u64, "compiling");
    let outcomes = compiler.build_many(&requests, threads, &|_, _| bar.inc(1));
    bar.finish_and_clear();

    let mut outcomes = requests.iter().zip(outcomes);
    let mut rows = Vec::new();
    for job in jobs {
        let result = match &job.request {
            Err(error) => RowResult::Refused { reason: error.to_string() },
            Ok(_) => match outcomes.next() {
                Some((request, Ok(outcome))) => {
                    if let Some(folder) = &options.emit {
                        emit(folder, job, request, &outcome, printer)?;
                    }
                    RowResult::Built(built(job, outcome)?)
                }
                Some((_, Err(error))) => failed(error)?,
                None => continue, // Unreachable: `build_many` returns an outcome for every request.
            },
        };
        rows.push(Row {
            family: job.family.full_name(),
            setting: job.candidate.label(job.family),
            knobs: job.candidate.knobs.clone(),
            axes: job.candidate.axes.clone(),
            target: job.target,
            result,
        });
    }
    Ok(rows)
}

/// The result of a kernel that does not compile. An error of the compiler itself ends the command.
fn failed(error: BuildError) -> Result<RowResult, CommandError> {
    let reason = error.to_string();
    match error {
        BuildError::Source { diagnostics, .. } => Ok(RowResult::Failed { reason, diagnostics }),
        BuildError::NoKernel { .. } | BuildError::Process { .. } => {
            Ok(RowResult::Failed { reason, diagnostics: Vec::new() })
        }
        other => Err(other.into()),
    }
}

/// The resources and occupancy of a build.
fn built(job: &Job, outcome: BuildOutcome) -> Result<Built, CommandError> {
    let build = outcome.build;
    let entry = build.entry(&job.family.entry).cloned().ok_or_else(|| CommandError {
        exit: Exit::ProblemFound,
        message: format!("{} compiled, but has no kernel `{}`", job.family.full_name(), job.family.entry),
        hint: None,
    })?;
    let threads = job.family.block(&job.candidate)?.iter().product();
    let dynamic = job.family.layout(&job.candidate)?.total_bytes;
    let resources = Resources {
        registers_per_thread: entry.registers,
        static_shared_bytes: entry.static_shared_bytes,
        dynamic_shared_bytes: u32::try_from(dynamic).unwrap_or(u32::MAX),
        threads_per_block: threads,
        barriers: entry.barriers,
    };
    Ok(Built {
        over_limits: over_limits(job.family, &entry),
        occupancy: occupancy(job.target, &resources),
        build: build.hash,
        code: build.code_hash,
        cached: outcome.cached,
        elapsed_ms: outcome.elapsed_ms,
        compile_ms: build.compile_ms,
        entry,
        threads_per_block: threads,
        dynamic_shared_bytes: dynamic,
        warnings: build.warnings,
    })
}

/// A message for each resource that exceeds the family's limits.
fn over_limits(family: &Family, entry: &Entry) -> Vec<String> {
    let spills = entry.spill_store_bytes + entry.spill_load_bytes;
    let over = |what: &str, has: u32, limit: Option<u32>| {
        limit.filter(|&limit| has > limit).map(|limit| format!("{has} {what}, {limit} allowed"))
    };
    [
        over("registers", entry.registers, family.limits.registers),
        over("bytes of spills", spills, family.limits.spill_bytes),
        over("reasons to serialise wgmma", entry.serialised_wgmma, family.limits.serialised_wgmma),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The occupancy on the known GPUs with the target's compute capability, or if there are none, on those that can run
/// the target.
fn occupancy(target: Target, resources: &Resources) -> Vec<ChipOccupancy> {
    let is_exact = |chip: &&Chip| chip.target.compute_capability() == target.compute_capability();
    let mut chips: Vec<&Chip> = CHIPS.iter().filter(is_exact).collect();
    if chips.is_empty() {
        chips = CHIPS.iter().filter(|chip| chip.runs(target)).collect();
    }
    chips
        .into_iter()
        .map(|chip| ChipOccupancy {
            gpu: chip.name.to_owned(),
            fit: match chip.occupancy(resources) {
                Ok(occupancy) => Fit::Fits(occupancy),
                Err(misfit) => Fit::No(misfit),
            },
        })
        .collect()
}

/// Writes the PTX, the cubin and the generated header of a build.
fn emit(
    folder: &Path,
    job: &Job,
    request: &Request,
    outcome: &BuildOutcome,
    printer: &Printer,
) -> Result<(), CommandError> {
    let setting: Vec<String> = job.candidate.axes.values().map(ToString::to_string).collect();
    let label = job.candidate.label(job.family);
    let parts = [vec![job.family.name.clone(), label], setting, vec![job.target.to_string()]].concat();
    let stem = files::file_name(&parts.join("-"));
    let generated = request.source.headers.iter().find(|(name, _)| name == "generated.cuh");
    let files = [
        (format!("{stem}.ptx"), outcome.build.ptx.as_bytes()),
        (format!("{stem}.cubin"), outcome.build.cubin.as_slice()),
        (format!("{stem}.cuh"), generated.map_or(&[][..], |(_, text)| text.as_bytes())),
    ];
    for (name, bytes) in files {
        let path = folder.join(name);
        files::write_atomically(&path, bytes)
            .map_err(|error| CommandError::usage(format!("cannot write {}: {error}", path.display())))?;
        printer.message(&format!("wrote {}", path.display()));
    }
    Ok(())
}

// ---- Text output ----

/// A number with separators: `27,904`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn time(milliseconds: f64) -> String {
    match milliseconds {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.2} s", ms / 1e3),
    }
}

fn spills(entry: &Entry) -> String {
    match (entry.spill_store_bytes, entry.spill_load_bytes) {
        (0, 0) => "none".to_owned(),
        (stores, loads) => format!("{stores} B stored, {loads} B loaded"),
    }
}

fn setting(row: &Row) -> String {
    let axes = row.axes.iter().map(|(name, value)| format!(" {name}={value}"));
    row.setting.clone() + &axes.collect::<String>()
}

/// The report on one build. `None` for a build that failed: [`explain`] reports it on stderr.
fn detail(row: &Row) -> Option<String> {
    let RowResult::Built(built) = &row.result else { return None };
    let entry = &built.entry;
    let mut lines = vec![format!("{} {} for {}", styled(STRONG, &row.family), setting(row), row.target)];
    let mut line = |label: &str, text: String| lines.push(format!("  {label:<14} {text}"));
    line("registers", entry.registers.to_string());
    let shared = built.dynamic_shared_bytes + u64::from(entry.static_shared_bytes);
    line(
        "shared memory",
        format!(
            "{} B ({} dynamic, {} static)",
            thousands(shared),
            thousands(built.dynamic_shared_bytes),
            thousands(u64::from(entry.static_shared_bytes))
        ),
    );
    line("spills", spills(entry));
    line("stack", format!("{} B", entry.stack_bytes));
    line("threads", format!("{} per block", built.threads_per_block));
    let width = built.occupancy.iter().map(|on| on.gpu.len()).max().unwrap_or(0);
    for (index, on) in built.occupancy.iter().enumerate() {
        let label = if index == 0 { "occupancy" } else { "" };
        let text = match &on.fit {
            Fit::Fits(occupancy) => occupancy.to_string(),
            Fit::No(misfit) => styled(BAD, format!("does not fit: {misfit}")),
        };
        line(label, format!("{:<width$}  {text}", on.gpu));
    }
    let knobs: Vec<String> = row.knobs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    line("knobs", knobs.join(" "));
    line("build", format!("{} (code {})", built.build, built.code));
    let time_text = if built.cached {
        format!(
            "{} in {}; the original compilation took {}",
            styled(GOOD, "cache hit"),
            time(built.elapsed_ms),
            time(built.compile_ms)
        )
    } else {
        format!("compiled in {}", time(built.compile_ms))
    };
    line("time", time_text);
    Some(lines.join("\n"))
}

fn table(rows: &[Row]) -> String {
    let titles = [
        "family",
        "preset",
        "axes",
        "target",
        "regs",
        "shared B",
        "spills",
        "occupancy",
        "limited by",
        "time",
        "status",
    ];
    let mut table = Table::new(&titles, &["regs", "shared B", "time"]);
    for row in rows {
        let axes: Vec<String> = row.axes.values().map(ToString::to_string).collect();
        let mut cells = vec![row.family.clone(), row.setting.clone(), axes.join(" "), row.target.to_string()];
        match &row.result {
            RowResult::Built(built) => {
                let shared = built.dynamic_shared_bytes + u64::from(built.entry.static_shared_bytes);
                cells.extend([built.entry.registers.to_string(), thousands(shared), spills(&built.entry)]);
                cells.extend(match built.occupancy.first() {
                    Some(ChipOccupancy { gpu, fit: Fit::Fits(occupancy) }) => {
                        let limiters: Vec<&str> =
                            occupancy.limiters.iter().map(|limiter| limiter.name()).collect();
                        [format!("{:.0}% on {gpu}", occupancy.fraction * 100.0), limiters.join(", ")]
                    }
                    Some(ChipOccupancy { gpu, .. }) => [format!("does not fit {gpu}"), String::new()],
                    None => ["unavailable".to_owned(), String::new()],
                });
                cells.push(time(if built.cached { built.elapsed_ms } else { built.compile_ms }));
                cells.push(match (built.over_limits.is_empty(), built.cached) {
                    (false, _) => "over limits".to_owned(),
                    (true, true) => "cached".to_owned(),
                    (true, false) => "built".to_owned(),
                });
            }
            RowResult::Refused { .. } => cells.extend(empty_cells("refused")),
            RowResult::Failed { .. } => cells.extend(empty_cells("failed")),
        }
        table.row(cells);
    }
    table.text()
}

/// The cells of a row that was not built: no numbers, then the status.
fn empty_cells(status: &str) -> Vec<String> {
    let mut cells = vec!["-".to_owned(); 6];
    cells.push(status.to_owned());
    cells
}

/// Prints errors and warnings to stderr, each distinct message once.
fn explain(rows: &[Row], broken: &[String], printer: &Printer) {
    let mut printed = std::collections::HashSet::new();
    // Diagnostics quote source lines, so their lines are not broken.
    let mut print_once = |text: String| {
        if printed.insert(text.clone()) {
            printer.verbatim_message(&text);
        }
    };
    let error = styled(BAD, "error");
    for row in rows {
        match &row.result {
            RowResult::Built(built) => {
                for warning in &built.warnings {
                    print_once(snippet::diagnostic(warning));
                }
                for over in &built.over_limits {
                    let place = format!("{} {} for {}", row.family, setting(row), row.target);
                    print_once(format!("{}: {place}: {over}", styled(WARN, "over limits")));
                }
            }
            RowResult::Refused { reason } => {
                print_once(format!("{error}: {} for {} refused: {reason}", setting(row), row.target));
            }
            RowResult::Failed { reason, diagnostics } => {
                for diagnostic in diagnostics {
                    print_once(snippet::diagnostic(diagnostic));
                }
                print_once(format!("{error}: {reason}"));
            }
        }
    }
    for message in broken {
        print_once(format!("{error}: {message}"));
    }
    let count = |kind: fn(&RowResult) -> bool| rows.iter().filter(|row| kind(&row.result)).count();
    let failed = count(|result| matches!(result, RowResult::Failed { .. }));
    let refused = count(|result| matches!(result, RowResult::Refused { .. }));
    if rows.len() > 1 || failed + refused + broken.len() > 0 {
        let built = rows.len() - failed - refused;
        let summary =
            format!("{built} built, {failed} failed, {refused} refused, {} broken manifests", broken.len());
        printer.message(&styled(FAINT, summary));
    }
}
