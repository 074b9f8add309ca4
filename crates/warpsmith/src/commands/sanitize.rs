//! `sanitize`: runs any CUDA kernel on the virtual GPU under its checkers.

use std::path::{Path, PathBuf};

use chips::{Chip, Occupancy, Resources, Target};
use clap::Parser as _;
use gpu::accelerator::{Accelerator, Geometry, Image, VirtualDevice};
use gpu::build::{Build, BuildError, Request, Source, standard_headers};
use gpu::device::Device;
use gpu::launch::{Dtype, Placed, PlacedBuffer, npy};
use serde::Serialize;
use vgpu::model::{self, Modelled, Shape};
use vgpu::{Checks, Counters, FidelityReport, LaunchReport, Severity};

use crate::cli::{Global, HeaderFlags, LaunchOptions, SanitizeOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{BAD, FAINT, GOOD, Printer, STRONG, styled};
use crate::{findings, snippet};

/// The maximum size of a source file or a header, in bytes.
const MAX_SOURCE: u64 = 16 << 20;

/// Runs one kernel of a source file, or of a family.
pub fn run(options: &SanitizeOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    if is_family(options, global) {
        return super::sanitize_family::run(options, global, printer);
    }
    let text = gpu::paths::read_text_bounded(&options.file, MAX_SOURCE)
        .map_err(|error| CommandError::usage(format!("cannot read {}: {error}", options.file.display())))?;
    let launch = merged(&options.launch, header(&text, &options.file)?);
    let geometry = Geometry {
        grid: launch.grid.ok_or_else(|| missing("--grid"))?.0,
        block: launch.block.ok_or_else(|| missing("--block"))?.0,
        cluster: [1; 3],
        shared_bytes: launch.shared.unwrap_or(0),
    };
    let chip = chip(global)?;
    let target = match &launch.arch {
        Some(name) => name.parse().map_err(|error| super::build::unknown_target(name, &error))?,
        None => chip.target,
    };
    let Some(build) = compile(&text, options, &launch, target, global, printer)? else {
        return Ok(Exit::ProblemFound);
    };
    let kernel = kernel_name(&launch, &build)?;

    let occupancy = occupancy(chip, &build, &kernel, geometry);
    let mut device = device(chip, options, occupancy.as_ref());
    let module = device.load(Image::Ptx(&build.ptx)).map_err(|error| {
        CommandError::missing(error.to_string())
            .hint("the virtual GPU does not support this code; nothing was run")
    })?;
    let placed =
        Placed::on(&mut device, &launch.arg).map_err(|error| CommandError::missing(error.to_string()))?;
    device.set_outputs(&placed.outputs());
    let report = device
        .run(module, &kernel, geometry, &placed.parameters)
        .map_err(|error| CommandError::usage(error.to_string()))?;
    let buffers = read_back(&placed, &mut device)?;

    let sources = Sources::new(&options.file, &text, &options.launch.include);
    let modelled = modelled(&device, &report, geometry, occupancy.as_ref());
    let fidelity = device.module(module).map(|module| &module.fidelity).filter(|_| options.fidelity);
    let run = Run {
        options,
        kernel: &kernel,
        device: device.describe(),
        report: &report,
        occupancy: occupancy.filter(|_| options.counters),
        modelled,
        fidelity,
        buffers: &buffers,
        sources: &|name| sources.text(name),
    };
    if let Some(folder) = &options.save {
        save(folder, &buffers, printer)?;
    }
    if printer.is_json() {
        run.print_json(printer)?;
    } else {
        run.print_text(printer)?;
    }
    // A launch that did not complete is a problem, even without a finding.
    Ok(if report.is_clean() && report.stats.completed { Exit::Success } else { Exit::ProblemFound })
}

// ---- The launch ----

/// The flags in the file's `// warpsmith:` comments.
fn header(text: &str, file: &Path) -> Result<LaunchOptions, CommandError> {
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("// warpsmith:"));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    HeaderFlags::try_parse_from(words).map(|flags| flags.launch).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        CommandError::usage(format!("{}: in the `// warpsmith:` lines: {first}", file.display()))
    })
}

