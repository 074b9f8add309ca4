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
//! `x = "in fp32[n] = x.npy"` takes the contents of an input from a file, and `y = "out fp32[n] = y.npy"` the expected
//! contents of an output, which replace the reference. `y = "out fp32[n] = 0"` is an output that is zero before every
//! launch, `x = "in i32[n] = 0..63"` an input of uniform numbers, and `sums = "scratch fp32[n]"` temporary memory. The
//! arguments are the kernel's parameters in order. A file with several launches has `[[launches]]` instead of `launch`.
//! The lines become an `op.toml` and a `kernel.toml` in memory. Lines with `--flags` belong to `sanitize`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::text::{ManifestError, Reader};

/// What the declaration of a kernel gets, so that its name has no types of parameters.
pub(crate) const PLAIN_NAME: &str = "extern \"C\" ";
/// The start of a line that declares something.
const MARK: &str = "// warpsmith:";
/// Most headers that a file may include.
const MOST_HEADERS: usize = 200;
/// The targets of a family that names none.
const TARGETS: &str = "[\"sm_80\", \"sm_86\", \"sm_89\", \"sm_90\", \"sm_90a\"]";
/// A field of the `[family]` table of `kernel.toml`.
const DETERMINISTIC: &str = "deterministic";
/// Fields that `kernel.toml` has; all others belong to `op.toml`.
const KERNEL_FIELDS: [&str; 11] = [
    DETERMINISTIC,
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

/// Fields that stand before `[arguments]`, besides those of `kernel.toml`.
const OP_FIELDS: [&str; 13] = [
    LAUNCH,
    LAUNCHES,
    "description",
    "reference",
    "reference_seconds",
    "reference_mib",
    "independent",
    "classes",
    "sizes",
    "axes",
    "work",
    "tolerance",
    "problems",
];

/// The generated files, and the line of the CUDA file that each of their lines comes from.
pub(crate) struct Expanded {
    pub op: GeneratedFile,
    pub kernel: GeneratedFile,
    /// The source, in which the kernel has its plain name.
    pub source: String,
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
pub(crate) fn expand(path: &Path, source: &str) -> Result<Expanded, ManifestError> {
    let header = Header::read(path, source)?;
    let launches = header.launches(path, source)?;
    let is_template = |(_, specifiers): (usize, &str)| specifiers.contains("template");
    for Launch { entry, field, .. } in &launches {
        if declarations(source, entry).any(is_template) {
            let message = format!("`{entry}` is a template; check needs a kernel that is none");
            return Err(header.wrong(field, message));
        }
    }
    let op = header.op_manifest()?;
    let kernel = header.kernel_manifest(&launches)?;
    let beside = header.beside(path, source);
    let mut plain = source.to_owned();
    let mut entries: Vec<&str> = launches.iter().map(|launch| launch.entry.as_str()).collect();
    entries.sort_unstable();
    entries.dedup();
    if !compiler::is_ptx(path) {
        for entry in entries {
            plain = with_plain_name(&plain, entry);
        }
    }
    Ok(Expanded { op, kernel, source: plain, beside })
}

/// The field of a file's only launch, and of several.
const LAUNCH: &str = "launch";
const LAUNCHES: &str = "launches";

/// One launch of a file.
struct Launch<'h> {
    /// The name of its kernel.
    entry: String,
    /// [`LAUNCH`] or [`LAUNCHES`].
    field: &'h str,
    /// The line that declares it.
    line: usize,
    table: toml::Table,
}

/// The declaration of a file.
struct Header {
    /// The path of the file, for messages.
    file: String,
    /// The declaring lines at their places; all other lines are empty.
    text: String,
    table: toml::Table,
}

impl Header {
    fn read(path: &Path, source: &str) -> Result<Self, ManifestError> {
        let file = path.display().to_string();
        let mut lines = vec![""; source.lines().count()];
        for (line, rest) in header_lines(source) {
            lines[line - 1] = rest;
        }
        let text = lines.join("\n");
        let reader = Reader { file: &file, text: &text };
        let table: toml::Table = toml::from_str(&text).map_err(|error| {
            reader.error(error.span().unwrap_or(0..0), "header", error.message().replace('\n', " "))
        })?;
        if table.is_empty() {
            let message = format!("the file declares no op: it needs comment lines that start with `{MARK}`");
            return Err(reader.error(0..0, "header", message));
        }
        Ok(Header { file, text, table })
    }

    /// The line that declares a field.
    fn line(&self, field: &str) -> usize {
        let declares = |line: &str| {
            let line = line.trim_start_matches('[');
            line.strip_prefix(field).is_some_and(|rest| rest.trim_start().starts_with(['=', '.', ']']))
        };
        // A field of an inline table stands in the line of the table.
        let contains = |line: &str| line.contains(&format!("{field} ="));
        let lines = || self.text.lines();
        lines().position(declares).or_else(|| lines().position(contains)).map_or(1, |index| index + 1)
    }

    fn wrong(&self, field: &str, message: impl Into<String>) -> ManifestError {
        let (file, line) = (self.file.clone(), self.line(field));
        ManifestError { file, line, column: 1, field: field.to_owned(), message: message.into() }
    }

    /// A field that must be a table.
    fn table(&self, field: &str, help: &str) -> Result<&toml::Table, ManifestError> {
        let table = self.table.get(field).and_then(toml::Value::as_table);
        table.ok_or_else(|| self.wrong(field, help))
    }

    fn arguments(&self) -> Result<&toml::Table, ManifestError> {
        self.table("arguments", "is missing: a table of the kernel's parameters in order")
    }

    /// The op's axes with their values.
    fn axes(&self) -> impl Iterator<Item = (&String, &toml::Value)> {
        self.table.get("axes").and_then(toml::Value::as_table).into_iter().flatten()
    }

    fn op_manifest(&self) -> Result<GeneratedFile, ManifestError> {
        let mut op = GeneratedFile::default();
        if !self.table.contains_key("description") {
            op.push(&format!("description = {:?}", format!("the kernel in {}", self.file)), 1);
        }
        let is_own = |key: &str| {
            !KERNEL_FIELDS.contains(&key) && !["arguments", LAUNCH, LAUNCHES, "sizes"].contains(&key)
        };
        // One line for each value: inline tables and arrays.
        for (key, value) in self.table.iter().filter(|(key, _)| is_own(key)) {
            op.push(&format!("{key} = {value}"), self.line(key));
        }
        op.push("[sizes]", self.line("sizes"));
        for (name, size) in self.table("sizes", "is missing, as in sizes = { n = 1000 }")? {
            let size = match size {
                toml::Value::Integer(default) => format!("{{ default = {default} }}"),
                other => other.to_string(),
            };
            op.push(&format!("{name} = {size}"), self.line(name));
        }
        let mut elements = None;
        for (name, value) in self.arguments()? {
            let argument = self.argument(name, value)?;
            if let Argument::Tensor { kind: "out" | "inout", shape, .. } = &argument {
                elements.get_or_insert(shape.join(" * "));
            }
            op.push(&self.declared(name, &argument), self.line(name));
        }
        if !self.table.contains_key("work") {
            let flops = elements.unwrap_or_else(|| "1".to_owned());
            op.push(&format!("[work]\nflops = {flops:?}"), 1);
        }
        Ok(op)
    }

    fn argument(&self, name: &str, value: &toml::Value) -> Result<Argument, ManifestError> {
        Argument::read(value.as_str().unwrap_or_default()).map_err(|message| {
            if KERNEL_FIELDS.contains(&name) || OP_FIELDS.contains(&name) {
                self.wrong(name, "is below `[arguments]`, so it is taken for an argument: write it above")
            } else {
                self.wrong(name, message)
            }
        })
    }

    /// The `[[arguments]]` table of an argument; empty for a size and for temporary memory.
    fn declared(&self, name: &str, argument: &Argument) -> String {
        match argument {
            Argument::Size | Argument::Scratch { .. } => String::new(),
            Argument::Scalar { dtype, value } => {
                format!(
                    "[[arguments]]\nname = {name:?}\nkind = \"scalar\"\ndtype = {dtype:?}\nvalue = {value}"
                )
            }
            Argument::Tensor { kind, dtype, shape, contents } => {
                let is_integer = dtype.starts_with(['i', 'u']) && self.axes().all(|(axis, _)| axis != dtype);
                let contents = match contents {
                    None if is_integer && *kind != "out" => "\nrange = [0, 100]".to_owned(),
                    None => String::new(),
                    Some(Contents::Range(low, high)) => format!("\nrange = [{low}, {high}]"),
                    Some(Contents::Zeros) => "\nzeroed = true".to_owned(),
                    Some(Contents::File(file)) if *kind == "out" => format!("\nexpect = {file:?}"),
                    Some(Contents::File(file)) => format!("\nfile = {file:?}"),
                };
                format!(
                    "[[arguments]]\nname = {name:?}\nkind = {kind:?}\ndtype = {dtype:?}\nshape = {shape:?}{contents}"
                )
            }
        }
    }

    /// The launches in their order. Of several, the first is the main one.
    fn launches(&self, path: &Path, source: &str) -> Result<Vec<Launch<'_>>, ManifestError> {
        let several = self.table.get(LAUNCHES).and_then(toml::Value::as_array);
        let (field, tables) = if let Some(tables) = several {
            (LAUNCHES, tables.iter().filter_map(toml::Value::as_table).collect())
        } else {
            let help = "is missing, as in launch = { grid = [\"rows\"], block = [256] }";
            (LAUNCH, vec![self.table(LAUNCH, help)?])
        };
        if several.is_some() && self.table.contains_key(LAUNCH) {
            return Err(self.wrong(LAUNCH, "a file has either `launch` or `[[launches]]`"));
        }
        if tables.is_empty() || several.is_some_and(|all| all.len() > tables.len()) {
            return Err(self.wrong(field, "must be tables, as in [[launches]]"));
        }
        let launch = |(index, table): (usize, &'_ toml::Table)| {
            let entry = match table.get("kernel").and_then(toml::Value::as_str) {
                Some(entry) => entry.to_owned(),
                None => only_kernel(path, source).map_err(|message| self.wrong(field, message))?,
            };
            Ok(Launch { entry, field, line: self.launch_line(index), table: table.clone() })
        };
        tables.into_iter().enumerate().map(launch).collect()
    }

    /// The line of a launch.
    fn launch_line(&self, index: usize) -> usize {
        let starts = self.text.lines().enumerate().filter(|(_, line)| line.starts_with("[[launches]]"));
        starts.map(|(line, _)| line + 1).nth(index).unwrap_or_else(|| self.line(LAUNCH))
    }

    /// The tables of temporary memory.
    fn scratch(&self) -> Result<Vec<(String, usize)>, ManifestError> {
        let mut tables = Vec::new();
        for (name, value) in self.arguments()? {
            if let Argument::Scratch { element, shape } = self.argument(name, value)? {
                let table =
                    format!("[[workspace]]\nname = {name:?}\nelement = {element:?}\nshape = {shape:?}");
                tables.push((table, self.line(name)));
            }
        }
        Ok(tables)
    }

    fn kernel_manifest(&self, launches: &[Launch<'_>]) -> Result<GeneratedFile, ManifestError> {
        let (entry, line) = launches.first().map_or(("", 1), |main| (main.entry.as_str(), main.line));
        let mut kernel = GeneratedFile::default();
        if !self.table.contains_key("specialise") {
            let names: Vec<&String> = self.axes().map(|(name, _)| name).collect();
            kernel.push(&format!("specialise = {names:?}"), 1);
        }
        for (key, value) in self.table.iter().filter(|(key, _)| KERNEL_FIELDS.contains(&key.as_str())) {
            if !["targets", DETERMINISTIC].contains(&key.as_str()) {
                kernel.push(&format!("{key} = {value}"), self.line(key));
            }
        }
        if !self.table.contains_key("presets") {
            kernel.push("[presets.default]\nabout = \"the defaults\"", 1);
        }
        let targets = self.table.get("targets").map_or(TARGETS.to_owned(), ToString::to_string);
        let parameters: Vec<&String> = self.arguments()?.keys().collect();
        kernel.push(&format!("[family]\ndescription = \"a single file\"\nentry = {entry:?}"), line);
        kernel.push(&format!("targets = {targets}"), self.line("targets"));
        if let Some(value) = self.table.get(DETERMINISTIC) {
            kernel.push(&format!("{DETERMINISTIC} = {value}"), self.line(DETERMINISTIC));
        }
        kernel.push(&format!("parameters = {parameters:?}"), self.line("arguments"));
        kernel.push("[supports]", 1);
        for (name, values) in self.axes() {
            kernel.push(&format!("{name} = {values}"), self.line("axes"));
        }
        for (table, line) in self.scratch()? {
            kernel.push(&table, line);
        }
        for launch in launches {
            self.push_launch(launch, &mut kernel)?;
        }
        Ok(kernel)
    }

    fn push_launch(&self, launch: &Launch<'_>, kernel: &mut GeneratedFile) -> Result<(), ManifestError> {
        let Launch { entry, field, line, table } = launch;
        let is_one = *field == LAUNCH;
        kernel.push(if is_one { "[launch]" } else { "[[launches]]" }, *line);
        for (key, value) in table {
            let text = match key.as_str() {
                "kernel" => continue,
                "grid" | "block" | "cluster" => {
                    let extents = match value {
                        toml::Value::Array(extents) => extents.clone(),
                        one => vec![one.clone()],
                    };
                    let text = |extent: &toml::Value| {
                        extent.as_str().map_or_else(|| extent.to_string(), str::to_owned)
                    };
                    format!("{:?}", extents.iter().map(text).collect::<Vec<_>>())
                }
                "parameters" | "when" | "shared" if !is_one => value.to_string(),
                other => {
                    let known = if is_one { "" } else { ", parameters, when, shared" };
                    let message =
                        format!("has no field `{other}` (fields: kernel, grid, block, cluster{known})");
                    return Err(self.wrong(field, message));
                }
            };
            kernel.push(&format!("{key} = {text}"), *line);
        }
        for needed in ["grid", "block"] {
            if !table.contains_key(needed) {
                let message = format!("`{needed}` is missing, as in grid = [\"rows\"], block = [256]");
                return Err(self.wrong(field, message));
            }
        }
        if !is_one {
            kernel.push(&format!("entry = {entry:?}"), *line);
        }
        Ok(())
    }

    /// The Python files that the declaration names and the headers that the source includes, from the file's folder.
    fn beside(&self, path: &Path, source: &str) -> BTreeMap<String, String> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let read = |name: &str| {
            let is_plain = !name.contains("..") && !Path::new(name).is_absolute();
            is_plain.then(|| files::read_text_bounded(&folder.join(name), MOST_BYTES).ok()).flatten()
        };
        let mut files = BTreeMap::new();
        let baselines = self.table.get("baselines").and_then(toml::Value::as_table).into_iter().flatten();
        let functions = baselines.map(|(_, value)| value).chain(self.table.get("reference"));
        for name in functions.filter_map(|value| value.as_str()?.split_once(':').map(|(file, _)| file)) {
            if let Some(text) = read(name) {
                files.insert(name.to_owned(), text);
            }
        }
        let mut pending = vec![source.to_owned()];
        while let Some(text) = pending.pop() {
            for name in compiler::included_names(&text) {
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
}

/// One argument: `in fp16[rows, cols]`, `in fp16[rows, cols] = x.npy`, `out fp32[n] = 0`, `scalar fp32 = 1e-5`, `size`.
enum Argument {
    Size,
    Tensor {
        kind: &'static str,
        dtype: String,
        shape: Vec<String>,
        contents: Option<Contents>,
    },
    Scalar {
        dtype: String,
        value: String,
    },
    /// Temporary memory: the type as `kernel.toml` names it, and the extents.
    Scratch {
        element: &'static str,
        shape: Vec<String>,
    },
}

/// What a tensor holds.
enum Contents {
    /// An output is zero before every launch.
    Zeros,
    /// Uniform numbers from the first to the second.
    Range(f64, f64),
    /// The contents of an input, or the expected contents of an output.
    File(String),
}

impl Argument {
    fn read(text: &str) -> Result<Self, String> {
        let help = "write `in fp16[rows, cols]`, `out fp32[n]`, `out fp32[n] = 0`, `inout ...`, `in fp32[n] = x.npy`, \
                    `in i32[n] = 0..63`, `scratch fp32[n]`, `scalar fp32 = 2.0` or `size`";
        let text = text.trim();
        if text == "size" {
            return Ok(Argument::Size);
        }
        let (kind, rest) = text.split_once(char::is_whitespace).ok_or(help)?;
        let kind =
            ["in", "out", "inout", "scalar", SCRATCH].into_iter().find(|known| *known == kind).ok_or(help)?;
        if kind == "scalar" {
            let (dtype, value) = rest.split_once('=').ok_or(help)?;
            let value = value.trim();
            // A number, or an expression of sizes.
            let is_number = value.parse::<f64>().is_ok();
            let value = if is_number { value.to_owned() } else { format!("{value:?}") };
            return Ok(Argument::Scalar { dtype: dtype.trim().to_owned(), value });
        }
        let (rest, contents) = match rest.rsplit_once(']') {
            Some((before, after)) if !after.trim().is_empty() => {
                let file = after.trim().strip_prefix('=').ok_or(help)?.trim();
                if kind == "out" && file == "0" {
                    (format!("{before}]"), Some(Contents::Zeros))
                } else if let Some((low, high)) = file.split_once("..").filter(|_| kind != "out") {
                    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|it| it.is_finite());
                    let range = number(low).zip(number(high)).filter(|(low, high)| low < high);
                    let (low, high) =
                        range.ok_or_else(|| format!("`{file}` is not a range, as in `0..63`"))?;
                    (format!("{before}]"), Some(Contents::Range(low, high)))
                } else if Path::new(file).extension().is_none_or(|extension| extension != "npy") {
                    return Err(format!("`{file}` is not an .npy file"));
                } else {
                    (format!("{before}]"), Some(Contents::File(file.to_owned())))
                }
            }
            _ => (rest.to_owned(), None),
        };
        let (dtype, shape) =
            rest.trim().strip_suffix(']').and_then(|rest| rest.split_once('[')).ok_or(help)?;
        let shape = split_extents(shape);
        if kind == SCRATCH {
            if contents.is_some() {
                return Err("temporary memory has no contents; a first launch can write it".to_owned());
            }
            let element = scratch_element(dtype.trim())
                .ok_or_else(|| format!("there is no type `{}`", dtype.trim()))?;
            return Ok(Argument::Scratch { element, shape });
        }
        Ok(Argument::Tensor { kind, dtype: dtype.trim().to_owned(), shape, contents })
    }
}

/// The kind of temporary memory.
const SCRATCH: &str = "scratch";

/// A type of the same size, as `kernel.toml` names it.
fn scratch_element(dtype: &str) -> Option<&'static str> {
    Some(match dtype {
        "f64" | "fp64" => "double",
        "f32" | "fp32" => "float",
        "f16" | "fp16" => "half",
        "bf16" => "bf16",
        "e4m3" | "e5m2" | "i8" | "u8" => "u8",
        "i16" | "u16" => "u16",
        "i32" => "int",
        "u32" => "u32",
        "i64" | "u64" => "u64",
        _ => return None,
    })
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

/// The names of the `__global__` functions of a CUDA source.
pub fn cuda_kernels(source: &str) -> Vec<String> {
    source.split(GLOBAL).skip(1).filter_map(declared_name).map(str::to_owned).collect()
}

/// What declares a kernel.
const GLOBAL: &str = "__global__";

/// The name of the function that the text behind `__global__` declares.
fn declared_name(text: &str) -> Option<&str> {
    let head = text.split('(').next().unwrap_or_default();
    let head = if head.trim_end().ends_with("__launch_bounds__") {
        text.split_once(')').map_or("", |(_, rest)| rest).split('(').next().unwrap_or_default()
    } else {
        head
    };
    head.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).rfind(|word| !word.is_empty())
}

/// The source with `extern "C"` before every declaration of the kernel: a family launches its kernel by the plain name,
/// and C++ gives it a name with the types of its parameters. Lines keep their numbers. Templates stay as they are.
fn with_plain_name(source: &str, entry: &str) -> String {
    let mut text = String::with_capacity(source.len() + 16);
    let mut copied = 0;
    for (start, specifiers) in declarations(source, entry) {
        let is_left = ["extern", "template"].iter().any(|word| specifiers.contains(word));
        if start >= copied && !is_left {
            text += &source[copied..start];
            text += PLAIN_NAME;
            copied = start;
        }
    }
    text + &source[copied..]
}

/// Where each declaration of the kernel starts, and what it has before `__global__`.
fn declarations<'s>(source: &'s str, entry: &'s str) -> impl Iterator<Item = (usize, &'s str)> {
    let is_kernel = move |at: usize| declared_name(&source[at + GLOBAL.len()..]) == Some(entry);
    let found = source.match_indices(GLOBAL).map(|(at, _)| at).filter(move |&at| is_kernel(at));
    let found = found.map(|at| {
        let start = declaration_start(&source[..at]);
        (start, &source[start..at])
    });
    found.filter(|(_, specifiers)| !["*", "//"].iter().any(|comment| specifiers.contains(comment)))
}

