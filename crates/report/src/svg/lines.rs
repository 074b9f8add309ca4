//! Times over the size of the problem: one line per subject, both axes logarithmic.

use super::super::TimeKind;
use super::scale::{Scale, label};
use super::{Anchor, Canvas, bold_width, picture};

/// Size, time and tooltip of one problem.
pub type Point = (f64, f64, String);

/// The times of one subject.
#[derive(Debug)]
pub struct Line {
    /// The short label at the end of the line.
    pub label: String,
    /// One point for every problem, sorted by size.
    pub points: Vec<Point>,
    /// Whether the subject is a baseline, which is drawn hollow.
    pub is_faint: bool,
}

const HEIGHT: f64 = 300.0;
const LEFT: f64 = 54.0;
const BOTTOM: f64 = 44.0;

/// Draws the lines. `size` names the axis of sizes. `None` if there is no line with two drawable points.
pub fn draw(kind: TimeKind, size: &str, lines: &[Line]) -> Option<String> {
    let is_drawable =
        |point: &&Point| point.0.is_finite() && point.0 > 0.0 && point.1.is_finite() && point.1 > 0.0;
    let drawn: Vec<(&Line, Vec<&Point>)> = lines
        .iter()
        .map(|line| (line, line.points.iter().filter(is_drawable).collect::<Vec<_>>()))
        .filter(|(_, points)| points.len() >= 2)
        .collect();
    let all = || drawn.iter().flat_map(|(_, points)| points.iter());
    all().next()?;
    let ends = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::MAX, 0.0_f64), |(low, high), it| (low.min(it), high.max(it)))
    };
    let sizes = ends(&mut all().map(|point| point.0));
    let times = ends(&mut all().map(|point| point.1));
    let name = format!("time over {size}, {}", kind.word());
    Some(picture(kind, &name, |canvas| {
        let floor = HEIGHT - BOTTOM;
        let widest = drawn.iter().map(|(line, _)| bold_width(&line.label)).fold(0.0, f64::max);
        let end = canvas.width - widest - 14.0;
        let x = Scale::log((sizes.0 / 1.2, sizes.1 * 1.2), (LEFT, end));
        let y = Scale::log((times.0 / 1.4, times.1 * 1.4), (floor, 8.0));
        axes(canvas, x, y, (end, floor), size);
        let mut taken: Vec<f64> = Vec::new();
        for (line, points) in &drawn {
            let places: Vec<(f64, f64)> = points.iter().map(|it| (x.at(it.0), y.at(it.1))).collect();
            canvas.path(&places, if line.is_faint { "branch" } else { "best" });
            for (point, place) in points.iter().zip(&places) {
                canvas.titled(&point.2, |canvas| {
                    canvas.circle(*place, 9.0, "row");
                    canvas.circle(*place, 4.0, if line.is_faint { "tried" } else { "elite" });
                });
            }
            let Some(last) = places.last() else { continue };
            // Labels that would overlap are moved down.
            let mut height = last.1 + 4.0;
            while let Some(near) = taken.iter().find(|other| (*other - height).abs() < 13.0) {
                height = near + 13.0;
            }
            taken.push(height);
            canvas.text((end + 10.0, height), Anchor::Start, "strong", &line.label);
        }
        HEIGHT
    }))
}

fn axes(canvas: &mut Canvas, x: Scale, y: Scale, (end, floor): (f64, f64), size: &str) {
    for tick in y.ticks(7) {
        canvas.line((LEFT, y.at(tick)), (end, y.at(tick)), "grid");
        canvas.text((LEFT - 6.0, y.at(tick) + 4.0), Anchor::End, "soft", &label(tick));
    }
    let most = if canvas.is_narrow() { 4 } else { 8 };
    for tick in x.ticks(most) {
        canvas.line((x.at(tick), 8.0), (x.at(tick), floor), "grid");
        canvas.text((x.at(tick), floor + 16.0), Anchor::Middle, "soft", &label(tick));
    }
    canvas.line((LEFT, floor), (end, floor), "axis");
    canvas.text((LEFT, floor + 36.0), Anchor::Start, "soft", &format!("microseconds over {size}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: &[(f64, f64)]) -> Line {
        let points = points.iter().map(|(size, time)| (*size, *time, "a < b".to_owned())).collect();
        Line { label: "1".to_owned(), points, is_faint: false }
    }

    #[test]
    fn a_line_needs_two_positive_points() {
        let draw = |points: &[(f64, f64)]| super::draw(TimeKind::Measured, "GFLOP", &[line(points)]);
        let svg = draw(&[(1.0, 2.0), (4.0, 5.0)]).unwrap();
        roxmltree::Document::parse(&format!("<div>{svg}</div>")).unwrap();
        assert!(draw(&[(1.0, 2.0)]).is_none());
        assert!(draw(&[(1.0, 2.0), (0.0, 3.0), (f64::NAN, 4.0), (5.0, f64::INFINITY)]).is_none());
    }

    #[test]
    fn labels_of_equal_times_do_not_overlap() {
        let lines: Vec<Line> = (0..6).map(|_| line(&[(1.0, 2.0), (4.0, 5.0)])).collect();
        let svg = super::draw(TimeKind::Measured, "GFLOP", &lines).unwrap();
        let mut heights: Vec<&str> = svg.split("<text").filter(|it| it.contains("\"strong\"")).collect();
        heights.sort_unstable();
        heights.dedup();
        // Six labels in each of the two pictures.
        assert_eq!(heights.len(), 12);
    }
}
