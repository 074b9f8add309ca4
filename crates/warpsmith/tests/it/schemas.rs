//! Tests that the JSON documents of the program are as the published schemas say. The schemas allow unknown fields,
//! because new fields may appear at any time. The tests do not: every field that the program writes must be published.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use launch::{Dtype, npy};
use serde_json::{Value, json};

use crate::common::{json_command, run, warpsmith};

const CLEAN: &str = "// warpsmith: --kernel set --grid 1 --block 32 --arg y=out,f32[32]
extern \"C\" __global__ void set(float* y) { y[threadIdx.x] = threadIdx.x / 0.0f; }
";
const RACE: &str = "// warpsmith: --kernel set --grid 2 --block 32 --arg y=out,i32[32]
extern \"C\" __global__ void set(int* y) { y[threadIdx.x] = blockIdx.x; }
";
const SPACE: &str =
    r#"{"name":"toy","kernel":"k","gpu":"g","params":{"a":[1,2,4]},"time_ms":{"1":4.0,"2":null,"4":1.5}}"#;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/schemas")
}

/// The schema of this name, in which no object has unknown fields.
fn strict_schema(name: &str) -> Value {
    let path = folder().join(format!("{name}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut schema = serde_json::from_str(&text).unwrap();
    refuse_unknown_fields(&mut schema, false);
    schema
}

/// `is_part`: the schema describes only some of the fields of an object.
fn refuse_unknown_fields(schema: &mut Value, is_part: bool) {
    let Some(keywords) = schema.as_object_mut() else { return };
    let is_object = keywords.contains_key("properties");
    for (keyword, value) in keywords.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties" | "$defs", Value::Object(schemas)) => {
                for schema in schemas.values_mut() {
                    refuse_unknown_fields(schema, false);
                }
            }
            ("oneOf" | "anyOf", Value::Array(schemas)) => {
                for schema in schemas {
                    refuse_unknown_fields(schema, is_object || is_part);
                }
            }
            ("prefixItems", Value::Array(schemas)) => {
                for schema in schemas {
                    refuse_unknown_fields(schema, false);
                }
            }
            ("items" | "additionalProperties", schema) => refuse_unknown_fields(schema, false),
            _ => {}
        }
    }
    if is_object && !is_part {
        keywords.insert("unevaluatedProperties".to_owned(), false.into());
    }
}

/// The schemas that were used, and what is wrong with the documents.
#[derive(Default)]
struct Validation {
    used: BTreeSet<String>,
    errors: Vec<String>,
}

impl Validation {
    /// Validates a document. Its `schema` field must name the schema, unless the format has only a number.
    fn validate(&mut self, name: &str, origin: &str, document: &Value) {
        if let Some(schema) = document["schema"].as_str() {
            assert_eq!(schema, format!("warpsmith.{name}/1"), "{origin}: {document:#}");
        }
        self.used.insert(name.to_owned());
        let validator = jsonschema::options().should_validate_formats(true).build(&strict_schema(name));
        for error in validator.unwrap_or_else(|error| panic!("{name}: {error}")).iter_errors(document) {
            let text = error.to_string().chars().take(400).collect::<String>();
            // The elements of a list mostly have the same error.
            let path = error.instance_path().to_string().replace(|c: char| c.is_ascii_digit(), "");
            self.errors.push(format!("{name} ({origin}), {path}: {text}"));
        }
    }

    fn file(&mut self, name: &str, path: &Path) {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.validate(name, &path.display().to_string(), &serde_json::from_str(&text).unwrap());
    }

    fn log(&mut self, path: &Path) {
        for line in fs::read_to_string(path).unwrap().lines() {
            self.validate("event", &path.display().to_string(), &serde_json::from_str(line).unwrap());
        }
    }

    fn finish(self) {
        let errors: BTreeSet<String> = self.errors.into_iter().collect();
        let text: Vec<String> = errors.into_iter().collect();
        assert!(text.is_empty(), "{}", text.join("\n"));
    }
}

