//! Groups failed results by their cause, so that one bug is told once.
//!
//! A cause is a finding at a line of the source, a kind of complaint, or the reason why a kernel could not be tried, each
//! of one family. Results that share a cause are one group: a bug gives a finding in runs with checkers and a wrong answer
//! in the others. A group may have several causes; it tells each of them once.

use std::collections::{HashMap, HashSet};

use compiler::Diagnostic;
use op::Complaint;

use super::{CaseOutcome, CaseResult};

/// One cause of failed results.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Cause {
    /// A finding, by its kind and the line of the source.
    Finding(String, String, u32),
    /// A complaint, by its kind.
    Complaint(String),
    /// The kernel does not compile, or could not be tried.
    Broken(String),
}

/// Failed results of one family that share causes.
#[derive(Debug)]
pub struct FailureGroup<'r> {
    /// The results in the order of the check.
    pub results: Vec<&'r CaseResult>,
    causes: Vec<Cause>,
}

/// A finding, and in how many results of a group it occurs.
#[derive(Debug)]
pub struct SharedFinding<'r> {
    /// The first such finding.
    pub finding: &'r vgpu::Finding,
    /// The number of results with a finding of this kind at this line.
    pub results: usize,
}

fn cause_of(finding: &vgpu::Finding) -> Cause {
    let vgpu::Finding { kind, place, .. } = finding;
    // The innermost line of inlined functions; without line tables, the line of the PTX.
    let frame = place.frames.first().map(|frame| (frame.file.clone(), frame.line));
    let (file, line) = frame.unwrap_or_else(|| (String::new(), place.ptx_line));
    Cause::Finding(kind.to_string(), file, line)
}

fn causes(result: &CaseResult) -> Vec<Cause> {
    let mut causes: Vec<Cause> = result.findings.iter().map(cause_of).collect();
    match &result.outcome {
        CaseOutcome::Passed { .. } => {}
        CaseOutcome::Failed { complaints, .. } => {
            causes.extend(complaints.iter().map(|complaint| Cause::Complaint(complaint.kind.clone())));
        }
        CaseOutcome::Broken { reason, diagnostics } => {
            let message = |diagnostic: &Diagnostic| format!("{diagnostic:?}");
            causes.push(Cause::Broken(diagnostics.first().map_or_else(|| reason.clone(), message)));
        }
    }
    causes
}

/// Groups the failed ones among these results.
pub fn group_failures(results: &[CaseResult]) -> Vec<FailureGroup<'_>> {
    let mut groups: Vec<FailureGroup<'_>> = Vec::new();
    for result in results.iter().filter(|result| !result.passed()) {
        let mut own = FailureGroup { results: vec![result], causes: causes(result) };
        // The result may share causes with several groups, which then become one.
        let is_same = |group: &mut FailureGroup<'_>| {
            group.results[0].family == result.family
                && group.causes.iter().any(|cause| own.causes.contains(cause))
        };
        let same: Vec<FailureGroup<'_>> = groups.extract_if(.., is_same).collect();
        for group in same.into_iter().rev() {
            own.results.splice(0..0, group.results);
            own.causes.extend(group.causes);
        }
        groups.push(own);
    }
    groups
}

impl<'r> FailureGroup<'r> {
    /// The result that shows the cause best: the first with findings, or the first.
    pub fn example(&self) -> &'r CaseResult {
        self.results.iter().copied().find(|it| !it.findings.is_empty()).unwrap_or(self.results[0])
    }

    fn example_first(&self) -> impl Iterator<Item = &'r CaseResult> {
        let example = self.example();
        let others = self.results.iter().copied().filter(move |result| !std::ptr::eq(*result, example));
        std::iter::once(example).chain(others)
    }

    /// The distinct findings, by kind and line, those of the example first.
    pub fn findings(&self) -> Vec<SharedFinding<'r>> {
        let mut found: Vec<(Cause, SharedFinding<'r>)> = Vec::new();
        for result in self.example_first() {
            let mut seen: Vec<Cause> = Vec::new();
            for finding in &result.findings {
                let cause = cause_of(finding);
                if seen.contains(&cause) {
                    continue;
                }
                match found.iter_mut().find(|(known, _)| *known == cause) {
                    Some((_, shared)) => shared.results += 1,
                    None => found.push((cause.clone(), SharedFinding { finding, results: 1 })),
                }
                seen.push(cause);
            }
        }
        found.into_iter().map(|(_, shared)| shared).collect()
    }

    /// The complaints of different kinds that do not repeat a finding, each with the first result that has it. Those of the
    /// example come first.
    pub fn complaints(&self) -> Vec<(&'r CaseResult, &'r Complaint)> {
        let mut told: Vec<(&CaseResult, &Complaint)> = Vec::new();
        for result in self.example_first() {
            let CaseOutcome::Failed { complaints, .. } = &result.outcome else { continue };
            let is_finding = |kind: &str| result.findings.iter().any(|it| it.kind.name() == kind);
            let before = told.len();
            for complaint in complaints.iter().filter(|complaint| !is_finding(&complaint.kind)) {
                if !told[..before].iter().any(|(_, it)| it.kind == complaint.kind) {
                    told.push((result, complaint));
                }
            }
        }
        told
    }
}

/// Counts the failures of kernels by cause, to stop early.
#[derive(Debug, Default)]
pub(super) struct FailureCounts {
    counts: HashMap<(String, String, Cause), usize>,
}

impl FailureCounts {
    /// Adds a failed result. Returns the largest number of results of this kernel with one of its causes.
    pub fn add(&mut self, result: &CaseResult) -> usize {
        let causes: HashSet<Cause> = causes(result).into_iter().collect();
        let counted = causes.into_iter().map(|cause| {
            let count = self.counts.entry((result.family.clone(), result.kernel.clone(), cause)).or_default();
            *count += 1;
            *count
        });
        counted.max().unwrap_or(0)
    }
}
