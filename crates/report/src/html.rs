//! Builds HTML from escaped fragments. Text from the log becomes [`HtmlFragment::text`]. A table accepts only
//! fragments, so that nothing enters it unescaped.

use std::fmt;

pub use text::escape::html as escape;

use super::TimeKind;

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

/// A title attribute for a cell that may be cut off: its text without tags.
fn title_attribute(fragment: &HtmlFragment) -> String {
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
    if text.chars().count() > 48 { format!(" title=\"{text}\"") } else { String::new() }
}

/// A table that scrolls horizontally on a narrow page. The first column names the row.
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
        let row = |cells: &Vec<HtmlFragment>| {
            let cells = cells.iter().enumerate().map(|(column, cell)| match column {
                // The style sheet cuts off a long name; the title shows all of it.
                0 => format!(
                    "<th scope=\"row\"><div class=\"name\"{}>{cell}</div></th>",
                    title_attribute(cell)
                ),
                _ => format!("<td{}>{cell}</td>", class(column)),
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
    fn the_bar_of_a_meter_stays_between_0_and_100_per_cent() {
        assert!(HtmlFragment::meter(250.0).to_string().contains("width:100.0%"));
        assert!(HtmlFragment::meter(f64::NAN).to_string().contains("width:0.0%"));
    }
}
