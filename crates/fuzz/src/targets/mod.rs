//! The table of targets. To add one, add a function here, a row in [`ALL`], a test in `tests/short.rs`, seed files
//! below `corpus/fuzz`, and a program in `libfuzzer`.

mod arguments;
mod kernels;
mod messages;
mod ptx;
mod runs;
mod spaces;
mod suites;

use std::fs;
use std::path::{Path, PathBuf};

use crate::MOST_BYTES;

/// A function that must return for any input, and the places of its seed files.
#[derive(Debug)]
pub struct Target {
    /// The target's name.
    pub name: &'static str,
    /// The function.
    pub run: fn(&[u8]),
    /// Files and folders of files, relative to the repository.
    pub seeds: &'static [&'static str],
    /// Number of inputs of the short run in the tests: about a second.
    pub rounds: u64,
}

/// PTX, loaded and run.
pub const PTX: Target = Target {
    name: "ptx",
    run: ptx::run,
    seeds: &["corpus/fuzz/ptx", "crates/vgpu/tests/files", "crates/vgpu/benches/ptx"],
    rounds: 1200,
};
/// Manifests of kernel families.
pub const MANIFEST: Target = Target {
    name: "manifest",
    run: kernels::manifest,
    seeds: &[
        "corpus/fuzz/manifest",
        "kernels/attention/mma/kernel.toml",
        "kernels/attention/reference/kernel.toml",
        "kernels/attention/wmma/kernel.toml",
    ],
    rounds: 300,
};
/// Tuned tables.
pub const TUNED: Target = Target {
    name: "tuned",
    run: kernels::tuned,
    seeds: &["corpus/fuzz/tuned", "kernels/attention/mma/tuned.toml"],
    rounds: 100,
};
/// Run logs.
pub const RUN_LOG: Target =
    Target { name: "run-log", run: runs::run_log, seeds: &["corpus/fuzz/run-log"], rounds: 60 };
/// Leaderboards.
pub const LEADERBOARD: Target =
    Target { name: "leaderboard", run: runs::leaderboard, seeds: &["corpus/fuzz/leaderboard"], rounds: 600 };
/// Suites.
pub const SUITE: Target = Target {
    name: "suite",
    run: suites::run,
    seeds: &["corpus/fuzz/suite", "crates/attention/suites"],
    rounds: 300,
};
/// Names of problems.
pub const PROBLEM: Target =
    Target { name: "problem", run: suites::problem, seeds: &["corpus/fuzz/problem"], rounds: 300 };
/// Messages of workers.
pub const MESSAGE: Target =
    Target { name: "message", run: messages::run, seeds: &["corpus/fuzz/message"], rounds: 1500 };
/// Recorded search spaces.
pub const SPACE: Target =
    Target { name: "space", run: spaces::run, seeds: &["corpus/fuzz/space"], rounds: 1200 };
/// Kernel arguments.
pub const ARGUMENTS: Target =
    Target { name: "arguments", run: arguments::run, seeds: &["corpus/fuzz/arguments"], rounds: 1200 };

/// Every target.
pub const ALL: [Target; 10] =
    [PTX, MANIFEST, TUNED, RUN_LOG, LEADERBOARD, SUITE, PROBLEM, MESSAGE, SPACE, ARGUMENTS];

impl Target {
    /// The contents of the seed files, in the order of their paths.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files: Vec<PathBuf> = Vec::new();
        for seed in self.seeds {
            let path = root.join(seed);
            match fs::read_dir(&path) {
                Ok(entries) => files.extend(entries.flatten().map(|entry| entry.path())),
                Err(_) => files.push(path),
            }
        }
        files.sort();
        let mut seeds: Vec<Vec<u8>> = files.iter().filter_map(|path| fs::read(path).ok()).collect();
        for seed in &mut seeds {
            seed.truncate(MOST_BYTES);
        }
        seeds
    }
}

/// The bytes as text; invalid UTF-8 is replaced.
fn text(input: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(input)
}
