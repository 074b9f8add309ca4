//! Times of launches: hot and cold times come from replaying a graph, eager times from a pair of events around one
//! call.
//!
//! * Hot: a graph of many launches is replayed twice. Two events measure the second replay, and the time is divided
//!   by the number of launches. The first replay warms the caches and keeps the GPU busy while the CPU enqueues the
//!   second replay, so the time does not include CPU work.
//! * Cold: a graph overwrites a buffer larger than the L2 and then launches once. The events around the launch are
//!   nodes of the graph, so the time includes neither the write nor the start of the graph.
//! * Eager: an event, an ordinary launch and an event on an idle GPU. The time includes the launch overhead.
//!
//! The gap between two kernels depends on the earlier activity of the context. [`SideStreams`] brings every context
//! into the same state.

use std::rc::Rc;

use cudarc::driver::{result, sys};
use times::MeasuredMicros;

use super::context::CudaContext;
use super::device::CudaDevice;
use super::graph::Graph;
use super::helpers::Helpers;
use super::launch::Call;
use super::status::check;
use super::stream::{CudaStream, OwnStream};
use crate::accelerator::{Accelerator as _, AcceleratorError, Buffer};

/// Two events on a stream; measures the time between them.
#[derive(Debug)]
pub struct EventPair {
    start: sys::CUevent,
    end: sys::CUevent,
}

impl EventPair {
    /// Creates the two events.
    pub fn new() -> Result<Self, AcceleratorError> {
        let create = || {
            let timed = sys::CUevent_flags::CU_EVENT_DEFAULT;
            check("cuEventCreate", result::event::create(timed))
        };
        Ok(EventPair { start: create()?, end: create()? })
    }

    /// Nanoseconds between the two events, once the second has occurred.
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
            // SAFETY: created by `new`, destroyed once. After a sticky error the driver refuses the call; that is
            // harmless.
            let _ = unsafe { result::event::destroy(event) };
        }
    }
}

fn record(event: sys::CUevent, stream: sys::CUstream) -> Result<(), AcceleratorError> {
    // SAFETY: the event and the stream are alive.
    check("cuEventRecord", unsafe { result::event::record(event, stream) })
}

/// Streams beside the timed one. They run kernels before times are taken.
///
/// On an H200 the gap between two kernels is about 0.3 us in a process that has used many streams and has the GPU to
/// itself, which is the usual case. After other processes have used the GPU the gap is 0.1 us, until many streams of
/// this process have run kernels again; fills and copies do not count. Without this step a time would depend on the
/// other subjects of the bench, by 10% when a result takes a dozen small kernels.
#[derive(Debug)]
pub struct SideStreams {
    streams: Vec<sys::CUstream>,
    call: Call,
}

impl SideStreams {
    /// On an H200, 16 streams left part of the difference; 32 streams left none.
    const COUNT: usize = 32;

    /// `call` is the kernel that the streams run. It runs on all streams at once, so it must tolerate concurrent
    /// runs.
    pub fn new(call: Call) -> Result<Self, AcceleratorError> {
        let mut side = SideStreams { streams: Vec::new(), call };
        for _ in 0..Self::COUNT {
            let kind = result::stream::StreamKind::NonBlocking;
            side.streams.push(check("cuStreamCreate", result::stream::create(kind))?);
        }
        Ok(side)
    }

    /// Runs the call once on each stream and waits for all of them.
    pub fn stir(&self) -> Result<(), AcceleratorError> {
        self.streams.iter().try_for_each(|&stream| self.call.enqueue(stream))?;
        result::ctx::synchronize().map_err(|error| self.call.failed(error))
    }
}

impl Drop for SideStreams {
    fn drop(&mut self) {
        for &stream in &self.streams {
            // SAFETY: created in `new`, destroyed once. After a sticky error the driver refuses the call; that is
            // harmless.
            let _ = unsafe { result::stream::destroy(stream) };
        }
    }
}

