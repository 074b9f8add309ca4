//! Attention implementations of other projects, which are measured as baselines.

use std::sync::Arc;

use op::{Input, Peer, PeerProblem, Peers};
use serde_json::json;

use crate::inputs::Encoded;
use crate::metrics::{Tolerance, Weights};
use crate::problem::{Dtype, Problem};
use crate::tensor::{Layout, Tensor};

/// The peers that compute in FP8.
const CUDNN_FP8: &str = "cudnn_fp8";
const FA3_FP8: &str = "fa3_fp8";

/// The environment variable with the path of FlashAttention-3's library. `python/scripts/build_fa3.sh` builds it.
const FA3_LIBRARY: &str = "WARPSMITH_FA3";

/// PyTorch's `scaled_dot_product_attention`, by backend (`auto` is PyTorch's own choice), and implementations in other
/// packages.
pub(crate) fn peers() -> Peers {
    let own = ["auto", "math", "flash", "mem_efficient", "cudnn"].map(Peer::of_pytorch);
    let other = |package: &str, name: &str, distributions: &[&str]| Peer {
        package: package.to_owned(),
        name: name.to_owned(),
        distributions: distributions.iter().map(ToString::to_string).collect(),
        library: None,
    };
    let fa3 = |name: &str| Peer {
        library: Some(FA3_LIBRARY.to_owned()),
        ..other("flash-attn", name, &["flash-attn-3", "flashattn-hopper"])
    };
    let others = [
        other("flash-attn", "fa2", &["flash-attn"]),
        fa3("fa3"),
        fa3(FA3_FP8),
        other("xformers", "xformers", &["xformers"]),
        other("flashinfer", "flashinfer", &["flashinfer-python"]),
        other("cudnn", CUDNN_FP8, &["nvidia-cudnn-frontend"]),
    ];
    let script = op::pytorch_script(include_str!("pytorch.py"));
    Peers { all: own.into_iter().chain(others).collect(), script }
}

/// What happens to E4M3 inputs before the time is taken.
const UNTIMED: &str = "E4M3 decoded to fp16 for those without FP8";

/// The tolerance of a peer's answer. cuDNN's FP8 attention gets inputs that are quantised again, because it has one
/// scale per tensor, and rounds its output to E4M3, too: each is an error of half a unit in three bits.
/// FlashAttention-3 has one scale for all queries that share a head of keys. If several heads do, the queries are
/// quantised again.
pub(crate) fn tolerance(name: &str, problem: &Problem) -> Tolerance {
    let fp8 = Tolerance::new(problem.dtype, Weights::Fp8).with_output_of(problem);
    let rounding = 2.0_f64.powi(-4);
    let again = |times: f64| Tolerance {
        rtol: fp8.rtol + rounding,
        weight: fp8.weight + times * rounding,
        l2: times * fp8.l2,
        row: times * fp8.row,
        ..fp8
    };
    match name {
        CUDNN_FP8 => again(3.0).with_fp8_sums(),
        FA3_FP8 if problem.heads == problem.kv_heads => fp8.with_fp8_sums(),
        FA3_FP8 => again(2.0).with_fp8_sums(),
        _ => Tolerance::new(problem.dtype, Weights::Half).with_output_of(problem),
    }
}

/// The problem in the form of the script. E4M3 tensors have their scales beside them.
pub(crate) fn problem(problem: &Problem, inputs: &Encoded) -> PeerProblem {
    let features = problem.serving.by_name().into_iter().filter(|(_, has)| *has).map(|(name, _)| name);
    let fields = json!({
        "batch": problem.batch,
        "heads": problem.heads,
        "kv_heads": problem.kv_heads,
        "seq_q": problem.seq_q,
        "seq_k": problem.seq_k,
        "head_dim": problem.head_dim,
        "mask": problem.mask.name(),
        "dtype": problem.dtype.output().name(),
        "output": problem.output.name(),
        "fp8": problem.dtype == Dtype::E4m3,
        "scale": problem.softmax_scale(),
        "features": features.collect::<Vec<_>>(),
    });
    let mut files = Vec::new();
    let mut put = |name: String, bytes: Vec<u8>| {
        files.push(Input { name, bytes: Arc::new(bytes), sign_bits: 0 });
    };
    for (name, tensor) in [("q", &inputs.q), ("k", &inputs.k), ("v", &inputs.v)] {
        put(name.to_owned(), Tensor::encode(&tensor.decode(), problem.dtype, Layout::Bhsd).bytes);
        if let Some(scales) = &tensor.scales {
            put(format!("{name}_scale"), scales.iter().flat_map(|scale| scale.to_le_bytes()).collect());
        }
    }
    let untimed_conversion = if problem.dtype == Dtype::E4m3 { UNTIMED } else { "" };
    PeerProblem { fields, inputs: files, untimed_conversion }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::{Class, Inputs};
    use crate::problem::Serving;

    /// The script refuses every feature that the fields name.
    #[test]
    fn peers_learn_the_features_for_serving() {
        let all: Problem = "b2h2sq1sk5d64-ragged-page2-window3-sink-cap30-fp16".parse().unwrap();
        let encoded = Inputs::generate(&all, Class::Normal, 1).encode(all.dtype, Layout::Bhsd);
        let peer = problem(&all, &encoded);
        assert_eq!(peer.fields["features"], json!(["ragged", "paged", "window", "sink", "softcap"]));
        let packed = Problem { serving: Serving { packed: true, ..all.serving }, ..all };
        assert_eq!(problem(&packed, &encoded).fields["features"][0], json!("packed"));
        assert!(peers().script.contains("fields[\"features\"]"));
    }

    #[test]
    fn peers_get_the_same_codes_and_scales_as_kernels() {
        let small: Problem = "b1h2kv1sq3sk5d64-causal-e4m3".parse().unwrap();
        let encoded = Inputs::generate(&small, Class::Normal, 1).encode(small.dtype, Layout::Bshd);
        let peer = problem(&small, &encoded);
        assert_eq!((&peer.fields["dtype"], &peer.fields["mask"]), (&json!("fp16"), &json!("causal")));
        assert_eq!((peer.untimed_conversion, &peer.fields["features"]), (UNTIMED, &json!([])));
        let sizes: Vec<_> = peer.inputs.iter().map(|it| (it.name.as_str(), it.bytes.len())).collect();
        let tensors = [("q", 384), ("k", 320), ("v", 320)];
        assert_eq!(
            sizes,
            [tensors[0], ("q_scale", 8), tensors[1], ("k_scale", 4), tensors[2], ("v_scale", 4)]
        );
        let scales: Vec<f32> =
            peer.inputs[1].bytes.as_chunks().0.iter().map(|it| f32::from_le_bytes(*it)).collect();
        assert_eq!(Some(scales), encoded.q.scales);
        let given =
            Tensor { bytes: peer.inputs[0].bytes.to_vec(), layout: Layout::Bhsd, ..encoded.q.clone() };
        assert_eq!(given.decode(), encoded.q.decode());
        assert_ne!(given.bytes, encoded.q.bytes, "the layouts differ");
    }
}
