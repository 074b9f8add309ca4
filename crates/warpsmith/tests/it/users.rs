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

// Both give wrong elements, so they are one group.
#[test]
fn another_kind_of_failure_is_told_beside_the_example() {
    let wrong = SCALE.replace(
        "if (i < n) y[i] = 2.0f * x[i];",
        "if (i < n) y[i] = n == 200 ? 2.0f : 2.0f * x[i];\n    if (n == 100 && i == 5) y[i] += 1;",
    );
    let folder = folder(&wrong, "    return 2 * x");
    let flags = ["--class", "normal", "--problem", "n100", "--problem", "n200", "--jobs", "1"];
    let outcome = program(folder.path(), &[&["check", "op.cu", "--junit", "all.xml"][..], &flags].concat());
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("[elements] y: 1 of 100 elements are wrong"), "{outcome}");
    let other = outcome.stdout.lines().find(|line| line.contains("[ignored-input]")).unwrap_or_default();
    assert!(other.contains("on n200"), "{outcome}");
    let junit = fs::read_to_string(folder.path().join("all.xml")).unwrap();
    assert!(junit.contains("on n200, normal: the answer does not change"), "{junit}");
}

#[test]
fn findings_of_one_launch_count_once_for_the_limit_of_failures() {
    let wrong = SCALE.replace("i < n", "i <= n").replace("2.0f * x[i]", "2.0f * x[i] + x[i + 1]");
    let folder = folder(&wrong, "    return 2 * x");
    let flags = ["--class", "normal", "--seeds", "8", "--problem", "n7", "--json", "--jobs", "1"];
    let outcome = program(folder.path(), &[&["check", "op.cu"][..], &flags].concat());
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(document["cases"].as_array().unwrap().len(), 5, "{outcome}");
}

