//! What every exported function does: it names itself for findings, makes the device ready, keeps panics inside the
//! library, and remembers the last error of the thread.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::driver;
pub use crate::outcome::{Outcome, check};

pub const INVALID_VALUE: u32 = 1;
pub const INVALID_CONFIGURATION: u32 = 9;
pub const INVALID_SYMBOL: u32 = 13;
pub const INVALID_DIRECTION: u32 = 21;
pub const MISSING_CONFIGURATION: u32 = 52;
pub const INVALID_FUNCTION: u32 = 98;
pub const INVALID_DEVICE: u32 = 101;
pub const NOT_READY: u32 = 600;
pub const NOT_SUPPORTED: u32 = 801;
pub const UNKNOWN: u32 = 999;

thread_local! {
    static LAST_ERROR: Cell<u32> = const { Cell::new(0) };
}

/// Returns the last error of the thread.
pub fn last_error() -> u32 {
    LAST_ERROR.get()
}

/// Returns the last error of the thread, and sets another.
pub fn replace_last_error(error: u32) -> u32 {
    LAST_ERROR.replace(error)
}

/// Writes a value to a place of the program. A null or unaligned pointer is an error.
#[expect(clippy::needless_pass_by_value, reason = "values are numbers and handles, and callers compute them")]
pub fn write<T>(at: *mut T, value: T) -> Outcome {
    if at.is_null() || !at.is_aligned() {
        return Err(INVALID_VALUE);
    }
    // The driver copies the bytes, and reports if it cannot write there.
    check(driver::write_guest(at as u64, (&raw const value) as u64, size_of::<T>() as u64))
}

/// Reads a value of the program. The type must allow any bits.
pub fn read<T: Copy>(at: *const T) -> Result<T, u32> {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    check(driver::read_guest(at as u64, value.as_mut_ptr() as u64, size_of::<T>() as u64))?;
    // SAFETY: all bytes were written, and the caller uses types of numbers only.
    Ok(unsafe { value.assume_init() })
}

/// Runs the body of an exported function.
pub fn call(name: &'static str, ready: bool, body: impl FnOnce() -> Outcome) -> u32 {
    driver::set_caller(name);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        if ready {
            driver::make_ready()?;
        }
        body()
    }));
    driver::set_caller("");
    let error = match outcome {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => error,
        Err(_) => {
            eprintln!(
                "warpsmith: internal error in {name}; this is a mistake of Warpsmith, not of the program"
            );
            UNKNOWN
        }
    };
    if error != NOT_READY {
        LAST_ERROR.set(error);
    }
    error
}

/// Exports functions of the runtime API. The body of each returns an [`Outcome`].
macro_rules! runtime {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of the runtime API.")]
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($arg: $type),*) -> u32 {
                $crate::api::call(stringify!($name), true, move || $body)
            }
        )*
    };
}

/// Exports functions that need no device.
macro_rules! without_device {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of the runtime API.")]
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($arg: $type),*) -> u32 {
                $crate::api::call(stringify!($name), false, move || $body)
            }
        )*
    };
}

/// Exports variants whose stream 0 is the calling thread's default stream.
macro_rules! per_thread {
    ($($alias:ident = $name:path: ($($arg:ident: $type:ty),*; $stream:ident);)*) => {
        $(
            #[doc = concat!("`", stringify!($alias), "` of the runtime API.")]
            #[unsafe(no_mangle)]
            pub extern "C" fn $alias($($arg: $type,)* $stream: u64) -> u32 {
                $name($($arg,)* if $stream == 0 { $crate::driver::PER_THREAD } else { $stream })
            }
        )*
    };
}
