//! Properties of launches on the virtual GPU.

use chips::{Chip, Occupancy, Resources};
use compiler::Build;
use gpu::accelerator::{Geometry, VirtualDevice};
use vgpu::LaunchReport;
use vgpu::model::{self, Modelled, Shape};

/// The reports of all launches as one. The counters are those of the last launch.
pub fn merged(reports: &[LaunchReport]) -> Option<LaunchReport> {
    let mut all = reports.last()?.clone();
    for earlier in reports[..reports.len() - 1].iter().rev() {
        all.findings.splice(0..0, earlier.findings.iter().cloned());
        all.dropped_findings += earlier.dropped_findings;
        all.printed.insert_str(0, &earlier.printed);
        all.stats.completed &= earlier.stats.completed;
        all.stats.blocks += earlier.stats.blocks;
        all.stats.warp_instructions += earlier.stats.warp_instructions;
    }
    Some(all)
}

/// The modelled time of a launch, if its events were counted.
pub fn modelled(
    device: &VirtualDevice,
    report: &LaunchReport,
    geometry: Geometry,
    occupancy: Option<&Occupancy>,
) -> Option<Modelled> {
    let shape = Shape {
        blocks: geometry.grid.iter().map(|&extent| u64::from(extent)).product(),
        threads_per_block: geometry.block.iter().product(),
        blocks_per_sm: device.options.limits.blocks_per_sm,
        shared_per_block: occupancy.map_or(geometry.shared_bytes, |it| it.shared_per_block),
    };
    report.counters.as_ref().map(|counters| model::modelled(counters, shape, device.chip()))
}

/// The number of blocks that a multiprocessor can hold, and what limits it. The checker for waits on blocks that cannot
/// be resident and the time model need it.
pub fn occupancy(chip: &Chip, build: &Build, kernel: &str, geometry: Geometry) -> Option<Occupancy> {
    let entry = build.entry(kernel)?;
    let resources = Resources {
        registers_per_thread: entry.registers,
        static_shared_bytes: entry.static_shared_bytes,
        dynamic_shared_bytes: geometry.shared_bytes,
        threads_per_block: geometry.block.iter().product(),
        barriers: entry.barriers,
    };
    chip.occupancy(&resources).ok()
}