// GPUs do not wait for threads that have exited, so the answer is right: `sanitize` warns, too, and exits with 0.
#[test]
fn a_warning_is_a_note_of_a_check() {
    let kernel = SCALE.replace(
        "if (i < n) y[i] = 2.0f * x[i];",
        "__shared__ float part[256];\n    if (i >= n) return;\n    part[threadIdx.x] = x[i];\n    __syncthreads();\n    \
         y[i] = 2.0f * part[threadIdx.x];",
    );
    let folder = folder(&kernel, "    return 2 * x");
    let outcome = program(folder.path(), &["check", "op.cu", "--class", "normal"]);
    assert_eq!(outcome.code, 0, "{outcome}");
    let note = "note: op: warning: [barrier-divergence] at op.cu:14";
    assert_eq!(outcome.stdout.matches(note).count(), 1, "once for all problems: {outcome}");
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
    // 94 warps add to the sum. With this seed its error was 1.7 times what is allowed for one addition.
    let line =
        ["check", "op.cu", "--problem", "n3000", "--class", "drift", "--input-seed", "164606181648892"];
    let outcome = program(folder.path(), &line);
    assert_eq!(outcome.code, 0, "{outcome}");
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

/// Blocks add to the same element without an atomic operation.
const HISTOGRAM: &str = "\
// warpsmith: --kernel histogram --grid 2 --block 32 --arg count=inout,u32[1]=zeros
__global__ void histogram(unsigned* count) { if (threadIdx.x == 0) count[0] += 1; }
";

#[test]
fn a_known_finding_is_suppressed_with_its_reason_and_unused_rules_are_told() {
    let folder = folder(HISTOGRAM, "    pass");
    let sanitize = |rules: &str| {
        fs::write(folder.path().join("known.toml"), rules).unwrap();
        let flags = ["sanitize", "op.cu", "--suppressions", "known.toml"];
        run(warpsmith().current_dir(&folder).args(flags))
    };
    let rule = |fields: &str| format!("[[suppress]]\nkind = 'race'\nreason = 'estimates'\n{fields}\n");
    let none = sanitize("");
    assert!(none.code == 1 && none.stdout.contains("[race]"), "{none}");
    for narrow in ["kernel = 'histogram'", "file = 'op.cu'", "source = 'count[0] += 1'", "message = 'block'"]
    {
        let known = sanitize(&rule(narrow));
        assert_eq!(known.code, 0, "{narrow}: {known}");
        assert!(!known.stdout.contains("[race]") && known.stderr.contains("estimates"), "{known}");
    }
    for other in
        ["kernel = 'sum'", "file = 'cu'", "source = 'count[1]'", "kernel = 'histogram'\nfile = 'x.cu'"]
    {
        let unused = sanitize(&rule(other));
        assert!(
            unused.code == 1 && unused.stderr.contains("unused suppression: [race]"),
            "{other}: {unused}"
        );
    }
    let wrong = sanitize("[[suppress]]\nkind = 'race'\nkernel = 'k'");
    assert!(wrong.code == 2 && wrong.stderr.contains("reason"), "{wrong}");
    let flags = ["sanitize", "op.cu", "--suppressions", "known.toml", "--json"];
    fs::write(folder.path().join("known.toml"), rule("kernel = 'histogram'")).unwrap();
    let json = run(warpsmith().current_dir(&folder).args(flags));
    let document: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(document["suppressions"][0]["matched"].as_u64().unwrap() > 0, "{json}");
}

#[test]
fn a_suppression_in_a_check_hides_no_wrong_answer() {
    let racy = TOTAL.replace("atomicAdd(y, sum)", "y[0] = 0.0f * sum + 0.0f");
    let folder = folder(&racy, "    return [0.0 * x.sum()]");
    fs::write(
        folder.path().join("known.toml"),
        "[[suppress]]\nkind = 'race'\nreason = 'every warp stores zero'\nkernel = 'total'\n",
    )
    .unwrap();
    let flags = ["--problem", "n300", "--class", "normal", "--sanitize", "--suppressions", "known.toml"];
    let check = || program(folder.path(), &[&["check", "op.cu"][..], &flags].concat());
    let clean = check();
    assert_eq!(clean.code, 0, "{clean}");
    fs::write(folder.path().join("op.cu"), racy.replace("0.0f * sum", "1.0f + 0.0f * sum")).unwrap();
    let wrong = check();
    assert!(wrong.code == 1 && !wrong.stdout.contains("[race]"), "{wrong}");
    let alone = program(folder.path(), &["check", "op.cu", "--suppressions", "known.toml"]);
    assert!(alone.code == 2 && alone.stderr.contains("--sanitize"), "{alone}");
}

#[test]
fn a_compact_check_has_one_entry_per_kernel_and_cause() {
    let folder = folder(SCALE, "    return 2 * x");
    let check = |more: &[&str]| program(folder.path(), &[&["check", "op.cu", "--json"][..], more].concat());
    let (whole, compact) = (check(&[]), check(&["--compact"]));
    assert!(compact.stdout.len() < 2_000 && compact.stdout.len() * 5 < whole.stdout.len(), "{compact}");
    let document: serde_json::Value = serde_json::from_str(&compact.stdout).unwrap();
    assert_eq!(document["schema"], "warpsmith.check-compact/1");
    let kernels = document["kernels"].as_array().unwrap();
    assert!(
        kernels.len() == 1 && kernels[0]["failed"] == 0 && kernels[0]["runs"].as_u64() > Some(5),
        "{compact}"
    );
    fs::write(folder.path().join("op.cu"), SCALE.replace("2.0f * x[i]", "3.0f * x[i]")).unwrap();
    let failed: serde_json::Value = serde_json::from_str(&check(&["--compact"]).stdout).unwrap();
    let failures = failed["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 1, "{failed:#}");
    assert!(failures[0]["runs"].as_u64() > Some(1) && !failures[0]["messages"][0].is_null(), "{failed:#}");
}

#[test]
fn a_sweep_of_sizes_is_timed_with_its_rates() {
    let folder = folder(SCALE, "    return 2 * x");
    let outcome =
        program(folder.path(), &["bench", "op.cu", "--problem", "n=256..1024", "--baseline", "none"]);
    assert_eq!(outcome.code, 0, "{outcome}");
    for words in ["n256 ", "n512 ", "n1024 ", "GB/s"] {
        assert!(outcome.stdout.contains(words), "{words}: {outcome}");
    }
    for wrong in ["n=", "n=8..4", "m=1..4", "n=1..2+0"] {
        let refused = program(folder.path(), &["check", "op.cu", "--problem", wrong]);
        assert_eq!(refused.code, 2, "{wrong}: {refused}");
    }
}

/// A stand-in for PyTorch with what a module needs: the test must not depend on PyTorch.
const TORCH: &str = "
import types
import numpy
float64 = numpy.dtype('float64')
class Tensor:
    def __init__(self, array): self.array = array; self.dtype = array.dtype
    def is_floating_point(self): return self.array.dtype.kind == 'f'
    def numpy(self): return self.array
def from_numpy(array): return Tensor(array)
def is_tensor(value): return isinstance(value, Tensor)
class no_grad:
    def __enter__(self): pass
    def __exit__(self, *error): pass
class Module:
    def __init__(self): pass
    def eval(self): return self
    def to(self, dtype): return self
    def state_dict(self): return {'scale.weight': None}
    def load_state_dict(self, weights): self.weight = weights['scale.weight']
    def __call__(self, **values): return self.forward(**values)
nn = types.SimpleNamespace(Module=Module)
import sys
sys.modules['torch.nn'] = nn
";

#[test]
fn a_reference_may_be_a_pytorch_module() {
    let kernel = SCALE
        .replace("op.py:f", "op.py:Model")
        .replace("// warpsmith: y =", "// warpsmith: scale_weight = \"in f32[1]\"\n// warpsmith: y =")
        .replace("const float* x, float* y", "const float* x, const float* scale_weight, float* y")
        .replace("2.0f * x[i]", "2.0f * scale_weight[0] * x[i]");
    let folder = folder(&kernel, "    pass");
    let torch = format!(
        "import sys, types\ntorch = types.ModuleType('torch')\nexec('''{TORCH}''', torch.__dict__)\n\
         sys.modules['torch'] = torch\n"
    );
    let model = "class Model(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor
    def forward(self, x):
        return torch.Tensor(self.factor * self.weight.array[0] * x.array)
def get_init_inputs():
    return [2.0]
";
    let model = torch + model;
    fs::write(folder.path().join("op.py"), &model).unwrap();
    let flags = ["--problem", "n300", "--class", "normal"];
    let check = || program(folder.path(), &[&["check", "op.cu"][..], &flags].concat());
    assert_eq!(check().code, 0, "{}", check());
    fs::write(folder.path().join("op.py"), model.replace("[2.0]", "[3.0]")).unwrap();
    assert_eq!(check().code, 1, "{}", check());
    // A weight that no input gives is named.
    fs::write(folder.path().join("op.cu"), kernel.replace("scale_weight", "weight")).unwrap();
    let missing = check();
    assert!(missing.to_string().contains("give the op an input `scale_weight`"), "{missing}");
}

#[test]
fn doctor_and_toolchain_tell_what_python_needs() {
    let doctor = run(warpsmith().arg("doctor"));
    for name in ["numpy", "packages", "pytest"] {
        assert!(doctor.stdout.contains(name), "{name}: {doctor}");
    }
    let wheels = run(warpsmith().args(["toolchain", "requirements"]));
    assert!(
        wheels.code == 0 && wheels.stdout.contains("nvidia-cuda-nvrtc==13.0.88 --hash=sha256:"),
        "{wheels}"
    );
}

#[test]
fn two_runs_are_compared_by_their_counters_too() {
    // The kernel has a C++ name.
    let scale = SCALE.replace("extern \"C\" ", "");
    let folder = folder(&scale, "    return 2 * x");
    let bench = |name: &str| {
        let flags = ["bench", "op.cu", "--problem", "n1000", "--baseline", "none", "--run-dir", name];
        assert_eq!(program(folder.path(), &flags).code, 0);
    };
    bench("first");
    let wasteful = scale.replace("if (i < n)", "if (i < n && x[(i * 7) % n] != 1e30f)");
    fs::write(folder.path().join("op.cu"), wasteful).unwrap();
    bench("second");
    let compared = run(warpsmith().current_dir(&folder).args(["report", "first", "second"]));
    assert_eq!(compared.code, 0, "{compared}");
    for words in ["counters that differ", "global sectors", "warp instructions", "+"] {
        assert!(compared.stdout.contains(words), "{words}: {compared}");
    }
    let same = run(warpsmith().current_dir(&folder).args(["report", "first", "first"]));
    assert!(!same.stdout.contains("counters that differ"), "{same}");
}

#[test]
fn the_gate_points_at_the_kernel() {
    let folder = folder(SCALE, "    return 2 * x");
    let bench = |name: &str| {
        let flags = ["bench", "op.cu", "--problem", "n1000", "--baseline", "none", "--run-dir", name];
        assert_eq!(program(folder.path(), &flags).code, 0);
    };
    let gate = |more: &[&str]| {
        let flags = ["gate", "--kernels", "op.cu", "--leaderboard", "board.json"];
        run(warpsmith().current_dir(&folder).args([&flags[..], more].concat()))
    };
    bench("first");
    assert_eq!(gate(&["--run-dir", "first", "--update"]).code, 0);
    let wasteful = SCALE.replace("if (i < n)", "if (i < n && x[(i * 7) % n] != 1e30f)");
    fs::write(folder.path().join("op.cu"), &wasteful).unwrap();
    bench("second");
    let slower = gate(&["--run-dir", "second", "--github"]);
    assert_eq!(slower.code, 1, "{slower}");
    let line = 1 + wasteful.lines().position(|line| line.contains("__global__")).unwrap();
    assert!(slower.stdout.contains(&format!("::error file=op.cu,line={line},")), "{slower}");
    // A record of another compiler.
    let board = fs::read_to_string(folder.path().join("board.json")).unwrap();
    let other = board.replace("\"compiler\":\"", "\"compiler\":\"old ");
    assert_ne!(board, other);
    fs::write(folder.path().join("board.json"), other).unwrap();
    assert!(gate(&["--run-dir", "first"]).stdout.contains("the compilers differ"));
}

#[test]
fn a_single_file_has_the_macros_of_nvcc_in_check_too() {
    let folder = folder(&SCALE.replace("2.0f * x[i]", "fminf(2.0f * x[i], INFINITY)"), "    return 2 * x");
    let outcome = program(folder.path(), &["check", "op.cu", "--problem", "n300", "--class", "normal"]);
    assert_eq!(outcome.code, 0, "{outcome}");
}

#[test]
fn a_single_file_may_contain_a_whole_program() {
    let program_of_user = SCALE
        .replace("extern \"C\" __global__", "#include <cfloat>\n#include <vector>\n__global__")
        .replace("2.0f * x[i]", "fminf(2.0f * x[i], FLT_MAX)")
        + r#"
#include <cstdio>
int main(int argc, char** argv) {
    std::vector<float> host(1000);
    float *x, *y;
    cudaMalloc(&x, 4000), cudaMalloc(&y, 4000);
    scale<<<4, 256>>>(x, y, 1000);
    printf("%d\n", cudaDeviceSynchronize());
}
"#;
    let files = folder(&program_of_user, "    return 2 * x");
    let outcome = program(files.path(), &["check", "op.cu", "--problem", "n300", "--class", "normal"]);
    assert_eq!(outcome.code, 0, "{outcome}");
    // Lines keep their numbers, and what a kernel lacks is an error.
    fs::write(files.path().join("op.cu"), program_of_user.replace("i < n", "i < m")).unwrap();
    let wrong = program(files.path(), &["check", "op.cu", "--problem", "n300", "--class", "normal"]);
    assert!(wrong.code == 1 && wrong.stdout.contains("op.cu:13:"), "{wrong}");
    // A family in a folder has the standard headers, too, as a proposed source may.
    let op = tempfile::tempdir().unwrap();
    assert_eq!(run(warpsmith().current_dir(&op).args(["new", "row"])).code, 0);
    let file = op.path().join("kernels/row/block/kernel.cu");
    let source = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("#include <cstdint>\n{source}\nstatic_assert(sizeof(uint64_t) == 8);\n"))
        .unwrap();
    let line =
        ["check", "row", "--kernels", "kernels", "--problem", "rows3-cols33-fp16", "--class", "normal"];
    let outcome = program(op.path(), &line);
    assert_eq!(outcome.code, 0, "{outcome}");
}

#[test]
fn mistakes_in_a_declaration_say_what_to_write() {
    let told = |from: &str, to: &str| {
        assert!(SCALE.contains(from));
        let outcome =
            program(folder(&SCALE.replace(from, to), "    return 2 * x").path(), &["check", "op.cu"]);
        assert_eq!(outcome.code, 2, "{outcome}");
        outcome.stderr.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let reserved = told("x = \"in f32[n]\"", "in = \"in f32[n]\"");
    assert!(
        reserved.contains("`in` is reserved") && reserved.contains("only the order counts"),
        "{reserved}"
    );
    let upper = told("x = \"in f32[n]\"", "X = \"in f32[n]\"");
    assert!(upper.contains("must be in lower_case"), "{upper}");
    // The file is missing, not a range.
    let missing = told("x = \"in f32[n]\"", "x = \"in i32[n] = x.npy\"");
    assert!(missing.contains("x.npy cannot be read") && !missing.contains("range"), "{missing}");
    // In TOML a field below a table belongs to the table.
    let below = told("n = \"size\"", "n = \"size\"\n// warpsmith: tolerance = { reduction = \"n\" }");
    assert!(below.contains("op.cu:9:1: tolerance: is below `[arguments]`"), "{below}");
    let block = told("block = [256]", "block = [\"n\"]");
    assert!(block.contains("`n` is not known here (only numbers are)"), "{block}");
}

#[test]
fn a_missing_launch_is_explained_with_the_kernels_of_the_file() {
    let text = "template <class T> __global__ void twice(T* x);\n// __global__ void old();\n\
                __global__ void __launch_bounds__(64) k(const float* __restrict__ x, float* y, int n) {}\nint main() {}\n";
    let folder = folder(text, "    pass");
    let outcome = run(warpsmith().current_dir(&folder).args(["sanitize", "op.cu"]));
    assert_eq!(outcome.code, 2, "{outcome}");
    let told = outcome.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("kernels of this file: twice(T* x), k(float* x, float* y, int n)"), "{told}");
    assert!(told.contains("--launch 'KERNEL<<<4, 256>>>("), "{told}");
}

/// Kernels that somebody wrote from the book alone, ten of each kind. Each file is one op; its kernel has a C++ name.
const HONEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/honest");

#[test]
fn honest_kernels_of_every_kind_pass_with_secret_seeds() {
    // All of them, as often as wanted: WARPSMITH_HONEST_RUNS=50 takes hours.
    let runs: Option<usize> = std::env::var("WARPSMITH_HONEST_RUNS").ok().and_then(|it| it.parse().ok());
    let few =
        ["red_dot_cg", "scan_long_rows", "sm_half2", "ln_welford", "mm_wmma_bf16", "hi_match", "st_sobel"];
    let files = fs::read_dir(HONEST).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> = files.filter(|file| file.extension().is_some_and(|it| it == "cu")).collect();
    files.sort();
    for kind in ["red", "scan", "sm", "ln", "mm", "hi", "st"] {
        let of_kind =
            files.iter().filter(|file| file.file_name().unwrap().to_string_lossy().starts_with(kind));
        assert_eq!(of_kind.count(), 10, "{kind}");
    }
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let is_chosen = few.iter().any(|it| name.strip_suffix(".cu") == Some(it));
        for _ in 0..runs.unwrap_or(usize::from(is_chosen)) {
            // The whole product of many sizes takes long.
            let class: &[&str] =
                if runs.is_none() && name.starts_with("mm") { &["--class", "normal"] } else { &[] };
            let outcome = program(Path::new(HONEST), &[&["check", &name], class].concat());
            assert_eq!(outcome.code, 0, "{name}\n{outcome}");
        }
    }
}

#[test]
fn terms_that_cancel_alike_in_the_reference_may_differ_in_a_kernel() {
    // An image of one pixel has no gradient. numpy rounds both sides of the difference alike, a kernel need not.
    for (problem, class) in [("h1-w1", "normal"), ("h1-w1", "large"), ("h5-w7", "constant")] {
        for _ in 0..3 {
            let outcome =
                program(Path::new(HONEST), &["check", "st_sobel.cu", "--problem", problem, "--class", class]);
            assert_eq!(outcome.code, 0, "{outcome}");
        }
    }
    // A gradient that is really there is an error.
    let source = fs::read_to_string(Path::new(HONEST).join("st_sobel.cu")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::copy(Path::new(HONEST).join("ref.py"), folder.path().join("ref.py")).unwrap();
    fs::write(folder.path().join("op.cu"), source.replace("sqrtf(gx", "1e-5f + sqrtf(gx")).unwrap();
    for problem in ["h1-w1", "h5-w7"] {
        let outcome = program(folder.path(), &["check", "op.cu", "--problem", problem, "--class", "normal"]);
        assert_eq!(outcome.code, 1, "{outcome}");
    }
}

/// A product with bias and GELU. In the class `constant` a product can be so small that GELU in fp32 is 0, and then the
/// bias changes nothing.
const GELU: &str = r#"
// warpsmith: reference = "op.py:f"
// warpsmith: sizes = { m = 7, n = 16, k = 16 }
// warpsmith: launch = { grid = ["ceil_div(n, 16)", "ceil_div(m, 16)"], block = [16, 16] }
// warpsmith: tolerance = { reduction = "k" }
// warpsmith: [arguments]
// warpsmith: a = "in bf16[m, k]"
// warpsmith: b = "in bf16[k, n]"
// warpsmith: bias = "in f32[n]"
// warpsmith: c = "out bf16[m, n]"
// warpsmith: m = "size"
// warpsmith: n = "size"
// warpsmith: k = "size"
#include <cuda_bf16.h>
__global__ void gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, const float* bias, __nv_bfloat16* c, int m, int n, int k) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= m || col >= n) return;
    float v = 0.0f;
    for (int i = 0; i < k; ++i) v += __bfloat162float(a[row * k + i]) * __bfloat162float(b[i * n + col]);
    v += bias[col];
    c[row * n + col] = __float2bfloat16(0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v))));
}
"#;

