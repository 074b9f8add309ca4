//! All output goes through here: data to stdout, messages to stderr, colour only where it is wanted.
//!
//! Text may hold what a log, a kernel, a proposer, a compiler or a file name says. None of that may move a terminal's
//! cursor, colour or title, or turn the direction of its text: [`Printer`] escapes every control character that is not
//! from [`styled`]. The styles are known by a mark around them that is different in every process, so no text from
//! outside can pass for one.

use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write};
use std::sync::{LazyLock, OnceLock};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::error::CommandError;
use crate::exit::Exit;

pub const GOOD: Style = AnsiColor::Green.on_default();
pub const BAD: Style = AnsiColor::Red.on_default().bold();
pub const WARN: Style = AnsiColor::Yellow.on_default();
pub const STRONG: Style = Style::new().bold();
pub const FAINT: Style = Style::new().dimmed();

/// Stands before and after every style: sixty random bits as private-use characters.
static MARK: LazyLock<String> = LazyLock::new(|| {
    let bits = RandomState::new().hash_one(0_u8);
    let digit = |place: u32| char::from_u32(0xf0000 + (bits >> (15 * place) & 0x7fff) as u32).unwrap_or('?');
    (0..4).map(digit).collect()
});

/// `text` in a style. Padding goes inside, so that columns stay straight.
pub fn styled(style: Style, text: impl std::fmt::Display) -> String {
    let mark = &*MARK;
    format!("{mark}{style}{mark}{text}{mark}{style:#}{mark}")
}

/// Text with styles of another renderer, which was given nothing but [`visible`] text.
pub fn styled_already(text: &str) -> String {
    let mark = &*MARK;
    let mut pieces = text.split("\x1b[");
    let mut marked = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (style, rest) = piece.split_once('m').unwrap_or((piece, ""));
        marked += &format!("{mark}\x1b[{style}m{mark}{rest}");
    }
    marked
}

/// The text as it is seen, without styles.
pub fn unstyled(text: &str) -> String {
    text.split(&**MARK).step_by(2).collect()
}

/// Text from outside for a terminal: control characters (C0, C1, DEL) and those that turn the direction of text or
/// cannot be seen become `\u{1b}` and the like. Lines and tabs stay.
pub fn visible(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut seen, c| {
        match c {
            '\n' | '\t' => seen.push(c),
            c if is_unseen(c) => seen.extend(c.escape_unicode()),
            c => seen.push(c),
        }
        seen
    })
}

/// Text from outside that belongs on one line: [`visible`], and what would begin another line becomes `\n`.
pub fn one_line(text: &str) -> String {
    flat(&visible(text))
}

/// Text that belongs on one line and may have styles.
pub fn flat(text: &str) -> String {
    text.replace('\n', "\\n").replace('\t', "\\t")
}

fn is_unseen(c: char) -> bool {
    let unseen = ['\u{ad}', '\u{61c}', '\u{180e}', '\u{feff}'].contains(&c)
        || ('\u{200b}'..='\u{200f}').contains(&c)
        || ('\u{2028}'..='\u{202e}').contains(&c)
        || ('\u{2060}'..='\u{206f}').contains(&c)
        || ('\u{fff9}'..='\u{fffb}').contains(&c)
        || ('\u{e0000}'..='\u{e007f}').contains(&c);
    c.is_control() || unseen
}

/// What a terminal gets: styles as they are, everything else visible.
fn rendered(text: &str) -> String {
    let pieces = text.split(&**MARK).enumerate();
    pieces.map(|(index, piece)| if index % 2 == 0 { visible(piece) } else { piece.to_owned() }).collect()
}

/// A JSON text with the same meaning and no character that a terminal could obey: what can be so is within strings.
fn rendered_json(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut seen, c| {
        if is_unseen(c) && c != '\n' {
            let mut units = [0; 2];
            seen.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            seen.push(c);
        }
        seen
    })
}

#[derive(Debug, Default)]
pub struct Printer {
    json: bool,
    /// Why data could not be written.
    lost: OnceLock<io::Error>,
}

impl Printer {
    pub fn new(json: bool) -> Self {
        Printer { json, lost: OnceLock::new() }
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Data, to stdout.
    pub fn data(&self, text: &str) {
        self.write(&rendered(text));
    }

    /// A JSON document, to stdout.
    pub fn json_text(&self, text: &str) {
        self.write(&rendered_json(text));
    }

    fn write(&self, text: &str) {
        let mut stdout = anstream::stdout();
        let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
        match written {
            // A reader that closed the pipe (`| head`) has what it wanted.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            // The first error is the one that is told.
            Err(error) => drop(self.lost.set(error)),
            Ok(()) => {}
        }
    }

    /// The exit code, if all data was written; says so if it was not.
    pub fn finish(&self, exit: Exit) -> Exit {
        let Some(error) = self.lost.get() else { return exit };
        self.message(&format!("{}: cannot write to stdout: {error}", styled(BAD, "error")));
        if exit == Exit::Holds { Exit::Lacking } else { exit }
    }

    /// Data as one JSON document that names its schema.
    pub fn json(&self, schema: &str, value: &impl Serialize) {
        #[derive(Serialize)]
        struct Document<'a, T> {
            schema: String,
            #[serde(flatten)]
            value: &'a T,
        }
        let document = Document { schema: format!("warpsmith.{schema}/1"), value };
        match serde_json::to_string_pretty(&document) {
            Ok(text) => self.json_text(&text),
            Err(error) => self.message(&format!("cannot write JSON: {error}")),
        }
    }

    /// A message, to stderr.
    pub fn message(&self, text: &str) {
        let _ = writeln!(anstream::stderr(), "{}", rendered(text));
    }

    pub fn failure(&self, failure: &CommandError) {
        if self.json {
            #[derive(Serialize)]
            struct Told<'a> {
                error: &'a str,
                hint: Option<&'a str>,
                exit_code: u8,
            }
            let told = Told {
                error: &failure.message,
                hint: failure.hint.as_deref(),
                exit_code: failure.exit as u8,
            };
            self.json("error", &told);
        }
        self.message(&format!("{}: {}", styled(BAD, "error"), failure.message));
        if let Some(hint) = &failure.hint {
            self.message(&format!("{}: {hint}", styled(STRONG, "hint")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_control_a_terminal() {
        for (text, seen) in [
            ("a\x1b[2J\x07b", "a\\u{1b}[2J\\u{7}b"),
            ("\u{9b}31m\u{7f}\r", "\\u{9b}31m\\u{7f}\\u{d}"),
            ("\u{202e}abc\u{2066}\u{200b}", "\\u{202e}abc\\u{2066}\\u{200b}"),
            ("two\n\tlines, é 漢", "two\n\tlines, é 漢"),
        ] {
            assert_eq!(visible(text), seen);
            assert_eq!(rendered(text), seen);
        }
        assert_eq!(one_line("a\nholds\tb"), "a\\nholds\\tb");
    }

    #[test]
    fn styles_are_kept_and_what_is_inside_them_is_escaped() {
        let text = styled(GOOD, "right\x1b[31m");
        assert_eq!(rendered(&text), "\x1b[32mright\\u{1b}[31m\x1b[0m");
        assert_eq!(unstyled(&text), "right\x1b[31m");
        assert_eq!(rendered(&styled_already("\x1b[1merror\x1b[0m: x")), "\x1b[1merror\x1b[0m: x");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = serde_json::json!({"a": "\u{1b}[2J \u{9b} \u{202e} \u{e0001} \u{7f}\n"});
        let text = rendered_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!text.chars().any(|c| is_unseen(c) && c != '\n'), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
