//! The subjects' workers.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::plan::{Subject, SubjectKind, WorkerCommands};
use crate::run::FailureKind;
use crate::worker::{Limits, Worker, WorkerError, WorkerReply, WorkerRequest};

/// A subject and its processes, each of which may have to be started again.
#[derive(Debug)]
pub struct SubjectWorkers<'p, 'f> {
    pub subject: &'p Subject<'f>,
    workers: Vec<Option<Worker>>,
    /// A peer's version, once its processes have said it.
    pub version: Option<String>,
    /// Why a peer is not there at all.
    pub missing: Option<String>,
}

/// How members get their processes.
#[derive(Debug)]
pub struct WorkerFactory<'a> {
    pub start: &'a WorkerCommands<'a>,
    pub limits: Limits,
    /// Where the peers' script lies.
    pub script: PathBuf,
    pub stop: &'a AtomicBool,
}

impl WorkerFactory<'_> {
    fn begin(&self, subject: &Subject<'_>) -> Result<Worker, String> {
        let command = match (&subject.kind, &self.start.peer) {
            (SubjectKind::Kernel { .. }, _) => (self.start.kernel)(&subject.name),
            (SubjectKind::Peer { .. }, Ok(peer)) => peer(&self.script),
            (SubjectKind::Peer { .. }, Err(reason)) => return Err(reason.clone()),
        };
        Worker::start(command, self.limits).map_err(|error| error.to_string())
    }
}

impl<'p, 'f> SubjectWorkers<'p, 'f> {
    /// `processes`: at least one.
    pub fn new(subject: &'p Subject<'f>, processes: usize) -> Self {
        let workers = (0..processes.max(1)).map(|_| None).collect();
        SubjectWorkers { subject, workers, version: None, missing: None }
    }

    /// Its processes, by number.
    pub fn processes(&self) -> std::ops::Range<usize> {
        0..self.workers.len()
    }

    /// Starts a process, unless it runs.
    pub fn start(&mut self, factory: &WorkerFactory<'_>, process: usize) -> Result<(), WorkerError> {
        self.worker(factory, process).map(|_| ())
    }

    fn worker(&mut self, factory: &WorkerFactory<'_>, process: usize) -> Result<&mut Worker, WorkerError> {
        let lost = |reason| WorkerError::Lost { failure: FailureKind::Other, reason };
        let place =
            self.workers.get_mut(process).ok_or_else(|| lost(format!("there is no process {process}")))?;
        match place {
            Some(worker) => Ok(worker),
            None => Ok(place.insert(factory.begin(self.subject).map_err(lost)?)),
        }
    }

    /// Ends the processes from this number on; they are started again when they are needed.
    pub fn dismiss(&mut self, from: usize) {
        for place in self.workers.iter_mut().skip(from) {
            *place = None;
        }
    }

    pub fn send(
        &mut self,
        factory: &WorkerFactory<'_>,
        process: usize,
        ask: &WorkerRequest,
    ) -> Result<(), WorkerError> {
        let sent = self.worker(factory, process).and_then(|worker| worker.send(ask));
        self.keep_or_drop(process, sent)
    }

    pub fn answer(
        &mut self,
        factory: &WorkerFactory<'_>,
        process: usize,
        to: &WorkerRequest,
    ) -> Result<WorkerReply, WorkerError> {
        let said = self.worker(factory, process).and_then(|worker| worker.answer(to, factory.stop));
        self.keep_or_drop(process, said)
    }

    pub fn ask(
        &mut self,
        factory: &WorkerFactory<'_>,
        process: usize,
        ask: &WorkerRequest,
    ) -> Result<WorkerReply, WorkerError> {
        self.send(factory, process, ask)?;
        self.answer(factory, process, ask)
    }

    /// A process that failed in a way that may have left its device unusable is not asked again; the next problem
    /// gets a fresh one. A refusal leaves nothing behind.
    fn keep_or_drop<T>(&mut self, process: usize, outcome: Result<T, WorkerError>) -> Result<T, WorkerError> {
        match &outcome {
            Ok(_)
            | Err(WorkerError::Failed {
                failure: FailureKind::Refused | FailureKind::DoesNotCompile, ..
            }) => {}
            Err(_) => {
                if let Some(place) = self.workers.get_mut(process) {
                    *place = None;
                }
            }
        }
        let all = self.workers.len();
        outcome.map_err(|ended| ended.of_process(process, all))
    }
}
