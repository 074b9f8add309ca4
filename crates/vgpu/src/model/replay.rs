//! Replays the timelines of blocks on one modelled multiprocessor (SM).
//!
//! An SM has four parts with a scheduler, arithmetic pipes and a tensor core each. The warps of a block are dealt out to
//! the parts. A warp does one step after another. Code takes the clocks of its chain of dependent instructions, or longer
//! if the warps of the part need more of a pipe than it has. All of them then run slower by the same factor. Products
//! wait in a queue per warp, and the tensor core serves the queues in turns. Copies share the path to L2 and land after a
//! latency. A phase of a barrier ends with its last arrival or copy. The warps that wait then continue.
//!
//! A product slows down the code that runs at the same time, and many f32 instructions slow down a product: see
//! [`Beside`].

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use crate::count::{CopyKind, Phase, Step, Timeline, Work};

/// Number of pipes that each part of the SM has, and that the parts share. The shared ones come last.
pub const PIPES: usize = OWN_PIPES + 3;
const OWN_PIPES: usize = 8;

/// How a running product slows down code in the same part of the SM, and the reverse. Measured on an H200 with two warps
/// of each scheduler beside saturated `wgmma` (kernels that run one instruction only; clocks per warp instruction).
pub struct Beside;

impl Beside {
    /// Special functions: 8.2 clocks become 10.8.
    const SPECIAL: f64 = 10.8 / 8.2;
    /// Maxima of f32: 2.2 clocks become 4.35.
    const INTEGER: f64 = 4.35 / 2.2;
    /// The mix of a softmax (a maximum, a multiply-addition, an exponential, an addition and half a conversion) takes 14.3
    /// clocks per element, more than any of its pipes needs. So arithmetic instructions of all kinds share something;
    /// each of the 4.5 takes this long.
    const ARITHMETIC: f64 = 14.3 / 4.5;
    /// f32 instructions per clock that do not harm a product: those of that mix.
    const HARMLESS: f64 = 2.0 / 14.3;
    /// A stream of f32 instructions alone makes a product of 66 clocks take 164 to 192.
    const SLOWEST_PRODUCT: f64 = 178.0 / 66.0;

    /// By what factor a product is slower beside this many f32 instructions per clock.
    fn product(fp32_per_clock: f64) -> f64 {
        let most = 1.0 / Self::ARITHMETIC - Self::HARMLESS;
        let excess = ((fp32_per_clock - Self::HARMLESS) / most).clamp(0.0, 1.0);
        1.0 + (Self::SLOWEST_PRODUCT - 1.0) * excess
    }
}

/// Clocks after the last product of a group until its results can be used: the latency of `mma.sync`.
const PRODUCT_LATENCY: f64 = 33.0;

/// Clocks from an arrival at a barrier to the next instruction of a warp that waits for it.
const BARRIER_LATENCY: f64 = 20.0;

/// Rates of an SM in a launch.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Clocks per warp instruction in one part of the SM, for the pipes of [`Work`] in their order.
    pub integer: f64,
    /// f32 arithmetic.
    pub fp32: f64,
    /// 16-bit arithmetic.
    pub fp16: f64,
    /// f64 arithmetic.
    pub fp64: f64,
    /// Special functions.
    pub special: f64,
    /// Clocks per floating-point operation of a product of one warp.
    pub tensor: f64,
    /// Clocks per request to the load/store units.
    pub memory: f64,
    /// Bytes per clock from or to L2.
    pub l2_bytes: f64,
    /// Clocks from the issue of a copy until its first bytes arrive.
    pub copy_latency: f64,
}

impl Rates {
    /// Clocks that code needs of each pipe, alone or beside a product.
    fn demands(&self, work: &Work, beside: bool) -> [f64; PIPES] {
        let slower = |factor: f64| if beside { factor } else { 1.0 };
        let arithmetic = work.integer + work.fp32 + work.fp16 + work.special;
        [
            work.instructions,
            work.integer * self.integer * slower(Beside::INTEGER),
            work.fp32 * self.fp32,
            work.fp16 * self.fp16,
            work.fp64 * self.fp64,
            work.special * self.special * slower(Beside::SPECIAL),
            work.tensor_flops * self.tensor,
            if beside { arithmetic * Beside::ARITHMETIC } else { 0.0 },
            work.memory * self.memory,
            work.shared,
            work.l2_bytes / self.l2_bytes,
        ]
    }
}

/// A cost of code, prepared for both cases.
struct Cost {
    /// Alone, and beside a product: the clocks that a warp needs if it has the SM to itself, and the share of each pipe
    /// that it uses then.
    cases: [(f64, [f64; PIPES]); 2],
    fp32: f64,
}

