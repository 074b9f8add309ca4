//! The virtual GPU: runs PTX on the CPU, checks it as it runs and counts what hardware would count.

pub mod isa;
pub mod mem;
pub mod num;
pub mod program;
pub mod ptx;
