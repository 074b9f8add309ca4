//! Points in time.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time with millisecond resolution: `2026-11-15T05:47:10.123Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(inline)]
pub struct Utc(#[schemars(with = "String", extend("format" = "date-time"))] Timestamp);

impl Utc {
    /// The current time.
    pub fn now() -> Self {
        Utc::from_unix_millis(Timestamp::now().as_millisecond())
    }

    /// The time that is `millis` milliseconds after 1970-01-01, or the nearest time with a year of four digits.
    pub fn from_unix_millis(millis: i64) -> Self {
        let nearest = if millis < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Utc(Timestamp::from_millisecond(millis).unwrap_or(nearest))
    }

    /// Milliseconds since 1970-01-01.
    pub fn millis_since_epoch(&self) -> i64 {
        self.0.as_millisecond()
    }

    /// The form for folder names: `20261115T054710Z`.
    pub fn compact(&self) -> String {
        let text = self.to_string();
        text[..19].replace(['-', ':'], "") + "Z"
    }

    /// Date, hour and minute: `2026-11-15 05:47`.
    pub fn short(&self) -> String {
        self.to_string()[..16].replace('T', " ")
    }

    /// Reads the form that is written. Other forms of the same time are refused.
    fn parse(text: &str) -> Option<Self> {
        let time = Utc(text.parse().ok()?);
        (time.to_string() == text).then_some(time)
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl Serialize for Utc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Utc {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Utc::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not a UTC time")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values come from GNU date: `date -u -d @SECONDS +%FT%T`.
    #[test]
    fn times_match_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (1_794_721_630, "2026-11-15T05:47:10.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            let time = Utc::from_unix_millis(seconds * 1000);
            assert_eq!(time.to_string(), text);
            assert_eq!(Utc::parse(text), Some(time));
        }
    }

    #[test]
    fn every_day_of_four_centuries_round_trips() {
        for day in -1000..147_000 {
            let time = Utc::from_unix_millis(day * 86_400_000 + 12_345_678);
            assert_eq!(Utc::parse(&time.to_string()), Some(time));
        }
    }

    #[test]
    fn compact_and_short_forms_are_right() {
        let time = Utc::from_unix_millis(1_794_721_630_123);
        assert_eq!(time.compact(), "20261115T054710Z");
        assert_eq!(time.short(), "2026-11-15 05:47");
    }

    #[test]
    fn invalid_times_are_refused() {
        for text in [
            "",
            "2026-11-15",
            "2026-13-01T00:00:00.000Z",
            "2026-11-15T05:47:10.12xZ",
            "2026-11-15T05:47:10.1é",
        ] {
            assert_eq!(Utc::parse(text), None, "{text}");
        }
    }
}
