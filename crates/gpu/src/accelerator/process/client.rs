//! The side that asks.

use std::io::{self, ErrorKind};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use subprocess::Link;

use super::wire::{Ask, Say};
use crate::accelerator::{
    Accelerator, AcceleratorError, Buffer, Geometry, Image, Launched, ModuleId, Variable,
};
use crate::ending::ending;

/// How a wait ends that is to stop: as nothing that happens to a socket by itself.
const STOPPED: ErrorKind = ErrorKind::ConnectionAborted;
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
    link: Link,
    terms: Terms,
    description: String,
    is_sound: bool,
}

impl DeviceProcess {
    /// Starts a process that serves a device over a private channel. It is in a process group of its own: Ctrl-C is the
    /// parent's to deal with. What kernels print is kept for the message about its failure alone.
    pub fn start(command: Command, terms: Terms) -> Result<Self, AcceleratorError> {
        let lost =
            |error: io::Error| AcceleratorError::Lost(format!("its process cannot be started: {error}"));
        let link = Link::start(command).map_err(lost)?;
        Ok(DeviceProcess { link, terms, description: String::new(), is_sound: true })
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
        // The process is not trusted: only a read has bytes, and so many as were asked for.
        let most = if let Ask::Read(buffer) = ask { buffer.bytes } else { 0 };
        let error = match self.link.receive(most, self.terms.patience(limit)) {
            Ok((Say::Failed(error), _)) => error,
            Ok((said, mut attached)) => return Ok((said, attached.pop().unwrap_or_default())),
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
        let attached: &[&[u8]] = if bytes.is_empty() { &[] } else { &[bytes] };
        self.link.send(ask, attached, self.terms.patience(PATIENCE)).map_err(|error| {
            self.is_sound = false;
            self.lost(&error, PATIENCE)
        })
    }

    /// What became of the process, when the channel says so.
    fn lost(&mut self, error: &io::Error, limit: Duration) -> AcceleratorError {
        AcceleratorError::Lost(match error.kind() {
            STOPPED => "stopped".to_owned(),
            ErrorKind::TimedOut => {
                self.link.kill();
                format!("no answer within {} s", limit.as_secs_f64())
            }
            ErrorKind::InvalidData => {
                self.link.kill();
                format!("its process sent no valid message: {error}")
            }
            _ => self.obituary(error),
        })
    }

    fn unexpected(&mut self, said: &Say) -> AcceleratorError {
        self.is_sound = false;
        AcceleratorError::Lost(format!("not an answer to what was asked: {said:?}"))
    }

    /// How the process ended, once the channel is closed.
    fn obituary(&mut self, error: &io::Error) -> String {
        let how = self.link.end().map_or_else(|| format!("does not answer: {error}"), ending);
        let words = self.link.last_words();
        if words.is_empty() { format!("its process {how}") } else { format!("its process {how}: {words}") }
    }

    #[cfg(test)]
    pub(super) fn kill(&mut self) {
        self.link.kill();
    }
}

impl Terms {
    /// Whether a wait goes on: within this limit and until somebody stops it.
    fn patience(&self, limit: Duration) -> impl FnMut() -> io::Result<()> + use<> {
        let (stop, until) = (Arc::clone(&self.stop), Instant::now() + limit);
        move || {
            if stop.load(Ordering::Relaxed) {
                Err(STOPPED.into())
            } else if Instant::now() > until {
                Err(ErrorKind::TimedOut.into())
            } else {
                Ok(())
            }
        }
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

    fn encode_tensor_map(&mut self, map: &vgpu::TensorMap) -> Result<Vec<u8>, AcceleratorError> {
        match self.ask(&Ask::EncodeTensorMap(map.clone()), &[])? {
            (Say::Read, bytes) => Ok(bytes),
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
