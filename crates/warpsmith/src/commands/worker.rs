//! `worker`: the process that compiles, runs and times kernels. Commands such as `bench` and `profile` start it; it is
//! hidden from users.

use std::fs;
use std::path::{Path, PathBuf};

use compiler::Compiler;
use compiler::toolchain::{self, Toolchain};
use subprocess::sandbox::Policy;

use crate::cli::Global;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ops;
use crate::sandboxed;

/// Serves requests until the parent closes the channel. `asks`: a file with the requests, for a worker under a
/// profiler.
pub fn run(asks: Option<&Path>, global: &Global) -> Result<Exit, CommandError> {
    // The compiler is found before the sandbox starts: the search reads folders that the sandbox hides.
    let toolchain = toolchain::ensure(global.cuda.as_deref(), &mut |_| ())?;
    let cache = files::cache_dir();
    sandboxed::enter(global, policy(global, &toolchain, &cache, asks.is_some()));
    let catalog = global.catalog()?;
    let device = super::device(global)?;
    let compiler = Compiler::new(toolchain, &cache)?;
    let op = &*ops::for_worker(global.op.as_deref().unwrap_or(ops::DEFAULT), &catalog)?;
    lab::worker::serve(op, &catalog, &compiler, &device, asks)
        .map_err(|error| CommandError::usage(error.to_string()))?;
    Ok(Exit::Success)
}

/// The folder of a file; the current folder if its path has none.
fn folder_of(file: &Path) -> PathBuf {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// The files that a worker needs: the compiler, the kernels and the cache.
fn policy(global: &Global, toolchain: &Toolchain, cache: &Path, profiled: bool) -> Policy {
    let mut read: Vec<PathBuf> = global.kernels.iter().cloned().collect();
    // The headers of a single file are beside it.
    read.extend(global.kernels.iter().filter(|path| path.is_file()).map(|path| folder_of(path)));
    read.extend(global.arrays.inputs.iter().map(|(_, file)| file.clone()));
    let libraries = [Some(&toolchain.nvrtc), toolchain.builtins.as_ref()];
    // The libraries may be links to files in other folders.
    let resolved = libraries.into_iter().flatten().filter_map(|path| path.canonicalize().ok());
    read.extend(resolved.filter_map(|path| path.parent().map(Path::to_owned)));
    read.push(toolchain.root.clone());
    read.extend(toolchain.includes.iter().cloned());
    let write: Vec<PathBuf> = ["builds", "compilers"].map(|name| cache.join(name)).into();
    for folder in &write {
        // Landlock can allow only folders that exist. If this fails, the build reports the error.
        let _ = fs::create_dir_all(folder);
    }
    Policy { read, write, profiled }
}
