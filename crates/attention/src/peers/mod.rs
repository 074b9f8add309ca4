//! Attention implementations of other projects, which are measured as baselines.

use std::sync::Arc;

use op::{Input, Peer, PeerProblem, Peers};
use serde_json::json;

use crate::inputs::Encoded;
use crate::metrics::{Tolerance, Weights};
use crate::problem::{Dtype, Problem};
use crate::tensor::{Layout, Tensor, Values};

/// The peer that computes in FP8.
const CUDNN_FP8: &str = "cudnn_fp8";

/// PyTorch's `scaled_dot_product_attention`, by backend (`auto` is PyTorch's own choice), and implementations in other
/// packages.
pub(crate) fn peers() -> Peers {
    let own = ["auto", "math", "flash", "mem_efficient", "cudnn"].map(Peer::of_pytorch);
    let other = |package: &str, name: &str, distributions: &[&str]| Peer {
        package: package.to_owned(),
        name: name.to_owned(),
        distributions: distributions.iter().map(ToString::to_string).collect(),
    };
    let others = [
        other("flash-attn", "fa2", &["flash-attn"]),
        other("flash-attn", "fa3", &["flash-attn-3", "flashattn-hopper"]),
        other("xformers", "xformers", &["xformers"]),
        other("flashinfer", "flashinfer", &["flashinfer-python"]),
        other("cudnn", CUDNN_FP8, &["nvidia-cudnn-frontend"]),
    ];
    let script = op::pytorch_script(include_str!("pytorch.py"));
    Peers { all: own.into_iter().chain(others).collect(), script }
}

/// The tolerance of a peer's answer. cuDNN's FP8 attention gets inputs that are quantised again, because it has one scale
/// per tensor, and rounds its output to E4M3, too: each is an error of half a unit in three bits.
pub(crate) fn tolerance(name: &str, dtype: Dtype) -> Tolerance {
    if name != CUDNN_FP8 {
        return Tolerance::new(dtype, Weights::Half);
    }
    let fp8 = Tolerance::new(dtype, Weights::Fp8);
    let rounding = 2.0_f64.powi(-4);
    Tolerance {
        rtol: fp8.rtol + rounding,
        weight: fp8.weight + 3.0 * rounding,
        l2: 3.0 * fp8.l2,
        row: 3.0 * fp8.row,
        ..fp8
    }
    .with_fp8_sums()
}

/// The problem in the form of the script. PyTorch has no attention for E4M3, so peers get the decoded numbers in fp16.
pub(crate) fn problem(problem: &Problem, inputs: &Encoded) -> PeerProblem {
    let dtype = problem.dtype.output();
    let fields = json!({
        "batch": problem.batch,
        "heads": problem.heads,
        "kv_heads": problem.kv_heads,
        "seq_q": problem.seq_q,
        "seq_k": problem.seq_k,
        "head_dim": problem.head_dim,
        "mask": problem.mask.name(),
        "dtype": dtype.name(),
        "fp8": problem.dtype == Dtype::E4m3,
        "scale": problem.softmax_scale(),
    });
    let tensors = [("q", &inputs.q), ("k", &inputs.k), ("v", &inputs.v)];
    let inputs = tensors.map(|(name, tensor)| {
        let bytes = Tensor::encode(&unscaled(tensor.decode()), dtype, Layout::Bhsd).bytes;
        Input { name: name.to_owned(), bytes: Arc::new(bytes), sign_bits: 0 }
    });
    let untimed_conversion = if problem.dtype == Dtype::E4m3 { "E4M3 decoded to fp16" } else { "" };
    PeerProblem { fields, inputs: inputs.into(), untimed_conversion }
}

/// The same numbers with their scales applied.
fn unscaled(mut values: Values) -> Values {
    if let Some(scales) = values.scales.take() {
        let heads = values.data.chunks_exact_mut(values.shape.head_elements());
        for (head, scale) in heads.zip(scales) {
            for value in head {
                *value *= scale;
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::{Class, Inputs};

    #[test]
    fn peers_get_the_same_numbers_as_kernels() {
        let small: Problem = "b1h2kv1sq3sk5d64-causal-e4m3".parse().unwrap();
        let encoded = Inputs::generate(&small, Class::Normal, 1).encode(small.dtype, Layout::Bshd);
        let peer = problem(&small, &encoded);
        assert_eq!((&peer.fields["dtype"], &peer.fields["mask"]), (&json!("fp16"), &json!("causal")));
        assert_eq!(peer.inputs.iter().map(|it| it.bytes.len()).collect::<Vec<_>>(), [768, 640, 640]);
        assert_eq!(peer.untimed_conversion, "E4M3 decoded to fp16");
        let exact = encoded.k.decode();
        let given = Tensor {
            bytes: peer.inputs[1].bytes.to_vec(),
            scales: None,
            dtype: Dtype::Fp16,
            layout: Layout::Bhsd,
            ..encoded.k
        };
        for (given, code) in given.decode().data.iter().zip(&exact.data) {
            let value = f64::from(*code) * exact.scale(0, 0);
            assert!((f64::from(*given) - value).abs() <= 1e-3 * value.abs() + 1e-7, "{given} {value}");
        }
    }
}
