//! Builds HTML from escaped fragments. Text from the log becomes [`HtmlFragment::text`]. A table accepts only
//! fragments, so that nothing enters it unescaped.

use std::fmt;

pub use text::escape::html as escape;

use super::TimeKind;
use super::words::is_knob;

/// HTML that is safe to insert into a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HtmlFragment(String);

impl HtmlFragment {
    /// Escapes any text.
    pub fn text(text: impl fmt::Display) -> Self {
        HtmlFragment(escape(&text.to_string()))
    }

    /// Wraps HTML that this program generated.
    pub fn html(html: String) -> Self {
        HtmlFragment(html)
    }

    /// Text in a code font.
    pub fn code(text: impl fmt::Display) -> Self {
        HtmlFragment(format!("<code>{}</code>", escape(&text.to_string())))
    }

    /// Text with its knobs (`STAGES=3`) in a code font.
    pub fn with_knobs(text: impl fmt::Display) -> Self {
        let word = |word: &str| {
            // Punctuation after a knob is not a part of it.
            let bare = word.trim_end_matches([' ', ',', ':', ';', '.', ')']);
            if is_knob(bare) {
                format!("<code>{}</code>{}", escape(bare), escape(&word[bare.len()..]))
            } else {
                escape(word)
            }
        };
        HtmlFragment(text.to_string().split_inclusive(' ').map(word).collect())
    }

    /// Text in a faint colour.
    pub fn faint(text: impl fmt::Display) -> Self {
        HtmlFragment(format!("<span class=\"faint\">{}</span>", escape(&text.to_string())))
    }

    /// Appends text in a smaller font.
    pub fn with_small(self, small: impl fmt::Display) -> Self {
        HtmlFragment(format!("{} <small>{}</small>", self.0, escape(&small.to_string())))
    }

    /// A word in the colour of its tone.
    pub fn mark(tone: Tone, text: impl fmt::Display) -> Self {
        HtmlFragment(format!("<span class=\"mark {}\">{}</span>", tone.class(), escape(&text.to_string())))
    }

    /// A time. A modelled time is marked as such.
    pub fn time(kind: TimeKind, text: impl fmt::Display) -> Self {
        let text = escape(&text.to_string());
        match kind {
            TimeKind::Measured => HtmlFragment(text),
            TimeKind::Modelled => {
                HtmlFragment(format!("<i class=\"modelled\">{text}</i> {}", tag(TimeKind::Modelled)))
            }
        }
    }

    /// Applies the style of a kind, for tables that name the kind in their caption.
    pub fn styled_as(self, kind: TimeKind) -> Self {
        match kind {
            TimeKind::Measured => self,
            TimeKind::Modelled => HtmlFragment(format!("<i class=\"modelled\">{self}</i>")),
        }
    }

    /// A percentage with a small bar.
    pub fn meter(percent: f64) -> Self {
        // The share of nothing can be -0.0.
        let percent = percent + 0.0;
        let width = if percent.is_finite() { percent.clamp(0.0, 100.0) } else { 0.0 };
        HtmlFragment(format!("<span class=\"meter\"><i style=\"width:{width:.1}%\"></i></span>{percent:.1}%"))
    }
}

impl fmt::Display for HtmlFragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The colour of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// A good result.
    Good,
    /// A bad result.
    Bad,
    /// An undecided result.
    Open,
}

impl Tone {
    /// The CSS class.
    pub fn class(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Bad => "bad",
            Tone::Open => "open",
        }
    }
}

/// A label with the word for the kind.
pub fn tag(kind: TimeKind) -> HtmlFragment {
    let word = kind.word();
    HtmlFragment(format!("<em class=\"tag {word}\">{word}</em>"))
}

/// The text of a fragment, escaped for an attribute.
fn without_tags(fragment: &HtmlFragment) -> String {
    let mut text = String::new();
    let mut in_tag = false;
    for c in fragment.0.chars() {
        match c {
            '<' => in_tag = true,
            '>' => in_tag = false,
            c if !in_tag => text.push(c),
            _ => {}
        }
    }
    text
}

/// A title attribute for a cell that may be cut off: its text without tags.
fn title_attribute(fragment: &HtmlFragment) -> String {
    let text = without_tags(fragment);
    if text.chars().count() > 48 { format!(" title=\"{text}\"") } else { String::new() }
}

