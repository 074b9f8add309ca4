//! Escapes untrusted text: names, messages and lines of a kernel, a log, a proposer, a compiler or a file.
//!
//! All formats treat hidden characters alike ([`is_hidden`]): they become `\u{1b}` and so on, so that no text can control
//! a terminal, hide a part of itself or look like another text. Each format then escapes its own syntax.

/// The longest text in a format for CI, in characters.
const MAX_CHARS: usize = 4000;

/// Whether a character is a control character, is invisible, changes the direction of text, or is not allowed in XML.
pub fn is_hidden(c: char) -> bool {
    let invisible = ['\u{ad}', '\u{61c}', '\u{180e}', '\u{feff}', '\u{fffe}', '\u{ffff}'].contains(&c)
        || ('\u{200b}'..='\u{200f}').contains(&c)
        || ('\u{2028}'..='\u{202e}').contains(&c)
        || ('\u{2060}'..='\u{206f}').contains(&c)
        || ('\u{fff9}'..='\u{fffb}').contains(&c)
        || ('\u{e0000}'..='\u{e007f}').contains(&c);
    c.is_control() || invisible
}

/// Text for a terminal: hidden characters become `\u{1b}` and so on. Line breaks and tabs stay.
pub fn visible(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, c| {
        match c {
            '\n' | '\t' => escaped.push(c),
            c if is_hidden(c) => escaped.extend(c.escape_unicode()),
            c => escaped.push(c),
        }
        escaped
    })
}

/// Text that must stay on one line: as [`visible`], and line breaks and tabs are escaped too.
pub fn one_line(text: &str) -> String {
    flat(&visible(text))
}

/// Escapes the line breaks and tabs of text that may have styles.
pub fn flat(text: &str) -> String {
    text.replace('\n', "\\n").replace('\t', "\\t")
}

/// Text for elements and attributes of HTML.
pub fn html(text: &str) -> String {
    replaced(&visible(text), |c| {
        Some(match c {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '"' => "&quot;",
            '\'' => "&#39;",
            _ => return None,
        })
    })
}

/// Text for elements and attributes of XML. A reader would turn the line breaks of an attribute into spaces.
pub fn xml(text: &str) -> String {
    html(&cut(text)).replace('\n', "&#10;").replace('\t', "&#9;")
}

/// Text in a paragraph, a list or a table of Markdown: it stays on one line and has no markup, no HTML and no links.
/// An underscore within a word is no markup.
pub fn markdown(text: &str) -> String {
    let text = visible(text).replace(['\n', '\t'], " ");
    let escaped = replaced(&text, |c| {
        Some(match c {
            '\\' => "\\\\",
            '`' => "\\`",
            '*' => "\\*",
            '[' => "\\[",
            ']' => "\\]",
            '~' => "\\~",
            '|' => "\\|",
            '&' => "&amp;",
            '<' => "&lt;",
            _ => return None,
        })
    });
    // GitHub makes links of addresses, too.
    escaped.replace("://", "\\://").replace("www.", "www\\.")
}

/// Text as a code span of Markdown, which has no markup, no HTML, no links and no mentions inside. It stays on one line
/// and in one cell of a table: a bar becomes a broken bar, because a backslash before an escaped bar would end the cell.
pub fn markdown_code(text: &str) -> String {
    let text: String = visible(&cut(text)).chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    let text = text.trim().replace('|', "\u{a6}");
    if text.is_empty() {
        return String::new();
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    if longest == 0 { format!("{fence}{text}{fence}") } else { format!("{fence} {text} {fence}") }
}

/// The message of a workflow command of GitHub: a command ends with its line, and `%` starts an escape.
pub fn workflow_message(text: &str) -> String {
    visible(&cut(text)).replace('%', "%25").replace('\n', "%0A")
}

/// A property of a workflow command of GitHub, which also ends at a comma or a colon.
pub fn workflow_property(text: &str) -> String {
    workflow_message(text).replace(':', "%3A").replace(',', "%2C")
}

/// The text of a SARIF message. A viewer makes a link of `[text](target)`, so a space separates the two parts.
pub fn sarif(text: &str) -> String {
    visible(&cut(text)).replace("](", "] (")
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

/// Replaces single characters.
fn replaced(text: &str, replacement: impl Fn(char) -> Option<&'static str>) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, c| {
        match replacement(c) {
            Some(replacement) => escaped.push_str(replacement),
            None => escaped.push(c),
        }
        escaped
    })
}

/// Cuts very long text. A carriage return before a line feed is part of the line break.
fn cut(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Escape sequences, overrides of the text direction, invisible characters, and characters that XML refuses.
    const HIDDEN: &str = "a\u{1b}[2J\u{9b}\u{7f}\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}\u{ffff}\u{0}b";

    #[test]
    fn no_format_keeps_a_hidden_character() {
        let formats: [fn(&str) -> String; 9] = [
            visible,
            one_line,
            html,
            xml,
            markdown,
            markdown_code,
            workflow_message,
            workflow_property,
            sarif,
        ];
        for format in formats {
            let text = format(HIDDEN);
            assert!(!text.chars().any(is_hidden), "{text:?}");
            assert!(text.contains("\u{5c}u{202e}") || text.contains("\u{5c}\u{5c}u{202e}"), "{text}");
        }
        assert_eq!(visible("a\u{1b}\n\tb"), "a\\u{1b}\n\tb");
        assert_eq!(one_line("a\r\nb\tc"), "a\\u{d}\\nb\\tc");
    }

    #[test]
    fn html_and_xml_have_no_markup() {
        assert_eq!(html("<a href='x'>\"&"), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;");
        assert_eq!(xml("a\r\n<b>\t"), "a&#10;&lt;b&gt;&#9;");
    }

    #[test]
    fn markdown_has_no_links_no_markup_and_no_cells() {
        assert_eq!(markdown("[a](https://b) | ![c](d)"), "\\[a\\](https\\://b) \\| !\\[c\\](d)");
        assert_eq!(
            markdown("**a** `b` <c> ~d~ www.e.f\ng"),
            "\\*\\*a\\*\\* \\`b\\` &lt;c> \\~d\\~ www\\.e.f g"
        );
        assert_eq!(markdown("mma BLOCK_M=96"), "mma BLOCK_M=96");
        assert_eq!(markdown_code("a|b `c`\nd"), "`` a\u{a6}b `c` d ``");
        assert_eq!(markdown_code(" \n"), "");
    }

    #[test]
    fn workflow_commands_and_sarif_keep_their_syntax() {
        assert_eq!(workflow_message("50%\r\n::error::x"), "50%25%0A::error::x");
        assert_eq!(workflow_property("a,b:c"), "a%2Cb%3Ac");
        assert_eq!(sarif("[a](https://b)"), "[a] (https://b)");
        assert_eq!([uri("a b.cu"), uri("/x/é")], ["a%20b.cu", "file:///x/%C3%A9"]);
    }

    #[test]
    fn long_text_is_cut_in_formats_for_ci() {
        let long = "é".repeat(MAX_CHARS + 1);
        assert_eq!(sarif(&long).chars().count(), MAX_CHARS + 4);
        assert!(sarif(&long).ends_with(" ..."));
        assert_eq!(html(&long), long);
    }
}
