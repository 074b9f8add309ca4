//! `report.html`: the document as one page without scripts, which loads nothing. The page escapes every piece of text.

use std::io::{self, Write};

use runlog::RunState;
use text::escape::html as escape;

use super::TimeKind;
use super::document::{
    Block, Document, Figure, Line, List, ListKind, Notice, Piece, Section, SourceLine, Table, Tone,
};
use super::headline::Headline;
use super::sections::document;
use crate::export::Exporter;

/// Writes `report.html`.
#[derive(Debug)]
pub struct Html;

impl Exporter for Html {
    fn file_name(&self) -> &'static str {
        "report.html"
    }

    fn write(&self, state: &RunState, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(page(&document(state)).as_bytes())
    }
}

const STYLE: &str = include_str!("style.css");

/// The hatching of modelled bars, defined once for all figures.
const HATCH: &str = "<svg class=\"defs\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>\
    <pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
    <rect class=\"hatch-paper\" width=\"6\" height=\"6\"/><rect class=\"hatch-line\" width=\"2\" height=\"6\"/>\
    </pattern></defs></svg>\n";

/// A longer text may be cut off in the first column of a table. The title of its cell has all of it.
const LONG_NAME: usize = 48;

/// The whole page.
fn page(document: &Document) -> String {
    let sections = &document.sections;
    let contents = each(sections, |it| format!("<li><a href=\"#{}\">{}</a></li>\n", it.id, it.title));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"description\" content=\"{description}\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n{HATCH}\
         <header>\n{top}</header>\n<nav aria-label=\"contents\"><ul>\n{contents}</ul></nav>\n\
         <main>\n{body}</main>\n<footer>\n{footer}</footer>\n</body>\n</html>\n",
        description = escape(&document.headline.sentence),
        title = escape(&document.title),
        top = top(document),
        body = each(sections, section),
        footer = each(&document.footer, paragraph),
    )
}

fn top(document: &Document) -> String {
    let Document { run, headline, figures, notices, .. } = document;
    format!(
        "<p class=\"kicker\">{}</p>\n<h1>{}{}</h1>\n{}{}",
        escape(run),
        sentence(headline),
        headline.kind.map_or(String::new(), |kind| format!(" {}", tag(kind))),
        facts("figures", figures),
        each(notices, notice),
    )
}

/// The sentence of the headline, with its number in front in large type.
fn sentence(headline: &Headline) -> String {
    let figure = headline.figure.as_deref().unwrap_or_default();
    let words = headline.sentence.strip_prefix(figure).unwrap_or(&headline.sentence);
    let class = headline.kind.map_or("", TimeKind::word);
    let lead = if figure.is_empty() {
        String::new()
    } else {
        format!("<span class=\"lead {class}\">{}</span>", escape(figure))
    };
    format!("{lead}{}", line(&Line::with_knobs(words)))
}

fn notice(notice: &Notice) -> String {
    let (class, text) = match notice {
        Notice::Caution(text) => ("bad", line(text)),
        Notice::Remark(text) => ("", line(text)),
        Notice::Modelled => (
            "modelled",
            format!(
                "Times <i class=\"modelled\">in this style</i> and hatched bars are {}: the virtual GPU computed them. \
                 They rank kernels. They are never compared with measured times.",
                tag(TimeKind::Modelled)
            ),
        ),
    };
    format!("<p class=\"notice {class}\">{text}</p>\n")
}

