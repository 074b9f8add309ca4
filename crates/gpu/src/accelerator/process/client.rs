//! The client side: starts the device's process, sends requests and reads replies.

use std::io::{self, ErrorKind};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use subprocess::Link;
use subprocess::ending;

use super::wire::{DeviceReply, DeviceRequest, digest};
use crate::accelerator::{
    Accelerator, AcceleratorError, Buffer, Geometry, Image, Launched, ModuleId, Variable,
};

/// The error kind of a wait that the caller stopped. No socket error has this kind.
const STOPPED: ErrorKind = ErrorKind::ConnectionAborted;
/// The time limit of every reply except a launch's. Creating a context takes seconds on a busy machine.
const REPLY_LIMIT: Duration = Duration::from_mins(5);

/// Limits of a device's process.
#[derive(Clone, Debug)]
pub struct ProcessLimits {
    /// Time limit of one launch.
    pub limit: Duration,
    /// Set by the caller to stop waiting.
    pub stop: Arc<AtomicBool>,
}

/// A device in another process. Dropping this value ends the process.
#[derive(Debug)]
pub struct DeviceProcess {
    link: Link,
    limits: ProcessLimits,
    description: String,
    is_sound: bool,
}

impl DeviceProcess {
    /// Starts a process that serves a device over a private channel. The process has its own process group, because
    /// the parent handles Ctrl-C. The output of kernels is kept only for the message about a failure.
    pub fn start(command: Command, limits: ProcessLimits) -> Result<Self, AcceleratorError> {
        let lost = |error: io::Error| AcceleratorError::Lost(format!("cannot start its process: {error}"));
        let link = Link::start(command).map_err(lost)?;
        Ok(DeviceProcess { link, limits, description: String::new(), is_sound: true })
    }

    /// Whether the process is still as usable as a new one.
    pub fn is_sound(&self) -> bool {
        self.is_sound
    }

    /// Resets the device to a freshly opened state.
    pub fn open(&mut self) -> Result<(), AcceleratorError> {
        match self.send_and_receive(&DeviceRequest::Open, &[])? {
            (DeviceReply::Opened { description }, _) => self.description = description,
            (other, _) => return Err(self.unexpected(&other)),
        }
        Ok(())
    }

    fn send_and_receive(
        &mut self,
        request: &DeviceRequest,
        bytes: &[u8],
    ) -> Result<(DeviceReply, Vec<u8>), AcceleratorError> {
        self.send(request, bytes)?;
        let limit =
            if matches!(request, DeviceRequest::Launch { .. }) { self.limits.limit } else { REPLY_LIMIT };
        // The process is untrusted: it may return only as many bytes as the request asks for.
        let most = match request {
            DeviceRequest::Read(buffer) => buffer.bytes,
            DeviceRequest::EncodeTensorMap(_) => vgpu::tensor_map::BYTES as u64,
            _ => 0,
        };
        let error = match self.link.receive(most, self.limits.deadline(limit)) {
            Ok((DeviceReply::Failed(error), _)) => error,
            Ok((reply, mut attached)) => return Ok((reply, attached.pop().unwrap_or_default())),
            Err(error) => self.lost(&error, limit),
        };
        self.is_sound &= leaves_device_usable(&error);
        Err(error)
    }

    /// Sends a request without waiting for a reply.
    fn send(&mut self, request: &DeviceRequest, bytes: &[u8]) -> Result<(), AcceleratorError> {
        if !self.is_sound {
            return Err(AcceleratorError::Lost("it failed earlier".to_owned()));
        }
        let attached: &[&[u8]] = if bytes.is_empty() { &[] } else { &[bytes] };
        self.link.send(request, attached, self.limits.deadline(REPLY_LIMIT)).map_err(|error| {
            self.is_sound = false;
            self.lost(&error, REPLY_LIMIT)
        })
    }

    /// Translates a channel error into the error of the lost device.
    fn lost(&mut self, error: &io::Error, limit: Duration) -> AcceleratorError {
        AcceleratorError::Lost(match error.kind() {
            STOPPED => "stopped".to_owned(),
            ErrorKind::TimedOut => {
                self.link.kill();
                format!("no answer within {} s", limit.as_secs_f64())
            }
            ErrorKind::InvalidData => {
                self.link.kill();
                format!("its process sent an invalid message: {error}")
            }
            _ => self.describe_end(error),
        })
    }

    fn unexpected(&mut self, reply: &DeviceReply) -> AcceleratorError {
        self.is_sound = false;
        AcceleratorError::Lost(format!("unexpected reply from its process: {reply:?}"))
    }

