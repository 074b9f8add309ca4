//! Finds or installs NVRTC and the CUDA headers.
//!
//! [`survey`] inspects, in a fixed order, every place where a CUDA toolchain can be and reports each result. It
//! starts no process and loads no library, so it takes well under a millisecond and can run with every command.
//! [`ensure`] installs the pinned wheels when the survey finds no toolchain.

mod install;
mod installed;
pub mod nvcc;
mod search;
mod wheels;

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use install::{InstallError, Progress, clean, install};
pub use installed::installed_root;
pub(crate) use search::from_root;
pub use search::{PlaceVerdict, SearchEnvironment, SearchedPlace, Survey, survey};
pub use wheels::{Wheel, pinned_wheels, requirements};

/// The oldest NVRTC that compiles for every target of Warpsmith (sm_89 and sm_90a).
pub const MINIMUM_MAJOR: u32 = 12;

/// The files that together compile CUDA C++: the compiler library, its built-ins and the header folders.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Toolchain {
    /// The kind of place where it was found.
    pub origin: Origin,
    /// The folder that contains the files.
    pub root: PathBuf,
    /// The compiler library.
    pub nvrtc: PathBuf,
    /// NVRTC's built-ins library. It is loaded first, because NVRTC looks for it only on the loader's path.
    pub builtins: Option<PathBuf>,
    /// The library that assembles PTX files. Only PTX sources need it.
    pub nvjitlink: Option<PathBuf>,
    /// The folders with CUDA's headers.
    pub includes: Vec<PathBuf>,
}

/// The kind of place where a toolchain was found, in search order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Given with `--cuda` or `WARPSMITH_CUDA`. If it is not usable the search ends with an error.
    Named,
    /// From `CUDA_HOME` or `CUDA_PATH`.
    CudaHome,
    /// A folder where toolkits are usually installed, such as `/usr/local/cuda`.
    ToolkitFolder,
    /// A folder that the dynamic loader searches.
    LoaderPath,
    /// The wheels in a Python environment.
    PythonWheels,
    /// The toolchain that Warpsmith installed in its cache.
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

/// Why there is no toolchain.
#[derive(Debug, thiserror::Error)]
pub enum ToolchainError {
    /// The place that the user named has no usable compiler.
    #[error("no usable CUDA compiler in {}: {reason}", place.display())]
    NamedUnusable {
        /// The named place.
        place: PathBuf,
        /// Why it is not usable.
        reason: String,
    },
    /// No toolchain was found, and the installation failed.
    #[error("no NVRTC found, and it cannot be installed: {0}")]
    Install(#[from] InstallError),
}

/// The toolchain to use. It is installed first if there is none.
pub fn ensure(named: Option<&Path>, progress: &mut dyn FnMut(Progress)) -> Result<Toolchain, ToolchainError> {
    let surroundings = SearchEnvironment::from_environment(named);
    let found = survey(&surroundings);
    if let Some(toolchain) = found.chosen {
        return Ok(toolchain);
    }
    if let Some((place, reason)) = found.named_refusal() {
        return Err(ToolchainError::NamedUnusable { place: place.to_owned(), reason: reason.to_owned() });
    }
    let root = install(&surroundings.cache, progress)?;
    from_root(Origin::Cache, &root)
        .map_err(|reason| ToolchainError::Install(InstallError::Incomplete { reason }))
}
