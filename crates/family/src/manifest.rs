//! Reads and checks `kernel.toml`, the manifest of a family. Every error names the file, line and field.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

use chips::Target;
use compiler::is_ptx;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::Value;
use crate::expression::{Expression, Scope};
use crate::single_file::PLAIN_NAME;
use crate::suggest::nearest;
use crate::text::{ManifestError, ManifestErrors, Reader};
use crate::tuned_table::{self, Table};

/// A CUDA source with everything that its manifest declares. [`crate::Catalog`] reads and checks it.
#[derive(Debug)]
pub struct Family {
    /// The op that it computes, which is the name of the parent folder: `attention`.
    pub op: String,
    /// The family's name, which is the name of its folder: `mma`.
    pub name: String,
    /// What the family is, in the manifest's words.
    pub description: String,
    /// Written to be obvious, not fast. It is the baseline of its op on any machine.
    pub plain: bool,
    /// Whether the same inputs must give the same bits. A kernel that adds floating-point numbers atomically cannot
    /// promise it.
    pub deterministic: bool,
    /// The kernel's function name. Of several launches, this one is profiled and its resources are listed.
    pub entry: String,
    /// The targets that the source can be compiled for.
    pub targets: Vec<Target>,
    /// The problems that it supports, axis by axis.
    pub axes: Vec<Axis>,
    /// The compile-time parameters.
    pub knobs: Vec<Knob>,
    /// Conditions that every candidate must meet.
    pub constraints: Vec<Constraint>,
    /// The settings that have a name.
    pub presets: Vec<Preset>,
    /// Settings that make it slow on purpose.
    pub pathologies: Vec<Pathology>,
    /// Limits on the registers and spills of its builds.
    pub limits: Limits,
    /// The best settings that searches found, by GPU and problem. It may contain knobs that the family no longer has.
    pub tuned: Table,
    /// The type to which the weights of a sum of values (attention's P) are rounded, by the dtype of the inputs. Only
    /// those that differ from [`Weights::Half`] are listed.
    pub(crate) weights: IndexMap<String, Weights>,
    /// Conditions on the sizes of a problem and the knobs together.
    pub size_constraints: Vec<Constraint>,
    /// The names of the run-time sizes that expressions may use.
    pub(crate) sizes: Vec<String>,
    /// The launches in their order. The one of [`Family::entry`] is the main launch.
    pub(crate) launches: Vec<LaunchRule>,
    pub(crate) shared: Vec<BufferRule>,
    pub(crate) workspace: Vec<BufferRule>,
    pub(crate) tensor_maps: Vec<TensorMapRule>,
    /// Whether the op and the family are one CUDA file that declares both.
    pub(crate) is_single_file: bool,
    /// The CUDA source, as (path below `kernels/`, text).
    pub(crate) source: (String, String),
    /// Headers of the op that the source includes, directly or not, as (name in `#include`, text).
    pub(crate) headers: Vec<(String, String)>,
    /// The text of the manifest.
    pub(crate) manifest: String,
    /// The text of the op's `op.toml`, if it has one.
    pub(crate) op_manifest: Option<String>,
}

/// A property of a problem and the values that the family supports. The first value is the default.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Axis {
    /// The axis's name, such as `head_dim`.
    pub name: String,
    /// The values that the family supports.
    pub values: Vec<Value>,
    /// Whether the axis is a compile-time constant of the kernel. Other axes are run-time arguments.
    pub specialised: bool,
}

/// A compile-time parameter of a family.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Knob {
    /// The knob's name.
    pub name: String,
    /// The values that the knob can have.
    pub values: Vec<Value>,
    /// The value in settings that do not mention the knob.
    pub default: Value,
    /// What the knob does, in the manifest's words.
    pub about: String,
    /// Whether a search may change it. A knob that only makes a kernel worse has `search = false`.
    pub search: bool,
}

/// A condition that a setting must meet.
#[derive(Debug)]
pub struct Constraint {
    pub(crate) require: Expression,
    /// Why the condition is needed.
    pub because: String,
    /// The targets that it applies to; empty for all.
    pub on: Vec<Target>,
}

impl Constraint {
    /// The text of the condition.
    pub fn text(&self) -> &str {
        self.require.text()
    }
}

