//! Spaces, strategies and recorded spaces, as a driver uses them.

#![allow(clippy::unwrap_used)] // A test that cannot set itself up fails, which is what unwrap does.

mod replay;
mod space;
mod strategies;
