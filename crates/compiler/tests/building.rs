//! The compiler and its cache, tested with the real NVRTC.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use chips::Target;
use warpsmith_compiler::testing::pinned_toolchain;
use warpsmith_compiler::{BuildError, Compiler, Request, Source};

const DOUBLE: &str = "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= FACTOR; }\n";

fn compiler(cache: &Path) -> Compiler {
    Compiler::new(pinned_toolchain(Path::new(env!("CARGO_TARGET_TMPDIR"))), cache).unwrap()
}

fn request(text: &str, option: &str) -> Request {
    let source = Source { name: "twice.cu".into(), text: text.into(), ..Source::default() };
    Request { source, target: Target::Sm80, options: vec![option.to_owned()] }
}

fn cached_files(cache: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(cache.join("builds")).unwrap().flatten();
    folders
        .flat_map(|folder| fs::read_dir(folder.path()).unwrap().flatten())
        .map(|file| file.path())
        .collect()
}

#[test]
fn the_second_build_comes_from_the_cache() {
    let cache = tempfile::tempdir().unwrap();
    let compiler = compiler(cache.path());
    let first = compiler.build(&request(DOUBLE, "-DFACTOR=2")).unwrap();
    assert!(!first.cached);
    let second = compiler.build(&request(DOUBLE, "-DFACTOR=2")).unwrap();
    assert!(second.cached);
    assert_eq!(first.build.ptx, second.build.ptx);
    assert_eq!(first.build.cubin, second.build.cubin);
    assert_eq!(first.build.entries, second.build.entries);
    assert!(first.build.ptx.contains(".entry twice"));
    assert!(first.build.cubin.starts_with(b"\x7fELF"));
    assert!(first.build.entry("twice").unwrap().registers > 0);
}

#[test]
fn a_build_without_machine_code_has_the_same_ptx_and_another_hash() {
    let cache = tempfile::tempdir().unwrap();
    let request = request(DOUBLE, "-DFACTOR=2");
    let whole = compiler(cache.path()).build(&request).unwrap().build;
    let ptx_only = compiler(cache.path()).without_machine_code().build(&request).unwrap();
    assert!(!ptx_only.cached);
    assert_eq!(ptx_only.build.ptx, whole.ptx);
    assert!(ptx_only.build.cubin.is_empty());
    let names: Vec<&str> = ptx_only.build.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["twice"]);
    assert_eq!(ptx_only.build.entry("twice").unwrap().registers, 0);
}

#[test]
fn source_options_target_and_name_each_change_the_hash() {
    let cache = tempfile::tempdir().unwrap();
    let compiler = compiler(cache.path());
    let base = request(DOUBLE, "-DFACTOR=2");
    let mut variants =
        vec![base.clone(), request(DOUBLE, "-DFACTOR=3"), request(&DOUBLE.replace('x', "y"), "-DFACTOR=2")];
    variants.push(Request { target: Target::Sm90, ..base.clone() });
    let mut renamed = base.clone();
    renamed.source.name = "other.cu".into();
    variants.push(renamed);
    let mut with_header = base.clone();
    with_header.source.headers = vec![("a.cuh".into(), "// one".into())];
    variants.push(with_header.clone());
    with_header.source.headers[0].1 = "// two".into();
    variants.push(with_header);
    let mut hashes: Vec<String> = variants.iter().map(|variant| compiler.hash(variant)).collect();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), variants.len());
}

#[test]
fn a_changed_header_on_disk_changes_the_hash() {
    let folder = tempfile::tempdir().unwrap();
    let compiler = compiler(&folder.path().join("cache"));
    let mut request =
        request("#include \"factor.h\"\nextern \"C\" __global__ void k(float* x) { *x = FACTOR; }\n", "-G0");
    request.options.clear();
    request.source.include_dirs = vec![folder.path().to_owned()];
    fs::write(folder.path().join("factor.h"), "#define FACTOR 2\n").unwrap();
    let before = compiler.build(&request).unwrap().build;
    fs::write(folder.path().join("factor.h"), "#define FACTOR 3\n").unwrap();
    let after = compiler.build(&request).unwrap().build;
    assert_ne!(before.hash, after.hash);
    assert_ne!(before.code_hash, after.code_hash);
}

#[test]
fn sources_that_differ_only_in_comments_have_the_same_code_hash() {
    let cache = tempfile::tempdir().unwrap();
    let compiler = compiler(cache.path());
    let one = compiler.build(&request(DOUBLE, "-DFACTOR=2")).unwrap().build;
    let commented = format!("// A remark that moves every line.\n\n{DOUBLE}");
    let other = compiler.build(&request(&commented, "-DFACTOR=2")).unwrap().build;
    assert_ne!(one.hash, other.hash);
    assert_eq!(one.code_hash, other.code_hash);
    let different = compiler.build(&request(DOUBLE, "-DFACTOR=3")).unwrap().build;
    assert_ne!(one.code_hash, different.code_hash);
}

