//! Element types.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The element type of Q, K and V.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// IEEE half precision, with 5 exponent and 10 fraction bits.
    Fp16,
    /// bfloat16, with 8 exponent and 7 fraction bits.
    Bf16,
    /// FP8 with 4 exponent and 3 fraction bits, and an fp32 scale per head.
    E4m3,
}

impl Dtype {
    /// All types.
    pub const ALL: [Dtype; 3] = [Dtype::Fp16, Dtype::Bf16, Dtype::E4m3];

    /// The name in problem names and manifests.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::Fp16 => "fp16",
            Dtype::Bf16 => "bf16",
            Dtype::E4m3 => "e4m3",
        }
    }

    /// The number of significant bits.
    pub fn significant_bits(self) -> i32 {
        match self {
            Dtype::Fp16 => 11,
            Dtype::Bf16 => 8,
            Dtype::E4m3 => 4,
        }
    }

    /// Size of an element in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Dtype::Fp16 | Dtype::Bf16 => 2,
            Dtype::E4m3 => 1,
        }
    }

    /// The types that O may have for inputs of this type. The first is the usual one.
    pub const fn outputs(self) -> &'static [Dtype] {
        match self {
            Dtype::Fp16 => &[Dtype::Fp16],
            Dtype::Bf16 => &[Dtype::Bf16],
            Dtype::E4m3 => &[Dtype::Fp16, Dtype::Bf16],
        }
    }

    /// The usual type of O for inputs of this type: FP8 inputs give an fp16 output.
    #[must_use]
    pub const fn output(self) -> Dtype {
        self.outputs()[0]
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
