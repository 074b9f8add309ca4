//! Tests that the published schemas of `op.toml` and `kernel.toml` agree with the code: all built-in manifests are valid,
//! both have the same fields, and both refuse the same mistakes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn schema(name: &str) -> Value {
    let path = root().join("docs/src/reference/manifests").join(format!("{name}.schema.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn is_valid(schema: &Value, manifest: &str) -> Result<(), String> {
    let table: toml::Table = manifest.parse().map_err(|error| format!("{error}"))?;
    let document = serde_json::to_value(table).unwrap();
    let validator = jsonschema::options().build(schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
}

/// All files of a name below `kernels` and the template of `new`.
fn manifests(name: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut pending = vec![root().join("kernels"), root().join("crates/warpsmith/templates")];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                pending.push(entry);
            } else if entry.file_name().is_some_and(|file| file == name) {
                let text = fs::read_to_string(&entry).unwrap();
                found.push((entry, text));
            }
        }
    }
    found
}

#[test]
fn every_built_in_manifest_is_valid() {
    for (name, count) in [("op", 5), ("kernel", 13)] {
        let schema = schema(name);
        let all = manifests(&format!("{name}.toml"));
        assert!(all.len() >= count, "{} files", all.len());
        for (path, text) in all {
            assert_eq!(is_valid(&schema, &text), Ok(()), "{}", path.display());
        }
    }
}

/// The names in backticks after `marker`, or separated by commas up to the closing bracket.
fn listed(message: &str, marker: &str) -> BTreeSet<String> {
    let rest = message.split_once(marker).unwrap_or_else(|| panic!("no `{marker}` in {message}")).1;
    if rest.contains('`') && !rest.contains(')') {
        rest.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    } else {
        rest.split(')').next().unwrap().split(", ").map(str::to_owned).collect()
    }
}

fn fields(schema: &Value) -> BTreeSet<String> {
    schema["properties"].as_object().unwrap().keys().cloned().collect()
}

fn op_error(manifest: &str) -> String {
    let files = family::OpFiles {
        name: "row".to_owned(),
        label: "op.toml".to_owned(),
        manifest: manifest.to_owned(),
        scripts: ["reference.py", "baselines.py"].map(|file| (file.to_owned(), String::new())).to_vec(),
        ..family::OpFiles::default()
    };
    declared::DeclaredOp::new(&files, []).map_or_else(|errors| errors.to_string(), |_| String::new())
}

fn template() -> String {
    let path = root().join("crates/warpsmith/templates/op/op.toml");
    fs::read_to_string(path).unwrap().replace("NAME", "row")
}

#[test]
fn the_schema_of_op_toml_has_the_fields_of_the_code() {
    let schema = schema("op");
    let rows = [
        ("description =", "unknown = 1\ndescription =", &schema),
        ("about = \"number of rows\"", "unknown = 1", &schema["properties"]["sizes"]["additionalProperties"]),
        ("value = 1e-5", "value = 1e-5\nunknown = 1", &schema["properties"]["arguments"]["items"]),
        ("flops =", "unknown = 1\nflops =", &schema["properties"]["work"]),
    ];
    for (from, to, part) in rows {
        let changed = template().replacen(from, to, 1);
        assert_ne!(changed, template(), "{from}");
        assert_eq!(listed(&op_error(&changed), "(fields: "), fields(part), "{to}");
        assert!(is_valid(&schema, &changed).is_err(), "{to}");
    }
}

#[test]
fn the_schema_of_kernel_toml_has_the_fields_of_the_code() {
    let schema = schema("kernel");
    let path = root().join("crates/warpsmith/templates/op/block/kernel.toml");
    let manifest = fs::read_to_string(path).unwrap().replace("NAME", "row");
    let properties = &schema["properties"];
    let rows = [
        ("specialise =", "unknown = 1\nspecialise =", &schema),
        ("description =", "unknown = 1\ndescription =", &properties["family"]),
        ("default = 256", "default = 256\nunknown = 1", &properties["knobs"]["additionalProperties"]),
        (
            "about = \"long rows\"",
            "about = \"long rows\"\nunknown = 1",
            &properties["presets"]["additionalProperties"],
        ),
        ("advice =", "unknown = 1\nadvice =", &properties["pathologies"]["additionalProperties"]),
        ("grid =", "unknown = 1\ngrid =", &properties["launch"]),
        ("element =", "unknown = 1\nelement =", &properties["shared"]["items"]),
    ];
    for (from, to, part) in rows {
        let changed = manifest.replacen(from, to, 1);
        assert_ne!(changed, manifest, "{from}");
        let files = [("row/block/kernel.toml", changed.as_str()), ("row/block/kernel.cu", "row_block")];
        let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let catalog = family::Catalog::from_files("kernels", files);
        let error = catalog.family("block").expect_err("an unknown field").to_string();
        assert_eq!(listed(&error, "expected "), fields(part), "{to}");
        assert!(is_valid(&schema, &changed).is_err(), "{to}");
    }
}

#[test]
fn code_and_schema_refuse_the_same_mistakes_of_op_toml() {
    let schema = schema("op");
    assert_eq!((op_error(&template()), is_valid(&schema, &template())), (String::new(), Ok(())));
    for (from, to) in [
        ("kind = \"out\"", "kind = \"output\""),
        ("reference = \"reference.py:row\"\n", ""),
        ("flops = \"4 * rows * cols\"", "flops = 0.5"),
        ("shape = [\"cols\"]", "shape = \"cols\""),
        ("rows = { about = \"number of rows\" }", "rows = 5"),
        ("rows = { about = \"number of rows\" }", "rows = { min = 0 }"),
        ("dtype = [\"fp16\", \"bf16\"]", "dtype = []"),
        ("eager = \"baselines.py:eager\"", "eager = 1"),
        ("independent = \"rows\"", "independent = 1"),
        ("independent = \"rows\"", "independent = [\"rows\", 1]"),
        ("independent = \"rows\"", "reference_seconds = 0"),
        ("independent = \"rows\"", "classes = [\"ordinary\"]"),
    ] {
        let changed = template().replacen(from, to, 1);
        assert_ne!(changed, template(), "{from}");
        assert_ne!(op_error(&changed), "", "the code accepts {to}");
        assert!(is_valid(&schema, &changed).is_err(), "the schema accepts {to}");
    }
}
