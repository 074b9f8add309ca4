//! The head's side of a queue in a store.
//!
//! Documents below `jobs/NAME/`:
//!
//! | name | written by | contents |
//! |---|---|---|
//! | `job` | head | [`Job`] |
//! | `tasks/NUMBER-ATTEMPT` | head | [`Offer`]; removed when it is answered |
//! | `claims/NUMBER-ATTEMPT` | the one worker that does it | the worker's name |
//! | `answers/NUMBER-ATTEMPT` | that worker | [`Answered`] |
//! | `ended` | head | nothing: workers leave the job |
//!
//! Attempts have numbers that only increase. An attempt that a worker has claimed is never offered again: if it gets no
//! answer, the head offers the next one. This is so when the worker is lost, gives the task back or could not do it,
//! when the claim cannot be read, and when the worker says for the time of a lease that it does something else.
//!
//! `workers/NAME` has the [`WorkerFacts`], which a living worker writes again every few seconds. Clocks of machines may
//! differ, so nobody compares times: a worker is lost when its document has not changed for a while by the head's clock.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::job::{Answer, Job, Outcome, Task, WorkerFacts, is_job_name};
use crate::local::LocalWorkers;
use crate::store::{Document, Store};
use crate::{Fleet, FleetError};

/// The document that tells all workers to leave.
pub(crate) const STOPPED: &str = "stopped";

/// The folders and documents of a job.
pub(crate) fn of_job(job: &str, document: &str) -> String {
    format!("jobs/{job}/{document}")
}

/// The name of a document for one attempt at a task. Names sort by number.
pub(crate) fn attempt_name(number: u32, attempt: u32) -> String {
    format!("{number:08}-{attempt}")
}

/// The task and the attempt of a document's name. Every attempt has one name.
pub(crate) fn parse_attempt(name: &str) -> Option<(u32, u32)> {
    let (number, attempt) = name.split_once('-')?;
    let (number, attempt) = (number.parse().ok()?, attempt.parse().ok()?);
    (attempt_name(number, attempt) == name).then_some((number, attempt))
}

/// A task, as the head offers it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    #[serde(flatten)]
    pub task: Task,
    /// Workers that could not do it, if there are others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoid: Vec<String>,
}

/// What a worker writes when it has done a task.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answered {
    /// The payload of the task. After a resume, an answer counts only if the task is still the same.
    pub payload: Value,
    pub answer: Answer,
}

/// When a head treats a worker as lost, a task as impossible, and a task as slow.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// A worker is lost when it has given no sign of life for this long.
    pub lease: Duration,
    /// A task is given up when this many workers were lost with it, and when workers have failed to do it this often.
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
/// The longest time of a task that the head accepts from a worker.
const LONGEST_SECONDS: f64 = 1e7;

/// A job in a store.
#[derive(Debug)]
pub struct Queue {
    store: Store,
    job: String,
    options: QueueOptions,
    /// The workers that the head started.
    local: LocalWorkers,
    open: BTreeMap<u32, OpenTask>,
    answers: HashMap<u32, Answer>,
    /// The names of answers that were read.
    seen: HashSet<String>,
    /// The last attempt at each task that the store had when the head resumed the job.
    before: HashMap<u32, u32>,
    signs: HashMap<String, SignOfLife>,
    /// How long finished tasks took.
    durations: Vec<f64>,
    looked_for_lost: Instant,
    /// When a worker was last seen that works for this job.
    had_worker: Instant,
    told_absence: bool,
    /// The workers whose refusal was told.
    told_refusals: HashSet<String>,
    /// What is to be told next.
    notes: Vec<String>,
    /// How the workers ended that the head started.
    ends: Vec<String>,
}

/// A task without an answer.
#[derive(Debug)]
struct OpenTask {
    task: Task,
    /// The number of the latest attempt.
    attempt: u32,
    /// The attempts that a worker has.
    claimed: BTreeMap<u32, Claim>,
    /// The attempts that will not be answered any more, whose claims are still there.
    over: HashSet<u32>,
    /// How many workers were lost with it.
    lost: u32,
    /// The workers that could not do it, in order.
    failed_by: Vec<String>,
    /// Whether the latest offer names workers that must not take it.
    avoids: bool,
}

