//! A candidate that a worker of a fleet evaluates.
//!
//! The worker takes it through all stages. The head decides, in the order of the search, whether it is the same as an
//! earlier one and whether it becomes an elite.

use std::path::Path;

use fleet::{Answer, JobTasks, Outcome, Task};
use indexmap::IndexMap;
use op::Op;
use runlog::{FailureKind, FleetWorker, ProblemTime, Stage};
use serde::{Deserialize, Serialize};
use stats::geometric_mean;

use super::error::EvolveError;
use super::evaluator::{Compiled, Evaluator, Rejection, Setting};
use super::plan::EvolvePlan;
use crate::Session;
use crate::bench::AnswerCache;

/// A candidate to evaluate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CandidateTask {
    /// The candidate's name in the log.
    pub name: String,
    /// The value of every knob.
    pub knobs: IndexMap<String, String>,
    /// The baseline's times; `None` for the baseline itself.
    pub baseline: Option<Vec<ProblemTime>>,
    /// The score from which the candidate can become an elite, so that it is checked once more.
    pub confirm_from: f64,
}

/// What a worker found out. Later fields are there if the earlier stages were passed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CandidateResult {
    /// The builds.
    pub compiled: Result<Compiled, Rejection>,
    /// The time on each problem.
    pub problems: Option<Result<Vec<ProblemTime>, Rejection>>,
    /// The result of the check with fresh inputs.
    pub confirmed: Option<Result<(), Rejection>>,
}

impl CandidateTask {
    /// The task with this number.
    pub fn numbered(&self, number: u32) -> Task {
        // Names and numbers always have a form in JSON.
        Task { number, payload: serde_json::to_value(self).unwrap_or_default() }
    }

    fn evaluate<O: Op + ?Sized>(
        self,
        evaluator: &Evaluator<'_, O>,
        number: u32,
    ) -> Result<CandidateResult, EvolveError> {
        let CandidateTask { name, knobs, baseline, confirm_from } = self;
        let setting = Setting { family: evaluator.plan.family, name, knobs, untrusted_folder: None };
        let compiled = evaluator.compile(&setting);
        let problems = match &compiled {
            Ok(_) => Some(evaluator.time(&setting, baseline.as_deref())?),
            Err(_) => None,
        };
        let score = match &problems {
            Some(Ok(timed)) => geometric_mean(timed.iter().map(|it| it.speedup)),
            _ => None,
        };
        let confirmed = match score {
            Some(score) if score >= confirm_from => Some(evaluator.confirm(&setting, number)?),
            _ => None,
        };
        Ok(CandidateResult { compiled, problems, confirmed })
    }
}

impl CandidateResult {
    fn rejections(&mut self) -> impl Iterator<Item = &mut Rejection> {
        let timed = self.problems.as_mut().and_then(|it| it.as_mut().err());
        let confirmed = self.confirmed.as_mut().and_then(|it| it.as_mut().err());
        self.compiled.as_mut().err().into_iter().chain(timed).chain(confirmed)
    }

    /// Makes the paths of reasons relative to the worker's own folder, which means nothing elsewhere.
    fn with_paths_below(mut self, folder: &Path) -> Self {
        let start = format!("{}/", folder.display());
        for rejection in self.rejections() {
            rejection.reason = rejection.reason.replace(&start, "");
        }
        self
    }
}

/// A worker's result, and the worker. A candidate with which workers were lost is rejected.
pub fn result_of(answer: Answer) -> Result<(CandidateResult, FleetWorker), EvolveError> {
    let Answer { outcome, worker, host, seconds } = answer;
    let failed = |reason: String| EvolveError::Worker { worker: worker.clone(), reason };
    let result = match outcome {
        Outcome::Done(value) => serde_json::from_value(value).map_err(|error| failed(error.to_string()))?,
        Outcome::Failed(reason) => return Err(failed(reason)),
        Outcome::Released => return Err(failed("it gave the candidate back".to_owned())),
        Outcome::Lost(times) => {
            let reason = format!("{times} workers were lost while they evaluated it");
            let rejection = Rejection { stage: Stage::Bench, failure: FailureKind::Crash, reason };
            CandidateResult { compiled: Err(rejection), problems: None, confirmed: None }
        }
    };
    Ok((result, FleetWorker { host, worker, seconds }))
}

/// Evaluates the candidates of a search for another process. `tell` receives a line about each.
pub fn serve_fleet<O: Op + ?Sized>(
    session: &Session<'_, O>,
    plan: &EvolvePlan<'_, O::Problem>,
    tasks: &mut dyn JobTasks,
) -> Result<(), String> {
    let Session { op, compiler, start, run, tell, .. } = *session;
    let stop = tasks.stop();
    let folder = run.folder();
    let evaluator =
        Evaluator { op, plan, compiler, start, folder, answers: AnswerCache::enabled(), stop: &stop };
    while let Some(Task { number, payload }) = tasks.next_task() {
        let task: CandidateTask = match serde_json::from_value(payload) {
            Ok(task) => task,
            Err(error) => {
                tasks.answer(Outcome::Failed(error.to_string()));
                continue;
            }
        };
        let name = task.name.clone();
        match task.evaluate(&evaluator, number) {
            Ok(result) => {
                let result = result.with_paths_below(folder);
                tell(&format!("trial {number}: {}  {name}", words(&result)));
                tasks.answer(Outcome::Done(serde_json::to_value(&result).unwrap_or_default()));
            }
            // The task has no answer, so another worker gets it.
            Err(EvolveError::Stopped) => return Ok(()),
            Err(error) => tasks.answer(Outcome::Failed(error.to_string())),
        }
    }
    Ok(())
}

/// A result in a few words.
fn words(result: &CandidateResult) -> String {
    let rejected = [
        result.compiled.as_ref().err(),
        result.problems.as_ref().and_then(|it| it.as_ref().err()),
        result.confirmed.as_ref().and_then(|it| it.as_ref().err()),
    ];
    if let Some(rejection) = rejected.into_iter().flatten().next() {
        return rejection.failure.to_string();
    }
    let times = result.problems.iter().flatten().flatten();
    let times: Vec<String> = times.map(|it| format!("{:.2} us", it.time.micros())).collect();
    times.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_do_not_name_the_folder_of_the_worker() {
        let rejection = |reason: &str| Rejection {
            stage: Stage::Build,
            failure: FailureKind::Other,
            reason: reason.to_owned(),
        };
        let result = CandidateResult {
            compiled: Err(rejection("/tmp/.tmpX/kernels/a.cu: error, see /tmp/.tmpX/kernels/a.cuh")),
            problems: Some(Err(rejection("trap at /tmp/.tmpX/kernels/a.cu:7"))),
            confirmed: Some(Err(rejection("/usr/include/x.h"))),
        };
        let mut result = result.with_paths_below(Path::new("/tmp/.tmpX"));
        let reasons: Vec<String> = result.rejections().map(|it| it.reason.clone()).collect();
        let expected =
            ["kernels/a.cu: error, see kernels/a.cuh", "trap at kernels/a.cu:7", "/usr/include/x.h"];
        assert_eq!(reasons, expected);
    }
}
