//! `flash_attn` beside attention of candle's own operations, for several shapes, types and layouts.
//!
//! `cargo run --release -p warpsmith-candle --example attention` on the virtual GPU; with `--features cuda` on GPU 0,
//! where it also prints times.

use std::error::Error;

use candle_core::{DType, Device, Result, Tensor};
use warpsmith_candle::flash_attn;

#[cfg(feature = "cuda")]
mod times;

mod reference;
use reference::{allowed_error, attention, relative_error};

/// How the tensors of a case lie in memory.
#[derive(Clone, Copy, Debug)]
enum Layout {
    /// `[batch, seq, heads, head_dim]`.
    Contiguous,
    /// `[batch, heads, seq, head_dim]`, transposed.
    Transposed,
    /// A third of `[batch, seq, 3, heads, head_dim]`.
    Packed,
}

struct Case {
    batch: usize,
    heads: [usize; 2],
    seqs: [usize; 2],
    head_dim: usize,
    dtype: DType,
    causal: bool,
    layout: Layout,
}

const fn case(heads: [usize; 2], seqs: [usize; 2], head_dim: usize) -> Case {
    Case { batch: 2, heads, seqs, head_dim, dtype: DType::F16, causal: false, layout: Layout::Contiguous }
}

/// Sizes for a GPU. The virtual GPU takes an eighth of the lengths.
const CASES: [Case; 10] = [
    Case { batch: 1, ..case([8, 8], [512, 512], 64) },
    Case { causal: true, ..case([8, 8], [512, 512], 64) },
    Case { causal: true, dtype: DType::BF16, ..case([8, 2], [520, 520], 128) },
    Case { layout: Layout::Transposed, ..case([4, 4], [1000, 1000], 64) },
    Case { layout: Layout::Transposed, causal: true, dtype: DType::BF16, ..case([8, 4], [264, 1000], 64) },
    Case { layout: Layout::Packed, ..case([8, 8], [600, 600], 80) },
    Case { layout: Layout::Packed, causal: true, dtype: DType::BF16, ..case([4, 4], [520, 520], 128) },
    Case { causal: true, ..case([8, 1], [264, 520], 96) },
    Case { causal: true, ..case([4, 4], [520, 264], 64) },
    Case { dtype: DType::BF16, ..case([2, 2], [200, 328], 256) },
];

impl Case {
    fn tensor(&self, seq: usize, heads: usize, device: &Device) -> Result<Tensor> {
        let (batch, head_dim) = (self.batch, self.head_dim);
        let random = |shape: &[usize]| Tensor::randn(0f32, 1.0, shape, device)?.to_dtype(self.dtype);
        match self.layout {
            Layout::Contiguous => random(&[batch, seq, heads, head_dim]),
            Layout::Transposed => random(&[batch, heads, seq, head_dim])?.transpose(1, 2),
            Layout::Packed => random(&[batch, seq, 3, heads, head_dim])?.narrow(2, 1, 1)?.squeeze(2),
        }
    }

    /// Whether the output is right. Prints a line.
    fn check(&self, device: &Device) -> Result<bool> {
        let ([heads, kv_heads], [seq_q, seq_k]) = (self.heads, self.seqs.map(|seq| seq / scale(device)));
        let q = self.tensor(seq_q, heads, device)?;
        let k = self.tensor(seq_k, kv_heads, device)?;
        let v = self.tensor(seq_k, kv_heads, device)?;
        let softmax_scale = 1.0 / (self.head_dim as f32).sqrt();
        let output = flash_attn(&q, &k, &v, softmax_scale, self.causal)?;
        let expected = attention(&q, &k, &v, softmax_scale, self.causal)?;
        let error = relative_error(&expected, &output)?;
        let right = error <= allowed_error(self.dtype);
        println!(
            "{} error {error:.1e}: q {:?}, k {:?}, {}, {}{:?}",
            if right { "right" } else { "WRONG" },
            q.dims(),
            k.dims(),
            self.dtype.as_str(),
            if self.causal { "causal, " } else { "" },
            self.layout
        );
        Ok(right)
    }
}

fn scale(device: &Device) -> usize {
    if device.is_cpu() { 8 } else { 1 }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    #[cfg(feature = "cuda")]
    let device = Device::new_cuda(0)?;
    #[cfg(not(feature = "cuda"))]
    let device = Device::Cpu;
    let mut wrong = 0;
    for case in &CASES {
        wrong += usize::from(!case.check(&device)?);
    }
    if wrong > 0 {
        return Err(format!("{wrong} of {} outputs are wrong", CASES.len()).into());
    }
    #[cfg(feature = "cuda")]
    times::print(&device)?;
    Ok(())
}
