//! The gate's report.

use std::fmt;

use runlog::{FailureKind, MeasuredMicros, ResultId, RunOutcome, Timer, Utc};
use schemars::JsonSchema;
use serde::Serialize;
use stats::Interval;
use times::ModelledMicros;

use super::quantity::{QuantityChange, QuantityVerdict};
use super::{BestOnRecord, Change, CountedRecord, Leaderboard};

const SCHEMA: &str = "warpsmith.gate/1";

/// The result of comparing a run with the leaderboard.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct GateReport {
    /// The version of the report's format.
    pub schema: &'static str,
    /// The GPU of the run.
    pub device: String,
    /// What is compared.
    pub basis: Basis,
    /// The timer whose times are compared, if times are measured.
    pub timer: Timer,
    /// When the report was made.
    pub judged: Utc,
    /// One row per problem; for a virtual GPU, one row per problem and candidate.
    pub rows: Vec<GateRow>,
}

/// What the gate compares with the leaderboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Times that were measured on a GPU.
    Measured,
    /// What the compiler reported, what a virtual GPU counted, and modelled times.
    Counted,
}

/// The gate's verdict on one problem.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct GateRow {
    /// The problem's name.
    pub problem: String,
    /// The verdict.
    pub standing: RowStatus,
    /// The run's fastest correct candidate.
    pub candidate: Option<String>,
    /// The hash of its build.
    pub build: Option<String>,
    /// Its median time.
    pub p50_us: Option<MeasuredMicros>,
    /// The 95% interval of its median.
    pub interval_us: Option<Interval>,
    /// The number of processes it was measured in.
    pub processes: Option<usize>,
    /// The candidate of the best on record.
    pub best_candidate: Option<String>,
    /// The median of the best on record.
    pub best_p50_us: Option<MeasuredMicros>,
    /// The change from the best on record.
    pub change: Option<Change>,
    /// The candidate's modelled time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modelled_us: Option<ModelledMicros>,
    /// The modelled time on record, if it is of the same model version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_modelled_us: Option<ModelledMicros>,
    /// The candidate's compiled, counted and modelled quantities beside those on record.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quantities: Vec<QuantityChange>,
    /// The compilers of the run and of the record, if they differ: the change may be theirs and not the kernel's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compilers: Option<DifferentCompilers>,
    /// The reasons why the row fails.
    pub findings: Vec<GateFinding>,
    /// The data that is missing for a verdict.
    pub gaps: Vec<MissingData>,
    /// Whether the GPU throttled its clocks during the measurement.
    pub throttled: bool,
    /// The entry that [`update`] would record.
    #[serde(skip)]
    pub(super) new_best: Option<Box<BestOnRecord>>,
    /// The entry of a virtual GPU that [`update`] would record.
    #[serde(skip)]
    pub(super) new_record: Option<Box<CountedRecord>>,
    /// The only candidate that the row is about; `None` means all candidates of the problem.
    #[serde(skip)]
    only: Option<String>,
}

/// Two compilers that differ.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DifferentCompilers {
    /// The compiler of the run.
    pub now: String,
    /// The compiler of the record.
    pub best: String,
}

impl DifferentCompilers {
    /// The two compilers; `None` if they are the same or one is unknown.
    pub(super) fn new(now: Option<&str>, best: Option<&str>) -> Option<Self> {
        let (now, best) = (now?, best?);
        (now != best && !now.is_empty() && !best.is_empty())
            .then(|| DifferentCompilers { now: now.to_owned(), best: best.to_owned() })
    }
}

impl fmt::Display for DifferentCompilers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the compilers differ: {} now, {} on record; a change may come from the compiler",
            self.now, self.best
        )
    }
}

/// The verdict of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowStatus {
    /// Significantly faster than the best on record.
    Improved,
    /// Not a regression.
    Passed,
    /// Recorded by [`update`]: the first entry for the problem, or an improvement.
    Recorded,
    /// The row has findings.
    Failed,
    /// Data is missing. This is not a pass.
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
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(tag = "finding", rename_all = "kebab-case")]
pub enum GateFinding {
    /// A candidate's output differs from the reference.
    WrongAnswer {
        /// The name of the candidate.
        candidate: String,
        /// What the check found.
        reason: String,
    },
    /// A candidate failed to build or to run.
    Broken {
        /// The name of the candidate.
        candidate: String,
        /// The kind of the failure.
        failure: FailureKind,
        /// The failure in words.
        reason: String,
    },
    /// A candidate uses more registers than its family allows.
    Registers {
        /// The name of the candidate.
        candidate: String,
        /// Registers per thread of the build.
        registers: u32,
        /// Largest number of registers per thread that the family allows.
        limit: u32,
    },
    /// A candidate spills more bytes than its family allows.
    Spills {
        /// The name of the candidate.
        candidate: String,
        /// Spilled bytes per thread of the build.
        bytes: u32,
        /// Largest number of spilled bytes per thread that the family allows.
        limit: u32,
    },
    /// The assembler serialises a candidate's warpgroup products for more reasons than its family allows.
    SerialisedWgmma {
        /// The name of the candidate.
        candidate: String,
        /// Number of the assembler's notes about it.
        notes: u32,
        /// Largest number of notes that the family allows.
        limit: u32,
    },
    /// The fastest candidate is slower than the best on record.
    Regression {
        /// The name of the candidate.
        candidate: String,
        /// Increase of the median time over the best on record, as a fraction: 0.05 is 5% slower.
        slower_by: f64,
        /// The two-sided p value of the rank test of both series of samples.
        p: f64,
    },
    /// A compiled, counted or modelled quantity is larger than its tolerance allows.
    Increased {
        /// The name of the candidate.
        candidate: String,
        /// The quantity and its values.
        change: QuantityChange,
    },
}

