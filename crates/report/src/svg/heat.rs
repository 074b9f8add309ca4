//! A heat map: one cell for each pair of values of two knobs.

use super::super::TimeKind;
use super::super::words::ratio;
use super::{Anchor, Canvas, fit, picture, text_width};

/// The map. Rows and columns are in the order in which they are drawn.
#[derive(Debug)]
pub struct Map {
    /// The name of the knob whose values are the rows.
    pub row_knob: String,
    /// Its values.
    pub rows: Vec<String>,
    /// The name of the knob whose values are the columns.
    pub column_knob: String,
    /// Its values.
    pub columns: Vec<String>,
    /// The cells, row by row.
    pub cells: Vec<Cell>,
}

/// One pair of values.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// The best score; `None` if no trial with both values was timed.
    pub score: Option<f64>,
    /// The tooltip.
    pub title: String,
}

const ROW_HEIGHT: f64 = 30.0;
const HEAD_HEIGHT: f64 = 44.0;
const MAX_CELL_WIDTH: f64 = 110.0;

/// Draws the map. The deeper the colour, the higher the score.
pub fn draw(kind: TimeKind, map: &Map) -> String {
    let scores = || map.cells.iter().filter_map(|cell| cell.score);
    let (low, high) = scores().fold((f64::MAX, 0.0_f64), |(low, high), it| (low.min(it), high.max(it)));
    // The share of the way from the lowest to the highest score, on a logarithmic scale.
    let depth = |score: f64| if high > low { (score / low).ln() / (high / low).ln() } else { 1.0 };
    let label = format!("best score by {} and {}, {}", map.row_knob, map.column_knob, kind.word());
    picture(kind, &label, |canvas| {
        let widest = map.rows.iter().chain([&map.row_knob]).map(|it| text_width(it)).fold(0.0, f64::max);
        let left = widest.min(0.3 * canvas.width) + 12.0;
        let number = map.columns.len().max(1) as f64;
        let width = ((canvas.width - left) / number).min(MAX_CELL_WIDTH);
        heads(canvas, map, (left, width));
        for (index, cell) in map.cells.iter().enumerate() {
            let (row, column) = (index / map.columns.len().max(1), index % map.columns.len().max(1));
            let corner = (left + column as f64 * width, HEAD_HEIGHT + row as f64 * ROW_HEIGHT);
            let size = (width - 3.0, ROW_HEIGHT - 3.0);
            let middle = (corner.0 + size.0 / 2.0, corner.1 + size.1 / 2.0 + 4.0);
            canvas.titled(&cell.title, |canvas| match cell.score {
                None => {
                    canvas.rect(corner, size, "untried");
                    canvas.text(middle, Anchor::Middle, "soft", "-");
                }
                Some(score) => {
                    // Five steps are as many as can be told apart.
                    let step = (depth(score) * 4.0).round().clamp(0.0, 4.0);
                    canvas.rect(corner, size, &format!("heat heat-{step:.0}"));
                    let text = fit(&ratio(score), size.0);
                    let class = if score == high { "strong" } else { "" };
                    canvas.text(middle, Anchor::Middle, class, &text);
                }
            });
        }
        HEAD_HEIGHT + map.rows.len() as f64 * ROW_HEIGHT
    })
}

fn heads(canvas: &mut Canvas, map: &Map, (left, width): (f64, f64)) {
    canvas.text((0.0, HEAD_HEIGHT - 8.0), Anchor::Start, "soft", &fit(&map.row_knob, left - 8.0));
    let room = width * map.columns.len() as f64;
    canvas.text((left, 12.0), Anchor::Start, "soft", &fit(&map.column_knob, room.max(60.0)));
    for (column, value) in map.columns.iter().enumerate() {
        let middle = left + (column as f64 + 0.5) * width - 1.5;
        canvas.text((middle, HEAD_HEIGHT - 8.0), Anchor::Middle, "", &fit(value, width));
    }
    for (row, value) in map.rows.iter().enumerate() {
        let height = HEAD_HEIGHT + (row as f64 + 0.5) * ROW_HEIGHT + 2.5;
        canvas.text((0.0, height), Anchor::Start, "", &fit(value, left - 8.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_cell_is_deepest_and_a_pair_without_a_trial_has_no_number() {
        let [row_knob, column_knob] = ["STAGES", "<b>"].map(str::to_owned);
        let scores = [Some(1.0), Some(2.0), None, Some(1.5)];
        let cells = scores.map(|score| Cell { score, title: "a pair".to_owned() }).to_vec();
        let values = || vec!["1".to_owned(), "2".to_owned()];
        let map = Map { row_knob, rows: values(), column_knob, columns: values(), cells };
        let svg = draw(TimeKind::Modelled, &map);
        // Every picture is drawn twice.
        assert_eq!(svg.matches("heat heat-4").count(), 2, "{svg}");
        assert_eq!(svg.matches("heat heat-0").count(), 2, "{svg}");
        assert_eq!(svg.matches("class=\"untried\"").count(), 2, "{svg}");
        roxmltree::Document::parse(&format!("<div>{svg}</div>")).unwrap();
    }
}
