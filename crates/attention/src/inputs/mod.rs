//! Inputs: Q, K and V from a seed, by class. Each class reveals a fault that the others do not.

mod mutation;
mod related;
mod serving;

use std::fmt;

pub use op::Class;
use op::values;
use random::Random;
use serde::{Deserialize, Serialize};

pub use serving::{Pages, ServingInputs, each_packed_row, pages_of_sequence};

use crate::problem::{Dtype, Problem};
use crate::quantise;
use crate::tensor::{Layout, Tensor, Values};

/// One of the three input tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Input {
    /// The queries.
    Q,
    /// The keys.
    K,
    /// The values.
    V,
}

impl Input {
    /// All input tensors.
    pub const ALL: [Input; 3] = [Input::Q, Input::K, Input::V];
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Input::Q => "Q",
            Input::K => "K",
            Input::V => "V",
        })
    }
}

/// Q, K and V as numbers. K and V have `seq_k` positions for every sequence, whatever its length.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    /// The queries.
    pub q: Values,
    /// The keys.
    pub k: Values,
    /// The values.
    pub v: Values,
    /// Lengths, sinks and pages.
    pub serving: ServingInputs,
}

impl Inputs {
    /// The inputs of a problem. They depend only on the class and the seed, not on the dtype, so that formats are
    /// compared on the same numbers; except that the values of class `huge` reach the end of the type's range.
    pub fn generate(problem: &Problem, class: Class, seed: u64) -> Self {
        let [q, k, v] = Input::ALL.map(|which| generate(problem, class, (seed, seed), which));
        Inputs { q, k, v, serving: ServingInputs::generate(problem, seed) }
    }

    /// The same inputs, which were generated from the first seed, with one tensor drawn from the second.
    #[must_use]
    pub fn redraw(&self, problem: &Problem, class: Class, (own, seed): (u64, u64), which: Input) -> Self {
        let other = generate(problem, class, (own, seed), which);
        let mut redrawn = self.clone();
        match which {
            Input::Q => redrawn.q = other,
            Input::K => redrawn.k = other,
            Input::V => redrawn.v = other,
        }
        redrawn
    }

    /// Replaces the queries and keys of every third head by those of class `large`. With fewer than three heads of keys,
    /// every third query becomes large. Inputs at full size have a class that is drawn, and the scores of some classes
    /// are small: a kernel that leaves out the maximum only at full size would pass by chance. Values stay, because
    /// large ones would widen the tolerance of the other heads.
    #[must_use]
    pub fn with_some_large_scores(mut self, problem: &Problem, class: Class, seed: u64) -> Self {
        let all = problem.batch * problem.kv_heads;
        if all < 3 {
            // Class `huge` has the largest scores that stay finite.
            if class != Class::Huge {
                self.enlarge_some_queries(problem, seed);
            }
            return self;
        }
        let queries = problem.heads / problem.kv_heads;
        for (which, values, group) in [(Input::Q, &mut self.q, queries), (Input::K, &mut self.k, 1)] {
            let large = generate(problem, Class::Large, (seed, seed), which);
            let elements = group * values.shape.head_elements();
            let heads = values.data.chunks_exact_mut(elements).zip(large.data.chunks_exact(elements));
            for (own, large) in heads.skip(seed as usize % 3).step_by(3) {
                own.copy_from_slice(large);
            }
        }
        self
    }

    /// Replaces every third query by one of class `large`; of one or two queries, one.
    fn enlarge_some_queries(&mut self, problem: &Problem, seed: u64) {
        let large = generate(problem, Class::Large, (seed, seed), Input::Q);
        let rows = self.q.data.chunks_exact_mut(problem.head_dim);
        let count = rows.len().clamp(1, 3);
        let rows = rows.zip(large.data.chunks_exact(problem.head_dim));
        for (own, large) in rows.skip(seed as usize % count).step_by(3) {
            own.copy_from_slice(large);
        }
    }