impl Cost {
    fn new(work: &Work, rates: &Rates) -> Cost {
        let case = |beside| {
            let demands = rates.demands(work, beside);
            let clocks = demands.iter().fold(work.chain.max(1.0), |most, clocks| most.max(*clocks));
            (clocks, demands.map(|demand| demand / clocks))
        };
        Cost { cases: [case(false), case(true)], fp32: work.fp32 }
    }
}

/// What a replay of blocks takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Replay {
    /// Clocks until the last warp is done.
    pub clocks: f64,
    /// Clocks that warps spend waiting for their products, for barriers and copies, and running code. Sums over warps.
    pub awaiting_products: f64,
    /// For barriers and copies.
    pub awaiting_others: f64,
    /// Running code.
    pub running: f64,
}

/// What a warp does now.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Ready,
    /// Runs code; this part of it is left.
    Working {
        work: usize,
        left: f64,
    },
    /// Waits until this many of its products are done.
    Products(usize),
    /// Waits for the end of a phase.
    Phase,
    /// Waits for a time.
    Sleeping,
    Done,
}

#[derive(Debug, Default)]
struct CopyGroups {
    /// The time when the copies so far have landed, and the same for each group.
    landed: f64,
    groups: Vec<f64>,
}

struct WarpReplay<'t> {
    steps: std::slice::Iter<'t, Step>,
    /// Number of the block among those that are replayed together.
    block: usize,
    part: usize,
    state: State,
    /// Since when the warp waits.
    since: f64,
    /// Products started and done, and the number of products at the end of each group.
    started: usize,
    done: usize,
    groups: Vec<usize>,
    queue: VecDeque<f64>,
    copies: [CopyGroups; 2],
}

/// A tensor core: the warp whose product it computes and the clocks left.
#[derive(Clone, Copy, Debug, Default)]
struct TensorCore {
    current: Option<(usize, f64)>,
    last: usize,
}

#[derive(Debug, Default)]
struct PhaseState {
    missing: u32,
    waiting: Vec<usize>,
}

/// A time in a queue that returns the earliest first.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Timer {
    at: f64,
    what: Timed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timed {
    Wake(usize),
    Land(usize, Phase),
}

impl Eq for Timer {}
impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Timer) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timer {
    fn cmp(&self, other: &Timer) -> Ordering {
        other.at.total_cmp(&self.at)
    }
}

/// A multiprocessor that replays blocks.
struct Multiprocessor<'t> {
    costs: &'t [Cost],
    /// Clocks of each product on a tensor core.
    products: &'t [f64],
    rates: &'t Rates,
    now: f64,
    warps: Vec<WarpReplay<'t>>,
    parts: Vec<TensorCore>,
    phases: HashMap<(usize, Phase), PhaseState>,
    timers: BinaryHeap<Timer>,
    /// The time until which copies occupy the path to L2.
    path_busy: f64,
    totals: Replay,
}

/// Replays timelines with the same rates.
pub struct Replayer {
    costs: Vec<Cost>,
    products: Vec<f64>,
    rates: Rates,
    parts: usize,
}

impl Replayer {
    /// Prepares the costs of a timeline. `product` gives the clocks of a product on the tensor core of one part.
    pub fn new(
        timeline: &Timeline,
        rates: Rates,
        parts: usize,
        product: impl Fn(&crate::count::Product) -> f64,
    ) -> Replayer {
        let costs = timeline.works.iter().map(|work| Cost::new(work, &rates)).collect();
        let products = timeline.products.iter().map(product).collect();
        Replayer { costs, products, rates, parts: parts.max(1) }
    }

    /// Replays `copies` blocks that all have the steps of a kind of blocks, together on one SM.
    pub fn replay(&self, warps: &[Vec<Step>], copies: usize) -> Replay {
        let mut sm = Multiprocessor {
            costs: &self.costs,
            products: &self.products,
            rates: &self.rates,
            now: 0.0,
            warps: Vec::new(),
            parts: vec![TensorCore::default(); self.parts],
            phases: HashMap::new(),
            timers: BinaryHeap::new(),
            path_busy: 0.0,
            totals: Replay::default(),
        };
        for copy in 0..copies {
            sm.add(warps, copy);
        }
        sm.run();
        sm.totals
    }
}

