//! Shows where an output is wrong: a picture of the worst head, and a description of the pattern of rows and columns.
//! The pattern often shows the fault: one tile, every eighth column, the rows after the diagonal.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::metrics::Tolerance;
use crate::oracle::Reference;
use crate::problem::Dtype;
use crate::tensor::Tensor;

/// The worst error of a cell's elements, mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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

    fn colour(self) -> &'static str {
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

/// A picture of one head and a description of all heads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorMap {
    /// The head with the most wrong elements.
    pub batch: usize,
    /// The head of the picture.
    pub head: usize,
    /// Number of queries that one cell covers.
    pub rows_per_cell: usize,
    /// Number of columns of the head dimension that one cell covers.
    pub columns_per_cell: usize,
    /// Rows of cells: queries from top to bottom, columns from left to right.
    pub cells: Vec<Vec<Level>>,
    /// The heads, query tiles, queries and columns that are wrong.
    pub notes: Vec<String>,
}

/// Draws the errors of an output; `None` if there are none. `tile` is the height of the kernel's query tiles, if it
/// is known.
pub fn draw(
    reference: &Reference,
    output: &Tensor,
    tolerance: Tolerance,
    tile: Option<usize>,
) -> Option<ErrorMap> {
    let problem = &reference.problem;
    let errors = Errors::collect(reference, output, tolerance);
    let worst = (0..errors.per_head.len()).max_by_key(|&head| (errors.per_head[head], usize::MAX - head))?;
    if errors.per_head[worst] == 0 {
        return None;
    }
    let rows_per_cell = problem.seq_q.div_ceil(CELLS);
    let columns_per_cell = problem.head_dim.div_ceil(CELLS);
    let mut cells = vec![
        vec![Level::NotCompared; problem.head_dim.div_ceil(columns_per_cell)];
        problem.seq_q.div_ceil(rows_per_cell)
    ];
    let (batch, head) = (worst / problem.heads, worst % problem.heads);
    errors.of_head(worst, |query, column, level| {
        let cell = &mut cells[query / rows_per_cell][column / columns_per_cell];
        *cell = level.max(*cell);
    });

    let mut notes = vec![format!(
        "heads: {}",
        describe(&errors.wrong_heads(), errors.per_head.len(), "of all batch entries, in order")
    )];
    if let Some(tile) = tile.filter(|&tile| tile > 0) {
        let tiles: BTreeSet<usize> = errors.queries.iter().map(|query| query / tile).collect();
        let count = problem.seq_q.div_ceil(tile);
        notes.push(format!("query tiles of {tile}: {}", describe(&tiles, count, "")));
    }
    notes.push(format!("queries: {}", describe(&errors.queries, problem.seq_q, "")));
    notes.push(format!("columns: {}", describe(&errors.columns, problem.head_dim, "")));
    let masked = |&query: &usize| problem.visible_keys(query) == 0;
    if errors.queries.iter().all(masked) {
        notes.push("only rows that see no key are wrong".to_owned());
    }
    Some(ErrorMap { batch, head, rows_per_cell, columns_per_cell, cells, notes })
}

/// The level of every element, and the positions of those that are not right.
struct Errors {
    levels: Vec<Level>,
    /// Number of elements of a head.
    head_elements: usize,
    head_dim: usize,
    /// Number of wrong elements of each head.
    per_head: Vec<usize>,
    queries: BTreeSet<usize>,
    columns: BTreeSet<usize>,
}