    /// Inputs with the given magnitudes and the opposite signs of these inputs.
    #[must_use]
    pub fn opposite(&self, mut magnitudes: Inputs) -> Self {
        values::oppose(&mut magnitudes.q.data, &self.q.data);
        values::oppose(&mut magnitudes.k.data, &self.k.data);
        values::oppose(&mut magnitudes.v.data, &self.v.data);
        magnitudes
    }

    /// The inputs in the form that kernels read: rounded to fp16 or bf16, or quantised to E4M3 with a scale per head.
    pub fn encode(&self, dtype: Dtype, layout: Layout) -> Encoded {
        let Inputs { q, k, v, serving } = self;
        let [q, k, v] = [q, k, v].map(|values| encode(values, dtype, layout));
        Encoded { q, k, v, serving: serving.clone() }
    }
}

fn encode(values: &Values, dtype: Dtype, layout: Layout) -> Tensor {
    match dtype {
        Dtype::Fp16 | Dtype::Bf16 => Tensor::encode(values, dtype, layout),
        Dtype::E4m3 => Tensor::encode(&quantise::scaled(values), dtype, layout),
    }
}

/// Q, K and V in the form that kernels read. [`ServingInputs::cache`] places K and V in pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// The encoded queries.
    pub q: Tensor,
    /// The encoded keys.
    pub k: Tensor,
    /// The encoded values.
    pub v: Tensor,
    /// Lengths, sinks and pages.
    pub serving: ServingInputs,
}

impl Encoded {
    /// The same tensors with one of them taken from other inputs.
    #[must_use]
    pub fn with(&self, which: Input, other: &Inputs) -> Self {
        let encoded = |values: &Values| encode(values, self.q.dtype, self.q.layout);
        let mut changed = self.clone();
        match which {
            Input::Q => changed.q = encoded(&other.q),
            Input::K => changed.k = encoded(&other.k),
            Input::V => changed.v = encoded(&other.v),
        }
        changed
    }

    /// The exact numbers that the kernel reads. The reference is computed from them.
    pub fn decode(&self) -> Inputs {
        let [q, k, v] = [&self.q, &self.k, &self.v].map(Tensor::decode);
        Inputs { q, k, v, serving: self.serving.clone() }
    }
}

/// One tensor. What it has in common with the others comes from the first seed, its own numbers from the second.
fn generate(problem: &Problem, class: Class, (structure, seed): (u64, u64), which: Input) -> Values {
    if class == Class::ByHead {
        return by_head(problem, (structure, seed), which);
    }
    // Each tensor has its own stream, so that a longer Q does not change K.
    let mut seeds = Random::new(seed).after(which as u64);
    let mut random = Random::new(seeds.bits());
    let structure = Random::new(structure).after(Input::ALL.len() as u64).bits();
    let shape = if which == Input::Q { problem.query_shape() } else { problem.key_shape() };
    let mut data = vec![0.0; shape.elements()];
    let peak = if which == Input::V { 1.0 } else { 16.0 };
    let own = if matches!(class, Class::MixedRows | Class::Drift) { Class::Normal } else { class };
    values::fill(&mut data, own, (shape.head_dim, peak), &mut random);
    match class {
        Class::MixedRows if which == Input::Q => related::mix_rows(&mut data, shape.head_dim, random.bits()),
        Class::PositiveV if which == Input::V => data.iter_mut().for_each(|x| *x = x.abs()),
        Class::Huge => related::enlarge(&mut data, problem, which, structure),
        Class::Drift | Class::Sink | Class::Spikes => {
            related::relate(&mut data, problem, class, which, structure);
        }
        _ => {}
    }
    Values { shape, data, scales: None }
}

/// The class of a head of keys, counted over all batch entries. Successive seeds continue where the heads of the one before
/// end, so that a few of them try all classes on a problem with few heads.
fn class_of_head(problem: &Problem, structure: u64, head: usize) -> Class {
    let heads = (problem.batch * problem.kv_heads) as u64;
    let classes = Class::ALL.len() as u64;
    Class::ALL[((structure % classes * (heads % classes) + head as u64) % classes) as usize]
}

