//! Implements the parts of an [`op::Op`] for attention with the parts of this crate.

use family::{Candidate, Family, Sizes};
use op::Similarity;
use op::{
    Addresses, Arrangement, Complaint, ExtraTolerance, JudgedRow, Judgement, LaunchParameters, OpInputs,
    OpJudgement, OpPeers, OpProblems, OpReference, PeerProblem, Peers, Picture, Refusal, SuiteText, Work,
};
use random::Random;

use crate::error_map;
use crate::inputs::{Class, Encoded, Input, Inputs};
use crate::metrics::{self, Fp8Errors, Mismatch, RowError, Tolerance, Weights};
use crate::oracle::{self, Reference, Rows};
use crate::peers;
use crate::problem::{self, Dtype, Mask, NameError, Problem};
use crate::run;
use crate::tensor::{Layout, Tensor};

/// The attention op.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attention;

/// Inputs with their origin.
#[derive(Clone, Debug)]
pub struct AttentionInputs {
    problem: Problem,
    class: Class,
    seed: u64,
    /// Before rounding to the problem's dtype.
    original: Inputs,
    /// Q, K and V in the form that kernels read.
    pub encoded: Encoded,
}

/// The reference for the numbers that the kernel reads and, for FP8, for the numbers before quantisation.
#[derive(Clone, Debug)]
pub struct AttentionReference {
    decoded: Reference,
    original: Option<Reference>,
}

/// Multiply-adds that the oracle may use for one reference: about a second on one core. For larger problems it
/// samples rows.
const ORACLE_BUDGET: u64 = 600_000_000;

const SUITES: [(&str, &str); 6] = [
    ("headline", include_str!("../suites/headline.toml")),
    ("v3", include_str!("../suites/v3.toml")),
    ("canonical", include_str!("../suites/canonical.toml")),
    ("paper", include_str!("../suites/paper.toml")),
    ("parity", include_str!("../suites/parity.toml")),
    ("fuzz27", include_str!("../suites/fuzz27.toml")),
];

/// Problems at the edges of tiles, masks and groups. A dtype is appended to each.
const EDGES: [&str; 28] = [
    "b1h1s1d64",
    "b1h2s17d64-causal",
    "b1h2sq17sk65d64-causal",
    "b1h2sq65sk17d64-causal",
    "b1h1sq33sk70d64-causal-tl",
    "b1h4kv2sq40sk33d64",
    "b1h2s127d64",
    "b1h2s129d64-causal",
    "b1h8kv2s129d64",
    "b1h8kv2sq40sk127d64-causal",
    "b2h1s448d64",
    "b1h1s513d64-causal",
    "b1h1s640d64",
    "b1h1sq127sk640d64-causal",
    "b1h1s1d128",
    "b1h2s17d128",
    "b1h1s127d128-causal",
    "b1h1s129d128",
    "b1h8kv2sq17sk129d128-causal",
    "b1h1s513d128-causal",
    "b4h17s33d64-causal",
    "b1h2s129d80-causal",
    "b1h2s70d96",
    "b1h2s129d96-causal",
    "b1h1s130d256-causal",
    "b3h8kv2sq1sk193d128",
    "b1h18kv2sq4sk129d64-causal",
    "b2h1sq2sk300d256",
];

/// Problems at the edges of lengths, pages and windows; rows that see nothing but a sink; every feature at once. A dtype is
/// appended to each.
const SERVING_EDGES: [&str; 17] = [
    "b7h8kv2sq1sk300d128-ragged",
    "b7h8kv2sq1sk300d128-ragged1-page16",
    "b3h2sq1sk70d64-ragged-page1",
    "b4h4kv1sq3sk129d64-causal-ragged-page48",
    "b2h2sq1sk513d64-page256",
    "b1h1sq1sk1d64-page64",
    "b1h4kv2sq5sk200d64-causal-window9",
    "b1h2s40d64-window8+3",
    "b2h4kv2sq4sk200d96-causal-tl-window3-sink",
    "b1h2sq33sk5d64-causal-sink",
    "b1h2sq1sk400d128-cap5",
    "b9h16kv2sq4sk300d128-causal-ragged2-page16-window100-sink-cap20",
    "b7h4kv2s100d64-causal-packed",
    "b8h8kv2sq9sk130d128-packed1",
    "b5h2sq40sk70d64-causal-packed-page16",
    "b4h4sq33sk65d96-causal-tl-packed2-window9",
    "b9h8kv2sq4sk300d128-causal-packed3-page16-window100-sink-cap20",
];

