//! A head and workers, each in a thread, with a queue in a folder.
#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use serde_json::{Value, json};
use warpsmith_fleet::{
    Answer, Fleet, FleetError, Job, LocalWorkers, Outcome, Program, Queue, QueueOptions, Store, StoreError,
    Task, WorkerFacts, WorkerOptions, serve, status, stop,
};

const BEAT: Duration = Duration::from_millis(20);
const OPTIONS: QueueOptions = QueueOptions { lease: Duration::from_millis(400), attempts: 3, straggler: 4.0 };

fn program(hash: &str) -> Program {
    Program { version: "1".to_owned(), architecture: "x".to_owned(), hash: hash.to_owned() }
}

fn job(name: &str) -> Job {
    Job { name: name.to_owned(), program: program("h"), common: json!(1000), files: Vec::new() }
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn store(&self) -> Store {
        Store::open(self.0.path().to_str().unwrap()).unwrap()
    }

    fn head(&self) -> Queue {
        Queue::start(self.store(), &job("a"), OPTIONS).unwrap()
    }

    /// A worker that adds the job's number to that of the task, and notes which tasks it did.
    fn worker(
        &self,
        done: &Arc<Mutex<Vec<u32>>>,
        pause: Duration,
        stop: &Arc<AtomicBool>,
    ) -> JoinHandle<u32> {
        let (place, done, stop) =
            (self.0.path().to_str().unwrap().to_owned(), Arc::clone(done), Arc::clone(stop));
        let options = worker_options();
        std::thread::spawn(move || {
            serve(&Store::open(&place).unwrap(), &options, &stop, &|_| (), |job, tasks| {
                while let Some(task) = tasks.next_task() {
                    sleep(pause);
                    done.lock().unwrap().push(task.number);
                    tasks.answer(Outcome::Done(sum(&job.common, &task.payload)));
                }
                Ok(())
            })
            .unwrap()
        })
    }
}

fn worker_options() -> WorkerOptions {
    WorkerOptions {
        program: program("h"),
        device: "none".to_owned(),
        idle: None,
        patience: Duration::ZERO,
        beat: BEAT,
    }
}

fn sum(common: &Value, payload: &Value) -> Value {
    json!(common.as_u64().unwrap() + payload.as_u64().unwrap())
}

fn task(number: u32) -> Task {
    Task { number, payload: json!(number * 10) }
}

fn wait(head: &mut Queue, number: u32) -> Outcome {
    head.wait(number, &AtomicBool::new(false), &|_| ()).unwrap().outcome
}

fn answer(number: u32) -> Outcome {
    Outcome::Done(json!(1000 + number * 10))
}

#[test]
fn workers_share_the_tasks_and_do_each_once() {
    let folder = Folder::new();
    let (done, stop) = (Arc::default(), Arc::default());
    let mut head = folder.head();
    (0..40).for_each(|number| head.submit(task(number)).unwrap());
    let workers: Vec<_> = (0..3).map(|_| folder.worker(&done, Duration::from_millis(2), &stop)).collect();
    for number in 0..40 {
        assert_eq!(wait(&mut head, number), answer(number));
    }
    head.end(false).unwrap();
    stop.store(true, Ordering::Relaxed);
    let counts: Vec<u32> = workers.into_iter().map(|it| it.join().unwrap()).collect();
    assert_eq!(counts.iter().sum::<u32>(), 40);
    let mut done = done.lock().unwrap().clone();
    done.sort_unstable();
    assert_eq!(done, (0..40).collect::<Vec<_>>());
    assert_eq!(folder.store().list("workers").unwrap(), Vec::<String>::new());
}

/// Claims an attempt for a worker that is never heard of.
fn claim_for_the_dead(store: &Store, number: u32, attempt: u32) -> bool {
    store.put_new(&format!("jobs/a/claims/{number:08}-{attempt}"), &"dead".to_owned()).unwrap()
}

