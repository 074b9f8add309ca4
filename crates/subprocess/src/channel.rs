//! The child's end of the private channel.

use std::env;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::wire;

/// The environment variable that holds the number of the child's file descriptor.
pub const VARIABLE: &str = "WARPSMITH_CHANNEL";

/// The channel to the parent process.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
}

impl Channel {
    /// The channel that this process inherited, or `None` if it was started without one. It is opened once.
    pub fn to_parent() -> Option<&'static Channel> {
        static CHANNEL: OnceLock<Option<Channel>> = OnceLock::new();
        CHANNEL.get_or_init(|| Channel::inherited().ok()).as_ref()
    }

    fn inherited() -> io::Result<Channel> {
        let number = env::var(VARIABLE).ok().and_then(|text| text.parse::<RawFd>().ok());
        // Numbers below 3 are the standard streams, which have other owners.
        let number = number.filter(|&number| number > 2).ok_or(io::ErrorKind::NotFound)?;
        // SAFETY: the parent opened this descriptor for this process and nothing else here uses it; `to_parent` calls
        // this once. The next line checks that it is open.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        if let Err(error) = fcntl_getfd(&descriptor) {
            // The descriptor is not open, so it must not be closed.
            std::mem::forget(descriptor);
            return Err(error.into());
        }
        // Child processes of this process must not inherit it.
        fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
        Ok(Channel { stream: UnixStream::from(descriptor) })
    }

    /// Sends a message with attachments. One thread at a time may send.
    pub fn send(&self, message: &impl Serialize, attachments: &[&[u8]]) -> io::Result<()> {
        wire::send(&mut &self.stream, message, attachments)
    }

    /// Receives a message with attachments. The parent is trusted, so their size is not limited. One thread at a time
    /// may receive.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<(T, Vec<Vec<u8>>)> {
        wire::receive(&mut &self.stream, wire::ANY_SIZE)
    }
}
