//! The published JSON schemas (`docs/src/reference/schemas`). They are made from the types of the documents, and a test
//! compares the files with the types. `cargo xtask docs` writes the files. This is a module of the program's unit tests,
//! because the types of the commands are private.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::commands::{
    build, check, devices, doctor, evolve, exec, export, fp8, kernels, new, problems, replay, report, repro,
    runs, sanitize, suites, toolchain,
};
use crate::{printer, profile_table};

/// The profiles that a command prints, or the file of a run.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "the schema is all that is needed")]
enum ProfileDocument<'a> {
    Printed(profile_table::Document<'a>),
    File(::report::export::ProfileFile<'a>),
}

/// All schemas, by name.
fn schemas() -> BTreeMap<&'static str, Value> {
    let documents = [
        document::<::report::export::BenchFile>("bench", "The results of a run; also the file bench.json."),
        document::<build::Document>("build", "The builds and their resources."),
        document::<check::Run>("check", "The cases of a check."),
        document::<check::Compact>("check-compact", "The results of a check without every run."),
        document::<runlog::RunComparison>("comparison", "Two runs beside each other."),
        document::<devices::Document>("devices", "The GPUs of this machine and the virtual GPUs."),
        document::<doctor::Document>("doctor", "What this machine has."),
        document::<printer::ErrorDocument>("error", "An error."),
        document::<evolve::SearchDocument>("evolve", "The trials of a search and its picks."),
        document::<exec::output::Document>(
            "exec",
            "What a whole program did: findings, kernels, its exit code.",
        ),
        document::<export::Document>("export", "The files of an exported problem."),
        document::<fp8::Document>("fp8", "Errors and times of FP8 attention on fp16 or bf16 tensors."),
        document::<lab::gate::output::GateDocument>("gate", "The verdict about a run."),
        document::<profile_table::Document>("invert", "The cost of pathologies."),
        document::<kernels::FamilyDocument>("kernel", "One family."),
        document::<kernels::Document>("kernels", "All families."),
        document::<new::Document>("new", "The files of a new op."),
        document::<problems::Document>(
            "problems",
            "The problems that have a short name, or the named problem.",
        ),
        document::<ProfileDocument>("profile", "Profiles of kernels; also the file profile.json."),
        document::<replay::Replay>("replay", "The scores of search strategies on recorded spaces."),
        document::<report::Reported>("report", "The files of a report."),
        document::<repro::Document>("repro", "The result of all stages."),
        document::<runs::Runs>("runs", "The runs of a folder."),
        document::<sanitize::output::Document>(
            "sanitize",
            "The findings of a launch, its counters and its modelled time.",
        ),
        document::<suites::Document>("suites", "The built-in suites, or the named suite."),
        document::<toolchain::Document>(
            "toolchain",
            "The chosen compiler, and every place that was searched.",
        ),
        document::<toolchain::Cleaned>("toolchain-clean", "Whether an installed compiler was removed."),
        document::<toolchain::Installed>("toolchain-install", "The compiler that was installed."),
        document::<toolchain::Requirements>(
            "toolchain-requirements",
            "The pinned wheels, as pip requires them.",
        ),
        document::<::report::export::TopKFile>("topk", "The elites of a search: the file topk.json."),
        document::<runs::Trend>("trend", "The fastest kernel on a problem, run by run."),
    ];
    let version = json!({ "description": "The version of the format.", "const": 1 });
    let board_version = json!({
        "description": "The version of the format: 2 if the file has entries of virtual GPUs.",
        "enum": [1, 2],
    });
    let event = schema::<runlog::Line>("events.jsonl", "One line of the log of a run.", &version);
    let leaderboard = schema::<lab::gate::Leaderboard>(
        "leaderboard.json",
        "The best results so far, for `gate`. The entries of different devices are never compared.",
        &board_version,
    );
    let prompt = schema::<lab::evolve::Prompt>(
        "prompt",
        "The task of a proposer, with the results of earlier candidates if it may see them.",
        &version,
    );
    let numbered = [("event", event), ("leaderboard", leaderboard), ("prompt", prompt)];
    documents.into_iter().chain(numbered).collect()
}

/// The schema of a document whose field `schema` is `warpsmith.NAME/1`.
fn document<T: JsonSchema>(name: &'static str, about: &str) -> (&'static str, Value) {
    let title = format!("warpsmith.{name}/1");
    (name, schema::<T>(&title, about, &json!({ "const": title })))
}

/// The schema of the documents that a type is written as. `version` is the schema of the document's field `schema`.
fn schema<T: JsonSchema>(title: &str, about: &str, version: &Value) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(ForReadersOfJson);
    let mut schema: Value = settings.into_generator().into_root_schema_for::<T>().into();
    let mut fields = Map::from_iter([("schema".to_owned(), Value::Null)]);
    fields.extend(schema["properties"].as_object().cloned().unwrap_or_default());
    fields["schema"] = version.clone();
    let mut required = schema["required"].as_array().cloned().unwrap_or_default();
    required.retain(|field| field != "schema");
    required.insert(0, "schema".into());
    let mut root = json!({
        "$schema": schema["$schema"],
        "title": title,
        "description": about,
        "type": "object",
        "properties": fields,
        "required": required,
    });
    if let (Some(root), Some(rest)) = (root.as_object_mut(), schema.as_object_mut()) {
        rest.retain(|keyword, _| !root.contains_key(keyword));
        root.append(rest);
    }
    root
}

/// Turns documentation of Rust into documentation of JSON, and removes what holds only for types of Rust.
#[derive(Clone)]
struct ForReadersOfJson;

impl Transform for ForReadersOfJson {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(keywords) = schema.as_object_mut() else { return };
        if let Some(Value::String(text)) = keywords.shift_remove("description") {
            let text =
                text.replace("[`", "`").replace("`]", "`").replace("`None`", "`null`").replace('\n', " ");
            keywords.shift_insert(0, "description".to_owned(), text.into());
        }
        keywords.retain(|keyword, value| match keyword.as_str() {
            // The other formats are names of Rust's types.
            "format" => value == "date-time",
            // Documents may get fields at any time.
            "additionalProperties" => value != false,
            // It is for reading older logs.
            "default" => false,
            _ => true,
        });
    }
}

/// JSON in which a value that fits on a line stays on it.
fn compact(value: &Value, indent: usize) -> String {
    const WIDTH: usize = 200;
    let text = value.to_string();
    if indent + text.len() < WIDTH {
        return text;
    }
    let inner = indent + 2;
    let (open, items, close) = match value {
        Value::Object(fields) => {
            let line = |(name, value): (&String, &Value)| {
                format!("{}: {}", Value::from(name.as_str()), compact(value, inner))
            };
            ('{', fields.iter().map(line).collect::<Vec<_>>(), '}')
        }
        Value::Array(items) => ('[', items.iter().map(|item| compact(item, inner)).collect(), ']'),
        _ => return text,
    };
    let space = " ".repeat(inner);
    let lines = items.join(&format!(",\n{space}"));
    format!("{open}\n{space}{lines}\n{}{close}", " ".repeat(indent))
}

#[test]
fn published_schemas_match_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/schemas");
    for (name, schema) in schemas() {
        let path = folder.join(format!("{name}.json"));
        let text = compact(&schema, 0) + "\n";
        if std::env::var_os("WARPSMITH_WRITE_DOCS").is_some() {
            fs::write(&path, text).unwrap();
        } else {
            let published = fs::read_to_string(&path).unwrap_or_default();
            assert!(published == text, "{} is not as its type says: run `cargo xtask docs`", path.display());
        }
    }
}
