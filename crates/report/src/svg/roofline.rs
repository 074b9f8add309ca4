//! Roofline plots: kernels below the limits of memory bandwidth and arithmetic throughput.

use super::super::TimeKind;
use super::super::words::number;
use super::scale::{Scale, label};
use super::{Anchor, Canvas, bold_width, picture};

/// The two limits.
#[derive(Clone, Debug)]
pub struct Roofs {
    /// Arithmetic throughput in TFLOP/s.
    pub tflops: f64,
    /// Memory bandwidth in GB/s.
    pub gb_per_s: f64,
}

/// One kernel on one problem.
#[derive(Debug)]
pub struct Point {
    /// A short label beside the mark.
    pub label: String,
    /// Arithmetic intensity.
    pub flops_per_byte: f64,
    /// The achieved rate.
    pub tflops: f64,
    /// The tooltip.
    pub title: String,
    /// Whether the point is a baseline, which is drawn hollow.
    pub is_faint: bool,
}

const HEIGHT: f64 = 300.0;
const LEFT: f64 = 48.0;
const BOTTOM: f64 = 44.0;

/// Draws the plot. `None` if a limit is not a positive number, or if no point has positive numbers.
pub fn draw(kind: TimeKind, roofs: &Roofs, points: &[Point]) -> Option<String> {
    let is_positive = |value: f64| value.is_finite() && value > 0.0;
    let points: Vec<&Point> = points
        .iter()
        .filter(|point| is_positive(point.flops_per_byte) && is_positive(point.tflops))
        .collect();
    if points.is_empty() || !is_positive(roofs.tflops) || !is_positive(roofs.gb_per_s) {
        return None;
    }
    // Operations per byte at which the two limits are equal.
    let ridge = roofs.tflops * 1000.0 / roofs.gb_per_s;
    let ends = |of: fn(&Point) -> f64, start: f64| {
        points.iter().map(|it| of(it)).fold((start, start), |(low, high), it| (low.min(it), high.max(it)))
    };
    let (left, right) = ends(|point| point.flops_per_byte, ridge);
    let (low, high) = ends(|point| point.tflops, roofs.tflops);
    let label = format!("roofline, {}", kind.word());
    Some(picture(kind, &label, |canvas| {
        let floor = HEIGHT - BOTTOM;
        let end = canvas.width - 10.0;
        let domain = (left / 4.0, right * 4.0);
        let x = Scale::log(domain, (LEFT, end));
        let y = Scale::log((low / 3.0, high * 2.0), (floor, 8.0));
        axes(canvas, x, y, (end, floor));
        let memory_limit = |intensity: f64| intensity * roofs.gb_per_s / 1000.0;
        // The memory limit enters the picture at its left side or at its bottom.
        let first_intensity = domain.0.max(low / 3.0 * 1000.0 / roofs.gb_per_s);
        let corner = (x.at(ridge), y.at(roofs.tflops));
        let start = (x.at(first_intensity), y.at(memory_limit(first_intensity)));
        canvas.titled("limits of memory and arithmetic", |canvas| {
            canvas.path(&[start, corner, (end, corner.1)], "roof");
        });
        let arithmetic = format!("{} TFLOP/s", number(roofs.tflops));
        canvas.text((end, corner.1 - 7.0), Anchor::End, "soft", &arithmetic);
        let half = (f64::midpoint(start.0, corner.0), f64::midpoint(start.1, corner.1));
        let bandwidth = format!("{} GB/s", number(roofs.gb_per_s));
        canvas.text((half.0 - 8.0, half.1 - 6.0), Anchor::End, "soft halo", &bandwidth);
        // The positions of labels. A label that would overlap another one is left out; the tooltip has its text.
        let mut labels: Vec<(f64, f64)> = Vec::new();
        for point in &points {
            let (at, height) = (x.at(point.flops_per_byte), y.at(point.tflops));
            canvas.titled(&point.title, |canvas| {
                canvas.circle((at, height), 10.0, "row");
                canvas.circle((at, height), 5.0, if point.is_faint { "tried" } else { "elite" });
                // The two points of a problem are often close, so their labels are on different sides. A long label
                // is on the side where it fits.
                let leftwards = point.is_faint || at + 9.0 + bold_width(&point.label) > end;
                let (side, anchor) = if leftwards { (-9.0, Anchor::End) } else { (9.0, Anchor::Start) };
                let place = (at + side, height + 4.0);
                let near =
                    |other: &(f64, f64)| (other.0 - place.0).abs() < 16.0 && (other.1 - place.1).abs() < 11.0;
                if !labels.iter().any(near) {
                    labels.push(place);
                    canvas.text(place, anchor, "strong halo", &point.label);
                }
            });
        }
        HEIGHT
    }))
}

fn axes(canvas: &mut Canvas, x: Scale, y: Scale, (end, floor): (f64, f64)) {
    for tick in y.ticks(7) {
        canvas.line((LEFT, y.at(tick)), (end, y.at(tick)), "grid");
        canvas.text((LEFT - 6.0, y.at(tick) + 4.0), Anchor::End, "soft", &label(tick));
    }
    let most = if canvas.is_narrow() { 5 } else { 8 };
    for tick in x.ticks(most) {
        canvas.line((x.at(tick), 8.0), (x.at(tick), floor), "grid");
        canvas.text((x.at(tick), floor + 16.0), Anchor::Middle, "soft", &label(tick));
    }
    canvas.line((LEFT, floor), (end, floor), "axis");
    canvas.text((LEFT, floor + 36.0), Anchor::Start, "soft", "TFLOP/s over operations per byte");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(flops_per_byte: f64, tflops: f64) -> Point {
        let [label, title] = ["1", "a kernel"].map(str::to_owned);
        Point { label, flops_per_byte, tflops, title, is_faint: false }
    }

    #[test]
    fn a_plot_needs_positive_numbers() {
        let roofs = Roofs { tflops: 800.0, gb_per_s: 4000.0 };
        assert!(draw(TimeKind::Measured, &roofs, &[point(100.0, 50.0)]).is_some());
        assert!(draw(TimeKind::Measured, &roofs, &[point(0.0, 50.0), point(1.0, f64::NAN)]).is_none());
        let none = Roofs { tflops: 0.0, ..roofs };
        assert!(draw(TimeKind::Measured, &none, &[point(100.0, 50.0)]).is_none());
    }
}
