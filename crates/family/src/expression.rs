//! Expressions of a manifest, in CEL, over knobs, axes and sizes.
//!
//! Beyond CEL's own operators there are `ceil_div(a, b)`, `min(a, b)` and `max(a, b)` on integers.

use cel::{Context, Program};

use crate::Value;

/// A parsed expression with its text.
pub(crate) struct Expression {
    text: String,
    program: Program,
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Expression({:?})", self.text)
    }
}

/// An expression that cannot be evaluated: its text, and what is wrong in CEL's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{expression}`: {reason}")]
pub struct EvalError {
    pub expression: String,
    pub reason: String,
}

impl Expression {
    pub fn parse(text: &str) -> Result<Self, String> {
        let program = Program::compile(text).map_err(|errors| {
            let first = errors.errors.into_iter().next();
            first.map_or_else(
                || "is not a CEL expression".to_owned(),
                |error| format!("column {}: {}", error.pos.1, error.msg),
            )
        })?;
        Ok(Expression { text: text.to_owned(), program })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names it refers to.
    pub fn variables(&self) -> Vec<String> {
        self.program.references().variables().into_iter().map(str::to_owned).collect()
    }

    pub fn boolean(&self, scope: &Scope) -> Result<bool, EvalError> {
        match self.value(scope)? {
            cel::Value::Bool(value) => Ok(value),
            other => Err(self.error(format!("is {:?}, not true or false", other.type_of()))),
        }
    }

    /// The value as a size: an integer that is not negative.
    pub fn size(&self, scope: &Scope) -> Result<u64, EvalError> {
        match self.value(scope)? {
            cel::Value::Int(value) => {
                u64::try_from(value).map_err(|_| self.error(format!("is negative ({value})")))
            }
            cel::Value::UInt(value) => Ok(value),
            other => Err(self.error(format!("is {:?}, not a whole number", other.type_of()))),
        }
    }

    fn value(&self, scope: &Scope) -> Result<cel::Value, EvalError> {
        self.program.execute(&scope.context).map_err(|error| self.error(error.to_string()))
    }

    fn error(&self, reason: String) -> EvalError {
        EvalError { expression: self.text.clone(), reason }
    }
}

/// The names an expression may use, with their values.
pub(crate) struct Scope {
    context: Context<'static, 'static>,
}

impl Scope {
    pub fn new<'a>(values: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Self {
        let mut context = Context::default();
        // These names are none of CEL's own, so adding them cannot collide.
        for outcome in [
            context.add_function("ceil_div", ceil_div),
            context.add_function("min", |a: i64, b: i64| a.min(b)),
            context.add_function("max", |a: i64, b: i64| a.max(b)),
        ] {
            debug_assert!(outcome.is_ok(), "{outcome:?}");
        }
        let mut scope = Scope { context };
        for (name, value) in values {
            scope.add(name, value);
        }
        scope
    }

    pub fn add(&mut self, name: &str, value: &Value) {
        let value = match value {
            Value::Bool(value) => cel::Value::Bool(*value),
            Value::Int(value) => cel::Value::Int(*value),
            Value::Text(value) => cel::Value::from(value.as_str()),
        };
        self.context.add_variable_from_value(name.to_owned(), value);
    }
}

fn ceil_div(a: i64, b: i64) -> Result<i64, cel::ExecutionError> {
    if b <= 0 || a < 0 {
        return Err(cel::ExecutionError::function_error("ceil_div", format!("cannot divide {a} by {b}")));
    }
    Ok(a / b + i64::from(a % b != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope::new([
            ("M", &Value::Int(33)),
            ("ON", &Value::Bool(true)),
            ("dtype", &Value::Text("fp16".into())),
        ])
    }

    #[test]
    fn sizes_and_conditions_are_evaluated() {
        let size = |text: &str| Expression::parse(text).unwrap().size(&scope());
        assert_eq!(size("ceil_div(M, 16) * 16"), Ok(48));
        assert_eq!(size("max(M, 64) - min(M, 8)"), Ok(56));
        assert_eq!(size("dtype == 'fp16' ? 2 : 1"), Ok(2));
        let condition = |text: &str| Expression::parse(text).unwrap().boolean(&scope());
        assert_eq!(condition("ON && M % 2 == 1"), Ok(true));
        assert_eq!(condition("M in [1, 2]"), Ok(false));
    }

    #[test]
    fn what_cannot_be_evaluated_says_why() {
        let size = |text: &str| Expression::parse(text).unwrap().size(&scope()).unwrap_err().to_string();
        assert!(size("ceil_div(M, 0)").contains("cannot divide 33 by 0"), "{}", size("ceil_div(M, 0)"));
        assert!(size("M / 0").contains("zero"), "{}", size("M / 0"));
        assert!(size("0 - M").contains("negative"));
        assert!(size("dtype").contains("not a whole number"));
        assert!(size("NOPE + 1").contains("NOPE"));
        assert!(Expression::parse("M +").is_err());
    }

    #[test]
    fn the_names_in_an_expression_are_known() {
        let mut names = Expression::parse("ceil_div(M, N) > 2 && ON").unwrap().variables();
        names.sort();
        assert_eq!(names, ["M", "N", "ON"]);
    }
}
