//! Warpsmith's own kernels that run beside the kernels under test (`helpers.ptx`).

use std::ffi::CString;

use cudarc::driver::{result, sys};

use super::launch::{Call, Module};
use super::status::{check, reason};
use crate::accelerator::{AcceleratorError, Buffer, Geometry, LaunchStep};

const TEXT: &str = include_str!("helpers.ptx");

/// Threads of a block that occupies an SM. Two such blocks leave no room for another block on current GPUs.
const OCCUPIER_THREADS: u32 = 1024;
const OCCUPIERS_PER_SM: u32 = 2;

/// The helper module, loaded into the current context.
#[derive(Debug)]
pub(super) struct Helpers {
    module: Module,
}

impl Helpers {
    pub fn load() -> Result<Self, AcceleratorError> {
        let text = CString::new(TEXT).map_err(|error| AcceleratorError::Load(error.to_string()))?;
        // SAFETY: the text ends with a NUL and outlives the call.
        let handle = unsafe { result::module::load_data(text.as_ptr().cast()) }
            .map_err(|error| AcceleratorError::Load(reason(error)))?;
        let parameter_counts =
            [("occupy", 1), ("turn_signs", 5)].map(|(name, count)| (name.to_owned(), count));
        Ok(Helpers { module: Module { handle, parameter_counts: parameter_counts.into() } })
    }

    /// Keeps `sms` SMs busy for `nanoseconds`. The time starts when the stream reaches this launch.
    pub fn occupy(&self, stream: sys::CUstream, sms: u32, nanoseconds: u64) -> Result<(), AcceleratorError> {
        let geometry = Geometry {
            grid: [sms * OCCUPIERS_PER_SM, 1, 1],
            block: [OCCUPIER_THREADS, 1, 1],
            cluster: [1; 3],
            shared_bytes: 0,
        };
        let parameters = &[nanoseconds.to_le_bytes().to_vec()];
        Call::new(&self.module, [LaunchStep { entry: "occupy", geometry, parameters }])?.enqueue(stream)
    }

    /// A call that flips sign bits in a buffer. The flipped bits depend on the word at `seed` and on `salt`.
    pub fn turn_signs(
        &self,
        buffer: Buffer,
        sign_bits: u32,
        seed: Buffer,
        salt: u64,
    ) -> Result<Call, AcceleratorError> {
        let mask = match sign_bits {
            8 => 0x8080_8080,
            16 => 0x8000_8000,
            _ => 0x8000_0000,
        };
        self.flip(buffer, seed, salt, mask)
    }

    /// A call that reads and writes every word of a buffer without changing it.
    pub fn rewrite(&self, buffer: Buffer, seed: Buffer) -> Result<Call, AcceleratorError> {
        self.flip(buffer, seed, 0, 0)
    }

    /// A call that flips bits of `mask` in every word of a buffer.
    fn flip(&self, buffer: Buffer, seed: Buffer, salt: u64, mask: u32) -> Result<Call, AcceleratorError> {
        let words = buffer.bytes / 4;
        let blocks = words.div_ceil(256).clamp(1, 4096) as u32;
        let geometry =
            Geometry { grid: [blocks, 1, 1], block: [256, 1, 1], cluster: [1; 3], shared_bytes: 0 };
        let parameters = [
            buffer.address.to_le_bytes().to_vec(),
            words.to_le_bytes().to_vec(),
            seed.address.to_le_bytes().to_vec(),
            salt.to_le_bytes().to_vec(),
            mask.to_le_bytes().to_vec(),
        ];
        Call::new(&self.module, [LaunchStep { entry: "turn_signs", geometry, parameters: &parameters }])
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        // SAFETY: loaded once, unloaded once. After a sticky error the driver refuses the call; that is harmless.
        let _ = check("cuModuleUnload", unsafe { result::module::unload(self.module.handle) });
    }
}