/// The precision of weights that are multiplied by values. It decides how much rounding of the result is acceptable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weights {
    /// fp16, bf16 or better. FP8 values are decoded to fp16.
    #[default]
    Half,
    /// E4M3, like the values.
    Fp8,
}

impl Weights {
    const NAMES: [(&'static str, Weights); 2] = [("half", Weights::Half), ("fp8", Weights::Fp8)];

    /// The name in a manifest.
    pub fn name(self) -> &'static str {
        match self {
            Weights::Half => "half",
            Weights::Fp8 => "fp8",
        }
    }
}

/// A named setting. Knobs that it does not list keep their defaults.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Preset {
    /// The preset's name.
    pub name: String,
    /// What the preset is for, in the manifest's words.
    pub about: String,
    /// The values of the knobs that it sets.
    pub knobs: IndexMap<String, Value>,
}

/// A known performance mistake that can be put into the kernel: knobs that are set on top of any preset. The result
/// stays right; only the time changes.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Pathology {
    /// The pathology's name.
    pub name: String,
    /// What the mistake is, in the manifest's words.
    pub about: String,
    /// What to do instead, for kernels that have this mistake by accident.
    pub advice: String,
    /// The values of the knobs that cause it.
    pub knobs: IndexMap<String, Value>,
}

/// Limits on the resources of the family's builds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Largest number of registers per thread; `None` for no limit.
    pub registers: Option<u32>,
    /// Most bytes of spill stores and loads together; `None` for no limit.
    pub spill_bytes: Option<u32>,
    /// Most reasons for which the assembler may serialise warpgroup products (`wgmma`); `None` for no limit.
    pub serialised_wgmma: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct LaunchRule {
    /// The name of the launched function.
    pub entry: String,
    /// Names of the parameters in order, for ops that declare their arguments.
    pub parameters: Vec<Parameter>,
    pub grid: Vec<Expression>,
    pub block: Vec<Expression>,
    pub cluster: Vec<Expression>,
    /// Settings for which it is false do without the launch.
    pub when: Option<Expression>,
    /// Whether the launch has the buffers of `[[shared]]`.
    pub has_shared: bool,
}

/// A kernel parameter by the name of an argument, of a size, or `workspace`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// The name.
    pub name: String,
    /// The type of a size: `i32` or `i64`.
    pub dtype: Option<String>,
}

#[derive(Debug)]
pub(crate) struct BufferRule {
    pub name: String,
    pub element: String,
    pub shape: Vec<Expression>,
    pub align: u64,
    pub when: Option<Expression>,
    pub overlays: Option<String>,
    pub about: String,
}

/// A tensor map that the kernel gets as a parameter after the op's own.
#[derive(Debug)]
pub(crate) struct TensorMapRule {
    pub tensor: String,
    /// Extents of a box, innermost first.
    pub extents: Vec<Expression>,
    pub swizzle_bytes: Expression,
    pub promotion_bytes: Expression,
}

/// The widths within which a tensor copy can permute chunks, in bytes; 0 means no permutation.
pub(crate) const SWIZZLES: [u64; 4] = [0, 32, 64, 128];

/// How much of L2 a tensor copy can read at once, in bytes; 0 means what it needs.
pub(crate) const PROMOTIONS: [u64; 4] = [0, 64, 128, 256];

/// Size in bytes of an element type that manifests may name.
pub(crate) fn element_bytes(element: &str) -> Option<u64> {
    Some(match element {
        "u8" | "i8" | "fp8" | "e4m3" | "e5m2" | "char" => 1,
        "half" | "bf16" | "u16" => 2,
        "float" | "int" | "u32" | "unsigned" => 4,
        "double" | "u64" | "mbarrier" => 8,
        _ => return None,
    })
}

const ELEMENTS: &str =
    "u8, i8, fp8, e4m3, e5m2, char, half, bf16, u16, float, int, u32, unsigned, double, u64, mbarrier";

