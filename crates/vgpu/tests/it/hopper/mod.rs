//! Hopper features: tensor copies, products of warpgroups, and the findings about wrong uses of them.

#![allow(clippy::unwrap_used)] // If the setup of a test fails, unwrap makes the test fail.
#![allow(clippy::needless_range_loop)] // Formulas use the indices of the manual.

mod copy_case;
mod im2col;
pub mod kernels;
mod product_case;
mod tensor_copy;
mod wgmma;

use vgpu::{Buffer, Checks, Device, Launch, LaunchReport, Options, load};

/// Runs a kernel in one block. `args` are the parameters one after another; the caller aligns them.
pub fn run(
    device: &mut Device,
    text: &str,
    block: u32,
    shared: u32,
    args: &[u8],
    checks: Checks,
    outputs: &[Buffer],
) -> LaunchReport {
    let module = load(text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let launch = Launch { module: &module, kernel: "k", grid: [1; 3], block: [block, 1, 1], shared, args };
    let options = Options { checks, outputs: outputs.to_vec(), threads: 1, ..Options::default() };
    device.launch(&launch, &options).unwrap()
}
