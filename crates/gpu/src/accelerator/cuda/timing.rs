//! Times of launches: hot and cold by replaying a graph, eager by an event pair around one call.
//!
//! * Hot: a graph of many launches is replayed twice, the second time between two events, and the time divided by
//!   the number of launches. The first replay leaves the caches as the kernel leaves them, and keeps the GPU busy
//!   while the second is put behind it, so that what the CPU takes for that is not in the time.
//! * Cold: a graph writes over a buffer larger than the L2 and then launches once; the events around the launch are
//!   nodes of the graph themselves, so neither the write nor the graph's own start is in the time.
//! * Eager: an event, an ordinary launch, an event, on an idle GPU: the launch is in the time.
//!
//! How long a GPU takes from one kernel to the next depends on what else its context has been doing: [`SideStreams`]
//! puts every context into the same state.

use std::rc::Rc;

use cudarc::driver::{result, sys};

use super::device::{CudaDevice, check};
use super::helpers::Helpers;
use super::launch::Call;
use crate::accelerator::{Accelerator as _, AcceleratorError, Buffer};

/// Two points of a stream and the time between them.
#[derive(Debug)]
pub struct EventPair {
    start: sys::CUevent,
    end: sys::CUevent,
}

impl EventPair {
    pub fn new() -> Result<Self, AcceleratorError> {
        let create = || {
            let timed = sys::CUevent_flags::CU_EVENT_DEFAULT;
            check("cuEventCreate", result::event::create(timed))
        };
        Ok(EventPair { start: create()?, end: create()? })
    }

    /// Nanoseconds between the two, once the second has come to pass.
    fn elapsed_ns(&self) -> Result<f64, AcceleratorError> {
        // SAFETY: both events are alive and were recorded by the caller, on one stream.
        let milliseconds =
            check("cuEventElapsedTime", unsafe { result::event::elapsed(self.start, self.end) })?;
        Ok(f64::from(milliseconds) * 1e6)
    }
}

impl Drop for EventPair {
    fn drop(&mut self) {
        for event in [self.start, self.end] {
            // SAFETY: created by `new`, destroyed once. After a sticky error the driver refuses, which is fine.
            let _ = unsafe { result::event::destroy(event) };
        }
    }
}

fn record(event: sys::CUevent, stream: sys::CUstream) -> Result<(), AcceleratorError> {
    // SAFETY: the event and the stream are alive.
    check("cuEventRecord", unsafe { result::event::record(event, stream) })
}

/// What a stream was seen to do, ready to be done again.
#[derive(Debug)]
struct Graph {
    graph: sys::CUgraph,
    exec: sys::CUgraphExec,
}

