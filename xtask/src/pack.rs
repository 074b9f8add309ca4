//! Compiles all attention kernels that the dispatcher selects into one file, for programs without a compiler.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use attention::forward::{Pack, tuned_requests};
use chips::Chip;
use compiler::Compiler;

/// The GPUs of a pack: one for each target.
pub const GPUS: [&str; 3] = ["h200", "l4", "a100"];

/// `pack FILE [GPU...]`.
pub fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let file = arguments.next().ok_or("pack needs the name of the file to write")?;
    let mut gpus: Vec<String> = arguments.collect();
    if gpus.is_empty() {
        gpus = GPUS.map(str::to_owned).to_vec();
    }
    let pack = build(&gpus)?;
    println!("{file}: {} kernels for {}, {:.1} MB", pack.0, gpus.join(", "), pack.1.len() as f64 / 1e6);
    Ok(fs::write(file, pack.1)?)
}

/// The number of kernels and the bytes of a pack for these GPUs.
pub fn build(gpus: &[String]) -> Result<(usize, Vec<u8>), Box<dyn Error>> {
    let mut requests = BTreeMap::new();
    for gpu in gpus {
        for request in tuned_requests(Chip::by_name(gpu)?)? {
            requests.insert(Pack::key(&request), request);
        }
    }
    let toolchain = compiler::toolchain::ensure(None, &mut |_| ())?;
    let compiler = Compiler::new(toolchain, &files::cache_dir())?;
    let (keys, requests): (Vec<String>, Vec<_>) = requests.into_iter().unzip();
    let (done, all) = (AtomicUsize::new(0), requests.len());
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let outcomes = compiler.build_many(&requests, jobs, &|_, _| {
        eprint!("\rcompiled {} of {all} kernels", done.fetch_add(1, Ordering::Relaxed) + 1);
    });
    eprintln!();
    let mut cubins = Vec::new();
    for (key, outcome) in keys.into_iter().zip(outcomes) {
        cubins.push((key, outcome?.build.cubin));
    }
    Ok((all, Pack::bytes(&cubins)))
}
