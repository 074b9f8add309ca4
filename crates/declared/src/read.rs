//! Reads `op.toml`. All mistakes are reported at once, each with its file, line and field.

use std::path::Path;

use family::{ManifestError, Reader, Value};
use indexmap::IndexMap;
use op::Class;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::declaration::{
    Argument, Axis, Declaration, ElementType, Function, GivenTolerance, Kind, MOST_MAPPED, MOST_SIZE,
    ReferenceLimits, ReferenceSource, ScalarValue, Size, WorkRule, dtype,
};
use crate::fields::{Fields, Mistakes, axis_value, expression, integer, number};
use crate::file_array::FileArray;
use crate::python::MOST_MIB;

/// Largest number of sizes, axes, arguments, aliases and baselines, each.
const MOST_ITEMS: usize = 64;

/// Limits of a call of the reference, unless the file has others.
const DEFAULT_SECONDS: f64 = 60.0;
const DEFAULT_MIB: i64 = 8192;

/// Names that sizes, axes and arguments cannot have, because they have another meaning.
const RESERVED: [&str; 5] = ["workspace", "true", "false", "in", "tuned"];

/// The other files of an op.
#[derive(Clone, Copy)]
pub(crate) struct Beside<'a> {
    /// The names of the Python files; `None` for a process that computes no reference.
    pub scripts: Option<&'a [&'a str]>,
    /// The folder of arrays; `None` for a built-in op.
    pub folder: Option<&'a Path>,
    /// Whether the command line names the expected outputs, so that the file need not have a reference.
    pub has_expected: bool,
}

/// Reads the text of an `op.toml`.
pub(crate) fn read(file: &str, text: &str, beside: Beside<'_>) -> Result<Declaration, Vec<ManifestError>> {
    let reader = Reader { file, text };
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let mistake = |error: &toml::de::Error| {
            let message = error.message().replace('\n', " ");
            reader.error(error.span().unwrap_or(0..0), family::OP_FILE, message)
        };
        return Err(errors.iter().map(mistake).collect());
    }
    let mistakes = Mistakes::new(reader);
    let declaration = declaration(&mistakes, &table, beside);
    let found = mistakes.into_found();
    match declaration {
        Some(declaration) if found.is_empty() => Ok(declaration),
        _ => Err(found),
    }
}

fn declaration<'t>(
    mistakes: &Mistakes<'t>,
    table: &Spanned<DeTable<'t>>,
    beside: Beside<'_>,
) -> Option<Declaration> {
    let scripts = beside.scripts;
    let file = Fields::new(mistakes, "", table);
    let description = file.required_text("description");
    let sizes = sizes(mistakes, &file);
    let axes = axes(mistakes, &file);
    let mut names: Vec<String> = sizes.iter().map(|size| size.name.clone()).collect();
    names.extend(axes.iter().map(|axis| axis.name.clone()));
    unique(&file, "axes", &names);
    axis_values_are_distinct(&file, &axes, &sizes);
    let arguments = arguments(mistakes, &file, (&axes, &names), beside);
    let reference = reference(&file, &arguments, beside);
    let work = work(mistakes, &file, &axes, &names);
    let (reduction, tolerances) = tolerances(mistakes, &file, &arguments, &names);
    let aliases = aliases(mistakes, &file, &sizes, &axes);
    let baselines = baselines(&file, mistakes, scripts);
    let classes = classes(mistakes, &file, "classes").unwrap_or_else(|| Class::OF_TENSORS.to_vec());
    let independent = independent(&file, &sizes);
    let limits = ReferenceLimits {
        seconds: file.number("reference_seconds").unwrap_or(DEFAULT_SECONDS),
        mib: file.integer("reference_mib").unwrap_or(DEFAULT_MIB),
    };
    if !(0.1..=86_400.0).contains(&limits.seconds) {
        file.mistake("reference_seconds", "must be from 0.1 to 86400");
    }
    if !(64..=MOST_MIB).contains(&limits.mib) {
        file.mistake("reference_mib", format!("must be from 64 to {MOST_MIB}"));
    }
    file.finish();
    Some(Declaration {
        description: description?,
        reference: reference?,
        sizes,
        axes,
        arguments,
        work: work?,
        reduction,
        tolerances,
        aliases,
        baselines,
        classes,
        independent,
        limits,
    })
}

