//! The log file: appends events, and reads logs whose writer may have been killed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stage::SCHEMA;
use super::{Event, Utc};

pub(super) const FILE: &str = "events.jsonl";

/// The largest log that is read, in bytes.
const MAX_BYTES: u64 = 512 << 20;

/// A line of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The number of the line, from 0.
    pub seq: u64,
    /// When the line was written.
    pub time: Utc,
    /// The event's kind as written, known or not.
    pub kind: String,
    /// The event.
    pub event: Event,
}

impl Record {
    /// The record of an event in a log that is only in memory.
    pub(super) fn unwritten(seq: u64, event: &Event) -> Self {
        Record { seq, time: Utc::now(), kind: String::new(), event: event.clone() }
    }
}

/// The contents of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// The complete lines.
    pub records: Vec<Record>,
    /// Defects that do not prevent reading.
    pub warnings: Vec<Warning>,
    /// The length of the complete lines in bytes.
    complete_bytes: u64,
}

/// A defect of a log that does not prevent reading.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// The writer was stopped while it wrote a line.
    #[error("line {line} is incomplete after {bytes} bytes and was dropped: the writer was stopped")]
    Torn {
        /// Line number, from 1.
        line: usize,
        /// Length of the incomplete line in bytes.
        bytes: usize,
    },
    /// A newer version wrote the event.
    #[error("line {line}: the event `{kind}` is from a newer version and was skipped")]
    UnknownKind {
        /// Line number, from 1.
        line: usize,
        /// The unknown kind.
        kind: String,
    },
}

/// Why a log cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The log file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Another process holds the lock.
    #[error("{} is being written by another process", path.display())]
    Busy {
        /// The log file.
        path: PathBuf,
    },
    /// A line is not valid.
    #[error("{}, line {line}: {message}", path.display())]
    Damaged {
        /// The log file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What is wrong with the line.
        message: String,
    },
    /// A line has a newer schema.
    #[error("{}, line {line}: from a newer version (schema {schema}; this program reads {SCHEMA})", path.display())]
    Newer {
        /// The log file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The schema of the line.
        schema: u32,
    },
    /// The event cannot be written so that it can be read again.
    #[error("the event cannot be written: {0}")]
    Event(String),
}

#[derive(Deserialize)]
struct Head {
    schema: u32,
    seq: u64,
    time: Utc,
    kind: String,
}

/// One line of the log.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Line<'e> {
    schema: u32,
    seq: u64,
    time: Utc,
    #[serde(flatten)]
    event: &'e Event,
}

/// Reads the log of a run's folder. An incomplete last line is dropped with a warning; any other damage is an error.
pub fn read(folder: &Path) -> Result<Log, LogError> {
    let path = folder.join(FILE);
    let bytes =
        files::read_bounded(&path, MAX_BYTES).map_err(|error| LogError::Io { path: path.clone(), error })?;
    parse(&path, &bytes)
}

/// Parses the bytes of a log. `path` is the file's name in errors.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Log, LogError> {
    let mut log = Log::default();
    let mut rest = bytes;
    let mut line = 0;
    while !rest.is_empty() {
        line += 1;
        let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
            log.warnings.push(Warning::Torn { line, bytes: rest.len() });
            break;
        };
        let record = parse_line(path, line, &rest[..end])?;
        if record.event == Event::Unknown {
            log.warnings.push(Warning::UnknownKind { line, kind: record.kind.clone() });
        }
        log.records.push(record);
        rest = &rest[end + 1..];
        log.complete_bytes += end as u64 + 1;
    }
    Ok(log)
}

fn parse_line(path: &Path, line: usize, bytes: &[u8]) -> Result<Record, LogError> {
    let damaged = |message: String| LogError::Damaged { path: path.to_owned(), line, message };
    // The head is parsed first, so that a newer schema is reported as newer and not as damage.
    let head: Head = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    if head.schema > SCHEMA {
        return Err(LogError::Newer { path: path.to_owned(), line, schema: head.schema });
    }
    if head.seq != line as u64 - 1 {
        return Err(damaged(format!("event number {} where {} was expected", head.seq, line - 1)));
    }
    let event: Event =
        serde_json::from_slice(bytes).map_err(|error| damaged(format!("{}: {error}", head.kind)))?;
    if let Some(message) = event.find_invalid_number() {
        return Err(damaged(format!("{}: {message}", head.kind)));
    }
    Ok(Record { seq: head.seq, time: head.time, kind: head.kind, event })
}

/// A log that is open for appending. It is locked against other writers until this value is dropped or the process
/// ends.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
    next: u64,
}