/// Problems with few queries and many keys. The first fills the rings of the path for short launches.
const CLASS_SHAPES: [&str; 4] = [
    "b1h2sq16sk512d64",
    "b1h2sq17sk1100d128-causal",
    "b1h1sq16sk700d256",
    "b4h8kv2sq2sk200d64-causal-ragged-page16-window100-sink-cap30",
];

/// The classes on which kernels that are right on ordinary inputs were wrong.
const HARD_CLASSES: [Class; 8] = [
    Class::Sink,
    Class::Large,
    Class::Outliers,
    Class::Drift,
    Class::Spikes,
    Class::MixedRows,
    Class::PositiveV,
    Class::Huge,
];

/// Problems whose FP8 inputs have a bf16 output: every way to store an output.
const WIDE_OUTPUTS: [&str; 5] =
    ["b1h1s1d64", "b1h8kv2sq40sk127d64-causal", "b1h1s513d128-causal", "b1h2s70d96", "b1h1s130d256-causal"];

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Self {
        Refusal::new(&error).hint(error.hint())
    }
}

pub(crate) fn class_of(name: &str) -> Result<Class, Refusal> {
    name.parse().map_err(Refusal::new)
}

/// The kind of a problem for [`Similarity`]: `d64-causal-fp16`.
pub(crate) fn kind(head_dim: usize, mask: Mask, dtype: Dtype) -> String {
    let mask = if mask == Mask::None { String::new() } else { format!("-{mask}") };
    format!("d{head_dim}{mask}-{dtype}")
}

/// The kinds whose settings suit a kind without its own: the other 16-bit type, the other causal mask, and then larger
/// heads, whose settings need at least as many registers and as much shared memory.
pub(crate) fn related_kinds(head_dim: usize, mask: Mask, dtype: Dtype) -> Vec<String> {
    let dtypes = match dtype {
        Dtype::Fp16 => vec![Dtype::Fp16, Dtype::Bf16],
        Dtype::Bf16 => vec![Dtype::Bf16, Dtype::Fp16],
        Dtype::E4m3 => vec![Dtype::E4m3],
    };
    let masks = match mask {
        Mask::None => vec![Mask::None],
        Mask::Causal => vec![Mask::Causal, Mask::CausalTopLeft, Mask::None],
        Mask::CausalTopLeft => vec![Mask::CausalTopLeft, Mask::Causal, Mask::None],
    };
    let head_dims = std::iter::once(head_dim).chain([64, 128, 256].into_iter().filter(|&it| it > head_dim));
    let mut kinds = Vec::new();
    for head_dim in head_dims {
        for &mask in &masks {
            kinds.extend(dtypes.iter().map(|&dtype| kind(head_dim, mask, dtype)));
        }
    }
    kinds.remove(0); // its own
    kinds
}

/// A regime far from all those of few queries, which are lower.
const MANY_QUERIES: u32 = 100;