/// The sizes along which rows are independent: one name or a list.
fn independent(file: &Fields<'_, '_>, sizes: &[Size]) -> Vec<String> {
    let names = file.texts("independent");
    for (index, name) in names.iter().enumerate() {
        if !sizes.iter().any(|size| size.name == *name) {
            file.mistake("independent", format!("there is no size `{name}`"));
        } else if names[..index].contains(name) {
            file.mistake("independent", format!("`{name}` stands twice"));
        }
    }
    names
}

fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_lowercase())
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !RESERVED.contains(&name)
}

fn unique(file: &Fields<'_, '_>, field: &str, names: &[String]) {
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            file.mistake(field, format!("two sizes or axes have the name `{name}`"));
        }
    }
}

/// `reference.py:rmsnorm`, a function in one of the Python files.
fn function(text: &str, scripts: Option<&[&str]>) -> Result<Function, String> {
    let Some((file, name)) = text.split_once(':') else {
        return Err(format!("`{text}` must name a file and a function, as in `reference.py:function`"));
    };
    if let Some(scripts) = scripts.filter(|scripts| !scripts.contains(&file)) {
        let there = if scripts.is_empty() { "none".to_owned() } else { scripts.join(", ") };
        return Err(format!("there is no {file} beside op.toml (Python files: {there})"));
    }
    let is_identifier = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_identifier {
        return Err(format!("`{name}` is not the name of a Python function"));
    }
    Ok(Function { file: file.to_owned(), name: name.to_owned() })
}

fn reference(
    file: &Fields<'_, '_>,
    arguments: &[Argument],
    Beside { scripts, has_expected, .. }: Beside<'_>,
) -> Option<ReferenceSource> {
    let has_files = arguments.iter().any(|argument| argument.expected.is_some());
    if has_files && file.item("reference").is_some() {
        file.mistake("reference", "an output has `expect`: the expected values are the reference");
    }
    // A process without scripts does not read the expected values.
    if file.item("reference").is_none() && (has_files || has_expected || scripts.is_none()) {
        return Some(ReferenceSource::Files);
    }
    if file.item("reference").is_none() {
        file.mistake(
            "reference",
            "is missing: name a Python function, as in \"reference.py:function\", or give every output `expect`",
        );
    }
    let text = file.text("reference")?;
    if let Some(family) = text.strip_prefix("family:") {
        return Some(ReferenceSource::Family(family.to_owned()));
    }
    match function(&text, scripts) {
        Ok(function) => Some(ReferenceSource::Python(function)),
        Err(message) => {
            file.mistake("reference", message);
            None
        }
    }
}

fn sizes(mistakes: &Mistakes<'_>, file: &Fields<'_, '_>) -> Vec<Size> {
    let mut sizes = Vec::new();
    let entries = file.entries("sizes");
    if entries.is_empty() || entries.len() > MOST_ITEMS {
        file.mistake("sizes", format!("an op has from 1 to {MOST_ITEMS} sizes"));
    }
    for (name, item) in entries {
        let path = format!("sizes.{name}");
        // The name of a problem is `rows4096-cols1024`: a digit at the end would be ambiguous.
        if !is_name(&name) || name.ends_with(|c: char| c.is_ascii_digit()) {
            mistakes.add(
                item.span(),
                &path,
                "the name must be in lower_case, must not end in a digit, and must not be reserved",
            );
        }
        let Some(table) = Fields::of(mistakes, &path, item) else { continue };
        let about = table.text("about").unwrap_or_default();
        let min = table.integer("min").unwrap_or(1);
        let max = table.integer("max").unwrap_or(MOST_SIZE);
        let multiple_of = table.integer("multiple_of").unwrap_or(1);
        let default = table.integer("default");
        if !(1..=MOST_SIZE).contains(&min) || !(min..=MOST_SIZE).contains(&max) {
            table.mistake("min", format!("min and max must be from 1 to {MOST_SIZE}, min first"));
        }
        if multiple_of < 1 || max - max % multiple_of.max(1) < min {
            table.mistake("multiple_of", "no allowed size is a multiple of it");
        }
        table.finish();
        let size = Size {
            name,
            about,
            min: min.max(1),
            max: max.clamp(1, MOST_SIZE),
            multiple_of: multiple_of.max(1),
            default,
        };
        if let Some(refusal) = size.default.and_then(|default| size.refusal(default)) {
            mistakes.add(item.span(), &format!("{path}.default"), refusal);
        }
        sizes.push(size);
    }
    sizes
}

