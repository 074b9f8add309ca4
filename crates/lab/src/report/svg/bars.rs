//! Bars that lie: a name, a bar, a number.

use super::super::Kind;
use super::scale::{Scale, label};
use super::{Anchor, Canvas, bold_width, fit, picture, text_width};

/// What a bar's length means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// How many times: bars start at 1, and twice is as far as half.
    Ratio,
    /// How much: bars start at 0.
    Amount,
}

#[derive(Debug)]
pub struct Group {
    /// Empty for none.
    pub heading: String,
    pub bars: Vec<Bar>,
}

#[derive(Debug)]
pub struct Bar {
    pub label: String,
    pub value: f64,
    pub interval: Option<(f64, f64)>,
    /// The number as written beside the bar.
    pub text: String,
    pub title: String,
    /// What it is may be no more than chance, or is only there for comparison.
    pub is_faint: bool,
}

const HEADING: f64 = 30.0;
const ROW: f64 = 22.0;
const BAR: f64 = 11.0;
const AXIS: f64 = 24.0;

/// Bars with no value that can be drawn are left out of the picture; the table beside it has them all.
pub fn draw(kind: Kind, what: &str, axis: Axis, unit: &str, groups: &[Group]) -> String {
    let drawn = |bar: &&Bar| bar.value.is_finite() && (axis == Axis::Amount || bar.value > 0.0);
    picture(kind, what, |canvas| {
        let bars: Vec<&Bar> = groups.iter().flat_map(|group| group.bars.iter().filter(drawn)).collect();
        let share = if canvas.is_narrow() { 0.42 } else { 0.36 };
        let widest = |widths: &mut dyn Iterator<Item = f64>| widths.fold(0.0, f64::max);
        let labels = widest(&mut bars.iter().map(|bar| text_width(&bar.label)));
        let left = labels.min(canvas.width * share) + 10.0;
        let right = canvas.width - widest(&mut bars.iter().map(|bar| bold_width(&bar.text))) - 8.0;
        let scale = scale(axis, &bars, (left, right));
        let rows: f64 = groups
            .iter()
            .map(|group| {
                let heading = if group.heading.is_empty() { 0.0 } else { HEADING };
                heading + ROW * group.bars.iter().filter(drawn).count() as f64
            })
            .sum();
        grid(canvas, scale, axis, unit, rows);
        let zero = scale.at(if axis == Axis::Ratio { 1.0 } else { 0.0 });
        let mut y = 0.0;
        for group in groups {
            if !group.heading.is_empty() {
                let text = fit(&group.heading, canvas.width);
                canvas.text((0.0, y + HEADING - 9.0), Anchor::Start, "strong halo", &text);
                y += HEADING;
            }
            for bar in group.bars.iter().filter(drawn) {
                canvas.titled(&bar.title, |canvas| one(canvas, bar, scale, zero, (left, y)));
                y += ROW;
            }
        }
        rows + AXIS
    })
}

fn scale(axis: Axis, bars: &[&Bar], place: (f64, f64)) -> Scale {
    let ends = bars.iter().flat_map(|bar| {
        let (low, high) = bar.interval.unwrap_or((bar.value, bar.value));
        [low, high, bar.value].into_iter().filter(|end| end.is_finite())
    });
    let (low, high) = ends.fold((f64::INFINITY, 0.0_f64), |(low, high), end| (low.min(end), high.max(end)));
    match axis {
        Axis::Amount => Scale::linear((0.0, if high > 0.0 { high } else { 1.0 }), place),
        Axis::Ratio => {
            // Room on both sides of 1, so that nobody takes 1 for the end.
            let (low, high) = (low.clamp(1e-6, 1.0), high.max(1.0));
            let room = (high / low).powf(0.06).max(1.02);
            Scale::log((low / room, high * room), place)
        }
    }
}

fn grid(canvas: &mut Canvas, scale: Scale, axis: Axis, unit: &str, rows: f64) {
    let most = if canvas.is_narrow() { 4 } else { 7 };
    for tick in scale.ticks(most) {
        let x = scale.at(tick);
        let class = if axis == Axis::Ratio && tick == 1.0 { "base" } else { "grid" };
        canvas.line((x, 2.0), (x, rows + 4.0), class);
        canvas.text((x, rows + 18.0), Anchor::Middle, "soft", &format!("{}{unit}", label(tick)));
    }
}

fn one(canvas: &mut Canvas, bar: &Bar, scale: Scale, zero: f64, (left, y): (f64, f64)) {
    let middle = y + ROW / 2.0;
    // The whole row answers to the pointer.
    canvas.rect((0.0, y), (canvas.width, ROW), "row");
    canvas.text((left - 10.0, middle + 4.0), Anchor::End, "", &fit(&bar.label, left - 10.0));
    let end = scale.at(bar.value);
    let class = if bar.is_faint { "bar faint" } else { "bar" };
    canvas.rect((zero.min(end), middle - BAR / 2.0), ((end - zero).abs().max(1.0), BAR), class);
    if let Some((low, high)) = bar.interval {
        let (low, high) = (scale.at(low), scale.at(high));
        // One that is narrower than its own ends would only smudge the bar.
        if high - low >= 3.0 {
            canvas.line((low, middle), (high, middle), "whisker");
            for x in [low, high] {
                canvas.line((x, middle - 3.0), (x, middle + 3.0), "whisker");
            }
        }
    }
    canvas.text((canvas.width, middle + 4.0), Anchor::End, "strong", &bar.text);
}
