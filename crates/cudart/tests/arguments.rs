//! Calls every exported function of the library with wrong arguments: none may crash.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

#[path = "../../cuda/tests/exported/mod.rs"]
mod exported;

use exported::{Library, Room};
use warpsmith_cudart as _;

/// Functions that call a function of the program, whose address must be right, and one whose result is a structure: the
/// caller gives the place for it.
const CALLED_OTHERWISE: [&str; 4] =
    ["cudaLaunchHostFunc", "cudaStreamAddCallback", "cudaGraphAddHostNode", "cudaCreateChannelDesc"];

#[test]
fn no_function_crashes_on_wrong_arguments() {
    // The runtime library finds the driver library by its name, which this one has.
    Library::load("libwarpsmith_cuda.so");
    let library = Library::load("libwarpsmith_cudart.so");
    let nothing = exported::Arguments::default();
    assert_eq!(library.call("cudaFree", nothing), Some(0), "the driver library is found");
    let mut names = exported::names(env!("CARGO_MANIFEST_DIR"), |word| {
        let rest = word.trim_start_matches('_').strip_prefix("cuda");
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    });
    names.retain(|name| !CALLED_OTHERWISE.iter().any(|it| name.starts_with(it)));
    let called = exported::call_with_wrong_arguments(&library, &names, &mut Room::new(), || ());
    assert!(called > 400, "only {called} functions were found");
}
