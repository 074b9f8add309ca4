//! Writes the parts of the reference that come from the code: tables as Markdown, by name.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use attention::problem;
use op::Op as _;

use super::items::{Item, about, items};
use super::root;

/// Every generated part by its name.
pub fn parts() -> BTreeMap<&'static str, String> {
    let finding = read("crates/vgpu/src/check/finding.rs");
    let model = read("crates/vgpu/src/model/mod.rs");
    let event = read("crates/lab/src/run/event.rs");
    let stage = read("crates/lab/src/run/stage.rs");
    let metrics = read("crates/attention/src/metrics.rs");
    let record = read("crates/lab/src/record/profile.rs");
    let inputs = read("crates/attention/src/inputs.rs");
    let manifest = read("crates/lab/src/run/manifest.rs");
    let rows = read("crates/lab/src/run/rows.rs");
    BTreeMap::from([
        ("glossary", glossary()),
        ("commands", commands()),
        ("exit codes", exit_codes()),
        ("aliases", aliases()),
        ("suites", suites()),
        ("devices", devices()),
        ("families", families()),
        ("input classes", variants(&items(&inputs, "pub enum Class"))),
        ("finding kinds", finding_kinds(&finding)),
        ("mismatch kinds", variants(&items(&metrics, "pub enum Mismatch"))),
        ("failure kinds", variants(&items(&stage, "pub enum FailureKind"))),
        ("stall names", stalls(&model)),
        ("metrics", fields(&items(&record, "pub struct Metrics"))),
        ("diagnosis", fields(&items(&record, "pub struct Diagnosis"))),
        ("finding", fields(&items(&finding, "pub struct Finding"))),
        ("run manifest", fields(&items(&manifest, "pub struct Manifest"))),
        ("row", fields(&items(&rows, "pub struct Row"))),
        ("events", events(&event)),
        ("json documents", json_documents()),
    ])
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn help(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpsmith"));
    command.args(arguments).arg("--help").stdin(Stdio::null());
    for name in ["COLUMNS", "WARPSMITH_CUDA"] {
        command.env_remove(name);
    }
    let output = command.env("NO_COLOR", "1").output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn glossary() -> String {
    let style = read("STYLE.md");
    let (_, glossary) = style.split_once("## Glossary\n").expect("STYLE.md has a glossary");
    glossary.split("\n## ").next().unwrap_or_default().to_owned()
}

fn commands() -> String {
    let all = help(&[]);
    let mut text = format!("## warpsmith\n\n```text\n{}\n```\n", all.trim());
    let names = all.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let names = names.filter(|name| name.chars().all(|c| c.is_ascii_lowercase()) && *name != "help");
    for name in names {
        text += &format!("\n## warpsmith {name}\n\n```text\n{}\n```\n", help(&[name]).trim());
    }
    text
}

fn exit_codes() -> String {
    let help = help(&[]);
    let lines = help.lines().skip_while(|line| *line != "Exit codes:").skip(1);
    let rows = lines.filter_map(|line| line.trim().split_once("  "));
    let rows: String = rows.map(|(code, meaning)| format!("| {code} | {meaning} |\n")).collect();
    format!("| code | meaning |\n|--:|---|\n{rows}")
}

fn aliases() -> String {
    let mut text = "| alias | problems |\n|---|---|\n".to_owned();
    for alias in problem::aliases() {
        let problems = problem::expand(&alias).expect("a known alias");
        let names: Vec<String> = problems.iter().map(|problem| format!("`{problem}`")).collect();
        text += &format!("| `{alias}` | {} |\n", names.join(", "));
    }
    text
}

fn suites() -> String {
    let op = attention::Attention;
    let mut text =
        "| suite | problems | baselines | targets | contents |\n|---|--:|---|--:|---|\n".to_owned();
    let mut files = String::new();
    for suite in op.suites() {
        let read = lab::suite::read(&op, suite.name, suite.text).expect("a built-in suite");
        text += &format!(
            "| `{}` | {} | {} | {} | {} |\n",
            read.name,
            read.problems.len(),
            read.baselines.join(", "),
            read.targets.len(),
            read.description
        );
        files += &format!("\n### {}\n\n```toml\n{}\n```\n", read.name, suite.text.trim());
    }
    text + &files
}

fn devices() -> String {
    let mut text = "| device | GPU | target | SMs | memory | bandwidth | other names |\n".to_owned();
    text += "|---|---|---|--:|--:|--:|---|\n";
    for chip in &chips::CHIPS {
        let others: Vec<String> = chip.names().skip(2).map(|name| format!("`{name}`")).collect();
        text += &format!(
            "| `virtual:{}` | {} | {} | {} | {} GiB | {} GB/s | {} |\n",
            chip.id,
            chip.name,
            chip.target.name(),
            chip.sms,
            chip.memory.bytes >> 30,
            chip.memory.gbs,
            others.join(", ")
        );
    }
    text
}

fn families() -> String {
    let catalog = family::Catalog::load(None).expect("the built-in families");
    let mut names: Vec<String> = Vec::new();
    for entry in catalog.entries() {
        names.push(entry.name.clone());
    }
    let mut text = String::new();
    for name in names {
        let family = catalog.family(&name).expect("a built-in family");
        let targets: Vec<&str> = family.targets.iter().map(|target| target.name()).collect();
        text += &format!("\n## {name}\n\n{}.\n\n", sentence(&family.description));
        text += &format!(
            "Targets: {}. Axes of the problem:\n\n| axis | values | compile-time |\n|---|---|---|\n",
            targets.join(", ")
        );
        for axis in &family.axes {
            let constant = if axis.specialised { "yes" } else { "no" };
            text += &format!("| `{}` | {} | {constant} |\n", axis.name, list(&axis.values));
        }
        text += "\nKnobs:\n\n| knob | values | default | searched | meaning |\n|---|---|---|---|---|\n";
        for knob in &family.knobs {
            let searched = if knob.search { "yes" } else { "no" };
            text += &format!(
                "| `{}` | {} | {} | {searched} | {} |\n",
                knob.name,
                list(&knob.values),
                knob.default,
                cell(&knob.about)
            );
        }
        text += "\nPresets:\n\n| preset | knobs that it sets | meaning |\n|---|---|---|\n";
        for preset in &family.presets {
            let knobs: Vec<String> =
                preset.knobs.iter().map(|(knob, value)| format!("`{knob}={value}`")).collect();
            text += &format!("| `{}` | {} | {} |\n", preset.name, knobs.join(" "), cell(&preset.about));
        }
        if !family.pathologies.is_empty() {
            text += "\nPathologies:\n\n| pathology | meaning | what to do instead |\n|---|---|---|\n";
            for it in &family.pathologies {
                text += &format!("| `{}` | {} | {} |\n", it.name, cell(&it.about), cell(&it.advice));
            }
        }
    }
    text
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn list(values: &[family::Value]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace("[`", "`").replace("`]", "`").replace("`None`", "`null`")
}

/// A type of the code in the words of JSON.
fn plain_type(kind: &str) -> String {
    let inside = |name: &str| kind.strip_prefix(name)?.strip_prefix('<')?.strip_suffix('>');
    if let Some(inner) = inside("Box") {
        return plain_type(inner);
    }
    if let Some(inner) = inside("Option") {
        return format!("{} or `null`", plain_type(inner));
    }
    if let Some(inner) = inside("Vec") {
        return format!("list of {}", plain_type(inner));
    }
    if let Some(inner) = inside("IndexMap") {
        return format!("object of {}", plain_type(inner.rsplit(", ").next().unwrap_or_default()));
    }
    if let Some(inner) = inside("Fact").or_else(|| inside("super::Fact")) {
        return format!("{}, or why it is unavailable", plain_type(inner));
    }
    if let Some((good, bad)) = inside("Result").and_then(|inner| inner.split_once(", ")) {
        return format!("`{{\"Ok\": {}}}` or `{{\"Err\": {}}}`", plain_type(good), plain_type(bad));
    }
    if let Some(inner) = kind.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        return format!("[{}]", inner.split(", ").map(plain_type).collect::<Vec<_>>().join(", "));
    }
    if let Some(inner) = kind.strip_prefix('[').and_then(|rest| rest.split_once(';')) {
        return format!("list of {}", plain_type(inner.0));
    }
    match kind.rsplit("::").next().unwrap_or_default() {
        "String" => "text".to_owned(),
        "Utc" => "time as text, in UTC".to_owned(),
        "bool" => "true or false".to_owned(),
        "u32" | "u64" | "usize" | "f64" => "number".to_owned(),
        "MeasuredMicros" | "ModelledMicros" => "number, in microseconds".to_owned(),
        other => format!("`{other}`"),
    }
}

fn variants(items: &[Item]) -> String {
    let known = items.iter().filter(|item| !matches!(item.name.as_str(), "Other" | "Unknown"));
    let rows: String =
        known.map(|item| format!("| `{}` | {} |\n", item.kebab(), cell(&item.about))).collect();
    format!("| name | meaning |\n|---|---|\n{rows}")
}

fn fields(items: &[Item]) -> String {
    let rows = items.iter().map(|item| {
        let name = item.renamed.clone().unwrap_or_else(|| item.name.clone());
        format!("| `{name}` | {} | {} |\n", plain_type(&item.kind), cell(&item.about))
    });
    format!("| field | type | meaning |\n|---|---|---|\n{}", rows.collect::<String>())
}

fn finding_kinds(source: &str) -> String {
    let items = items(source, "pub enum Kind");
    let names: Vec<&str> = vgpu::Kind::ALL.iter().map(|kind| kind.name()).collect();
    let documented: Vec<String> = items.iter().map(Item::kebab).collect();
    assert_eq!(names, documented, "every kind has a row");
    let rows: String = items
        .iter()
        .map(|item| format!("| <a id=\"{0}\"></a>`{0}` | {1} |\n", item.kebab(), cell(&item.about)))
        .collect();
    format!("| kind | meaning |\n|---|---|\n{rows}")
}

fn stalls(source: &str) -> String {
    let items = items(source, "pub enum Stall");
    let rows: String =
        items.iter().map(|item| format!("| `{}` | {} |\n", item.snake(), cell(&item.about))).collect();
    format!("| name | what the warp does |\n|---|---|\n{rows}")
}

fn events(source: &str) -> String {
    let mut text = String::new();
    for event in items(source, "pub enum Event").iter().filter(|event| event.name != "Unknown") {
        text += &format!("\n### {}\n\n{}\n\n{}", event.kebab(), event.about, fields(&event.fields));
    }
    text + &values(source)
}

/// The types of values inside events.
fn values(event: &str) -> String {
    let trial = read("crates/lab/src/run/trial.rs");
    let stage = read("crates/lab/src/run/stage.rs");
    let profile = read("crates/lab/src/record/profile.rs");
    let inversion = read("crates/lab/src/record/inversion.rs");
    let contract = read("crates/op/src/contract.rs");
    let structs = [
        (event, "ResultId"),
        (event, "BuildRecord"),
        (event, "CheckRecord"),
        (contract.as_str(), "Complaint"),
        (event, "Repeats"),
        (event, "SampleSet"),
        (event, "Telemetry"),
        (event, "Modelled"),
        (contract.as_str(), "Work"),
        (event, "Ceiling"),
        (event, "TargetVerdict"),
        (trial.as_str(), "Search"),
        (trial.as_str(), "Trial"),
        (trial.as_str(), "ProblemTime"),
        (trial.as_str(), "Exchange"),
        (profile.as_str(), "Profile"),
        (profile.as_str(), "Roofline"),
        (profile.as_str(), "HotLine"),
        (inversion.as_str(), "Inversion"),
    ];
    let enums = [
        (stage.as_str(), "Stage"),
        (event, "StageOutcome"),
        (event, "Timer"),
        (event, "Speed"),
        (event, "RunOutcome"),
        (trial.as_str(), "TrialResult"),
        (inversion.as_str(), "InversionResult"),
    ];
    let mut text =
        "\n## Values inside events\n\nA `StageKey` is a `ResultId` with the field `stage`.\n".to_owned();
    for (source, name) in structs {
        let head = format!("pub struct {name}");
        text += &format!("\n### {name}\n\n{}\n\n{}", about(source, &head), fields(&items(source, &head)));
    }
    for (source, name) in enums {
        let head = format!("pub enum {name}");
        let items = items(source, &head);
        text += &format!("\n### {name}\n\n{}\n\n{}", about(source, &head), variants(&items));
        for item in items.iter().filter(|item| !item.fields.is_empty()) {
            text += &format!("\nFields of `{}`:\n\n{}", item.kebab(), fields(&item.fields));
        }
    }
    text
}

/// The commands whose JSON documents are described, with what each document is.
const DOCUMENTS: [(&str, &str); 15] = [
    ("doctor", "What this machine has."),
    ("toolchain", "The chosen compiler, and every place that was searched."),
    ("kernels", "All families."),
    ("kernels reference", "One family."),
    ("build reference --arch sm_89", "The builds and their resources."),
    ("check reference --problem b1h1s16d64-fp16 --class normal", "The cases of a check."),
    ("sanitize clean.cu --counters", "The findings of a launch, its counters and its modelled time."),
    ("bench reference --problem b1h1s16d64-fp16 --baseline none", "The results of a run, as `bench.json`."),
    ("evolve reference --problem b1h1s16d64-fp16 --budget 1", "The trials of a search and its picks."),
    ("profile reference --problem b1h1s16d64-fp16", "Profiles of kernels."),
    ("invert wmma --preset stage-2 --problem b1h1s16d64-fp16", "The cost of pathologies."),
    ("gate --leaderboard leaderboard.json", "The verdict about a run."),
    ("report", "The files of a report."),
    ("runs", "The runs of a folder."),
    ("check nosuch", "An error."),
];

/// Runs every command with `--json` and lists the fields of what it prints.
fn json_documents() -> String {
    const KERNEL: &str = "// warpsmith: --kernel set --grid 1 --block 32 --arg y=out,i32[32]
extern \"C\" __global__ void set(int* y) { y[threadIdx.x] = 1; }
";
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("clean.cu"), KERNEL).unwrap();
    let mut text = String::new();
    for (line, about) in DOCUMENTS {
        let mut command = crate::common::warpsmith();
        command.args(line.split(' ')).args(["--json", "--device", "virtual:l4"]).current_dir(folder.path());
        let ran = crate::common::run(&mut command);
        let document: serde_json::Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{line}: {error}\n{ran}"));
        let name = line.split(" --").next().unwrap_or_default();
        text += &format!("\n### {}\n\n{about} Schema: `{}`.\n\n", title(name), document["schema"]);
        text += "| field | type |\n|---|---|\n";
        for (field, value) in document.as_object().into_iter().flatten().filter(|(name, _)| *name != "schema")
        {
            text += &format!("| `{field}` | {} |\n", json_type(value));
        }
    }
    text
}

fn title(command: &str) -> String {
    match command {
        "kernels reference" => "kernels FAMILY".to_owned(),
        "check nosuch" => "Errors".to_owned(),
        other => other.split(' ').next().unwrap_or_default().to_owned(),
    }
}

fn json_type(value: &serde_json::Value) -> String {
    let names = |object: &serde_json::Map<String, serde_json::Value>| {
        object.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    match value {
        serde_json::Value::Null => "null here".to_owned(),
        serde_json::Value::Bool(_) => "true or false".to_owned(),
        serde_json::Value::Number(_) => "number".to_owned(),
        serde_json::Value::String(_) => "text".to_owned(),
        serde_json::Value::Object(object) if object.is_empty() => "object".to_owned(),
        serde_json::Value::Object(object) => format!("object → {}", names(object)),
        serde_json::Value::Array(list) => match list.first() {
            Some(serde_json::Value::Object(object)) => format!("list of objects → {}", names(object)),
            _ => "list".to_owned(),
        },
    }
}
