//! Expressions of a manifest, in CEL, over knobs, axes and sizes.
//!
//! Beyond CEL's own operators there are `ceil_div(a, b)`, `min(a, b)` and `max(a, b)` on integers. A manifest may be
//! anybody's, so the cost of an expression is bounded: its length and its nesting are, and CEL's macros over lists
//! (`map`, `all`, `exists`, ...) are refused. Without them an evaluation visits every part of the text once at most.

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr};
use cel::{Context, Program};

use crate::Value;

/// Bytes of an expression.
const MOST_BYTES: usize = 2000;
/// How deep brackets may be nested: the parser calls itself.
const MOST_NESTED: usize = 12;
/// Characters of operators.
const MOST_OPERATORS: usize = 96;
/// Operations inside each other: a long sum is evaluated as deep as it has terms.
const MOST_DEEP: usize = 24;
/// Stack for the parser, which takes up to 0.2 MiB for a bracket and 0.05 MiB for a term of a sum where it is not
/// optimised.
const PARSER_STACK: usize = 32 << 20;
/// Expressions with no more operators and brackets than this are parsed on the caller's stack.
const SIMPLE: usize = 12;

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
        if text.len() > MOST_BYTES {
            return Err(format!("has {} bytes; {MOST_BYTES} are allowed", text.len()));
        }
        let nested = nesting(text);
        if nested > MOST_NESTED {
            return Err(format!("is nested more than {MOST_NESTED} deep"));
        }
        let operators = text.matches(|c: char| "+-*/%<>=!&|?:.".contains(c)).count();
        if operators > MOST_OPERATORS {
            return Err(format!("has more than {MOST_OPERATORS} characters of operators"));
        }
        let program = if operators + 4 * nested <= SIMPLE { compile(text) } else { compile_apart(text) }?;
        refuse_costly(program.expression(), 0)?;
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

fn compile(text: &str) -> Result<Program, String> {
    Program::compile(text).map_err(|errors| {
        let first = errors.errors.into_iter().next();
        first.map_or_else(
            || "is not a CEL expression".to_owned(),
            |error| format!("column {}: {}", error.pos.1, error.msg),
        )
    })
}

/// [`compile`], on a thread whose stack is large enough for everything that is allowed.
fn compile_apart(text: &str) -> Result<Program, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(PARSER_STACK);
        let parsed = thread.spawn_scoped(scope, || compile(text)).map_err(|error| error.to_string())?;
        parsed.join().map_err(|_| "makes the parser fail".to_owned())?
    })
}

/// How deep brackets are nested. Those within strings count too, which does no harm.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Refuses the loops that macros stand for, and an expression so deep that evaluating it could overflow the stack.
fn refuse_costly(expression: &IdedExpr, depth: usize) -> Result<(), String> {
    if depth > MOST_DEEP {
        return Err(format!("has more than {MOST_DEEP} operations inside each other"));
    }
    let inside = |part: &IdedExpr| refuse_costly(part, depth + 1);
    let entries = |entries: &[IdedEntryExpr]| {
        entries.iter().try_for_each(|entry| match &entry.expr {
            EntryExpr::StructField(field) => inside(&field.value),
            EntryExpr::MapEntry(entry) => inside(&entry.key).and_then(|()| inside(&entry.value)),
        })
    };
    match &expression.expr {
        Expr::Comprehension(_) => {
            Err("has a macro over a list (`map`, `filter`, `all`, `exists`, ...), which is not allowed"
                .to_owned())
        }
        Expr::Call(call) => call.target.iter().map(AsRef::as_ref).chain(&call.args).try_for_each(inside),
        Expr::List(list) => list.elements.iter().try_for_each(inside),
        Expr::Select(select) => inside(&select.operand),
        Expr::Map(map) => entries(&map.entries),
        Expr::Struct(structure) => entries(&structure.entries),
        _ => Ok(()),
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
    fn an_expression_that_could_take_long_is_refused() {
        let list = "[1,2,3,4,5,6,7,8,9]";
        let nested = (0..5).fold("true".to_owned(), |inner, n| format!("{list}.all(x{n}, {inner})"));
        for (text, words) in [
            (nested, "macro over a list"),
            (format!("{list}.map(x, x * 2)"), "macro over a list"),
            (format!("{list}.exists(x, x == M)"), "macro over a list"),
            (format!("size({list}.filter(x, x > 2)) > 1"), "macro over a list"),
            (format!("{}1{}", "(".repeat(900), ")".repeat(900)), "nested"),
            ("!".repeat(1500) + "ON", "characters of operators"),
            ("- ".repeat(900) + "M", "characters of operators"),
            ("ON ? 1 : ".repeat(200) + "2", "characters of operators"),
            (vec!["M"; 950].join("+"), "characters of operators"),
            (vec!["M"; 97].join("+"), "inside each other"),
            ("M + ".repeat(10_000) + "M", "bytes"),
        ] {
            let reason = Expression::parse(&text).map(drop).unwrap_err();
            assert!(reason.contains(words), "{reason}: {text}");
        }
        let brackets = format!("{}M{}", "(".repeat(12), ")".repeat(12));
        assert_eq!(Expression::parse(&brackets).unwrap().size(&scope()), Ok(33));
        let sum = vec!["M"; 24].join(" + ");
        assert_eq!(Expression::parse(&sum).unwrap().size(&scope()), Ok(33 * 24));
    }

    #[test]
    fn the_names_in_an_expression_are_known() {
        let mut names = Expression::parse("ceil_div(M, N) > 2 && ON").unwrap().variables();
        names.sort();
        assert_eq!(names, ["M", "N", "ON"]);
    }
}
