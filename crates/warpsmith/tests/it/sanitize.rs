//! Tests of `sanitize`: clean kernels, findings with source lines, wrong launches, hostile kernels.

use std::path::Path;

use crate::common::{Run, run, settings, warpsmith};

const SCALE: &str = "\
// warpsmith: --kernel scale --grid 2 --block 64
// warpsmith: --arg x=f32[100]=iota --arg y=out,f32[100] --arg n=i32=100
extern \"C\" __global__ void scale(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
";

/// Writes the source into a new folder and runs `sanitize` there, so that paths in the output are short.
fn sanitize(source: &str, flags: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kernel.cu"), source).unwrap();
    sanitize_in(folder.path(), flags)
}

fn sanitize_in(folder: &Path, flags: &[&str]) -> Run {
    let mut command = warpsmith();
    run(command.current_dir(folder).args(["sanitize", "kernel.cu"]).args(flags))
}

fn snapshot(name: &str, outcome: &Run) {
    settings().bind(|| insta::assert_snapshot!(name, outcome.to_string()));
}

#[test]
fn a_clean_kernel_is_exit_0_and_its_outputs_can_be_printed() {
    snapshot("clean", &sanitize(SCALE, &[]));
    snapshot(
        "clean-print",
        &sanitize(
            SCALE,
            &[
                "--print",
                "y",
                "--grid",
                "1",
                "--arg",
                "f32[4]=iota",
                "--arg",
                "y=out,f32[4]",
                "--arg",
                "i32=4",
            ],
        ),
    );
    snapshot("clean-json", &sanitize(SCALE, &["--json"]));
}

#[test]
fn an_out_of_bounds_write_is_shown_at_its_line() {
    snapshot("out-of-bounds", &sanitize(&SCALE.replace("i < n", "i <= n"), &["--jobs", "1"]));
}

#[test]
fn a_race_shows_both_accesses() {
    let source = "\
// warpsmith: --grid 1 --block 64 --arg x=f32[64]=iota --arg y=out,f32[64]
extern \"C\" __global__ void reverse(const float* x, float* y)
{
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = tile[63 - threadIdx.x];
}
";
    snapshot("race", &sanitize(source, &["--jobs", "1"]));
    let fixed = source.replace("x[threadIdx.x];\n", "x[threadIdx.x];\n    __syncthreads();\n");
    assert_eq!(sanitize(&fixed, &[]).code, 0);
}

#[test]
fn buffers_are_saved_as_npy() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kernel.cu"), SCALE).unwrap();
    assert_eq!(sanitize_in(folder.path(), &["--save", "out"]).code, 0);
    let file = std::fs::read(folder.path().join("out/y.npy")).unwrap();
    assert!(file.starts_with(b"\x93NUMPY"));
    let last = f32::from_le_bytes(file[file.len() - 4..].try_into().unwrap());
    assert_eq!(last, 198.0);
}

#[test]
fn counters_and_fidelity_are_shown() {
    let outcome = sanitize(SCALE, &["--counters", "--fidelity"]);
    assert_eq!(outcome.code, 0, "{outcome}");
    for words in [
        "Counters",
        "warp instructions",
        "sectors",
        "L2 traffic",
        "busiest block",
        "Occupancy",
        "limited by",
        "Hottest lines",
        "kernel.cu:6",
        "Fidelity",
        "exact",
    ] {
        assert!(outcome.stdout.contains(words), "{words}: {outcome}");
    }
}

#[test]
fn wrong_launches_are_usage_errors() {
    let bare = SCALE.lines().skip(2).collect::<Vec<_>>().join("\n");
    snapshot("error-no-launch", &sanitize(&bare, &[]));
    snapshot("error-argument", &sanitize(SCALE, &["--arg", "f33[4]=iota"]));
    snapshot("error-argument-count", &sanitize(SCALE, &["--arg", "f32[4]=iota"]));
    snapshot(
        "error-argument-size",
        &sanitize(SCALE, &["--arg", "f32[4]=iota", "--arg", "out,f32[4]", "--arg", "i64=4"]),
    );
    snapshot("error-kernel", &sanitize(SCALE, &["--kernel", "scael"]));
    snapshot("error-grid", &sanitize(SCALE, &["--grid", "0"]));
    snapshot("error-block", &sanitize(SCALE, &["--block", "2048"]));
    snapshot("error-header", &sanitize(&SCALE.replace("--grid 2", "--gird 2"), &[]));
    snapshot("error-device", &sanitize(SCALE, &["--device", "cuda"]));
    snapshot("error-print", &sanitize(SCALE, &["--print", "z"]));
    snapshot("error-syntax", &sanitize(&SCALE.replace("2.0f *", "2.0f * *"), &[]));
    let missing = run(warpsmith().args(["sanitize", "/nowhere/kernel.cu"]));
    assert_eq!(missing.code, 2, "{missing}");
}

