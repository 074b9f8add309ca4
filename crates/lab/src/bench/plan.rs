//! What is to be measured.

use std::path::Path;
use std::process::Command;

use chips::Chip;
use family::Family;
use gpu::device::Device;

use crate::run::Timer;
use crate::stats::Stopping;
use crate::suite::Target;
use crate::worker::Limits;

/// Something to measure.
#[derive(Clone, Debug)]
pub struct Subject<'f> {
    /// As the log and the table call it: `wmma stage-2`, `pytorch flash`.
    pub name: String,
    pub kind: SubjectKind<'f>,
    /// Others are compared with it.
    pub is_baseline: bool,
    /// It is compared with the baselines.
    pub is_candidate: bool,
    /// It went through everything before, in the same search: it is run and timed, and nothing else is asked of it.
    pub is_known: bool,
}

#[derive(Clone, Debug)]
pub enum SubjectKind<'f> {
    Kernel { family: &'f Family, preset: Option<String>, knobs: Vec<(String, String)> },
    Peer { name: &'static str },
}

impl<'f> Subject<'f> {
    /// A kernel, named by its family, its preset and what is set on top of it.
    pub fn kernel(family: &'f Family, preset: Option<String>, knobs: Vec<(String, String)>) -> Self {
        let mut name = format!("{} {}", family.name, preset.as_deref().unwrap_or("defaults"));
        for (knob, value) in &knobs {
            name += &format!("+{knob}={value}");
        }
        let kind = SubjectKind::Kernel { family, preset, knobs };
        Subject { name, kind, is_baseline: false, is_candidate: true, is_known: false }
    }

    pub fn peer(package: &str, name: &'static str) -> Self {
        let kind = SubjectKind::Peer { name };
        let name = format!("{package} {name}");
        Subject { name, kind, is_baseline: true, is_candidate: false, is_known: false }
    }
}

#[derive(Clone, Debug)]
pub struct BenchPlan<'f, P> {
    pub device: Device,
    pub subjects: Vec<Subject<'f>>,
    pub problems: Vec<P>,
    /// Worker processes of every subject on a GPU. Where memory lies, what a library chose and whatever else two
    /// processes differ in is in no sample of one of them; from two on, a subject is its own A/A control.
    pub processes: usize,
    /// How times are taken; the first is what targets are judged by.
    pub timers: Vec<Timer>,
    /// Per problem and timer.
    pub stopping: Stopping,
    /// Calls before anything is timed.
    pub warmup: u32,
    /// Whether to measure what the device can do at best, unless the run knows it.
    pub ceilings: bool,
    pub limits: Limits,
    /// What statistics draw from.
    pub seed: u64,
    /// What inputs, compared rows and circumstances are drawn from. Nobody who writes a kernel may know it.
    pub secret: u64,
    pub targets: Vec<Target>,
}

impl<P> BenchPlan<'_, P> {
    /// The processes a subject has. The virtual GPU models the same time in every one, so one will do.
    pub(super) fn processes_per_subject(&self) -> usize {
        match self.device {
            Device::Cuda { .. } => self.processes.max(1),
            Device::Virtual { .. } => 1,
        }
    }
}

/// How the processes are started.
pub struct WorkerCommands<'a> {
    /// A worker for a kernel, by the subject's name, so that people can tell processes apart.
    pub kernel: Box<KernelCommand<'a>>,
    /// The same for a kernel from a folder of families of its own, on the run's device or on a virtual one.
    pub untrusted: Box<UntrustedCommand<'a>>,
    /// A worker for peers, from the script's path; or why there can be none.
    pub peer: Result<Box<PeerCommand<'a>>, String>,
}

pub type KernelCommand<'a> = dyn Fn(&str) -> Command + Sync + 'a;
pub type UntrustedCommand<'a> = dyn Fn(&str, &Path, Option<&'static Chip>) -> Command + Sync + 'a;
pub type PeerCommand<'a> = dyn Fn(&Path) -> Command + Sync + 'a;

impl std::fmt::Debug for WorkerCommands<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Start(peers: {})", self.peer.as_ref().err().map_or("yes", |_| "no"))
    }
}