#[test]
fn an_input_may_change_less_than_fp32_can_show() {
    let reference = "    v = a @ b + bias
    return 0.5 * v * (1 + np.tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)))";
    let reference = reference.replace("    v = a", "    a, b, bias = x['a'], x['b'], x['bias']\n    v = a");
    let check = |kernel: &str, class: &str, seed: &str| {
        let files = folder(kernel, "    pass");
        let script = format!("import numpy as np\ndef f(**x):\n{reference}\n");
        fs::write(files.path().join("op.py"), script).unwrap();
        let line = ["check", "op.cu", "--problem", "m7-n16-k16", "--class", class, "--input-seed", seed];
        program(files.path(), &line)
    };
    // With this seed the products are -4.1, whose GELU is -1e-11 to fp64 and 0 to fp32.
    let outcome = check(GELU, "constant", "5279447874649");
    assert_eq!(outcome.code, 0, "{outcome}");
    // A bias that is really left out is told.
    let without = GELU.replace("    v += bias[col];\n", "");
    let outcome = check(&without, "normal", "1");
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("does not change when bias does"), "{outcome}");
}

/// A sum of 64-bit integers.
const LONG_SUM: &str = r#"
// warpsmith: reference = "op.py:f"
// warpsmith: sizes = { n = 300 }
// warpsmith: launch = { grid = ["ceil_div(n, 64)"], block = [64] }
// warpsmith: [arguments]
// warpsmith: x = "in u32[n] = 0..4294967295"
// warpsmith: y = "out u64[n]"
// warpsmith: n = "size"
__global__ void square(const unsigned* x, unsigned long long* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (unsigned long long)x[i] * x[i];
}
"#;

