//! Calls every exported function of the library with wrong arguments: none may crash.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

mod exported;

use exported::{Library, Room};
use warpsmith_cuda as _;

/// Functions that call a function of the program, whose address must be right.
const WITH_CALLBACKS: [&str; 4] =
    ["cuLaunchHostFunc", "cuStreamAddCallback", "cuOccupancyMaxPotentialBlockSize", "cuGraphAddHostNode"];

#[test]
fn no_function_crashes_on_wrong_arguments() {
    let library = Library::load("libwarpsmith_cuda.so");
    let mut room = Room::new();
    let call = |name: &str, first: u64| {
        let mut arguments = exported::Arguments::default();
        arguments[0] = first;
        assert_eq!(library.call(name, arguments), Some(0), "{name}");
    };
    call("cuInit", 0);
    call("cuDevicePrimaryCtxRetain", room.address);
    let context = room.numbers[0];
    call("cuCtxSetCurrent", context);
    let mut names = exported::names(env!("CARGO_MANIFEST_DIR"), |word| {
        word.strip_prefix("cu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    });
    names.retain(|name| !WITH_CALLBACKS.iter().any(|it| name.starts_with(it)));
    // Without a current context the next functions would all refuse at once.
    let between = || {
        let mut arguments = exported::Arguments::default();
        arguments[0] = context;
        library.call("cuCtxSetCurrent", arguments);
    };
    let called = exported::call_with_wrong_arguments(&library, &names, &mut room, between);
    assert!(called > 400, "only {called} functions were found");
}