fn section(section: &Section) -> String {
    let Section { id, title, body } = section;
    format!(
        "<section id=\"{id}\">\n<h2><a href=\"#{id}\">{title}</a></h2>\n{}</section>\n",
        each(body, block)
    )
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(title) => format!("<h3>{}</h3>\n", line(title)),
        Block::Paragraph(text) => paragraph(text),
        Block::Missing(text) => format!("<p class=\"missing\">{}</p>\n", escape(text)),
        Block::List(List { kind: ListKind::Ranked, items }) => {
            format!("<ol class=\"found\">\n{}</ol>\n", each(items, item))
        }
        Block::List(List { kind: ListKind::Plain, items }) => format!("<ul>\n{}</ul>\n", each(items, item)),
        Block::Pair(lists) => {
            let list = |(title, items): &(String, Vec<Line>)| {
                format!("<div><h3>{}</h3>\n<ol>\n{}</ol></div>\n", escape(title), each(items, item))
            };
            format!("<div class=\"pair\">\n{}</div>\n", each(lists, list))
        }
        Block::Facts(all) => facts("facts", all),
        Block::Table(table) => table_html(table),
        Block::Figure(figure) => figure_html(figure),
        Block::Commands(lines) => {
            format!("<pre tabindex=\"0\"><code>{}</code></pre>\n", escape(&lines.join("\n")))
        }
        Block::Source(lines) => source(lines),
        Block::Details(summary, body) => {
            let body = each(body, self::block);
            format!("<details><summary>{}</summary>\n{body}</details>\n", escape(summary))
        }
    }
}

fn paragraph(text: &Line) -> String {
    format!("<p>{}</p>\n", line(text))
}

fn item(text: &Line) -> String {
    format!("<li>{}</li>\n", line(text))
}

fn facts(class: &str, facts: &[(String, Line)]) -> String {
    let fact = |(name, value): &(String, Line)| {
        format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), line(value))
    };
    format!("<dl class=\"{class}\">\n{}</dl>\n", each(facts, fact))
}

fn figure_html(figure: &Figure) -> String {
    let Figure { kind, picture, caption, keys } = figure;
    let keys = if keys.is_empty() {
        String::new()
    } else {
        format!("<ol class=\"keys\">{}</ol>", each(keys, |key| format!("<li>{}</li>", line(key))))
    };
    let (kind, caption) = (kind.word(), line(caption));
    format!("<figure class=\"{kind}\">\n{picture}<figcaption>{caption}{keys}</figcaption>\n</figure>\n")
}

/// Source code with the share of each line in the margin.
fn source(lines: &[SourceLine]) -> String {
    let mut html = String::new();
    let mut before: Option<(&str, u32)> = None;
    for line in lines {
        let file = line.file.as_str();
        match before {
            Some((known, number)) if known == file && number + 1 == line.number => {}
            Some((known, _)) if known == file => html += "<i class=\"gap\">\u{22ee}</i>",
            _ => html += &format!("<b>{}</b>", escape(file)),
        }
        before = Some((file, line.number));
        let share = line.share_percent.map_or(String::new(), |share| format!("{share:.1}%"));
        let step = match line.share_percent.unwrap_or(0.0) {
            40.0.. => 4,
            15.0.. => 3,
            5.0.. => 2,
            1.0.. => 1,
            _ => 0,
        };
        html += &format!(
            "<span class=\"line hot-{step}\"><i>{share:>6}</i><i>{:>5}</i> {}</span>",
            line.number,
            escape(&line.text)
        );
    }
    format!("<pre class=\"listing\" tabindex=\"0\">{html}</pre>\n")
}

/// A table. A narrow page shows each row as a list of its cells, so every cell has the name of its column. A table of two
/// columns fits a narrow page as it is; a list would only be longer.
fn table_html(table: &Table) -> String {
    let class = |column: usize| if column >= table.numbers_from { " class=\"number\"" } else { "" };
    let head = each(table.head.iter().enumerate(), |(column, name)| {
        format!("<th scope=\"col\"{}>{}</th>", class(column), escape(name))
    });
    let row = |cells: &Vec<Line>| {
        let cells = each(cells.iter().zip(&table.head).enumerate(), |(column, (cell, name))| match column {
            0 => {
                let plain = plain(&cell.0);
                let title = if plain.chars().count() > LONG_NAME {
                    format!(" title=\"{}\"", escape(&plain))
                } else {
                    String::new()
                };
                format!("<th scope=\"row\"><div class=\"name\"{title}>{}</div></th>", line(cell))
            }
            _ => format!(
                "<td{} data-label=\"{}\"><span>{}</span></td>",
                class(column),
                escape(name),
                line(cell)
            ),
        });
        format!("<tr>{cells}</tr>\n")
    };
    let rows = each(&table.rows, row);
    let caption = escape(&table.caption);
    let kind = table.kind.map_or("", TimeKind::word);
    let columns = if table.head.len() == 2 { " class=\"two\"" } else { "" };
    format!(
        "<div class=\"box {kind}\">\n<p class=\"caption\">{caption}</p>\n<div class=\"scroll\" role=\"region\" \
         tabindex=\"0\" aria-label=\"{caption}\">\n<table{columns}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n\
         </table>\n</div>\n</div>\n"
    )
}

