//! Selects a device from text such as `auto`, `cuda:1` or `virtual:l4`.

use std::fmt;
use std::str::FromStr;

use chips::{Chip, ComputeCapability, Target, UnknownChip};

use crate::machine;

/// The GPU of the selector `virtual` without a name.
pub const DEFAULT_VIRTUAL: &str = "l4";

/// A device as the user selected it.
#[derive(Clone, Copy, Debug)]
pub enum Selector {
    /// The first CUDA GPU if there is one, otherwise a virtual GPU.
    Auto,
    /// The CUDA GPU with this number.
    Cuda(u32),
    /// A virtual GPU.
    Virtual(&'static Chip),
}

/// Why a text does not select a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The text has none of the valid forms.
    #[error("`{0}` is not a device; expected auto, cuda, cuda:N, virtual or virtual:GPU")]
    Form(String),
    /// The text names a virtual GPU that is not in the table.
    #[error("{0}")]
    Chip(UnknownChip),
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let chip = |name: &str| Chip::by_name(name).map(Selector::Virtual).map_err(SelectorError::Chip);
        match text.split_once(':') {
            None if text == "auto" => Ok(Selector::Auto),
            None if text == "cuda" => Ok(Selector::Cuda(0)),
            None if text == "virtual" => chip(DEFAULT_VIRTUAL),
            Some(("cuda", index)) => {
                index.parse().map(Selector::Cuda).map_err(|_| SelectorError::Form(text.to_owned()))
            }
            Some(("virtual", name)) => chip(name),
            _ => Err(SelectorError::Form(text.to_owned())),
        }
    }
}

/// A device that exists.
#[derive(Clone, Debug)]
pub enum Device {
    /// A GPU of this machine.
    Cuda {
        /// The driver's index of the GPU.
        index: u32,
        /// The driver's name of the GPU.
        name: String,
        /// The target with the most features that the GPU runs.
        target: Target,
    },
    /// The virtual GPU.
    Virtual {
        /// The GPU product that is modelled.
        chip: &'static Chip,
    },
}

/// Why the selected device cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The driver or its library is missing; contains the reason.
    #[error("there is no CUDA GPU: {0}")]
    NoDriver(String),
    /// The machine has no GPU with the selected index.
    #[error("there is no GPU {index}; this machine has {count}")]
    NoSuchGpu {
        /// The selected index.
        index: u32,
        /// Number of GPUs of the machine.
        count: usize,
    },
    /// No target fits the GPU's compute capability.
    #[error("{name} (compute capability {}) is not supported", capability.map_or("unknown".to_owned(), |(a, b)| format!("{a}.{b}")))]
    UnknownCapability {
        /// The driver's name of the GPU.
        name: String,
        /// The compute capability as (major, minor); `None` if the driver does not report it.
        capability: Option<(i32, i32)>,
    },
    /// The text does not select a device.
    #[error(transparent)]
    Selector(#[from] SelectorError),
}

impl Device {
    /// Finds the device that a selector names.
    pub fn find(selector: Selector) -> Result<Self, DeviceError> {
        match selector {
            Selector::Virtual(chip) => Ok(Device::Virtual { chip }),
            Selector::Cuda(index) => Self::cuda(index),
            Selector::Auto => match Self::cuda(0) {
                Ok(device) => Ok(device),
                Err(_) => Self::find(DEFAULT_VIRTUAL_SELECTOR.parse()?),
            },
        }
    }

    fn cuda(index: u32) -> Result<Self, DeviceError> {
        let driver = machine::driver().map_err(DeviceError::NoDriver)?;
        let count = driver.gpus.len();
        let gpu = driver.gpus.into_iter().find(|gpu| gpu.index == index);
        let gpu = gpu.ok_or(DeviceError::NoSuchGpu { index, count })?;
        let target = gpu.compute_capability.and_then(|(major, minor)| {
            Target::best_for(ComputeCapability::new(major.try_into().ok()?, minor.try_into().ok()?))
        });
        match target {
            Some(target) => Ok(Device::Cuda { index, name: gpu.name, target }),
            None => {
                Err(DeviceError::UnknownCapability { name: gpu.name, capability: gpu.compute_capability })
            }
        }
    }

    /// The name of the GPU, from its driver or from the chip table.
    pub fn gpu(&self) -> &str {
        match self {
            Device::Cuda { name, .. } => name,
            Device::Virtual { chip } => chip.name,
        }
    }

    /// The compile target for this device.
    pub fn target(&self) -> Target {
        match self {
            Device::Cuda { target, .. } => *target,
            Device::Virtual { chip } => chip.target,
        }
    }
}

const DEFAULT_VIRTUAL_SELECTOR: &str = "virtual";

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cuda { index, name, .. } => write!(f, "cuda:{index} ({name})"),
            Device::Virtual { chip } => write!(f, "virtual:{}", chip.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_selector_is_parsed() {
        assert!(matches!("auto".parse(), Ok(Selector::Auto)));
        assert!(matches!("cuda".parse(), Ok(Selector::Cuda(0))));
        assert!(matches!("cuda:3".parse(), Ok(Selector::Cuda(3))));
        assert!(matches!("virtual:h200".parse(), Ok(Selector::Virtual(chip)) if chip.id == "h200"));
        assert!(matches!("virtual".parse(), Ok(Selector::Virtual(chip)) if chip.id == DEFAULT_VIRTUAL));
        for wrong in ["gpu", "cuda:x", "virtual:tpu", "cuda:", ""] {
            assert!(wrong.parse::<Selector>().is_err(), "{wrong}");
        }
    }
}
