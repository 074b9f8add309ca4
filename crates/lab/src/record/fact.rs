//! Facts that may be unavailable.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value, or the reason why it is unavailable. It is written as the value, or as `unavailable` with the reason; a
/// missing value is never written as nothing or as zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<T> {
    /// The value.
    Known(T),
    /// There is no value.
    Unavailable {
        /// The reason; empty if it is not known.
        reason: String,
    },
}

const UNAVAILABLE: &str = "unavailable";

impl<T> Fact<T> {
    /// An unavailable fact with a reason.
    pub fn unavailable(reason: impl fmt::Display) -> Self {
        Fact::Unavailable { reason: reason.to_string() }
    }

    /// The value, if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Fact::Known(value) => Some(value),
            Fact::Unavailable { .. } => None,
        }
    }
}

impl<T> Default for Fact<T> {
    fn default() -> Self {
        Fact::Unavailable { reason: String::new() }
    }
}

impl<T> From<T> for Fact<T> {
    fn from(value: T) -> Self {
        Fact::Known(value)
    }
}

impl<T, E: fmt::Display> From<Result<T, E>> for Fact<T> {
    fn from(result: Result<T, E>) -> Self {
        result.map_or_else(Fact::unavailable, Fact::Known)
    }
}

impl<T> From<Option<T>> for Fact<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or_else(Fact::default, Fact::Known)
    }
}

impl<T: fmt::Display> fmt::Display for Fact<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::Known(value) => value.fmt(f),
            Fact::Unavailable { reason } if reason.is_empty() => f.pad(UNAVAILABLE),
            Fact::Unavailable { reason } => f.pad(&format!("{UNAVAILABLE}: {reason}")),
        }
    }
}

impl<T: Serialize> Serialize for Fact<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Fact::Known(value) => value.serialize(serializer),
            Fact::Unavailable { reason } if reason.is_empty() => serializer.serialize_str(UNAVAILABLE),
            Fact::Unavailable { reason } => serializer.collect_str(&format_args!("{UNAVAILABLE}: {reason}")),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Fact<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written<T> {
            Unavailable(Unavailable),
            Known(T),
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Known(value) => Fact::Known(value),
            Written::Unavailable(Unavailable(reason)) => Fact::Unavailable { reason },
        })
    }
}

impl<T: JsonSchema> JsonSchema for Fact<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Fact of {}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let forms = [generator.subschema_for::<T>(), generator.subschema_for::<Unavailable>()];
        json_schema!({ "anyOf": forms })
    }
}

/// The value is not available: `unavailable`, or `unavailable: ` and the reason.
#[derive(JsonSchema)]
struct Unavailable(#[schemars(regex(pattern = "^unavailable"))] String);

impl<'de> Deserialize<'de> for Unavailable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let rest = text.strip_prefix(UNAVAILABLE);
        let reason = rest.and_then(|rest| if rest.is_empty() { Some("") } else { rest.strip_prefix(": ") });
        reason.map(|reason| Unavailable(reason.to_owned())).ok_or_else(|| serde::de::Error::custom("known"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unavailable_fact_round_trips_with_its_reason() {
        let facts: [Fact<u32>; 3] = [Fact::Known(0), Fact::default(), Fact::unavailable("no torch")];
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(text, r#"[0,"unavailable","unavailable: no torch"]"#);
        assert_eq!(serde_json::from_str::<[Fact<u32>; 3]>(&text).unwrap(), facts);
        let name: Fact<String> = serde_json::from_str(r#""unavailability""#).unwrap();
        assert_eq!(name, Fact::Known("unavailability".to_owned()));
    }
}
