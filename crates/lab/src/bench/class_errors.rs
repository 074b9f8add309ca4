//! The errors of all subjects on inputs of every class (`bench --errors`).
//!
//! Kernels and peers get the same inputs, and their outputs are compared with the same references. The errors are only
//! shown: whether a kernel is correct is decided elsewhere. Large problems are cut, as for the other checks of classes:
//! all keys remain, so that errors of long sums show.

use std::path::PathBuf;
use std::sync::Arc;

use gpu::device::Device;
use indexmap::IndexMap;
use op::{InputDraw, Op, TrialStep, derive_seed};
use runlog::{ClassError, Event};

use super::answers::InputsWithAnswer;
use super::plan::SubjectKind;
use super::run::{Bench, Participant, built, trial_launches, unexpected_reply};
use super::workers::SubjectWorkers;
use crate::session::StageError;
use crate::worker::{WorkerError, WorkerReply, WorkerRequest};

/// Operations of the cut problem: thousands of rows on a GPU, some dozens on the virtual GPU, which takes seconds for
/// them.
const GPU_FLOPS: f64 = 8e9;
const VIRTUAL_FLOPS: f64 = 2e7;

/// The part of a problem on which errors are measured, with inputs of every class.
pub(super) struct ErrorCase<O: Op + ?Sized> {
    problem: O::Problem,
    seed: u64,
    draws: Vec<InputDraw>,
    answers: Vec<Arc<InputsWithAnswer<O>>>,
    /// The inputs in the format of peers: one entry for each class, or none if no peer takes part.
    peer: Vec<(serde_json::Value, IndexMap<String, PathBuf>)>,
}

impl<O: Op + ?Sized> Bench<'_, O> {
    /// Draws the inputs and computes the references, if the plan asks for errors.
    pub(super) fn error_case(
        &self,
        problem: &O::Problem,
        seed: u64,
        has_peers: bool,
    ) -> Result<Option<ErrorCase<O>>, StageError> {
        if !self.plan.errors {
            return Ok(None);
        }
        let flops = match self.plan.device {
            Device::Cuda { .. } => GPU_FLOPS,
            Device::Virtual { .. } => VIRTUAL_FLOPS,
        };
        let problem = self.op.cut(problem, flops);
        let classes = self.op.classes();
        let draw = |(index, class): (usize, &&str)| {
            InputDraw::new(class, derive_seed(seed, FIRST_SEED + index as u64))
        };
        let draws: Vec<InputDraw> = classes.iter().enumerate().map(draw).collect();
        let answers = self.answers_for(&problem, &draws)?;
        let mut peer = Vec::new();
        for (answer, class) in answers.iter().zip(&classes).filter(|_| has_peers) {
            let converted = self.op.peer_problem(&problem, &answer.inputs);
            let files = self.input_files(&converted, &format!("{class}-"))?;
            peer.push((converted.fields, files));
        }
        Ok(Some(ErrorCase { problem, seed, draws, answers, peer }))
    }

    /// Runs the first process of a subject on inputs of every class, and records the errors.
    pub(super) fn record_errors(
        &self,
        workers: &mut SubjectWorkers<'_, '_>,
        participant: &Participant,
        case: &ErrorCase<O>,
    ) -> Result<Result<(), WorkerError>, StageError> {
        let errors = match &workers.subject.kind {
            SubjectKind::Peer { name } => self.peer_errors(workers, &name.clone(), case),
            SubjectKind::Kernel { .. } | SubjectKind::Chosen { .. } => {
                self.kernel_errors(workers, participant, case)
            }
        };
        let errors = match errors {
            Ok(errors) => errors,
            Err(error) => {
                // Requests and replies may no longer correspond.
                workers.stop_from(0);
                return Ok(Err(error));
            }
        };
        for error in errors {
            self.run.record(&Event::ClassError { of: participant.key.of.clone(), error })?;
        }
        Ok(Ok(()))
    }

    fn kernel_errors(
        &self,
        workers: &mut SubjectWorkers<'_, '_>,
        participant: &Participant,
        case: &ErrorCase<O>,
    ) -> Result<Vec<ClassError>, WorkerError> {
        let Some(build @ WorkerRequest::Build { candidate, .. }) = &participant.build else {
            return Ok(Vec::new());
        };
        let problem = case.problem.to_string();
        let part = WorkerRequest::Build { candidate: candidate.clone(), problem: problem.clone() };
        let extra = workers.ask(self.factory, 0, &part).and_then(built)?.extra_tolerance;
        let run = WorkerRequest::Run {
            draws: case.draws.clone(),
            steps: (0..case.draws.len()).map(TrialStep::on).collect(),
            seed: case.seed,
            checks: vgpu::Checks::None,
        };
        let launches = match workers.ask(self.factory, 0, &run)? {
            WorkerReply::Ran { launches } => trial_launches(launches),
            other => return Err(unexpected_reply(&other)),
        };
        let all = launches.iter().zip(&case.answers).zip(&case.draws);
        let errors = all.map(|((launch, answer), draw)| {
            let InputsWithAnswer { inputs, reference } = &**answer;
            let judgement = self.op.judge(extra.as_ref(), inputs, reference, &launch.outputs);
            ClassError::new(&draw.class, &problem, judgement.error)
        });
        let errors = errors.collect();
        // The kernel that will be timed.
        workers.ask(self.factory, 0, build).and_then(built)?;
        Ok(errors)
    }

    fn peer_errors(
        &self,
        workers: &mut SubjectWorkers<'_, '_>,
        name: &str,
        case: &ErrorCase<O>,
    ) -> Result<Vec<ClassError>, WorkerError> {
        let problem = case.problem.to_string();
        let mut errors = Vec::new();
        for (((fields, inputs), answer), draw) in case.peer.iter().zip(&case.answers).zip(&case.draws) {
            let (fields, inputs) = (fields.clone(), inputs.clone());
            let load = WorkerRequest::Load { name: name.to_owned(), fields, inputs };
            let run = WorkerRequest::Run {
                draws: vec![draw.clone()],
                steps: vec![TrialStep::FIRST],
                seed: case.seed,
                checks: vgpu::Checks::None,
            };
            let reply = workers.ask(self.factory, 0, &load).and_then(|_| workers.ask(self.factory, 0, &run));
            let error = match reply {
                Ok(WorkerReply::Ran { launches }) => {
                    let InputsWithAnswer { inputs, reference } = &**answer;
                    let outputs = trial_launches(launches).into_iter().next().map(|launch| launch.outputs);
                    outputs.map_or(f64::NAN, |outputs| {
                        self.op.judge_peer(name, inputs, reference, outputs).error
                    })
                }
                Ok(other) => return Err(unexpected_reply(&other)),
                // The peer does not support the problem, which its check will report.
                Err(WorkerError::Failed { .. }) => return Ok(Vec::new()),
                Err(lost) => return Err(lost),
            };
            errors.push(ClassError::new(&draw.class, &problem, error));
        }
        Ok(errors)
    }
}

/// The first of the seeds of these inputs. Other inputs of a problem have smaller numbers.
const FIRST_SEED: u64 = 1 << 16;
