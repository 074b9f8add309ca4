//! Clocks, temperature, power and throttling of a GPU, from NVML.

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};

/// Reads the state of one GPU. Every value may be missing: drivers in virtual machines hide some of them.
#[derive(Debug)]
pub struct Monitor {
    nvml: Nvml,
    index: u32,
}

/// The state of the GPU at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The SM clock in MHz; `None` if the driver does not report it.
    pub sm_clock_mhz: Option<u32>,
    /// The memory clock in MHz; `None` if the driver does not report it.
    pub memory_clock_mhz: Option<u32>,
    /// The GPU's temperature in degrees Celsius; `None` if the driver does not report it.
    pub temperature_c: Option<u32>,
    /// The power draw in watts; `None` if the driver does not report it.
    pub power_w: Option<f64>,
    /// Why the clocks are reduced; empty if they are not.
    pub throttled: Option<Vec<&'static str>>,
}

impl Monitor {
    /// The monitor of a GPU, or the reason why there is none.
    pub fn open(index: u32) -> Result<Self, String> {
        let nvml = Nvml::init().map_err(|error| error.to_string())?;
        nvml.device_by_index(index).map_err(|error| error.to_string())?;
        Ok(Monitor { nvml, index })
    }

    /// Reads the current state.
    pub fn read(&self) -> Reading {
        let Ok(device) = self.nvml.device_by_index(self.index) else { return Reading::default() };
        Reading {
            sm_clock_mhz: device.clock_info(Clock::SM).ok(),
            memory_clock_mhz: device.clock_info(Clock::Memory).ok(),
            temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
            power_w: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1000.0),
            throttled: device.current_throttle_reasons().ok().map(throttle_names),
        }
    }
}

/// Names of the reasons that slow a kernel down. An idle GPU and clocks set by the user do not count.
fn throttle_names(reasons: ThrottleReasons) -> Vec<&'static str> {
    let all = [
        (ThrottleReasons::SW_POWER_CAP, "power cap"),
        (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
        (ThrottleReasons::SYNC_BOOST, "sync boost"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "thermal slowdown"),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hardware thermal slowdown"),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power brake"),
    ];
    all.into_iter().filter(|(reason, _)| reasons.contains(*reason)).map(|(_, word)| word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_gpu_is_not_throttled() {
        assert_eq!(
            throttle_names(ThrottleReasons::GPU_IDLE | ThrottleReasons::APPLICATIONS_CLOCKS_SETTING),
            [""; 0]
        );
        assert_eq!(throttle_names(ThrottleReasons::SW_POWER_CAP | ThrottleReasons::GPU_IDLE), ["power cap"]);
    }
}
