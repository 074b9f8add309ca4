//! Gives the library the version nodes of NVIDIA's runtime libraries. Programs ask for symbols of these versions, and the
//! dynamic linker warns if the library does not have them. The nodes are empty: the symbols have no version, which fits
//! both.

fn main() {
    println!("cargo::rerun-if-changed=versions.map");
    // GNU ld cannot combine the nodes with the list of exported symbols that rustc gives it. rustc uses LLVM's linker here.
    let is_lld = std::env::var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu");
    if is_lld && let Ok(folder) = std::env::var("CARGO_MANIFEST_DIR") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={folder}/versions.map");
    }
}
