//! The order of operations. They run one after another, when they are enqueued. On a GPU some of them could run in
//! another order: vector clocks, one per stream and one for the host, show which.
//!
//! An operation knows (is ordered after) all that the host knew when it enqueued it, all earlier operations of its
//! stream, and what the stream has waited for. The legacy default stream waits for all blocking streams, and they wait
//! for it. The host learns what a stream, an event or the device has done when one of its threads waits for it. Two
//! accesses to the same bytes, one of them a write, are a finding if the later operation does not know the earlier one.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use crate::call_site::Site;
use crate::streams::{Key, LEGACY};

/// For every actor (a stream or the host), the number of its last operation that is known.
pub type Clock = Vec<u32>;

fn join(into: &mut Clock, other: &Clock) {
    if into.len() < other.len() {
        into.resize(other.len(), 0);
    }
    for (own, other) in into.iter_mut().zip(other) {
        *own = (*own).max(*other);
    }
}

/// A range of device addresses that an operation uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    pub range: Range<u64>,
    pub writes: bool,
}

impl Use {
    pub fn new(address: u64, bytes: u64, writes: bool) -> Use {
        Use { range: address..address.saturating_add(bytes), writes }
    }
}

/// An operation that used memory.
#[derive(Clone, Debug)]
pub struct Access {
    actor: usize,
    time: u32,
    pub uses: Range<u64>,
    pub writes: bool,
    pub made: Arc<Made>,
}

/// What an operation is, and where it was enqueued.
#[derive(Debug)]
pub struct Made {
    /// `kernel` with its name, or the name of a call.
    pub what: String,
    pub site: Site,
}

impl Made {
    /// The place of the operation, for findings.
    pub fn related(&self) -> Vec<(String, Site)> {
        vec![(format!("{} was enqueued here", self.what), self.site.clone())]
    }
}

/// The most accesses that are kept per allocation. A program that never synchronises would otherwise use more and more
/// memory.
const MOST: usize = 512;

/// The clocks of all streams and of the host, and the accesses that later ones can be in conflict with.
#[derive(Debug, Default)]
pub struct Order {
    clocks: Vec<Clock>,
    streams: HashMap<Key, usize>,
    /// The actor for all host threads. How they wait for each other is not known here, so a wait of one of them counts
    /// for all.
    host: Option<usize>,
    /// Streams that the legacy stream waits for, and that wait for it.
    blocking: Vec<usize>,
    /// The accesses to each allocation, by its start.
    pub accesses: BTreeMap<u64, Vec<Access>>,
    /// Starts of allocations of the host whose pages are closed.
    pub closed: Vec<u64>,
}

/// An operation while it is checked.
#[derive(Clone, Debug)]
pub struct Operation {
    pub actor: usize,
    pub made: Arc<Made>,
}

impl Order {
    fn actor(clocks: &mut Vec<Clock>) -> usize {
        clocks.push(Vec::new());
        clocks.len() - 1
    }

    pub fn host(&mut self) -> usize {
        *self.host.get_or_insert_with(|| Order::actor(&mut self.clocks))
    }

    fn stream(&mut self, stream: Key) -> usize {
        if let Some(actor) = self.streams.get(&stream) {
            return *actor;
        }
        let actor = Order::actor(&mut self.clocks);
        self.streams.insert(stream, actor);
        if stream.is_blocking() && stream != LEGACY {
            self.blocking.push(actor);
        }
        actor
    }

    fn learn(&mut self, actor: usize, clock: &Clock) {
        join(&mut self.clocks[actor], clock);
    }

    fn learn_from(&mut self, actor: usize, other: usize) {
        let clock = self.clocks[other].clone();
        self.learn(actor, &clock);
    }

    fn tick(&mut self, actor: usize) -> u32 {
        let clock = &mut self.clocks[actor];
        if clock.len() <= actor {
            clock.resize(actor + 1, 0);
        }
        clock[actor] += 1;
        clock[actor]
    }

    /// Starts an operation on a stream.
    pub fn begin(&mut self, stream: Key, what: String, site: Site) -> Operation {
        let (host, actor) = (self.host(), self.stream(stream));
        self.learn_from(actor, host);
        if stream == LEGACY {
            for other in self.blocking.clone() {
                self.learn_from(actor, other);
            }
        } else if stream.is_blocking() {
            let legacy = self.stream(LEGACY);
            self.learn_from(actor, legacy);
        }
        self.tick(actor);
        Operation { actor, made: Arc::new(Made { what, site }) }
    }