fn axes(mistakes: &Mistakes<'_>, file: &Fields<'_, '_>) -> Vec<Axis> {
    let mut axes = Vec::new();
    for (name, item) in file.entries("axes") {
        let path = format!("axes.{name}");
        if !is_name(&name) {
            mistakes.add(item.span(), &path, "the name must be in lower_case and must not be reserved");
        }
        let DeValue::Array(items) = item.get_ref() else {
            mistakes.add(item.span(), &path, "must be an array of values");
            continue;
        };
        let mut values: Vec<Value> = Vec::new();
        for item in items {
            match axis_value(item.get_ref()) {
                Some(value) if values.contains(&value) => {
                    mistakes.add(item.span(), &path, format!("lists {value} twice"));
                }
                Some(value) => values.push(value),
                None => mistakes.add(item.span(), &path, "a value is a text, a whole number, true or false"),
            }
        }
        let kind = |value: &Value| std::mem::discriminant(value);
        if values.is_empty() || values.iter().any(|value| kind(value) != kind(&values[0])) {
            mistakes.add(item.span(), &path, "needs at least one value, and all of the same type");
            continue;
        }
        let is_word = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        };
        if values.iter().any(|value| matches!(value, Value::Text(text) if !is_word(text))) {
            mistakes.add(item.span(), &path, "a text has only letters, digits, `-` and `_`");
        }
        axes.push(Axis { name, values });
    }
    axes
}

/// A problem's name contains the values of its axes without their names, so the values must be distinct.
fn axis_values_are_distinct(file: &Fields<'_, '_>, axes: &[Axis], sizes: &[Size]) {
    let mut seen: Vec<String> = Vec::new();
    for axis in axes {
        for label in axis.values.iter().filter_map(|value| crate::problem::axis_label(axis, value)) {
            let is_size = sizes.iter().any(|size| {
                label
                    .strip_prefix(size.name.as_str())
                    .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()))
            });
            if seen.contains(&label) || is_size {
                file.mistake("axes", format!("`{label}` is not unique among the axes and sizes"));
            }
            seen.push(label);
        }
    }
}

/// A type, or an axis whose values are types.
fn element_type(text: &str, axes: &[Axis]) -> Result<ElementType, String> {
    if let Some(dtype) = dtype(text) {
        return Ok(ElementType::Fixed(dtype));
    }
    let Some(index) = axes.iter().position(|axis| axis.name == text) else {
        return Err(format!("`{text}` is neither a type (fp16, bf16, fp32, e4m3, i32, ...) nor an axis"));
    };
    let unknown = axes[index].values.iter().find(|value| dtype(&value.to_string()).is_none());
    match unknown {
        Some(value) => Err(format!("the value {value} of the axis {text} is not a type")),
        None => Ok(ElementType::Axis(index)),
    }
}

/// `{ axis = "dtype", e4m3 = "fp16" }`: the types that an axis names, some of them replaced.
fn mapped_type(item: &DeTable<'_>, axes: &[Axis]) -> Result<ElementType, String> {
    let text = |key: &str| item.get(key).and_then(|value| value.get_ref().as_str());
    let Some(name) = text("axis") else {
        return Err("needs the name of an axis, as in { axis = \"dtype\", e4m3 = \"fp16\" }".to_owned());
    };
    let Some(index) = axes.iter().position(|axis| axis.name == name) else {
        return Err(format!("there is no axis `{name}`"));
    };
    let labels: Vec<String> = axes[index].values.iter().map(ToString::to_string).collect();
    if labels.len() > MOST_MAPPED {
        return Err(format!("the axis {name} has more than {MOST_MAPPED} values"));
    }
    for key in item.keys().map(|key| key.get_ref().to_string()) {
        if key != "axis" && !labels.contains(&key) {
            return Err(format!("`{key}` is not a value of the axis {name}"));
        }
    }
    let mut types = [None; MOST_MAPPED];
    for (label, into) in labels.iter().zip(&mut types) {
        let given = text(label).unwrap_or(label);
        *into = dtype(given);
        if into.is_none() {
            return Err(format!("`{given}` is not a type (fp16, bf16, fp32, e4m3, i32, ...)"));
        }
    }
    Ok(ElementType::Mapped(index, types))
}

