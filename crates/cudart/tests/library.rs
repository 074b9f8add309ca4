//! The library has the functions that programs ask for. This test also makes cargo build it with `cargo test`.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

use std::ffi::CString;

use warpsmith_cudart as _;

#[test]
fn functions_that_nvcc_calls_are_exported() {
    let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let candidates = [beside.join("libwarpsmith_cudart.so"), beside.join("../libwarpsmith_cudart.so")];
    let path = candidates.into_iter().find(|path| path.is_file()).expect("cargo has built the library");
    let path = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the library has no initialisers that could do harm.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null());
    for name in [
        "__cudaRegisterFatBinary",
        "__cudaRegisterFunction",
        "__cudaRegisterVar",
        "__cudaPushCallConfiguration",
        "__cudaPopCallConfiguration",
        "__cudaLaunchKernel",
        "cudaLaunchKernel",
        "cudaMalloc",
        "cudaMemcpy",
        "cudaGetLastError",
        "cudaGetDeviceProperties",
        "cudaGetDeviceProperties_v2",
    ] {
        let name = CString::new(name).unwrap();
        // SAFETY: the library is loaded.
        assert!(!unsafe { libc::dlsym(library, name.as_ptr()) }.is_null(), "{name:?}");
    }
}
