//! Renders findings of the virtual GPU like compiler messages, with the lines of the CUDA source.

use std::path::Path;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use text::count;
use text::escape::{one_line, visible};
use vgpu::{Finding, Kind, LaunchReport, Place, Severity, SourceFrame};

/// Maps a file name of the line table to the text of the file.
pub type Texts<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Whether two findings probably have one cause: they have one severity and a place in common (a missing barrier makes
/// one store race with many loads), or they access one allocation out of bounds in one function. A place is a line with
/// the calls that led to it: two calls of one helper function have two causes. An uninitialised read may be the
/// consequence of a race at the same place.
fn have_one_cause(one: &Finding, other: &Finding) -> bool {
    fn lines(frames: &[SourceFrame]) -> impl Iterator<Item = (&str, u32)> {
        frames.iter().map(|frame| (frame.file.as_str(), frame.line))
    }
    fn places(finding: &Finding) -> impl Iterator<Item = &[SourceFrame]> {
        let places = std::iter::once(&finding.place).chain(finding.related.iter().map(|it| &it.place));
        places.map(|place| place.frames.as_slice()).filter(|frames| !frames.is_empty())
    }
    let shares_place = || places(one).any(|place| places(other).any(|it| lines(place).eq(lines(it))));
    let in_one_function = || match (one.place.frames.split_first(), other.place.frames.split_first()) {
        (Some((inner, calls)), Some((other_inner, other_calls))) => {
            inner.function == other_inner.function && lines(calls).eq(lines(other_calls))
        }
        (None, None) => true,
        _ => false,
    };
    let kinds = [one.kind, other.kind];
    one.severity == other.severity
        && match kinds {
            [Kind::OutOfBounds, Kind::OutOfBounds] => {
                one.allocation.is_some() && one.allocation == other.allocation && in_one_function()
            }
            [Kind::Race, Kind::Uninitialised] | [Kind::Uninitialised, Kind::Race] => shares_place(),
            [a, b] => a == b && shares_place(),
        }
}

/// The findings by cause: indices of findings, in their order.
pub fn causes(findings: &[Finding]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, finding) in findings.iter().enumerate() {
        let belongs = |group: &Vec<usize>| group.iter().any(|it| have_one_cause(&findings[*it], finding));
        // A finding may have its cause in common with several groups, which then become one.
        let (same, mut rest): (Vec<_>, Vec<_>) = groups.into_iter().partition(belongs);
        let mut joined: Vec<usize> = same.into_iter().flatten().chain([index]).collect();
        joined.sort_unstable();
        rest.push(joined);
        rest.sort_unstable();
        groups = rest;
    }
    groups
}

/// The lines of the findings of a cause beyond the first, in a note; `None` if there are none.
pub fn others(group: &[&Finding]) -> Option<String> {
    const MOST: usize = 12;
    let rest = group.get(1..).filter(|rest| !rest.is_empty())?;
    let mut places: Vec<String> = Vec::new();
    for finding in rest {
        let place = match finding.place.frames.first() {
            Some(frame) => format!("{}:{}", frame.file, frame.line),
            None => format!("PTX line {}", finding.place.ptx_line),
        };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let more = places.len().saturating_sub(MOST);
    places.truncate(MOST);
    let more = if more > 0 { format!(" and {}", count(more, "other line")) } else { String::new() };
    let verb = if rest.len() == 1 { "probably has" } else { "probably have" };
    let text =
        format!("{} {verb} the same cause: {}{more}", count(rest.len(), "more finding"), places.join(", "));
    Some(one_line(&text))
}

/// One finding, with its source lines, the threads that caused it and how often it occurred.
pub fn render(finding: &Finding, sources: &Texts, renderer: &Renderer) -> String {
    render_cause(&[finding], sources, renderer)
}

/// The findings of one cause: the first as [`render`] does, and the lines of the others.
pub fn render_cause(group: &[&Finding], sources: &Texts, renderer: &Renderer) -> String {
    let Some(&finding) = group.first() else { return String::new() };
    let others = others(group);
    let related = finding.related.iter().map(|related| (related.label.as_str(), &related.place)).collect();
    let notes = [threads(finding)].into_iter().filter(|note| !note.is_empty()).chain(others).collect();
    let kind = finding.kind.name();
    let message = Message {
        level: finding.severity,
        kind,
        text: &finding.message,
        place: &finding.place,
        related,
        notes,
    };
    message.render(sources, renderer)
}

/// A finding of any kind, about a kernel or about host code.
#[derive(Debug)]
pub struct Message<'a> {
    /// Its severity.
    pub level: Severity,
    /// The name of its kind.
    pub kind: &'a str,
    /// What is wrong.
    pub text: &'a str,
    /// Where.
    pub place: &'a Place,
    /// Other places with their labels.
    pub related: Vec<(&'a str, &'a Place)>,
    /// Sentences below.
    pub notes: Vec<String>,
}

