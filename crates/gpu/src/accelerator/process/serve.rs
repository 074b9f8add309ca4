//! The device's side.

use std::io;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use subprocess::Channel;

use super::wire::{Ask, Say};
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
        if ask == Ask::Open {
            // What the one before left behind is not the next one's.
            owed = None;
        }
        let is_answered = ask.is_answered();
        let done = owed.take().map_or_else(|| server.answer(ask, &bytes), Err);
        match done {
            Err(error) if !is_answered => owed = Some(error),
            Err(error) => channel.send(&Say::Failed(error), &[])?,
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
    fn answer(&mut self, ask: Ask, bytes: &[u8]) -> Result<(Say, Vec<u8>), AcceleratorError> {
        let said = match ask {
            Ask::Open => Say::Opened { description: self.open()? },
            Ask::Allocate { label, bytes } => {
                let buffer = self.device()?.allocate(&label, bytes)?;
                self.allocated.push(buffer);
                Say::Allocated(buffer)
            }
            Ask::Free(buffer) => {
                self.device()?.free(buffer)?;
                self.allocated.retain(|known| known.address != buffer.address);
                Say::Done
            }
            Ask::Write(buffer) => {
                self.device()?.write(buffer, bytes)?;
                Say::Done
            }
            Ask::Fill(buffer, word) => {
                self.device()?.fill(buffer, word)?;
                Say::Done
            }
            Ask::Variables(module) => Say::Variables(self.device()?.variables(module)?),
            Ask::World(seed) => {
                self.device()?.set_world(seed)?;
                Say::Done
            }
            Ask::Read(buffer) => return Ok((Say::Read, self.device()?.read(buffer)?)),
            Ask::EncodeTensorMap(map) => return Ok((Say::Read, self.device()?.encode_tensor_map(&map)?)),
            Ask::LoadCubin => Say::Loaded(self.device()?.load(Image::Cubin(bytes))?),
            Ask::LoadPtx => Say::Loaded(self.device()?.load(Image::Ptx(&String::from_utf8_lossy(bytes)))?),
            Ask::Launch { module, kernel, geometry, parameters } => {
                self.device()?.launch(module, &kernel, geometry, &parameters)?;
                Say::Done
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

fn listen(channel: &'static Channel, gone: impl FnOnce() + Send + 'static) -> Receiver<(Ask, Vec<u8>)> {
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
