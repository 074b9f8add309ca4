//! Expressions of a manifest over knobs, axes and sizes.
//!
//! An expression has whole numbers, texts, `true` and `false`; the operators of C with their precedence
//! (`?:  ||  &&  == != < <= > >= in  + -  * / %  ! -`); and `ceil_div(a, b)`, `min(a, b)`, `max(a, b)`. `x in [a, b]` tests
//! membership. A manifest is untrusted, so length and nesting are bounded, and an evaluation visits every part of the
//! text at most once.

use crate::Value;

/// Largest size of an expression, in bytes.
const MOST_BYTES: usize = 2000;
/// Largest nesting of brackets, signs and conditions: the parser is recursive.
const MOST_NESTED: usize = 64;
/// Largest number of binary operators: a sum is evaluated as deep as it has terms.
const MOST_OPERATORS: usize = 128;

/// A parsed expression with its text.
#[derive(Debug)]
pub struct Expression {
    text: String,
    root: Node,
}

/// An expression that cannot be evaluated: its text and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{expression}`: {reason}")]
pub struct EvalError {
    /// The expression's text.
    pub expression: String,
    /// Why it cannot be evaluated.
    pub reason: String,
}

#[derive(Debug)]
enum Node {
    Literal(Value),
    Variable(String),
    Not(Box<Node>),
    Negative(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    OneOf(Box<Node>, Vec<Node>),
    Conditional(Box<Node>, Box<Node>, Box<Node>),
    Call(Function, Box<Node>, Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operator {
    /// All operators; of two with a common start the longer one comes first.
    const ALL: [(&str, Operator); 13] = [
        ("||", Operator::Or),
        ("&&", Operator::And),
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
        ("+", Operator::Add),
        ("-", Operator::Subtract),
        ("*", Operator::Multiply),
        ("/", Operator::Divide),
        ("%", Operator::Remainder),
    ];

    /// A larger number binds more tightly.
    fn precedence(self) -> u8 {
        match self {
            Operator::Or => 0,
            Operator::And => 1,
            Operator::Equal
            | Operator::NotEqual
            | Operator::Less
            | Operator::LessOrEqual
            | Operator::Greater
            | Operator::GreaterOrEqual => COMPARISON,
            Operator::Add | Operator::Subtract => 3,
            Operator::Multiply | Operator::Divide | Operator::Remainder => 4,
        }
    }
}

/// The precedence of comparisons and of `in`.
const COMPARISON: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    CeilDiv,
    Min,
    Max,
}

impl Expression {
    /// Parses a text. The error says what is wrong and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MOST_BYTES {
            return Err(format!("has {} bytes, but at most {MOST_BYTES} are allowed", text.len()));
        }
        let mut parser = Parser { text, position: 0, depth: 0, operators: 0 };
        let root = parser.conditional()?;
        parser.skip_space();
        match parser.rest().chars().next() {
            None => Ok(Expression { text: text.to_owned(), root }),
            Some(c) => Err(parser.error(&format!("unexpected `{c}`"))),
        }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names that the expression uses.
    pub fn variables(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.root.variables(&mut names);
        names
    }

    /// The value as true or false.
    pub fn boolean(&self, scope: &Scope) -> Result<bool, EvalError> {
        match self.value(scope)? {
            Value::Bool(value) => Ok(value),
            other => Err(self.error(format!("is {}, not true or false", described(&other)))),
        }
    }

    /// The value as a size: a non-negative integer.
    pub fn size(&self, scope: &Scope) -> Result<u64, EvalError> {
        let value = self.integer(scope)?;
        u64::try_from(value).map_err(|_| self.error(format!("is negative ({value})")))
    }

    /// The value as a whole number.
    pub fn integer(&self, scope: &Scope) -> Result<i64, EvalError> {
        match self.value(scope)? {
            Value::Int(value) => Ok(value),
            other => Err(self.error(format!("is {}, not a whole number", described(&other)))),
        }
    }

    fn value(&self, scope: &Scope) -> Result<Value, EvalError> {
        self.root.value(scope).map_err(|reason| self.error(reason))
    }

    fn error(&self, reason: String) -> EvalError {
        EvalError { expression: self.text.clone(), reason }
    }
}

fn described(value: &Value) -> String {
    match value {
        Value::Bool(value) => format!("{value}"),
        Value::Int(value) => format!("the number {value}"),
        Value::Text(value) => format!("the text \"{value}\""),
    }
}

impl Node {
    fn variables(&self, names: &mut Vec<String>) {
        match self {
            Node::Literal(_) => {}
            Node::Variable(name) if names.contains(name) => {}
            Node::Variable(name) => names.push(name.clone()),
            Node::Not(inner) | Node::Negative(inner) => inner.variables(names),
            Node::Binary(_, left, right) | Node::Call(_, left, right) => {
                left.variables(names);
                right.variables(names);
            }
            Node::OneOf(value, list) => {
                value.variables(names);
                for element in list {
                    element.variables(names);
                }
            }
            Node::Conditional(condition, yes, no) => {
                for part in [condition, yes, no] {
                    part.variables(names);
                }
            }
        }
    }