#[test]
fn a_damaged_entry_is_rebuilt() {
    let cache = tempfile::tempdir().unwrap();
    let compiler = compiler(cache.path());
    let good = compiler.build(&request(DOUBLE, "-DFACTOR=2")).unwrap().build;
    let file = cached_files(cache.path()).pop().unwrap();
    let whole = fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let damages: [&[u8]; 4] = [&[], &whole[..whole.len() / 2], &flipped, b"warpsmith build 1\n{}\n"];
    for damaged in damages {
        fs::write(&file, damaged).unwrap();
        let rebuilt = compiler.build(&request(DOUBLE, "-DFACTOR=2")).unwrap();
        assert!(!rebuilt.cached, "a damaged entry of {} bytes was accepted", damaged.len());
        assert_eq!(rebuilt.build.cubin, good.cubin);
        assert!(compiler.build(&request(DOUBLE, "-DFACTOR=2")).unwrap().cached);
    }
}

#[test]
fn a_syntax_error_is_reported_with_its_place_and_is_not_cached() {
    let cache = tempfile::tempdir().unwrap();
    let compiler = compiler(cache.path());
    let text = "extern \"C\" __global__ void k(float* x) {\n    *x = nonsense;\n}\n";
    let Err(BuildError::Source { diagnostics, .. }) = compiler.build(&request(text, "-DX")) else {
        panic!("it compiled")
    };
    let place = diagnostics[0].place.as_ref().unwrap();
    assert_eq!((place.file.as_str(), place.line, place.column), ("twice.cu", 2, Some(10)));
    assert!(diagnostics[0].message.contains("nonsense"));
    assert!(!cache.path().join("builds").exists());
}

#[test]
fn a_source_without_a_kernel_is_an_error() {
    let cache = tempfile::tempdir().unwrap();
    let error =
        compiler(cache.path()).build(&request("__device__ int f() { return 1; }\n", "-DX")).unwrap_err();
    assert!(matches!(error, BuildError::NoKernel { .. }), "{error}");
}

#[test]
fn parallel_builds_keep_their_order_and_each_is_reported() {
    let cache = tempfile::tempdir().unwrap();
    let compiler = compiler(cache.path());
    let mut requests: Vec<Request> =
        (0..6).map(|factor| request(DOUBLE, &format!("-DFACTOR={factor}"))).collect();
    requests[3] = request("syntax error", "-DX");
    let reported = AtomicUsize::new(0);
    let outcomes = compiler.build_many(&requests, 4, &|_, _| {
        reported.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(reported.into_inner(), 6);
    assert_eq!(outcomes.len(), 6);
    for (index, outcome) in outcomes.iter().enumerate() {
        match outcome {
            Ok(outcome) => assert_eq!(outcome.build.hash, compiler.hash(&requests[index])),
            Err(_) => assert_eq!(index, 3),
        }
    }
}

#[test]
fn the_ptx_does_not_contain_the_working_directory() {
    let cache = tempfile::tempdir().unwrap();
    let build = compiler(cache.path()).build(&request(DOUBLE, "-DFACTOR=2")).unwrap().build;
    let file = build.ptx.lines().find(|line| line.contains(".file")).unwrap();
    assert!(file.ends_with("\"twice.cu\""), "{file}");
}

#[test]
fn an_unwritable_cache_warns_once_and_fails_no_build() {
    let folder = tempfile::tempdir().unwrap();
    let blocked = folder.path().join("cache");
    fs::create_dir(&blocked).unwrap();
    fs::write(blocked.join("builds"), "a file where a folder should be").unwrap();
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&warnings);
    let compiler = compiler(&blocked).warn_with(move |text| received.lock().unwrap().push(text.to_owned()));
    for factor in [2, 3] {
        let outcome = compiler.build(&request(DOUBLE, &format!("-DFACTOR={factor}"))).unwrap();
        assert!(!outcome.cached);
    }
    let warnings = warnings.lock().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("WARPSMITH_CACHE"), "{warnings:?}");
}

#[test]
fn a_build_over_the_size_limit_is_refused_and_not_cached() {
    let cache = tempfile::tempdir().unwrap();
    let compiler = compiler(cache.path());
    let text = "__device__ int a[70 << 20] = {1};\nextern \"C\" __global__ void k(int* x) { *x = a[threadIdx.x]; }\n";
    let error = compiler.build(&request(text, "-DX")).unwrap_err();
    assert!(matches!(error, BuildError::TooLarge { .. }), "{error}");
    assert!(!cache.path().join("builds").exists());
}

