//! `build`: compiles candidates and says what they need and how they fit.

use std::path::Path;

use attention::{Attention, Problem};
use chips::{CHIPS, Chip, DoesNotFit, Occupancy, Resources, Target};
use comfy_table::{CellAlignment, Table, presets::NOTHING};
use family::tuned::is_tuned;
use family::{Candidate, Catalog, Family, SettingError};
use gpu::build::{BuildError, BuildOutcome, Compiler, Entry, Request};
use gpu::device::Device;
use gpu::toolchain;
use op::tuned;
use serde::Serialize;

use crate::cli::{BuildOptions, Global};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{BAD, FAINT, GOOD, Printer, STRONG, WARN, styled};
use crate::progress::{self, Installation};
use crate::snippet;

/// One thing to build. What the manifest refuses is planned too: it is a row with its reason.
struct Job<'a> {
    family: &'a Family,
    candidate: Candidate,
    target: Target,
    request: Result<Request, SettingError>,
}

/// What became of a job.
#[derive(Serialize)]
struct Row {
    family: String,
    /// The preset with what was changed of it.
    setting: String,
    knobs: indexmap::IndexMap<String, family::Value>,
    axes: indexmap::IndexMap<String, family::Value>,
    target: Target,
    #[serde(flatten)]
    result: RowResult,
}

#[derive(Serialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
enum RowResult {
    Built(Built),
    /// The manifest, or the GPU, does not allow it: nothing was compiled.
    Refused {
        reason: String,
    },
    Failed {
        reason: String,
        diagnostics: Vec<gpu::build::Diagnostic>,
    },
}

#[derive(Serialize)]
struct Built {
    build: String,
    code: String,
    cached: bool,
    /// How long this took now, and how long the compiler took when it ran.
    elapsed_ms: f64,
    compile_ms: f64,
    #[serde(flatten)]
    entry: Entry,
    threads_per_block: u32,
    dynamic_shared_bytes: u64,
    occupancy: Vec<OnChip>,
    /// Resources above the family's own limits.
    over_limits: Vec<String>,
    warnings: Vec<gpu::build::Diagnostic>,
}

/// Occupancy on one GPU of the table, or on any GPU of the target where the table has none.
#[derive(Serialize)]
struct OnChip {
    gpu: String,
    #[serde(flatten)]
    fit: Fit,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Fit {
    Fits(Occupancy),
    No(DoesNotFit),
}

pub fn run(options: &BuildOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    let catalog = Catalog::load(global.kernels.as_deref())?;
    let archs = options
        .arch
        .iter()
        .map(|name| name.parse::<Target>().map_err(|error| unknown_target(name, &error)))
        .collect::<Result<Vec<_>, _>>()?;
    let (jobs, broken) = if options.all {
        plan_all(options, &archs, &catalog)?
    } else {
        (plan_one(options, global, archs, &catalog, printer)?, Vec::new())
    };

    let compiler = compiler(global, printer)?;
    let rows = execute(&jobs, &compiler, options, printer)?;
    if printer.is_json() {
        #[derive(Serialize)]
        struct Document<'a> {
            compiler: &'a str,
            builds: &'a [Row],
            broken_families: &'a [String],
        }
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
    Ok(if all_built && broken.is_empty() { Exit::Holds } else { Exit::Finding })
}

pub fn unknown_target(name: &str, error: &chips::UnknownTarget) -> CommandError {
    let near = family::nearest(name, Target::ALL.iter().map(|target| target.name()));
    let failure = CommandError::usage(error.to_string());
    match near {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure,
    }
}

/// The compiler, installed first where there is none.
pub fn compiler(global: &Global, printer: &Printer) -> Result<Compiler, CommandError> {
    let mut drawing = Installation::new(printer);
    let toolchain = toolchain::ensure(global.cuda.as_deref(), &mut |progress| drawing.show(progress))?;
    let warn = |text: &str| Printer::default().message(&format!("{}: {text}", styled(WARN, "warning")));
    Ok(Compiler::new(toolchain, &gpu::paths::cache_dir())?.warn_with(warn))
}

/// One candidate, for the named targets or the device's. Any mistake in it is the user's, so it ends here.
fn plan_one<'a>(
    options: &BuildOptions,
    global: &Global,
    archs: Vec<Target>,
    catalog: &'a Catalog,
    printer: &Printer,
) -> Result<Vec<Job<'a>>, CommandError> {
    let name = options.family.as_deref().unwrap_or_default();
    let family = catalog.family(name)?;
    let device = || super::device(global);
    let preset = options.preset.as_deref();
    let candidate = match &options.problem {
        Some(problem) => candidate_for(family, problem, options, &device()?, printer)?,
        None if preset.is_some_and(is_tuned) => {
            return Err(CommandError::usage("`tuned` has a setting for each problem, and none is named")
                .hint("add --problem NAME; `warpsmith kernels FAMILY` lists the picks"));
        }
        None => family.candidate(preset, &options.set, &options.axis)?,
    };
    let targets = if archs.is_empty() { vec![device()?.target()] } else { archs };
    targets
        .into_iter()
        .map(|target| {
            let request = Ok(family.request(&candidate, target)?);
            Ok(Job { family, candidate: candidate.clone(), target, request })
        })
        .collect()
}

