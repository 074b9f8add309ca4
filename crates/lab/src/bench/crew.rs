//! The subjects' workers.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::plan::{Maker, Start, Subject};
use crate::run::FailureKind;
use crate::worker::{Ask, Ended, Limits, Say, Worker};

/// A subject and its process, which may have to be started again.
#[derive(Debug)]
pub struct Member<'p, 'f> {
    pub subject: &'p Subject<'f>,
    worker: Option<Worker>,
    /// A peer's version, once it has said it.
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
        let mut command = match (&subject.maker, &self.start.peer) {
            (Maker::Kernel { .. }, _) => (self.start.kernel)(&subject.name),
            (Maker::Peer { .. }, Ok(peer)) => peer(&self.script),
            (Maker::Peer { .. }, Err(reason)) => return Err(reason.clone()),
        };
        Worker::start(&mut command, self.limits).map_err(|error| error.to_string())
    }
}

impl<'p, 'f> Member<'p, 'f> {
    pub fn new(subject: &'p Subject<'f>) -> Self {
        Member { subject, worker: None, version: None, missing: None }
    }

    /// Starts the process, unless it runs.
    pub fn start(&mut self, office: &Office<'_>) -> Result<&mut Worker, Ended> {
        if self.worker.is_none() {
            let begun = office.begin(self.subject);
            let lost = |reason| Ended::Lost { failure: FailureKind::Other, reason };
            self.worker = Some(begun.map_err(lost)?);
        }
        self.worker
            .as_mut()
            .ok_or_else(|| Ended::Lost { failure: FailureKind::Other, reason: "no worker".to_owned() })
    }

    pub fn send(&mut self, office: &Office<'_>, ask: &Ask) -> Result<(), Ended> {
        let sent = self.start(office)?.send(ask);
        self.keep_or_drop(sent)
    }

    pub fn answer(&mut self, office: &Office<'_>, to: &Ask) -> Result<Say, Ended> {
        let said = self.start(office)?.answer(to, office.stop);
        self.keep_or_drop(said)
    }

    pub fn ask(&mut self, office: &Office<'_>, ask: &Ask) -> Result<Say, Ended> {
        self.send(office, ask)?;
        self.answer(office, ask)
    }

    /// A process that failed in a way that may have left its device unusable is not asked again; the next problem
    /// gets a fresh one. A refusal leaves nothing behind.
    fn keep_or_drop<T>(&mut self, outcome: Result<T, Ended>) -> Result<T, Ended> {
        match &outcome {
            Ok(_)
            | Err(Ended::Failed { failure: FailureKind::Refused | FailureKind::DoesNotCompile, .. }) => {}
            Err(_) => self.worker = None,
        }
        outcome
    }
}
