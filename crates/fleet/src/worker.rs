//! A worker of a queue: it claims tasks, does them and writes the answers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::job::{Answer, Job, Outcome, Program, Task, WorkerFacts, is_job_name};
use crate::local::{host_name, name_prefix};
use crate::queue::{Answered, Offer, STOPPED, of_job, parse_attempt};
use crate::store::{Document, Store, StoreError};

/// How a worker behaves.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// The build of this program.
    pub program: Program,
    /// The device, for people.
    pub device: String,
    /// The worker ends when it has had nothing to do for this long.
    pub idle: Option<Duration>,
    /// The worker ends when the store has not worked for this long.
    pub patience: Duration,
    /// How often it gives a sign of life.
    pub beat: Duration,
}

/// How long a worker without a task sleeps at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// How often the thread of the signs of life looks whether the worker must stop.
const LOOK: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Works until `stop` is set, the fleet is stopped, or the worker was idle for long enough. `work` does the tasks of one
/// job; it returns when [`JobTasks::next_task`] has no more, or with the reason why it cannot do the job's tasks.
///
/// After an error of the store, which `fails` tells, the worker tries again. It ends with the error if the store has not
/// worked for [`WorkerOptions::patience`].
pub fn serve(
    store: &Store,
    options: &WorkerOptions,
    stop: &Arc<AtomicBool>,
    fails: &dyn Fn(&StoreError),
    mut work: impl FnMut(&Job, &mut dyn JobTasks) -> Result<(), String>,
) -> Result<u32, StoreError> {
    let mut service = Service {
        store,
        program: &options.program,
        stop,
        signs: SignsOfLife::start(store, options, stop),
        refused: BTreeMap::new(),
        failed: HashMap::new(),
        done: 0,
    };
    let mut idle_since = Instant::now();
    let mut fails_since = None;
    let mut pause = FIRST_PAUSE;
    while !stop.load(Ordering::Relaxed) {
        match service.look(&mut work) {
            Ok(Found::Stop) => break,
            Ok(Found::Job) => {
                (idle_since, fails_since, pause) = (Instant::now(), None, FIRST_PAUSE);
                continue;
            }
            Ok(Found::Nothing) if options.idle.is_some_and(|most| idle_since.elapsed() >= most) => break,
            Ok(Found::Nothing) => fails_since = None,
            Err(error) => {
                let since = *fails_since.get_or_insert_with(|| {
                    fails(&error);
                    Instant::now()
                });
                if since.elapsed() >= options.patience {
                    return Err(error);
                }
            }
        }
        sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(service.done)
}

/// What a worker found in the store.
enum Found {
    /// The fleet is stopped.
    Stop,
    /// A job, of which it did tasks.
    Job,
    Nothing,
}

/// What a worker knows between two looks at the store.
struct Service<'w> {
    store: &'w Store,
    program: &'w Program,
    stop: &'w AtomicBool,
    signs: SignsOfLife,
    /// The jobs that it cannot do, with the reasons.
    refused: BTreeMap<String, String>,
    /// The tasks of each job that it could not do.
    failed: HashMap<String, HashSet<u32>>,
    done: u32,
}

