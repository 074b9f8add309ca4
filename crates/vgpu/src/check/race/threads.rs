//! The happens-before relation: what every thread of a block knows about every other access.
//!
//! Knowledge is stored where most threads share it: once for the block, once per warp, and per lane only while the
//! lanes of a warp differ. A warp has one time for all its lanes. The time advances whenever a lane publishes
//! something, so accesses before and after carry different times. A block-wide barrier sets all times to one value and
//! raises the floor of the block to their previous maximum: everything stamped at or below the floor is ordered before
//! everything that follows.

use super::clock::{Blocks, Known};
use super::event::{Access, Agent, Op, Reach};
use super::flags::{Flag, Publication, Writer};
use super::stamp::{MAX_TIME, Stamp, entity_of};
use crate::lanes::lanes;

/// One kind of knowledge in three layers. A thread has the union of the layers of its block, its warp and itself.
#[derive(Debug, Default)]
struct Layers {
    block: Known,
    warps: Vec<WarpLayer>,
}

#[derive(Debug, Default)]
struct WarpLayer {
    all: Known,
    lanes: Option<Box<[Known; 32]>>,
    /// True if this layer may contain something that the block's layer lacks.
    used: bool,
}

impl Layers {
    fn start(&mut self, warps: usize) {
        self.block.clear();
        self.warps.truncate(warps);
        for warp in &mut self.warps {
            warp.clear();
        }
        self.warps.resize_with(warps, WarpLayer::default);
    }

    /// Gives `news` to the lanes of `mask`. `live` is the mask of all live lanes.
    fn learn(&mut self, warp: usize, mask: u32, live: u32, news: &Known) {
        let layer = &mut self.warps[warp];
        layer.used = true;
        if mask & live == live {
            layer.all.join(news);
        } else {
            let own = layer.lanes.get_or_insert_with(Box::default);
            for l in lanes(mask) {
                own[l].join(news);
            }
        }
    }

    /// Returns the union of what the lanes of `mask` know.
    fn view(&self, warp: usize, mask: u32) -> Known {
        let mut known = self.block.clone();
        let layer = &self.warps[warp];
        if layer.used {
            known.join(&layer.all);
            if let Some(own) = &layer.lanes {
                for l in lanes(mask) {
                    known.join(&own[l]);
                }
            }
        }
        known
    }

    fn sync_warp(&mut self, warp: usize, mask: u32, live: u32) {
        let layer = &mut self.warps[warp];
        let Some(own) = &mut layer.lanes else { return };
        let mut joint = Known::default();
        for l in lanes(mask) {
            joint.join(&own[l]);
        }
        if mask & live == live {
            layer.all.join(&joint);
            layer.lanes = None;
        } else {
            for l in lanes(mask) {
                own[l] = joint.clone();
            }
        }
    }

    fn sync_block(&mut self) {
        for layer in self.warps.iter_mut().filter(|layer| layer.used) {
            self.block.join(&layer.all);
            for own in layer.lanes.iter().flat_map(|own| own.iter()) {
                self.block.join(own);
            }
            layer.clear();
        }
    }

    /// Whether the knowledge in any layer passes the test.
    fn holds(&self, test: impl Fn(&Known) -> bool) -> bool {
        test(&self.block)
            || self.warps.iter().filter(|layer| layer.used).any(|layer| {
                test(&layer.all) || layer.lanes.as_ref().is_some_and(|own| own.iter().any(&test))
            })
    }

    fn any(&self, warp: usize, lane: usize, test: impl Fn(&Known) -> bool) -> bool {
        let layer = &self.warps[warp];
        test(&self.block)
            || layer.used && (test(&layer.all) || layer.lanes.as_ref().is_some_and(|own| test(&own[lane])))
    }
}

impl WarpLayer {
    fn clear(&mut self) {
        if self.used {
            self.all.clear();
            self.lanes = None;
            self.used = false;
        }
    }
}

/// The agents of one kind that work for the lanes of a warp.
#[derive(Debug)]
struct AgentClock {
    /// Advances with every commit.
    time: u32,
    /// Time of the warp when the agents last started an operation, for the newest times of the agents.
    issued: [u32; ISSUES],
    /// For each lane, the time of its agent up to which the lane has waited.
    waited: [u32; 32],
    /// Groups that not all of their lanes have waited for: time and lanes.
    groups: Vec<(u32, u32)>,
    /// Number of groups so far, and the times of the newest ones.
    committed: u32,
    newest: [u32; ISSUES],
}

impl Default for AgentClock {
    fn default() -> AgentClock {
        AgentClock {
            time: 1,
            issued: [0; ISSUES],
            waited: [0; 32],
            groups: Vec::new(),
            committed: 0,
            newest: [0; ISSUES],
        }
    }
}