fn arguments(
    mistakes: &Mistakes<'_>,
    file: &Fields<'_, '_>,
    names: (&[Axis], &[String]),
    beside: Beside<'_>,
) -> Vec<Argument> {
    let items = file.required("arguments").and_then(|_| file.items("arguments")).unwrap_or_default();
    if items.len() > MOST_ITEMS {
        file.mistake("arguments", format!("an op has at most {MOST_ITEMS} arguments"));
        return Vec::new();
    }
    let mut arguments: Vec<Argument> = Vec::new();
    for item in items {
        let Some(table) = Fields::of(mistakes, "arguments", item) else { continue };
        let Some(name) = table.required_text("name") else { continue };
        let table = Fields::of(mistakes, &format!("arguments.{name}"), item).unwrap_or(table);
        if let Some(argument) = argument(mistakes, &table, name, names, beside) {
            let taken = arguments.iter().any(|other| other.name == argument.name);
            if taken || names.1.contains(&argument.name) {
                table.mistake(
                    "name",
                    format!("two arguments, sizes or axes have the name `{}`", argument.name),
                );
            }
            arguments.push(argument);
        }
        table.finish();
    }
    if !arguments.iter().any(|argument| argument.kind.is_written()) {
        file.mistake("arguments", "an op needs an output (kind = \"out\" or \"inout\")");
    }
    arguments
}

fn argument(
    mistakes: &Mistakes<'_>,
    table: &Fields<'_, '_>,
    name: String,
    (axes, names): (&[Axis], &[String]),
    beside: Beside<'_>,
) -> Option<Argument> {
    table.text("name");
    table.text("about");
    if !is_name(&name) {
        let message = if RESERVED.contains(&name.as_str()) {
            format!(
                "`{name}` is reserved; the parameter of the kernel may keep this name, because only the order counts"
            )
        } else {
            "must be in lower_case; the parameter of the kernel may have another name, because only the order counts"
                .to_owned()
        };
        table.mistake("name", message);
    }
    let kind = table.required_text("kind");
    let kind = kind.and_then(|text| {
        let found = Kind::NAMES.into_iter().find(|(known, _)| *known == text);
        if found.is_none() {
            let known = Kind::NAMES.map(|(name, _)| name).join(", ");
            table.mistake("kind", format!("`{text}` is not one of {known}"));
        }
        found.map(|(_, kind)| kind)
    });
    let dtype = table.required("dtype").and_then(|item| {
        let found = match item.get_ref() {
            DeValue::Table(map) => mapped_type(map, axes),
            _ => element_type(&table.text("dtype")?, axes),
        };
        found.map_err(|message| table.mistake("dtype", message)).ok()
    });
    let shape_items = table.items("shape");
    if kind == Some(Kind::Scalar) && shape_items.is_some() {
        table.mistake("shape", "a scalar has no shape");
    }
    if kind.is_some_and(|kind| kind != Kind::Scalar) && shape_items.is_none() {
        table.mistake("shape", "is missing: a tensor needs its extents, as in [\"rows\", \"cols\"]");
    }
    let path = table.path("shape");
    let shape = shape_items.unwrap_or_default();
    let shape = shape.into_iter().filter_map(|item| expression(mistakes, &path, item, names)).collect();
    let value = scalar_value(mistakes, table, kind, names);
    let range = range(table);
    let is_integer = match dtype {
        Some(ElementType::Fixed(dtype)) => !dtype.is_float(),
        Some(ElementType::Mapped(_, types)) => types.into_iter().flatten().any(|dtype| !dtype.is_float()),
        Some(ElementType::Axis(index)) => {
            let types = axes[index].values.iter().filter_map(|value| self::dtype(&value.to_string()));
            types.into_iter().any(|dtype| !dtype.is_float())
        }
        None => false,
    };
    let contents = array(table, "file", kind.is_none_or(Kind::is_read), beside.folder);
    // A process that runs kernels must not know the expected values.
    let expect_folder = beside.folder.filter(|_| beside.scripts.is_some());
    let expected = match table.text("expect") {
        Some(_) if beside.scripts.is_none() => None,
        _ => array(table, "expect", kind.is_none_or(Kind::is_written), expect_folder),
    };
    let has_file = table.text("file").is_some();
    if is_integer && range.is_none() && contents.is_none() && !has_file && kind.is_some_and(Kind::is_read) {
        table.mistake("range", "is missing: integer inputs need a range, as in [0, 100]");
    }
    let zeroed = table.truth("zeroed").unwrap_or(false);
    if zeroed && kind != Some(Kind::Out) {
        table.mistake("zeroed", "only an output (kind = \"out\") can be zero before a launch");
    }
    let scale = table.number("scale").unwrap_or(1.0);
    let classes = classes(mistakes, table, "classes");
    let value = value?;
    Some(Argument {
        name,
        kind: kind?,
        dtype: dtype?,
        shape,
        scale,
        range,
        classes,
        value,
        zeroed,
        contents,
        expected,
    })
}