impl Service<'_> {
    /// Looks for a job with a task and does its tasks.
    fn look(
        &mut self,
        work: &mut impl FnMut(&Job, &mut dyn JobTasks) -> Result<(), String>,
    ) -> Result<Found, StoreError> {
        if self.store.has(STOPPED)? {
            return Ok(Found::Stop);
        }
        let Some(job) = self.next_job()? else { return Ok(Found::Nothing) };
        let mut tasks = QueueTasks {
            store: self.store,
            job: job.name.clone(),
            signs: &self.signs,
            stop: self.stop,
            failed: self.failed.entry(job.name.clone()).or_default(),
            current: None,
            done: 0,
            error: None,
        };
        self.signs.cancelled.store(false, Ordering::Relaxed);
        let outcome = work(&job, &mut tasks);
        let released = tasks.release();
        self.done += tasks.done;
        if let Some(error) = tasks.error.take() {
            return Err(error);
        }
        released?;
        if let Err(reason) = outcome {
            self.refused.insert(job.name, reason);
        }
        Ok(Found::Job)
    }

    /// The first job that this worker can do and that has a task for it.
    fn next_job(&mut self) -> Result<Option<Job>, StoreError> {
        let mut found = None;
        let names = job_names(self.store)?;
        self.refused.retain(|name, _| names.contains(name));
        self.failed.retain(|name, _| names.contains(name));
        for name in names {
            let failed = self.failed.entry(name.clone()).or_default();
            if self.refused.contains_key(&name)
                || claimable(self.store, &name, &self.signs.name, failed)?.is_empty()
            {
                continue;
            }
            let Some(job) = self.store.get::<Job>(&of_job(&name, "job"))? else { continue };
            let reason = if job.name != name {
                format!("its description is that of job {}", job.name)
            } else if !job.program.agrees_with(self.program) {
                "it needs another build of the program".to_owned()
            } else {
                found = Some(job);
                break;
            };
            self.refused.insert(name, reason);
        }
        self.signs.change(|facts| facts.refuses.clone_from(&self.refused));
        Ok(found)
    }
}

/// The jobs that have not ended, in the order of their names.
pub(crate) fn job_names(store: &Store) -> Result<Vec<String>, StoreError> {
    let documents = store.list("jobs")?;
    let with = |last: &str| -> Vec<String> {
        let folder = |name: &String| Some(name.strip_suffix(last)?.strip_suffix('/')?.to_owned());
        documents.iter().filter_map(folder).collect()
    };
    let ended = with("ended");
    // Every program with access to the store can make folders in it.
    Ok(with("job").into_iter().filter(|name| is_job_name(name) && !ended.contains(name)).collect())
}

/// The attempts that nobody has claimed and that this worker may claim. `failed`: the tasks that it could not do.
fn claimable(
    store: &Store,
    job: &str,
    worker: &str,
    failed: &HashSet<u32>,
) -> Result<Vec<String>, StoreError> {
    let claimed = store.list(&of_job(job, "claims"))?;
    let mut names = Vec::new();
    for name in store.list(&of_job(job, "tasks"))? {
        let Some((number, _)) = parse_attempt(&name) else { continue };
        if claimed.binary_search(&name).is_ok() {
            continue;
        }
        if failed.contains(&number) {
            let offer: Option<Offer> = store.get(&of_job(job, &format!("tasks/{name}")))?;
            if offer.is_some_and(|offer| offer.avoid.iter().any(|it| it == worker)) {
                continue;
            }
        }
        names.push(name);
    }
    Ok(names)
}

/// The tasks of one job, as a worker gets them.
pub trait JobTasks {
    /// The next task, which is this worker's. `None`: there is no other now, or the worker must stop.
    fn next_task(&mut self) -> Option<Task>;

    /// Gives the answer to the task that the worker has. A task without an answer is given to another worker.
    fn answer(&mut self, outcome: Outcome);

    /// Set when the task that the worker has is of no use any more, or the worker must stop.
    fn stop(&self) -> Arc<AtomicBool>;
}

/// The tasks of a job of a queue.
#[derive(Debug)]
struct QueueTasks<'w> {
    store: &'w Store,
    job: String,
    signs: &'w SignsOfLife,
    stop: &'w AtomicBool,
    /// The tasks that this worker could not do.
    failed: &'w mut HashSet<u32>,
    /// The claimed task, the name of its attempt, and when it was claimed.
    current: Option<(Task, String, Instant)>,
    done: u32,
    error: Option<StoreError>,
}