/// The regime of a problem for [`Similarity`]. With many queries the time is that of the products; many short sequences want
/// tiles of their length, and problems with features for serving have picks of their own. With few queries it is that of
/// reading the keys and values. Then few heads must share the blocks of a GPU, some heads can fill it, and many heads give
/// each block a head of its own, unless their numbers of keys differ: then all blocks share all keys. The numbers of heads are
/// for a GPU with about 132 multiprocessors. Up to 8 rows of queries for each head of keys have settings of their own.
fn regime(problem: &Problem) -> u32 {
    const SHORT_SEQUENCES: u32 = 200;
    const MANY_SERVED_QUERIES: u32 = 120;
    let Problem { batch, heads, kv_heads, seq_q, seq_k, .. } = *problem;
    let is_short = (65..=128).contains(&seq_q) && seq_k <= 128;
    if is_short && batch * heads >= 264 && problem.serving.is_plain() {
        return SHORT_SEQUENCES;
    }
    if seq_q > 64 || seq_k < 16 * seq_q {
        return if problem.serving.is_plain() { MANY_QUERIES } else { MANY_SERVED_QUERIES };
    }
    let heads_to_share = match batch * kv_heads {
        0..=16 => 0,
        17..=131 => 1,
        _ if problem.serving.ragged.is_none() => 2,
        _ => 3,
    };
    let rows = heads / kv_heads * seq_q;
    2 * heads_to_share + u32::from(rows > 8)
}

/// Both memory layouts are tested: even seeds use the layout by head, odd seeds the layout by position.
pub(crate) fn layout_of(seed: u64) -> Layout {
    Layout::ALL[(seed % 2) as usize]
}

fn wants_lse(family: &Family) -> bool {
    family.axis("lse").is_some_and(|axis| axis.values.contains(&family::Value::Bool(true)))
}

/// The names of [`ExtraTolerance`]: FP8 weights, and FP8 weights of a kernel whose sums have only 13 bits.
const FP8_WEIGHTS: &str = "fp8-weights";
const FP8_WEIGHTS_AND_SUMS: &str = "fp8-weights-and-sums";

fn tolerance(extra: Option<&ExtraTolerance>, problem: &Problem) -> Tolerance {
    let new = |weights| Tolerance::new(problem.dtype, weights).with_output_of(problem);
    match extra.map(|extra| extra.name.as_str()) {
        Some(FP8_WEIGHTS) => new(Weights::Fp8),
        Some(FP8_WEIGHTS_AND_SUMS) => new(Weights::Fp8).with_fp8_sums(),
        _ => new(Weights::Half),
    }
}

/// The instructions of a kernel's own body, each with its modifiers. Comments and other kernels are skipped.
fn instructions<'p>(ptx: &'p str, entry: &str) -> impl Iterator<Item = &'p str> {
    let header = format!(".entry {entry}(");
    let body = ptx.find(&header).map_or("", |at| &ptx[at..]);
    let body = body.split("\n}").next().unwrap_or_default();
    let word = |line: &'p str| {
        let line = line.split("//").next()?.trim_start();
        // A guard such as `@%p1` comes first.
        line.split_whitespace().find(|word| !word.starts_with('@') && *word != "{")
    };
    body.lines().filter_map(word)
}

fn complaint(failure: &Mismatch) -> Complaint {
    Complaint { kind: failure.kind().to_owned(), message: failure.to_string() }
}

fn tensor(problem: &Problem, layout: Layout, outputs: &[Vec<u8>]) -> (Tensor, Option<Vec<f32>>) {
    run::answer(problem, layout, outputs.to_vec())
}

fn judgement(
    problem: &Problem,
    reference: &AttentionReference,
    output: &Tensor,
    lse: Option<&[f32]>,
    tolerance: Tolerance,
) -> Judgement {
    let comparison = metrics::compare(&reference.decoded, output, lse, tolerance);
    let split = |original| Fp8Errors::new(&comparison, &reference.decoded, original).quantisation;
    Judgement {
        error: comparison.relative_l2,
        limit: comparison.relative_l2_limit,
        worst: comparison.worst.map_or(0.0, |element| element.error()),
        worst_row: comparison.worst_row.map(|RowError { row, error, limit }| JudgedRow {
            row: row.to_string(),
            error,
            limit,
        }),
        share: comparison.share,
        roundings: Some(op::roundings(comparison.relative_l2, problem.output.significant_bits())),
        quantisation: reference.original.as_ref().map(split),
        compared: comparison.elements,
        elements: problem.stored_query_shape().elements(),
        complaints: comparison.failures.iter().map(complaint).collect(),
    }
}

