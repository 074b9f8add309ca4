//! The head's side of a queue in a store.
//!
//! Documents below `jobs/NAME/`:
//!
//! | name | written by | contents |
//! |---|---|---|
//! | `job` | head | [`Job`] |
//! | `tasks/NUMBER-ATTEMPT` | head | [`Task`]; removed when it is answered |
//! | `claims/NUMBER-ATTEMPT` | the one worker that does it | the worker's name |
//! | `answers/NUMBER-ATTEMPT` | that worker | [`Answered`] |
//! | `ended` | head | nothing: workers leave the job |
//!
//! `workers/NAME` has the [`WorkerFacts`], which a living worker writes again every few seconds. Clocks of machines may
//! differ, so nobody compares times: a worker is lost when its document has not changed for a while by the head's clock.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::job::{Answer, Job, Outcome, Task, WorkerFacts};
use crate::store::Store;
use crate::{Fleet, FleetError};

/// The folders and documents of a job.
pub(crate) fn of_job(job: &str, document: &str) -> String {
    format!("jobs/{job}/{document}")
}

/// The name of a document for one attempt at a task. Names sort by number.
pub(crate) fn attempt_name(number: u32, attempt: u32) -> String {
    format!("{number:08}-{attempt}")
}

/// The task and the attempt of a document's name.
pub(crate) fn parse_attempt(name: &str) -> Option<(u32, u32)> {
    let (number, attempt) = name.split_once('-')?;
    Some((number.parse().ok()?, attempt.parse().ok()?))
}

/// What a worker writes when it has done a task.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answered {
    /// The payload of the task. After a resume, an answer counts only if the task is still the same.
    pub payload: Value,
    pub answer: Answer,
}

/// How patient a head is.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// A worker is lost when it has given no sign of life for this long.
    pub lease: Duration,
    /// A task is given up when this many workers were lost with it.
    pub attempts: u32,
    /// A task that takes this many times the median of the others is also given to a second worker that has nothing to do.
    pub straggler: f64,
}

impl Default for QueueOptions {
    fn default() -> Self {
        QueueOptions { lease: Duration::from_secs(30), attempts: 3, straggler: 4.0 }
    }
}

/// After how many leases the document of a lost worker is removed.
const FORGOTTEN: u32 = 4;
/// How long the head sleeps between two looks at a folder, and at a store behind a network.
const PAUSE: Duration = Duration::from_millis(20);
const REMOTE_PAUSE: Duration = Duration::from_millis(500);

/// A job in a store.
#[derive(Debug)]
pub struct Queue {
    store: Store,
    job: String,
    options: QueueOptions,
    open: BTreeMap<u32, OpenTask>,
    answers: HashMap<u32, Answer>,
    /// The names of answers that were read.
    seen: HashSet<String>,
    signs: HashMap<String, SignOfLife>,
    /// How long finished tasks took.
    durations: Vec<f64>,
    looked_for_lost: Instant,
}

/// A task without an answer.
#[derive(Debug)]
struct OpenTask {
    task: Task,
    /// The number of the latest attempt.
    attempt: u32,
    /// The attempts that a worker has, with the worker and when the head saw that.
    claimed: BTreeMap<u32, (String, Instant)>,
    /// The attempts that will not be answered any more, whose claims are still there.
    over: HashSet<u32>,
    /// How many workers were lost with it.
    lost: u32,
}

/// When a worker was last seen to be alive.
#[derive(Debug)]
struct SignOfLife {
    beat: u64,
    seen: Instant,
}

impl Queue {
    /// Starts a job, or goes on with it if the store has it already.
    pub fn start(store: Store, job: &Job, options: QueueOptions) -> Result<Self, FleetError> {
        let name = job.name.clone();
        let document = of_job(&name, "job");
        if !store.put_new(&document, job)? {
            if store.get::<Job>(&document)?.as_ref() != Some(job) {
                return Err(FleetError::OtherJob(name));
            }
            store.remove(&of_job(&name, "ended"))?;
        }
        Ok(Queue {
            store,
            job: name,
            options,
            open: BTreeMap::new(),
            answers: HashMap::new(),
            seen: HashSet::new(),
            signs: HashMap::new(),
            durations: Vec::new(),
            looked_for_lost: Instant::now(),
        })
    }

