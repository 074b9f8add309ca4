//! Attention as a solution of other projects' benchmarks. The solutions call the Python package.

use op::Refusal;
use serde_json::json;

use crate::problem::{Dtype, Mask, Problem};

/// A project with its own evaluator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluator {
    /// KernelBench: a module in PyTorch, and one that replaces it.
    KernelBench,
    /// FlashInfer-Bench: a definition, a solution and a workload in JSON.
    FlashInferBench,
}

/// The files for an evaluator, each with its path and its text.
pub fn files(evaluator: Evaluator, problem: &Problem) -> Result<Vec<(String, String)>, Refusal> {
    if problem.dtype == Dtype::E4m3 {
        return Err(Refusal::new("these evaluators have no FP8 attention; name a problem in fp16 or bf16"));
    }
    if let Some((feature, _)) = problem.serving.by_name().into_iter().find(|(_, has)| *has) {
        return Err(Refusal::new(format!("these evaluators have no problem with the feature `{feature}`")));
    }
    Ok(match evaluator {
        Evaluator::KernelBench => vec![
            ("model.py".to_owned(), kernelbench_model(problem)),
            ("model_new.py".to_owned(), kernelbench_solution(problem)),
        ],
        Evaluator::FlashInferBench => flashinfer_files(problem),
    })
}

/// The argument `causal` of `warpsmith.attention`.
fn causal(problem: &Problem) -> &'static str {
    match problem.mask {
        Mask::None => "False",
        Mask::Causal => "True",
        Mask::CausalTopLeft => "\"top-left\"",
    }
}

/// PyTorch's call for the problem, on `q`, `k` and `v`. Its own causal mask is aligned to the first key.
fn pytorch_call(problem: &Problem) -> String {
    let grouped = if problem.is_grouped() { ", enable_gqa=True" } else { "" };
    let mask = match problem.mask {
        Mask::None => String::new(),
        _ if problem.diagonal() == 0 => ", is_causal=True".to_owned(),
        _ => {
            let Problem { seq_q, seq_k, .. } = problem;
            let shift = problem.diagonal();
            format!(
                ", attn_mask=torch.ones({seq_q}, {seq_k}, dtype=torch.bool, device=q.device).tril({shift})"
            )
        }
    };
    format!("torch.nn.functional.scaled_dot_product_attention(q, k, v{mask}{grouped})")
}

fn sizes(problem: &Problem) -> ([usize; 4], [usize; 4]) {
    let Problem { batch, heads, kv_heads, seq_q, seq_k, head_dim, .. } = *problem;
    ([batch, heads, seq_q, head_dim], [batch, kv_heads, seq_k, head_dim])
}

fn kernelbench_model(problem: &Problem) -> String {
    let (queries, keys) = sizes(problem);
    let call = pytorch_call(problem);
    format!(
        "# {problem}: {}. Evaluate it with precision {}.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return {call}


def get_inputs():
    return [torch.randn({queries:?}), torch.randn({keys:?}), torch.randn({keys:?})]


def get_init_inputs():
    return []
",
        problem.in_words(),
        problem.dtype
    )
}

