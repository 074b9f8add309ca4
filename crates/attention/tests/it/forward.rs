//! `forward` on the virtual GPU, against the oracle: strides, masks, types, empty tensors, wrong arguments.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

use warpsmith_attention::forward::{Device, ForwardError, Options, Scales, Stream, Tensors, View, forward};
use warpsmith_attention::metrics::{Tolerance, Weights, compare};
use warpsmith_attention::oracle::{self, Rows};
use warpsmith_attention::tensor::Strides;
use warpsmith_attention::{Class, Dtype, Inputs, Layout, Mask, Problem, Shape, Tensor};

use crate::common::new_compiler;

fn device(chip: &str) -> Device {
    Device::virtual_gpu(chip).unwrap().with_compiler(new_compiler())
}

/// How a test lays a tensor out: the strides for its shape, and bytes before its first element.
type Arrange = fn(Shape) -> (Strides, usize);

fn bhsd(shape: Shape) -> (Strides, usize) {
    (Layout::Bhsd.strides(shape), 0)
}

fn bshd(shape: Shape) -> (Strides, usize) {
    (Layout::Bshd.strides(shape), 0)
}

/// The second of three tensors that a projection wrote side by side: `[batch, seq, 3, heads, head_dim]`.
fn packed(shape: Shape) -> (Strides, usize) {
    let row = 3 * shape.heads * shape.head_dim;
    let strides = Strides { batch: shape.seq * row, head: shape.head_dim, sequence: row };
    (strides, 2 * shape.heads * shape.head_dim)
}

/// Rows with gaps, heads before batch entries.
fn gaps(shape: Shape) -> (Strides, usize) {
    let sequence = shape.head_dim + 16;
    let batch = shape.seq * sequence + 32;
    (Strides { batch, head: shape.batch * batch, sequence }, 64)
}

/// The rows of a tensor in the order of `Layout::Bhsd`, as places in memory in bytes.
fn rows(shape: Shape, strides: Strides, element: usize) -> Vec<usize> {
    let mut rows = Vec::new();
    for batch in 0..shape.batch {
        for head in 0..shape.heads {
            for seq in 0..shape.seq {
                let at = batch * strides.batch + head * strides.head + seq * strides.sequence;
                rows.push(at * element);
            }
        }
    }
    rows
}

/// Memory for a tensor, and its view. All bytes between the rows are those of a NaN.
fn memory(
    device: &Device,
    label: &str,
    tensor: &Tensor,
    arrange: Arrange,
) -> (gpu::accelerator::Buffer, View) {
    let (strides, before) = arrange(tensor.shape);
    let element = tensor.dtype.bytes();
    let row = tensor.shape.head_dim * element;
    let places = rows(tensor.shape, strides, element);
    let end = places.iter().max().map_or(0, |last| last + row);
    let mut bytes = vec![0xff; before + end];
    for (place, row_bytes) in places.iter().zip(tensor.bytes.chunks(row)) {
        bytes[before + place..before + place + row].copy_from_slice(row_bytes);
    }
    let buffer = device.upload(label, &bytes).unwrap();
    let address = buffer.address + before as u64;
    (buffer, View { address, dtype: tensor.dtype, shape: tensor.shape, strides })
}

