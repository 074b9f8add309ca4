//! Words for people.

/// A number with its noun: `1 trial`, `3 trials`.
pub fn count(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}