impl Message<'_> {
    /// The text for a terminal, with source lines.
    pub fn render(&self, sources: &Texts, renderer: &Renderer) -> String {
        let level = match self.level {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        // Names, file names and lines come from the program, so their control characters are escaped.
        let title = one_line(&format!("[{}] {}", self.kind, self.text));
        // The groups below borrow these texts.
        let primary = quote(self.place, sources);
        let related: Vec<(String, Option<Quote>)> =
            self.related.iter().map(|(label, place)| (one_line(label), quote(place, sources))).collect();
        let calls: Vec<String> = callers(self.place).iter().map(|call| one_line(call)).collect();
        let notes: Vec<String> = self.notes.iter().map(|note| one_line(note)).collect();

        let mut shown = Group::with_title(level.primary_title(title.as_str()));
        if let Some(quote) = &primary {
            shown = shown.element(quote.snippet(AnnotationKind::Primary, None));
        } else if self.place.ptx_line > 0 {
            shown = shown.element(Level::NOTE.message(format!("at PTX line {}", self.place.ptx_line)));
        }
        for call in &calls {
            shown = shown.element(Level::NOTE.message(call.as_str()));
        }
        for (label, quote) in &related {
            match quote {
                Some(quote) => {
                    shown = shown.element(quote.snippet(AnnotationKind::Context, Some(label)));
                }
                None => shown = shown.element(Level::NOTE.message(label.as_str())),
            }
        }
        for note in &notes {
            shown = shown.element(Level::NOTE.message(note.as_str()));
        }
        renderer.render(&[shown])
    }
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

    /// A finding at a line of a helper function that a kernel calls at another line.
    fn in_helper(kind: Kind, line: u32, call: u32) -> Finding {
        let frame = |line, function: &str| SourceFrame {
            file: "a.cu".to_owned(),
            line,
            column: 1,
            function: function.to_owned(),
        };
        let place = Place { frames: vec![frame(line, "load"), frame(call, "kernel")], ..Place::default() };
        Finding {
            kind,
            severity: Severity::Error,
            message: String::new(),
            kernel: "kernel".to_owned(),
            block: None,
            warp: None,
            lanes: 1,
            address: None,
            space: None,
            allocation: Some("x".to_owned()),
            place,
            related: vec![],
            count: 1,
        }
    }

    #[test]
    fn two_calls_of_one_helper_function_have_two_causes() {
        for kind in [Kind::OutOfBounds, Kind::Race, Kind::Uninitialised] {
            let findings = [in_helper(kind, 3, 10), in_helper(kind, 3, 20), in_helper(kind, 3, 10)];
            assert_eq!(causes(&findings), [vec![0, 2], vec![1]], "{kind:?}");
        }
        let lines_of_one_call = [in_helper(Kind::OutOfBounds, 3, 10), in_helper(Kind::OutOfBounds, 4, 10)];
        assert_eq!(causes(&lines_of_one_call).len(), 1);
    }

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
