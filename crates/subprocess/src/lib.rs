//! Child processes that are not trusted.
//!
//! A process that compiles or runs other people's kernels may do anything. This crate limits what that costs:
//!
//! - [`Link`] starts a child with a private channel ([`channel`]). Standard output is not the channel, so nothing that a
//!   kernel prints is taken for an answer.
//! - [`wire`] is the format of the messages: JSON with binary attachments, every length bounded before it is believed.
//! - [`Printed`] keeps the last part of what a child prints, in bounded memory.
//! - [`spawn`] and [`GroupGuard`] end children when this process ends, however it ends.
//! - [`sandbox`] is what a child applies to itself before it reads its first message.
//!
//! It knows nothing of kernels and GPUs.

pub mod channel;
mod lifetime;
mod link;
mod printed;
pub mod sandbox;
pub mod wire;

pub use channel::Channel;
pub use lifetime::{GroupGuard, kill_group, spawn};
pub use link::Link;
pub use printed::Printed;
