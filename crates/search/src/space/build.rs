//! Builds a space: constraints prune the search, so that forbidden combinations are never generated.
//!
//! Parameters are set one after the other. A constraint is evaluated as soon as its last parameter is set, so a
//! forbidden prefix costs one evaluation, not one per completion. Its results are cached per combination of its
//! parameters: a predicate over three knobs of eight values is evaluated at most 512 times, however many points there
//! are, and only for combinations that other constraints allow. This matters because predicates may be slow
//! (expressions of a manifest), while a cached result costs a nanosecond.

use super::{Parameter, SpaceError};
use crate::value::Value;

type Predicate<'a> = dyn Fn(&[&Value]) -> bool + 'a;

/// A condition on some of the parameters.
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
    /// `holds` gets the values of `parameters`, in that order. It must depend on them alone.
    pub fn new(parameters: impl Into<Vec<usize>>, holds: impl Fn(&[&Value]) -> bool + 'a) -> Self {
        Constraint { parameters: parameters.into(), holds: Box::new(holds) }
    }
}

/// Largest number of combinations of a constraint's parameters whose results are cached, with two bits each.
const MOST_CACHED: u64 = 1 << 27;

/// A constraint during construction.
struct Rule<'a> {
    constraint: &'a Constraint<'a>,
    /// For each of the space's parameters: what one step of its position adds to the index of the result; 0 if the
    /// rule does not use the parameter.
    strides: Vec<u64>,
    results: Option<CachedResults>,
}

/// Two bits per combination: whether the result is known, and the result.
struct CachedResults(Vec<u64>);

impl CachedResults {
    fn new(combinations: u64) -> Option<Self> {
        (combinations <= MOST_CACHED).then(|| CachedResults(vec![0; combinations.div_ceil(32) as usize]))
    }

    fn get(&self, place: u64) -> Option<bool> {
        let bits = self.0[(place / 32) as usize] >> (place % 32 * 2);
        (bits & 1 == 1).then_some(bits & 2 == 2)
    }

    fn set(&mut self, place: u64, result: bool) {
        self.0[(place / 32) as usize] |= (1 | u64::from(result) << 1) << (place % 32 * 2);
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
            // A parameter that is listed twice already has its stride.
            if strides[parameter] == 0 {
                strides[parameter] = span.unwrap_or(0);
                span = span.and_then(|span| span.checked_mul(values as u64));
            }
        }
        Ok(Rule { constraint, strides, results: span.and_then(CachedResults::new) })
    }

    fn last_parameter(&self) -> Option<usize> {
        self.constraint.parameters.iter().copied().max()
    }

    fn holds(&mut self, place: u64, parameters: &[Parameter], positions: &[usize]) -> bool {
        let known = self.results.as_ref().and_then(|results| results.get(place));
        known.unwrap_or_else(|| {
            let mentioned = self.constraint.parameters.iter();
            let values: Vec<&Value> =
                mentioned.map(|&parameter| &parameters[parameter].values[positions[parameter]]).collect();
            let result = (self.constraint.holds)(&values);
            if let Some(results) = &mut self.results {
                results.set(place, result);
            }
            result
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
    // Rules without parameters are evaluated at once. The others are evaluated at the parameter that completes them,
    // those with few parameters first.
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

    // Depth-first search with explicit state: the position tried at each depth, the code of the prefix before it, and
    // for each rule the index of its result as far as the prefix determines it.
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
            // No rule is left, so every completion is allowed. Their codes are those from here to the next position.
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