impl AgentClock {
    /// The time of the group with this number, if it is one of the newest.
    fn time_of(&self, group: u32) -> Option<u32> {
        let is_kept = group > 0 && group <= self.committed && self.committed - group < ISSUES as u32;
        is_kept.then(|| self.newest[group as usize % ISSUES])
    }
}

#[derive(Debug)]
struct Warp {
    live: u32,
    time: u32,
    /// All lanes know each other up to this time (a `__syncwarp` of the whole warp).
    synced: u32,
    /// What each lane (row) knows about each other lane beyond `synced`, if parts of the warp have synchronised.
    pairs: Option<Box<[[u32; 32]; 32]>>,
    /// The asynchronous agents of the warp, by kind.
    agents: [AgentClock; Agent::ALL.len()],
    /// True if a lane has waited for an agent and not all threads of the block know it.
    waited_news: bool,
    /// Time of the last fence of each lane, for each scope.
    fenced: [[u32; 32]; SCOPES],
    fenced_news: bool,
    /// True if a fence was too narrow for some of what was read from flags.
    narrow_fence: bool,
    /// Strong writes of other threads that these lanes have read, newest last. They serve to explain races.
    observed: Vec<(u32, Stamp)>,
    /// What was published to these lanes with a scope that does not include them.
    too_narrow: Blocks,
    /// The flags that lanes have read last, and what these told them.
    looks: Vec<Look>,
}

/// What lanes have taken over from a flag.
#[derive(Debug)]
struct Look {
    lanes: u32,
    reach: Reach,
    acquires: bool,
    is_atomic: bool,
    here: Option<Blocks>,
    device: Blocks,
}

/// Number of flags that a warp remembers.
const LOOKS: usize = 4;

impl Warp {
    fn new(live: u32) -> Warp {
        Warp {
            live,
            time: 1,
            synced: 0,
            pairs: None,
            agents: std::array::from_fn(|_| AgentClock::default()),
            waited_news: false,
            fenced: [[0; 32]; SCOPES],
            fenced_news: false,
            narrow_fence: false,
            observed: Vec::new(),
            too_narrow: Blocks::default(),
            looks: Vec::new(),
        }
    }
}

/// A named barrier between its first arrival and its completion.
#[derive(Debug, Default)]
struct NamedBarrier {
    waiting: Vec<(usize, u32)>,
    /// True if some lanes arrived without waiting. The fields below hold what the lanes gave to the barrier.
    early: bool,
    known: Known,
    fenced: [Known; SCOPES + 2],
    pending: [Known; 2],
}

/// What is handed on through an object of the block, such as an mbarrier.
#[derive(Debug, Default)]
pub struct Handed {
    pub known: Known,
    /// The parts of `known` that a proxy fence for each space follows.
    proxied: [Known; 2],
}

impl Handed {
    pub fn join(&mut self, other: &Handed) {
        self.known.join(&other.known);
        for (own, other) in self.proxied.iter_mut().zip(&other.proxied) {
            own.join(other);
        }
    }
}

/// The reason why a lane lacks knowledge that it nearly had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    None,
    Release,
    Acquire,
    /// A missing acquire where an atomic read the flag. By the letter of the model a fence is missing, but NVIDIA's own
    /// samples omit it, and a line that was just fetched cannot be stale.
    AcquireAfterAtomic,
    Scope,
}

/// The memory that a proxy fence is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxySpace {
    Shared,
    #[default]
    Global,
}

impl ProxySpace {
    const ALL: [ProxySpace; 2] = [ProxySpace::Shared, ProxySpace::Global];

    /// Where `Threads::fenced` holds what its fences cover.
    fn layer(self) -> usize {
        SCOPES + self as usize
    }

    /// Marks the number of a block in what is published: the clock is that of the block's accesses that a proxy fence for
    /// this space follows.
    fn of_block(self, block: u32) -> u32 {
        block | 1 << (31 - self as u32)
    }
}

/// Number of scopes of fences: block, device, cluster.
const SCOPES: usize = 3;
const CLUSTER: usize = 2;

/// Number of agent times for which the issue time is remembered. Used only for explanations.
const ISSUES: usize = 64;

/// Number of strong writes remembered per warp. Used only for explanations.
const OBSERVED: usize = 16;

#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // each flag avoids a costly operation until it is needed
pub struct Threads {
    pub block: u32,
    warps: Vec<Warp>,
    known: Layers,
    /// What a strong write publishes: the knowledge at the last fence of block scope, of device scope and of cluster
    /// scope. It also passes through barriers, because "all write, all fence, barrier, one raises the flag" is correct
    /// on hardware. The other entries are the knowledge at the last `fence.proxy.async` for shared and for global memory:
    /// what bulk copies and tensor cores can see of the data that threads wrote.
    fenced: [Layers; SCOPES + 2],
    fences_used: bool,
    proxy_fences_used: bool,
    /// What was read from flags but not taken over, because an acquire is missing: what a fence of block scope takes
    /// over, and what a fence of device scope takes over. Like `fenced`, it passes through barriers: one polls,
    /// barrier, all fence.
    pending: [Layers; 2],
    pending_used: bool,
    /// The part of `pending` that read-modify-writes have read.
    read_by_atomics: Blocks,
    barriers: Vec<NamedBarrier>,
    /// The blocks of the cluster, if it has several.
    cluster: Vec<u32>,
    /// Whether any thread may know something about another block.
    knows_others: bool,
    /// True if a thread has exited.
    exited: bool,
    /// True if the times are used up: the order is no longer tracked, and nothing is reported.
    pub exhausted: bool,
}

