//! Folds findings: one finding per place is kept, with a count, for any number of lanes and blocks that hit the place.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::finding::{Kind, Severity};
use super::site::Site;
use crate::isa::types::Space;

/// A finding whose instructions are still numbers; their source places are not looked up yet.
#[derive(Clone, Debug)]
pub struct RawFinding {
    pub kind: Kind,
    pub severity: Severity,
    pub message: String,
    pub site: Site,
    pub address: Option<u64>,
    pub space: Option<Space>,
    pub allocation: Option<String>,
    /// Other instructions that explain the finding, with a description of each.
    pub related: Vec<(String, u32)>,
    pub count: u64,
    /// False for a finding about the launch as a whole.
    pub located: bool,
    /// True if both accesses of a race belong to one warp.
    pub same_warp: bool,
}

impl RawFinding {
    /// An error at an instruction.
    pub fn new(kind: Kind, site: Site, message: String) -> RawFinding {
        RawFinding {
            kind,
            severity: Severity::Error,
            message,
            site,
            address: None,
            space: None,
            allocation: None,
            related: Vec::new(),
            count: 1,
            located: true,
            same_warp: false,
        }
    }
}

/// Two findings are folded into one if their kind, instruction and other instruction are equal.
pub type Key = (Kind, u32, u32);

#[derive(Debug, Default)]
pub struct Collector {
    found: HashMap<Key, RawFinding>,
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
    /// Counts a finding that occurred once. `make` is called only for the first finding of its kind and place.
    pub fn add(&mut self, kind: Kind, site: Site, make: impl FnOnce() -> RawFinding) {
        self.add_many((kind, site.pc, 0), Severity::Error, site, 1, make);
    }

    /// Counts a finding that occurred `count` times. Of the findings with one key only the most severe are kept and
    /// counted: a note must not hide an error. Of these, the one with the lowest block and warp number is kept, so the
    /// report does not depend on which worker was faster.
    pub fn add_many(
        &mut self,
        key: Key,
        severity: Severity,
        site: Site,
        count: u64,
        make: impl FnOnce() -> RawFinding,
    ) {
        if self.found.len() >= MAX_FINDINGS && !self.found.contains_key(&key) {
            self.drop_finding(key);
        } else {
            self.insert(key, severity, site, count, make);
        }
    }

    fn insert(
        &mut self,
        key: Key,
        severity: Severity,
        site: Site,
        count: u64,
        make: impl FnOnce() -> RawFinding,
    ) {
        match self.found.entry(key) {
            Entry::Occupied(mut entry) => {
                let old = entry.get_mut();
                // The most severe is the least in the order of severities.
                if severity != old.severity {
                    if severity < old.severity {
                        *old = RawFinding { count, ..make() };
                    }
                    return;
                }
                let count = old.count + count;
                if (site.block, site.warp) < (old.site.block, old.site.warp) {
                    *old = make();
                }
                old.count = count;
            }
            Entry::Vacant(entry) => {
                entry.insert(RawFinding { count, ..make() });
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
        for (key, finding) in other.found {
            self.insert(key, finding.severity, finding.site, finding.count, || finding);
        }
    }

    /// Returns the findings sorted by severity (errors, warnings, notes) and then by place.
    pub fn into_sorted(self) -> Vec<RawFinding> {
        let mut all: Vec<(Key, RawFinding)> = self.found.into_iter().collect();
        // Too many arrivals make waits wrong, so they come before these.
        let rank = |kind: Kind| match kind {
            Kind::BarrierCount => 2 * Kind::BarrierPhase as u32 - 1,
            kind => 2 * kind as u32,
        };
        all.sort_by_key(|(key, finding)| (finding.severity, rank(key.0), *key));
        all.into_iter().map(|(_, finding)| finding).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(counts: &[u64]) -> Collector {
        let mut collector = Collector::default();
        for (block, count) in (0..).zip(counts) {
            let site = Site { block, ..Site::default() };
            let make = || RawFinding::new(Kind::Race, site, "two accesses".to_owned());
            collector.add_many((Kind::Race, 0, 7), Severity::Error, site, *count, make);
        }
        collector
    }

    #[test]
    fn a_count_does_not_depend_on_how_blocks_are_distributed_over_workers() {
        let mut two = collected(&[64, 64]);
        two.merge(collected(&[64]));
        for collector in [collected(&[64, 64, 64]), two] {
            let counts: Vec<u64> = collector.into_sorted().iter().map(|finding| finding.count).collect();
            assert_eq!(counts, [192]);
        }
    }

    #[test]
    fn a_note_does_not_hide_an_error_at_the_same_place() {
        for order in [[Severity::Note, Severity::Error], [Severity::Error, Severity::Note]] {
            let mut collector = Collector::default();
            for (block, severity) in (0..).zip(order) {
                let site = Site { block, ..Site::default() };
                let make = || RawFinding { severity, ..RawFinding::new(Kind::Race, site, String::new()) };
                collector.add_many((Kind::Race, 0, 7), severity, site, 5, make);
            }
            let kept: Vec<_> = collector.into_sorted().iter().map(|f| (f.severity, f.count)).collect();
            assert_eq!(kept, [(Severity::Error, 5)]);
        }
    }
}
