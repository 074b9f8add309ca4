//! Text tables without lines: columns are two spaces apart and as wide as the visible text of their cells.

use crate::layout::{self, cell_lines};
use crate::style::{STRONG, flat, styled, unstyled, visible};

/// The space between columns.
const GAP: &str = "  ";
/// The least width of a column whose words are broken.
const NARROWEST: usize = 12;

/// A table with a header row.
#[derive(Debug)]
pub struct Table {
    /// For each column, whether it is aligned to the right.
    numbers: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these titles; columns whose title is among `numbers` are aligned to the right.
    pub fn new(titles: &[&str], numbers: &[&str]) -> Self {
        Table {
            numbers: titles.iter().map(|title| numbers.contains(title)).collect(),
            rows: vec![titles.iter().map(|title| heading(title)).collect()],
        }
    }

    /// A table of `columns` columns without titles, aligned to the left.
    pub fn untitled(columns: usize) -> Self {
        Table { numbers: vec![false; columns], rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        // Text from a log may contain line breaks; a cell must stay on one line.
        self.rows.push(cells.into_iter().map(|cell| flat(&cell)).collect());
    }

    /// The text of the table, without spaces at the ends of lines. It fits the terminal.
    pub fn text(&self) -> String {
        self.text_within(layout::stdout_width())
    }

    /// The text of the table, not wider than `width` if the words of its cells permit that.
    pub fn text_within(&self, width: Option<usize>) -> String {
        let widths = self.widths(width.unwrap_or(usize::MAX));
        let lines = |row: &Vec<String>| {
            let cells: Vec<Vec<String>> =
                row.iter().zip(&widths).map(|(cell, width)| cell_lines(cell, *width)).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            let line = |index: usize| {
                let mut line = String::new();
                for (cell, (width, number)) in cells.iter().zip(widths.iter().zip(&self.numbers)) {
                    let text = cell.get(index).map_or("", String::as_str);
                    let space = " ".repeat(width.saturating_sub(visible_width(text)));
                    line += &if *number { space + text } else { text.to_owned() + &space };
                    line += GAP;
                }
                line.trim_end().to_owned()
            };
            (0..height).map(line).collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(lines).collect::<Vec<_>>().join("\n")
    }

    /// The widths of the columns. If the table is too wide, the widest columns become narrower: first down to their
    /// longest words, then further.
    fn widths(&self, limit: usize) -> Vec<usize> {
        let widest = |measure: fn(&str) -> usize| -> Vec<usize> {
            let cells = |column: usize| self.rows.iter().filter_map(move |row| row.get(column));
            (0..self.numbers.len())
                .map(|column| cells(column).map(|cell| measure(cell)).max().unwrap_or(0))
                .collect()
        };
        let mut widths = widest(visible_width);
        let longest_words = widest(layout::longest_word);
        for least in [longest_words, vec![NARROWEST; widths.len()]] {
            loop {
                let total = widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
                let can_shrink = (0..widths.len()).filter(|&column| widths[column] > least[column]);
                match can_shrink.max_by_key(|&column| widths[column]) {
                    Some(column) if total > limit => widths[column] -= 1,
                    _ => break,
                }
            }
        }
        widths
    }
}

/// A title in bold. An empty title gets no style.
fn heading(title: &str) -> String {
    if title.is_empty() { String::new() } else { styled(STRONG, title) }
}

/// The number of visible characters of a cell; its style does not count.
fn visible_width(cell: &str) -> usize {
    visible(&unstyled(cell)).chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::{BAD, GOOD};

    #[test]
    fn styles_do_not_change_the_column_width() {
        let mut table = Table::new(&["kernel", "time"], &["time"]);
        table.row(["a".to_owned(), styled(GOOD, "1.5")]);
        table.row(["longer name".to_owned(), styled(BAD, "10.25")]);
        let text = unstyled(&table.text());
        assert_eq!(text, "kernel        time\na              1.5\nlonger name  10.25");
    }

    #[test]
    fn a_wide_table_fits_by_breaking_its_longest_texts() {
        let mut table = Table::new(&["trial", "speedup", "setting"], &["trial", "speedup"]);
        let setting = "mma BLOCK_M=96 BLOCK_N=32 NUM_WARPS=3";
        table.row(["8".to_owned(), styled(GOOD, "1.497x"), setting.to_owned()]);
        let text = unstyled(&table.text_within(Some(40)));
        assert_eq!(
            text,
            "trial  speedup  setting\n    8   1.497x  mma BLOCK_M=96\n                BLOCK_N=32 NUM_WARPS=3"
        );
        assert!(!table.text_within(None).contains("96\n"));
        let narrow = unstyled(&table.text_within(Some(30)));
        assert!(narrow.lines().all(|line| line.chars().count() <= 30), "{narrow}");
    }
}