fn kernelbench_solution(problem: &Problem) -> String {
    let causal = causal(problem);
    format!(
        "# {problem}, by the kernels of Warpsmith. Needs the Python package `warpsmith`.
import torch
import torch.nn as nn
import warpsmith


class ModelNew(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return warpsmith.attention(q, k, v, causal={causal})
"
    )
}

fn flashinfer_files(problem: &Problem) -> Vec<(String, String)> {
    let Problem { batch, heads, kv_heads, seq_q, seq_k, head_dim, .. } = *problem;
    let dtype = match problem.dtype {
        Dtype::Bf16 => "bfloat16",
        Dtype::Fp16 | Dtype::E4m3 => "float16",
    };
    let name = format!("attention_{problem}").replace('-', "_");
    let constant = |value: usize| json!({ "type": "const", "value": value });
    let tensor =
        |heads: &str, seq: &str| json!({ "shape": ["batch", heads, seq, "head_dim"], "dtype": dtype });
    // With one KV head per query head, both axes are the same.
    let kv = if kv_heads == heads { "heads" } else { "kv_heads" };
    let keys = if seq_k == seq_q { "seq_q" } else { "seq_k" };
    let mut axes = json!({
        "batch": { "type": "var" }, "heads": constant(heads), "seq_q": constant(seq_q),
        "head_dim": constant(head_dim),
    });
    if kv_heads != heads {
        axes["kv_heads"] = constant(kv_heads);
    }
    if seq_k != seq_q {
        axes["seq_k"] = constant(seq_k);
    }
    let definition = json!({
        "name": name,
        "op_type": "attention",
        "description": problem.in_words(),
        "axes": axes,
        "inputs": { "q": tensor("heads", "seq_q"), "k": tensor(kv, keys), "v": tensor(kv, keys) },
        "outputs": { "output": tensor("heads", "seq_q") },
        "reference": format!("import torch\n\n\ndef run(q, k, v):\n    return {}\n", pytorch_call(problem)),
    });
    let source = format!(
        "import warpsmith\n\n\ndef run(q, k, v):\n    return warpsmith.attention(q, k, v, causal={})\n",
        causal(problem)
    );
    let solution = json!({
        "name": format!("warpsmith_{name}"),
        "definition": name,
        "author": "warpsmith",
        "description": "The kernel that Warpsmith's dispatcher selects.",
        "spec": {
            "language": "python",
            "target_hardware": ["cuda"],
            "entry_point": "main.py::run",
            "dependencies": ["warpsmith"],
            "destination_passing_style": false,
        },
        "sources": [{ "path": "main.py", "content": source }],
    });
    let random = json!({ "type": "random" });
    let workload = json!({
        "definition": name,
        "workload": {
            "axes": { "batch": batch },
            "inputs": { "q": random, "k": random, "v": random },
            "uuid": format!("warpsmith-{name}"),
        },
    });
    vec![
        (format!("definitions/attention/{name}.json"), format!("{definition:#}\n")),
        (format!("solutions/warpsmith/attention/{name}.json"), format!("{solution:#}\n")),
        (format!("workloads/attention/{name}.jsonl"), format!("{workload}\n")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(evaluator: Evaluator, problem: &str) -> Vec<(String, String)> {
        files(evaluator, &problem.parse().expect("a problem")).expect("supported")
    }

    #[test]
    fn kernelbench_gets_two_modules() {
        let [model, new] = &texts(Evaluator::KernelBench, "b1h8kv2s512d64-causal-bf16")[..] else {
            panic!("two files")
        };
        assert_eq!((model.0.as_str(), new.0.as_str()), ("model.py", "model_new.py"));
        assert!(model.1.contains("is_causal=True, enable_gqa=True"), "{}", model.1);
        assert!(
            model.1.contains("torch.randn([1, 8, 512, 64]), torch.randn([1, 2, 512, 64])"),
            "{}",
            model.1
        );
        assert!(new.1.contains("warpsmith.attention(q, k, v, causal=True)"), "{}", new.1);
    }

    #[test]
    fn a_mask_that_pytorch_aligns_otherwise_is_written_out() {
        let call = pytorch_call(&"b1h8sq17sk129d64-causal-fp16".parse().expect("a problem"));
        assert!(call.contains("torch.ones(17, 129") && call.contains(".tril(112)"), "{call}");
    }

    #[test]
    fn flashinfer_bench_gets_valid_documents() {
        for (path, text) in texts(Evaluator::FlashInferBench, "b2h8kv2sq64sk128d64-fp16") {
            let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let name = "attention_b2h8kv2sq64sk128d64_fp16";
            assert!(path.contains(name) && document.to_string().contains(name), "{path}");
        }
    }

    #[test]
    fn fp8_is_refused() {
        assert!(files(Evaluator::KernelBench, &"mission-e4m3".parse().expect("a problem")).is_err());
    }
}
