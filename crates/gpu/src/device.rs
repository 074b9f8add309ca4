//! Which device is meant: `auto`, `cuda:1`, `virtual:l4`.

use std::fmt;
use std::str::FromStr;

use chips::{Chip, ComputeCapability, Target, UnknownChip};

use crate::machine;

/// The GPU that `virtual` alone stands for.
pub const DEFAULT_VIRTUAL: &str = "l4";

/// What the user asked for.
#[derive(Clone, Copy, Debug)]
pub enum Selector {
    /// The first CUDA GPU if there is one, else a virtual one.
    Auto,
    Cuda(u32),
    Virtual(&'static Chip),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error("`{0}` is not a device; it is auto, cuda, cuda:N, virtual or virtual:GPU")]
    Form(String),
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

/// A device that is there.
#[derive(Clone, Debug)]
pub enum Device {
    Cuda { index: u32, name: String, target: Target },
    Virtual { chip: &'static Chip },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    #[error("there is no CUDA GPU: {0}")]
    NoDriver(String),
    #[error("there is no GPU {index}; the machine has {count}")]
    NoSuchGpu { index: u32, count: usize },
    #[error("{name} (compute capability {}) is none that Warpsmith compiles for", capability.map_or("unknown".to_owned(), |(a, b)| format!("{a}.{b}")))]
    UnknownCapability { name: String, capability: Option<(i32, i32)> },
    #[error(transparent)]
    Selector(#[from] SelectorError),
}

impl Device {
    /// Finds the device a selector means.
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

    /// The GPU as its driver names it, or as the table of GPUs does.
    pub fn gpu(&self) -> &str {
        match self {
            Device::Cuda { name, .. } => name,
            Device::Virtual { chip } => chip.name,
        }
    }

    /// What to compile for, so that it runs there.
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
    fn selectors_are_read_in_all_their_forms() {
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