impl Threads {
    pub fn start(&mut self, block: u32, threads: u32) {
        let count = threads.div_ceil(32).clamp(1, 32) as usize;
        self.block = block;
        self.warps.clear();
        for w in 0..count {
            let lanes = threads.saturating_sub(w as u32 * 32).min(32);
            self.warps.push(Warp::new(if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 }));
        }
        self.known.start(count);
        for layers in self.fenced.iter_mut().chain(&mut self.pending) {
            layers.start(count);
        }
        self.fences_used = false;
        self.proxy_fences_used = false;
        self.pending_used = false;
        self.read_by_atomics = Blocks::default();
        self.cluster.clear();
        self.knows_others = false;
        self.barriers.clear();
        self.exited = false;
        self.exhausted = false;
    }

    pub fn exit(&mut self, warp: usize, mask: u32) {
        self.warps[warp].live &= !mask;
        self.exited = true;
    }

    #[inline(always)]
    pub fn time(&self, warp: usize) -> u32 {
        self.warps[warp].time
    }

    #[inline(always)]
    pub fn agent_time(&self, warp: usize, agent: Agent) -> u32 {
        self.warps[warp].agents[agent as usize].time
    }

    #[inline(always)]
    pub fn floor(&self) -> u32 {
        self.known.block.own.floor
    }

    #[inline(always)]
    pub fn knows_other_blocks(&self) -> bool {
        self.knows_others
    }

    fn tick(&mut self, warp: usize) {
        let time = &mut self.warps[warp].time;
        if *time == MAX_TIME {
            self.exhausted = true;
        } else {
            *time += 1;
        }
    }

    fn tick_agent(&mut self, warp: usize, agent: Agent) {
        let time = &mut self.warps[warp].agents[agent as usize].time;
        if *time == MAX_TIME {
            self.exhausted = true;
        } else {
            *time += 1;
        }
    }

    /// Whether an access of this block happens before the current operation of `lane` of `warp`.
    #[inline]
    pub fn ordered_here(&self, stamp: Stamp, warp: usize, lane: usize) -> bool {
        let (from, at, time) = (stamp.warp(), stamp.lane(), stamp.time());
        if stamp.is_agent() {
            if from == warp && at == lane && self.waited_for(stamp) {
                return true;
            }
            return self.known.any(warp, lane, |k| k.own.knows(stamp.entity(), at, time));
        }
        if time <= self.floor() {
            return true;
        }
        if from == warp {
            let w = &self.warps[warp];
            if at == lane || w.synced >= time || w.pairs.as_ref().is_some_and(|p| p[lane][at] >= time) {
                return true;
            }
        }
        self.known.any(warp, lane, |k| k.own.knows(from, at, time))
    }

    /// Whether an access of any block happens before the current operation of `lane` of `warp`.
    #[inline]
    pub fn ordered(&self, block: u32, stamp: Stamp, warp: usize, lane: usize) -> bool {
        if block == self.block {
            return self.ordered_here(stamp, warp, lane);
        }
        self.known.any(warp, lane, |k| {
            k.others.get(block).is_some_and(|clock| clock.knows(stamp.entity(), stamp.lane(), stamp.time()))
        })
    }

    /// Whether the access is ordered before every thread of the block.
    pub fn known_to_all(&self, stamp: Stamp) -> bool {
        self.known.block.own.knows(stamp.entity(), stamp.lane(), stamp.time())
    }

    /// Whether the thread that started an asynchronous access of this block has waited for it.
    pub fn waited_for(&self, stamp: Stamp) -> bool {
        let Some(agent) = stamp.agent() else { return true };
        self.warps[stamp.warp()].agents[agent as usize].waited[stamp.lane()] >= stamp.time()
    }

    /// Whether an access of this block happens before the current operation of at least one lane of `mask`.
    pub fn ordered_for_any(&self, stamp: Stamp, warp: usize, mask: u32) -> bool {
        lanes(mask).any(|lane| self.ordered_here(stamp, warp, lane))
    }

    /// Whether a proxy fence for `space` stands between a thread's access and the current operation of at least one lane
    /// of `mask`.
    pub fn proxied(&self, space: ProxySpace, stamp: Stamp, warp: usize, mask: u32) -> bool {
        let knows = |k: &Known| k.own.knows(stamp.entity(), stamp.lane(), stamp.time());
        let fenced = &self.fenced[space.layer()];
        self.proxy_fences_used && lanes(mask).any(|lane| fenced.any(warp, lane, knows))
    }

    /// The same for an access of any block. The fence may be in either block.
    pub fn proxied_from(&self, space: ProxySpace, block: u32, stamp: Stamp, warp: usize, mask: u32) -> bool {
        if block == self.block {
            return self.proxied(space, stamp, warp, mask);
        }
        let knows = |k: &Known, of: u32| {
            k.others.get(of).is_some_and(|clock| clock.knows(stamp.entity(), stamp.lane(), stamp.time()))
        };
        let fenced = &self.fenced[space.layer()];
        lanes(mask).any(|lane| {
            fenced.any(warp, lane, |k| knows(k, block))
                || self.known.any(warp, lane, |k| knows(k, space.of_block(block)))
        })
    }

    /// Whether a lane knows anything of another block, which must then have started.
    pub fn knows_block(&self, block: u32, warp: usize, lane: usize) -> bool {
        self.known.any(warp, lane, |k| k.others.get(block).is_some())
    }

    /// The lanes of a warp that have not exited.
    pub fn live(&self, warp: usize) -> u32 {
        self.warps[warp].live
    }

    /// `fence.proxy.async`, for one space or all.
    pub fn proxy_fence(&mut self, warp: usize, mask: u32, space: Option<ProxySpace>) {
        self.proxy_fences_used = true;
        let (known, live) = (self.release(warp, mask), self.warps[warp].live);
        for covered in ProxySpace::ALL.into_iter().filter(|it| space.is_none_or(|space| space == *it)) {
            self.fenced[covered.layer()].learn(warp, mask, live, &known);
        }
        self.tick(warp);
    }

    /// Adds the agent operations that the lanes of `mask` have waited for.
    fn learn_waited(known: &mut Known, warp: usize, mask: u32, w: &Warp) {
        for (kind, agent) in w.agents.iter().enumerate() {
            if agent.time > 1 {
                known.own.learn_lanes(entity_of(warp, kind), mask, w.live, &agent.waited);
            }
        }
    }

    /// Returns everything that happens before the next step of any lane of `mask`, including the lanes' own accesses.
    fn release(&self, warp: usize, mask: u32) -> Known {
        let mut known = self.known.view(warp, mask);
        let w = &self.warps[warp];
        if w.synced > known.own.floor {
            known.own.learn_entity(warp, w.synced);
        }
        if let Some(pairs) = &w.pairs {
            for l in lanes(mask) {
                known.own.learn_lanes(warp, u32::MAX, w.live, &pairs[l]);
            }
        }
        known.own.learn_lanes(warp, mask, w.live, &[w.time; 32]);
        if w.waited_news {
            Self::learn_waited(&mut known, warp, mask, w);
        }
        known
    }

    /// Returns what the lanes of `mask` have fenced at a scope, including each lane's own accesses.
    fn fenced_view(&self, scope: usize, warp: usize, mask: u32) -> Known {
        let mut known = self.fenced[scope].view(warp, mask);
        let w = &self.warps[warp];
        known.own.learn_lanes(warp, mask, w.live, &w.fenced[scope]);
        known
    }

    /// The time up to which all lanes of a warp know each other.
    #[inline(always)]
    pub fn synced(&self, warp: usize) -> u32 {
        self.warps[warp].synced
    }

    /// Synchronises lanes of a warp. Returns true if these lanes are the whole block.
    pub fn sync_warp(&mut self, warp: usize, mask: u32) -> bool {
        let alone = self.warps.len() == 1;
        let w = &mut self.warps[warp];
        let live = w.live;
        if alone && mask & live == live {
            self.sync_block();
            return true;
        }
        if w.waited_news {
            let mut news = Known::default();
            Self::learn_waited(&mut news, warp, mask, w);
            self.known.learn(warp, mask, live, &news);
        }
        if w.fenced_news {
            for scope in 0..SCOPES {
                let mut news = Known::default();
                news.own.learn_lanes(warp, mask, live, &w.fenced[scope]);
                self.fenced[scope].learn(warp, mask, live, &news);
            }
        }
        if mask & live == live {
            w.synced = w.time;
            w.pairs = None;
        } else {
            let known = w.synced;
            let pairs = w.pairs.get_or_insert_with(|| Box::new([[known; 32]; 32]));
            let mut joint = [0; 32];
            for l in lanes(mask) {
                for (to, from) in joint.iter_mut().zip(&pairs[l]) {
                    *to = (*to).max(*from);
                }
            }
            for l in lanes(mask) {
                joint[l] = w.time;
            }
            for l in lanes(mask) {
                pairs[l] = joint;
            }
        }
        self.known.sync_warp(warp, mask, live);
        if self.fences_used || self.proxy_fences_used {
            for layers in &mut self.fenced {
                layers.sync_warp(warp, mask, live);
            }
        }
        if self.pending_used {
            for layers in &mut self.pending {
                layers.sync_warp(warp, mask, live);
            }
        }
        self.tick(warp);
        false
    }

    fn sync_block(&mut self) {
        let mut floor = 0;
        for (i, w) in self.warps.iter_mut().enumerate() {
            floor = floor.max(w.time);
            if w.waited_news {
                Self::learn_waited(&mut self.known.block, i, w.live, w);
            }
            if w.fenced_news {
                for scope in 0..SCOPES {
                    self.fenced[scope].block.own.learn_lanes(i, w.live, w.live, &w.fenced[scope]);
                }
            }
            w.waited_news = false;
            w.fenced_news = false;
            w.pairs = None;
        }
        self.known.block.own.floor = floor;
        self.known.sync_block();
        if self.fences_used || self.proxy_fences_used {
            for layers in &mut self.fenced {
                layers.sync_block();
            }
        }
        if self.pending_used {
            for layers in &mut self.pending {
                layers.sync_block();
            }
        }
        if floor == MAX_TIME {
            self.exhausted = true;
            return;
        }
        for w in &mut self.warps {
            w.time = floor + 1;
        }
    }

    /// Lanes reach a named barrier, to wait there or only to be counted.
    pub fn arrive(&mut self, barrier: usize, warp: usize, mask: u32, waits: bool) {
        if self.barriers.len() <= barrier {
            self.barriers.resize_with(barrier + 1, NamedBarrier::default);
        }
        if waits {
            // A waiting lane does nothing more, so its knowledge can be collected when the barrier completes.
            self.barriers[barrier].waiting.push((warp, mask));
            return;
        }
        let mut named = std::mem::take(&mut self.barriers[barrier]);
        named.early = true;
        self.give(warp, mask, &mut named);
        self.barriers[barrier] = named;
        self.tick(warp);
    }

    /// Adds the knowledge of the lanes to a barrier.
    fn give(&self, warp: usize, mask: u32, named: &mut NamedBarrier) {
        named.known.join(&self.release(warp, mask));
        if self.proxy_fences_used {
            for layer in ProxySpace::ALL.map(ProxySpace::layer) {
                named.fenced[layer].join(&self.fenced[layer].view(warp, mask));
            }
        }
        if self.fences_used {
            for scope in 0..SCOPES {
                named.fenced[scope].join(&self.fenced_view(scope, warp, mask));
            }
        }
        if self.pending_used {
            for (to, from) in named.pending.iter_mut().zip(&self.pending) {
                to.join(&from.view(warp, mask));
            }
        }
    }

    /// The barrier has all its arrivals and releases the waiting lanes. Returns true if it orders everything that the
    /// block did so far: it held every live thread, and no exited thread is excluded.
    pub fn complete(&mut self, barrier: usize, whole_block: bool) -> bool {
        let Some(named) = self.barriers.get_mut(barrier) else { return false };
        let mut named = std::mem::take(named);
        let mut arrived = [0u32; 32];
        for &(warp, mask) in &named.waiting {
            arrived[warp] |= mask;
        }
        let everyone_left = self.warps.iter().zip(arrived).all(|(w, arrived)| arrived & w.live == w.live);
        if !named.early && everyone_left && (whole_block || !self.exited) {
            self.sync_block();
            named.waiting.clear();
            self.barriers[barrier] = named;
            return true;
        }
        for (warp, mask) in arrived.into_iter().enumerate().filter(|(_, mask)| *mask != 0) {
            self.give(warp, mask, &mut named);
            self.tick(warp);
        }
        for (warp, mask) in arrived.into_iter().enumerate().filter(|(_, mask)| *mask != 0) {
            let live = self.warps[warp].live;
            self.known.learn(warp, mask, live, &named.known);
            if self.proxy_fences_used {
                for layer in ProxySpace::ALL.map(ProxySpace::layer) {
                    self.fenced[layer].learn(warp, mask, live, &named.fenced[layer]);
                }
            }
            if self.fences_used {
                for scope in 0..SCOPES {
                    self.fenced[scope].learn(warp, mask, live, &named.fenced[scope]);
                }
            }
            if self.pending_used {
                for (to, from) in self.pending.iter_mut().zip(&named.pending) {
                    to.learn(warp, mask, live, from);
                }
            }
        }
        false
    }

    pub fn fence(&mut self, warp: usize, mask: u32, reach: Reach) {
        self.acquire_pending(warp, mask, reach);
        self.fences_used = true;
        let live = self.warps[warp].live;
        let uniform =
            mask & live == live && self.warps[warp].pairs.is_none() && self.known.warps[warp].lanes.is_none();
        // A fence of cluster scope in a block that has no cluster reaches the block only.
        let scopes: &[usize] = match (reach, self.cluster.is_empty()) {
            (Reach::Device, false) => &[0, 1, CLUSTER],
            (Reach::Device, true) => &[0, 1],
            (Reach::Cluster, false) => &[0, CLUSTER],
            (Reach::Cluster, true) | (Reach::Block, _) => &[0],
        };
        for scope in scopes.iter().copied() {
            if uniform {
                let mut known = self.known.view(warp, 0);
                known.own.learn_entity(warp, self.warps[warp].synced);
                self.fenced[scope].learn(warp, mask, live, &known);
            } else {
                for l in lanes(mask) {
                    let known = self.release(warp, 1 << l);
                    self.fenced[scope].learn(warp, 1 << l, live, &known);
                }
            }
            let w = &mut self.warps[warp];
            w.fenced_news = true;
            for l in lanes(mask) {
                w.fenced[scope][l] = w.time;
            }
        }
        self.tick(warp);
    }

    /// Whether a strong write can publish anything.
    #[inline(always)]
    pub fn can_publish(&self, access: Access) -> bool {
        access.releases() || self.fences_used
    }

    /// Sets the blocks of the block's cluster, if it has several.
    pub fn set_cluster_blocks(&mut self, blocks: Vec<u32>) {
        self.cluster = blocks;
    }

    /// The block as the writer of a flag.
    pub fn writer(&self) -> Writer<'_> {
        Writer { block: self.block, cluster: &self.cluster }
    }

    /// Returns what a strong write of the lane publishes: what the lane has fenced, or everything it knows if the write
    /// itself releases. `reach` is that of the write.
    pub fn publish(&mut self, warp: usize, lane: usize, releases: bool, reach: Reach) -> Publication {
        let mask = 1 << lane;
        let (to_cluster, to_device) =
            (reach != Reach::Block && !self.cluster.is_empty(), reach == Reach::Device);
        if releases {
            let all = self.outside(&self.release(warp, mask), warp, mask);
            self.tick(warp);
            let when = |wanted: bool| if wanted { all.clone() } else { Blocks::default() };
            return Publication { cluster: when(to_cluster), device: when(to_device), block: all };
        }
        if !self.fences_used {
            return Publication::default();
        }
        let fenced = |wanted: bool, scope: usize| {
            if wanted {
                self.outside(&self.fenced_view(scope, warp, mask), warp, mask)
            } else {
                Blocks::default()
            }
        };
        Publication {
            block: fenced(true, 0),
            cluster: fenced(to_cluster, CLUSTER),
            device: fenced(to_device, 1),
        }
    }

    /// Returns everything that the lanes of `mask` know, for other blocks.
    pub fn publish_all(&mut self, warp: usize, mask: u32) -> Blocks {
        let all = self.outside(&self.release(warp, mask), warp, mask);
        self.tick(warp);
        all
    }

    /// Returns what the lanes of `mask` have fenced, for other blocks.
    pub fn publish_fenced(&mut self, warp: usize, mask: u32) -> Blocks {
        if !self.fences_used {
            return Blocks::default();
        }
        let scope = if self.cluster.is_empty() { 1 } else { CLUSTER };
        self.outside(&self.fenced_view(scope, warp, mask), warp, mask)
    }

    /// Returns knowledge of the lanes as seen from outside the block, and with it what their proxy fences cover.
    fn outside(&self, known: &Known, warp: usize, mask: u32) -> Blocks {
        let mut all = known.published(self.block);
        if self.proxy_fences_used {
            for space in ProxySpace::ALL {
                let proxied = self.fenced[space.layer()].view(warp, mask).own;
                if !proxied.is_empty() {
                    all.join(&Blocks::one(space.of_block(self.block), proxied));
                }
            }
        }
        all
    }

    /// Takes over what proxy fences cover of the accesses of this block.
    fn learn_proxied(&mut self, warp: usize, mask: u32, published: &Blocks) {
        for space in ProxySpace::ALL {
            let Some(own) = published.get(space.of_block(self.block)) else { continue };
            self.proxy_fences_used = true;
            let live = self.warps[warp].live;
            let news = Known { own: own.clone(), ..Known::default() };
            self.fenced[space.layer()].learn(warp, mask, live, &news);
        }
    }

    /// Adds what threads of another block have published to what an object of this block hands on.
    pub fn receive_from_outside(&mut self, published: &Blocks, to: &mut Handed) {
        self.knows_others = true;
        to.known.receive(self.block, published);
        for (space, proxied) in ProxySpace::ALL.into_iter().zip(&mut to.proxied) {
            if let Some(own) = published.get(space.of_block(self.block)) {
                self.proxy_fences_used = true;
                proxied.own.join(own);
            }
        }
    }

    pub fn learn_published(&mut self, warp: usize, mask: u32, published: &Blocks) {
        self.knows_others = true;
        let mut news = Known::default();
        news.receive(self.block, published);
        let live = self.warps[warp].live;
        self.known.learn(warp, mask, live, &news);
        self.learn_proxied(warp, mask, published);
    }

    /// Whether an access of another block happens before some operation of some thread of this block.
    pub fn is_known_to_some(&self, block: u32, stamp: Stamp) -> bool {
        self.known.holds(|known| {
            let clock = known.others.get(block);
            clock.is_some_and(|clock| clock.knows(stamp.entity(), stamp.lane(), stamp.time()))
        })
    }

    /// Declares that what is handed over in this block may come from other blocks.
    pub fn expect_others(&mut self) {
        self.knows_others = true;
    }

    /// Hands on everything that the lanes of `mask` know, through an object of the block such as an mbarrier.
    pub fn hand_over(&mut self, warp: usize, mask: u32, to: &mut Handed) {
        to.known.join(&self.release(warp, mask));
        if self.proxy_fences_used {
            for (space, proxied) in ProxySpace::ALL.into_iter().zip(&mut to.proxied) {
                proxied.join(&self.fenced[space.layer()].view(warp, mask));
            }
        }
        self.tick(warp);
    }

    pub fn receive(&mut self, warp: usize, mask: u32, news: &Handed) {
        let live = self.warps[warp].live;
        if !news.known.is_empty() {
            self.known.learn(warp, mask, live, &news.known);
        }
        for (space, proxied) in ProxySpace::ALL.into_iter().zip(&news.proxied) {
            if !proxied.is_empty() {
                self.fenced[space.layer()].learn(warp, mask, live, proxied);
            }
        }
    }

    /// Whether lanes have already taken over everything that a flag tells a read. Records that they do so now. Knowledge is
    /// never lost, so a lane that polls learns nothing from a flag that has not changed.
    pub fn has_observed(&mut self, warp: usize, mask: u32, access: Access, flag: &Flag) -> bool {
        if flag.for_others(self.block).is_some() {
            return false;
        }
        let (reach, acquires, is_atomic) = (access.reach(), access.acquires(), access.op == Op::Atomic);
        let here = flag.for_block(self.block);
        let is_same = |look: &Look| {
            (look.reach, look.acquires, look.is_atomic) == (reach, acquires, is_atomic)
                && look.device.is(&flag.device)
                && look.here.as_ref().map_or(here.is_none(), |old| here.is_some_and(|new| old.is(new)))
        };
        let looks = &mut self.warps[warp].looks;
        if let Some(look) = looks.iter_mut().find(|look| is_same(look)) {
            let known = mask & !look.lanes == 0;
            look.lanes |= mask;
            return known;
        }
        if looks.len() == LOOKS {
            looks.remove(0);
        }
        let (here, device) = (here.cloned(), flag.device.clone());
        looks.push(Look { lanes: mask, reach, acquires, is_atomic, here, device });
        false
    }

    /// Lanes have read a flag with these publications, for their block and for the device.
    pub fn observe(&mut self, warp: usize, mask: u32, access: Access, block: &Blocks, device: &Blocks) {
        if block.is_empty() && device.is_empty() {
            return;
        }
        self.knows_others = true;
        self.learn_proxied(warp, mask, device);
        let live = self.warps[warp].live;
        if access.acquires() {
            let mut news = Known::default();
            news.receive(self.block, device);
            self.known.learn(warp, mask, live, &news);
            return;
        }
        self.pending_used = true;
        for (layers, published) in self.pending.iter_mut().zip([block, device]) {
            let news = Known { others: published.clone(), ..Known::default() };
            layers.learn(warp, mask, live, &news);
        }
        if access.op == Op::Atomic {
            self.read_by_atomics.join(device);
        }
    }

    fn acquire_pending(&mut self, warp: usize, mask: u32, reach: Reach) {
        if !self.pending_used {
            return;
        }
        let (live, scope) = (self.warps[warp].live, usize::from(reach == Reach::Device));
        self.warps[warp].narrow_fence |= scope == 0;
        let mut left = mask;
        while left != 0 {
            let is_common = self.pending[scope].warps[warp].lanes.is_none();
            let group = if is_common { left } else { 1 << left.trailing_zeros() };
            left &= !group;
            let mut news = Known::default();
            news.receive(self.block, &self.pending[scope].view(warp, group).others);
            if !news.is_empty() {
                self.known.learn(warp, group, live, &news);
            }
        }
    }

    /// Remembers a strong write that a lane of `warp` has read, for explanations.
    pub fn note_observed(&mut self, warp: usize, block: u32, stamp: Stamp) {
        let w = &mut self.warps[warp];
        if w.observed.last() == Some(&(block, stamp)) {
            return;
        }
        if w.observed.len() >= OBSERVED {
            w.observed.remove(0);
        }
        w.observed.push((block, stamp));
    }

    /// Remembers what a flag published only to the threads of another block, for explanations.
    pub fn note_narrow(&mut self, warp: usize, published: &Blocks) {
        self.warps[warp].too_narrow.join(published);
    }

    /// Returns whether the flags that the block has read would have ordered the access with correct fences, and what is
    /// missing.
    pub fn gap(&self, block: u32, stamp: Stamp) -> Gap {
        let told =
            |b: &Blocks| b.get(block).is_some_and(|c| c.knows(stamp.entity(), stamp.lane(), stamp.time()));
        if self.pending_used && self.pending[1].holds(|known| told(&known.others)) {
            return if self.warps.iter().any(|w| w.narrow_fence) {
                Gap::Scope
            } else if told(&self.read_by_atomics) {
                Gap::AcquireAfterAtomic
            } else {
                Gap::Acquire
            };
        }
        if self.warps.iter().any(|w| told(&w.too_narrow)) {
            return Gap::Scope;
        }
        let announced = |&(b, flag): &(u32, Stamp)| {
            let same = flag.warp() == stamp.warp() && flag.lane() == stamp.lane();
            b == block && flag != stamp && (flag.time() > stamp.time() || same && flag.time() == stamp.time())
        };
        if self.warps.iter().any(|w| w.observed.iter().any(announced)) { Gap::Release } else { Gap::None }
    }

    /// The agents of the warp start an operation now.
    pub fn issue(&mut self, warp: usize, agent: Agent) {
        let w = &mut self.warps[warp];
        let agent = &mut w.agents[agent as usize];
        agent.issued[agent.time as usize % ISSUES] = w.time;
    }

    /// Whether an asynchronous access of this block was started before the current operation of the lane.
    pub fn issued_before(&self, stamp: Stamp, warp: usize, lane: usize) -> bool {
        let Some(agent) = stamp.agent() else { return false };
        let from = &self.warps[stamp.warp()].agents[agent as usize];
        if stamp.warp() == warp && stamp.lane() == lane {
            return true;
        }
        // An operation that was started long ago counts as started before.
        from.time - stamp.time() >= ISSUES as u32 || {
            let started = from.issued[stamp.time() as usize % ISSUES];
            self.ordered_here(stamp.at_time(started), warp, lane)
        }
    }

    pub fn commit(&mut self, warp: usize, agent: Agent, mask: u32) {
        let clock = &mut self.warps[warp].agents[agent as usize];
        clock.groups.push((clock.time, mask));
        clock.committed += 1;
        clock.newest[clock.committed as usize % ISSUES] = clock.time;
        self.tick_agent(warp, agent);
    }

    /// A warp waits until at most `keep` of the newest groups of products of its warpgroup are under way. A group belongs to
    /// the warpgroup: all four warps have committed it, and no warp's part of it is under way after the wait.
    pub fn wait_products(&mut self, warp: usize, mask: u32, keep: u32) {
        self.wait(warp, Agent::Tensor, mask, keep);
        let kind = Agent::Tensor as usize;
        let done = self.warps[warp].agents[kind].committed.saturating_sub(keep);
        let mut news = Known::default();
        for other in (warp / 4 * 4..warp / 4 * 4 + 4).filter(|other| *other < self.warps.len()) {
            if let Some(time) = self.warps[other].agents[kind].time_of(done) {
                news.own.learn_entity(entity_of(other, kind), time);
            }
        }
        let live = self.warps[warp].live;
        self.known.learn(warp, mask, live, &news);
    }

    /// Lanes wait until at most `keep` of their newest groups are under way.
    pub fn wait(&mut self, warp: usize, agent: Agent, mask: u32, keep: u32) {
        let w = &mut self.warps[warp];
        w.waited_news = true;
        let AgentClock { waited, groups, .. } = &mut w.agents[agent as usize];
        for l in lanes(mask) {
            let mut kept = 0;
            for &(time, members) in groups.iter().rev() {
                if members >> l & 1 == 0 {
                    continue;
                }
                if kept == keep {
                    waited[l] = waited[l].max(time);
                    break;
                }
                kept += 1;
            }
        }
        groups.retain(|&(time, members)| lanes(members).any(|l| waited[l] < time));
    }

    /// Lanes wait for everything that they have started.
    pub fn wait_all(&mut self, warp: usize, agent: Agent, mask: u32) {
        let w = &mut self.warps[warp];
        w.waited_news = true;
        let AgentClock { time, waited, groups, .. } = &mut w.agents[agent as usize];
        for l in lanes(mask) {
            waited[l] = *time;
        }
        groups.retain(|&(time, members)| lanes(members).any(|l| waited[l] < time));
        self.tick_agent(warp, agent);
    }

    /// Closes what the agents of the warp have started so far under one time, without making it a group. Returns that
    /// time.
    pub fn mark(&mut self, warp: usize, agent: Agent) -> u32 {
        let time = self.warps[warp].agents[agent as usize].time;
        self.tick_agent(warp, agent);
        time
    }
}