impl<'t> Multiprocessor<'t> {
    fn add(&mut self, warps: &'t [Vec<Step>], number: usize) {
        for steps in warps {
            let part = self.warps.len() % self.parts.len();
            self.warps.push(WarpReplay {
                steps: steps.iter(),
                block: number,
                part,
                state: State::Ready,
                since: 0.0,
                started: 0,
                done: 0,
                groups: Vec::new(),
                queue: VecDeque::new(),
                copies: Default::default(),
            });
            for step in steps {
                if let Step::Arrive(phase) | Step::Load(_, phase) = step {
                    self.phases.entry((number, *phase)).or_default().missing += 1;
                }
            }
        }
    }

    fn run(&mut self) {
        for w in 0..self.warps.len() {
            self.go_on(w);
        }
        while self.warps.iter().any(|w| w.state != State::Done) {
            let speeds = self.speeds();
            let mut wait = self.timers.peek().map_or(f64::INFINITY, |timer| timer.at - self.now);
            for (warp, speed) in self.warps.iter().zip(&speeds) {
                if let State::Working { left, .. } = warp.state {
                    wait = wait.min(left / speed);
                }
            }
            let products = self.product_speeds(&speeds);
            for (core, speed) in self.parts.iter().zip(&products) {
                if let Some((_, left)) = core.current {
                    wait = wait.min(left / speed);
                }
            }
            // Nothing can happen any more: the trace is that of a kernel that does not end.
            if !wait.is_finite() {
                break;
            }
            self.advance(wait.max(0.0), &speeds, &products);
        }
        self.totals.clocks = self.now;
    }