impl Errors {
    fn collect(reference: &Reference, output: &Tensor, tolerance: Tolerance) -> Self {
        let problem = &reference.problem;
        let data = output.decode().data;
        let noise = Noise::new(reference, tolerance);
        let mut levels = vec![Level::NotCompared; data.len()];
        for (compared, (row, expected_row, _)) in reference.iter().enumerate() {
            let first = row.index(problem) * problem.head_dim;
            for (column, &expected) in expected_row.iter().enumerate() {
                let error = (f64::from(data[first + column]) - expected).abs();
                levels[first + column] = if error <= noise.around(expected) {
                    Level::Right
                } else if error <= tolerance.allowed(reference, compared * problem.head_dim + column) {
                    Level::Off
                } else {
                    Level::Wrong
                };
            }
        }
        // Unwritten and non-finite elements are visible without the oracle, so all elements are checked.
        for (index, level) in levels.iter_mut().enumerate().filter(|(index, _)| !data[*index].is_finite()) {
            *level = if output.is_poison(index) { Level::Unwritten } else { Level::NotFinite };
        }
        let head_elements = output.shape.head_elements();
        let mut errors = Errors {
            levels,
            head_elements,
            head_dim: problem.head_dim,
            per_head: vec![0; output.shape.all_heads()],
            queries: BTreeSet::new(),
            columns: BTreeSet::new(),
        };
        for (index, _) in errors.levels.iter().enumerate().filter(|(_, level)| **level > Level::Right) {
            errors.per_head[index / head_elements] += 1;
            errors.queries.insert(index % head_elements / problem.head_dim);
            errors.columns.insert(index % problem.head_dim);
        }
        errors
    }

    fn of_head(&self, head: usize, mut visit: impl FnMut(usize, usize, Level)) {
        let levels = &self.levels[head * self.head_elements..][..self.head_elements];
        for (index, &level) in levels.iter().enumerate() {
            visit(index / self.head_dim, index % self.head_dim, level);
        }
    }

    fn wrong_heads(&self) -> BTreeSet<usize> {
        (0..self.per_head.len()).filter(|&head| self.per_head[head] > 0).collect()
    }
}

/// The size of errors that rounding explains.
struct Noise {
    relative: f64,
    /// Root mean square of the reference.
    average: f64,
    /// Distance between subnormal numbers of the output format.
    step: f64,
}

impl Noise {
    fn new(reference: &Reference, tolerance: Tolerance) -> Self {
        // A multiple of the average error that the L2 tolerance allows for an element.
        const TIMES: f64 = 8.0;
        let square: f64 = reference.output.iter().map(|x| x * x).sum();
        Noise {
            relative: TIMES * tolerance.l2,
            average: (square / reference.output.len().max(1) as f64).sqrt(),
            step: match reference.problem.dtype.output() {
                Dtype::Bf16 => 0.0,
                Dtype::Fp16 | Dtype::E4m3 => 2.0_f64.powi(-24),
            },
        }
    }

    fn around(&self, expected: f64) -> f64 {
        (self.relative * expected.abs().max(self.average)).max(self.step)
    }
}

