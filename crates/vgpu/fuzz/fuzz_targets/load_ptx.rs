//! Any bytes as PTX: loaded or refused with a reason. Seeds: `cargo fuzz run load_ptx tests/files`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(error) = warpsmith_vgpu::load(&String::from_utf8_lossy(data)) {
        assert!(!error.diagnostics.is_empty());
    }
});