/// The candidate for a problem, which has the compile-time axes; and `tuned` goes by it.
fn candidate_for(
    family: &Family,
    problem: &str,
    options: &BuildOptions,
    device: &Device,
    printer: &Printer,
) -> Result<Candidate, CommandError> {
    let problem: Problem = problem.parse().map_err(op::Refusal::from)?;
    let preset = options.preset.as_deref();
    if preset.is_some_and(is_tuned) {
        super::tuned::look_up(&[family], (&[problem], &[]), device, printer)?;
    }
    Ok(tuned::candidate(&Attention, family, preset, &options.set, (&problem, device))?)
}

/// Every preset for every target. Families whose manifest is wrong come back by their message.
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
                    // With every value of every axis, a combination a preset's constraints exclude is no mistake.
                    Err(SettingError::Constraint { .. }) if options.every_axis => continue,
                    Err(error) => return Err(error.into()),
                };
                for &target in
                    family.targets.iter().filter(|target| archs.is_empty() || archs.contains(target))
                {
                    let request = family.request(&candidate, target);
                    if options.every_axis && matches!(request, Err(SettingError::Constraint { .. })) {
                        continue;
                    }
                    jobs.push(Job { family, candidate: candidate.clone(), target, request });
                }
            }
        }
    }
    if jobs.is_empty() && broken.is_empty() {
        return Err(CommandError::usage("no family is made for these targets"));
    }
    Ok((jobs, broken))
}

/// Compiles what is to be compiled, in parallel, and makes a row of every job.
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
                None => continue, // `build_many` answers every request; there is none left over.
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

/// A kernel that does not compile is a row; a compiler that does not work ends the command.
fn failed(error: BuildError) -> Result<RowResult, CommandError> {
    let reason = error.to_string();
    match error {
        BuildError::Source { diagnostics, .. } => Ok(RowResult::Failed { reason, diagnostics }),
        BuildError::NoKernel { .. } => Ok(RowResult::Failed { reason, diagnostics: Vec::new() }),
        other => Err(other.into()),
    }
}

