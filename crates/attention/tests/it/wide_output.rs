//! FP8 attention with a bf16 output: every family, rounding, and values beyond the range of fp16.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

use chips::Target;
use family::Catalog;
use op::Kernel;
use random::Random;
use warpsmith_attention::forward::{
    Device, Options, Quantisation, ScaledPart, Scales, Tensors, View, forward,
};
use warpsmith_attention::{Class, Dtype, Inputs, Layout, Problem, Tensor, run};

use crate::common::{compiler, complaints, device as virtual_device, is_on_gpu, new_compiler, problem};

fn device(chip: &str) -> Device {
    let device = if is_on_gpu() { Device::cuda(0) } else { Device::virtual_gpu(chip) };
    device.unwrap().with_compiler(new_compiler())
}

/// Presets that store their output in different ways, and those whose sums are in the memory of the output.
#[test]
fn every_family_stores_bf16() {
    let catalog = Catalog::load(None).unwrap();
    for (family, preset, chip, target, problems) in [
        ("reference", "default", "h200", Target::Sm90, &["b1h2s17d64-causal", "b1h2kv1s20d96"][..]),
        ("wmma", "stage-c", "l4", Target::Sm89, &["b1h2sq17sk65d64-causal"]),
        ("wmma", "stage-3", "l4", Target::Sm89, &["b1h4kv2s65d128"]),
        ("mma", "small", "l4", Target::Sm89, &["b1h4kv2s65d64-causal"]),
        ("mma", "rows16", "l4", Target::Sm89, &["b1h1s70d80", "b1h1s33d256"]),
        ("hopper", "fp8-d64", "h200", Target::Sm90a, &["b1h2kv1s129d64-causal"]),
        ("hopper", "fp8-split", "h200", Target::Sm90a, &["b1h2s70d64"]),
        ("hopper", "fp8-d128", "h200", Target::Sm90a, &["b1h1s130d128-causal"]),
        ("hopper", "fp8-d256", "h200", Target::Sm90a, &["b1h1sq20sk400d256"]),
    ] {
        let family = catalog.family(family).unwrap();
        for (seed, name) in problems.iter().enumerate() {
            let problem = problem(&format!("{name}-e4m3-obf16"));
            let what = format!("{} {preset} {problem}", family.name);
            let candidate = run::candidate(family, Some(preset), &[], &problem).unwrap();
            let mut device = virtual_device(chip);
            let kernel = Kernel::build(&mut device, compiler(), family, candidate, target).unwrap();
            let layout = Layout::ALL[seed % 2];
            let inputs = Inputs::generate(&problem, Class::Normal, seed as u64).encode(problem.dtype, layout);
            let run = run::run(&kernel, &mut device, &problem, &inputs, true).unwrap();
            let complaints = complaints(&kernel, &problem, &inputs, &run);
            assert!(complaints.is_empty(), "{what}:\n{complaints}");
        }
    }
}

/// Attention of random codes with one key: each row of the output is the value.
struct OneKey {
    problem: Problem,
    codes: [Tensor; 3],
}

impl OneKey {
    fn new(name: &str, value_scale: f64) -> Self {
        let problem = problem(name);
        let inputs = Inputs::generate(&problem, Class::Normal, 5).encode(Dtype::E4m3, Layout::Bhsd);
        let mut random = Random::new(9);
        let mut codes = [inputs.q, inputs.k, inputs.v];
        // Codes reach 448. Queries and keys are of unit size; large scores would make the weight of the key inexact.
        for (tensor, size) in codes.iter_mut().zip([0.01, 0.01, value_scale]) {
            let scales = (0..tensor.shape.all_heads()).map(|_| (size * (0.1 + random.uniform())) as f32);
            tensor.scales = Some(scales.collect());
        }
        OneKey { problem, codes }
    }

    /// The numbers of the output, in the order of the rows.
    fn output(&self, device: &Device, output: Dtype) -> Vec<f32> {
        let problem = self.problem.with_output(output);
        let blank = Tensor::poisoned(problem.query_shape(), output, Layout::Bhsd);
        let view = |tensor: &Tensor, address: u64| View {
            address,
            dtype: tensor.dtype,
            shape: tensor.shape,
            strides: Layout::Bhsd.strides(tensor.shape),
        };
        let upload = |bytes: &[u8]| device.upload("x", bytes).unwrap();
        let [q, k, v] = [0, 1, 2].map(|part| {
            let tensor = &self.codes[part];
            view(tensor, upload(&tensor.bytes).address)
        });
        let [q_scale, k_scale, v_scale] = [0, 1, 2].map(|part| {
            let scales = self.codes[part].scales.as_ref()?;
            let bytes: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
            Some(upload(&bytes).address)
        });
        let out = upload(&blank.bytes);
        let scales = Scales { q: q_scale, k: k_scale, v: v_scale };
        let options = Options { scales, ..Options::default() };
        forward(device, q, k, v, view(&blank, out.address), &options).unwrap();
        Tensor { bytes: device.read(out).unwrap(), ..blank }.decode().data
    }

