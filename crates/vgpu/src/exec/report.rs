//! The report of a launch, made from what the workers found.

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::{Checks, Options};
use super::state::{Grid, Source, Taint, WorkerState, describe, special};
use crate::check::collect::{Collector, RawFinding};
use crate::check::{Finding, Kind, Place, Related, Severity, Site};
use crate::count::{Counters, Counts, summarise};
use crate::isa::types::Space;
use crate::mem::region::Region;
use crate::mem::{Buffer, shadow};
use crate::program::{Kernel, Module, SourceFrame};

/// Statistics of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Stats {
    /// Number of warp instructions that were executed.
    pub warp_instructions: u64,
    /// Number of blocks in the grid.
    pub blocks: u64,
    /// False if a fault, a trap, the budget or the time limit ended the launch.
    pub completed: bool,
}

/// The report of a launch.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LaunchReport {
    /// The findings, most important first.
    pub findings: Vec<Finding>,
    /// Number of distinct findings that were dropped because a thousand others had been kept.
    #[serde(default)]
    pub dropped_findings: u64,
    /// Names of the module's variables in global memory that the launch changed, in the order of the module. A later
    /// launch of the module sees the new values.
    #[serde(default)]
    pub changed_state: Vec<String>,
    /// The counters, if the launch was asked to count.
    pub counters: Option<Counters>,
    /// Output of `printf`.
    pub printed: String,
    /// Statistics of the launch.
    pub stats: Stats,
}

impl LaunchReport {
    /// Gives findings without line information their place in the PTX file.
    pub fn add_ptx_places(&mut self, file: &str) {
        let add = |place: &mut Place| {
            if place.frames.is_empty() && place.ptx_line > 0 {
                let (line, file) = (place.ptx_line, file.to_owned());
                place.frames.push(SourceFrame { file, line, column: 0, function: String::new() });
            }
        };
        for finding in &mut self.findings {
            add(&mut finding.place);
            finding.related.iter_mut().for_each(|related| add(&mut related.place));
        }
    }
}

impl LaunchReport {
    /// True if no finding is an error.
    pub fn is_clean(&self) -> bool {
        // Dropped findings need no check: findings are dropped only when a thousand others are kept.
        self.findings.iter().all(|f| f.severity != Severity::Error)
    }

    /// True if no finding is more severe than a note.
    pub fn has_only_notes(&self) -> bool {
        self.findings.iter().all(|f| f.severity == Severity::Note)
    }
}

pub(super) fn report(
    grid: &Grid<'_>,
    module: &Module,
    options: &Options,
    states: Vec<WorkerState>,
) -> LaunchReport {
    let mut findings = Collector::default();
    let mut counts = Counts::default();
    let mut executed = 0;
    let (mut idle, mut first_idle) = (0, u64::MAX);
    let mut taints: HashMap<u64, Taint> = HashMap::new();
    for s in states {
        executed += s.executed;
        idle += s.idle_blocks;
        first_idle = first_idle.min(s.first_idle);
        counts.merge(s.counts);
        findings.merge(s.findings);
        taints.extend(s.taints);
    }
    let completed = !grid.stopped();
    if options.checks == Checks::All && completed {
        check_outputs(grid, options, &taints, &mut findings);
        check_dependency(grid, &mut findings);
        if idle > 0 && grid.blocks > 1 {
            let blocks = grid.blocks;
            // A rounded-up grid has some blocks without work: with two blocks, one of them. So has a grid that fills the
            // GPU, for a kernel that reads the size of its grid. Both are worth a note. For any other kernel it is a
            // mistake if more than half of the blocks are idle.
            let mistaken = idle * 2 > blocks && !reads_grid_size(grid.kernel);
            let site = Site { block: first_idle, ..Site::default() };
            let message = || format!("{idle} of {blocks} blocks ended without an access to global memory");
            let severity = if mistaken { Severity::Error } else { Severity::Note };
            findings.add_many((Kind::IdleBlocks, 0, 0), severity, site, 1, || RawFinding {
                severity,
                located: false,
                ..RawFinding::new(Kind::IdleBlocks, site, message())
            });
        }
    }
    let location = |at: u32| {
        let f = grid.kernel.functions.iter().rev().find(|f| f.first <= at);
        f.and_then(|f| f.metas.get((at - f.first) as usize))
            .map_or(0, |m| if m.loc == 0 { u32::MAX - m.line } else { m.loc })
    };
    let place = |at: u32| {
        let f = grid.kernel.functions.iter().rev().find(|f| f.first <= at);
        let meta = f.and_then(|f| f.metas.get((at - f.first) as usize));
        meta.map_or(Place::default(), |m| Place { ptx_line: m.line, frames: module.sources.stack(m.loc) })
    };
    let dims = |index: u64| {
        let [gx, gy, _] = grid.grid_dim.map(u64::from);
        [(index % gx) as u32, (index / gx % gy) as u32, (index / gx / gy) as u32]
    };
    let dropped_findings = findings.dropped();
    let findings: Vec<Finding> = remove_consequences(findings.into_sorted(), &location)
        .into_iter()
        .map(|r| Finding {
            kind: r.kind,
            severity: r.severity,
            message: r.message,
            kernel: grid.kernel.name.clone(),
            block: (r.located || r.kind == Kind::IdleBlocks).then(|| dims(r.site.block)),
            warp: r.located.then_some(r.site.warp),
            lanes: r.site.lanes,
            address: r.address,
            space: r.space,
            allocation: r.allocation,
            place: if r.located { place(r.site.pc) } else { Place::default() },
            related: r.related.into_iter().map(|(label, at)| Related { label, place: place(at) }).collect(),
            count: r.count,
        })
        .collect();
    let findings = fold(findings);
    let printed = grid.printed.lock().map(|p| String::from_utf8_lossy(&p).into_owned()).unwrap_or_default();
    LaunchReport {
        findings,
        dropped_findings,
        changed_state: Vec::new(),
        counters: options.counters.then(|| summarise(grid.kernel, &module.sources, &counts, grid.blocks)),
        printed,
        stats: Stats { warp_instructions: executed, blocks: grid.blocks, completed },
    }
}

