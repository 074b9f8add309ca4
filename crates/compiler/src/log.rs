//! Parses the logs of NVRTC and its assembler: diagnostics with their places, and the resources of each kernel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Entry;

/// The severity of a compiler message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The source cannot be compiled.
    Error,
    /// The source compiles but is suspicious.
    Warning,
    /// A note or a remark.
    Note,
}

/// One message of the compiler, in its original wording.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Diagnostic {
    /// How serious the message is.
    pub severity: Severity,
    /// The text of the message.
    pub message: String,
    /// `None` for messages about the whole program.
    pub place: Option<Place>,
}

/// The place in the source that a message is about.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Place {
    /// The name of the source or header.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// Column of the compiler's caret, from 1.
    pub column: Option<u32>,
    /// The source line as the compiler quotes it.
    pub source: Option<String>,
}

/// Every error, warning and remark in the log.
pub fn diagnostics(log: &str) -> Vec<Diagnostic> {
    let lines: Vec<&str> = log.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if let Some((place, severity, message)) = front_end_message(line) {
            let quoted = quotation(&lines[index + 1..]);
            let (source, column) = quoted.map_or((None, None), |(text, column)| (Some(text), Some(column)));
            found.push(Diagnostic {
                severity,
                message,
                place: Some(Place { file: place.0, line: place.1, column, source }),
            });
        } else if let Some((severity, message)) = assembler_message(line) {
            found.push(Diagnostic { severity, message, place: None });
        }
    }
    found
}

/// `file(12): error: text`, also `error #20-D:` and `warning #177-D:`.
fn front_end_message(line: &str) -> Option<((String, u32), Severity, String)> {
    let (place, rest) = line.split_once("): ")?;
    let (file, number) = place.rsplit_once('(')?;
    let number = number.parse().ok()?;
    let (word, message) = rest.split_once(": ")?;
    let severity = match word.split_whitespace().next()? {
        "error" | "catastrophic" => Severity::Error,
        "warning" => Severity::Warning,
        "remark" | "note" => Severity::Note,
        _ => return None,
    };
    Some(((file.to_owned(), number), severity, message.to_owned()))
}

/// `ptxas error   : text`, `ptxas warning : text`, `nvrtc: error: text`, and the notes about serialised products.
fn assembler_message(line: &str) -> Option<(Severity, String)> {
    if serialised_function(line).is_some() {
        return Some((Severity::Warning, line.trim().to_owned()));
    }
    let rest = line.strip_prefix("ptxas").or_else(|| line.strip_prefix("nvrtc"))?;
    let (head, message) = rest.split_once(": ").filter(|(_, message)| !message.is_empty())?;
    let head = format!("{head} {message}");
    let severity = if head.contains("error") {
        Severity::Error
    } else if head.trim_start().starts_with("warning") {
        Severity::Warning
    } else {
        return None;
    };
    Some((severity, line.trim().to_owned()))
}

/// The codes of the notes that the assembler serialises warpgroup products, each with another reason. C7519 is harmless.
const SERIALISED: [&str; 7] = ["C7510", "C7511", "C7512", "C7513", "C7514", "C7515", "C7520"];

/// The function of a note that the assembler serialises warpgroup products:
/// `ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ... in the
/// function 'name'`. Empty if the note names no function.
fn serialised_function(line: &str) -> Option<&str> {
    let code = between(line.strip_prefix("ptxas")?, ": (", ")")?;
    SERIALISED.contains(&code).then(|| between(line, "function '", "'").unwrap_or_default())
}

/// The two lines under a message: the source line (indented by two) and a caret under the column.
fn quotation(lines: &[&str]) -> Option<(String, u32)> {
    let source = lines.first()?.strip_prefix("  ")?;
    let caret = lines.get(1)?.strip_prefix("  ")?;
    let column = caret.find('^')?;
    caret.trim().chars().all(|c| c == '^').then(|| (source.to_owned(), column as u32 + 1))
}

/// The kernels of the program with their resources (`--ptxas-options=-v`).
pub fn entries(log: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    // Device functions that were not inlined also have "Function properties", after the kernel's. They are skipped.
    let mut properties_of = None;
    for line in log.lines() {
        if let Some(name) = between(line, "Compiling entry function '", "'") {
            entries.push(Entry { name: name.to_owned(), ..Entry::default() });
        } else if let Some(name) = line.split_once("Function properties for ").map(|(_, name)| name.trim()) {
            properties_of = entries.iter().position(|entry| entry.name == name);
        } else if line.contains("bytes stack frame") {
            if let Some(entry) = properties_of.and_then(|index| entries.get_mut(index)) {
                entry.stack_bytes = number_before(line, "bytes stack frame");
                entry.spill_store_bytes = number_before(line, "bytes spill stores");
                entry.spill_load_bytes = number_before(line, "bytes spill loads");
            }
        } else if line.contains("Used ")
            && line.contains(" registers")
            && let Some(entry) = entries.last_mut()
        {
            entry.registers = number_before(line, "registers");
            entry.barriers = number_before(line, "barriers");
            entry.static_shared_bytes = number_before(line, "bytes smem");
            entry.constant_bytes = number_before(line, "bytes cmem[0]");
        }
    }
    // A note can precede the kernel's own lines. One about a device function counts for every kernel.
    for function in log.lines().filter_map(serialised_function) {
        let is_kernel = entries.iter().any(|entry| entry.name == function);
        let concerned = entries.iter_mut().filter(|entry| !is_kernel || entry.name == function);
        concerned.for_each(|entry| entry.serialised_wgmma += 1);
    }
    entries
}

