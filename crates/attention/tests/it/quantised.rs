//! FP8 attention from fp16 and bf16 tensors on the virtual GPU: every way to quantise, and wrong arguments.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

use warpsmith_attention::forward::{
    Buffer, Device, Options, Quantisation, ScaledPart, Scales, Tensors, Time, View,
};
use warpsmith_attention::fp8_study::{Study, StudyClass, StudyRow};
use warpsmith_attention::metrics;
use warpsmith_attention::oracle::{self, Rows};
use warpsmith_attention::tensor::Strides;
use warpsmith_attention::{Class, Dtype, Inputs, Layout, Problem, Shape, Tensor};

use crate::common::{new_compiler, problem};

const WAYS: [Quantisation; 4] = [
    Quantisation { scales: ScaledPart::Head, rotate: false, output: None },
    Quantisation { scales: ScaledPart::Head, rotate: true, output: None },
    Quantisation { scales: ScaledPart::Block, rotate: false, output: None },
    Quantisation { scales: ScaledPart::Block, rotate: true, output: None },
];

fn device(chip: &str) -> Device {
    Device::virtual_gpu(chip).unwrap().with_compiler(new_compiler())
}

fn rows(device: &Device, problem: &Problem, class: StudyClass, ways: &[Quantisation]) -> Vec<StudyRow> {
    let study = Study::new(device, problem, class, 11).unwrap();
    let row = |way: &Quantisation| study.row(Some(*way)).unwrap_or_else(|error| panic!("{problem}: {error}"));
    let rows = ways.iter().map(row).collect();
    study.close().unwrap();
    rows
}

/// The error of three fraction bits in Q, K, V and the weights is about 5%; a wrong scale or rotation is an error of order
/// one.
#[test]
fn every_way_to_quantise_gives_attention() {
    let device = device("h200");
    for (name, ways) in [
        ("b1h2kv1sq70sk200d64-causal-fp16", &WAYS[..]),
        ("b1h1sq20sk130d128-bf16", &WAYS[1..3]),
        ("b1h1sq20sk100d256-fp16", &WAYS[3..]),
    ] {
        for row in rows(&device, &problem(name), StudyClass::Normal, ways) {
            assert!(row.relative_l2 > 0.01 && row.relative_l2 < 0.08, "{name}: {row:?}");
            let (Some(Time::Modelled(first)), Time::Modelled(second)) = (row.quantise, row.attention) else {
                panic!("{row:?}")
            };
            assert!(first.0 > 0.0 && second.0 > 0.0 && row.total.micros() > first.0, "{row:?}");
        }
    }
}

#[test]
fn the_sums_of_many_keys_have_scales_per_block_too() {
    // 22 steps of 96 keys are added to the sums at a time.
    let problem = problem("b1h1sq16sk2500d128-fp16");
    let block = Quantisation { scales: ScaledPart::Block, rotate: true, output: None };
    for row in rows(&device("h200"), &problem, StudyClass::Outliers, &[block]) {
        assert!(row.relative_l2 < 0.3 && row.kernel.contains("BLOCK_SCALES=true"), "{row:?}");
    }
}

/// The values that the first rows see are small, and later ones are large. A common scale makes the small ones zeros.
#[test]
fn a_scale_per_block_keeps_the_values_of_small_blocks() {
    let device = device("h200");
    let problem = problem("b1h1s256d64-causal-fp16");
    let mut inputs = Inputs::generate(&problem, Class::Normal, 3);
    for (key, row) in inputs.v.data.chunks_exact_mut(64).enumerate() {
        let factor = if key < 128 { 0.01 } else { 5000.0 };
        for value in row {
            *value *= factor;
        }
    }
    let encoded = inputs.encode(problem.dtype, Layout::Bhsd);
    let wanted = oracle::attention(&problem, &encoded.decode(), Rows::all(&problem)).output;
    let buffers = [&encoded.q, &encoded.k, &encoded.v].map(|it| device.upload("x", &it.bytes).unwrap());
    let error = |way: Quantisation| -> f64 {
        let plan = device.quantised_plan(&problem, way).unwrap();
        let (tensors, options, o) = memory(&device, &problem, buffers, plan.workspace_bytes());
        plan.launch(&tensors, &options).unwrap();
        let blank = Tensor::poisoned(problem.query_shape(), Dtype::Fp16, Layout::Bhsd);
        let output = Tensor { bytes: device.read(o).unwrap(), ..blank }.decode().data;
        let first: Vec<f64> = output[..64 * 64].iter().map(|it| f64::from(*it)).collect();
        metrics::relative_l2(&first, &wanted[..64 * 64])
    };
    let (head, block) = (error(WAYS[0]), error(WAYS[2]));
    assert!(head > 0.5 && block < 0.08, "{head} {block}");
}

