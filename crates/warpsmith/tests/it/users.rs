//! What new users met: defaults of folders and files, failures that flood, honest reductions, and arguments that do not
//! fit. Each test has the name of the complaint.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::common::{Run, run, warpsmith};

/// A kernel that scales a vector, with its declaration.
const SCALE: &str = r#"
// warpsmith: reference = "op.py:f"
// warpsmith: sizes = { n = 1000 }
// warpsmith: launch = { grid = ["ceil_div(n, 256)"], block = [256] }
// warpsmith: [arguments]
// warpsmith: x = "in f32[n]"
// warpsmith: y = "out fp32[n]"
// warpsmith: n = "size"
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"#;

/// A sum with an atomic addition for each warp.
const TOTAL: &str = r#"
// warpsmith: reference = "op.py:f"
// warpsmith: sizes = { n = 3000 }
// warpsmith: deterministic = false
// warpsmith: launch = { grid = ["ceil_div(n, 256)"], block = [256] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[n]"
// warpsmith: y = "out fp32[1] = 0"
// warpsmith: n = "size"
extern "C" __global__ void total(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = i < n ? x[i] : 0.0f;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (threadIdx.x % 32 == 0) atomicAdd(y, sum);
}
"#;

/// A layer norm whose rows are two numbers: nearly equal ones have no exact variance in fp32.
const NORM: &str = r#"
// warpsmith: reference = "op.py:f"
// warpsmith: sizes = { rows = 40, cols = 2 }
// warpsmith: independent = "rows"
// warpsmith: launch = { grid = ["ceil_div(rows, 64)"], block = [64] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: rows = "size"
// warpsmith: cols = "size"
extern "C" __global__ void layer_norm(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    float mean = 0, square = 0;
    for (int c = 0; c < cols; c++) mean += x[row * cols + c];
    mean /= cols;
    for (int c = 0; c < cols; c++) square += (x[row * cols + c] - mean) * (x[row * cols + c] - mean);
    float scale = rsqrtf(square / cols + 1e-5f);
    for (int c = 0; c < cols; c++) y[row * cols + c] = (x[row * cols + c] - mean) * scale;
}
"#;
const NORM_REFERENCE: &str = "    d = x - x.mean(1, keepdims=True)
    return d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5)";

fn folder(kernel: &str, reference: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("op.cu"), kernel).unwrap();
    fs::write(folder.path().join("op.py"), format!("import numpy as np\ndef f(x):\n{reference}\n")).unwrap();
    folder
}

fn program(folder: &Path, arguments: &[&str]) -> Run {
    run(warpsmith().current_dir(folder).args(arguments).args(["--device", "virtual:l4"]))
}

/// The number of lines of the output.
fn lines(outcome: &Run) -> usize {
    outcome.stdout.lines().count()
}

#[test]
fn a_single_file_uses_its_declared_sizes() {
    let folder = folder(SCALE, "    return 2 * x");
    for command in [&["bench", "op.cu"][..], &["profile", "op.cu"], &["sanitize", "op.cu"]] {
        let outcome = program(folder.path(), command);
        assert_eq!(outcome.code, 0, "{outcome}");
        assert!(outcome.stdout.contains("n1000"), "{command:?}\n{outcome}");
    }
    let checked = program(folder.path(), &["check", "op.cu", "--class", "normal", "--json"]);
    assert!(checked.stdout.contains("\"problem\": \"n1000\""), "{checked}");
}

#[test]
fn with_kernels_the_default_is_what_the_folder_holds() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        assert_eq!(run(warpsmith().current_dir(&folder).args(["new", name])).code, 0);
    }
    let flags = ["--kernels", "kernels", "--problem", "rows2-cols33-fp16", "--class", "normal"];
    let both = program(folder.path(), &[&["check"][..], &flags].concat());
    assert_eq!(both.code, 0, "{both}");
    assert!(both.stdout.contains("one/block default") && both.stdout.contains("two/block wide"), "{both}");
    assert!(both.stdout.contains("4 of 4 runs passed"), "{both}");
    let ambiguous = program(folder.path(), &["bench", "--kernels", "kernels"]);
    assert_eq!(ambiguous.code, 2, "{ambiguous}");
    assert!(ambiguous.stderr.contains("has several ops: one, two"), "{ambiguous}");
    fs::remove_dir_all(folder.path().join("kernels/two")).unwrap();
    let one = program(folder.path(), &[&["check"][..], &flags].concat());
    assert!(one.stdout.contains("2 of 2 runs passed"), "{one}");
}

