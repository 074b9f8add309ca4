//! The side that asks.

use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::wire::{self, Ask, Say};
use crate::accelerator::{
    Accelerator, AcceleratorError, Buffer, Geometry, Image, Launched, ModuleId, Variable,
};
use crate::ending::ending;

/// How a wait ends that is to stop: as nothing that happens to a socket by itself.
const STOPPED: ErrorKind = ErrorKind::ConnectionAborted;
/// How often a wait looks at the clock and at whether it is to stop.
const TICK: Duration = Duration::from_millis(50);

/// The longest any other answer than a launch's may take: a context takes seconds where the machine is busy.
const PATIENCE: Duration = Duration::from_mins(5);

/// What a device's process is held to.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The longest a launch may take.
    pub limit: Duration,
    /// Set from outside: nobody wants the answer any more.
    pub stop: Arc<AtomicBool>,
}

/// A device in another process. The process is ended when this goes.
#[derive(Debug)]
pub struct DeviceProcess {
    child: Child,
    stream: UnixStream,
    terms: Terms,
    description: String,
    is_sound: bool,
}

impl DeviceProcess {
    /// Starts a process that serves a device on its standard input, a socket. It is in a process group of its own:
    /// Ctrl-C is the parent's to deal with. What kernels print goes to standard error: standard output is the
    /// program's.
    pub fn start(command: &mut Command, terms: Terms) -> Result<Self, AcceleratorError> {
        let lost =
            |error: io::Error| AcceleratorError::Lost(format!("its process cannot be started: {error}"));
        let (stream, theirs) = UnixStream::pair().map_err(lost)?;
        stream.set_read_timeout(Some(TICK)).map_err(lost)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(lost)?;
        let errors = io::stderr().as_fd().try_clone_to_owned().map_err(lost)?;
        let child = command
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::from(errors))
            .process_group(0)
            .spawn()
            .map_err(lost)?;
        // The command keeps the child's end, and with it open a child that is gone would go unnoticed.
        command.stdin(Stdio::null());
        Ok(DeviceProcess { child, stream, terms, description: String::new(), is_sound: true })
    }

    /// Whether what was done with it so far leaves it as good as a new one.
    pub fn is_sound(&self) -> bool {
        self.is_sound
    }

    /// As one that was just opened.
    pub fn open(&mut self) -> Result<(), AcceleratorError> {
        match self.ask(&Ask::Open, &[])? {
            (Say::Opened { description }, _) => self.description = description,
            (other, _) => return Err(self.unexpected(&other)),
        }
        Ok(())
    }

    fn ask(&mut self, ask: &Ask, bytes: &[u8]) -> Result<(Say, Vec<u8>), AcceleratorError> {
        self.tell(ask, bytes)?;
        let limit = if matches!(ask, Ask::Launch { .. }) { self.terms.limit } else { PATIENCE };
        let until = Instant::now() + limit;
        let mut patient = Patient { stream: &self.stream, stop: &self.terms.stop, until };
        let error = match wire::receive(&mut patient) {
            Ok((Say::Failed(error), _)) => error,
            Ok(answer) => return Ok(answer),
            Err(error) => self.lost(&error, limit),
        };
        self.is_sound &= leaves_it_sound(&error);
        Err(error)
    }

    /// Asks what is not answered.
    fn tell(&mut self, ask: &Ask, bytes: &[u8]) -> Result<(), AcceleratorError> {
        if !self.is_sound {
            return Err(AcceleratorError::Lost("it broke before".to_owned()));
        }
        wire::send(&mut self.stream, ask, bytes).map_err(|error| {
            self.is_sound = false;
            self.lost(&error, PATIENCE)
        })
    }

    /// What became of the process, when the socket says so.
    fn lost(&mut self, error: &io::Error, limit: Duration) -> AcceleratorError {
        AcceleratorError::Lost(match error.kind() {
            STOPPED => "stopped".to_owned(),
            ErrorKind::TimedOut | ErrorKind::WouldBlock => {
                self.end();
                format!("no answer within {} s", limit.as_secs_f64())
            }
            _ => self.obituary(error),
        })
    }

    fn unexpected(&mut self, said: &Say) -> AcceleratorError {
        self.is_sound = false;
        AcceleratorError::Lost(format!("not an answer to what was asked: {said:?}"))
    }

    /// How the process ended, once the socket is closed.
    fn obituary(&mut self, error: &io::Error) -> String {
        // A closed socket and a living process are a process that is about to end.
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(Some(status)) => return format!("its process {}", ending(status)),
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Err(_) => break,
            }
        }
        format!("its process does not answer: {error}")
    }

    #[cfg(test)]
    pub(super) fn kill(&mut self) {
        self.end();
    }

    fn end(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for DeviceProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// Errors that are the kernel's or the asker's own, not the device's end.
fn leaves_it_sound(error: &AcceleratorError) -> bool {
    match error {
        AcceleratorError::NoDriver(_)
        | AcceleratorError::NoDevice(_)
        | AcceleratorError::Driver { .. }
        // Whatever the driver says that is nothing in particular.
        | AcceleratorError::Launch { .. }
        | AcceleratorError::Fault { .. }
        | AcceleratorError::Lost(_) => false,
        AcceleratorError::Memory(_)
        | AcceleratorError::Load(_)
        | AcceleratorError::NoKernel(_)
        | AcceleratorError::TooLarge { .. } => true,
    }
}

/// A socket that is waited for, within reason.
struct Patient<'a> {
    stream: &'a UnixStream,
    stop: &'a AtomicBool,
    until: Instant,
}

