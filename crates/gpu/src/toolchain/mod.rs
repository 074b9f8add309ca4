//! Where NVRTC and the CUDA headers come from.
//!
//! [`survey`] looks, in a fixed order, at every place a CUDA toolchain can be and says what it found in each;
//! it starts no process and loads no library, so it costs well under a millisecond and can run on every
//! command. [`ensure`] installs the pinned wheels when the survey found nothing.

mod install;
mod search;
mod wheels;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use install::{InstallError, Progress, clean, install, installed_root};
pub(crate) use search::from_root;
pub use search::{PlaceVerdict, SearchedPlace, Surroundings, Survey, survey};
pub use wheels::{Wheel, pinned_wheels, pip_command};

/// The oldest NVRTC that compiles for every target Warpsmith knows (sm_89 and sm_90a).
pub const MINIMUM_MAJOR: u32 = 12;

/// Files that together compile CUDA C++: the compiler library, its built-ins and the header folders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Toolchain {
    pub origin: Origin,
    /// The folder the files were found under.
    pub root: PathBuf,
    pub nvrtc: PathBuf,
    /// Loaded before NVRTC itself, which otherwise looks for it on the loader's path only.
    pub builtins: Option<PathBuf>,
    pub includes: Vec<PathBuf>,
}

/// How a toolchain was found, in the order of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Named with `--cuda` or `WARPSMITH_CUDA`: taken or refused, never passed over.
    Named,
    CudaHome,
    ToolkitFolder,
    LoaderPath,
    PythonWheels,
    Cache,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Named => "--cuda or WARPSMITH_CUDA",
            Origin::CudaHome => "CUDA_HOME",
            Origin::ToolkitFolder => "toolkit folder",
            Origin::LoaderPath => "loader's path",
            Origin::PythonWheels => "Python wheels",
            Origin::Cache => "Warpsmith's cache",
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ToolchainError {
    #[error("no usable CUDA compiler in {}: {reason}", place.display())]
    NamedUnfit { place: PathBuf, reason: String },
    #[error("no NVRTC found and it could not be installed: {0}")]
    Install(#[from] InstallError),
}

/// The toolchain to use, installed first if there is none.
pub fn ensure(named: Option<&Path>, progress: &mut dyn FnMut(Progress)) -> Result<Toolchain, ToolchainError> {
    let surroundings = Surroundings::from_environment(named);
    let found = survey(&surroundings);
    if let Some(toolchain) = found.chosen {
        return Ok(toolchain);
    }
    if let Some((place, reason)) = found.named_refusal() {
        return Err(ToolchainError::NamedUnfit { place: place.to_owned(), reason: reason.to_owned() });
    }
    let root = install(&surroundings.cache, progress)?;
    from_root(Origin::Cache, &root)
        .map_err(|reason| ToolchainError::Install(InstallError::Incomplete { reason }))
}
