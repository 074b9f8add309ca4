//! The last error of the thread.

use crate::api::{last_error, replace_last_error};
use crate::{driver, launches};

/// The error of a kernel that has failed, which every call returns from then on. Asking for it does not clear it.
fn pending_fault() -> u32 {
    let mut free = 0;
    match driver::cuMemGetInfo_v2(&raw mut free, std::ptr::null_mut()) {
        fault @ 700..=719 => fault,
        _ => 0,
    }
}

/// `cudaGetLastError` of the runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> u32 {
    launches::errors_are_asked_for();
    match replace_last_error(0) {
        0 => pending_fault(),
        error => error,
    }
}

/// `cudaPeekAtLastError` of the runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> u32 {
    launches::errors_are_asked_for();
    match last_error() {
        0 => pending_fault(),
        error => error,
    }
}
