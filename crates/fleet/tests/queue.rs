//! A head and workers, each in a thread, with a queue in a folder.
#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use serde_json::{Value, json};
use warpsmith_fleet::{
    Fleet, FleetError, Job, Outcome, Program, Queue, QueueOptions, Store, Task, WorkerOptions, serve, status,
    stop,
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
            serve(&Store::open(&place).unwrap(), &options, &stop, |job, tasks| {
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
    WorkerOptions { program: program("h"), device: "none".to_owned(), idle: None, beat: BEAT }
}

fn sum(common: &Value, payload: &Value) -> Value {
    json!(common.as_u64().unwrap() + payload.as_u64().unwrap())
}

fn task(number: u32) -> Task {
    Task { number, payload: json!(number * 10) }
}

fn wait(head: &mut Queue, number: u32) -> Outcome {
    head.wait(number, &AtomicBool::new(false)).unwrap().outcome
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
        serve(&Store::open(&place).unwrap(), &worker_options(), &stopped, |_, tasks| {
            assert!(tasks.next_task().is_some());
            let stop = tasks.stop();
            while !stop.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(5));
            }
            Ok(())
        })
        .unwrap()
    });
    sleep(Duration::from_millis(100));
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
                serve(&Store::open(&place).unwrap(), &worker_options(), &stop, |job, tasks| {
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
        let worker =
            scope.spawn(|| serve(&folder.store(), &options, &Arc::default(), |_, _| panic!("another build")));
        sleep(Duration::from_millis(150));
        let seen = status(&store, || sleep(Duration::from_millis(60))).unwrap();
        assert_eq!(worker.join().unwrap().unwrap(), 0);
        seen
    });
    assert!(seen.workers[0].is_alive);
    assert!(seen.workers[0].facts.refuses.as_ref().unwrap().contains("another build"));
    assert_eq!((seen.jobs[0].waiting, seen.jobs[0].under_way), (1, 0));
    stop(&store, true).unwrap();
    let refused = serve(&store, &worker_options(), &Arc::default(), |_, _| panic!("stopped"));
    assert_eq!(refused.unwrap(), 0);
}

#[test]
fn a_job_that_a_worker_cannot_do_is_left_to_others() {
    let folder = Folder::new();
    let (done, stop) = (Arc::default(), Arc::default());
    let mut head = folder.head();
    head.submit(task(0)).unwrap();
    let options = WorkerOptions { idle: Some(Duration::from_millis(100)), ..worker_options() };
    let refused = serve(&folder.store(), &options, &Arc::default(), |_, _| Err("no GPU".to_owned()));
    assert_eq!(refused.unwrap(), 0);
    let worker = folder.worker(&done, Duration::ZERO, &stop);
    assert_eq!(wait(&mut head, 0), answer(0));
    stop.store(true, Ordering::Relaxed);
    worker.join().unwrap();
}
