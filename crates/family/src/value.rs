//! The value of a knob or of a problem's axis.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The value of a knob or an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A word, such as `fp16`.
    Text(String),
}

impl Value {
    /// The allowed value that `text` names. The text is parsed as the kind of the allowed values.
    pub fn among<'a>(text: &str, allowed: &'a [Value]) -> Option<&'a Value> {
        let wanted = match text {
            "on" | "yes" => "true",
            "off" | "no" => "false",
            other => other,
        };
        allowed.iter().find(|value| value.to_string().eq_ignore_ascii_case(text)).or_else(|| {
            allowed.iter().find(|value| matches!(value, Value::Bool(_)) && value.to_string() == wanted)
        })
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Bool(_) => "boolean",
            Value::Int(_) => "integer",
            Value::Text(_) => "text",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::Text(value) => f.write_str(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_parsed_as_the_kind_of_the_allowed_values() {
        let sizes = [Value::Int(16), Value::Int(32)];
        assert_eq!(Value::among("32", &sizes), Some(&Value::Int(32)));
        assert_eq!(Value::among("33", &sizes), None);
        let switch = [Value::Bool(false), Value::Bool(true)];
        assert_eq!(Value::among("on", &switch), Some(&Value::Bool(true)));
        assert_eq!(Value::among("TRUE", &switch), Some(&Value::Bool(true)));
        let words = [Value::Text("scalar".into()), Value::Text("wmma".into())];
        assert_eq!(Value::among("WMMA", &words), Some(&words[1]));
    }
}
