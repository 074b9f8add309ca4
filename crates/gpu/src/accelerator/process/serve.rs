//! The server side: runs in the process that has the device.

use std::io;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use subprocess::Channel;

use super::wire::{DeviceReply, DeviceRequest, digest};
use crate::accelerator::{Accelerator, AcceleratorError, Buffer, Image};

/// Answers requests until the client closes the channel. `gone` is then called from another thread, because a kernel
/// that never ends may block this one.
pub fn serve(
    channel: &'static Channel,
    open: impl FnMut() -> Result<Box<dyn Accelerator>, AcceleratorError>,
    gone: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let requests = listen(channel, gone);
    let mut server = Server { open, device: None, allocated: Vec::new() };
    // The error of a request that has no reply. The next reply reports it.
    let mut pending_error = None;
    for (request, bytes) in requests {
        if request == DeviceRequest::Open {
            // Errors of the previous client are not reported to the next one.
            pending_error = None;
        }
        let is_answered = request.is_answered();
        let result = pending_error.take().map_or_else(|| server.answer(request, &bytes), Err);
        match result {
            Err(error) if !is_answered => pending_error = Some(error),
            Err(error) => channel.send(&DeviceReply::Failed(error), &[])?,
            Ok((reply, bytes)) if is_answered => {
                let attached: &[&[u8]] = if bytes.is_empty() { &[] } else { &[&bytes] };
                channel.send(&reply, attached)?;
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
        request: DeviceRequest,
        bytes: &[u8],
    ) -> Result<(DeviceReply, Vec<u8>), AcceleratorError> {
        let reply = match request {
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
            DeviceRequest::EncodeTensorMap(map) => {
                return Ok((DeviceReply::Read, self.device()?.encode_tensor_map(&map)?));
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
        Ok((reply, Vec::new()))
    }

    fn device(&mut self) -> Result<&mut dyn Accelerator, AcceleratorError> {
        match &mut self.device {
            Some(device) => Ok(&mut **device),
            None => Err(AcceleratorError::Lost("no device was opened".to_owned())),
        }
    }

    /// Opens the device again and returns its description.
    fn open(&mut self) -> Result<String, AcceleratorError> {
        // The previous device is closed first; this frees its modules and leaked buffers.
        if let Some(mut device) = self.device.take() {
            for buffer in self.allocated.drain(..) {
                device.free(buffer)?;
            }
        }
        Ok(self.device.insert((self.open)()?).describe())
    }
}

/// Number of requests that may wait. A longer queue would only use memory.
const QUEUE_LENGTH: usize = 2;

/// Reads requests on a separate thread and calls `gone` when the channel is closed.
fn listen(
    channel: &'static Channel,
    gone: impl FnOnce() + Send + 'static,
) -> Receiver<(DeviceRequest, Vec<u8>)> {
    let (sender, requests) = mpsc::sync_channel(QUEUE_LENGTH);
    thread::spawn(move || {
        while let Ok((request, mut attached)) = channel.receive() {
            if sender.send((request, attached.pop().unwrap_or_default())).is_err() {
                break;
            }
        }
        gone();
    });
    requests
}
