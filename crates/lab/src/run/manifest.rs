//! The manifest of a run: its environment and its command line.

use std::path::Path;
use std::process::Command;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fact, Utc};

/// Everything that is needed to judge the numbers of a run, or to repeat it. It is written to `manifest.yaml` and to
/// the log.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the log's format.
    pub schema: u32,
    /// The command's name: `bench`.
    pub command: String,
    /// The whole command line, without secrets.
    pub command_line: Vec<String>,
    /// When the run started.
    pub started: Utc,
    /// The value of `--seed`.
    pub seed: u64,
    /// Warpsmith's own version.
    pub warpsmith: String,
    /// The commit of the repository in the current folder.
    #[serde(default)]
    pub commit: Fact<Commit>,
    /// The device in the form that users write: `cuda:0`, `virtual:l4`.
    #[serde(default)]
    pub device: Fact<String>,
    /// The name of the GPU. Only results with the same name are compared.
    #[serde(default)]
    pub gpu: Fact<String>,
    /// The version of the driver.
    #[serde(default)]
    pub driver: Fact<String>,
    /// The SM clock at the start.
    #[serde(default)]
    pub sm_clock_mhz: Fact<u32>,
    /// The highest SM clock.
    #[serde(default)]
    pub sm_clock_max_mhz: Fact<u32>,
    /// The memory clock at the start.
    #[serde(default)]
    pub memory_clock_mhz: Fact<u32>,
    /// The highest memory clock.
    #[serde(default)]
    pub memory_clock_max_mhz: Fact<u32>,
    /// The CUDA version of the driver.
    #[serde(default)]
    pub cuda: Fact<String>,
    /// The version of NVRTC.
    #[serde(default)]
    pub nvrtc: Fact<String>,
    /// The version of PyTorch.
    #[serde(default)]
    pub pytorch: Fact<String>,
    /// The version of Triton.
    #[serde(default)]
    pub triton: Fact<String>,
    /// The version of cuDNN.
    #[serde(default)]
    pub cudnn: Fact<String>,
    /// The sandbox of the processes that compile and run kernels.
    #[serde(default)]
    pub sandbox: Fact<String>,
}

/// A commit of a Git repository.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Commit {
    /// The commit's hash.
    pub hash: String,
    /// Whether there were uncommitted changes.
    pub dirty: bool,
}

impl Manifest {
    /// A manifest with the given values. All facts about the environment are `unavailable` until the caller sets them.
    pub fn new(command: &str, command_line: Vec<String>, seed: u64) -> Self {
        Manifest {
            schema: super::stage::SCHEMA,
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
    /// The current commit of the repository that contains a folder, according to `git`.
    pub fn read(folder: &Path) -> Fact<Commit> {
        let git = |arguments: &[&str]| -> Result<String, String> {
            let output = Command::new("git").arg("-C").arg(folder).args(arguments).output();
            let output = output.map_err(|error| format!("git: {error}"))?;
            if !output.status.success() {
                let stderr = String::from_utf8_lossy(&output.stderr);
                return Err(stderr.lines().next().unwrap_or("git failed").to_owned());
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
        write!(f, "{}{}", self.hash, if self.dirty { " with uncommitted changes" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_written_and_unknown_ones_are_unavailable() {
        let mut manifest = Manifest::new("bench", vec!["warpsmith".into(), "bench".into()], 7);
        manifest.gpu = Fact::Known("NVIDIA H200".to_owned());
        manifest.pytorch = Fact::unavailable("no torch");
        let yaml = serde_saphyr::to_string(&manifest).unwrap();
        for line in ["gpu: NVIDIA H200", "driver: unavailable", "commit: unavailable", "seed: 7"] {
            assert!(yaml.lines().any(|found| found == line), "{line}\n{yaml}");
        }
        assert!(yaml.contains("unavailable: no torch"), "{yaml}");
        // The fields that section 9 of SPEC.md requires.
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
