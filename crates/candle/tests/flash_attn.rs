//! `flash_attn` on the virtual GPU, compared with attention of candle's own operations in f32.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use attention::forward::Device as Gpu;
use candle_core::{DType, Device, Tensor};
use compiler::Compiler;
use compiler::testing::{pinned_toolchain, shared_cache};
use warpsmith_candle::FlashAttn;

#[path = "../examples/attention/reference.rs"]
mod reference;

/// The virtual GPU with the compiler of all tests. Tests use neither the machine's compiler nor the user's cache.
fn virtual_gpu() -> Arc<Gpu> {
    static GPU: OnceLock<Arc<Gpu>> = OnceLock::new();
    let open = || {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let compiler = Compiler::new(pinned_toolchain(folder), &shared_cache(folder)).unwrap();
        Arc::new(Gpu::virtual_gpu("h200").unwrap().with_compiler(compiler))
    };
    GPU.get_or_init(open).clone()
}

fn op(softmax_scale: f32, causal: bool) -> FlashAttn {
    FlashAttn::new(softmax_scale, causal).with_device(virtual_gpu())
}

fn random(shape: &[usize], dtype: DType) -> Tensor {
    Tensor::randn(0f32, 1.0, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
}

#[track_caller]
fn check(q: &Tensor, k: &Tensor, v: &Tensor, softmax_scale: f32, causal: bool) {
    let output = op(softmax_scale, causal).apply(q, k, v).unwrap();
    assert_eq!((output.dims(), output.dtype()), (q.dims(), q.dtype()));
    assert!(output.is_contiguous());
    let expected = reference::attention(q, k, v, softmax_scale, causal).unwrap();
    let error = reference::relative_error(&expected, &output).unwrap();
    assert!(error <= reference::allowed_error(q.dtype()), "the error is {error}");
}

/// The message of the error, without a backtrace.
fn message(op: &FlashAttn, q: &Tensor, k: &Tensor, v: &Tensor) -> String {
    let message = op.apply(q, k, v).unwrap_err().to_string();
    message.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn types_masks_groups_and_lengths_give_the_right_result() {
    for (dtype, causal, [heads, kv_heads], [seq_q, seq_k], head_dim) in [
        (DType::F16, false, [2, 2], [70, 70], 64),
        (DType::BF16, true, [4, 2], [33, 65], 128),
        // The first queries see no key.
        (DType::F16, true, [2, 1], [65, 33], 64),
    ] {
        let q = random(&[2, seq_q, heads, head_dim], dtype);
        let [k, v] = [0, 1].map(|_| random(&[2, seq_k, kv_heads, head_dim], dtype));
        check(&q, &k, &v, 0.2, causal);
    }
}

#[test]
fn strides_and_offsets_are_used_without_a_copy() {
    // [batch, heads, seq, head_dim], transposed.
    let transposed = |_| random(&[2, 3, 40, 64], DType::F16).transpose(1, 2).unwrap();
    let [q, k, v] = [0, 1, 2].map(transposed);
    assert!(!q.is_contiguous());
    check(&q, &k, &v, 0.125, false);

    // The parts of one projection, and only some of the positions.
    let qkv = random(&[2, 48, 3, 2, 64], DType::BF16);
    let part = |index: usize, from: usize| {
        qkv.narrow(2, index, 1).unwrap().squeeze(2).unwrap().narrow(1, from, 40).unwrap()
    };
    check(&part(0, 8), &part(1, 3), &part(2, 3), 0.125, true);
}

#[test]
fn an_empty_tensor_gives_an_empty_result() {
    let (q, k) = (random(&[1, 0, 2, 64], DType::F16), random(&[1, 5, 2, 64], DType::F16));
    assert_eq!(op(0.125, false).apply(&q, &k, &k).unwrap().dims(), [1, 0, 2, 64]);
}

#[test]
fn a_wrong_argument_is_named() {
    let q = random(&[1, 16, 4, 64], DType::F16);
    let op = op(0.125, false);
    let refuse_k = |k: &Tensor| message(&op, &q, k, k);

    let rank = "k: its shape is [16, 4, 64], but must be [batch, seq, heads, head_dim]";
    assert_eq!(refuse_k(&q.squeeze(0).unwrap()), rank);
    let single = q.to_dtype(DType::F32).unwrap();
    assert_eq!(refuse_k(&single), "k: its type is f32, but must be f16 or bf16");
    let bf16 = q.to_dtype(DType::BF16).unwrap();
    assert_eq!(refuse_k(&bf16), "k: its type is bf16, but that of q is fp16");
    assert_eq!(message(&op, &single, &single, &single), "q: its type is f32, but must be f16 or bf16");
    let heads = q.narrow(2, 0, 3).unwrap();
    assert_eq!(refuse_k(&heads), "k: q has 4 heads, which is not a multiple of its 3 heads");
    let shorter = q.narrow(1, 0, 8).unwrap();
    assert_eq!(message(&op, &q, &q, &shorter), "v: its shape differs from that of k");

    let columns = random(&[1, 16, 64, 4], DType::F16).transpose(2, 3).unwrap();
    let stride = "k: the stride of head_dim is 4, but must be 1; call `contiguous` first";
    assert_eq!(refuse_k(&columns), stride);
    let unaligned = random(&[1, 16, 4, 68], DType::F16).narrow(3, 0, 64).unwrap();
    let multiple = "k: the stride of heads is 68, but must be a multiple of 8 elements";
    assert_eq!(refuse_k(&unaligned), multiple);
    let expanded = random(&[1, 16, 1, 64], DType::F16).expand((1, 16, 4, 64)).unwrap();
    assert_eq!(refuse_k(&expanded), "k: the stride of heads is 0; copy the tensor first");

    let odd = random(&[1, 16, 4, 72], DType::F16);
    let head_dim = "q: head_dim is 72, but must be one of 64, 80, 96, 128, 256";
    assert_eq!(message(&op, &odd, &odd, &odd), head_dim);
    let negative = FlashAttn::new(-1.0, false).with_device(virtual_gpu());
    let scale = "softmax_scale: it is -1, but must be a finite number above 0";
    assert_eq!(message(&negative, &q, &q, &q), scale);
}
