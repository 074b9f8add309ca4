//! What head and workers tell each other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What all tasks of a job have in common. A worker that has read it can do every task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The job's name, which is that of its run. See [`is_job_name`].
    pub name: String,
    /// The build of the program that workers must have.
    pub program: Program,
    /// What the tasks have in common, for the command.
    pub common: Value,
    /// Texts that workers need as files: their paths, relative to a folder of their own, and contents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<(String, String)>,
}

/// The most bytes of a job's name.
const LONGEST_NAME: usize = 200;

/// Whether a job may have this name. Names are parts of paths, and other programs can write them.
pub fn is_job_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !name.is_empty() && name.len() <= LONGEST_NAME && !name.starts_with('.') && name.chars().all(is_allowed)
}

/// The build of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The version of the package.
    pub version: String,
    /// The architecture of the processor.
    pub architecture: String,
    /// The hash of the program's file.
    pub hash: String,
}

impl Program {
    /// The running program.
    pub fn running(version: &str) -> std::io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        std::io::copy(&mut std::fs::File::open(std::env::current_exe()?)?, &mut hasher)?;
        Ok(Program {
            version: version.to_owned(),
            architecture: std::env::consts::ARCH.to_owned(),
            hash: hasher.finalize().to_hex()[..16].to_owned(),
        })
    }

    /// Whether answers of both builds may be mixed. Builds for different processors have different hashes.
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.version == other.version && (self.architecture != other.architecture || self.hash == other.hash)
    }
}

/// One piece of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The number in its job.
    pub number: u32,
    /// What is to be done, for the command.
    pub payload: Value,
}

/// What became of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The worker's answer.
    Done(Value),
    /// The worker could not do the task, and says why. Another one may be able to.
    Failed(String),
    /// The worker stops and gives the task back.
    Released,
    /// The workers that tried it were lost, this many of them.
    Lost(u32),
}

/// The answer to a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What became of it.
    pub outcome: Outcome,
    /// The worker, empty if there is none.
    pub worker: String,
    /// The machine of the worker.
    pub host: String,
    /// How long the worker took.
    pub seconds: f64,
}

/// What a worker says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerFacts {
    /// The worker's name, which no other worker has.
    pub name: String,
    /// The machine.
    pub host: String,
    /// The device: `virtual:h200`, `cuda:0 NVIDIA H200`.
    pub device: String,
    /// How many tasks it has done.
    pub done: u32,
    /// The job and the task that it does now.
    pub now: Option<(String, u32)>,
    /// The jobs that it does not work for, and why.
    pub refuses: BTreeMap<String, String>,
    /// It counts up as long as the worker lives.
    pub beat: u64,
}

#[cfg(test)]
mod tests {
    use super::is_job_name;

    #[test]
    fn names_of_jobs_are_plain_parts_of_paths() {
        for name in ["a", "20260101-120000-evolve-1a2b", "run_1.x"] {
            assert!(is_job_name(name), "{name}");
        }
        for name in ["", ".", "..", ".hidden", "a/b", "a b", "a%2f", "a\n", "ä", &"x".repeat(201)] {
            assert!(!is_job_name(name), "{name}");
        }
    }
}