#[test]
fn integers_are_compared_in_all_bits() {
    let check = |kernel: &str, reference: &str| {
        let files = folder(kernel, reference);
        program(files.path(), &["check", "op.cu", "--problem", "n300", "--class", "normal"])
    };
    // Squares of 32-bit integers reach 2^64: more than int64 and than the bits of a float64.
    let exact = "    return x.astype(np.uint64) ** np.uint64(2)";
    let outcome = check(LONG_SUM, exact);
    assert_eq!(outcome.code, 0, "{outcome}");
    let outcome = check(&LONG_SUM.replace("x[i] * x[i];", "x[i] * x[i] + 1;"), exact);
    assert_eq!(outcome.code, 1, "{outcome}");
    let worst = outcome.stdout.split("the worst at [").nth(1).unwrap_or_default();
    let numbers: Vec<u64> =
        worst.split([' ', ',', '\n']).filter_map(|word| word.parse().ok()).take(2).collect();
    assert!(numbers.len() == 2 && numbers[0] == numbers[1] + 1, "{outcome}");
    // The inputs have all bits, too.
    let outcome = check(&LONG_SUM.replace("x[i] * x[i];", "(x[i] & ~1u) * x[i];"), exact);
    assert_eq!(outcome.code, 1, "{outcome}");
    // A reference in float64 does not know them.
    let outcome = check(LONG_SUM, "    return x.astype(float) ** 2");
    assert_eq!(outcome.code, 0, "{outcome}");
}

