//! Renders findings of the virtual GPU like compiler messages, with the lines of the CUDA source.

use std::path::Path;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use text::count;
use text::escape::{one_line, visible};
use vgpu::{Finding, LaunchReport, Place, Severity, SourceFrame};

/// Maps a file name of the line table to the text of the file.
pub type Texts<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// One finding, with its source lines, the threads that caused it and how often it occurred.
pub fn render(finding: &Finding, sources: &Texts, renderer: &Renderer) -> String {
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    // Names, file names and lines come from the kernel, so their control characters are escaped.
    let title = one_line(&format!("[{}] {}", finding.kind, finding.message));
    // The groups below borrow these texts.
    let primary = quote(&finding.place, sources);
    let related: Vec<(String, Option<Quote>)> = finding
        .related
        .iter()
        .map(|related| (one_line(&related.label), quote(&related.place, sources)))
        .collect();
    let calls: Vec<String> = callers(&finding.place).iter().map(|call| one_line(call)).collect();
    let threads = one_line(&threads(finding));

    let mut group = Group::with_title(level.primary_title(title.as_str()));
    if let Some(quote) = &primary {
        group = group.element(quote.snippet(AnnotationKind::Primary, None));
    } else if finding.place.ptx_line > 0 {
        group = group.element(Level::NOTE.message(format!("at PTX line {}", finding.place.ptx_line)));
    }
    for call in &calls {
        group = group.element(Level::NOTE.message(call.as_str()));
    }
    for (label, quote) in &related {
        match quote {
            Some(quote) => group = group.element(quote.snippet(AnnotationKind::Context, Some(label))),
            None => group = group.element(Level::NOTE.message(label.as_str())),
        }
    }
    if !threads.is_empty() {
        group = group.element(Level::NOTE.message(threads.as_str()));
    }
    renderer.render(&[group])
}

/// A line with the number of findings that the virtual GPU dropped; `None` if it kept all of them.
pub fn dropped(report: &LaunchReport) -> Option<String> {
    let dropped = report.dropped_findings as usize;
    let more = || count(dropped, "more finding");
    (dropped > 0).then(|| format!("{} not shown: too many different findings", more()))
}

/// One line of a source file, with the byte range to underline.
struct Quote {
    file: String,
    line: u32,
    text: String,
    start: usize,
    end: usize,
}

impl Quote {
    fn snippet<'a>(
        &'a self,
        kind: AnnotationKind,
        label: Option<&'a str>,
    ) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
        let annotation = kind.span(self.start..self.end);
        let annotation = match label {
            Some(label) => annotation.label(label),
            None => annotation,
        };
        Snippet::source(self.text.as_str())
            .path(self.file.as_str())
            .line_start(self.line as usize)
            .annotation(annotation)
    }
}

/// The innermost frame whose file can be read, with the text of its line. Headers of the compiler may not be readable.
pub fn shown_frame<'p>(place: &'p Place, sources: &Texts) -> Option<(&'p SourceFrame, String)> {
    place.frames.iter().find_map(|frame| {
        let source = sources(&frame.file)?;
        let text = source.lines().nth((frame.line as usize).checked_sub(1)?)?.to_owned();
        Some((frame, text))
    })
}

fn quote(place: &Place, sources: &Texts) -> Option<Quote> {
    shown_frame(place, sources).map(|(frame, text)| {
        let first = text.len() - text.trim_start().len();
        let column = text
            .char_indices()
            .nth((frame.column as usize).saturating_sub(1))
            .map_or(first, |(byte, _)| byte);
        // A comment at the end of the line is not underlined.
        let is_python = Path::new(&frame.file).extension().is_some_and(|extension| extension == "py");
        let comment = if is_python { "  #" } else { "//" };
        let code = text.split(comment).next().unwrap_or(&text).trim_end().len();
        let start = if column < code { column.max(first) } else { first };
        let end = code.max(start + 1).min(text.len().max(1));
        let start = start.min(end);
        // Escape sequences before a position shift it.
        let shifted = |byte: usize| text.get(..byte).map_or(byte, |before| visible(before).len());
        let (start, end) = (shifted(start), shifted(end));
        Quote { file: one_line(&frame.file), line: frame.line, text: visible(&text), start, end }
    })
}

/// A description of every frame except the innermost: where the code was inlined or called.
fn callers(place: &Place) -> Vec<String> {
    let describe = |frame: &SourceFrame| {
        let function =
            if frame.function.is_empty() { String::new() } else { format!(" in `{}`", frame.function) };
        format!("called at {}:{}{function}", frame.file, frame.line)
    };
    place.frames.iter().skip(1).map(describe).collect()
}

/// The threads, the address and the count of a finding: `block (1,0,0), warp 2, lanes 0-3,7; 12 times`.
fn threads(finding: &Finding) -> String {
    let mut parts = Vec::new();
    if let Some([x, y, z]) = finding.block {
        parts.push(format!("block ({x},{y},{z})"));
    }
    if let Some(warp) = finding.warp {
        parts.push(format!("warp {warp}"));
    }
    if finding.lanes != 0 {
        parts.push(lanes(finding.lanes));
    }
    if let Some(address) = finding.address {
        parts.push(format!("address {address:#x}"));
    }
    if let Some(allocation) = &finding.allocation {
        parts.push(format!("in {}", readable(allocation)));
    }
    let times = if finding.count > 1 { format!("; {} times", finding.count) } else { String::new() };
    parts.join(", ") + &times
}

/// The source name of a PTX variable. PTX calls a variable inside a function `_ZZ7reverseE4tile`: the mangled name ends
/// with the length of the variable's name and the name.
fn readable(name: &str) -> &str {
    if !name.starts_with("_Z") {
        return name;
    }
    let suffix = |digits: usize| {
        let rest = &name[name.len() - digits..];
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let length: usize = rest[..end].parse().ok()?;
        (end + length == rest.len()).then(|| &rest[end..])
    };
    (2..name.len())
        .filter(|&length| name.is_char_boundary(name.len() - length))
        .find_map(suffix)
        .unwrap_or(name)
}

/// The lanes of a mask, as ranges.
fn lanes(mask: u32) -> String {
    let mut ranges = Vec::new();
    let mut lane = 0;
    while lane < 32 {
        if mask >> lane & 1 == 0 {
            lane += 1;
            continue;
        }
        let first = lane;
        while lane < 32 && mask >> lane & 1 == 1 {
            lane += 1;
        }
        ranges.push(if lane - first == 1 { first.to_string() } else { format!("{first}-{}", lane - 1) });
    }
    let word = if mask.is_power_of_two() { "lane" } else { "lanes" };
    format!("{word} {}", ranges.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variables_in_functions_are_demangled() {
        assert_eq!(readable("_ZZ7reverseE4tile"), "tile");
        assert_eq!(readable("_ZZ8tree_sumE1s"), "s");
        assert_eq!(readable("x"), "x");
        assert_eq!(readable("_Z"), "_Z");
    }

    #[test]
    fn lanes_are_shown_as_ranges() {
        assert_eq!(lanes(1), "lane 0");
        assert_eq!(lanes(0b1000_1111), "lanes 0-3,7");
        assert_eq!(lanes(u32::MAX), "lanes 0-31");
        assert_eq!(lanes(1 << 31), "lane 31");
    }
}
