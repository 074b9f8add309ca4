//! A single CUDA file as an op with one family. Comment lines that start with `// warpsmith:` declare it, in TOML:
//!
//! ```text
//! // warpsmith: reference = "scale.py:scale"
//! // warpsmith: sizes = { n = 1000 }
//! // warpsmith: launch = { grid = ["ceil_div(n, 256)"], block = [256] }
//! // warpsmith: [arguments]
//! // warpsmith: x = "in fp32[n]"
//! // warpsmith: y = "out fp32[n]"
//! // warpsmith: factor = "scalar fp32 = 2.0"
//! // warpsmith: n = "size"
//! ```
//!
//! The arguments are the kernel's parameters in order. The lines become an `op.toml` and a `kernel.toml` in memory.
//! Lines with `--flags` belong to `sanitize`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::text::{ManifestError, Reader};

/// The start of a line that declares something.
const MARK: &str = "// warpsmith:";
/// Most headers that a file may include.
const MOST_HEADERS: usize = 200;
/// The targets of a family that names none.
const TARGETS: &str = "[\"sm_80\", \"sm_86\", \"sm_89\", \"sm_90\", \"sm_90a\"]";
/// Fields that `kernel.toml` has; all others belong to `op.toml`.
const KERNEL_FIELDS: [&str; 10] = [
    "knobs",
    "constraints",
    "size_constraints",
    "presets",
    "pathologies",
    "shared",
    "workspace",
    "limits",
    "specialise",
    "targets",
];

/// The generated files, and the line of the CUDA file that each of their lines comes from.
pub(crate) struct Expanded {
    pub op: GeneratedFile,
    pub kernel: GeneratedFile,
    /// Python files and headers beside the file, as (name, text).
    pub beside: BTreeMap<String, String>,
}

/// A generated manifest.
#[derive(Clone, Debug, Default)]
pub(crate) struct GeneratedFile {
    pub text: String,
    /// For every line of the text, the line that it comes from.
    pub lines: Vec<usize>,
}

impl GeneratedFile {
    fn push(&mut self, text: &str, line: usize) {
        for each in text.lines() {
            self.text.push_str(each);
            self.text.push('\n');
            self.lines.push(line);
        }
    }
}

/// The name of the op of a file: its stem, as an identifier.
pub(crate) fn op_name(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default();
    let name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_lowercase()) { name } else { format!("k{name}") }
}

/// The declaring lines, with their line numbers from 1.
fn header_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let rest = line.trim_start().strip_prefix(MARK)?.trim();
        (!rest.starts_with("--") && !rest.is_empty()).then_some((index + 1, rest))
    })
}

