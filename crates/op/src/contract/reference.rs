//! The reference of an op.

use crate::contract::{OpInputs, Refusal};

/// The right answers of an op.
pub trait OpReference: OpInputs {
    /// The reference for some inputs.
    type Reference: Send + Sync;

    /// The reference, computed in a slow and simple way. For a large problem it covers only some rows, which `sample`
    /// selects. It can fail if the user wrote it.
    fn reference(
        &self,
        problem: &Self::Problem,
        inputs: &Self::Inputs,
        sample: u64,
    ) -> Result<Self::Reference, Refusal>;
}
