//! `summary.md`: the document as Markdown, without its pictures. The numbers of most pictures are in tables, too.

use std::fmt::Write as _;
use std::io::{self, Write};

use runlog::RunState;
use text::escape::{html, markdown as escaped, markdown_code};

use super::document::{Block, Document, Line, List, ListKind, Notice, Piece, SourceLine, Table, Tone};
use super::sections::document;
use crate::export::Exporter;

/// Writes `summary.md`.
#[derive(Debug)]
pub struct Markdown;

impl Exporter for Markdown {
    fn file_name(&self) -> &'static str {
        "summary.md"
    }

    fn write(&self, state: &RunState, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(summary(&document(state)).as_bytes())
    }
}

fn summary(document: &Document) -> String {
    let Document { title, headline, figures, notices, sections, footer, .. } = document;
    let mut out = format!("# {}\n\n", escaped(title));
    // Bold text cannot contain a code span with bold parts, so the sentence has code spans only.
    let _ = writeln!(out, "**{}**\n", line(&Line::with_knobs(&headline.sentence)));
    for notice in notices {
        let text = match notice {
            Notice::Caution(text) => format!("**{}**", line(text)),
            Notice::Remark(text) => paragraph(text),
            Notice::Modelled => {
                "Modelled times are computed by the virtual GPU. They rank kernels. They are never \
                                 compared with measured times."
                    .to_owned()
            }
        };
        let _ = writeln!(out, "{text}\n");
    }
    facts(&mut out, figures);
    for section in sections {
        let _ = writeln!(out, "## {}\n", section.title);
        blocks(&mut out, &section.body);
    }
    for text in footer {
        let _ = writeln!(out, "{}\n", paragraph(text));
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

/// Writes blocks. A heading is left out if only pictures follow it.
fn blocks(out: &mut String, all: &[Block]) {
    let mut title = None;
    for block in all {
        match block {
            Block::Heading(text) => title = Some(text),
            Block::Figure(_) => {}
            other => {
                if let Some(title) = title.take() {
                    let _ = writeln!(out, "### {}\n", line(title));
                }
                self::block(out, other);
            }
        }
    }
}

fn block(out: &mut String, block: &Block) {
    // Writing to a string cannot fail.
    let _ = match block {
        Block::Heading(_) | Block::Figure(_) => Ok(()),
        Block::Paragraph(text) => writeln!(out, "{}\n", paragraph(text)),
        Block::Missing(text) => writeln!(out, "{}\n", escaped(text)),
        Block::List(List { kind, items }) => {
            list(out, *kind, items);
            Ok(())
        }
        Block::Pair(lists) => {
            for (title, items) in lists {
                let _ = writeln!(out, "### {}\n", escaped(title));
                list(out, ListKind::Ranked, items);
            }
            Ok(())
        }
        Block::Facts(all) => {
            facts(out, all);
            Ok(())
        }
        Block::Table(table) => {
            self::table(out, table);
            Ok(())
        }
        Block::Commands(lines) => {
            fenced(out, &lines.iter().map(|line| line.replace(['\n', '\r'], " ")).collect::<Vec<_>>());
            Ok(())
        }
        Block::Source(lines) => {
            fenced(out, &lines.iter().map(source_line).collect::<Vec<_>>());
            Ok(())
        }
        Block::Details(summary, body) => {
            let summary = html(summary).replace(['\n', '\t'], " ");
            let _ = writeln!(out, "<details><summary>{summary}</summary>\n");
            blocks(out, body);
            writeln!(out, "</details>\n")
        }
    };
}

/// A paragraph. At its beginning, some characters would make a heading, a quotation or a list.
fn paragraph(text: &Line) -> String {
    let text = line(text);
    if text.starts_with(['#', '>', '-', '+', '=']) { format!("\\{text}") } else { text }
}

fn list(out: &mut String, kind: ListKind, items: &[Line]) {
    for (index, item) in items.iter().enumerate() {
        let _ = match kind {
            ListKind::Ranked => writeln!(out, "{}. {}", index + 1, paragraph(item)),
            ListKind::Plain => writeln!(out, "- {}", paragraph(item)),
        };
    }
    out.push('\n');
}

fn facts(out: &mut String, all: &[(String, Line)]) {
    for (name, value) in all {
        let _ = writeln!(out, "- {}: {}", escaped(name), line(value));
    }
    out.push('\n');
}

fn table(out: &mut String, table: &Table) {
    let _ = writeln!(out, "{}:\n", escaped(&table.caption));
    let names: Vec<String> = table.head.iter().map(|name| escaped(name)).collect();
    let rule = |column| if column >= table.numbers_from { "---:" } else { "---" };
    let rules: Vec<&str> = (0..names.len()).map(rule).collect();
    let _ = writeln!(out, "| {} |\n| {} |", names.join(" | "), rules.join(" | "));
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(line).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out.push('\n');
}

fn source_line(line: &SourceLine) -> String {
    let share = line.share_percent.map_or(String::new(), |share| format!("{share:.1}%"));
    format!("{share:>6} {:>5}  {}", line.number, text::escape::one_line(&line.text))
}

/// Writes lines that Markdown must not interpret. The fence is longer than any run of backticks in them.
fn fenced(out: &mut String, lines: &[String]) {
    let backticks = lines.iter().map(|line| line.matches('`').count()).max().unwrap_or(0);
    let fence = "`".repeat(3 + backticks);
    let _ = writeln!(out, "{fence}\n{}\n{fence}\n", lines.join("\n"));
}

fn line(line: &Line) -> String {
    line.0.iter().map(piece).collect()
}

fn piece(piece: &Piece) -> String {
    match piece {
        Piece::Text(text) | Piece::Faint(text) | Piece::Mark(Tone::Good | Tone::Open, text) => escaped(text),
        Piece::Code(text) => markdown_code(text),
        Piece::Strong(text) | Piece::Mark(Tone::Bad, text) => format!("**{}**", escaped(text)),
        Piece::Small(text) if text.is_empty() => String::new(),
        Piece::Small(text) => format!(" ({})", escaped(text)),
        Piece::Tag(kind) => format!("({})", kind.word()),
        Piece::Modelled { pieces, .. } => {
            format!("{} (modelled)", pieces.iter().map(self::piece).collect::<String>())
        }
        Piece::Meter(percent) => format!("{percent:.1}%"),
        Piece::Link { text, .. } => (*text).to_owned(),
        Piece::Break => "; ".to_owned(),
    }
}
