//! Points in time.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time with millisecond resolution: `2026-11-15T05:47:10.123Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utc {
    millis: i64,
}

impl Utc {
    /// The current time.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Utc { millis: since.as_millis() as i64 }
    }

    /// The time that is `millis` milliseconds after 1970-01-01.
    pub fn from_unix_millis(millis: i64) -> Self {
        Utc { millis }
    }

    /// Milliseconds since 1970-01-01.
    pub fn millis_since_epoch(&self) -> i64 {
        self.millis
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

    fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')];
        if bytes.len() != 24 || marks.iter().any(|&(at, mark)| bytes[at] != mark) {
            return None;
        }
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = text.get(from..to)?;
            digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let fits =
            (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
        let days = days_before(year, month) + day - 1;
        fits.then_some(Utc {
            millis: (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + number(20, 23)?,
        })
    }
}

/// Days from 1970-01-01 to the first day of a month, in the Gregorian calendar. The computation uses years that start
/// in March, so that the leap day is the last day of a year and the months before any month have a fixed number of
/// days.
fn days_before(year: i64, month: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leaps + (153 * month + 2) / 5 - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
fn date(days: i64) -> (i64, i64, i64) {
    // The estimate is off by about one year for dates with a four-digit year. The loops correct it.
    let mut year = 1970 + days.div_euclid(365);
    while days_before(year, 1) > days {
        year -= 1;
    }
    while days_before(year + 1, 1) <= days {
        year += 1;
    }
    let month = (1..=12).rev().find(|&month| days_before(year, month) <= days).unwrap_or(1);
    (year, month, days - days_before(year, month) + 1)
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, rest) = (self.millis.div_euclid(86_400_000), self.millis.rem_euclid(86_400_000));
        let (year, month, day) = date(days);
        let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
        let (second, millis) = (rest / 1000 % 60, rest % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
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
