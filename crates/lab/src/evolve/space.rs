//! A family's settings as a search space.

use chips::Target;
use family::{Candidate, Family, Knob, Rule};
use indexmap::IndexMap;
use op::{Op, Refusal};
use search::Value;
use search::space::{Constraint, Parameter, Point, Space};

/// All settings of the family that are valid for every problem on the target. A knob that is excluded from the search
/// keeps its default.
pub fn search_space<O: Op + ?Sized>(
    op: &O,
    family: &Family,
    problems: &[O::Problem],
    target: Target,
) -> Result<Space, Refusal> {
    let parameter = |knob: &Knob| {
        let values = knob.values.iter().filter(|value| knob.search || **value == knob.default);
        Parameter::new(knob.name.clone(), values.map(to_search))
    };
    let parameters = family.knobs.iter().map(parameter).collect();
    let mut axes: Vec<IndexMap<String, family::Value>> = Vec::new();
    let mut size_rules: Vec<Rule<'_>> = Vec::new();
    for problem in problems {
        // An unsupported problem gives an error about the problem here.
        let candidate = any_candidate(op, family, problem)?;
        size_rules.extend(family.size_rules(&candidate.axes, &op.sizes(problem)));
        if !axes.contains(&candidate.axes) {
            axes.push(candidate.axes);
        }
    }
    let rules: Vec<Rule<'_>> =
        axes.iter().flat_map(|axes| family.rules(axes, target)).chain(size_rules).collect();
    let constraints: Vec<Constraint<'_>> = rules
        .iter()
        .map(|rule| {
            Constraint::new(rule.knobs.clone(), |values: &[&Value]| {
                let values: Vec<family::Value> = values.iter().map(|value| from_search(value)).collect();
                rule.holds(&values.iter().collect::<Vec<_>>())
            })
        })
        .collect();
    let space = Space::new(parameters, &constraints).map_err(Refusal::new)?;
    if space.is_empty() {
        let message = format!("no setting of {} is valid for these problems on {target}", family.name);
        return Err(Refusal::new(message));
    }
    Ok(space)
}

/// A candidate for the problem, from the first preset that supports it. The error is that of the defaults.
fn any_candidate<O: Op + ?Sized>(
    op: &O,
    family: &Family,
    problem: &O::Problem,
) -> Result<Candidate, Refusal> {
    let mut presets = std::iter::once(None).chain(family.presets.iter().map(|it| Some(it.name.as_str())));
    let defaults = op.candidate(family, presets.next().flatten(), &[], problem);
    presets.find_map(|preset| op.candidate(family, preset, &[], problem).ok()).map_or(defaults, Ok)
}

/// The knobs of a point, in the form that candidates use.
pub fn knobs(space: &Space, point: Point) -> IndexMap<String, String> {
    let names = space.parameters().iter().map(|parameter| parameter.name.clone());
    names.zip(space.values(point).map(ToString::to_string)).collect()
}

/// The point of a complete set of knobs; `None` if the space does not contain it.
pub fn point(space: &Space, knobs: &IndexMap<String, String>) -> Option<Point> {
    let positions: Option<Vec<usize>> = space
        .parameters()
        .iter()
        .map(|parameter| {
            let wanted = knobs.get(&parameter.name)?;
            parameter.values.iter().position(|value| value.to_string() == *wanted)
        })
        .collect();
    space.find(&positions?)
}

fn to_search(value: &family::Value) -> Value {
    match value {
        family::Value::Bool(value) => Value::Bool(*value),
        family::Value::Int(value) => Value::Int(*value),
        family::Value::Text(value) => Value::Text(value.clone()),
    }
}

fn from_search(value: &Value) -> family::Value {
    match value {
        Value::Bool(value) => family::Value::Bool(*value),
        Value::Int(value) => family::Value::Int(*value),
        Value::Real(value) => family::Value::Text(value.to_string()),
        Value::Text(value) => family::Value::Text(value.clone()),
    }
}
