//! The state of a launch while it runs: the grid, a worker thread, a block, a warp, and what they are made of.
//!
//! The types here do not execute anything. The instructions are methods of [`RunningWarp`] in the files of `exec`.

mod barrier;
mod block;
mod copies;
mod flight;
mod grid;
mod memory;
mod origin;
mod polled;
mod running;
mod warp;
mod worker;

pub use barrier::{BarrierLog, BlockBarrier, MAX_COUNT, Mbarrier, bytes_under_way, name_of};
pub use block::{BlockCore, Cluster, Membership, WINDOW};
pub use copies::{BulkCopy, BulkGroups, CopySource, OwedArrival, PendingCopy};
pub use flight::{Collective, RegisterInFlight};
pub use grid::{BETWEEN_LAUNCHES, CLOCKS, Grid, NANOSECONDS};
pub use memory::{AccessKind, Addresses, Location, Request, Span, TileBase, region_set, relative};
pub use origin::{Origin, Source, Undef, collapse, describe, spread, undef_bit};
pub use polled::PolledWords;
pub use running::{Next, RunningWarp, narrow};
pub use warp::{Fragment, Frame, State, Unit, Warp, Watch, ZERO, special};
pub use worker::{Limit, Taint, WorkerState};