impl CudaContext {
    /// Times what `enqueue` puts on a stream, with warm caches: the microseconds of one run, from `samples` replays of a
    /// graph of many runs.
    pub fn time_replays<E: From<AcceleratorError>>(
        &self,
        samples: usize,
        mut enqueue: impl FnMut(CudaStream) -> Result<(), E>,
    ) -> Result<Vec<MeasuredMicros>, E> {
        const REPLAY_MICROS: f64 = 2000.0;
        const MOST_RUNS: f64 = 200.0;
        self.with(|| {
            let stream = OwnStream::new()?;
            let mut time = |runs: u32, samples: usize| -> Result<Vec<f64>, E> {
                let graph = Graph::capture(stream.0, || {
                    (0..runs).try_for_each(|_| enqueue(CudaStream(stream.0 as u64)))
                })?;
                let events = EventPair::new()?;
                let sample = |_| {
                    // The first replay hides the CPU time of the second, as in `time_hot`.
                    graph.launch(stream.0)?;
                    record(events.start, stream.0)?;
                    graph.launch(stream.0)?;
                    record(events.end, stream.0)?;
                    // SAFETY: the stream is alive.
                    check("cuStreamSynchronize", unsafe { result::stream::synchronize(stream.0) })?;
                    Ok(events.elapsed_ns()? / 1e3 / f64::from(runs))
                };
                Ok((0..samples).map(sample).collect::<Result<_, AcceleratorError>>()?)
            };
            let estimate = time(1, 2)?.into_iter().fold(f64::INFINITY, f64::min);
            let runs = (REPLAY_MICROS / estimate).clamp(1.0, MOST_RUNS) as u32;
            Ok(time(runs, samples)?.into_iter().map(MeasuredMicros).collect())
        })
    }
}

/// A graph of many launches in a row.
#[derive(Debug)]
pub struct Replay {
    graph: Graph,
    times: u32,
    events: EventPair,
}

impl Replay {
    /// Number of launches in the graph.
    pub fn times(&self) -> u32 {
        self.times
    }
}

/// A graph of one launch that starts with a cold L2.
#[derive(Debug)]
pub struct ColdReplay {
    graph: Graph,
    events: EventPair,
}

/// The changes before every launch of [`CudaDevice::fresh_replay`].
#[derive(Clone, Debug)]
pub struct FreshInputs {
    /// Inputs whose signs may be flipped, with the number of bits per element.
    pub inputs: Vec<(Buffer, u32)>,
    /// Outputs and workspace, with the words that fill them.
    pub poisoned: Vec<(Buffer, u32)>,
}

/// A graph of many launches in a row, with writes to their memory before each.
#[derive(Debug)]
pub struct ControlReplay {
    with: Graph,
    without: Graph,
    times: u32,
    seed: Buffer,
    events: EventPair,
    /// The graphs use the helpers' code, so it must stay loaded.
    _helpers: Rc<Helpers>,
}

/// A launch of a control, the changes of its memory before it, and the buffers that are filled with a word.
type ControlledLaunch<'a> = (&'a Call, Vec<Call>, &'a [(Buffer, u32)]);

impl CudaDevice {
    /// A graph of `times` launches that cycles through the calls.
    pub fn replay(&self, calls: &[Call], times: u32) -> Result<Replay, AcceleratorError> {
        let times = times.max(1);
        let mut cycled = calls.iter().cycle().take(times as usize);
        let graph = Graph::capture(self.stream, || cycled.try_for_each(|call| call.enqueue(self.stream)))?;
        Ok(Replay { graph, times, events: EventPair::new()? })
    }

    /// Launches on fresh inputs: before each of `times` launches the inputs change to values that no earlier launch
    /// had, and the results of the previous launch are overwritten.
    pub fn fresh_replay(
        &mut self,
        call: &Call,
        fresh: &FreshInputs,
        times: u32,
    ) -> Result<ControlReplay, AcceleratorError> {
        self.control_replay(times, |launch, helpers, seed| {
            let flip = |&(buffer, sign_bits): &(Buffer, u32)| {
                helpers.turn_signs(buffer, sign_bits, seed, u64::from(launch))
            };
            let changes = fresh.inputs.iter().map(flip).collect::<Result<_, _>>()?;
            Ok((call, changes, fresh.poisoned.as_slice()))
        })
    }

    /// Launches on repeated inputs in the state of the caches that [`CudaDevice::fresh_replay`] leaves: before each of
    /// `times` launches all its buffers are written again with their own contents. The launches cycle through the
    /// calls, each of which comes with its buffers.
    pub fn rewritten_replay(
        &mut self,
        calls: &[(&Call, Vec<Buffer>)],
        times: u32,
    ) -> Result<ControlReplay, AcceleratorError> {
        self.control_replay(times, |launch, helpers, seed| {
            let (call, buffers) = &calls[launch as usize % calls.len()];
            let rewrites = buffers.iter().map(|&buffer| helpers.rewrite(buffer, seed));
            Ok((*call, rewrites.collect::<Result<_, _>>()?, &[]))
        })
    }

