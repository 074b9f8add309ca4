//! Gives the library the name by which others ask for NVIDIA's driver, so that it is loaded once for all of them.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
}