/// The flags of the command line, completed with those of the file.
fn merged(flags: &LaunchOptions, header: LaunchOptions) -> LaunchOptions {
    LaunchOptions {
        kernel: flags.kernel.clone().or(header.kernel),
        grid: flags.grid.or(header.grid),
        block: flags.block.or(header.block),
        shared: flags.shared.or(header.shared),
        arg: if flags.arg.is_empty() { header.arg } else { flags.arg.clone() },
        arch: flags.arch.clone().or(header.arch),
        define: [header.define, flags.define.clone()].concat(),
        include: [flags.include.clone(), header.include].concat(),
    }
}

/// The error for a missing flag.
fn missing(flag: &str) -> CommandError {
    CommandError::usage(format!("{flag} is missing"))
        .hint("give it as a flag, or in the file as `// warpsmith: --grid 4 --block 256 --arg ...`")
}

/// Whether the first argument names a family: no such file exists, and a family has that name or flags for families are
/// given.
fn is_family(options: &SanitizeOptions, global: &Global) -> bool {
    let family_exists = || {
        let catalog = family::Catalog::load(global.kernels.as_deref()).ok();
        options.file.to_str().zip(catalog).is_some_and(|(name, catalog)| catalog.family(name).is_ok())
    };
    let has_family_flags = options.problem.is_some() || options.preset.is_some() || !options.set.is_empty();
    !options.file.exists() && (has_family_flags || family_exists())
}

/// A virtual GPU with the options of the command line.
pub fn device(
    chip: &'static Chip,
    options: &SanitizeOptions,
    occupancy: Option<&Occupancy>,
) -> VirtualDevice {
    let mut device = VirtualDevice::new(chip);
    device.options.checks = if options.unchecked { Checks::None } else { Checks::All };
    device.options.counters = options.counters;
    device.options.budget = options.budget;
    device.options.threads = options.jobs;
    if let Some(occupancy) = occupancy {
        device.options.limits.blocks_per_sm = occupancy.blocks_per_sm;
    }
    device
}

/// The modelled time of a launch, if its events were counted.
pub fn modelled(
    device: &VirtualDevice,
    report: &LaunchReport,
    geometry: Geometry,
    occupancy: Option<&Occupancy>,
) -> Option<Modelled> {
    let shape = Shape {
        blocks: geometry.grid.iter().map(|&extent| u64::from(extent)).product(),
        threads_per_block: geometry.block.iter().product(),
        blocks_per_sm: device.options.limits.blocks_per_sm,
        shared_per_block: occupancy.map_or(geometry.shared_bytes, |it| it.shared_per_block),
    };
    report.counters.as_ref().map(|counters| model::modelled(counters, shape, device.chip()))
}

/// The GPU to simulate. A real GPU is an error, because it has no checkers.
pub fn chip(global: &Global) -> Result<&'static Chip, CommandError> {
    let selector = if global.device == "auto" { "virtual" } else { &global.device };
    let selector = selector
        .parse()
        .map_err(|error: gpu::device::SelectorError| CommandError::usage(error.to_string()))?;
    match Device::find(selector) {
        Ok(Device::Virtual { chip }) => Ok(chip),
        _ => Err(CommandError::usage("sanitize runs on the virtual GPU")
            .hint("use `--device virtual:l4`, `--device virtual:a100` or another virtual GPU")),
    }
}

