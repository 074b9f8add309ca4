//! Where the program called the library: addresses of code, which `exec` translates to lines of source.

use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use execlog::{CodeAddress, Stack};

unsafe extern "C" {
    fn _Unwind_Backtrace(trace: extern "C" fn(*mut c_void, *mut c_void) -> c_int, data: *mut c_void)
    -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// The most frames of a site. Most of them belong to this library, which has many without optimisation, and to the
/// runtime library; the others belong to the program.
const MOST: usize = if cfg!(debug_assertions) { 64 } else { 28 };

/// The calls that led to a place, as return addresses, innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Site(Vec<usize>);

extern "C" fn push(context: *mut c_void, data: *mut c_void) -> c_int {
    // SAFETY: `data` is the vector of `Site::here`, and the unwinder gives a valid context.
    let (frames, at) = unsafe { (&mut *data.cast::<Vec<usize>>(), _Unwind_GetIP(context)) };
    frames.push(at);
    // 5 is `_URC_END_OF_STACK`: the unwinder stops.
    if frames.len() < MOST { 0 } else { 5 }
}

impl Site {
    /// The calls that led here.
    pub fn here() -> Site {
        let mut frames: Vec<usize> = Vec::with_capacity(MOST);
        // SAFETY: the function gets the vector, which outlives the call.
        unsafe { _Unwind_Backtrace(push, (&raw mut frames).cast()) };
        Site(frames)
    }

    /// The frames of the program, without those of this library and of the runtime library.
    pub fn stack(&self) -> Stack {
        let own = module(Site::here as fn() -> Site as usize).map(|(name, _)| name);
        let is_ours = |name: &str| Some(name) == own.as_deref() || is_library(name);
        let frames = self.0.iter().filter_map(|&at| {
            // A return address is the address after the call, which may belong to the next line.
            let at = at.checked_sub(1)?;
            let (name, base) = module(at)?;
            // A program with a fixed place in memory has its own addresses in its debug information.
            let offset = if is_fixed(base) { at } else { at - base };
            Some(CodeAddress { module: name, offset: offset as u64 })
        });
        frames.skip_while(|frame| is_ours(&frame.module)).collect()
    }
}

/// Whether the file that is loaded at an address is a program that always has this address (`ET_EXEC`).
fn is_fixed(base: usize) -> bool {
    const TYPE: u64 = 16;
    crate::guest::read((base as u64 + TYPE) as *const u16) == Ok(2)
}

fn is_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("libcudart.so")
        || name.starts_with("libcuda.so")
        || name.starts_with("libwarpsmith_cuda")
}

/// The file that is loaded at an address, and where it was loaded.
fn module(at: usize) -> Option<(String, usize)> {
    static KNOWN: Mutex<Option<HashMap<usize, String>>> = Mutex::new(None);
    // SAFETY: an all-zero `Dl_info` is valid, and `dladdr` fills it or returns 0.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: as above; the address is only compared.
    if unsafe { libc::dladdr(at as *const c_void, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    let base = info.dli_fbase as usize;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let name = known.entry(base).or_insert_with(|| {
        // SAFETY: the name is a string of the dynamic linker.
        let name = unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned();
        // For the program itself, `dladdr` gives its first argument, which may be relative to another folder.
        if name.starts_with('/') {
            name
        } else {
            std::env::current_exe().map_or(name, |path| path.display().to_string())
        }
    });
    Some((name.clone(), base))
}
