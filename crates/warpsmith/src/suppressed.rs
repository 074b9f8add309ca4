//! Known findings (`--suppressions`): reads the file and tells what its rules matched.

use std::path::Path;
use std::sync::Arc;

use sanitize::Suppressions;

use crate::error::CommandError;
use crate::printer::{FAINT, Printer, WARN, styled};

/// Reads the rules. `texts` has the sources whose lines rules may name.
pub fn read(
    file: Option<&Path>,
    texts: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
) -> Result<Option<Arc<Suppressions>>, CommandError> {
    let read = |file| Suppressions::read(file, texts).map(Arc::new);
    file.map(read).transpose().map_err(|error| {
        CommandError::usage(error.to_string())
            .hint("`[[suppress]]` has kind, reason and, for example, kernel")
    })
}

/// Tells what the rules matched, and which of them matched nothing.
pub fn tell(rules: Option<&Suppressions>, printer: &Printer) {
    for rule in rules.map(Suppressions::uses).unwrap_or_default() {
        let style = if rule.matched == 0 { WARN } else { FAINT };
        printer.message(&styled(style, rule.text()));
    }
}