#[test]
fn one_bug_is_told_once() {
    let wrong = SCALE.replace("i < n", "i <= n").replace("2.0f * x[i]", "2.0f * x[i] + 0.1f");
    let folder = folder(&wrong, "    return 2 * x");
    let flags = ["--junit", "all.xml", "--summary", "all.md", "--jobs", "1"];
    let outcome = program(folder.path(), &[&["check", "op.cu"][..], &flags].concat());
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(lines(&outcome) < 40, "{outcome}");
    assert_eq!(outcome.stdout.matches("\nfailed: ").count(), 1, "{outcome}");
    assert!(outcome.stdout.contains("(and 4 more runs with the same cause)"), "{outcome}");
    assert!(outcome.stdout.contains("[out-of-bounds]"), "{outcome}");
    assert!(outcome.stdout.contains("--max-failures 0 does all"), "{outcome}");
    let junit = fs::read_to_string(folder.path().join("all.xml")).unwrap();
    assert!(junit.contains("failures=\"5\""), "{junit}");
    assert_eq!(junit.matches("the same cause as").count(), 2 * 4, "{junit}");
    let summary = fs::read_to_string(folder.path().join("all.md")).unwrap();
    assert!(summary.contains("and 4 more results") && summary.lines().count() < 16, "{summary}");
    // Without a limit every run is done, and the cause is still told once.
    let all = program(folder.path(), &["check", "op.cu", "--class", "normal", "--max-failures", "0"]);
    assert!(all.stdout.contains("more runs with the same cause") && lines(&all) < 60, "{all}");
    assert!(!all.stdout.contains("not done"), "{all}");
}

#[test]
fn two_bugs_are_both_told() {
    let wrong = SCALE.replace(
        "if (i < n) y[i] = 2.0f * x[i];",
        "if (n == 7) y[i] = x[n + i];\n    if (n == 2) y[n + i] = 0;\n    if (i < n) y[i] = 2.0f * x[i];",
    );
    let folder = folder(&wrong, "    return 2 * x");
    let flags = ["--class", "normal", "--problem", "n7", "--problem", "n2", "--problem", "n5"];
    let outcome = program(folder.path(), &[&["check", "op.cu"][..], &flags].concat());
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(
        outcome.stdout.contains("reads 4 bytes") && outcome.stdout.contains("writes 4 bytes"),
        "{outcome}"
    );
}

#[test]
fn rtol_decides_alone_in_a_comparison_with_files() {
    let folder = folder(SCALE, "    return 2 * x");
    let numbers = |factor: f32| (1..=300).map(|number| factor * number as f32).collect::<Vec<f32>>();
    for (name, factor) in [("x.npy", 1.0), ("y.npy", 2.001)] {
        let bytes: Vec<u8> = numbers(factor).iter().flat_map(|number| number.to_le_bytes()).collect();
        let file = launch::npy::write(launch::Dtype::F32, &[300], &bytes);
        fs::write(folder.path().join(name), file).unwrap();
    }
    let check = |rtol: &str| {
        let flags = ["--input", "x=x.npy", "--expect", "y=y.npy", "--rtol", rtol];
        program(folder.path(), &[&["check", "op.cu"][..], &flags].concat())
    };
    assert_eq!(check("1e-3").code, 0, "{}", check("1e-3"));
    assert_eq!(check("1e-4").code, 1);
}

#[test]
fn an_honest_sum_with_atomics_passes() {
    let folder = folder(TOTAL, "    return [x.sum()]");
    let outcome = program(folder.path(), &["check", "op.cu", "--seeds", "2"]);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(outcome.stdout.contains("declared as not deterministic"), "{outcome}");
    // Without the declaration the bits must be the same, and without zeros the sum is wrong.
    let with = |from: &str, to: &str| {
        fs::write(folder.path().join("op.cu"), TOTAL.replace(from, to)).unwrap();
        program(
            folder.path(),
            &["check", "op.cu", "--problem", "n3000", "--class", "normal", "--input-seed", "1"],
        )
    };
    assert!(with("// warpsmith: deterministic = false\n", "").stdout.contains("[non-deterministic]"));
    assert_eq!(with("[1] = 0", "[1]").code, 1);
    // A wrong sum fails, with the declaration too: a term that is lost, one that is counted twice, and fp16.
    for wrong in ["i < n - 1 ?", "i <= n ?"] {
        assert_eq!(with("i < n ?", wrong).code, 1, "{wrong}");
    }
    assert_eq!(with("? x[i]", "? x[i] + 0.001f * (i == 5)").code, 1);
}

#[test]
fn a_declaration_of_atomics_needs_atomics() {
    // The order of blocks decides which of two values stays.
    let racy = TOTAL.replace("atomicAdd(y, sum)", "y[0] = sum * 0.0f + 1e-7f * blockIdx.x");
    let folder = folder(&racy, "    return [0.0 * x.sum()]");
    let outcome = program(folder.path(), &["check", "op.cu", "--problem", "n3000", "--class", "normal"]);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(!outcome.stdout.contains("declared as not deterministic"), "{outcome}");
}

