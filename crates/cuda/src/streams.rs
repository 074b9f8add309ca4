//! Streams.

use std::collections::HashMap;

use crate::State;
use crate::errors::{Outcome, Status};

/// CUDA's handles of the legacy default stream and of the default stream per thread.
pub const LEGACY_HANDLE: u64 = 1;
pub const PER_THREAD: u64 = 2;

/// A stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// The legacy default stream.
    Legacy,
    /// The default stream of a host thread.
    Thread(std::thread::ThreadId),
    /// A stream of the program, by its handle, and whether it waits for the legacy stream.
    Other(u64, bool),
}

/// The legacy default stream.
pub const LEGACY: Key = Key::Legacy;

impl Key {
    /// Whether the stream and the legacy stream wait for each other.
    pub fn is_blocking(self) -> bool {
        match self {
            Key::Legacy | Key::Thread(_) => true,
            Key::Other(_, blocking) => blocking,
        }
    }
}

/// A stream that the program has made.
#[derive(Clone, Debug)]
pub struct Stream {
    pub flags: u32,
    pub priority: i32,
}

/// A capture: operations become nodes of a graph.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The stream in which the capture began.
    pub origin: Key,
    pub graph: u64,
    pub id: u64,
    /// The nodes that the next one depends on.
    pub tips: Vec<u64>,
    pub mode: u32,
}

/// The streams of the process.
#[derive(Debug, Default)]
#[expect(clippy::struct_field_names, reason = "they are the streams, beside their captures")]
pub struct Streams {
    pub streams: HashMap<u64, Stream>,
    pub made: u64,
    /// The captures by stream. Streams that have joined a capture share its id.
    pub captures: HashMap<Key, Capture>,
    pub captures_made: u64,
}

/// The flag of streams that do not wait for the legacy stream.
pub const NON_BLOCKING: u32 = 1;

impl State {
    /// The stream of a handle.
    pub fn stream(&self, handle: u64) -> Result<Key, Status> {
        match handle {
            0 | LEGACY_HANDLE => Ok(LEGACY),
            PER_THREAD => Ok(Key::Thread(std::thread::current().id())),
            other => {
                let stream = self.streams.streams.get(&other).ok_or_else(|| {
                    crate::api::missed("stream");
                    Status::INVALID_HANDLE
                })?;
                Ok(Key::Other(other, stream.flags & NON_BLOCKING == 0))
            }
        }
    }

    /// The host waits for a stream.
    pub fn synchronise_stream(&mut self, stream: Key) {
        self.order.host_waits_for_stream(stream);
        self.reopen();
    }

    /// The host waits for all streams.
    pub fn synchronise_device(&mut self) {
        self.order.host_waits_for_all();
        self.reopen();
    }
}

/// Refuses a call that cannot be captured while a stream captures.
pub fn refuse_while_capturing(state: &State) -> Outcome {
    // Mode 2, "relaxed", allows calls that could disturb a capture.
    let disturbs = state.streams.captures.values().any(|capture| capture.mode != 2);
    if disturbs { Err(Status::STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
}