// ---- The file format ----

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    specialise: Vec<Spanned<String>>,
    family: FamilyTable,
    supports: Spanned<IndexMap<String, Spanned<Vec<Value>>>>,
    #[serde(default)]
    knobs: IndexMap<String, Spanned<KnobTable>>,
    #[serde(default)]
    constraints: Vec<ConstraintTable>,
    presets: Spanned<IndexMap<String, Spanned<PresetTable>>>,
    #[serde(default)]
    pathologies: IndexMap<String, Spanned<PathologyTable>>,
    #[serde(default)]
    size_constraints: Vec<ConstraintTable>,
    launch: Option<Spanned<LaunchTable>>,
    #[serde(default)]
    launches: Vec<Spanned<LaunchTable>>,
    #[serde(default)]
    shared: Vec<Spanned<BufferTable>>,
    #[serde(default)]
    workspace: Vec<Spanned<BufferTable>>,
    #[serde(default)]
    tensor_maps: Vec<TensorMapTable>,
    #[serde(default)]
    limits: Limits,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FamilyTable {
    description: String,
    #[serde(default)]
    plain: bool,
    #[serde(default = "yes")]
    deterministic: bool,
    entry: Spanned<String>,
    targets: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    parameters: Vec<Spanned<String>>,
    #[serde(default)]
    weights: IndexMap<String, Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnobTable {
    values: Vec<Value>,
    default: Value,
    about: String,
    #[serde(default = "yes")]
    search: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstraintTable {
    require: Spanned<String>,
    because: String,
    #[serde(default)]
    on: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PresetTable {
    about: String,
    #[serde(default)]
    knobs: IndexMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathologyTable {
    about: String,
    advice: String,
    knobs: IndexMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LaunchTable {
    /// Names of the problem's run-time sizes that `grid` and workspaces may use. An op that declares its sizes has all
    /// of them.
    #[serde(default)]
    sizes: Vec<String>,
    entry: Option<Spanned<String>>,
    parameters: Option<Vec<Spanned<String>>>,
    grid: Spanned<Vec<Spanned<String>>>,
    block: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    cluster: Vec<Spanned<String>>,
    when: Option<Spanned<String>>,
    #[serde(default = "yes")]
    shared: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BufferTable {
    name: String,
    element: Spanned<String>,
    shape: Vec<Spanned<String>>,
    align: Option<Spanned<u64>>,
    when: Option<Spanned<String>>,
    overlays: Option<Spanned<String>>,
    #[serde(default)]
    about: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TensorMapTable {
    /// A tensor of the op, by the name of its buffer.
    tensor: String,
    /// Extents of a box, innermost first; those left out are 1.
    #[serde(rename = "box")]
    extents: Spanned<Vec<Spanned<String>>>,
    /// 0 (none), 32, 64 or 128 bytes, as a number or an expression.
    swizzle: Spanned<NumberOrText>,
    /// 0 (what a copy needs), 64, 128 or 256 bytes (the default), as a number or an expression.
    promotion: Option<Spanned<NumberOrText>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u64),
    Text(String),
}

// ---- From the file to a family ----

/// What the catalog provides in addition to the manifest's text.
pub(crate) struct Place {
    pub op: String,
    pub name: String,
    pub is_single_file: bool,
    /// The path of the manifest, for messages.
    pub file: String,
    pub source: (String, String),
    pub headers: Vec<(String, String)>,
    pub tuned: Table,
    /// The text of the op's `op.toml`, if it has one.
    pub op_manifest: Option<String>,
    /// The sizes of an op that declares them.
    pub op_sizes: Vec<String>,
}

/// Reads a manifest and checks everything that can be checked without compiling. Reports the first mistake of every
/// section.
pub(crate) fn read(text: &str, place: Place) -> Result<Family, ManifestErrors> {
    let reader = Reader { file: &place.file, text };
    let file: File = toml::from_str(text).map_err(|error| {
        let message = error.message().replace('\n', " ");
        reader.error(error.span().unwrap_or(0..0), "kernel.toml", message)
    })?;

    let mut errors = Vec::new();
    let axes = found(reader.axes(&file), &mut errors);
    let knobs = found(reader.knobs(&file.knobs), &mut errors);
    // Names of axes and knobs with a mistake are known, too, so that the mistake is reported once.
    let specialised = file.specialise.iter().map(|name| name.get_ref().clone());
    let compile_time: Vec<String> = file.knobs.keys().cloned().chain(specialised).collect();
    let tables = file.launch.iter().chain(&file.launches);
    let mut sizes = place.op_sizes.clone();
    for name in tables.flat_map(|table| &table.get_ref().sizes) {
        if !sizes.contains(name) {
            sizes.push(name.clone());
        }
    }
    let with_sizes: Vec<String> = compile_time.iter().chain(&sizes).cloned().collect();
    let constraints = found(reader.constraints(&file.constraints, "constraints", &compile_time), &mut errors);
    let size_constraints = reader.constraints(&file.size_constraints, "size_constraints", &with_sizes);
    let size_constraints = found(size_constraints, &mut errors);
    let launches = found(reader.launches(&file, &place.source, &compile_time, &with_sizes), &mut errors);
    let targets = found(reader.targets(&file.family.targets), &mut errors);
    let entry = file.family.entry.get_ref().clone();
    let weights = found(reader.weights(&file.family.weights, &axes), &mut errors);
    let shared = found(reader.buffers(&file.shared, "shared", &compile_time), &mut errors);
    let workspace = found(reader.buffers(&file.workspace, "workspace", &with_sizes), &mut errors);
    let tensor_maps = found(reader.tensor_maps(&file.tensor_maps, &compile_time), &mut errors);
    let presets = found(reader.presets(&file.presets, &knobs), &mut errors);
    let pathologies = found(reader.pathologies(&file.pathologies, &knobs), &mut errors);
    if is_ptx(Path::new(&place.source.0)) {
        for (name, spanned) in &file.knobs {
            let message = "the source is PTX, which a knob cannot change".to_owned();
            errors.push(reader.error(spanned.span(), &format!("knobs.{name}"), message));
        }
        for axis in axes.iter().filter(|axis| axis.specialised && axis.values.len() > 1) {
            let message = format!("the source is PTX, which has one {}; name one value", axis.name);
            errors.push(reader.error(0..0, &format!("supports.{}", axis.name), message));
        }
    }
    if !errors.is_empty() {
        errors.sort_by_key(|error| (error.line, error.column));
        return Err(ManifestErrors(errors));
    }
    let family = Family {
        op: place.op,
        name: place.name,
        is_single_file: place.is_single_file,
        description: file.family.description,
        plain: file.family.plain,
        deterministic: file.family.deterministic,
        entry,
        targets,
        axes,
        knobs,
        constraints,
        presets,
        pathologies,
        limits: file.limits,
        tuned: place.tuned,
        weights,
        size_constraints,
        sizes,
        launches,
        shared,
        workspace,
        tensor_maps,
        source: place.source,
        headers: place.headers,
        manifest: text.to_owned(),
        op_manifest: place.op_manifest,
    };
    // A preset that violates the family's constraints is an error of the manifest, not of its user.
    for (name, table) in file.presets.get_ref() {
        if let Err(error) = family.candidate(Some(name), &[], &[]) {
            errors.push(reader.error(table.span(), &format!("presets.{name}"), error.to_string()));
        }
    }
    if errors.is_empty() { Ok(family) } else { Err(ManifestErrors(errors)) }
}

/// The value of a section, or nothing and its mistake.
fn found<T: Default>(section: Result<T, ManifestError>, errors: &mut Vec<ManifestError>) -> T {
    section.unwrap_or_else(|error| {
        errors.push(error);
        T::default()
    })
}

impl Reader<'_> {
    fn constraints(
        &self,
        tables: &[ConstraintTable],
        field: &str,
        names: &[String],
    ) -> Result<Vec<Constraint>, ManifestError> {
        let constraint = |table: &ConstraintTable| {
            let require = self.expression(&table.require, &format!("{field}.require"), names)?;
            let on = table.on.iter().map(|name| self.target(name, &format!("{field}.on")));
            Ok(Constraint { require, because: table.because.clone(), on: on.collect::<Result<_, _>>()? })
        };
        tables.iter().map(constraint).collect()
    }

    /// `[launch]`, or the `[[launches]]` in their order.
    fn launches(
        &self,
        file: &File,
        source: &(String, String),
        compile_time: &[String],
        with_sizes: &[String],
    ) -> Result<Vec<LaunchRule>, ManifestError> {
        let family = &file.family;
        if file.launch.is_some() != file.launches.is_empty() {
            let message = "a family has either [launch] or [[launches]]".to_owned();
            return Err(self.error(family.entry.span(), "launch", message));
        }
        let mut rules = Vec::new();
        for table in file.launch.iter().chain(&file.launches).map(Spanned::get_ref) {
            let entry = table.entry.as_ref().unwrap_or(&family.entry);
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if !source.1.split(|c| !is_word(c)).any(|word| word == entry.get_ref()) {
                let message = format!("there is no `{}` in {}", entry.get_ref(), source.0);
                return Err(self.error(entry.span(), "family.entry", message));
            }
            let dimensions = |list: &[Spanned<String>], field: &str, names: &[String]| {
                list.iter().map(|text| self.expression(text, field, names)).collect::<Result<Vec<_>, _>>()
            };
            for (list, field) in [(&table.grid, "launch.grid"), (&table.block, "launch.block")] {
                if !(1..=3).contains(&list.get_ref().len()) {
                    let message = "must have one to three dimensions".to_owned();
                    return Err(self.error(list.span(), field, message));
                }
            }
            let main = entry.get_ref() == family.entry.get_ref();
            if let Some(text) = table.when.as_ref().filter(|_| main) {
                let message = "the main launch is always made".to_owned();
                return Err(self.error(text.span(), "launch.when", message));
            }
            let when = table.when.as_ref().map(|text| self.expression(text, "launch.when", compile_time));
            let parameters = table.parameters.as_ref().unwrap_or(&family.parameters);
            rules.push(LaunchRule {
                entry: entry.get_ref().clone(),
                parameters: parameters.iter().map(|name| Parameter::read(name.get_ref())).collect(),
                grid: dimensions(table.grid.get_ref(), "launch.grid", with_sizes)?,
                block: dimensions(table.block.get_ref(), "launch.block", compile_time)?,
                cluster: dimensions(&table.cluster, "launch.cluster", compile_time)?,
                when: when.transpose()?,
                has_shared: table.shared,
            });
        }
        if !rules.iter().any(|rule| rule.entry == *family.entry.get_ref()) {
            let message = format!("no launch has the entry `{}`", family.entry.get_ref());
            return Err(self.error(family.entry.span(), "family.entry", message));
        }
        Ok(rules)
    }

    fn targets(&self, names: &Spanned<Vec<Spanned<String>>>) -> Result<Vec<Target>, ManifestError> {
        if names.get_ref().is_empty() {
            return Err(self.error(names.span(), "family.targets", "is empty".to_owned()));
        }
        names.get_ref().iter().map(|name| self.target(name, "family.targets")).collect()
    }

    fn target(&self, name: &Spanned<String>, field: &str) -> Result<Target, ManifestError> {
        name.get_ref()
            .parse()
            .map_err(|error: chips::UnknownTarget| self.error(name.span(), field, error.to_string()))
    }

    fn weights(
        &self,
        table: &IndexMap<String, Spanned<String>>,
        axes: &[Axis],
    ) -> Result<IndexMap<String, Weights>, ManifestError> {
        let dtypes = axes.iter().find(|axis| axis.name == "dtype").map_or(&[][..], |axis| &axis.values);
        let mut weights = IndexMap::new();
        for (dtype, name) in table {
            let field = format!("family.weights.{dtype}");
            if !dtypes.iter().any(|value| value.to_string() == *dtype) {
                let message = format!("`{dtype}` is not a dtype of [supports] ({})", list(dtypes));
                return Err(self.error(name.span(), &field, message));
            }
            let known = Weights::NAMES.into_iter().find(|(known, _)| known == name.get_ref());
            let Some((_, value)) = known else {
                let message = format!("`{}` is neither half nor fp8", name.get_ref());
                return Err(self.error(name.span(), &field, message));
            };
            weights.insert(dtype.clone(), value);
        }
        Ok(weights)
    }

    fn axes(&self, file: &File) -> Result<Vec<Axis>, ManifestError> {
        let table = file.supports.get_ref();
        for name in &file.specialise {
            if !table.contains_key(name.get_ref()) {
                let message = format!("`{}` is not an axis of [supports]", name.get_ref());
                return Err(self.error(name.span(), "specialise", message));
            }
        }
        let mut axes = Vec::new();
        for (name, values) in table {
            let field = format!("supports.{name}");
            if !is_identifier(name) || name.chars().any(|c| c.is_ascii_uppercase()) {
                return Err(self.error(
                    values.span(),
                    &field,
                    "an axis name must be in lower_case".to_owned(),
                ));
            }
            self.check_values(values.get_ref(), values.span(), &field)?;
            let specialised = file.specialise.iter().any(|axis| axis.get_ref() == name);
            axes.push(Axis { name: name.clone(), values: values.get_ref().clone(), specialised });
        }
        Ok(axes)
    }

    fn knobs(&self, tables: &IndexMap<String, Spanned<KnobTable>>) -> Result<Vec<Knob>, ManifestError> {
        let mut knobs = Vec::new();
        for (name, spanned) in tables {
            let (field, table) = (format!("knobs.{name}"), spanned.get_ref());
            if !is_identifier(name) || name.chars().any(|c| c.is_ascii_lowercase()) {
                return Err(self.error(
                    spanned.span(),
                    &field,
                    "a knob name must be in UPPER_CASE".to_owned(),
                ));
            }
            self.check_values(&table.values, spanned.span(), &format!("{field}.values"))?;
            if !table.values.contains(&table.default) {
                let message = format!("{} is not one of {}", table.default, list(&table.values));
                return Err(self.error(spanned.span(), &format!("{field}.default"), message));
            }
            knobs.push(Knob {
                name: name.clone(),
                values: table.values.clone(),
                default: table.default.clone(),
                about: table.about.clone(),
                search: table.search,
            });
        }
        Ok(knobs)
    }

    fn check_values(&self, values: &[Value], span: Range<usize>, field: &str) -> Result<(), ManifestError> {
        let Some(first) = values.first() else {
            return Err(self.error(span, field, "is empty".to_owned()));
        };
        if let Some(other) = values.iter().find(|value| value.kind() != first.kind()) {
            let message = format!("mixes {} ({first}) and {} ({other})", first.kind(), other.kind());
            return Err(self.error(span, field, message));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = values.iter().find(|value| !seen.insert(*value)) {
            return Err(self.error(span, field, format!("lists {twice} twice")));
        }
        Ok(())
    }

    fn presets(
        &self,
        tables: &Spanned<IndexMap<String, Spanned<PresetTable>>>,
        knobs: &[Knob],
    ) -> Result<Vec<Preset>, ManifestError> {
        if tables.get_ref().is_empty() {
            return Err(self.error(
                tables.span(),
                "presets",
                "a family needs at least one preset".to_owned(),
            ));
        }
        let mut presets = Vec::new();
        for (name, spanned) in tables.get_ref() {
            let table = spanned.get_ref();
            if tuned_table::is_tuned(name) {
                let message = "this name is reserved for the tuned table's picks".to_owned();
                return Err(self.error(spanned.span(), &format!("presets.{name}"), message));
            }
            self.check_setting(&table.knobs, knobs, spanned.span(), &format!("presets.{name}.knobs"))?;
            presets.push(Preset {
                name: name.clone(),
                about: table.about.clone(),
                knobs: table.knobs.clone(),
            });
        }
        Ok(presets)
    }

    fn pathologies(
        &self,
        tables: &IndexMap<String, Spanned<PathologyTable>>,
        knobs: &[Knob],
    ) -> Result<Vec<Pathology>, ManifestError> {
        let mut pathologies = Vec::new();
        for (name, spanned) in tables {
            let (field, table) = (format!("pathologies.{name}"), spanned.get_ref());
            if table.knobs.is_empty() {
                return Err(self.error(spanned.span(), &field, "sets no knob".to_owned()));
            }
            self.check_setting(&table.knobs, knobs, spanned.span(), &format!("{field}.knobs"))?;
            pathologies.push(Pathology {
                name: name.clone(),
                about: table.about.clone(),
                advice: table.advice.clone(),
                knobs: table.knobs.clone(),
            });
        }
        Ok(pathologies)
    }

    /// The knobs of a setting must exist, and their values must be allowed.
    fn check_setting(
        &self,
        setting: &IndexMap<String, Value>,
        knobs: &[Knob],
        span: Range<usize>,
        field: &str,
    ) -> Result<(), ManifestError> {
        for (knob, value) in setting {
            let field = format!("{field}.{knob}");
            let Some(declared) = knobs.iter().find(|declared| declared.name == *knob) else {
                return Err(self.error(span, &field, unknown(knob, knobs.iter().map(|k| k.name.as_str()))));
            };
            if !declared.values.contains(value) {
                let message = format!("{value} is not one of {}", list(&declared.values));
                return Err(self.error(span, &field, message));
            }
        }
        Ok(())
    }

    fn buffers(
        &self,
        tables: &[Spanned<BufferTable>],
        field: &str,
        names: &[String],
    ) -> Result<Vec<BufferRule>, ManifestError> {
        let mut rules: Vec<BufferRule> = Vec::new();
        for spanned in tables {
            let table = spanned.get_ref();
            let field = format!("{field}.{}", table.name);
            if !is_identifier(&table.name) || rules.iter().any(|rule| rule.name == table.name) {
                return Err(self.error(
                    spanned.span(),
                    &field,
                    "needs a unique name that is a C++ identifier".to_owned(),
                ));
            }
            if element_bytes(table.element.get_ref()).is_none() {
                let message = format!("`{}` is not one of {ELEMENTS}", table.element.get_ref());
                return Err(self.error(table.element.span(), &format!("{field}.element"), message));
            }
            let align = table.align.as_ref().map_or(16, |align| *align.get_ref());
            if !align.is_power_of_two() {
                let span = table.align.as_ref().map_or(spanned.span(), Spanned::span);
                return Err(self.error(
                    span,
                    &format!("{field}.align"),
                    format!("{align} is not a power of two"),
                ));
            }
            if let Some(below) = &table.overlays
                && !rules.iter().any(|rule| rule.name == *below.get_ref())
            {
                let message = format!("there is no buffer `{}` before it", below.get_ref());
                return Err(self.error(below.span(), &format!("{field}.overlays"), message));
            }
            let shape = table
                .shape
                .iter()
                .map(|extent| self.expression(extent, &format!("{field}.shape"), names))
                .collect::<Result<Vec<_>, _>>()?;
            let when = table
                .when
                .as_ref()
                .map(|text| self.expression(text, &format!("{field}.when"), names))
                .transpose()?;
            rules.push(BufferRule {
                name: table.name.clone(),
                element: table.element.get_ref().clone(),
                shape,
                align,
                when,
                overlays: table.overlays.as_ref().map(|name| name.get_ref().clone()),
                about: table.about.clone(),
            });
        }
        Ok(rules)
    }

    fn tensor_maps(
        &self,
        tables: &[TensorMapTable],
        names: &[String],
    ) -> Result<Vec<TensorMapRule>, ManifestError> {
        let mut rules = Vec::new();
        for table in tables {
            let field = format!("tensor_maps.{}", table.tensor);
            let swizzle_bytes = self.width(&table.swizzle, &format!("{field}.swizzle"), SWIZZLES, names)?;
            let usual = Spanned::new(0..0, NumberOrText::Number(256));
            let promotion = table.promotion.as_ref().unwrap_or(&usual);
            let promotion_bytes = self.width(promotion, &format!("{field}.promotion"), PROMOTIONS, names)?;
            let field = format!("{field}.box");
            if !(1..=5).contains(&table.extents.get_ref().len()) {
                let message = "must have one to five extents".to_owned();
                return Err(self.error(table.extents.span(), &field, message));
            }
            let extents = table.extents.get_ref().iter();
            let extents = extents.map(|extent| self.expression(extent, &field, names));
            rules.push(TensorMapRule {
                tensor: table.tensor.clone(),
                extents: extents.collect::<Result<_, _>>()?,
                swizzle_bytes,
                promotion_bytes,
            });
        }
        Ok(rules)
    }

    /// Parses a number of bytes that must be one of four, or an expression.
    fn width(
        &self,
        value: &Spanned<NumberOrText>,
        field: &str,
        known: [u64; 4],
        names: &[String],
    ) -> Result<Expression, ManifestError> {
        let text = match value.get_ref() {
            NumberOrText::Number(bytes) if !known.contains(bytes) => {
                let known = known.map(|bytes| bytes.to_string()).join(", ");
                return Err(self.error(value.span(), field, format!("{bytes} is not one of {known}")));
            }
            NumberOrText::Number(bytes) => bytes.to_string(),
            NumberOrText::Text(text) => text.clone(),
        };
        self.expression(&Spanned::new(value.span(), text), field, names)
    }

    /// Parses an expression that may use only `names`.
    fn expression(
        &self,
        text: &Spanned<String>,
        field: &str,
        names: &[String],
    ) -> Result<Expression, ManifestError> {
        let expression = Expression::parse(text.get_ref())
            .map_err(|reason| self.error(text.span(), field, format!("`{}`: {reason}", text.get_ref())))?;
        for name in expression.variables() {
            if !names.contains(&name) {
                let message =
                    format!("`{}`: {}", text.get_ref(), unknown(&name, names.iter().map(String::as_str)));
                return Err(self.error(text.span(), field, message));
            }
        }
        Ok(expression)
    }
}

impl Parameter {
    /// Reads `rows` or `rows:i64`.
    fn read(text: &str) -> Self {
        let (name, dtype) = text.split_once(':').map_or((text, None), |(name, dtype)| (name, Some(dtype)));
        Parameter { name: name.trim().to_owned(), dtype: dtype.map(|dtype| dtype.trim().to_owned()) }
    }
}

impl Family {
    /// The parameters of every launch of any setting, by name. Empty lists if the op does not name its arguments.
    pub fn parameters(&self) -> impl Iterator<Item = &[Parameter]> {
        self.launches.iter().map(|launch| launch.parameters.as_slice())
    }

    /// The names of the functions that any setting launches, in order.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.launches.iter().map(|launch| launch.entry.as_str())
    }

    /// The variables of compile-time expressions for one setting.
    pub(crate) fn scope<'a>(values: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Scope {
        Scope::new(values.into_iter().map(|(name, value)| (name.as_str(), value)))
    }

    /// The op and the name: `attention/wmma`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.op, self.name)
    }

    /// The text of one of the family's own files, by its name in line tables.
    pub fn source_text(&self, file: &str) -> Option<&str> {
        let (name, text) = &self.source;
        let own = (name == file).then_some(text);
        let header = || self.headers.iter().find(|(name, _)| name == file).map(|(_, text)| text);
        own.or_else(header).map(String::as_str)
    }

    /// Whether a text is that of one of the family's own files. The kernels of a single file got plain names.
    pub fn is_text_of(&self, file: &str, text: &str) -> bool {
        let written = |text: &str| text.replace(PLAIN_NAME, "");
        self.source_text(file)
            .is_some_and(|own| own == text || self.is_single_file && written(own) == written(text))
    }

    /// The family's file that a path ends with.
    pub fn own_file(&self, path: &str) -> Option<&str> {
        let names = std::iter::once(&self.source).chain(&self.headers).map(|(name, _)| name.as_str());
        names
            .into_iter()
            .find(|name| path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('/')))
    }

    /// Whether the source is PTX.
    pub fn is_ptx(&self) -> bool {
        is_ptx(Path::new(&self.source.0))
    }

    /// The name of the source in line tables.
    pub fn source_name(&self) -> &str {
        &self.source.0
    }

    /// The type to which the kernel rounds its weights for inputs of this dtype.
    pub fn weights(&self, dtype: &str) -> Weights {
        self.weights.get(dtype).copied().unwrap_or_default()
    }

    /// The knob with this name.
    pub fn knob(&self, name: &str) -> Option<&Knob> {
        self.knobs.iter().find(|knob| knob.name.eq_ignore_ascii_case(name))
    }

    /// The axis with this name.
    pub fn axis(&self, name: &str) -> Option<&Axis> {
        self.axes.iter().find(|axis| axis.name.eq_ignore_ascii_case(name))
    }

    /// The preset with this name.
    pub fn preset(&self, name: &str) -> Option<&Preset> {
        self.presets.iter().find(|preset| preset.name.eq_ignore_ascii_case(name))
    }

    /// The names of its presets, and that of its tuned table if it has one.
    pub fn preset_names(&self) -> impl Iterator<Item = &str> {
        let tuned = (!self.tuned.picks.is_empty()).then_some(tuned_table::PRESET);
        self.presets.iter().map(|preset| preset.name.as_str()).chain(tuned)
    }

    /// Whether a preset or the tuned table has this name.
    pub fn has_preset(&self, name: &str) -> bool {
        self.preset_names().any(|known| known.eq_ignore_ascii_case(name))
    }
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// For example `16, 32, 64`.
pub(crate) fn list(values: &[Value]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn unknown<'a>(name: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let hint =
        nearest(name, names.clone()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    let names: Vec<&str> = names.collect();
    // The threads of a block are fixed when the kernel is compiled, so sizes are not known there.
    let known =
        if names.is_empty() { "only numbers are".to_owned() } else { format!("known: {}", names.join(", ")) };
    format!("`{name}` is not known here ({known}){hint}")
}