impl Writer {
    /// Starts a log in a folder that has none.
    pub fn create(folder: &Path) -> Result<Self, LogError> {
        let path = folder.join(FILE);
        let io = |error| LogError::Io { path: path.clone(), error };
        let file = OpenOptions::new().append(true).create_new(true).open(&path).map_err(io)?;
        lock(&file, &path)?;
        // The folder is synced too, so that the file's entry survives a power failure.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)?;
        Ok(Writer { path, file, next: 0 })
    }

    /// Opens a log to continue after its last complete line. An incomplete last line is removed.
    pub fn resume(folder: &Path) -> Result<(Self, Log), LogError> {
        let path = folder.join(FILE);
        let io = |error| LogError::Io { path: path.clone(), error };
        let mut file = OpenOptions::new().read(true).append(true).open(&path).map_err(io)?;
        refuse_link(&file, &path).map_err(io)?;
        lock(&file, &path)?;
        let bytes = file.seek(SeekFrom::Start(0)).and_then(|_| files::bounded(&mut file, MAX_BYTES));
        let bytes = bytes.map_err(io)?;
        let log = parse(&path, &bytes)?;
        if log.complete_bytes < bytes.len() as u64 {
            file.set_len(log.complete_bytes).map_err(io)?;
        }
        let next = log.records.len() as u64;
        Ok((Writer { path, file, next }, log))
    }

    /// Appends an event with a single write. An event whose loss would lose work is on the disk before this returns.
    pub fn append(&mut self, event: &Event) -> Result<Record, LogError> {
        let time = Utc::now();
        let line = Line { schema: SCHEMA, seq: self.next, time, event };
        let mut bytes = serde_json::to_vec(&line).map_err(|error| LogError::Event(error.to_string()))?;
        // An event that cannot be read back (for example, a NaN becomes null) must not be written: the log must stay
        // readable.
        let record = parse_line(&self.path, self.next as usize + 1, &bytes)
            .map_err(|error| LogError::Event(error.to_string()))?;
        bytes.push(b'\n');
        let io = |error| LogError::Io { path: self.path.clone(), error };
        let before = self.file.metadata().map_err(io)?.len();
        if let Err(error) = self.file.write_all(&bytes) {
            // A full disk can leave part of a line. It is removed, so that writing can continue when there is space. If
            // that fails too, the part is the last line, which readers drop.
            let _ = self.file.set_len(before);
            return Err(io(error));
        }
        if event.is_milestone() {
            self.file.sync_data().map_err(io)?;
        }
        self.next += 1;
        Ok(record)
    }
}

impl Drop for Writer {
    /// Closing the file is not enough: a process that another thread is just starting has a copy of the descriptor until
    /// it executes its program, and the copy would keep the lock.
    fn drop(&mut self) {
        // A lock that cannot be released ends with the last copy.
        let _ = self.file.unlock();
    }
}

/// Refuses a log that is a symbolic link. The folder may come from somebody else, and an appended line would change the
/// file that the link names. The opened file is compared with the entry, which may have changed in between.
fn refuse_link(file: &File, path: &Path) -> io::Result<()> {
    let (entry, opened) = (fs::symlink_metadata(path)?, file.metadata()?);
    if entry.is_symlink() || (entry.dev(), entry.ino()) != (opened.dev(), opened.ino()) {
        return Err(io::Error::other("is a symbolic link; a run is not resumed through a link"));
    }
    Ok(())
}