#[test]
fn the_task_of_a_lost_worker_goes_to_another_one() {
    let folder = Folder::new();
    let (done, stop) = (Arc::default(), Arc::default());
    let mut head = folder.head();
    head.submit(task(0)).unwrap();
    assert!(claim_for_the_dead(&folder.store(), 0, 1));
    let worker = folder.worker(&done, Duration::ZERO, &stop);
    assert_eq!(wait(&mut head, 0), answer(0));
    stop.store(true, Ordering::Relaxed);
    assert_eq!(worker.join().unwrap(), 1);
}

#[test]
fn a_task_with_which_three_workers_are_lost_is_given_up() {
    let folder = Folder::new();
    let mut head = folder.head();
    head.submit(task(0)).unwrap();
    let (store, ends) = (folder.store(), Arc::new(AtomicBool::new(false)));
    let killer = {
        let ends = Arc::clone(&ends);
        std::thread::spawn(move || {
            let mut attempt = 1;
            while !ends.load(Ordering::Relaxed) {
                let task = format!("jobs/a/tasks/{:08}-{attempt}", 0);
                if store.get::<Task>(&task).unwrap().is_some() && claim_for_the_dead(&store, 0, attempt) {
                    attempt += 1;
                }
                sleep(Duration::from_millis(5));
            }
            attempt - 1
        })
    };
    assert_eq!(wait(&mut head, 0), Outcome::Lost(3));
    ends.store(true, Ordering::Relaxed);
    assert_eq!(killer.join().unwrap(), 3);
}

#[test]
fn a_worker_that_stops_gives_its_task_back() {
    let folder = Folder::new();
    let stop = Arc::new(AtomicBool::new(false));
    let place = folder.0.path().to_str().unwrap().to_owned();
    let mut head = folder.head();
    head.submit(task(0)).unwrap();
    let stopped = Arc::clone(&stop);
    let leaver = std::thread::spawn(move || {
        serve(&Store::open(&place).unwrap(), &worker_options(), &stopped, &|_| (), |_, tasks| {
            assert!(tasks.next_task().is_some());
            let stop = tasks.stop();
            while !stop.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(5));
            }
            Ok(())
        })
        .unwrap()
    });
    while !folder.has("jobs/a/claims/00000000-1") {
        sleep(Duration::from_millis(5));
    }
    stop.store(true, Ordering::Relaxed);
    assert_eq!(leaver.join().unwrap(), 0);
    let done = Arc::default();
    let ends = Arc::default();
    let worker = folder.worker(&done, Duration::ZERO, &ends);
    assert_eq!(wait(&mut head, 0), answer(0));
    ends.store(true, Ordering::Relaxed);
    worker.join().unwrap();
}

#[test]
fn a_head_that_is_killed_goes_on_with_the_answers_that_are_there() {
    let folder = Folder::new();
    let (done, stop): (Arc<Mutex<Vec<u32>>>, Arc<AtomicBool>) = (Arc::default(), Arc::default());
    let worker = folder.worker(&done, Duration::ZERO, &stop);
    let mut first = folder.head();
    (0..6).for_each(|number| first.submit(task(number)).unwrap());
    assert_eq!(wait(&mut first, 1), answer(1));
    while done.lock().unwrap().len() < 6 {
        sleep(Duration::from_millis(5));
    }
    // A killed head ends nothing.
    drop(first);
    let mut second = folder.head();
    // Number 4 is another task now.
    (2..6).filter(|number| *number != 4).for_each(|number| second.submit(task(number)).unwrap());
    second.submit(Task { number: 4, payload: json!(7) }).unwrap();
    assert_eq!(wait(&mut second, 2), answer(2));
    assert_eq!(wait(&mut second, 4), Outcome::Done(json!(1007)));
    assert_eq!(wait(&mut second, 5), answer(5));
    second.end(false).unwrap();
    stop.store(true, Ordering::Relaxed);
    assert_eq!(worker.join().unwrap(), 7);
    assert_eq!(done.lock().unwrap().iter().filter(|number| **number == 4).count(), 2);
}

