//! The report as a document: sections of blocks, blocks of lines, lines of pieces.
//!
//! `sections` fills it from the facts; `html` and `markdown` are its formats. All text in it is unescaped: a format escapes
//! every piece, so nothing enters a file unescaped.

use std::fmt;

use super::TimeKind;
use super::headline::Headline;
use super::words::is_knob;

/// The whole report.
#[derive(Debug)]
pub struct Document {
    /// The title of the page.
    pub title: String,
    /// The line above the headline: the command, its time and the device.
    pub run: String,
    /// The main result.
    pub headline: Headline,
    /// The key figures of the run, with their names.
    pub figures: Vec<(String, Line)>,
    /// What a reader must know before the results.
    pub notices: Vec<Notice>,
    /// The sections.
    pub sections: Vec<Section>,
    /// What the run does not contain, and the source of the numbers.
    pub footer: Vec<Line>,
}

/// A remark at the top of the report.
#[derive(Debug)]
pub enum Notice {
    /// The results need this caution.
    Caution(Line),
    /// Modelled times occur. Each format says how it marks them.
    Modelled,
    /// A remark.
    Remark(Line),
}

/// A part of the report with a title.
#[derive(Debug)]
pub struct Section {
    /// The name for links.
    pub id: &'static str,
    /// The title.
    pub title: &'static str,
    /// The contents.
    pub body: Vec<Block>,
}

impl Section {
    /// A section with its contents.
    pub fn new(id: &'static str, title: &'static str, body: Vec<Block>) -> Self {
        Section { id, title, body }
    }
}

/// A part of a section.
#[derive(Debug)]
pub enum Block {
    /// A heading inside a section.
    Heading(Line),
    /// A paragraph.
    Paragraph(Line),
    /// A sentence that says what is missing.
    Missing(String),
    /// A list.
    List(List),
    /// Two lists that belong together, each with its title.
    Pair([(String, Vec<Line>); 2]),
    /// Names with their values.
    Facts(Vec<(String, Line)>),
    /// A table.
    Table(Table),
    /// A picture.
    Figure(Figure),
    /// Lines of a shell.
    Commands(Vec<String>),
    /// Lines of source code.
    Source(Vec<SourceLine>),
    /// Blocks that a reader opens.
    Details(String, Vec<Block>),
}

/// The look of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// In the order of importance.
    Ranked,
    /// In any order.
    Plain,
}

/// A list.
#[derive(Debug)]
pub struct List {
    /// Its look.
    pub kind: ListKind,
    /// Its items.
    pub items: Vec<Line>,
}

/// A picture. Formats without pictures leave it out.
#[derive(Debug)]
pub struct Figure {
    /// How its times were obtained.
    pub kind: TimeKind,
    /// The picture as SVG.
    pub picture: String,
    /// The text below it.
    pub caption: Line,
    /// The meaning of the numbers in the picture, from 1 on.
    pub keys: Vec<Line>,
}

/// A line of source code.
#[derive(Debug)]
pub struct SourceLine {
    /// The file.
    pub file: String,
    /// Its number in the file.
    pub number: u32,
    /// Its share of what was counted, in per cent.
    pub share_percent: Option<f64>,
    /// Its text.
    pub text: String,
}

/// A piece of a line, unescaped.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Plain text.
    Text(String),
    /// Text in a code font.
    Code(String),
    /// Important text.
    Strong(String),
    /// Less important text.
    Faint(String),
    /// Additional text after something else, in a smaller font.
    Small(String),
    /// A verdict in the colour of its tone.
    Mark(Tone, String),
    /// The word for a kind.
    Tag(TimeKind),
    /// Modelled times. `is_tagged`: with the word for the kind, where nothing near it says so.
    Modelled {
        /// The text.
        pieces: Vec<Piece>,
        /// Whether the word follows.
        is_tagged: bool,
    },
    /// A percentage with a small bar.
    Meter(f64),
    /// A link to a section.
    Link {
        /// The section.
        id: &'static str,
        /// The text.
        text: &'static str,
    },
    /// A new line within a list item.
    Break,
}

/// A line of text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line(pub Vec<Piece>);

impl Line {
    /// Plain text.
    pub fn text(text: impl fmt::Display) -> Self {
        Line(vec![Piece::Text(text.to_string())])
    }

    /// Text in a code font.
    pub fn code(text: impl fmt::Display) -> Self {
        Line(vec![Piece::Code(text.to_string())])
    }

    /// Important text.
    pub fn strong(text: impl fmt::Display) -> Self {
        Line(vec![Piece::Strong(text.to_string())])
    }

