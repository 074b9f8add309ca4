//! Text for people: counted nouns, escapes of untrusted text for every format, and quotes for shells.

pub mod escape;
pub mod quote;

/// A number with its noun: `1 trial`, `3 trials`, `2 launches`.
pub fn count(number: usize, one: &str) -> String {
    let ending = match one {
        _ if number == 1 => "",
        _ if one.ends_with("ch") || one.ends_with('s') => "es",
        _ => "s",
    };
    format!("{number} {one}{ending}")
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn a_noun_has_its_plural() {
        assert_eq!([count(1, "launch"), count(2, "launch")], ["1 launch", "2 launches"]);
        assert_eq!(
            [count(0, "process"), count(1, "run"), count(3, "run")],
            ["0 processes", "1 run", "3 runs"]
        );
    }
}