#[test]
fn inputs_in_fp64_have_all_bits() {
    let wide = TOTAL.replace("fp32", "fp64").replace("float", "double").replace("0.0f", "0.0");
    let check = |kernel: &str, class: &str| {
        let files = folder(kernel, "    return [x.sum()]");
        program(files.path(), &["check", "op.cu", "--problem", "n3000", "--class", class])
    };
    for class in ["normal", "constant", "drift", "large", "tiny"] {
        let outcome = check(&wide, class);
        assert_eq!(outcome.code, 0, "{class}: {outcome}");
        let outcome = check(&wide.replace("? x[i] :", "? (float)x[i] :"), class);
        assert_eq!(outcome.code, 1, "{class}: {outcome}");
        // 32 bits of each number: more than the equal numbers of `constant` have.
        let short =
            wide.replace("? x[i] :", "? __longlong_as_double(__double_as_longlong(x[i]) & ~0xfffffll) :");
        let short = check(&short, class);
        assert_eq!(short.code, i32::from(class != "constant"), "{class}: {short}");
    }
}

/// A scan in three launches, with the sums of the tiles in temporary memory.
const SCAN: &str = r#"
// warpsmith: reference = "op.py:f"
// warpsmith: sizes = { n = 700 }
// warpsmith: tolerance = { reduction = "n" }
// warpsmith: [arguments]
// warpsmith: x = "in f32[n]"
// warpsmith: y = "out f32[n]"
// warpsmith: sums = "scratch f32[ceil_div(n, 256)]"
// warpsmith: n = "size"
// warpsmith: [[launches]]
// warpsmith: kernel = "scan_tiles"
// warpsmith: grid = ["ceil_div(n, 256)"]
// warpsmith: block = 256
// warpsmith: [[launches]]
// warpsmith: kernel = "scan_sums"
// warpsmith: grid = 1
// warpsmith: block = 32
// warpsmith: parameters = ["sums", "n"]
// warpsmith: [[launches]]
// warpsmith: kernel = "add_offsets"
// warpsmith: grid = ["ceil_div(n, 256)"]
// warpsmith: block = 256
// warpsmith: parameters = ["y", "sums", "n"]
__global__ void scan_tiles(const float* x, float* y, float* sums, int n) {
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < n ? x[i] : 0.f;
    for (int d = 1; d < 256; d *= 2) {
        __syncthreads();
        float v = t >= d ? s[t - d] : 0.f;
        __syncthreads();
        s[t] += v;
    }
    if (i < n) y[i] = s[t];
    if (t == 255) sums[blockIdx.x] = s[255];
}
__global__ void scan_sums(float* sums, int n) {
    if (threadIdx.x > 0) return;
    float all = 0.f;
    for (int b = 0; b < (n + 255) / 256; ++b) {
        float v = sums[b];
        sums[b] = all;
        all += v;
    }
}
__global__ void add_offsets(float* y, const float* sums, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] += sums[blockIdx.x];
}
"#;