/// Warns of a kernel of a chain of dependent launches that does not wait for the kernel before it.
fn check_dependency(grid: &Grid<'_>, findings: &mut Collector) {
    let Some(pc) = grid.kernel.starts_dependents_without_wait else { return };
    let site = Site { pc, lanes: u32::MAX, ..Site::default() };
    findings.add_many((Kind::Race, pc, 0), Severity::Warning, site, 1, || RawFinding {
        severity: Severity::Warning,
        ..RawFinding::new(
            Kind::Race,
            site,
            "the kernel lets dependent kernels start early, but it never executes griddepcontrol.wait \
             (cudaGridDependencySynchronize): if it is a dependent launch itself, it may read what the kernel before it has \
             not written yet"
                .to_string(),
        )
    });
}

/// Whether the kernel reads the extents of its grid.
pub(super) fn reads_grid_size(kernel: &Kernel) -> bool {
    let extents = ["%nctaid.x", "%nctaid.y", "%nctaid.z"].map(special);
    let mut slots = kernel.functions.iter().flat_map(|f| &f.insts).flat_map(crate::isa::op::Inst::sources);
    slots.any(|slot| slot.is_special() && extents.contains(&slot.index()))
}

/// Marks the output buffers as not written yet.
pub(super) fn begin_outputs(regions: &[Region], outputs: &[Buffer]) {
    for o in outputs {
        if let Some(r) = regions.iter().find(|r| r.address == o.0) {
            // SAFETY: the slice is the region's shadow, and no worker runs.
            let states = unsafe { std::slice::from_raw_parts_mut(r.shadow, r.bytes as usize) };
            // Memory that nothing has written is only read, so that it takes no pages of the host.
            for part in states.chunks_mut(4096) {
                if part.iter().fold(0, |all, state| all | state) & shadow::TAINTED != 0 {
                    for state in part {
                        *state &= !shadow::TAINTED;
                    }
                }
            }
        }
    }
}

/// Reports bytes of output buffers that were not written, and undefined values.
fn check_outputs(grid: &Grid<'_>, options: &Options, taints: &HashMap<u64, Taint>, findings: &mut Collector) {
    for (number, o) in (0..).zip(&options.outputs) {
        let Some(r) = grid.regions.iter().find(|r| r.address == o.0) else { continue };
        // SAFETY: the slice is the region's shadow. All workers have ended.
        let states = unsafe { std::slice::from_raw_parts(r.shadow, r.bytes as usize) };
        let label = grid.device.label_at(r.address).map_or(String::new(), |(l, _)| l.to_string());
        let unwritten = states.iter().filter(|s| **s & shadow::TAINTED == 0).count();
        if unwritten > 0 && options.ends_outputs {
            let first = states.iter().position(|s| *s & shadow::TAINTED == 0).unwrap_or(0) as u64;
            let total = r.bytes;
            let message = || {
                format!(
                    "the kernel never wrote {unwritten} of {total} bytes of output `{label}`; the first is at offset {first}"
                )
            };
            let key = (Kind::UnwrittenOutput, 0, number);
            findings.add_many(key, Severity::Error, Site::default(), unwritten as u64, || RawFinding {
                address: Some(r.address + first),
                space: Some(Space::Global),
                allocation: Some(label.clone()),
                located: false,
                ..RawFinding::new(Kind::UnwrittenOutput, Site::default(), message())
            });
        }
    }
    check_undefined(grid, options, taints, findings);
}

