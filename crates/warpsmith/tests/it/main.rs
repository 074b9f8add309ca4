//! Tests of the program as a user runs it. Each crate has one test program: it is linked once, and tests that wait for
//! processes and time limits leave the cores to other tests.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

mod action;
mod bench;
mod book;
mod browser;
mod cheats;
mod check;
mod commands;
mod common;
mod corpus;
mod declared_ops;
mod evolve;
mod exec;
mod failing_families;
mod fleet;
mod fp8;
mod gate;
mod interruption;
mod manifest_schemas;
mod processes;
mod profile;
mod propose;
mod ptx_corpus;
mod replay;
mod report_page;
mod repro;
mod sanitize;
mod sanitize_any;
mod schemas;
mod structure;
mod trust;
mod tuned_preset;
mod users;
mod width;
