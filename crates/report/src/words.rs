//! Formats numbers, counts and command lines for reports.

pub use text::count;

use runlog::{Fact, RunState};

/// `in 3 processes`.
pub fn in_processes(number: usize) -> String {
    format!("in {}", count(number, "process"))
}

/// Whether a word is a knob with its value: `STAGES=3`.
pub fn is_knob(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    word.split_once('=').is_some_and(|(name, value)| {
        let mut letters = name.chars();
        letters.next().is_some_and(|first| first.is_ascii_uppercase())
            && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !value.is_empty()
            && value.chars().all(plain)
    })
}

/// A number with about four significant digits, at most two of them after the point unless it is below 0.1.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => thousands(value),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        size if size >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// A whole number with a narrow space between thousands.
pub fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && digits.len() > 4 {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// `31.50 us`.
pub fn micros(value: f64) -> String {
    format!("{} us", number(value))
}

/// `1.42x`: a speedup.
pub fn ratio(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}x"),
        value if value >= 0.1 => format!("{value:.2}x"),
        value => format!("{value:.3}x"),
    }
}

/// An interval with two decimals, or three if its ends are close.
pub fn interval(low: f64, high: f64) -> String {
    let digits = if high - low >= 0.01 { 2 } else { 3 };
    format!("{low:.digits$}\u{2013}{high:.digits$}")
}

/// The name of the GPU or device that the run's times are for.
pub fn device(state: &RunState) -> String {
    let Some(manifest) = &state.manifest else { return "an unknown device".to_owned() };
    match (&manifest.gpu, &manifest.device) {
        (Fact::Known(gpu), _) => gpu.clone(),
        (_, Fact::Known(device)) => device.clone(),
        _ => "an unknown device".to_owned(),
    }
}

/// The command line for a shell: words with special characters are quoted.
pub fn shell_command(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_significant_digits() {
        let texts = [12345.6, 1234.5, 123.45, 12.345, 0.5, 0.01234, 1.5e-5, 0.0].map(number);
        assert_eq!(texts, ["12\u{202f}346", "1234", "123.5", "12.35", "0.50", "0.0123", "1.5e-5", "0.00"]);
    }

    #[test]
    fn a_knob_is_a_name_with_a_plain_value() {
        for knob in ["STAGES=3", "BLOCK_N=32", "SWIZZLE=none", "SCALE=0.5"] {
            assert!(is_knob(knob), "{knob}");
        }
        for word in ["mma", "=3", "STAGES=", "a=b", "A=<b>", "A=`b`", "https://A=b"] {
            assert!(!is_knob(word), "{word}");
        }
    }

    #[test]
    fn a_narrow_interval_has_more_digits() {
        assert_eq!(interval(1.91, 2.05), "1.91\u{2013}2.05");
        assert_eq!(interval(0.8459, 0.8482), "0.846\u{2013}0.848");
        assert_eq!(interval(10.37001, 10.37002), "10.370\u{2013}10.370");
    }

    #[test]
    fn a_command_line_is_quoted_for_a_shell() {
        let words = ["warpsmith", "bench", "--set", "A=1", "it's | here", ""].map(str::to_owned);
        assert_eq!(shell_command(&words), r"warpsmith bench --set A=1 'it'\''s | here' ''");
    }
}