impl JobTasks for QueueTasks<'_> {
    fn next_task(&mut self) -> Option<Task> {
        if self.stop.load(Ordering::Relaxed) || self.error.is_some() {
            return None;
        }
        match self.claim() {
            Ok(task) => task,
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }

    fn answer(&mut self, outcome: Outcome) {
        if let Err(error) = self.write(outcome) {
            self.error = Some(error);
        }
    }

    fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.signs.cancelled)
    }
}

impl QueueTasks<'_> {
    fn claim(&mut self) -> Result<Option<Task>, StoreError> {
        if self.store.has(&of_job(&self.job, "ended"))? || self.store.has(STOPPED)? {
            return Ok(None);
        }
        for name in claimable(self.store, &self.job, &self.signs.name, self.failed)? {
            let Some(task) = self.take(&name)? else { continue };
            self.signs.change(|facts| facts.now = Some((self.job.clone(), task.number)));
            self.current = Some((task.clone(), name, Instant::now()));
            return Ok(Some(task));
        }
        Ok(None)
    }

    /// Claims an attempt. `None`: it is another worker's, or there is no such task.
    fn take(&self, name: &str) -> Result<Option<Task>, StoreError> {
        let claim = of_job(&self.job, &format!("claims/{name}"));
        // A store behind a network may write the claim and lose the reply. The claim is then this worker's own.
        if !self.store.put_new(&claim, &self.signs.name)?
            && self.store.get::<String>(&claim)?.as_ref() != Some(&self.signs.name)
        {
            return Ok(None);
        }
        match self.store.read(&of_job(&self.job, &format!("tasks/{name}")))? {
            Document::Found(Offer { task, .. }) => Ok(Some(task)),
            // The head removed it in between, because another attempt was answered.
            Document::Missing => self.store.remove(&claim).map(|()| None),
            // The claim stays, so that the head offers the task again.
            Document::Unreadable => Ok(None),
        }
    }

    fn write(&mut self, outcome: Outcome) -> Result<(), StoreError> {
        let Some((task, name, since)) = self.current.take() else { return Ok(()) };
        // Whether or not the answer is written, the worker does not do the task any more.
        self.signs.change(|facts| facts.now = None);
        let answer = Answer {
            outcome,
            worker: self.signs.name.clone(),
            host: self.signs.host.clone(),
            seconds: since.elapsed().as_secs_f64(),
        };
        if matches!(answer.outcome, Outcome::Failed(_)) {
            self.failed.insert(task.number);
        }
        let answered = Answered { payload: task.payload, answer };
        self.store.put(&of_job(&self.job, &format!("answers/{name}")), &answered)?;
        let is_done = u32::from(matches!(answered.answer.outcome, Outcome::Done(_)));
        self.done += is_done;
        self.signs.change(|facts| facts.done += is_done);
        Ok(())
    }

    /// Gives a task back that was not answered.
    fn release(&mut self) -> Result<(), StoreError> {
        self.write(Outcome::Released)
    }
}

/// The thread that gives signs of life.
#[derive(Debug)]
struct SignsOfLife {
    name: String,
    host: String,
    facts: Arc<Mutex<WorkerFacts>>,
    /// Set when the job of the present task has ended, or the worker must stop.
    cancelled: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    store: Store,
}

impl SignsOfLife {
    fn start(store: &Store, options: &WorkerOptions, stop: &Arc<AtomicBool>) -> Self {
        let host = host_name();
        let name = worker_name();
        let facts = WorkerFacts {
            name: name.clone(),
            host: host.clone(),
            device: options.device.clone(),
            done: 0,
            now: None,
            refuses: BTreeMap::new(),
            beat: 0,
        };
        let mut signs = SignsOfLife {
            name,
            host,
            facts: Arc::new(Mutex::new(facts)),
            cancelled: Arc::default(),
            ends: Arc::default(),
            thread: None,
            store: store.clone(),
        };
        let thread = SignThread {
            place: store.place().to_owned(),
            facts: Arc::clone(&signs.facts),
            cancelled: Arc::clone(&signs.cancelled),
            stop: Arc::clone(stop),
            ends: Arc::clone(&signs.ends),
            beat: options.beat,
        };
        signs.thread = Some(std::thread::spawn(move || thread.run()));
        signs
    }