/// The build of the file. `None` if it does not compile; the errors are then printed.
fn compile(
    text: &str,
    options: &SanitizeOptions,
    launch: &LaunchOptions,
    target: Target,
    global: &Global,
    printer: &Printer,
) -> Result<Option<Build>, CommandError> {
    let mut include_dirs: Vec<_> = options.file.parent().map(Path::to_owned).into_iter().collect();
    include_dirs.retain(|folder| !folder.as_os_str().is_empty());
    if include_dirs.is_empty() {
        include_dirs.push(".".into());
    }
    include_dirs.extend(launch.include.iter().cloned());
    let source = Source {
        name: options.file.display().to_string(),
        text: text.to_owned(),
        headers: standard_headers(),
        include_dirs,
    };
    let defines = launch.define.iter().map(|define| format!("--define-macro={define}"));
    // Source files are written for nvcc, which enables 128-bit integers if the host compiler supports them.
    let int128 = cfg!(target_os = "linux").then(|| "--device-int128".to_owned());
    let defines = defines.chain(int128).collect();
    let compiler = super::build::compiler(global, printer)?;
    match compiler.build(&Request { source, target, options: defines }) {
        Ok(outcome) => Ok(Some(outcome.build)),
        Err(BuildError::Source { name, diagnostics, .. }) => {
            for diagnostic in &diagnostics {
                printer.message(&snippet::diagnostic(diagnostic));
            }
            let count = diagnostics.len();
            printer.failure(&CommandError {
                exit: Exit::ProblemFound,
                message: format!(
                    "{name} does not compile ({count} error{})",
                    if count == 1 { "" } else { "s" }
                ),
                hint: None,
            });
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// The kernel to launch: the named one, or the only one of the file.
fn kernel_name(launch: &LaunchOptions, build: &Build) -> Result<String, CommandError> {
    let names: Vec<&str> = build.entries.iter().map(|entry| entry.name.as_str()).collect();
    match (&launch.kernel, names.as_slice()) {
        (Some(name), _) if names.contains(&name.as_str()) => Ok(name.clone()),
        (Some(name), _) => {
            let near = family::nearest(name, names.iter().copied());
            let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
            Err(CommandError::usage(format!("there is no kernel `{name}` in the file"))
                .hint(format!("{near}kernels: {}", names.join(", "))))
        }
        (None, [only]) => Ok((*only).to_owned()),
        (None, _) => {
            Err(CommandError::usage("the file does not have exactly one kernel: name one with --kernel")
                .hint(format!("kernels: {}", names.join(", "))))
        }
    }
}

/// The number of blocks that a multiprocessor can hold, and what limits it. The checker for waits on blocks that cannot
/// be resident and the time model need it.
pub fn occupancy(chip: &Chip, build: &Build, kernel: &str, geometry: Geometry) -> Option<Occupancy> {
    let entry = build.entry(kernel)?;
    let resources = Resources {
        registers_per_thread: entry.registers,
        static_shared_bytes: entry.static_shared_bytes,
        dynamic_shared_bytes: geometry.shared_bytes,
        threads_per_block: geometry.block.iter().product(),
        barriers: entry.barriers,
    };
    chip.occupancy(&resources).ok()
}

// ---- Source lines ----

/// The files whose lines findings may show. The line table is untrusted (`#line 1 "/etc/passwd"`). Therefore only the
/// source file, files below its folder and files below the include folders of the command line are allowed.
struct Sources<'a> {
    file: &'a Path,
    text: &'a str,
    folders: Vec<PathBuf>,
}

impl<'a> Sources<'a> {
    /// `include`: the folders of the command line, without those in the file's comments.
    fn new(file: &'a Path, text: &'a str, include: &[PathBuf]) -> Self {
        let own = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folders = std::iter::once(own).chain(include.iter().map(PathBuf::as_path));
        // Links are resolved, so that a link inside a folder cannot lead outside.
        Sources { file, text, folders: folders.filter_map(|folder| folder.canonicalize().ok()).collect() }
    }

    /// The text of a file, if it is allowed and can be read.
    fn text(&self, name: &str) -> Option<String> {
        if Path::new(name) == self.file {
            return Some(self.text.to_owned());
        }
        let path = Path::new(name).canonicalize().ok()?;
        let is_below = self.folders.iter().any(|folder| path.starts_with(folder));
        is_below.then(|| gpu::paths::read_text_bounded(&path, MAX_SOURCE).ok())?
    }
}

// ---- Buffers after the launch ----

/// A buffer with its contents after the launch.
pub struct Contents<'a> {
    placed: &'a PlacedBuffer,
    bytes: Vec<u8>,
}

fn read_back<'a>(placed: &'a Placed, device: &mut VirtualDevice) -> Result<Vec<Contents<'a>>, CommandError> {
    placed
        .buffers
        .iter()
        .map(|placed| {
            let bytes =
                device.read(placed.buffer).map_err(|error| CommandError::missing(error.to_string()))?;
            Ok(Contents { placed, bytes })
        })
        .collect()
}

