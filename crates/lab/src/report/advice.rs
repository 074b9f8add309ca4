//! What limits the kernels, and what to do next.

use crate::profile::Diagnosis;
use crate::run::{ResultId, RunState};

#[derive(Clone, Copy, Debug)]
pub struct Bottleneck<'s> {
    pub of: &'s ResultId,
    pub diagnosis: &'s Diagnosis,
}

/// A thing to do, with what speaks for it.
#[derive(Clone, Copy, Debug)]
pub struct Lever<'s> {
    pub lever: &'s str,
    pub because: Bottleneck<'s>,
}

/// Whether a result is of a kernel that was made sick on purpose: what is wrong with it is no advice.
pub fn is_sick(state: &RunState, of: &ResultId) -> bool {
    state.inversions.iter().any(|inversion| {
        // The setting's knobs follow the healthy kernel's name, as subjects have it.
        let knobs = of.subject.strip_prefix(&inversion.healthy).and_then(|rest| rest.strip_prefix('+'));
        inversion.problem == of.problem
            && knobs.is_some_and(|knobs| knobs == inversion.setting.replace(' ', "+"))
    })
}

/// What profiles found on a problem, or on all of them where that one has no profile; the weightiest first.
pub fn bottlenecks<'s>(state: &'s RunState, problem: Option<&str>) -> Vec<Bottleneck<'s>> {
    let healthy = || state.profiles.iter().filter(|(of, _)| !is_sick(state, of));
    let here = |of: &ResultId| problem.is_some_and(|problem| of.problem == problem);
    let any_here = healthy().any(|(of, _)| here(of));
    let mut found: Vec<Bottleneck<'s>> = healthy()
        .filter(|(of, _)| !any_here || here(of))
        .flat_map(|(of, profile)| profile.diagnoses.iter().map(move |diagnosis| Bottleneck { of, diagnosis }))
        .collect();
    found.sort_by(|a, b| b.diagnosis.weight.total_cmp(&a.diagnosis.weight));
    found
}

/// The most promising levers, each once: first every bottleneck's own first one, as levers of one bottleneck are
/// alternatives to each other.
pub fn levers<'s>(bottlenecks: &[Bottleneck<'s>], most: usize) -> Vec<Lever<'s>> {
    let longest = bottlenecks.iter().map(|it| it.diagnosis.levers.len()).max().unwrap_or(0);
    let mut found: Vec<Lever<'s>> = Vec::new();
    for round in 0..longest {
        for because in bottlenecks {
            let Some(lever) = because.diagnosis.levers.get(round) else { continue };
            if found.len() < most && found.iter().all(|known| known.lever != lever) {
                found.push(Lever { lever, because: *because });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{a_full_log, folded};

    #[test]
    fn levers_come_by_weight_and_once() {
        let state = folded(&a_full_log());
        let found = bottlenecks(&state, None);
        assert!(found.windows(2).all(|pair| pair[0].diagnosis.weight >= pair[1].diagnosis.weight));
        let levers = levers(&found, 3);
        assert_eq!(levers.len(), 3);
        assert_eq!(levers[0].lever, found[0].diagnosis.levers[0]);
        assert_eq!(levers[1].lever, found[1].diagnosis.levers[0]);
    }

    #[test]
    fn what_was_made_sick_on_purpose_gives_no_advice() {
        let mut state = folded(&a_full_log());
        let (of, profile) =
            state.profiles.first().map(|(of, profile)| (of.clone(), profile.clone())).unwrap();
        let inversion = &mut state.inversions[1];
        inversion.setting = "BLOCK_M=16 NUM_WARPS=2".to_owned();
        let sick =
            ResultId { subject: format!("{}+BLOCK_M=16+NUM_WARPS=2", inversion.healthy), ..of.clone() };
        assert!(is_sick(&state, &sick) && !is_sick(&state, &of));
        let before = bottlenecks(&state, None).len();
        state.profiles.insert(sick, profile);
        assert_eq!(bottlenecks(&state, None).len(), before);
    }

    #[test]
    fn a_problem_without_a_profile_is_told_what_is_known_of_others() {
        let state = folded(&a_full_log());
        let all = bottlenecks(&state, None).len();
        assert_eq!(bottlenecks(&state, Some("b9h9s9d64-fp16")).len(), all);
        assert!(bottlenecks(&RunState::default(), None).is_empty());
    }
}
