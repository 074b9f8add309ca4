//! Runs a target on mutated seeds and reports the first failure.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use random::Random;

use crate::memory;
use crate::mutate::mutate;
use crate::targets::Target;

/// Largest size of an input, in bytes.
pub const MOST_BYTES: usize = 64 << 10;
/// Largest number of bytes that one input may have allocated at once.
const MOST_MEMORY: usize = 512 << 20;
/// Limit of processor time for one input. A busy machine does not make an input slow.
const MOST_TIME: Duration = Duration::from_secs(10);
/// After this processor time, or ten times as long in real time, an input is considered endless.
const HANG: Duration = Duration::from_mins(1);
/// Limits of the search for a smaller input: number of runs and time.
const MOST_ATTEMPTS: usize = 3000;
const MOST_MINIMISING: Duration = Duration::from_secs(30);

/// How long to fuzz.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// Stop after this number of mutated inputs.
    Rounds(u64),
    /// Stop after this time.
    Time(Duration),
}

/// The result of a fuzzing run without a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Number of seed files; each was run unchanged.
    pub seeds: usize,
    /// Number of mutated inputs.
    pub rounds: u64,
}

/// An input that caused a failure.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The name of the target that failed.
    pub target: &'static str,
    /// The failure.
    pub what: Broken,
    /// The file with the smallest input that was found.
    pub input: PathBuf,
}

/// The kind of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    Panic { place: String, message: String },
    Memory { bytes: usize },
    Slow { time: Duration },
}

impl Broken {
    /// Whether two inputs fail in the same way: by the same panic or the same limit.
    fn is_like(&self, other: &Broken) -> bool {
        match (self, other) {
            (Broken::Panic { place, .. }, Broken::Panic { place: other, .. }) => place == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Panic { place, message } => write!(f, "panic at {place}: {message}"),
            Broken::Memory { bytes } => write!(f, "allocated {bytes} bytes; the limit is {MOST_MEMORY}"),
            Broken::Slow { time } => write!(f, "took {time:?}; the limit is {MOST_TIME:?}"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { target, what, input } = self;
        let input = input.display();
        write!(f, "{target}: {what}\ninput: {input}\nrepeat: {}", repeat(target, &input))
    }
}

fn repeat(target: &str, input: &dyn fmt::Display) -> String {
    format!("cargo run -p warpsmith-fuzz -- {target} --input {input}")
}

/// Runs the target on every seed file unchanged, then on mutated ones.
pub fn fuzz(target: &Target, seed: u64, length: Length) -> Result<Summary, Failure> {
    let seeds = target.seeds();
    assert!(!seeds.is_empty(), "{}: there are no seed files", target.name);
    let watch = Watch::start(target.name);
    for input in &seeds {
        attempt(target, input, &watch)?;
    }
    let mut random = Random::new(seed);
    let started = Instant::now();
    let mut rounds = 0;
    while match length {
        Length::Rounds(count) => rounds < count,
        Length::Time(time) => started.elapsed() < time,
    } {
        let mut pick = || &seeds[(random.bits() % seeds.len() as u64) as usize];
        let (mut input, other) = (pick().clone(), pick());
        mutate(&mut input, other, &mut random, MOST_BYTES);
        attempt(target, &input, &watch)?;
        rounds += 1;
    }
    let _ = fs::remove_file(&watch.input);
    Ok(Summary { seeds: seeds.len(), rounds })
}

fn attempt(target: &Target, input: &[u8], watch: &Watch) -> Result<(), Failure> {
    watch.begin(input);
    let Err(what) = run_once(target, input) else { return Ok(()) };
    let (input, what) = minimised(target, input, what, watch);
    let path = folder().join(format!("{}-{:016x}", target.name, hash(&input)));
    let _ = fs::write(&path, &input);
    Err(Failure { target: target.name, what, input: path })
}

/// Runs the target on one input and checks the limits.
pub fn run_once(target: &Target, input: &[u8]) -> Result<(), Broken> {
    catch_messages();
    let start = processor_time();
    FUZZING.set(true);
    let (outcome, bytes) = memory::most_during(|| catch_unwind(AssertUnwindSafe(|| (target.run)(input))));
    FUZZING.set(false);
    let time = processor_time().saturating_sub(start);
    if outcome.is_err() {
        let (place, message) = LAST_PANIC.take();
        return Err(Broken::Panic { place, message });
    }
    if bytes > MOST_MEMORY {
        return Err(Broken::Memory { bytes });
    }
    if time > MOST_TIME { Err(Broken::Slow { time }) } else { Ok(()) }
}

/// Removes parts of the input, large ones first, while it fails in the same way.
fn minimised(target: &Target, input: &[u8], what: Broken, watch: &Watch) -> (Vec<u8>, Broken) {
    let (mut input, mut what) = (input.to_vec(), what);
    let started = Instant::now();
    let mut attempts = 0;
    let mut size = input.len() / 2;
    while size > 0 {
        let mut start = 0;
        while start < input.len() {
            attempts += 1;
            if attempts > MOST_ATTEMPTS || started.elapsed() > MOST_MINIMISING {
                return (input, what);
            }
            let mut shorter = input.clone();
            shorter.drain(start..(start + size).min(input.len()));
            watch.begin(&shorter);
            match run_once(target, &shorter) {
                Err(alike) if alike.is_like(&what) => (input, what) = (shorter, alike),
                _ => start += size,
            }
        }
        size /= 2;
    }
    (input, what)
}

thread_local! {
    static FUZZING: Cell<bool> = const { Cell::new(false) };
    static LAST_PANIC: RefCell<(String, String)> = const { RefCell::new((String::new(), String::new())) };
}

/// Stores the message of a panic in a fuzzing thread instead of printing it.
fn catch_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !FUZZING.get() {
                return before(info);
            }
            let place = info.location().map_or_else(String::new, ToString::to_string);
            let message = info.payload_as_str().unwrap_or("no message").to_owned();
            LAST_PANIC.set((place, message));
        }));
    });
}

