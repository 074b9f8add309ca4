//! Folds findings: one finding per place is kept, with a count, for any number of lanes and blocks that hit the place.

use std::collections::{HashMap, HashSet};

use super::finding::{Kind, Severity};
use crate::isa::types::Space;

/// A finding whose instructions are still numbers; their source places are not looked up yet.
#[derive(Clone, Debug)]
pub struct Raw {
    pub kind: Kind,
    pub severity: Severity,
    pub message: String,
    /// Number of the instruction, counted through all functions of the kernel.
    pub at: u32,
    pub block: u64,
    pub warp: u32,
    pub lanes: u32,
    pub address: Option<u64>,
    pub space: Option<Space>,
    pub allocation: Option<String>,
    pub related: Vec<(String, u32)>,
    pub count: u64,
    /// False for a finding about the launch as a whole.
    pub located: bool,
    /// True if both accesses of a race belong to one warp.
    pub same_warp: bool,
}

/// Two findings are folded into one if their kind, instruction and other instruction are equal.
type Key = (Kind, u32, u32);

#[derive(Debug, Default)]
pub struct Collector {
    found: HashMap<Key, Raw>,
    /// Findings that were dropped because there were too many different ones. The first `MAX_DROPPED` are kept by key;
    /// for the rest only the number of occurrences is kept.
    dropped: HashSet<Key>,
    dropped_more: u64,
}

/// Maximum number of different findings. Nobody reads more.
const MAX_FINDINGS: usize = 1000;
/// Maximum number of dropped findings that are distinguished by key.
const MAX_DROPPED: usize = 1 << 16;

impl Collector {
    /// Counts a finding. `make` is called only for the first finding of its kind and place. The first is the one with
    /// the lowest block and warp number, so the report does not depend on which worker was faster.
    pub fn add(
        &mut self,
        kind: Kind,
        at: u32,
        other: u32,
        block: u64,
        warp: u32,
        make: impl FnOnce() -> Raw,
    ) {
        let full = self.found.len() >= MAX_FINDINGS;
        match self.found.entry((kind, at, other)) {
            std::collections::hash_map::Entry::Occupied(mut e) => {
                let old = e.get_mut();
                let count = old.count + 1;
                if (block, warp) < (old.block, old.warp) {
                    *old = make();
                }
                old.count = count;
            }
            std::collections::hash_map::Entry::Vacant(e) => {
                if full {
                    let key = *e.key();
                    self.drop_finding(key);
                } else {
                    e.insert(make());
                }
            }
        }
    }

    fn drop_finding(&mut self, key: Key) {
        if self.dropped.len() < MAX_DROPPED {
            self.dropped.insert(key);
        } else if !self.dropped.contains(&key) {
            self.dropped_more += 1;
        }
    }

    /// Returns how many different findings were not kept.
    pub fn dropped(&self) -> u64 {
        let unknown = self.dropped.iter().filter(|key| !self.found.contains_key(key)).count();
        unknown as u64 + self.dropped_more
    }

    pub fn merge(&mut self, other: Collector) {
        self.dropped_more += other.dropped_more;
        for key in other.dropped {
            self.drop_finding(key);
        }
        for (key, raw) in other.found {
            match self.found.entry(key) {
                std::collections::hash_map::Entry::Occupied(mut e) => {
                    let old = e.get_mut();
                    let count = old.count + raw.count;
                    if (raw.block, raw.warp) < (old.block, old.warp) {
                        *old = raw;
                    }
                    old.count = count;
                }
                std::collections::hash_map::Entry::Vacant(e) => {
                    e.insert(raw);
                }
            }
        }
    }

    /// Returns the findings sorted by severity (errors, warnings, notes) and then by place.
    pub fn into_sorted(self) -> Vec<Raw> {
        let mut all: Vec<Raw> = self.found.into_values().collect();
        all.sort_by(|a, b| {
            (a.severity, a.kind, a.at, a.block, a.warp).cmp(&(b.severity, b.kind, b.at, b.block, b.warp))
        });
        all
    }
}
