//! Timing on a CUDA GPU: prepares a kernel for every timer, and measures the ceilings of the device.

use std::cell::Cell;

use chips::Target;
use compiler::{Compiler, Request, Source};
use gpu::accelerator::{
    Accelerator as _, AcceleratorError, Buffer, Call, ColdReplay, CudaDevice, EventPair, FreshInputs,
    Geometry, Image, LaunchStep, Replay, SideStreams,
};
use runlog::{Ceiling, MeasuredMicros, Repeats, Speed, Timer};

use super::failure::CandidateFailure;

/// Largest number of launches in one graph: enough for a kernel of a few hundred nanoseconds.
const MAX_LAUNCHES: f64 = 2000.0;

/// Total duration of the fresh control's launches. The time between launches is known to one microsecond.
const FRESH_NS: f64 = 200_000.0;
const MAX_FRESH_LAUNCHES: f64 = 32.0;
const FRESH_REPEATS: u64 = 4;

/// The launches of a kernel, prepared for timing: one for each set of inputs, all with the same outputs.
pub(super) struct TimedGraphs {
    calls: Vec<Call>,
    side: SideStreams,
    hot: Option<Replay>,
    cold: Option<ColdReplay>,
    eager: Option<EventPair>,
    replay_ns: f64,
    poisoned: Vec<(Buffer, u32)>,
    /// Number of eager launches so far.
    turn: Cell<usize>,
}

impl TimedGraphs {
    /// Warms up and captures the graphs of the timers. `flush` is a buffer larger than the L2. `poisoned` is what fills
    /// outputs and workspace before a launch that is timed alone.
    pub fn new(
        device: &CudaDevice,
        (calls, side): (Vec<Call>, SideStreams),
        timers: &[Timer],
        (warmup, replay_ns): (u32, f64),
        (flush, poisoned): (Buffer, Vec<(Buffer, u32)>),
    ) -> Result<Self, AcceleratorError> {
        let events = EventPair::new()?;
        let mut armed = TimedGraphs {
            calls,
            side,
            hot: None,
            cold: None,
            eager: None,
            replay_ns,
            poisoned,
            turn: Cell::new(0),
        };
        for _ in 0..warmup.max(1) {
            device.time_eager(armed.call(), &events, &[])?;
        }
        armed.eager = Some(events);
        for timer in timers {
            match timer {
                Timer::GraphHot => armed.hot = Some(armed.hot_graph(device)?),
                Timer::GraphCold => {
                    armed.cold = Some(device.cold_replay(armed.call(), flush, &armed.poisoned)?);
                }
                Timer::Eager => {}
            }
        }
        Ok(armed)
    }

    /// The launch on the first inputs.
    fn call(&self) -> &Call {
        &self.calls[0]
    }

    /// Returns a graph with as many launches as take about `replay_ns`.
    fn hot_graph(&self, device: &CudaDevice) -> Result<Replay, AcceleratorError> {
        let mut replay = device.replay(&self.calls, 1)?;
        // Two rounds: the first estimate comes from a graph of one launch, which has more overhead per launch.
        for _ in 0..2 {
            let each = shortest(3, || device.time_hot(self.call(), &replay))?;
            let times = (self.replay_ns / each).round().clamp(1.0, MAX_LAUNCHES);
            replay = device.replay(&self.calls, times as u32)?;
        }
        Ok(replay)
    }

    /// The number of launches in one replay of the hot graph.
    pub fn launches(&self) -> u32 {
        self.hot.as_ref().map_or(1, Replay::times)
    }

    /// Returns `count` samples in nanoseconds per launch. Other processes may have used the GPU since the last call.
    pub fn samples(
        &self,
        device: &CudaDevice,
        timer: Timer,
        count: usize,
    ) -> Result<Vec<f64>, CandidateFailure> {
        self.side.stir()?;
        (0..count).map(|_| self.sample(device, timer)).collect()
    }

    fn sample(&self, device: &CudaDevice, timer: Timer) -> Result<f64, CandidateFailure> {
        let not_armed = || CandidateFailure::other(format!("the timer `{timer}` was not requested"));
        let call = self.call();
        let time = match timer {
            Timer::GraphHot => device.time_hot(call, self.hot.as_ref().ok_or_else(not_armed)?),
            Timer::GraphCold => device.time_cold(call, self.cold.as_ref().ok_or_else(not_armed)?),
            Timer::Eager => self.sample_eager(device, self.eager.as_ref().ok_or_else(not_armed)?),
        };
        Ok(time?)
    }