/// Keeps the current input in a file, in case the process aborts, and aborts the process if an input does not end.
struct Watch {
    input: PathBuf,
    /// Number of inputs so far.
    number: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Watch {
    fn start(target: &'static str) -> Self {
        let number = Arc::new(AtomicU64::new(0));
        let ended = Arc::new(AtomicBool::new(false));
        let input = folder().join(format!("{target}-last-{}", std::process::id()));
        // The folder of this thread. The path stays valid in other threads.
        let thread_folder = fs::canonicalize("/proc/thread-self").unwrap_or_default();
        let watch = Watch { input: input.clone(), number: number.clone(), ended: ended.clone() };
        std::thread::spawn(move || {
            let mut last = (0, Instant::now(), Duration::ZERO);
            loop {
                std::thread::sleep(Duration::from_millis(200));
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let now = number.load(Ordering::Relaxed);
                let time = processor_time_of(&thread_folder).unwrap_or(last.2);
                if now != last.0 {
                    last = (now, Instant::now(), time);
                }
                if time.saturating_sub(last.2) > HANG || last.1.elapsed() > 10 * HANG {
                    let input = input.display();
                    // Not `eprintln`: a test's output is captured, and an abort would lose it.
                    let repeat = repeat(target, &input);
                    let _ = writeln!(io::stderr(), "{target}: an input does not end\nrepeat: {repeat}");
                    std::process::abort();
                }
            }
        });
        watch
    }

    fn begin(&self, input: &[u8]) {
        self.number.fetch_add(1, Ordering::Relaxed);
        let _ = fs::write(&self.input, input);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Processor time of this thread; zero if the system does not report it.
fn processor_time() -> Duration {
    processor_time_of(Path::new("/proc/thread-self")).unwrap_or_default()
}

/// Processor time of a thread; `None` also if the thread has ended.
fn processor_time_of(thread: &Path) -> Option<Duration> {
    let schedule = fs::read_to_string(thread.join("schedstat")).ok()?;
    schedule.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// The folder of failing inputs.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz");
    let _ = fs::create_dir_all(&folder);
    fs::canonicalize(&folder).unwrap_or(folder)
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &'static str, run: fn(&[u8])) -> Target {
        Target { name, run, seeds: &["corpus/fuzz/arguments"], rounds: 0 }
    }

    #[test]
    fn a_panic_is_found_and_its_input_is_minimised() {
        let target = target("test-panic", |input| assert!(!input.contains(&b'['), "a bracket"));
        let failure = fuzz(&target, 1, Length::Rounds(1000)).unwrap_err();
        assert!(failure.what.to_string().contains("a bracket"), "{failure}");
        assert_eq!(fs::read(&failure.input).unwrap(), b"[");
        fs::remove_file(&failure.input).unwrap();
    }

    #[test]
    fn too_much_memory_is_a_failure() {
        let target = target("test-memory", |_| assert!(!vec![0_u8; MOST_MEMORY + 1].is_empty()));
        assert!(matches!(run_once(&target, b""), Err(Broken::Memory { .. })));
    }

    #[test]
    fn a_target_that_returns_runs_all_its_rounds() {
        let target = target("test-fine", |_| {});
        let summary = fuzz(&target, 1, Length::Rounds(10)).unwrap();
        assert!(summary.seeds > 0 && summary.rounds == 10);
    }
}