/// Runs a problem with a layout and compares output and log-sum-exp with the oracle.
fn check(device: &Device, name: &str, arrange: Arrange, scale: Option<f32>) {
    let problem: Problem = name.parse().unwrap();
    let mut inputs = Inputs::generate(&problem, Class::Normal, 7);
    // The oracle has the usual scale, so another one is put into the queries. Powers of two are exact.
    let factor = scale.map_or(1.0, |scale| scale / problem.softmax_scale());
    let encoded = inputs.encode(problem.dtype, Layout::Bhsd);
    inputs.q.data.iter_mut().for_each(|value| *value *= factor);
    let reference_inputs = inputs.encode(problem.dtype, Layout::Bhsd).decode();

    let (_, q) = memory(device, "q", &encoded.q, arrange);
    let (_, k) = memory(device, "k", &encoded.k, arrange);
    let (_, v) = memory(device, "v", &encoded.v, arrange);
    let blank = Tensor::poisoned(problem.query_shape(), problem.output, Layout::Bhsd);
    let (out, o) = memory(device, "o", &blank, arrange);
    let lse = device.allocate("lse", 4 * problem.query_shape().rows() as u64).unwrap();
    let upload = |label: &str, scales: &Option<Vec<f32>>| {
        let bytes: Vec<u8> = scales.as_ref()?.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        Some(device.upload(label, &bytes).unwrap().address)
    };
    let scales = Scales {
        q: upload("q_scale", &encoded.q.scales),
        k: upload("k_scale", &encoded.k.scales),
        v: upload("v_scale", &encoded.v.scales),
    };
    let options = Options { mask: problem.mask, scale, lse: Some(lse.address), scales, ..Options::default() };
    forward(device, q, k, v, o, &options).unwrap_or_else(|error| panic!("{name}: {error}"));

    let bytes = device.read(out).unwrap();
    let (start, row) = ((o.address - out.address) as usize, problem.head_dim * o.dtype.bytes());
    let places = rows(o.shape, o.strides, o.dtype.bytes());
    let bytes = places.iter().flat_map(|place| bytes[start + place..start + place + row].iter().copied());
    let output = Tensor { bytes: bytes.collect(), ..blank };
    let lse: Vec<f32> =
        device.read(lse).unwrap().chunks(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect();
    let reference = oracle::attention(&problem, &reference_inputs, Rows::all(&problem));
    let mut tolerance = Tolerance::new(problem.dtype, Weights::Half);
    if problem.dtype == Dtype::E4m3 {
        tolerance = Tolerance::new(problem.dtype, Weights::Fp8).with_fp8_sums();
    }
    let comparison = compare(&reference, &output, Some(&lse), tolerance.with_output_of(&problem));
    assert!(comparison.passed(), "{name}: {comparison:?}");
}

#[test]
fn any_strides_give_the_right_result() {
    let device = device("h200");
    let layouts: [Arrange; 4] = [bhsd, bshd, packed, gaps];
    for arrange in layouts {
        check(&device, "b2h4s70d64-fp16", arrange, None);
    }
    check(&device, "b2h2s130d128-causal-bf16", packed, None);
    check(&device, "b1h4kv2sq33sk65d80-causal-fp16", gaps, None);
}

#[test]
fn masks_types_and_scales_are_applied() {
    let device = device("h200");
    for name in
        ["b1h2sq33sk70d64-causal-fp16", "b1h2sq33sk70d64-causal-tl-bf16", "b1h2sq70sk33d64-causal-fp16"]
    {
        check(&device, name, bshd, Some(0.25));
    }
    check(&device, "b1h4kv2s65d64-causal-e4m3", gaps, None);
    check(&device, "b1h2s65d128-e4m3", bshd, None);
    check(&device, "b1h4kv2s65d64-causal-e4m3-obf16", gaps, None);
}

#[test]
fn a_gpu_without_tensor_copies_works_too() {
    check(&device("l4"), "b2h2s65d64-causal-fp16", gaps, None);
}

fn views(device: &Device, problem: &Problem) -> Tensors {
    let tensor = |label: &str, shape: Shape, dtype: Dtype| {
        let buffer = device.allocate(label, (shape.elements() * dtype.bytes()) as u64).unwrap();
        View { address: buffer.address, dtype, shape, strides: Layout::Bhsd.strides(shape) }
    };
    Tensors {
        q: tensor("q", problem.query_shape(), problem.dtype),
        k: tensor("k", problem.key_shape(), problem.dtype),
        v: tensor("v", problem.key_shape(), problem.dtype),
        o: tensor("o", problem.query_shape(), problem.output),
    }
}

#[test]
fn no_keys_give_zeros_and_no_queries_give_nothing() {
    let device = device("h200");
    let problem: Problem = "b1h2sq33sk1d64-fp16".parse().unwrap();
    let without_keys = Problem { seq_k: 0, ..problem };
    let tensors = views(&device, &without_keys);
    forward(&device, tensors.q, tensors.k, tensors.v, tensors.o, &Options::default()).unwrap();
    let bytes = 2 * tensors.o.shape.elements() as u64;
    let output = device.read(gpu::accelerator::Buffer { address: tensors.o.address, bytes }).unwrap();
    assert!(output.iter().all(|&byte| byte == 0));
    for empty in [Problem { seq_q: 0, ..problem }, Problem { batch: 0, ..problem }] {
        let tensors = views(&device, &empty);
        let plan = device.plan_for(&tensors, Mask::None).unwrap();
        assert_eq!((plan.kernel(), plan.workspace_bytes()), ("", 0));
        plan.launch(&tensors, &Options::default()).unwrap();
    }
}

#[test]
fn a_plan_is_made_once_and_serves_other_tensors_of_its_shape() {
    let device = device("h200");
    let problem: Problem = "b1h2s65d64-fp16".parse().unwrap();
    let plan = device.plan(&problem).unwrap();
    assert!(std::sync::Arc::ptr_eq(&plan, &device.plan(&problem).unwrap()));
    assert!(plan.kernel().starts_with("mma ") || plan.kernel().starts_with("hopper "), "{}", plan.kernel());
    let other = views(&device, &Problem { seq_q: 64, ..problem });
    let error = plan.launch(&other, &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "q: these tensors have another shape than those of the plan");
}

/// The name of an argument that is refused, and what is wrong with it.
fn refusal(change: impl FnOnce(&mut Tensors, &mut Options)) -> String {
    let device = device("h200");
    let mut tensors = views(&device, &"b2h4kv2s64d64-fp16".parse().unwrap());
    let mut options = Options { stream: Stream(0), ..Options::default() };
    change(&mut tensors, &mut options);
    let Tensors { q, k, v, o } = tensors;
    match forward(&device, q, k, v, o, &options) {
        Err(error @ (ForwardError::Argument { .. } | ForwardError::Unsupported(_))) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn wrong_arguments_are_refused_by_name() {
    assert_eq!(refusal(|it, _| it.k.dtype = Dtype::Bf16), "k: its type is bf16, but that of q is fp16");
    assert_eq!(
        refusal(|it, _| it.o.dtype = Dtype::Bf16),
        "o: its type is bf16, but for inputs in fp16 it is fp16"
    );
    assert_eq!(
        refusal(|it, _| {
            it.k.shape.heads = 3;
            it.v.shape.heads = 3;
        }),
        "k: q has 4 heads, which is not a multiple of its 3 heads"
    );
    assert_eq!(refusal(|it, _| it.v.shape.seq = 63), "v: its shape differs from that of k");
    assert_eq!(refusal(|it, _| it.q.shape.batch = 1), "k: its batch is 2, but that of q is 1");
    assert_eq!(refusal(|it, _| it.o = View { dtype: Dtype::Fp16, ..it.q }), "o: it overlaps q");
    assert_eq!(
        refusal(|_, options| options.scale = Some(-1.0)),
        "scale: it is -1, but must be a finite number above 0"
    );
    assert!(refusal(|_, options| options.scale = Some(f32::NAN)).starts_with("scale: it is NaN"));
    let small = |it: &mut Tensors, _: &mut Options| {
        for view in [&mut it.q, &mut it.k, &mut it.v, &mut it.o] {
            view.shape.head_dim = 48;
        }
    };
    assert_eq!(refusal(small), "q: head_dim is 48, but must be one of 64, 80, 96, 128, 256");
    assert_eq!(
        refusal(|it, _| it.k.strides.sequence = 65),
        "k: the stride of sequence is 65, but must be a multiple of 8 elements"
    );
}
