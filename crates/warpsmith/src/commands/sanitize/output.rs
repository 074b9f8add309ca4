//! What `sanitize` prints.

use chips::Occupancy;
use launch::{Dtype, PlacedBuffer};
use report::ci::{CiCase, CiFinding, CiStatus};
use sanitize::Summary;
use sanitize::expect::Comparison;
use sanitize::suppressions::RuleUse;
use schemars::JsonSchema;
use serde::Serialize;
use text::count;
use vgpu::model::{self, Modelled};
use vgpu::{Counters, FidelityReport, LaunchReport};

use super::contents::Contents;
use crate::ci_output;
use crate::cli::SanitizeOptions;
use crate::error::CommandError;
use crate::findings;
use crate::printer::{BAD, FAINT, GOOD, Printer, STRONG, styled};

/// The largest number of findings of one cause that are all shown with their source lines.
const MOST_SHOWN: usize = 3;

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

#[derive(JsonSchema, Serialize)]
pub struct Document<'a> {
    kernel: &'a str,
    device: &'a str,
    checked: bool,
    clean: bool,
    #[serde(flatten)]
    report: &'a LaunchReport,
    /// What was left out of the source so that it compiles, one sentence each.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    left_out: &'a [String],
    /// The findings by probable cause: lists of indices of `findings`.
    causes: Vec<Vec<usize>>,
    occupancy: Option<&'a Occupancy>,
    modelled: Option<&'a Modelled>,
    fidelity: Option<&'a FidelityReport>,
    buffers: Vec<Printed<'a>>,
    /// The comparisons of `--expect`.
    comparisons: &'a [Comparison],
    /// The known findings of --suppressions, with the number of findings that each matched.
    #[serde(skip_serializing_if = "<[RuleUse]>::is_empty")]
    suppressions: &'a [RuleUse],
}

/// A buffer that `--print` names, after the launch.
#[derive(JsonSchema, Serialize)]
struct Printed<'a> {
    name: &'a str,
    dtype: Dtype,
    dims: &'a [usize],
    /// A float that JSON cannot write is text: `NaN`, `inf`.
    values: Vec<serde_json::Value>,
}

/// Everything to print about a launch.
pub struct Run<'a> {
    /// The options of the command.
    pub options: &'a SanitizeOptions,
    /// The name of the kernel.
    pub kernel: &'a str,
    /// What was left out of the source so that it compiles.
    pub left_out: &'a [String],
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
    /// The comparisons of `--expect`.
    pub comparisons: Vec<Comparison>,
    /// What the rules of --suppressions matched.
    pub suppressions: Vec<RuleUse>,
    /// The source files that findings may show.
    pub sources: &'a findings::Texts<'a>,
}

/// The result for CI systems. `owner` is the kernel that findings belong to.
pub fn ci_case(run: &Run<'_>, owner: &str, paths: &ci_output::Paths) -> CiCase {
    let is_clean = run.is_clean() && run.report.stats.completed;
    let status = if is_clean { CiStatus::Passed } else { CiStatus::Failed };
    let mut case = CiCase::new(run.kernel, status, count(run.report.findings.len(), "finding"));
    let findings = run.report.findings.iter();
    case.findings = findings.map(|it| ci_output::finding(it, owner, run.sources, paths)).collect();
    if !run.report.stats.completed && run.is_clean() {
        case.findings.push(CiFinding::new("incomplete", owner, "the launch did not complete"));
    }
    case
}

