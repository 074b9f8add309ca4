//! Kernels with planted faults of the kind that people make. `check` must detect every fault, and name it if it has a
//! name. A fault is a replacement in the source, so that it stays readable; the test fails if the source no longer
//! contains the original text.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use chips::Chip;
use gpu::device::Device;
use lab::check::{
    self, Case, CaseOutcome, CaseResult, CheckEnvironment, CheckGroup, CheckPlan, CheckSubject, Depth,
};
use op::CheckDevice;
use vgpu::Kind;
use warpsmith_attention::Attention;

use crate::common::{changed_kernels, compiler, device, problem};

/// How a fault must be detected.
#[derive(Clone, Copy)]
enum Detected {
    /// By one of these findings of the virtual GPU.
    Found(&'static [Kind]),
    /// By a complaint of this kind about the output.
    Named(&'static str),
    /// By a complaint of this kind, and by no other.
    Only(&'static str),
    /// By any complaint about the output.
    Wrong,
}

impl Detected {
    fn by(self, verdict: &CaseResult) -> bool {
        let CaseOutcome::Failed { complaints, .. } = &verdict.outcome else { return false };
        // Findings are complaints, too.
        let is_finding = |kind: &str| verdict.findings.iter().any(|finding| finding.kind.to_string() == kind);
        let mut about_the_output = complaints.iter().filter(|complaint| !is_finding(&complaint.kind));
        match self {
            Detected::Found(kinds) => verdict.findings.iter().any(|finding| kinds.contains(&finding.kind)),
            Detected::Named(kind) => about_the_output.any(|complaint| complaint.kind == kind),
            Detected::Only(kind) => {
                verdict.findings.is_empty() && complaints.len() == 1 && complaints[0].kind == kind
            }
            Detected::Wrong => about_the_output.next().is_some(),
        }
    }
}

struct Fault {
    name: &'static str,
    family: &'static str,
    /// The path below `kernels/attention`.
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
    preset: &'static str,
    knobs: &'static [(&'static str, &'static str)],
    problem: &'static str,
    class: &'static str,
    /// The modelled GPU that it runs on.
    chip: &'static str,
    detected: Detected,
}

/// The common fields of most faults in the `wmma` family.
const WMMA: Fault = Fault {
    name: "",
    family: "wmma",
    file: "wmma/kernel.cu",
    right: "",
    wrong: "",
    preset: "stage-c",
    knobs: &[],
    problem: "b1h1s33d64-fp16",
    class: "normal",
    chip: "h200",
    detected: Detected::Wrong,
};
const MMA: Fault = Fault { family: "mma", file: "mma/kernel.cu", preset: "d64", ..WMMA };

const HOPPER: Fault = Fault {
    family: "hopper",
    file: "hopper/stream.cuh",
    preset: "d256",
    problem: "b1h1sq40sk500d64-fp16",
    ..WMMA
};
/// With more keys than fit into the rings.
const HOPPER_SPLIT: Fault =
    Fault { file: "hopper/split.cuh", preset: "split", problem: "b1h1sq40sk1200d64-fp16", ..HOPPER };

/// With as many keys as fit into the rings.
const HOPPER_AT_ONCE: Fault = Fault { preset: "split-512", problem: "b1h1sq40sk512d64-fp16", ..HOPPER_SPLIT };

const HOPPER_AT_ONCE_BF16: Fault = Fault {
    preset: "split",
    knobs: &[("RUNNING_MAX", "lazy")],
    problem: "b1h1sq40sk512d64-bf16",
    ..HOPPER_AT_ONCE
};

/// With little code, which takes the compiler less time than the preset's.
const HOPPER_FP8: Fault = Fault {
    preset: "fp8-d256",
    problem: "b1h1sq40sk500d64-e4m3",
    knobs: &[
        ("BLOCK_N", "64"),
        ("TRANSPOSE", "inside"),
        ("RUNNING_MAX", "integers"),
        ("RESCALE_THRESHOLD", "0"),
        ("PROMOTION_INTERVAL", "0"),
    ],
    ..HOPPER
};
/// With several promotions of two rows of a lane.
const HOPPER_PROMOTION: Fault = Fault {
    problem: "b1h1sq40sk700d64-e4m3",
    knobs: &[("BLOCK_N", "64"), ("TRANSPOSE", "inside"), ("PROMOTION_INTERVAL", "4")],
    ..HOPPER_FP8
};
/// With steps in which a running maximum is raised after the weights.
const HOPPER_LAZY: Fault = Fault { knobs: &[("RUNNING_MAX", "lazy")], class: "large", ..HOPPER };
const HOPPER_FP8_LAZY: Fault = Fault {
    preset: "fp8-d128",
    problem: "b1h1sq100sk1200d128-e4m3",
    knobs: &[("RUNNING_MAX", "lazy"), ("PING_PONG", "false")],
    class: "outliers",
    ..HOPPER
};
/// With rows for both warpgroups.
const HOPPER_PARTS: Fault =
    Fault { problem: "b1h1sq100sk300d64-fp16", knobs: &[("QUERIES", "parts")], ..HOPPER };
const HOPPER_FP8_SPLIT: Fault = Fault {
    file: "hopper/split.cuh",
    preset: "fp8-split",
    problem: "b1h1sq40sk1200d64-e4m3",
    knobs: &[],
    ..HOPPER_FP8
};

const HOPPER_TRANSPOSED_BEFORE: Fault = Fault {
    file: "hopper/transpose_before.cuh",
    knobs: &[
        ("BLOCK_N", "64"),
        ("TRANSPOSE", "before"),
        ("RUNNING_MAX", "integers"),
        ("RESCALE_THRESHOLD", "0"),
        ("PROMOTION_INTERVAL", "0"),
    ],
    ..HOPPER_FP8
};

/// With blocks that have parts of several heads, whole heads, and a causal mask.
const DECODE: Fault = Fault {
    family: "hopper-decode",
    file: "hopper-decode/kernel.cu",
    preset: "d64",
    knobs: &[("BLOCKS", "3")],
    problem: "b2h8kv2sq3sk300d64-causal-fp16",
    ..WMMA
};
const DECODE_CLUSTER: Fault = Fault {
    file: "hopper-decode/combine.cuh",
    preset: "cluster",
    knobs: &[("CLUSTER", "4")],
    problem: "b1h4kv1sq2sk500d64-bf16",
    ..DECODE
};

/// With every feature for serving, lengths from 0 to the room of the cache, and several pages in a tile.
const SERVING: Fault =
    Fault { problem: "b7h8kv2sq3sk300d64-causal-ragged-page16-window100-sink-cap20-fp16", ..DECODE };
/// Packed sequences, some of them empty, whose windows begin inside a page and a tile, shared by two blocks.
const HOPPER_SERVING: Fault = Fault {
    file: "hopper/served.cuh",
    preset: "d64",
    knobs: &[("PERSISTENT", "2")],
    problem: "b7h4kv2sq150sk300d64-causal-packed-page16-window100-sink-fp16",
    ..HOPPER
};
const REFERENCE: Fault = Fault {
    family: "reference",
    file: "common/arguments.cuh",
    preset: "default",
    knobs: &[],
    problem: "b4h2sq1sk60d64-ragged-page16-fp16",
    ..DECODE
};

const FAULTS: &[Fault] = &[
    Fault {
        name: "serving: a length one too long",
        file: "common/arguments.cuh",
        right: "keys = min(args.key_lengths[batch], keys);",
        wrong: "keys = min(args.key_lengths[batch] + 1, keys);",
        ..SERVING
    },
    Fault {
        name: "serving: values beyond a sequence are multiplied by 0",
        right: "hide_values(value_tile(v.stage), share.tiles.needed, share.first_key());",
        wrong: "{}",
        detected: Detected::Named("non-finite"),
        ..SERVING
    },
    Fault {
        name: "serving: the tensor cores read zeros whose writes are not fenced",
        right: "    tma::fence_shared_writes();\n    consumers_sync();",
        wrong: "    consumers_sync();",
        detected: Detected::Found(&[Kind::ProxyFence]),
        ..SERVING
    },
    Fault {
        name: "serving: a page that is none",
        file: "common/arguments.cuh",
        right: "return {page, key - of_sequence * args.page_size};",
        wrong: "return {page + (of_sequence == 2 ? 100000 : 0), key - of_sequence * args.page_size};",
        ..SERVING
    },
    Fault {
        name: "serving: the table is read beyond the length of a sequence",
        right: "return is_needed ? attention::cache_place(args, batch, key) : attention::CachePlace{-1, 0};",
        wrong: "return attention::cache_place(args, batch, key);",
        detected: Detected::Found(&[Kind::OutOfBounds]),
        ..SERVING
    },
    Fault {
        name: "serving: the pages of another sequence",
        right: "place_of_piece(share, unit.batch, ",
        wrong: "place_of_piece(share, unit.batch ^ 1, ",
        ..SERVING
    },
    Fault {
        name: "serving: a table that an earlier launch has kept",
        file: "common/arguments.cuh",
        right: "    const int page = args.page_table[",
        wrong: "    static __device__ int kept[1024];\n    int& entry = kept[batch * args.pages_of_sequence + of_sequence];\n    \
                if (entry == 0) entry = 1 + args.page_table[static_cast<long long>(batch) * args.pages_of_sequence + \
                of_sequence];\n    const int page = entry - 1 + 0 * args.page_table[",
        detected: Detected::Named("persistent-state"),
        ..SERVING
    },
    Fault {
        name: "serving: all sequences have as many tiles as the first",
        file: "hopper-decode/combine.cuh",
        right: "const Tiles of_sequence(args, batch);",
        wrong: "const Tiles of_sequence(args, 0);",
        ..SERVING
    },
    Fault {
        name: "serving: parts of sequences after the first 32 are not found",
        file: "hopper-decode/work.cuh",
        right: "sum += 32 * i + lane() < batch ? kept_tiles[i] : 0;",
        wrong: "sum += 32 * i + lane() < min(batch, 32) ? kept_tiles[i] : 0;",
        problem: "b40h2kv1sq1sk200d64-ragged-fp16",
        ..SERVING
    },
    Fault {
        name: "serving: a window one too short",
        file: "common/arguments.cuh",
        right: "max(position - args.window_left, 0)",
        wrong: "max(position - args.window_left + 1, 0)",
        ..SERVING
    },
    Fault {
        name: "serving: the diagonal of the longest sequence",
        file: "common/arguments.cuh",
        right: "position += (size.keys - args.seq_k) + (args.seq_q - size.queries);",
        wrong: "position += args.seq_q - size.queries;",
        ..SERVING
    },
    Fault {
        name: "serving: combined rows have the sink of the first head",
        file: "hopper-decode/combine.cuh",
        right: "const Finished finished(args, row.head, maximum, sum);",
        wrong: "const Finished finished(args, 0, maximum, sum);",
        ..SERVING
    },
    Fault {
        name: "serving: scores are not capped",
        right: "if (is_capped()) rows.cap(args.softmax_scale / args.softcap);",
        wrong: "",
        ..SERVING
    },
    Fault {
        name: "serving: mma reads pages that the length does not reach",
        right: "const bool exists = key < work.end && key",
        wrong: "const bool exists = key",
        preset: "rows16",
        knobs: &[],
        family: "mma",
        file: "mma/kernel.cu",
        detected: Detected::Found(&[Kind::OutOfBounds]),
        ..SERVING
    },
    Fault {
        name: "serving: mma adds the sink without regard to the maximum of the keys",
        right: "rows.sum[strip][half] = rows.sum[strip][half] * of_keys +",
        wrong: "rows.sum[strip][half] = rows.sum[strip][half] +",
        preset: "rows16",
        knobs: &[],
        family: "mma",
        file: "mma/kernel.cu",
        ..SERVING
    },
    Fault {
        name: "serving: prefill multiplies values beyond a sequence by 0",
        right: "i < hidden * CHUNKS; i += 32",
        wrong: "i < 0; i += 32",
        detected: Detected::Named("non-finite"),
        ..HOPPER_SERVING
    },
    Fault {
        name: "serving: prefill does not fence zeros from the tensor cores",
        right: "            tma::fence_shared_writes();\n",
        wrong: "",
        detected: Detected::Found(&[Kind::ProxyFence]),
        ..HOPPER_SERVING
    },
    Fault {
        name: "serving: prefill reads the table beyond the length of a sequence",
        right: "return is_needed ? attention::cache_place(args, work.batch, key) : attention::CachePlace{-1, 0};",
        wrong: "return attention::cache_place(args, work.batch, key);",
        detected: Detected::Found(&[Kind::OutOfBounds]),
        ..HOPPER_SERVING
    },
    Fault {
        name: "serving: prefill has no work for sequences after the first 32",
        right: "if (at.first >= args.batch) next_level();",
        wrong: "next_level();",
        problem: "b40h2kv1sq70sk90d64-packed-fp16",
        ..HOPPER_SERVING
    },
    Fault {
        name: "serving: prefill leaves out a level that its first sequences do not have",
        right: "min(at.level - 1, last)",
        wrong: "min(at.level - 2, last)",
        problem: "b3h2s500d64-causal-packed-fp16",
        ..HOPPER_SERVING
    },
    Fault {
        name: "serving: prefill does not mask the first keys of a window",
        file: "hopper/stream.cuh",
        right: "SERVING ? window_limit : work.steps",
        wrong: "work.steps",
        problem: "b1h2s500d64-causal-window200-fp16",
        ..HOPPER_SERVING
    },
    Fault {
        name: "serving: prefill adds the sink of the first head",
        file: "hopper/rows.cuh",
        right: "add_sink(args.sinks[rows.head] * LOG2_E,",
        wrong: "add_sink(args.sinks[0] * LOG2_E,",
        ..HOPPER_SERVING
    },
    Fault {
        name: "serving: a page beyond the length of a sequence is read",
        file: "reference/kernel.cu",
        right: "const SequenceSize size(args, batch);",
        wrong: "SequenceSize size(args, batch); size.keys = args.seq_k;",
        detected: Detected::Found(&[Kind::OutOfBounds]),
        ..REFERENCE
    },
    Fault {
        name: "serving: a position counts from the start of its page's neighbour",
        right: "return {page, key - of_sequence * args.page_size};",
        wrong: "return {page, key % (args.page_size + 1)};",
        ..REFERENCE
    },
    Fault {
        name: "decode: a part of a head is not combined",
        file: "hopper-decode/combine.cuh",
        right: "first, last - first + 1, packed % ROWS",
        wrong: "first, last - first, packed % ROWS",
        ..DECODE
    },
    Fault {
        name: "decode: the second launch takes all heads for whole",
        file: "hopper-decode/combine.cuh",
        right: "    if (first == last) return;",
        wrong: "    return;",
        detected: Detected::Found(&[Kind::UnwrittenOutput]),
        ..DECODE
    },
    Fault {
        name: "decode: partial results are added without regard to their maxima",
        file: "hopper-decode/combine.cuh",
        right: "return ptx::exp2_approx(part.x - maximum);",
        wrong: "return 1.0f;",
        ..DECODE
    },
    Fault {
        name: "decode: the end of a head is looked for where its beginning is",
        file: "hopper-decode/combine.cuh",
        right: "part == 0 ? which_of_first : 0",
        wrong: "0",
        ..DECODE
    },
    Fault {
        name: "decode: one key more than there are",
        right: "visible[i] = seen.end - first_column",
        wrong: "visible[i] = seen.end + 1 - first_column",
        ..DECODE
    },
    Fault {
        name: "decode: packed rows are taken in the order of the heads",
        file: "hopper-decode/work.cuh",
        right: "head(kv_head * work.group + row % work.group), query(row / work.group)",
        wrong: "head(kv_head * work.group + row / (work.rows / work.group)), query(row % (work.rows / work.group) / 2)",
        ..DECODE
    },
    Fault {
        name: "decode: the tensor cores read queries whose writes are not fenced",
        right: "    tma::fence_shared_writes();\n}",
        wrong: "}",
        detected: Detected::Found(&[Kind::ProxyFence]),
        ..DECODE
    },
    Fault {
        name: "decode: a tile of values is overwritten while the tensor cores read it",
        right: "copy(values, v, v_map, value_tile(v.stage), values_full(v.stage), values_free(v.stage));",
        wrong: "copy(values, v, v_map, value_tile(v.stage), values_full(v.stage), keys_free(v.stage));",
        knobs: &[("BLOCKS", "3"), ("STAGES", "2"), ("JITTER", "true")],
        detected: Detected::Found(&[Kind::Race]),
        ..DECODE
    },
    Fault {
        name: "decode: output and sums are not rescaled when a score exceeds the maximum",
        file: "hopper-decode/rows.cuh",
        right: "            factor[row] = ptx::exp2_approx(running_max[row] - to);",
        wrong: "            factor[row] = 1.0f;",
        class: "large",
        ..DECODE
    },
    Fault {
        name: "decode: blocks of a cluster combine before all results are there",
        file: "hopper-decode/kernel.cu",
        right: "            cluster::sync();\n            combine_cluster",
        wrong: "            consumers_sync();\n            combine_cluster",
        detected: Detected::Found(&[Kind::Race, Kind::Uninitialised]),
        ..DECODE_CLUSTER
    },
    Fault {
        name: "decode: a block of a cluster ends while others read its result",
        file: "hopper-decode/kernel.cu",
        right: "            cluster::sync();  // every block has read\n",
        wrong: "",
        detected: Detected::Found(&[Kind::Race, Kind::OutOfBounds]),
        ..DECODE_CLUSTER
    },
    Fault {
        name: "decode: a cluster leaves out its last block",
        right: "block < BLOCKS_OF_UNIT; ++block) {\n            const float factor",
        wrong: "block < BLOCKS_OF_UNIT - 1; ++block) {\n            const float factor",
        ..DECODE_CLUSTER
    },
    Fault {
        name: "hopper, FP8, V transposed before: a copy reads a tile whose writes are not fenced",
        right: "    tma::fence_shared_writes();\n",
        wrong: "",
        detected: Detected::Found(&[Kind::ProxyFence]),
        ..HOPPER_TRANSPOSED_BEFORE
    },
    Fault {
        name: "hopper, FP8, V transposed before: rows are overwritten before all warps have read them",
        right: "    __syncthreads();  // all rows are in registers\n",
        wrong: "",
        detected: Detected::Found(&[Kind::Race]),
        ..HOPPER_TRANSPOSED_BEFORE
    },
    Fault {
        name: "hopper, FP8: the tensor cores read a transposed tile whose writes are not fenced",
        file: "hopper/transpose.cuh",
        right: "        tma::fence_shared_writes();\n",
        wrong: "",
        detected: Detected::Found(&[Kind::ProxyFence]),
        ..HOPPER_FP8
    },
    Fault {
        name: "hopper, FP8: even and odd columns are exchanged",
        file: "hopper/transpose.cuh",
        right: "__byte_perm(r[2], r[3], 0x6420),\n                                   __byte_perm(r[0], r[1], 0x7531)",
        wrong: "__byte_perm(r[0], r[1], 0x7531),\n                                   __byte_perm(r[2], r[3], 0x6420)",
        ..HOPPER_FP8
    },
    Fault {
        name: "hopper, FP8: the weights have another order of keys than the values",
        file: "hopper/rows_fp8.cuh",
        right: "return e4m3::encode4(p[0], p[1], p[4], p[5]);",
        wrong: "return e4m3::encode4(p[0], p[4], p[1], p[5]);",
        ..HOPPER_FP8
    },
    Fault {
        name: "hopper, FP8: rows of V are overwritten while they are transposed",
        right: "        transposer.transpose(rows.tile(from.stage), values.tile(to.stage), warp);\n        if (lane() == 0) {\n            ptx::mbarrier_arrive(values.full(to.stage));\n            ptx::mbarrier_arrive(rows.free(from.stage));\n        }",
        wrong: "        if (lane() == 0) ptx::mbarrier_arrive(rows.free(from.stage));\n        transposer.transpose(rows.tile(from.stage), values.tile(to.stage), warp);\n        if (lane() == 0) ptx::mbarrier_arrive(values.full(to.stage));",
        detected: Detected::Found(&[Kind::Race]),
        ..HOPPER_FP8
    },
    Fault {
        name: "hopper, FP8: a transposed tile is reported full before it is written",
        right: "        transposer.transpose(rows.tile(from.stage), values.tile(to.stage), warp);\n        if (lane() == 0) {\n            ptx::mbarrier_arrive(values.full(to.stage));\n",
        wrong: "        if (lane() == 0) ptx::mbarrier_arrive(values.full(to.stage));\n        transposer.transpose(rows.tile(from.stage), values.tile(to.stage), warp);\n        if (lane() == 0) {\n",
        detected: Detected::Found(&[Kind::Race, Kind::Uninitialised, Kind::ProxyFence]),
        ..HOPPER_FP8
    },
    Fault {
        name: "hopper, FP8: a transposed tile is overwritten while the tensor cores read it",
        right: "        values.wait_free(to);\n",
        wrong: "",
        detected: Detected::Found(&[Kind::Race]),
        ..HOPPER_FP8
    },
    Fault {
        name: "hopper, FP8: the transposing warps never end",
        right: "        if (TRANSPOSES) end_values();\n",
        wrong: "",
        detected: Detected::Found(&[Kind::Deadlock]),
        ..HOPPER_FP8
    },
    Fault {
        name: "hopper, FP8: the scale of the values is ignored",
        file: "hopper/work.cuh",
        right: "value = attention::head_scale(args.v_scale, args.kv_heads, work.batch, kv_head);",
        wrong: "",
        ..HOPPER_FP8
    },
    Fault {
        name: "hopper, FP8: the scales of a head are not published",
        right: "        if constexpr (PRODUCER_LOADS_SCALES) *scales_of(q.stage) = scales;\n",
        wrong: "",
        detected: Detected::Found(&[Kind::Uninitialised]),
        ..HOPPER_FP8
    },
    Fault {
        name: "hopper, FP8: a work tile is published before the scales of its head are written",
        right: "        if constexpr (PRODUCER_LOADS_SCALES) *scales_of(q.stage) = scales;\n#pragma unroll\n        for (int part = 0; part < Q_COPIES; ++part) ptx::mbarrier_arrive(QueryRing{}.full(q.stage, part));\n",
        wrong: "#pragma unroll\n        for (int part = 0; part < Q_COPIES; ++part) ptx::mbarrier_arrive(QueryRing{}.full(q.stage, part));\n        if constexpr (PRODUCER_LOADS_SCALES) *scales_of(q.stage) = scales;\n",
        detected: Detected::Found(&[Kind::Race, Kind::Uninitialised]),
        ..HOPPER_FP8
    },
    Fault {
        name: "hopper, FP8: a work tile has the scales of the one before",
        right: "        first_scales(head, step_scales);\n        cap();",
        wrong: "        cap();",
        knobs: &[("TRANSPOSE", "inside"), ("PERSISTENT", "2")],
        problem: "b1h6s130d64-e4m3",
        class: "outliers",
        ..HOPPER_FP8
    },
    Fault {
        name: "hopper, FP8, promotion: the promoted sums are not added",
        file: "hopper/rows_fp8.cuh",
        right: "if constexpr (PROMOTION_INTERVAL > 0) add_promoted_sums(statistics.running_max);",
        wrong: "",
        ..HOPPER_PROMOTION
    },
    Fault {
        name: "hopper, FP8, promotion: the sums are not rescaled when a running maximum is raised",
        file: "hopper/rows_fp8.cuh",
        right: "factors.of_row[0] = factors.summed ? ptx::exp2_approx(from[0] - to[0]) : 0.0f;",
        wrong: "factors.of_row[0] = 1.0f;",
        class: "large",
        ..HOPPER_PROMOTION
    },
    Fault {
        name: "hopper, FP8, promotion: the output is not replaced after it was promoted",
        right: "start_output(PROMOTE);",
        wrong: "start_output(false);",
        ..HOPPER_PROMOTION
    },
    Fault {
        name: "hopper, queries in parts: a warpgroup waits for the queries of the first",
        right: "QueryRing{}.wait_full(q, group);",
        wrong: "QueryRing{}.wait_full(q, 0);",
        detected: Detected::Found(&[Kind::Race, Kind::Uninitialised]),
        ..HOPPER_PARTS
    },
    Fault {
        name: "hopper, queries in parts: a part waits for the bytes of the whole tile",
        right: "tma::expect(ring.full(q.stage, part), QueryTile::BYTES / Q_COPIES);",
        wrong: "tma::expect(ring.full(q.stage, part), QueryTile::BYTES);",
        detected: Detected::Found(&[Kind::Deadlock]),
        ..HOPPER_PARTS
    },
    Fault {
        name: "hopper, FP8, split keys: rows of V are overwritten before they are transposed",
        right: "            ptx::mbarrier_wait(copied_value_ring<FP8>(group).free(stage), parity);\n",
        wrong: "",
        detected: Detected::Found(&[Kind::Race]),
        ..HOPPER_FP8_SPLIT
    },
    Fault {
        name: "hopper, even rows: a work tile goes on in the next head",
        file: "hopper/work.cuh",
        right: "const int count = min(min(BLOCK_M / 64, share(block + 1, units) - at), units - unit);",
        wrong: "const int count = min(BLOCK_M / 64, share(block + 1, units) - at);",
        knobs: &[("PERSISTENT", "2"), ("EVEN_ROWS", "true")],
        problem: "b1h3s170d64-fp16",
        ..HOPPER
    },
    Fault {
        name: "hopper, split keys: a tile of V is released while the tensor cores read it",
        right: "            wgmma::groups_wait<0>();
            wgmma::keep_below(rows.scores);
            wgmma::keep_below(rows.output);
            v.release(before);",
        wrong: "            v.release(before);
            wgmma::groups_wait<0>();
            wgmma::keep_below(rows.scores);
            wgmma::keep_below(rows.output);",
        detected: Detected::Found(&[Kind::Race]),
        ..HOPPER_SPLIT
    },
    Fault {
        name: "hopper, split keys: the results of a warpgroup are read before they are written",
        right: "if (!ptx::named_barrier_any<GROUPS * 128>(EXCHANGE_BARRIER, wrong)) break;",
        wrong: "break;",
        detected: Detected::Found(&[Kind::Race, Kind::Uninitialised]),
        ..HOPPER_SPLIT
    },
    Fault {
        name: "hopper, split keys: the consumers' results keep their own running maxima",
        right: "const float their_part = ptx::exp2_approx(theirs[0] - highest);",
        wrong: "const float their_part = 1.0f;",
        class: "large",
        ..HOPPER_SPLIT
    },
    Fault {
        name: "hopper, split keys: the output is not rescaled when a running maximum is raised",
        right: "if (t > 0) rows.rescale_output();",
        wrong: "",
        class: "large",
        ..HOPPER_SPLIT
    },
    Fault {
        name: "hopper, FP8, promotion: the sums of a work tile are added to the next one, too",
        file: "hopper/rows_fp8.cuh",
        right: "add_promoted_times(factor);\n        }\n        clear_promoted_sums();",
        wrong: "add_promoted_times(factor);\n        }",
        problem: "b1h3sq40sk700d64-e4m3",
        knobs: &[
            ("BLOCK_N", "64"),
            ("TRANSPOSE", "inside"),
            ("PROMOTION_INTERVAL", "4"),
            ("PERSISTENT", "2"),
        ],
        ..HOPPER_FP8
    },
    Fault {
        name: "hopper, split keys: a tile is copied before the one before it is free",
        right: "            ptx::mbarrier_wait(copied_value_ring<FP8>(group).free(stage), parity);\n",
        wrong: "",
        detected: Detected::Found(&[Kind::Race]),
        ..HOPPER_SPLIT
    },
    Fault {
        name: "hopper, split keys, no maximum: weights that do not fit fp16 are not noticed",
        right: "if (tried) wrong = !compute_at_once(rows);",
        wrong: "if (tried) compute_at_once(rows);",
        class: "large",
        ..HOPPER_AT_ONCE
    },
    Fault {
        name: "hopper, split keys, no maximum: both warpgroups add up the upper rows",
        right: "(lane() % 16 ^ (swapped ? 8 : 0))",
        wrong: "lane() % 16",
        ..HOPPER_AT_ONCE
    },
    Fault {
        name: "hopper, split keys, no maximum: scores are read while the tensor cores compute them",
        right: "wgmma::groups_wait<BUFFERS - 1>();",
        wrong: "wgmma::groups_wait<BUFFERS>();",
        detected: Detected::Found(&[Kind::AsyncNotWaited]),
        ..HOPPER_AT_ONCE
    },
    Fault {
        name: "hopper, split keys, no maximum: weights of half the keys are not added up",
        right: "(s[2 * row] + s[2 * row + 1]) + (s[2 * row + 4] + s[2 * row + 5])",
        wrong: "s[2 * row] + s[2 * row + 1]",
        ..HOPPER_AT_ONCE_BF16
    },
    Fault {
        name: "hopper, split keys, no maximum: a sum of weights is that of one lane",
        right: "sum[1] = group_sum<4>(sum[1]);",
        wrong: "",
        ..HOPPER_AT_ONCE_BF16
    },
    Fault {
        name: "hopper, split keys, no maximum: bf16 sums beyond the limits are not noticed",
        right: "return sum >= SMALLEST_SUM && sum <= LARGEST_SUM;",
        wrong: "return true;",
        class: "large",
        ..HOPPER_AT_ONCE_BF16
    },
    Fault {
        name: "hopper: a tile of K is released while the tensor cores read it",
        right: "wgmma::groups_wait<1>();\n        scores_done(step);",
        wrong: "scores_done(step);\n        wgmma::groups_wait<1>();",
        detected: Detected::Found(&[Kind::Race]),
        ..HOPPER
    },
    Fault {
        name: "hopper, lazy maximum: no running maximum is raised",
        file: "hopper/rows.cuh",
        right: "fmaxf(step_sum[0], step_sum[1]) > limit",
        wrong: "false",
        ..HOPPER_LAZY
    },
    Fault {
        name: "hopper, lazy maximum: lost scores are not computed again",
        right: "if (rows.any_step_sum_above(SUM_WITHOUT_SCORES)) {",
        wrong: "if (false) {",
        ..HOPPER_LAZY
    },
    Fault {
        name: "hopper, lazy maximum: the scores of another step are computed again",
        right: "work.tile(step) * BLOCK_N);",
        wrong: "step * BLOCK_N);",
        ..HOPPER_LAZY
    },
    Fault {
        name: "hopper, lazy maximum: the output is not rescaled when scores are computed again",
        file: "hopper/rows.cuh",
        right: "move_running_max_for_scores(largest, smallest);\n        multiply_output(rescale_factor);",
        wrong: "move_running_max_for_scores(largest, smallest);",
        ..HOPPER_LAZY
    },
    Fault {
        name: "hopper, FP8, lazy maximum: weights above the largest number are not lowered",
        file: "hopper/rows_fp8.cuh",
        right: "unsigned fits = ~(codes + FIND_LARGEST);",
        wrong: "unsigned fits = HIGHEST_BITS;",
        ..HOPPER_FP8_LAZY
    },
    Fault {
        name: "hopper, FP8, lazy maximum: the output is not rescaled with the weights",
        file: "hopper/rows_fp8.cuh",
        right: "scores[i] *= rescale_factor[i / 2 % 2];\n        multiply_output(rescale_factor);",
        wrong: "scores[i] *= rescale_factor[i / 2 % 2];",
        ..HOPPER_FP8_LAZY
    },
    Fault {
        name: "hopper, FP8, lazy maximum: the sum of a step is not rescaled with its weights",
        file: "hopper/rows_fp8.cuh",
        right: "        step_sum[0] *= rescale_factor[0];\n",
        wrong: "",
        ..HOPPER_FP8_LAZY
    },
    Fault {
        name: "hopper, FP8, lazy maximum: weights are rescaled while the tensor cores add to the output",
        right: "if (misfit) __prof_trigger(0);",
        wrong: "if (misfit) return false;",
        detected: Detected::Found(&[Kind::AsyncNotWaited]),
        ..HOPPER_FP8_LAZY
    },
    Fault {
        name: "hopper, FP8, lazy maximum: warps of a warpgroup wait for products at different places",
        right: "if (misfit) __prof_trigger(0);",
        wrong: "if (misfit) {\n                output_done();\n                return false;\n            }",
        detected: Detected::Found(&[Kind::DivergentWarpOp]),
        ..HOPPER_FP8_LAZY
    },
    Fault {
        name: "hopper, FP8, lazy maximum: the residuals are the weights",
        file: "hopper/rows_fp8.cuh",
        right: "rounded_residuals[i] ^ zero",
        wrong: "rounded[i] ^ zero",
        class: "normal",
        knobs: &[("RUNNING_MAX", "lazy"), ("PING_PONG", "false"), ("RESIDUAL_BLOCKS", "2")],
        ..HOPPER_FP8_LAZY
    },
    Fault {
        name: "hopper, FP8, lazy maximum: residuals are those of the previous keys",
        file: "hopper/rows_fp8.cuh",
        right: "rounded_residuals[i] = residual(i / 4, i % 4, rounded[i]);",
        wrong: "rounded_residuals[i] = residual(i / 4, i % 4, weights[i]);",
        class: "normal",
        knobs: &[("RUNNING_MAX", "lazy"), ("PING_PONG", "false"), ("RESIDUAL_BLOCKS", "2")],
        ..HOPPER_FP8_LAZY
    },
    Fault {
        name: "hopper: the output is rescaled while the tensor cores add to it",
        right: "        output_done();\n        if constexpr (LATE)",
        wrong: "        rows.rescale_output();\n        output_done();\n        if constexpr (LATE)",
        class: "large",
        detected: Detected::Found(&[Kind::AsyncNotWaited]),
        ..HOPPER
    },
    Fault {
        name: "hopper: the output is not rescaled when a running maximum is raised",
        right: "if constexpr (!LAZY) rows.rescale_output();",
        wrong: "",
        class: "large",
        ..HOPPER
    },
    Fault {
        name: "hopper: the keys beyond the last are not masked",
        right: "cap();\n        if (has_masked_keys(step)) mask(step);",
        wrong: "cap();",
        ..HOPPER
    },
    Fault {
        name: "hopper: the next work tile adds to the output of the one before",
        right: "rows.clear_output();\n        rows.round_weights();",
        wrong: "rows.round_weights();",
        knobs: &[("PERSISTENT", "2")],
        problem: "b1h3s130d64-fp16",
        ..HOPPER
    },
    Fault {
        name: "hopper: the output is read from shared memory before all lanes have written it",
        file: "hopper/rows_16bit.cuh",
        right: "            __syncwarp();\n#pragma unroll\n            for (int i = 0; i < 4; ++i) {\n                const int row",
        wrong: "#pragma unroll\n            for (int i = 0; i < 4; ++i) {\n                const int row",
        detected: Detected::Found(&[Kind::Race]),
        ..HOPPER
    },
    Fault {
        name: "hopper: the queries are never released",
        right: "QueryRing{}.release(q, step == end_step() - 1);",
        wrong: "",
        knobs: &[("PERSISTENT", "2")],
        problem: "b1h3s130d64-fp16",
        detected: Detected::Found(&[Kind::Deadlock]),
        ..HOPPER
    },
    Fault {
        name: "no barrier between writing and reading the scores",
        right: "scores_from(q, k);\n        compute_sync();",
        wrong: "scores_from(q, k);",
        preset: "stage-2",
        problem: "b1h1s40d64-fp16",
        detected: Detected::Found(&[Kind::Race]),
        ..WMMA
    },
    Fault {
        name: "the output is not rescaled when the maximum rises",
        right: "multiply(row_correction());",
        wrong: "",
        preset: "stage-2",
        problem: "b1h1s70d64-fp16",
        detected: Detected::Wrong,
        ..WMMA
    },
    Fault {
        name: "the sum is not rescaled when the maximum rises",
        right: "state.sum *= correction;",
        wrong: "",
        preset: "stage-c",
        problem: "b1h1s70d64-fp16",
        detected: Detected::Named("lse"),
        ..WMMA
    },
    Fault {
        name: "a rescale by exp(m - m)",
        right: "const float correction = ptx::exp2_approx(state.maximum - origin);",
        wrong: "const float correction = ptx::exp2_approx(exponent_origin(largest) - origin);",
        preset: "stage-4",
        problem: "b1h1s70d64-fp16",
        detected: Detected::Wrong,
        ..WMMA
    },
    Fault {
        name: "the mask hides the diagonal",
        file: "common/arguments.cuh",
        right: "query + args.diagonal + 1",
        wrong: "query + args.diagonal",
        preset: "stage-1",
        problem: "b1h1s33d64-causal-fp16",
        detected: Detected::Wrong,
        ..WMMA
    },
    Fault {
        name: "the mask shows one key too many",
        file: "common/arguments.cuh",
        right: "query + args.diagonal + 1",
        wrong: "query + args.diagonal + 2",
        preset: "stage-5-p1",
        problem: "b1h1sq33sk65d64-causal-e4m3",
        detected: Detected::Wrong,
        ..WMMA
    },
    Fault {
        name: "the scale of V instead of that of K",
        right: "attention::head_scale(args.k_scale,",
        wrong: "attention::head_scale(args.v_scale,",
        preset: "stage-c",
        problem: "b1h2s33d64-e4m3",
        detected: Detected::Wrong,
        ..WMMA
    },
    Fault {
        name: "the output registers are not cleared",
        right: "        output.clear();\n",
        wrong: "",
        preset: "stage-c",
        problem: "b1h1s33d64-fp16",
        detected: Detected::Found(&[Kind::Uninitialised]),
        ..WMMA
    },
    Fault {
        name: "query tiles counted from one",
        right: "(blocks - 1 - index % blocks) * BLOCK_M",
        wrong: "(blocks - index % blocks) * BLOCK_M",
        preset: "stage-2",
        problem: "b1h1s65d64-fp16",
        detected: Detected::Named("unwritten"),
        ..WMMA
    },
    Fault {
        name: "the last work tile is left out",
        right: "index < work_tiles(args);",
        wrong: "index < work_tiles(args) - 1;",
        preset: "stage-5-persistent",
        problem: "b1h2s65d64-fp16",
        detected: Detected::Found(&[Kind::UnwrittenOutput]),
        ..WMMA
    },
    Fault {
        name: "the current step is copied again instead of the next",
        right: "start_copies(k, v, next, next % STAGES)",
        wrong: "start_copies(k, v, step, next % STAGES)",
        preset: "stage-3",
        problem: "b1h1s129d64-fp16",
        detected: Detected::Wrong,
        ..WMMA
    },
    Fault {
        name: "copies are not waited for",
        right: "ptx::copy_groups_wait<PIPELINED ? STAGES - 2 : 0>();",
        wrong: "",
        preset: "stage-1",
        problem: "b1h1s70d64-fp16",
        detected: Detected::Found(&[Kind::AsyncNotWaited]),
        ..WMMA
    },
    Fault {
        name: "a constant output",
        right: "pair_of(x[2 * i], x[2 * i + 1], to)",
        wrong: "pair_of(0.0f * x[2 * i] + 0.25f, 0.25f, to)",
        preset: "stage-c",
        problem: "b1h1s33d64-fp16",
        detected: Detected::Named("constant"),
        ..WMMA
    },
    Fault {
        name: "an output that does not depend on V",
        right: "static_cast<const Element*>(args.v)",
        wrong: "static_cast<const Element*>(args.k)",
        preset: "stage-4",
        problem: "b1h1s33d64-fp16",
        detected: Detected::Wrong,
        ..WMMA
    },
    Fault {
        name: "a fully masked row divides by its sum of zero",
        file: "common/softmax.cuh",
        right: "row_sum > 0.0f ? v_scale / row_sum : 0.0f",
        wrong: "v_scale / row_sum",
        preset: "stage-2",
        problem: "b1h1sq40sk20d64-causal-fp16",
        detected: Detected::Named("non-finite"),
        ..WMMA
    },
    Fault {
        name: "a row that has seen nothing subtracts -inf from -inf",
        file: "common/softmax.cuh",
        right: "row_maximum == negative_infinity() ? 0.0f : row_maximum",
        wrong: "row_maximum",
        preset: "stage-5-p2",
        problem: "b1h1sq40sk20d64-causal-fp16",
        detected: Detected::Named("non-finite"),
        ..WMMA
    },
    Fault {
        name: "an mbarrier that waits for a warp too many",
        right: "ptx::mbarrier_init(emptied(slot), COMPUTE_WARPS);",
        wrong: "ptx::mbarrier_init(emptied(slot), COMPUTE_WARPS + 1);",
        preset: "stage-5-p1",
        problem: "b1h1s200d64-fp16",
        detected: Detected::Found(&[Kind::Deadlock]),
        ..WMMA
    },
    Fault {
        name: "the parity of the ring is never flipped",
        right: "parity ^= 1;",
        wrong: "",
        preset: "stage-5-p2",
        problem: "b1h1s200d64-fp16",
        detected: Detected::Found(&[Kind::Race, Kind::AsyncNotWaited, Kind::Deadlock]),
        ..WMMA
    },
    Fault {
        name: "producers number their threads within the whole block",
        right: "const int thread = threadIdx.x - COMPUTE_THREADS;",
        wrong: "const int thread = threadIdx.x;",
        preset: "stage-5-p2",
        problem: "b1h1s33d64-fp16",
        detected: Detected::Found(&[Kind::Uninitialised]),
        ..WMMA
    },
    Fault {
        name: "rows past the last query are written",
        right: "if (own_row() >= rows) return;",
        wrong: "",
        preset: "stage-1",
        problem: "b1h1s33d64-fp16",
        detected: Detected::Found(&[Kind::OutOfBounds]),
        ..WMMA
    },
    Fault {
        name: "rows past the last key are read",
        file: "common/tiles.cuh",
        right: "if (row >= rows.count) return make_uint4(0, 0, 0, 0);",
        wrong: "",
        preset: "stage-c",
        problem: "b1h1s33d64-fp16",
        detected: Detected::Found(&[Kind::OutOfBounds]),
        ..WMMA
    },
    Fault {
        name: "query heads assigned to KV heads in turn",
        file: "common/arguments.cuh",
        right: "return args.kv_head_factor == 0 ? head : __umulhi(head, args.kv_head_factor);",
        wrong: "return head % args.kv_heads;",
        preset: "stage-c",
        problem: "b1h4kv2s33d64-fp16",
        detected: Detected::Wrong,
        ..WMMA
    },
    Fault {
        name: "a log-sum-exp in base 2",
        file: "common/softmax.cuh",
        right: "(row_maximum + log2f(row_sum)) * LN_2",
        wrong: "(row_maximum + log2f(row_sum))",
        preset: "stage-c",
        problem: "b1h1s33d64-fp16",
        detected: Detected::Named("lse"),
        ..WMMA
    },
    Fault {
        name: "V is used before its copy has finished",
        right: "await_v(int t) const { await(v_barrier(t), STAGES + t % STAGES); }",
        wrong: "await_v(int) const {}",
        problem: "b1h1s200d64-fp16",
        detected: Detected::Found(&[Kind::AsyncNotWaited]),
        ..MMA
    },
    Fault {
        name: "a tile is reported complete before its copies start",
        right: "        copier.template copy<true>(tile, BLOCK_N, group_thread());\n",
        wrong: "        ptx::mbarrier_arrive_after_copies(barrier);\n        \
                copier.template copy<true>(tile, BLOCK_N, group_thread());\n        \
                copier.move(-GROUPS * BLOCK_N);\n        return;\n",
        knobs: &[("LOOK_AHEAD", "true"), ("NUM_WARPS", "8"), ("STAGES", "3")],
        problem: "b1h1s260d64-fp16",
        detected: Detected::Found(&[Kind::AsyncNotWaited]),
        ..MMA
    },
    Fault {
        name: "barriers are used before their initialisation is visible",
        right: "        init_barriers();\n        __syncthreads();\n",
        wrong: "        init_barriers();\n",
        problem: "b1h1s200d64-fp16",
        detected: Detected::Found(&[Kind::Race]),
        ..MMA
    },
    Fault {
        name: "V is refilled while other warps still read it",
        right: "    __device__ void replace_v(int t) {\n        group_sync(group);\n",
        wrong: "    __device__ void replace_v(int t) {\n",
        knobs: &[("STAGES", "1")],
        problem: "b1h1s200d64-fp16",
        detected: Detected::Found(&[Kind::Race]),
        ..MMA
    },
    Fault {
        name: "the last keys are copied without a bounds check",
        right: "copier.template copy<false>(tile, rows,",
        wrong: "copier.template copy<true>(tile, rows,",
        problem: "b1h1s33d64-fp16",
        detected: Detected::Found(&[Kind::OutOfBounds]),
        ..MMA
    },
    Fault {
        name: "the output is not rescaled when a score exceeds the maximum",
        file: "mma/rows.cuh",
        right: "output[strip][block][i % 4] *= correction[strip][i % 4 / 2];",
        wrong: "output[strip][block][i % 4] *= 1.0f;",
        problem: "b1h1s200d64-fp16",
        class: "large",
        ..MMA
    },
    Fault {
        name: "the groups' outputs are added without regard to their maxima",
        right: "ptx::exp2_approx(origin[g][half] - highest);",
        wrong: "1.0f;",
        preset: "small",
        problem: "b1h1s260d64-fp16",
        ..MMA
    },
    Fault {
        name: "the groups' outputs are added before they are complete",
        right: "    ptx::named_barrier_sync<GROUPS * 32>(meeting);\n",
        wrong: "",
        preset: "small",
        problem: "b1h1s260d64-fp16",
        detected: Detected::Found(&[Kind::Race]),
        ..MMA
    },
    Fault {
        name: "tiles are written swizzled and read unswizzled",
        file: "common/chunks.cuh",
        right: "(Tile::twist(row) ^ odd) * 16), start",
        wrong: "odd * 16), start",
        ..MMA
    },
    Fault {
        name: "steps on the diagonal are treated as unmasked",
        file: "mma/work.cuh",
        right: "masked = steps - seen_by_all / BLOCK_N;",
        wrong: "masked = 0;",
        problem: "b1h1s128d64-causal-fp16",
        ..MMA
    },
    Fault {
        name: "row sums of one lane instead of its quad",
        file: "mma/rows_16bit.cuh",
        right: "group_sum<4>(sum[i / 2][i % 2])",
        wrong: "sum[i / 2][i % 2]",
        problem: "b1h1s100d64-bf16",
        detected: Detected::Named("lse"),
        ..MMA
    },
    Fault {
        // The first output is right. Later outputs are for changed inputs and are not counted as wrong.
        name: "queries are negated in place",
        family: "reference",
        file: "reference/kernel.cu",
        right: "d += THREADS) query[d] = to_float(q[d]);",
        wrong: "d += THREADS) { query[d] = to_float(q[d]); const_cast<Element&>(q[d]) = __float2half(-query[d]); }",
        preset: "default",
        problem: "b1h1s20d64-fp16",
        detected: Detected::Only("changed-input"),
        ..MMA
    },
    Fault {
        name: "the sums of weights are not rescaled when a score exceeds the maximum",
        file: "mma/rows.cuh",
        right: "sum[i / 2][i % 2] *= correction[i / 2][i % 2];",
        wrong: "",
        problem: "b1h1s200d64-fp16",
        class: "large",
        ..MMA
    },
    Fault {
        name: "FP8 values are in another order than their weights",
        file: "mma/rows_fp8.cuh",
        right: "__byte_perm(r[0], r[1], 0x6420)",
        wrong: "__byte_perm(r[0], r[1], 0x5410)",
        preset: "rows16-stages2",
        problem: "b1h1s64d64-e4m3",
        ..MMA
    },
    Fault {
        name: "FP8 weights that use a fraction of the format's range",
        file: "mma/rows_fp8.cuh",
        right: "constexpr float WEIGHT_SHIFT = FP8_WEIGHTS ? 8.0f : 0.0f;",
        wrong: "constexpr float WEIGHT_SHIFT = FP8_WEIGHTS ? -6.0f : 0.0f;",
        preset: "rows16-stages2",
        problem: "b1h1s200d64-e4m3",
        chip: "l4",
        detected: Detected::Named("l2"),
        ..MMA
    },
];

/// Checks the kernel with the fault. Returns a description if the fault was not detected as expected.
fn undetected(fault: &Fault) -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let catalog =
        changed_kernels("attention", fault.family, (fault.file, fault.right, fault.wrong), folder.path());
    let family = catalog.family(fault.family).expect("the family");
    let knobs = fault.knobs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let subject = CheckSubject { family, preset: Some(fault.preset.to_owned()), knobs };
    let case = Case {
        problem: problem(fault.problem),
        cut_from: Vec::new(),
        class: fault.class.to_owned(),
        seed: 5,
        depth: Depth::Full,
        search: 0,
    };
    let groups = vec![CheckGroup { subjects: vec![subject], cases: vec![case] }];
    let chip = Chip::by_name(fault.chip).expect("a chip of the table");
    let plan = CheckPlan { device: Device::Virtual { chip }, groups };
    let stop = AtomicBool::new(false);
    let make = |_| Ok(Box::new(device(chip.id)) as Box<dyn CheckDevice>);
    let bench = CheckEnvironment {
        compiler: compiler(),
        device: &make,
        threads: 1,
        searched: &|_| (),
        failures: check::FailurePolicy::default(),
        stop: &stop,
    };
    let verdicts = check::run(&Attention, &plan, &bench, &|_| ()).expect("a thread");
    let [verdict] = verdicts.as_slice() else { panic!("{}: {} verdicts", fault.name, verdicts.len()) };
    (!fault.detected.by(verdict)).then(|| format!("{}: {:?}", fault.name, verdict.outcome))
}

#[test]
fn every_planted_fault_is_detected() {
    let next = AtomicUsize::new(0);
    let work = || -> Vec<String> {
        let faults = std::iter::from_fn(|| FAULTS.get(next.fetch_add(1, Ordering::Relaxed)));
        faults.filter_map(undetected).collect()
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let undetected: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a fault that is planted")).collect()
    });
    assert!(undetected.is_empty(), "not detected as expected:\n{}", undetected.join("\n"));
}
