//! Embeds the repository's `kernels/` folder, so that the program contains its kernels. The folder in this crate is a
//! link to it, so that a published crate has the files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("kernels");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();

    let mut code = String::from("pub const FILES: &[(&str, &str)] = &[\n");
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file.strip_prefix(&root).expect("collected below the root").display().to_string();
        let path = file.canonicalize().expect("the file was just listed").display().to_string();
        writeln!(code, "    ({name:?}, include_str!({path:?})),").expect("writing to a string");
    }
    code.push_str("];\n");
    let out = Path::new(&env::var("OUT_DIR").expect("set by cargo")).join("kernels.rs");
    fs::write(out, code).expect("cargo's output folder is writable");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the kernels folder is part of the repository").flatten() {
        let path = entry.path();
        if path.is_dir() {
            // Folders are watched, too, so that cargo notices a new file.
            println!("cargo::rerun-if-changed={}", path.display());
            collect(&path, files);
        } else if path
            .extension()
            .is_some_and(|kind| ["cu", "cuh", "toml", "py"].iter().any(|known| kind == *known))
        {
            files.push(path);
        }
    }
}
