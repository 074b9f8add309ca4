//! `kernels`: lists the families, or shows all details of one.

use chips::Target;
use family::tuned::Pick;
use family::{Axis, Catalog, Family, Knob, Layout, Limits, Pathology, Preset, Weights};
use op::tuned::UnusablePick;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Global, KernelsOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ops::AnyOp;
use crate::printer::{BAD, FAINT, Printer, STRONG, WARN, styled};
use crate::tables::Table;

#[derive(JsonSchema, Serialize)]
pub struct Document<'a> {
    families: Vec<FamilyDocument<'a>>,
    broken: &'a [BrokenFamily<'a>],
}

/// A family in the JSON output.
#[derive(JsonSchema, Serialize)]
pub struct FamilyDocument<'a> {
    op: &'a str,
    name: &'a str,
    description: &'a str,
    entry: &'a str,
    targets: &'a [Target],
    supports: &'a [Axis],
    knobs: &'a [Knob],
    constraints: Vec<ConstraintDocument<'a>>,
    /// Conditions on the sizes of a problem and the knobs together.
    size_constraints: Vec<ConstraintDocument<'a>>,
    presets: &'a [Preset],
    pathologies: &'a [Pathology],
    limits: Limits,
    /// The type that P is rounded to, for each dtype where it is coarser than fp16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    coarse_weights: Vec<CoarseWeights>,
    /// The layout of the default setting.
    shared_memory: Layout,
    /// The picks that `--preset tuned` can select.
    tuned: Vec<PickDocument<'a>>,
    /// Picks of the table that the family no longer supports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tuned_left_out: Vec<UnusablePickDocument<'a>>,
}

#[derive(JsonSchema, Serialize)]
struct ConstraintDocument<'a> {
    require: &'a str,
    because: &'a str,
    #[serde(skip_serializing_if = "<[Target]>::is_empty")]
    on: &'a [Target],
}

impl<'a> ConstraintDocument<'a> {
    fn new(constraint: &'a family::Constraint) -> Self {
        ConstraintDocument { require: constraint.text(), because: &constraint.because, on: &constraint.on }
    }
}

#[derive(JsonSchema, Serialize)]
struct CoarseWeights {
    dtype: String,
    weights: Weights,
}

/// A family whose manifest is invalid.
#[derive(JsonSchema, Serialize)]
struct BrokenFamily<'a> {
    op: &'a str,
    name: &'a str,
    error: String,
}

/// A pick of the tuned table, with its setting written as a preset and the knobs that differ from it.
#[derive(JsonSchema, Serialize)]
struct PickDocument<'a> {
    #[serde(flatten)]
    pick: &'a Pick,
    setting: String,
}

#[derive(JsonSchema, Serialize)]
struct UnusablePickDocument<'a> {
    gpu: &'a str,
    problem: &'a str,
    reason: String,
}

/// Lists the families, or shows one.
pub fn run(options: &KernelsOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    let catalog = global.catalog()?;
    if let Some(name) = &options.family {
        let family = catalog.family(name)?;
        if printer.is_json() {
            printer.json("kernel", &describe(family, &catalog)?);
        } else {
            printer.data(&details(family, &catalog)?);
        }
        return Ok(Exit::Success);
    }

    let broken: Vec<BrokenFamily> = catalog
        .entries()
        .iter()
        .filter_map(|entry| {
            let error = entry.family.as_ref().err()?.to_string();
            Some(BrokenFamily { op: &entry.op, name: &entry.name, error })
        })
        .collect();
    let families: Vec<&Family> =
        catalog.entries().iter().filter_map(|entry| entry.family.as_ref().ok()).collect();
    if printer.is_json() {
        let families = families.iter().map(|family| describe(family, &catalog)).collect::<Result<_, _>>()?;
        printer.json("kernels", &Document { families, broken: &broken });
    } else {
        let lines: Vec<String> = families.iter().map(|family| brief(family)).collect();
        printer.data(&lines.join("\n\n"));
    }
    for family in &broken {
        printer.message(&format!("{}: {}", styled(BAD, "error"), family.error));
    }
    Ok(if broken.is_empty() { Exit::Success } else { Exit::UsageError })
}

fn describe<'f>(family: &'f Family, catalog: &Catalog) -> Result<FamilyDocument<'f>, CommandError> {
    let defaults = family.candidate(None, &[], &[])?;
    let (tuned, tuned_left_out) = picks(family, catalog)?;
    Ok(FamilyDocument {
        op: &family.op,
        name: &family.name,
        description: &family.description,
        entry: &family.entry,
        targets: &family.targets,
        supports: &family.axes,
        knobs: &family.knobs,
        constraints: family.constraints.iter().map(ConstraintDocument::new).collect(),
        size_constraints: family.size_constraints.iter().map(ConstraintDocument::new).collect(),
        presets: &family.presets,
        pathologies: &family.pathologies,
        limits: family.limits,
        coarse_weights: coarse_weights(family),
        shared_memory: family.layout(&defaults)?,
        tuned,
        tuned_left_out,
    })
}

/// The usable and the unusable picks of the family's tuned table.
fn picks<'f>(
    family: &'f Family,
    catalog: &Catalog,
) -> Result<(Vec<PickDocument<'f>>, Vec<UnusablePickDocument<'f>>), CommandError> {
    if family.tuned.picks.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let op = AnyOp::named(&family.op, catalog)?;
    let (usable, unusable) = op::tuned::picks(&op, family);
    let usable = usable
        .into_iter()
        .map(|usable| PickDocument { setting: usable.candidate.label(family), pick: usable.pick })
        .collect();
    let unusable = unusable
        .into_iter()
        .map(|UnusablePick { pick, reason }| UnusablePickDocument {
            gpu: &pick.gpu,
            problem: &pick.problem,
            reason,
        })
        .collect();
    Ok((usable, unusable))
}