    /// The same by the definition: code times scale, exact in float64.
    fn exact(&self) -> Vec<f64> {
        let [_, _, v] = &self.codes;
        let (values, scales) = (v.decode().data, v.scales.as_ref().unwrap());
        let (queries, width) = (self.problem.query_shape(), self.problem.head_dim);
        let group = queries.heads / v.shape.heads;
        let mut all = Vec::new();
        for head in 0..queries.all_heads() {
            let of = head / queries.heads * v.shape.heads + head % queries.heads / group;
            for _ in 0..queries.seq {
                let row = &values[of * width..(of + 1) * width];
                all.extend(row.iter().map(|code| f64::from(*code) * f64::from(scales[of])));
            }
        }
        all
    }
}

/// To the nearest number of 8 bits, of two equally near ones to the even one.
fn rounded_to_bf16(x: f64) -> f32 {
    let exponent = if x == 0.0 { 0 } else { x.abs().log2().floor() as i32 };
    let step = 2.0_f64.powi(exponent - 7);
    ((x / step).round_ties_even() * step) as f32
}

/// How many numbers differ, and the first of them with its place.
fn differences(got: &[f32], wanted: &[f32]) -> Option<(usize, usize, f32, f32)> {
    assert_eq!(got.len(), wanted.len());
    let mut different = got.iter().zip(wanted).enumerate().filter(|(_, (got, wanted))| got != wanted);
    let (place, (first, right)) = different.next()?;
    Some((1 + different.count(), place, *first, *right))
}

/// FlashAttention-3's own test has such cases. An output that is rounded to fp16 first is one step of bf16 off.
#[test]
fn one_key_gives_its_value_rounded_once() {
    let mut rounded_twice = 0;
    for (chip, names) in [
        ("h200", &["b2h6sq9sk1d64", "b2h6kv2sq9sk1d128", "b1h6kv1sq3sk1d256"][..]),
        ("l4", &["b2h6kv2sq9sk1d64"][..]),
    ] {
        let device = device(chip);
        for name in names {
            let case = OneKey::new(&format!("{name}-e4m3-obf16"), 2.0);
            let wanted: Vec<f32> = case.exact().into_iter().map(rounded_to_bf16).collect();
            assert_eq!(differences(&case.output(&device, Dtype::Bf16), &wanted), None, "{chip} {name}");
            let twice = case.output(&device, Dtype::Fp16).into_iter();
            let twice: Vec<f32> = twice.map(|it| rounded_to_bf16(f64::from(it))).collect();
            rounded_twice += differences(&twice, &wanted).map_or(0, |(count, ..)| count);
        }
    }
    // The test can fail: rounded twice, some elements are different.
    assert!(rounded_twice > 0);
}

#[test]
fn large_scales_of_values_need_bf16() {
    let case = OneKey::new("b1h2sq3sk1d64-e4m3-obf16", 1e6);
    assert!(case.exact().iter().any(|it| it.abs() > 1e6));
    let device = device("h200");
    assert!(case.output(&device, Dtype::Fp16).iter().any(|it| it.is_infinite()));
    let wanted: Vec<f32> = case.exact().into_iter().map(rounded_to_bf16).collect();
    assert_eq!(differences(&case.output(&device, Dtype::Bf16), &wanted), None);
}

#[test]
fn quantised_tensors_have_the_output_of_the_callers_choice() {
    let device = device("h200");
    let problem = problem("b1h1s70d64-bf16");
    let encoded = Inputs::generate(&problem, Class::Normal, 3).encode(problem.dtype, Layout::Bhsd);
    let [q, k, v] = [&encoded.q, &encoded.k, &encoded.v].map(|it| {
        let shape = [it.shape.batch, it.shape.heads, it.shape.seq, it.shape.head_dim];
        View::bhsd(device.upload("x", &it.bytes).unwrap().address, it.dtype, shape)
    });
    let mut outputs = Vec::new();
    for output in [Dtype::Fp16, Dtype::Bf16] {
        let way = Quantisation { scales: ScaledPart::Head, rotate: false, output: Some(output) };
        let plan = device.quantised_plan(&problem, way).unwrap();
        let blank = Tensor::poisoned(problem.query_shape(), output, Layout::Bhsd);
        let out = device.upload("o", &blank.bytes).unwrap();
        let workspace = Some(device.allocate("workspace", plan.workspace_bytes()).unwrap());
        let o = View { address: out.address, dtype: output, ..q };
        let options = Options { workspace, ..Options::default() };
        plan.launch(&Tensors { q, k, v, o }, &options).unwrap();
        let other = Dtype::E4m3.outputs().iter().copied().find(|it| *it != output).unwrap();
        let wrong = Tensors { q, k, v, o: View { dtype: other, ..o } };
        assert!(plan.launch(&wrong, &options).is_err());
        outputs.push(Tensor { bytes: device.read(out).unwrap(), ..blank }.decode().data);
    }
    for (half, wide) in outputs[0].iter().zip(&outputs[1]) {
        assert!((half - wide).abs() <= half.abs() * 2.0_f32.powi(-8), "{half} {wide}");
    }
    let way = Quantisation { output: Some(Dtype::E4m3), ..Quantisation::default() };
    let refused = device.quantised_plan(&problem, way).unwrap_err().to_string();
    assert_eq!(refused, "o: its type is e4m3, but must be fp16 or bf16");
}