fn between<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    line.split_once(before)?.1.split_once(after).map(|(middle, _)| middle)
}

/// The number in front of `unit`. The assembler omits an item that is zero.
fn number_before(line: &str, unit: &str) -> u32 {
    line.split_once(unit)
        .and_then(|(before, _)| before.split_whitespace().next_back())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// The errors in the log of a failed compilation, or the whole log if no error has a known form.
pub fn errors(log: &str) -> Vec<Diagnostic> {
    let mut errors = of_severity(log, Severity::Error);
    if errors.is_empty() {
        let text = log.trim();
        let message = if text.is_empty() { "the compiler failed without a message" } else { text };
        errors.push(Diagnostic { severity: Severity::Error, message: message.to_owned(), place: None });
    }
    errors
}

/// The diagnostics of one severity in a log.
pub fn of_severity(text: &str, severity: Severity) -> Vec<Diagnostic> {
    diagnostics(text).into_iter().filter(|diagnostic| diagnostic.severity == severity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_89'
ptxas info    : Function properties for first
ptxas         .     16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 400 bytes smem, 364 bytes cmem[0]
ptxas info    : Compile time = 16.433 ms
ptxas info    : Function properties for _Z1fPf
ptxas         .     99 bytes stack frame, 99 bytes spill stores, 99 bytes spill loads
ptxas info    : Compiling entry function 'second' for 'sm_89'
ptxas info    : Function properties for second
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 360 bytes cmem[0]
";

    #[test]
    fn resources_are_read_per_kernel_and_not_from_device_functions() {
        let entries = entries(LOG);
        assert_eq!(entries.len(), 2);
        assert_eq!(
            entries[0],
            Entry {
                name: "first".into(),
                registers: 40,
                static_shared_bytes: 400,
                stack_bytes: 16,
                spill_store_bytes: 4,
                spill_load_bytes: 8,
                constant_bytes: 364,
                barriers: 1,
                serialised_wgmma: 0,
            }
        );
        assert_eq!((entries[1].registers, entries[1].static_shared_bytes), (8, 0));
        assert!(diagnostics(LOG).is_empty());
    }

    #[test]
    fn serialised_products_are_counted_per_kernel_and_reported() {
        let note = |code: &str, function: &str| {
            format!(
                "ptxas info    : ({code}) Potential Performance Loss: wgmma.mma_async instructions are serialized due \
                 to insufficient register resources for the wgmma pipeline in the function '{function}'\n"
            )
        };
        let counts = |log: &str| entries(log).iter().map(|entry| entry.serialised_wgmma).collect::<Vec<_>>();
        let log = note("C7511", "second") + LOG + &note("C7520", "second") + &note("C7519", "first");
        assert_eq!(counts(&log), [0, 2]);
        assert_eq!(diagnostics(&log).len(), 2);
        assert!(diagnostics(&log).iter().all(|found| found.severity == Severity::Warning));
        // A device function may belong to any kernel.
        assert_eq!(counts(&(LOG.to_owned() + &note("C7510", "_Z1fPf"))), [1, 1]);
    }

    #[test]
    fn a_front_end_error_has_file_line_column_and_text() {
        let log = "\
attention/wmma/kernel.cu(2): error: identifier \"foo\" is undefined
  void k() { foo(); }
             ^

common/x.cuh(7): warning #177-D: variable \"x\" was declared but never referenced
  int x;
      ^

Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"

1 error detected in the compilation of \"attention/wmma/kernel.cu\".
";
        let found = diagnostics(log);
        assert_eq!(found.len(), 2);
        let place = found[0].place.as_ref().unwrap();
        assert_eq!(
            (place.file.as_str(), place.line, place.column),
            ("attention/wmma/kernel.cu", 2, Some(12))
        );
        assert_eq!(place.source.as_deref(), Some("void k() { foo(); }"));
        assert_eq!(found[0].message, "identifier \"foo\" is undefined");
        assert_eq!((found[1].severity, found[1].place.as_ref().unwrap().line), (Severity::Warning, 7));
    }

    #[test]
    fn assembler_errors_without_a_place_are_reported() {
        let log =
            "ptxas error   : Entry function 'k' uses too much shared data (0x19000 bytes, 0xc000 max)\n";
        let found = diagnostics(log);
        assert_eq!(found[0].severity, Severity::Error);
        assert!(found[0].message.contains("too much shared data"));
    }

    #[test]
    fn a_message_without_a_quotation_still_has_its_line() {
        let found = diagnostics("a.cu(3): catastrophic error: cannot open source file \"nope.h\"\n");
        assert_eq!(found[0].place.as_ref().unwrap().line, 3);
        assert_eq!(found[0].severity, Severity::Error);
        assert_eq!(found[0].place.as_ref().unwrap().column, None);
    }
}