    /// The share of its code that each warp runs per clock.
    fn speeds(&self) -> Vec<f64> {
        let mut used = vec![[0.0; PIPES]; self.parts.len()];
        let mut shared = [0.0; PIPES];
        let case = |warp: &WarpReplay<'_>| match warp.state {
            State::Working { work, .. } => {
                let beside = self.parts[warp.part].current.is_some();
                Some(&self.costs[work].cases[usize::from(beside)])
            }
            _ => None,
        };
        for warp in &self.warps {
            let Some((_, shares)) = case(warp) else { continue };
            for pipe in 0..OWN_PIPES {
                used[warp.part][pipe] += shares[pipe];
            }
            for pipe in OWN_PIPES..PIPES {
                shared[pipe] += shares[pipe];
            }
        }
        let speed = |warp: &WarpReplay<'_>| {
            let Some((clocks, shares)) = case(warp) else { return 0.0 };
            let mut slower: f64 = 1.0;
            for pipe in 0..PIPES {
                if shares[pipe] > 0.0 {
                    let all = if pipe < OWN_PIPES { used[warp.part][pipe] } else { shared[pipe] };
                    slower = slower.max(all);
                }
            }
            1.0 / (clocks * slower)
        };
        self.warps.iter().map(speed).collect()
    }

    /// Clocks of its product that each tensor core computes per clock.
    fn product_speeds(&self, speeds: &[f64]) -> Vec<f64> {
        let mut fp32 = vec![0.0; self.parts.len()];
        for (warp, speed) in self.warps.iter().zip(speeds) {
            if let State::Working { work, .. } = warp.state {
                fp32[warp.part] += self.costs[work].fp32 * speed;
            }
        }
        fp32.into_iter().map(|per_clock| 1.0 / Beside::product(per_clock)).collect()
    }

    fn advance(&mut self, clocks: f64, speeds: &[f64], products: &[f64]) {
        /// What is left after rounding errors.
        const NOTHING: f64 = 1e-9;
        self.now += clocks;
        let mut ready = Vec::new();
        for (w, (warp, speed)) in self.warps.iter_mut().zip(speeds).enumerate() {
            if let State::Working { left, .. } = &mut warp.state {
                *left -= clocks * speed;
                self.totals.running += clocks;
                if *left < NOTHING {
                    warp.state = State::Ready;
                    ready.push(w);
                }
            }
        }
        for part in 0..self.parts.len() {
            if let Some((w, left)) = &mut self.parts[part].current {
                *left -= clocks * products[part];
                if *left < NOTHING * 100.0 {
                    let w = *w;
                    self.parts[part].current = None;
                    self.product_done(w);
                    self.next_product(part);
                }
            }
        }
        while let Some(timer) = self.timers.peek().copied().filter(|timer| timer.at <= self.now + NOTHING) {
            self.timers.pop();
            match timer.what {
                Timed::Wake(w) => {
                    self.warps[w].state = State::Ready;
                    ready.push(w);
                }
                Timed::Land(block, phase) => self.arrive(block, phase),
            }
        }
        for w in ready {
            self.go_on(w);
        }
    }

    fn product_done(&mut self, w: usize) {
        let warp = &mut self.warps[w];
        warp.done += 1;
        if let State::Products(wanted) = warp.state
            && warp.done >= wanted
        {
            self.totals.awaiting_products += self.now + PRODUCT_LATENCY - warp.since;
            self.wake(w, self.now + PRODUCT_LATENCY);
        }
    }

    /// Gives the tensor core of a part the next product, from another warp if one waits.
    fn next_product(&mut self, part: usize) {
        let core = self.parts[part];
        if core.current.is_some() {
            return;
        }
        let count = self.warps.len();
        let next = (1..=count)
            .map(|i| (core.last + i) % count)
            .find(|w| self.warps[*w].part == part && !self.warps[*w].queue.is_empty());
        if let Some(w) = next
            && let Some(clocks) = self.warps[w].queue.pop_front()
        {
            self.parts[part] = TensorCore { current: Some((w, clocks)), last: w };
        }
    }

    fn wake(&mut self, w: usize, at: f64) {
        self.warps[w].state = State::Sleeping;
        self.timers.push(Timer { at, what: Timed::Wake(w) });
    }

    fn arrive(&mut self, block: usize, phase: Phase) {
        let Some(state) = self.phases.get_mut(&(block, phase)) else { return };
        state.missing = state.missing.saturating_sub(1);
        if state.missing == 0 {
            for w in std::mem::take(&mut state.waiting) {
                self.totals.awaiting_others += self.now + BARRIER_LATENCY - self.warps[w].since;
                self.wake(w, self.now + BARRIER_LATENCY);
            }
        }
    }

    /// The time when a copy of this many bytes that starts now has landed.
    fn land(&mut self, bytes: u32) -> f64 {
        self.path_busy = self.path_busy.max(self.now) + f64::from(bytes) / self.rates.l2_bytes;
        self.path_busy + self.rates.copy_latency
    }

    /// Lets a warp do its next steps until it runs code or waits.
    fn go_on(&mut self, w: usize) {
        while self.warps[w].state == State::Ready {
            let Some(&step) = self.warps[w].steps.next() else {
                self.warps[w].state = State::Done;
                return;
            };
            let (block, now) = (self.warps[w].block, self.now);
            match step {
                Step::Work(work) => {
                    self.warps[w].state = State::Working { work: work as usize, left: 1.0 };
                }
                Step::Product(product) => {
                    let warp = &mut self.warps[w];
                    warp.started += 1;
                    warp.queue.push_back(self.products[product as usize]);
                    let part = warp.part;
                    self.next_product(part);
                }
                Step::CommitProducts => {
                    let warp = &mut self.warps[w];
                    warp.groups.push(warp.started);
                }
                Step::AwaitProducts(keep) => self.await_products(w, keep as usize),
                Step::Load(bytes, phase) => {
                    let at = self.land(bytes);
                    self.timers.push(Timer { at, what: Timed::Land(block, phase) });
                }
                Step::Copy(kind, bytes) => {
                    let landed = self.land(bytes);
                    self.warps[w].copies[kind as usize].landed = landed;
                }
                Step::CommitCopies(kind) => {
                    let copies = &mut self.warps[w].copies[kind as usize];
                    copies.groups.push(copies.landed);
                }
                Step::AwaitCopies(kind, keep) => {
                    let groups = &self.warps[w].copies[kind as usize].groups;
                    let landed = groups.len().checked_sub(keep as usize + 1).map_or(0.0, |i| groups[i]);
                    // A store is waited for until it has read shared memory, which is earlier.
                    let early = if kind == CopyKind::BulkStore { self.rates.copy_latency } else { 0.0 };
                    if landed - early > now {
                        self.totals.awaiting_others += landed - early - now;
                        self.wake(w, landed - early);
                    }
                }
                Step::Arrive(phase) => self.arrive(block, phase),
                Step::Sleep(clocks) => self.wake(w, now + f64::from(clocks)),
                Step::Await(phase) => {
                    if let Some(state) = self.phases.get_mut(&(block, phase)).filter(|s| s.missing > 0) {
                        state.waiting.push(w);
                        let warp = &mut self.warps[w];
                        (warp.state, warp.since) = (State::Phase, now);
                    }
                }
            }
        }
    }

    fn await_products(&mut self, w: usize, keep: usize) {
        let warp = &mut self.warps[w];
        let wanted = warp.groups.len().checked_sub(keep + 1).map_or(0, |group| warp.groups[group]);
        if warp.done < wanted {
            (warp.state, warp.since) = (State::Products(wanted), self.now);
        }
    }
}

#[cfg(test)]
mod tests;
