//! Horizontal bar charts: a label, a bar and a number per row.

use super::super::TimeKind;
use super::scale::{Scale, label};
use super::{Anchor, Canvas, bold_width, fit, fit_bold, picture, text_width};

/// The meaning of a bar's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// A ratio on a logarithmic axis: bars start at 1, and 2x is as long as 0.5x.
    Ratio,
    /// An amount on a linear axis: bars start at 0. Each group has its own axis.
    Amount,
    /// A time: as [`Axis::Amount`], but bars that are much longer than the others are cut.
    Time,
}

/// Bars under one heading.
#[derive(Debug)]
pub struct Group {
    /// The heading; empty for none.
    pub heading: String,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug)]
pub struct Bar {
    /// The label on the left.
    pub label: String,
    /// The value at the end of the bar.
    pub value: f64,
    /// The interval of the value, drawn as whiskers.
    pub interval: Option<(f64, f64)>,
    /// The number beside the bar.
    pub text: String,
    /// The tooltip.
    pub title: String,
    /// Whether the bar is pale, because its value is within the noise or zero.
    pub is_faint: bool,
}

const HEADING_HEIGHT: f64 = 30.0;
const ROW_HEIGHT: f64 = 22.0;
const BAR_HEIGHT: f64 = 11.0;
const AXIS_HEIGHT: f64 = 24.0;

/// Draws the groups. Bars without a drawable value are left out; the table beside the picture has them all.
pub fn draw(kind: TimeKind, label: &str, axis: Axis, unit: &str, groups: &[Group]) -> String {
    let is_drawable = |bar: &&Bar| bar.value.is_finite() && (axis == Axis::Amount || bar.value > 0.0);
    picture(kind, label, |canvas| {
        let bars: Vec<&Bar> = groups.iter().flat_map(|group| group.bars.iter().filter(is_drawable)).collect();
        let share = if canvas.is_narrow() { 0.42 } else { 0.36 };
        let widest = |widths: &mut dyn Iterator<Item = f64>| widths.fold(0.0, f64::max);
        let labels = widest(&mut bars.iter().map(|bar| text_width(&bar.label)));
        let left = labels.min(canvas.width * share) + 10.0;
        let right = canvas.width - widest(&mut bars.iter().map(|bar| bold_width(&bar.text))) - 8.0;
        let common = scale(axis, &bars, (left, right));
        let mut y = 0.0;
        for group in groups {
            let bars: Vec<&Bar> = group.bars.iter().filter(is_drawable).collect();
            if bars.is_empty() {
                continue;
            }
            if !group.heading.is_empty() {
                let text = fit_bold(&group.heading, canvas.width);
                canvas.text((0.0, y + HEADING_HEIGHT - 9.0), Anchor::Start, "strong halo", &text);
                y += HEADING_HEIGHT;
            }
            // Ratios of all groups can be compared. Amounts of different groups may differ by orders of magnitude.
            let scale = if axis == Axis::Ratio { common } else { scale(axis, &bars, (left, right)) };
            let zero = scale.at(if axis == Axis::Ratio { 1.0 } else { 0.0 });
            let end = y + ROW_HEIGHT * bars.len() as f64;
            grid(canvas, scale, axis, unit, (y, end));
            for bar in bars {
                canvas.titled(&bar.title, |canvas| draw_bar(canvas, bar, scale, zero, (left, y)));
                y += ROW_HEIGHT;
            }
            y = end + AXIS_HEIGHT;
        }
        y
    })
}

fn scale(axis: Axis, bars: &[&Bar], place: (f64, f64)) -> Scale {
    let ends = bars.iter().flat_map(|bar| {
        let (low, high) = bar.interval.unwrap_or((bar.value, bar.value));
        [low, high, bar.value].into_iter().filter(|end| end.is_finite())
    });
    let (low, high) = ends.fold((f64::INFINITY, 0.0_f64), |(low, high), end| (low.min(end), high.max(end)));
    match axis {
        Axis::Amount | Axis::Time => {
            let high = if axis == Axis::Time { longest_drawn(bars) } else { high };
            Scale::linear((0.0, if high > 0.0 { high } else { 1.0 }), place)
        }
        Axis::Ratio => {
            // A margin on both sides, so that 1 is not at the end of the axis.
            let (low, high) = (low.clamp(1e-6, 1.0), high.max(1.0));
            let room = (high / low).powf(0.06).max(1.02);
            Scale::log((low / room, high * room), place)
        }
    }
}

/// The end of an axis of amounts. One bar that is much longer than the others would hide their differences, so the axis
/// ends at the longest bar that is not; [`draw_bar`] marks the bars that are longer.
fn longest_drawn(bars: &[&Bar]) -> f64 {
    const MUCH_LONGER: f64 = 5.0;
    let mut values: Vec<f64> = bars.iter().map(|bar| bar.value).collect();
    values.sort_by(f64::total_cmp);
    let median = values.get(values.len() / 2).copied().unwrap_or(0.0);
    let drawn = values.iter().copied().filter(|value| *value <= MUCH_LONGER * median);
    drawn.fold(0.0, f64::max)
}

/// Draws the grid lines of a group and the axis under it.
fn grid(canvas: &mut Canvas, scale: Scale, axis: Axis, unit: &str, (top, bottom): (f64, f64)) {
    let most = if canvas.is_narrow() { 4 } else { 7 };
    let mut free_from = f64::NEG_INFINITY;
    for tick in scale.ticks(most) {
        let x = scale.at(tick);
        let class = if axis == Axis::Ratio && tick == 1.0 { "base" } else { "grid" };
        canvas.line((x, top + 2.0), (x, bottom + 4.0), class);
        let text = format!("{}{unit}", label(tick));
        let half = text_width(&text) / 2.0;
        if x - half >= free_from {
            canvas.text((x, bottom + 18.0), Anchor::Middle, "soft", &text);
            free_from = x + half + 6.0;
        }
    }
}

fn draw_bar(canvas: &mut Canvas, bar: &Bar, scale: Scale, zero: f64, (left, y): (f64, f64)) {
    let middle = y + ROW_HEIGHT / 2.0;
    // The tooltip appears anywhere in the row.
    canvas.rect((0.0, y), (canvas.width, ROW_HEIGHT), "row");
    canvas.text((left - 10.0, middle + 4.0), Anchor::End, "", &fit(&bar.label, left - 10.0));
    let end = scale.at(bar.value);
    let class = if bar.is_faint { "bar faint" } else { "bar" };
    canvas.rect((zero.min(end), middle - BAR_HEIGHT / 2.0), ((end - zero).abs().max(1.0), BAR_HEIGHT), class);
    if let Some((low, high)) = bar.interval {
        let (low, high) = (scale.at(low), scale.at(high));
        // Whiskers narrower than 3 pixels would only blur the end of the bar.
        if high - low >= 3.0 {
            canvas.line((low, middle), (high, middle), "whisker");
            for x in [low, high] {
                canvas.line((x, middle - 3.0), (x, middle + 3.0), "whisker");
            }
        }
    }
    if scale.is_beyond(bar.value) {
        for x in [end - 14.0, end - 8.0] {
            canvas.line((x, middle - BAR_HEIGHT), (x + 4.0, middle + BAR_HEIGHT), "cut");
        }
    }
    canvas.text((canvas.width, middle + 4.0), Anchor::End, "strong", &bar.text);
}