/// Describes a set of indices briefly: all, some ranges, those with certain remainders, or a count.
fn describe(set: &BTreeSet<usize>, extent: usize, of_what: &str) -> String {
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

impl ErrorMap {
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
             <title>errors of batch {}, head {}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"8\" y=\"16\" font-weight=\"600\">batch {}, head {}: queries down, columns right</text>\n\
             <text x=\"8\" y=\"31\" fill=\"#555\">a cell is {} x {}; green right, yellow off, red wrong, black not finite, violet unwritten</text>\n",
            self.batch,
            self.head,
            self.batch,
            self.head,
            self.rows_per_cell,
            self.columns_per_cell,
            w = width.max(560),
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
                    "<rect x=\"{}\" y=\"{y}\" width=\"{side}\" height=\"{side}\" fill=\"{}\"><title>queries from {label}, \
                     columns from {first}: {}</title></rect>\n",
                    LEFT + column * CELL,
                    level.colour(),
                    level.name(),
                    side = CELL - 1,
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
        let plural =
            |count: usize, name: &str| format!("{count} {name}{}", if count == 1 { "" } else { "s" });
        writeln!(
            f,
            "batch {}, head {}; a cell is {} by {}; . right, o off, # wrong, ! not finite, ? unwritten",
            self.batch,
            self.head,
            plural(self.rows_per_cell, "query").replace("querys", "queries"),
            plural(self.columns_per_cell, "column"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::{Class, Inputs};
    use crate::metrics::Weights;
    use crate::oracle::{self, Rows};
    use crate::problem::Problem;
    use crate::tensor::{Layout, Values};

    fn solved() -> (Reference, Values) {
        let problem = Problem::new(1, 2, 80, 64, Dtype::Fp16);
        let inputs = Inputs::generate(&problem, Class::Normal, 1).encode(Dtype::Fp16, Layout::Bhsd).decode();
        let reference = oracle::attention(&problem, &inputs, Rows::all(&problem));
        let data = reference.output.iter().map(|&x| x as f32).collect();
        (reference, Values { shape: problem.query_shape(), data, scales: None })
    }

    fn map(change: impl Fn(usize, usize, usize, &mut f32)) -> Option<ErrorMap> {
        let (reference, mut values) = solved();
        for (index, x) in values.data.iter_mut().enumerate() {
            change(index / (80 * 64), index / 64 % 80, index % 64, x);
        }
        let output = Tensor::encode(&values, Dtype::Fp16, Layout::Bhsd);
        draw(&reference, &output, Tolerance::new(Dtype::Fp16, Weights::Half), Some(32))
    }

    #[test]
    fn a_right_output_has_no_map() {
        assert_eq!(map(|_, _, _, _| ()), None);
    }

    #[test]
    fn a_wrong_tile_shows_as_a_block() {
        let map = map(|head, query, column, x| {
            if head == 1 && (32..64).contains(&query) && column < 16 {
                *x += 1.0;
            }
        })
        .expect("wrong");
        assert_eq!((map.head, map.rows_per_cell, map.columns_per_cell), (1, 5, 4));
        let text = map.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].ends_with("................") && lines[9].ends_with("    40 ####............"),
            "{text}"
        );
        assert_eq!(
            map.notes,
            [
                "heads: only 1 of 0-1 (of all batch entries, in order)",
                "query tiles of 32: only 1 of 0-2",
                "queries: only 32-63 of 0-79",
                "columns: only 0-15 of 0-63"
            ]
        );
    }

    #[test]
    fn the_svg_contains_every_cell_and_the_notes() {
        let map =
            map(|head, _, column, x| *x += f32::from(u8::from(head == 1 && column == 3))).expect("wrong");
        let svg = map.svg();
        assert_eq!(svg.matches("<rect x=").count(), 16 * 16);
        assert_eq!(svg.matches(Level::Wrong.colour()).count(), 16);
        assert!(svg.contains("columns: only 3 of 0-63</text>") && svg.ends_with("</svg>\n"), "{svg}");
    }

    #[test]
    fn a_periodic_fault_is_described_by_its_period() {
        let map = map(|_, _, column, x| {
            if column % 8 >= 6 {
                *x += 1.0;
            }
        })
        .expect("wrong");
        assert_eq!(map.notes[3], "columns: every index with remainder 6-7 modulo 8");
        assert_eq!(map.notes[0], "heads: all 2 (of all batch entries, in order)");
    }

    #[test]
    fn unwritten_and_non_finite_elements_have_their_own_symbols() {
        let (reference, mut values) = solved();
        values.data[0] = f32::NAN;
        values.data[64 * 79 + 63] = 5.0;
        let mut output = Tensor::encode(&values, Dtype::Fp16, Layout::Bhsd);
        output.bytes[64..68].copy_from_slice(&crate::tensor::poison(4));
        let map = draw(&reference, &output, Tolerance::new(Dtype::Fp16, Weights::Half), None).expect("wrong");
        let text = map.to_string();
        assert!(text.lines().nth(1).is_some_and(|line| line.ends_with(" !.......?.......")), "{text}");
        assert!(text.lines().nth(16).is_some_and(|line| line.ends_with("...#")), "{text}");
    }
}
