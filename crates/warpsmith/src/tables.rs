//! Text tables without lines: columns are two spaces apart and as wide as the visible text of their cells.

use crate::printer::{STRONG, flat, styled, unstyled, visible};

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

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        // Text from a log may contain line breaks; a cell must stay on one line.
        self.rows.push(cells.into_iter().map(|cell| flat(&cell)).collect());
    }

    /// The text of the table, without spaces at the ends of lines.
    pub fn text(&self) -> String {
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| visible_width(cell))
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.numbers.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let mut line = String::new();
            for (cell, (width, number)) in row.iter().zip(widths.iter().zip(&self.numbers)) {
                let space = " ".repeat(width - visible_width(cell));
                line += &if *number { space + cell } else { cell.clone() + &space };
                line += "  ";
            }
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect::<Vec<_>>().join("\n")
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
    use crate::printer::{BAD, GOOD};

    #[test]
    fn styles_do_not_change_the_column_width() {
        let mut table = Table::new(&["kernel", "time"], &["time"]);
        table.row(["a".to_owned(), styled(GOOD, "1.5")]);
        table.row(["longer name".to_owned(), styled(BAD, "10.25")]);
        let text = unstyled(&table.text());
        assert_eq!(text, "kernel        time\na              1.5\nlonger name  10.25");
    }
}
