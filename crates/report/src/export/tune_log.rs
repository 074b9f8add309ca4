//! `tune_log.csv`: one row per trial of a search. A missing value is `NA`.

use std::io::{self, Write};

use runlog::{RunState, Time, Trial, TrialResult};

use super::Exporter;

/// Writes `tune_log.csv`.
#[derive(Debug)]
pub struct TuneLog;

const NONE: &str = "NA";

const COLUMNS: [&str; 15] = [
    "trial",
    "candidate",
    "parent",
    "origin",
    "source",
    "result",
    "elite",
    "score",
    "same_as",
    "stage",
    "reason",
    "build",
    "code_hash",
    "registers",
    "shared_bytes",
];

/// The columns of each problem. Measured and modelled times have separate columns.
const PROBLEM_COLUMNS: [&str; 5] = ["measured_us", "modelled_us", "speedup", "speedup_low", "speedup_high"];

impl Exporter for TuneLog {
    fn file_name(&self) -> &'static str {
        "tune_log.csv"
    }

    fn concerns(&self, state: &RunState) -> bool {
        !state.trials.is_empty()
    }

    fn write(&self, state: &RunState, out: &mut dyn Write) -> io::Result<()> {
        let mut trials: Vec<&Trial> = state.trials.values().collect();
        trials.sort_by_key(|trial| trial.number);
        let (mut knobs, mut problems): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        for trial in &trials {
            add_new(&mut knobs, trial.knobs.keys());
            if let TrialResult::Timed { problems: times, .. } = &trial.result {
                add_new(&mut problems, times.iter().map(|time| &time.problem));
            }
        }
        let mut table = ::csv::Writer::from_writer(out);
        let mut head: Vec<String> = COLUMNS.map(str::to_owned).to_vec();
        head.extend(knobs.iter().map(|knob| format!("knob {knob}")));
        for problem in &problems {
            head.extend(PROBLEM_COLUMNS.map(|column| format!("{problem} {column}")));
        }
        table.write_record(&head)?;
        for trial in trials {
            let mut cells = result(trial);
            cells.extend(
                knobs.iter().map(|knob| trial.knobs.get(*knob).map_or(NONE, String::as_str).to_owned()),
            );
            cells.extend(problems.iter().flat_map(|problem| times(trial, problem)));
            table.write_record(&cells)?;
        }
        table.flush()
    }
}

/// Appends the names that are not in the list yet.
fn add_new<'s>(names: &mut Vec<&'s str>, more: impl Iterator<Item = &'s String>) {
    for name in more {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
}

fn result(trial: &Trial) -> Vec<String> {
    let or_none = |value: Option<String>| value.unwrap_or_else(|| NONE.to_owned());
    let mut cells = vec![
        trial.number.to_string(),
        trial.candidate.clone(),
        or_none(trial.parent.map(|parent| parent.to_string())),
        trial.origin.clone(),
        or_none(trial.source.clone()),
    ];
    let rest: [Option<String>; 10] = match &trial.result {
        TrialResult::Timed { build, code_hash, registers, shared_bytes, score, elite, .. } => [
            Some("timed".to_owned()),
            Some(elite.to_string()),
            Some(score.to_string()),
            None,
            None,
            None,
            Some(build.clone()),
            Some(code_hash.clone()),
            Some(registers.to_string()),
            Some(shared_bytes.to_string()),
        ],
        TrialResult::Same { as_trial, code_hash } => [
            Some("same".to_owned()),
            None,
            None,
            Some(as_trial.to_string()),
            None,
            None,
            None,
            Some(code_hash.clone()),
            None,
            None,
        ],
        TrialResult::Failed { stage, failure, reason } => {
            let [stage, reason] = [stage.to_string(), reason.clone()].map(Some);
            [Some(failure.to_string()), None, None, None, stage, reason, None, None, None, None]
        }
    };
    cells.extend(rest.map(or_none));
    cells
}

fn times(trial: &Trial, problem: &str) -> [String; 5] {
    let none = || NONE.to_owned();
    let TrialResult::Timed { problems, .. } = &trial.result else { return [(); 5].map(|()| none()) };
    let Some(found) = problems.iter().find(|time| time.problem == problem) else {
        return [(); 5].map(|()| none());
    };
    let (measured, modelled) = match found.time {
        Time::Measured(time) => (time.0.to_string(), none()),
        Time::Modelled(time) => (none(), time.0.to_string()),
    };
    let (low, high) = match found.interval {
        Some((low, high)) => (low.to_string(), high.to_string()),
        None => (none(), none()),
    };
    [measured, modelled, found.speedup.to_string(), low, high]
}
