//! Prints the blocks per SM of a grid of kernels as JSON, for a comparison with
//! `cuOccupancyMaxActiveBlocksPerMultiprocessor` on a real GPU (with the function's limit of dynamic shared memory
//! raised to the requested size). 0 means that the kernel does not fit.
//!
//! ```text
//! cargo run -p xtask -- occupancy-grid h200 > grid.json
//! cargo run -p xtask -- occupancy-grid CHIP [REGISTERS [THREADS [SHARED [BARRIERS]]]]
//! ```
//! The lists are comma-separated. An empty or missing list means the default. BARRIERS is one number.

use std::error::Error;
use std::io::Write;

use chips::{Chip, Resources};

const REGISTERS: &[u32] = &[
    8, 16, 24, 25, 32, 33, 40, 41, 48, 56, 64, 65, 72, 80, 96, 97, 112, 128, 129, 160, 168, 169, 200, 232,
    255,
];
const THREADS: &[u32] =
    &[1, 32, 33, 64, 65, 96, 128, 160, 192, 224, 256, 288, 320, 384, 416, 480, 512, 544, 640, 768, 896, 1024];
const SHARED: &[u32] = &[
    0, 1, 1024, 3072, 6144, 8192, 12288, 16384, 24576, 24577, 32768, 40960, 41984, 49152, 49153, 50176,
    50177, 57344, 65536, 75776, 76800, 81920, 82944, 82945, 98304, 101376, 101377, 102400, 115712, 115713,
    131072, 163840, 166912, 166913, 167936, 196608, 232448, 232449, 233472,
];

pub fn run(mut args: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let chip = Chip::by_name(
        &args.next().ok_or("usage: occupancy-grid CHIP [REGISTERS [THREADS [SHARED [BARRIERS]]]]")?,
    )?;
    let registers = list(args.next().as_deref(), REGISTERS)?;
    let threads = list(args.next().as_deref(), THREADS)?;
    let shared = list(args.next().as_deref(), SHARED)?;
    let barriers = args.next().map_or(Ok(0), |text| text.parse())?;

    let mut out = std::io::stdout().lock();
    writeln!(out, r#"{{"chip": "{}", "target": "{}", "barriers": {barriers},"#, chip.id, chip.target)?;
    write!(
        out,
        r#""columns": ["registers_per_thread", "threads_per_block", "dynamic_shared_bytes", "blocks_per_sm"],"#
    )?;
    write!(out, "\n\"cases\": [")?;
    let mut separator = "\n";
    for &registers_per_thread in &registers {
        for &threads_per_block in &threads {
            for &dynamic_shared_bytes in &shared {
                let kernel = Resources {
                    registers_per_thread,
                    threads_per_block,
                    dynamic_shared_bytes,
                    static_shared_bytes: 0,
                    barriers,
                };
                let blocks = chip.occupancy(&kernel).map_or(0, |occupancy| occupancy.blocks_per_sm);
                write!(
                    out,
                    "{separator}[{registers_per_thread}, {threads_per_block}, {dynamic_shared_bytes}, {blocks}]"
                )?;
                separator = ",\n";
            }
        }
    }
    writeln!(out, "\n]}}")?;
    Ok(())
}

fn list(text: Option<&str>, default: &[u32]) -> Result<Vec<u32>, Box<dyn Error>> {
    match text {
        None | Some("") => Ok(default.to_vec()),
        Some(text) => text.split(',').map(|item| Ok(item.trim().parse()?)).collect(),
    }
}
