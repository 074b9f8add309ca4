//! HTML in small pieces. What comes from outside becomes [`HtmlFragment::text`]; a table takes pieces, so that nothing gets into
//! one unescaped.

use std::fmt;

use super::Kind;

/// Text that is fit to stand in a page as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HtmlFragment(String);

impl HtmlFragment {
    /// Any text at all.
    pub fn text(text: impl fmt::Display) -> Self {
        HtmlFragment(escape(&text.to_string()))
    }

    /// What this program wrote itself.
    pub fn html(html: String) -> Self {
        HtmlFragment(html)
    }

    pub fn code(text: impl fmt::Display) -> Self {
        HtmlFragment(format!("<code>{}</code>", escape(&text.to_string())))
    }

    pub fn faint(text: impl fmt::Display) -> Self {
        HtmlFragment(format!("<span class=\"faint\">{}</span>", escape(&text.to_string())))
    }

    /// A value with something smaller after it.
    pub fn with(self, small: impl fmt::Display) -> Self {
        HtmlFragment(format!("{} <small>{}</small>", self.0, escape(&small.to_string())))
    }

    /// A word in a colour that has the same meaning.
    pub fn mark(tone: Tone, text: impl fmt::Display) -> Self {
        HtmlFragment(format!("<span class=\"mark {}\">{}</span>", tone.class(), escape(&text.to_string())))
    }

    /// A time that says how it was come by.
    pub fn time(kind: Kind, text: impl fmt::Display) -> Self {
        let text = escape(&text.to_string());
        match kind {
            Kind::Measured => HtmlFragment(text),
            Kind::Modelled => {
                HtmlFragment(format!("<i class=\"modelled\">{text}</i> {}", tag(Kind::Modelled)))
            }
        }
    }

    /// A piece in a table of times of that kind, which says the word itself.
    pub fn of(self, kind: Kind) -> Self {
        match kind {
            Kind::Measured => self,
            Kind::Modelled => HtmlFragment(format!("<i class=\"modelled\">{self}</i>")),
        }
    }

    /// A share as a number with a small bar.
    pub fn meter(percent: f64) -> Self {
        let width = if percent.is_finite() { percent.clamp(0.0, 100.0) } else { 0.0 };
        HtmlFragment(format!("<span class=\"meter\"><i style=\"width:{width:.1}%\"></i></span>{percent:.1}%"))
    }
}

impl fmt::Display for HtmlFragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Good,
    Bad,
    Open,
}

impl Tone {
    pub fn class(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Bad => "bad",
            Tone::Open => "open",
        }
    }
}

/// The word a time of this kind goes with.
pub fn tag(kind: Kind) -> HtmlFragment {
    let word = kind.word();
    HtmlFragment(format!("<em class=\"tag {word}\">{word}</em>"))
}

/// Nothing in the text has a meaning to a browser any more; what no page may hold is left out.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(c),
            // Characters that turn the direction of text around could make a name look like another.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => {}
            c => escaped.push(c),
        }
    }
    escaped
}

/// A title for a piece that may be cut: its text without tags.
fn whole(piece: &HtmlFragment) -> String {
    let mut text = String::new();
    let mut in_tag = false;
    for c in piece.0.chars() {
        match c {
            '<' => in_tag = true,
            '>' => in_tag = false,
            c if !in_tag => text.push(c),
            _ => {}
        }
    }
    if text.chars().count() > 48 { format!(" title=\"{text}\"") } else { String::new() }
}

/// A table in a box of its own that scrolls where the page is narrow. The first column names the row.
#[derive(Debug)]
pub struct Table {
    caption: String,
    head: Vec<HtmlFragment>,
    /// Columns from here on hold numbers.
    numbers_from: usize,
    rows: Vec<Vec<HtmlFragment>>,
    kind: Option<Kind>,
}

impl Table {
    pub fn new(caption: &str, head: &[&str], numbers_from: usize) -> Self {
        Table {
            caption: caption.to_owned(),
            head: head.iter().map(HtmlFragment::text).collect(),
            numbers_from,
            rows: Vec::new(),
            kind: None,
        }
    }

    /// A table of times.
    pub fn for_kind(kind: Kind, caption: &str, head: &[&str], numbers_from: usize) -> Self {
        Table { kind: Some(kind), ..Table::new(caption, head, numbers_from) }
    }

    pub fn row(&mut self, cells: Vec<HtmlFragment>) {
        self.rows.push(cells);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn html(&self) -> String {
        let class = |column: usize| if column >= self.numbers_from { " class=\"number\"" } else { "" };
        let head = each(self.head.iter().enumerate(), |(column, cell)| {
            format!("<th scope=\"col\"{}>{cell}</th>", class(column))
        });
        let row = |cells: &Vec<HtmlFragment>| {
            let cells = cells.iter().enumerate().map(|(column, cell)| match column {
                // A name that takes more room than a row should is cut, and shown whole on hovering.
                0 => format!("<th scope=\"row\"><div class=\"name\"{}>{cell}</div></th>", whole(cell)),
                _ => format!("<td{}>{cell}</td>", class(column)),
            });
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let rows: String = self.rows.iter().map(row).collect();
        let caption = escape(&self.caption);
        let kind = self.kind.map_or("", Kind::word);
        format!(
            "<div class=\"box {kind}\">\n<p class=\"caption\">{caption}</p>\n<div class=\"scroll\" role=\"region\" \
             tabindex=\"0\" aria-label=\"{caption}\">\n<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n\
             </table>\n</div>\n</div>\n"
        )
    }
}

pub fn paragraph(piece: &HtmlFragment) -> String {
    format!("<p>{piece}</p>\n")
}

/// What each item gives, one after the other.
pub fn each<T>(items: impl IntoIterator<Item = T>, show: impl Fn(T) -> String) -> String {
    items.into_iter().map(show).collect()
}

/// A line for what is not there.
pub fn missing(text: &str) -> String {
    format!("<p class=\"missing\">{}</p>\n", escape(text))
}

pub fn heading(text: &str) -> String {
    format!("<h3>{}</h3>\n", escape(text))
}

/// What most readers need not see at once.
pub fn details(summary: &str, body: &str) -> String {
    format!("<details><summary>{}</summary>\n{body}</details>\n", escape(summary))
}

/// A picture with what it shows.
pub fn figure(kind: Option<Kind>, picture: &str, caption: &HtmlFragment) -> String {
    let kind = kind.map_or("", Kind::word);
    format!("<figure class=\"{kind}\">\n{picture}<figcaption>{caption}</figcaption>\n</figure>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_means_anything_to_a_browser() {
        let hostile = "<script>alert('1')</script>\"&\u{0}\u{202e}\u{7}";
        assert_eq!(escape(hostile), "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp;");
        let mut table = Table::new(hostile, &[hostile], 1);
        table.row(vec![HtmlFragment::text(hostile)]);
        assert!(!table.html().contains("<script"));
    }

    #[test]
    fn a_meter_stays_in_its_box() {
        assert!(HtmlFragment::meter(250.0).to_string().contains("width:100.0%"));
        assert!(HtmlFragment::meter(f64::NAN).to_string().contains("width:0.0%"));
    }
}
