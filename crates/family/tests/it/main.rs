//! Families as the workbench uses them: their manifests, and that no knob is dead.

#![allow(clippy::unwrap_used)] // A test that cannot set itself up fails, which is what unwrap does.

mod knobs;
mod manifests;