fn built(job: &Job, outcome: BuildOutcome) -> Result<Built, CommandError> {
    let build = outcome.build;
    let entry = build.entry(&job.family.entry).cloned().ok_or_else(|| CommandError {
        exit: Exit::Finding,
        message: format!(
            "{} compiled, but not to a kernel called {}",
            job.family.full_name(),
            job.family.entry
        ),
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

fn over_limits(family: &Family, entry: &Entry) -> Vec<String> {
    let spills = entry.spill_store_bytes + entry.spill_load_bytes;
    let over = |what: &str, has: u32, limit: Option<u32>| {
        limit.filter(|&limit| has > limit).map(|limit| format!("{has} {what}, {limit} allowed"))
    };
    [
        over("registers", entry.registers, family.limits.registers),
        over("bytes of spills", spills, family.limits.spill_bytes),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// On the GPUs of that very compute capability; where the table has none, on those that can run the target.
fn occupancy(target: Target, resources: &Resources) -> Vec<OnChip> {
    let exact = |chip: &&Chip| chip.target.compute_capability() == target.compute_capability();
    let mut on: Vec<&Chip> = CHIPS.iter().filter(exact).collect();
    if on.is_empty() {
        on = CHIPS.iter().filter(|chip| chip.runs(target)).collect();
    }
    on.into_iter()
        .map(|chip| OnChip {
            gpu: chip.name.to_owned(),
            fit: match chip.occupancy(resources) {
                Ok(occupancy) => Fit::Fits(occupancy),
                Err(misfit) => Fit::No(misfit),
            },
        })
        .collect()
}

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
    let stem = gpu::paths::file_name(&parts.join("-"));
    let generated = request.source.headers.iter().find(|(name, _)| name == "generated.cuh");
    let files = [
        (format!("{stem}.ptx"), outcome.build.ptx.as_bytes()),
        (format!("{stem}.cubin"), outcome.build.cubin.as_slice()),
        (format!("{stem}.cuh"), generated.map_or(&[][..], |(_, text)| text.as_bytes())),
    ];
    for (name, bytes) in files {
        let path = folder.join(name);
        gpu::paths::write_atomically(&path, bytes)
            .map_err(|error| CommandError::usage(format!("cannot write {}: {error}", path.display())))?;
        printer.message(&format!("wrote {}", path.display()));
    }
    Ok(())
}

// ---- Words ----

/// `27,904`
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

/// The report on one build; nothing for one that failed, which is explained on stderr.
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
    let how = if built.cached {
        format!(
            "{} in {}; the compile it saved took {}",
            styled(GOOD, "cache hit"),
            time(built.elapsed_ms),
            time(built.compile_ms)
        )
    } else {
        format!("compiled in {}", time(built.compile_ms))
    };
    line("time", how);
    Some(lines.join("\n"))
}

fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header([
        "family",
        "preset",
        "target",
        "regs",
        "shared B",
        "spills",
        "occupancy",
        "limited by",
        "time",
        "status",
    ]);
    for index in [4, 5, 9] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in rows {
        let axes: Vec<String> = row.axes.values().map(ToString::to_string).collect();
        let mut cells = vec![row.family.clone(), row.setting.clone(), axes.join(" "), row.target.to_string()];
        match &row.result {
            RowResult::Built(built) => {
                let shared = built.dynamic_shared_bytes + u64::from(built.entry.static_shared_bytes);
                cells.extend([built.entry.registers.to_string(), thousands(shared), spills(&built.entry)]);
                cells.extend(match built.occupancy.first() {
                    Some(OnChip { gpu, fit: Fit::Fits(occupancy) }) => {
                        let limiters: Vec<&str> =
                            occupancy.limiters.iter().map(|limiter| limiter.name()).collect();
                        [format!("{:.0}% on {gpu}", occupancy.fraction * 100.0), limiters.join(", ")]
                    }
                    Some(OnChip { gpu, .. }) => [format!("does not fit {gpu}"), String::new()],
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
        table.add_row(cells);
    }
    table.trim_fmt()
}

/// No numbers, then the status: what was not built has none.
fn empty_cells(status: &str) -> Vec<String> {
    let mut cells = vec!["-".to_owned(); 6];
    cells.push(status.to_owned());
    cells
}

/// What went wrong, on stderr: each distinct message once.
fn explain(rows: &[Row], broken: &[String], printer: &Printer) {
    let mut said = std::collections::HashSet::new();
    let mut say = |text: String| {
        if said.insert(text.clone()) {
            printer.message(&text);
        }
    };
    let error = styled(BAD, "error");
    for row in rows {
        match &row.result {
            RowResult::Built(built) => {
                for warning in &built.warnings {
                    say(snippet::diagnostic(warning));
                }
                for over in &built.over_limits {
                    let place = format!("{} {} for {}", row.family, setting(row), row.target);
                    say(format!("{}: {place}: {over}", styled(WARN, "over limits")));
                }
            }
            RowResult::Refused { reason } => {
                say(format!("{error}: {} for {} refused: {reason}", setting(row), row.target));
            }
            RowResult::Failed { reason, diagnostics } => {
                for diagnostic in diagnostics {
                    say(snippet::diagnostic(diagnostic));
                }
                say(format!("{error}: {reason}"));
            }
        }
    }
    for message in broken {
        say(format!("{error}: {message}"));
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
