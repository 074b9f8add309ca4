//! Tests of spaces, strategies and recorded spaces, as a caller uses them.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail.

mod replay;
mod space;
mod strategies;
