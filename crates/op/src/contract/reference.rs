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

    /// Whether other inputs change the reference by more than the tolerance. If not, a kernel that ignores its inputs
    /// passes. `None` if the op has only one set of inputs, or if its own code ensures it.
    fn depends_on_inputs(&self, _problem: &Self::Problem, _seed: u64) -> Result<Option<bool>, Refusal> {
        Ok(None)
    }

    /// A sentence about what the checks cannot show.
    fn limits_of_checks(&self) -> Option<&str> {
        None
    }
}
