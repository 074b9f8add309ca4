//! Restricts access to files with Landlock.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus,
    RestrictionStatus, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};

use super::{Part, Policy, ScriptPolicy};

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

/// Devices that every program may open.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// What the CUDA driver opens for writing, in addition to `/dev/nvidia*`. It names its threads through `/proc/self`.
const DRIVER_DEVICES: &[&str] = &["/dev/shm", "/dev/dxg", "/proc/self"];

/// Where programs find name servers, if `/etc/resolv.conf` is a link.
const NAME_SERVERS: &str = "/run/systemd/resolve";

pub(super) fn apply(policy: &Policy) -> Part {
    match rules(policy).and_then(RulesetCreated::restrict_self) {
        Ok(RestrictionStatus { ruleset: RulesetStatus::NotEnforced, landlock, .. }) => {
            let why = match landlock {
                LandlockStatus::NotEnabled => "it is not enabled",
                _ => "the system does not support it",
            };
            Part::Missing(format!("no Landlock: {why}"))
        }
        Ok(RestrictionStatus { landlock: LandlockStatus::Available { effective_abi, .. }, .. }) => {
            Part::Active(format!("Landlock ABI {}", effective_abi as i32))
        }
        Ok(_) => Part::Active("Landlock".to_owned()),
        Err(error) => Part::Missing(format!("no Landlock: {error}")),
    }
}

/// The rules of a process that compiles or runs kernels.
fn rules(policy: &Policy) -> Result<RulesetCreated, RulesetError> {
    // The right to read includes listing a folder, but not starting a program.
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let device = device() | AccessFs::IoctlDev;
    let readable = system().chain(env::current_exe().ok()).chain(policy.read.iter().cloned());
    all_denied(false)?
        .add_rules(path_beneath_rules(readable, read))?
        // Entries of `/dev` may be listed, but only some may be opened: a privileged user could read whole disks.
        .add_rules(path_beneath_rules(["/dev"], AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(DEVICES.iter().chain(DRIVER_DEVICES), device))?
        .add_rules(path_beneath_rules(gpus(), device))?
        // The driver creates files for shared memory there.
        .add_rules(path_beneath_rules(["/dev/shm"], write()))?
        .add_rules(path_beneath_rules(mps_folder(), write()))?
        .add_rules(path_beneath_rules(&policy.write, write()))
}

/// The rules of a script of the user. It may start the programs that it may read.
pub(super) fn of_script(policy: &ScriptPolicy) -> Result<RulesetCreated, RulesetError> {
    let name_servers = policy.network.then(|| PathBuf::from(NAME_SERVERS));
    let own = policy.read.iter().filter(|path| !has_home(path)).chain(&policy.write);
    let readable = system().chain(name_servers).chain(own.cloned());
    all_denied(policy.network)?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(NEWEST)))?
        .add_rules(path_beneath_rules(DEVICES, device()))?
        .add_rules(path_beneath_rules(&policy.write, write()))
}

/// Rules that allow nothing yet: no file, and no connection unless `network` is set.
fn all_denied(network: bool) -> Result<RulesetCreated, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    if !network {
        rules = rules.handle_access(AccessNet::from_all(NEWEST))?;
    }
    rules.create()
}

fn device() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::WriteFile | AccessFs::Truncate
}

fn write() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEWEST)
        & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}

/// Whether a folder is the user's home folder or contains it. Such a folder has the user's other files, too.
fn has_home(folder: &Path) -> bool {
    let resolved = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    env::home_dir().is_some_and(|home| resolved(&home).starts_with(resolved(folder)))
}

fn system() -> impl Iterator<Item = PathBuf> {
    SYSTEM.iter().map(PathBuf::from).chain(libraries())
}

/// Library folders from the user's `LD_LIBRARY_PATH`.
fn libraries() -> Vec<PathBuf> {
    let folders = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    env::split_paths(&folders).filter(|folder| folder.is_absolute()).collect()
}

fn gpus() -> Vec<PathBuf> {
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
    let gpus = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"nvidia"));
    gpus.map(|entry| entry.path()).collect()
}

/// The folder of CUDA's Multi-Process Service, if it runs: the driver talks to it through a socket and pipes there.
pub(super) fn mps_folder() -> Option<PathBuf> {
    let named = env::var_os("CUDA_MPS_PIPE_DIRECTORY").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| Path::new("/tmp/nvidia-mps").to_owned());
    folder.is_dir().then_some(folder)
}
