//! All output goes through here: data to stdout, messages to stderr, colour only where it is wanted.

use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::failure::Failure;

pub const GOOD: Style = AnsiColor::Green.on_default();
pub const BAD: Style = AnsiColor::Red.on_default().bold();
pub const WARN: Style = AnsiColor::Yellow.on_default();
pub const STRONG: Style = Style::new().bold();
pub const FAINT: Style = Style::new().dimmed();

/// `text` in a style. Padding goes inside, so that columns stay straight.
pub fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

#[derive(Debug)]
pub struct Printer {
    json: bool,
}

impl Printer {
    pub fn new(json: bool) -> Self {
        Printer { json }
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Data, to stdout.
    pub fn data(&self, text: &str) {
        // A reader that closed the pipe (`| head`) has what it wanted.
        let _ = writeln!(anstream::stdout(), "{text}");
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
            Ok(text) => self.data(&text),
            Err(error) => self.message(&format!("cannot write JSON: {error}")),
        }
    }

    /// A message, to stderr.
    pub fn message(&self, text: &str) {
        let _ = writeln!(anstream::stderr(), "{text}");
    }

    pub fn failure(&self, failure: &Failure) {
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