/// Kernels that would hang or exhaust a machine end with a finding, or are refused, within their budget.
#[test]
fn hostile_kernels_end_with_a_finding_or_are_refused() {
    let endless = SCALE.replace("if (i < n)", "volatile int go = 1; while (go) {}\n    if (i < n)");
    let outcome = sanitize(&endless, &["--budget", "200000"]);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("[runaway]"), "{outcome}");

    let wild = SCALE.replace("y[i] =", "((float*)0x123456789abcull)[i] =");
    let outcome = sanitize(&wild, &[]);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("[out-of-bounds]"), "{outcome}");

    // The grid has more warps than the budget has instructions. This is reported after a few blocks, not after hours.
    let outcome = sanitize(SCALE, &["--grid", "2147483647"]);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("[runaway] the grid has 2147483647 blocks of 2 warps"), "{outcome}");

    let greedy =
        SCALE.replace("    int i =", "    __shared__ float all[1 << 28];\n    all[n] = 0;\n    int i =");
    let outcome = sanitize(&greedy.replace("2.0f *", "all[i] *"), &[]);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(!outcome.stderr.contains("0 errors"), "{outcome}");

    let outcome = sanitize(SCALE, &["--shared", "1073741824"]);
    assert_eq!(outcome.code, 2, "{outcome}");
    assert!(outcome.stderr.contains("shared memory"), "{outcome}");
}

/// Source files are written for nvcc, which provides the headers of a host compiler.
#[test]
fn common_host_headers_can_be_included() {
    let names = [
        "stdio.h",
        "cstdio",
        "stdlib.h",
        "string.h",
        "assert.h",
        "cassert",
        "stdint.h",
        "cstdint",
        "limits",
        "float.h",
        "climits",
        "cmath",
        "math.h",
        "type_traits",
        "utility",
        "tuple",
        "array",
        "algorithm",
        "cuda_runtime.h",
        "cuda_fp16.h",
    ];
    let includes: Vec<String> = names.iter().map(|name| format!("#include <{name}>\n")).collect();
    let includes = includes.concat();
    let body = "\
    const uint32_t bits = INT_MAX;
    assert(std::numeric_limits<int>::max() == INT_MAX && FLT_MAX > bits);
    static_assert(std::is_same<std::int64_t, int64_t>::value, \"\");
    const unsigned __int128 wide = static_cast<unsigned __int128>(bits) << 64;
    if (wide >> 64 != bits) printf(\"wrong\");
    int i = std::min(blockIdx.x * blockDim.x + threadIdx.x, 4096u);
";
    let source = SCALE
        .replace("extern", &format!("{includes}extern"))
        .replace("    int i = blockIdx.x * blockDim.x + threadIdx.x;\n", body);
    let outcome = sanitize(&source, &[]);
    assert_eq!(outcome.code, 0, "{outcome}");
}

#[test]
fn without_a_device_the_gpu_is_one_that_runs_the_target() {
    for (target, gpu) in [("sm_90a", "virtual:h100"), ("sm_80", "virtual:l4")] {
        let outcome = sanitize(SCALE, &["--arch", target]);
        assert_eq!(outcome.code, 0, "{outcome}");
        assert!(outcome.stdout.contains(gpu), "{outcome}");
    }
    let outcome = sanitize(SCALE, &["--arch", "sm_90a", "--device", "virtual:h200"]);
    assert!(outcome.stdout.contains("virtual:h200"), "{outcome}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kernel.ptx");
    for (target, gpu) in [("sm_90a", "virtual:h100"), ("sm_80", "virtual:l4")] {
        let text =
            format!(".version 8.0\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}\n");
        std::fs::write(&file, text).unwrap();
        let outcome = run(warpsmith().args(["sanitize", "--grid", "1", "--block", "32"]).arg(&file));
        assert!(outcome.stdout.contains(gpu), "{outcome}");
    }
}

#[test]
fn code_of_a_newer_gpu_runs_on_one() {
    let source = SCALE.replace("{\n", "{\n    asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n");
    assert_ne!(source, SCALE);
    let outcome = sanitize(&source, &[]);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(outcome.stdout.contains("virtual:h100"), "{outcome}");
    // Whoever chooses a GPU gets that one.
    for chosen in [["--device", "virtual:l4"], ["--arch", "sm_89"]] {
        let outcome = sanitize(&source, &chosen);
        assert_ne!(outcome.code, 0, "{outcome}");
        assert!(outcome.stderr.contains("the code needs sm_90"), "{outcome}");
    }
}

#[test]
fn an_unsupported_instruction_is_refused_with_its_line() {
    let texture = "    asm volatile(\"{.reg .f32 a, b, c, d; tex.cube.v4.f32.f32 {a, b, c, d}, [%0, {%1, %1, %1, %1}];}\" :: \"l\"(0ull), \"f\"(1.0f));\n";
    let source = SCALE.replace("    int i =", &format!("{texture}    int i ="));
    let outcome = sanitize(&source, &["--arch", "sm_90"]);
    assert_eq!(outcome.code, 3, "{outcome}");
    assert!(outcome.stderr.contains("tex.cube"), "{outcome}");
    assert!(outcome.stderr.contains("kernel.cu:5"), "{outcome}");
}

#[test]
fn a_header_beside_the_file_is_included_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let source =
        SCALE.replace("extern", "#include \"twice.cuh\"\nextern").replace("2.0f * x[i]", "twice(x, i)");
    std::fs::write(folder.path().join("kernel.cu"), source).unwrap();
    let header = "__device__ inline float twice(const float* x, int i)\n{\n    return 2.0f * x[i + 1];\n}\n";
    std::fs::write(folder.path().join("twice.cuh"), header).unwrap();
    let outcome = sanitize_in(folder.path(), &["--jobs", "1"]);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("twice.cuh:3"), "{outcome}");
    assert!(outcome.stdout.contains("called at kernel.cu:7"), "{outcome}");
}

