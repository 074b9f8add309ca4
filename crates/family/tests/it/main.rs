//! Tests of families: their manifests, and the effect of every knob.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail.

mod knobs;
mod manifests;
