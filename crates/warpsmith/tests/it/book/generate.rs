//! Writes the parts of the reference that come from the code: tables as Markdown, by name.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use attention::problem;
use op::OpProblems as _;

use super::items::{Item, about, items};
use super::root;

/// Every generated part by its name.
pub fn parts() -> BTreeMap<&'static str, String> {
    let finding = read("crates/vgpu/src/check/finding.rs");
    let model = read("crates/vgpu/src/model/mod.rs");
    let event = read("crates/runlog/src/event.rs");
    let stage = read("crates/runlog/src/stage.rs");
    let metrics = read("crates/attention/src/metrics/mismatch.rs");
    let record = read("crates/runlog/src/record/profile.rs");
    let inputs = read("crates/op/src/values.rs");
    let manifest = read("crates/runlog/src/manifest.rs");
    let rows = read("crates/runlog/src/rows.rs");
    let leaderboard = read("crates/lab/src/gate/leaderboard.rs");
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
        ("leaderboard entry", fields(&items(&leaderboard, "pub struct BestOnRecord"))),
        ("events", events(&event)),
        ("json documents", json_documents()),
        ("schemas", schemas()),
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
    let is_name = |name: &str| name.starts_with(|c: char| c.is_ascii_lowercase()) && name != "help";
    let names = names.filter(|name| is_name(name) && name.chars().all(|c| c.is_ascii_alphanumeric()));
    for name in names {
        text += &format!("\n## warpsmith {name}\n\n```text\n{}\n```\n", help(&[name]).trim());
    }
    text
}

/// A table. A heading that ends with `:` is of a column of numbers.
fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let names = head.map(|name| name.trim_end_matches(':').to_owned());
    let rules = head.map(|name| if name.ends_with(':') { "--:" } else { "---" });
    let mut text = format!("{}|{}|\n", line(&names), rules.join("|"));
    for row in rows {
        text += &line(&row.map(|cell| cell.replace('|', "\\|")));
    }
    text
}

fn exit_codes() -> String {
    let help = help(&[]);
    let lines = help.lines().skip_while(|line| *line != "Exit codes:").skip(1);
    let rows = lines.filter_map(|line| line.trim().split_once("  "));
    table(["code:", "meaning"], rows.map(|(code, meaning)| [code.to_owned(), meaning.to_owned()]))
}

/// A name as code.
fn code(name: impl std::fmt::Display) -> String {
    format!("`{name}`")
}

