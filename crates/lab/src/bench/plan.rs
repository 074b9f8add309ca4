//! The plan of a bench: subjects, problems, timers and limits.

use family::{Catalog, Family};
use gpu::device::Device;
use runlog::{CHOSEN, Timer};
use stats::Stopping;

use crate::suite::Target;
use crate::worker::Limits;

/// A kernel or peer to measure.
#[derive(Clone, Debug)]
pub struct Subject<'f> {
    /// The name in the log and in tables: `wmma stage-2`, `pytorch flash`.
    pub name: String,
    /// What the subject is.
    pub kind: SubjectKind<'f>,
    /// Candidates are compared with it.
    pub is_baseline: bool,
    /// It is compared with the baselines.
    pub is_candidate: bool,
    /// How much of its check the bench does.
    pub check: SubjectCheck,
}

/// How much of a subject's check a bench does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectCheck {
    /// The whole check.
    Whole,
    /// The subject is checked again before its time is used, so the virtual GPU launches it at full size only once.
    ConfirmedLater,
    /// The subject was checked before, in the same search, so it is only run and timed.
    DoneBefore,
}

/// What a subject is: one of our kernels, or a peer.
#[derive(Clone, Debug)]
pub enum SubjectKind<'f> {
    /// One of our kernels.
    Kernel {
        /// The kernel's family.
        family: &'f Family,
        /// The preset, or `tuned`; `None` selects the family's defaults.
        preset: Option<String>,
        /// The knobs set on top of the preset, as names and values.
        knobs: Vec<(String, String)>,
    },
    /// The family and setting that the dispatcher chooses for each problem, `op::dispatch::choose`.
    Chosen {
        /// The families to choose from.
        catalog: &'f Catalog,
    },
    /// Another project's implementation.
    Peer {
        /// The name within its package: `flash`.
        name: String,
    },
}

impl<'f> Subject<'f> {
    /// Returns a kernel, named after its family, its preset and the knobs set on top of it.
    pub fn kernel(family: &'f Family, preset: Option<String>, knobs: Vec<(String, String)>) -> Self {
        let name = format!("{} {}", family.name, family::setting_name(preset.as_deref(), &knobs));
        let kind = SubjectKind::Kernel { family, preset, knobs };
        Subject { name, kind, is_baseline: false, is_candidate: true, check: SubjectCheck::Whole }
    }

    /// Returns the kernel that the dispatcher chooses for each problem.
    pub fn chosen(catalog: &'f Catalog) -> Self {
        let (name, kind) = (CHOSEN.to_owned(), SubjectKind::Chosen { catalog });
        Subject { name, kind, is_baseline: false, is_candidate: true, check: SubjectCheck::Whole }
    }

    /// Whether it is one of our kernels.
    pub fn is_kernel(&self) -> bool {
        !matches!(self.kind, SubjectKind::Peer { .. })
    }

    /// Returns a peer, which is a baseline.
    pub fn peer(package: &str, name: &str) -> Self {
        let kind = SubjectKind::Peer { name: name.to_owned() };
        let name = if package == name { name.to_owned() } else { format!("{package} {name}") };
        Subject { name, kind, is_baseline: true, is_candidate: false, check: SubjectCheck::Whole }
    }

    /// Returns the subject with the class of its inputs in its name, so that its times are not taken for others.
    #[must_use]
    pub fn on_class(self, class: &str) -> Self {
        Subject { name: format!("{} on {class}", self.name), ..self }
    }

    /// Whether users may call the subject by this name: its full name, a kernel's family or preset, or a peer's name
    /// within its package.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name
            || match &self.kind {
                SubjectKind::Kernel { family, preset, .. } => {
                    family.name == name || preset.as_deref() == Some(name)
                }
                SubjectKind::Chosen { .. } => false,
                SubjectKind::Peer { name: own } => own == name,
            }
    }
}

/// What a bench measures, and how.
#[derive(Clone, Debug)]
pub struct BenchPlan<'f, P> {
    /// The device to measure on.
    pub device: Device,
    /// The kernels and peers to measure.
    pub subjects: Vec<Subject<'f>>,
    /// The problems to measure them on.
    pub problems: Vec<P>,
    /// Worker processes of each subject on a GPU. Memory placement, library choices and other differences between
    /// processes do not show in the samples of one process. With two or more processes, a subject is its own A/A
    /// control.
    pub processes: usize,
    /// The class of the timed inputs; `None` for ordinary inputs.
    pub class: Option<String>,
    /// The timers. Targets are judged by the first.
    pub timers: Vec<Timer>,
    /// When to stop sampling, for each problem and timer.
    pub stopping: Stopping,
    /// Launches before timing starts.
    pub warmup: u32,
    /// Whether to measure the ceilings of the device, unless the log already has them.
    pub ceilings: bool,
    /// Time and memory limits of the worker processes.
    pub limits: Limits,
    /// Seed of the statistics.
    pub seed: u64,
    /// Seed of inputs, compared rows and environments. The author of a kernel must not know it.
    pub secret: u64,
    /// The goals to compare the measurements with.
    pub targets: Vec<Target>,
    /// Whether to measure the errors of all subjects on inputs of every class.
    pub errors: bool,
}

impl<P> BenchPlan<'_, P> {
    /// Whether the subject with this full name may be called `name`.
    pub fn is_called(&self, subject: &str, name: &str) -> bool {
        self.subjects.iter().any(|it| it.name == subject && it.is_called(name))
    }

    /// The number of processes of a subject. One is enough on the virtual GPU, which models the same time in each
    /// process.
    pub(super) fn processes_per_subject(&self) -> usize {
        match self.device {
            Device::Cuda { .. } => self.processes.max(1),
            Device::Virtual { .. } => 1,
        }
    }
}