#[test]
fn a_task_that_takes_too_long_is_also_given_to_a_free_worker() {
    let folder = Folder::new();
    let place = folder.0.path().to_str().unwrap().to_owned();
    let (stop, started) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let mut head = folder.head();
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (place, stop, started) = (place.clone(), Arc::clone(&stop), Arc::clone(&started));
            std::thread::spawn(move || {
                serve(&Store::open(&place).unwrap(), &worker_options(), &stop, &|_| (), |job, tasks| {
                    while let Some(task) = tasks.next_task() {
                        // The first attempt at number 9 hangs until the job has ended.
                        if task.number == 9 && started.fetch_add(1, Ordering::Relaxed) == 0 {
                            let stop = tasks.stop();
                            while !stop.load(Ordering::Relaxed) {
                                sleep(Duration::from_millis(5));
                            }
                        }
                        tasks.answer(Outcome::Done(sum(&job.common, &task.payload)));
                    }
                    Ok(())
                })
                .unwrap()
            })
        })
        .collect();
    (0..10).for_each(|number| head.submit(task(number)).unwrap());
    for number in 0..10 {
        assert_eq!(wait(&mut head, number), answer(number));
    }
    assert_eq!(started.load(Ordering::Relaxed), 2);
    head.end(false).unwrap();
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.join().unwrap();
    }
}

/// A store that cannot be written: the worker tells it, tries again, and does the task when it is offered again.
#[test]
fn a_worker_goes_on_when_the_store_works_again() {
    let folder = Folder::new();
    let mut head = folder.head();
    head.submit(task(0)).unwrap();
    let answers = folder.0.path().join("jobs/a/answers");
    std::fs::write(&answers, "not a folder").unwrap();
    let (told, stop) = (AtomicU32::new(0), Arc::default());
    let options = WorkerOptions { patience: Duration::from_mins(1), ..worker_options() };
    let fails = |_: &StoreError| {
        if told.fetch_add(1, Ordering::Relaxed) == 0 {
            std::fs::remove_file(&answers).unwrap();
        }
    };
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            serve(&folder.store(), &options, &stop, &fails, |job, tasks| {
                while let Some(task) = tasks.next_task() {
                    tasks.answer(Outcome::Done(sum(&job.common, &task.payload)));
                }
                Ok(())
            })
        });
        assert_eq!(wait(&mut head, 0), answer(0));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(worker.join().unwrap().unwrap(), 1);
    });
    assert_eq!(told.load(Ordering::Relaxed), 1);
}

#[test]
fn jobs_and_workers_that_do_not_fit_are_told() {
    let folder = Folder::new();
    let mut head = folder.head();
    head.submit(task(0)).unwrap();
    let other = Job { common: json!(1), ..job("a") };
    assert!(
        matches!(Queue::start(folder.store(), &other, OPTIONS), Err(FleetError::OtherJob(name)) if name == "a")
    );
    let options = WorkerOptions {
        program: program("other"),
        idle: Some(Duration::from_millis(300)),
        ..worker_options()
    };
    let store = folder.store();
    let seen = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            serve(&folder.store(), &options, &Arc::default(), &|_| (), |_, _| panic!("another build"))
        });
        sleep(Duration::from_millis(150));
        let seen = status(&store, || sleep(Duration::from_millis(60))).unwrap();
        assert_eq!(worker.join().unwrap().unwrap(), 0);
        seen
    });
    assert!(seen.workers[0].is_alive);
    assert!(seen.workers[0].facts.refuses["a"].contains("another build"));
    assert_eq!((seen.jobs[0].waiting, seen.jobs[0].under_way), (1, 0));
    stop(&store, true).unwrap();
    let refused = serve(&store, &worker_options(), &Arc::default(), &|_| (), |_, _| panic!("stopped"));
    assert_eq!(refused.unwrap(), 0);
}

#[test]
fn a_job_that_a_worker_cannot_do_is_left_to_others() {
    let folder = Folder::new();
    let (done, stop) = (Arc::default(), Arc::default());
    let mut head = folder.head();
    head.submit(task(0)).unwrap();
    let options = WorkerOptions { idle: Some(Duration::from_millis(100)), ..worker_options() };
    let refused = serve(&folder.store(), &options, &Arc::default(), &|_| (), |_, _| Err("no GPU".to_owned()));
    assert_eq!(refused.unwrap(), 0);
    let worker = folder.worker(&done, Duration::ZERO, &stop);
    assert_eq!(wait(&mut head, 0), answer(0));
    stop.store(true, Ordering::Relaxed);
    worker.join().unwrap();
}

