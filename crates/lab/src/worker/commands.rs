//! The commands that start worker processes.

use std::path::Path;
use std::process::Command;

use chips::Chip;

/// The commands that start worker processes.
pub struct WorkerCommands<'a> {
    /// Starts a worker for a kernel. The argument is the subject's name, which is visible in the process list.
    pub kernel: Box<KernelCommand<'a>>,
    /// Starts a worker for an untrusted kernel in a family folder of its own, on the run's device or on a virtual GPU.
    pub untrusted: Box<UntrustedCommand<'a>>,
    /// Starts a worker for peers, given the path of their script; or says why that is impossible.
    pub peer: Result<Box<PeerCommand<'a>>, String>,
}

/// Makes the command of a kernel's worker from the subject's name.
pub type KernelCommand<'a> = dyn Fn(&str) -> Command + Sync + 'a;
/// Makes the command of an untrusted kernel's worker from its name, its family folder and the virtual GPU, if any.
pub type UntrustedCommand<'a> = dyn Fn(&str, &Path, Option<&'static Chip>) -> Command + Sync + 'a;
/// Makes the command of a peer's worker from the path of the script.
pub type PeerCommand<'a> = dyn Fn(&Path, &str) -> Command + Sync + 'a;

impl std::fmt::Debug for WorkerCommands<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WorkerCommands(peers: {})", self.peer.as_ref().err().map_or("yes", |_| "no"))
    }
}
