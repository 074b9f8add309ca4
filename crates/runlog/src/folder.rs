//! The folder of a run, with its log open for writing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::log::{self, Log, LogError, Record, Writer};
use super::{Event, Manifest, RunState, Utc};

/// The default parent folder of runs, relative to the current folder.
pub const DEFAULT_FOLDER: &str = "warpsmith-runs";

/// A run that is open for writing. Threads can share it.
#[derive(Debug)]
pub struct Run {
    folder: PathBuf,
    open: Mutex<OpenLog>,
}

#[derive(Debug)]
struct OpenLog {
    /// `None` if the log is only in memory.
    writer: Option<Writer>,
    log: Log,
}

/// Why a run cannot be created or resumed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The folder for a new run has a log already.
    #[error("{} already holds a run", .0.display())]
    Exists(PathBuf),
    /// The folder has no log.
    #[error("{} holds no run", .0.display())]
    NoRun(PathBuf),
    /// The log has no manifest.
    #[error("the run in {} was stopped before it started", .0.display())]
    NeverBegan(PathBuf),
    /// The run needs no resuming.
    #[error("the run in {} is finished", .0.display())]
    Finished(PathBuf),
    /// The run was made by another command or on another GPU. `what` is `by` or `on`.
    #[error(
        "cannot resume this run: it was made {what} {then}, and this is {now}; their times are not comparable"
    )]
    Other {
        /// The word between `made` and the difference: `by` a command, `on` a GPU.
        what: &'static str,
        /// The command or GPU of the recorded run.
        then: String,
        /// The command or GPU of this invocation.
        now: String,
    },
    /// The folder or a file in it cannot be written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The manifest cannot be serialised.
    #[error("the manifest cannot be written: {0}")]
    Manifest(String),
    /// The log cannot be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl RunError {
    /// Advice for a `hint:` line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            RunError::Exists(_) => Some("add --resume to resume the run, or choose another --run-dir"),
            RunError::Finished(_) | RunError::NeverBegan(_) => Some("start a new run"),
            RunError::NoRun(_) => Some("`warpsmith runs` lists the runs"),
            RunError::Log(LogError::Busy { .. }) => {
                Some("wait until the other process ends, or choose another --run-dir")
            }
            _ => None,
        }
    }
}

impl Run {
    /// Creates the folder of a new run, at `folder` or below [`DEFAULT_FOLDER`], and starts its log.
    pub fn create(folder: Option<&Path>, manifest: Manifest) -> Result<Self, RunError> {
        let folder =
            folder.map_or_else(|| Path::new(DEFAULT_FOLDER).join(folder_name(&manifest)), Path::to_owned);
        if folder.join(log::FILE).exists() {
            return Err(RunError::Exists(folder));
        }
        fs::create_dir_all(&folder).map_err(|error| RunError::Io { path: folder.clone(), error })?;
        let writer = Writer::create(&folder)?;
        let yaml =
            serde_saphyr::to_string(&manifest).map_err(|error| RunError::Manifest(error.to_string()))?;
        let run = Run { folder, open: Mutex::new(OpenLog { writer: Some(writer), log: Log::default() }) };
        let path = run.folder.join("manifest.yaml");
        files::write_atomically(&path, yaml.as_bytes()).map_err(|error| RunError::Io { path, error })?;
        run.record(&Event::RunStarted { manifest: Box::new(manifest) })?;
        Ok(run)
    }

    /// Resumes a run that was stopped. `manifest` describes the current invocation; its command and GPU must be those
    /// of the run.
    pub fn resume(folder: &Path, manifest: Manifest) -> Result<Self, RunError> {
        if !folder.join(log::FILE).exists() {
            return Err(RunError::NoRun(folder.to_owned()));
        }
        let (writer, log) = Writer::resume(folder)?;
        let state = RunState::from_log(&log);
        let Some(then) = &state.manifest else {
            return Err(RunError::NeverBegan(folder.to_owned()));
        };
        if state.is_complete() {
            return Err(RunError::Finished(folder.to_owned()));
        }
        let gpu = |manifest: &Manifest| manifest.gpu.known().cloned();
        let differ = |what, then: &dyn std::fmt::Display, now: &dyn std::fmt::Display| {
            Err(RunError::Other { what, then: then.to_string(), now: now.to_string() })
        };
        if then.command != manifest.command {
            return differ("by", &then.command, &manifest.command);
        }
        if gpu(then) != gpu(&manifest) {
            return differ("on", &then.gpu, &manifest.gpu);
        }
        let open = OpenLog { writer: Some(writer), log };
        let run = Run { folder: folder.to_owned(), open: Mutex::new(open) };
        run.record(&Event::Resumed { manifest: Box::new(manifest) })?;
        Ok(run)
    }