/// What a worker that the test plays writes.
impl Folder {
    fn claim(&self, number: u32, attempt: u32, worker: &str) {
        let name = format!("jobs/a/claims/{number:08}-{attempt}");
        assert!(self.store().put_new(&name, &worker.to_owned()).unwrap());
    }

    fn write_answer(&self, number: u32, attempt: u32, outcome: Outcome) {
        let answer = Answer { outcome, worker: "w".to_owned(), host: "h".to_owned(), seconds: 1.0 };
        let document = json!({"payload": task(number).payload, "answer": answer});
        self.store().put(&format!("jobs/a/answers/{number:08}-{attempt}"), &document).unwrap();
    }

    fn text(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn has(&self, name: &str) -> bool {
        self.store().has(name).unwrap()
    }

    /// A worker that lives until the flag is set, and says that it does nothing and what it refuses.
    fn idle_worker(&self, name: &str, refuses: &[(&str, &str)], ends: &Arc<AtomicBool>) -> JoinHandle<()> {
        let (store, ends) = (self.store(), Arc::clone(ends));
        let refuses = refuses.iter().map(|(job, why)| ((*job).to_owned(), (*why).to_owned())).collect();
        let mut facts = WorkerFacts {
            name: name.to_owned(),
            host: "h".to_owned(),
            device: "none".to_owned(),
            done: 0,
            now: None,
            refuses,
            beat: 0,
        };
        std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                facts.beat += 1;
                store.put(&format!("workers/{}", facts.name), &facts).unwrap();
                sleep(BEAT);
            }
            store.remove(&format!("workers/{}", facts.name)).unwrap();
        })
    }
}

/// The error of waiting for a task, and everything that was told.
fn failed_wait(head: &mut Queue, number: u32) -> (FleetError, Vec<String>) {
    let told = Mutex::new(Vec::new());
    let tell = |line: &str| told.lock().unwrap().push(line.to_owned());
    let error = head.wait(number, &AtomicBool::new(false), &tell).unwrap_err();
    (error, told.into_inner().unwrap())
}

#[test]
fn a_resumed_head_offers_an_attempt_that_nobody_has_claimed() {
    let folder = Folder::new();
    drop(folder.head());
    // Before the head was killed, the first attempt was lost and the second was given back.
    folder.claim(0, 1, "dead");
    folder.claim(0, 2, "alive");
    folder.write_answer(0, 2, Outcome::Released);
    let (done, stop) = (Arc::default(), Arc::default());
    let worker = folder.worker(&done, Duration::ZERO, &stop);
    let mut head = folder.head();
    head.submit(task(0)).unwrap();
    assert!(folder.has("jobs/a/tasks/00000000-3"));
    assert_eq!(wait(&mut head, 0), answer(0));
    stop.store(true, Ordering::Relaxed);
    worker.join().unwrap();
}

#[test]
fn a_lost_attempt_is_followed_by_one_that_nobody_has_claimed() {
    let folder = Folder::new();
    let mut head = folder.head();
    head.submit(task(0)).unwrap();
    // Were each of them offered, the task would be given up.
    (1..=3).for_each(|attempt| folder.claim(0, attempt, "dead"));
    let (done, stop) = (Arc::default(), Arc::default());
    let worker = folder.worker(&done, Duration::ZERO, &stop);
    assert_eq!(wait(&mut head, 0), answer(0));
    assert!(folder.has("jobs/a/answers/00000000-4"));
    stop.store(true, Ordering::Relaxed);
    worker.join().unwrap();
}

#[test]
fn an_answer_that_comes_after_a_later_attempt_leads_to_a_new_one() {
    let folder = Folder::new();
    let mut head = folder.head();
    head.submit(task(0)).unwrap();
    // The head does not know of the second attempt.
    folder.claim(0, 2, "alive");
    folder.write_answer(0, 2, Outcome::Released);
    let (done, stop) = (Arc::default(), Arc::default());
    folder.claim(0, 1, "dead");
    let worker = folder.worker(&done, Duration::ZERO, &stop);
    assert_eq!(wait(&mut head, 0), answer(0));
    stop.store(true, Ordering::Relaxed);
    worker.join().unwrap();
}