impl GateFinding {
    /// The name of the candidate.
    pub fn candidate(&self) -> &str {
        match self {
            GateFinding::WrongAnswer { candidate, .. }
            | GateFinding::Broken { candidate, .. }
            | GateFinding::Registers { candidate, .. }
            | GateFinding::Spills { candidate, .. }
            | GateFinding::SerialisedWgmma { candidate, .. }
            | GateFinding::Regression { candidate, .. }
            | GateFinding::Increased { candidate, .. } => candidate,
        }
    }

    /// A fixed identifier of the finding, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            GateFinding::WrongAnswer { .. } => "wrong-answer",
            GateFinding::Broken { .. } => "broken",
            GateFinding::Registers { .. } => "registers",
            GateFinding::Spills { .. } => "spills",
            GateFinding::SerialisedWgmma { .. } => "serialised-wgmma",
            GateFinding::Regression { .. } => "regression",
            GateFinding::Increased { change, .. } => change.quantity.increase(),
        }
    }
}

impl fmt::Display for GateFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GateFinding::WrongAnswer { candidate, reason } => {
                write!(f, "{candidate} is not correct: {reason}")
            }
            GateFinding::Broken { candidate, failure, reason } => {
                write!(f, "{candidate}: {failure}: {reason}")
            }
            GateFinding::Registers { candidate, registers, limit } => {
                write!(f, "{candidate} uses {registers} registers; its family allows {limit}")
            }
            GateFinding::Spills { candidate, bytes, limit } => {
                write!(f, "{candidate} spills {bytes} bytes; its family allows {limit}")
            }
            GateFinding::SerialisedWgmma { candidate, notes, limit } => {
                write!(f, "{candidate} has serialised wgmma ({notes} reasons; its family allows {limit})")
            }
            GateFinding::Regression { candidate, slower_by, p } => {
                write!(
                    f,
                    "{candidate} is {:.1}% slower than the best on record (p = {p:.1e})",
                    slower_by * 100.0
                )
            }
            GateFinding::Increased { candidate, change } => write!(f, "{candidate}: {change}"),
        }
    }
}

/// Data that is missing for a verdict.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(tag = "gap", rename_all = "kebab-case")]
pub enum MissingData {
    /// The log does not name the GPU of the run.
    UnknownDevice,
    /// The run has no result for the problem.
    NotMeasured,
    /// A subject was skipped.
    Skipped {
        /// The name of the subject.
        subject: String,
        /// Why the subject was skipped.
        reason: String,
    },
    /// The run was stopped during the work on this subject.
    CutShort {
        /// The name of the subject.
        subject: String,
    },
    /// A candidate was timed but its answers were not checked.
    Unchecked {
        /// The name of the candidate.
        candidate: String,
    },
    /// The run has only a modelled time, which is never compared with a measured one.
    OnlyModelled,
    /// The samples are not valid times.
    BadSamples {
        /// The name of the candidate.
        candidate: String,
        /// Why the samples are not valid.
        reason: String,
    },
    /// The log has no registers and spills of the candidate.
    NoBuild {
        /// The name of the candidate.
        candidate: String,
    },
    /// A candidate has a record but no result in the run.
    NotInRun {
        /// The name of the candidate.
        candidate: String,
    },
    /// A candidate did not run under the checkers of the virtual GPU.
    NotSanitized {
        /// The name of the candidate.
        candidate: String,
    },
    /// The log has no counts of the candidate.
    NoCounts {
        /// The name of the candidate.
        candidate: String,
    },
    /// The leaderboard has no entry for the problem.
    NothingOnRecord,
}

impl fmt::Display for MissingData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MissingData::UnknownDevice => write!(f, "the log does not name the GPU of the run"),
            MissingData::NotMeasured => write!(f, "not measured"),
            MissingData::Skipped { subject, reason } => write!(f, "{subject} was skipped: {reason}"),
            MissingData::CutShort { subject } => {
                write!(f, "the run was stopped before {subject} was finished")
            }
            MissingData::Unchecked { candidate } => write!(f, "{candidate} was timed but not checked"),
            MissingData::OnlyModelled => write!(f, "the time is modelled, not measured"),
            MissingData::BadSamples { candidate, reason } => write!(f, "{candidate}: {reason}"),
            MissingData::NoBuild { candidate } => {
                write!(f, "the log has no registers and spills for {candidate}")
            }
            MissingData::NotInRun { candidate } => write!(
                f,
                "{candidate} is on record but not in the run; remove its line from the leaderboard if the kernel \
                 was removed"
            ),
            MissingData::NotSanitized { candidate } => {
                write!(f, "{candidate} did not run under the checkers; run the bench again")
            }
            MissingData::NoCounts { candidate } => {
                write!(f, "the log has no counts for {candidate}; run the bench again")
            }
            MissingData::NothingOnRecord => {
                write!(f, "the leaderboard has no entry for this problem; run `gate --update` to record one")
            }
        }
    }
}