    /// A run whose log is only in memory, for work whose details are not kept. `folder` is for its files.
    pub fn in_memory(folder: &Path) -> Self {
        let open = OpenLog { writer: None, log: Log::default() };
        Run { folder: folder.to_owned(), open: Mutex::new(open) }
    }

    /// The folder of the run.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends an event to the log. After this returns, the event survives the end of the process.
    pub fn record(&self, event: &Event) -> Result<(), LogError> {
        let mut open = self.open();
        let record = match &mut open.writer {
            Some(writer) => writer.append(event)?,
            None => Record::unwritten(open.log.records.len() as u64, event),
        };
        open.log.records.push(record);
        Ok(())
    }

    /// The state of the run, from the events so far.
    pub fn state(&self) -> RunState {
        RunState::from_log(&self.open().log)
    }

    /// Locks the log. A poisoned lock is accepted: a thread that panicked has either written its event or not, so the
    /// log is valid.
    fn open(&self) -> MutexGuard<'_, OpenLog> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `20261115T054710Z-bench-1f3a9c`. Names sort by time, and two runs that start in the same second have different
/// names.
fn folder_name(manifest: &Manifest) -> String {
    let mut random = random::Random::new(
        u64::from(std::process::id()) << 32 ^ Utc::now().millis_since_epoch().cast_unsigned(),
    );
    format!("{}-{}-{:06x}", manifest.started.compact(), manifest.command, random.bits() & 0x00ff_ffff)
}

#[cfg(test)]
mod tests {
    use super::super::{Fact, RunOutcome, Stage, StageKey, StageOutcome};
    use super::*;

    fn manifest(gpu: &str) -> Manifest {
        Manifest { gpu: Fact::Known(gpu.to_owned()), ..Manifest::new("bench", vec![], 1) }
    }

    #[test]
    fn a_stopped_run_can_be_resumed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("runs/one");
        let (done, open) =
            (StageKey::new(Stage::Bench, "p", "a", "1"), StageKey::new(Stage::Bench, "p", "b", "2"));
        {
            let run = Run::create(Some(&folder), manifest("H200")).unwrap();
            run.record(&Event::StageStarted { key: done.clone() }).unwrap();
            run.record(&Event::StageFinished { key: done.clone(), outcome: StageOutcome::Done }).unwrap();
            run.record(&Event::StageStarted { key: open.clone() }).unwrap();
        }
        assert!(fs::read_to_string(folder.join("manifest.yaml")).unwrap().contains("gpu: H200"));
        assert!(matches!(Run::create(Some(&folder), manifest("H200")), Err(RunError::Exists(_))));
        assert!(matches!(Run::resume(&folder, manifest("L4")), Err(RunError::Other { what: "on", .. })));
        let other = Manifest { command: "evolve".to_owned(), ..manifest("H200") };
        assert!(matches!(Run::resume(&folder, other), Err(RunError::Other { what: "by", .. })));

        let run = Run::resume(&folder, manifest("H200")).unwrap();
        assert!(run.state().finished(&done) && !run.state().finished(&open));
        assert!(matches!(Run::resume(&folder, manifest("H200")), Err(RunError::Log(LogError::Busy { .. }))));
        run.record(&Event::RunFinished { outcome: RunOutcome::Success }).unwrap();
        drop(run);
        assert!(matches!(Run::resume(&folder, manifest("H200")), Err(RunError::Finished(_))));
    }

    #[test]
    fn a_run_without_a_manifest_cannot_be_resumed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Run::resume(folder.path(), manifest("L4")), Err(RunError::NoRun(_))));
        fs::write(folder.path().join(log::FILE), "{\"schema\":1,").unwrap();
        assert!(matches!(Run::resume(folder.path(), manifest("L4")), Err(RunError::NeverBegan(_))));
    }

    #[test]
    fn a_folder_name_has_the_time_and_the_command() {
        let manifest = manifest("L4");
        let (one, two) =
            (folder_name(&manifest), folder_name(&Manifest { command: "gate".into(), ..manifest.clone() }));
        assert!(one.starts_with(&format!("{}-bench-", manifest.started.compact())), "{one}");
        assert!(two.contains("-gate-"));
    }

    #[test]
    fn threads_can_share_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::create(Some(&folder.path().join("r")), manifest("L4")).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let run = &run;
                scope.spawn(move || {
                    for index in 0..25 {
                        run.record(&Event::Note { text: format!("{thread} {index}") }).unwrap();
                    }
                });
            }
        });
        assert_eq!(log::read(run.folder()).unwrap().records.len(), 101);
    }
}
