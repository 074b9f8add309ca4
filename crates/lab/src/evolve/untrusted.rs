//! A source that was proposed: nobody has read it. It is compiled and run in processes of its own only, and on the
//! virtual GPU, under all its checkers, before any GPU gets it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use chips::{CHIPS, Chip};
use family::{Catalog, Family};
use gpu::device::Device;
use op::{Op, Refusal, derived};

use super::EvolveError;
use super::evaluator::{Compiled, Evaluator, Rejection, Setting, pairs};
use super::proposer::screen::MOST_BYTES;
use crate::bench::{AnswerCache, brought, check_of, complaints_in, no_launch};
use crate::check::{cut_to_size, notes};
use crate::run::{FailureKind, Stage};
use crate::trial::{self, TrialCase};
use crate::worker::{BuildReply, CandidateName, Limits, Worker, WorkerError, WorkerReply, WorkerRequest};

/// What the run under the checkers may take, in operations: a second or two. A plain kernel takes longer for them.
const PROOF_FLOPS: f64 = 5.0e7;
/// The same without checkers, for what is about to become an elite.
const CONFIRM_FLOPS: f64 = 1.0e8;
const PLAIN_COST: f64 = 16.0;
/// What seeds are derived from the search's secret for.
const PROOF: u64 = 1;
const CONFIRM: u64 = 1 << 32;
/// A compiler can be kept busy on purpose.
const BUILD_LIMIT: Duration = Duration::from_mins(2);
const RESIDENT_BYTES: u64 = 8 << 30;

/// A proposed source in a folder of its own, with what it may include, as a family.
#[derive(Debug)]
pub struct UntrustedSource {
    pub hash: String,
    pub folder: PathBuf,
    catalog: Catalog,
    name: String,
}

impl UntrustedSource {
    /// Writes the source below `sources`, beside the family's manifest and headers. It must have been screened.
    pub fn keep(family: &Family, text: &str, sources: &Path) -> Result<Self, EvolveError> {
        let hash = hash(text);
        let folder = sources.join(&hash);
        for (path, text) in family.files_with(text) {
            let path = folder.join(path);
            gpu::paths::write_atomically(&path, text.as_bytes())
                .map_err(|error| EvolveError::Io { path, error })?;
        }
        let catalog = Catalog::load(Some(&folder)).map_err(Refusal::new)?;
        let name = family.full_name();
        catalog.family(&name).map_err(Refusal::new)?;
        Ok(UntrustedSource { hash, folder, catalog, name })
    }

    pub fn family(&self) -> Result<&Family, EvolveError> {
        Ok(self.catalog.family(&self.name).map_err(Refusal::new)?)
    }
}

/// What a source is called in the log.
pub fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

/// The text of a source that was kept. It goes to a proposer, so it must be the one that has this hash: a run's folder
/// may be somebody else's, and what it names may be a file of the user's.
pub fn text(family: &Family, hash: &str, sources: &Path) -> Option<String> {
    if !hash.chars().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let folder = sources.join(hash).join(&family.op).join(&family.name);
    let text = gpu::paths::read_text_bounded(&folder.join("kernel.cu"), MOST_BYTES as u64).ok()?;
    (self::hash(&text) == hash).then_some(text)
}

/// What becomes of a step in a worker: it may be all over, or only for the candidate.
type StepResult<T> = Result<Result<T, Rejection>, EvolveError>;

