//! Restricts access to files with Landlock.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use super::{Part, Policy};

/// The newest Landlock version that is used. On an older system the rights that it lacks are left out.
const NEWEST: ABI = ABI::V6;

/// Folders that libraries and the CUDA driver read. Home and temporary folders are not included.
const SYSTEM: &[&str] = &[
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/etc",
    "/opt",
    "/proc",
    "/sys",
    // The driver's libraries on NixOS or in a container.
    "/nix/store",
    "/run/opengl-driver",
    "/run/nvidia",
];

/// Devices that the CUDA driver opens for writing, in addition to `/dev/nvidia*`. It names its threads through
/// `/proc/self`.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/shm",
    "/dev/dxg",
    "/proc/self",
];

pub(super) fn apply(policy: &Policy) -> Part {
    match restrict(policy) {
        Ok((RulesetStatus::NotEnforced, LandlockStatus::NotEnabled)) => {
            Part::Missing("no Landlock: it is not enabled".to_owned())
        }
        Ok((RulesetStatus::NotEnforced, _)) => {
            Part::Missing("no Landlock: the system does not support it".to_owned())
        }
        Ok((_, LandlockStatus::Available { effective_abi, .. })) => {
            Part::Active(format!("Landlock ABI {}", effective_abi as i32))
        }
        Ok(_) => Part::Active("Landlock".to_owned()),
        Err(error) => Part::Missing(format!("no Landlock: {error}")),
    }
}

fn restrict(policy: &Policy) -> Result<(RulesetStatus, LandlockStatus), RulesetError> {
    // The right to read includes listing a folder, but not starting a program.
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write: BitFlags<AccessFs> = AccessFs::from_all(NEWEST)
        & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let device = read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let readable = SYSTEM.iter().map(PathBuf::from).chain(libraries()).chain(env::current_exe().ok());
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(readable.chain(policy.read.iter().cloned()), read))?
        // Entries of `/dev` may be listed, but only some may be opened: a privileged user could read whole disks.
        .add_rules(path_beneath_rules(["/dev"], AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(devices(), device))?
        // The driver creates files for shared memory there.
        .add_rules(path_beneath_rules(["/dev/shm"], write))?
        .add_rules(path_beneath_rules(mps_folder(), write))?
        .add_rules(path_beneath_rules(&policy.write, write))?
        .restrict_self()?;
    Ok((status.ruleset, status.landlock))
}

/// Library folders from the user's `LD_LIBRARY_PATH`.
fn libraries() -> Vec<PathBuf> {
    let folders = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    env::split_paths(&folders).filter(|folder| folder.is_absolute()).collect()
}

fn devices() -> Vec<PathBuf> {
    let mut devices: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
    for entry in fs::read_dir("/dev").into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(b"nvidia") {
            devices.push(entry.path());
        }
    }
    devices
}

/// The folder of CUDA's Multi-Process Service, if it runs: the driver talks to it through a socket and pipes there.
pub(super) fn mps_folder() -> Option<PathBuf> {
    let named = env::var_os("CUDA_MPS_PIPE_DIRECTORY").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| Path::new("/tmp/nvidia-mps").to_owned());
    folder.is_dir().then_some(folder)
}