/// One tensor of class `by-head`. The heads of a class are those of a problem that has no others.
fn by_head(problem: &Problem, (structure, seed): (u64, u64), which: Input) -> Values {
    let shape = if which == Input::Q { problem.query_shape() } else { problem.key_shape() };
    let group = if which == Input::Q { problem.heads / problem.kv_heads } else { 1 };
    let mut data = vec![0.0; shape.elements()];
    let mut heads: Vec<&mut [f32]> = data.chunks_exact_mut((group * shape.head_elements()).max(1)).collect();
    for class in Class::ALL {
        let own = heads.iter_mut().enumerate();
        let own: Vec<_> = own.filter(|(head, _)| class_of_head(problem, structure, *head) == class).collect();
        if own.is_empty() {
            continue;
        }
        let (kv_heads, queries_of_head) = (own.len(), problem.heads / problem.kv_heads);
        let part = Problem { batch: 1, kv_heads, heads: kv_heads * queries_of_head, ..*problem };
        let numbers = generate(&part, class, (structure, seed), which);
        let numbers = numbers.data.chunks_exact((group * shape.head_elements()).max(1));
        own.into_iter().zip(numbers).for_each(|((_, head), numbers)| head.copy_from_slice(numbers));
    }
    Values { shape, data, scales: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem() -> Problem {
        "b2h4kv2sq33sk65d64-e4m3".parse().expect("a valid name")
    }

    #[test]
    fn every_third_head_has_large_scores_and_its_own_values() {
        let problem: Problem = "b1h8kv4s16d64-fp16".parse().unwrap();
        let own = Inputs::generate(&problem, Class::Normal, 7);
        let mixed = own.clone().with_some_large_scores(&problem, Class::Normal, 7);
        let is_large = |values: &Values, head: usize| values.head(0, head).iter().any(|x| x.abs() > 30.0);
        let heads = |values: &Values, count: usize| -> Vec<bool> {
            (0..count).map(|head| is_large(values, head)).collect()
        };
        assert_eq!(heads(&mixed.k, 4), [false, true, false, false]);
        assert_eq!(heads(&mixed.q, 8), [false, false, true, true, false, false, false, false]);
        assert_eq!(mixed.v, own.v);
        // With fewer heads, queries become large.
        for (name, large) in
            [("b1h4kv2s16d64-fp16", 21), ("b1h1sq1sk330d64-fp16", 1), ("b1h1sq2sk330d64-fp16", 1)]
        {
            let few: Problem = name.parse().unwrap();
            let own = Inputs::generate(&few, Class::Normal, 7);
            let mixed = own.clone().with_some_large_scores(&few, Class::Normal, 7);
            let is_large = |row: &&[f32]| row.iter().any(|x| x.abs() > 30.0);
            assert_eq!(mixed.q.data.chunks_exact(64).filter(is_large).count(), large, "{name}");
            assert_eq!((&mixed.k, &mixed.v), (&own.k, &own.v));
        }
    }

    #[test]
    fn inputs_depend_only_on_the_seed() {
        let normal = |seed| Inputs::generate(&problem(), Class::Normal, seed);
        assert_eq!(normal(1), normal(1));
        assert_ne!(normal(1).q, normal(2).q);
        assert_ne!(normal(1).k.data, normal(1).v.data);
        // A longer Q does not change K and V.
        let longer = Problem { seq_q: 100, ..problem() };
        assert_eq!(Inputs::generate(&longer, Class::Normal, 1).k, normal(1).k);
    }

    #[test]
    fn opposite_inputs_have_flipped_signs_and_the_same_magnitudes() {
        for class in Class::ALL {
            let inputs = Inputs::generate(&problem(), Class::Normal, 3);
            let magnitudes = Inputs::generate(&problem(), class, 4);
            let other = inputs.opposite(magnitudes.clone());
            for (a, b) in inputs.k.data.iter().zip(&other.k.data) {
                assert_ne!(a.is_sign_negative(), b.is_sign_negative(), "{class}: {a} {b}");
            }
            let sorted = |values: &Values| {
                let mut data: Vec<f32> = values.data.iter().map(|x| x.abs()).collect();
                data.sort_by(f32::total_cmp);
                data
            };
            assert_eq!(sorted(&magnitudes.q), sorted(&other.q), "{class}");
        }
    }

    #[test]
    fn many_threads_draw_the_same_numbers_as_one() {
        let problem: Problem = "b1h3s701d64-fp16".parse().expect("a valid name");
        let inputs = |class| Inputs::generate(&problem, class, 5);
        assert!(inputs(Class::Normal).k.data.len() > 2 * values::PIECE);
        let stream = |which: Input| Random::new(Random::new(5).after(which as u64).bits());
        let mut random = stream(Input::K);
        assert!(inputs(Class::Normal).k.data.iter().all(|&x| x == random.normal() as f32));
        let mut random = stream(Input::V);
        assert!(inputs(Class::SignedZeros).v.data.iter().all(|&x| {
            let (draw, number) = (random.uniform(), random.normal());
            x == if draw < 0.5 { 0.0 } else { number as f32 }
        }));
    }

    #[test]
    fn redrawing_one_tensor_does_not_change_the_others() {
        let [first, second] = [1, 2].map(|seed| Inputs::generate(&problem(), Class::Normal, seed));
        for which in Input::ALL {
            let redrawn = first.redraw(&problem(), Class::Normal, (1, 2), which);
            let expected = Inputs {
                q: if which == Input::Q { second.q.clone() } else { first.q.clone() },
                k: if which == Input::K { second.k.clone() } else { first.k.clone() },
                v: if which == Input::V { second.v.clone() } else { first.v.clone() },
                serving: first.serving.clone(),
            };
            assert_eq!(redrawn, expected);
            for dtype in Dtype::ALL {
                let encoded = first.encode(dtype, Layout::Bshd).with(which, &redrawn);
                assert_eq!(encoded, redrawn.encode(dtype, Layout::Bshd), "{which} {dtype}");
            }
        }
    }

    #[test]
    fn every_head_of_class_by_head_has_a_class_and_a_few_seeds_have_all() {
        let problem: Problem = "b2h8kv4sq5sk300d64-fp16".parse().expect("a valid name");
        let classes = |seed| (0..8).map(move |head| class_of_head(&problem, seed, head));
        assert!(Class::ALL.iter().all(|class| classes(4).chain(classes(5)).any(|it| it == *class)));
        let inputs = Inputs::generate(&problem, Class::ByHead, 4);
        for (index, class) in classes(4).enumerate() {
            let part = Problem { batch: 1, heads: 2, kv_heads: 1, ..problem };
            let alone = Inputs::generate(&part, class, 4);
            let (batch, head) = (index / 4, index % 4);
            assert_eq!(inputs.k.head(batch, head), alone.k.data, "{class}");
            assert_eq!(inputs.v.head(batch, head), alone.v.data, "{class}");
            let queries: Vec<f32> = [2 * head, 2 * head + 1].map(|head| inputs.q.head(batch, head)).concat();
            assert_eq!(queries, alone.q.data, "{class}");
        }
        // One tensor can be drawn again without the others.
        let redrawn = inputs.redraw(&problem, Class::ByHead, (4, 9), Input::V);
        assert!(redrawn.q == inputs.q && redrawn.k == inputs.k && redrawn.v != inputs.v);
    }

    #[test]
    fn classes_have_their_documented_values() {
        let of = |class| Inputs::generate(&problem(), class, 3);
        let largest = |values: &Values| values.data.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
        assert!(largest(&of(Class::Uniform).q) <= 1.0);
        assert_eq!(largest(&of(Class::Zeros).v), 0.0);
        assert!(largest(&of(Class::Tiny).k) < 1e-3);
        assert!(largest(&of(Class::Large).k) > 120.0);
        assert!(largest(&of(Class::Outliers).k) > 30.0);
        let constant = of(Class::Constant).q.data;
        assert!(constant[0] != 0.0 && constant.iter().all(|&x| x == constant[0]));
        for row in of(Class::OneHot).q.data.chunks_exact(64) {
            assert_eq!(row.iter().filter(|&&x| x != 0.0).collect::<Vec<_>>(), [&16.0]);
        }
        let zeros = of(Class::SignedZeros).v.data;
        let signs = |sign: bool| zeros.iter().filter(|x| **x == 0.0 && x.is_sign_negative() == sign).count();
        assert!(signs(true) * 5 > zeros.len() && signs(false) * 5 > zeros.len());
        for class in Class::ALL {
            assert_eq!(class.name().parse(), Ok(class));
        }
    }

    /// The weights of a row, largest first.
    fn weights(problem: &Problem, inputs: &Inputs, row: usize) -> Vec<f64> {
        let width = problem.head_dim;
        let query = &inputs.q.data[row * width..][..width];
        let key_head = row / problem.seq_q / (problem.heads / problem.kv_heads);
        let keys = &inputs.k.data[key_head * problem.seq_k * width..][..problem.seq_k * width];
        let score = |key: &[f32]| {
            let products = query.iter().zip(key).map(|(a, b)| f64::from(*a) * f64::from(*b));
            f64::from(problem.softmax_scale()) * products.sum::<f64>()
        };
        let scores: Vec<f64> = keys.chunks_exact(width).map(score).collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
        weights.sort_by(|a, b| b.total_cmp(a));
        weights
    }

    #[test]
    fn related_classes_keep_their_structure_in_every_format_and_with_opposite_signs() {
        for dtype in Dtype::ALL {
            let problem: Problem = format!("b1h4kv2sq3sk1024d64-{dtype}").parse().expect("a valid name");
            for seed in 1..20 {
                let sink = Inputs::generate(&problem, Class::Sink, seed);
                let opposite = sink.opposite(Inputs::generate(&problem, Class::Sink, seed + 100));
                for inputs in [&sink, &opposite] {
                    let decoded = inputs.encode(dtype, Layout::Bhsd).decode();
                    let decoded = Inputs {
                        q: unscaled(&decoded.q),
                        k: unscaled(&decoded.k),
                        v: unscaled(&decoded.v),
                        ..decoded
                    };
                    for row in 0..12 {
                        let weights = weights(&problem, &decoded, row);
                        // At most 128 keys are dominant; the others are light, but not lost.
                        let light = weights[200].log2();
                        assert!((-26.0..-4.0).contains(&light), "{dtype} seed {seed} row {row}: 2^{light}");
                    }
                }
                let drift = Inputs::generate(&problem, Class::Drift, seed);
                assert!(weights(&problem, &drift, 5)[1000] < 1e-3);
                let spikes = Inputs::generate(&problem, Class::Spikes, seed);
                assert!(weights(&problem, &spikes, 5)[32] < 0.1);
            }
        }
    }

    fn unscaled(values: &Values) -> Values {
        let mut values = values.clone();
        let elements = values.shape.head_elements();
        let scales: Vec<f64> = (0..values.shape.heads).map(|head| values.scale(0, head)).collect();
        for (head, scale) in values.data.chunks_exact_mut(elements).zip(scales) {
            for x in head {
                *x *= scale as f32;
            }
        }
        values
    }

    #[test]
    fn a_zero_keeps_its_sign_through_every_format() {
        let inputs = Inputs::generate(&problem(), Class::SignedZeros, 3);
        for dtype in Dtype::ALL {
            let decoded = inputs.encode(dtype, Layout::Bhsd).decode();
            for (before, after) in
                inputs.q.data.iter().zip(&decoded.q.data).filter(|(before, _)| **before == 0.0)
            {
                assert_eq!(before.to_bits(), after.to_bits(), "{dtype}");
            }
        }
    }
}
