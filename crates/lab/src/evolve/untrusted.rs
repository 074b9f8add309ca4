//! Proposed sources are untrusted: nobody has reviewed them. They are compiled and run only in worker processes. Each
//! one must pass on the virtual GPU, under all checkers, before it runs on a GPU.

use std::path::{Path, PathBuf};
use std::time::Duration;

use chips::{CHIPS, Chip};
use family::{Catalog, Family};
use gpu::device::Device;
use op::{Op, Refusal, TrialStep, derive_seed};
use runlog::{FailureKind, Stage};

use super::EvolveError;
use super::evaluator::{Compiled, Evaluator, Rejection, Setting, pairs};
use super::proposer::screen::MAX_BYTES;
use crate::bench::{AnswerCache, Draws, check_record, complaint_text, no_launch_error, trial_launches};
use crate::check::cut_to_size;
use crate::trial::{self, TrialCase, kernel_notes};
use crate::worker::{BuildReply, CandidateName, Limits, Worker, WorkerError, WorkerReply, WorkerRequest};

/// Operations of the run under the checkers, which takes one or two seconds.
const CHECK_FLOPS: f64 = 5.0e7;
/// Operations of the confirmation run with fresh inputs, for a candidate that is about to become an elite. It has no
/// checkers. The launches at full size are additional.
const CONFIRM_FLOPS: f64 = 2.0e7;
/// How much longer a plain kernel takes for the same number of operations.
const PLAIN_COST: f64 = 16.0;
/// Labels of the seeds that are derived from the search's secret.
const CHECK_SEED: u64 = 1;
const CONFIRM_SEED: u64 = 1 << 32;
/// A source can be written to keep the compiler busy, so its build time is limited.
const BUILD_LIMIT: Duration = Duration::from_mins(2);
const RESIDENT_BYTES: u64 = 8 << 30;

/// A proposed source as a family in its own folder, with the headers it may include.
#[derive(Debug)]
pub struct UntrustedSource {
    /// The name of the source in the log.
    pub hash: String,
    /// The root of the family tree that holds the source.
    pub folder: PathBuf,
    catalog: Catalog,
    name: String,
}

impl UntrustedSource {
    /// Writes the source into a folder below `sources`, with the family's manifest and headers. The source must have
    /// been screened.
    pub fn store(family: &Family, text: &str, sources: &Path) -> Result<Self, EvolveError> {
        let hash = hash(text);
        let folder = sources.join(&hash);
        for (path, text) in family.files_with(text) {
            let path = folder.join(path);
            files::write_atomically(&path, text.as_bytes())
                .map_err(|error| EvolveError::Io { path, error })?;
        }
        let catalog = Catalog::load(Some(&folder)).map_err(Refusal::new)?;
        let name = family.full_name();
        catalog.family(&name).map_err(Refusal::new)?;
        Ok(UntrustedSource { hash, folder, catalog, name })
    }

    /// The family with the proposed source in place of its own.
    pub fn family(&self) -> Result<&Family, EvolveError> {
        Ok(self.catalog.family(&self.name).map_err(Refusal::new)?)
    }
}

/// The hash that names a source in the log.
pub fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

/// The text of a stored source. The text is sent to a proposer, so its hash is verified: a run folder may come from
/// somebody else and link to a file of the user.
pub fn stored_text(family: &Family, hash: &str, sources: &Path) -> Option<String> {
    if !hash.chars().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let folder = sources.join(hash).join(&family.op).join(&family.name);
    let text = files::read_text_bounded(&folder.join("kernel.cu"), MAX_BYTES as u64).ok()?;
    (self::hash(&text) == hash).then_some(text)
}

/// The result of a step in a worker. The outer error ends the search, the inner one only rejects the candidate.
type StepResult<T> = Result<Result<T, Rejection>, EvolveError>;

