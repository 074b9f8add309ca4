//! Tests of `sanitize` with other people's files: PTX, templates, host code, arrays from numpy, several launches.

use std::path::Path;

use launch::{Dtype, npy};

use crate::common::{Run, run, warpsmith};

/// Runs `sanitize FILE` in a folder that has this file.
fn sanitize_in(folder: &Path, file: &str, source: &str, flags: &[&str]) -> Run {
    std::fs::write(folder.join(file), source).unwrap();
    run(warpsmith().current_dir(folder).args(["sanitize", file]).args(flags))
}

fn sanitize(file: &str, source: &str, flags: &[&str]) -> Run {
    sanitize_in(tempfile::tempdir().unwrap().path(), file, source, flags)
}

fn contains(run: &Run, code: i32, texts: &[&str]) {
    let all = format!("{}{}", run.stdout, run.stderr);
    assert_eq!(run.code, code, "{all}");
    for text in texts {
        assert!(all.contains(text), "`{text}` is not in:\n{all}");
    }
}

/// A sample with a program around its kernel, in the style of public collections. The comparison is off by one.
const PROGRAM: &str = r"
#include <cstdio>
#include <cuda_runtime.h>
#include <helper_cuda.h>
#include <iostream>
#include <vector>
using namespace std;

#define CHECK(call) do { cudaError_t e = call; if (e != cudaSuccess) exit(1); } while (0)

__constant__ float factor;

template <typename T, int N>
__global__ void scale(const T* x, T* y, uint n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) y[i] = x[i] * factor * N;
}

struct Timer {
    cudaEvent_t start;
    Timer() { cudaEventCreate(&start); }
};

static std::vector<float> values(size_t n) { return std::vector<float>(n); }

int main(int argc, char** argv)
{
    float *x, *y;
    CHECK(cudaMalloc(&x, 4000));
    CHECK(cudaMalloc(&y, 4000));
    scale<float, 3><<<4, 256>>>(x, y, 1000);
    cout << values(4)[0] << endl;
}
";

#[test]
fn a_file_with_host_code_needs_only_a_launch() {
    let launch = ["--launch", "scale<float, 3><<<1, 64>>>(f32[40]=iota, y=out,f32[40], 40)"];
    let wrong = sanitize("scale.cu", PROGRAM, &[launch[0], launch[1], "--variable", "factor=f32=2"]);
    contains(
        &wrong,
        1,
        &[
            "[out-of-bounds]",
            "scale.cu:17:",
            "ignored host code: `values`, `main`",
            "helper_cuda.h",
            "iostream",
        ],
    );
    let fixed = PROGRAM.replace("i <= n", "i < n");
    let flags = [launch[0], launch[1], "--variable", "factor=f32=2", "--print", "y"];
    contains(
        &sanitize("scale.cu", &fixed, &flags),
        0,
        &["0.0 6.0 12.0 18.0 24.0", "`scale<float, 3>` on", "clean"],
    );
}

#[test]
fn kernels_are_named_as_in_the_source() {
    let plain = "namespace a { __global__ void k(int* x) { x[threadIdx.x] = 1; } }\n\
                 __global__ void other(int* x) { x[threadIdx.x] = 2; }\n";
    let launch = |kernel| {
        let flags =
            ["--kernel", kernel, "--grid", "1", "--block", "4", "--arg", "x=out,i32[4]", "--print", "x"];
        sanitize("k.cu", plain, &flags)
    };
    contains(&launch("k"), 0, &["1 1 1 1"]);
    contains(&launch("a::k"), 0, &["1 1 1 1"]);
    contains(&launch("_ZN1a1kEPi"), 0, &["1 1 1 1"]);
    contains(&launch("oter"), 2, &["there is no kernel `oter`"]);
    let template = |kernel| {
        let flags = ["--kernel", kernel, "--grid", "1", "--block", "64"];
        sanitize("scale.cu", PROGRAM, &flags)
    };
    contains(&template("scale"), 2, &["no kernel `scale`", "--kernel 'scale<float>'"]);
    contains(&template("scale<double, 2>"), 2, &["has 3 parameters, but 0 arguments are given", "uint n"]);
}

const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 x, .param .u64 y, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;
    .reg .f32 %f<3>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra done;
    mul.wide.u32 %rd3, %r2, 4;
    add.u64 %rd4, %rd1, %rd3;
    add.u64 %rd5, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    add.f32 %f2, %f1, %f1;
    st.global.f32 [%rd5], %f2;
