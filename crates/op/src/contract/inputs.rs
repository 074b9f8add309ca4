//! The inputs of an op, and how a kernel gets them.

use family::Family;

use crate::arrangement::{Addresses, Arrangement};
use crate::contract::{OpProblems, Refusal};

/// The inputs of an op.
pub trait OpInputs: OpProblems {
    /// The values of the inputs.
    type Inputs: Send + Sync + 'static;

    /// The classes of inputs, the ordinary class first.
    fn classes(&self) -> Vec<&str>;

    /// The classes that are numerically hardest. Every kernel runs on one of them at full size.
    fn hard_classes(&self) -> Vec<&str>;

    /// Classes that are made of several others. They are used only where they are named.
    fn joined_classes(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The inputs of a problem. The same class and seed give the same inputs everywhere.
    fn inputs(&self, problem: &Self::Problem, class: &str, seed: u64) -> Result<Self::Inputs, Refusal>;

    /// The inputs for timing: drawn like [`OpInputs::inputs`], in the layout that peers expect.
    fn timed_inputs(&self, problem: &Self::Problem, class: &str, seed: u64) -> Result<Self::Inputs, Refusal>;

    /// Inputs of a class in which every number has the opposite sign of that in `inputs`, in a different layout if
    /// there is one. A kernel that is correct only if some element is positive is wrong on one of the two.
    fn opposite(
        &self,
        problem: &Self::Problem,
        inputs: &Self::Inputs,
        class: &str,
        seed: u64,
    ) -> Result<Self::Inputs, Refusal>;

    /// The names of the inputs that can be redrawn one by one.
    fn input_names(&self) -> Vec<&str>;

    /// The inputs with one of them drawn from another seed.
    fn redraw(&self, problem: &Self::Problem, inputs: &Self::Inputs, which: &str, seed: u64) -> Self::Inputs;

    /// The inputs with a small random change, for a search of the inputs on which a kernel is worst.
    fn mutated(&self, problem: &Self::Problem, inputs: &Self::Inputs, seed: u64) -> Self::Inputs;

    /// The buffers that a kernel of the family needs for these inputs.
    fn arrange(&self, family: &Family, problem: &Self::Problem, inputs: &Self::Inputs) -> Arrangement;

    /// The parameters of every launch of the family's kernels, for an arrangement at these addresses.
    fn parameters(
        &self,
        family: &Family,
        problem: &Self::Problem,
        inputs: &Self::Inputs,
        addresses: &Addresses,
    ) -> Vec<Vec<Vec<u8>>>;
}