/// Reports undefined values that the launch has left in buffers which are read afterwards.
fn check_undefined(
    grid: &Grid<'_>,
    options: &Options,
    taints: &HashMap<u64, Taint>,
    findings: &mut Collector,
) {
    let mut stored: Vec<(&u64, &Taint)> = taints.iter().collect();
    stored.sort_unstable_by_key(|(address, _)| **address);
    for (&address, t) in stored {
        let r = grid.region_of(address);
        let is_output = options.outputs.contains(&Buffer(r.address));
        if !r.holds(address, 1) || !(is_output || options.kept.contains(&Buffer(r.address))) {
            continue;
        }
        // SAFETY: the slice is the region's shadow. All workers have ended.
        let states = unsafe { std::slice::from_raw_parts(r.shadow, r.bytes as usize) };
        let i = (address - r.address) as usize;
        if states[i] != shadow::TAINTED || t.origin.source() == Source::Reported {
            continue;
        }
        // One byte of four may be the fourth channel of a pixel, if the elements are bytes.
        let is_padding = is_padding(states, i);
        if is_padding && !(options.of_bytes.contains(&Buffer(r.address)) && undefined_in_word(states, i) == 1)
        {
            continue;
        }
        let severity = if is_padding { Severity::Warning } else { Severity::Error };
        let how = if is_output { "is stored to an output" } else { "is stored to a buffer" };
        let (kind, pc, message, related) = describe(t.origin, t.store.pc, how);
        let site = Site { pc, ..t.store };
        let message = if is_padding { format!("{message}, unless it is padding") } else { message };
        findings.add_many((kind, pc, 0), severity, site, 1, || RawFinding {
            severity,
            address: Some(address),
            space: Some(Space::Global),
            allocation: grid.device.label_at(r.address).map(|(label, _)| label.to_string()),
            related,
            ..RawFinding::new(kind, site, message)
        });
    }
}

/// Whether an undefined byte is padding of a copied structure: one or three undefined bytes in a word whose other bytes
/// are defined.
pub(super) fn is_padding(states: &[u8], i: usize) -> bool {
    // Two undefined bytes may be a 16-bit element, so they are reported.
    word_of(states, i).contains(&shadow::WRITTEN) && matches!(undefined_in_word(states, i), 1 | 3)
}

fn word_of(states: &[u8], i: usize) -> &[u8] {
    &states[i / 4 * 4..(i / 4 * 4 + 4).min(states.len())]
}

fn undefined_in_word(states: &[u8], i: usize) -> usize {
    word_of(states, i).iter().filter(|s| **s == shadow::TAINTED).count()
}

/// Merges findings of the same kind and the same source lines. A loop that was unrolled eight times is still one source
/// line.
pub(super) fn fold(findings: Vec<Finding>) -> Vec<Finding> {
    let mut folded: Vec<Finding> = Vec::new();
    for f in findings {
        let same = |g: &&mut Finding| {
            g.kind == f.kind
                && g.severity == f.severity
                && !f.place.frames.is_empty()
                && g.place.frames == f.place.frames
                && g.allocation == f.allocation
                && g.related.first().map(|r| &r.place.frames) == f.related.first().map(|r| &r.place.frames)
        };
        match folded.iter_mut().find(same) {
            Some(g) => g.count += f.count,
            None => folded.push(f),
        }
    }
    folded
}

/// Removes one of two findings with the same cause. A copy that was not waited for is also reported as a plain race. A
/// copy that overwrites live data is also reported as not waited for. For a pair of source lines only one of the two is
/// the cause. If a warp accesses the data of its own copies, the wait is missing. If only other warps do, and reads
/// before the copy also race with it, the barrier is missing. Puts races before the reads of undefined values that they
/// cause.
pub(super) fn remove_consequences(found: Vec<RawFinding>, location: &dyn Fn(u32) -> u32) -> Vec<RawFinding> {
    let pair = |r: &RawFinding| {
        let (a, b) = (location(r.site.pc), r.related.first().map_or(0, |(_, at)| location(*at)));
        (a.min(b), a.max(b))
    };
    let mut own = HashSet::new();
    let mut races = HashSet::new();
    for r in &found {
        match r.kind {
            Kind::AsyncNotWaited if r.same_warp => drop(own.insert(pair(r))),
            Kind::Race => drop(races.insert(pair(r))),
            _ => {}
        }
    }
    let mut found: Vec<RawFinding> = found
        .into_iter()
        .filter(|r| match r.kind {
            Kind::Race => !own.contains(&pair(r)),
            Kind::AsyncNotWaited => own.contains(&pair(r)) || !races.contains(&pair(r)),
            _ => true,
        })
        .collect();
    // A read that races with the write of its data may come before it and find nothing written. The race is the cause,
    // and it tells both places, so it comes first.
    let is_race = |r: &&RawFinding| r.kind == Kind::Race && r.severity == Severity::Error;
    let raced: HashSet<u32> =
        found.iter().filter(is_race).map(pair).flat_map(|(one, other)| [one, other]).collect();
    found
        .sort_by_key(|r| (r.severity, r.kind == Kind::Uninitialised && raced.contains(&location(r.site.pc))));
    found
}
