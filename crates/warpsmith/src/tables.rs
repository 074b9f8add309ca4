//! Tables without lines: columns two spaces apart, as wide as what is seen of their cells.

use crate::printer::{STRONG, flat, styled, unstyled, visible};

#[derive(Debug)]
pub struct Table {
    /// Whether a column is aligned to the right.
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

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        // A cell is on one line, whatever a log says.
        self.rows.push(cells.into_iter().map(|cell| flat(&cell)).collect());
    }

    /// Its text, without spaces at the ends of lines.
    pub fn text(&self) -> String {
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| seen(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.numbers.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let mut line = String::new();
            for (cell, (width, number)) in row.iter().zip(widths.iter().zip(&self.numbers)) {
                let space = " ".repeat(width - seen(cell));
                line += &if *number { space + cell } else { cell.clone() + &space };
                line += "  ";
            }
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// A column without a title has nothing that could be bold.
fn heading(title: &str) -> String {
    if title.is_empty() { String::new() } else { styled(STRONG, title) }
}

/// Characters of a cell that are seen: its style is not.
fn seen(cell: &str) -> usize {
    visible(&unstyled(cell)).chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printer::{BAD, GOOD};

    #[test]
    fn styles_take_no_room() {
        let mut table = Table::new(&["kernel", "time"], &["time"]);
        table.row(["a".to_owned(), styled(GOOD, "1.5")]);
        table.row(["longer name".to_owned(), styled(BAD, "10.25")]);
        let text = unstyled(&table.text());
        assert_eq!(text, "kernel        time\na              1.5\nlonger name  10.25");
    }
}
