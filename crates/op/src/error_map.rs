//! A picture of the wrong elements of an answer, with a description of the pattern of rows and columns. The pattern
//! often shows the fault: one tile, every eighth column, the rows after the diagonal.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::contract::Picture;

/// The worst error of a cell's elements, mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// The oracle did not compute any element of the cell.
    NotCompared,
    /// The error is explained by rounding.
    Right,
    /// More than rounding explains, but within the element-wise tolerance.
    Off,
    /// Beyond the element-wise tolerance.
    Wrong,
    /// Infinite or NaN.
    NotFinite,
    /// Still the poison from before the launch.
    Unwritten,
}

impl Level {
    /// The character in the text picture.
    pub fn symbol(self) -> char {
        match self {
            Level::NotCompared => ' ',
            Level::Right => '.',
            Level::Off => 'o',
            Level::Wrong => '#',
            Level::NotFinite => '!',
            Level::Unwritten => '?',
        }
    }

    /// The colour in the SVG picture.
    pub fn colour(self) -> &'static str {
        match self {
            Level::NotCompared => "#e8e8e8",
            Level::Right => "#7bb661",
            Level::Off => "#e9c46a",
            Level::Wrong => "#c8352b",
            Level::NotFinite => "#1d1d1d",
            Level::Unwritten => "#7b4fa6",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Level::NotCompared => "not compared",
            Level::Right => "right",
            Level::Off => "off",
            Level::Wrong => "wrong",
            Level::NotFinite => "not finite",
            Level::Unwritten => "unwritten",
        }
    }
}

/// Largest number of cells in each direction.
pub const CELLS: usize = 16;

/// Describes a set of indices briefly: all, some ranges, those with certain remainders, or a count.
pub fn describe(set: &BTreeSet<usize>, extent: usize, of_what: &str) -> String {
    const RANGES: usize = 4;
    let of_what = if of_what.is_empty() { String::new() } else { format!(" ({of_what})") };
    if set.len() == extent {
        return format!("all {extent}{of_what}");
    }
    let ranges = ranges(set);
    if ranges.len() <= RANGES {
        return format!("only {} of 0-{}{of_what}", words(&ranges), extent - 1);
    }
    for modulus in [2, 4, 8, 16, 32, 64, 128] {
        let remainders: BTreeSet<usize> = set.iter().map(|index| index % modulus).collect();
        let same = (0..extent).filter(|index| remainders.contains(&(index % modulus))).count() == set.len();
        if same && extent >= 2 * modulus {
            return format!(
                "every index with remainder {} modulo {modulus}{of_what}",
                words(&self::ranges(&remainders))
            );
        }
    }
    format!("{} of {extent}, between {} and {}{of_what}", set.len(), ranges[0].0, ranges[ranges.len() - 1].1)
}

/// For example `3, 8-15`.
fn words(ranges: &[(usize, usize)]) -> String {
    let words = ranges.iter().map(|&(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The runs of consecutive indices, each with its first and last.
fn ranges(set: &BTreeSet<usize>) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &index in set {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    ranges
}

/// A picture of the wrong elements of a matrix, in cells, and a description of their pattern.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ErrorMap {
    /// What the picture shows: `batch 0, head 1`, or the name of an output.
    pub title: String,
    /// The name of a row, and of several: `query`, `queries`.
    #[serde(skip)]
    pub row_names: [&'static str; 2],
    /// Number of rows that one cell covers.
    pub rows_per_cell: usize,
    /// Number of columns that one cell covers.
    pub columns_per_cell: usize,
    /// Rows of cells from top to bottom, columns from left to right.
    pub cells: Vec<Vec<Level>>,
    /// Which parts are wrong.
    pub notes: Vec<String>,
}

impl From<&ErrorMap> for Picture {
    fn from(map: &ErrorMap) -> Self {
        Picture { text: map.to_string(), svg: map.svg() }
    }
}

impl ErrorMap {
    /// An empty picture of a matrix with cells for all its elements.
    pub fn new(title: String, row_names: [&'static str; 2], (rows, columns): (usize, usize)) -> Self {
        let rows_per_cell = rows.div_ceil(CELLS).max(1);
        let columns_per_cell = columns.div_ceil(CELLS).max(1);
        let cells =
            vec![vec![Level::NotCompared; columns.div_ceil(columns_per_cell)]; rows.div_ceil(rows_per_cell)];
        ErrorMap { title, row_names, rows_per_cell, columns_per_cell, cells, notes: Vec::new() }
    }

    /// Adds the level of an element to its cell.
    pub fn mark(&mut self, row: usize, column: usize, level: Level) {
        let cell = &mut self.cells[row / self.rows_per_cell][column / self.columns_per_cell];
        *cell = level.max(*cell);
    }

    /// The picture as SVG, readable on light and dark pages, with the notes as its description.
    pub fn svg(&self) -> String {
        const CELL: usize = 18;
        const LEFT: usize = 56;
        const TOP: usize = 40;
        let columns = self.cells.first().map_or(0, Vec::len);
        let width = LEFT + columns * CELL + 12;
        let legend = TOP + self.cells.len() * CELL + 20;
        let height = legend + 16 * self.notes.len() + 16;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {height}\" width=\"{w}\" height=\"{height}\" \
             font-family=\"system-ui, sans-serif\" font-size=\"11\" role=\"img\">\n\
             <title>errors of {title}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"8\" y=\"16\" font-weight=\"600\">{title}: {rows} down, columns right</text>\n\
             <text x=\"8\" y=\"31\" fill=\"#555\">a cell is {} x {}; green right, yellow off, red wrong, black not finite, violet unwritten</text>\n",
            self.rows_per_cell,
            self.columns_per_cell,
            w = width.max(560),
            title = self.title,
            rows = self.row_names[1],
        );
        for (index, row) in self.cells.iter().enumerate() {
            let y = TOP + index * CELL;
            let label = index * self.rows_per_cell;
            svg += &format!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#555\">{label}</text>\n",
                LEFT - 6,
                y + 13
            );
            for (column, level) in row.iter().enumerate() {
                let first = column * self.columns_per_cell;
                svg += &format!(
                    "<rect x=\"{}\" y=\"{y}\" width=\"{side}\" height=\"{side}\" fill=\"{}\"><title>{rows} from {label}, \
                     columns from {first}: {}</title></rect>\n",
                    LEFT + column * CELL,
                    level.colour(),
                    level.name(),
                    side = CELL - 1,
                    rows = self.row_names[1],
                );
            }
        }
        for (index, note) in self.notes.iter().enumerate() {
            svg += &format!("<text x=\"8\" y=\"{}\">{note}</text>\n", legend + 16 * index);
        }
        svg + "</svg>\n"
    }
}

impl fmt::Display for ErrorMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: usize, names: [&str; 2]| format!("{count} {}", names[usize::from(count != 1)]);
        writeln!(
            f,
            "{}; a cell is {} by {}; . right, o off, # wrong, ! not finite, ? unwritten",
            self.title,
            plural(self.rows_per_cell, self.row_names),
            plural(self.columns_per_cell, ["column", "columns"]),
        )?;
        for (index, row) in self.cells.iter().enumerate() {
            let symbols: String = row.iter().map(|level| level.symbol()).collect();
            writeln!(f, "{:>6} {symbols}", index * self.rows_per_cell)?;
        }
        for (index, note) in self.notes.iter().enumerate() {
            write!(f, "{}{note}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}