/// The lines of the section about tuned picks.
fn pick_lines(family: &Family, catalog: &Catalog) -> Result<Vec<String>, CommandError> {
    let (usable, unusable) = picks(family, catalog)?;
    if usable.is_empty() && unusable.is_empty() {
        return Ok(vec!["none: this family is not tuned yet".to_owned()]);
    }
    let mut table = Table::new(&["gpu", "problem", "time", "", "setting"], &["time"]);
    for PickDocument { pick, setting } in &usable {
        let how = if pick.time.is_modelled() { "modelled" } else { "measured" };
        let time = format!("{:.2} us", pick.time.micros());
        table.row([pick.gpu.clone(), pick.problem.clone(), time, how.to_owned(), setting.clone()]);
    }
    let mut rows: Vec<String> = table.text().lines().map(str::to_owned).collect();
    for UnusablePickDocument { gpu, problem, reason } in &unusable {
        rows.push(format!("{}: {problem} on {gpu}: {reason}", styled(WARN, "ignored")));
    }
    Ok(rows)
}

/// The dtypes whose weights are rounded to a type coarser than fp16.
fn coarse_weights(family: &Family) -> Vec<CoarseWeights> {
    let dtypes = family.axis("dtype").map_or(&[][..], |axis| &axis.values);
    let coarse = |dtype: String| {
        let weights = family.weights(&dtype);
        (weights != Weights::default()).then_some(CoarseWeights { dtype, weights })
    };
    dtypes.iter().filter_map(|dtype| coarse(dtype.to_string())).collect()
}

/// The items, separated by commas.
fn words<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// A family in four lines.
fn brief(family: &Family) -> String {
    let presets = words(family.presets.iter().map(|preset| &preset.name));
    let knobs = words(family.knobs.iter().map(|knob| &knob.name));
    format!(
        "{}  {}\n  presets   {presets}\n  knobs     {knobs}\n  targets   {}",
        styled(STRONG, family.full_name()),
        family.description,
        words(&family.targets)
    )
}

/// All details of a family.
fn details(family: &Family, catalog: &Catalog) -> Result<String, CommandError> {
    let mut lines = vec![format!("{}  {}", styled(STRONG, family.full_name()), family.description)];
    let mut section = |title: &str, rows: Vec<String>| {
        if !rows.is_empty() {
            lines.push(format!("\n{}", styled(STRONG, title)));
            lines.extend(rows.into_iter().map(|row| format!("  {row}")));
        }
    };
    let axis = |axis: &Axis| {
        let note = if axis.specialised { styled(FAINT, "  (compile-time)") } else { String::new() };
        format!("{:<10} {}{note}", axis.name, words(&axis.values))
    };
    let weights = |coarse: &CoarseWeights| {
        format!("{:<10} weights rounded to {} before the product with V", coarse.dtype, coarse.weights.name())
    };
    let axes = family.axes.iter().map(axis).chain(coarse_weights(family).iter().map(weights)).collect();
    section("Supports", axes);
    section("Targets", vec![words(&family.targets)]);
    let knob = |knob: &Knob| {
        let values: Vec<String> = knob
            .values
            .iter()
            .map(|value| if *value == knob.default { format!("[{value}]") } else { value.to_string() })
            .collect();
        format!("{:<15} {:<28} {}", knob.name, values.join(" "), knob.about)
    };
    section("Knobs, [default]", family.knobs.iter().map(knob).collect());
    let constraint = |constraint: &family::Constraint| {
        let on =
            if constraint.on.is_empty() { String::new() } else { format!("on {}: ", words(&constraint.on)) };
        format!("{on}{}  ({})", constraint.text(), constraint.because)
    };
    section("Constraints", family.constraints.iter().map(constraint).collect());
    section("Constraints on problems", family.size_constraints.iter().map(constraint).collect());
    let preset = |preset: &Preset| {
        let knobs = words(preset.knobs.iter().map(|(name, value)| format!("{name}={value}")));
        let knobs = if knobs.is_empty() { "defaults".to_owned() } else { knobs };
        format!("{:<20} {}\n  {:<20} {}", preset.name, preset.about, "", styled(FAINT, knobs))
    };
    section("Presets", family.presets.iter().map(preset).collect());
    let pathology = |pathology: &Pathology| {
        let knobs = words(pathology.knobs.iter().map(|(name, value)| format!("{name}={value}")));
        format!("{:<20} {}\n  {:<20} {}", pathology.name, pathology.about, "", styled(FAINT, knobs))
    };
    section("Pathologies, for `warpsmith invert`", family.pathologies.iter().map(pathology).collect());
    let layout = family.layout(&family.candidate(None, &[], &[])?)?;
    let buffer = |buffer: &family::Buffer| {
        let shape = buffer.shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
        format!(
            "{:>7} {:<12} {:>6} B  {:<16} {}",
            buffer.offset,
            buffer.name,
            buffer.bytes,
            format!("{} {shape}", buffer.element),
            buffer.about
        )
    };
    let mut buffers: Vec<String> = layout.buffers.iter().filter(|b| b.bytes > 0).map(buffer).collect();
    if !buffers.is_empty() {
        buffers.push(format!("{:>7} total", layout.total_bytes));
    }
    section("Shared memory of the default setting (offset, buffer, bytes)", buffers);
    section("Tuned picks", pick_lines(family, catalog)?);
    Ok(lines.join("\n"))
}
