//! `kernels`: the families, or one of them in full.

use attention::Attention;
use chips::Target;
use family::tuned::Pick;
use family::{Axis, Catalog, Family, Knob, Layout, Limits, Pathology, Preset, Weights};
use op::tuned::UnusablePick;
use serde::Serialize;

use crate::cli::{Global, KernelsOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{BAD, FAINT, Printer, STRONG, WARN, styled};
use crate::tables::Table;

/// A family as JSON shows it.
#[derive(Serialize)]
struct Described<'a> {
    op: &'a str,
    name: &'a str,
    description: &'a str,
    entry: &'a str,
    targets: &'a [Target],
    supports: &'a [Axis],
    knobs: &'a [Knob],
    constraints: Vec<Required<'a>>,
    presets: &'a [Preset],
    pathologies: &'a [Pathology],
    limits: Limits,
    /// What P is rounded to, by dtype, where that is coarser than fp16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    coarse_weights: Vec<Coarse>,
    /// Of the defaults.
    shared_memory: Layout,
    /// What `--preset tuned` chooses from.
    tuned: Vec<Tuned<'a>>,
    /// Picks of the table that are of no use any more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tuned_left_out: Vec<LeftOut<'a>>,
}

#[derive(Serialize)]
struct Required<'a> {
    require: &'a str,
    because: &'a str,
    #[serde(skip_serializing_if = "<[Target]>::is_empty")]
    on: &'a [Target],
}

#[derive(Serialize)]
struct Coarse {
    dtype: String,
    weights: Weights,
}

#[derive(Serialize)]
struct Broken<'a> {
    op: &'a str,
    name: &'a str,
    error: String,
}

/// A pick of the tuned table, with its setting in short: a preset and what differs from it.
#[derive(Serialize)]
struct Tuned<'a> {
    #[serde(flatten)]
    pick: &'a Pick,
    setting: String,
}

#[derive(Serialize)]
struct LeftOut<'a> {
    gpu: &'a str,
    problem: &'a str,
    reason: String,
}

pub fn run(options: &KernelsOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    let catalog = Catalog::load(global.kernels.as_deref())?;
    if let Some(name) = &options.family {
        let family = catalog.family(name)?;
        if printer.is_json() {
            printer.json("kernel", &describe(family)?);
        } else {
            printer.data(&in_full(family)?);
        }
        return Ok(Exit::Holds);
    }

    let broken: Vec<Broken> = catalog
        .entries()
        .iter()
        .filter_map(|entry| {
            let error = entry.family.as_ref().err()?.to_string();
            Some(Broken { op: &entry.op, name: &entry.name, error })
        })
        .collect();
    let families: Vec<&Family> =
        catalog.entries().iter().filter_map(|entry| entry.family.as_ref().ok()).collect();
    if printer.is_json() {
        #[derive(Serialize)]
        struct Document<'a> {
            families: Vec<Described<'a>>,
            broken: &'a [Broken<'a>],
        }
        let families = families.iter().map(|family| describe(family)).collect::<Result<_, _>>()?;
        printer.json("kernels", &Document { families, broken: &broken });
    } else {
        let lines: Vec<String> = families.iter().map(|family| in_brief(family)).collect();
        printer.data(&lines.join("\n\n"));
    }
    for family in &broken {
        printer.message(&format!("{}: {}", styled(BAD, "error"), family.error));
    }
    Ok(if broken.is_empty() { Exit::Holds } else { Exit::Usage })
}

fn describe(family: &Family) -> Result<Described<'_>, CommandError> {
    let defaults = family.candidate(None, &[], &[])?;
    let (tuned, tuned_left_out) = picks(family);
    Ok(Described {
        op: &family.op,
        name: &family.name,
        description: &family.description,
        entry: &family.entry,
        targets: &family.targets,
        supports: &family.axes,
        knobs: &family.knobs,
        constraints: family
            .constraints
            .iter()
            .map(|constraint| Required {
                require: constraint.text(),
                because: &constraint.because,
                on: &constraint.on,
            })
            .collect(),
        presets: &family.presets,
        pathologies: &family.pathologies,
        limits: family.limits,
        coarse_weights: coarse_weights(family),
        shared_memory: family.layout(&defaults)?,
        tuned,
        tuned_left_out,
    })
}

/// The picks of the family's tuned table, and those of no use.
fn picks(family: &Family) -> (Vec<Tuned<'_>>, Vec<LeftOut<'_>>) {
    let (usable, stale) = op::tuned::picks(&Attention, family);
    let tuned = usable
        .into_iter()
        .map(|usable| Tuned { setting: usable.candidate.label(family), pick: usable.pick })
        .collect();
    let left_out = stale
        .into_iter()
        .map(|UnusablePick { pick, reason }| LeftOut { gpu: &pick.gpu, problem: &pick.problem, reason })
        .collect();
    (tuned, left_out)
}

fn tuned_rows(family: &Family) -> Vec<String> {
    let (tuned, left_out) = picks(family);
    if tuned.is_empty() && left_out.is_empty() {
        return vec!["none: nothing has been tuned yet".to_owned()];
    }
    let mut table = Table::new(&["gpu", "problem", "time", "", "setting"], &["time"]);
    for Tuned { pick, setting } in &tuned {
        let how = if pick.time.is_modelled() { "modelled" } else { "measured" };
        let time = format!("{:.2} us", pick.time.micros());
        table.row([pick.gpu.clone(), pick.problem.clone(), time, how.to_owned(), setting.clone()]);
    }
    let mut rows: Vec<String> = table.text().lines().map(str::to_owned).collect();
    for LeftOut { gpu, problem, reason } in &left_out {
        rows.push(format!("{}: {problem} on {gpu}: {reason}", styled(WARN, "left out")));
    }
    rows
}

fn coarse_weights(family: &Family) -> Vec<Coarse> {
    let dtypes = family.axis("dtype").map_or(&[][..], |axis| &axis.values);
    let coarse = |dtype: String| {
        let weights = family.weights(&dtype);
        (weights != Weights::default()).then_some(Coarse { dtype, weights })
    };
    dtypes.iter().filter_map(|dtype| coarse(dtype.to_string())).collect()
}

fn words<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

fn in_brief(family: &Family) -> String {
    let presets = words(family.presets.iter().map(|preset| &preset.name));
    let knobs = words(family.knobs.iter().map(|knob| &knob.name));
    format!(
        "{}  {}\n  presets   {presets}\n  knobs     {knobs}\n  targets   {}",
        styled(STRONG, family.full_name()),
        family.description,
        words(&family.targets)
    )
}

fn in_full(family: &Family) -> Result<String, CommandError> {
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
    let weights = |coarse: &Coarse| {
        format!(
            "{:<10} weights rounded to {} before they multiply values",
            coarse.dtype,
            coarse.weights.name()
        )
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
    section("Shared memory of the defaults (offset, buffer, bytes)", buffers);
    section("Tuned picks", tuned_rows(family));
    Ok(lines.join("\n"))
}
