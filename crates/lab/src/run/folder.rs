//! A run's folder, with its log open for writing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::log::{self, Log, LogError, Record, Writer};
use super::{Event, Manifest, RunState, Utc};

/// Where runs go unless a place is named, below the current folder.
pub const DEFAULT_FOLDER: &str = "warpsmith-runs";

/// A run that is being written. It can be shared by threads.
#[derive(Debug)]
pub struct Run {
    folder: PathBuf,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    /// `None`: nothing is kept beyond the process.
    writer: Option<Writer>,
    log: Log,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{} already holds a run", .0.display())]
    Exists(PathBuf),
    #[error("{} holds no run", .0.display())]
    NoRun(PathBuf),
    #[error("the run in {} was stopped before it had begun", .0.display())]
    NeverBegan(PathBuf),
    #[error("the run in {} is finished", .0.display())]
    Finished(PathBuf),
    #[error("the run was made {what} {then}, this is {now}: their times must not get into one table")]
    Other { what: &'static str, then: String, now: String },
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("the manifest cannot be written: {0}")]
    Manifest(String),
    #[error(transparent)]
    Log(#[from] LogError),
}

impl RunError {
    /// What to do about it, for a `hint:` line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            RunError::Exists(_) => Some("add --resume to go on with it, or name another --run-dir"),
            RunError::Finished(_) | RunError::NeverBegan(_) => Some("start a new run"),
            RunError::NoRun(_) => Some("`warpsmith runs` lists the runs there are"),
            RunError::Log(LogError::Busy { .. }) => Some("wait for it, or name another --run-dir"),
            _ => None,
        }
    }
}

impl Run {
    /// Makes a folder for a new run, at `folder` or below [`DEFAULT_FOLDER`], and begins its log.
    pub fn create(folder: Option<&Path>, manifest: Manifest) -> Result<Self, RunError> {
        let folder = folder.map_or_else(|| Path::new(DEFAULT_FOLDER).join(name(&manifest)), Path::to_owned);
        if folder.join(log::FILE).exists() {
            return Err(RunError::Exists(folder));
        }
        fs::create_dir_all(&folder).map_err(|error| RunError::Io { path: folder.clone(), error })?;
        let writer = Writer::create(&folder)?;
        let yaml =
            serde_saphyr::to_string(&manifest).map_err(|error| RunError::Manifest(error.to_string()))?;
        let run = Run { folder, open: Mutex::new(Open { writer: Some(writer), log: Log::default() }) };
        let path = run.folder.join("manifest.yaml");
        gpu::paths::write_atomically(&path, yaml.as_bytes()).map_err(|error| RunError::Io { path, error })?;
        run.record(&Event::RunStarted { manifest: Box::new(manifest) })?;
        Ok(run)
    }

    /// Goes on with a run that was stopped; `manifest` is of now, and must be of the same command on the same GPU.
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
        let on = |manifest: &Manifest| manifest.gpu.known().cloned();
        let differ = |what, then: &dyn std::fmt::Display, now: &dyn std::fmt::Display| {
            Err(RunError::Other { what, then: then.to_string(), now: now.to_string() })
        };
        if then.command != manifest.command {
            return differ("by", &then.command, &manifest.command);
        }
        if on(then) != on(&manifest) {
            return differ("on", &then.gpu, &manifest.gpu);
        }
        let open = Open { writer: Some(writer), log };
        let run = Run { folder: folder.to_owned(), open: Mutex::new(open) };
        run.record(&Event::Resumed { manifest: Box::new(manifest) })?;
        Ok(run)
    }

    /// A run whose log is in memory alone, for work of which only the conclusion is kept. `folder` is for its files.
    pub fn in_memory(folder: &Path) -> Self {
        let open = Open { writer: None, log: Log::default() };
        Run { folder: folder.to_owned(), open: Mutex::new(open) }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes an event; once this returns, the event survives the process.
    pub fn record(&self, event: &Event) -> Result<(), LogError> {
        let mut open = self.open();
        let record = match &mut open.writer {
            Some(writer) => writer.append(event)?,
            None => Record::unwritten(open.log.records.len() as u64, event),
        };
        open.log.records.push(record);
        Ok(())
    }

    /// What the log says so far.
    pub fn state(&self) -> RunState {
        RunState::from_log(&self.open().log)
    }

    /// A thread that panicked while it held the log has either written its event or not: the log is fine.
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `20261115T054710Z-bench-1f3a9c`: sorts by time, and two that start in one second differ.
fn name(manifest: &Manifest) -> String {
    let mut random = gpu::launch::Random::new(
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
    fn a_stopped_run_goes_on_where_it_was() {
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
        run.record(&Event::RunFinished { outcome: RunOutcome::Holds }).unwrap();
        drop(run);
        assert!(matches!(Run::resume(&folder, manifest("H200")), Err(RunError::Finished(_))));
    }

    #[test]
    fn a_run_stopped_before_it_began_is_no_run() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Run::resume(folder.path(), manifest("L4")), Err(RunError::NoRun(_))));
        fs::write(folder.path().join(log::FILE), "{\"schema\":1,").unwrap();
        assert!(matches!(Run::resume(folder.path(), manifest("L4")), Err(RunError::NeverBegan(_))));
    }

    #[test]
    fn names_sort_by_time_and_differ() {
        let manifest = manifest("L4");
        let (one, two) = (name(&manifest), name(&Manifest { command: "gate".into(), ..manifest.clone() }));
        assert!(one.starts_with(&format!("{}-bench-", manifest.started.compact())), "{one}");
        assert!(two.contains("-gate-"));
    }

    #[test]
    fn threads_may_share_a_run() {
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
