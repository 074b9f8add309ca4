//! Operations on streams. They run when they are enqueued, or become nodes of a graph while the stream captures.

use crate::call_site::Site;
use crate::copies::{Copy, Fill};
use crate::errors::{Outcome, Status};
use crate::launches::Launch;
use crate::streams::{Key, LEGACY};
use crate::usable;

/// An operation on a stream.
#[derive(Clone, Debug)]
pub enum Work {
    Copy(Copy),
    Fill(Fill),
    Launch(Launch),
    Host(Callback),
    /// Records an event.
    Record(u64),
    /// Waits for an event.
    Wait(u64),
    /// The nodes of another graph.
    Graph(Vec<(u64, Node)>),
    /// Frees memory of a pool.
    Free(u64),
    Nothing,
}

/// A node: an operation that depends on others.
#[derive(Clone, Debug)]
pub struct Node {
    pub work: Work,
    /// The handles of the nodes that run before.
    pub after: Vec<u64>,
    pub site: Site,
    pub is_enabled: bool,
}

/// A function of the program.
#[derive(Clone, Copy, Debug)]
pub enum Callback {
    /// `void (*)(void*)`
    Plain { function: u64, data: u64 },
    /// `void (*)(CUstream, CUresult, void*)`
    OfStream { function: u64, stream: u64, data: u64 },
}

impl Callback {
    /// Calls the function. The caller must not hold the lock of the state.
    fn call(self) {
        match self {
            Callback::Plain { function, data } => {
                // SAFETY: the program promises that this is such a function. Null was refused.
                let function: extern "C-unwind" fn(u64) = unsafe { std::mem::transmute(function as usize) };
                function(data);
            }
            Callback::OfStream { function, stream, data } => {
                // SAFETY: as above.
                let function: extern "C-unwind" fn(u64, u32, u64) =
                    unsafe { std::mem::transmute(function as usize) };
                function(stream, 0, data);
            }
        }
    }
}

/// Enqueues an operation.
pub fn perform(stream: Key, work: Work, site: Site) -> Outcome {
    {
        let mut state = usable()?;
        if let Some(capture) = state.streams.captures.get(&stream).cloned() {
            let node = state.add_node(capture.graph, &capture.tips, work, site)?;
            if let Some(capture) = state.streams.captures.get_mut(&stream) {
                capture.tips = vec![node];
            }
            return Ok(());
        }
        let blocks = |key: &Key| key.is_blocking();
        if stream == LEGACY && state.streams.captures.keys().any(blocks) {
            return Err(Status::STREAM_CAPTURE_IMPLICIT);
        }
    }
    run(stream, &work, &site)
}

/// Runs an operation. `site` is the place that findings name for it.
pub fn run(stream: Key, work: &Work, site: &Site) -> Outcome {
    match work {
        Work::Copy(copy) => usable()?.copy(stream, copy),
        Work::Fill(fill) => usable()?.fill(stream, fill),
        Work::Launch(launch) => usable()?.launch(stream, launch, site),
        Work::Record(event) => usable()?.record_event(stream, *event),
        Work::Wait(event) => usable()?.wait_for_event(stream, *event),
        Work::Free(address) => usable()?.free_in_order(stream, *address),
        Work::Nothing => {
            usable()?.begin_operation(stream, &[]);
            Ok(())
        }
        Work::Host(callback) => {
            // The function runs after all earlier operations of the stream, and all later ones are ordered after it.
            usable()?.begin_operation(stream, &[]);
            usable()?.synchronise_stream(stream);
            callback.call();
            usable()?.begin_operation(stream, &[]);
            Ok(())
        }
        Work::Graph(nodes) => {
            for (_, node) in nodes.iter().filter(|(_, node)| node.is_enabled) {
                run(stream, &node.work, &node.site)?;
            }
            Ok(())
        }
    }
}
