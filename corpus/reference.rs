//! CPU answers for `corpus/kernels`, one plain function per kernel, std only.
//!
//! A test loads a kernel file, makes its arguments as the header says, runs it, and compares every
//! [`Output`] that [`reference`] returns for those same arguments (as they were before the launch).
//! Buffers the answer does not mention (work space, contended lists) are not compared.

use std::f64::consts::PI;

/// The contents of a buffer or scalar. Floating types (f64 f32 f16 bf16 e4m3 e5m2) are decoded to
/// f64; integers are widened to i64 (u64 keeps its bits); printed output is a list of lines.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    Float(Vec<f64>),
    Int(Vec<i64>),
    Text(Vec<String>),
}

/// One kernel argument before the launch. An `out` or `scratch` buffer has empty values.
#[derive(Clone, Debug)]
pub struct Arg {
    pub name: String,
    pub dims: Vec<usize>,
    pub values: Values,
}

#[derive(Clone, Debug)]
pub enum Compare {
    /// Every element equal (floats by value; NaN equals NaN).
    Exact,
    /// Element `i` may differ by the `i`-th tolerance.
    Within(Vec<f64>),
    /// The same elements in any order.
    AnyOrder,
}

/// What a buffer (or `stdout`) must hold after the launch.
#[derive(Clone, Debug)]
pub struct Output {
    pub name: &'static str,
    pub values: Values,
    pub compare: Compare,
}

impl Output {
    /// Compares what the launch left in the buffer; the error names the first wrong element.
    pub fn check(&self, got: &Values) -> Result<(), String> {
        match (&self.values, got) {
            (Values::Float(want), Values::Float(got)) => self.check_floats(want, got),
            (Values::Int(want), Values::Int(got)) => self.check_equal(want, got),
            (Values::Text(want), Values::Text(got)) => self.check_equal(want, got),
            _ => Err(format!("{}: values of another type than the answer", self.name)),
        }
    }

    fn check_floats(&self, want: &[f64], got: &[f64]) -> Result<(), String> {
        if want.len() != got.len() {
            return Err(format!("{}: {} elements, expected {}", self.name, got.len(), want.len()));
        }
        for (i, (&w, &g)) in want.iter().zip(got).enumerate() {
            let allowed = match &self.compare {
                Compare::Within(tolerance) => tolerance[i],
                Compare::Exact | Compare::AnyOrder => 0.0,
            };
            let fits = w == g || (w.is_nan() && g.is_nan()) || (w - g).abs() <= allowed;
            if !fits {
                return Err(format!("{}[{i}]: {g}, expected {w} +- {allowed:e}", self.name));
            }
        }
        Ok(())
    }

    fn check_equal<T: Clone + Ord + std::fmt::Debug>(&self, want: &[T], got: &[T]) -> Result<(), String> {
        let (mut want, mut got) = (want.to_vec(), got.to_vec());
        if matches!(self.compare, Compare::AnyOrder) {
            want.sort();
            got.sort();
        }
        if want.len() != got.len() {
            return Err(format!("{}: {} elements, expected {}", self.name, got.len(), want.len()));
        }
        match want.iter().zip(&got).position(|(w, g)| w != g) {
            Some(i) => Err(format!("{}[{i}]: {:?}, expected {:?}", self.name, got[i], want[i])),
            None => Ok(()),
        }
    }
}

/// The answer for the kernel of that file name (without `.cu`), or `None` for an unknown name.
///
/// # Panics
/// If the arguments are not the ones the kernel's header declares.
pub fn reference(name: &str, args: &[Arg]) -> Option<Vec<Output>> {
    let a = Args(args);
    let answer: fn(&Args) -> Vec<Output> = match name {
        "assert_passing" => assert_passing,
        "argmax_pairs" => argmax_pairs,
        "atomics_all" => atomics_all,
        "attention_grouped_queries" => attention_grouped_queries,
        "ballot_compaction" => ballot_compaction,
        "benign_same_value" => benign_same_value,
        "bf16x2_math" => bf16x2_math,
        "bfs_frontier" => bfs_frontier,
        "bignum_carry" => bignum_carry,
        "bit_tricks" => bit_tricks,
        "bitonic_sort" => bitonic_sort,
        "block_scope_counters" => block_scope_counters,
        "block_sum_shuffle" => block_sum_shuffle,
        "branch_table" => branch_table,
        "butterfly_sum_by_all_lanes" => butterfly_sum_by_all_lanes,
        "byte_neighbours" => byte_neighbours,
        "cas_loops_seeded_by_reads" => cas_loops_seeded_by_reads,
        "cg_block_reduce" => cg_block_reduce,
        "cg_coalesced_filter" => cg_coalesced_filter,
        "cg_memcpy_async" => cg_memcpy_async,
        "cg_partitions" => cg_partitions,
        "cg_tile_scan_f32" => cg_tile_scan_f32,
        "chacha20_blocks" => chacha20_blocks,
        "cholesky_f64" => cholesky_f64,
        "clock_and_ids" => clock_and_ids,
        "constant_convolution" => constant_convolution,
        "copy_vector_prefetch" => copy_vector_prefetch,
        "cp_async_double_buffer" => |a| vec![gemm(a, "A", "B", "C", 1e-4, 1e-5)],
        "cp_async_three_stages" => cp_async_three_stages,
        "cross_entropy_rows" => cross_entropy_rows,
        "cub_block_load_exchange" => cub_block_load_exchange,
        "cub_block_misc" => cub_block_misc,
        "cub_block_radix_sort" => cub_block_radix_sort,
        "cub_block_reduce" => cub_block_reduce,
        "cub_block_scan" => cub_block_scan,
        "cub_warp_scan_sort" => cub_warp_scan_sort,
        "cuda_barrier_handover" => cuda_barrier_handover,
        "cuda_pipeline_stages" => cuda_pipeline_stages,
        "decode_split_keys" => decode_split_keys,
        "early_return_with_default" => early_return_with_default,
        "embedding_gather" => embedding_gather,
        "exited_lanes_in_masks" => exited_lanes_in_masks,
        "fence_relaxed_flag" => fence_relaxed_flag,
        "fft_shared" => fft_shared,
        "flash_attention_mma" => flash_attention_mma,
        "flash_attention_wmma" => flash_attention_wmma,
        "fp8_convert" => fp8_convert,
        "gelu_erf_tanh" => gelu_erf_tanh,
        "gemm_bf16_scalar" => gemm_bf16_scalar,
        "gemm_int8_dp4a" => gemm_int8_dp4a,
        "gemv_int4" => gemv_int4,
        "global_exchange_in_block" => global_exchange_in_block,
        "grid3d_indices" => grid3d_indices,
        "grid_barrier_jacobi" => grid_barrier_jacobi,
        "half2_math" => half2_math,
        "half_warp_branches" => half_warp_branches,
        "hgemm_half2" => |a| vec![gemm(a, "A", "B", "C", 0.06, 0.0)],
        "histogram_match_any" => histogram_match_any,
        "histogram_shared" => histogram_shared,
        "inline_ptx_forms" => inline_ptx_forms,
        "int64_arithmetic" => int64_arithmetic,
        "kmeans_assign" => kmeans_assign,
        "label_propagation_min" => label_propagation_min,
        "layernorm_rows" => layernorm_rows,
        "hopper_gemm_bf16" | "hopper_gemm_f16" => |a| vec![gemm_t(a, "A", "Bt", "C", 1e-4, 1e-5)],
        "hopper_cluster_multicast" => |a| vec![gemm_t(a, "A", "Bt", "C", 1e-4, 1e-5)],
        "hopper_cluster_sum" => hopper_cluster_sum,
        "hopper_gemm_e4m3" => |a| vec![gemm_t(a, "A", "Bt", "C", 0.03, 2e-3)],
        "hopper_gemm_n_major" => |a| vec![gemm(a, "A", "B", "C", 1e-4, 1e-5)],
        "hopper_ring_one_release" => |a| vec![gemm_t(a, "A", "Bt", "C", 1e-3, 1e-3)],
        "hopper_lanes_wait_for_lanes" => hopper_lanes_wait_for_lanes,
        "hopper_cluster_relaxed_after_fence" => hopper_cluster_relaxed_after_fence,
        "hopper_proxy_fence_then_flag" => |a| vec![exact_floats("y", a.f("x").to_vec())],
        "named_barrier_own_arrival" => named_barrier_own_arrival,
        "hopper_ring" => |a| vec![gemm_t(a, "A", "Bt", "C", 1e-3, 1e-3)],
        "ldmatrix_gemm" => |a| vec![gemm(a, "A", "B", "C", 1e-4, 1e-5)],
        "lennard_jones_cells" => lennard_jones_cells,
        "levenshtein_wavefront" => levenshtein_wavefront,
        "local_struct_sort" => local_struct_sort,
        "local_topk" => local_topk,
        "mandelbrot" => mandelbrot,
        "math_f32" => math_f32,
        "math_f64" => math_f64,
        "math_fast" => math_fast,
        "matmul_q4_blocks" => matmul_q4_blocks,
        "matrix_moves" => matrix_moves,
        "mbarrier_ring" => mbarrier_ring,
        "merge_path" => merge_path,
        "message_acquire_release" => message_acquire_release,
        "mma_gemm_bf16" => |a| vec![gemm_t(a, "A", "Bt", "C", 1e-4, 1e-5)],
        "mma_gemm_f16_f16acc" => |a| vec![gemm_t(a, "A", "Bt", "C", 0.03, 0.0)],
        "mma_gemm_f64" => |a| vec![gemm(a, "A", "B", "C", 1e-12, 1e-13)],
        "mma_gemm_fp8" => |a| {
            vec![
                gemm_t(a, "A4", "B4", "C44", 0.03, 2e-3),
                gemm_t(a, "A5", "B5", "C55", 0.03, 2e-3),
                gemm_t(a, "A4", "B5", "C45", 0.03, 2e-3),
            ]
        },
        "mma_gemm_k8" => {
            |a| vec![gemm_t(a, "Ah", "Bh", "H", 1e-4, 1e-5), gemm_t(a, "Af", "Bf", "F", 1e-4, 1e-5)]
        }
        "mma_gemm_s8" => mma_gemm_s8,
        "mma_gemm_tf32" => mma_gemm_tf32,
        "monte_carlo_pi" => monte_carlo_pi,
        "named_barrier_pingpong" => named_barrier_pingpong,
        "nbody_tile" => nbody_tile,
        "padding_and_discarded" => padding_and_discarded,
        "philox_normal" => philox_normal,
        "printf_report" => printf_report,
        "radix_select" => radix_select,
        "radix_sort_by_ballots" => radix_sort_by_ballots,
        "recursion_calls" => recursion_calls,
        "reduce_last_block" => reduce_last_block,
        "rgb_to_gray" => rgb_to_gray,
        "ring_of_messages" => ring_of_messages,
        "rmsnorm_residual" => rmsnorm_residual,
        "rmsnorm_rope_bf16" => rmsnorm_rope_bf16,
        "rolled_butterflies" => rolled_butterflies,
        "saxpy_grid_stride" => saxpy_grid_stride,
        "scan_block_warps" => scan_block_warps,
        "scan_decoupled_lookback" => scan_decoupled_lookback,
        "settle_syncthreads_or" => settle_syncthreads_or,
        "sgemm_tiled" => |a| vec![gemm(a, "A", "B", "C", 1e-4, 1e-5)],
        "sieve_constant_stores" => sieve_constant_stores,
        "softmax_online_warp" => softmax_rows,
        "softmax_rows" => softmax_rows,
        "spin_lock_lists" => spin_lock_lists,
        "spmv_csr_warp" => spmv_csr_warp,
        "stencil_heat2d" => stencil_heat2d,
        "struct_by_value" => struct_by_value,
        "switch_interpreter" => switch_interpreter,
        "template_reduce" => template_reduce,
        "thread_fence_reduction" => thread_fence_reduction,
        "ticket_lock_backoff" => ticket_lock_backoff,
        "transpose_tiled" => transpose_tiled,
        "two_blocks_one_idle" => two_blocks_one_idle,
        "virtual_shapes" => virtual_shapes,
        "warp_synchronous_sum" => warp_synchronous_sum,
        "warp_vote_redux" => warp_vote_redux,
        "welford_channels" => welford_channels,
        "wmma_gemm_bf16" => |a| vec![gemm(a, "A", "B", "C", 1e-4, 1e-5)],
        "wmma_gemm_f16" => |a| vec![gemm_t(a, "A", "Bt", "C", 1e-4, 1e-5)],
        "wmma_gemm_f64" => wmma_gemm_f64,
        "wmma_gemm_s8" => |a| vec![gemm_int(a, "A", "B", "C"), gemm_int(a, "Ua", "Ub", "U")],
        "wmma_gemm_tf32" => wmma_gemm_tf32,
        "wmma_shapes_f16" => wmma_shapes_f16,
        _ => return None,
    };
    Some(answer(&a))
}