impl OpProblems for Attention {
    type Problem = Problem;

    fn name(&self) -> &'static str {
        "attention"
    }

    fn problems(&self, text: &str) -> Result<Vec<Problem>, Refusal> {
        Ok(problem::expand(text)?)
    }

    fn aliases(&self) -> Vec<String> {
        problem::aliases()
    }

    fn problem_from_fields(&self, fields: &toml::Table) -> Result<Problem, Refusal> {
        problem::from_fields(fields)
    }

    fn in_words(&self, problem: &Problem) -> String {
        problem.in_words()
    }

    fn name_help(&self) -> String {
        "b is the number of sequences, h of heads, s of tokens, d the head dimension. A name means fp16 unless a dtype \
         follows it: mission-e4m3."
            .to_owned()
    }

    fn suites(&self) -> Vec<SuiteText> {
        let suite = |(name, text): (&str, &str)| SuiteText { name: name.to_owned(), text: text.to_owned() };
        SUITES.map(suite).to_vec()
    }

    fn default_problems(&self) -> Vec<String> {
        let dtypes = [Dtype::Fp16, Dtype::E4m3];
        dtypes
            .into_iter()
            .flat_map(|dtype| problem::aliases().into_iter().map(move |alias| format!("{alias}-{dtype}")))
            .collect()
    }

    /// It has a partial last tile, two heads and several loop steps of every preset.
    fn small_problem(&self) -> String {
        "b1h2s200d64-fp16".to_owned()
    }

    fn edge_problems(&self) -> Vec<String> {
        let with =
            |dtype: Dtype| EDGES.iter().chain(&SERVING_EDGES).map(move |shape| format!("{shape}-{dtype}"));
        let usual = Dtype::ALL.into_iter().flat_map(with);
        usual.chain(WIDE_OUTPUTS.map(|shape| format!("{shape}-e4m3-obf16"))).collect()
    }

    fn class_problems(&self) -> Vec<String> {
        let with = |dtype: Dtype| CLASS_SHAPES.map(|shape| format!("{shape}-{dtype}"));
        Dtype::ALL.into_iter().flat_map(with).collect()
    }

    fn fuzzed(&self, draw: u64) -> Problem {
        let mut random = Random::new(draw);
        let mut pick = |choices: &[usize]| choices[random.integer(0, choices.len() as i64) as usize];
        let kv_heads = pick(&[1, 2, 4]);
        let seq = pick(&[1, 17, 127, 129, 448, 512, 513, 640, 3, 64, 200]);
        let seq_k = [seq, pick(&[1, 17, 65, 127, 129, 513])][pick(&[0, 0, 1])];
        let problem = Problem {
            seq_k,
            kv_heads,
            batch: pick(&[1, 1, 2, 3]),
            heads: kv_heads * pick(&[1, 1, 2, 4]),
            head_dim: pick(&[64, 64, 128, 128, 80, 96, 256]),
            mask: Mask::ALL[pick(&[0, 1, 1, 2])],
            ..Problem::new(1, 1, seq, 64, Dtype::ALL[pick(&[0, 1, 2])])
        };
        let outputs = problem.dtype.outputs();
        problem.with_output(outputs[pick(&[0, 0, 1]) % outputs.len()])
    }

    fn cut(&self, problem: &Problem, flops: f64) -> Problem {
        problem.cut(flops)
    }

    fn candidate(
        &self,
        family: &Family,
        preset: Option<&str>,
        knobs: &[(String, String)],
        problem: &Problem,
    ) -> Result<Candidate, Refusal> {
        for layout in Layout::ALL {
            run::check(family, problem, layout, wants_lse(family)).map_err(Refusal::new)?;
        }
        let candidate = family.candidate(preset, knobs, &run::axes(family, problem))?;
        run::check_keys(&candidate, problem).map_err(|error| {
            let knob = if matches!(error, run::Unsupported::AtOnce { .. }) {
                "RUNNING_MAX=integers"
            } else {
                "PROMOTION_INTERVAL"
            };
            Refusal::new(error).hint(Some(format!("set {knob}")))
        })?;
        Ok(candidate)
    }

    fn sizes(&self, problem: &Problem) -> Sizes {
        run::sizes(problem)
    }

    fn work(&self, problem: &Problem) -> Work {
        Work { flops: problem.flops(), bytes: problem.minimal_bytes() }
    }

    fn matrix_type(&self, problem: &Problem) -> Option<&str> {
        Some(problem.dtype.name())
    }

    /// The best tiles and the cost of a tile depend on dtype, head dimension and mask; the number of tiles depends on
    /// the pairs of queries and keys. The mask is part of the kind, so hidden pairs need not be subtracted.
    fn similarity(&self, problem: &Problem) -> Similarity {
        let Problem { batch, heads, seq_q, seq_k, head_dim, mask, dtype, .. } = *problem;
        let size = [batch, heads, seq_q, seq_k].map(|extent| extent as f64).iter().product();
        // A mask hides nearly nothing from few queries, so their settings do not depend on it.
        let mask = if regime(problem) < MANY_QUERIES { Mask::None } else { mask };
        let (kind, related) = (kind(head_dim, mask, dtype), related_kinds(head_dim, mask, dtype));
        Similarity { kind, related, regime: regime(problem), size }
    }

    fn preferred_families(&self) -> &[&str] {
        &["hopper", "hopper-decode", "mma", "wmma", "reference"]
    }

    fn default_family(&self) -> Option<&str> {
        Some("mma")
    }
}

