//! `fp8`: errors and times of FP8 attention on fp16 or bf16 tensors that are quantised first.

use attention::forward::{self, ForwardError, Quantisation, ScaledPart, Time};
use attention::fp8_study::{Study, StudyClass, StudyRow};
use attention::{Attention, Dtype, Problem};
use gpu::device::Device;
use schemars::JsonSchema;
use serde::Serialize;

use super::{device, stop_on_interrupt};
use crate::cli::{Fp8Options, Global, ScaledPartName};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ops;
use crate::printer::{FAINT, Printer, styled};
use crate::progress;
use crate::tables::Table;

/// Work of one attention on the virtual GPU: a few seconds.
const VIRTUAL_FLOPS: f64 = 5.5e8;

#[derive(JsonSchema, Serialize)]
pub struct Document {
    problem: String,
    /// The problem that was named, if fewer heads or queries were computed.
    cut_from: Option<String>,
    device: String,
    /// `--input-seed` that repeats the inputs.
    input_seed: u64,
    /// Rows of the output that were compared, of each kind of inputs.
    compared_rows: usize,
    rows: Vec<RowDocument>,
    /// Why some combinations were not run.
    not_run: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
struct RowDocument {
    class: StudyClass,
    /// The type of the tensors that the attention kernel reads.
    dtype: Dtype,
    /// Which elements share a scale; `null` without FP8.
    scales: Option<ScaledPart>,
    /// Whether queries and keys are rotated before they are quantised; `null` without FP8.
    rotate: Option<bool>,
    kernel: String,
    quantise_kernels: Vec<String>,
    /// Relative L2 error; `null` if an element is not finite.
    relative_l2: Option<f64>,
    /// The largest error of an element.
    largest_error: Option<f64>,
    /// The time of quantising; `null` without FP8.
    quantise: Option<Time>,
    attention: Time,
    /// The time of both together.
    total: Time,
}

impl RowDocument {
    fn new(row: StudyRow, problem: &Problem) -> Self {
        let dtype = if row.quantisation.is_some() { Dtype::E4m3 } else { problem.dtype };
        RowDocument {
            class: row.class,
            dtype,
            scales: row.quantisation.map(|it| it.scales),
            rotate: row.quantisation.map(|it| it.rotate),
            kernel: row.kernel,
            quantise_kernels: row.quantise_kernels,
            relative_l2: row.relative_l2.is_finite().then_some(row.relative_l2),
            largest_error: row.largest_error.is_finite().then_some(row.largest_error),
            quantise: row.quantise,
            attention: row.attention,
            total: row.total,
        }
    }
}

/// Runs every combination that the options allow.
pub fn run(options: &Fp8Options, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    let named = ops::problem(&Attention, &options.problem)?;
    if named.dtype == Dtype::E4m3 {
        return Err(CommandError::usage(format!("{named} is in FP8 already"))
            .hint("name a problem in fp16 or bf16, such as mission or mission-bf16"));
    }
    let found = device(global)?;
    let problem = match found {
        Device::Virtual { .. } => named.cut(VIRTUAL_FLOPS),
        Device::Cuda { .. } => named,
    };
    let opened = match &found {
        Device::Cuda { index, .. } => forward::Device::cuda(*index),
        Device::Virtual { chip } => forward::Device::virtual_gpu(chip.id),
    };
    let stop = stop_on_interrupt();
    let gpu = opened?.with_compiler(super::compiler(global, printer)?).with_stop(stop);
    let seed = global.secret_seed();
    let classes = if options.class.is_empty() { StudyClass::ALL.to_vec() } else { options.class.clone() };
    let (ways, not_run) = possible_ways(options, &gpu, &problem)?;

    let bar = progress::counting((classes.len() * ways.len()) as u64, "combinations");
    let (mut rows, mut compared_rows) = (Vec::new(), 0);
    for &class in &classes {
        let study = Study::new(&gpu, &problem, class, seed)?;
        compared_rows = study.compared_rows();
        for &way in &ways {
            rows.push(RowDocument::new(study.row(way)?, &problem));
            bar.inc(1);
        }
        study.close()?;
    }
    bar.finish_and_clear();
    let document = Document {
        problem: problem.to_string(),
        cut_from: (problem != named).then(|| named.to_string()),
        device: found.to_string(),
        input_seed: seed,
        compared_rows,
        rows,
        not_run,
    };
    let is_finite = document.rows.iter().all(|row| row.relative_l2.is_some());
    if printer.is_json() {
        printer.json("fp8", &document);
    } else {
        show(&document, printer);
    }
    Ok(if is_finite { Exit::Success } else { Exit::ProblemFound })
}

/// The ways to compute attention, the one without FP8 first, and why others are not possible. A way that the options name
/// must be possible.
fn possible_ways(
    options: &Fp8Options,
    gpu: &forward::Device,
    problem: &Problem,
) -> Result<(Vec<Option<Quantisation>>, Vec<String>), CommandError> {
    let parts: Vec<ScaledPart> = match options.scales.as_slice() {
        [] => vec![ScaledPart::Head, ScaledPart::Block],
        named => named.iter().map(|part| part.part()).collect(),
    };
    let rotations = options.rotate.map_or(vec![false, true], |rotate| vec![rotate]);
    let (mut ways, mut not_run) = (vec![None], Vec::new());
    for scales in parts {
        for &rotate in &rotations {
            let way = Quantisation { scales, rotate, output: None };
            let reason = match gpu.quantised_plan(problem, way) {
                Ok(_) => {
                    ways.push(Some(way));
                    continue;
                }
                Err(ForwardError::Unsupported(reason)) if options.scales.is_empty() => reason,
                Err(ForwardError::Argument { reason, .. }) if options.rotate != Some(true) => reason,
                Err(error) => return Err(error.into()),
            };
            if !not_run.contains(&reason) {
                not_run.push(reason);
            }
        }
    }
    Ok((ways, not_run))
}

impl ScaledPartName {
    fn part(self) -> ScaledPart {
        match self {
            ScaledPartName::Head => ScaledPart::Head,
            ScaledPartName::Block => ScaledPart::Block,
        }
    }
}

fn show(document: &Document, printer: &Printer) {
    let Document { problem, cut_from, device, input_seed, compared_rows, rows, not_run } = document;
    let cut = cut_from.as_ref().map(|from| format!(", reduced from {from}")).unwrap_or_default();
    let kind =
        if rows.iter().any(|row| row.total.is_modelled()) { "modelled, not measured" } else { "measured" };
    printer.data(&format!("{problem}{cut} on {device}; times are {kind}, in microseconds"));
    let titles = [
        "inputs",
        "type",
        "scales",
        "rotated",
        "L2 error",
        "largest error",
        "quantise",
        "attention",
        "together",
    ];
    let mut table = Table::new(&titles, &titles[4..]);
    for row in rows {
        let micros = |time: Time| format!("{:.2}", time.micros());
        let error = |error: Option<f64>| error.map_or("not finite".to_owned(), |it| format!("{it:.4}"));
        table.row([
            row.class.to_string(),
            row.dtype.to_string(),
            row.scales.map_or(String::new(), |part| part.to_string()),
            row.rotate.map_or("", |rotate| if rotate { "yes" } else { "no" }).to_owned(),
            error(row.relative_l2),
            error(row.largest_error),
            row.quantise.map_or(String::new(), micros),
            micros(row.attention),
            micros(row.total),
        ]);
    }
    printer.data(&table.text());
    let mut kernels: Vec<&str> = Vec::new();
    for row in rows {
        for name in row.quantise_kernels.iter().chain([&row.kernel]) {
            if !kernels.contains(&name.as_str()) {
                kernels.push(name);
            }
        }
    }
    printer.data(&format!("\nkernels: {}", kernels.join("; ")));
    printer.data(&format!(
        "errors: against float64 on the tensors before they are quantised, {compared_rows} rows of the output"
    ));
    for reason in not_run {
        printer.data(&format!("not run: {reason}"));
    }
    printer.data(&styled(FAINT, format!("to repeat with the same inputs: --input-seed {input_seed}")));
}
