//! Tables without lines: columns two spaces apart.

use comfy_table::{CellAlignment, Table, presets::NOTHING};

use crate::printer::{STRONG, styled};

/// A table with these titles; columns whose title is among `numbers` are aligned to the right.
pub fn new(titles: &[&str], numbers: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(titles.iter().map(|title| styled(STRONG, title)));
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        let number = numbers.contains(&titles[index]);
        column.set_cell_alignment(if number { CellAlignment::Right } else { CellAlignment::Left });
    }
    table
}

/// Its text, without spaces at the ends of lines.
pub fn text(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}
