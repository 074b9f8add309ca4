//! The op `attention_backward`: the gradients of attention with respect to Q, K and V.
//!
//! Its problems are those of attention without features for serving, in fp16 and bf16. Its inputs are Q, K, V, the gradient of
//! the output, and what the forward pass leaves: the output and the log-sum-exp of every row. [`crate::oracle::gradients`]
//! has the formulas, `judge.rs` the limits.

mod arguments;
mod inputs;
mod judge;

use std::sync::Arc;

use family::{Candidate, Family, Sizes};
use op::{
    Addresses, Arrangement, Complaint, ExtraTolerance, Input, Judgement, LaunchParameters, OpInputs,
    OpJudgement, OpPeers, OpProblems, OpReference, Output, Peer, PeerProblem, Peers, Picture, Refusal,
    Similarity, SuiteText, Work,
};

pub use arguments::BackwardArguments;
pub use inputs::BackwardInputs;

use crate::inputs::Class;
use crate::op::{Attention, class_of, kind, layout_of, related_kinds};
use crate::oracle::Gradients;
use crate::problem::{self, Dtype, Problem};
use crate::run;
use crate::tensor::{Layout, POISON_WORD, Shape, Tensor};

/// The gradients of attention.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionBackward;

/// Multiply-adds of a forward pass over the rows that the oracle computes: about a second on one core.
const ORACLE_BUDGET: u64 = 150_000_000;

const SUITES: [(&str, &str); 1] = [("training", include_str!("../../suites/training.toml"))];

/// All classes but `huge`: with values at the end of the type's range dS is beyond it, in every 16-bit implementation.
pub(crate) const CLASSES: [Class; 14] = *Class::ALL.first_chunk().expect("more classes");

const HARD_CLASSES: [Class; 7] = [
    Class::Sink,
    Class::Large,
    Class::Outliers,
    Class::Drift,
    Class::Spikes,
    Class::MixedRows,
    Class::PositiveV,
];

/// Shapes on which every hard class is tried.
const CLASS_SHAPES: [&str; 2] = ["b1h2s300d64", "b1h4kv2sq130sk260d128-causal"];

/// A product has this many operations more than the forward pass: five products instead of two.
const PRODUCTS: f64 = 2.5;

/// Refuses problems of attention that the op does not have.
fn require_supported(problem: &Problem) -> Result<(), Refusal> {
    if problem.dtype == Dtype::E4m3 {
        return Err(Refusal::new(format!("attention_backward has no FP8 problems, such as {problem}"))
            .hint(Some("name fp16 or bf16".to_owned())));
    }
    if !problem.serving.is_plain() {
        return Err(Refusal::new(format!(
            "attention_backward does not support lengths, pages, windows, sinks or capped scores, as in {problem}"
        )));
    }
    Ok(())
}

fn is_supported(name: &str) -> bool {
    problem::expand(name).is_ok_and(|all| all.iter().all(|problem| require_supported(problem).is_ok()))
}

impl OpProblems for AttentionBackward {
    type Problem = Problem;