fn joined(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn aliases() -> String {
    let rows = problem::aliases().into_iter().map(|alias| {
        let problems = problem::expand(&alias).expect("a known alias");
        [code(alias), joined(problems.iter().map(code))]
    });
    table(["alias", "problems"], rows)
}

fn suites() -> String {
    let op = attention::Attention;
    let mut files = String::new();
    let suites = op.suites();
    let rows = suites.iter().map(|suite| {
        let read = lab::suite::read(&op, &suite.name, &suite.text).expect("a built-in suite");
        files += &format!("\n### {}\n\n```toml\n{}\n```\n", read.name, suite.text.trim());
        let counts = [read.problems.len(), read.targets.len()].map(|count| count.to_string());
        let [problems, targets] = counts;
        [code(read.name), problems, read.baselines.join(", "), targets, read.description]
    });
    table(["suite", "problems:", "baselines", "targets:", "contents"], rows) + &files
}

fn devices() -> String {
    let rows = chips::CHIPS.iter().map(|chip| {
        [
            code(format!("virtual:{}", chip.id)),
            chip.name.to_owned(),
            chip.target.name().to_owned(),
            chip.sms.to_string(),
            format!("{} GiB", chip.memory.bytes >> 30),
            format!("{} GB/s", chip.memory.gbs),
            joined(chip.names().skip(2).map(code)),
        ]
    });
    table(["device", "GPU", "target", "SMs:", "memory:", "bandwidth:", "other names"], rows)
}

fn families() -> String {
    let catalog = family::Catalog::load(None).expect("the built-in families");
    let families = catalog.entries().iter().map(|entry| entry.family.as_ref().expect("a valid manifest"));
    families.map(family).collect()
}

fn family(family: &family::Family) -> String {
    let yes_or_no = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let axes = family.axes.iter();
    let axes = axes.map(|axis| [code(&axis.name), list(&axis.values), yes_or_no(axis.specialised)]);
    let knobs = family.knobs.iter().map(|knob| {
        let (values, default) = (list(&knob.values), knob.default.to_string());
        [code(&knob.name), values, default, yes_or_no(knob.search), knob.about.clone()]
    });
    let presets = family.presets.iter().map(|preset| {
        let knobs = joined(preset.knobs.iter().map(|(knob, value)| code(format!("{knob}={value}"))));
        [code(&preset.name), knobs, preset.about.clone()]
    });
    let pathologies = family.pathologies.iter();
    let pathologies = pathologies.map(|it| [code(&it.name), it.about.clone(), it.advice.clone()]);
    let mut text = format!(
        "\n## {}\n\n{}.\n\nTargets: {}. Axes of the problem:\n\n{}\nKnobs:\n\n{}\nPresets:\n\n{}",
        family.full_name(),
        sentence(&family.description),
        joined(family.targets.iter().map(|target| target.name().to_owned())),
        table(["axis", "values", "compile-time"], axes),
        table(["knob", "values", "default", "searched", "meaning"], knobs),
        table(["preset", "knobs that it sets", "meaning"], presets),
    );
    if !family.pathologies.is_empty() {
        let pathologies = table(["pathology", "meaning", "what to do instead"], pathologies);
        text += &format!("\nPathologies:\n\n{pathologies}");
    }
    text
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn list(values: &[family::Value]) -> String {
    joined(values.iter().map(ToString::to_string))
}

/// The documentation of an item as text for readers of JSON.
fn meaning(item: &Item) -> String {
    item.about.replace("[`", "`").replace("`]", "`").replace("`None`", "`null`")
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
        let inner = plain_type(inner);
        let plural = if matches!(inner.as_str(), "number" | "text") { "s" } else { "" };
        return format!("list of {inner}{plural}");
    }
    if let Some(inner) = inside("IndexMap") {
        return format!("object of {}", plain_type(inner.rsplit(", ").next().unwrap_or_default()));
    }
    if let Some(inner) = inside("Fact").or_else(|| inside("super::Fact")) {
        return format!("{}, or why it is unavailable", plain_type(inner));
    }
    if let Some((good, _)) = inside("Result").and_then(|inner| inner.split_once(", ")) {
        return plain_type(good);
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
    table(["name", "meaning"], known.map(|item| [code(item.kebab()), meaning(item)]))
}

fn fields(items: &[Item]) -> String {
    let rows = items.iter().map(|item| {
        let name = item.renamed.as_ref().unwrap_or(&item.name);
        // The only result is the outcome of an exchange, which has a field for each case.
        let is_result = item.kind.starts_with("Result<");
        let name = if is_result { "`candidate` or `refused`".to_owned() } else { code(name) };
        [name, plain_type(&item.kind), meaning(item)]
    });
    table(["field", "type", "meaning"], rows)
}

fn finding_kinds(source: &str) -> String {
    let items = items(source, "pub enum Kind");
    let names: Vec<&str> = vgpu::Kind::ALL.iter().map(|kind| kind.name()).collect();
    let documented: Vec<String> = items.iter().map(Item::kebab).collect();
    assert_eq!(names, documented, "every kind has a row");
    // The anchors let other pages and tools link to a kind.
    let rows = items.iter().map(|item| {
        let name = item.kebab();
        [format!("<a id=\"{name}\"></a>`{name}`"), meaning(item)]
    });
    table(["kind", "meaning"], rows)
}

fn stalls(source: &str) -> String {
    let items = items(source, "pub enum Stall");
    table(["name", "what the warp does"], items.iter().map(|item| [code(item.snake()), meaning(item)]))
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
    let trial = read("crates/runlog/src/trial.rs");
    let stage = read("crates/runlog/src/stage.rs");
    let profile = read("crates/runlog/src/record/profile.rs");
    let inversion = read("crates/runlog/src/record/inversion.rs");
    let problems = read("crates/op/src/contract/problems.rs");
    let judgement = read("crates/op/src/contract/judgement.rs");
    let structs = [
        (event, "ResultId"),
        (event, "BuildRecord"),
        (event, "CheckRecord"),
        (judgement.as_str(), "Complaint"),
        (event, "Repeats"),
        (event, "SampleSet"),
        (event, "Telemetry"),
        (event, "Modelled"),
        (problems.as_str(), "Work"),
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

/// The commands whose JSON documents are described.
const DOCUMENTS: [&str; 15] = [
    "doctor",
    "toolchain",
    "kernels",
    "kernels reference",
    "build reference --arch sm_89",
    "check reference --problem b1h1s16d64-fp16 --class normal",
    "sanitize clean.cu --counters",
    "bench reference --problem b1h1s16d64-fp16 --baseline none",
    "evolve reference --problem b1h1s16d64-fp16 --budget 1",
    "profile reference --problem b1h1s16d64-fp16",
    "invert wmma --preset stage-2 --problem b1h1s16d64-fp16",
    "gate --leaderboard leaderboard.json",
    "report",
    "runs",
    "check nosuch",
];

/// Runs every command with `--json` and lists the fields of what it prints.
fn json_documents() -> String {
    const KERNEL: &str = "// warpsmith: --kernel set --grid 1 --block 32 --arg y=out,i32[32]
extern \"C\" __global__ void set(int* y) { y[threadIdx.x] = 1; }
";
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("clean.cu"), KERNEL).unwrap();
    let mut text = String::new();
    for line in DOCUMENTS {
        let ran = crate::common::run(crate::common::json_command(line).current_dir(folder.path()));
        let document: serde_json::Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{line}: {error}\n{ran}"));
        let name = line.split(" --").next().unwrap_or_default();
        let schema = document["schema"].as_str().unwrap_or_default();
        text += &format!("\n### {}\n\n{}\n\n", title(name), schema_link(schema));
        let fields = document.as_object().into_iter().flatten().filter(|(name, _)| *name != "schema");
        text += &table(["field", "type"], fields.map(|(name, value)| [code(name), json_type(value)]));
    }
    text
}

/// What a document is, with a link to its schema, by the value of its field `schema`.
fn schema_link(schema: &str) -> String {
    let name = schema.trim_start_matches("warpsmith.").split('/').next().unwrap_or_default();
    format!("{} Schema: [`{schema}`](schemas/{name}.json).", schema_text(name, "description"))
}

/// A text of a published schema. `tests/unit/schemas.rs` makes the schemas from the types.
fn schema_text(name: &str, field: &str) -> String {
    let schema = read(&format!("docs/src/reference/schemas/{name}.json"));
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    schema[field].as_str().unwrap_or_default().to_owned()
}

/// All published schemas. A schema has the name of its document as its title.
fn schemas() -> String {
    let folder = root().join("docs/src/reference/schemas");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let rows = files.iter().map(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let document = code(schema_text(&name, "title"));
        [format!("[`{name}.json`](schemas/{name}.json)"), document, schema_text(&name, "description")]
    });
    table(["schema", "document", "contents"], rows)
}

fn title(command: &str) -> String {
    match command {
        "kernels reference" => "kernels FAMILY".to_owned(),
        "check nosuch" => "Errors".to_owned(),
        other => other.split(' ').next().unwrap_or_default().to_owned(),
    }
}

fn json_type(value: &serde_json::Value) -> String {
    let names = |object: &serde_json::Map<String, serde_json::Value>| joined(object.keys().map(code));
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
