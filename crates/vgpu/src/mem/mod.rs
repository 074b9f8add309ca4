//! Memory of the virtual GPU.

pub mod device;
mod heap;
pub mod region;
pub mod window;

pub use device::{Buffer, Device, MemoryError, Touched};
pub use heap::FreeError;

/// State of one byte of memory, for the checks.
///
/// Bit 0: the value is defined. Bit 1: this launch wrote the byte. Bit 2, in shared memory only: a tensor copy wrote
/// the byte, and nothing has been stored over it. So 0 is memory that nothing ever wrote, and 2 is memory that was
/// written with an undefined value.
pub mod shadow {
    pub const NEVER: u8 = 0;
    pub const DEFINED: u8 = 1;
    pub const TAINTED: u8 = 2;
    pub const WRITTEN: u8 = 3;
    pub const COPIED: u8 = 4;
}