#[test]
fn a_file_can_have_several_launches_and_temporary_memory() {
    let at = |kernel: &str, command: &str| {
        let files = folder(kernel, "    return np.cumsum(x)");
        let mut line = vec![command, "op.cu"];
        if command == "check" {
            line.extend(["--problem", "n700", "--class", "normal"]);
        }
        program(files.path(), &line)
    };
    for command in ["check", "sanitize"] {
        let outcome = at(SCAN, command);
        assert_eq!(outcome.code, 0, "{outcome}");
    }
    // What an earlier launch left in the memory is no zero.
    let reads_first = SCAN.replace("float v = sums[b];", "float v = b ? sums[b] : sums[b + 2];");
    let outcome = at(&SCAN.replace("if (t == 255) sums", "if (t == 255 && blockIdx.x) sums"), "check");
    assert_eq!(outcome.code, 1, "{outcome}");
    let outcome = at(&reads_first, "check");
    assert_eq!(outcome.code, 1, "{outcome}");
    let outcome = at(&SCAN.replace("\"scan_sums\"", "\"scan_all\""), "check");
    assert!(outcome.code == 1 && outcome.stdout.contains("there is no kernel `scan_all`"), "{outcome}");
    for (from, to, message) in [
        ("parameters = [\"sums\", \"n\"]", "parameters = [\"sum\", \"n\"]", "did you mean `sums`"),
        ("block = 32\n", "blocks = 32\n", "has no field `blocks`"),
        ("// warpsmith: block = 32\n", "", "`block` is missing"),
        ("scratch f32[ceil_div(n, 256)]", "scratch f32[ceil_div(n, 256)] = 0..1", "has no contents"),
    ] {
        let changed = SCAN.replace(from, to);
        assert_ne!(changed, SCAN);
        let outcome = at(&changed, "check");
        let told = outcome.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(outcome.code == 2 && told.contains(message), "{outcome}");
    }
}

