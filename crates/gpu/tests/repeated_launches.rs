//! Repeated launches become graphs. This test needs no GPU: it replaces the driver by `fake_driver/libcuda.rs`.
//! `crates/attention/tests/gpu.rs` has the tests with a GPU.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use libloading::{Library, Symbol};
use warpsmith_gpu::accelerator::{CudaContext, CudaModule, CudaStream, Geometry, LaunchStep, RepeatedCall};

/// Set in the process that has the fake driver.
const CHILD: &str = "WARPSMITH_TEST_FAKE_DRIVER";

/// What a call and its driver do is the same on all streams but a captured one.
const STREAM: CudaStream = CudaStream(0);
const CAPTURED: CudaStream = CudaStream(7);

#[test]
fn repeated_launches_become_graphs() {
    if std::env::var_os(CHILD).is_some() {
        return test_with_fake_driver();
    }
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libcuda.so.1");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_driver/libcuda.rs");
    let compiled = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
        .args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "cuda", "-o"])
        .args([&library, &source])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    // A link and not a copy: two files would be two drivers with a state each.
    symlink(&library, folder.path().join("libcuda.so")).unwrap();
    let tested = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "repeated_launches_become_graphs", "--nocapture"])
        .env(CHILD, "1")
        .env("LD_LIBRARY_PATH", folder.path())
        .output()
        .unwrap();
    let [printed, errors] = [&tested.stdout, &tested.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(tested.status.success(), "{printed}{errors}");
    assert!(printed.contains("all steps passed"), "{printed}{errors}");
}

/// What the fake driver counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    kernels: u64,
    recorded: u64,
    graph_launches: u64,
    graphs: u64,
    executables: u64,
    streams: u64,
    spoiled: u64,
    is_mode_changed: bool,
}

struct Fake(Library);

impl Fake {
    fn counts(&self) -> Counts {
        let mut counts = [0; 8];
        // SAFETY: the function has this type.
        unsafe {
            let function: Symbol<'_, extern "C" fn(&mut [u64; 8])> = self.0.get(b"fake_counts").unwrap();
            function(&mut counts);
        }
        let [kernels, recorded, graph_launches, graphs, executables, streams, spoiled, mode] = counts;
        let is_mode_changed = mode != 0;
        Counts { kernels, recorded, graph_launches, graphs, executables, streams, spoiled, is_mode_changed }
    }

    fn fail(&self, kernels: bool, graphs: bool, graph_launches: bool) {
        // SAFETY: the function has this type.
        unsafe {
            let function: Symbol<'_, extern "C" fn(bool, bool, bool)> = self.0.get(b"fake_fail").unwrap();
            function(kernels, graphs, graph_launches);
        }
    }

    fn capture(&self, begins: bool) {
        // SAFETY: the function has this type.
        unsafe {
            let function: Symbol<'_, extern "C" fn(usize, bool)> = self.0.get(b"fake_capture").unwrap();
            function(CAPTURED.0 as usize, begins);
        }
    }
}

/// A call of one kernel without parameters.
fn call(context: &CudaContext, module: &CudaModule) -> RepeatedCall {
    let geometry = Geometry { grid: [1; 3], block: [32, 1, 1], cluster: [1; 3], shared_bytes: 0 };
    context.call(module, [LaunchStep { entry: "kernel", geometry, parameters: &[] }]).unwrap()
}

fn enqueue(call: &RepeatedCall, times: usize) {
    for _ in 0..times {
        call.enqueue(STREAM).unwrap();
    }
}

/// The steps share the driver's counts, so they are one test.
fn test_with_fake_driver() {
    // SAFETY: the library is the fake driver, which has no initialiser.
    let fake = Fake(unsafe { Library::new("libcuda.so.1") }.unwrap());
    let context = CudaContext::open(0).unwrap();
    let module = context.load(&[]).unwrap();
    let mut expected = Counts::default();
    let expect = |step: &str, expected: Counts| assert_eq!(fake.counts(), expected, "{step}");

    let first = call(&context, &module);
    enqueue(&first, 16);
    expected.kernels = 16;
    expect("16 launches are ordinary", expected);
    enqueue(&first, 3);
    (expected.recorded, expected.graphs, expected.executables, expected.graph_launches) = (1, 1, 1, 3);
    expect("the next launches are those of a graph", expected);

    fake.capture(true);
    first.enqueue(CAPTURED).unwrap();
    expected.recorded += 1;
    expect("a captured stream records the kernel", expected);
    let second = call(&context, &module);
    enqueue(&second, 17);
    expected.kernels += 16;
    expected.recorded += 1;
    expected.graph_launches += 1;
    expected.graphs += 1;
    expected.executables += 1;
    expect("a graph is made without harm to a capture", expected);
    drop(second);
    expected.graphs -= 1;
    expected.executables -= 1;
    expect("a graph is destroyed without harm to a capture", expected);
    fake.capture(false);

    first.enqueue_ordinary(STREAM).unwrap();
    expected.kernels += 1;
    expect("an ordinary launch can be requested", expected);

    fake.fail(false, false, true);
    enqueue(&first, 2);
    expected.kernels += 2;
    expected.graphs -= 1;
    expected.executables -= 1;
    expect("if the graph cannot be launched, ordinary launches do", expected);
    fake.fail(false, false, false);
    enqueue(&first, 20);
    expected.kernels += 20;
    expect("and the graph is not made again", expected);

    let third = call(&context, &module);
    fake.fail(false, true, false);
    enqueue(&third, 40);
    expected.kernels += 40;
    expected.recorded += 1;
    expect("if the graph cannot be made, ordinary launches do; it is tried once", expected);

    let fourth = call(&context, &module);
    fake.fail(true, false, false);
    for _ in 0..20 {
        let error = fourth.enqueue(STREAM).unwrap_err().to_string();
        assert!(error.contains("an error of the fake driver"), "{error}");
    }
    fake.fail(false, false, false);
    enqueue(&fourth, 16);
    expected.kernels += 16;
    expect("launches that failed do not count", expected);
    drop((first, third, fourth));

    let mut many: Vec<RepeatedCall> = (0..129).map(|_| call(&context, &module)).collect();
    for call in &many {
        enqueue(call, 17);
    }
    expected.kernels += 129 * 16 + 1;
    expected.recorded += 128;
    expected.graph_launches += 128;
    (expected.graphs, expected.executables) = (128, 128);
    expect("128 calls become graphs", expected);
    many.remove(0);
    enqueue(&many[127], 16);
    expected.kernels += 15;
    expected.recorded += 1;
    expected.graph_launches += 1;
    expect("another call becomes a graph when one is gone", expected);

    // Calls may outlive the context that made them: they retain it, too.
    drop(context);
    drop(many);
    (expected.graphs, expected.executables) = (0, 0);
    expect("nothing is left", expected);
    println!("all steps passed");
}