impl Graph {
    fn capture(
        stream: sys::CUstream,
        work: impl FnOnce() -> Result<(), AcceleratorError>,
    ) -> Result<Self, AcceleratorError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive and captures nothing else.
        check("cuStreamBeginCapture", unsafe { result::stream::begin_capture(stream, mode) })?;
        let done = work();
        // SAFETY: begun just above. It must end whatever became of the work, or the stream stays in capture.
        let graph = check("cuStreamEndCapture", unsafe { result::stream::end_capture(stream) });
        done?;
        let graph = graph?;
        let flags = sys::CUgraphInstantiate_flags(0);
        // SAFETY: the graph was just captured.
        match check("cuGraphInstantiate", unsafe { result::graph::instantiate(graph, flags) }) {
            Ok(exec) => Ok(Graph { graph, exec }),
            Err(error) => {
                // SAFETY: nothing else knows of it.
                let _ = unsafe { result::graph::destroy(graph) };
                Err(error)
            }
        }
    }

    fn launch(&self, stream: sys::CUstream) -> Result<(), AcceleratorError> {
        // SAFETY: both are alive; what the graph's kernels point to is the caller's to keep.
        check("cuGraphLaunch", unsafe { result::graph::launch(self.exec, stream) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made in `capture`, destroyed once; nothing is launched any more.
        unsafe {
            let _ = result::graph::exec_destroy(self.exec);
            let _ = result::graph::destroy(self.graph);
        }
    }
}

/// Streams beside the one that is timed, to be used before times are taken.
///
/// From the end of a kernel to the start of the next takes an H200 some 0.3 us in a process that has used many streams
/// and has the GPU to itself, as programs that compute mostly do. Once other processes have had the GPU in between it
/// takes 0.1 us, until many streams have run kernels again: fills and copies do not count. Without this a time would
/// depend on who else is measured, by 10% where an answer takes a dozen small kernels.
#[derive(Debug)]
pub struct SideStreams {
    streams: Vec<sys::CUstream>,
    call: Call,
}

impl SideStreams {
    /// With 16 streams part of the difference was left on an H200, with 32 none.
    const COUNT: usize = 32;

    /// `call`: what they run. All at once, so it must not mind itself.
    pub fn new(call: Call) -> Result<Self, AcceleratorError> {
        let mut side = SideStreams { streams: Vec::new(), call };
        for _ in 0..Self::COUNT {
            let kind = result::stream::StreamKind::NonBlocking;
            side.streams.push(check("cuStreamCreate", result::stream::create(kind))?);
        }
        Ok(side)
    }

    /// Runs the call once on each, to the end.
    pub fn stir(&self) -> Result<(), AcceleratorError> {
        self.streams.iter().try_for_each(|&stream| self.call.enqueue(stream))?;
        result::ctx::synchronize().map_err(|error| self.call.failed(error))
    }
}

impl Drop for SideStreams {
    fn drop(&mut self) {
        for &stream in &self.streams {
            // SAFETY: created in `new`, destroyed once. After a sticky error the driver refuses, which is fine.
            let _ = unsafe { result::stream::destroy(stream) };
        }
    }
}

/// A launch, many times in a row.
#[derive(Debug)]
pub struct Replay {
    graph: Graph,
    times: u32,
    events: EventPair,
}

impl Replay {
    pub fn times(&self) -> u32 {
        self.times
    }
}

/// A launch with nothing of it in the L2.
#[derive(Debug)]
pub struct ColdReplay {
    graph: Graph,
    events: EventPair,
}

/// What is changed before every launch of a [`FreshReplay`].
#[derive(Clone, Debug)]
pub struct Fresh {
    /// Inputs whose signs may be turned, with the bits of their elements.
    pub inputs: Vec<(Buffer, u32)>,
    /// Outputs and workspace, with the words they are filled with.
    pub poisoned: Vec<(Buffer, u32)>,
}

/// A launch, many times in a row, on other inputs every time.
#[derive(Debug)]
pub struct FreshReplay {
    with: Graph,
    without: Graph,
    times: u32,
    seed: Buffer,
    events: EventPair,
    /// Their code is in the graphs.
    _helpers: Rc<Helpers>,
}

impl CudaDevice {
    /// A graph of `times` launches, of the calls in turn.
    pub fn replay(&self, calls: &[Call], times: u32) -> Result<Replay, AcceleratorError> {
        let times = times.max(1);
        let mut turns = calls.iter().cycle().take(times as usize);
        let graph = Graph::capture(self.stream, || turns.try_for_each(|call| call.enqueue(self.stream)))?;
        Ok(Replay { graph, times, events: EventPair::new()? })
    }

    /// A graph of `times` launches, each on inputs that no launch has had before and with nothing left of the launch
    /// before; and the same graph without the launches. The difference is the time of a launch on fresh inputs.
    pub fn fresh_replay(
        &mut self,
        call: &Call,
        fresh: &Fresh,
        times: u32,
    ) -> Result<FreshReplay, AcceleratorError> {
        let times = times.max(1);
        let seed = self.allocate("seed", 8)?;
        let helpers = self.helpers()?;
        let mut changes: Vec<Vec<Call>> = Vec::new();
        for salt in 0..u64::from(times) {
            let turn =
                |&(buffer, sign_bits): &(Buffer, u32)| helpers.turn_signs(buffer, sign_bits, seed, salt);
            changes.push(fresh.inputs.iter().map(turn).collect::<Result<_, _>>()?);
        }
        let graph = |with_launches: bool| {
            Graph::capture(self.stream, || {
                for changes in &changes {
                    changes.iter().try_for_each(|change| change.enqueue(self.stream))?;
                    self.enqueue_fills(&fresh.poisoned)?;
                    if with_launches {
                        call.enqueue(self.stream)?;
                    }
                }
                Ok(())
            })
        };
        let (with, without) = (graph(true)?, graph(false)?);
        Ok(FreshReplay { with, without, times, seed, events: EventPair::new()?, _helpers: helpers })
    }

    /// Nanoseconds of a launch on fresh inputs. `seed`: other inputs for every value.
    pub fn time_fresh(
        &mut self,
        call: &Call,
        replay: &FreshReplay,
        seed: u64,
    ) -> Result<f64, AcceleratorError> {
        self.write(replay.seed, &seed.to_le_bytes())?;
        let time = |graph: &Graph| {
            // The first replay hides what the CPU takes for the second, as in `time_hot`.
            graph.launch(self.stream)?;
            record(replay.events.start, self.stream)?;
            graph.launch(self.stream)?;
            record(replay.events.end, self.stream)?;
            self.finish(call)?;
            replay.events.elapsed_ns()
        };
        // Each graph is replayed twice, and turns the same signs both times: afterwards inputs are what they were. The one
        // with launches comes last, so that the outputs hold the answer to them.
        let without = time(&replay.without)?;
        let with = time(&replay.with)?;
        Ok((with - without) / f64::from(replay.times))
    }

    /// Runs everything a replay consists of once, without taking its time.
    pub fn run_hot(&self, call: &Call, replay: &Replay) -> Result<(), AcceleratorError> {
        replay.graph.launch(self.stream)?;
        self.finish(call)
    }

    pub fn run_cold(&self, call: &Call, replay: &ColdReplay) -> Result<(), AcceleratorError> {
        replay.graph.launch(self.stream)?;
        self.finish(call)
    }

    /// Launches a call once.
    pub fn run_once(&self, call: &Call) -> Result<(), AcceleratorError> {
        call.enqueue(self.stream)?;
        self.finish(call)
    }

    /// Fills buffers with words, on the stream.
    fn enqueue_fills(&self, fills: &[(Buffer, u32)]) -> Result<(), AcceleratorError> {
        fills.iter().try_for_each(|&(buffer, word)| {
            // SAFETY: the words written are those of the buffer.
            let status = unsafe {
                sys::cuMemsetD32Async(buffer.address, word, buffer.bytes as usize / 4, self.stream)
            };
            check("cuMemsetD32Async", status.result())
        })
    }

    /// A graph that fills buffers, writes over `flush`, then launches once between two events.
    pub fn cold_replay(
        &self,
        call: &Call,
        flush: Buffer,
        fills: &[(Buffer, u32)],
    ) -> Result<ColdReplay, AcceleratorError> {
        let events = EventPair::new()?;
        let external = |event: sys::CUevent| {
            let flags = sys::CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL as u32;
            // SAFETY: the event and the stream are alive.
            let status = unsafe { sys::cuEventRecordWithFlags(event, self.stream, flags) };
            check("cuEventRecordWithFlags", status.result())
        };
        let graph = Graph::capture(self.stream, || {
            self.enqueue_fills(fills)?;
            self.enqueue_fills(&[(flush, 0x5eed_5eed)])?;
            external(events.start)?;
            call.enqueue(self.stream)?;
            external(events.end)
        })?;
        Ok(ColdReplay { graph, events })
    }

    /// Nanoseconds of one launch of a replay, caches as the launch before left them.
    pub fn time_hot(&self, call: &Call, replay: &Replay) -> Result<f64, AcceleratorError> {
        replay.graph.launch(self.stream)?;
        record(replay.events.start, self.stream)?;
        replay.graph.launch(self.stream)?;
        record(replay.events.end, self.stream)?;
        self.finish(call)?;
        Ok(replay.events.elapsed_ns()? / f64::from(replay.times))
    }

    /// Nanoseconds of a launch that finds nothing of its own in the L2.
    pub fn time_cold(&self, call: &Call, replay: &ColdReplay) -> Result<f64, AcceleratorError> {
        // A kernel may ask for lines to stay in the L2. They would survive the flush.
        // SAFETY: a context is current.
        check("cuCtxResetPersistingL2Cache", unsafe { sys::cuCtxResetPersistingL2Cache() }.result())?;
        replay.graph.launch(self.stream)?;
        self.finish(call)?;
        replay.events.elapsed_ns()
    }

    /// Nanoseconds of a launch and of launching it, on an idle GPU. Buffers are filled before.
    pub fn time_eager(
        &self,
        call: &Call,
        events: &EventPair,
        fills: &[(Buffer, u32)],
    ) -> Result<f64, AcceleratorError> {
        if !fills.is_empty() {
            self.enqueue_fills(fills)?;
            self.finish(call)?;
        }
        record(events.start, self.stream)?;
        call.enqueue(self.stream)?;
        record(events.end, self.stream)?;
        self.finish(call)?;
        events.elapsed_ns()
    }

    /// Nanoseconds of a copy from one buffer to another, of `times` in a row.
    pub fn time_copy(&self, from: Buffer, to: Buffer, times: u32) -> Result<f64, AcceleratorError> {
        let (events, bytes) = (EventPair::new()?, from.bytes.min(to.bytes) as usize);
        let copy = || {
            // SAFETY: no more bytes than either buffer has.
            let status = unsafe { result::memcpy_dtod_async(to.address, from.address, bytes, self.stream) };
            check("cuMemcpyDtoDAsync", status)
        };
        copy()?;
        record(events.start, self.stream)?;
        (0..times.max(1)).try_for_each(|_| copy())?;
        record(events.end, self.stream)?;
        // SAFETY: the stream is alive.
        check("cuStreamSynchronize", unsafe { result::stream::synchronize(self.stream) })?;
        Ok(events.elapsed_ns()? / f64::from(times.max(1)))
    }

    /// Waits until everything has run; a fault is the call's.
    fn finish(&self, call: &Call) -> Result<(), AcceleratorError> {
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.stream) }.map_err(|error| call.failed(error))
    }
}
