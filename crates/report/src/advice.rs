//! Bottlenecks of the kernels, and the suggested changes.

use runlog::record::{Diagnosis, Lever};
use runlog::{ResultId, RunState};

/// A diagnosis and the kernel it is about.
#[derive(Clone, Copy, Debug)]
pub struct Bottleneck<'s> {
    /// The kernel and the problem.
    pub of: &'s ResultId,
    /// The diagnosis.
    pub diagnosis: &'s Diagnosis,
}

/// A suggested change and the bottleneck it addresses.
#[derive(Clone, Copy, Debug)]
pub struct Suggestion<'s> {
    /// The change.
    pub change: &'s Lever,
    /// The bottleneck.
    pub because: Bottleneck<'s>,
}

/// Whether a result belongs to a kernel with a deliberate pathology (`invert`). Its bottlenecks give no suggestions.
pub fn has_pathology(state: &RunState, of: &ResultId) -> bool {
    state.inversions.iter().any(|inversion| {
        // The subject's name is the name of the healthy kernel, followed by the knobs of the setting.
        let knobs = of.subject.strip_prefix(&inversion.healthy).and_then(|rest| rest.strip_prefix(' '));
        inversion.problem == of.problem && knobs == Some(inversion.setting.as_str())
    })
}

/// The bottlenecks that profiles found on a problem, or on all problems if it has no profile; the heaviest first.
pub fn bottlenecks<'s>(state: &'s RunState, problem: Option<&str>) -> Vec<Bottleneck<'s>> {
    let profiles = || state.profiles.iter().filter(|(of, _)| !has_pathology(state, of));
    let is_on_problem = |of: &ResultId| problem.is_some_and(|problem| of.problem == problem);
    let any_on_problem = profiles().any(|(of, _)| is_on_problem(of));
    let mut found: Vec<Bottleneck<'s>> = profiles()
        .filter(|(of, _)| !any_on_problem || is_on_problem(of))
        .flat_map(|(of, profile)| profile.diagnoses.iter().map(move |diagnosis| Bottleneck { of, diagnosis }))
        .collect();
    found.sort_by(|a, b| b.diagnosis.weight.total_cmp(&a.diagnosis.weight));
    found
}

/// The most promising changes without duplicates, at most `most`. The first change of every bottleneck comes first,
/// because the changes of one bottleneck are alternatives.
pub fn suggestions<'s>(bottlenecks: &[Bottleneck<'s>], most: usize) -> Vec<Suggestion<'s>> {
    let longest = bottlenecks.iter().map(|it| it.diagnosis.levers.len()).max().unwrap_or(0);
    let mut found: Vec<Suggestion<'s>> = Vec::new();
    for round in 0..longest {
        for because in bottlenecks {
            let Some(change) = because.diagnosis.levers.get(round) else { continue };
            if found.len() < most && found.iter().all(|known| known.change.change != change.change) {
                found.push(Suggestion { change, because: *because });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use runlog::testing::{full_log, state_from};

    #[test]
    fn suggestions_are_sorted_by_weight_without_duplicates() {
        let state = state_from(&full_log());
        let found = bottlenecks(&state, None);
        assert!(found.windows(2).all(|pair| pair[0].diagnosis.weight >= pair[1].diagnosis.weight));
        let suggestions = suggestions(&found, 3);
        assert_eq!(suggestions.len(), 3);
        assert_eq!(suggestions[0].change, &found[0].diagnosis.levers[0]);
        assert_eq!(suggestions[1].change, &found[1].diagnosis.levers[0]);
    }

    #[test]
    fn a_kernel_with_a_pathology_gives_no_suggestions() {
        let mut state = state_from(&full_log());
        let (of, profile) =
            state.profiles.first().map(|(of, profile)| (of.clone(), profile.clone())).unwrap();
        let inversion = &mut state.inversions[1];
        inversion.setting = "BLOCK_M=16 NUM_WARPS=2".to_owned();
        let pathological =
            ResultId { subject: format!("{} BLOCK_M=16 NUM_WARPS=2", inversion.healthy), ..of.clone() };
        assert!(has_pathology(&state, &pathological) && !has_pathology(&state, &of));
        let before = bottlenecks(&state, None).len();
        state.profiles.insert(pathological, profile);
        assert_eq!(bottlenecks(&state, None).len(), before);
    }

    #[test]
    fn a_problem_without_a_profile_gets_the_bottlenecks_of_others() {
        let state = state_from(&full_log());
        let all = bottlenecks(&state, None).len();
        assert_eq!(bottlenecks(&state, Some("b9h9s9d64-fp16")).len(), all);
        assert!(bottlenecks(&RunState::default(), None).is_empty());
    }
}
