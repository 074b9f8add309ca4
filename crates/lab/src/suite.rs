//! Suites: which problems, against which baselines, with which targets. A suite is a TOML file; the op brings its own.

use std::path::Path;

use op::{Op, Refusal};
use serde::{Deserialize, Serialize};

/// Bytes of a suite's file.
const MOST_BYTES: u64 = 1 << 20;
/// Problems that a suite may have, and that one of its tables may stand for.
const MOST_PROBLEMS: usize = 10_000;
/// Seconds that a suite may ask for: three years, which every clock can count.
const MOST_SECONDS: f64 = 1e8;

/// A suite, its problems by name.
#[derive(Clone, Debug)]
pub struct Suite<P> {
    pub name: String,
    pub description: String,
    pub problems: Vec<P>,
    pub baselines: Vec<String>,
    /// Calls before anything is timed; the command's own default where the suite says nothing.
    pub warmup: Option<u32>,
    /// Seconds the measuring of one problem may take.
    pub seconds: Option<f64>,
    pub targets: Vec<Target>,
}

/// What a suite wants to see, one thing per entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The problem meant; every problem where it is left out.
    pub problem: Option<String>,
    /// The baseline to compare with.
    pub over: Option<String>,
    /// At least this much faster than the baseline.
    pub speedup: Option<f64>,
    /// The slow tail must not be longer than the baseline's.
    #[serde(default)]
    pub p90_not_worse: bool,
    /// Percent of the time multiprocessors are busy.
    pub sm_busy: Option<f64>,
    #[serde(default)]
    pub no_spills: bool,
}

/// As the file has it.
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

/// The suite of a built-in name, or of a file.
pub fn find<O: Op>(op: &O, text: &str) -> Result<Suite<O::Problem>, Refusal> {
    if let Some(own) = op.suites().iter().find(|suite| suite.name == text) {
        return read(op, own.name, own.text);
    }
    let path = Path::new(text);
    let named = path.extension().is_some_and(|extension| extension == "toml") || path.exists();
    if !named {
        let names: Vec<&str> = op.suites().iter().map(|suite| suite.name).collect();
        let near =
            family::nearest(text, names.iter().copied()).map(|near| format!("did you mean `{near}`? "));
        let all = format!("suites: {}; or the path of a .toml file", names.join(", "));
        return Err(
            Refusal::new(format!("there is no suite `{text}`")).hint(Some(near.unwrap_or_default() + &all))
        );
    }
    let contents = gpu::paths::read_text_bounded(path, MOST_BYTES)
        .map_err(|error| Refusal::new(format!("cannot read {text}: {error}")))?;
    let name = path.file_stem().map_or(text.to_owned(), |stem| stem.to_string_lossy().into_owned());
    read(op, &name, &contents)
}

/// Reads a suite's text. A mistake names the suite and, where TOML knows it, the line.
pub fn read<O: Op>(op: &O, name: &str, text: &str) -> Result<Suite<O::Problem>, Refusal> {
    let wrong = |message: String| Refusal::new(format!("suite {name}: {message}"));
    let file: File = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let mut problems: Vec<O::Problem> = Vec::new();
    for value in &file.problems {
        let found = match value {
            toml::Value::String(text) => op.problems(text),
            toml::Value::Table(fields) => {
                combinations(fields).and_then(|all| all.iter().map(|fields| op.problem_of(fields)).collect())
            }
            other => Err(Refusal::new(format!("`{other}` is neither a problem's name nor a table"))),
        };
        let found = found
            .map_err(|refusal| Refusal { message: wrong(refusal.message.clone()).message, ..refusal })?;
        problems.extend(found);
        if problems.len() > MOST_PROBLEMS {
            return Err(wrong(format!("has more than {MOST_PROBLEMS} problems")));
        }
    }
    if problems.is_empty() {
        return Err(wrong("no problems".to_owned()));
    }
    if let Some(seconds) = file.seconds.filter(|seconds| !(*seconds > 0.0 && *seconds <= MOST_SECONDS)) {
        return Err(wrong(format!("`seconds` is {seconds}; it must be above 0 and at most {MOST_SECONDS}")));
    }
    for target in &file.targets {
        if let Some(named) = &target.problem {
            let known = op.problems(named).map_err(|refusal| wrong(format!("a target's {refusal}")))?;
            if !known.iter().all(|problem| problems.contains(problem)) {
                return Err(wrong(format!("a target names {named}, which is not among the problems")));
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

/// Every combination of the values of fields that have several, the first field slowest.
fn combinations(fields: &toml::Table) -> Result<Vec<toml::Table>, Refusal> {
    let count = fields.values().filter_map(toml::Value::as_array);
    let count = count.fold(1, |count: usize, values| count.saturating_mul(values.len()));
    if count > MOST_PROBLEMS {
        return Err(Refusal::new(format!(
            "a table of problems stands for {count} of them; {MOST_PROBLEMS} are allowed"
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