/// A table. The first column names the row. A narrow page shows each row as a list of its cells.
#[derive(Debug)]
pub struct Table {
    caption: String,
    head: Vec<HtmlFragment>,
    /// The index of the first column with numbers.
    numbers_from: usize,
    rows: Vec<Vec<HtmlFragment>>,
    kind: Option<TimeKind>,
}

impl Table {
    /// An empty table.
    pub fn new(caption: &str, head: &[&str], numbers_from: usize) -> Self {
        Table {
            caption: caption.to_owned(),
            head: head.iter().map(HtmlFragment::text).collect(),
            numbers_from,
            rows: Vec::new(),
            kind: None,
        }
    }

    /// An empty table of times of one kind.
    pub fn for_kind(kind: TimeKind, caption: &str, head: &[&str], numbers_from: usize) -> Self {
        Table { kind: Some(kind), ..Table::new(caption, head, numbers_from) }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<HtmlFragment>) {
        self.rows.push(cells);
    }

    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as HTML.
    pub fn html(&self) -> String {
        let class = |column: usize| if column >= self.numbers_from { " class=\"number\"" } else { "" };
        let head = each(self.head.iter().enumerate(), |(column, cell)| {
            format!("<th scope=\"col\"{}>{cell}</th>", class(column))
        });
        // A narrow page shows each row as a list, so every cell carries the name of its column.
        let labels: Vec<String> =
            self.head.iter().map(|cell| format!(" data-label=\"{}\"", without_tags(cell))).collect();
        let row = |cells: &Vec<HtmlFragment>| {
            let cells = cells.iter().enumerate().map(|(column, cell)| match column {
                // The style sheet cuts off a long name; the title shows all of it.
                0 => format!(
                    "<th scope=\"row\"><div class=\"name\"{}>{cell}</div></th>",
                    title_attribute(cell)
                ),
                _ => format!(
                    "<td{}{}><span>{cell}</span></td>",
                    class(column),
                    labels.get(column).map_or("", String::as_str)
                ),
            });
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let rows: String = self.rows.iter().map(row).collect();
        let caption = escape(&self.caption);
        let kind = self.kind.map_or("", TimeKind::word);
        format!(
            "<div class=\"box {kind}\">\n<p class=\"caption\">{caption}</p>\n<div class=\"scroll\" role=\"region\" \
             tabindex=\"0\" aria-label=\"{caption}\">\n<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n\
             </table>\n</div>\n</div>\n"
        )
    }
}

/// A paragraph.
pub fn paragraph(fragment: &HtmlFragment) -> String {
    format!("<p>{fragment}</p>\n")
}

/// Concatenates the HTML of all items.
pub fn each<T>(items: impl IntoIterator<Item = T>, show: impl Fn(T) -> String) -> String {
    items.into_iter().map(show).collect()
}

/// A line that says what is missing.
pub fn missing(text: &str) -> String {
    format!("<p class=\"missing\">{}</p>\n", escape(text))
}

/// A heading inside a section.
pub fn heading(text: &str) -> String {
    format!("<h3>{}</h3>\n", escape(text))
}

/// A collapsed block for details.
pub fn details(summary: &str, body: &str) -> String {
    format!("<details><summary>{}</summary>\n{body}</details>\n", escape(summary))
}

/// A picture with a caption.
pub fn figure(kind: Option<TimeKind>, picture: &str, caption: &HtmlFragment) -> String {
    let kind = kind.map_or("", TimeKind::word);
    format!("<figure class=\"{kind}\">\n{picture}<figcaption>{caption}</figcaption>\n</figure>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_escaped() {
        let hostile = "<script>alert('1')</script>\"&\u{0}\u{202e}\u{7}";
        let mut table = Table::new(hostile, &[hostile], 1);
        table.row(vec![HtmlFragment::text(hostile)]);
        assert!(!table.html().contains("<script"));
    }

    #[test]
    fn knobs_are_code_and_everything_else_is_escaped() {
        let fragment = HtmlFragment::with_knobs("mma STAGES=3 BLOCK_N=32: <b> A=<b>, X=1.");
        assert_eq!(
            fragment.to_string(),
            "mma <code>STAGES=3</code> <code>BLOCK_N=32</code>: &lt;b&gt; A=&lt;b&gt;, <code>X=1</code>."
        );
    }

    #[test]
    fn the_bar_of_a_meter_stays_between_0_and_100_per_cent() {
        assert!(HtmlFragment::meter(250.0).to_string().contains("width:100.0%"));
        assert!(HtmlFragment::meter(f64::NAN).to_string().contains("width:0.0%"));
    }
}