/// Writes every buffer as an NPY file.
fn save(folder: &Path, buffers: &[Contents], printer: &Printer) -> Result<(), CommandError> {
    for buffer in buffers {
        let PlacedBuffer { name, dtype, dims, .. } = buffer.placed;
        let path = folder.join(gpu::paths::file_name(&format!("{}.npy", name.replace(' ', "-"))));
        gpu::paths::write_atomically(&path, &npy(*dtype, dims, &buffer.bytes))
            .map_err(|error| CommandError::usage(format!("cannot write {}: {error}", path.display())))?;
        printer.message(&format!("wrote {}", path.display()));
    }
    Ok(())
}

/// The numbers of a buffer: integers exactly, floats in their shortest form.
fn numbers(dtype: Dtype, bytes: &[u8]) -> Vec<serde_json::Value> {
    if dtype.is_float() {
        // JSON has no NaN and no infinities; they are written as strings.
        let number = |value: f64| match serde_json::Number::from_f64(value) {
            Some(number) => serde_json::Value::Number(number),
            None => serde_json::Value::String(value.to_string()),
        };
        let shortest = |value: f64| if dtype == Dtype::F64 { value } else { value as f32 as f64 };
        dtype.floats(bytes).into_iter().map(shortest).map(number).collect()
    } else if dtype == Dtype::U64 {
        dtype.integers(bytes).into_iter().map(|value| value.cast_unsigned().into()).collect()
    } else {
        dtype.integers(bytes).into_iter().map(Into::into).collect()
    }
}

// ---- Output ----

/// Everything to print about a launch.
pub struct Run<'a> {
    /// The options of the command.
    pub options: &'a SanitizeOptions,
    /// The name of the kernel.
    pub kernel: &'a str,
    /// The virtual GPU.
    pub device: String,
    /// The findings and statistics.
    pub report: &'a LaunchReport,
    /// The occupancy, with `--counters`.
    pub occupancy: Option<Occupancy>,
    /// The modelled time, with `--counters`.
    pub modelled: Option<Modelled>,
    /// The instructions of the kernel, with `--fidelity`.
    pub fidelity: Option<&'a FidelityReport>,
    /// The buffers after the launch.
    pub buffers: &'a [Contents<'a>],
    /// The source files that findings may show.
    pub sources: &'a findings::Sources<'a>,
}