    /// Text with its knobs (`STAGES=3`) in a code font.
    pub fn with_knobs(text: impl fmt::Display) -> Self {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        for word in text.to_string().split_inclusive(' ') {
            // Punctuation after a knob is not a part of it.
            let bare = word.trim_end_matches([' ', ',', ':', ';', '.', ')']);
            if is_knob(bare) {
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(Piece::Code(bare.to_owned()));
                plain += &word[bare.len()..];
            } else {
                plain += word;
            }
        }
        pieces.push(Piece::Text(plain));
        Line(pieces)
    }

    /// Less important text.
    pub fn faint(text: impl fmt::Display) -> Self {
        Line(vec![Piece::Faint(text.to_string())])
    }

    /// A verdict in the colour of its tone.
    pub fn mark(tone: Tone, text: impl fmt::Display) -> Self {
        Line(vec![Piece::Mark(tone, text.to_string())])
    }

    /// A time. A modelled time is marked as such.
    pub fn time(kind: TimeKind, text: impl fmt::Display) -> Self {
        match kind {
            TimeKind::Measured => Line::text(text),
            TimeKind::Modelled => Line(vec![Piece::Modelled { pieces: Line::text(text).0, is_tagged: true }]),
        }
    }

    /// A percentage with a small bar.
    pub fn meter(percent: f64) -> Self {
        // The share of nothing can be -0.0.
        Line(vec![Piece::Meter(percent + 0.0)])
    }

    /// Appends text in a smaller font.
    pub fn with_small(self, small: impl fmt::Display) -> Self {
        self.and(Piece::Small(small.to_string()))
    }

    /// Appends plain text.
    pub fn with_text(self, text: impl fmt::Display) -> Self {
        self.and(Piece::Text(text.to_string()))
    }

    /// Appends a piece.
    pub fn and(mut self, piece: Piece) -> Self {
        self.0.push(piece);
        self
    }

    /// Appends the lines, with a separator between them.
    pub fn joined(lines: impl IntoIterator<Item = Line>, separator: &str) -> Self {
        let mut all = Line::default();
        for (index, line) in lines.into_iter().enumerate() {
            if index > 0 {
                all.0.push(Piece::Text(separator.to_owned()));
            }
            all.0.extend(line.0);
        }
        all
    }

    /// Applies the style of a kind, where something near names the kind.
    pub fn styled_as(self, kind: TimeKind) -> Self {
        match kind {
            TimeKind::Measured => self,
            TimeKind::Modelled => Line(vec![Piece::Modelled { pieces: self.0, is_tagged: false }]),
        }
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

/// A table. The first column names the row.
#[derive(Debug)]
pub struct Table {
    /// What the table shows.
    pub caption: String,
    /// The names of the columns.
    pub head: Vec<String>,
    /// The index of the first column with numbers.
    pub numbers_from: usize,
    /// The rows, each with as many cells as the head.
    pub rows: Vec<Vec<Line>>,
    /// How its times were obtained; `None` if it has none, or of both kinds.
    pub kind: Option<TimeKind>,
}

impl Table {
    /// An empty table.
    pub fn new(caption: &str, head: &[&str], numbers_from: usize) -> Self {
        Table {
            caption: caption.to_owned(),
            head: head.iter().map(ToString::to_string).collect(),
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
    pub fn row(&mut self, cells: Vec<Line>) {
        self.rows.push(cells);
    }

    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as a block.
    pub fn block(self) -> Block {
        Block::Table(self)
    }
}

/// A heading inside a section.
pub fn heading(text: &str) -> Block {
    Block::Heading(Line::text(text))
}

/// A sentence that says what is missing.
pub fn missing(text: &str) -> Block {
    Block::Missing(text.to_owned())
}

/// Blocks that a reader opens.
pub fn details(summary: &str, body: Vec<Block>) -> Block {
    Block::Details(summary.to_owned(), body)
}

/// A list.
pub fn list(kind: ListKind, items: impl IntoIterator<Item = Line>) -> Block {
    Block::List(List { kind, items: items.into_iter().collect() })
}

/// A picture whose caption explains everything in it.
pub fn figure(kind: TimeKind, picture: String, caption: impl fmt::Display) -> Block {
    figure_with_keys(kind, picture, caption, Vec::new())
}

/// A picture with numbers that a list explains.
pub fn figure_with_keys(
    kind: TimeKind,
    picture: String,
    caption: impl fmt::Display,
    keys: Vec<Line>,
) -> Block {
    Block::Figure(Figure { kind, picture, caption: Line::text(caption), keys })
}