    fn document(&self, folder: &str, number: u32, attempt: u32) -> String {
        of_job(&self.job, &format!("{folder}/{}", attempt_name(number, attempt)))
    }

    /// Reads new answers, and gives tasks of lost workers to others.
    fn look(&mut self) -> Result<(), FleetError> {
        for name in self.store.list(&of_job(&self.job, "answers"))? {
            if self.seen.contains(&name) {
                continue;
            }
            let Some((number, attempt)) = parse_attempt(&name) else { continue };
            let answered: Option<Answered> =
                self.store.get(&of_job(&self.job, &format!("answers/{name}")))?;
            let Some(open) = self.open.get_mut(&number) else {
                // Either answered before, or an answer from before a resume whose task was not submitted yet.
                if self.answers.contains_key(&number) {
                    self.seen.insert(name);
                }
                continue;
            };
            self.seen.insert(name);
            match answered {
                Some(it) if it.payload == open.task.payload => self.take(number, attempt, it.answer)?,
                // The answer to another task, from before a resume, or a document that cannot be read.
                _ => self.try_again(number, attempt)?,
            }
        }
        if self.looked_for_lost.elapsed() > self.options.lease / 8 {
            self.looked_for_lost = Instant::now();
            self.look_for_claims()?;
            self.look_for_lost()?;
        }
        Ok(())
    }

    fn take(&mut self, number: u32, attempt: u32, answer: Answer) -> Result<(), FleetError> {
        if answer.outcome == Outcome::Released {
            return self.try_again(number, attempt);
        }
        self.durations.push(answer.seconds);
        self.close(number, answer)
    }

    /// Records the answer to a task and removes its documents, except for answers, which a resumed head may need.
    fn close(&mut self, number: u32, answer: Answer) -> Result<(), FleetError> {
        if let Some(open) = self.open.remove(&number) {
            for attempt in 1..=open.attempt {
                self.store.remove(&self.document("tasks", number, attempt))?;
            }
        }
        self.answers.insert(number, answer);
        Ok(())
    }

    /// Submits a task again, unless a later attempt is under way.
    fn try_again(&mut self, number: u32, attempt: u32) -> Result<(), FleetError> {
        let Some(open) = self.open.get_mut(&number) else { return Ok(()) };
        open.claimed.remove(&attempt);
        open.over.insert(attempt);
        if attempt < open.attempt {
            return Ok(());
        }
        open.attempt += 1;
        let (task, next) = (open.task.clone(), open.attempt);
        Ok(self.store.put(&self.document("tasks", number, next), &task)?)
    }

    /// Finds out which worker has which task.
    fn look_for_claims(&mut self) -> Result<(), FleetError> {
        for name in self.store.list(&of_job(&self.job, "claims"))? {
            let Some((number, attempt)) = parse_attempt(&name) else { continue };
            let Some(open) = self.open.get_mut(&number) else { continue };
            if attempt > open.attempt || open.over.contains(&attempt) || open.claimed.contains_key(&attempt) {
                continue;
            }
            if let Some(worker) = self.store.get::<String>(&of_job(&self.job, &format!("claims/{name}")))? {
                open.claimed.insert(attempt, (worker, Instant::now()));
            }
        }
        Ok(())
    }

    fn look_for_lost(&mut self) -> Result<(), FleetError> {
        self.look_for_signs_of_life()?;
        let long =
            self.median_seconds().map(|median| Duration::from_secs_f64(median * self.options.straggler));
        let numbers: Vec<u32> = self.open.keys().copied().collect();
        let is_waiting = |open: &OpenTask| open.claimed.is_empty();
        let has_waiting = self.open.values().any(is_waiting);
        for number in numbers {
            let Some(open) = self.open.get(&number) else { continue };
            let claimed: Vec<(u32, String, Instant)> = open
                .claimed
                .iter()
                .map(|(attempt, (worker, since))| (*attempt, worker.clone(), *since))
                .collect();
            let under_way = claimed.len();
            for (attempt, worker, since) in claimed {
                if self.is_lost(&worker, since) {
                    self.lose(number, attempt)?;
                } else if under_way == 1
                    && !has_waiting
                    && long.is_some_and(|limit| since.elapsed() > limit.max(self.options.lease))
                {
                    self.try_again(number, attempt)?;
                }
            }
        }
        Ok(())
    }

