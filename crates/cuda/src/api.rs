//! What every exported function does: it names the call for findings, keeps panics inside the library, and turns the
//! outcome into CUDA's number.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use execlog::HostKind;

use crate::errors::{Outcome, Status};
use crate::state;

thread_local! {
    static CALL: Cell<&'static str> = const { Cell::new("") };
    /// The name that findings use instead of `CALL`: a function of the runtime library, or `host code`. Empty if there
    /// is none.
    static CALLER: Cell<&'static str> = const { Cell::new("") };
    /// The kind of the object whose handle the call got, if that object does not exist.
    static MISSED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// What the program has called on this thread: a function of the runtime library or of this one.
pub fn current_call() -> &'static str {
    match CALLER.get() {
        "" => CALL.get(),
        caller => caller,
    }
}

/// Sets what findings name instead of the exported function, and returns what they named before.
pub fn set_caller(name: &'static str) -> &'static str {
    CALLER.replace(name)
}

/// Notes that the call names an object that does not exist.
pub fn missed(kind: &'static str) {
    MISSED.set(Some(kind));
}

/// Reports an object that does not exist. The lock of the state must be free.
fn report_missed(kind: &str) {
    if let Ok(mut state) = state() {
        let message = format!("the {kind} does not exist: it was destroyed, or never made");
        state.report(HostKind::ApiError, message);
    }
}

/// Runs the body of an exported function.
pub fn call(name: &'static str, body: impl FnOnce() -> Outcome) -> u32 {
    let outer = CALL.replace(name);
    MISSED.set(None);
    let outcome = catch_unwind(AssertUnwindSafe(body));
    if let (Ok(Err(Status::INVALID_HANDLE)), Some(kind)) = (&outcome, MISSED.take()) {
        report_missed(kind);
    }
    CALL.set(outer);
    match outcome {
        Ok(Ok(())) => 0,
        Ok(Err(status)) => status.0,
        Err(_) => {
            eprintln!(
                "warpsmith: internal error in {name}; this is a mistake of Warpsmith, not of the program"
            );
            Status::UNKNOWN.0
        }
    }
}

/// Exports functions of the driver API. The body of each returns an [`Outcome`].
macro_rules! api {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of the driver API.")]
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($arg: $type),*) -> u32 {
                $crate::api::call(stringify!($name), move || $body)
            }
        )*
    };
}

/// Exports variants of functions that have another name and the same parameters.
macro_rules! aliases {
    ($($alias:ident = $name:path: ($($arg:ident: $type:ty),*);)*) => {
        $(
            #[doc = concat!("`", stringify!($alias), "` of the driver API.")]
            #[unsafe(no_mangle)]
            pub extern "C" fn $alias($($arg: $type),*) -> u32 {
                $name($($arg),*)
            }
        )*
    };
}

/// Exports variants whose stream 0 is the calling thread's default stream, `PER_THREAD`, which the caller imports.
macro_rules! per_thread {
    ($($alias:ident = $name:path: ($($arg:ident: $type:ty),*; $stream:ident);)*) => {
        $(
            #[doc = concat!("`", stringify!($alias), "` of the driver API.")]
            #[unsafe(no_mangle)]
            pub extern "C" fn $alias($($arg: $type,)* $stream: u64) -> u32 {
                $name($($arg,)* if $stream == 0 { PER_THREAD } else { $stream })
            }
        )*
    };
}