// ---------------------------------------------------------------------------------------------
// Reading arguments and stating answers

struct Args<'a>(&'a [Arg]);

impl Args<'_> {
    fn arg(&self, name: &str) -> &Arg {
        self.0.iter().find(|a| a.name == name).unwrap_or_else(|| panic!("no argument {name}"))
    }

    fn f(&self, name: &str) -> &[f64] {
        match &self.arg(name).values {
            Values::Float(v) => v,
            other => panic!("{name} is not floating: {other:?}"),
        }
    }

    fn i(&self, name: &str) -> &[i64] {
        match &self.arg(name).values {
            Values::Int(v) => v,
            other => panic!("{name} is not integer: {other:?}"),
        }
    }

    fn n(&self, name: &str) -> usize {
        usize::try_from(self.i(name)[0]).expect("a size")
    }

    fn dims(&self, name: &str) -> &[usize] {
        &self.arg(name).dims
    }

    fn f32s(&self, name: &str) -> Vec<f32> {
        self.f(name).iter().map(|&v| v as f32).collect()
    }
}

fn hopper_cluster_sum(a: &Args) -> Vec<Output> {
    let rows = a.f("x").chunks_exact(a.dims("x")[1]).map(|row| row.iter().sum()).collect();
    vec![close("y", rows, 1e-4, 1e-5)]
}

fn close(name: &'static str, values: Vec<f64>, abs: f64, rel: f64) -> Output {
    let tolerance = values.iter().map(|v| abs + rel * v.abs()).collect();
    Output { name, values: Values::Float(values), compare: Compare::Within(tolerance) }
}

fn exact_floats(name: &'static str, values: Vec<f64>) -> Output {
    Output { name, values: Values::Float(values), compare: Compare::Exact }
}

fn exact(name: &'static str, values: Vec<i64>) -> Output {
    Output { name, values: Values::Int(values), compare: Compare::Exact }
}

fn ints<T: Into<i64>>(values: impl IntoIterator<Item = T>) -> Vec<i64> {
    values.into_iter().map(Into::into).collect()
}

/// `C = A B` in f64, shapes from the arguments.
fn product(a: &[f64], b: &[f64], m: usize, n: usize, k: usize) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    for r in 0..m {
        for j in 0..n {
            c[r * n + j] = (0..k).map(|x| a[r * k + x] * b[x * n + j]).sum();
        }
    }
    c
}

/// `C = A B^T` in f64: `bt` holds B's columns as rows.
fn product_t(a: &[f64], bt: &[f64], m: usize, n: usize, k: usize) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    for r in 0..m {
        for j in 0..n {
            c[r * n + j] = (0..k).map(|x| a[r * k + x] * bt[j * k + x]).sum();
        }
    }
    c
}

fn gemm(args: &Args, a: &str, b: &str, c: &'static str, abs: f64, rel: f64) -> Output {
    let (m, k, n) = (args.dims(a)[0], args.dims(a)[1], args.dims(b)[1]);
    close(c, product(args.f(a), args.f(b), m, n, k), abs, rel)
}

fn gemm_t(args: &Args, a: &str, bt: &str, c: &'static str, abs: f64, rel: f64) -> Output {
    let (m, k, n) = (args.dims(a)[0], args.dims(a)[1], args.dims(bt)[0]);
    close(c, product_t(args.f(a), args.f(bt), m, n, k), abs, rel)
}

fn gemm_int(args: &Args, a: &str, b: &str, c: &'static str) -> Output {
    let (m, k, n) = (args.dims(a)[0], args.dims(a)[1], args.dims(b)[1]);
    let (a, b) = (args.i(a), args.i(b));
    let mut out = vec![0; m * n];
    for r in 0..m {
        for j in 0..n {
            out[r * n + j] = (0..k).map(|x| a[r * k + x] * b[x * n + j]).sum();
        }
    }
    exact(c, out)
}

fn prefix_sums(v: &[i64]) -> Vec<i64> {
    v.iter()
        .scan(0, |sum, x| {
            *sum += x;
            Some(*sum)
        })
        .collect()
}

// ---------------------------------------------------------------------------------------------
// Number formats and special functions

/// Rounds to nearest even with `mantissa` fraction bits and smallest normal exponent `emin`;
/// no upper limit.
fn round_to(x: f64, mantissa: i32, emin: i32) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let exponent = ((x.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(emin);
    let ulp = 2f64.powi(exponent - mantissa);
    (x / ulp).round_ties_even() * ulp
}

fn f16(x: f64) -> f64 {
    let r = round_to(x, 10, -14);
    if r.abs() > 65504.0 { f64::INFINITY.copysign(r) } else { r }
}

fn bf16(x: f64) -> f64 {
    round_to(x, 7, -126)
}

fn e4m3(x: f64) -> f64 {
    round_to(x, 3, -6).clamp(-448.0, 448.0)
}

fn e5m2(x: f64) -> f64 {
    round_to(x, 2, -14).clamp(-57344.0, 57344.0)
}

/// f32 to tf32: nearest, ties away from zero.
fn tf32(x: f64) -> f64 {
    f64::from(f32::from_bits((x as f32).to_bits().wrapping_add(0x1000) & !0x1fff))
}

/// The f32 at or above `x`, which must be exact in f64.
fn f32_up(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) < x { near.next_up() } else { near }
}

fn f32_down(x: f64) -> f32 {
    -f32_up(-x)
}

fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a > 2.5 {
        return (1.0 - erfc_tail(a)).copysign(x);
    }
    // e^{-x^2} times a series of positive terms: no cancellation.
    let (mut term, mut sum, mut n) = (a, a, 0.0);
    while term > sum * 1e-17 {
        n += 1.0;
        term *= 2.0 * a * a / (2.0 * n + 1.0);
        sum += term;
    }
    (2.0 / PI.sqrt() * (-a * a).exp() * sum).copysign(x)
}

/// erfc for x > 2 by its continued fraction.
fn erfc_tail(x: f64) -> f64 {
    let mut f = 0.0;
    for k in (1..=120).rev() {
        f = f64::from(k) / 2.0 / (x + f);
    }
    (-x * x).exp() / PI.sqrt() / (x + f)
}

fn erfc(x: f64) -> f64 {
    if x > 2.5 { erfc_tail(x) } else { 1.0 - erf(x) }
}