done:
    ret;
}
";

#[test]
fn ptx_runs_with_parameters_by_position_or_name() {
    let flags = ["--grid", "1", "--block", "32", "--print", "y"];
    let position = ["--arg", "f32[8]=iota", "--arg", "y=out,f32[8]", "--arg", "8"];
    contains(
        &sanitize("k.ptx", PTX, &[&flags[..], &position[..]].concat()),
        0,
        &["0.0 2.0 4.0 6.0 8.0 10.0 12.0 14.0"],
    );
    let named = ["--arg", "n=8", "--arg", "y=out,f32[8]", "--arg", "x=f32[8]=iota"];
    contains(
        &sanitize("k.ptx", PTX, &[&flags[..], &named[..]].concat()),
        0,
        &["0.0 2.0 4.0 6.0 8.0 10.0 12.0 14.0"],
    );
    let long = ["--arg", "n=9", "--arg", "y=out,f32[8]", "--arg", "x=f32[8]=iota"];
    let found = sanitize("k.ptx", PTX, &[&flags[..], &long[..]].concat());
    contains(&found, 1, &["[out-of-bounds]", "k.ptx:20", "ld.global.f32 %f1, [%rd4];"]);
}

#[test]
fn what_a_ptx_launch_lacks_is_asked_for_with_the_signature() {
    let signature = "the parameters of `twice` are 1: u64, 2: u64, 3: u32";
    contains(&sanitize("k.ptx", PTX, &[]), 2, &["--grid is missing", signature]);
    contains(&sanitize("k.ptx", PTX, &["--grid", "1", "--block", "32"]), 2, &["has 3 parameters", signature]);
    let short = ["--grid", "1", "--block", "32", "--arg", "null", "--arg", "null", "--arg", "u64=3"];
    contains(&sanitize("k.ptx", PTX, &short), 2, &["argument 2 has 8 bytes", signature]);
    let float = ["--grid", "1", "--block", "32", "--arg", "null", "--arg", "null", "--arg", "1.5"];
    contains(&sanitize("k.ptx", PTX, &float), 2, &["`1.5` is not a whole number", "u32"]);
    let damaged = PTX.replace("add.f32", "add.f31");
    contains(&sanitize("k.ptx", &damaged, &["--grid", "1", "--block", "1"]), 3, &["add.f31"]);
}

#[test]
fn arrays_come_from_files_and_are_compared_with_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, values: &[f64]| {
        let mut bytes = Vec::new();
        for &value in values {
            Dtype::F32.push_float(value, &mut bytes);
        }
        std::fs::write(folder.path().join(name), npy::write(Dtype::F32, &[values.len()], &bytes)).unwrap();
    };
    write("x.npy", &[1.0, 2.0, 3.0]);
    write("right.npy", &[2.0, 4.0, 6.0]);
    write("wrong.npy", &[2.0, 4.5, 6.0]);
    write("short.npy", &[2.0]);
    let launch = ["--launch", "twice<<<1, 32>>>(x.npy, y=out,f32[3], 3)"];
    let expect = |file: &str, more: &[&str]| {
        let flags = [&launch[..], &["--expect", file], more].concat();
        sanitize_in(folder.path(), "k.ptx", PTX, &flags)
    };
    contains(&expect("y=right.npy", &[]), 0, &["y equals right.npy"]);
    let wrong = expect("y=wrong.npy", &[]);
    contains(&wrong, 1, &["1 of 3 elements of y differ from wrong.npy", "y[1] is 4, expected 4.5"]);
    contains(&expect("y=wrong.npy", &["--rtol", "0.2"]), 0, &[]);
    contains(&expect("y=short.npy", &[]), 2, &["has the shape [1], but y has [3]"]);
    contains(&expect("y=none.npy", &[]), 2, &["none.npy cannot be read"]);
    contains(&expect("z=right.npy", &[]), 2, &["no buffer `z`", "y"]);
    contains(&expect("y=right.npy", &["--rtol=-1"]), 2, &["not negative"]);
    // Files in the header lie beside the source.
    let header = format!(
        "// warpsmith: --launch 'twice<<<1, 32>>>(x, y, 3)'\n// warpsmith: --arg x=x.npy --arg y=out,f32[3]\n{PTX}"
    );
    std::fs::write(folder.path().join("h.ptx"), header).unwrap();
    let file = folder.path().join("h.ptx");
    contains(&run(warpsmith().arg("sanitize").arg(&file).args(["--print", "y"])), 0, &["2.0 4.0 6.0"]);
}