impl<O: Op> Evaluator<'_, O> {
    /// [`Evaluator::compile`], in a process of its own.
    pub fn compile_apart(&self, setting: &Setting<'_>, folder: &Path) -> StepResult<Compiled> {
        let mut worker = match self.worker(setting, folder, None)? {
            Ok(worker) => worker,
            Err(out) => return Ok(Err(out)),
        };
        let mut compiled: Option<Compiled> = None;
        for problem in &self.plan.problems {
            let built = match self.build_apart(&mut worker, setting, problem)? {
                Ok(built) => built,
                Err(out) => return Ok(Err(out)),
            };
            if let Some(note) = built.notes.iter().find(|note| !self.known_notes(problem).contains(note)) {
                let reason = format!("a proposed source must not do what the family does not do: {note}");
                return Ok(Err(Rejection { stage: Stage::Build, failure: FailureKind::Refused, reason }));
            }
            let next = match self.compiled(setting.family, &pairs(&setting.knobs), problem, built) {
                Ok(next) => next,
                Err(failure) => return Ok(Err(Rejection::new(Stage::Build, failure))),
            };
            compiled = Some(match compiled {
                None => next,
                Some(before) => before.and(&next),
            });
        }
        Ok(compiled.ok_or_else(|| out(Stage::Build, "there is no problem to compile it for")))
    }

    /// Runs a compiled setting under all of the virtual GPU's checkers, on problems cut to size: nothing may be found,
    /// and the answers must be right.
    pub fn prove(&self, setting: &Setting<'_>, folder: &Path) -> StepResult<()> {
        let Some(chip) = stand_in(&self.plan.device, setting.family) else {
            let reason = "there is no virtual GPU that could prove it";
            return Ok(Err(out(Stage::Check, reason)));
        };
        let mut worker = match self.worker(setting, folder, Some(chip))? {
            Ok(worker) => worker,
            Err(out) => return Ok(Err(out)),
        };
        let flops = if setting.family.plain { PROOF_FLOPS / PLAIN_COST } else { PROOF_FLOPS };
        let cases = self.cases(flops, derived(self.plan.secret, PROOF));
        let checks = vgpu::Checks::All;
        self.examine((&mut worker, checks), setting, &cases, &self.answers, "on the virtual GPU")
    }

    /// Tries a setting that is about to become an elite once more, with inputs that no candidate has had.
    pub fn confirm(&self, setting: &Setting<'_>, number: u32) -> StepResult<()> {
        let limits = self.plan.limits;
        let command = (self.start_of(setting).kernel)(&setting.name);
        let mut worker = match Worker::start(command, limits) {
            Ok(worker) => worker,
            Err(error) => return Ok(Err(out(Stage::Check, error.to_string()))),
        };
        let flops = match self.plan.device {
            Device::Virtual { .. } if setting.family.plain => CONFIRM_FLOPS / PLAIN_COST,
            Device::Virtual { .. } => CONFIRM_FLOPS,
            Device::Cuda { .. } => f64::INFINITY,
        };
        let cases = self.cases(flops, derived(self.plan.secret, CONFIRM + u64::from(number)));
        let checks = vgpu::Checks::None;
        self.examine((&mut worker, checks), setting, &cases, &AnswerCache::not_kept(), "with fresh inputs")
    }

    /// What the family's own source does that deserves a note.
    fn known_notes(&self, problem: &O::Problem) -> Vec<String> {
        let plan = self.plan;
        let (preset, knobs) = (plan.baseline.as_deref(), &plan.baseline_knobs);
        let build = || -> Option<Vec<String>> {
            let candidate = self.op.candidate(plan.family, preset, knobs, problem).ok()?;
            let request = plan.family.request(&candidate, plan.device.target()).ok()?;
            let build = self.compiler.build(&request).ok()?.build;
            Some(notes(&build.ptx, &plan.family.entry))
        };
        build().unwrap_or_default()
    }

    /// What a setting is tried on: the problems, cut to size, and all classes of inputs.
    fn cases(&self, flops: f64, seed: u64) -> Vec<TrialCase<O::Problem>> {
        let parts = cut_to_size(self.op, &self.plan.problems, flops).into_iter();
        let parts = parts.enumerate();
        parts
            .flat_map(|(index, (problem, _))| {
                let seed = derived(seed, index as u64);
                [
                    TrialCase::classes(self.op, &problem, derived(seed, 1)),
                    TrialCase::usual(self.op, problem, seed),
                ]
            })
            .collect()
    }

    /// Has a worker run a setting on every case, and judges every launch.
    fn examine(
        &self,
        (worker, checks): (&mut Worker, vgpu::Checks),
        setting: &Setting<'_>,
        cases: &[TrialCase<O::Problem>],
        answers: &AnswerCache<O>,
        how: &str,
    ) -> StepResult<()> {
        for TrialCase { problem, draws, steps, seed } in cases {
            let extra = match self.build_apart(worker, setting, problem)? {
                Ok(built) => built.extra_tolerance.is_some(),
                Err(out) => return Ok(Err(out)),
            };
            let ask = WorkerRequest::Run { draws: draws.clone(), steps: steps.clone(), seed: *seed, checks };
            let launches = match self.ask(worker, &ask, Stage::Check)? {
                Ok(WorkerReply::Ran { launches }) => launches,
                Ok(other) => return Ok(Err(out(Stage::Check, format!("it answered {other:?}")))),
                Err(out) => return Ok(Err(out)),
            };
            let launches = brought(launches);
            let right: Result<Vec<_>, _> = draws.iter().map(|it| answers.to(self.op, problem, it)).collect();
            let right = right?;
            let right: Vec<_> = right.iter().map(|it| (&it.inputs, &it.reference)).collect();
            let Some(judged) = trial::judge(self.op, extra, steps, &right, &launches) else {
                return Ok(Err(out(Stage::Check, no_launch().to_string())));
            };
            if let Some(words) = complaints_in(&check_of(judged)) {
                let reason = format!("on {problem}, {how}: {words}");
                let failure = FailureKind::WrongAnswer;
                return Ok(Err(Rejection { stage: Stage::Check, failure, reason }));
            }
        }
        Ok(Ok(()))
    }

    fn worker(
        &self,
        setting: &Setting<'_>,
        folder: &Path,
        chip: Option<&'static Chip>,
    ) -> StepResult<Worker> {
        let limits = Limits {
            build: self.plan.limits.build.min(BUILD_LIMIT),
            answer: self.plan.limits.answer,
            resident_bytes: self.plan.limits.resident_bytes.min(RESIDENT_BYTES),
        };
        let command = (self.start.untrusted)(&setting.name, folder, chip);
        Ok(Worker::start(command, limits).map_err(|error| out(Stage::Build, error.to_string())))
    }

    fn build_apart(
        &self,
        worker: &mut Worker,
        setting: &Setting<'_>,
        problem: &O::Problem,
    ) -> StepResult<BuildReply> {
        let candidate =
            CandidateName { family: setting.family.full_name(), preset: None, knobs: pairs(&setting.knobs) };
        let ask = WorkerRequest::Build { candidate, problem: problem.to_string() };
        Ok(match self.ask(worker, &ask, Stage::Build)? {
            Ok(WorkerReply::Built(built)) => Ok(built),
            Ok(other) => Err(out(Stage::Build, format!("it answered {other:?}"))),
            Err(out) => Err(out),
        })
    }

    fn ask(&self, worker: &mut Worker, ask: &WorkerRequest, stage: Stage) -> StepResult<WorkerReply> {
        match worker.ask(ask, self.stop) {
            Ok(said) => Ok(Ok(said)),
            Err(WorkerError::Stopped) => Err(EvolveError::Stopped),
            Err(WorkerError::Failed { failure, reason } | WorkerError::Lost { failure, reason }) => {
                Ok(Err(Rejection { stage, failure, reason }))
            }
        }
    }
}

