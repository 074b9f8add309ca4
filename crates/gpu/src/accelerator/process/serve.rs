//! The device's side.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use super::wire::{self, Ask, Say};
use crate::accelerator::{Accelerator, AcceleratorError, Image};

/// Answers what is asked until nobody asks any more. `gone` is called then, from another thread: a kernel that never
/// ends may keep this one.
pub fn serve(
    mut stream: UnixStream,
    mut open: impl FnMut() -> Result<Box<dyn Accelerator>, AcceleratorError>,
    gone: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let inbox = listen(stream.try_clone()?, gone);
    let mut device: Option<Box<dyn Accelerator>> = None;
    // What went wrong where nobody waited for an answer.
    let mut owed = None;
    for (ask, bytes) in inbox {
        if ask == Ask::Open {
            // The one before goes first, with what it loaded.
            (device, owed) = (None, None);
            let opened = open().map(|opened| device.insert(opened).describe());
            let said = opened.map_or_else(Say::Failed, |description| Say::Opened { description });
            wire::send(&mut stream, &said, &[])?;
            continue;
        }
        let is_answered = ask.is_answered();
        let done = match (&mut device, owed.take()) {
            (_, Some(error)) => Err(error),
            (None, None) => Err(AcceleratorError::Lost("no device was opened".to_owned())),
            (Some(device), None) => answer(&mut **device, ask, &bytes),
        };
        match done {
            Err(error) if !is_answered => owed = Some(error),
            Err(error) => wire::send(&mut stream, &Say::Failed(error), &[])?,
            Ok(Some((said, bytes))) => wire::send(&mut stream, &said, &bytes)?,
            Ok(None) => {}
        }
    }
    Ok(())
}

fn answer(
    device: &mut dyn Accelerator,
    ask: Ask,
    bytes: &[u8],
) -> Result<Option<(Say, Vec<u8>)>, AcceleratorError> {
    let said = match ask {
        Ask::Free(buffer) => return device.free(buffer).map(|()| None),
        Ask::Write(buffer) => return device.write(buffer, bytes).map(|()| None),
        Ask::Read(buffer) => return Ok(Some((Say::Read, device.read(buffer)?))),
        Ask::Open => Say::Opened { description: device.describe() },
        Ask::Allocate { label, bytes } => Say::Allocated(device.allocate(&label, bytes)?),
        Ask::LoadCubin => Say::Loaded(device.load(Image::Cubin(bytes))?),
        Ask::LoadPtx => Say::Loaded(device.load(Image::Ptx(&String::from_utf8_lossy(bytes)))?),
        Ask::Launch { module, kernel, geometry, parameters } => {
            device.launch(module, &kernel, geometry, &parameters)?;
            Say::Launched
        }
    };
    Ok(Some((said, Vec::new())))
}

/// Asks that wait to be answered; more would be memory for nothing.
const WAITING: usize = 2;

fn listen(mut stream: UnixStream, gone: impl FnOnce() + Send + 'static) -> Receiver<(Ask, Vec<u8>)> {
    let (sender, inbox) = mpsc::sync_channel(WAITING);
    thread::spawn(move || {
        while let Ok(ask) = wire::receive(&mut stream) {
            if sender.send(ask).is_err() {
                break;
            }
        }
        gone();
    });
    inbox
}
