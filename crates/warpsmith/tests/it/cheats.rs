//! Tests of the corpus of cheats. Kernels that pretend to be correct or fast are refused for an expected reason, and
//! their honest twins pass. `corpus/cheats/cheats.toml` describes each cheat and the commands that must refuse it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Run, run, target_tmp, warpsmith};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Table {
    default: Default,
    cheats: BTreeMap<String, Cheat>,
    proposals: BTreeMap<String, Proposal>,
    declared: BTreeMap<String, Declared>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Default {
    problems: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cheat {
    exploits: String,
    reported: String,
    refused_by: Vec<By>,
    kinds: BTreeSet<String>,
    #[serde(default)]
    no_gain: bool,
    problems: Option<Vec<String>>,
    twin: Option<Vec<String>>,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    evolve: bool,
}

/// A cheat that declares its op in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    exploits: String,
    kinds: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum By {
    Check,
    Bench,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Proposal {
    sends: String,
    outcome: Wanted,
    kinds: BTreeSet<String>,
    #[serde(default)]
    slow: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Wanted {
    NoCandidate,
    Failed,
    NotPicked,
}

/// A cheat gains if its time is below this share of its twin's time.
const GAIN: f64 = 0.8;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/cheats").canonicalize().unwrap()
}

fn table() -> Table {
    toml::from_str(&fs::read_to_string(folder().join("cheats.toml")).unwrap()).unwrap()
}

/// Families of the corpus in a `--kernels` folder, and a folder for the output of commands.
struct Bench {
    /// The path is the same in every test run, because the cache key of a build contains the source's path.
    kernels: PathBuf,
    place: tempfile::TempDir,
}

impl Bench {
    /// Copies families. Each is given by its name, its source file and the folder of its manifest.
    fn new(name: &str, families: &[(&str, PathBuf, &str)]) -> Self {
        let kernels = target_tmp().join("cheats").join(name);
        let op = kernels.join("attention");
        for entry in fs::read_dir(folder().join("common")).unwrap().flatten() {
            copy(&entry.path(), &op.join("common").join(entry.file_name()));
        }
        for (family, source, of) in families {
            let own = folder().join(of).join("kernel.toml");
            let manifest = if own.is_file() { own } else { folder().join("kernel.toml") };
            copy(&manifest, &op.join(family).join("kernel.toml"));
            copy(source, &op.join(family).join("kernel.cu"));
        }
        Bench { kernels, place: tempfile::tempdir().unwrap() }
    }

    fn command(&self, command: &str, families: &[&str], problems: &[String]) -> Command {
        let mut program = warpsmith();
        program.arg(command).args(families).args(["--device", "virtual:l4", "--kernels"]).arg(&self.kernels);
        program.args(problems.iter().flat_map(|problem| ["--problem", problem]));
        if command != "check" {
            program.arg("--run-dir").arg(self.place.path().join(command));
        }
        if command == "bench" {
            program.args(["--baseline", "none"]);
        }
        program.current_dir(self.place.path());
        program
    }

    fn events(&self, command: &str) -> Vec<Value> {
        let log = self.place.path().join(command).join("events.jsonl");
        let text = fs::read_to_string(log).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn failures(&self, command: &str) -> BTreeSet<String> {
        let failed = |event: &Value| event["kind"] == "candidate-failed";
        self.events(command).iter().filter(|event| failed(event)).flat_map(kinds_of).collect()
    }

    /// The modelled times of a bench, by family and problem.
    fn times(&self) -> BTreeMap<(String, String), f64> {
        let time = |event: &Value| {
            let of = &event["of"];
            let family = of["subject"].as_str()?.split_whitespace().next()?.to_owned();
            Some(((family, of["problem"].as_str()?.to_owned()), event["modelled"]["time_us"].as_f64()?))
        };
        self.events("bench").iter().filter(|event| event["kind"] == "modelled").filter_map(time).collect()
    }
}

/// Copies a file, unless it is already the same. Another test run may be reading it.
fn copy(from: &Path, to: &Path) {
    let bytes = fs::read(from).unwrap();
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return;
    }
    let folder = to.parent().unwrap();
    fs::create_dir_all(folder).unwrap();
    let whole = tempfile::NamedTempFile::new_in(folder).unwrap();
    fs::write(whole.path(), bytes).unwrap();
    whole.persist(to).unwrap();
}

fn cheat(name: &str) -> Bench {
    Bench::new(&format!("{name}-cheat"), &[(name, folder().join(name).join("cheat.cu"), name)])
}

fn twins(names: &[&str]) -> Bench {
    let families: Vec<_> =
        names.iter().map(|&name| (name, folder().join(name).join("honest.cu"), name)).collect();
    Bench::new(&format!("{}-twins", names[0]), &families)
}

/// The kinds of a check's complaints, and `broken` for a case without a judgement.
fn complaints(outcome: &Run) -> BTreeSet<String> {
    let document: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
    let cases = document["cases"].as_array().cloned().unwrap_or_default();
    let kinds = |case: &Value| -> Vec<String> {
        let complaints = case["complaints"].as_array().cloned().unwrap_or_default();
        let broken = (case["outcome"] == "broken").then(|| "broken".to_owned());
        complaints.iter().filter_map(|it| Some(it["kind"].as_str()?.to_owned())).chain(broken).collect()
    };
    cases.iter().flat_map(kinds).collect()
}

/// The kind of a failure, and the kinds in brackets in its reason.
fn kinds_of(failure: &Value) -> Vec<String> {
    let reason = failure["reason"].as_str().unwrap_or_default();
    let bracketed = reason.split('[').skip(1).filter_map(|rest| Some(rest.split_once(']')?.0.to_owned()));
    failure["failure"].as_str().map(str::to_owned).into_iter().chain(bracketed).collect()
}

/// Calls `complain` for each item, on all cores, and fails with all complaints.
fn complain_each<T: Sync>(items: &[T], complain: impl Fn(&T) -> Vec<String> + Sync) {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let complaints = complain(item);
                    found.lock().unwrap().extend(complaints);
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort();
    assert!(found.is_empty(), "{} complaints:\n{}", found.len(), found.join("\n"));
}

/// A complaint if the command did not refuse the cheat, or refused it for another reason.
fn refusal(outcome: &Run, kinds: &BTreeSet<String>, cheat: &Cheat) -> Option<String> {
    // A kernel that the device cannot load makes the run incomplete, which is not a success.
    let refused = outcome.code == 1 || (outcome.code == 4 && kinds.contains("refused"));
    if !refused {
        return Some(format!("accepted with exit code {} (exploit: {})", outcome.code, cheat.exploits));
    }
    cheat.kinds.is_disjoint(kinds).then(|| format!("refused as {kinds:?}, expected one of {:?}", cheat.kinds))
}

fn commands_refuse(name: &str, cheat: &Cheat, default: &[String]) -> Vec<String> {
    let bench = self::cheat(name);
    let problems = cheat.problems.as_deref().unwrap_or(default);
    let mut found = Vec::new();

    let must = cheat.refused_by.contains(&By::Check);
    let outcome = run(bench.command("check", &[name], problems).args(&cheat.arguments).arg("--json"));
    let kinds = complaints(&outcome);
    if must || outcome.code != 0 {
        // A refusal that is not required must still have an expected reason.
        found.extend(refusal(&outcome, &kinds, cheat).map(|what| format!("{name}: check: {what}")));
    }

    let must = cheat.refused_by.contains(&By::Bench);
    let outcome = run(&mut bench.command("bench", &[name], problems));
    if outcome.code != 0 || (must && !cheat.no_gain) {
        let wrong = refusal(&outcome, &bench.failures("bench"), cheat);
        found.extend(wrong.map(|what| format!("{name}: bench: {what}")));
    } else if cheat.no_gain || cheat.refused_by.is_empty() {
        let twin = twins(&[name]);
        run(&mut twin.command("bench", &[name], problems));
        let honest = twin.times();
        for (of, time) in bench.times() {
            if honest.get(&of).is_none_or(|honest| time < GAIN * honest) {
                found.push(format!(
                    "{name}: bench: accepted with {time} us, its twin takes {:?}",
                    honest.get(&of)
                ));
            }
        }
    }

    if cheat.evolve {
        let arguments = ["--strategy", "exhaustive", "--budget", "1"];
        let outcome = run(bench.command("evolve", &[name], &problems[..1]).args(arguments));
        let trials: Vec<Value> = bench.events("evolve").iter().map(|event| event["trial"].clone()).collect();
        let results: Vec<&Value> = trials.iter().map(|trial| &trial["result"]).collect();
        let kinds: BTreeSet<String> = results.iter().flat_map(|result| kinds_of(result)).collect();
        let named = cheat.kinds.iter().any(|kind| outcome.stderr.contains(&format!("[{kind}]")));
        if results.iter().any(|result| result["result"] == "timed") {
            found.push(format!("{name}: evolve: timed ({})", cheat.reported));
        } else if cheat.kinds.is_disjoint(&kinds) && !named {
            found.push(format!(
                "{name}: evolve: refused as {kinds:?}, expected one of {:?}\n{outcome}",
                cheat.kinds
            ));
        }
    }
    found
}

#[test]
fn every_cheat_is_refused_for_an_expected_reason() {
    let table = table();
    assert!(table.cheats.len() >= 40, "only {} cheats", table.cheats.len());
    // The slowest come first.
    let mut cheats: Vec<(&String, &Cheat)> = table.cheats.iter().collect();
    cheats.sort_by_key(|(_, cheat)| (cheat.twin.is_none(), !cheat.evolve));
    complain_each(&cheats, |(name, cheat)| commands_refuse(name, cheat, &table.default.problems));
}

/// Complaints about honest twins that do not pass. The twins share their problems and arguments, so one run of each
/// command checks all of them. `check` runs all classes of inputs on the last problem only, `bench` judges all problems.
fn twins_pass((problems, arguments): &(Vec<String>, Vec<String>), names: &[&str]) -> Vec<String> {
    let bench = twins(names);
    let mut found = Vec::new();
    for command in ["check", "bench"] {
        let (of_command, more): (&[String], &[String]) = match command {
            "check" => (&problems[problems.len() - 1..], arguments),
            _ => (problems, &[]),
        };
        let outcome = run(bench.command(command, names, of_command).args(more));
        if outcome.code != 0 {
            found.push(format!("{command} refuses an honest twin: {outcome}"));
        }
        if command == "bench" && bench.times().len() != names.len() * problems.len() {
            found.push(format!("bench has {} times of {names:?}: {outcome}", bench.times().len()));
        }
    }
    found
}

#[test]
fn every_honest_twin_passes() {
    let table = table();
    let mut groups: BTreeMap<(Vec<String>, Vec<String>), Vec<&str>> = BTreeMap::new();
    for (name, cheat) in &table.cheats {
        let problems = cheat.twin.as_ref().or(cheat.problems.as_ref()).unwrap_or(&table.default.problems);
        groups.entry((problems.clone(), cheat.arguments.clone())).or_default().push(name);
    }
    let mut parts: Vec<_> =
        groups.iter().flat_map(|(group, twins)| twins.chunks(8).map(move |part| (group, part))).collect();
    parts.sort_by_key(|(_, twins)| std::cmp::Reverse(twins.len()));
    complain_each(&parts, |(group, twins)| twins_pass(group, twins));
}

/// Complaints about a cheat that declares its op, and about its twin. Both are judged by `check` and by `bench`.
fn declared_complaints(name: &str, cheat: &Declared) -> Vec<String> {
    let place = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    for file in ["cheat.cu", "honest.cu"] {
        for command in ["check", "bench"] {
            let mut program = warpsmith();
            program.arg(command).arg(folder().join("declared").join(name).join(file));
            program.args(["--device", "virtual:l4"]).current_dir(place.path());
            let outcome = match command {
                "check" => run(program.arg("--json")),
                _ => run(program.args(["--baseline", "none", "--run-dir", file])),
            };
            if file == "honest.cu" {
                found.extend(
                    (outcome.code != 0).then(|| format!("{name}: {command} refuses its twin: {outcome}")),
                );
                continue;
            }
            let told = if command == "check" { complaints(&outcome) } else { BTreeSet::new() };
            let has_kind =
                |kind: &String| told.contains(kind) || outcome.stderr.contains(&format!("[{kind}]"));
            if outcome.code != 1 || !cheat.kinds.iter().any(has_kind) {
                found.push(format!("{name}: {command} (exploit: {}): {outcome}", cheat.exploits));
            }
        }
    }
    found
}

#[test]
fn cheats_that_declare_their_op_are_refused_and_their_twins_pass() {
    let table = table();
    let cheats: Vec<_> = table.declared.iter().collect();
    complain_each(&cheats, |(name, cheat)| declared_complaints(name, cheat));
}

/// Every folder is in `cheats.toml` and in `docs/src/explanation/cheats.md`, and every source begins with its name.
#[test]
fn the_table_and_the_folders_agree() {
    let table = table();
    let mut folders = BTreeSet::new();
    for entry in fs::read_dir(folder()).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        folders.insert(entry.file_name().into_string().unwrap());
    }
    for other in ["common", "declared", "modelled", "proposals"] {
        assert!(folders.remove(other), "no folder {other}");
    }
    assert_eq!(folders, table.cheats.keys().cloned().collect());
    let book = fs::read_to_string(folder().join("../../docs/src/explanation/cheats.md")).unwrap();
    for (name, cheat) in &table.cheats {
        let text = fs::read_to_string(folder().join(name).join("cheat.cu")).unwrap();
        assert!(text.starts_with(&format!("// {name}. ")), "{name}");
        assert!(!cheat.reported.is_empty() && !cheat.kinds.is_empty(), "{name}");
        assert!(book.contains(&format!("| {name} |")), "{name} is not in docs/src/explanation/cheats.md");
        assert!(folder().join(name).join("honest.cu").is_file(), "{name}");
    }
    let mut declared = BTreeSet::new();
    for entry in fs::read_dir(folder().join("declared")).unwrap().flatten() {
        declared.insert(entry.file_name().into_string().unwrap());
    }
    assert_eq!(declared, table.declared.keys().cloned().collect());
    for name in table.declared.keys() {
        let text = fs::read_to_string(folder().join("declared").join(name).join("cheat.cu")).unwrap();
        assert!(text.starts_with(&format!("// {name}. ")), "{name}");
        assert!(book.contains(&format!("| {name} |")), "{name} is not in docs/src/explanation/cheats.md");
    }
    for name in table.proposals.keys() {
        assert!(folder().join("proposals").join(format!("{name}.sh")).is_file(), "{name}");
        assert!(book.contains(&format!("| {name} |")), "{name} is not in docs/src/explanation/cheats.md");
    }
}

const SECRET: &str = "the_secret_of_the_user";

/// Complaints about a hostile proposal whose outcome is wrong or that affects the search.
fn proposal_complaints(name: &str, proposal: &Proposal, problem: &str) -> Vec<String> {
    let proposals = folder().join("proposals");
    let bench = Bench::new("proposals", &[("base", proposals.join("base.cu"), "proposals")]);
    let place = bench.place.path();
    fs::write(place.join("secret.txt"), format!("int {SECRET};\n")).unwrap();
    let line = format!("sh '{}'", proposals.join(format!("{name}.sh")).display());
    let mut command = bench.command("evolve", &["base"], &[problem.to_owned()]);
    command.args(["--budget", "1", "--limit", "10", "--proposer-cmd", &line]);
    // The answers quote cheats.
    command.arg("--proposer-folder").arg(folder()).env("CHEATS", folder());
    let outcome = run(&mut command);
    let events = bench.events("evolve");
    let exchange = events.iter().find(|event| event["kind"] == "proposed").map(|it| &it["exchange"]);
    let tried = |event: &&Value| event["kind"] == "tried" && event["trial"]["number"] == 1;
    let result = events.iter().find(tried).map(|event| &event["trial"]["result"]);

    let mut found = Vec::new();
    let mut complain = |what: String| found.push(format!("{name} ({}): {what}", proposal.sends));
    // Each proposer answers once. A proposer without any candidate is a problem that the search reports.
    let expected = i32::from(matches!(proposal.outcome, Wanted::NoCandidate));
    if outcome.code != expected {
        complain(format!("the search ended with another exit code than {expected}: {outcome}"));
    }
    match (proposal.outcome, exchange.and_then(|it| it["refused"].as_str()), result) {
        (Wanted::NoCandidate, Some(reason), None) => {
            if !proposal.kinds.iter().any(|kind| reason.contains(kind)) {
                complain(format!("refused as `{reason}`"));
            }
        }
        (Wanted::Failed, None, Some(result)) if result["result"] == "failed" => {
            if proposal.kinds.is_disjoint(&kinds_of(result).into_iter().collect()) {
                complain(format!("refused as {result}"));
            }
        }
        (Wanted::NotPicked, None, Some(result)) => {
            let table = fs::read_to_string(place.join("evolve/tuned.toml")).unwrap_or_default();
            if result["build"].as_str().is_some_and(|build| table.contains(build)) {
                complain(format!("the tuned table contains it: {table}"));
            }
        }
        (expected, refused, result) => {
            complain(format!("expected {expected:?}, got {refused:?}, {result:?}"));
        }
    }
    let log = fs::read_to_string(place.join("evolve/events.jsonl")).unwrap_or_default();
    if [&log, &outcome.stdout, &outcome.stderr].iter().any(|text| text.contains(SECRET)) {
        complain("the content of a user's file was printed or logged".to_owned());
    }
    if [&outcome.stdout, &outcome.stderr].iter().any(|text| text.contains(['\u{1b}', '\u{7}'])) {
        complain("a control character reached the terminal".to_owned());
    }
    found
}

fn check_proposals(slow: bool) {
    let table = table();
    let chosen: Vec<_> = table.proposals.iter().filter(|(_, proposal)| proposal.slow == slow).collect();
    complain_each(&chosen, |(name, proposal)| {
        proposal_complaints(name, proposal, &table.default.problems[0])
    });
}

#[test]
fn hostile_proposals_do_not_affect_the_search() {
    check_proposals(false);
}

#[test]
#[ignore = "takes minutes and gigabytes: the compiler runs until its time or memory limit"]
fn proposals_that_exhaust_the_compiler_do_not_affect_the_search() {
    check_proposals(true);
}