/// The printed documents: the schema and the command line. The commands run in this order in one folder.
const PRINTED: [(&str, &str); 43] = [
    ("doctor", "doctor"),
    ("toolchain", "toolchain"),
    ("toolchain-install", "toolchain install"),
    ("toolchain-clean", "toolchain clean"),
    ("toolchain-requirements", "toolchain requirements"),
    ("new", "new sixth"),
    ("export", "export kernelbench --out exported"),
    ("fp8", "fp8 --problem b1h1s16d64-fp16 --class sink --rotate false"),
    ("problems", "problems"),
    ("problems", "problems mission-e4m3"),
    ("suites", "suites"),
    ("devices", "devices"),
    ("kernels", "kernels"),
    ("kernels", "kernels --kernels broken"),
    ("kernel", "kernels mma"),
    ("kernel", "kernels wmma"),
    ("build", "build reference --arch sm_89"),
    ("build", "build wmma --all --arch sm_89"),
    ("build", "build reference --kernels faulty --arch sm_89"),
    ("check", "check reference --problem b1h1s16d64-fp16"),
    ("check-compact", "check reference --problem b1h1s16d64-fp16 --compact"),
    ("check-compact", "check reference --problem b1h1s16d64-fp16 --kernels wrong --sanitize --compact"),
    ("check", "check reference --problem b1h1s16d64-fp16 --hard 20"),
    ("check", "check reference --problem b1h1s16d64-fp16 --kernels faulty"),
    ("check", "check reference --problem b1h1s16d64-fp16 --kernels wrong --sanitize"),
    ("sanitize", "sanitize clean.cu --counters --fidelity --print all"),
    ("sanitize", "sanitize clean.cu --save saved"),
    ("sanitize", "sanitize clean.cu --expect y=saved/y.npy"),
    ("sanitize", "sanitize clean.cu --expect y=zeros.npy --rtol 0"),
    ("sanitize", "sanitize race.cu"),
    ("bench", "bench reference --problem b1h1s16d64-fp16 --baseline none --run-dir runs/a"),
    ("bench", "bench reference --problem b1h1s16d64-fp16 --run-dir runs/b --kernels wrong"),
    ("evolve", "evolve wmma --problem b1h1s16d64-fp16 --budget 3 --run-dir runs/c"),
    ("profile", "profile reference --problem b1h1s16d64-fp16 --run-dir runs/d"),
    ("invert", "invert wmma --preset stage-2 --problem b1h1s16d64-fp16 --run-dir runs/e"),
    ("gate", "gate --leaderboard leaderboard.json --run-dir runs/a --update"),
    ("gate", "gate --leaderboard leaderboard.json --run-dir runs/b"),
    ("report", "report runs/c"),
    ("comparison", "report runs/a runs/c"),
    ("runs", "runs --run-dir runs"),
    ("trend", "runs --run-dir runs --trend b1h1s16d64-fp16"),
    ("replay", "replay --space space.json --seeds 2"),
    ("repro", "repro --problem b1h1s16d64-fp16 --budget 1 --run-dir runs/f"),
];

/// Writes the reference family with a changed line.
fn changed_family(folder: &Path, from: &str, to: &str) {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/attention");
    for part in ["common", "reference"] {
        let target = folder.join("attention").join(part);
        fs::create_dir_all(&target).unwrap();
        for entry in fs::read_dir(kernels.join(part)).unwrap().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap();
            let text = if entry.file_name() == "kernel.cu" {
                assert!(text.contains(from), "`{from}` is not in the kernel");
                text.replacen(from, to, 1)
            } else {
                text
            };
            fs::write(target.join(entry.file_name()), text).unwrap();
        }
    }
}

