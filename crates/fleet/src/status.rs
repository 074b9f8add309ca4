//! The state of the jobs and workers in a store.

use serde::Serialize;

use crate::job::{Job, WorkerFacts};
use crate::queue::{STOPPED, of_job};
use crate::store::{Store, StoreError};
use crate::worker::job_names;

/// The jobs and workers of a store.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The jobs that have not ended.
    pub jobs: Vec<JobStatus>,
    /// The workers that have said that they live. Some may have been lost since.
    pub workers: Vec<WorkerStatus>,
    /// Whether all workers were told to leave.
    pub is_stopped: bool,
}

/// One job.
#[derive(Clone, Debug, Serialize)]
pub struct JobStatus {
    /// The job's name.
    pub name: String,
    /// Tasks that no worker has.
    pub waiting: usize,
    /// Tasks that a worker has.
    pub under_way: usize,
    /// Tasks that were answered.
    pub answered: usize,
}

/// One worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerStatus {
    /// What it says of itself.
    #[serde(flatten)]
    pub facts: WorkerFacts,
    /// Whether its document changed while it was watched.
    pub is_alive: bool,
}

/// Reads the jobs and workers. `watch` is called between two looks at the workers and should last longer than two signs of
/// life.
pub fn status(store: &Store, watch: impl FnOnce()) -> Result<Status, StoreError> {
    let before = workers(store)?;
    if !before.is_empty() {
        watch();
    }
    let is_alive =
        |now: &WorkerFacts| !before.iter().any(|before| before.name == now.name && before.beat == now.beat);
    let workers = workers(store)?;
    let workers = workers.into_iter().map(|facts| WorkerStatus { is_alive: is_alive(&facts), facts });
    let jobs = job_names(store)?.into_iter().map(|name| job(store, name));
    Ok(Status {
        jobs: jobs.collect::<Result<_, _>>()?,
        workers: workers.collect(),
        is_stopped: store.has(STOPPED)?,
    })
}

fn workers(store: &Store) -> Result<Vec<WorkerFacts>, StoreError> {
    let mut found = Vec::new();
    for name in store.list("workers")? {
        found.extend(store.get::<WorkerFacts>(&format!("workers/{name}"))?);
    }
    Ok(found)
}

fn job(store: &Store, name: String) -> Result<JobStatus, StoreError> {
    let tasks = store.list(&of_job(&name, "tasks"))?;
    let claims = store.list(&of_job(&name, "claims"))?;
    let answers = store.list(&of_job(&name, "answers"))?;
    let has = |names: &[String], name: &String| names.binary_search(name).is_ok();
    let waiting = tasks.iter().filter(|task| !has(&claims, task)).count();
    let under_way = tasks.iter().filter(|task| has(&claims, task) && !has(&answers, task)).count();
    Ok(JobStatus { name, waiting, under_way, answered: answers.len() })
}

/// Tells all workers to leave when they have done their tasks, or takes that back.
pub fn stop(store: &Store, leave: bool) -> Result<(), StoreError> {
    if leave { store.put(STOPPED, &()) } else { store.remove(STOPPED) }
}

/// The description of a job.
pub fn describe(store: &Store, name: &str) -> Result<Option<Job>, StoreError> {
    store.get(&of_job(name, "job"))
}
