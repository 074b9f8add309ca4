//! Memory of the virtual GPU.

pub mod window;
