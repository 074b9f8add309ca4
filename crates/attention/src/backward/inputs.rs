//! The inputs of the backward pass: Q, K and V as in the forward pass, the gradient of the output, and what a forward pass
//! leaves, O rounded to the type and LSE in fp32.

use op::values;
use random::Random;

use crate::inputs::{Class, Encoded, Input, Inputs};
use crate::oracle::{self, GradientInputs, Rows};
use crate::problem::Problem;
use crate::tensor::{Layout, Tensor, Values};

/// Inputs with their origin.
#[derive(Clone, Debug)]
pub struct BackwardInputs {
    pub(super) problem: Problem,
    pub(super) class: Class,
    seed: u64,
    /// Before rounding to the problem's dtype.
    original: Inputs,
    original_d_o: Values,
    /// Q, K and V in the form that kernels read.
    pub encoded: Encoded,
    /// The gradient of the output.
    pub d_o: Tensor,
    /// The output of the forward pass.
    pub o: Tensor,
    /// The log-sum-exp of every row, `[batch, heads, seq_q]`.
    pub lse: Vec<f32>,
}

/// The streams of random numbers of dO, and of redrawn O and LSE; those of Q, K, V and their structure come before.
const D_O_STREAM: u64 = 8;
const O_STREAM: u64 = 9;
const LSE_STREAM: u64 = 10;

fn random(seed: u64, stream: u64) -> Random {
    Random::new(Random::new(seed).after(stream).bits())
}

/// The gradient of the output. With the classes that relate Q, K and V it is of the class `normal`: a large gradient
/// and large values together would give a dS beyond fp16's range, and every 16-bit implementation rounds dS.
fn draw_d_o(problem: &Problem, class: Class, seed: u64) -> Values {
    let own = match class {
        Class::Uniform
        | Class::Zeros
        | Class::OneHot
        | Class::Constant
        | Class::Outliers
        | Class::SignedZeros => class,
        _ => Class::Normal,
    };
    let shape = problem.query_shape();
    let mut data = vec![0.0; shape.elements()];
    values::fill(&mut data, own, (shape.head_dim, 1.0), &mut random(seed, D_O_STREAM));
    Values { shape, data, scales: None }
}

impl BackwardInputs {
    /// The inputs of a class.
    pub fn generate(problem: &Problem, class: Class, seed: u64, layout: Layout) -> Self {
        let original = Inputs::generate(problem, class, seed);
        let d_o = draw_d_o(problem, class, seed);
        BackwardInputs::new(problem, (class, seed), original, d_o, layout)
    }

    fn new(
        problem: &Problem,
        (class, seed): (Class, u64),
        original: Inputs,
        original_d_o: Values,
        layout: Layout,
    ) -> Self {
        let encoded = original.encode(problem.dtype, layout);
        let d_o = Tensor::encode(&original_d_o, problem.dtype, layout);
        let forward = oracle::attention(problem, &encoded.decode(), Rows::all(problem));
        let data = forward.output.iter().map(|&x| x as f32).collect();
        let o = Values { shape: problem.query_shape(), data, scales: None };
        let o = Tensor::encode(&o, problem.dtype, layout);
        let lse = forward.lse.iter().map(|&x| x as f32).collect();
        BackwardInputs { problem: *problem, class, seed, original, original_d_o, encoded, d_o, o, lse }
    }

    /// The order of all tensors in memory.
    pub fn layout(&self) -> Layout {
        self.encoded.q.layout
    }

    /// The opposite signs, in the other layout.
    pub(super) fn opposite(&self, class: Class, seed: u64) -> Self {
        let problem = &self.problem;
        let magnitudes = Inputs::generate(problem, class, seed);
        let magnitudes = magnitudes.with_some_large_scores(problem, class, seed);
        let original = self.original.opposite(magnitudes);
        let mut d_o = draw_d_o(problem, class, seed);
        values::oppose(&mut d_o.data, &self.original_d_o.data);
        let layout = match self.layout() {
            Layout::Bhsd => Layout::Bshd,
            Layout::Bshd => Layout::Bhsd,
        };
        BackwardInputs::new(problem, (class, seed), original, d_o, layout)
    }

    /// The same inputs with one of them drawn from another seed. If queries, keys or values change, O and LSE are
    /// computed again: with the LSE of other scores, weights could be any number.
    pub(super) fn redraw(&self, which: &str, seed: u64) -> Self {
        let problem = &self.problem;
        let of_forward = Input::ALL.into_iter().find(|input| input.to_string() == which);
        let origin = (self.class, self.seed);
        if let Some(input) = of_forward {
            let original = self.original.redraw(problem, self.class, (self.seed, seed), input);
            return BackwardInputs::new(problem, origin, original, self.original_d_o.clone(), self.layout());
        }
        let mut redrawn = self.clone();
        match which {
            "dO" => {
                redrawn.original_d_o = draw_d_o(problem, self.class, seed);
                redrawn.d_o = Tensor::encode(&redrawn.original_d_o, problem.dtype, self.layout());
            }
            "O" => {
                let mut random = random(seed, O_STREAM);
                let mut o = self.o.decode();
                o.data.iter_mut().for_each(|x| *x *= 0.5 + random.uniform() as f32);
                redrawn.o = Tensor::encode(&o, problem.dtype, self.layout());
            }
            _ => {
                let mut random = random(seed, LSE_STREAM);
                redrawn.lse.iter_mut().for_each(|x| *x += random.uniform() as f32);
            }
        }
        redrawn
    }

    pub(super) fn mutated(&self, seed: u64) -> Self {
        let original = self.original.mutated(&self.problem, seed);
        let origin = (self.class, self.seed);
        BackwardInputs::new(&self.problem, origin, original, self.original_d_o.clone(), self.layout())
    }

    /// The gradients in float64 of the exact numbers that the kernel reads.
    pub(super) fn gradients(&self, budget: u64, sample: u64) -> oracle::Gradients {
        let Inputs { q, k, v, .. } = &self.encoded.decode();
        let (d_o, o) = (self.d_o.decode(), self.o.decode());
        let o: Vec<f64> = o.data.iter().map(|&x| f64::from(x)).collect();
        let lse: Vec<f64> = self.lse.iter().map(|&x| f64::from(x)).collect();
        let inputs = GradientInputs { q, k, v, d_o: &d_o, o: &o, lse: &lse };
        oracle::gradients(&self.problem, &inputs, budget, sample)
    }
}