#[test]
fn errors_that_fp32_cannot_avoid_are_allowed_and_others_are_not() {
    let folder = folder(NORM, NORM_REFERENCE);
    let flags = ["check", "op.cu", "--class", "outliers", "--class", "large", "--problem", "rows40-cols2"];
    let check =
        |seed: &str| program(folder.path(), &[&flags[..], &["--seeds", "8", "--input-seed", seed]].concat());
    assert_eq!(check("1").code, 0, "{}", check("1"));
    for (right, wrong) in [
        ("+ 1e-5f", "+ 1.001e-5f * 8"),
        ("/ cols + 1e-5f", "/ (cols + 1e-4f) + 1e-5f"),
        ("mean /= cols", "mean /= cols + 1e-5f"),
    ] {
        fs::write(folder.path().join("op.cu"), NORM.replace(right, wrong)).unwrap();
        assert_eq!(check("1").code, 1, "{wrong}: {}", check("1"));
    }
}

#[test]
fn a_long_sum_is_told_to_declare_its_length() {
    let serial = TOTAL
        .replace("\"ceil_div(n, 256)\"", "1")
        .replace("block = [256]", "block = [1]")
        .replace("i < n ? x[i] : 0.0f;", "0; for (int j = 0; j < n; j++) sum += x[j]; i = 0;")
        .replace(
            "for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);",
            "",
        );
    let folder = folder(&serial, "    return [x.sum()]");
    let flags = ["check", "op.cu", "--problem", "n20000", "--class", "normal", "--input-seed", "3"];
    let outcome = program(folder.path(), &flags);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("`reduction` in [tolerance]"), "{outcome}");
    let declared = serial
        .replace("// warpsmith: [arg", "// warpsmith: tolerance = { reduction = \"n\" }\n// warpsmith: [arg");
    fs::write(folder.path().join("op.cu"), declared).unwrap();
    assert_eq!(program(folder.path(), &flags).code, 0, "{}", program(folder.path(), &flags));
}

const INCREMENT: &str = "\
// warpsmith: --kernel f --grid 1 --block 32 --arg x=inout,fp32[32]=iota --arg n=i32=32
__global__ void f(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] += 1.0f; }
";

#[test]
fn sanitize_checks_arguments_against_the_source() {
    let folder = folder(INCREMENT, "    pass");
    let sanitize =
        |flags: &[&str]| run(warpsmith().current_dir(&folder).args(["sanitize", "op.cu"]).args(flags));
    let clean = sanitize(&[]);
    // The kernel `f` is not the type float.
    assert!(clean.code == 0 && clean.stdout.starts_with("`f` on"), "{clean}");
    let wide = sanitize(&["--arg", "x=inout,f64[32]=iota"]);
    assert_eq!(wide.code, 2, "{wide}");
    assert!(wide.stderr.contains("argument `x` has the type f64, but the parameter `x` is float*"), "{wide}");
    // One argument of the command line replaces only that argument of the file.
    let fewer = sanitize(&["--arg", "n=i32=16"]);
    assert_eq!(fewer.code, 0, "{fewer}");
    let one = sanitize(&["--arg", "fp32[32]=iota"]);
    assert!(one.stderr.contains("the kernel is f(float* x, int n)"), "{one}");
}

#[test]
fn sanitize_takes_the_launch_from_the_declaration_of_the_op() {
    let folder = folder(&SCALE.replace("i < n", "i <= n"), "    return 2 * x");
    let outcome = run(warpsmith().current_dir(&folder).args(["sanitize", "op.cu"]));
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("[out-of-bounds]") && outcome.stdout.contains("op.cu:11"), "{outcome}");
}

#[test]
fn errors_of_the_compiler_are_in_the_json_document() {
    let folder = folder("__global__ void k(float* x) { x[0] = y; }", "    pass");
    let flags = ["sanitize", "op.cu", "--grid", "1", "--block", "1", "--arg", "out,f32[1]", "--json"];
    let outcome = run(warpsmith().current_dir(&folder).args(flags));
    assert_eq!(outcome.code, 1, "{outcome}");
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let message = document["diagnostics"][0]["message"].as_str().unwrap();
    assert!(message.contains("\"y\" is undefined"), "{document}");
}

#[test]
fn hints_name_ops_values_and_knobs() {
    let hint = |arguments: &[&str]| {
        let outcome = run(warpsmith().args(arguments));
        assert_eq!(outcome.code, 2, "{outcome}");
        outcome.stderr.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let gemm = |set: &str| hint(&["check", "gemm", "--set", set, "--device", "virtual:l4"]);
    assert!(hint(&["check", "nosuch"]).contains("gemm/plain"));
    assert!(gemm("BLOCK_N=63").contains("BLOCK_N is one of 16, 32"), "{}", gemm("BLOCK_N=63"));
    assert!(gemm("BLOCKN=64").contains("did you mean `BLOCK_N`?"), "{}", gemm("BLOCKN=64"));
    assert!(hint(&["new", "gemm"]).contains("`gemm` is an op of Warpsmith"));
}