/// Reads the declaring lines of a CUDA file.
pub(crate) fn expand(path: &Path, text: &str) -> Result<Expanded, ManifestError> {
    let file = path.display().to_string();
    // A text with the same lines, so that places in it are places in the file.
    let mut header = vec![""; text.lines().count()];
    for (line, rest) in header_lines(text) {
        header[line - 1] = rest;
    }
    let header = header.join("\n");
    let reader = Reader { file: &file, text: &header };
    let table: toml::Table = toml::from_str(&header).map_err(|error| {
        reader.error(error.span().unwrap_or(0..0), "header", error.message().replace('\n', " "))
    })?;
    if table.is_empty() {
        let message = format!("the file declares nothing: it needs comment lines that start with `{MARK}`");
        return Err(reader.error(0..0, "header", message));
    }
    let line_of = |key: &str| {
        let starts = |line: &&str| {
            line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(['=', '.', ']']))
                || line.trim_start_matches('[').starts_with(key)
        };
        header.lines().position(|line| starts(&line)).map_or(1, |index| index + 1)
    };
    let wrong = |key: &str, message: String| ManifestError {
        file: file.clone(),
        line: line_of(key),
        column: 1,
        field: key.to_owned(),
        message,
    };

    let mut op = GeneratedFile::default();
    let mut kernel = GeneratedFile::default();
    let arguments = table.get("arguments").and_then(toml::Value::as_table);
    let arguments = arguments
        .ok_or_else(|| wrong("arguments", "is missing: name the kernel's parameters in order".to_owned()))?;
    let launch = table.get("launch").and_then(toml::Value::as_table);
    let launch = launch.ok_or_else(|| {
        wrong("launch", "is missing, as in launch = { grid = [\"rows\"], block = [256] }".to_owned())
    })?;

    if !table.contains_key("description") {
        op.push(&format!("description = {:?}", format!("the kernel in {file}")), 1);
    }
    let mut axes = Vec::new();
    let mut tables = GeneratedFile::default();
    for (key, value) in &table {
        let line = line_of(key);
        match (key.as_str(), value) {
            ("arguments" | "launch", _) => {}
            ("sizes", toml::Value::Table(sizes)) => {
                tables.push("[sizes]", line);
                for (name, size) in sizes {
                    let size = match size {
                        toml::Value::Integer(default) => format!("{{ default = {default} }}"),
                        other => other.to_string(),
                    };
                    tables.push(&format!("{name} = {size}"), line_of(name));
                }
            }
            (key, value) => {
                let target = if KERNEL_FIELDS.contains(&key) { &mut kernel } else { &mut op };
                if key == "axes" {
                    axes.extend(
                        value
                            .as_table()
                            .into_iter()
                            .flatten()
                            .map(|(name, values)| (name.clone(), values.clone())),
                    );
                }
                if key != "targets" {
                    // One line for the whole value: inline tables and arrays.
                    target.push(&format!("{key} = {value}"), line);
                }
            }
        }
    }
    op.text.push_str(&tables.text);
    op.lines.extend(tables.lines);

    let mut parameters = Vec::new();
    let mut first_output = None;
    for (name, value) in arguments {
        let line = line_of(name);
        let text = value.as_str().unwrap_or_default();
        let argument = Argument::read(text).map_err(|message| wrong(name, message))?;
        parameters.push(name.clone());
        let (kind, dtype, shape) = match argument {
            Argument::Size => continue,
            Argument::Tensor { kind, dtype, shape } => (kind, dtype, Some(shape)),
            Argument::Scalar { dtype, value } => {
                op.push("[[arguments]]", line);
                op.push(
                    &format!("name = {name:?}\nkind = \"scalar\"\ndtype = {dtype:?}\nvalue = {value}"),
                    line,
                );
                continue;
            }
        };
        op.push("[[arguments]]", line);
        op.push(&format!("name = {name:?}\nkind = {kind:?}\ndtype = {dtype:?}"), line);
        if let Some(shape) = shape {
            if kind != "in" {
                first_output.get_or_insert(shape.join(" * "));
            }
            op.push(&format!("shape = {shape:?}"), line);
        }
        if !dtype.contains("fp")
            && !dtype.starts_with("bf")
            && !dtype.starts_with('e')
            && kind != "out"
            && !axes.iter().any(|(axis, _)| *axis == dtype)
        {
            op.push("range = [0, 100]", line);
        }
    }
    if !table.contains_key("work") {
        op.push(&format!("[work]\nflops = {:?}", first_output.unwrap_or_else(|| "1".to_owned())), 1);
    }
    write_kernel(&mut kernel, &table, (&parameters, launch), (&axes, text), &wrong)?;
    let beside = beside(path, text, &table);
    Ok(Expanded { op, kernel, beside })
}

/// Completes the `kernel.toml`.
fn write_kernel(
    kernel: &mut GeneratedFile,
    table: &toml::Table,
    (parameters, launch): (&[String], &toml::Table),
    (axes, source): (&[(String, toml::Value)], &str),
    wrong: &impl Fn(&str, String) -> ManifestError,
) -> Result<(), ManifestError> {
    let entry = match launch.get("kernel").and_then(toml::Value::as_str) {
        Some(entry) => entry.to_owned(),
        None => only_kernel(source).map_err(|message| wrong("launch", message))?,
    };
    if !table.contains_key("specialise") {
        let names: Vec<&String> = axes.iter().map(|(name, _)| name).collect();
        let mut first = GeneratedFile::default();
        first.push(&format!("specialise = {names:?}"), 1);
        first.text.push_str(&kernel.text);
        first.lines.append(&mut kernel.lines);
        *kernel = first;
    }
    if !table.contains_key("presets") {
        kernel.push("[presets.default]\nabout = \"the defaults\"", 1);
    }
    let targets = table.get("targets").map_or(TARGETS.to_owned(), ToString::to_string);
    kernel.push(
        &format!(
            "[family]\ndescription = \"a single file\"\nentry = {entry:?}\ntargets = {targets}\nparameters = {parameters:?}"
        ),
        1,
    );
    let mut supports = "[supports]\n".to_owned();
    for (name, values) in axes {
        let _ = writeln!(supports, "{name} = {values}");
    }
    kernel.push(&supports, 1);
    kernel.push("[launch]", 1);
    for field in ["grid", "block", "cluster"] {
        let Some(value) = launch.get(field) else { continue };
        let extents = match value {
            toml::Value::Array(extents) => extents.clone(),
            one => vec![one.clone()],
        };
        let extents: Vec<String> = extents
            .iter()
            .map(|extent| extent.as_str().map_or_else(|| extent.to_string(), str::to_owned))
            .collect();
        kernel.push(&format!("{field} = {extents:?}"), 1);
    }
    Ok(())
}