/// The claim of a worker to a task.
#[derive(Clone, Debug)]
struct Claim {
    /// The worker; empty if the claim cannot be read.
    worker: String,
    /// When the head saw the claim.
    since: Instant,
    /// When the worker was last known to do it.
    confirmed: Instant,
}

impl Claim {
    fn new(worker: String) -> Self {
        Claim { worker, since: Instant::now(), confirmed: Instant::now() }
    }
}

/// What the head knows of a worker.
#[derive(Debug)]
struct SignOfLife {
    facts: WorkerFacts,
    /// When its document last changed.
    seen: Instant,
}

impl Queue {
    /// Starts a job, or goes on with it if the store has it already.
    pub fn start(store: Store, job: &Job, options: QueueOptions) -> Result<Self, FleetError> {
        let name = job.name.clone();
        if !is_job_name(&name) {
            return Err(FleetError::JobName(name));
        }
        if store.has(STOPPED)? {
            return Err(FleetError::FleetStopped);
        }
        let document = of_job(&name, "job");
        let mut before = HashMap::new();
        if !store.put_new(&document, job)? {
            if store.get::<Job>(&document)?.as_ref() != Some(job) {
                return Err(FleetError::OtherJob(name));
            }
            store.remove(&of_job(&name, "ended"))?;
            for folder in ["tasks", "claims", "answers"] {
                let names = store.list(&of_job(&name, folder))?;
                for (number, attempt) in names.iter().filter_map(|name| parse_attempt(name)) {
                    let last = before.entry(number).or_default();
                    *last = attempt.max(*last);
                }
            }
        }
        Ok(Queue {
            store,
            job: name,
            options,
            local: LocalWorkers::default(),
            open: BTreeMap::new(),
            answers: HashMap::new(),
            seen: HashSet::new(),
            before,
            signs: HashMap::new(),
            durations: Vec::new(),
            looked_for_lost: Instant::now(),
            had_worker: Instant::now(),
            told_absence: false,
            told_refusals: HashSet::new(),
            notes: Vec::new(),
            ends: Vec::new(),
        })
    }

    /// Watches workers that were started for this job. If none of them works, waiting is an error; without such workers, the
    /// head waits until some are there. They end with the queue.
    pub fn watch(&mut self, workers: LocalWorkers) {
        self.local = workers;
        self.had_worker = Instant::now();
    }

    fn document(&self, folder: &str, number: u32, attempt: u32) -> String {
        of_job(&self.job, &format!("{folder}/{}", attempt_name(number, attempt)))
    }

    /// Reads new answers, and gives tasks of lost workers to others.
    fn look(&mut self) -> Result<(), FleetError> {
        for name in self.store.list(&of_job(&self.job, "answers"))? {
            let Some((number, attempt)) = parse_attempt(&name) else { continue };
            // An answer from before a resume may be one to a task that was not submitted yet.
            if self.open.contains_key(&number) {
                self.read_answer(number, attempt)?;
            }
        }
        if self.looked_for_lost.elapsed() > self.options.lease / 8 {
            self.looked_for_lost = Instant::now();
            self.look_for_claims()?;
            self.look_for_signs_of_life()?;
            self.look_for_lost()?;
            self.look_for_workers()?;
        }
        Ok(())
    }

    /// Reads an answer to an open task, unless it was read before.
    fn read_answer(&mut self, number: u32, attempt: u32) -> Result<(), FleetError> {
        let document = self.document("answers", number, attempt);
        let Some(open) = self.open.get(&number).filter(|_| !self.seen.contains(&document)) else {
            return Ok(());
        };
        let answered: Document<Answered> = self.store.read(&document)?;
        let payload = &open.task.payload;
        let is_same_task = matches!(&answered, Document::Found(it) if it.payload == *payload);
        if answered != Document::Missing {
            self.seen.insert(document.clone());
        }
        match answered {
            Document::Found(Answered { answer, .. }) if is_same_task => match answer.outcome {
                Outcome::Released => self.try_again(number, attempt),
                Outcome::Failed(_) => self.fail(number, attempt, answer),
                Outcome::Done(_) | Outcome::Lost(_) => {
                    if (0.0..LONGEST_SECONDS).contains(&answer.seconds) {
                        self.durations.push(answer.seconds);
                    }
                    self.close(number, answer)
                }
            },
            // The answer to another task, from before a resume.
            Document::Found(_) => self.try_again(number, attempt),
            Document::Missing => Ok(()),
            Document::Unreadable => {
                let outcome = Outcome::Failed("its answer cannot be read".to_owned());
                let worker = "unknown".to_owned();
                self.fail(number, attempt, Answer { outcome, worker, host: String::new(), seconds: 0.0 })
            }
        }
    }