#[test]
fn a_kernel_that_cannot_run_does_not_stop_the_others() {
    let source = "\
__global__ void lookup(cudaSurfaceObject_t surface, float* y) {
    y[threadIdx.x] = surf1Dread<float>(surface, threadIdx.x * 4);
}
__global__ void ones(float* y) { y[threadIdx.x] = 1; }
";
    let refused = sanitize("k.cu", source, &["--launch", "lookup<<<1, 32>>>(0, y=out,f32[32])"]);
    contains(&refused, 3, &["suld.b.1d", "nothing was run"]);
    contains(&sanitize("k.cu", source, &["--launch", "ones<<<1, 32>>>(y=out,f32[32])"]), 0, &["clean"]);
}

#[test]
fn textures_are_fetched_as_their_options_say() {
    let source = "\
__global__ void fetch(cudaTextureObject_t line, cudaTextureObject_t colours, float* y) {
    int i = threadIdx.x;
    y[i] = tex1D<float>(line, 0.25f * i);
    y[i + 4] = tex1Dfetch<uchar4>(colours, i).z;
}
";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("k.cu"), source).unwrap();
    let bytes: Vec<u8> = (0..12).collect();
    std::fs::write(folder.path().join("colours.npy"), npy::write(Dtype::U8, &[3, 4], &bytes)).unwrap();
    let sanitize = |line: &str, colours: &str| {
        let launch = format!("fetch<<<1, 4>>>({line}, {colours}, y=out,f32[8])");
        let mut command = warpsmith();
        command.current_dir(folder.path()).args(["sanitize", "k.cu", "--print", "y", "--launch", &launch]);
        run(&mut command)
    };
    let colours = "texture,u8x4[3]=colours.npy";
    let fetched = sanitize("line=texture,linear,wrap,normalised,f32[4]={10,20,40,80}", colours);
    // At 0 the first and the last texel have the same weight. Index 3 is outside and gives 0.
    contains(&fetched, 0, &["45.0 15.0 30.0 60.0 2.0 6.0 10.0 0.0", "clean"]);
    let plain = sanitize("texture,f32[4]={10,20,40,80}", colours);
    contains(&plain, 0, &["10.0 10.0 10.0 10.0"]);
    let wrong = sanitize("line=texture,f32[2,2]=zeros", colours);
    contains(&wrong, 1, &["texture", "a 1D fetch reads `line`, which is a 2D texture", "k.cu:3"]);
    let pointer = sanitize("x=f32[4]=zeros", colours);
    contains(&pointer, 1, &["the address of the buffer `x`, which is not a texture", "k.cu:3"]);
    contains(&sanitize("texture,wrap,f32[4]=zeros", colours), 2, &["normalised coordinates"]);
    contains(&sanitize("texture,soft,f32[4]=zeros", colours), 2, &["`soft` is not an option"]);
    let short = "texture,u8x4[4]=colours.npy";
    contains(&sanitize("texture,f32[4]=zeros", short), 2, &["12 elements, but the texture has 16"]);
}

#[test]
fn several_launches_run_in_order_on_the_same_buffers() {
    let source = "\
__global__ void first(float* x, int n) { for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = i; }
__global__ void second(const float* x, float* y, int n) { for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = 2 * x[i]; }
";
    let buffers = ["--arg", "x=scratch,f32[40]", "--arg", "y=out,f32[40]", "--print", "y"];
    let both = ["--launch", "first<<<1, 32>>>(x, 40)", "--launch", "second<<<1, 32>>>(x, y, 40)"];
    contains(
        &sanitize("k.cu", source, &[&both[..], &buffers[..]].concat()),
        0,
        &["0.0 2.0 4.0 6.0", "`first, second`"],
    );
    let second = sanitize("k.cu", source, &[&both[2..], &buffers[..]].concat());
    contains(&second, 1, &["[uninitialised]"]);
    let short = ["--launch", "first<<<1, 32>>>(x, 39)", "--launch", "second<<<1, 32>>>(x, y, 40)"];
    contains(&sanitize("k.cu", source, &[&short[..], &buffers[..]].concat()), 1, &["[uninitialised]"]);
}