/// One argument: `in fp16[rows, cols]`, `scalar fp32 = 1e-5`, `size`.
enum Argument {
    Size,
    Tensor { kind: &'static str, dtype: String, shape: Vec<String> },
    Scalar { dtype: String, value: String },
}

impl Argument {
    fn read(text: &str) -> Result<Self, String> {
        let help = "write `in fp16[rows, cols]`, `out fp32[n]`, `inout ...`, `scalar fp32 = 2.0` or `size`";
        let text = text.trim();
        if text == "size" {
            return Ok(Argument::Size);
        }
        let (kind, rest) = text.split_once(char::is_whitespace).ok_or(help)?;
        let kind = ["in", "out", "inout", "scalar"].into_iter().find(|known| *known == kind).ok_or(help)?;
        if kind == "scalar" {
            let (dtype, value) = rest.split_once('=').ok_or(help)?;
            let value = value.trim();
            // A number, or an expression of sizes.
            let is_number = value.parse::<f64>().is_ok();
            let value = if is_number { value.to_owned() } else { format!("{value:?}") };
            return Ok(Argument::Scalar { dtype: dtype.trim().to_owned(), value });
        }
        let (dtype, shape) =
            rest.trim().strip_suffix(']').and_then(|rest| rest.split_once('[')).ok_or(help)?;
        let shape = split_extents(shape);
        Ok(Argument::Tensor { kind, dtype: dtype.trim().to_owned(), shape })
    }
}

/// Splits at commas that are not inside brackets: `ceil_div(n, 2), 4`.
fn split_extents(text: &str) -> Vec<String> {
    let mut extents = vec![String::new()];
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                extents.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = extents.last_mut() {
            last.push(c);
        }
    }
    extents.into_iter().map(|extent| extent.trim().to_owned()).collect()
}

/// The name of the only `extern "C" __global__` function.
fn only_kernel(source: &str) -> Result<String, String> {
    let mut names = Vec::new();
    for part in source.split("__global__").skip(1) {
        let head = part.split('(').next().unwrap_or_default();
        let head = if head.trim_end().ends_with("__launch_bounds__") {
            part.split_once(')').map_or("", |(_, rest)| rest).split('(').next().unwrap_or_default()
        } else {
            head
        };
        if let Some(name) =
            head.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).rfind(|word| !word.is_empty())
        {
            names.push(name.to_owned());
        }
    }
    match names.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err("the file has no __global__ function".to_owned()),
        several => Err(format!(
            "name one of the kernels: launch = {{ kernel = {:?}, ... }} (kernels: {})",
            several[0],
            several.join(", ")
        )),
    }
}

/// The Python files that the declaration names and the headers that the source includes, from the file's folder.
fn beside(path: &Path, source: &str, table: &toml::Table) -> BTreeMap<String, String> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut files = BTreeMap::new();
    let functions = table.get("baselines").and_then(toml::Value::as_table).into_iter().flatten();
    let functions = functions.map(|(_, value)| value).chain(table.get("reference"));
    let scripts = functions.filter_map(|value| Some(value.as_str()?.split(':').next()?.to_owned()));
    let read = |name: &str| {
        let is_plain = !name.contains("..") && !Path::new(name).is_absolute();
        is_plain.then(|| gpu::paths::read_text_bounded(&folder.join(name), MOST_BYTES).ok()).flatten()
    };
    for name in scripts.filter(|name| name.ends_with(".py")) {
        if let Some(text) = read(&name) {
            files.insert(name, text);
        }
    }
    let mut pending = vec![source.to_owned()];
    while let Some(text) = pending.pop() {
        for name in gpu::build::included_names(&text) {
            if files.len() < MOST_HEADERS
                && !files.contains_key(name)
                && let Some(text) = read(name)
            {
                pending.push(text.clone());
                files.insert(name.to_owned(), text);
            }
        }
    }
    files
}

/// Largest size of a file beside the source.
const MOST_BYTES: u64 = 4 << 20;
