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

/// A kernel may name any number of threads in `.maxntid`.
#[test]
fn registers_follow_bounds_of_any_size() {
    for bounds in [".maxntid 65535, 65535, 65535", ".maxntid 1, 1, 1", ".maxnreg 0"] {
        let text = format!(
            ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry k() {bounds} .minnctapersm 4294967295\n\
             {{ setmaxnreg.dec.sync.aligned.u32 24; ret; }}\n"
        );
        let module = load(&text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        let launch =
            Launch { module: &module, kernel: "k", grid: [1; 3], block: [128, 1, 1], shared: 0, args: &[] };
        // Some of these launches are refused; none may panic.
        _ = Device::default().launch(&launch, &Options { checks: Checks::All, ..Options::default() });
    }
}