    fn value(&self, scope: &Scope) -> Result<Value, String> {
        Ok(match self {
            Node::Literal(value) => value.clone(),
            Node::Variable(name) => {
                scope.get(name).cloned().ok_or_else(|| format!("`{name}` has no value here"))?
            }
            Node::Not(inner) => Value::Bool(!inner.boolean(scope)?),
            Node::Negative(inner) => Value::Int(inner.integer(scope)?.checked_neg().ok_or_else(overflow)?),
            Node::Binary(Operator::Or, left, right) => {
                Value::Bool(left.boolean(scope)? || right.boolean(scope)?)
            }
            Node::Binary(Operator::And, left, right) => {
                Value::Bool(left.boolean(scope)? && right.boolean(scope)?)
            }
            Node::Binary(operator @ (Operator::Equal | Operator::NotEqual), left, right) => {
                let equal = same(&left.value(scope)?, &right.value(scope)?)?;
                Value::Bool(equal == (*operator == Operator::Equal))
            }
            Node::Binary(operator, left, right) => {
                arithmetic(*operator, left.integer(scope)?, right.integer(scope)?)?
            }
            Node::OneOf(value, list) => {
                let value = value.value(scope)?;
                let mut found = false;
                for element in list {
                    found |= same(&value, &element.value(scope)?)?;
                }
                Value::Bool(found)
            }
            Node::Conditional(condition, yes, no) => {
                if condition.boolean(scope)? {
                    yes.value(scope)?
                } else {
                    no.value(scope)?
                }
            }
            Node::Call(function, a, b) => {
                let (a, b) = (a.integer(scope)?, b.integer(scope)?);
                Value::Int(match function {
                    Function::Min => a.min(b),
                    Function::Max => a.max(b),
                    Function::CeilDiv if b <= 0 || a < 0 => return Err(format!("cannot divide {a} by {b}")),
                    Function::CeilDiv => a / b + i64::from(a % b != 0),
                })
            }
        })
    }

    fn boolean(&self, scope: &Scope) -> Result<bool, String> {
        match self.value(scope)? {
            Value::Bool(value) => Ok(value),
            other => Err(format!("{} stands where true or false is needed", described(&other))),
        }
    }

