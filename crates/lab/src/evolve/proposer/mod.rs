//! Proposers from outside: a program, or a chat endpoint, that is shown a search and answers with a candidate.
//!
//! [`prompt`] makes the question out of what the search knows, as much of it as the [`Information`] allows;
//! [`command`] and [`endpoint`] get it answered, within a time and a length; [`answer`] reads what came back and
//! [`screen`] looks a proposed source over. Everything after that is the search's own: an answer is data from a
//! stranger until its candidate has been through every stage.

pub(super) mod answer;
mod command;
mod endpoint;
pub(super) mod prompt;
pub mod redact;
pub(super) mod screen;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use endpoint::Endpoint;

/// Who says what to try next.
#[derive(Clone, Debug)]
pub enum Proposer {
    /// The plan's strategy, from the family's knobs.
    Knobs,
    External(ExternalProposer),
}

#[derive(Clone, Debug)]
pub struct ExternalProposer {
    pub voice: ProposerTransport,
    pub information: Information,
    /// For one answer, retries included.
    pub limit: Duration,
}

#[derive(Clone, Debug)]
pub enum ProposerTransport {
    /// A command line for `sh -c`: the prompt on its stdin, the answer on its stdout.
    Command(String),
    Endpoint(Endpoint),
}

/// What a proposer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Information {
    /// The task.
    Free,
    /// The task, and insights from results.
    Insight,
    /// The task, past good solutions, and insights.
    Full,
}

impl Information {
    pub fn name(self) -> &'static str {
        match self {
            Information::Free => "free",
            Information::Insight => "insight",
            Information::Full => "full",
        }
    }
}

/// Why there is no answer to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProposerError {
    /// The search is to stop.
    Stopped,
    /// A program that asking takes is not there.
    NotThere { program: &'static str, error: String },
    /// It was asked, and this is what became of it. `heard` is what it said so far.
    Silent { reason: String, heard: String },
}

impl ExternalProposer {
    /// As the log has it.
    pub(super) fn name(&self) -> &'static str {
        match self.voice {
            ProposerTransport::Command(_) => "command",
            ProposerTransport::Endpoint(_) => "endpoint",
        }
    }

    /// Finds out before anything is timed whether it can be asked at all.
    pub(super) fn ready(&self) -> Result<(), ProposerError> {
        match &self.voice {
            ProposerTransport::Command(_) => Ok(()),
            ProposerTransport::Endpoint(_) => endpoint::ready(),
        }
    }

    /// Asks and waits. `folder` is for files that live as long as the question.
    pub(super) fn ask(
        &self,
        prompt: &serde_json::Value,
        folder: &Path,
        stop: &AtomicBool,
    ) -> Result<String, ProposerError> {
        match &self.voice {
            ProposerTransport::Command(line) => command::ask(line, prompt, self.limit, stop),
            ProposerTransport::Endpoint(endpoint) => endpoint.ask(prompt, folder, self.limit, stop),
        }
    }
}
