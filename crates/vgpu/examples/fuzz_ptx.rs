//! Mutated PTX against the parser, the loader and, where it still loads, the machine, for as long as asked:
//!
//! ```text
//! fuzz_ptx [--minutes 5] [--seed N] [FILE.ptx...]
//! ```
//!
//! Seeds are the test files and the benchmark's kernels, and the files given. Nothing may panic, take longer than some
//! seconds or more memory than a few hundred megabytes. The input at hand is in `target/fuzz-last.ptx`; one that
//! breaks a rule is kept beside it. The same entry is a libFuzzer target in `crates/vgpu/fuzz`.

#[path = "../tests/it/mutate.rs"]
mod mutate;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mutate::{Rng, mutate};
use warpsmith_vgpu::{Device, Launch, Module, Options, load};

/// Counts what is allocated, and the most there was.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

const MOST_BYTES: usize = 768 << 20;
/// Of processor time, where the system tells it: a busy machine is not a slow loader.
const MOST_TIME: Duration = Duration::from_secs(10);
/// Warp instructions of a launch.
const BUDGET: u64 = 20_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut minutes, mut seed, mut files) = (5.0, 1, Vec::new());
    while let Some(word) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse::<f64>().ok()).unwrap_or(1.0);
        match word.as_str() {
            "--minutes" => minutes = number(),
            "--seed" => seed = number() as u64,
            _ => files.push(PathBuf::from(word)),
        }
    }
    let seeds = seeds(files);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let _ = std::fs::create_dir_all(&folder);
    let mut rng = Rng(seed);
    let begin = Instant::now();
    let end = begin + Duration::from_secs_f64(minutes * 60.0);
    let (mut cases, mut loaded, mut broken) = (0u64, 0u64, 0u64);
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    while Instant::now() < end {
        let mut text = seeds[rng.below(seeds.len())].clone();
        let other = rng.below(seeds.len());
        for _ in 0..=rng.below(6) {
            mutate(&mut text, &seeds[other], &mut rng);
        }
        let _ = std::fs::write(folder.join("fuzz-last.ptx"), &text);
        let text = String::from_utf8_lossy(&text).into_owned();
        let (before, start) = (NOW.load(Ordering::Relaxed), worked(begin));
        MOST.store(before, Ordering::Relaxed);
        let outcome = std::panic::catch_unwind(|| match load(&text) {
            Ok(module) => {
                run(&module);
                true
            }
            Err(error) => {
                assert!(!error.diagnostics.is_empty(), "refused without a reason");
                false
            }
        });
        let took = MOST.load(Ordering::Relaxed) - before;
        let time = worked(begin).saturating_sub(start);
        let wrong = match &outcome {
            Err(_) => Some("panic"),
            Ok(_) if time > MOST_TIME => Some("slow"),
            Ok(_) if took > MOST_BYTES => Some("memory"),
            Ok(_) => None,
        };
        cases += 1;
        loaded += u64::from(matches!(outcome, Ok(true)));
        if let Some(what) = wrong {
            broken += 1;
            let kept = folder.join(format!("fuzz-{what}-{cases}.ptx"));
            let _ = std::fs::write(&kept, &text);
            println!("{what}: {} ({time:?}, {took} bytes)", kept.display());
        }
    }
    println!("{cases} modules, {loaded} of them loaded and run, {broken} broke a rule");
    std::process::exit(i32::from(broken > 0));
}

/// Processor time of this process, or time since the beginning.
fn worked(begin: Instant) -> Duration {
    let schedule = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = schedule.split_whitespace().next().and_then(|word| word.parse().ok());
    nanos.map_or_else(|| begin.elapsed(), Duration::from_nanos)
}

fn seeds(files: Vec<PathBuf>) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = files;
    paths.push(folder.join("benches/ptx/kernels.ptx"));
    if let Ok(entries) = std::fs::read_dir(folder.join("tests/files")) {
        paths.extend(entries.flatten().map(|entry| entry.path()));
    }
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).filter(|text| !text.is_empty()).collect()
}

/// Every kernel, two blocks of 40 threads, all arguments the address of a small buffer.
fn run(module: &Module) {
    let mut device = Device::default();
    let Ok(buffer) = device.alloc(4096, "buffer") else { return };
    for kernel in &module.kernels {
        if kernel.param_bytes > 4096 {
            continue;
        }
        let args = buffer.0.to_le_bytes().repeat(kernel.param_bytes as usize / 8 + 1);
        let launch = Launch {
            module,
            kernel: &kernel.name,
            grid: [2, 1, 1],
            block: [40, 1, 1],
            shared: 0,
            args: &args[..kernel.param_bytes as usize],
        };
        let options = Options { budget: BUDGET, threads: 1, ..Options::default() };
        // Refused or full of findings: either is an answer.
        let _ = device.launch(&launch, &options);
    }
}