    /// Records that a worker could not do a task. Another worker may be able to.
    fn fail(&mut self, number: u32, attempt: u32, answer: Answer) -> Result<(), FleetError> {
        // Otherwise a resumed search would read this failure again.
        self.store.remove(&self.document("answers", number, attempt))?;
        let Some(open) = self.open.get_mut(&number) else { return Ok(()) };
        if let Outcome::Failed(reason) = &answer.outcome {
            self.notes.push(format!("worker {} could not do task {number}: {reason}", answer.worker));
        }
        open.failed_by.push(answer.worker.clone());
        if open.failed_by.len() >= self.options.attempts as usize {
            return self.close(number, answer);
        }
        self.try_again(number, attempt)
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

    /// Offers a task again, unless a later attempt is under way.
    fn try_again(&mut self, number: u32, attempt: u32) -> Result<(), FleetError> {
        let Some(open) = self.open.get_mut(&number) else { return Ok(()) };
        open.claimed.remove(&attempt);
        open.over.insert(attempt);
        if attempt < open.attempt {
            return Ok(());
        }
        let mut next = attempt + 1;
        while self.store.has(&self.document("claims", number, next))?
            || self.store.has(&self.document("answers", number, next))?
        {
            next += 1;
        }
        self.offer(number, next)
    }

    /// Offers a task as this attempt to the workers that have not failed to do it; to all, if there is no other.
    fn offer(&mut self, number: u32, attempt: u32) -> Result<(), FleetError> {
        let Some(open) = self.open.get(&number) else { return Ok(()) };
        let has_others = self.working().any(|worker| !open.failed_by.contains(worker));
        let avoid = if has_others { open.failed_by.clone() } else { Vec::new() };
        let avoids = !avoid.is_empty();
        let offer = Offer { task: open.task.clone(), avoid };
        self.store.put(&self.document("tasks", number, attempt), &offer)?;
        if let Some(open) = self.open.get_mut(&number) {
            (open.attempt, open.avoids) = (attempt, avoids);
        }
        Ok(())
    }

    /// Finds out which worker has which task.
    fn look_for_claims(&mut self) -> Result<(), FleetError> {
        let names = self.store.list(&of_job(&self.job, "claims"))?;
        // A worker takes a claim back if the task was removed in the meantime.
        for (number, open) in &mut self.open {
            open.claimed.retain(|attempt, _| names.binary_search(&attempt_name(*number, *attempt)).is_ok());
        }
        for name in names {
            let Some((number, attempt)) = parse_attempt(&name) else { continue };
            let Some(open) = self.open.get_mut(&number) else { continue };
            if attempt > open.attempt || open.over.contains(&attempt) || open.claimed.contains_key(&attempt) {
                continue;
            }
            // A claim that cannot be read counts as that of a worker without a name, which gives no sign of life.
            let worker: Option<String> = self.store.get(&of_job(&self.job, &format!("claims/{name}")))?;
            open.claimed.insert(attempt, Claim::new(worker.unwrap_or_default()));
        }
        Ok(())
    }

    /// A claim counts as lost when, for the time of a lease, its worker gave no sign of life or said that it does something
    /// else.
    fn look_for_lost(&mut self) -> Result<(), FleetError> {
        self.confirm_claims();
        let long =
            self.median_seconds().map(|median| Duration::from_secs_f64(median * self.options.straggler));
        let numbers: Vec<u32> = self.open.keys().copied().collect();
        let is_waiting = |open: &OpenTask| open.claimed.is_empty();
        let has_waiting = self.open.values().any(is_waiting);
        for number in numbers {
            let Some(open) = self.open.get(&number) else { continue };
            if is_waiting(open) && open.avoids {
                // The workers that may take it may have left, so the offer must be made anew.
                self.offer(number, open.attempt)?;
                continue;
            }
            let claimed: Vec<(u32, Claim)> =
                open.claimed.iter().map(|(attempt, claim)| (*attempt, claim.clone())).collect();
            let under_way = claimed.len();
            for (attempt, claim) in claimed {
                if claim.confirmed.elapsed() > self.options.lease {
                    self.lose(number, attempt, claim.worker)?;
                } else if under_way == 1
                    && !has_waiting
                    && long.is_some_and(|limit| claim.since.elapsed() > limit.max(self.options.lease))
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
            let is_new = self.signs.get(&name).is_none_or(|sign| sign.facts.beat != facts.beat);
            if is_new {
                self.signs.insert(name, SignOfLife { facts, seen: Instant::now() });
            }
        }
        let long_dead = self.signs.extract_if(|_, sign| sign.seen.elapsed() > FORGOTTEN * self.options.lease);
        for (worker, _) in long_dead {
            // If the worker is alive after all, it writes its document again.
            self.store.remove(&format!("workers/{worker}"))?;
        }
        Ok(())
    }

    /// Notes which workers ended and which refuse the job. Without any worker there is nothing to wait for, unless somebody
    /// may still start one.
    fn look_for_workers(&mut self) -> Result<(), FleetError> {
        for end in self.local.newly_ended() {
            self.notes.push(format!("a worker that was started here ended ({end})"));
            self.ends.push(end);
        }
        for (worker, sign) in &self.signs {
            if let Some(reason) = sign.facts.refuses.get(&self.job)
                && self.told_refusals.insert(worker.clone())
            {
                self.notes.push(format!("worker {worker} does not work for this search: {reason}"));
            }
        }
        if self.working().next().is_some() {
            (self.had_worker, self.told_absence) = (Instant::now(), false);
            return Ok(());
        }
        if self.store.has(STOPPED)? {
            return Err(FleetError::FleetStopped);
        }
        let is_late = self.had_worker.elapsed() > self.options.lease;
        let left = self.local.names();
        if let Some(end) = self.ends.last().filter(|_| left.is_empty()) {
            let count = self.ends.len();
            let reason = format!("all {count} that were started here have ended; the last: {end}");
            return Err(FleetError::NoWorker(reason));
        }
        // A worker that has not written anything yet may only be slow.
        let refusal = |name: &String| {
            let (_, sign) = self.signs.iter().find(|(worker, _)| worker.starts_with(name))?;
            sign.facts.refuses.get(&self.job)
        };
        let refusals: Vec<&String> = left.iter().map_while(refusal).collect();
        if let Some(reason) = refusals.first().filter(|_| refusals.len() == left.len()) {
            return Err(FleetError::NoWorker(format!("those that were started here refuse: {reason}")));
        }
        if is_late && !self.told_absence {
            self.told_absence = true;
            let seconds = self.options.lease.as_secs_f64();
            self.notes.push(format!("no worker for {seconds:.0} s; the search waits until one works for it"));
        }
        Ok(())
    }

    /// The living workers that do not refuse the job.
    fn working(&self) -> impl Iterator<Item = &String> {
        let is_alive = |sign: &SignOfLife| sign.seen.elapsed() <= self.options.lease;
        let works = move |sign: &SignOfLife| is_alive(sign) && !sign.facts.refuses.contains_key(&self.job);
        self.signs.iter().filter(move |(_, sign)| works(sign)).map(|(worker, _)| worker)
    }

    /// Notes which workers say that they do the tasks that they have.
    fn confirm_claims(&mut self) {
        for (number, open) in &mut self.open {
            for claim in open.claimed.values_mut() {
                let Some(sign) = self.signs.get(&claim.worker) else { continue };
                let does_it = |(job, task): &(String, u32)| *job == self.job && task == number;
                if sign.facts.now.as_ref().is_some_and(does_it) {
                    claim.confirmed = claim.confirmed.max(sign.seen);
                }
            }
        }
    }

    fn lose(&mut self, number: u32, attempt: u32, worker: String) -> Result<(), FleetError> {
        let Some(open) = self.open.get_mut(&number) else { return Ok(()) };
        open.lost += 1;
        let lost = open.lost;
        let name = if worker.is_empty() { "unknown" } else { &worker };
        self.notes.push(format!("worker {name} was lost with task {number}"));
        if lost >= self.options.attempts {
            let answer = Answer { outcome: Outcome::Lost(lost), worker, host: String::new(), seconds: 0.0 };
            return self.close(number, answer);
        }
        self.try_again(number, attempt)
    }
}

impl Fleet for Queue {
    fn submit(&mut self, task: Task) -> Result<(), FleetError> {
        let number = task.number;
        let last = self.before.remove(&number).unwrap_or(0);
        let open = OpenTask {
            task,
            attempt: last,
            claimed: BTreeMap::new(),
            over: HashSet::new(),
            lost: 0,
            failed_by: Vec::new(),
            avoids: false,
        };
        self.open.insert(number, open);
        // After a resume, the store may have attempts of before, with answers.
        for attempt in 1..=last {
            self.read_answer(number, attempt)?;
        }
        let Some(open) = self.open.get(&number).filter(|open| open.attempt == last) else { return Ok(()) };
        if last == 0 {
            return self.offer(number, 1);
        }
        let offer: Option<Offer> = self.store.get(&self.document("tasks", number, last))?;
        if offer.is_some_and(|offer| offer.task == open.task) {
            return Ok(());
        }
        self.try_again(number, last)
    }

    fn wait(&mut self, number: u32, stop: &AtomicBool, tell: &dyn Fn(&str)) -> Result<Answer, FleetError> {
        loop {
            if let Some(answer) = self.answers.get(&number) {
                return Ok(answer.clone());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(FleetError::Stopped);
            }
            let looked = self.look();
            self.notes.drain(..).for_each(|note| tell(&note));
            // The answer may be the last one of a fleet that was stopped.
            if !self.answers.contains_key(&number) {
                looked?;
                sleep(if self.store.is_remote() { REMOTE_PAUSE } else { PAUSE });
            }
        }
    }

    fn workers(&self) -> usize {
        self.working().count()
    }

    fn end(&mut self, keep: bool) -> Result<(), FleetError> {
        self.store.put(&of_job(&self.job, "ended"), &())?;
        // Workers that are killed leave their documents.
        let local = self.local.names();
        self.local = LocalWorkers::default();
        for worker in self.store.list("workers")? {
            if local.iter().any(|name| worker.starts_with(name)) {
                self.store.remove(&format!("workers/{worker}"))?;
            }
        }
        let folders: &[&str] = if keep { &["tasks"] } else { &["tasks", "claims", "answers"] };
        for folder in folders {
            for name in self.store.list(&of_job(&self.job, folder))? {
                self.store.remove(&of_job(&self.job, &format!("{folder}/{name}")))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Program;

    #[test]
    fn answers_to_tasks_that_were_not_submitted_yet_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().to_str().unwrap()).unwrap();
        let program = Program { version: "1".to_owned(), architecture: "x".to_owned(), hash: "h".to_owned() };
        let job = Job { name: "a".to_owned(), program, common: Value::Null, files: Vec::new() };
        let mut head = Queue::start(store.clone(), &job, QueueOptions::default()).unwrap();
        for number in 0..9 {
            store.put(&head.document("answers", number, 1), &"an answer from before").unwrap();
        }
        let before = store.reads.load(Ordering::Relaxed);
        head.look().unwrap();
        assert_eq!(store.reads.load(Ordering::Relaxed), before);
    }

    #[test]
    fn an_attempt_has_one_name() {
        assert_eq!(parse_attempt(&attempt_name(7, 12)), Some((7, 12)));
        for name in ["7-12", "00000007-012", "00000007", "+0000007-1", "00000007--1"] {
            assert_eq!(parse_attempt(name), None, "{name}");
        }
    }
}