impl Run<'_> {
    /// The buffers that `--print` names.
    fn printed_buffers(&self) -> Result<Vec<&Contents<'_>>, CommandError> {
        let wanted = &self.options.print;
        for name in wanted.iter().filter(|name| *name != "all") {
            if !self.buffers.iter().any(|buffer| buffer.placed.name == *name) {
                let names: Vec<&str> =
                    self.buffers.iter().map(|buffer| buffer.placed.name.as_str()).collect();
                return Err(CommandError::usage(format!("there is no buffer `{name}`"))
                    .hint(format!("buffers: {}", names.join(", "))));
            }
        }
        let is_wanted =
            |buffer: &&Contents| wanted.iter().any(|name| name == "all" || *name == buffer.placed.name);
        Ok(self.buffers.iter().filter(is_wanted).collect())
    }

    /// Prints the JSON document.
    pub fn print_json(&self, printer: &Printer) -> Result<(), CommandError> {
        #[derive(Serialize)]
        struct Document<'a> {
            kernel: &'a str,
            device: &'a str,
            checked: bool,
            clean: bool,
            #[serde(flatten)]
            report: &'a LaunchReport,
            occupancy: Option<&'a Occupancy>,
            modelled: Option<&'a Modelled>,
            fidelity: Option<&'a FidelityReport>,
            buffers: Vec<Printed<'a>>,
        }
        #[derive(Serialize)]
        struct Printed<'a> {
            name: &'a str,
            dtype: Dtype,
            dims: &'a [usize],
            values: Vec<serde_json::Value>,
        }
        let printed = self.printed_buffers()?;
        let document = Document {
            kernel: self.kernel,
            device: &self.device,
            checked: !self.options.unchecked,
            clean: self.report.is_clean(),
            report: self.report,
            occupancy: self.occupancy.as_ref(),
            modelled: self.modelled.as_ref(),
            fidelity: self.fidelity,
            buffers: printed
                .iter()
                .map(|buffer| Printed {
                    name: &buffer.placed.name,
                    dtype: buffer.placed.dtype,
                    dims: &buffer.placed.dims,
                    values: numbers(buffer.placed.dtype, &buffer.bytes),
                })
                .collect(),
        };
        printer.json("sanitize", &document);
        Ok(())
    }

    /// Prints the text.
    pub fn print_text(&self, printer: &Printer) -> Result<(), CommandError> {
        if !self.report.printed.is_empty() {
            printer.data(self.report.printed.trim_end_matches('\n'));
        }
        for finding in &self.report.findings {
            printer.data(&findings::render(finding, self.sources));
            printer.data("");
        }
        if let Some(dropped) = findings::dropped(self.report) {
            printer.data(&dropped);
        }
        for buffer in self.printed_buffers()? {
            let PlacedBuffer { name, dtype, dims, .. } = buffer.placed;
            let values: Vec<String> = numbers(*dtype, &buffer.bytes)
                .iter()
                .map(|value| value.to_string().replace('"', ""))
                .collect();
            printer.data(&format!("{} {dtype}{dims:?}", styled(STRONG, name)));
            let row = dims.last().copied().unwrap_or(1).clamp(1, 16);
            for line in values.chunks(row) {
                printer.data(&format!("  {}", line.join(" ")));
            }
        }
        if let Some(fidelity) = self.fidelity {
            printer.data(&fidelity_text(fidelity));
        }
        if let Some(counters) = &self.report.counters {
            printer.data(&counters_text(counters));
        }
        if let Some(occupancy) = &self.occupancy {
            printer.data(&format!("{}: {occupancy}", styled(STRONG, "Occupancy")));
        }
        if let Some(modelled) = &self.modelled {
            printer.data(&modelled_text(modelled));
        }
        printer.data(&self.summary());
        Ok(())
    }

    fn summary(&self) -> String {
        let count = |severity| self.report.findings.iter().filter(|f| f.severity == severity).count();
        let (errors, warnings, notes) =
            (count(Severity::Error), count(Severity::Warning), count(Severity::Note));
        let stats = &self.report.stats;
        let ran = format!(
            "`{}` on {}: {} blocks, {} warp instructions",
            self.kernel, self.device, stats.blocks, stats.warp_instructions
        );
        let verdict = match (errors + warnings, self.options.unchecked) {
            (0, true) => styled(FAINT, "ran unchecked"),
            (0, false) if notes == 0 => styled(GOOD, "clean"),
            (0, false) => format!("{}, {notes} notes", styled(GOOD, "clean")),
            _ => styled(BAD, format!("{errors} errors, {warnings} warnings, {notes} notes")),
        };
        let end = if stats.completed { "" } else { "; the launch did not complete" };
        format!("{ran}: {verdict}{end}")
    }
}

fn fidelity_text(fidelity: &FidelityReport) -> String {
    let mut lines = vec![styled(STRONG, "Fidelity (instruction, occurrences in the code, fidelity)")];
    for (name, row) in &fidelity.instructions {
        let how = format!("{:?}", row.fidelity).to_lowercase();
        lines.push(format!("  {name:<44} {:>5}  {how}", row.count));
    }
    for directive in &fidelity.ignored_directives {
        lines.push(format!("  {directive:<44}     -  ignored directive"));
    }
    lines.join("\n")
}