    fn name(&self) -> &'static str {
        "attention_backward"
    }

    fn problems(&self, text: &str) -> Result<Vec<Problem>, Refusal> {
        let problems = problem::expand(text)?;
        problems.iter().try_for_each(require_supported)?;
        Ok(problems)
    }

    fn aliases(&self) -> Vec<String> {
        problem::aliases()
    }

    fn problem_from_fields(&self, fields: &toml::Table) -> Result<Problem, Refusal> {
        let problem = problem::from_fields(fields)?;
        require_supported(&problem)?;
        Ok(problem)
    }

    fn in_words(&self, problem: &Problem) -> String {
        format!("gradients of {}", problem.in_words())
    }

    fn name_help(&self) -> String {
        "b is the number of sequences, h of heads, s of tokens, d the head dimension. A name means fp16 unless a dtype \
         follows it: mission-bf16."
            .to_owned()
    }

    fn suites(&self) -> Vec<SuiteText> {
        SUITES.map(|(name, text)| SuiteText { name: name.to_owned(), text: text.to_owned() }).to_vec()
    }

    fn default_problems(&self) -> Vec<String> {
        let of = |dtype: Dtype| {
            problem::aliases()
                .into_iter()
                .map(move |alias| format!("{alias}-{dtype}"))
                .filter(|name| is_supported(name))
        };
        [Dtype::Fp16, Dtype::Bf16].into_iter().flat_map(of).collect()
    }

    fn small_problem(&self) -> String {
        Attention.small_problem()
    }

    fn edge_problems(&self) -> Vec<String> {
        Attention.edge_problems().into_iter().filter(|name| is_supported(name)).collect()
    }

    fn class_problems(&self) -> Vec<String> {
        let with = |dtype: Dtype| CLASS_SHAPES.map(|shape| format!("{shape}-{dtype}"));
        [Dtype::Fp16, Dtype::Bf16].into_iter().flat_map(with).collect()
    }

    fn fuzzed(&self, draw: u64) -> Problem {
        let problem = Attention.fuzzed(draw);
        match problem.dtype {
            Dtype::E4m3 => problem.with_dtype(Dtype::Bf16),
            Dtype::Fp16 | Dtype::Bf16 => problem,
        }
    }

    fn cut(&self, problem: &Problem, flops: f64) -> Problem {
        problem.cut(flops / PRODUCTS)
    }

    fn candidate(
        &self,
        family: &Family,
        preset: Option<&str>,
        knobs: &[(String, String)],
        problem: &Problem,
    ) -> Result<Candidate, Refusal> {
        for layout in Layout::ALL {
            run::check_features(family, problem, layout, None).map_err(Refusal::new)?;
        }
        Ok(family.candidate(preset, knobs, &run::axes(family, problem))?)
    }

    fn sizes(&self, problem: &Problem) -> Sizes {
        run::sizes(problem)
    }

    fn work(&self, problem: &Problem) -> Work {
        let bytes = |shape: Shape, tensors: usize| tensors * shape.elements() * problem.dtype.bytes();
        let (queries, keys) = (problem.query_shape(), problem.key_shape());
        // Q, O, dO and dQ; K, V, dK and dV; LSE.
        let bytes = bytes(queries, 4) + bytes(keys, 4) + queries.rows() * size_of::<f32>();
        Work { flops: PRODUCTS * problem.flops(), bytes: bytes as u64 }
    }

    fn matrix_type(&self, problem: &Problem) -> Option<&str> {
        Some(problem.dtype.name())
    }

    fn similarity(&self, problem: &Problem) -> Similarity {
        let Problem { batch, heads, seq_q, seq_k, head_dim, mask, dtype, .. } = *problem;
        let size = [batch, heads, seq_q, seq_k].map(|extent| extent as f64).iter().product();
        let (kind, related) = (kind(head_dim, mask, dtype), related_kinds(head_dim, mask, dtype));
        Similarity { kind, related, regime: 0, size }
    }

    fn preferred_families(&self) -> &[&str] {
        &["hopper-backward", "mma-backward", "reference-backward"]
    }

    fn default_family(&self) -> Option<&str> {
        Some("mma-backward")
    }
}

impl OpInputs for AttentionBackward {
    type Inputs = BackwardInputs;

    fn classes(&self) -> Vec<&str> {
        CLASSES.map(Class::name).to_vec()
    }

    fn hard_classes(&self) -> Vec<&str> {
        HARD_CLASSES.map(Class::name).to_vec()
    }

    fn inputs(&self, problem: &Problem, class: &str, seed: u64) -> Result<BackwardInputs, Refusal> {
        Ok(BackwardInputs::generate(problem, class_of(class)?, seed, layout_of(seed)))
    }

    fn timed_inputs(&self, problem: &Problem, class: &str, seed: u64) -> Result<BackwardInputs, Refusal> {
        Ok(BackwardInputs::generate(problem, class_of(class)?, seed, Layout::Bhsd))
    }

    fn opposite(
        &self,
        _problem: &Problem,
        inputs: &BackwardInputs,
        class: &str,
        seed: u64,
    ) -> Result<BackwardInputs, Refusal> {
        Ok(inputs.opposite(class_of(class)?, seed))
    }

    fn input_names(&self) -> Vec<&str> {
        vec!["Q", "K", "V", "dO", "O", "LSE"]
    }

    fn redraw(&self, _problem: &Problem, inputs: &BackwardInputs, which: &str, seed: u64) -> BackwardInputs {
        inputs.redraw(which, seed)
    }