    fn change(&self, change: impl FnOnce(&mut WorkerFacts)) {
        change(&mut self.facts.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// What the thread knows.
struct SignThread {
    place: String,
    facts: Arc<Mutex<WorkerFacts>>,
    cancelled: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    beat: Duration,
}

impl SignThread {
    /// Writes the worker's document again and again. A store that fails now and then is no reason to end: the head waits
    /// for a whole lease.
    fn run(&self) {
        // A store's runtime belongs to one thread.
        let Ok(store) = Store::open(&self.place) else { return };
        let mut next = Instant::now();
        while !self.ends.load(Ordering::Relaxed) {
            if self.stop.load(Ordering::Relaxed) {
                self.cancelled.store(true, Ordering::Relaxed);
            }
            if Instant::now() >= next {
                next = Instant::now() + self.beat;
                let facts = {
                    let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
                    facts.beat += 1;
                    facts.clone()
                };
                let _ = store.put(&format!("workers/{}", facts.name), &facts);
                let has_ended = |job: &String| store.has(&of_job(job, "ended")).is_ok_and(|it| it);
                if facts.now.as_ref().is_some_and(|(job, _)| has_ended(job)) {
                    self.cancelled.store(true, Ordering::Relaxed);
                }
            }
            std::thread::park_timeout(self.beat.min(LOOK));
        }
    }
}

impl Drop for SignsOfLife {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
        let _ = self.store.remove(&format!("workers/{}", self.name));
    }
}

/// A name that no other worker has: processes of containers have equal numbers on machines with equal names.
fn worker_name() -> String {
    let mut random = [0; 4];
    let _ = getrandom::fill(&mut random);
    format!("{}{:08x}", name_prefix(std::process::id()), u32::from_le_bytes(random))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with_tasks(test: impl FnOnce(&Store, &QueueTasks<'_>)) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().to_str().unwrap()).unwrap();
        let program = Program { version: "1".to_owned(), architecture: "x".to_owned(), hash: "h".to_owned() };
        let beat = Duration::from_millis(20);
        let options =
            WorkerOptions { program, device: "none".to_owned(), idle: None, patience: Duration::ZERO, beat };
        let stop = Arc::default();
        let signs = SignsOfLife::start(&store, &options, &stop);
        let mut failed = HashSet::new();
        let (job, current, error) = ("a".to_owned(), None, None);
        let (store, stop, failed) = (&store, &*stop, &mut failed);
        test(store, &QueueTasks { store, job, signs: &signs, stop, failed, current, done: 0, error });
    }

    #[test]
    fn a_claim_whose_task_is_gone_is_taken_back() {
        with_tasks(|store, tasks| {
            assert_eq!(tasks.take("00000000-1").unwrap(), None);
            assert!(!store.has("jobs/a/claims/00000000-1").unwrap());
        });
    }

    #[test]
    fn a_claim_of_the_worker_itself_counts_and_that_of_another_does_not() {
        with_tasks(|store, tasks| {
            let task = |number| Task { number, payload: json!(number) };
            for number in 0..3 {
                store.put(&format!("jobs/a/tasks/{number:08}-1"), &task(number)).unwrap();
            }
            store.put("jobs/a/claims/00000000-1", &tasks.signs.name).unwrap();
            store.put("jobs/a/claims/00000001-1", &"another").unwrap();
            assert_eq!(tasks.take("00000000-1").unwrap(), Some(task(0)));
            assert_eq!(tasks.take("00000001-1").unwrap(), None);
            assert_eq!(tasks.take("00000002-1").unwrap(), Some(task(2)));
            assert!(store.has("jobs/a/claims/00000002-1").unwrap());
        });
    }
}