    fn median_seconds(&self) -> Option<f64> {
        let mut durations = self.durations.clone();
        durations.sort_by(f64::total_cmp);
        durations.get(durations.len() / 2).copied()
    }

    fn look_for_signs_of_life(&mut self) -> Result<(), FleetError> {
        let names = self.store.list("workers")?;
        self.signs.retain(|worker, _| names.contains(worker));
        for name in names {
            let Some(facts) = self.store.get::<WorkerFacts>(&format!("workers/{name}"))? else { continue };
            let sign =
                self.signs.entry(name).or_insert(SignOfLife { beat: facts.beat, seen: Instant::now() });
            if sign.beat != facts.beat {
                *sign = SignOfLife { beat: facts.beat, seen: Instant::now() };
            }
        }
        let long_dead = self.signs.extract_if(|_, sign| sign.seen.elapsed() > FORGOTTEN * self.options.lease);
        for (worker, _) in long_dead {
            // A worker that lives after all writes its document again.
            self.store.remove(&format!("workers/{worker}"))?;
        }
        Ok(())
    }

    /// Whether a worker has given no sign of life for the time of a lease.
    fn is_lost(&self, worker: &str, since: Instant) -> bool {
        let seen = self.signs.get(worker).map_or(since, |sign| sign.seen.max(since));
        seen.elapsed() > self.options.lease
    }

    fn lose(&mut self, number: u32, attempt: u32) -> Result<(), FleetError> {
        let Some(open) = self.open.get_mut(&number) else { return Ok(()) };
        open.lost += 1;
        let lost = open.lost;
        if lost >= self.options.attempts {
            let worker = open.claimed.get(&attempt).map(|(worker, _)| worker.clone()).unwrap_or_default();
            let answer = Answer { outcome: Outcome::Lost(lost), worker, host: String::new(), seconds: 0.0 };
            return self.close(number, answer);
        }
        self.try_again(number, attempt)
    }
}

impl Fleet for Queue {
    fn submit(&mut self, task: Task) -> Result<(), FleetError> {
        let number = task.number;
        // After a resume, the store may have attempts of before. Their answers are read like others.
        let mut attempt = 1;
        while !self.store.put_new(&self.document("tasks", number, attempt), &task)? {
            let before: Option<Task> = self.store.get(&self.document("tasks", number, attempt))?;
            if before.as_ref() == Some(&task) {
                break;
            }
            attempt += 1;
        }
        self.open.insert(
            number,
            OpenTask { task, attempt, claimed: BTreeMap::new(), over: HashSet::new(), lost: 0 },
        );
        Ok(())
    }

    fn wait(&mut self, number: u32, stop: &AtomicBool) -> Result<Answer, FleetError> {
        loop {
            if let Some(answer) = self.answers.get(&number) {
                return Ok(answer.clone());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(FleetError::Stopped);
            }
            self.look()?;
            if !self.answers.contains_key(&number) {
                sleep(if self.store.is_remote() { REMOTE_PAUSE } else { PAUSE });
            }
        }
    }

    fn workers(&self) -> usize {
        self.signs.values().filter(|sign| sign.seen.elapsed() <= self.options.lease).count()
    }

    fn end(&mut self, keep: bool) -> Result<(), FleetError> {
        self.store.put(&of_job(&self.job, "ended"), &())?;
        let folders: &[&str] = if keep { &["tasks"] } else { &["tasks", "claims", "answers"] };
        for folder in folders {
            for name in self.store.list(&of_job(&self.job, folder))? {
                self.store.remove(&of_job(&self.job, &format!("{folder}/{name}")))?;
            }
        }
        Ok(())
    }
}
