//! What the gate came to.

use std::fmt;

use serde::Serialize;

use super::{Best, Change, Leaderboard};
use crate::run::{FailureKind, MeasuredMicros, Outcome, Timer, Utc};
use crate::stats::Interval;

const SCHEMA: u32 = 1;

/// A run held against the leaderboard.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub schema: u32,
    pub device: String,
    pub timer: Timer,
    pub judged: Utc,
    pub rows: Vec<Row>,
}

/// A problem.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub problem: String,
    pub standing: Standing,
    /// The run's fastest right candidate.
    pub candidate: Option<String>,
    pub build: Option<String>,
    pub p50_us: Option<MeasuredMicros>,
    pub interval_us: Option<Interval>,
    /// The processes it was measured in.
    pub processes: Option<usize>,
    /// The best on record.
    pub best_candidate: Option<String>,
    pub best_p50_us: Option<MeasuredMicros>,
    pub change: Option<Change>,
    pub findings: Vec<Finding>,
    pub gaps: Vec<Gap>,
    /// Clocks were held down meanwhile.
    pub throttled: bool,
    /// What [`update`] would put on record.
    #[serde(skip)]
    pub(super) new_best: Option<Box<Best>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Clearly faster than the best on record.
    Improved,
    /// No regression.
    Passed,
    /// Put on record just now: the first of its kind, or better than what was there.
    Recorded,
    /// See the findings.
    Failed,
    /// See the gaps. Not a pass.
    Incomplete,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Standing::Improved => "improved",
            Standing::Passed => "passed",
            Standing::Recorded => "recorded",
            Standing::Failed => "FAILED",
            Standing::Incomplete => "INCOMPLETE",
        })
    }
}

/// Why a row fails.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "finding", rename_all = "kebab-case")]
pub enum Finding {
    WrongAnswer { candidate: String, reason: String },
    Broken { candidate: String, failure: FailureKind, reason: String },
    Registers { candidate: String, registers: u32, limit: u32 },
    Spills { candidate: String, bytes: u32, limit: u32 },
    Regression { candidate: String, slower_by: f64, p: f64 },
}

impl Finding {
    /// A word programs can tell apart.
    pub fn kind(&self) -> &'static str {
        match self {
            Finding::WrongAnswer { .. } => "wrong-answer",
            Finding::Broken { .. } => "broken",
            Finding::Registers { .. } => "registers",
            Finding::Spills { .. } => "spills",
            Finding::Regression { .. } => "regression",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::WrongAnswer { candidate, reason } => {
                write!(f, "{candidate} gives a wrong answer: {reason}")
            }
            Finding::Broken { candidate, failure, reason } => write!(f, "{candidate}: {failure}: {reason}"),
            Finding::Registers { candidate, registers, limit } => {
                write!(f, "{candidate} needs {registers} registers; its family allows {limit}")
            }
            Finding::Spills { candidate, bytes, limit } => {
                write!(f, "{candidate} spills {bytes} bytes; its family allows {limit}")
            }
            Finding::Regression { candidate, slower_by, p } => {
                write!(
                    f,
                    "{candidate} is {:.1}% slower than the best on record (p = {p:.1e})",
                    slower_by * 100.0
                )
            }
        }
    }
}

/// What is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "gap", rename_all = "kebab-case")]
pub enum Gap {
    /// The run does not know which GPU it was made on.
    UnknownDevice,
    NotMeasured,
    Skipped {
        subject: String,
        reason: String,
    },
    /// The run was stopped in the middle of it.
    CutShort {
        subject: String,
    },
    /// It was timed, and nobody looked whether it is right.
    Unchecked {
        candidate: String,
    },
    /// A modelled time is not compared with a measured one.
    OnlyModelled,
    /// What was measured is no time.
    BadSamples {
        candidate: String,
        reason: String,
    },
    /// What it was built to, registers and spills, is not in the log.
    NoBuild {
        candidate: String,
    },
    NothingOnRecord,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gap::UnknownDevice => write!(f, "the run does not say which GPU it was made on"),
            Gap::NotMeasured => write!(f, "not measured"),
            Gap::Skipped { subject, reason } => write!(f, "{subject} was skipped: {reason}"),
            Gap::CutShort { subject } => write!(f, "{subject} was cut short"),
            Gap::Unchecked { candidate } => write!(f, "{candidate} was timed but not checked"),
            Gap::OnlyModelled => write!(f, "its time is modelled, not measured"),
            Gap::BadSamples { candidate, reason } => write!(f, "{candidate}: {reason}"),
            Gap::NoBuild { candidate } => write!(f, "registers and spills of {candidate} are not in the log"),
            Gap::NothingOnRecord => {
                write!(f, "nothing on record to compare with; `gate --update` records it")
            }
        }
    }
}

impl Report {
    pub(super) fn new(device: String, timer: Timer, rows: Vec<Row>) -> Self {
        Report { schema: SCHEMA, device, timer, judged: Utc::now(), rows }
    }

    pub fn count(&self, standing: Standing) -> usize {
        self.rows.iter().filter(|row| row.standing == standing).count()
    }

    /// What the gate came to: a finding before a gap, and no rows are a gap.
    pub fn outcome(&self) -> Outcome {
        if self.count(Standing::Failed) > 0 {
            Outcome::Finding
        } else if self.count(Standing::Incomplete) > 0 || self.rows.is_empty() {
            Outcome::Incomplete
        } else {
            Outcome::Holds
        }
    }
}

impl Row {
    /// Everything that is wrong with it or missing, in words.
    pub fn reasons(&self) -> Vec<String> {
        let findings = self.findings.iter().map(ToString::to_string);
        findings.chain(self.gaps.iter().map(ToString::to_string)).collect()
    }

    /// Findings come before gaps: what is wrong is wrong, whatever else is not known.
    pub(super) fn settle(&mut self) {
        let improved = self.change.is_some_and(|change| change.is_improvement());
        self.standing = match (self.findings.is_empty(), self.gaps.is_empty()) {
            (false, _) => Standing::Failed,
            (true, false) => Standing::Incomplete,
            (true, true) if improved => Standing::Improved,
            (true, true) => Standing::Passed,
        };
        let first = self.gaps == [Gap::NothingOnRecord] && self.findings.is_empty();
        if !first && self.standing != Standing::Improved {
            self.new_best = None;
        }
    }
}

/// Puts improvements, and problems that had nothing on record, on record. Says how many; they are marked in the report.
pub fn update(report: &mut Report, board: &mut Leaderboard) -> usize {
    let mut recorded = 0;
    for row in &mut report.rows {
        if let Some(best) = row.new_best.take() {
            board.record(*best);
            row.gaps.clear();
            row.standing = Standing::Recorded;
            recorded += 1;
        }
    }
    recorded
}