impl GateReport {
    pub(super) fn new(device: String, basis: Basis, timer: Timer, rows: Vec<GateRow>) -> Self {
        GateReport { schema: SCHEMA, device, basis, timer, judged: Utc::now(), rows }
    }

    /// The number of rows with a verdict.
    pub fn count(&self, standing: RowStatus) -> usize {
        self.rows.iter().filter(|row| row.standing == standing).count()
    }

    /// The outcome of the gate. A failed row takes precedence over an incomplete one, and a report without rows is
    /// incomplete.
    pub fn outcome(&self) -> RunOutcome {
        if self.count(RowStatus::Failed) > 0 {
            RunOutcome::ProblemFound
        } else if self.count(RowStatus::Incomplete) > 0 || self.rows.is_empty() {
            RunOutcome::Incomplete
        } else {
            RunOutcome::Success
        }
    }
}

/// The results that a row is about.
#[derive(Clone, Debug)]
pub(super) struct RowScope {
    problem: String,
    only: Option<String>,
}

impl RowScope {
    /// Whether the row is about a result.
    pub(super) fn covers(&self, of: &ResultId) -> bool {
        of.problem == self.problem && self.only.as_ref().is_none_or(|only| *only == of.subject)
    }
}

impl GateRow {
    /// A row without results, for all candidates of a problem or for one.
    pub(super) fn new(problem: &str, only: Option<&str>) -> Self {
        GateRow {
            problem: problem.to_owned(),
            standing: RowStatus::Incomplete,
            candidate: only.map(str::to_owned),
            build: None,
            p50_us: None,
            interval_us: None,
            processes: None,
            best_candidate: None,
            best_p50_us: None,
            change: None,
            modelled_us: None,
            best_modelled_us: None,
            quantities: Vec::new(),
            compilers: None,
            findings: Vec::new(),
            gaps: Vec::new(),
            throttled: false,
            new_best: None,
            new_record: None,
            only: only.map(str::to_owned),
        }
    }

    /// The results that the row is about.
    pub(super) fn scope(&self) -> RowScope {
        RowScope { problem: self.problem.clone(), only: self.only.clone() }
    }

    /// Whether the row has a result to compare, of the candidate that it names.
    pub(super) fn has_result(&self) -> bool {
        self.p50_us.is_some() || !self.quantities.is_empty()
    }

    /// Whether a quantity is smaller than on record, and none is larger.
    pub(super) fn is_smaller(&self) -> bool {
        let has = |verdict| self.quantities.iter().any(|change| change.verdict == verdict);
        has(QuantityVerdict::Smaller) && !has(QuantityVerdict::Larger) && !has(QuantityVerdict::Exceeded)
    }

    /// The problem, and the candidate if the row is about one.
    pub fn name(&self) -> String {
        match &self.only {
            None => self.problem.clone(),
            Some(only) => format!("{} {only}", self.problem),
        }
    }

    /// All findings and missing data, as text.
    pub fn reasons(&self) -> Vec<String> {
        let findings = self.findings.iter().map(ToString::to_string);
        findings.chain(self.gaps.iter().map(ToString::to_string)).collect()
    }

    /// Sets the verdict. Findings take precedence over missing data: a wrong answer fails even if other data is
    /// missing.
    pub(super) fn set_status(&mut self) {
        let is_improvement = self.change.is_some_and(|change| change.is_improvement()) || self.is_smaller();
        self.standing = match (self.findings.is_empty(), self.gaps.is_empty()) {
            (false, _) => RowStatus::Failed,
            (true, false) => RowStatus::Incomplete,
            (true, true) if is_improvement => RowStatus::Improved,
            (true, true) => RowStatus::Passed,
        };
        let is_first = self.gaps == [MissingData::NothingOnRecord] && self.findings.is_empty();
        if !is_first && self.standing != RowStatus::Improved {
            self.new_best = None;
        }
        if !is_first && !matches!(self.standing, RowStatus::Improved | RowStatus::Passed) {
            self.new_record = None;
        }
    }
}

/// Records improvements, and results for problems without an entry. Returns how many; the report marks them.
pub fn update(report: &mut GateReport, board: &mut Leaderboard) -> usize {
    let mut recorded = 0;
    for row in &mut report.rows {
        let best = row.new_best.take().map(|best| board.record(*best));
        let record = row.new_record.take().map(|record| board.record_counted(*record));
        if best.or(record).is_some() {
            row.gaps.clear();
            row.standing = RowStatus::Recorded;
            recorded += 1;
        }
    }
    recorded
}