    fn integer(&self, scope: &Scope) -> Result<i64, String> {
        match self.value(scope)? {
            Value::Int(value) => Ok(value),
            other => Err(format!("{} stands where a number is needed", described(&other))),
        }
    }
}

fn overflow() -> String {
    "the result does not fit 64 bits".to_owned()
}

/// Whether two values of the same type are equal.
fn same(left: &Value, right: &Value) -> Result<bool, String> {
    if std::mem::discriminant(left) == std::mem::discriminant(right) {
        Ok(left == right)
    } else {
        Err(format!("cannot compare {} with {}", described(left), described(right)))
    }
}

fn arithmetic(operator: Operator, a: i64, b: i64) -> Result<Value, String> {
    let number = match operator {
        Operator::Less => return Ok(Value::Bool(a < b)),
        Operator::LessOrEqual => return Ok(Value::Bool(a <= b)),
        Operator::Greater => return Ok(Value::Bool(a > b)),
        Operator::GreaterOrEqual => return Ok(Value::Bool(a >= b)),
        Operator::Divide | Operator::Remainder if b == 0 => return Err("division by zero".to_owned()),
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide => a.checked_div(b),
        Operator::Remainder => a.checked_rem(b),
        // The others are not arithmetic; `Node::value` handles them.
        Operator::Or | Operator::And | Operator::Equal | Operator::NotEqual => None,
    };
    number.map(Value::Int).ok_or_else(overflow)
}

/// A recursive-descent parser with operator precedence.
struct Parser<'t> {
    text: &'t str,
    position: usize,
    depth: usize,
    operators: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.position..]
    }

    fn skip_space(&mut self) {
        self.position = self.text.len() - self.rest().trim_start().len();
    }

    fn error(&self, words: &str) -> String {
        format!("column {}: {words}", self.text[..self.position].chars().count() + 1)
    }

    /// Takes a symbol if it comes next.
    fn takes(&mut self, symbol: &str) -> bool {
        self.skip_space();
        let there = self.rest().starts_with(symbol);
        if there {
            self.position += symbol.len();
        }
        there
    }

    fn expect(&mut self, symbol: &str) -> Result<(), String> {
        if self.takes(symbol) { Ok(()) } else { Err(self.error(&format!("expected `{symbol}`"))) }
    }

    /// A word of letters, digits and underscores, if one comes next.
    fn word(&mut self) -> Option<&'t str> {
        self.skip_space();
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        self.position += end;
        (end > 0).then(|| &rest[..end])
    }

    fn deeper(&mut self, parse: impl FnOnce(&mut Self) -> Result<Node, String>) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > MOST_NESTED {
            return Err(self.error(&format!("nested more than {MOST_NESTED} deep")));
        }
        let node = parse(self);
        self.depth -= 1;
        node
    }

    fn conditional(&mut self) -> Result<Node, String> {
        let condition = self.binary(0)?;
        if !self.takes("?") {
            return Ok(condition);
        }
        let yes = self.deeper(Self::conditional)?;
        self.expect(":")?;
        let no = self.deeper(Self::conditional)?;
        Ok(Node::Conditional(condition.into(), yes.into(), no.into()))
    }

    /// Operands joined by operators that bind at least as tightly as `lowest`.
    fn binary(&mut self, lowest: u8) -> Result<Node, String> {
        let mut left = self.unary()?;
        loop {
            if lowest <= COMPARISON && self.takes_in() {
                left = Node::OneOf(left.into(), self.list()?);
                continue;
            }
            self.skip_space();
            let rest = self.rest();
            let next = Operator::ALL.into_iter().find(|(symbol, _)| rest.starts_with(symbol));
            let Some((symbol, operator)) = next.filter(|(_, it)| it.precedence() >= lowest) else {
                return Ok(left);
            };
            self.operators += 1;
            if self.operators > MOST_OPERATORS {
                return Err(format!("has more than {MOST_OPERATORS} operators"));
            }
            self.position += symbol.len();
            let right = self.binary(operator.precedence() + 1)?;
            left = Node::Binary(operator, left.into(), right.into());
        }
    }

    fn takes_in(&mut self) -> bool {
        let start = self.position;
        let there = self.word() == Some("in");
        if !there {
            self.position = start;
        }
        there
    }

    fn list(&mut self) -> Result<Vec<Node>, String> {
        self.expect("[")?;
        let mut elements = Vec::new();
        while !self.takes("]") {
            if !elements.is_empty() {
                self.expect(",")?;
            }
            elements.push(self.deeper(Self::conditional)?);
        }
        Ok(elements)
    }

    fn unary(&mut self) -> Result<Node, String> {
        if self.takes("!") {
            return Ok(Node::Not(self.deeper(Self::unary)?.into()));
        }
        if self.takes("-") {
            return Ok(Node::Negative(self.deeper(Self::unary)?.into()));
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Node, String> {
        if self.takes("(") {
            let inner = self.deeper(Self::conditional)?;
            self.expect(")")?;
            return Ok(inner);
        }
        for quote in ["'", "\""] {
            if self.takes(quote) {
                let rest = self.rest();
                let end = rest.find(quote).ok_or_else(|| self.error(&format!("expected {quote}")))?;
                self.position += end + quote.len();
                return Ok(Node::Literal(Value::Text(rest[..end].to_owned())));
            }
        }
        let Some(word) = self.word() else { return Err(self.error("expected a value")) };
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            let number = word.parse().map_err(|_| self.error(&format!("`{word}` is not a whole number")))?;
            return Ok(Node::Literal(Value::Int(number)));
        }
        if self.takes("(") {
            let function = match word {
                "ceil_div" => Function::CeilDiv,
                "min" => Function::Min,
                "max" => Function::Max,
                _ => {
                    return Err(
                        self.error(&format!("there is no function `{word}`; use ceil_div, min or max"))
                    );
                }
            };
            let first = self.deeper(Self::conditional)?;
            self.expect(",")?;
            let second = self.deeper(Self::conditional)?;
            self.expect(")")?;
            return Ok(Node::Call(function, first.into(), second.into()));
        }
        Ok(match word {
            "true" | "false" => Node::Literal(Value::Bool(word == "true")),
            _ => Node::Variable(word.to_owned()),
        })
    }
}

/// The names that an expression may use, with their values.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    values: Vec<(String, Value)>,
}

