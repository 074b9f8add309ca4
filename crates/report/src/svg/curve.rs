//! The course of a search: the score of every trial, and the best elite so far.

use super::super::TimeKind;
use super::scale::{Scale, label};
use super::{Anchor, Canvas, picture};

/// One trial.
#[derive(Debug)]
pub struct Point {
    /// The trial's number.
    pub number: u32,
    /// The score; `None` if the trial failed.
    pub score: Option<f64>,
    /// Whether the trial is one of the last elites.
    pub is_elite: bool,
    /// Whether the trial was an elite when it was tried.
    pub was_elite: bool,
    /// The tooltip.
    pub title: String,
}

const HEIGHT: f64 = 260.0;
const BOTTOM: f64 = 44.0;
const LEFT: f64 = 46.0;

/// Draws the points, which must be sorted by number.
pub fn draw(kind: TimeKind, points: &[Point]) -> String {
    let label = format!("speedup of every trial over the search's baseline, {}", kind.word());
    picture(kind, &label, |canvas| {
        let scores = points.iter().filter_map(|point| point.score);
        let (low, high) = scores.fold((1.0_f64, 1.0_f64), |(low, high), it| (low.min(it), high.max(it)));
        let room = (high / low).powf(0.08).max(1.02);
        let (first, last) =
            (points.first().map_or(0, |it| it.number), points.last().map_or(1, |it| it.number));
        let right = canvas.width - 8.0;
        let x = Scale::linear((f64::from(first), f64::from(last)), (LEFT + 6.0, right));
        let floor = HEIGHT - BOTTOM;
        let y = Scale::log((low / room, high * room), (floor - 12.0, 8.0));
        axes(canvas, x, y, (right, floor));
        best_so_far(canvas, points, x, y, right);
        for point in points {
            let place = x.at(f64::from(point.number));
            canvas.titled(&point.title, |canvas| {
                if let Some(score) = point.score {
                    let (radius, class) = if point.is_elite { (4.5, "elite") } else { (3.0, "tried") };
                    canvas.circle((place, y.at(score)), 9.0, "row");
                    canvas.circle((place, y.at(score)), radius, class);
                } else {
                    canvas.rect((place - 3.0, floor - 9.0), (6.0, 9.0), "row");
                    canvas.path(&[(place - 2.5, floor - 8.0), (place + 2.5, floor - 3.0)], "failed");
                    canvas.path(&[(place - 2.5, floor - 3.0), (place + 2.5, floor - 8.0)], "failed");
                }
            });
        }
        HEIGHT
    })
}

fn axes(canvas: &mut Canvas, x: Scale, y: Scale, (right, floor): (f64, f64)) {
    for tick in y.ticks(7) {
        let class = if tick == 1.0 { "base" } else { "grid" };
        canvas.line((LEFT, y.at(tick)), (right, y.at(tick)), class);
        canvas.text((LEFT - 6.0, y.at(tick) + 4.0), Anchor::End, "soft", &format!("{}x", label(tick)));
    }
    canvas.line((LEFT, floor), (right, floor), "axis");
    let most = if canvas.is_narrow() { 5 } else { 9 };
    for tick in x.ticks(most).into_iter().filter(|tick| tick.fract() == 0.0) {
        canvas.text((x.at(tick), floor + 16.0), Anchor::Middle, "soft", &label(tick));
    }
    canvas.text((f64::midpoint(LEFT, right), floor + 36.0), Anchor::Middle, "soft", "trial");
}

fn best_so_far(canvas: &mut Canvas, points: &[Point], x: Scale, y: Scale, right: f64) {
    let mut steps: Vec<(f64, f64)> = Vec::new();
    let mut best = 0.0;
    for point in points {
        let Some(score) = point.score.filter(|score| point.was_elite && *score > best) else { continue };
        best = score;
        let place = x.at(f64::from(point.number));
        if let Some(&(_, before)) = steps.last() {
            steps.push((place, before));
        }
        steps.push((place, y.at(score)));
    }
    if let Some(&(_, last)) = steps.last() {
        steps.push((right, last));
        canvas.path(&steps, "best");
    }
}