impl<O: Op + ?Sized> Evaluator<'_, O> {
    /// Does the same as [`Evaluator::compile`] in a worker process.
    pub fn compile_in_worker(&self, setting: &Setting<'_>, folder: &Path) -> StepResult<Compiled> {
        let mut worker = match self.worker(setting, folder, None)? {
            Ok(worker) => worker,
            Err(rejection) => return Ok(Err(rejection)),
        };
        let mut compiled: Option<Compiled> = None;
        for problem in &self.plan.problems {
            let built = match self.build_in_worker(&mut worker, setting, problem)? {
                Ok(built) => built,
                Err(rejection) => return Ok(Err(rejection)),
            };
            if let Some(note) = built.notes.iter().find(|note| !self.known_notes(problem).contains(note)) {
                let reason = format!(
                    "the proposed source does something that the family's own source does not: {note}"
                );
                return Ok(Err(Rejection { stage: Stage::Build, failure: FailureKind::Refused, reason }));
            }
            let next = match self.compiled(setting.family, &pairs(&setting.knobs), problem, built) {
                Ok(next) => next,
                Err(failure) => return Ok(Err(Rejection::new(Stage::Build, failure))),
            };
            compiled = Some(match compiled {
                None => next,
                Some(before) => before.merged(&next),
            });
        }
        Ok(compiled.ok_or_else(|| rejection(Stage::Build, "there is no problem to compile for")))
    }

    /// Runs a compiled setting on reduced problems under all checkers of the virtual GPU. It passes if no checker
    /// reports a finding and all answers are right.
    pub fn check_on_virtual_gpu(&self, setting: &Setting<'_>, folder: &Path) -> StepResult<()> {
        let Some(chip) = virtual_gpu_for(&self.plan.device, setting.family) else {
            let reason = "no virtual GPU has a target of this family, so the source cannot be checked";
            return Ok(Err(rejection(Stage::Check, reason)));
        };
        let mut worker = match self.worker(setting, folder, Some(chip))? {
            Ok(worker) => worker,
            Err(rejection) => return Ok(Err(rejection)),
        };
        let flops = if setting.family.plain { CHECK_FLOPS / PLAIN_COST } else { CHECK_FLOPS };
        let cases = self.cases(flops, derive_seed(self.plan.secret, CHECK_SEED));
        let checks = vgpu::Checks::All;
        self.check_cases((&mut worker, checks), setting, &cases, &self.answers, "on the virtual GPU")
    }

    /// Checks a setting that is about to become an elite once more, with inputs that no candidate has had before.
    pub fn confirm(&self, setting: &Setting<'_>, number: u32) -> StepResult<()> {
        let limits = self.plan.limits;
        let command = (self.commands_for(setting).kernel)(&setting.name);
        let mut worker = match Worker::start(command, limits) {
            Ok(worker) => worker,
            Err(error) => return Ok(Err(rejection(Stage::Check, error.to_string()))),
        };
        let flops = match self.plan.device {
            Device::Virtual { .. } if setting.family.plain => CONFIRM_FLOPS / PLAIN_COST,
            Device::Virtual { .. } => CONFIRM_FLOPS,
            Device::Cuda { .. } => f64::INFINITY,
        };
        let cases = self.cases(flops, derive_seed(self.plan.secret, CONFIRM_SEED + u64::from(number)));
        let checks = vgpu::Checks::None;
        let fresh = (cases, &AnswerCache::disabled(), "with fresh inputs");
        // A GPU launched the candidate several times at full size while it was timed; the virtual GPU only once.
        let full_size = match self.plan.device {
            Device::Virtual { .. } => self.full_size_cases(),
            Device::Cuda { .. } => Vec::new(),
        };
        for (cases, answers, how) in [fresh, (full_size, &self.answers, "at full size")] {
            if let Err(rejection) = self.check_cases((&mut worker, checks), setting, &cases, answers, how)? {
                return Ok(Err(rejection));
            }
        }
        Ok(Ok(()))
    }

    /// The problems at full size with the first two of the usual launches. The references are known, because all
    /// candidates get these inputs.
    fn full_size_cases(&self) -> Vec<TrialCase<O::Problem>> {
        let case = |problem: &O::Problem| {
            let draws = Draws::new(self.op, &problem.to_string(), self.plan.secret, None);
            TrialCase {
                problem: problem.clone(),
                draws: draws.timed[..2].to_vec(),
                steps: TrialStep::USUAL[..2].to_vec(),
                seed: derive_seed(draws.environments, 1),
            }
        };
        self.plan.problems.iter().map(case).collect()
    }

    /// The notes that the family's own source gets.
    fn known_notes(&self, problem: &O::Problem) -> Vec<String> {
        let plan = self.plan;
        let (preset, knobs) = (plan.baseline.as_deref(), &plan.baseline_knobs);
        let build = || -> Option<Vec<String>> {
            let candidate = self.op.candidate(plan.family, preset, knobs, problem).ok()?;
            let request = plan.family.request(&candidate, plan.device.target()).ok()?;
            let build = self.compiler.build(&request).ok()?.build;
            Some(kernel_notes(&build.ptx, &plan.family.entry))
        };
        build().unwrap_or_default()
    }

    /// The cases a setting is checked on: the problems at reduced size, with all classes of inputs.
    fn cases(&self, flops: f64, seed: u64) -> Vec<TrialCase<O::Problem>> {
        let parts = cut_to_size(self.op, &self.plan.problems, flops).into_iter();
        let parts = parts.enumerate();
        parts
            .flat_map(|(index, (problem, _))| {
                let seed = derive_seed(seed, index as u64);
                [
                    TrialCase::classes(self.op, &problem, derive_seed(seed, 1)),
                    TrialCase::usual(self.op, problem, seed),
                ]
            })
            .collect()
    }

    /// Runs a setting on every case in a worker, and judges every launch.
    fn check_cases(
        &self,
        (worker, checks): (&mut Worker, vgpu::Checks),
        setting: &Setting<'_>,
        cases: &[TrialCase<O::Problem>],
        answers: &AnswerCache<O>,
        how: &str,
    ) -> StepResult<()> {
        for TrialCase { problem, draws, steps, seed } in cases {
            let extra = match self.build_in_worker(worker, setting, problem)? {
                Ok(built) => built.extra_tolerance,
                Err(rejection) => return Ok(Err(rejection)),
            };
            let request =
                WorkerRequest::Run { draws: draws.clone(), steps: steps.clone(), seed: *seed, checks };
            let launches = match self.ask(worker, &request, Stage::Check)? {
                Ok(WorkerReply::Ran { launches }) => launches,
                Ok(other) => return Ok(Err(rejection(Stage::Check, format!("unexpected reply: {other:?}")))),
                Err(rejection) => return Ok(Err(rejection)),
            };
            let launches = trial_launches(launches);
            let expected: Result<Vec<_>, _> =
                draws.iter().map(|it| answers.to(self.op, problem, it)).collect();
            let expected = expected?;
            let expected: Vec<_> = expected.iter().map(|it| (&it.inputs, &it.reference)).collect();
            let Some(judged) = trial::judge(self.op, extra.as_ref(), steps, &expected, &launches) else {
                return Ok(Err(rejection(Stage::Check, no_launch_error().to_string())));
            };
            if let Some(words) = complaint_text(&check_record(judged)) {
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
        Ok(Worker::start(command, limits).map_err(|error| rejection(Stage::Build, error.to_string())))
    }

    fn build_in_worker(
        &self,
        worker: &mut Worker,
        setting: &Setting<'_>,
        problem: &O::Problem,
    ) -> StepResult<BuildReply> {
        let candidate =
            CandidateName { family: setting.family.full_name(), preset: None, knobs: pairs(&setting.knobs) };
        let request = WorkerRequest::Build { candidate, problem: problem.to_string() };
        Ok(match self.ask(worker, &request, Stage::Build)? {
            Ok(WorkerReply::Built(built)) => Ok(built),
            Ok(other) => Err(rejection(Stage::Build, format!("unexpected reply: {other:?}"))),
            Err(rejection) => Err(rejection),
        })
    }

    fn ask(&self, worker: &mut Worker, request: &WorkerRequest, stage: Stage) -> StepResult<WorkerReply> {
        match worker.ask(request, self.stop) {
            Ok(reply) => Ok(Ok(reply)),
            Err(WorkerError::Stopped) => Err(EvolveError::Stopped),
            Err(WorkerError::Failed { failure, reason } | WorkerError::Lost { failure, reason }) => {
                Ok(Err(Rejection { stage, failure, reason }))
            }
        }
    }
}

fn rejection(stage: Stage, reason: impl Into<String>) -> Rejection {
    Rejection { stage, failure: FailureKind::Other, reason: reason.into() }
}

/// The virtual GPU on which sources for a device are checked: the device itself if it is virtual, otherwise the same
/// GPU, one with the same target, or any one with a target of the family.
fn virtual_gpu_for(device: &Device, family: &Family) -> Option<&'static Chip> {
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
    fn a_source_is_read_back_only_if_its_hash_matches() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::load(None).unwrap();
        let family = catalog.family("reference").unwrap();
        let source = format!("// {}", family.entry);
        let stored = UntrustedSource::store(family, &source, folder.path()).unwrap();
        assert_eq!(stored_text(family, &stored.hash, folder.path()), Some(source));
        let file = stored.folder.join(&family.op).join(&family.name).join("kernel.cu");
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
        assert_eq!(stored_text(family, &stored.hash, folder.path()), None);
        assert_eq!(stored_text(family, "../x", folder.path()), None);
    }

    #[test]
    fn every_device_has_a_virtual_gpu_for_checks() {
        let catalog = Catalog::load(None).unwrap();
        let family = catalog.family("reference").unwrap();
        let cuda = |name: &str, target| Device::Cuda { index: 0, name: name.to_owned(), target };
        for (device, id) in [
            (Device::Virtual { chip: Chip::by_name("a100").unwrap() }, "a100"),
            (cuda("NVIDIA H200", Target::Sm90a), "h200"),
            (cuda("NVIDIA L40S", Target::Sm89), "l4"),
            (cuda("NVIDIA A10", Target::Sm86), "l4"),
        ] {
            assert_eq!(virtual_gpu_for(&device, family).unwrap().id, id, "{device}");
        }
    }
}