/// The array of a file, if the field names one.
fn array(
    table: &Fields<'_, '_>,
    field: &'static str,
    is_allowed: bool,
    folder: Option<&Path>,
) -> Option<FileArray> {
    let name = table.text(field)?;
    if !is_allowed {
        let message = match field {
            "file" => "only an argument that the kernel reads has contents",
            _ => "only an output has expected values",
        };
        table.mistake(field, message);
        return None;
    }
    let Some(folder) = folder else {
        table.mistake(field, "a built-in op has no arrays");
        return None;
    };
    FileArray::read(&folder.join(name)).map_err(|message| table.mistake(field, message)).ok()
}

fn scalar_value(
    mistakes: &Mistakes<'_>,
    table: &Fields<'_, '_>,
    kind: Option<Kind>,
    names: &[String],
) -> Option<ScalarValue> {
    let item = table.item("value");
    match (item, kind) {
        (None, Some(Kind::Scalar)) => {
            table.mistake("value", "is missing: a scalar needs a number or an expression of sizes");
            None
        }
        (None, _) => Some(ScalarValue::Number(0.0)),
        (Some(_), Some(kind)) if kind != Kind::Scalar => {
            table.mistake("value", "only a scalar has a value");
            None
        }
        (Some(item), _) => match item.get_ref() {
            DeValue::String(_) => {
                expression(mistakes, &table.path("value"), item, names).map(ScalarValue::Expression)
            }
            other => {
                let found = number(other).filter(|number| number.is_finite());
                if found.is_none() {
                    table.mistake("value", "must be a finite number or an expression of sizes");
                }
                found.map(ScalarValue::Number)
            }
        },
    }
}

fn range(table: &Fields<'_, '_>) -> Option<(f64, f64)> {
    let items = table.items("range")?;
    let numbers: Vec<f64> = items.iter().filter_map(|item| number(item.get_ref())).collect();
    match numbers[..] {
        [low, high] if low < high && low.is_finite() && high.is_finite() => Some((low, high)),
        _ => {
            table.mistake("range", "must be two numbers, the smaller first");
            None
        }
    }
}

fn classes(mistakes: &Mistakes<'_>, table: &Fields<'_, '_>, field: &'static str) -> Option<Vec<Class>> {
    let items = table.items(field)?;
    let mut classes = Vec::new();
    for item in items {
        match item.get_ref().as_str().map(str::parse::<Class>) {
            Some(Ok(class)) if Class::OF_TENSORS.contains(&class) => classes.push(class),
            Some(Ok(class)) => {
                let known = Class::OF_TENSORS.map(Class::name).join(", ");
                let message = format!("`{class}` is a class of attention's inputs; expected one of {known}");
                mistakes.add(item.span(), &table.path(field), message);
            }
            Some(Err(unknown)) => mistakes.add(item.span(), &table.path(field), unknown.to_string()),
            None => mistakes.add(item.span(), &table.path(field), "must be the name of a class"),
        }
    }
    if classes.is_empty() {
        table.mistake(field, "needs at least one class");
        return None;
    }
    Some(classes)
}

