//! The worker processes of each subject.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use runlog::FailureKind;

use super::plan::{Subject, SubjectKind};
use crate::worker::{Limits, Worker, WorkerCommands, WorkerError, WorkerReply, WorkerRequest};

/// A subject and its worker processes. A process that is lost is started again when it is needed.
#[derive(Debug)]
pub struct SubjectWorkers<'p, 'f> {
    pub subject: &'p Subject<'f>,
    workers: Vec<Option<Worker>>,
    /// The version of a peer, once its processes have reported it.
    pub version: Option<String>,
    /// Why a peer is unavailable.
    pub missing: Option<String>,
}

/// Starts the worker processes of subjects.
#[derive(Debug)]
pub struct WorkerFactory<'a> {
    pub start: &'a WorkerCommands<'a>,
    pub limits: Limits,
    /// The path of the peers' script.
    pub script: PathBuf,
    pub stop: &'a AtomicBool,
}

impl WorkerFactory<'_> {
    fn start_worker(&self, subject: &Subject<'_>) -> Result<Worker, String> {
        let command = match (&subject.kind, &self.start.peer) {
            (SubjectKind::Kernel { .. } | SubjectKind::Chosen { .. }, _) => {
                (self.start.kernel)(&subject.name)
            }
            (SubjectKind::Peer { name }, Ok(peer)) => peer(&self.script, name),
            (SubjectKind::Peer { .. }, Err(reason)) => return Err(reason.clone()),
        };
        Worker::start(command, self.limits).map_err(|error| error.to_string())
    }
}

impl<'p, 'f> SubjectWorkers<'p, 'f> {
    /// Returns a subject whose processes are not started yet. It has at least one process.
    pub fn new(subject: &'p Subject<'f>, processes: usize) -> Self {
        let workers = (0..processes.max(1)).map(|_| None).collect();
        SubjectWorkers { subject, workers, version: None, missing: None }
    }

    /// The numbers of the processes.
    pub fn processes(&self) -> std::ops::Range<usize> {
        0..self.workers.len()
    }

    /// Starts a process unless it is running.
    pub fn start(&mut self, factory: &WorkerFactory<'_>, process: usize) -> Result<(), WorkerError> {
        self.worker(factory, process).map(|_| ())
    }

    fn worker(&mut self, factory: &WorkerFactory<'_>, process: usize) -> Result<&mut Worker, WorkerError> {
        let lost = |reason| WorkerError::Lost { failure: FailureKind::Other, reason };
        let slot =
            self.workers.get_mut(process).ok_or_else(|| lost(format!("there is no process {process}")))?;
        match slot {
            Some(worker) => Ok(worker),
            None => Ok(slot.insert(factory.start_worker(self.subject).map_err(lost)?)),
        }
    }

    /// Ends the processes from number `from` on. They are started again when they are needed.
    pub fn stop_from(&mut self, from: usize) {
        for slot in self.workers.iter_mut().skip(from) {
            *slot = None;
        }
    }

    /// Sends a request to a process without waiting for the reply.
    pub fn send(
        &mut self,
        factory: &WorkerFactory<'_>,
        process: usize,
        request: &WorkerRequest,
    ) -> Result<(), WorkerError> {
        let sent = self.worker(factory, process).and_then(|worker| worker.send(request));
        self.keep_or_drop(process, sent)
    }

    /// Waits for the reply to a request that was sent.
    pub fn answer(
        &mut self,
        factory: &WorkerFactory<'_>,
        process: usize,
        to: &WorkerRequest,
    ) -> Result<WorkerReply, WorkerError> {
        let reply = self.worker(factory, process).and_then(|worker| worker.answer(to, factory.stop));
        self.keep_or_drop(process, reply)
    }

    /// Sends a request and waits for the reply.
    pub fn ask(
        &mut self,
        factory: &WorkerFactory<'_>,
        process: usize,
        request: &WorkerRequest,
    ) -> Result<WorkerReply, WorkerError> {
        self.send(factory, process, request)?;
        self.answer(factory, process, request)
    }

    /// Drops a process whose failure may have left its device unusable; the next problem gets a new process. A refusal
    /// leaves the device usable.
    fn keep_or_drop<T>(&mut self, process: usize, outcome: Result<T, WorkerError>) -> Result<T, WorkerError> {
        match &outcome {
            Ok(_)
            | Err(WorkerError::Failed {
                failure: FailureKind::Refused | FailureKind::DoesNotCompile, ..
            }) => {}
            Err(_) => {
                if let Some(slot) = self.workers.get_mut(process) {
                    *slot = None;
                }
            }
        }
        let all = self.workers.len();
        outcome.map_err(|error| error.of_process(process, all))
    }
}