#[test]
fn every_document_of_the_program_is_as_its_schema_says() {
    let folder_of_run = tempfile::tempdir().unwrap();
    let at = folder_of_run.path();
    fs::write(at.join("clean.cu"), CLEAN).unwrap();
    fs::write(at.join("race.cu"), RACE).unwrap();
    fs::write(at.join("space.json"), SPACE).unwrap();
    fs::write(at.join("zeros.npy"), npy::write(Dtype::F32, &[32], &[0; 128])).unwrap();
    fs::create_dir_all(at.join("broken/attention/nothing")).unwrap();
    fs::write(at.join("broken/attention/nothing/kernel.toml"), "[family]\n").unwrap();
    changed_family(&at.join("faulty"), "extern \"C\"", "int faulty = missing;\nextern \"C\"");
    changed_family(&at.join("wrong"), "__syncthreads();", "");
    let mut validation = Validation::default();
    for (name, line) in PRINTED {
        let mut command = json_command(line);
        if line.starts_with("toolchain ") {
            let cache = if line.ends_with("install") { "shared-toolchain" } else { "no-toolchain" };
            command.env("WARPSMITH_CACHE", crate::common::target_tmp().join(cache));
        }
        command.current_dir(at);
        let ran = run(&mut command);
        let document =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{line}: {error}\n{ran}"));
        validation.validate(name, line, &document);
    }
    for line in ["check nosuch", "check --nosuch", "nosuch", "gate --leaderboard x --run-dir y"] {
        let ran = run(warpsmith().args(line.split(' ')).arg("--json").current_dir(at));
        validation.validate("error", line, &serde_json::from_str(&ran.stdout).unwrap());
    }
    // What follows the program belongs to it, so the flags come first. Without the libraries there is no document.
    let ran = run(warpsmith().args(["exec", "--json", "/bin/true"]).current_dir(at));
    if ran.code == 0 {
        validation.validate("exec", "exec", &serde_json::from_str(&ran.stdout).unwrap());
    } else {
        eprintln!("skipped: the document of exec, because {}", ran.stdout);
        validation.used.insert("exec".to_owned());
    }
    // A proposer that saves what it receives. Its first answer is refused, its second one is a candidate.
    let proposer = "cat > prompt-$$.json; test -e once && echo '{\"knobs\": {\"THREADS\": 64}}'; touch once";
    let arguments =
        ["evolve", "reference", "--problem", "b1h1s16d64-fp16", "--budget", "3", "--information", "full"];
    let mut command = warpsmith();
    command.args(arguments).args(["--device", "virtual:l4", "--run-dir", "runs/g"]).current_dir(at);
    let ran = run(command.args(["--proposer-cmd", proposer, "--proposer-folder", "."]));
    let prompts: Vec<PathBuf> = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()).collect();
    let prompts: Vec<&PathBuf> =
        prompts.iter().filter(|path| path.to_string_lossy().contains("/prompt-")).collect();
    assert_eq!(prompts.len(), 3, "{ran}");
    for path in prompts {
        validation.file("prompt", path);
    }

    validation.file("leaderboard", &at.join("leaderboard.json"));
    for run in ["a", "b", "c", "d", "e", "f", "g"] {
        let run = at.join("runs").join(run);
        validation.log(&run.join("events.jsonl"));
        for (file, name) in [("bench.json", "bench"), ("profile.json", "profile"), ("topk.json", "topk")] {
            if run.join(file).exists() {
                validation.file(name, &run.join(file));
            }
        }
    }
    let published = fs::read_dir(folder()).unwrap();
    let published: BTreeSet<String> = published
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(published, validation.used, "every schema is published and tested");
    validation.finish();
}

/// Runs on a GPU need one, so their documents are made from the logs that the tests of the reports use.
#[test]
fn documents_of_measured_runs_are_as_their_schemas_say() {
    let folder_of_run = tempfile::tempdir().unwrap();
    let at = folder_of_run.path();
    let mut validation = Validation::default();
    for (name, events) in [("full", runlog::testing::full_log()), ("bench", runlog::testing::bench_log())] {
        fs::create_dir(at.join(name)).unwrap();
        runlog::testing::write(&at.join(name), &events);
        validation.log(&at.join(name).join("events.jsonl"));
        for line in [
            format!("report {name}"),
            format!("gate --leaderboard {name}.json --run-dir {name} --update"),
            format!("runs --run-dir {name} --trend b1h8s512d64-fp16"),
        ] {
            let ran = run(warpsmith().args(line.split(' ')).arg("--json").current_dir(at));
            let document: Value =
                serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{line}: {ran}"));
            let schema = document["schema"].as_str().unwrap().to_owned();
            let schema = schema.trim_start_matches("warpsmith.").trim_end_matches("/1");
            assert_ne!(schema, "error", "{line}: {ran}");
            validation.validate(schema, &line, &document);
        }
    }
    for (file, name) in
        [("full/bench.json", "bench"), ("full/profile.json", "profile"), ("full/topk.json", "topk")]
    {
        validation.file(name, &at.join(file));
    }
    validation.finish();
}

#[test]
fn a_missing_or_unknown_field_is_an_error() {
    let valid = json!({"schema": "warpsmith.runs/1", "runs": []});
    let errors = |change: &dyn Fn(&mut Value)| {
        let mut document = valid.clone();
        change(&mut document);
        let mut validation = Validation::default();
        validation.validate("runs", "test", &document);
        validation.errors.len()
    };
    assert_eq!(errors(&|_| {}), 0);
    assert_eq!(errors(&|document| document["more"] = 1.into()), 1);
    assert!(errors(&|document| document["runs"] = json!([{"folder": 1}])) > 1);
    assert_eq!(errors(&|document| drop(document.as_object_mut().unwrap().remove("runs"))), 1);
}
