//! A prepared launch that a program makes again and again.
//!
//! On an H200 an ordinary launch takes the CPU 4.0 us and the launch of a graph with one kernel 1.5 us, so a call that is
//! used often becomes a graph. `kernels/attention/NOTES.md` has the measurements.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys;

use super::context::{CudaStream, Retained};
use super::graph::{Graph, OwnStream};
use super::launch::Call;
use super::status::check;
use crate::accelerator::AcceleratorError;

/// Number of ordinary launches before a graph is made. It takes as long to make a graph as about ten launches save.
const ORDINARY_LAUNCHES: u32 = 16;

/// Most graphs of a context. The driver takes 115 KB of GPU memory for each.
const MOST_GRAPHS: usize = 128;

/// Launches in order that were resolved and checked once and can run any number of times, on any stream.
#[derive(Debug)]
pub struct RepeatedCall {
    context: Arc<Retained>,
    call: Call,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// No graph yet; the number of ordinary launches so far.
    Counting(u32),
    Graph(Graph),
    /// There are too many graphs, or the driver could not make this one.
    NoGraph,
}

// SAFETY: the handles of a graph are valid in every thread. The driver does not synchronise their use; the mutex does.
unsafe impl Send for State {}

impl RepeatedCall {
    pub(super) fn new(context: Arc<Retained>, call: Call) -> Self {
        RepeatedCall { context, call, state: Mutex::new(State::Counting(0)) }
    }

    /// Enqueues the launches on a stream and returns before they have run. A stream that is being captured records them.
    pub fn enqueue(&self, stream: CudaStream) -> Result<(), AcceleratorError> {
        let stream = stream.0 as sys::CUstream;
        self.context.with(|| {
            if is_captured(stream) {
                return self.call.enqueue(stream);
            }
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *state {
                State::Counting(launches) if *launches < ORDINARY_LAUNCHES => *launches += 1,
                State::Counting(_) => *state = self.make_graph().map_or(State::NoGraph, State::Graph),
                State::Graph(_) | State::NoGraph => {}
            }
            match &*state {
                State::Graph(graph) => graph.enqueue(stream).map_err(|error| self.call.failed(error)),
                State::Counting(_) | State::NoGraph => self.call.enqueue(stream),
            }
        })
    }

    /// Makes the graph of the launches. `None`: ordinary launches must do.
    fn make_graph(&self) -> Option<Graph> {
        let graphs = &self.context.graphs;
        if graphs.fetch_add(1, Ordering::Relaxed) < MOST_GRAPHS {
            let graph = without_capture_rules(|| {
                let stream = OwnStream::new()?;
                Graph::capture(stream.0, || self.call.enqueue(stream.0))
            });
            if let Ok(graph) = graph {
                return Some(graph);
            }
        }
        graphs.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for RepeatedCall {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let State::Graph(graph) = std::mem::replace(state, State::NoGraph) {
            self.context.graphs.fetch_sub(1, Ordering::Relaxed);
            let mut graph = Some(graph);
            let destroyed = self.context.with(|| {
                // If the graph is running, the driver destroys it afterwards.
                drop(graph.take());
                Ok::<_, AcceleratorError>(())
            });
            if destroyed.is_err() {
                // The context cannot be used any more, so the graph cannot be destroyed.
                std::mem::forget(graph);
            }
        }
    }
}

/// Whether launches on a stream are recorded instead of run. If the driver does not say, an ordinary launch does what
/// is right.
fn is_captured(stream: sys::CUstream) -> bool {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the caller's stream is alive; the call writes one status.
    let asked = unsafe { sys::cuStreamIsCapturing(stream, &raw mut status) };
    asked != sys::CUresult::CUDA_SUCCESS
        || status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
}

/// While any stream of the program is being captured, the driver refuses calls that the capture may not expect, and
/// the capture fails. Making a graph on a stream of our own does not affect it, so this thread is exempted meanwhile.
fn without_capture_rules<T>(
    work: impl FnOnce() -> Result<T, AcceleratorError>,
) -> Result<T, AcceleratorError> {
    let exchange = |mode: &mut sys::CUstreamCaptureMode| {
        // SAFETY: the call reads and writes one mode.
        check(
            "cuThreadExchangeStreamCaptureMode",
            unsafe { sys::cuThreadExchangeStreamCaptureMode(mode) }.result(),
        )
    };
    let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    exchange(&mut mode)?;
    let done = work();
    exchange(&mut mode)?;
    done
}
