//! Calls the exported functions of a library with wrong arguments, for the tests of both of CUDA's interfaces. The library
//! is loaded as programs load it.

use std::ffi::{CString, c_void};
use std::path::Path;

/// More numbers than any function has parameters, also where structures of numbers are passed by value.
pub type Arguments = [u64; 16];

type Function =
    extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u64;

/// What a panic becomes (`CUDA_ERROR_UNKNOWN`).
const PANIC: u32 = 999;

const WRONG: [u64; 13] = [
    0,
    1,
    2,
    3,
    0x10,
    0xfff,
    0x1000,
    0xdead_0000,
    1 << 33,
    0x3000_0000_0000,
    1 << 47,
    u64::MAX - 7,
    u64::MAX,
];

/// A loaded library.
pub struct Library(*mut c_void);

impl Library {
    /// Loads a library that cargo has built beside the test.
    pub fn load(name: &str) -> Self {
        let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let candidates = [beside.join(name), beside.join("..").join(name)];
        let path = candidates.into_iter().find(|path| path.is_file()).expect("cargo has built the library");
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the library has no initialisers that could do harm.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null());
        Library(library)
    }

    /// Calls a function. Returns its error; `None` if the library has no such function.
    pub fn call(&self, name: &str, a: Arguments) -> Option<u32> {
        let name = CString::new(name).unwrap();
        // SAFETY: the library is loaded.
        let at = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if at.is_null() {
            return None;
        }
        // SAFETY: all exported functions take numbers; more arguments than parameters do no harm.
        let function: Function = unsafe { std::mem::transmute(at) };
        let result = function(
            a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14],
            a[15],
        );
        // An error has 32 bits; the rest of the register is anything.
        Some(result as u32)
    }
}

/// Writable memory between pages that cannot be accessed, so that a copy of any size stays inside.
pub struct Room {
    pub address: u64,
    pub numbers: &'static mut [u64],
}

impl Room {
    pub fn new() -> Self {
        let (page, size) = (4096, 1 << 15);
        let (none, both) = (libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, and a part of it, which lives as long as the process.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), size + 2 * page, none, flags, -1, 0);
            let place = start.byte_add(page);
            assert_eq!(libc::mprotect(place, size, both), 0);
            Room { address: place as u64, numbers: std::slice::from_raw_parts_mut(place.cast(), size / 8) }
        }
    }
}

/// The words of the sources of a crate that are names of functions, sorted.
pub fn names(manifest: &str, is_function: impl Fn(&str) -> bool) -> Vec<String> {
    let mut names = Vec::new();
    for file in std::fs::read_dir(Path::new(manifest).join("src")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        names.extend(words.filter(|word| is_function(word)).map(str::to_owned));
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Calls every function 40 times, and `between` after each. None may crash or panic. Returns the number of functions that
/// the library has.
pub fn call_with_wrong_arguments(
    library: &Library,
    names: &[String],
    room: &mut Room,
    between: impl Fn(),
) -> usize {
    let mut seed = 48u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut called = 0;
    for name in names {
        for round in 0..40 {
            let mut arguments = Arguments::default();
            if round > 0 {
                for argument in &mut arguments {
                    // A place that can be written, so that the later arguments are looked at too, or something wrong.
                    let place = room.address + 64 * random(32) as u64;
                    *argument = if random(3) == 0 { place } else { WRONG[random(WRONG.len())] };
                }
            }
            let Some(error) = library.call(name, arguments) else { break };
            assert_ne!(error, PANIC, "{name}: {arguments:x?}");
            called += usize::from(round == 0);
            room.numbers.fill(0);
        }
        between();
    }
    called
}
