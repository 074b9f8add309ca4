//! Times on a CUDA GPU: a kernel made ready for every timer, and what the device can do at best.

use chips::Target;
use gpu::accelerator::{
    Accelerator as _, AcceleratorError, Buffer, Call, ColdReplay, CudaDevice, EventPair, Geometry, Image,
    Replay, SideStreams,
};
use gpu::build::{Compiler, Request, Source};

use super::serve::Failure;
use crate::run::{Ceiling, MeasuredMicros, Speed, Timer};

/// Most launches in one graph: enough for a kernel of a few hundred nanoseconds.
const MOST_LAUNCHES: f64 = 2000.0;

/// A launch, ready to be timed.
pub(super) struct Armed<'d> {
    device: &'d CudaDevice,
    call: Call,
    side: SideStreams,
    hot: Option<Replay>,
    cold: Option<ColdReplay>,
    eager: Option<EventPair>,
}

impl<'d> Armed<'d> {
    /// Warms up and captures what the timers need. `flush` is a buffer larger than the L2.
    pub fn new(
        device: &'d CudaDevice,
        (call, side): (Call, SideStreams),
        timers: &[Timer],
        warmup: u32,
        replay_ns: f64,
        flush: Buffer,
    ) -> Result<Self, AcceleratorError> {
        let events = EventPair::new()?;
        for _ in 0..warmup.max(1) {
            device.time_eager(&call, &events)?;
        }
        let mut armed = Armed { device, call, side, hot: None, cold: None, eager: Some(events) };
        for timer in timers {
            match timer {
                Timer::GraphHot => armed.hot = Some(armed.hot_graph(replay_ns)?),
                Timer::GraphCold => armed.cold = Some(device.cold_replay(&armed.call, flush)?),
                Timer::Eager => {}
            }
        }
        Ok(armed)
    }

    /// A graph of as many launches as take about `replay_ns`.
    fn hot_graph(&self, replay_ns: f64) -> Result<Replay, AcceleratorError> {
        let mut replay = self.device.replay(&self.call, 1)?;
        // Twice: the first guess is of a graph of one launch, which costs more than one of many.
        for _ in 0..2 {
            let mut each = f64::INFINITY;
            for _ in 0..3 {
                each = each.min(self.device.time_hot(&self.call, &replay)?);
            }
            let times = (replay_ns / each).round().clamp(1.0, MOST_LAUNCHES);
            replay = self.device.replay(&self.call, times as u32)?;
        }
        Ok(replay)
    }

    pub fn launches(&self) -> u32 {
        self.hot.as_ref().map_or(1, Replay::times)
    }

    /// Nanoseconds of a launch, `count` times. Others may have had the GPU since the last.
    pub fn samples(&self, timer: Timer, count: usize) -> Result<Vec<f64>, Failure> {
        self.side.stir()?;
        (0..count).map(|_| self.sample(timer)).collect()
    }

    fn sample(&self, timer: Timer) -> Result<f64, Failure> {
        let not_armed = || Failure::other(format!("the timer `{timer}` was not asked for"));
        let Armed { device, call, .. } = self;
        let time = match timer {
            Timer::GraphHot => device.time_hot(call, self.hot.as_ref().ok_or_else(not_armed)?),
            Timer::GraphCold => device.time_cold(call, self.cold.as_ref().ok_or_else(not_armed)?),
            Timer::Eager => device.time_eager(call, self.eager.as_ref().ok_or_else(not_armed)?),
        };
        Ok(time?)
    }
}

/// A buffer to write over, of twice the L2.
pub(super) fn flush_buffer(device: &mut CudaDevice) -> Result<Buffer, AcceleratorError> {
    let bytes = (2 * device.l2_bytes()?).max(1 << 20);
    device.allocate("L2 flush", bytes)
}

/// A launch that does nothing.
pub(super) fn nothing(device: &mut CudaDevice, compiler: &Compiler, target: Target) -> Result<Call, Failure> {
    let source = Source {
        name: "nothing.cu".to_owned(),
        text: "extern \"C\" __global__ void nothing() {}\n".to_owned(),
        ..Source::default()
    };
    let build = compiler
        .build(&Request { source, target, options: Vec::new() })
        .map_err(|error| Failure::build(&error))?
        .build;
    let module = device.load(Image::Cubin(&build.cubin))?;
    let geometry = Geometry { grid: [1; 3], block: [32, 1, 1], cluster: [1; 3], shared_bytes: 0 };
    Ok(device.call(module, "nothing", geometry, &[])?)
}

/// Copy bandwidth and the launch floor, measured.
pub(super) fn ceilings(
    device: &mut CudaDevice,
    compiler: &Compiler,
    target: Target,
) -> Result<Vec<Ceiling>, Failure> {
    const BYTES: u64 = 512 << 20;
    const TIMES: u32 = 10;
    let from = device.allocate("copied from", BYTES)?;
    let to = device.allocate("copied to", BYTES)?;
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        best = best.min(device.time_copy(from, to, TIMES)?);
    }
    device.free(from)?;
    device.free(to)?;
    let copy = Ceiling {
        // Every byte is read and written.
        speed: Speed::CopyGbPerS(2.0 * BYTES as f64 / best),
        matrix: None,
        samples: 5 * TIMES as usize,
    };

    let call = nothing(device, compiler, target)?;
    let side = SideStreams::new(nothing(device, compiler, target)?)?;
    side.stir()?;
    let replay = device.replay(&call, 1000)?;
    let mut floor = f64::INFINITY;
    for _ in 0..5 {
        floor = floor.min(device.time_hot(&call, &replay)?);
    }
    let floor = Ceiling {
        speed: Speed::LaunchFloorUs(MeasuredMicros(floor / 1000.0)),
        matrix: None,
        samples: 5 * replay.times() as usize,
    };
    Ok(vec![copy, floor])
}