impl OpInputs for Attention {
    type Inputs = AttentionInputs;

    fn classes(&self) -> Vec<&str> {
        Class::ALL.iter().map(|class| class.name()).collect()
    }

    fn joined_classes(&self) -> Vec<&str> {
        vec![Class::ByHead.name()]
    }

    fn hard_classes(&self) -> Vec<&str> {
        HARD_CLASSES.map(Class::name).to_vec()
    }

    fn inputs(&self, problem: &Problem, class: &str, seed: u64) -> Result<AttentionInputs, Refusal> {
        let class = class_of(class)?;
        let original = Inputs::generate(problem, class, seed);
        let encoded = original.encode(problem.dtype, layout_of(seed));
        Ok(AttentionInputs { problem: *problem, class, seed, original, encoded })
    }

    fn timed_inputs(&self, problem: &Problem, class: &str, seed: u64) -> Result<AttentionInputs, Refusal> {
        let class = class_of(class)?;
        let original = Inputs::generate(problem, class, seed);
        let encoded = original.encode(problem.dtype, Layout::Bhsd);
        Ok(AttentionInputs { problem: *problem, class, seed, original, encoded })
    }

    fn opposite(
        &self,
        problem: &Problem,
        inputs: &AttentionInputs,
        class: &str,
        seed: u64,
    ) -> Result<AttentionInputs, Refusal> {
        let class = class_of(class)?;
        let magnitudes = Inputs::generate(problem, class, seed);
        let magnitudes = magnitudes.with_some_large_scores(problem, class, seed);
        let original = inputs.original.opposite(magnitudes);
        let layout = match inputs.encoded.q.layout {
            Layout::Bhsd => Layout::Bshd,
            Layout::Bshd => Layout::Bhsd,
        };
        let encoded = original.encode(problem.dtype, layout);
        Ok(AttentionInputs { problem: *problem, class, seed, original, encoded })
    }

    fn input_names(&self) -> Vec<&str> {
        vec!["Q", "K", "V"]
    }

