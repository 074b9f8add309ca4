//! All output goes through this module: data to stdout, messages to stderr, colour only on a terminal.
//!
//! [`Printer`] escapes every control character that does not come from [`styled`]: untrusted text must not control the
//! terminal.

use std::io::{self, Write};
use std::sync::OnceLock;

use compiler::Diagnostic;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::CommandError;
use crate::exit::Exit;
use crate::layout;
use crate::style::{MARK, is_hidden};

pub use crate::style::{BAD, FAINT, GOOD, STRONG, WARN, flat, one_line, styled, styled_already, visible};

/// The text for the terminal: styles unchanged, everything else escaped.
fn rendered(text: &str) -> String {
    let pieces = text.split(&**MARK).enumerate();
    let text: String =
        pieces.map(|(index, piece)| if index % 2 == 0 { visible(piece) } else { piece.to_owned() }).collect();
    without_workflow_commands(text)
}

/// Changes text that GitHub Actions would execute as a workflow command: a line that starts with `::`, also after
/// spaces and styles, and `##[` anywhere. A step reads both streams of the program. A line with `:::` is not a command;
/// snippets of sources have such lines.
fn without_workflow_commands(text: String) -> String {
    let is_command = |line: &str| {
        let mut rest = line.trim_start();
        while let Some((_, after)) = rest.strip_prefix("\x1b[").and_then(|it| it.split_once('m')) {
            rest = after.trim_start();
        }
        rest.starts_with("::") && !rest.starts_with(":::")
    };
    if !text.contains("##[") && !text.lines().any(is_command) {
        return text;
    }
    let escape = |line: &str| {
        let line = line.replace("##[", "#\\#[");
        if is_command(&line) { line.replacen("::", "\\::", 1) } else { line }
    };
    text.split('\n').map(escape).collect::<Vec<String>>().join("\n")
}

/// Escapes hidden characters in a JSON text without changing its meaning: they can occur only inside strings.
fn rendered_json(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut escaped, c| {
            if is_hidden(c) && c != '\n' {
                let mut units = [0; 2];
                escaped.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
            } else {
                escaped.push(c);
            }
            escaped
        })
        // A workflow command of GitHub; the two characters can only be inside a string.
        .replace("##[", "#\\u0023[")
}

#[derive(JsonSchema, Serialize)]
pub struct ErrorDocument<'a> {
    error: &'a str,
    hint: Option<&'a str>,
    exit_code: u8,
    /// The errors of the compiler, if a source does not compile.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    diagnostics: &'a [Diagnostic],
}

/// Writes the output of a command.
#[derive(Debug, Default)]
pub struct Printer {
    json: bool,
    /// The first error on stdout.
    write_error: OnceLock<io::Error>,
}

impl Printer {
    /// `json`: whether the user asked for JSON.
    pub fn new(json: bool) -> Self {
        Printer { json, write_error: OnceLock::new() }
    }

    /// Whether the user asked for JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Writes data to stdout. Long lines are broken at the width of the terminal.
    pub fn data(&self, text: &str) {
        self.verbatim_data(&layout::wrapped(text, layout::stdout_width()));
    }

    /// Writes data to stdout whose line breaks matter: source lines, or commands to be copied.
    pub fn verbatim_data(&self, text: &str) {
        self.write(&rendered(text));
    }

    /// Writes a JSON document to stdout.
    pub fn json_text(&self, text: &str) {
        self.write(&rendered_json(text));
    }

    /// Writes workflow commands of GitHub: to stdout, or to stderr if stdout has JSON. Untrusted text in them must be
    /// escaped.
    pub fn workflow_commands(&self, text: &str) {
        let text = visible(text.trim_end());
        match () {
            () if text.is_empty() => {}
            () if self.json => drop(writeln!(anstream::stderr(), "{text}")),
            () => self.write(&text),
        }
    }

    fn write(&self, text: &str) {
        if subprocess::standard_output::was_closed() {
            drop(self.write_error.set(io::Error::other("it is closed")));
            return;
        }
        let mut stdout = anstream::stdout();
        let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
        match written {
            // A reader that closed the pipe (`| head`) wants no more data.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            // `set` keeps the first error.
            Err(error) => drop(self.write_error.set(error)),
            Ok(()) => {}
        }
    }