fn line(line: &Line) -> String {
    each(&line.0, piece)
}

fn piece(piece: &Piece) -> String {
    match piece {
        Piece::Text(text) => escape(text),
        Piece::Code(text) => format!("<code>{}</code>", escape(text)),
        Piece::Strong(text) => format!("<strong>{}</strong>", escape(text)),
        Piece::Faint(text) => format!("<span class=\"faint\">{}</span>", escape(text)),
        Piece::Small(text) => format!(" <small>{}</small>", escape(text)),
        Piece::Mark(tone, text) => {
            let class = match tone {
                Tone::Good => "good",
                Tone::Bad => "bad",
                Tone::Open => "open",
            };
            format!("<span class=\"mark {class}\">{}</span>", escape(text))
        }
        Piece::Tag(kind) => tag(*kind),
        Piece::Modelled { pieces, is_tagged } => {
            let tag = if *is_tagged { format!(" {}", tag(TimeKind::Modelled)) } else { String::new() };
            format!("<i class=\"modelled\">{}</i>{tag}", each(pieces, self::piece))
        }
        Piece::Meter(percent) => {
            let width = if percent.is_finite() { percent.clamp(0.0, 100.0) } else { 0.0 };
            format!("<span class=\"meter\"><i style=\"width:{width:.1}%\"></i></span>{percent:.1}%")
        }
        Piece::Link { id, text } => format!("<a href=\"#{id}\">{text}</a>"),
        Piece::Break => "<br/>".to_owned(),
    }
}

/// A label with the word for the kind.
fn tag(kind: TimeKind) -> String {
    let word = kind.word();
    format!("<em class=\"tag {word}\">{word}</em>")
}

/// The text of pieces, unescaped.
fn plain(pieces: &[Piece]) -> String {
    each(pieces, |piece| match piece {
        Piece::Text(text)
        | Piece::Code(text)
        | Piece::Strong(text)
        | Piece::Faint(text)
        | Piece::Mark(_, text) => text.clone(),
        Piece::Small(text) => format!(" {text}"),
        Piece::Tag(kind) => kind.word().to_owned(),
        Piece::Modelled { pieces, .. } => plain(pieces),
        Piece::Meter(percent) => format!("{percent:.1}%"),
        Piece::Link { text, .. } => (*text).to_owned(),
        Piece::Break => " ".to_owned(),
    })
}

/// Concatenates the HTML of all items.
fn each<T>(items: impl IntoIterator<Item = T>, show: impl Fn(T) -> String) -> String {
    items.into_iter().map(show).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_escaped() {
        let hostile = "<script>alert('1')</script>\"&\u{0}\u{202e}\u{7}";
        let mut table = Table::new(hostile, &[hostile, hostile], 1);
        table.row(vec![Line::text(hostile), Line::code(hostile).with_small(hostile)]);
        assert!(!table_html(&table).contains("<script"));
    }

    #[test]
    fn knobs_are_code_and_everything_else_is_escaped() {
        assert_eq!(
            line(&Line::with_knobs("mma STAGES=3 BLOCK_N=32: <b> A=<b>, X=1.")),
            "mma <code>STAGES=3</code> <code>BLOCK_N=32</code>: &lt;b&gt; A=&lt;b&gt;, <code>X=1</code>."
        );
    }

    #[test]
    fn the_bar_of_a_meter_stays_between_0_and_100_per_cent() {
        assert!(line(&Line::meter(250.0)).contains("width:100.0%"));
        assert!(line(&Line::meter(f64::NAN)).contains("width:0.0%"));
    }
}
