//! Attention of candle's own operations: `softmax(softmax_scale * Q K^T + mask) V`.

use candle_core::{DType, Result, Tensor};
use candle_nn::ops::softmax_last_dim;

/// The score of a key that a query does not see. It is finite: a query without any keys would otherwise give NaN.
const HIDDEN: f32 = -1e30;

/// Attention in f32 on tensors `[batch, seq, heads, head_dim]`. A query that sees no key has the output 0.
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, softmax_scale: f32, causal: bool) -> Result<Tensor> {
    let (_, seq_q, heads, _) = q.dims4()?;
    let (_, seq_k, kv_heads, _) = k.dims4()?;
    let by_head = |tensor: &Tensor| tensor.to_dtype(DType::F32)?.transpose(1, 2)?.contiguous();
    let (q, k, v) = (by_head(q)?, by_head(k)?, by_head(v)?);
    let (k, v) = (repeat(&k, heads / kv_heads.max(1))?, repeat(&v, heads / kv_heads.max(1))?);
    let scores = (q.matmul(&k.t()?)? * f64::from(softmax_scale))?;
    let output = if causal {
        let sees = |i: usize, j: usize| j + seq_q <= i + seq_k;
        let seen: Vec<f32> =
            (0..seq_q).flat_map(|i| (0..seq_k).map(move |j| f32::from(u8::from(sees(i, j))))).collect();
        let seen = Tensor::from_vec(seen, (1, 1, seq_q, seq_k), q.device())?;
        let hidden = seen.affine(f64::from(-HIDDEN), f64::from(HIDDEN))?;
        softmax_last_dim(&scores.broadcast_add(&hidden)?)?.broadcast_mul(&seen)?.matmul(&v)?
    } else {
        softmax_last_dim(&scores)?.matmul(&v)?
    };
    output.transpose(1, 2)?.contiguous()
}

/// Repeats each head of keys or values `[batch, kv_heads, seq, head_dim]` for its group of query heads.
fn repeat(tensor: &Tensor, times: usize) -> Result<Tensor> {
    let (batch, heads, seq, head_dim) = tensor.dims4()?;
    let groups = tensor.unsqueeze(2)?.expand((batch, heads, times, seq, head_dim))?;
    groups.contiguous()?.reshape((batch, heads * times, seq, head_dim))
}

/// The L2 norm of the difference, relative to that of the reference.
pub fn relative_error(reference: &Tensor, output: &Tensor) -> Result<f32> {
    let difference = (output.to_dtype(DType::F32)? - reference)?.sqr()?.sum_all()?.to_scalar::<f32>()?;
    let size = reference.sqr()?.sum_all()?.to_scalar::<f32>()?;
    Ok((difference / size).sqrt())
}

/// The largest relative error of a right output. The kernels round the weights and the output to this type.
pub fn allowed_error(dtype: DType) -> f32 {
    if dtype == DType::BF16 { 6e-3 } else { 8e-4 }
}
