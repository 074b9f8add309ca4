//! PTX: parsed, loaded, and run if it loads.

use vgpu::{Device, Launch, Module, Options, load, notices_in_ptx};

/// Limit of warp instructions of a launch.
const BUDGET: u64 = 2_000;
/// Largest number of kernels of a module that are run.
const MOST_KERNELS: usize = 4;

/// Loads the text and runs its kernels.
pub fn run(input: &[u8]) {
    let text = super::text(input);
    match load(&text) {
        Ok(module) => {
            for kernel in module.kernels.iter().take(MOST_KERNELS) {
                drop(notices_in_ptx(&text, &kernel.name));
            }
            launch(&module);
        }
        Err(error) => {
            assert!(!error.diagnostics.is_empty(), "PTX was refused without a reason");
            drop(error.to_string());
            drop(notices_in_ptx(&text, "k"));
        }
    }
}

/// Launches two blocks of 40 threads. All arguments are the address of a small buffer.
fn launch(module: &Module) {
    let mut device = Device::default();
    let Ok(buffer) = device.alloc(4096, "buffer") else { return };
    for kernel in module.kernels.iter().take(MOST_KERNELS).filter(|kernel| kernel.param_bytes <= 4096) {
        let args = buffer.0.to_le_bytes().repeat(kernel.param_bytes as usize / 8 + 1);
        let launch = Launch {
            module,
            kernel: &kernel.name,
            grid: [2, 1, 1],
            block: [40, 1, 1],
            shared: 0,
            args: &args[..kernel.param_bytes as usize],
        };
        let options = Options { budget: BUDGET, threads: 1, ..Options::default() };
        // A refusal and a report with findings are both valid.
        let _ = device.launch(&launch, &options);
    }
}