fn lock(file: &File, path: &Path) -> Result<(), LogError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => LogError::Busy { path: path.to_owned() },
        TryLockError::Error(error) => LogError::Io { path: path.to_owned(), error },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::bench_log;

    fn note(text: &str) -> Event {
        Event::Note { text: text.to_owned() }
    }

    fn written(events: &[Event]) -> (tempfile::TempDir, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(folder.path()).unwrap();
        for event in events {
            writer.append(event).unwrap();
        }
        let bytes = std::fs::read(folder.path().join(FILE)).unwrap();
        (folder, bytes)
    }

    #[test]
    fn events_round_trip() {
        let events = bench_log();
        let (folder, _) = written(&events);
        let log = read(folder.path()).unwrap();
        assert_eq!(log.warnings, []);
        assert_eq!(log.records.iter().map(|record| record.event.clone()).collect::<Vec<_>>(), events);
        assert!(log.records.iter().map(|record| record.seq).eq(0..events.len() as u64));
        assert!(log.records.is_sorted_by_key(|record| record.time));
    }

    #[test]
    fn a_log_cut_at_any_byte_can_be_read_and_resumed() {
        let events = bench_log();
        let (folder, bytes) = written(&events);
        let path = folder.path().join(FILE);
        let mut complete = 0;
        for cut in 0..=bytes.len() {
            let is_at_line_end = cut == 0 || bytes[cut - 1] == b'\n';
            complete += usize::from(is_at_line_end && cut > 0);
            let log = parse(&path, &bytes[..cut]).unwrap();
            assert_eq!(log.records.len(), complete, "cut at {cut}");
            assert_eq!(log.warnings.is_empty(), is_at_line_end, "cut at {cut}: {:?}", log.warnings);
            // Resuming is slower to test, so only every 23rd position and every end of a line are tested.
            if cut % 23 == 0 || is_at_line_end {
                let folder = tempfile::tempdir().unwrap();
                std::fs::write(folder.path().join(FILE), &bytes[..cut]).unwrap();
                assert_eq!(read(folder.path()).unwrap(), log);
                let (mut writer, _) = Writer::resume(folder.path()).unwrap();
                writer.append(&note("after")).unwrap();
                let log = read(folder.path()).unwrap();
                assert_eq!((log.records.len(), log.warnings.len()), (complete + 1, 0), "cut at {cut}");
            }
        }
        assert_eq!(complete, events.len());
    }

    #[test]
    fn damage_before_the_end_is_an_error_with_a_line_number() {
        let (folder, bytes) = written(&[note("one"), note("two"), note("three")]);
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let damaged = |contents: String| {
            std::fs::write(folder.path().join(FILE), contents).unwrap();
            match read(folder.path()).unwrap_err() {
                LogError::Damaged { line, message, .. } => (line, message),
                other => panic!("{other}"),
            }
        };
        let half = &lines[1][..lines[1].len() / 2];
        assert_eq!(damaged(format!("{}\n{half}\n{}\n", lines[0], lines[2])).0, 2);
        // A missing line, a duplicate line, an empty line.
        let (line, message) = damaged(format!("{}\n{}\n", lines[0], lines[2]));
        assert_eq!((line, message.as_str()), (2, "event number 2 where 1 was expected"));
        assert_eq!(damaged(format!("{}\n{}\n", lines[0], lines[0])).0, 2);
        assert_eq!(damaged(format!("{}\n\n{}\n", lines[0], lines[1])).0, 2);
        // A known kind without a required field.
        let (line, message) = damaged(lines[0].replace("\"text\"", "\"words\"") + "\n");
        assert!(line == 1 && message.starts_with("note: missing field `text`"), "{line} {message}");
        // A last line with a newline was written completely, so invalid contents are damage.
        assert_eq!(damaged(format!("{}\n\u{0}\u{0}\n", lines[0])).0, 2);
    }

    #[test]
    fn zeros_after_a_power_failure_are_dropped_with_a_warning() {
        let (folder, mut bytes) = written(&[note("one")]);
        bytes.extend([0; 512]);
        std::fs::write(folder.path().join(FILE), bytes).unwrap();
        let log = read(folder.path()).unwrap();
        assert_eq!(log.warnings, [Warning::Torn { line: 2, bytes: 512 }]);
    }

    #[test]
    fn unknown_kinds_stay_in_the_file_and_are_skipped() {
        let (folder, mut bytes) = written(&[note("one")]);
        bytes.extend(
            br#"{"schema":1,"seq":1,"time":"2031-01-01T00:00:00.000Z","kind":"dreamt","of":{"sheep":[1.5,null]}}"#,
        );
        bytes.push(b'\n');
        std::fs::write(folder.path().join(FILE), &bytes).unwrap();
        let (mut writer, log) = Writer::resume(folder.path()).unwrap();
        assert_eq!(log.warnings, [Warning::UnknownKind { line: 2, kind: "dreamt".to_owned() }]);
        assert_eq!((&log.records[1].event, log.records[1].kind.as_str()), (&Event::Unknown, "dreamt"));
        writer.append(&note("two")).unwrap();
        assert!(std::fs::read(folder.path().join(FILE)).unwrap().starts_with(&bytes));
        assert_eq!(read(folder.path()).unwrap().records.len(), 3);
    }

    #[test]
    fn unknown_fields_are_ignored_and_a_newer_schema_is_refused() {
        let (folder, bytes) = written(&[note("one")]);
        let text = String::from_utf8(bytes).unwrap();
        let path = folder.path().join(FILE);
        std::fs::write(&path, text.replace("\"text\"", "\"tone\":{\"warm\":true},\"text\"")).unwrap();
        assert_eq!(read(folder.path()).unwrap().records[0].event, note("one"));
        std::fs::write(&path, text.replace("\"schema\":1", "\"schema\":2")).unwrap();
        assert!(matches!(read(folder.path()), Err(LogError::Newer { line: 1, schema: 2, .. })));
    }

    /// Logs of earlier versions have no `processes`: samples came from one process, controls from two.
    #[test]
    fn a_log_without_processes_gets_the_defaults() {
        let events = bench_log();
        let (folder, bytes) = written(&events);
        let text = String::from_utf8(bytes).unwrap();
        let old = text.replace("\"processes\":1,", "").replace("\"processes\":2,", "");
        assert!(text.contains("processes") && !old.contains("processes"));
        std::fs::write(folder.path().join(FILE), old).unwrap();
        let read: Vec<Event> = read(folder.path()).unwrap().records.into_iter().map(|it| it.event).collect();
        assert_eq!(read, events);
    }

    #[test]
    fn an_event_that_cannot_be_read_back_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(folder.path()).unwrap();
        let mut event = bench_log().into_iter().find(|event| matches!(event, Event::Sampled { .. })).unwrap();
        if let Event::Sampled { sampled, .. } = &mut event {
            sampled.samples_ns[0] = f64::NAN;
        }
        assert!(matches!(writer.append(&event), Err(LogError::Event(_))));
        assert!(matches!(writer.append(&Event::Unknown), Err(LogError::Event(_))));
        writer.append(&note("fine")).unwrap();
        assert_eq!(read(folder.path()).unwrap().records.len(), 1);
    }

    #[test]
    fn a_negative_or_infinite_time_is_an_error_with_a_line_number() {
        let events = bench_log();
        let (folder, bytes) = written(&events);
        let text = String::from_utf8(bytes).unwrap();
        let mut refused = 0;
        for (index, line) in text.lines().enumerate() {
            for field in ["samples_ns\":[", "time_us\":", "measured_us\":", "modelled_us\":", "score\":"] {
                for wrong in ["-1.5,", "-1e999,", "1e999,"] {
                    let Some(at) = line.find(field) else { continue };
                    let (before, after) = line.split_at(at + field.len());
                    let end = after.find([',', '}', ']']).unwrap();
                    let wrong =
                        if after[end..].starts_with(',') { wrong } else { wrong.trim_end_matches(',') };
                    let rest = after[end..].trim_start_matches(',');
                    let changed = text.replace(line, &format!("{before}{wrong}{rest}"));
                    std::fs::write(folder.path().join(FILE), changed).unwrap();
                    match read(folder.path()) {
                        Err(LogError::Damaged { line, .. }) => assert_eq!(line, index + 1),
                        other => panic!("{field}{wrong} in line {}: {other:?}", index + 1),
                    }
                    refused += 1;
                }
            }
        }
        assert!(refused >= 6, "{refused}");
    }

    #[test]
    fn an_endless_or_huge_log_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join(FILE)).unwrap();
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
        // A sparse file, which takes no disk space.
        std::fs::remove_file(folder.path().join(FILE)).unwrap();
        File::create(folder.path().join(FILE)).unwrap().set_len(1 << 40).unwrap();
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("is larger than"), "{error}");
    }

    #[test]
    fn one_process_writes_and_others_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(folder.path()).unwrap();
        writer.append(&note("one")).unwrap();
        assert!(matches!(Writer::resume(folder.path()), Err(LogError::Busy { .. })));
        assert!(matches!(Writer::create(folder.path()), Err(LogError::Io { .. })));
        assert_eq!(read(folder.path()).unwrap().records.len(), 1);
        drop(writer);
        assert!(Writer::resume(folder.path()).is_ok());
    }

    #[test]
    fn a_run_is_not_resumed_through_a_symbolic_link() {
        let (folder, bytes) = written(&[note("first")]);
        let (path, elsewhere) = (folder.path().join(FILE), folder.path().join("elsewhere"));
        std::fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        let error = Writer::resume(folder.path()).unwrap_err().to_string();
        assert!(error.contains("is a symbolic link"), "{error}");
        assert_eq!(std::fs::read(&elsewhere).unwrap(), bytes);
    }

    #[test]
    fn a_copy_of_the_descriptor_in_a_starting_process_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::create(folder.path()).unwrap();
        let copy = writer.file.try_clone().unwrap();
        drop(writer);
        assert!(Writer::resume(folder.path()).is_ok());
        drop(copy);
    }
}