#[test]
fn two_arguments_can_be_one_buffer() {
    let source =
        "extern \"C\" __global__ void copy(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }\n";
    let launch = ["--grid", "1", "--block", "32", "--arg", "x=inout,f32[33]=iota"];
    let alias =
        |argument: &'static str| sanitize("k.cu", source, &[&launch[..], &["--arg", argument]].concat());
    contains(&alias("same,x"), 0, &["clean"]);
    contains(&alias("same,x+1"), 1, &["race"]);
    contains(&alias("same,x+40"), 2, &["`x` has no element 40"]);
    contains(&alias("same,z"), 2, &["no argument `z` with a buffer"]);
}

#[test]
fn variables_are_set_before_the_launch() {
    let source = "\
namespace n { __constant__ int table[4]; }
__device__ float bias;
extern \"C\" __global__ void k(float* y) { y[threadIdx.x] = n::table[threadIdx.x] + bias; }
";
    let launch = ["--grid", "1", "--block", "4", "--arg", "y=out,f32[4]", "--print", "y"];
    let with = |variables: &[&str]| sanitize("k.cu", source, &[&launch[..], variables].concat());
    contains(
        &with(&["--variable", "n::table=i32[4]={4,3,2,1}", "--variable", "bias=f32=0.5"]),
        0,
        &["4.5 3.5 2.5 1.5"],
    );
    contains(&with(&[]), 0, &["0.0 0.0 0.0 0.0"]);
    contains(&with(&["--variable", "tabel=i32=1"]), 2, &["no variable `tabel`", "n::table"]);
    contains(&with(&["--variable", "bias=f64=1"]), 2, &["has 8 bytes, but the variable has 4"]);
    contains(&with(&["--variable", "bias=out,f32[1]"]), 2, &["expected NAME="]);
}

#[test]
fn what_nvcc_includes_by_itself_is_there() {
    let source = "\
#include <curand_kernel.h>
#include <string>
__global__ void k(float* y, curandState* states, uint n)
{
    uint i = threadIdx.x;
    if (i >= n) return;
    curand_init(7, i, 0, &states[i]);
    float u = curand_uniform(&states[i]);
    y[i] = u > 0 && u <= 1 && INFINITY > M_PI && isnan(NAN) ? 1 : 0;
}
";
    let flags = ["--launch", "k<<<1, 32>>>(y=out,f32[32], scratch,u64[160], 32)", "--print", "y"];
    contains(
        &sanitize("k.cu", source, &flags),
        0,
        &["1.0 1.0 1.0 1.0", "ignored headers that were not found: string"],
    );
}

#[test]
fn an_element_offset_that_overflows_int_is_found() {
    let kernel = |offset: &str, (dtype, name): (&str, &str)| {
        format!(
            "// warpsmith: --kernel mark --grid 3 --block 1 --arg x=inout,{dtype}[50000,50000]=zeros --arg width=50000
extern \"C\" __global__ void mark({name}* x, int width)
{{
    int row = 24999 * blockIdx.x;
    x[{offset}] = 1;
}}
"
        )
    };
    for element in [("u8", "unsigned char"), ("f32", "float")] {
        let outcome = sanitize("k.cu", &kernel("row * width", element), &[]);
        contains(&outcome, 1, &["out-of-bounds", "k.cu:5"]);
        contains(&sanitize("k.cu", &kernel("(long long)row * width", element), &[]), 0, &["clean"]);
    }
}

#[test]
fn contents_that_take_too_much_memory_are_refused() {
    let source = "extern \"C\" __global__ void k(const float* x) {}\n";
    let flags = ["--grid", "1", "--block", "1", "--arg", "x=f32[50000,50000]=ones"];
    contains(&sanitize("k.cu", source, &flags), 3, &["out of memory", "only buffers of zeros and outputs"]);
}

#[test]
fn headers_in_folders_above_the_file_are_found() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("src/kernels");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::create_dir_all(root.path().join("include/deep")).unwrap();
    std::fs::write(root.path().join("src/twice.h"), "#include <deep/factor.h>\n").unwrap();
    std::fs::write(root.path().join("include/deep/factor.h"), "#define FACTOR 2.0f\n").unwrap();
    let source = "#include \"twice.h\"