/// Not a test: the process that [`in_processes`] starts.
#[test]
#[ignore = "compiles for another process"]
fn compile_for_the_parent() {
    if let Some(channel) = subprocess::Channel::to_parent() {
        warpsmith_compiler::serve(channel).unwrap();
    }
}

fn compile_here() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["compile_for_the_parent", "--exact", "--ignored"]);
    command
}

#[test]
fn other_processes_compile_the_same() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = compiler(here.path());
    let there = compiler(there.path()).in_processes(compile_here);
    let request = request(DOUBLE, "-DFACTOR=2");
    let (own, other) = (here.build(&request).unwrap().build, there.build(&request).unwrap().build);
    assert_eq!((&own.hash, &own.ptx, &own.cubin), (&other.hash, &other.ptx, &other.cubin));
    assert_eq!(own.entries, other.entries);

    let ptx = Source { name: "twice.ptx".into(), text: own.ptx, ..Source::default() };
    let assembled = Request { source: ptx, target: Target::Sm80, options: Vec::new() };
    assert_eq!(here.build(&assembled).unwrap().build.cubin, there.build(&assembled).unwrap().build.cubin);

    let broken = self::request("extern \"C\" __global__ void broken() { wrong }\n", "-DX");
    let message = |error: BuildError| match error {
        BuildError::Source { diagnostics, log, .. } => (diagnostics, log),
        other => panic!("{other}"),
    };
    assert_eq!(message(here.build(&broken).unwrap_err()), message(there.build(&broken).unwrap_err()));
}

#[test]
fn a_compiler_that_crashes_is_an_error_and_the_next_build_has_a_new_process() {
    let cache = tempfile::tempdir().unwrap();
    let started = AtomicUsize::new(0);
    let compiler = compiler(cache.path()).in_processes(move || {
        if started.fetch_add(1, Ordering::Relaxed) > 0 {
            return compile_here();
        }
        let mut command = Command::new("sh");
        command.args(["-c", "kill -SEGV $$"]);
        command
    });
    let request = request(DOUBLE, "-DFACTOR=2");
    let error = compiler.build(&request).unwrap_err();
    assert_eq!(error.to_string(), "the compiler failed on twice.cu: its process was killed by SIGSEGV");
    assert!(matches!(error, BuildError::Process { .. }));
    assert!(compiler.build(&request).is_ok());
}

#[test]
fn a_specialisation_that_fails_is_an_error_and_other_functions_that_fail_are_reported() {
    let cache = tempfile::tempdir().unwrap();
    let compiler = compiler(cache.path());
    let text = |helper: &str| {
        format!(
            "template <class T> __device__ float weight(T x) {{ return 1; }}\n{helper}\n\
             __global__ void fill(float* x) {{ x[0] = weight(2.0); }}\nint main() {{ fill<<<1, 1>>>(nullptr); }}\n"
        )
    };
    let specialised = text("template <> __device__ float weight<double>(double x) { return unknown; }");
    let overloaded = text("__device__ float weight(double x) { return unknown; }");
    for text in [specialised, overloaded] {
        let error = compiler.build_nvcc_source(&request(&text, "-DFACTOR=2")).unwrap_err();
        let BuildError::Source { diagnostics, .. } = error else { panic!("{error}") };
        assert!(diagnostics.iter().any(|it| it.message.contains("unknown")), "{diagnostics:?}");
    }
    let unused = text("__device__ float unused(\n    double x)\n{ return unknown; }");
    let built = compiler.build_nvcc_source(&request(&unused, "-DFACTOR=2")).unwrap();
    assert_eq!(built.left_out, ["__device__ float unused( double x)"]);
}

#[test]
fn words_of_device_code_come_from_headers_too() {
    let cache = tempfile::tempdir().unwrap();
    let compiler = compiler(cache.path());
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("words.h"), "#define ON_DISK __device__\n").unwrap();
    let mut request = request(
        "#include \"words.h\"\n#include \"memory.h\"\nON_DISK float one() { return 1; }\n\
         IN_MEMORY float two() { return 2; }\n__global__ void fill(float* x) { x[0] = one() + two(); }\n\
         int main() { fill<<<1, 1>>>(nullptr); }\n",
        "-DFACTOR=2",
    );
    request.source.include_dirs.push(folder.path().to_owned());
    request.source.headers.push(("memory.h".to_owned(), "#define IN_MEMORY __device__\n".to_owned()));
    let built = compiler.build_nvcc_source(&request).unwrap();
    assert_eq!(built.host_functions, ["main"]);
    warpsmith_compiler::prepare_nvcc_source(&mut request);
    assert!(compiler.build(&request).is_ok());
}