    /// Returns the final exit code. If data could not be written, prints an error and replaces `Success`.
    pub fn finish(&self, exit: Exit) -> Exit {
        let Some(error) = self.write_error.get() else { return exit };
        self.message(&format!("{}: cannot write to stdout: {error}", styled(BAD, "error")));
        if exit == Exit::Success { Exit::MissingRequirement } else { exit }
    }

    /// Writes a value as one JSON document that names its schema.
    pub fn json(&self, schema: &str, value: &impl Serialize) {
        #[derive(Serialize)]
        struct Document<'a, T> {
            schema: String,
            #[serde(flatten)]
            value: &'a T,
        }
        self.json_document(&Document { schema: format!("warpsmith.{schema}/1"), value });
    }

    /// Writes a value that has the name of its schema as one JSON document.
    pub fn json_document(&self, document: &impl Serialize) {
        match serde_json::to_string_pretty(document) {
            Ok(text) => self.json_text(&text),
            Err(error) => self.message(&format!("cannot write JSON: {error}")),
        }
    }

    /// Writes a message to stderr. Long lines are broken at the width of the terminal.
    pub fn message(&self, text: &str) {
        self.verbatim_message(&layout::wrapped(text, layout::stderr_width()));
    }

    /// Writes a message whose line breaks matter: source lines, or a command to be copied.
    pub fn verbatim_message(&self, text: &str) {
        let _ = writeln!(anstream::stderr(), "{}", rendered(text));
    }

    /// Writes an error as a JSON document to stdout.
    pub fn error_document(&self, failure: &CommandError, diagnostics: &[Diagnostic]) {
        let CommandError { exit, message, hint } = failure;
        let (error, hint, exit_code) = (message.as_str(), hint.as_deref(), *exit as u8);
        self.json("error", &ErrorDocument { error, hint, exit_code, diagnostics });
    }

    /// Writes an error and its hint to stderr; with `--json` also as a document to stdout.
    pub fn failure(&self, failure: &CommandError) {
        self.failure_of_source(failure, &[]);
    }

    /// Writes the error of a source that does not compile. The document has the errors of the compiler, too.
    pub fn failure_of_source(&self, failure: &CommandError, diagnostics: &[Diagnostic]) {
        if self.json {
            self.error_document(failure, diagnostics);
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
    use crate::style::unstyled;

    #[test]
    fn untrusted_text_cannot_control_a_terminal() {
        for (text, escaped) in [
            ("a\x1b[2J\x07b", "a\\u{1b}[2J\\u{7}b"),
            ("\u{9b}31m\u{7f}\r", "\\u{9b}31m\\u{7f}\\u{d}"),
            ("\u{202e}abc\u{2066}\u{200b}", "\\u{202e}abc\\u{2066}\\u{200b}"),
            ("two\n\tlines, é 漢", "two\n\tlines, é 漢"),
        ] {
            assert_eq!(visible(text), escaped);
            assert_eq!(rendered(text), escaped);
        }
        assert_eq!(one_line("a\nholds\tb"), "a\\nholds\\tb");
    }

    #[test]
    fn untrusted_text_is_not_a_workflow_command() {
        for (text, escaped) in [
            ("::error::x", "\\::error::x"),
            ("a\n  \t::set-output name=a::b\nc", "a\n  \t\\::set-output name=a::b\nc"),
            ("x ##[error]y", "x #\\#[error]y"),
            ("std::vector a::b", "std::vector a::b"),
            ("  ::: kernel.cu:3:5", "  ::: kernel.cu:3:5"),
        ] {
            assert_eq!(rendered(text), escaped);
        }
        let text = rendered(&styled(BAD, "::warning::x"));
        assert!(text.contains("\\::warning"), "{text:?}");
        let value = serde_json::json!({"a": "##[error]x"});
        let text = rendered_json(&value.to_string());
        assert!(!text.contains("##["), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn styles_are_kept_and_text_inside_them_is_escaped() {
        let text = styled(GOOD, "right\x1b[31m");
        assert_eq!(rendered(&text), "\x1b[32mright\\u{1b}[31m\x1b[0m");
        assert_eq!(unstyled(&text), "right\x1b[31m");
        assert_eq!(rendered(&styled_already("\x1b[1merror\x1b[0m: x")), "\x1b[1merror\x1b[0m: x");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = serde_json::json!({"a": "\u{1b}[2J \u{9b} \u{202e} \u{e0001} \u{7f}\n"});
        let text = rendered_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!text.chars().any(|c| is_hidden(c) && c != '\n'), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