    fn redraw(&self, problem: &Problem, inputs: &AttentionInputs, which: &str, seed: u64) -> AttentionInputs {
        let which = Input::ALL.into_iter().find(|input| input.to_string() == which).unwrap_or(Input::V);
        let original = inputs.original.redraw(problem, inputs.class, (inputs.seed, seed), which);
        let encoded = inputs.encoded.with(which, &original);
        AttentionInputs { original, encoded, ..*inputs }
    }

    fn mutated(&self, problem: &Problem, inputs: &AttentionInputs, seed: u64) -> AttentionInputs {
        let original = inputs.original.mutated(problem, seed);
        let encoded = original.encode(problem.dtype, inputs.encoded.q.layout);
        AttentionInputs { original, encoded, ..*inputs }
    }

    fn arrange(&self, family: &Family, problem: &Problem, inputs: &AttentionInputs) -> Arrangement {
        run::arrange(problem, &inputs.encoded, wants_lse(family))
    }

    fn parameters(
        &self,
        family: &Family,
        problem: &Problem,
        inputs: &AttentionInputs,
        addresses: &Addresses,
    ) -> Vec<LaunchParameters> {
        let parameters = run::parameters(problem, &inputs.encoded, addresses);
        vec![parameters; family.entries().count()]
    }
}

impl OpReference for Attention {
    type Reference = AttentionReference;

    fn reference(
        &self,
        problem: &Problem,
        inputs: &AttentionInputs,
        sample: u64,
    ) -> Result<AttentionReference, Refusal> {
        let rows = || Rows::within(problem, ORACLE_BUDGET, sample).with_extremes(problem, &inputs.original.q);
        let original =
            (problem.dtype == Dtype::E4m3).then(|| oracle::attention(problem, &inputs.original, rows()));
        let decoded = oracle::attention(problem, &inputs.encoded.decode(), rows());
        Ok(AttentionReference { decoded, original })
    }
}

impl OpJudgement for Attention {
    fn extra_tolerance(&self, family: &Family, problem: &Problem, ptx: &str) -> Option<ExtraTolerance> {
        if problem.dtype != Dtype::E4m3 || family.weights(problem.dtype.name()) != Weights::Fp8 {
            return None;
        }
        // One instruction converts weights to FP8, and only one kind of instruction uses FP8 weights.
        let has = |start: &str, part: &str| {
            instructions(ptx, &family.entry).any(|it| it.starts_with(start) && it.contains(part))
        };
        let rounds = has("cvt.", ".e4m3x2.f32") || has("cvt.", ".e4m3x2.f16x2");
        let [by_warp, by_warpgroup] = ["mma.", "wgmma.mma_async"].map(|start| has(start, ".e4m3.e4m3"));
        if !rounds || !(by_warp || by_warpgroup) {
            return None;
        }
        let [own, asked] =
            [Weights::Half, Weights::Fp8].map(|weights| Tolerance::new(problem.dtype, weights).l2);
        let note =
            format!("the kernel has FP8 weights: relative L2 error {asked:.0e} allowed, not {own:.0e}");
        // Only a kernel whose products are all of this kind can need what the sums of FP8 tensor cores lose. 16-bit
        // products of single warps do not count: a kernel may compute lost scores of a step again with them.
        let other_product = |it: &str| {
            it.starts_with("wmma.mma")
                || (it.starts_with("mma.") && it.contains(".e4m3"))
                || (it.starts_with("wgmma.mma_async") && !it.contains(".f32.e4m3.e4m3"))
        };
        if by_warpgroup && !instructions(ptx, &family.entry).any(other_product) {
            let name = FP8_WEIGHTS_AND_SUMS.to_owned();
            let note =
                format!("{note}; its tensor cores add with 13 bits: errors of scores allowed accordingly");
            return Some(ExtraTolerance { name, note, is_unordered: false });
        }
        Some(ExtraTolerance { name: FP8_WEIGHTS.to_owned(), note, is_unordered: false })
    }

