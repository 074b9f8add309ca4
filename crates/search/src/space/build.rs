//! Construction: constraints decide which values are tried, so that what they forbid is never generated.
//!
//! Parameters are set one after the other. A constraint is asked as soon as the last parameter it speaks of is set, so
//! a forbidden prefix costs one question, not one per completion. Its answers are remembered per combination of the
//! parameters it speaks of: a predicate over three knobs of eight values is evaluated 512 times at most, however many
//! points there are, and only for combinations that other constraints have let through. That matters because
//! predicates may be slow (expressions of a manifest), while a remembered answer costs a nanosecond.

use super::{Parameter, SpaceError};
use crate::value::Value;

type Predicate<'a> = dyn Fn(&[&Value]) -> bool + 'a;

/// A rule over some of the parameters.
pub struct Constraint<'a> {
    parameters: Vec<usize>,
    holds: Box<Predicate<'a>>,
}

impl std::fmt::Debug for Constraint<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Constraint over parameters {:?}", self.parameters)
    }
}

impl<'a> Constraint<'a> {
    /// `holds` is given the values of `parameters`, in that order. It must be a function of them alone.
    pub fn new(parameters: impl Into<Vec<usize>>, holds: impl Fn(&[&Value]) -> bool + 'a) -> Self {
        Constraint { parameters: parameters.into(), holds: Box::new(holds) }
    }
}

/// Combinations of one constraint's parameters for which answers are remembered; two bits each.
const MOST_REMEMBERED: u64 = 1 << 27;

/// A constraint while the space is built.
struct Rule<'a> {
    constraint: &'a Constraint<'a>,
    /// By the space's parameters: what a step of the position adds to the place of the answer. 0 where the rule does
    /// not speak of the parameter.
    strides: Vec<u64>,
    answers: Option<Answers>,
}

/// Two bits per combination: known, and the answer.
struct Answers(Vec<u64>);

impl Answers {
    fn new(combinations: u64) -> Option<Self> {
        (combinations <= MOST_REMEMBERED).then(|| Answers(vec![0; combinations.div_ceil(32) as usize]))
    }

    fn get(&self, place: u64) -> Option<bool> {
        let bits = self.0[(place / 32) as usize] >> (place % 32 * 2);
        (bits & 1 == 1).then_some(bits & 2 == 2)
    }

    fn set(&mut self, place: u64, answer: bool) {
        self.0[(place / 32) as usize] |= (1 | u64::from(answer) << 1) << (place % 32 * 2);
    }
}

impl<'a> Rule<'a> {
    fn new(constraint: &'a Constraint<'a>, parameters: &[Parameter]) -> Result<Self, SpaceError> {
        let mut strides = vec![0; parameters.len()];
        let mut span = Some(1_u64);
        for &parameter in &constraint.parameters {
            let count = parameters.len();
            let values = parameters
                .get(parameter)
                .ok_or(SpaceError::UnknownParameter { parameter, count })?
                .values
                .len();
            // One named twice has its place already.
            if strides[parameter] == 0 {
                strides[parameter] = span.unwrap_or(0);
                span = span.and_then(|span| span.checked_mul(values as u64));
            }
        }
        Ok(Rule { constraint, strides, answers: span.and_then(Answers::new) })
    }

    fn last_parameter(&self) -> Option<usize> {
        self.constraint.parameters.iter().copied().max()
    }

    fn holds(&mut self, place: u64, parameters: &[Parameter], positions: &[usize]) -> bool {
        let known = self.answers.as_ref().and_then(|answers| answers.get(place));
        known.unwrap_or_else(|| {
            let mentioned = self.constraint.parameters.iter();
            let values: Vec<&Value> =
                mentioned.map(|&parameter| &parameters[parameter].values[positions[parameter]]).collect();
            let answer = (self.constraint.holds)(&values);
            if let Some(answers) = &mut self.answers {
                answers.set(place, answer);
            }
            answer
        })
    }
}

/// The codes of all allowed combinations, in order.
pub(super) fn allowed(
    parameters: &[Parameter],
    strides: &[u64],
    constraints: &[Constraint],
    limit: usize,
) -> Result<Vec<u64>, SpaceError> {
    let mut rules = constraints
        .iter()
        .map(|constraint| Rule::new(constraint, parameters))
        .collect::<Result<Vec<_>, _>>()?;
    // Rules about nothing are settled at once; the others by the parameter that completes them, narrow ones first.
    for rule in rules.iter_mut().filter(|rule| rule.last_parameter().is_none()) {
        if !rule.holds(0, parameters, &[]) {
            return Ok(Vec::new());
        }
    }
    let depth = parameters.len();
    let mut due: Vec<Vec<usize>> = vec![Vec::new(); depth];
    for (number, rule) in rules.iter().enumerate() {
        if let Some(last) = rule.last_parameter() {
            due[last].push(number);
        }
    }
    for numbers in &mut due {
        numbers.sort_by_key(|&number| rules[number].constraint.parameters.len());
    }
    let settled = due.iter().rposition(|numbers| !numbers.is_empty()).map_or(0, |last| last + 1);
    let mut codes = Vec::new();
    if depth == 0 {
        return Ok(vec![0]);
    }

    // Depth-first with explicit state: the position tried at each depth, the code of the prefix before it, and for each
    // rule the place of its answer as far as the prefix determines it.
    let mut positions = vec![0_usize; depth];
    let mut prefix = vec![0_u64; depth];
    let mut places = vec![vec![0_u64; rules.len()]; depth];
    let mut level = 0;
    loop {
        if positions[level] == parameters[level].values.len() {
            if level == 0 {
                return Ok(codes);
            }
            level -= 1;
            positions[level] += 1;
            continue;
        }
        let position = positions[level] as u64;
        let holds = due[level].iter().all(|&number| {
            let place = places[level][number] + position * rules[number].strides[level];
            rules[number].holds(place, parameters, &positions)
        });
        if !holds {
            positions[level] += 1;
            continue;
        }
        let code = prefix[level] + position * strides[level];
        if level + 1 >= settled {
            // No rule is left: every completion is allowed, and their codes are those from here to the next position's.
            let completions = code..code + strides[level];
            if codes.len() as u64 + strides[level] > limit as u64 {
                return Err(SpaceError::TooManyPoints { limit });
            }
            codes.extend(completions);
            positions[level] += 1;
            continue;
        }
        let (before, after) = places.split_at_mut(level + 1);
        for ((next, &place), rule) in after[0].iter_mut().zip(&before[level]).zip(&rules) {
            *next = place + position * rule.strides[level];
        }
        level += 1;
        prefix[level] = code;
        positions[level] = 0;
    }
}