/// Starts a worker that fails every task, and notes which it was given.
fn broken_worker(folder: &Folder, given: &Arc<Mutex<Vec<u32>>>, stop: &Arc<AtomicBool>) -> JoinHandle<u32> {
    let (store, given, stop) = (folder.store(), Arc::clone(given), Arc::clone(stop));
    std::thread::spawn(move || {
        serve(&store, &worker_options(), &stop, &|_| (), |_, tasks| {
            while let Some(task) = tasks.next_task() {
                given.lock().unwrap().push(task.number);
                tasks.answer(Outcome::Failed("no disk".to_owned()));
            }
            Ok(())
        })
        .unwrap()
    })
}

/// Lets a head wait for a moment for a task that nobody does.
fn look(head: &mut Queue, number: u32) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sleep(OPTIONS.lease / 4);
            stop.store(true, Ordering::Relaxed);
        });
        assert!(matches!(head.wait(number, &stop, &|_| ()), Err(FleetError::Stopped)));
    });
}

#[test]
fn a_task_that_one_worker_cannot_do_is_done_by_another() {
    let folder = Folder::new();
    let (done, stop) = (Arc::default(), Arc::default());
    let mut head = folder.head();
    head.submit(task(9)).unwrap();
    folder.claim(9, 1, "w");
    folder.write_answer(9, 1, Outcome::Failed("no disk".to_owned()));
    let worker = folder.worker(&done, Duration::ZERO, &stop);
    let told = Mutex::new(Vec::new());
    let tell = |line: &str| told.lock().unwrap().push(line.to_owned());
    assert_eq!(head.wait(9, &AtomicBool::new(false), &tell).unwrap().outcome, answer(9));
    stop.store(true, Ordering::Relaxed);
    worker.join().unwrap();
    assert!(told.lock().unwrap()[0].contains("worker w could not do task 9: no disk"), "{told:?}");
}

#[test]
fn a_worker_does_not_get_a_task_again_that_it_failed_while_there_are_others() {
    let folder = Folder::new();
    let (stop, release) = (Arc::default(), Arc::default());
    let given: Arc<Mutex<Vec<u32>>> = Arc::default();
    let times = |number| given.lock().unwrap().iter().filter(|it| **it == number).count();
    let other = folder.idle_worker("other", &[], &release);
    let mut head = folder.head();
    head.submit(task(1)).unwrap();
    while head.workers() == 0 {
        look(&mut head, 1);
    }
    let broken = broken_worker(&folder, &given, &stop);
    while !folder.has("jobs/a/tasks/00000001-2") {
        look(&mut head, 1);
    }
    (0..8).for_each(|_| look(&mut head, 1));
    assert_eq!(times(1), 1);
    // Without the other worker, it gets the task again.
    release.store(true, Ordering::Relaxed);
    other.join().unwrap();
    assert_eq!(wait(&mut head, 1), Outcome::Failed("no disk".to_owned()));
    assert_eq!(times(1), 3);
    stop.store(true, Ordering::Relaxed);
    broken.join().unwrap();
}

#[test]
fn a_resumed_head_does_not_end_with_the_failures_of_before() {
    let folder = Folder::new();
    let (given, stop): (_, Arc<AtomicBool>) = (Arc::default(), Arc::default());
    let broken = broken_worker(&folder, &given, &stop);
    let mut first = folder.head();
    first.submit(task(0)).unwrap();
    assert_eq!(wait(&mut first, 0), Outcome::Failed("no disk".to_owned()));
    first.end(true).unwrap();
    stop.store(true, Ordering::Relaxed);
    broken.join().unwrap();
    expect_new_head_gets_an_answer(&folder);
}

