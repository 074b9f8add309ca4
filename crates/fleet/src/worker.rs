//! A worker of a queue: it claims tasks, does them and writes the answers.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::job::{Answer, Job, Outcome, Program, Task, WorkerFacts};
use crate::queue::{Answered, of_job, parse_attempt};
use crate::store::{Store, StoreError};

/// How a worker behaves.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// The build of this program.
    pub program: Program,
    /// The device, for people.
    pub device: String,
    /// The worker ends when it has had nothing to do for this long.
    pub idle: Option<Duration>,
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
pub fn serve(
    store: &Store,
    options: &WorkerOptions,
    stop: &Arc<AtomicBool>,
    mut work: impl FnMut(&Job, &mut dyn JobTasks) -> Result<(), String>,
) -> Result<u32, StoreError> {
    let signs = SignsOfLife::start(store, options, stop);
    let mut refused: HashSet<String> = HashSet::new();
    let mut idle_since = Instant::now();
    let mut pause = FIRST_PAUSE;
    let mut done = 0;
    loop {
        if stop.load(Ordering::Relaxed) || store.get::<()>("stopped")?.is_some() {
            return Ok(done);
        }
        let mut found = None;
        for name in job_names(store)? {
            if refused.contains(&name) || !has_unclaimed(store, &name)? {
                continue;
            }
            let Some(job) = store.get::<Job>(&of_job(&name, "job"))? else { continue };
            if job.program.agrees_with(&options.program) {
                found = Some(job);
                break;
            }
            signs.change(|facts| {
                facts.refuses = Some(format!("job {name} needs another build of the program"));
            });
            refused.insert(name);
        }
        let Some(job) = found else {
            if options.idle.is_some_and(|most| idle_since.elapsed() >= most) {
                return Ok(done);
            }
            sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
            continue;
        };
        let mut tasks = QueueTasks {
            store,
            job: job.name.clone(),
            signs: &signs,
            stop,
            current: None,
            done: 0,
            error: None,
        };
        signs.cancelled.store(false, Ordering::Relaxed);
        let outcome = work(&job, &mut tasks);
        tasks.release()?;
        let (finished, error) = (tasks.done, tasks.error.take());
        if let Some(error) = error {
            return Err(error);
        }
        done += finished;
        if let Err(reason) = outcome {
            signs.change(|facts| facts.refuses = Some(format!("job {}: {reason}", job.name)));
            refused.insert(job.name);
        }
        (idle_since, pause) = (Instant::now(), FIRST_PAUSE);
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
    Ok(with("job").into_iter().filter(|name| !ended.contains(name)).collect())
}

fn unclaimed(store: &Store, job: &str) -> Result<Vec<String>, StoreError> {
    let claimed = store.list(&of_job(job, "claims"))?;
    let mut tasks = store.list(&of_job(job, "tasks"))?;
    tasks.retain(|name| parse_attempt(name).is_some() && claimed.binary_search(name).is_err());
    Ok(tasks)
}

fn has_unclaimed(store: &Store, job: &str) -> Result<bool, StoreError> {
    Ok(!unclaimed(store, job)?.is_empty())
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
        if self.store.get::<()>(&of_job(&self.job, "ended"))?.is_some() {
            return Ok(None);
        }
        for name in unclaimed(self.store, &self.job)? {
            if !self.store.put_new(&of_job(&self.job, &format!("claims/{name}")), &self.signs.name)? {
                continue;
            }
            // The head may have removed it in between, because another attempt was answered.
            let Some(task) = self.store.get::<Task>(&of_job(&self.job, &format!("tasks/{name}")))? else {
                continue;
            };
            self.signs.change(|facts| facts.now = Some((self.job.clone(), task.number)));
            self.current = Some((task.clone(), name, Instant::now()));
            return Ok(Some(task));
        }
        Ok(None)
    }

    fn write(&mut self, outcome: Outcome) -> Result<(), StoreError> {
        let Some((task, name, since)) = self.current.take() else { return Ok(()) };
        let answer = Answer {
            outcome,
            worker: self.signs.name.clone(),
            host: self.signs.host.clone(),
            seconds: since.elapsed().as_secs_f64(),
        };
        let answered = Answered { payload: task.payload, answer };
        self.store.put(&of_job(&self.job, &format!("answers/{name}")), &answered)?;
        let is_done = u32::from(answered.answer.outcome != Outcome::Released);
        self.done += is_done;
        self.signs.change(|facts| {
            facts.now = None;
            facts.done += is_done;
        });
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
        let name = worker_name(&host);
        let facts = WorkerFacts {
            name: name.clone(),
            host: host.clone(),
            device: options.device.clone(),
            done: 0,
            now: None,
            refuses: None,
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
                let has_ended =
                    |job: &String| store.get::<()>(&of_job(job, "ended")).is_ok_and(|it| it.is_some());
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

/// The name of this machine.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A name that no other worker has: processes of containers have equal numbers on machines with equal names.
fn worker_name(host: &str) -> String {
    let mut random = [0; 4];
    let _ = getrandom::fill(&mut random);
    let host: String =
        host.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).collect();
    format!("{host}-{}-{:08x}", std::process::id(), u32::from_le_bytes(random))
}
