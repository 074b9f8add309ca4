//! What the gate came to.

use std::fmt;

use serde::Serialize;

use super::{BestOnRecord, Change, Leaderboard};
use crate::run::{FailureKind, MeasuredMicros, RunOutcome, Timer, Utc};
use crate::stats::Interval;

const SCHEMA: u32 = 1;

/// A run held against the leaderboard.
#[derive(Clone, Debug, Serialize)]
pub struct GateReport {
    pub schema: u32,
    pub device: String,
    pub timer: Timer,
    pub judged: Utc,
    pub rows: Vec<GateRow>,
}

/// A problem.
#[derive(Clone, Debug, Serialize)]
pub struct GateRow {
    pub problem: String,
    pub standing: RowStatus,
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
    pub findings: Vec<GateFinding>,
    pub gaps: Vec<MissingData>,
    /// Clocks were held down meanwhile.
    pub throttled: bool,
    /// What [`update`] would put on record.
    #[serde(skip)]
    pub(super) new_best: Option<Box<BestOnRecord>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowStatus {
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

impl fmt::Display for RowStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            RowStatus::Improved => "improved",
            RowStatus::Passed => "passed",
            RowStatus::Recorded => "recorded",
            RowStatus::Failed => "FAILED",
            RowStatus::Incomplete => "INCOMPLETE",
        })
    }
}

/// Why a row fails.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "finding", rename_all = "kebab-case")]
pub enum GateFinding {
    WrongAnswer { candidate: String, reason: String },
    Broken { candidate: String, failure: FailureKind, reason: String },
    Registers { candidate: String, registers: u32, limit: u32 },
    Spills { candidate: String, bytes: u32, limit: u32 },
    Regression { candidate: String, slower_by: f64, p: f64 },
}

impl GateFinding {
    /// A word programs can tell apart.
    pub fn kind(&self) -> &'static str {
        match self {
            GateFinding::WrongAnswer { .. } => "wrong-answer",
            GateFinding::Broken { .. } => "broken",
            GateFinding::Registers { .. } => "registers",
            GateFinding::Spills { .. } => "spills",
            GateFinding::Regression { .. } => "regression",
        }
    }
}

impl fmt::Display for GateFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GateFinding::WrongAnswer { candidate, reason } => {
                write!(f, "{candidate} gives a wrong answer: {reason}")
            }
            GateFinding::Broken { candidate, failure, reason } => {
                write!(f, "{candidate}: {failure}: {reason}")
            }
            GateFinding::Registers { candidate, registers, limit } => {
                write!(f, "{candidate} needs {registers} registers; its family allows {limit}")
            }
            GateFinding::Spills { candidate, bytes, limit } => {
                write!(f, "{candidate} spills {bytes} bytes; its family allows {limit}")
            }
            GateFinding::Regression { candidate, slower_by, p } => {
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
pub enum MissingData {
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

impl fmt::Display for MissingData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MissingData::UnknownDevice => write!(f, "the run does not say which GPU it was made on"),
            MissingData::NotMeasured => write!(f, "not measured"),
            MissingData::Skipped { subject, reason } => write!(f, "{subject} was skipped: {reason}"),
            MissingData::CutShort { subject } => write!(f, "{subject} was cut short"),
            MissingData::Unchecked { candidate } => write!(f, "{candidate} was timed but not checked"),
            MissingData::OnlyModelled => write!(f, "its time is modelled, not measured"),
            MissingData::BadSamples { candidate, reason } => write!(f, "{candidate}: {reason}"),
            MissingData::NoBuild { candidate } => {
                write!(f, "registers and spills of {candidate} are not in the log")
            }
            MissingData::NothingOnRecord => {
                write!(f, "nothing on record to compare with; `gate --update` records it")
            }
        }
    }
}

impl GateReport {
    pub(super) fn new(device: String, timer: Timer, rows: Vec<GateRow>) -> Self {
        GateReport { schema: SCHEMA, device, timer, judged: Utc::now(), rows }
    }

    pub fn count(&self, standing: RowStatus) -> usize {
        self.rows.iter().filter(|row| row.standing == standing).count()
    }

    /// What the gate came to: a finding before a gap, and no rows are a gap.
    pub fn outcome(&self) -> RunOutcome {
        if self.count(RowStatus::Failed) > 0 {
            RunOutcome::Finding
        } else if self.count(RowStatus::Incomplete) > 0 || self.rows.is_empty() {
            RunOutcome::Incomplete
        } else {
            RunOutcome::Holds
        }
    }
}

impl GateRow {
    /// Everything that is wrong with it or missing, in words.
    pub fn reasons(&self) -> Vec<String> {
        let findings = self.findings.iter().map(ToString::to_string);
        findings.chain(self.gaps.iter().map(ToString::to_string)).collect()
    }

    /// Findings come before gaps: what is wrong is wrong, whatever else is not known.
    pub(super) fn settle(&mut self) {
        let improved = self.change.is_some_and(|change| change.is_improvement());
        self.standing = match (self.findings.is_empty(), self.gaps.is_empty()) {
            (false, _) => RowStatus::Failed,
            (true, false) => RowStatus::Incomplete,
            (true, true) if improved => RowStatus::Improved,
            (true, true) => RowStatus::Passed,
        };
        let first = self.gaps == [MissingData::NothingOnRecord] && self.findings.is_empty();
        if !first && self.standing != RowStatus::Improved {
            self.new_best = None;
        }
    }
}

/// Puts improvements, and problems that had nothing on record, on record. Says how many; they are marked in the report.
pub fn update(report: &mut GateReport, board: &mut Leaderboard) -> usize {
    let mut recorded = 0;
    for row in &mut report.rows {
        if let Some(best) = row.new_best.take() {
            board.record(*best);
            row.gaps.clear();
            row.standing = RowStatus::Recorded;
            recorded += 1;
        }
    }
    recorded
}