fn out(stage: Stage, reason: impl Into<String>) -> Rejection {
    Rejection { stage, failure: FailureKind::Other, reason: reason.into() }
}

/// The virtual GPU that stands in for a device: itself, the same GPU, one of the same target, or any the family is
/// made for.
fn stand_in(device: &Device, family: &Family) -> Option<&'static Chip> {
    match device {
        Device::Virtual { chip } => Some(chip),
        Device::Cuda { name, target, .. } => Chip::by_name(name)
            .ok()
            .or_else(|| CHIPS.iter().find(|chip| chip.target == *target))
            .or_else(|| CHIPS.iter().find(|chip| family.targets.contains(&chip.target))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use chips::Target;

    use super::*;

    #[test]
    fn a_source_is_read_back_only_if_it_is_the_one_that_was_kept() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::load(None).unwrap();
        let family = catalog.family("reference").unwrap();
        let source = format!("// {}", family.entry);
        let kept = UntrustedSource::keep(family, &source, folder.path()).unwrap();
        assert_eq!(text(family, &kept.hash, folder.path()), Some(source));
        let file = kept.folder.join(&family.op).join(&family.name).join("kernel.cu");
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
        assert_eq!(text(family, &kept.hash, folder.path()), None);
        assert_eq!(text(family, "../x", folder.path()), None);
    }

    #[test]
    fn every_device_has_a_stand_in() {
        let catalog = Catalog::load(None).unwrap();
        let family = catalog.family("reference").unwrap();
        let cuda = |name: &str, target| Device::Cuda { index: 0, name: name.to_owned(), target };
        for (device, id) in [
            (Device::Virtual { chip: Chip::by_name("a100").unwrap() }, "a100"),
            (cuda("NVIDIA H200", Target::Sm90a), "h200"),
            (cuda("NVIDIA L40S", Target::Sm89), "l4"),
            (cuda("NVIDIA A10", Target::Sm86), "l4"),
        ] {
            assert_eq!(stand_in(&device, family).unwrap().id, id, "{device}");
        }
    }
}