#[test]
fn a_note_about_some_problems_names_them() {
    let softmax = NORM.replace("cols = 2", "cols = { default = 2, min = 1 }");
    let reference = "    return x - x.mean(axis=-1, keepdims=True)";
    let kernel = softmax.split("extern").next().unwrap().to_owned()
        + r"__global__ void centre(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    float mean = 0;
    for (int c = 0; c < cols; c++) mean += x[row * cols + c] / cols;
    for (int c = 0; c < cols; c++) y[row * cols + c] = x[row * cols + c] - mean;
}";
    let outcome = program(folder(&kernel, reference).path(), &["check", "op.cu", "--class", "normal"]);
    let note = outcome.stdout.lines().find(|line| line.contains("does not depend on the inputs"));
    assert!(note.is_some_and(|note| note.contains("(on rows") && note.contains("-cols1")), "{outcome}");
}

/// A kernel that writes integers.
const INTEGERS: &str = r#"
// warpsmith: reference = "op.py:f"
// warpsmith: sizes = { n = 30000 }
// warpsmith: launch = { grid = ["ceil_div(n, 256)"], block = [256] }
// warpsmith: [arguments]
// warpsmith: x = "in bf16[n]"
// warpsmith: y = "out i32[n]"
// warpsmith: n = "size"
#include <cuda_bf16.h>
extern "C" __global__ void integers(const __nv_bfloat16* input, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = __bfloat162float(input[i]);
    y[i] = VALUE;
}
"#;

/// Counts the numbers above a limit.
const ABOVE: &str = r#"
// warpsmith: reference = "op.py:f"
// warpsmith: sizes = { n = 2000 }
// warpsmith: launch = { grid = ["ceil_div(n, 256)"], block = [256] }
// warpsmith: [arguments]
// warpsmith: x = "in f32[n]"
// warpsmith: count = "out i32[1] = 0"
// warpsmith: limit = "scalar f32 = 0.3"
// warpsmith: n = "size"
__global__ void above(const float* x, int* count, float limit, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > limit) atomicAdd(count, 1);
}
"#;

