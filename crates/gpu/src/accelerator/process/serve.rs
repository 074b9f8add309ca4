//! The device's side.

use std::io;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use subprocess::Channel;

use super::wire::{DeviceReply, DeviceRequest, digest};
use crate::accelerator::{Accelerator, AcceleratorError, Buffer, Image};

/// Answers what is asked until nobody asks any more. `gone` is called then, from another thread: a kernel that never
/// ends may keep this one.
pub fn serve(
    channel: &'static Channel,
    open: impl FnMut() -> Result<Box<dyn Accelerator>, AcceleratorError>,
    gone: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let inbox = listen(channel, gone);
    let mut server = Server { open, device: None, allocated: Vec::new() };
    // What went wrong where nobody waited for an answer.
    let mut owed = None;
    for (ask, bytes) in inbox {
        if ask == DeviceRequest::Open {
            // What the one before left behind is not the next one's.
            owed = None;
        }
        let is_answered = ask.is_answered();
        let done = owed.take().map_or_else(|| server.answer(ask, &bytes), Err);
        match done {
            Err(error) if !is_answered => owed = Some(error),
            Err(error) => channel.send(&DeviceReply::Failed(error), &[])?,
            Ok((said, bytes)) if is_answered => {
                let attached: &[&[u8]] = if bytes.is_empty() { &[] } else { &[&bytes] };
                channel.send(&said, attached)?;
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

struct Server<F> {
    open: F,
    device: Option<Box<dyn Accelerator>>,
    allocated: Vec<Buffer>,
}

impl<F: FnMut() -> Result<Box<dyn Accelerator>, AcceleratorError>> Server<F> {
    fn answer(
        &mut self,
        ask: DeviceRequest,
        bytes: &[u8],
    ) -> Result<(DeviceReply, Vec<u8>), AcceleratorError> {
        let said = match ask {
            DeviceRequest::Open => DeviceReply::Opened { description: self.open()? },
            DeviceRequest::Allocate { label, bytes } => {
                let buffer = self.device()?.allocate(&label, bytes)?;
                self.allocated.push(buffer);
                DeviceReply::Allocated(buffer)
            }
            DeviceRequest::Free(buffer) => {
                self.device()?.free(buffer)?;
                self.allocated.retain(|known| known.address != buffer.address);
                DeviceReply::Done
            }
            DeviceRequest::Write(buffer) => {
                self.device()?.write(buffer, bytes)?;
                DeviceReply::Done
            }
            DeviceRequest::Fill(buffer, word) => {
                self.device()?.fill(buffer, word)?;
                DeviceReply::Done
            }
            DeviceRequest::Variables(module) => DeviceReply::Variables(self.device()?.variables(module)?),
            DeviceRequest::World(seed) => {
                self.device()?.set_world(seed)?;
                DeviceReply::Done
            }
            DeviceRequest::Read(buffer) => return Ok((DeviceReply::Read, self.device()?.read(buffer)?)),
            DeviceRequest::Holds(buffer, expected) => {
                DeviceReply::Holds(digest(&self.device()?.read(buffer)?) == expected)
            }
            DeviceRequest::LoadCubin => DeviceReply::Loaded(self.device()?.load(Image::Cubin(bytes))?),
            DeviceRequest::LoadPtx => {
                DeviceReply::Loaded(self.device()?.load(Image::Ptx(&String::from_utf8_lossy(bytes)))?)
            }
            DeviceRequest::Launch { module, kernel, geometry, parameters } => {
                self.device()?.launch(module, &kernel, geometry, &parameters)?;
                DeviceReply::Done
            }
        };
        Ok((said, Vec::new()))
    }

    fn device(&mut self) -> Result<&mut dyn Accelerator, AcceleratorError> {
        match &mut self.device {
            Some(device) => Ok(&mut **device),
            None => Err(AcceleratorError::Lost("no device was opened".to_owned())),
        }
    }

    /// Opens the device anew; what it is.
    fn open(&mut self) -> Result<String, AcceleratorError> {
        // The one before goes first, with what it loaded and what was not given back.
        if let Some(mut device) = self.device.take() {
            for buffer in self.allocated.drain(..) {
                device.free(buffer)?;
            }
        }
        Ok(self.device.insert((self.open)()?).describe())
    }
}

/// Asks that wait to be answered; more would be memory for nothing.
const WAITING: usize = 2;

fn listen(
    channel: &'static Channel,
    gone: impl FnOnce() + Send + 'static,
) -> Receiver<(DeviceRequest, Vec<u8>)> {
    let (sender, inbox) = mpsc::sync_channel(WAITING);
    thread::spawn(move || {
        while let Ok((ask, mut attached)) = channel.receive() {
            if sender.send((ask, attached.pop().unwrap_or_default())).is_err() {
                break;
            }
        }
        gone();
    });
    inbox
}