fn work(mistakes: &Mistakes<'_>, file: &Fields<'_, '_>, axes: &[Axis], names: &[String]) -> Option<WorkRule> {
    let table = Fields::of(mistakes, "work", file.required("work")?)?;
    table.required("flops");
    let flops = table.expression("flops", names);
    let bytes = table.expression("bytes", names);
    let matrix = table.text("matrix").and_then(|text| match element_type(&text, axes) {
        Ok(matrix) => Some(matrix),
        Err(message) => {
            table.mistake("matrix", message);
            None
        }
    });
    table.finish();
    Some(WorkRule { flops: flops?, bytes, matrix })
}

fn tolerances(
    mistakes: &Mistakes<'_>,
    file: &Fields<'_, '_>,
    arguments: &[Argument],
    names: &[String],
) -> (Option<family::Expression>, IndexMap<String, GivenTolerance>) {
    let mut tolerances = IndexMap::new();
    let mut reduction = None;
    for (name, item) in file.entries("tolerance") {
        let path = format!("tolerance.{name}");
        if name == "reduction" {
            reduction = expression(mistakes, &path, item, names);
            continue;
        }
        if !arguments.iter().any(|argument| argument.name == name && argument.kind.is_written()) {
            mistakes.add(item.span(), &path, "is neither `reduction` nor an output");
        }
        let Some(table) = Fields::of(mistakes, &path, item) else { continue };
        let limit = |field: &'static str| {
            let number = table.number(field)?;
            if !(0.0..=1e30).contains(&number) {
                table.mistake(field, "must not be negative");
            }
            Some(number)
        };
        let (rtol, atol, l2) = (limit("rtol"), limit("atol"), limit("l2"));
        let given = GivenTolerance { rtol, atol, l2, elements_only: false };
        table.finish();
        tolerances.insert(name, given);
    }
    (reduction, tolerances)
}

fn aliases(
    mistakes: &Mistakes<'_>,
    file: &Fields<'_, '_>,
    sizes: &[Size],
    axes: &[Axis],
) -> IndexMap<String, IndexMap<String, Value>> {
    let mut aliases = IndexMap::new();
    for (name, item) in file.entries("problems") {
        let path = format!("problems.{name}");
        if !is_name(&name) {
            mistakes.add(item.span(), &path, "the name must be in lower_case and must not be reserved");
        }
        let DeValue::Table(table) = item.get_ref() else {
            mistakes.add(item.span(), &path, "must be a table of sizes");
            continue;
        };
        let mut fields: IndexMap<String, Value> = IndexMap::new();
        for (key, value) in table {
            let key_name: &str = key.get_ref();
            let field = format!("{path}.{key_name}");
            if let Some(size) = sizes.iter().find(|size| size.name == key_name) {
                match integer(value.get_ref()) {
                    Some(number) => match size.refusal(number) {
                        Some(refusal) => mistakes.add(value.span(), &field, refusal),
                        None => drop(fields.insert(key_name.to_owned(), Value::Int(number))),
                    },
                    None => mistakes.add(value.span(), &field, "must be a whole number"),
                }
            } else if let Some(axis) = axes.iter().find(|axis| axis.name == key_name) {
                match axis_value(value.get_ref()).filter(|value| axis.values.contains(value)) {
                    Some(value) => drop(fields.insert(key_name.to_owned(), value)),
                    None => mistakes.add(value.span(), &field, "is not a value of this axis"),
                }
            } else {
                mistakes.add(key.span(), &field, "is neither a size nor an axis");
            }
        }
        for size in sizes.iter().filter(|size| size.default.is_none()) {
            if !table.contains_key(size.name.as_str()) {
                mistakes.add(item.span(), &path, format!("the size {} is missing", size.name));
            }
        }
        aliases.insert(name, fields);
    }
    aliases
}

fn baselines(
    file: &Fields<'_, '_>,
    mistakes: &Mistakes<'_>,
    scripts: Option<&[&str]>,
) -> IndexMap<String, Function> {
    let mut baselines = IndexMap::new();
    for (name, item) in file.entries("baselines") {
        let path = format!("baselines.{name}");
        match item.get_ref().as_str().map(|text| function(text, scripts)) {
            Some(Ok(function)) => drop(baselines.insert(name, function)),
            Some(Err(message)) => mistakes.add(item.span(), &path, message),
            None => mistakes.add(item.span(), &path, "must be a text, as in \"baselines.py:function\""),
        }
    }
    baselines
}