fn counters_text(counters: &Counters) -> String {
    let ratio = |a: u64, b: u64| if b == 0 { "-".to_owned() } else { format!("{:.2}", a as f64 / b as f64) };
    let mut lines = vec![styled(STRONG, "Counters")];
    let mut line = |label: &str, text: String| lines.push(format!("  {label:<22} {text}"));
    line("warp instructions", counters.warp_instructions.to_string());
    let lanes = ratio(counters.thread_instructions, counters.warp_instructions);
    line("lanes per instruction", lanes);
    for (pipe, count) in &counters.by_pipe {
        let name = serde_json::to_value(pipe).ok().and_then(|value| value.as_str().map(str::to_owned));
        line(&format!("  {}", name.unwrap_or_default()), count.to_string());
    }
    line("flops", format!("{} plain, {} tensor", counters.flops, counters.tensor_flops));
    for work in &counters.tensor {
        let types = format!("{:?} to {:?}", work.input, work.accumulator).to_lowercase();
        line(&format!("  {types}"), work.flops.to_string());
    }
    let global = &counters.global;
    line(
        "global",
        format!(
            "{} requests, {} sectors ({} per request, {} at best)",
            global.requests,
            global.transactions,
            ratio(global.transactions, global.requests),
            ratio(global.ideal, global.requests)
        ),
    );
    let shared = &counters.shared;
    line(
        "shared",
        format!(
            "{} requests, {} wavefronts, {} of them bank conflicts",
            shared.requests,
            shared.transactions,
            shared.transactions.saturating_sub(shared.ideal)
        ),
    );
    line("local", format!("{} requests, {} sectors", counters.local.requests, counters.local.transactions));
    line("L2 traffic", format!("{} B, if L1 keeps everything that a block has loaded", counters.l2_bytes));
    line("DRAM footprint", format!("{} B", counters.dram_footprint));
    line("async copies", format!("{} B", counters.async_bytes));
    line("barriers", format!("{} warp arrivals", counters.barriers));
    line("branches", format!("{}, {} of them divergent", counters.branches, counters.divergent_branches));
    let blocks = &counters.blocks;
    line(
        "busiest block",
        format!(
            "{} warp instructions, {} times the mean",
            blocks.busiest,
            ratio(blocks.busiest * blocks.finished, counters.warp_instructions)
        ),
    );
    lines.push(styled(
        STRONG,
        "Hottest lines (share of the modelled time, warp instructions, bank conflicts, sectors per request)",
    ));
    let shares = model::line_shares(&counters.lines);
    let mut hottest: Vec<_> = counters.lines.iter().zip(shares).collect();
    hottest.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (hot, share) in hottest.into_iter().take(12) {
        let place =
            hot.frames.first().map_or("?".to_owned(), |frame| format!("{}:{}", frame.file, frame.line));
        let conflicts = hot.shared.transactions.saturating_sub(hot.shared.ideal);
        let sectors = ratio(hot.global.transactions, hot.global.requests);
        let share = share * 100.0;
        let instructions = hot.warp_instructions;
        lines.push(format!("  {share:>5.1}% {instructions:>12} {conflicts:>10} {sectors:>8}  {place}"));
    }
    lines.join("\n")
}

fn modelled_text(modelled: &Modelled) -> String {
    let title = format!(
        "Modelled time on {}: {}, limited by {}",
        modelled.gpu,
        modelled.time,
        modelled.bottleneck.name()
    );
    let mut lines = vec![styled(STRONG, title)];
    for (resource, time) in modelled.resources.iter().filter(|(_, time)| time.0 > 0.0).take(6) {
        lines.push(format!("  {:<18} {time}", resource.name()));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_the_source_and_files_below_its_folders_are_shown() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (folder.path().join("own"), folder.path().join("other"));
        fs::create_dir_all(own.join("inner")).unwrap();
        fs::create_dir(&other).unwrap();
        for file in ["own/k.cu", "own/inner/a.cuh", "other/secret"] {
            fs::write(folder.path().join(file), file).unwrap();
        }
        std::os::unix::fs::symlink(other.join("secret"), own.join("link.cuh")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", own.join("zero")).unwrap();
        let source = own.join("k.cu");
        let sources = Sources::new(&source, "as compiled", &[]);
        let text = |path: &Path| sources.text(path.to_str().unwrap());
        assert_eq!(text(&source).as_deref(), Some("as compiled"));
        assert_eq!(text(&own.join("inner/a.cuh")).as_deref(), Some("own/inner/a.cuh"));
        for hidden in [
            other.join("secret"),
            own.join("../other/secret"),
            own.join("link.cuh"),
            own.join("zero"),
            "/dev/zero".into(),
            "/etc/passwd".into(),
        ] {
            assert_eq!(text(&hidden), None, "{}", hidden.display());
        }
        let include = [other.clone()];
        let sources = Sources::new(&source, "", &include);
        assert!(sources.text(other.join("secret").to_str().unwrap()).is_some());
    }
}
