//! Escapes untrusted text for each format.

/// The longest text of a finding, in characters.
const MAX_CHARS: usize = 4000;

/// Replaces control characters except line breaks and tabs, and cuts very long text.
pub fn printable(text: &str) -> String {
    let mut out: String = text
        .chars()
        .take(MAX_CHARS)
        .map(|c| if c.is_control() && !matches!(c, '\n' | '\r' | '\t') { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        out.push_str(" ...");
    }
    out
}

/// Escapes text for attributes and elements of XML. XML 1.0 cannot represent most control characters; they are replaced.
pub fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\t' => out.push_str("&#9;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// Escapes the message of a workflow command: a command ends with its line, and `%` starts an escape.
pub fn workflow_message(text: &str) -> String {
    printable(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a workflow command, which also ends at a comma or a colon.
pub fn workflow_property(text: &str) -> String {
    workflow_message(text).replace(':', "%3A").replace(',', "%2C")
}

/// Text as a code span of Markdown, which has no markup, no HTML, no links and no mentions inside. It stays on one line
/// and in one cell of a table: a bar becomes a broken bar, because a backslash before an escaped bar would end the cell.
pub fn code_span(text: &str) -> String {
    let text: String = printable(text).chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    let text = text.trim().replace('|', "\u{a6}");
    if text.is_empty() {
        return String::new();
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    if longest == 0 { format!("{fence}{text}{fence}") } else { format!("{fence} {text} {fence}") }
}

/// Text of a SARIF message. A viewer makes a link of `[text](target)`, so a space separates the two parts.
pub fn sarif_text(text: &str) -> String {
    printable(text).replace("](", "] (")
}

/// A file as the URI of SARIF: relative as it is, absolute with the scheme `file`.
pub fn uri(file: &str) -> String {
    let mut out = if file.starts_with('/') { "file://".to_owned() } else { String::new() };
    for byte in file.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}
