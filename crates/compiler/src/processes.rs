//! Compilation in other processes. A source on which the compiler crashes, never ends or takes all memory then ends only
//! such a process.

use std::io::{self, ErrorKind};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use subprocess::{Channel, Link};

use crate::job::{Job, JobError, Libraries, LibraryError};
use crate::nvrtc::{Compiled, NvrtcError};

/// The longest compilation. The largest public sources need a few minutes on a busy machine.
const MOST_TIME: Duration = Duration::from_mins(10);
/// The most resident memory of a process.
const MOST_MEMORY: u64 = 12 << 30;
/// The most bytes of PTX and cubin in a reply. What is too large for a build is refused later, with its size.
const MOST_REPLY: u64 = 4 << 30;

/// What a process replies to a job. PTX and cubin are attachments.
#[derive(Debug, Serialize, Deserialize)]
enum Reply {
    Compiled { log: String, lowered_names: Vec<String> },
    Source { log: String },
    Nvrtc { reason: String },
    Assembler { reason: String },
}

/// Processes that compile. Each is reused until a source breaks it.
pub(crate) struct Processes {
    command: Box<dyn Fn() -> Command + Send + Sync>,
    idle: Mutex<Vec<Link>>,
}

impl std::fmt::Debug for Processes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Processes")
    }
}

impl Processes {
    pub fn new(command: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        Processes { command: Box::new(command), idle: Mutex::default() }
    }

    pub fn run(&self, job: &Job) -> Result<Compiled, JobError> {
        let idle = self.idle().pop();
        let cannot_start = |error: io::Error| JobError::Process(format!("its process cannot start: {error}"));
        let mut link = idle.map_or_else(|| Link::start((self.command)()), Ok).map_err(cannot_start)?;
        let result = ask(&mut link, job)?;
        self.idle().push(link);
        result
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Link>> {
        // A list of processes is never half changed.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks a process for a job. The outer error means that the process is lost.
fn ask(link: &mut Link, job: &Job) -> Result<Result<Compiled, JobError>, JobError> {
    let until = Instant::now() + MOST_TIME;
    let mut reason = None;
    let process = link.id();
    let mut go_on = || {
        if Instant::now() > until {
            reason = Some(format!("it did not end within {} minutes", MOST_TIME.as_secs() / 60));
        } else if subprocess::resident_bytes(process).is_some_and(|bytes| bytes > MOST_MEMORY) {
            reason = Some(format!("it needs more than {} GiB of memory", MOST_MEMORY >> 30));
        }
        if reason.is_some() { Err(io::Error::from(ErrorKind::TimedOut)) } else { Ok(()) }
    };
    let reply = link.send(job, &[], &mut go_on).and_then(|()| link.receive(MOST_REPLY, &mut go_on));
    match reply {
        Ok((reply, attachments)) => Ok(understood(reply, attachments)),
        Err(_) if reason.is_some() => Err(JobError::Process(reason.unwrap_or_default())),
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            Err(JobError::Process(format!("its process sent an invalid message: {error}")))
        }
        Err(_) => Err(JobError::Process(format!("its process {}", link.how_it_ended()))),
    }
}

fn understood(reply: Reply, attachments: Vec<Vec<u8>>) -> Result<Compiled, JobError> {
    match reply {
        Reply::Compiled { log, lowered_names } => {
            let mut attachments = attachments.into_iter();
            let ptx = String::from_utf8_lossy(&attachments.next().unwrap_or_default()).into_owned();
            Ok(Compiled { ptx, cubin: attachments.next().unwrap_or_default(), log, lowered_names })
        }
        Reply::Source { log } => Err(JobError::Source { log }),
        Reply::Nvrtc { reason } => {
            Err(JobError::Library(LibraryError::Nvrtc(NvrtcError::Reported { reason })))
        }
        Reply::Assembler { reason } => Err(JobError::Library(LibraryError::Assembler(reason))),
    }
}

/// Compiles what the parent process sends, until it closes the channel.
pub fn serve(channel: &Channel) -> io::Result<()> {
    let libraries = Libraries::default();
    loop {
        let (job, _): (Job, _) = match channel.receive() {
            Ok(job) => job,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let (ptx, cubin, reply) = match libraries.run(&job) {
            Ok(Compiled { ptx, cubin, log, lowered_names }) => {
                (ptx, cubin, Reply::Compiled { log, lowered_names })
            }
            Err(error) => (String::new(), Vec::new(), failure(error)),
        };
        channel.send(&reply, &[ptx.as_bytes(), &cubin])?;
    }
}

fn failure(error: JobError) -> Reply {
    match error {
        JobError::Source { log } => Reply::Source { log },
        JobError::Library(LibraryError::Nvrtc(error)) => Reply::Nvrtc { reason: error.to_string() },
        JobError::Library(LibraryError::Assembler(reason)) | JobError::Process(reason) => {
            Reply::Assembler { reason }
        }
    }
}
