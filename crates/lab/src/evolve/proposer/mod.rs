//! External proposers: a program or a chat endpoint that reads the state of a search and answers with a candidate.
//!
//! [`prompt`] builds the prompt from the results of the search, as far as the [`Information`] allows. [`command`] and
//! [`endpoint`] get an answer within limits of time and length. [`answer`] parses it, and [`screen`] checks a proposed
//! source. The search does the rest: an answer is untrusted until its candidate has passed every stage.

pub(super) mod answer;
mod command;
mod endpoint;
pub(super) mod prompt;
pub mod redact;
pub(super) mod screen;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use endpoint::Endpoint;
pub use prompt::Prompt;

/// What chooses the next candidate.
#[derive(Clone, Debug)]
pub enum Proposer {
    /// The plan's strategy, which chooses among the family's settings.
    Knobs,
    /// A program or a chat endpoint.
    External(ExternalProposer),
}

/// A program or a chat endpoint, with what it is told and its time limit.
#[derive(Clone, Debug)]
pub struct ExternalProposer {
    /// How the proposer is reached.
    pub transport: ProposerTransport,
    /// What the proposer is told.
    pub information: Information,
    /// Whether prompts leave out the headers of the op and all but the latest results.
    pub is_compact: bool,
    /// The time for one answer, including retries.
    pub limit: Duration,
}

/// How an external proposer is reached.
#[derive(Clone, Debug)]
pub enum ProposerTransport {
    /// A program.
    Command(ProposerProgram),
    /// A chat endpoint.
    Endpoint(Endpoint),
}

/// A program that reads the prompt from stdin and writes the answer to stdout.
#[derive(Clone, Debug)]
pub struct ProposerProgram {
    /// The command line for `sh -c`.
    pub line: String,
    /// Whether it may use the network.
    pub network: bool,
    /// Folders that it may read and write, in addition to reading those of the files on its command line.
    pub folders: Vec<PathBuf>,
}

/// What a proposer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Information {
    /// The task only.
    Free,
    /// The task, and insights from the results.
    Insight,
    /// The task, the best earlier candidates, and insights.
    Full,
}

impl Information {
    /// The value's name, as in `--information` and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Information::Free => "free",
            Information::Insight => "insight",
            Information::Full => "full",
        }
    }
}

/// Why there is no answer to parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProposerError {
    /// The search was asked to stop.
    Stopped,
    /// A program that is needed to reach the proposer cannot be started.
    MissingProgram { program: &'static str, error: String },
    /// The proposer gave no answer. `output` is what it had written so far.
    NoAnswer { reason: String, output: String },
}

impl ExternalProposer {
    /// The proposer's name in the log.
    pub(super) fn name(&self) -> &'static str {
        match self.transport {
            ProposerTransport::Command(_) => "command",
            ProposerTransport::Endpoint(_) => "endpoint",
        }
    }

    /// Checks that the proposer can be reached. This runs before anything is timed.
    pub(super) fn check_available(&self) -> Result<(), ProposerError> {
        match &self.transport {
            ProposerTransport::Command(_) => Ok(()),
            ProposerTransport::Endpoint(_) => endpoint::check_curl(),
        }
    }

    /// Sends the prompt and waits for the answer. `folder` holds temporary files.
    pub(super) fn ask(
        &self,
        prompt: &serde_json::Value,
        folder: &Path,
        stop: &AtomicBool,
    ) -> Result<String, ProposerError> {
        match &self.transport {
            ProposerTransport::Command(program) => command::ask(program, prompt, self.limit, stop),
            ProposerTransport::Endpoint(endpoint) => endpoint.ask(prompt, folder, self.limit, stop),
        }
    }
}