    /// A graph of `times` launches, each after its changes and fills, and the same graph without the launches. The
    /// difference of the two graphs is the time of the launches.
    fn control_replay<'a>(
        &mut self,
        times: u32,
        launch: impl Fn(u32, &Helpers, Buffer) -> Result<ControlledLaunch<'a>, AcceleratorError>,
    ) -> Result<ControlReplay, AcceleratorError> {
        let times = times.max(1);
        let seed = self.allocate("seed", 8)?;
        let helpers = self.helpers()?;
        let launches =
            (0..times).map(|index| launch(index, &helpers, seed)).collect::<Result<Vec<_>, _>>()?;
        let graph = |with_launches: bool| {
            Graph::capture(self.stream, || {
                for (call, changes, fills) in &launches {
                    changes.iter().try_for_each(|change| change.enqueue(self.stream))?;
                    self.enqueue_fills(fills)?;
                    if with_launches {
                        call.enqueue(self.stream)?;
                    }
                }
                Ok(())
            })
        };
        let (with, without) = (graph(true)?, graph(false)?);
        Ok(ControlReplay { with, without, times, seed, events: EventPair::new()?, _helpers: helpers })
    }

    /// Nanoseconds of a launch of a control. Every value of `seed` gives other fresh inputs.
    pub fn time_control(
        &mut self,
        call: &Call,
        replay: &ControlReplay,
        seed: u64,
    ) -> Result<f64, AcceleratorError> {
        self.write(replay.seed, &seed.to_le_bytes())?;
        let time = |graph: &Graph| {
            // The first replay hides the CPU time of the second, as in `time_hot`.
            graph.launch(self.stream)?;
            record(replay.events.start, self.stream)?;
            graph.launch(self.stream)?;
            record(replay.events.end, self.stream)?;
            self.finish(call)?;
            replay.events.elapsed_ns()
        };
        // Each graph is replayed twice and flips the same signs both times, so the inputs end unchanged. The graph
        // with launches runs last, so that the outputs hold the result for the current inputs.
        let without = time(&replay.without)?;
        let with = time(&replay.with)?;
        Ok((with - without) / f64::from(replay.times))
    }

    /// Runs a hot replay once without timing it.
    pub fn run_hot(&self, call: &Call, replay: &Replay) -> Result<(), AcceleratorError> {
        replay.graph.launch(self.stream)?;
        self.finish(call)
    }

    /// Runs a cold replay once without timing it.
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
            // SAFETY: the call writes only words of the buffer.
            let status = unsafe {
                sys::cuMemsetD32Async(buffer.address, word, buffer.bytes as usize / 4, self.stream)
            };
            check("cuMemsetD32Async", status.result())
        })
    }

    /// A graph that fills buffers, overwrites `flush`, then launches once between two events.
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

    /// Nanoseconds of one launch of a replay with warm caches.
    pub fn time_hot(&self, call: &Call, replay: &Replay) -> Result<f64, AcceleratorError> {
        replay.graph.launch(self.stream)?;
        record(replay.events.start, self.stream)?;
        replay.graph.launch(self.stream)?;
        record(replay.events.end, self.stream)?;
        self.finish(call)?;
        Ok(replay.events.elapsed_ns()? / f64::from(replay.times))
    }

    /// Nanoseconds of a launch with a cold L2.
    pub fn time_cold(&self, call: &Call, replay: &ColdReplay) -> Result<f64, AcceleratorError> {
        // A kernel may mark lines as persisting in the L2. They would survive the flush.
        // SAFETY: a context is current.
        check("cuCtxResetPersistingL2Cache", unsafe { sys::cuCtxResetPersistingL2Cache() }.result())?;
        replay.graph.launch(self.stream)?;
        self.finish(call)?;
        replay.events.elapsed_ns()
    }

    /// Nanoseconds of a launch on an idle GPU, including the launch overhead. Buffers are filled first.
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

    /// Nanoseconds of one copy between two buffers, the mean of `times` copies in a row.
    pub fn time_copy(&self, from: Buffer, to: Buffer, times: u32) -> Result<f64, AcceleratorError> {
        let (events, bytes) = (EventPair::new()?, from.bytes.min(to.bytes) as usize);
        let copy = || {
            // SAFETY: the copy is not larger than either buffer.
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

    /// Waits until all work has run. A fault is reported as the call's fault.
    fn finish(&self, call: &Call) -> Result<(), AcceleratorError> {
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.stream) }.map_err(|error| call.failed(error))
    }
}