    /// Returns the clock of an event that is recorded now.
    pub fn record(&mut self, stream: Key) -> Clock {
        let operation = self.begin(stream, String::new(), Site::default());
        self.clocks[operation.actor].clone()
    }

    /// A stream waits for an event.
    pub fn stream_waits(&mut self, stream: Key, clock: &Clock) {
        let actor = self.stream(stream);
        self.learn(actor, clock);
    }

    /// The host waits for an event.
    pub fn host_waits(&mut self, clock: &Clock) {
        let host = self.host();
        self.learn(host, clock);
    }

    /// The host waits for a stream.
    pub fn host_waits_for_stream(&mut self, stream: Key) {
        let (host, actor) = (self.host(), self.stream(stream));
        self.learn_from(host, actor);
        if stream == LEGACY {
            for other in self.blocking.clone() {
                self.learn_from(host, other);
            }
        }
    }

    /// The host waits for the whole device.
    pub fn host_waits_for_all(&mut self) {
        let host = self.host();
        for actor in self.streams.values().copied().collect::<Vec<_>>() {
            self.learn_from(host, actor);
        }
        // All later operations are ordered after all accesses so far.
        self.accesses.clear();
    }

    /// Whether an actor knows an access.
    pub fn knows(&self, actor: usize, access: &Access) -> bool {
        self.clocks[actor].get(access.actor).is_some_and(|time| *time >= access.time)
    }

    /// An earlier access that is in conflict with a new one.
    pub fn conflict(&self, actor: usize, base: u64, new: &Use) -> Option<&Access> {
        let meets = |it: &&Access| {
            it.uses.start < new.range.end && new.range.start < it.uses.end && (it.writes || new.writes)
        };
        self.accesses.get(&base)?.iter().rev().filter(meets).find(|it| !self.knows(actor, it))
    }

    /// Keeps an access for later ones.
    pub fn keep(&mut self, operation: &Operation, base: u64, new: &Use) {
        let (actor, time) = (operation.actor, self.clocks[operation.actor][operation.actor]);
        let mut kept = self.accesses.remove(&base).unwrap_or_default();
        // An older access is not needed if the new one is ordered after it, covers its bytes, and is in conflict with
        // at least as much.
        kept.retain(|old| {
            let is_covered = new.range.start <= old.uses.start && old.uses.end <= new.range.end;
            !(is_covered && (new.writes || !old.writes) && self.knows(actor, old))
        });
        if kept.len() >= MOST {
            kept.remove(0);
        }
        let made = operation.made.clone();
        kept.push(Access { actor, time, uses: new.range.clone(), writes: new.writes, made });
        self.accesses.insert(base, kept);
    }

    /// An allocation no longer exists.
    pub fn forget(&mut self, base: u64) {
        self.accesses.remove(&base);
        self.closed.retain(|it| *it != base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Key = Key::Other(1, true);
    const B: Key = Key::Other(2, false);

    fn write(order: &mut Order, stream: Key) -> bool {
        let operation = order.begin(stream, "write".to_owned(), Site::default());
        let new = Use::new(100, 4, true);
        let is_race = order.conflict(operation.actor, 0, &new).is_some();
        order.keep(&operation, 0, &new);
        is_race
    }

    #[test]
    fn streams_are_ordered_by_events_the_legacy_stream_and_the_host() {
        let mut order = Order::default();
        assert!(!write(&mut order, A));
        assert!(!write(&mut order, A), "one stream is in order");
        assert!(!write(&mut order, LEGACY), "the legacy stream waits for blocking streams");
        assert!(!write(&mut order, A), "and they wait for it");
        assert!(write(&mut order, B), "a stream that does not block");
        let event = order.record(B);
        order.stream_waits(A, &event);
        assert!(!write(&mut order, A));
        assert!(write(&mut order, B));
        order.host_waits_for_stream(B);
        order.host_waits_for_stream(A);
        assert!(!write(&mut order, A), "the host has waited for both");
    }

    #[test]
    fn reads_and_other_ranges_are_no_conflict() {
        let mut order = Order::default();
        let first = order.begin(A, String::new(), Site::default());
        order.keep(&first, 0, &Use::new(100, 4, false));
        let second = order.begin(B, String::new(), Site::default());
        assert!(order.conflict(second.actor, 0, &Use::new(100, 4, false)).is_none());
        assert!(order.conflict(second.actor, 0, &Use::new(104, 4, true)).is_none());
        assert!(order.conflict(second.actor, 0, &Use::new(103, 4, true)).is_some());
    }
}
