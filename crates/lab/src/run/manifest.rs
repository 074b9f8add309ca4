//! Where, with what and how a run happened.

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::{Fact, Utc};

/// Everything a reader needs to judge a run's numbers, or to repeat it. Written as `manifest.yaml` and into the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub schema: u32,
    /// The command's name: `bench`.
    pub command: String,
    pub command_line: Vec<String>,
    pub started: Utc,
    pub seed: u64,
    /// Warpsmith's own version.
    pub warpsmith: String,
    /// Of the repository the command was called in.
    #[serde(default)]
    pub commit: Fact<Commit>,
    /// As users name it: `cuda:0`, `virtual:l4`.
    #[serde(default)]
    pub device: Fact<String>,
    /// The GPU's own name. Results are compared only where this is the same.
    #[serde(default)]
    pub gpu: Fact<String>,
    #[serde(default)]
    pub driver: Fact<String>,
    #[serde(default)]
    pub sm_clock_mhz: Fact<u32>,
    #[serde(default)]
    pub sm_clock_max_mhz: Fact<u32>,
    #[serde(default)]
    pub memory_clock_mhz: Fact<u32>,
    #[serde(default)]
    pub memory_clock_max_mhz: Fact<u32>,
    #[serde(default)]
    pub cuda: Fact<String>,
    #[serde(default)]
    pub nvrtc: Fact<String>,
    #[serde(default)]
    pub pytorch: Fact<String>,
    #[serde(default)]
    pub triton: Fact<String>,
    #[serde(default)]
    pub cudnn: Fact<String>,
    /// What restricts the processes that compile and run kernels.
    #[serde(default)]
    pub sandbox: Fact<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    pub hash: String,
    /// Whether there were changes beside it.
    pub dirty: bool,
}

impl Manifest {
    /// What is known without looking; the rest is `unavailable` until the caller says it.
    pub fn new(command: &str, command_line: Vec<String>, seed: u64) -> Self {
        Manifest {
            schema: super::SCHEMA,
            command: command.to_owned(),
            command_line,
            started: Utc::now(),
            seed,
            warpsmith: env!("CARGO_PKG_VERSION").to_owned(),
            commit: Fact::default(),
            device: Fact::default(),
            gpu: Fact::default(),
            driver: Fact::default(),
            sm_clock_mhz: Fact::default(),
            sm_clock_max_mhz: Fact::default(),
            memory_clock_mhz: Fact::default(),
            memory_clock_max_mhz: Fact::default(),
            cuda: Fact::default(),
            nvrtc: Fact::default(),
            pytorch: Fact::default(),
            triton: Fact::default(),
            cudnn: Fact::default(),
            sandbox: Fact::default(),
        }
    }
}

impl Commit {
    /// The commit a folder's repository is at, as `git` says.
    pub fn read(folder: &Path) -> Fact<Commit> {
        let git = |arguments: &[&str]| -> Result<String, String> {
            let output = Command::new("git").arg("-C").arg(folder).args(arguments).output();
            let output = output.map_err(|error| format!("git: {error}"))?;
            if !output.status.success() {
                let words = String::from_utf8_lossy(&output.stderr);
                return Err(words.lines().next().unwrap_or("git failed").to_owned());
            }
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let commit = || -> Result<Commit, String> {
            let hash = git(&["rev-parse", "HEAD"])?;
            Ok(Commit { hash, dirty: !git(&["status", "--porcelain"])?.is_empty() })
        };
        commit().into()
    }
}

impl std::fmt::Display for Commit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.hash, if self.dirty { " with changes" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_there_and_says_so_when_unknown() {
        let mut manifest = Manifest::new("bench", vec!["warpsmith".into(), "bench".into()], 7);
        manifest.gpu = Fact::Known("NVIDIA H200".to_owned());
        manifest.pytorch = Fact::unavailable("no torch");
        let yaml = serde_saphyr::to_string(&manifest).unwrap();
        for line in ["gpu: NVIDIA H200", "driver: unavailable", "commit: unavailable", "seed: 7"] {
            assert!(yaml.lines().any(|found| found == line), "{line}\n{yaml}");
        }
        assert!(yaml.contains("unavailable: no torch"), "{yaml}");
        // SPEC.md 9's list, all of it.
        for field in [
            "gpu",
            "driver",
            "sm_clock_mhz",
            "cuda",
            "nvrtc",
            "pytorch",
            "triton",
            "cudnn",
            "commit",
            "seed",
            "command_line",
        ] {
            assert!(yaml.lines().any(|line| line.starts_with(&format!("{field}:"))), "{field}\n{yaml}");
        }
        let back: Manifest = serde_json::from_str(&serde_json::to_string(&manifest).unwrap()).unwrap();
        assert_eq!(back, manifest);
    }

    #[test]
    fn a_folder_without_a_repository_has_no_commit() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Commit::read(folder.path()).known().is_none());
    }
}
