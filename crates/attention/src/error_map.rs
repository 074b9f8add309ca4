//! Shows where an output is wrong: a picture of the worst head, and a description of the pattern of rows and columns.

use std::collections::BTreeSet;

use op::error_map::{ErrorMap, Level, describe};

use crate::metrics::Tolerance;
use crate::oracle::Reference;
use crate::problem::Dtype;
use crate::tensor::Tensor;

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
    let (batch, head) = (worst / problem.heads, worst % problem.heads);
    let title = format!("batch {batch}, head {head}");
    let mut map = ErrorMap::new(title, ["query", "queries"], (problem.seq_q, problem.head_dim));
    errors.of_head(worst, |query, column, level| map.mark(query, column, level));

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
    let is_ragged = problem.serving.ragged.is_some();
    let masked = |&query: &usize| !is_ragged && problem.visible(problem.seq_k, query).is_empty();
    if errors.queries.iter().all(masked) {
        notes.push("only rows that see no key are wrong".to_owned());
    }
    map.notes = notes;
    Some(map)
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
            step: match reference.problem.output {
                Dtype::Bf16 => 0.0,
                Dtype::Fp16 | Dtype::E4m3 => 2.0_f64.powi(-24),
            },
        }
    }

    fn around(&self, expected: f64) -> f64 {
        (self.relative * expected.abs().max(self.average)).max(self.step)
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
        assert_eq!((map.title.as_str(), map.rows_per_cell, map.columns_per_cell), ("batch 0, head 1", 5, 4));
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