/// A head that starts after others gets the answer of task 0 from a worker that works.
fn expect_new_head_gets_an_answer(folder: &Folder) {
    let (done, stop) = (Arc::default(), Arc::default());
    let worker = folder.worker(&done, Duration::ZERO, &stop);
    let mut second = folder.head();
    second.submit(task(0)).unwrap();
    assert_eq!(wait(&mut second, 0), answer(0));
    stop.store(true, Ordering::Relaxed);
    worker.join().unwrap();
}

#[test]
fn answers_that_cannot_be_read_are_failures() {
    let folder = Folder::new();
    let mut head = folder.head();
    head.submit(task(0)).unwrap();
    for attempt in 1..=3 {
        folder.text(&format!("jobs/a/answers/00000000-{attempt}"), "{");
    }
    assert!(matches!(wait(&mut head, 0), Outcome::Failed(reason) if reason.contains("cannot be read")));
    // They do not end a resumed search again.
    expect_new_head_gets_an_answer(&folder);
}

#[test]
fn a_claim_that_cannot_be_read_blocks_a_task_for_one_lease() {
    let folder = Folder::new();
    let (done, stop) = (Arc::default(), Arc::default());
    let mut head = folder.head();
    head.submit(task(0)).unwrap();
    folder.text("jobs/a/claims/00000000-1", "{");
    let worker = folder.worker(&done, Duration::ZERO, &stop);
    assert_eq!(wait(&mut head, 0), answer(0));
    stop.store(true, Ordering::Relaxed);
    worker.join().unwrap();
}

#[test]
fn a_claim_of_a_living_worker_that_does_something_else_blocks_a_task_for_one_lease() {
    let folder = Folder::new();
    let (done, stop): (_, Arc<AtomicBool>) = (Arc::default(), Arc::default());
    let mut head = folder.head();
    head.submit(task(0)).unwrap();
    folder.claim(0, 1, "idle");
    let idle = folder.idle_worker("idle", &[], &stop);
    let worker = folder.worker(&done, Duration::ZERO, &stop);
    assert_eq!(wait(&mut head, 0), answer(0));
    stop.store(true, Ordering::Relaxed);
    worker.join().unwrap();
    idle.join().unwrap();
}

#[test]
fn a_stopped_fleet_takes_no_more_tasks_and_no_search() {
    let folder = Folder::new();
    let store = folder.store();
    let mut head = folder.head();
    (0..3).for_each(|number| head.submit(task(number)).unwrap());
    let served = serve(&store, &worker_options(), &Arc::default(), &|_| (), |job, tasks| {
        let task = tasks.next_task().unwrap();
        stop(&store, true).unwrap();
        tasks.answer(Outcome::Done(sum(&job.common, &task.payload)));
        assert!(tasks.next_task().is_none());
        Ok(())
    });
    assert_eq!(served.unwrap(), 1);
    assert_eq!(wait(&mut head, 0), answer(0));
    assert!(matches!(failed_wait(&mut head, 1).0, FleetError::FleetStopped));
    assert!(matches!(Queue::start(folder.store(), &job("b"), OPTIONS), Err(FleetError::FleetStopped)));
    stop(&store, false).unwrap();
    assert!(Queue::start(folder.store(), &job("b"), OPTIONS).is_ok());
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn waiting_ends_when_the_workers_that_were_started_have_ended() {
    let folder = Folder::new();
    let mut head = folder.head();
    head.watch(LocalWorkers::start([shell("echo 'error: no compiler' >&2; exit 3")]).unwrap());
    head.submit(task(0)).unwrap();
    let (error, told) = failed_wait(&mut head, 0);
    assert!(error.to_string().contains("exit status: 3: error: no compiler"), "{error}");
    assert!(told.iter().any(|line| line.contains("ended (exit status: 3: error: no compiler)")), "{told:?}");
}

#[test]
fn waiting_ends_when_the_workers_that_were_started_refuse_the_job() {
    let folder = Folder::new();
    let mut head = folder.head();
    // A worker on another machine that refuses says nothing about the one that was started here.
    let ends = Arc::default();
    let far = folder.idle_worker("far-1-x", &[("a", "it has no disk")], &ends);
    let process = folder.0.path().join("process");
    let started = shell(&format!("echo $$ > '{}'; exec sleep 100", process.display()));
    head.watch(LocalWorkers::start([started]).unwrap());
    head.submit(task(0)).unwrap();
    let name = loop {
        look(&mut head, 0);
        let process = std::fs::read_to_string(&process).unwrap_or_default();
        if process.ends_with('\n') {
            let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
            let host = host.trim().replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "-");
            break format!("{host}-{}-00000000", process.trim());
        }
    };
    (0..8).for_each(|_| look(&mut head, 0));
    let here = folder.idle_worker(&name, &[("a", "it has no GPU")], &ends);
    let (error, told) = failed_wait(&mut head, 0);
    assert!(error.to_string().contains("started here refuse: it has no GPU"), "{error}");
    let refusal = format!("worker {name} does not work for this search: it has no GPU");
    assert!(told.contains(&refusal), "{told:?}");
    ends.store(true, Ordering::Relaxed);
    far.join().unwrap();
    here.join().unwrap();
    // Nothing is left of the worker after the end, although it was killed.
    folder.text(&format!("workers/{name}"), "{}");
    head.end(false).unwrap();
    assert!(!folder.has(&format!("workers/{name}")));
}