impl Read for Patient<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(into) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                // After a pause (Ctrl-Z) the answer may have been there for long.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => return other,
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(STOPPED.into());
            }
            if Instant::now() > self.until {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }
}

impl Accelerator for DeviceProcess {
    fn describe(&self) -> String {
        self.description.clone()
    }

    fn allocate(&mut self, label: &str, bytes: u64) -> Result<Buffer, AcceleratorError> {
        match self.ask(&Ask::Allocate { label: label.to_owned(), bytes }, &[])? {
            (Say::Allocated(buffer), _) => Ok(buffer),
            (other, _) => Err(self.unexpected(&other)),
        }
    }

    fn free(&mut self, buffer: Buffer) -> Result<(), AcceleratorError> {
        self.tell(&Ask::Free(buffer), &[])
    }

    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), AcceleratorError> {
        self.tell(&Ask::Write(buffer), bytes)
    }

    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, AcceleratorError> {
        match self.ask(&Ask::Read(buffer), &[])? {
            (Say::Read, bytes) => Ok(bytes),
            (other, _) => Err(self.unexpected(&other)),
        }
    }

    fn fill(&mut self, buffer: Buffer, word: u32) -> Result<(), AcceleratorError> {
        self.tell(&Ask::Fill(buffer, word), &[])
    }

    fn variables(&mut self, module: ModuleId) -> Result<Vec<Variable>, AcceleratorError> {
        match self.ask(&Ask::Variables(module), &[])? {
            (Say::Variables(variables), _) => Ok(variables),
            (other, _) => Err(self.unexpected(&other)),
        }
    }

    fn set_world(&mut self, seed: u64) -> Result<(), AcceleratorError> {
        self.tell(&Ask::World(seed), &[])
    }

    fn load(&mut self, image: Image<'_>) -> Result<ModuleId, AcceleratorError> {
        let (ask, bytes) = match image {
            Image::Cubin(bytes) => (Ask::LoadCubin, bytes),
            Image::Ptx(text) => (Ask::LoadPtx, text.as_bytes()),
        };
        match self.ask(&ask, bytes)? {
            (Say::Loaded(module), _) => Ok(module),
            (other, _) => Err(self.unexpected(&other)),
        }
    }

    fn launch(
        &mut self,
        module: ModuleId,
        kernel: &str,
        geometry: Geometry,
        parameters: &[Vec<u8>],
    ) -> Result<Launched, AcceleratorError> {
        let (kernel, parameters) = (kernel.to_owned(), parameters.to_vec());
        let ask = Ask::Launch { module, kernel: kernel.clone(), geometry, parameters };
        match self.ask(&ask, &[]) {
            Ok((Say::Done, _)) => Ok(Launched::default()),
            Ok((other, _)) => Err(self.unexpected(&other)),
            // What became of the process while it ran the kernel is the kernel's doing.
            Err(AcceleratorError::Lost(reason)) => {
                Err(AcceleratorError::Fault { kernel, reason, access: false })
            }
            Err(error) => Err(error),
        }
    }
}
