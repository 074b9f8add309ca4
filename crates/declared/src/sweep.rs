//! Sweeps of sizes: `m=128..4096`, `m=128..1024+128,n=64`. A range doubles from its start to its end, or adds a step.

use family::Value;
use op::Refusal;

use crate::declaration::Declaration;
use crate::problem::DeclaredProblem;

/// The most problems of one sweep.
const MOST: usize = 256;

/// Whether a text names sizes by assignment.
pub(crate) fn is_sweep(text: &str) -> bool {
    text.contains('=')
}

/// The problems of a sweep, in the order of the ranges. Sizes and axes that the text does not name have the values of
/// `base`.
pub(crate) fn problems(
    declaration: &Declaration,
    base: Option<&DeclaredProblem>,
    text: &str,
) -> Result<Vec<DeclaredProblem>, Refusal> {
    let mut found: Vec<toml::Table> = vec![base.map(fields).unwrap_or_default()];
    for part in text.split(',') {
        let (name, values) = part.split_once('=').ok_or_else(|| refusal(text, part))?;
        let values = values_of(text, values.trim())?;
        let name = name.trim();
        if found.len().saturating_mul(values.len()) > MOST {
            return Err(Refusal::new(format!("`{text}` gives more than {MOST} problems")));
        }
        let with = |table: &toml::Table, value: &toml::Value| {
            let mut table = table.clone();
            table.insert(name.to_owned(), value.clone());
            table
        };
        found = found.iter().flat_map(|table| values.iter().map(move |value| with(table, value))).collect();
    }
    found.iter().map(|fields| declaration.problem_from_fields(fields)).collect()
}

fn fields(problem: &DeclaredProblem) -> toml::Table {
    let value = |value: &Value| match value {
        Value::Bool(truth) => toml::Value::Boolean(*truth),
        Value::Int(number) => toml::Value::Integer(*number),
        Value::Text(text) => toml::Value::String(text.clone()),
    };
    let sizes = problem.sizes.iter().map(|(name, number)| (name.clone(), toml::Value::Integer(*number)));
    sizes.chain(problem.axes.iter().map(|(name, it)| (name.clone(), value(it)))).collect()
}

fn refusal(text: &str, part: &str) -> Refusal {
    Refusal::new(format!("`{text}`: cannot read `{part}`"))
        .hint(Some("a sweep is written like `m=128..4096` (doubling) or `m=128..1024+128,n=64`".to_owned()))
}

fn values_of(text: &str, values: &str) -> Result<Vec<toml::Value>, Refusal> {
    let Some((low, rest)) = values.split_once("..") else {
        return Ok(vec![match (values.parse::<i64>(), values.parse::<bool>()) {
            (Ok(number), _) => toml::Value::Integer(number),
            (_, Ok(truth)) => toml::Value::Boolean(truth),
            _ if values.is_empty() => return Err(refusal(text, values)),
            _ => toml::Value::String(values.to_owned()),
        }]);
    };
    let number = |digits: &str| digits.trim().parse::<i64>().ok().filter(|number| *number > 0);
    let (high, step) = match rest.split_once('+') {
        Some((high, step)) => (high, Some(number(step).ok_or_else(|| refusal(text, values))?)),
        None => (rest, None),
    };
    let (Some(low), Some(high)) = (number(low), number(high)) else { return Err(refusal(text, values)) };
    if low > high {
        return Err(refusal(text, values));
    }
    let next = |value: i64| step.map_or(value.checked_mul(2), |step| value.checked_add(step));
    let mut range: Vec<i64> = Vec::new();
    let mut value = Some(low);
    while let Some(now) = value.filter(|now| *now <= high) {
        if range.len() > MOST {
            return Err(Refusal::new(format!("`{text}` gives more than {MOST} problems")));
        }
        range.push(now);
        value = next(now);
    }
    // The user named the end, so it is always a size of the sweep.
    if range.last() != Some(&high) {
        range.push(high);
    }
    Ok(range.into_iter().map(toml::Value::Integer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(values: &str) -> Result<Vec<i64>, String> {
        let found = values_of(values, values).map_err(|refusal| refusal.message)?;
        Ok(found.iter().filter_map(toml::Value::as_integer).collect())
    }

    #[test]
    fn a_range_doubles_or_adds_and_ends_at_its_end() {
        assert_eq!(numbers("128..1024").unwrap(), [128, 256, 512, 1024]);
        assert_eq!(numbers("100..500").unwrap(), [100, 200, 400, 500]);
        assert_eq!(numbers("64..256+64").unwrap(), [64, 128, 192, 256]);
        assert_eq!(numbers("7..7").unwrap(), [7]);
        assert_eq!(numbers("9").unwrap(), [9]);
    }

    #[test]
    fn ranges_that_are_wrong_or_endless_are_refused() {
        for wrong in ["", "8..4", "0..8", "-4..8", "1..2+0", "1..", "..8", "a..b", "1..9223372036854775807+1"]
        {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
        assert_eq!(numbers("1..9223372036854775807").unwrap().len(), 64);
    }
}