#[test]
fn the_absence_of_workers_is_told_once() {
    let folder = Folder::new();
    let (done, stop) = (Arc::default(), Arc::default());
    let mut head = folder.head();
    head.submit(task(0)).unwrap();
    let told = Mutex::new(Vec::new());
    let worker = Mutex::new(None);
    let tell = |line: &str| {
        told.lock().unwrap().push(line.to_owned());
        worker.lock().unwrap().replace(folder.worker(&done, Duration::ZERO, &stop));
    };
    assert_eq!(head.wait(0, &AtomicBool::new(false), &tell).unwrap().outcome, answer(0));
    stop.store(true, Ordering::Relaxed);
    worker.into_inner().unwrap().unwrap().join().unwrap();
    let told = told.into_inner().unwrap();
    assert!(told.len() == 1 && told[0].contains("no worker for"), "{told:?}");
}

#[test]
fn names_of_jobs_stay_inside_their_folder() {
    let folder = Folder::new();
    for name in ["", "..", "../x", ".hidden", "a/b", "a b"] {
        let started = Queue::start(folder.store(), &job(name), OPTIONS);
        assert!(matches!(started, Err(FleetError::JobName(it)) if it == name), "{name}");
    }
    // Other programs may write them nevertheless. A worker of such a job would find a task.
    for name in [".hidden", "a/b", "a b"] {
        folder.text(&format!("jobs/{name}/job"), &serde_json::to_string(&job(name)).unwrap());
        folder.text(&format!("jobs/{name}/tasks/00000000-1"), &serde_json::to_string(&task(0)).unwrap());
    }
    let options = WorkerOptions { idle: Some(Duration::from_millis(100)), ..worker_options() };
    let served = serve(&folder.store(), &options, &Arc::default(), &|_| (), |job, _| panic!("{}", job.name));
    assert_eq!(served.unwrap(), 0);
}

#[test]
fn a_job_with_the_description_of_another_is_refused() {
    let folder = Folder::new();
    let mut head = folder.head();
    head.submit(task(0)).unwrap();
    folder.text("jobs/a/job", &serde_json::to_string(&job("b")).unwrap());
    let options = WorkerOptions { idle: Some(Duration::from_millis(300)), ..worker_options() };
    let (store, watched) = (folder.store(), folder.store());
    let seen = std::thread::scope(|scope| {
        let worker = scope
            .spawn(|| serve(&store, &options, &Arc::default(), &|_| (), |job, _| panic!("{}", job.name)));
        let mut seen = status(&watched, || ()).unwrap();
        while !seen.workers.iter().any(|it| it.facts.refuses.contains_key("a")) && !worker.is_finished() {
            seen = status(&watched, || ()).unwrap();
        }
        assert_eq!(worker.join().unwrap().unwrap(), 0);
        seen
    });
    assert!(seen.workers[0].facts.refuses["a"].contains("that of job b"), "{seen:?}");
}