// warpsmith: --kernel k --grid 1 --block 4 --arg y=out,f32[4]
extern \"C\" __global__ void k(float* y) { y[threadIdx.x] = FACTOR; }
";
    let outcome = sanitize_in(&folder, "k.cu", source, &["--print", "y"]);
    contains(&outcome, 0, &["searched folders above the file for headers", "2.0 2.0 2.0 2.0"]);
}

#[test]
fn the_lines_of_a_file_take_all_flags_that_write_no_files() {
    let source = |flags: &str| {
        format!(
            "// warpsmith: --kernel k --grid 1 --block 32 --arg y=out,f32[32] {flags}
extern \"C\" __global__ void k(float* y) {{ if (threadIdx.x < 40) y[threadIdx.x] = 2; }}
"
        )
    };
    contains(
        &sanitize("k.cu", &source("--print y --counters --budget 1000 --jobs 1 --strict"), &[]),
        0,
        &["2.0 2.0", "instructions"],
    );
    contains(&sanitize("k.cu", &source("--budget 3"), &[]), 1, &["runaway"]);
    contains(&sanitize("k.cu", &source("--budget 3"), &["--budget", "1000"]), 0, &["clean"]);
    contains(&sanitize("k.cu", &source("--save folder"), &[]), 2, &["--save"]);
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let expected = npy::write(Dtype::F32, &[32], &2f32.to_le_bytes().repeat(32));
    std::fs::write(inner.join("y.npy"), expected).unwrap();
    let named = source("--expect y=y.npy");
    contains(&sanitize_in(folder.path(), "inner/k.cu", &named, &[]), 0, &["clean"]);
}

#[test]
fn another_standard_of_cpp_can_be_chosen() {
    let source = "\
// warpsmith: --kernel k --grid 1 --block 32 --arg y=out,f32[32]
template <typename T> concept Number = requires(T a) { a + a; };
template <Number T> __device__ T twice(T x) { return x + x; }
extern \"C\" __global__ void k(float* y) { y[threadIdx.x] = twice(1.0f); }
";
    contains(&sanitize("k.cu", source, &["--std", "c++20"]), 0, &["clean"]);
    contains(&sanitize("k.cu", source, &[]), 1, &["does not compile"]);
    contains(&sanitize("k.cu", source, &["--std", "c++98"]), 2, &["c++98"]);
}

#[test]
fn every_standard_of_cpp_has_what_nvcc_accepts() {
    // `register` is not in C++17, and the built-in functions also occur in constant expressions.
    let source = "\
// warpsmith: --kernel k --grid 1 --block 1 --arg y=out,i32[9] --print y
__device__ constexpr int log2_of(unsigned n) { return 31 - __builtin_clz(n); }
extern \"C\" __global__ void k(int* y)
{
    register int a = 40;
    __shared__ int part[1 << log2_of(32)];
    y[0] = __cplusplus / 100;
    y[1] = __builtin_clz(a);
    y[2] = __builtin_clzll(1ull << 40);
    y[3] = __builtin_ctz(a);
    y[4] = __builtin_ctzl(1ul << 40);
    y[5] = __builtin_popcount(0xffu + y[1] - y[1]);
    y[6] = __builtin_popcountll(~0ull);
    y[7] = sizeof(part);
    constexpr int zeros = __builtin_ctz(40);
    y[8] = zeros;
}
";
    for (standard, year) in [("c++14", "2014"), ("c++17", "2017"), ("c++20", "2020")] {
        let numbers = format!("{year} 26 23 3 40 8 64 128 3");
        contains(&sanitize("k.cu", source, &["--std", standard]), 0, &[&numbers, "clean"]);
    }
}

#[test]
fn an_old_standard_gives_way_to_what_headers_need() {
    let source = "\
// warpsmith: --kernel k --grid 1 --block 1 --arg y=out,i32[2] --print y
#include <algorithm>
#include <vector>
extern \"C\" __global__ void k(int* y) { y[0] = std::max(1, 2); y[1] = __cplusplus / 100; }
int main() { std::vector<int> v(2); k<<<1, 1>>>(v.data()); }
";
    let run = sanitize("k.cu", source, &["--std", "c++14"]);
    contains(&run, 0, &["2 2017", "compiled as C++17", "clean"]);
    let run = sanitize("k.cu", source, &["--std", "c++20"]);
    assert!(
        run.stdout.contains("2 2020") && !run.stderr.contains("compiled as"),
        "{}{}",
        run.stdout,
        run.stderr
    );
}
