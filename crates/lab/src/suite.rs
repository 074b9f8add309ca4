//! Suites: lists of problems with baselines and targets. A suite is a TOML file; an op brings built-in suites.

use std::path::Path;

use op::{Op, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest size of a suite file, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Largest number of problems in a suite, and in one of its tables.
const MAX_PROBLEMS: usize = 10_000;
/// Largest value of `seconds`: three years, which every clock can represent.
const MAX_SECONDS: f64 = 1e8;

/// A suite with its problems expanded.
#[derive(Clone, Debug)]
pub struct Suite<P> {
    /// The built-in name, or the file's name without its extension.
    pub name: String,
    /// What the suite is for; empty if the file does not say it.
    pub description: String,
    /// The problems in the order of the file.
    pub problems: Vec<P>,
    /// Names of the baselines: `auto`, `cudnn`. Empty if the file lists none.
    pub baselines: Vec<String>,
    /// Launches before timing starts; `None` selects the default of the command.
    pub warmup: Option<u32>,
    /// Time limit for measuring one problem, in seconds.
    pub seconds: Option<f64>,
    /// The goals that the suite sets.
    pub targets: Vec<Target>,
}

/// One goal that a suite sets.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The problem; `None` means every problem.
    pub problem: Option<String>,
    /// The baseline to compare with.
    pub over: Option<String>,
    /// The smallest speedup over the baseline.
    pub speedup: Option<f64>,
    /// The p90 time must not be longer than the baseline's.
    #[serde(default)]
    pub p90_not_worse: bool,
    /// The smallest percentage of the time for which multiprocessors are busy.
    pub sm_busy: Option<f64>,
    /// No candidate may spill registers.
    #[serde(default)]
    pub no_spills: bool,
}

impl Target {
    /// The goal in words: `mission: at least 2x over auto`.
    pub fn in_words(&self) -> String {
        let over = self.over.as_deref().unwrap_or_default();
        let speedup = self.speedup.map(|speedup| format!("at least {speedup}x over {over}"));
        let p90 = self.p90_not_worse.then(|| format!("p90 not above that of {over}"));
        let busy =
            self.sm_busy.map(|percent| format!("multiprocessors busy at least {percent}% of the time"));
        let spills = self.no_spills.then(|| "no spilled registers".to_owned());
        let goals: Vec<String> = [speedup, p90, busy, spills].into_iter().flatten().collect();
        format!("{}: {}", self.problem.as_deref().unwrap_or("every problem"), goals.join("; "))
    }
}

/// The format of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    description: String,
    problems: Vec<toml::Value>,
    #[serde(default)]
    baselines: Vec<String>,
    warmup: Option<u32>,
    seconds: Option<f64>,
    #[serde(default)]
    targets: Vec<Target>,
}

/// Finds a suite by its built-in name or by the path of its file.
pub fn find<O: Op>(op: &O, text: &str) -> Result<Suite<O::Problem>, Refusal> {
    if let Some(own) = op.suites().iter().find(|suite| suite.name == text) {
        return read(op, &own.name, &own.text);
    }
    let path = Path::new(text);
    let is_path = path.extension().is_some_and(|extension| extension == "toml") || path.exists();
    if !is_path {
        let names: Vec<String> = op.suites().into_iter().map(|suite| suite.name).collect();
        let suggestion = family::nearest(text, names.iter().map(String::as_str))
            .map(|suggestion| format!("did you mean `{suggestion}`? "));
        let all = format!("suites: {}; or the path of a .toml file", names.join(", "));
        return Err(Refusal::new(format!("there is no suite `{text}`"))
            .hint(Some(suggestion.unwrap_or_default() + &all)));
    }
    let contents = gpu::paths::read_text_bounded(path, MAX_BYTES)
        .map_err(|error| Refusal::new(format!("cannot read {text}: {error}")))?;
    let name = path.file_stem().map_or(text.to_owned(), |stem| stem.to_string_lossy().into_owned());
    read(op, &name, &contents)
}

/// Parses the text of a suite. An error names the suite and, where TOML reports it, the line.
pub fn read<O: Op>(op: &O, name: &str, text: &str) -> Result<Suite<O::Problem>, Refusal> {
    let wrong = |message: String| Refusal::new(format!("suite {name}: {message}"));
    let file: File = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let mut problems: Vec<O::Problem> = Vec::new();
    for value in &file.problems {
        let found = match value {
            toml::Value::String(text) => op.problems(text),
            toml::Value::Table(fields) => combinations(fields)
                .and_then(|all| all.iter().map(|fields| op.problem_from_fields(fields)).collect()),
            other => Err(Refusal::new(format!("`{other}` is neither a problem name nor a table"))),
        };
        let found = found
            .map_err(|refusal| Refusal { message: wrong(refusal.message.clone()).message, ..refusal })?;
        problems.extend(found);
        if problems.len() > MAX_PROBLEMS {
            return Err(wrong(format!("has more than {MAX_PROBLEMS} problems")));
        }
    }
    if problems.is_empty() {
        return Err(wrong("the list of problems is empty".to_owned()));
    }
    if let Some(seconds) = file.seconds.filter(|seconds| !(*seconds > 0.0 && *seconds <= MAX_SECONDS)) {
        return Err(wrong(format!("`seconds` is {seconds}; it must be above 0 and at most {MAX_SECONDS}")));
    }
    for target in &file.targets {
        if let Some(name) = &target.problem {
            let known = op.problems(name).map_err(|refusal| wrong(format!("in a target: {refusal}")))?;
            if !known.iter().all(|problem| problems.contains(problem)) {
                return Err(wrong(format!("a target names {name}, which is not a problem of the suite")));
            }
        }
        if target.speedup.is_some() && target.over.is_none() {
            return Err(wrong("a target with `speedup` needs `over`".to_owned()));
        }
    }
    Ok(Suite {
        name: name.to_owned(),
        description: file.description,
        problems,
        baselines: file.baselines,
        warmup: file.warmup,
        seconds: file.seconds,
        targets: file.targets,
    })
}

/// Returns every combination of the values of fields that have several; the first field changes slowest.
fn combinations(fields: &toml::Table) -> Result<Vec<toml::Table>, Refusal> {
    let count = fields.values().filter_map(toml::Value::as_array);
    let count = count.fold(1, |count: usize, values| count.saturating_mul(values.len()));
    if count > MAX_PROBLEMS {
        return Err(Refusal::new(format!(
            "a table of problems expands to {count} problems; {MAX_PROBLEMS} are allowed"
        )));
    }
    let mut all = vec![toml::Table::new()];
    for (name, value) in fields {
        let values = match value {
            toml::Value::Array(values) => values.clone(),
            one => vec![one.clone()],
        };
        all = all
            .iter()
            .flat_map(|table| {
                values.iter().map(move |value| {
                    let mut longer = table.clone();
                    longer.insert(name.clone(), value.clone());
                    longer
                })
            })
            .collect();
    }
    Ok(all)
}
