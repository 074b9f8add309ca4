//! The conditions of a valid setting, rule by rule, each with the knobs that it depends on. A search can then
//! generate valid settings instead of discarding invalid ones.

use chips::Target;
use indexmap::IndexMap;

use crate::Value;
use crate::candidate::{Candidate, Sizes};
use crate::expression::Expression;
use crate::manifest::{Constraint, Family};

/// One condition on settings of a family, for one target and the axes of one problem.
pub struct Rule<'f> {
    /// The knobs that the rule depends on, as indices of the family's knobs, ascending.
    pub knobs: Vec<usize>,
    holds: Box<dyn Fn(&Candidate) -> bool + Sync + Send + 'f>,
    family: &'f Family,
    axes: IndexMap<String, Value>,
}

impl std::fmt::Debug for Rule<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rule(knobs {:?})", self.knobs)
    }
}

impl Rule<'_> {
    /// Whether these values meet the rule. There is one value for each knob that the rule depends on.
    pub fn holds(&self, values: &[&Value]) -> bool {
        let mut knobs: IndexMap<String, Value> =
            self.family.knobs.iter().map(|knob| (knob.name.clone(), knob.default.clone())).collect();
        for (&knob, &value) in self.knobs.iter().zip(values) {
            knobs.insert(self.family.knobs[knob].name.clone(), value.clone());
        }
        let family = self.family.full_name();
        (self.holds)(&Candidate { family, preset: None, knobs, axes: self.axes.clone() })
    }
}

impl Family {
    /// The rules that depend on the sizes of a problem with these axes.
    pub fn size_rules(&self, axes: &IndexMap<String, Value>, sizes: &Sizes) -> Vec<Rule<'_>> {
        let rule = |constraint: &'_ Constraint| {
            let names = constraint.require.variables();
            let position = |(at, knob): (usize, &crate::Knob)| names.contains(&knob.name).then_some(at);
            let knobs = self.knobs.iter().enumerate().filter_map(position).collect();
            (knobs, sizes.clone())
        };
        let rules = self.size_constraints.iter().map(|constraint| {
            let (knobs, sizes) = rule(constraint);
            let holds = move |candidate: &Candidate| {
                constraint.require.boolean(&candidate.scope_with(&sizes)).unwrap_or_default()
            };
            Rule { knobs, holds: Box::new(holds), family: self, axes: axes.clone() }
        });
        rules.collect()
    }

    /// Every rule for a setting with these axes on the target: constraints, threads, shared memory.
    /// [`Family::candidate`] and [`Family::check_target`] accept a setting that meets all of them.
    pub fn rules(&self, axes: &IndexMap<String, Value>, target: Target) -> Vec<Rule<'_>> {
        let rule = |about: &[&Expression], holds: Box<dyn Fn(&Candidate) -> bool + Sync + Send>| {
            let names: Vec<String> = about.iter().flat_map(|expression| expression.variables()).collect();
            let position = |(at, knob): (usize, &crate::Knob)| names.contains(&knob.name).then_some(at);
            let knobs = self.knobs.iter().enumerate().filter_map(position).collect();
            Rule { knobs, holds, family: self, axes: axes.clone() }
        };
        let mut rules: Vec<Rule<'_>> = self
            .constraints
            .iter()
            .filter(|constraint| constraint.on.is_empty() || constraint.on.contains(&target))
            .map(|constraint| {
                let holds = |candidate: &Candidate| {
                    constraint.require.boolean(&candidate.scope()).unwrap_or_default()
                };
                rule(&[&constraint.require], Box::new(holds))
            })
            .collect();
        for launch in &self.launches {
            let block: Vec<&Expression> = launch.block.iter().collect();
            rules.push(rule(&block, Box::new(|candidate| self.block_of(launch, candidate).is_ok())));
        }
        let shared: Vec<&Expression> =
            self.shared.iter().flat_map(|buffer| buffer.shape.iter().chain(&buffer.when)).collect();
        let available = u64::from(target.limits().shared_per_block_opt_in);
        let fits = move |candidate: &Candidate| {
            self.layout(candidate).is_ok_and(|layout| layout.total_bytes <= available)
        };
        rules.push(rule(&shared, Box::new(fits)));
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalog;

    /// Settings that differ from a preset in two knobs: the rules agree with the candidate's own checks.
    #[test]
    fn rules_agree_with_candidates() {
        let catalog = Catalog::load(None).unwrap();
        let (mut allowed, mut refused) = (0, 0);
        for family in catalog.entries().iter().filter_map(|entry| entry.family.as_ref().ok()) {
            let target = *family.targets.iter().find(|&&it| it == Target::Sm89).unwrap_or(&family.targets[0]);
            for preset in [None, family.presets.last().map(|it| it.name.as_str())] {
                let Ok(start) = family.candidate(preset, &[], &[]) else { continue };
                let rules = family.rules(&start.axes, target);
                for (at, first) in family.knobs.iter().enumerate() {
                    for second in &family.knobs[at..family.knobs.len().min(at + 3)] {
                        for (a, b) in
                            first.values.iter().flat_map(|a| second.values.iter().map(move |b| (a, b)))
                        {
                            let mut values = start.knobs.clone();
                            values.insert(first.name.clone(), a.clone());
                            values.insert(second.name.clone(), b.clone());
                            let by_rules = rules.iter().all(|rule| {
                                let about: Vec<&Value> =
                                    rule.knobs.iter().map(|&knob| &values[knob]).collect();
                                rule.holds(&about)
                            });
                            let knobs: Vec<(String, String)> = values
                                .iter()
                                .map(|(name, value)| (name.clone(), value.to_string()))
                                .collect();
                            let by_candidate = family
                                .candidate(None, &knobs, &[])
                                .is_ok_and(|candidate| family.check_target(&candidate, target).is_ok());
                            assert_eq!(by_rules, by_candidate, "{} {knobs:?}", family.name);
                            if by_rules { allowed += 1 } else { refused += 1 }
                        }
                    }
                }
            }
        }
        assert!(allowed > 100 && refused > 100, "{allowed} allowed, {refused} refused");
    }
}