/// Where the declaration starts whose first words end the text: after the last statement, comment or directive.
fn declaration_start(before: &str) -> usize {
    let is_other = |line: &str| {
        let line = line.trim();
        line.is_empty()
            || line.starts_with(['#', '/', '*'])
            || line.ends_with([';', '{', '}', '\\'])
            || line.ends_with("*/")
    };
    let mut start = before.rfind('\n').map_or(0, |end| end + 1);
    start += before[start..].rfind([';', '{', '}']).map_or(0, |end| end + 1);
    while before[..start].ends_with('\n') {
        let line = before[..start - 1].rfind('\n').map_or(0, |end| end + 1);
        if is_other(&before[line..start - 1]) {
            break;
        }
        start = line;
    }
    start + before[start..].len() - before[start..].trim_start().len()
}

/// The name of the only kernel.
fn only_kernel(path: &Path, source: &str) -> Result<String, String> {
    let is_ptx = compiler::is_ptx(path);
    let names = if is_ptx { compiler::ptx_entries(source) } else { cuda_kernels(source) };
    match names.as_slice() {
        [one] => Ok(one.clone()),
        [] if is_ptx => Err("the file has no .entry function".to_owned()),
        [] => Err("the file has no __global__ function".to_owned()),
        several => Err(format!(
            "name one of the kernels: launch = {{ kernel = {:?}, ... }} (kernels: {})",
            several[0],
            several.join(", ")
        )),
    }
}