    fn mutated(&self, _problem: &Problem, inputs: &BackwardInputs, seed: u64) -> BackwardInputs {
        inputs.mutated(seed)
    }

    fn arrange(&self, _family: &Family, problem: &Problem, inputs: &BackwardInputs) -> Arrangement {
        let width = problem.dtype.bytes();
        let sign_bits = 8 * width as u32;
        let BackwardInputs { encoded, d_o, o, lse, .. } = inputs;
        let tensors = [("q", &encoded.q), ("k", &encoded.k), ("v", &encoded.v), ("o", o), ("d_o", d_o)];
        let tensors = tensors.map(|(name, tensor)| Input {
            name: name.to_owned(),
            bytes: Arc::new(tensor.bytes.clone()),
            sign_bits,
        });
        let lse = Input {
            name: "lse".to_owned(),
            bytes: Arc::new(lse.iter().flat_map(|x| x.to_le_bytes()).collect()),
            sign_bits: 0,
        };
        let (queries, keys) = (problem.query_shape(), problem.key_shape());
        let outputs = [("dq", queries), ("dk", keys), ("dv", keys)].map(|(name, shape)| Output {
            name: name.to_owned(),
            bytes: shape.elements() * width,
            blank: POISON_WORD,
            sign_bits,
            initial: None,
        });
        let shapes = [
            ("q", queries),
            ("k", keys),
            ("v", keys),
            ("d_o", queries),
            ("dq", queries),
            ("dk", keys),
            ("dv", keys),
        ];
        let layout = inputs.layout();
        let shapes =
            shapes.map(|(name, shape)| run::tensor_shape(name, shape, problem.dtype, layout.strides(shape)));
        Arrangement {
            inputs: tensors.into_iter().chain([lse]).collect(),
            outputs: outputs.into(),
            tensors: shapes.into(),
        }
    }

    fn parameters(
        &self,
        family: &Family,
        problem: &Problem,
        inputs: &BackwardInputs,
        addresses: &Addresses,
    ) -> Vec<LaunchParameters> {
        let mut arguments = BackwardArguments::for_problem(problem, inputs.layout());
        arguments.forward.q = addresses.address("q");
        arguments.forward.k = addresses.address("k");
        arguments.forward.v = addresses.address("v");
        arguments.forward.o = addresses.address("o");
        arguments.forward.lse = addresses.address("lse");
        arguments.forward.workspace = addresses.workspace;
        arguments.d_o = addresses.address("d_o");
        arguments.dq = addresses.address("dq");
        arguments.dk = addresses.address("dk");
        arguments.dv = addresses.address("dv");
        vec![vec![arguments.bytes()]; family.entries().count()]
    }
}

impl OpReference for AttentionBackward {
    type Reference = Gradients;

    fn reference(
        &self,
        _problem: &Problem,
        inputs: &BackwardInputs,
        sample: u64,
    ) -> Result<Gradients, Refusal> {
        Ok(inputs.gradients(ORACLE_BUDGET, sample))
    }
}

/// A kernel whose code has this name adds in a fixed order although it adds atomically, so its bits must repeat.
const ORDERED: &str = "additions_are_ordered";

impl OpJudgement for AttentionBackward {
    fn extra_tolerance(&self, family: &Family, _problem: &Problem, ptx: &str) -> Option<ExtraTolerance> {
        let is_unordered = !family.deterministic && op::adds_atomically(ptx) && !ptx.contains(ORDERED);
        is_unordered.then(|| ExtraTolerance {
            name: "unordered".to_owned(),
            note: "dQ is summed in any order: launches on the same inputs may differ within the tolerance"
                .to_owned(),
            is_unordered: true,
        })
    }

    fn judge(
        &self,
        _extra: Option<&ExtraTolerance>,
        inputs: &BackwardInputs,
        reference: &Gradients,
        outputs: &[Vec<u8>],
    ) -> Judgement {
        judge::judge(reference, inputs.layout(), outputs)
    }

    fn ignored_input(
        &self,
        _extra: Option<&ExtraTolerance>,
        which: &str,
        before: (&Gradients, &[Vec<u8>]),
        after: (&Gradients, &[Vec<u8>]),
    ) -> Option<Complaint> {
        judge::is_independent(before, after).then(|| Complaint {
            kind: "independent".to_owned(),
            message: format!("the gradients do not depend on {which}"),
        })
    }

