//! `worker`: the side that compiles, runs and times. Started by `bench`, `profile` and the like, hidden from people.

use std::fs;
use std::path::{Path, PathBuf};

use attention::Attention;
use family::Catalog;
use gpu::toolchain::{self, Surroundings};
use subprocess::sandbox::{self, Policy};

use crate::cli::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::sandboxed;

/// `asks`: a file with the questions, instead of the channel, for a worker under a profiler.
pub fn run(asks: Option<&Path>, global: &Global, printer: &Printer) -> Result<Exit, Failure> {
    sandboxed::enter(global, &policy(global, asks.is_some()));
    let catalog = Catalog::load(global.kernels.as_deref())?;
    let device = super::device(global)?;
    let compiler = super::build::compiler(global, printer)?;
    lab::worker::serve(&Attention, &catalog, &compiler, &device, asks)
        .map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Exit::Holds)
}

/// The files a worker needs: the compiler's, the kernels, the cache and the folder of its run.
fn policy(global: &Global, profiled: bool) -> Policy {
    let surroundings = Surroundings::from_environment(global.cuda.as_deref());
    let mut read: Vec<PathBuf> = global.kernels.iter().cloned().collect();
    if let Some(chosen) = toolchain::survey(&surroundings).chosen {
        let libraries = [Some(&chosen.nvrtc), chosen.builtins.as_ref()];
        // The loader follows links to libraries with longer names beside them.
        let real = libraries.into_iter().flatten().filter_map(|path| path.canonicalize().ok());
        read.extend(real.filter_map(|path| path.parent().map(Path::to_owned)));
        read.extend([chosen.root]);
        read.extend(chosen.includes);
    }
    let mut write: Vec<PathBuf> = ["builds", "compilers"].map(|name| surroundings.cache.join(name)).into();
    for folder in &write {
        // What does not exist cannot be allowed. If this fails, the build says why.
        let _ = fs::create_dir_all(folder);
    }
    write.extend(std::env::var_os(sandbox::FOLDER).map(PathBuf::from));
    Policy { read, write, profiled }
}
