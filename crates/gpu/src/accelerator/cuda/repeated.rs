//! A prepared launch that a program makes again and again.
//!
//! Launching a graph of one kernel takes the CPU less time than an ordinary launch: on an H200 1.5 us instead of 4.0, or 3.6
//! instead of 4.5 when the CPU is slow. So a call that is used often becomes a graph. `kernels/attention/NOTES.md` has the
//! measurements.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys;

use super::graph::Graph;
use super::launch::Call;
use super::primary::PrimaryContext;
use super::stream::{CudaStream, OwnStream, is_captured, without_capture_rules};
use crate::accelerator::AcceleratorError;

/// Number of ordinary launches before a graph is made. It takes as long to make a graph as about ten launches save.
const ORDINARY_LAUNCHES: u32 = 16;

/// Most graphs of the process. The driver takes 115 KB of GPU memory for each.
const MOST_GRAPHS: usize = 128;

/// Launches in order that were resolved and checked once and can run any number of times, on any stream.
#[derive(Debug)]
pub struct RepeatedCall {
    context: Arc<PrimaryContext>,
    call: Call,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// No graph yet; the number of ordinary launches so far.
    Counting(u32),
    Graph(Graph, Place),
    /// The driver could not make the graph or launch it.
    Failed,
}

// SAFETY: the handles of a graph are valid in every thread. The driver does not synchronise their use; the mutex does.
unsafe impl Send for State {}

impl RepeatedCall {
    pub(super) fn new(context: Arc<PrimaryContext>, call: Call) -> Self {
        RepeatedCall { context, call, state: Mutex::new(State::Counting(0)) }
    }

    /// Enqueues the launches on a stream and returns before they have run. A stream that is being captured records them.
    ///
    /// A call that is repeated becomes a graph. Its launches run one after another, also on different streams.
    pub fn enqueue(&self, stream: CudaStream) -> Result<(), AcceleratorError> {
        let stream = stream.0 as sys::CUstream;
        self.context.with(|| {
            if is_captured(stream) {
                return self.call.enqueue(stream);
            }
            if self.enqueue_graph(stream) {
                return Ok(());
            }
            self.call.enqueue(stream)?;
            if let State::Counting(launches) = &mut *self.state() {
                *launches += 1;
            }
            Ok(())
        })
    }

    /// As [`RepeatedCall::enqueue`], without a graph.
    pub fn enqueue_ordinary(&self, stream: CudaStream) -> Result<(), AcceleratorError> {
        self.context.with(|| self.call.enqueue(stream.0 as sys::CUstream))
    }

    /// Launches the graph, if there is one or it is time to make it. Returns whether that was done.
    fn enqueue_graph(&self, stream: sys::CUstream) -> bool {
        let mut state = self.state();
        if matches!(&*state, State::Counting(ORDINARY_LAUNCHES..)) {
            *state = self.make_graph();
        }
        let State::Graph(graph, _) = &*state else { return false };
        let is_launched = graph.launch(stream).is_ok();
        if !is_launched {
            // An ordinary launch follows. It works, or it reports the error.
            *state = State::Failed;
        }
        is_launched
    }

    /// Makes the graph of the launches.
    fn make_graph(&self) -> State {
        let Some(place) = Place::take() else { return State::Counting(0) };
        let graph = without_capture_rules(|| {
            let stream = OwnStream::new()?;
            Graph::capture(stream.0, || self.call.enqueue(stream.0))
        });
        match graph {
            Ok(Ok(graph)) => State::Graph(graph, place),
            _ => State::Failed,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RepeatedCall {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut *self.state(), State::Failed);
        if !matches!(state, State::Graph(..)) {
            return;
        }
        let mut state = Some(state);
        let dropped = self.context.with(|| {
            drop(state.take());
            Ok::<_, AcceleratorError>(())
        });
        if dropped.is_err() {
            // Without the context the graph cannot be destroyed. In a fork it belongs to the other process.
            std::mem::forget(state);
        }
    }
}

/// Number of graphs that exist.
static GRAPHS: AtomicUsize = AtomicUsize::new(0);

/// The right to one more graph. It counts until it is dropped.
#[derive(Debug)]
struct Place;

impl Place {
    /// `None`: there are too many graphs.
    fn take() -> Option<Self> {
        let one_more = |graphs: usize| (graphs < MOST_GRAPHS).then_some(graphs + 1);
        GRAPHS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok().map(|_| Place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        GRAPHS.fetch_sub(1, Ordering::Relaxed);
    }
}