#[test]
fn a_comparison_with_a_scalar_has_one_right_result() {
    let check = |kernel: &str| {
        let files = folder(kernel, "    return [np.count_nonzero(x['x'] > x['limit'])]");
        let script = fs::read_to_string(files.path().join("op.py")).unwrap().replace("f(x)", "f(**x)");
        fs::write(files.path().join("op.py"), script).unwrap();
        program(files.path(), &["check", "op.cu", "--problem", "n2000"])
    };
    let outcome = check(ABOVE);
    assert_eq!(outcome.code, 0, "{outcome}");
    let outcome = check(&ABOVE.replace("x[i] > limit", "x[i] >= limit"));
    assert_eq!(outcome.code, 1, "{outcome}");
}

#[test]
fn a_comparison_of_inputs_has_one_right_result() {
    let check = |value: &str, reference: &str| {
        let files = folder(&INTEGERS.replace("VALUE", value), reference);
        program(files.path(), &["check", "op.cu", "--problem", "n30000", "--class", "normal"]).code
    };
    // Some numbers of this type are equal to 1, and some products of halves are ties.
    for reference in ["    return x > 1", "    return np.where(2 * x > 2.0, 1, 0)"] {
        assert_eq!(check("x > 1.0f", reference), 0, "{reference}");
        assert_eq!(check("x >= 1.0f", reference), 1, "{reference}");
    }
    assert_eq!(check("(int)rintf(8.0f * x)", "    return np.rint(8 * x)"), 0);
    assert_eq!(check("(int)floorf(8.0f * x + 0.5f)", "    return np.rint(8 * x)"), 1);
    // Where the kernel rounds, it may be on the other side: 0.3 is no number of fp32.
    for value in ["(int)rintf(x / 0.3f)", "(int)rintf(x * (1.0f / 0.3f))", "(int)rintf(x / 3 * 10)"] {
        assert_eq!(check(value, "    return np.rint(x / 0.3)"), 0, "{value}");
    }
    // The operations of a reference that converts its inputs, or that takes them one by one, are not seen.
    let converts = "    return np.array([np.rint(float(each) / 0.3) for each in x.tolist()])";
    let one_by_one = "    y = np.zeros_like(x)
    for i in range(len(x)): y[i] = np.rint(x[i] / 0.3)
    return y";
    for reference in [converts, one_by_one] {
        assert_eq!(check("(int)rintf(x * (1.0f / 0.3f))", reference), 0, "{reference}");
        assert_eq!(check("(int)rintf(x * (1.0f / 0.3f)) + (i == 7)", reference), 1, "{reference}");
    }
}

#[test]
fn a_kernel_with_a_cplusplus_name_passes_in_a_file_and_is_told_in_a_family() {
    let plain = SCALE.replace("extern \"C\" ", "");
    let files = folder(&plain, "    return 2 * x");
    let outcome = program(files.path(), &["check", "op.cu", "--problem", "n77", "--class", "normal"]);
    assert_eq!(outcome.code, 0, "{outcome}");
    let template = plain.replace("__global__", "template <int N>\n__global__");
    let outcome = program(folder(&template, "    return 2 * x").path(), &["check", "op.cu"]);
    assert_eq!(outcome.code, 2, "{outcome}");
    assert!(outcome.stderr.contains("`scale` is a template"), "{outcome}");
    let op = tempfile::tempdir().unwrap();
    assert_eq!(run(warpsmith().current_dir(&op).args(["new", "row"])).code, 0);
    let file = op.path().join("kernels/row/block/kernel.cu");
    let source = fs::read_to_string(&file).unwrap();
    fs::write(&file, source.replace("extern \"C\" ", "")).unwrap();
    let line =
        ["check", "row", "--kernels", "kernels", "--problem", "rows3-cols33-fp16", "--class", "normal"];
    let outcome = program(op.path(), &line);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("write extern \"C\" before __global__"), "{outcome}");
}

#[test]
fn integers_of_a_single_file_have_the_range_that_it_declares() {
    let kernel = SCALE.replace("in f32[n]", "in i32[n] = -3..2").replace("const float* x", "const int* x");
    // The reference sees what the kernel gets.
    let reference =
        "    assert x.min() >= -3 and x.max() <= 2 and (x.size < 99 or set(x) == set(range(-3, 3))), set(x)
    return 2 * x";
    let files = folder(&kernel, reference);
    let outcome = program(files.path(), &["check", "op.cu", "--problem", "n777"]);
    assert_eq!(outcome.code, 0, "{outcome}");
    for (wrong, message) in
        [("in i32[n] = 5..2", "`5..2` is not a range, as in `0..63`"), ("in i32[n] = [0, 5]", "op.cu")]
    {
        let files = folder(&kernel.replace("in i32[n] = -3..2", wrong), reference);
        let outcome = program(files.path(), &["check", "op.cu", "--problem", "n777"]);
        assert_eq!(outcome.code, 2, "{outcome}");
        assert!(outcome.stderr.contains(message), "{outcome}");
    }
}