impl Run<'_> {
    /// Whether no finding fails the run.
    pub fn is_clean(&self) -> bool {
        self.report.is_clean() && (!self.options.strict || self.report.has_only_notes())
    }

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
        let printed = self.printed_buffers()?;
        let document = Document {
            kernel: self.kernel,
            device: &self.device,
            checked: !self.options.unchecked,
            clean: self.is_clean(),
            report: self.report,
            left_out: self.left_out,
            causes: findings::causes(&self.report.findings),
            occupancy: self.occupancy.as_ref(),
            modelled: self.modelled.as_ref(),
            fidelity: self.fidelity,
            comparisons: &self.comparisons,
            suppressions: &self.suppressions,
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
            printer.verbatim_data(self.report.printed.trim_end_matches('\n'));
        }
        // A few findings tell more than a list of their lines.
        let mut groups = findings::causes(&self.report.findings);
        groups.retain(|group| group.len() > MOST_SHOWN);
        for (index, finding) in self.report.findings.iter().enumerate() {
            let group = groups.iter().find(|group| group.contains(&index));
            if group.is_some_and(|group| group[0] != index) {
                continue;
            }
            let of_group = group.map(|group| group.iter().map(|at| &self.report.findings[*at]).collect());
            let shown: Vec<_> = of_group.unwrap_or_else(|| vec![finding]);
            printer.verbatim_data(&findings::render_cause(&shown, self.sources));
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
                printer.verbatim_data(&format!("  {}", line.join(" ")));
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
        for comparison in &self.comparisons {
            let style = if comparison.is_equal() { GOOD } else { BAD };
            printer.data(&styled(style, comparison.describe()));
        }
        printer.data(&self.summary());
        Ok(())
    }

    fn summary(&self) -> String {
        let Summary { ran, verdict, is_good, rest } =
            Summary::new(self.kernel, &self.device, self.report, !self.options.unchecked);
        let style = match is_good {
            None => FAINT,
            Some(true) => GOOD,
            Some(false) => BAD,
        };
        format!("{ran}: {}{rest}", styled(style, verdict))
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
            "{}, {} ({} per request, {} at best)",
            count(global.requests as usize, "request"),
            count(global.transactions as usize, "sector"),
            ratio(global.transactions, global.requests),
            ratio(global.ideal, global.requests)
        ),
    );
    let shared = &counters.shared;
    line(
        "shared",
        format!(
            "{}, {}, {} of them bank conflicts",
            count(shared.requests as usize, "request"),
            count(shared.transactions as usize, "wavefront"),
            shared.transactions.saturating_sub(shared.ideal)
        ),
    );
    let local = &counters.local;
    let local = [(local.requests, "request"), (local.transactions, "sector")];
    line("local", local.map(|(number, name)| count(number as usize, name)).join(", "));
    line("L2 traffic", format!("{} B, if L1 keeps everything that a block has loaded", counters.l2_bytes));
    line("DRAM footprint", format!("{} B", counters.dram_footprint));
    line("async copies", format!("{} B", counters.async_bytes));
    line("barriers", count(counters.barriers as usize, "warp arrival"));
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
    for (place, hot) in hottest_lines(counters).into_iter().take(12) {
        let HotLine { share, instructions, conflicts, sectors, requests } = hot;
        let (share, sectors) = (share * 100.0, ratio(sectors, requests));
        lines.push(format!("  {share:>5.1}% {instructions:>12} {conflicts:>10} {sectors:>8}  {place}"));
    }
    lines.join("\n")
}

/// The counts of one source line.
#[derive(Default)]
struct HotLine {
    share: f64,
    instructions: u64,
    conflicts: u64,
    sectors: u64,
    requests: u64,
}

/// The source lines and their counts, the hottest first. Unrolled or inlined code has several entries for one line;
/// they are added.
fn hottest_lines(counters: &Counters) -> Vec<(String, HotLine)> {
    let mut merged: indexmap::IndexMap<String, HotLine> = indexmap::IndexMap::new();
    for (line, share) in counters.lines.iter().zip(model::line_shares(&counters.lines)) {
        let place = line.frames.first().map_or("?".to_owned(), |at| format!("{}:{}", at.file, at.line));
        let hot = merged.entry(place).or_default();
        hot.share += share;
        hot.instructions += line.warp_instructions;
        hot.conflicts += line.shared.transactions.saturating_sub(line.shared.ideal);
        hot.sectors += line.global.transactions;
        hot.requests += line.global.requests;
    }
    let mut lines: Vec<_> = merged.into_iter().collect();
    lines.sort_by(|(_, a), (_, b)| b.share.total_cmp(&a.share));
    lines
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
