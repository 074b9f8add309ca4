//! The subjects' workers.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::plan::{Maker, Start, Subject};
use crate::run::FailureKind;
use crate::worker::{Ask, Ended, Limits, Say, Worker};

/// A subject and its processes, each of which may have to be started again.
#[derive(Debug)]
pub struct Member<'p, 'f> {
    pub subject: &'p Subject<'f>,
    workers: Vec<Option<Worker>>,
    /// A peer's version, once its processes have said it.
    pub version: Option<String>,
    /// Why a peer is not there at all.
    pub missing: Option<String>,
}

/// How members get their processes.
#[derive(Debug)]
pub struct Office<'a> {
    pub start: &'a Start<'a>,
    pub limits: Limits,
    /// Where the peers' script lies.
    pub script: PathBuf,
    pub stop: &'a AtomicBool,
}

impl Office<'_> {
    fn begin(&self, subject: &Subject<'_>) -> Result<Worker, String> {
        let command = match (&subject.maker, &self.start.peer) {
            (Maker::Kernel { .. }, _) => (self.start.kernel)(&subject.name),
            (Maker::Peer { .. }, Ok(peer)) => peer(&self.script),
            (Maker::Peer { .. }, Err(reason)) => return Err(reason.clone()),
        };
        Worker::start(command, self.limits).map_err(|error| error.to_string())
    }
}

impl<'p, 'f> Member<'p, 'f> {
    /// `processes`: at least one.
    pub fn new(subject: &'p Subject<'f>, processes: usize) -> Self {
        let workers = (0..processes.max(1)).map(|_| None).collect();
        Member { subject, workers, version: None, missing: None }
    }

    /// Its processes, by number.
    pub fn processes(&self) -> std::ops::Range<usize> {
        0..self.workers.len()
    }

    /// Starts a process, unless it runs.
    pub fn start(&mut self, office: &Office<'_>, process: usize) -> Result<(), Ended> {
        self.worker(office, process).map(|_| ())
    }

    fn worker(&mut self, office: &Office<'_>, process: usize) -> Result<&mut Worker, Ended> {
        let lost = |reason| Ended::Lost { failure: FailureKind::Other, reason };
        let place =
            self.workers.get_mut(process).ok_or_else(|| lost(format!("there is no process {process}")))?;
        match place {
            Some(worker) => Ok(worker),
            None => Ok(place.insert(office.begin(self.subject).map_err(lost)?)),
        }
    }

    /// Ends the processes from this number on; they are started again when they are needed.
    pub fn dismiss(&mut self, from: usize) {
        for place in self.workers.iter_mut().skip(from) {
            *place = None;
        }
    }

    pub fn send(&mut self, office: &Office<'_>, process: usize, ask: &Ask) -> Result<(), Ended> {
        let sent = self.worker(office, process).and_then(|worker| worker.send(ask));
        self.keep_or_drop(process, sent)
    }

    pub fn answer(&mut self, office: &Office<'_>, process: usize, to: &Ask) -> Result<Say, Ended> {
        let said = self.worker(office, process).and_then(|worker| worker.answer(to, office.stop));
        self.keep_or_drop(process, said)
    }

    pub fn ask(&mut self, office: &Office<'_>, process: usize, ask: &Ask) -> Result<Say, Ended> {
        self.send(office, process, ask)?;
        self.answer(office, process, ask)
    }

    /// A process that failed in a way that may have left its device unusable is not asked again; the next problem
    /// gets a fresh one. A refusal leaves nothing behind.
    fn keep_or_drop<T>(&mut self, process: usize, outcome: Result<T, Ended>) -> Result<T, Ended> {
        match &outcome {
            Ok(_)
            | Err(Ended::Failed { failure: FailureKind::Refused | FailureKind::DoesNotCompile, .. }) => {}
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