    /// A launch must not find its own answer in the outputs: either the inputs alternate, or the outputs are filled
    /// first.
    fn sample_eager(&self, device: &CudaDevice, events: &EventPair) -> Result<f64, AcceleratorError> {
        let turn = self.turn.get();
        self.turn.set(turn + 1);
        let fills: &[_] = if self.calls.len() > 1 { &[] } else { &self.poisoned };
        device.time_eager(&self.calls[turn % self.calls.len()], events, fills)
    }

    /// Returns everything that was timed, to be run once more, each with the index of the inputs of its last launch.
    /// Many launches of a kernel that works in place have no single right answer, so its hot graph is left out.
    pub fn runs(&self, is_in_place: bool) -> Vec<(TimedGraph<'_>, usize)> {
        let mut runs = Vec::new();
        if let Some(hot) = self.hot.as_ref().filter(|_| !is_in_place) {
            runs.push((TimedGraph::Hot(hot), (hot.times() as usize - 1) % self.calls.len()));
        }
        if let Some(cold) = &self.cold {
            runs.push((TimedGraph::Cold(cold), 0));
        }
        let is_covered =
            |inputs: usize, runs: &[(TimedGraph<'_>, usize)]| runs.iter().any(|(_, known)| *known == inputs);
        for (inputs, call) in self.calls.iter().enumerate() {
            if !is_covered(inputs, &runs) {
                runs.push((TimedGraph::Once(call), inputs));
            }
        }
        runs
    }

    /// Runs something that was timed once more.
    pub fn run(&self, device: &CudaDevice, rerun: &TimedGraph<'_>) -> Result<(), AcceleratorError> {
        match rerun {
            TimedGraph::Hot(replay) => device.run_hot(self.call(), replay),
            TimedGraph::Cold(replay) => device.run_cold(self.call(), replay),
            TimedGraph::Once(call) => device.run_once(call),
        }
    }

    /// Times a launch on inputs that it has just seen, on the same inputs written again, and on fresh inputs.
    /// `buffers` are those of each set of inputs, with outputs and workspace; `flush` is larger than the L2.
    pub fn repeats(
        &self,
        device: &mut CudaDevice,
        fresh: &FreshInputs,
        (buffers, flush): (&[Vec<Buffer>], Buffer),
        seed: u64,
    ) -> Result<Repeats, AcceleratorError> {
        self.side.stir()?;
        let own;
        let hot = if let Some(hot) = &self.hot {
            hot
        } else {
            own = self.hot_graph(device)?;
            &own
        };
        let repeated_ns = shortest(3, || device.time_hot(self.call(), hot))?;
        let cache_ns = cache_delay_ns(device, buffers, flush)?;
        let mut repeats = Repeats { repeated_ns, rewritten_ns: None, cache_ns, fresh_ns: None };
        if fresh.inputs.is_empty() {
            return Ok(repeats);
        }
        let times = (FRESH_NS / repeated_ns).clamp(2.0, MAX_FRESH_LAUNCHES) as u32;
        // Every set of inputs is launched equally often.
        let rewritten_times = times.next_multiple_of(self.calls.len() as u32);
        let calls: Vec<_> = self.calls.iter().zip(buffers.iter().cloned()).collect();
        let rewritten = device.rewritten_replay(&calls, rewritten_times)?;
        let fresh = device.fresh_replay(self.call(), fresh, times)?;
        // In turns: the clock of a hot GPU falls from one second to the next, and must not make the fresh inputs look slow.
        // The fresh launches are last, because the answer of the last one is compared.
        let (mut rewritten_ns, mut fresh_ns) = (f64::INFINITY, f64::INFINITY);
        for index in 0..FRESH_REPEATS {
            let seed = op::derive_seed(seed, index);
            rewritten_ns = rewritten_ns.min(device.time_control(self.call(), &rewritten, seed)?);
            fresh_ns = fresh_ns.min(device.time_control(self.call(), &fresh, seed)?);
        }
        repeats.rewritten_ns = Some(rewritten_ns);
        repeats.fresh_ns = Some(fresh_ns);
        Ok(repeats)
    }
}

/// The longest time by which the state of the caches may delay a launch whose buffers were just written. Buffers that
/// fill a small part of the L2 stay there and delay nothing. Larger ones leave changed lines behind, which must be
/// written to memory, and inputs that must be read from memory. The time of a copy in the same run is the measure.
fn cache_delay_ns(
    device: &CudaDevice,
    buffers: &[Vec<Buffer>],
    flush: Buffer,
) -> Result<f64, AcceleratorError> {
    let l2_bytes = device.l2_bytes()?;
    let all: u64 = buffers.iter().flatten().map(|buffer| buffer.bytes).sum();
    if all <= l2_bytes / 4 {
        return Ok(0.0);
    }
    // A copy reads and writes its bytes, so half of them move as many as are delayed at most.
    let bytes = all.min(l2_bytes) / 2;
    let from = Buffer { bytes, ..flush };
    let to = Buffer { address: flush.address + flush.bytes / 2, ..from };
    shortest(3, || device.time_copy(from, to, 4))
}

/// A graph or launch that was timed.
#[derive(Debug)]
pub(super) enum TimedGraph<'a> {
    Hot(&'a Replay),
    Cold(&'a ColdReplay),
    Once(&'a Call),
}

/// The shortest of several times.
fn shortest(
    times: usize,
    mut time: impl FnMut() -> Result<f64, AcceleratorError>,
) -> Result<f64, AcceleratorError> {
    let mut best = f64::INFINITY;
    for _ in 0..times {
        best = best.min(time()?);
    }
    Ok(best)
}

/// Allocates a buffer of twice the L2, to overwrite the cache.
pub(super) fn flush_buffer(device: &mut CudaDevice) -> Result<Buffer, AcceleratorError> {
    let bytes = (2 * device.l2_bytes()?).max(1 << 20);
    device.allocate("L2 flush", bytes)
}

/// Prepares a launch of an empty kernel.
pub(super) fn empty_launch(
    device: &mut CudaDevice,
    compiler: &Compiler,
    target: Target,
) -> Result<Call, CandidateFailure> {
    let source = Source {
        name: "nothing.cu".to_owned(),
        text: "extern \"C\" __global__ void nothing() {}\n".to_owned(),
        ..Source::default()
    };
    let build = compiler
        .build(&Request { source, target, options: Vec::new() })
        .map_err(|error| CandidateFailure::build(&error))?
        .build;
    let module = device.load(Image::Cubin(&build.cubin))?;
    let geometry = Geometry { grid: [1; 3], block: [32, 1, 1], cluster: [1; 3], shared_bytes: 0 };
    Ok(device.call(module, [LaunchStep { entry: "nothing", geometry, parameters: &[] }])?)
}

/// Measures the copy bandwidth and the launch floor.
pub(super) fn ceilings(
    device: &mut CudaDevice,
    compiler: &Compiler,
    target: Target,
) -> Result<Vec<Ceiling>, CandidateFailure> {
    const BYTES: u64 = 512 << 20;
    const TIMES: u32 = 10;
    let from = device.allocate("copied from", BYTES)?;
    let to = device.allocate("copied to", BYTES)?;
    let best = shortest(5, || device.time_copy(from, to, TIMES))?;
    device.free(from)?;
    device.free(to)?;
    let copy = Ceiling {
        // Every byte is read and written.
        speed: Speed::CopyGbPerS(2.0 * BYTES as f64 / best),
        matrix: None,
        samples: 5 * TIMES as usize,
    };

    let call = empty_launch(device, compiler, target)?;
    let side = SideStreams::new(empty_launch(device, compiler, target)?)?;
    side.stir()?;
    let calls = [call];
    let replay = device.replay(&calls, 1000)?;
    let floor = shortest(5, || device.time_hot(&calls[0], &replay))?;
    let floor = Ceiling {
        speed: Speed::LaunchFloorUs(MeasuredMicros(floor / 1000.0)),
        matrix: None,
        samples: 5 * replay.times() as usize,
    };
    Ok(vec![copy, floor])
}