/// Largest size of a file beside the source.
const MOST_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_gets_its_plain_name_whatever_stands_before_it() {
        for (source, expected) in [
            ("__global__ void k(int* x) {}", "extern \"C\" __global__ void k(int* x) {}"),
            ("extern \"C\" __global__ void k() {}", "extern \"C\" __global__ void k() {}"),
            ("extern \"C\"\n__global__ void k() {}", "extern \"C\"\n__global__ void k() {}"),
            ("int a;static __global__ void k() {}", "int a;extern \"C\" static __global__ void k() {}"),
            (
                "#include <x>\n// a __global__ void k(\n__launch_bounds__(64)\n  __global__ void k() {}",
                "#include <x>\n// a __global__ void k(\nextern \"C\" __launch_bounds__(64)\n  __global__ void k() {}",
            ),
            (
                "__global__ void k();\nvoid __global__ __launch_bounds__(8, 2) k() {}",
                "extern \"C\" __global__ void k();\nextern \"C\" void __global__ __launch_bounds__(8, 2) k() {}",
            ),
            ("template <class T>\n__global__ void k(T) {}", "template <class T>\n__global__ void k(T) {}"),
            ("__global__ void other() {}", "__global__ void other() {}"),
        ] {
            assert_eq!(with_plain_name(source, "k"), expected);
        }
    }
}
