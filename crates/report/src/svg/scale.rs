//! Maps values to positions on an axis, and selects the labelled values.

/// A linear or logarithmic axis.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    /// A linear axis for values from `low` to `high`, at positions from `from` to `to`.
    pub fn linear((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Scale { low, high, from, to, log: false }
    }

    /// A logarithmic axis. Both ends must be positive.
    pub fn log((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        let low = if low > 0.0 && low.is_finite() { low } else { 1e-3 };
        let high = if high > low && high.is_finite() { high } else { low * 2.0 };
        Scale { low, high, from, to, log: true }
    }

    /// The position of a value. Values outside the axis are placed at its ends.
    pub fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + (self.to - self.from) * share.clamp(0.0, 1.0)
    }

    /// Whether a value lies beyond the end of the axis. [`Scale::at`] places it at the end.
    pub fn is_beyond(&self, value: f64) -> bool {
        value > self.high
    }

    /// Round values for labels, about `most` at the most.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        if self.log {
            // From many marks per decade to few: the first set that fits.
            for marks in [&[1.0, 1.5, 2.0, 3.0, 5.0, 7.0][..], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]] {
                let ticks = self.decades(marks);
                if ticks.len() >= 3 && ticks.len() <= most {
                    return ticks;
                }
            }
            let decades = self.decades(&[1.0]);
            if decades.len() > most {
                return decades.into_iter().step_by(decades_step(self.low, self.high, most)).collect();
            }
        }
        self.steps(most)
    }

    fn decades(&self, marks: &[f64]) -> Vec<f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let values = decades.flat_map(|decade| marks.iter().map(move |mark| mark * 10f64.powi(decade)));
        values.filter(|value| (self.low..=self.high).contains(value)).collect()
    }

    fn steps(&self, most: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / most.max(2) as f64;
        let decade = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].iter().map(|times| times * decade).find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last.min(first + 100)).map(|index| index as f64 * step).collect()
    }
}

fn decades_step(low: f64, high: f64, most: usize) -> usize {
    (((high / low).log10() / most.max(1) as f64).ceil() as usize).max(1)
}

/// The label of a value, without trailing zeros.
pub fn label(value: f64) -> String {
    if value.abs() >= 1e5 || (value != 0.0 && value.abs() < 1e-3) {
        return format!("{value:.0e}");
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_limited_in_number() {
        let ticks_of = |low, high, most| Scale::log((low, high), (0.0, 1.0)).ticks(most);
        assert_eq!(ticks_of(0.15, 18.0, 7), [0.2, 0.5, 1.0, 2.0, 5.0, 10.0]);
        assert_eq!(
            ticks_of(0.9, 1.35, 6).into_iter().map(label).collect::<Vec<_>>(),
            ["0.9", "1", "1.1", "1.2", "1.3"]
        );
        assert_eq!(Scale::linear((0.0, 103.0), (0.0, 1.0)).ticks(5), [0.0, 50.0, 100.0]);
        for (low, high) in [(1e-9, 1e9), (1.0, 1.0), (0.0, 5.0), (f64::NAN, f64::INFINITY)] {
            let ticks = ticks_of(low, high, 6);
            assert!(ticks.len() <= 8 && ticks.iter().all(|tick| tick.is_finite()), "{ticks:?}");
        }
    }

    #[test]
    fn values_outside_the_range_stay_on_the_axis() {
        let scale = Scale::log((0.1, 10.0), (0.0, 100.0));
        assert_eq!((scale.at(0.0), scale.at(1e9)), (0.0, 100.0));
        assert!((scale.at(1.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn labels_have_no_trailing_zeros() {
        assert_eq!([0.25, 1.0, 1000.0, 0.0, 2.5e6].map(label), ["0.25", "1", "1000", "0", "2e6"]);
    }
}
