//! `worker`: the side that compiles, runs and times. Started by `bench`, `profile` and the like, hidden from people.

use std::fs;
use std::path::{Path, PathBuf};

use attention::Attention;
use family::Catalog;
use gpu::build::Compiler;
use gpu::toolchain::{self, Toolchain};
use subprocess::sandbox::Policy;

use crate::cli::Global;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::sandboxed;

/// `asks`: a file with the questions, instead of the channel, for a worker under a profiler.
pub fn run(asks: Option<&Path>, global: &Global) -> Result<Exit, CommandError> {
    // The search for a compiler looks at folders of the user that the sandbox hides.
    let toolchain = toolchain::ensure(global.cuda.as_deref(), &mut |_| ())?;
    let cache = gpu::paths::cache_dir();
    sandboxed::enter(global, policy(global, &toolchain, &cache, asks.is_some()));
    let catalog = Catalog::load(global.kernels.as_deref())?;
    let device = super::device(global)?;
    let compiler = Compiler::new(toolchain, &cache)?;
    lab::worker::serve(&Attention, &catalog, &compiler, &device, asks)
        .map_err(|error| CommandError::usage(error.to_string()))?;
    Ok(Exit::Holds)
}

/// The files a worker needs: the compiler's, the kernels, and the cache.
fn policy(global: &Global, toolchain: &Toolchain, cache: &Path, profiled: bool) -> Policy {
    let mut read: Vec<PathBuf> = global.kernels.iter().cloned().collect();
    let libraries = [Some(&toolchain.nvrtc), toolchain.builtins.as_ref()];
    // They may be links to files elsewhere.
    let real = libraries.into_iter().flatten().filter_map(|path| path.canonicalize().ok());
    read.extend(real.filter_map(|path| path.parent().map(Path::to_owned)));
    read.push(toolchain.root.clone());
    read.extend(toolchain.includes.iter().cloned());
    let write: Vec<PathBuf> = ["builds", "compilers"].map(|name| cache.join(name)).into();
    for folder in &write {
        // What does not exist cannot be allowed. If this fails, the build says why.
        let _ = fs::create_dir_all(folder);
    }
    Policy { read, write, profiled }
}
