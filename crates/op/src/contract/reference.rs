//! The reference of an op.

use family::Family;

use crate::contract::{OpInputs, Refusal};

/// The right answers of an op.
pub trait OpReference: OpInputs {
    /// The reference for some inputs.
    type Reference: Send + Sync + 'static;

    /// The reference, computed in a slow and simple way. For a large problem it covers only some rows, which `sample`
    /// selects. It can fail if the user wrote it.
    fn reference(
        &self,
        problem: &Self::Problem,
        inputs: &Self::Inputs,
        sample: u64,
    ) -> Result<Self::Reference, Refusal>;

    /// Refuses to start on a machine that lacks what the reference needs.
    fn require_reference(&self) -> Result<(), Refusal> {
        Ok(())
    }

    /// Refuses a family that computes the reference: its answers would be compared with themselves.
    fn check_is_not_reference(&self, _family: &Family) -> Result<(), Refusal> {
        Ok(())
    }

    /// What a kernel that ignores its inputs gets right, because other inputs do not change the reference by more than the
    /// tolerance. `None` if that is little, if the op has only one set of inputs, or if its own code prevents it.
    fn vacuous_part(&self, _problem: &Self::Problem, _seed: u64) -> Result<Option<VacuousPart>, Refusal> {
        Ok(None)
    }

    /// A sentence about what the checks cannot show.
    fn limits_of_checks(&self) -> Option<String> {
        None
    }
}

/// The part of an answer that does not depend on the inputs within the tolerance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VacuousPart {
    /// The whole answer.
    All,
    /// Most elements of some outputs: for each its name, their number and the number of compared elements.
    Elements(Vec<(String, usize, usize)>),
}