    /// Describes how the process ended, once the channel is closed.
    fn describe_end(&mut self, error: &io::Error) -> String {
        let how = self.link.end().map_or_else(|| format!("does not reply: {error}"), ending);
        let printed = self.link.last_output();
        if printed.is_empty() {
            format!("its process {how}")
        } else {
            format!("its process {how}: {printed}")
        }
    }

    #[cfg(test)]
    pub(super) fn kill(&mut self) {
        self.link.kill();
    }
}

impl ProcessLimits {
    /// A check for waiting loops: it fails after `limit`, or when the caller sets `stop`.
    fn deadline(&self, limit: Duration) -> impl FnMut() -> io::Result<()> + use<> {
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

/// Whether the device is still usable after this error: the kernel or the request was wrong, not the device.
fn leaves_device_usable(error: &AcceleratorError) -> bool {
    match error {
        AcceleratorError::NoDriver(_)
        | AcceleratorError::NoDevice(_)
        | AcceleratorError::Driver { .. }
        // Other driver errors: the state of the device is unknown.
        | AcceleratorError::Launch { .. }
        | AcceleratorError::Fault { .. }
        | AcceleratorError::Lost(_) => false,
        AcceleratorError::Memory(_)
        | AcceleratorError::Load(_)
        | AcceleratorError::NoKernel(_)
        | AcceleratorError::Arguments(_)
        | AcceleratorError::TooLarge { .. } => true,
    }
}

impl Accelerator for DeviceProcess {
    fn describe(&self) -> String {
        self.description.clone()
    }

    fn allocate(&mut self, label: &str, bytes: u64) -> Result<Buffer, AcceleratorError> {
        match self.send_and_receive(&DeviceRequest::Allocate { label: label.to_owned(), bytes }, &[])? {
            (DeviceReply::Allocated(buffer), _) => Ok(buffer),
            (other, _) => Err(self.unexpected(&other)),
        }
    }

    fn free(&mut self, buffer: Buffer) -> Result<(), AcceleratorError> {
        self.send(&DeviceRequest::Free(buffer), &[])
    }

    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), AcceleratorError> {
        self.send(&DeviceRequest::Write(buffer), bytes)
    }

    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, AcceleratorError> {
        match self.send_and_receive(&DeviceRequest::Read(buffer), &[])? {
            (DeviceReply::Read, bytes) => Ok(bytes),
            (other, _) => Err(self.unexpected(&other)),
        }
    }

    fn holds(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<bool, AcceleratorError> {
        match self.send_and_receive(&DeviceRequest::Holds(buffer, digest(bytes)), &[])? {
            (DeviceReply::Holds(matches), _) => Ok(matches),
            (other, _) => Err(self.unexpected(&other)),
        }
    }

    fn fill(&mut self, buffer: Buffer, word: u32) -> Result<(), AcceleratorError> {
        self.send(&DeviceRequest::Fill(buffer, word), &[])
    }

    fn variables(&mut self, module: ModuleId) -> Result<Vec<Variable>, AcceleratorError> {
        match self.send_and_receive(&DeviceRequest::Variables(module), &[])? {
            (DeviceReply::Variables(variables), _) => Ok(variables),
            (other, _) => Err(self.unexpected(&other)),
        }
    }

    fn encode_tensor_map(&mut self, map: &vgpu::TensorMap) -> Result<Vec<u8>, AcceleratorError> {
        match self.send_and_receive(&DeviceRequest::EncodeTensorMap(map.clone()), &[])? {
            (DeviceReply::Read, bytes) => Ok(bytes),
            (other, _) => Err(self.unexpected(&other)),
        }
    }

    fn set_world(&mut self, seed: u64) -> Result<(), AcceleratorError> {
        self.send(&DeviceRequest::World(seed), &[])
    }

    fn load(&mut self, image: Image<'_>) -> Result<ModuleId, AcceleratorError> {
        let (request, bytes) = match image {
            Image::Cubin(bytes) => (DeviceRequest::LoadCubin, bytes),
            Image::Ptx(text) => (DeviceRequest::LoadPtx, text.as_bytes()),
        };
        match self.send_and_receive(&request, bytes)? {
            (DeviceReply::Loaded(module), _) => Ok(module),
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
        let request = DeviceRequest::Launch { module, kernel: kernel.clone(), geometry, parameters };
        match self.send_and_receive(&request, &[]) {
            Ok((DeviceReply::Done, _)) => Ok(Launched::default()),
            Ok((other, _)) => Err(self.unexpected(&other)),
            // If the process is lost during a launch, the kernel caused it.
            Err(AcceleratorError::Lost(reason)) => {
                Err(AcceleratorError::Fault { kernel, reason, access: false })
            }
            Err(error) => Err(error),
        }
    }
}