    fn picture(
        &self,
        _candidate: &Candidate,
        _extra: Option<&ExtraTolerance>,
        _inputs: &BackwardInputs,
        _reference: &Gradients,
        _outputs: &[Vec<u8>],
    ) -> Option<Picture> {
        None
    }
}

impl OpPeers for AttentionBackward {
    fn peers(&self) -> Option<Peers> {
        let own = ["flash", "cudnn"].map(Peer::of_pytorch);
        let fa3 = |name: &str| Peer {
            package: "flash-attn".to_owned(),
            name: name.to_owned(),
            distributions: vec!["flash-attn-3".to_owned()],
            library: Some("WARPSMITH_FA3".to_owned()),
        };
        let all = own.into_iter().chain(["fa3", "fa3_deterministic"].map(fa3)).collect();
        Some(Peers { all, script: op::pytorch_script(include_str!("pytorch.py")) })
    }

    /// Peers get Q, K, V and dO; their own forward pass computes O and LSE.
    fn peer_problem(&self, problem: &Problem, inputs: &BackwardInputs) -> PeerProblem {
        let fields = serde_json::json!({
            "batch": problem.batch,
            "heads": problem.heads,
            "kv_heads": problem.kv_heads,
            "seq_q": problem.seq_q,
            "seq_k": problem.seq_k,
            "head_dim": problem.head_dim,
            "mask": problem.mask.name(),
            "dtype": problem.dtype.name(),
            "scale": problem.softmax_scale(),
        });
        let BackwardInputs { encoded, d_o, .. } = inputs;
        let tensors = [("q", &encoded.q), ("k", &encoded.k), ("v", &encoded.v), ("d_o", d_o)];
        let by_head = |(name, tensor): (&str, &Tensor)| Input {
            name: name.to_owned(),
            bytes: Arc::new(Tensor::encode(&tensor.decode(), problem.dtype, Layout::Bhsd).bytes),
            sign_bits: 0,
        };
        PeerProblem { fields, inputs: tensors.map(by_head).into(), untimed_conversion: "" }
    }

    fn judge_peer(
        &self,
        _name: &str,
        _inputs: &BackwardInputs,
        reference: &Gradients,
        outputs: Vec<Vec<u8>>,
    ) -> Judgement {
        // A peer's outputs are in the layout by head, whatever layout the kernels use.
        judge::judge(reference, Layout::Bhsd, &outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_problem_name_is_valid() {
        let op = AttentionBackward;
        let names = [op.default_problems(), op.edge_problems(), op.class_problems()].concat();
        assert!(names.len() > 50, "{names:?}");
        for name in &names {
            op.problems(name).unwrap_or_else(|refusal| panic!("{refusal}"));
        }
        assert!((0..200).all(|draw| require_supported(&op.fuzzed(draw)).is_ok()));
    }

    #[test]
    fn peers_get_the_same_numbers_as_kernels() {
        let problem: Problem = "b1h2kv1sq3sk5d64-causal-bf16".parse().unwrap();
        let inputs = BackwardInputs::generate(&problem, Class::Normal, 1, Layout::Bshd);
        let peer = AttentionBackward.peer_problem(&problem, &inputs);
        let names: Vec<&str> = peer.inputs.iter().map(|input| input.name.as_str()).collect();
        assert_eq!(names, ["q", "k", "v", "d_o"]);
        let given =
            Tensor { bytes: peer.inputs[3].bytes.to_vec(), layout: Layout::Bhsd, ..inputs.d_o.clone() };
        assert_eq!(given.decode(), inputs.d_o.decode());
        assert_ne!(given.bytes, inputs.d_o.bytes, "the layouts differ");
        let script = AttentionBackward.peers().expect("peers").script;
        for name in peer.fields.as_object().expect("fields").keys() {
            assert!(script.contains(&format!("fields[\"{name}\"]")), "{name}");
        }
    }

    #[test]
    fn problems_without_gradients_are_refused() {
        for name in ["mission-e4m3", "b2h2sq1sk70d64-ragged", "b1h2s40d64-causal-window5"] {
            assert!(AttentionBackward.problems(name).is_err(), "{name}");
        }
    }
}
