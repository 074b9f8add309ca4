//! The mbarrier objects of a block, whose memory must not be used for something else while they are valid.

use std::collections::HashMap;
use std::ops::Range;

use super::conflict::{Conflict, Conflicts};
use super::report::RaceKind;
use super::stamp::Stamp;
use super::threads::Threads;

/// Size of an mbarrier object in bytes.
const BYTES: u32 = 8;

#[derive(Clone, Copy, Debug)]
struct Object {
    init: Stamp,
    /// Whether a fence follows the initialisation.
    fenced: bool,
}

/// The objects that were initialised and not invalidated, by address.
#[derive(Debug, Default)]
pub struct Objects {
    by_address: HashMap<u32, Object>,
    /// A range that contains all objects.
    span: Range<u32>,
    /// Number of objects without a fence.
    unfenced: usize,
}

impl Objects {
    pub fn clear(&mut self) {
        self.by_address.clear();
        self.span = 0..0;
        self.unfenced = 0;
    }

    pub fn remove(&mut self, address: u32) -> Option<Stamp> {
        let object = self.by_address.remove(&address)?;
        self.unfenced -= usize::from(!object.fenced);
        Some(object.init)
    }

    /// An object is initialised. Returns the initialisation of the object that was there.
    pub fn insert(&mut self, address: u32, init: Stamp) -> Option<Stamp> {
        let old = self.remove(address);
        let own = address..address.saturating_add(BYTES);
        let is_first = self.by_address.is_empty();
        self.span = if is_first { own } else { self.span.start.min(own.start)..self.span.end.max(own.end) };
        self.by_address.insert(address, Object { init, fenced: false });
        self.unfenced += 1;
        old
    }

    /// Whether a range may touch an object.
    #[inline(always)]
    pub fn may_meet(&self, low: u32, high: u32) -> bool {
        low < self.span.end && high > self.span.start
    }

    /// Ends the objects in a range that something else is written to, and reports them.
    #[cold]
    pub fn overwrite(&mut self, block: u32, own: Stamp, at: u32, bytes: u32, out: &mut Conflicts) {
        let end = at.saturating_add(bytes);
        let meets = |address: &u32| *address < end && address.saturating_add(BYTES) > at;
        let mut hit: Vec<u32> = self.by_address.keys().copied().filter(meets).collect();
        hit.sort_unstable();
        for address in hit {
            if let Some(init) = self.remove(address) {
                out.list.push(in_use(block, init, own, address));
            }
        }
    }

    /// Lanes execute a fence.
    #[inline(always)]
    pub fn fence(&mut self, threads: &Threads, warp: usize, mask: u32) {
        if self.unfenced == 0 {
            return;
        }
        for object in self.by_address.values_mut().filter(|object| !object.fenced) {
            if threads.ordered_for_any(object.init, warp, mask) {
                object.fenced = true;
                self.unfenced -= 1;
            }
        }
    }

    /// The initialisation of an object that no fence has followed.
    pub fn without_fence(&self, address: u32) -> Option<Stamp> {
        self.by_address.get(&address).filter(|object| !object.fenced).map(|object| object.init)
    }
}

/// A write to the memory of an object.
pub fn in_use(block: u32, init: Stamp, own: Stamp, address: u32) -> Conflict {
    let although_ordered = Some(RaceKind::BarrierInUse);
    Conflict { although_ordered, ..Conflict::new((block, init), own, u64::from(address)) }
}
