//! Results in the formats of CI systems: SARIF, JUnit, annotations of GitHub, and a summary in Markdown.
//!
//! A command converts its result to a [`CiReport`]; the functions of this module write it. They escape all text of the
//! report, because names, messages and paths come from kernels, files and logs, which are untrusted.
//!
//! ```
//! use warpsmith_report::ci::{CiCase, CiReport, CiStatus, github, junit, sarif, summary};
//!
//! let cases = vec![CiCase::new("b1h1s16d64-fp16 wmma", CiStatus::Passed, "12.30 us (modelled)")];
//! let report = CiReport::new("gate", "virtual l4", cases);
//! assert!(junit(&report).contains("tests=\"1\" failures=\"0\""));
//! assert!(summary(&report).starts_with("### warpsmith gate: passed"));
//! assert!(github(&report).is_empty());
//! assert_eq!(sarif(&report)["version"], "2.1.0");
//! ```

mod github;
mod junit;
mod markdown;
mod rules;
mod sarif;
#[cfg(test)]
mod tests;

use std::path::Path;

pub use github::github;
pub use junit::junit;
pub use markdown::summary;
pub use rules::{RULES, Rule, rule};
pub use sarif::sarif;

use runlog::Utc;

/// The results of one command.
#[derive(Clone, Debug)]
pub struct CiReport {
    /// The command: `gate`.
    pub command: &'static str,
    /// What the results are for: the device.
    pub subject: String,
    /// When the report was made.
    pub made: Utc,
    /// The results.
    pub cases: Vec<CiCase>,
    /// Values that the summary shows, beside those on record.
    pub values: Vec<CiValue>,
}

/// One result.
#[derive(Clone, Debug)]
pub struct CiCase {
    /// The name: the kernel and its problem.
    pub name: String,
    /// The verdict.
    pub status: CiStatus,
    /// Numbers and remarks, in one line.
    pub detail: String,
    /// What is wrong.
    pub findings: Vec<CiFinding>,
    /// Remarks that do not make the result fail.
    pub notices: Vec<CiNotice>,
    /// The name of the result that tells the cause, if an earlier or later result fails for the same one.
    pub same_cause_as: Option<String>,
}

/// The verdict of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CiStatus {
    /// Nothing is wrong.
    Passed,
    /// Something is wrong.
    Failed,
    /// Data is missing. This is not a pass.
    Incomplete,
}

impl CiStatus {
    /// The verdict in lower case.
    pub fn name(self) -> &'static str {
        match self {
            CiStatus::Passed => "passed",
            CiStatus::Failed => "failed",
            CiStatus::Incomplete => "incomplete",
        }
    }
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The result fails.
    Error,
    /// A probable mistake.
    Warning,
    /// Information.
    Note,
}

/// Something that is wrong.
#[derive(Clone, Debug)]
pub struct CiFinding {
    /// The kind of finding.
    pub rule: &'static Rule,
    /// How serious it is.
    pub level: Level,
    /// What is wrong, in words.
    pub message: String,
    /// What the finding belongs to, such as the kernel. It is a part of the fingerprint, so it must not contain anything
    /// that changes from run to run.
    pub owner: String,
    /// Where it is.
    pub location: Option<Location>,
    /// Other places that explain it, such as the other access of a race.
    pub related: Vec<(String, Location)>,
}

/// A remark that does not make a result fail.
#[derive(Clone, Debug)]
pub struct CiNotice {
    /// How serious it is; never an error.
    pub level: Level,
    /// The remark.
    pub message: String,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The file: relative to the working directory if it is below it, otherwise absolute.
    pub file: String,
    /// The line, from 1; 0 for the whole file.
    pub line: u32,
    /// The column, from 1; 0 for the whole line.
    pub column: u32,
    /// The text of the line. It identifies the line when unrelated lines move.
    pub text: String,
}

/// A value beside the value on record.
#[derive(Clone, Debug)]
pub struct CiValue {
    /// The name of the result.
    pub case: String,
    /// What the value is and where it comes from: `warp instructions (counted)`.
    pub name: String,
    /// The value.
    pub now: String,
    /// The value on record.
    pub best: String,
    /// The change.
    pub change: String,
}

impl CiReport {
    /// A report that is made now.
    pub fn new(command: &'static str, subject: impl Into<String>, cases: Vec<CiCase>) -> Self {
        CiReport { command, subject: subject.into(), made: Utc::now(), cases, values: Vec::new() }
    }

    /// The number of results with a verdict.
    pub fn count(&self, status: CiStatus) -> usize {
        self.cases.iter().filter(|case| case.status == status).count()
    }

    /// The verdict of all results together. A report without results is incomplete.
    pub fn status(&self) -> CiStatus {
        match () {
            () if self.count(CiStatus::Failed) > 0 => CiStatus::Failed,
            () if self.count(CiStatus::Incomplete) > 0 || self.cases.is_empty() => CiStatus::Incomplete,
            () => CiStatus::Passed,
        }
    }
}

impl CiCase {
    /// A result without findings.
    pub fn new(name: impl Into<String>, status: CiStatus, detail: impl Into<String>) -> Self {
        CiCase {
            name: name.into(),
            status,
            detail: detail.into(),
            findings: Vec::new(),
            notices: Vec::new(),
            same_cause_as: None,
        }
    }

    /// The messages of all findings, or the result that has them.
    fn messages(&self) -> Vec<String> {
        let same = self.same_cause_as.iter().map(|other| format!("the same cause as {other}"));
        self.findings.iter().map(|finding| finding.message.clone()).chain(same).collect()
    }
}

impl CiReport {
    /// The number of other results that fail for the same cause as this one.
    fn others_like(&self, case: &CiCase) -> usize {
        self.cases.iter().filter(|other| other.same_cause_as.as_ref() == Some(&case.name)).count()
    }
}

impl CiFinding {
    /// A finding of a kind without a place.
    pub fn new(kind: &str, owner: impl Into<String>, message: impl Into<String>) -> Self {
        CiFinding {
            rule: rule(kind),
            level: Level::Error,
            message: message.into(),
            owner: owner.into(),
            location: None,
            related: Vec::new(),
        }
    }
}

impl Location {
    /// The start of a file.
    pub fn file(file: impl Into<String>) -> Self {
        Location { file: file.into(), line: 0, column: 0, text: String::new() }
    }
}

/// A path as a [`Location`] has it: relative to the working directory if it is below it, otherwise absolute. Links and
/// `..` are resolved, so that a file has one name.
pub fn display_path(path: &Path) -> String {
    let full = path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned());
    let here = std::env::current_dir().and_then(|folder| folder.canonicalize());
    let below = here.ok().and_then(|folder| full.strip_prefix(folder).ok().map(Path::to_owned));
    below.unwrap_or(full).to_string_lossy().into_owned()
}
