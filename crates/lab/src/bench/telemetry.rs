//! The state of the device during a session, from readings between blocks.

use gpu::telemetry::{Monitor, Reading};
use runlog::Telemetry;

/// Takes readings if a monitor is available.
#[derive(Debug)]
pub struct TelemetryRecorder<'m> {
    monitor: Option<&'m Monitor>,
    telemetry: Telemetry,
}

impl<'m> TelemetryRecorder<'m> {
    /// Starts with no readings.
    pub fn new(monitor: Option<&'m Monitor>) -> Self {
        TelemetryRecorder { monitor, telemetry: Telemetry::default() }
    }

    /// Takes one reading.
    pub fn record_reading(&mut self) {
        if let Some(monitor) = self.monitor {
            extend_ranges(&mut self.telemetry, monitor.read());
        }
    }

    /// Returns the ranges over all readings.
    pub fn finish(self) -> Telemetry {
        self.telemetry
    }
}

/// Widens the ranges by one reading.
fn extend_ranges(telemetry: &mut Telemetry, reading: Reading) {
    fn range<T: PartialOrd + Copy>(range: &mut Option<(T, T)>, value: Option<T>) {
        if let Some(value) = value {
            let (low, high) = range.unwrap_or((value, value));
            *range = Some((if value < low { value } else { low }, if value > high { value } else { high }));
        }
    }
    range(&mut telemetry.sm_clock_mhz, reading.sm_clock_mhz);
    range(&mut telemetry.memory_clock_mhz, reading.memory_clock_mhz);
    range(&mut telemetry.temperature_c, reading.temperature_c);
    range(&mut telemetry.power_w, reading.power_w);
    if let Some(reasons) = reading.throttled {
        let all = telemetry.throttled.get_or_insert_default();
        for reason in reasons {
            if !all.iter().any(|known| known == reason) {
                all.push(reason.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_become_ranges_and_missing_values_stay_missing() {
        let mut telemetry = Telemetry::default();
        let reading = |clock, throttled: &[&'static str]| Reading {
            sm_clock_mhz: Some(clock),
            throttled: Some(throttled.to_vec()),
            ..Reading::default()
        };
        extend_ranges(&mut telemetry, reading(1900, &[]));
        assert_eq!(telemetry.throttled, Some(vec![]));
        extend_ranges(&mut telemetry, reading(1700, &["power cap"]));
        extend_ranges(&mut telemetry, reading(1980, &["power cap"]));
        assert_eq!(telemetry.sm_clock_mhz, Some((1700, 1980)));
        assert_eq!(telemetry.throttled, Some(vec!["power cap".to_owned()]));
        assert_eq!((telemetry.power_w, telemetry.temperature_c), (None, None));
    }
}