/// Gamma by Lanczos' approximation (g = 7), good to about 1e-15 for the small arguments used here.
fn gamma(x: f64) -> f64 {
    const C: [f64; 9] = [
        0.999_999_999_999_809_93,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_13,
        -176.615_029_162_140_59,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_571_6e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let t = x + 7.5;
    let sum = C[0] + (1..9).map(|k| C[k] / (x + k as f64)).sum::<f64>();
    (2.0 * PI).sqrt() * t.powf(x + 0.5) * (-t).exp() * sum
}

// ---------------------------------------------------------------------------------------------
// One function per kernel, in alphabetical order

fn assert_passing(a: &Args) -> Vec<Output> {
    vec![exact("out", a.i("divisor").iter().map(|d| 100 / d).collect())]
}

fn atomics_all(a: &Args) -> Vec<Output> {
    let (x, k) = (a.f("x"), a.i("k"));
    let n = k.len() as i64;
    let int32 = |v: i64| i64::from(v as u32 as i32);
    let largest = x.iter().copied().fold(a.f("fmax_out")[0], f64::max);
    let least = k.iter().map(|&v| int32(v)).min().unwrap_or(0).min(a.i("ints")[0]);
    let low: i64 = k.iter().map(|v| v & 15).sum();
    let start = a.i("bits");
    // atomicInc wraps to 0 above its limit, atomicDec to its limit above it; both start out of range.
    let bits = vec![
        k.iter().fold(start[0], |s, v| s & (v | 0xffff_0000)),
        k.iter().fold(start[1], |s, v| s ^ v),
        (n - 1) % 100,
        (0..n).fold(start[3], |s, _| if s == 0 || s > 200 { 200 } else { s - 1 }),
        k.iter().copied().fold(start[4], i64::max),
    ];
    let wide = vec![k.iter().map(|v| v << 8).sum(), k.iter().fold(0, |s, v| s | 1_i64 << (v & 63))];
    let half = n as f64 / 2.0;
    vec![
        exact_floats("fmax_out", vec![largest]),
        exact("ints", vec![least, -low]),
        exact("bits", bits),
        exact("wide", wide),
        close("dsum", vec![x.iter().sum()], 1e-12, 0.0),
        exact_floats("hsum", vec![n as f64, half * 0.25 + half * 0.5]),
    ]
}

fn argmax_pairs(a: &Args) -> Vec<Output> {
    let best = |row: &[f64]| (0..40).rev().max_by(|i, j| row[*i].total_cmp(&row[*j])).unwrap_or(0) as i64;
    vec![exact("best", a.f("rows").chunks(40).map(best).collect())]
}

fn ballot_compaction(a: &Args) -> Vec<Output> {
    let mut out: Vec<i64> = a.i("in").iter().copied().filter(|v| v % 2 == 0).collect();
    let count = out.len() as i64;
    out.resize(a.i("in").len(), 0);
    vec![exact("out", out), exact("count", vec![count])]
}

fn benign_same_value(a: &Args) -> Vec<Output> {
    let mut seen = a.i("seen").to_vec();
    for &k in a.i("keys") {
        seen[k as usize] = 1;
    }
    vec![exact("seen", seen), exact("any", vec![1])]
}

fn bf16x2_math(a: &Args) -> Vec<Output> {
    let columns: [fn(f64, f64) -> f64; 5] = [
        |x, y| bf16(x * y + x),
        |x, y| bf16(x * y + y).max(0.0),
        f64::min,
        |x, y| f64::max(-x, y),
        |x, _| x.abs(),
    ];
    let (x, y) = (a.f("x"), a.f("y"));
    let mut out: Vec<f64> = columns.iter().flat_map(|f| x.iter().zip(y).map(|(&x, &y)| f(x, y))).collect();
    for i in (0..128).step_by(2) {
        out.extend([bf16(x[i] * y[i + 1]), bf16(x[i + 1] - y[i])]);
    }
    let mut tolerance = vec![0.0; out.len()];
    for x in x {
        out.push(x.exp2());
        tolerance.push(x.exp2() / 128.0);
    }
    vec![Output { name: "out", values: Values::Float(out), compare: Compare::Within(tolerance) }]
}

fn bfs_frontier(a: &Args) -> Vec<Output> {
    let edge = a.i("edge");
    let mut level = a.i("level").to_vec();
    level[0] = 0;
    let mut queue = std::collections::VecDeque::from([0_usize]);
    while let Some(v) = queue.pop_front() {
        for &to in &edge[v * 4..v * 4 + 4] {
            let to = to as usize;
            if level[to] == -1 {
                level[to] = level[v] + 1;
                queue.push_back(to);
            }
        }
    }
    vec![exact("level", level)]
}

fn bignum_carry(a: &Args) -> Vec<Output> {
    let (mut sum, mut product) = (Vec::new(), Vec::new());
    for (x, y) in a.i("a").chunks(8).zip(a.i("b").chunks(8)) {
        let mut carry = 0;
        for (p, q) in x.iter().zip(y) {
            let s = p + q + carry;
            sum.push(s & 0xffff_ffff);
            carry = s >> 32;
        }
        sum.push(carry);
        let mut p = [0_u64; 8];
        for i in 0..4 {
            let mut carry = 0_u64;
            for j in 0..4 {
                let v = x[i] as u64 * y[j] as u64 + p[i + j] + carry;
                p[i + j] = v & 0xffff_ffff;
                carry = v >> 32;
            }
            p[i + 4] = carry;
        }
        product.extend(p.map(|v| v as i64));
    }
    vec![exact("sum", sum), exact("product", product)]
}

fn bit_tricks(a: &Args) -> Vec<Output> {
    fn spread(v: u32) -> u32 {
        (0..16).map(|b| (v >> b & 1) << (2 * b)).sum()
    }
    fn bytes(x: u32, y: u32, f: impl Fn(u8, u8) -> u8) -> u32 {
        let (x, y) = (x.to_le_bytes(), y.to_le_bytes());
        u32::from_le_bytes([0, 1, 2, 3].map(|k| f(x[k], y[k])))
    }
    fn halves(x: u32, y: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
        u32::from(f(x as u16, y as u16)) | u32::from(f((x >> 16) as u16, (y >> 16) as u16)) << 16
    }
    let mut out = Vec::new();
    for (&x, &y) in a.i("a").iter().zip(a.i("b")) {
        let (x, y) = (x as u32, y as u32);
        let (pos, len) = (y & 31, y >> 27);
        let field = (u64::from(x) >> pos & ((1_u64 << len) - 1)) as u32;
        let mask = ((1_u32 << 11) - 1) << 5;
        let merged = y & !mask | x << 5 & mask;
        let ffs = |v: u32| if v == 0 { 0 } else { v.trailing_zeros() + 1 };
        let pool = u64::from(y) << 32 | u64::from(x);
        let permuted =
            (0..4).map(|k| ((pool >> (8 * (y >> (4 * k) & 7))) as u32 & 0xff) << (8 * k)).sum::<u32>();
        let high = (u64::from(x) * u64::from(y) >> 32) as u32;
        let high_signed = (i64::from(x as i32) * i64::from(y as i32) >> 32) as u32;
        let low24 = (x & 0xff_ffff).wrapping_mul(y & 0xff_ffff);
        let sign24 = |v: u32| (v << 8) as i32 >> 8;
        let low24_signed = sign24(x).wrapping_mul(sign24(y)) as u32;
        let average = |p: u8, q: u8| ((u16::from(p) + u16::from(q) + 1) / 2) as u8;
        let top = halves(x, y, |p, q| (p as i16).max(q as i16) as u16);
        let bottom = halves(x, y, u16::min);
        out.extend(ints([
            x.reverse_bits(),
            (x & y).leading_zeros() << 8 | ffs(x & !y),
            field,
            merged,
            permuted,
            high ^ high_signed,
            low24.wrapping_add(low24_signed),
            bytes(x, y, u8::wrapping_add) ^ bytes(x, y, average),
            (x as i32).abs_diff(y as i32).wrapping_add(17),
            (pool >> (y & 31)) as u32,
            spread(x) | spread(y) << 1,
            x & y | !x & (x ^ 0x5a5a_5a5a),
            x.count_ones() * 100 + y.count_ones(),
            top.wrapping_sub(bottom),
        ]));
    }
    vec![exact("out", out)]
}

fn bitonic_sort(a: &Args) -> Vec<Output> {
    let mut keys = a.i("keys").to_vec();
    keys.chunks_mut(512).for_each(<[i64]>::sort_unstable);
    vec![exact("keys", keys)]
}

fn block_scope_counters(a: &Args) -> Vec<Output> {
    let (mut evens, mut sum) = (Vec::new(), Vec::new());
    for block in a.i("x").chunks(64) {
        let even = || block.iter().filter(|v| *v % 2 == 0);
        evens.push(even().count() as i64);
        sum.push(even().sum::<i64>() + even().count() as i64);
    }
    let mut log: Vec<i64> = a.i("x").iter().copied().filter(|v| v % 2 == 0).collect();
    log.resize(256, 0);
    vec![
        exact("evens", evens),
        Output { name: "log", values: Values::Int(log), compare: Compare::AnyOrder },
        exact("sum", sum),
    ]
}

fn block_sum_shuffle(a: &Args) -> Vec<Output> {
    vec![close("sums", a.f("in").chunks(1024).map(|c| c.iter().sum()).collect(), 1e-3, 0.0)]
}

fn branch_table(a: &Args) -> Vec<Output> {
    let out = a.i("key").iter().zip(a.i("x")).map(|(k, x)| match k {
        0 => 3 * x,
        1 => x - 7,
        2 => x * x,
        _ => -x,
    });
    vec![exact("out", out.collect())]
}

fn byte_neighbours(a: &Args) -> Vec<Output> {
    vec![
        exact("packed", a.i("x").iter().map(|v| v & 255).collect()),
        exact("halves", a.i("x").iter().map(|v| v & 65535).collect()),
    ]
}

fn cg_block_reduce(a: &Args) -> Vec<Output> {
    let rows = a.i("in").chunks(200);
    vec![
        exact("total", rows.clone().map(|c| c.iter().sum()).collect()),
        exact("smallest", rows.map(|c| *c.iter().min().expect("a row")).collect()),
    ]
}

fn cg_coalesced_filter(a: &Args) -> Vec<Output> {
    let mut kept: Vec<i64> = a.i("in").iter().copied().filter(|&v| v > 0).collect();
    let count = kept.len() as i64;
    kept.resize(a.i("in").len(), 0);
    vec![
        Output { name: "kept", values: Values::Int(kept), compare: Compare::AnyOrder },
        exact("count", vec![count]),
    ]
}

fn cg_memcpy_async(a: &Args) -> Vec<Output> {
    vec![exact("out", a.i("in").chunks(50).flat_map(|c| c.iter().rev().copied()).collect())]
}

fn cg_partitions(a: &Args) -> Vec<Output> {
    let (mut size, mut rank, mut sum) = (Vec::new(), Vec::new(), Vec::new());
    for warp in a.i("label").chunks(32) {
        for (lane, l) in warp.iter().enumerate() {
            size.push(warp.iter().filter(|m| *m == l).count() as i64);
            rank.push(warp[..lane].iter().filter(|m| *m == l).count() as i64);
            sum.push(warp.iter().filter(|m| (*m ^ l) & 1 == 0).sum());
        }
    }
    vec![exact("size", size), exact("rank", rank), exact("sum", sum)]
}

fn cg_tile_scan_f32(a: &Args) -> Vec<Output> {
    let (mut sum, mut prefix, mut flags) = (Vec::new(), Vec::new(), Vec::new());
    for tile in a.f("in").chunks(8) {
        let mut s = 0.0;
        for v in tile {
            prefix.push(s);
            s += v;
        }
        sum.push(s);
        let any = tile.iter().any(|&v| v < 0.0);
        let all = tile.iter().all(|&v| v < 2.0);
        flags.push(i64::from(any) | i64::from(all) << 1);
    }
    vec![close("sum", sum, 1e-5, 0.0), close("prefix", prefix, 1e-5, 0.0), exact("flags", flags)]
}

fn chacha20_blocks(a: &Args) -> Vec<Output> {
    fn quarter(x: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
        for (p, q, r, turn) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
            x[p] = x[p].wrapping_add(x[q]);
            x[r] = (x[r] ^ x[p]).rotate_left(turn);
        }
    }
    let first = a.i("first")[0] as u32;
    let mut stream = Vec::new();
    for block in 0..32 {
        let mut s = [0_u32; 16];
        s[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
        for k in 0..8 {
            s[4 + k] = a.i("key")[k] as u32;
        }
        s[12] = first.wrapping_add(block);
        for k in 0..3 {
            s[13 + k] = a.i("nonce")[k] as u32;
        }
        let mut x = s;
        for _ in 0..10 {
            for k in 0..4 {
                quarter(&mut x, [k, 4 + k, 8 + k, 12 + k]);
            }
            for k in 0..4 {
                quarter(&mut x, [k, 4 + (k + 1) % 4, 8 + (k + 2) % 4, 12 + (k + 3) % 4]);
            }
        }
        stream.extend((0..16).map(|k| i64::from(x[k].wrapping_add(s[k]))));
    }
    vec![exact("stream", stream)]
}

fn cholesky_f64(a: &Args) -> Vec<Output> {
    const N: usize = 16;
    let mut out = Vec::new();
    for g in a.f("G").chunks(N * N) {
        let mut l = product_t(g, g, N, N, N);
        for j in 0..N {
            l[j * N + j] += 16.0;
        }
        for j in 0..N {
            l[j * N + j] = l[j * N + j].sqrt();
            for r in j + 1..N {
                l[r * N + j] /= l[j * N + j];
            }
            for r in j + 1..N {
                for k in j + 1..=r {
                    l[r * N + k] -= l[r * N + j] * l[k * N + j];
                }
            }
            for k in j + 1..N {
                l[j * N + k] = 0.0;
            }
        }
        out.extend(l);
    }
    vec![close("L", out, 1e-12, 1e-12)]
}

fn clock_and_ids(a: &Args) -> Vec<Output> {
    vec![exact("ok", vec![1; a.dims("ok")[0]])]
}

fn constant_convolution(a: &Args) -> Vec<Output> {
    let (h, w, x) = (a.n("h"), a.n("w"), a.f("in"));
    let binomial = [1.0, 4.0, 6.0, 4.0, 1.0];
    let clamp = |v: usize, d: usize, n: usize| (v + d).saturating_sub(2).min(n - 1);
    let mut out = Vec::new();
    for y in 0..h {
        for c in 0..w {
            let mut sum = 0.0;
            for r in 0..5 {
                for k in 0..5 {
                    sum += binomial[r] * binomial[k] * x[clamp(y, r, h) * w + clamp(c, k, w)];
                }
            }
            out.push(sum / 256.0);
        }
    }
    vec![close("out", out, 1e-6, 1e-6)]
}

fn copy_vector_prefetch(a: &Args) -> Vec<Output> {
    vec![exact("dst", a.i("src").to_vec())]
}

fn cp_async_three_stages(a: &Args) -> Vec<Output> {
    let x = a.f("x");
    let out = (0..32).map(|c| x.iter().skip(c).step_by(32).sum()).collect();
    vec![close("out", out, 1e-4, 0.0)]
}

fn cross_entropy_rows(a: &Args) -> Vec<Output> {
    let (mut loss, mut grad) = (Vec::new(), Vec::new());
    for (row, &target) in a.f("logits").chunks(777).zip(a.i("target")) {
        let sum: f64 = row.iter().map(|v| v.exp()).sum();
        loss.push(sum.ln() - row[target as usize]);
        grad.extend(row.iter().enumerate().map(|(i, v)| v.exp() / sum - f64::from(i as i64 == target)));
    }
    vec![close("loss", loss, 1e-5, 1e-5), close("grad", grad, 1e-6, 1e-5)]
}

fn cub_block_load_exchange(a: &Args) -> Vec<Output> {
    vec![
        exact("out", a.i("in").iter().map(|v| 3 * v - 1).collect()),
        exact("partial", a.i("in").chunks(256).map(|c| c.iter().sum()).collect()),
    ]
}

fn cub_block_misc(a: &Args) -> Vec<Output> {
    let (mut heads, mut diff, mut bins) = (Vec::new(), Vec::new(), Vec::new());
    let (mut sorted, mut below) = (Vec::new(), Vec::new());
    for block in a.i("keys").chunks(128) {
        for (i, v) in block.iter().enumerate() {
            heads.push(i64::from(i == 0 || block[i - 1] != *v));
            diff.push(if i == 0 { *v } else { v - block[i - 1] });
        }
        bins.extend((0..16).map(|b| block.iter().filter(|v| **v == b).count() as i64));
        let mut keys = block.to_vec();
        keys.sort_unstable();
        sorted.extend(keys);
        below.extend((0..64).map(|t| block[2 * if t < 5 { t } else { t - 5 }]));
    }
    vec![
        exact("heads", heads),
        exact("diff", diff),
        exact("bins", bins),
        exact("sorted", sorted),
        exact("below", below),
    ]
}

fn cub_block_radix_sort(a: &Args) -> Vec<Output> {
    let mut pairs: Vec<(f64, i64)> = a.f("keys").iter().copied().zip(a.i("values").iter().copied()).collect();
    for segment in pairs.chunks_mut(256) {
        segment.sort_by(|p, q| q.0.total_cmp(&p.0));
    }
    let (keys, values) = pairs.into_iter().unzip();
    vec![exact_floats("keys", keys), exact("values", values)]
}

fn cub_block_reduce(a: &Args) -> Vec<Output> {
    let (mut sum, mut arg) = (Vec::new(), Vec::new());
    for (b, block) in a.f("in").chunks(500).enumerate() {
        sum.push(block.iter().sum());
        let top = block.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        arg.push((b * 500 + block.iter().position(|&v| v == top).expect("a maximum")) as i64);
    }
    vec![close("sum", sum, 1e-3, 0.0), exact("arg_max", arg)]
}

fn cub_block_scan(a: &Args) -> Vec<Output> {
    let (mut sums, mut maxima, mut total) = (Vec::new(), Vec::new(), Vec::new());
    for block in a.i("in").chunks(512) {
        let (mut s, mut m) = (0, i64::MIN);
        for &v in block {
            sums.push(s);
            s += v;
            m = m.max(v);
            maxima.push(m);
        }
        total.push(s);
    }
    vec![exact("sums", sums), exact("maxima", maxima), exact("total", total)]
}

fn cub_warp_scan_sort(a: &Args) -> Vec<Output> {
    let (mut sums, mut top, mut sorted) = (Vec::new(), Vec::new(), Vec::new());
    for warp in a.i("in").chunks(32) {
        sums.extend(prefix_sums(warp));
        let mut v = warp.to_vec();
        v.sort_unstable();
        top.push(v[31]);
        sorted.extend(v);
    }
    vec![exact("sums", sums), exact("top", top), exact("sorted", sorted)]
}

fn cuda_barrier_handover(a: &Args) -> Vec<Output> {
    let rows = a.i("in").chunks(64);
    vec![exact("out", rows.flat_map(|r| (0..64).map(|t| 2 * r[(t + 1) % 64] + t as i64)).collect())]
}

fn cuda_pipeline_stages(a: &Args) -> Vec<Output> {
    let tiles = a.n("tiles");
    let blocks = a.i("in").chunks(tiles * 64);
    let out = blocks.flat_map(|b| (0..64).map(|t| (0..tiles).map(|k| b[k * 64 + 63 - t]).sum()));
    vec![exact("out", out.collect())]
}

fn decode_split_keys(a: &Args) -> Vec<Output> {
    let mut o = Vec::new();
    for (h, q) in a.f("q").chunks(64).enumerate() {
        let rows = |name: &'static str| a.f(name)[h * 150 * 64..(h + 1) * 150 * 64].chunks(64);
        let weights: Vec<f64> =
            rows("k").map(|k| (q.iter().zip(k).map(|(x, y)| x * y).sum::<f64>() / 8.0).exp()).collect();
        let sum: f64 = weights.iter().sum();
        o.extend((0..64).map(|d| rows("v").zip(&weights).map(|(v, w)| v[d] * w).sum::<f64>() / sum));
    }
    vec![close("o", o, 1e-5, 1e-4)]
}

fn embedding_gather(a: &Args) -> Vec<Output> {
    let table = a.f("table");
    let mut out = Vec::new();
    for bag in a.i("index").chunks(3) {
        for d in 0..64 {
            out.push(bag.iter().filter(|&&r| r >= 0).map(|&r| table[r as usize * 64 + d]).sum());
        }
    }
    vec![close("out", out, 1e-6, 1e-6)]
}

fn fence_relaxed_flag(a: &Args) -> Vec<Output> {
    let x = a.i("x");
    let doubled = (0..128).map(|i| 2 * x[if i < 32 { i } else { i - 32 }]).collect();
    vec![exact("doubled", doubled), exact("total", vec![x.iter().map(|v| 2 * v).sum()])]
}

fn fft_shared(a: &Args) -> Vec<Output> {
    let (mut re, mut im) = (Vec::new(), Vec::new());
    for (x, y) in a.f("re").chunks(128).zip(a.f("im").chunks(128)) {
        for k in 0..128 {
            let (mut r, mut i) = (0.0, 0.0);
            for n in 0..128 {
                let (s, c) = (-2.0 * PI * (k * n % 128) as f64 / 128.0).sin_cos();
                r += x[n] * c - y[n] * s;
                i += x[n] * s + y[n] * c;
            }
            re.push(r);
            im.push(i);
        }
    }
    vec![close("re", re, 1e-4, 0.0), close("im", im, 1e-4, 0.0)]
}

/// `softmax(scale Q K^T + causal mask) V`, one head.
fn attention(a: &Args, scale: f64, causal: bool) -> Vec<f64> {
    let (queries, d, keys) = (a.dims("Q")[0], a.dims("Q")[1], a.dims("K")[0]);
    let s = product_t(a.f("Q"), a.f("K"), queries, keys, d);
    let mut p = vec![0.0; queries * keys];
    for r in 0..queries {
        let seen = if causal { r + 1 } else { keys };
        let top = (0..seen).map(|c| s[r * keys + c] * scale).fold(f64::NEG_INFINITY, f64::max);
        let e: Vec<f64> = (0..seen).map(|c| (s[r * keys + c] * scale - top).exp()).collect();
        let sum: f64 = e.iter().sum();
        for (c, v) in e.iter().enumerate() {
            p[r * keys + c] = v / sum;
        }
    }
    product(&p, a.f("V"), queries, d, keys)
}

fn flash_attention_mma(a: &Args) -> Vec<Output> {
    vec![close("O", attention(a, 1.0 / 32_f64.sqrt(), true), 0.01, 0.01)]
}

fn flash_attention_wmma(a: &Args) -> Vec<Output> {
    vec![close("O", attention(a, 0.125, false), 3e-3, 3e-3)]
}

fn fp8_convert(a: &Args) -> Vec<Output> {
    let gain = a.f("gain")[0] as f32;
    let v: Vec<f64> = a
        .f32s("x")
        .iter()
        .enumerate()
        .map(|(i, &x)| f64::from(if i % 2 == 0 { x * x * x * gain } else { x * gain }))
        .collect();
    let each = |f: fn(f64) -> f64| v.iter().map(|&x| f(x)).collect::<Vec<_>>();
    vec![
        exact_floats("q4", each(e4m3)),
        exact_floats("q5", each(e5m2)),
        exact_floats("back4", each(e4m3)),
        exact_floats("back5", each(e5m2)),
        exact_floats("half", each(f16)),
        exact_floats("brain", each(bf16)),
    ]
}

fn gelu_erf_tanh(a: &Args) -> Vec<Output> {
    let x = a.f("x");
    let exact_form = x.iter().map(|x| 0.5 * x * (1.0 + erf(x / 2_f64.sqrt()))).collect();
    let inner = |x: f64| (2.0 / PI).sqrt() * (x + 0.044_715 * x * x * x);
    let approx = x.iter().map(|&x| 0.5 * x * (1.0 + inner(x).tanh())).collect();
    vec![close("exact", exact_form, 1e-6, 2e-6), close("approx", approx, 1e-6, 2e-6)]
}

fn gemm_bf16_scalar(a: &Args) -> Vec<Output> {
    let mut c = product(a.f("A"), a.f("B"), 40, 30, 20);
    for row in c.chunks_mut(30) {
        for (v, b) in row.iter_mut().zip(a.f("bias")) {
            *v += b;
        }
    }
    // One bf16 rounding: half a unit in the last of 8 bits.
    vec![close("C", c, 1e-5, 1.0 / 256.0)]
}

fn gemm_int8_dp4a(a: &Args) -> Vec<Output> {
    let (x, y) = (a.i("A"), a.i("Bt"));
    let mut raw = Vec::new();
    for r in 0..16 {
        for c in 0..16 {
            raw.push((0..64).map(|k| x[r * 64 + k] * y[c * 64 + k]).sum::<i64>());
        }
    }
    let scale = a.f32s("scale");
    let q = raw.iter().enumerate().map(|(i, &v)| {
        let scaled = v as f32 * scale[i / 16];
        (scaled.round_ties_even() as i64).clamp(-128, 127)
    });
    let q = q.collect();
    vec![exact("raw", raw), exact("q", q)]
}

fn gemv_int4(a: &Args) -> Vec<Output> {
    let (q, scale, x) = (a.i("q"), a.f("scale"), a.f("x"));
    let y = (0..12).map(|r| {
        (0..256)
            .map(|k| {
                let nibble = q[r * 32 + k / 8] >> (4 * (k % 8)) & 15;
                (nibble - 8) as f64 * scale[r * 8 + k / 32] * x[k]
            })
            .sum()
    });
    vec![close("y", y.collect(), 1e-3, 1e-5)]
}

fn global_exchange_in_block(a: &Args) -> Vec<Output> {
    let rows = a.i("x").chunks(64);
    vec![exact("out", rows.flat_map(|r| (0..64).map(|t| r[63 - t] + r[(t + 32) % 64])).collect())]
}

fn grid3d_indices(_: &Args) -> Vec<Output> {
    let mut id = Vec::new();
    for z in 0..4 {
        for y in 0..9 {
            id.extend((0..8).map(|x| z * 10000 + y * 100 + x));
        }
    }
    vec![exact("id", id), exact("count", vec![24; 12])]
}

fn grid_barrier_jacobi(a: &Args) -> Vec<Output> {
    let mut u = a.f32s("u");
    for _ in 0..a.n("sweeps") {
        let old = u.clone();
        for i in 1..u.len() - 1 {
            u[i] = 0.5 * (old[i - 1] + old[i + 1]);
        }
    }
    vec![exact_floats("u", u.into_iter().map(f64::from).collect())]
}

fn half2_math(a: &Args) -> Vec<Output> {
    let columns: [fn(f64, f64) -> f64; 8] = [
        |x, y| f16(x * y + 1.0),
        |x, y| f16(x + y),
        |x, y| f16(x * y),
        |x, y| f64::max(-x, y),
        |x, y| if x >= y { 1.0 } else { 0.0 },
        |x, _| x.exp2(),
        |_, y| 1.0 / f16(y + 1.0),
        |x, y| x.abs() / f16(y + 1.0),
    ];
    let (mut want, mut tolerance) = (Vec::new(), Vec::new());
    for (k, f) in columns.iter().enumerate() {
        for (&x, &y) in a.f("x").iter().zip(a.f("y")) {
            let v = f(x, y);
            want.push(v);
            // The last three are approximate: one unit in the last of 11 bits.
            tolerance.push(if k < 5 { 0.0 } else { v.abs() / 1024.0 + 6e-8 });
        }
    }
    vec![Output { name: "out", values: Values::Float(want), compare: Compare::Within(tolerance) }]
}

fn half_warp_branches(a: &Args) -> Vec<Output> {
    let (mut out, mut both) = (Vec::new(), Vec::new());
    for block in a.i("x").chunks(96) {
        let results = [0, 1, 2, 3].map(|h| {
            let half = &block[h * 16..h * 16 + 16];
            if h % 2 == 0 { half.iter().sum::<i64>() } else { *half.iter().max().expect("lanes") }
        });
        both.push(results.iter().sum());
        out.extend(results);
        out.extend([-1, -1]);
    }
    vec![exact("out", out), exact("both", both)]
}

fn histogram_match_any(a: &Args) -> Vec<Output> {
    let mut bins = a.i("bins").to_vec();
    for &k in a.i("keys") {
        bins[k as usize] += 1;
    }
    vec![exact("bins", bins)]
}

fn histogram_shared(a: &Args) -> Vec<Output> {
    let mut bins = a.i("bins").to_vec();
    for &w in a.i("words") {
        for b in (w as u32).to_le_bytes() {
            bins[usize::from(b)] += 1;
        }
    }
    vec![exact("bins", bins)]
}

fn inline_ptx_forms(a: &Args) -> Vec<Output> {
    let (x, y) = (a.i("x"), a.f32s("y"));
    let mut out = Vec::new();
    for t in 0..64 {
        if t & 1 == 1 && t >= 32 {
            out.extend([0; 10]);
            continue;
        }
        let (p, q, r) = (x[t] as u32, x[t ^ 1] as u32, x[t ^ 2] as u32);
        let top = p >> (q & 31);
        let dot =
            |half: u32, byte: u32| i64::from((p >> (16 * half)) as i16) * i64::from(q >> (8 * byte) & 0xff);
        let pair = u64::from(q) << 32 | u64::from(p);
        let borrow = u32::from(p < q);
        out.extend(ints([
            p & q | p & r | q & r,
            if (r as i32) >= 0 { p } else { q },
            u32::from(p & 7 == 0),
            if (y[t] * 1e-38_f32).is_subnormal() { 1 } else { 2 },
            if top == 0 { u32::MAX } else { 31 - top.leading_zeros() },
            r.wrapping_add((dot(0, 0) + dot(1, 1)) as u32),
            (pair >> (8 * (r & 3))) as u32,
            p.wrapping_sub(q) ^ q.wrapping_sub(p).wrapping_sub(borrow),
            if y[t] > 0.5 { u32::MAX } else { 0 },
            0b011,
        ]));
    }
    let acc = x.iter().fold(0_u32, |s, v| s.wrapping_add(*v as u32));
    vec![exact("out", out), exact("acc", vec![i64::from(acc)])]
}

fn int64_arithmetic(a: &Args) -> Vec<Output> {
    const PRIME: u128 = 1_000_000_000_000_000_003;
    let mut out = Vec::new();
    for (&x, &y) in a.i("a").iter().zip(a.i("b")) {
        let (x, y) = (x as u64, y as u64);
        let power = (0..y & 1023).fold(1, |p, _| p * (u128::from(x) % PRIME) % PRIME);
        let mixed = y.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let shift = (y & 63) as u32;
        out.extend([
            power as i64,
            (x / y) as i64,
            (x % y) as i64,
            (u128::from(x) * u128::from(mixed) >> 64) as i64,
            (x.wrapping_sub(y.wrapping_mul(9_000_000)) as i64) / -12345,
            (x << shift | (x >> (63 - shift)) ^ u64::from(y.leading_zeros()) ^ x.reverse_bits()) as i64,
        ]);
    }
    vec![exact("out", out)]
}

fn kmeans_assign(a: &Args) -> Vec<Output> {
    let (p, centre) = (a.f32s("p"), a.f32s("centre"));
    let (mut label, mut sum, mut size) = (Vec::new(), a.f("sum").to_vec(), a.i("size").to_vec());
    for v in p.chunks(2) {
        let mut best = (0, 1.0e30_f32);
        for (k, c) in centre.chunks(2).enumerate() {
            let (dx, dy) = (v[0] - c[0], v[1] - c[1]);
            let d = dx * dx + dy * dy;
            if d < best.1 {
                best = (k, d);
            }
        }
        label.push(best.0 as i64);
        sum[best.0 * 2] += f64::from(v[0]);
        sum[best.0 * 2 + 1] += f64::from(v[1]);
        size[best.0] += 1;
    }
    vec![exact("label", label), close("sum", sum, 1e-4, 0.0), exact("size", size)]
}

fn layernorm_rows(a: &Args) -> Vec<Output> {
    let (eps, gamma, beta) = (a.f("eps")[0], a.f("gamma"), a.f("beta"));
    let mut y = Vec::new();
    for row in a.f("x").chunks(256) {
        let mean = row.iter().sum::<f64>() / 256.0;
        let var = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 256.0;
        y.extend((0..256).map(|c| (row[c] - mean) / (var + eps).sqrt() * gamma[c] + beta[c]));
    }
    vec![close("y", y, 1e-5, 1e-5)]
}

fn levenshtein_wavefront(a: &Args) -> Vec<Output> {
    let pairs = a.i("a").chunks(30).zip(a.i("b").chunks(24));
    let distance = pairs.map(|(a, b)| {
        let mut row: Vec<i64> = (0..=b.len() as i64).collect();
        for (i, p) in a.iter().enumerate() {
            let mut corner = row[0];
            row[0] = i as i64 + 1;
            for (j, q) in b.iter().enumerate() {
                let best = (row[j].min(row[j + 1]) + 1).min(corner + i64::from(p != q));
                corner = row[j + 1];
                row[j + 1] = best;
            }
        }
        row[b.len()]
    });
    vec![exact("distance", distance.collect())]
}

fn local_struct_sort(a: &Args) -> Vec<Output> {
    let (mut keys, mut index) = (Vec::new(), Vec::new());
    for row in a.i("key").chunks(12) {
        let mut records: Vec<(i64, i64)> = row.iter().copied().zip(0..).collect();
        records.sort_unstable();
        keys.extend(records.iter().map(|r| r.0));
        index.extend(records.iter().map(|r| r.1));
    }
    vec![exact("keys_out", keys), exact("index_out", index)]
}

fn local_topk(a: &Args) -> Vec<Output> {
    let best = a.i("x").chunks(a.n("cols")).flat_map(|row| {
        let mut v = row.to_vec();
        v.sort_unstable_by(|p, q| q.cmp(p));
        v.truncate(5);
        v
    });
    vec![exact("best", best.collect())]
}

fn mandelbrot(a: &Args) -> Vec<Output> {
    let (w, h) = (a.n("w"), a.n("h"));
    let mut count = Vec::new();
    for py in 0..h {
        for px in 0..w {
            let (cx, cy) = (px as f32 * 0.0625 - 2.25, py as f32 * 0.125 - 1.0);
            let (mut x, mut y, mut n) = (0.0_f32, 0.0_f32, 0);
            while n < 100 {
                let (xx, yy) = (x * x, y * y);
                if xx + yy > 4.0 {
                    break;
                }
                y = 2.0 * x * y + cy;
                x = xx - yy + cx;
                n += 1;
            }
            count.push(n);
        }
    }
    vec![exact("count", count)]
}

fn math_f32(a: &Args) -> Vec<Output> {
    let mut out = Vec::new();
    for (&x, &y) in a.f32s("x").iter().zip(&a.f32s("y")) {
        let b32 = y + 0.125_f32;
        let (v, b) = (f64::from(x), f64::from(b32));
        out.extend([
            f64::from(1.0e6_f32 * x).sin(),
            v.cos(),
            v.tan(),
            b.powf(v),
            v.exp(),
            b.ln(),
            v.exp2(),
            b.log2(),
            b.ln_1p(),
            v.exp_m1(),
            v.atan(),
            f64::from(b32 * 0.8_f32).asin(),
            erfc(v),
            gamma(f64::from(b32 + 1.0_f32)).ln(),
            v.sinh(),
            f64::from((100.0_f32 * x) % b32),
        ]);
    }
    vec![close("out", out, 5e-7, 3e-6)]
}

fn math_f64(a: &Args) -> Vec<Output> {
    let mut out = Vec::new();
    for (&x, &y) in a.f("x").iter().zip(a.f("y")) {
        let b = y + 0.1;
        out.extend([
            x.exp(),
            b.ln(),
            (50.0 * x).sin(),
            x.cos(),
            x.tan(),
            b.powf(x),
            b.sqrt(),
            x.cbrt(),
            erf(x),
            gamma(b + 1.0),
            x.atan2(b),
            (10.0 * x) % b,
            (7.0 * x).round_ties_even() + x.floor() + (3.0 * x).trunc(),
            x.hypot(b) / (1.0 + x.abs()),
        ]);
    }
    vec![close("out", out, 1e-14, 1e-13)]
}

fn math_fast(a: &Args) -> Vec<Output> {
    let (mut out, mut tolerance, mut dir) = (Vec::new(), Vec::new(), Vec::new());
    for (&x, &y) in a.f32s("x").iter().zip(&a.f32s("y")) {
        let b32 = y + 0.5_f32;
        let (v, b) = (f64::from(x), f64::from(b32));
        // Value, absolute and relative bound (CUDA's guide; tanh.approx keeps 11 bits).
        for (value, abs, rel) in [
            (v.exp(), 0.0, 1e-6),
            (b.ln(), 5e-7, 1e-6),
            (v.sin(), 1e-6, 1e-6),
            (v.cos(), 1e-6, 1e-6),
            (v / b, 0.0, 5e-7),
            (1.0 / b.sqrt(), 0.0, 3e-7),
            (v.tanh(), 0.0, 6e-4),
            (b.powf(2.5), 0.0, 2e-6),
        ] {
            out.push(value);
            tolerance.push(abs + rel * value.abs());
        }
        let root_up = {
            let near = b.sqrt() as f32;
            if f64::from(near) * f64::from(near) < b { near.next_up() } else { near }
        };
        let toward_zero = |x: f64| if x < 0.0 { f32_up(x) } else { f32_down(x) };
        dir.extend(
            [
                f32_up(v + b),
                f32_down(v + b),
                toward_zero(v * b),
                x / b32,
                root_up,
                1.0 / b32,
                f32_down(v * b + v),
                x.clamp(0.0, 1.0),
            ]
            .map(f64::from),
        );
    }
    vec![
        Output { name: "out", values: Values::Float(out), compare: Compare::Within(tolerance) },
        exact_floats("dir", dir),
    ]
}

fn matrix_moves(a: &Args) -> Vec<Output> {
    let x = a.i("in");
    let flipped: Vec<i64> = (0..64).map(|e| x[e % 8 * 8 + e / 8]).collect();
    vec![exact("out0", flipped.clone()), exact("out1", x.to_vec()), exact("out2", flipped)]
}

fn mbarrier_ring(a: &Args) -> Vec<Output> {
    let x = a.f("x");
    let out = (0..64).map(|t| (0..a.n("tiles")).map(|k| (k + 1) as f64 * x[k * 64 + 63 - t]).sum());
    vec![close("out", out.collect(), 1e-4, 0.0)]
}

fn merge_path(a: &Args) -> Vec<Output> {
    let mut out = prefix_sums(a.i("a"));
    out.extend(prefix_sums(a.i("b")));
    out.sort_unstable();
    vec![exact("out", out)]
}

fn message_acquire_release(a: &Args) -> Vec<Output> {
    let totals: Vec<i64> = a.i("x").chunks(32).map(|c| c.iter().map(|v| 3 * v).sum()).collect();
    vec![exact("out", prefix_sums(&totals)), exact("flag", vec![1; 5])]
}

fn mma_gemm_s8(a: &Args) -> Vec<Output> {
    let dot = |x: &[i64], k: usize| -> Vec<i64> {
        let y = a.i("Bt");
        (0..16 * 8).map(|e| (0..k).map(|i| x[e / 8 * 64 + i] * y[e % 8 * 64 + i]).sum()).collect()
    };
    vec![
        exact("ss", dot(a.i("A"), 64)),
        exact("us", dot(a.i("Ua"), 64)),
        exact("short_ss", dot(a.i("A"), 16)),
    ]
}

fn mma_gemm_tf32(a: &Args) -> Vec<Output> {
    let round = |v: &[f64]| v.iter().map(|&x| tf32(x)).collect::<Vec<_>>();
    vec![close("C", product(&round(a.f("A")), &round(a.f("B")), 16, 16, 20), 1e-4, 1e-5)]
}

fn monte_carlo_pi(a: &Args) -> Vec<Output> {
    let mut hits = a.i("hits")[0];
    for i in 0..128_u64 {
        let mut s = a.i("seed")[0] as u64 ^ (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for _ in 0..a.n("rounds") {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            let (x, y) = (s >> 40, s & 0xff_ffff);
            hits += i64::from(x * x + y * y < 1 << 48);
        }
    }
    vec![exact("hits", vec![hits])]
}

fn named_barrier_own_arrival(a: &Args) -> Vec<Output> {
    let mut s = a.i("x").to_vec();
    let mut out = Vec::new();
    for r in 0..6 {
        s = (0..64).map(|i| if r % 2 == 0 { s[i] + s[63 - i] } else { 2 * s[i] }).collect();
        out.extend_from_slice(&s);
    }
    vec![exact("out", out)]
}

fn hopper_lanes_wait_for_lanes(a: &Args) -> Vec<Output> {
    let x = a.i("x");
    vec![exact("y", (0..64).map(|t| if t % 2 == 1 { x[t] } else { x[t] + x[63 - t] }).collect())]
}

fn hopper_cluster_relaxed_after_fence(a: &Args) -> Vec<Output> {
    let x = a.f("x");
    let taken = |block: usize, t: usize| x[128 * (block ^ 1) + 127 - t];
    vec![exact_floats("y", (0..4 * 96).map(|i| taken(i / 96, i % 96)).collect())]
}

fn named_barrier_pingpong(a: &Args) -> Vec<Output> {
    let mut s = a.i("x").to_vec();
    let mut out = Vec::new();
    for r in 0..6 {
        s = if r % 2 == 0 {
            (0..64).map(|i| s[i] + s[(i + 63) % 64]).collect()
        } else {
            s.iter().map(|v| v * 2).collect()
        };
        out.extend_from_slice(&s);
    }
    vec![exact("out", out)]
}

fn nbody_tile(a: &Args) -> Vec<Output> {
    let body = a.f("body");
    let mut acc = Vec::new();
    for me in body.chunks(4) {
        let mut sum = [0.0; 3];
        for other in body.chunks(4) {
            let d = [0, 1, 2].map(|k| other[k] - me[k]);
            let r2 = d.iter().map(|v| v * v).sum::<f64>() + 0.01;
            for k in 0..3 {
                sum[k] += other[3] * d[k] / (r2 * r2.sqrt());
            }
        }
        acc.extend(sum);
    }
    vec![close("acc", acc, 2e-3, 1e-5)]
}

fn padding_and_discarded(a: &Args) -> Vec<Output> {
    let opposite = |i: usize| i / 64 * 64 + 63 - i % 64;
    let (x, tag) = (a.f("in"), a.i("tag"));
    let sums = (0..4).map(|w| x[w * 32..w * 32 + a.i("count")[w] as usize].iter().sum());
    vec![
        exact_floats("value", (0..128).map(|i| x[opposite(i)]).collect()),
        exact("label", (0..128).map(|i| tag[opposite(i)]).collect()),
        close("sums", sums.collect(), 1e-5, 0.0),
    ]
}

fn philox_normal(a: &Args) -> Vec<Output> {
    let seed = a.i("seed")[0] as u64;
    let (mut bits, mut normals) = (Vec::new(), Vec::new());
    for i in 0..128 {
        let (mut c, mut k) = ([i, 0, 0, 0_u32], [seed as u32, (seed >> 32) as u32]);
        for _ in 0..10 {
            let p0 = u64::from(c[0]) * 0xD251_1F53;
            let p1 = u64::from(c[2]) * 0xCD9E_8D57;
            c = [(p1 >> 32) as u32 ^ c[1] ^ k[0], p1 as u32, (p0 >> 32) as u32 ^ c[3] ^ k[1], p0 as u32];
            k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
        }
        bits.extend(c.map(i64::from));
        for pair in c.chunks(2) {
            let u = f64::from((pair[0] as f32).mul_add(2.328_306_4e-10, 1.164_153_2e-10));
            let v = f64::from(pair[1] as f32 * 1.462_918_1e-9);
            let r = (-2.0 * u.ln()).sqrt();
            normals.extend([r * v.cos(), r * v.sin()]);
        }
    }
    vec![exact("bits", bits), close("normals", normals, 5e-6, 2e-6)]
}

fn printf_report(a: &Args) -> Vec<Output> {
    let sums: Vec<i64> = a.i("in").chunks(32).map(|c| c.iter().sum()).collect();
    let lines = sums.iter().zip(["first", "middle", "last"]).enumerate().map(|(b, (&s, name))| {
        format!(
            "block {b} of 3: sum={s} mean={:.3} name={name} big={} 100%",
            s as f64 / 32.0,
            (s as u64) << 33
        )
    });
    let lines = Values::Text(lines.collect());
    vec![exact("out", sums), Output { name: "stdout", values: lines, compare: Compare::AnyOrder }]
}

fn radix_select(a: &Args) -> Vec<Output> {
    let kth = |row: &[i64]| {
        let mut row = row.to_vec();
        row.sort_unstable();
        row[611]
    };
    vec![exact("out", a.i("x").chunks(1500).map(kth).collect())]
}

fn recursion_calls(a: &Args) -> Vec<Output> {
    fn gcd(a: i64, b: i64) -> i64 {
        if b == 0 { a } else { gcd(b, a % b) }
    }
    let mut out = Vec::new();
    for (i, (&x, &y)) in a.i("x").iter().zip(a.i("y")).enumerate() {
        let (n, k) = (x % 9, y % (x % 9 + 1));
        let binomial = (0..k).fold(1, |c, j| c * (n - j) / (j + 1));
        let op = match i & 3 {
            0 => x + y,
            1 => x - y,
            2 => x * y,
            _ => x / y,
        };
        out.extend([gcd(x, y), binomial, i64::from(x % 37 % 2 == 0), op]);
    }
    vec![exact("out", out)]
}

fn reduce_last_block(a: &Args) -> Vec<Output> {
    vec![close("out", vec![a.f("in").iter().sum()], 1e-3, 0.0), exact("ticket", vec![0])]
}

fn rgb_to_gray(a: &Args) -> Vec<Output> {
    let gray = a.i("rgb").chunks(3).map(|p| (77 * p[0] + 150 * p[1] + 29 * p[2] + 128) >> 8);
    vec![exact("out", gray.collect())]
}

fn ring_of_messages(a: &Args) -> Vec<Output> {
    vec![exact("out", a.i("in").chunks(32).map(|row| row.iter().sum()).collect()), exact("tail", vec![20])]
}

fn rmsnorm_rope_bf16(a: &Args) -> Vec<Output> {
    let w = a.f("w");
    let mut y = Vec::new();
    for (position, row) in a.f("x").chunks(64).enumerate() {
        let scale = 1.0 / (row.iter().map(|v| v * v).sum::<f64>() / 64.0 + 1e-6).sqrt();
        for k in 0..32 {
            let (p, q) = (row[2 * k] * scale * w[2 * k], row[2 * k + 1] * scale * w[2 * k + 1]);
            let (s, c) = (position as f64 * 10000_f64.powf(-2.0 * k as f64 / 64.0)).sin_cos();
            y.extend([p * c - q * s, p * s + q * c]);
        }
    }
    vec![close("y", y, 1e-5, 1.0 / 256.0)]
}

fn rolled_butterflies(a: &Args) -> Vec<Output> {
    let rows = || a.f("x").chunks(32);
    let largest = rows().map(|row| row.iter().copied().fold(f64::MIN, f64::max)).collect();
    let sums = rows().map(|row| row.iter().sum()).collect();
    vec![close("sums", sums, 1e-5, 1e-5), exact_floats("largest", largest)]
}

fn saxpy_grid_stride(a: &Args) -> Vec<Output> {
    let scale = a.f("a")[0] as f32;
    let y = a.f32s("x").iter().zip(&a.f32s("y")).map(|(x, y)| f64::from(scale.mul_add(*x, *y))).collect();
    vec![exact_floats("y", y)]
}

fn scan_block_warps(a: &Args) -> Vec<Output> {
    vec![exact("out", a.i("in").chunks(256).flat_map(prefix_sums).collect())]
}

fn scan_decoupled_lookback(a: &Args) -> Vec<Output> {
    vec![exact("out", prefix_sums(a.i("in")))]
}

fn settle_syncthreads_or(a: &Args) -> Vec<Output> {
    let (mut y, mut trips, mut high) = (Vec::new(), Vec::new(), Vec::new());
    for block in a.i("x").chunks(64) {
        let mut s = block.to_vec();
        let mut n = 0;
        loop {
            let at = |i: usize| s.get(i).copied().unwrap_or(-1000);
            let next: Vec<i64> =
                (0..64).map(|i| s[i].max(at(i.wrapping_sub(1)).max(at(i + 1)) - 5)).collect();
            if next == s {
                break;
            }
            s = next;
            n += 1;
        }
        trips.push(n);
        high.push(s.iter().filter(|v| **v > 20).count() as i64);
        y.extend(s);
    }
    vec![exact("y", y), exact("trips", trips), exact("high", high)]
}

fn softmax_rows(a: &Args) -> Vec<Output> {
    let mut y = Vec::new();
    for row in a.f("x").chunks(a.n("cols")) {
        let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|v| (v - top).exp()).sum();
        y.extend(row.iter().map(|v| (v - top).exp() / sum));
    }
    vec![close("y", y, 1e-8, 1e-5)]
}

fn spin_lock_lists(a: &Args) -> Vec<Output> {
    let (mut count, mut chain) = (vec![0; 6], vec![0; 6]);
    for (i, &b) in a.i("keys").iter().enumerate() {
        count[b as usize] += 1;
        chain[b as usize] += (i * i) as i64;
    }
    vec![exact("count", count), exact("chain", chain), exact("lock", vec![0; 6])]
}

fn spmv_csr_warp(a: &Args) -> Vec<Output> {
    let (rowptr, stride) = (a.i("rowptr"), a.n("stride"));
    let (col, val, x) = (a.i("col"), a.f("val"), a.f("x"));
    let y = (0..a.n("rows")).map(|r| {
        let entries = rowptr[r] as usize * stride..rowptr[r + 1] as usize * stride;
        entries.map(|j| val[j] * x[col[j] as usize]).sum()
    });
    vec![close("y", y.collect(), 1e-4, 0.0)]
}

fn stencil_heat2d(a: &Args) -> Vec<Output> {
    let (h, w, k) = (a.n("h"), a.n("w"), a.f("k")[0]);
    let step = |u: &[f64]| -> Vec<f64> {
        let at = |y: usize, x: usize| if y < h && x < w { u[y * w + x] } else { 0.0 };
        let mut v = Vec::new();
        for y in 0..h {
            for x in 0..w {
                // Below zero wraps past the edge, where the plate is zero too.
                let around =
                    at(y.wrapping_sub(1), x) + at(y + 1, x) + at(y, x.wrapping_sub(1)) + at(y, x + 1);
                v.push(at(y, x) + k * (around - 4.0 * at(y, x)));
            }
        }
        v
    };
    vec![close("v", step(&step(a.f("u"))), 1e-6, 1e-6)]
}

fn struct_by_value(a: &Args) -> Vec<Output> {
    let taps = [1.0, 2.0, 4.0];
    let out = a.f("x").iter().enumerate().map(|(i, x)| x * taps[i % 3] + 1.5).collect();
    vec![close("out", out, 1e-6, 1e-6), exact("echo", a.i("p").to_vec())]
}

fn switch_interpreter(a: &Args) -> Vec<Output> {
    let result = a.i("code").chunks(24).map(|code| {
        let mut stack: [i32; 16] = std::array::from_fn(|k| k as i32);
        let (mut top, mut pc) = (2, 0);
        while pc < 24 {
            let (a, b) = (stack[top], stack[top - 1]);
            match code[pc] {
                0 => stack[top] = a.wrapping_add(b),
                1 => stack[top] = a.wrapping_mul(3).wrapping_add(1),
                2 => stack[top] = a ^ stack[top - 2].wrapping_shl(1),
                3 if top < 15 => {
                    top += 1;
                    stack[top] = pc as i32;
                }
                4 if top > 2 => top -= 1,
                5 => stack.swap(top, top - 1),
                6 => stack[top] = (a / 2).wrapping_neg(),
                7 => stack[top] = a.min(1000).wrapping_add(b.count_ones() as i32),
                8 => stack[top] = a >> (b & 7),
                9 => stack[top] = if b == 0 { 17 } else { a.wrapping_rem(b) },
                10 => stack[top - 2] = a.wrapping_sub(b),
                11 => stack[top] = (a.leading_zeros() as i32).wrapping_add(b),
                12 => pc += (a & 1) as usize,
                13 => stack[top] = a.wrapping_abs() & 0xffff,
                14 => stack[top] = i32::from(a < b),
                15 => stack[top] = a.max(b).wrapping_sub(a.min(b)),
                16 if top > 3 => top -= 2,
                17 => stack[top] = a.wrapping_mul(b),
                18 => stack[2] = a,
                19 => stack[top] = !a,
                _ => {}
            }
            pc += 1;
        }
        i64::from(stack[top])
    });
    vec![exact("result", result.collect())]
}

fn template_reduce(a: &Args) -> Vec<Output> {
    let (i, d) = (a.i("i_in"), a.f("d_in"));
    let product = d.iter().map(|v| 1.0 + v / 64.0).product();
    vec![
        exact("i_out", vec![i.iter().sum(), *i.iter().max().expect("elements")]),
        close("d_out", vec![d.iter().sum(), product], 1e-12, 1e-12),
    ]
}

fn ticket_lock_backoff(_: &Args) -> Vec<Output> {
    let order = Output { name: "order", values: Values::Int((0..8).collect()), compare: Compare::AnyOrder };
    vec![exact("sum", vec![28]), exact("tickets", vec![8, 8]), order]
}

fn transpose_tiled(a: &Args) -> Vec<Output> {
    let (rows, cols, x) = (a.n("rows"), a.n("cols"), a.f("in"));
    vec![exact_floats("out", (0..rows * cols).map(|e| x[e % rows * cols + e / rows]).collect())]
}

fn virtual_shapes(a: &Args) -> Vec<Output> {
    let area = |i: usize| [2.25, 4.0 * PI, 9.0 * 3_f64.sqrt() / 4.0][i % 3];
    vec![close("area", a.f("x").iter().enumerate().map(|(i, x)| area(i) * x).collect(), 1e-6, 1e-6)]
}

fn warp_synchronous_sum(a: &Args) -> Vec<Output> {
    vec![close("sums", a.f("in").chunks(64).map(|c| c.iter().sum()).collect(), 1e-4, 0.0)]
}

fn warp_vote_redux(a: &Args) -> Vec<Output> {
    let (mut red, mut flags, mut rank) = (Vec::new(), Vec::new(), Vec::new());
    for warp in a.i("in").chunks(32) {
        let fold = |f: fn(i64, i64) -> i64| warp.iter().copied().reduce(f).expect("lanes");
        red.extend([
            fold(|a, b| a + b),
            fold(i64::min),
            fold(i64::max),
            fold(|a, b| a & b),
            fold(|a, b| a | b),
            fold(|a, b| a ^ b),
        ]);
        let any = warp.iter().any(|&v| v > 900);
        let all = warp.iter().all(|&v| v > -990);
        let uni = warp.iter().all(|v| v & 1 == warp[0] & 1);
        let same = warp.iter().all(|v| (*v < 0) == (warp[0] < 0));
        flags.push(i64::from(any) | i64::from(all) << 1 | i64::from(uni) << 2 | i64::from(same) << 3);
        let mut odd = 0;
        for v in warp {
            rank.push(if v & 1 == 1 { odd } else { -1 });
            odd += v & 1;
        }
    }
    vec![exact("red", red), exact("flags", flags), exact("rank", rank)]
}

fn welford_channels(a: &Args) -> Vec<Output> {
    let (x, n) = (a.f("x"), a.n("n") as f64);
    let (mut mean, mut var) = (Vec::new(), Vec::new());
    for c in 0..5 {
        let channel = || x.iter().skip(c).step_by(5);
        let m = channel().sum::<f64>() / n;
        mean.push(m);
        var.push(channel().map(|v| (v - m).powi(2)).sum::<f64>() / n);
    }
    vec![close("mean", mean, 1e-6, 1e-5), close("var", var, 1e-6, 1e-5)]
}

fn wmma_gemm_f64(a: &Args) -> Vec<Output> {
    let mut c = product(a.f("A"), a.f("B"), 16, 16, 20);
    for (v, old) in c.iter_mut().zip(a.f("C")) {
        *v += old;
    }
    vec![close("C", c, 1e-12, 1e-13)]
}

fn wmma_gemm_tf32(a: &Args) -> Vec<Output> {
    let round = |v: &[f64]| v.iter().map(|&x| tf32(x)).collect::<Vec<_>>();
    // (A B)^T = Bt A^T: swap the operands of the transposed product.
    vec![close("Ct", product_t(&round(a.f("Bt")), &round(a.f("A")), 16, 16, 24), 1e-4, 1e-5)]
}

fn wmma_shapes_f16(a: &Args) -> Vec<Output> {
    let p = product(a.f("A"), a.f("B"), 32, 8, 16).iter().map(|v| 0.5 * v).collect();
    let q = product(a.f("A2"), a.f("B2"), 8, 32, 16);
    vec![close("P", p, 0.01, 2e-3), close("Q", q, 1e-4, 1e-5)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_round_to_nearest_even_and_saturate() {
        assert_eq!(f16(1.0 + 1.0 / 2048.0), 1.0);
        assert_eq!(f16(1.0 + 3.0 / 2048.0), 1.0 + 2.0 / 1024.0);
        assert_eq!(f16(3e-8), 2f64.powi(-24) * 1.0);
        assert_eq!(f16(65520.0), f64::INFINITY);
        assert_eq!(e4m3(500.0), 448.0);
        assert_eq!(e4m3(17.0), 16.0);
        assert_eq!(e4m3(19.0), 20.0);
        assert_eq!(e4m3(2f64.powi(-10)), 0.0);
        assert_eq!(e5m2(-1e9), -57344.0);
        assert_eq!(tf32(1.0 + 2f64.powi(-11)), 1.0 + 2f64.powi(-10));
    }

    #[test]
    fn special_functions_at_known_points() {
        let near = |a: f64, b: f64| assert!((a - b).abs() <= 4e-15 * b.abs(), "{a} {b}");
        near(erf(0.5), 0.520_499_877_813_046_5);
        near(erf(-2.0), -0.995_322_265_018_952_7);
        near(erfc(3.0), 2.209_049_699_858_544e-5);
        near(gamma(1.5), PI.sqrt() / 2.0);
        near(gamma(4.0), 6.0);
    }

    #[test]
    fn the_block_function_of_rfc_8439() {
        let key = (0..8_i64).map(|k| 0x0302_0100 + k * 0x0404_0404).collect();
        let arg =
            |name: &str, v: Vec<i64>| Arg { name: name.into(), dims: vec![v.len()], values: Values::Int(v) };
        let args = [arg("key", key), arg("nonce", vec![0x0900_0000, 0x4a00_0000, 0]), arg("first", vec![1])];
        let Values::Int(stream) = &reference("chacha20_blocks", &args).unwrap()[0].values else { panic!() };
        assert_eq!(stream[..4], [0xe4e7_f110, 0x1559_3bd1, 0x1fdd_0f50, 0xc471_20a3]);
    }

    #[test]
    fn check_names_the_first_wrong_element() {
        let want = close("y", vec![1.0, 2.0], 0.1, 0.0);
        assert!(want.check(&Values::Float(vec![1.05, 1.95])).is_ok());
        assert!(want.check(&Values::Float(vec![1.0, 2.2])).unwrap_err().starts_with("y[1]"));
        assert!(want.check(&Values::Float(vec![1.0])).is_err());
        assert!(want.check(&Values::Float(vec![1.0, f64::NAN])).is_err());
        let bag = Output { name: "b", values: Values::Int(vec![1, 2, 2]), compare: Compare::AnyOrder };
        assert!(bag.check(&Values::Int(vec![2, 1, 2])).is_ok());
        assert!(bag.check(&Values::Int(vec![2, 1, 1])).is_err());
    }

    #[test]
    fn unknown_names_have_no_answer() {
        assert!(reference("no_such_kernel", &[]).is_none());
    }
}

fn attention_grouped_queries(a: &Args) -> Vec<Output> {
    let (q, k, v) = (a.f("q"), a.f("k"), a.f("v"));
    let mut o = Vec::new();
    for head in 0..4 {
        let group = &k[head / 2 * 1280..][..1280];
        let dots = group.chunks(32).map(|key| (0..32).map(|d| q[head * 32 + d] * key[d]).sum::<f64>());
        let scores: Vec<f64> = dots.map(|dot| dot / 32f64.sqrt()).collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let values = &v[head / 2 * 1280..][..1280];
        o.extend((0..32).map(|d| (0..40).map(|j| weights[j] * values[j * 32 + d]).sum::<f64>() / sum));
    }
    vec![close("o", o, 1e-5, 1e-5)]
}

fn butterfly_sum_by_all_lanes(a: &Args) -> Vec<Output> {
    vec![exact("sums", a.i("x").chunks(32).map(|c| c.iter().sum()).collect())]
}

fn cas_loops_seeded_by_reads(a: &Args) -> Vec<Output> {
    let total = a.f("x").iter().sum();
    vec![close("total", vec![total], 1e-12, 1e-12), exact_floats("halves", vec![128.0, 0.0])]
}

fn early_return_with_default(a: &Args) -> Vec<Output> {
    let (x, n) = (a.i("x"), a.n("n"));
    let y = (0..128).map(|i| {
        let (first, t) = (i / 64 * 64, i % 64);
        if i < n { x[first + 64.min(n - first) - 1 - t] * 10 } else { -1 }
    });
    vec![exact("y", y.collect())]
}

fn exited_lanes_in_masks(a: &Args) -> Vec<Output> {
    let keys = a.i("keys");
    let counts = (0..7).map(|k| keys.iter().filter(|key| **key == k).count() as i64).collect();
    let rotated = keys.chunks(32).flat_map(|c| (0..c.len()).map(|i| c[(i + 1) % c.len()])).collect();
    vec![exact("counts", counts), exact("rotated", rotated)]
}

fn label_propagation_min(a: &Args) -> Vec<Output> {
    let old = a.i("old");
    let mut labels = old.to_vec();
    let mut changed = 0;
    for (&f, &t) in a.i("from").iter().zip(a.i("to")) {
        let (f, t) = (f as usize, t as usize);
        if old[f] != old[t] {
            let low = old[f].min(old[t]);
            labels[f] = labels[f].min(low);
            labels[t] = labels[t].min(low);
            changed = 1;
        }
    }
    vec![exact("labels", labels), exact("changed", vec![changed])]
}

fn lennard_jones_cells(a: &Args) -> Vec<Output> {
    let x: Vec<f64> = a.f("x").iter().map(|v| v * 0.75).collect();
    let force = |i: usize| {
        let others = (0..x.len()).filter(|j| *j != i).map(|j| x[i] - x[j]).filter(|gap| gap.abs() < 2.0);
        others
            .map(|gap| {
                let d = gap.abs() + 0.5;
                24.0 * (2.0 / d.powi(13) - 1.0 / d.powi(7)) * if gap > 0.0 { 1.0 } else { -1.0 }
            })
            .sum()
    };
    vec![close("f", (0..x.len()).map(force).collect(), 1e-4, 1e-4)]
}

fn matmul_q4_blocks(a: &Args) -> Vec<Output> {
    let (blocks, x) = (a.i("blocks"), a.f("x"));
    let y = (0..4).map(|row| {
        let products = (0..4).map(|b| {
            let block = &blocks[(row * 4 + b) * 18..][..18];
            let sum: f64 = (0..16)
                .map(|i| {
                    let byte = block[2 + i];
                    ((byte & 15) - 8) as f64 * x[b * 32 + i] + ((byte >> 4) - 8) as f64 * x[b * 32 + 16 + i]
                })
                .sum();
            sum * block[0] as f64 * 0.01
        });
        products.sum()
    });
    vec![close("y", y.collect(), 1e-2, 1e-4)]
}

fn radix_sort_by_ballots(a: &Args) -> Vec<Output> {
    let mut keys = a.i("keys").to_vec();
    keys.chunks_mut(64).for_each(<[i64]>::sort_unstable);
    vec![exact("keys", keys)]
}

fn rmsnorm_residual(a: &Args) -> Vec<Output> {
    let (x, r, w) = (a.f("x"), a.f("r"), a.f("w"));
    let (mut y, mut scales) = (Vec::new(), Vec::new());
    for row in 0..5 {
        let h: Vec<f64> = (0..128).map(|c| x[row * 128 + c] + r[row * 128 + c]).collect();
        let scale = 1.0 / (h.iter().map(|v| v * v).sum::<f64>() / 128.0 + 1e-6).sqrt();
        scales.push(scale);
        y.extend((0..128).map(|c| h[c] * scale * w[c]));
    }
    vec![close("y", y, 1e-5, 1e-5), close("scales", scales, 1e-6, 1e-5)]
}

fn sieve_constant_stores(_: &Args) -> Vec<Output> {
    let composite = |k: i64| (2..66).any(|f| k >= 2 * f && k % f == 0);
    vec![exact("composite", (0..400).map(|k| i64::from(composite(k))).collect())]
}

fn thread_fence_reduction(a: &Args) -> Vec<Output> {
    vec![close("total", vec![a.f("x").iter().sum()], 1e-2, 1e-5), exact("ticket", vec![0])]
}

fn two_blocks_one_idle(a: &Args) -> Vec<Output> {
    let scale = a.f("a")[0];
    let y = a.f("x").iter().zip(a.f("y")).map(|(x, y)| y + scale * x);
    vec![close("y", y.collect(), 1e-6, 1e-6)]
}
