//! Child processes, trusted or not.
//!
//! A process that compiles or runs untrusted kernels may do anything. This crate limits the damage:
//!
//! - [`Link`] starts a child with a private channel ([`channel`]). Standard output is not the channel, so the output
//!   of a kernel is never taken for a reply.
//! - [`wire`] is the format of the messages: JSON with binary attachments. Every length is checked against a limit
//!   before it is used.
//! - [`OutputTail`] keeps the last part of a child's output in bounded memory.
//! - [`run`] runs a program to its end, with limits on its time and its output.
//! - [`ending`] describes how a process ended, and [`python`] finds the Python interpreter.
//! - Children end when this process ends for any reason.
//! - [`sandbox`] restricts a child. The child applies it to itself before it reads its first message.
//!
//! This crate knows nothing about kernels or GPUs.
//!
//! ```
//! use std::process::Command;
//! use std::time::Duration;
//! use warpsmith_subprocess::{ProgramLimits, run};
//!
//! let limits = ProgramLimits { time: Duration::from_secs(10), stdout_bytes: 1 << 20 };
//! let finished = run(&mut Command::new("cat"), b"hello".to_vec(), limits, || true)?;
//! assert!(finished.end.success() && finished.stdout == b"hello");
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod channel;
mod ending;
pub mod lifetime;
mod link;
mod printed;
mod program;
pub mod python;
pub mod sandbox;
pub mod standard_output;
pub mod wire;

pub use channel::Channel;
pub use ending::ending;
pub use link::{Link, resident_bytes};
pub use printed::OutputTail;
pub use program::{FinishedProgram, ProgramEnd, ProgramLimits, run};