impl Scope {
    /// A scope with these values.
    pub fn new<'a>(values: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Self {
        let values = values.into_iter().map(|(name, value)| (name.to_owned(), value.clone()));
        Scope { values: values.collect() }
    }

    /// Adds a name.
    pub fn add(&mut self, name: &str, value: &Value) {
        self.values.push((name.to_owned(), value.clone()));
    }

    /// The value of a name; of several values the one that was added last.
    fn get(&self, name: &str) -> Option<&Value> {
        self.values.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
    }
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
    fn an_evaluation_error_has_a_reason() {
        let size = |text: &str| Expression::parse(text).unwrap().size(&scope()).unwrap_err().to_string();
        assert!(size("ceil_div(M, 0)").contains("cannot divide 33 by 0"), "{}", size("ceil_div(M, 0)"));
        assert!(size("M / 0").contains("zero"), "{}", size("M / 0"));
        assert!(size("0 - M").contains("negative"));
        assert!(size("dtype").contains("not a whole number"));
        assert!(size("NOPE + 1").contains("NOPE"));
        assert!(Expression::parse("M +").is_err());
    }

    #[test]
    fn an_expression_that_could_be_costly_is_refused() {
        for (text, words) in [
            (format!("{}1{}", "(".repeat(900), ")".repeat(900)), "nested"),
            ("!".repeat(1500) + "ON", "nested"),
            ("- ".repeat(900) + "M", "nested"),
            ("ON ? 1 : ".repeat(200) + "2", "nested"),
            ("M + ".repeat(10_000) + "M", "bytes"),
            (vec!["M"; 950].join("+"), "operators"),
            ("[1, 2].all(x, x > 0)".to_owned(), "expected a value"),
            ("size(M)".to_owned(), "no function `size`"),
        ] {
            let reason = Expression::parse(&text).map(drop).unwrap_err();
            assert!(reason.contains(words), "{reason}: {text}");
        }
        let brackets = format!("{}M{}", "(".repeat(60), ")".repeat(60));
        assert_eq!(Expression::parse(&brackets).unwrap().size(&scope()), Ok(33));
        let sum = vec!["M"; 129].join("+");
        assert_eq!(Expression::parse(&sum).unwrap().size(&scope()), Ok(33 * 129));
    }

    #[test]
    fn operators_bind_as_in_c() {
        let size = |text: &str| Expression::parse(text).unwrap().size(&scope()).unwrap();
        assert_eq!(size("1 + 2 * 3 - 4 / 2"), 5);
        assert_eq!(size("20 - 8 - 4"), 8);
        assert_eq!(size("7 % 4 * 2"), 6);
        assert_eq!(size("-(2 - 5)"), 3);
        assert_eq!(size("true ? 1 : false ? 2 : 3"), 1);
        assert_eq!(size("false ? 1 : false ? 2 : 3"), 3);
        let condition = |text: &str| Expression::parse(text).unwrap().boolean(&scope()).unwrap();
        assert!(condition("false && false || true"));
        assert!(condition("true || M / 0 == 1"), "the right side is not evaluated");
        assert!(condition("1 + 1 == 2 && 3 > 2 == true"), "comparisons group from the left");
        assert!(condition("!ON == false"));
        assert!(condition("dtype != \"bf16\" && M + 1 in [2 * 17, 5] && !(dtype in [])"));
    }

    #[test]
    fn mistakes_are_reported_with_their_column() {
        let mistake = |text: &str| Expression::parse(text).map(drop).unwrap_err();
        assert_eq!(mistake("M + "), "column 5: expected a value");
        assert_eq!(mistake("M M"), "column 3: unexpected `M`");
        assert_eq!(mistake("(M"), "column 3: expected `)`");
        assert_eq!(mistake("min(M)"), "column 6: expected `,`");
        assert_eq!(mistake("12ab"), "column 5: `12ab` is not a whole number");
        assert_eq!(
            mistake("99999999999999999999"),
            "column 21: `99999999999999999999` is not a whole number"
        );
        assert_eq!(mistake("'fp16"), "column 2: expected '");
        assert_eq!(mistake("M @ 2"), "column 3: unexpected `@`");
        let value = |text: &str| Expression::parse(text).unwrap().size(&scope()).unwrap_err().reason;
        assert_eq!(value("M == dtype ? 1 : 2"), "cannot compare the number 33 with the text \"fp16\"");
        assert_eq!(value("ON + 1"), "true stands where a number is needed");
        assert_eq!(value("9223372036854775807 + M"), "the result does not fit 64 bits");
    }

    #[test]
    fn the_variables_of_an_expression_are_listed() {
        let mut names = Expression::parse("ceil_div(M, N) > 2 && ON").unwrap().variables();
        names.sort();
        assert_eq!(names, ["M", "N", "ON"]);
    }
}
