//! The program as a user meets it. One test program, here and in the other crates: it is linked once, and tests that
//! wait for processes and time limits leave the cores to those that compute.

#![allow(clippy::unwrap_used)] // A test that cannot set itself up fails, which is what unwrap does.

mod bench;
mod browser;
mod cheats;
mod check;
mod commands;
mod common;
mod corpus;
mod drill;
mod evolve;
mod hardship;
mod processes;
mod profile;
mod propose;
mod replay;
mod report_page;
mod repro;
mod sanitize;
mod trust;
mod tuned;