    fn judge(
        &self,
        extra: Option<&ExtraTolerance>,
        inputs: &AttentionInputs,
        reference: &AttentionReference,
        outputs: &[Vec<u8>],
    ) -> Judgement {
        let problem = &inputs.problem;
        let (output, lse) = tensor(problem, inputs.encoded.q.layout, outputs);
        judgement(problem, reference, &output, lse.as_deref(), tolerance(extra, problem))
    }

    fn ignored_input(
        &self,
        extra: Option<&ExtraTolerance>,
        which: &str,
        before: (&AttentionReference, &[Vec<u8>]),
        after: (&AttentionReference, &[Vec<u8>]),
    ) -> Option<Complaint> {
        let problem = &before.0.decoded.problem;
        let of = Input::ALL.into_iter().find(|input| input.to_string() == which)?;
        // Only equality of bits is checked, so the layout does not matter.
        let output = |outputs: &[Vec<u8>]| tensor(problem, Layout::default(), outputs).0;
        let (first, second) = (output(before.1), output(after.1));
        let (before, after) = ((&before.0.decoded, &first), (&after.0.decoded, &second));
        let failure = metrics::ignored_input(of, before, after, tolerance(extra, problem))?;
        Some(complaint(&failure))
    }

    fn picture(
        &self,
        candidate: &Candidate,
        extra: Option<&ExtraTolerance>,
        inputs: &AttentionInputs,
        reference: &AttentionReference,
        outputs: &[Vec<u8>],
    ) -> Option<Picture> {
        let problem = &inputs.problem;
        let (output, _) = tensor(problem, inputs.encoded.q.layout, outputs);
        let tile = candidate.knobs.get("BLOCK_M").and_then(|height| height.to_string().parse().ok());
        let map = error_map::draw(&reference.decoded, &output, tolerance(extra, problem), tile)?;
        Some(Picture { text: map.to_string(), svg: map.svg() })
    }
}

impl OpPeers for Attention {
    fn peers(&self) -> Option<Peers> {
        Some(peers::peers())
    }

    fn peer_problem(&self, problem: &Problem, inputs: &AttentionInputs) -> PeerProblem {
        peers::problem(problem, &inputs.encoded)
    }

    fn judge_peer(
        &self,
        name: &str,
        inputs: &AttentionInputs,
        reference: &AttentionReference,
        outputs: Vec<Vec<u8>>,
    ) -> Judgement {
        let problem = &inputs.problem;
        // A peer's output is in the layout by head, whatever layout the kernels use.
        let (output, _) = run::answer(problem, Layout::Bhsd, outputs);
        judgement(problem, reference, &output, None, peers::tolerance(name, problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_instructions_of_the_kernel_itself_are_found() {
        let ptx = ".entry other(\n)\n{\n\tcvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;\n}\n.visible .entry own(\n)\n{\n\t\
                   // mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32\n\t@%p1 mov.u32 %r1, %r2;\n}\n";
        let own: Vec<&str> = instructions(ptx, "own").collect();
        assert!(own.contains(&"mov.u32") && !own.iter().any(|it| it.contains("e4m3")), "{own:?}");
        assert!(instructions(ptx, "other").any(|it| it.contains("e4m3x2")));
    }

    #[test]
    fn every_listed_problem_name_is_valid() {
        let names =
            [Attention.default_problems(), Attention.edge_problems(), Attention.class_problems()].concat();
        for name in &names {
            Attention.problems(name).unwrap_or_else(|refusal| panic!("{refusal}"));
        }
    }

    #[test]
    fn fuzzed_problems_have_valid_names_and_are_reproducible() {
        for draw in 0..500 {
            let problem = Attention.fuzzed(draw);
            assert_eq!(problem.to_string().parse(), Ok(problem));
            assert_eq!(problem, Attention.fuzzed(draw));
        }
    }
}
