//! The device over a session, from readings in between.

use gpu::telemetry::{Monitor, Reading};

use crate::run::Telemetry;

/// Takes readings, where there is something to read.
#[derive(Debug)]
pub struct TelemetryRecorder<'m> {
    monitor: Option<&'m Monitor>,
    seen: Telemetry,
}

impl<'m> TelemetryRecorder<'m> {
    pub fn new(monitor: Option<&'m Monitor>) -> Self {
        TelemetryRecorder { monitor, seen: Telemetry::default() }
    }

    pub fn look(&mut self) {
        if let Some(monitor) = self.monitor {
            widen(&mut self.seen, monitor.read());
        }
    }

    pub fn seen(self) -> Telemetry {
        self.seen
    }
}

fn widen(seen: &mut Telemetry, reading: Reading) {
    fn range<T: PartialOrd + Copy>(range: &mut Option<(T, T)>, value: Option<T>) {
        if let Some(value) = value {
            let (low, high) = range.unwrap_or((value, value));
            *range = Some((if value < low { value } else { low }, if value > high { value } else { high }));
        }
    }
    range(&mut seen.sm_clock_mhz, reading.sm_clock_mhz);
    range(&mut seen.memory_clock_mhz, reading.memory_clock_mhz);
    range(&mut seen.temperature_c, reading.temperature_c);
    range(&mut seen.power_w, reading.power_w);
    if let Some(reasons) = reading.throttled {
        let all = seen.throttled.get_or_insert_default();
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
    fn readings_become_ranges_and_what_is_missing_stays_missing() {
        let mut seen = Telemetry::default();
        let reading = |clock, throttled: &[&'static str]| Reading {
            sm_clock_mhz: Some(clock),
            throttled: Some(throttled.to_vec()),
            ..Reading::default()
        };
        widen(&mut seen, reading(1900, &[]));
        assert_eq!(seen.throttled, Some(vec![]));
        widen(&mut seen, reading(1700, &["power cap"]));
        widen(&mut seen, reading(1980, &["power cap"]));
        assert_eq!(seen.sm_clock_mhz, Some((1700, 1980)));
        assert_eq!(seen.throttled, Some(vec!["power cap".to_owned()]));
        assert_eq!((seen.power_w, seen.temperature_c), (None, None));
    }
}