#[test]
fn a_preset_of_a_family_runs_on_a_problem() {
    let sanitize = |flags: &[&str]| run(warpsmith().arg("sanitize").args(flags));
    let outcome =
        sanitize(&["wmma", "--preset", "stage-5-p2", "--problem", "b1h2s40d64-causal-e4m3", "--counters"]);
    assert_eq!(outcome.code, 0, "{outcome}");
    for words in [
        "`wmma stage-5-p2 b1h2s40d64-causal-e4m3` on virtual:l4",
        ": clean",
        "output: correct",
        "Modelled time on L4",
    ] {
        assert!(outcome.stdout.contains(words), "no `{words}` in {outcome}");
    }
    for (flags, words) in [
        (&["wmma", "--grid", "4"][..], "--grid is for source files, not for families"),
        (&["wmma", "--problem", "b1h1s4d72"], "wmma does not support head_dim 72"),
        (&["wmma", "--preset", "stage-x"], "stage-x"),
        (&["nosuch", "--preset", "stage-2"], "there is no family `nosuch`"),
        (&["nosuch.cu"], "cannot read nosuch.cu"),
    ] {
        let outcome = sanitize(flags);
        assert_eq!(outcome.code, 2, "{outcome}");
        assert!(outcome.stderr.contains(words), "no `{words}` in {outcome}");
    }
}

#[test]
fn every_output_that_is_not_written_is_a_finding() {
    const KERNEL: &str = "\
// warpsmith: --kernel idle --grid 1 --block 32 --arg y=out,f32[8] --arg z=out,f32[8]
extern \"C\" __global__ void idle(float* y, float* z) { if (threadIdx.x > 99) *y = *z = 1; }
";
    let outcome = sanitize(KERNEL, &["--json"]);
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let names: Vec<_> = document["findings"].as_array().unwrap().iter().map(|it| &it["allocation"]).collect();
    assert_eq!(names, ["y", "z"], "{outcome}");
}

#[test]
fn the_lines_of_unrolled_code_are_one_row() {
    const KERNEL: &str = "\
// warpsmith: --kernel sum --grid 1 --block 32 --arg x=f32[64]=iota --arg y=out,f32[32]
extern \"C\" __global__ void sum(const float* x, float* y)
{
    float sum = 0;
    #pragma unroll
    for (int i = 0; i < 8; ++i)
        sum += x[threadIdx.x + i] * x[i];
    y[threadIdx.x] = sum;
}
";
    let outcome = sanitize(KERNEL, &["--counters"]);
    let rows = outcome.stdout.lines().skip_while(|line| !line.starts_with("Hottest lines"));
    let rows: Vec<&str> = rows.filter(|line| line.ends_with("kernel.cu:7")).collect();
    assert_eq!(rows.len(), 1, "{outcome}");
    // Sixteen loads and eight products.
    let instructions: u64 = rows[0].split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(instructions >= 24, "{outcome}");
}
