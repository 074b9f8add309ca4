//! Calls every exported function of the library with wrong arguments: none may crash. The libraries are loaded as programs
//! load them.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};

use warpsmith_cudart as _;

/// Functions that call a function of the program, whose address must be right, and one whose result is a structure: the
/// caller gives the place for it.
const CALLED_OTHERWISE: [&str; 4] =
    ["cudaLaunchHostFunc", "cudaStreamAddCallback", "cudaGraphAddHostNode", "cudaCreateChannelDesc"];

fn library(name: &str) -> *mut c_void {
    let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let candidates = [beside.join(name), beside.join("..").join(name)];
    let path: PathBuf =
        candidates.into_iter().find(|path| path.is_file()).expect("cargo has built the library");
    let path = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the library has no initialisers that could do harm.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null());
    library
}

/// The names of the exported functions, from the sources.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_function = |word: &&str| {
            let rest = word.trim_start_matches('_').strip_prefix("cuda");
            rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
        };
        names.extend(words.filter(is_function).map(str::to_owned));
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// More numbers than any function has parameters, also where structures of numbers are passed by value.
type Function =
    extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u64;

#[test]
fn no_function_crashes_on_wrong_arguments() {
    // The runtime library finds the driver library by its name, which this one has.
    library("libwarpsmith_cuda.so");
    let library = library("libwarpsmith_cudart.so");
    let find = |name: &str| {
        let name = CString::new(name).unwrap();
        // SAFETY: the library is loaded.
        unsafe { libc::dlsym(library, name.as_ptr()) }
    };
    let call = |at: *mut c_void, a: [u64; 16]| {
        // SAFETY: all exported functions take numbers; more arguments than parameters do no harm.
        let function: Function = unsafe { std::mem::transmute(at) };
        function(
            a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14],
            a[15],
        )
    };
    // Writable memory between pages that cannot be accessed, so that a copy of any size stays inside.
    let (page, size) = (4096, 1 << 15);
    let (none, both) = (libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, and a part of it.
    let room = unsafe {
        let start = libc::mmap(std::ptr::null_mut(), size + 2 * page, none, flags, -1, 0);
        libc::mprotect(start.byte_add(page), size, both);
        start as u64 + page as u64
    };
    // SAFETY: the mapping is writable and lives as long as the process.
    let place = unsafe { std::slice::from_raw_parts_mut(room as *mut u64, size / 8) };
    assert_eq!(call(find("cudaFree"), [0; 16]), 0, "the driver library is found");
    let wrong = [
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
    let mut seed = 48u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut called = 0;
    for name in names() {
        let at = find(&name);
        if at.is_null() || CALLED_OTHERWISE.iter().any(|it| name.starts_with(it)) {
            continue;
        }
        called += 1;
        for round in 0..40 {
            let mut arguments = [0u64; 16];
            for argument in &mut arguments {
                // A place that can be written, so that the later arguments are looked at too, or something wrong.
                *argument =
                    if random(3) == 0 { room + 64 * random(32) as u64 } else { wrong[random(wrong.len())] };
            }
            if round == 0 {
                arguments = [0; 16];
            }
            // 999 is what a panic becomes.
            assert_ne!(call(at, arguments), 999, "{name}: {arguments:x?}");
            place.fill(0);
        }
    }
    assert!(called > 400, "only {called} functions were found");
}