fn memory(
    device: &Device,
    problem: &Problem,
    [q, k, v]: [Buffer; 3],
    workspace: u64,
) -> (Tensors, Options, Buffer) {
    let o = device.allocate("o", 2 * problem.query_shape().elements() as u64).unwrap();
    let workspace = Some(device.allocate("workspace", workspace).unwrap());
    let (queries, keys) = (problem.query_shape(), problem.key_shape());
    let view = |buffer: Buffer, dtype, shape: Shape| {
        View::bhsd(buffer.address, dtype, [shape.batch, shape.heads, shape.seq, shape.head_dim])
    };
    let tensors = Tensors {
        q: view(q, problem.dtype, queries),
        k: view(k, problem.dtype, keys),
        v: view(v, problem.dtype, keys),
        o: view(o, Dtype::Fp16, queries),
    };
    (tensors, Options { mask: problem.mask, workspace, ..Options::default() }, o)
}

#[test]
fn other_gpus_have_scales_per_head_only() {
    let device = device("l4");
    let problem = problem("b1h2s65d64-causal-fp16");
    for row in rows(&device, &problem, StudyClass::Sink, &WAYS[..2]) {
        assert!(row.relative_l2 < 0.08 && row.kernel.starts_with("mma"), "{row:?}");
    }
    let refused = device.quantised_plan(&problem, WAYS[2]).unwrap_err().to_string();
    assert_eq!(refused, "the kernels of mma, which this GPU runs, have scales per head only");
}

#[test]
fn empty_tensors_need_no_quantiser() {
    let device = device("h200");
    for (queries, keys) in [(0, 16), (3, 0)] {
        let problem = Problem { seq_q: queries, seq_k: keys, ..problem("b1h1s16d64-fp16") };
        let plan = device.quantised_plan(&problem, WAYS[2]).unwrap();
        let inputs = [0, 1, 2].map(|_| device.upload("x", &[0; 2 * 16 * 64]).unwrap());
        let (tensors, options, o) = memory(&device, &problem, inputs, plan.workspace_bytes());
        plan.launch(&tensors, &options).unwrap();
        assert_eq!(device.read(o).unwrap(), vec![0; 2 * 64 * queries]);
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let device = device("h200");
    let given = problem("b1h2s16d64-fp16");
    let error = |problem: &str, way: Quantisation| {
        device.quantised_plan(&self::problem(problem), way).unwrap_err().to_string()
    };
    assert_eq!(error("b1h2s16d64-e4m3", WAYS[0]), "q: its type is e4m3 already, but must be fp16 or bf16");
    assert_eq!(error("b1h2s16d80-fp16", WAYS[1]), "q: head_dim is 80, but a rotation needs a power of two");
    let plan = device.quantised_plan(&given, WAYS[0]).unwrap();
    let inputs = [0, 1, 2].map(|_| device.allocate("x", 2 * 2 * 16 * 64).unwrap());
    let (tensors, options, _) = memory(&device, &given, inputs, plan.workspace_bytes());
    let refused =
        |tensors: &Tensors, options: &Options| plan.launch(tensors, options).unwrap_err().to_string();
    let by_position = Strides { batch: 2048, head: 64, sequence: 128 };
    let strided = Tensors { k: View { strides: by_position, ..tensors.k }, ..tensors };
    assert_eq!(
        refused(&strided, &options),
        "k: it must be contiguous, [batch, heads, sequence, head_dim]; copy it first"
    );
    let bf16 = Tensors { v: View { dtype: Dtype::Bf16, ..tensors.v }, ..tensors };
    assert_eq!(refused(&bf16, &options), "v: its shape or type is not that of b1h2s16d64-fp16");
    let scales = Scales { q: Some(256), ..Scales::default() };
    assert_eq!(
        refused(&tensors, &Options { scales, ..options }),
        "scales: the plan computes the scales itself"
    );
    let none = Options { workspace: None, ..options };
    assert!(refused(&tensors, &none).starts_with("workspace: it has 0 bytes, but "));
}
