//! Element types of buffers and scalars.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vgpu::num::codec;

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// IEEE double precision, 64 bits.
    F64,
    /// IEEE single precision, 32 bits.
    F32,
    /// IEEE half precision, 16 bits.
    F16,
    /// bfloat16: 8 exponent and 7 fraction bits.
    Bf16,
    /// FP8 with 4 exponent and 3 fraction bits.
    E4m3,
    /// FP8 with 5 exponent and 2 fraction bits.
    E5m2,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 16-bit integer.
    I16,
    /// Unsigned 16-bit integer.
    U16,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 64-bit integer.
    U64,
}

impl Dtype {
    /// All types.
    pub const ALL: [Dtype; 14] = [
        Dtype::F64,
        Dtype::F32,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::E4m3,
        Dtype::E5m2,
        Dtype::I8,
        Dtype::U8,
        Dtype::I16,
        Dtype::U16,
        Dtype::I32,
        Dtype::U32,
        Dtype::I64,
        Dtype::U64,
    ];

    /// The name that users write, such as `bf16`.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F64 => "f64",
            Dtype::F32 => "f32",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::E4m3 => "e4m3",
            Dtype::E5m2 => "e5m2",
            Dtype::I8 => "i8",
            Dtype::U8 => "u8",
            Dtype::I16 => "i16",
            Dtype::U16 => "u16",
            Dtype::I32 => "i32",
            Dtype::U32 => "u32",
            Dtype::I64 => "i64",
            Dtype::U64 => "u64",
        }
    }

    /// Size of an element in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Dtype::E4m3 | Dtype::E5m2 | Dtype::I8 | Dtype::U8 => 1,
            Dtype::F16 | Dtype::Bf16 | Dtype::I16 | Dtype::U16 => 2,
            Dtype::F32 | Dtype::I32 | Dtype::U32 => 4,
            Dtype::F64 | Dtype::I64 | Dtype::U64 => 8,
        }
    }

    /// Whether the type is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::Bf16 | Dtype::E4m3 | Dtype::E5m2)
    }

    /// Whether numpy has no such type.
    pub fn is_missing_in_numpy(self) -> bool {
        matches!(self, Dtype::Bf16 | Dtype::E4m3 | Dtype::E5m2)
    }

    /// Whether an array of this type may be stored as the bits of `stored`: numpy lacks the type, and `stored` is an
    /// integer of its width.
    pub fn may_be_stored_as(self, stored: Dtype) -> bool {
        self.is_missing_in_numpy() && !stored.is_float() && stored.bytes() == self.bytes()
    }

    /// Appends a number, rounded to the type (to nearest even; the FP8 types saturate).
    pub fn push_float(self, value: f64, into: &mut Vec<u8>) {
        match self {
            Dtype::F64 => into.extend(value.to_le_bytes()),
            Dtype::F32 => into.extend((value as f32).to_le_bytes()),
            Dtype::F16 => into.extend((codec::f32_to_f16_rn(value as f32) as u16).to_le_bytes()),
            Dtype::Bf16 => into.extend((codec::f32_to_bf16_rn(value as f32) as u16).to_le_bytes()),
            Dtype::E4m3 => into.push(codec::f32_to_e4m3(value as f32)),
            Dtype::E5m2 => into.push(codec::f32_to_e5m2(value as f32)),
            _ => self.push_integer(value as i64, into),
        }
    }

    /// Appends an integer, wrapped to the type's width. Floating-point types take its value.
    pub fn push_integer(self, value: i64, into: &mut Vec<u8>) {
        if self.is_float() {
            self.push_float(value as f64, into);
        } else {
            into.extend(&value.to_le_bytes()[..self.bytes()]);
        }
    }

    /// The elements of `bytes` as f64 (exact for every type but 64-bit integers).
    pub fn floats(self, bytes: &[u8]) -> Vec<f64> {
        bytes.chunks_exact(self.bytes()).map(|element| self.float(element)).collect()
    }

    /// The value of one element.
    pub fn float(self, element: &[u8]) -> f64 {
        match self {
            Dtype::F64 => f64::from_bits(unsigned(element)),
            Dtype::F32 => f64::from(f32::from_bits(unsigned(element) as u32)),
            Dtype::F16 => f64::from(codec::f16_to_f32(unsigned(element) as u32)),
            Dtype::Bf16 => f64::from(codec::bf16_to_f32(unsigned(element) as u32)),
            Dtype::E4m3 => f64::from(codec::e4m3_to_f32(element[0])),
            Dtype::E5m2 => f64::from(codec::e5m2_to_f32(element[0])),
            Dtype::U64 => unsigned(element) as f64,
            _ => self.integer(element) as f64,
        }
    }

    /// The elements of `bytes` as integers; u64 keeps its bits.
    pub fn integers(self, bytes: &[u8]) -> Vec<i64> {
        bytes.chunks_exact(self.bytes()).map(|element| self.integer(element)).collect()
    }

    fn integer(self, element: &[u8]) -> i64 {
        let bits = unsigned(element);
        match self {
            Dtype::I8 => i64::from(bits as u8 as i8),
            Dtype::I16 => i64::from(bits as u16 as i16),
            Dtype::I32 => i64::from(bits as u32 as i32),
            _ => bits.cast_signed(),
        }
    }

    /// The type's name in a .npy file. Types that numpy lacks are stored as unsigned integers of the same width.
    pub fn numpy(self) -> &'static str {
        match self {
            Dtype::F64 => "<f8",
            Dtype::F32 => "<f4",
            Dtype::F16 => "<f2",
            Dtype::I8 => "|i1",
            Dtype::U8 | Dtype::E4m3 | Dtype::E5m2 => "|u1",
            Dtype::I16 => "<i2",
            Dtype::U16 | Dtype::Bf16 => "<u2",
            Dtype::I32 => "<i4",
            Dtype::U32 => "<u4",
            Dtype::I64 => "<i8",
            Dtype::U64 => "<u8",
        }
    }
}

/// Little-endian bytes, at most eight, as an unsigned number.
fn unsigned(element: &[u8]) -> u64 {
    element.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dtype {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = match text {
            "fp64" => "f64",
            "fp32" => "f32",
            "fp16" => "f16",
            other => other,
        };
        let found = Dtype::ALL.into_iter().find(|dtype| dtype.name() == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = Dtype::ALL.iter().map(|dtype| dtype.name()).collect();
            format!("`{text}` is not a type; expected one of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_encoding_and_decoding() {
        for dtype in Dtype::ALL {
            let mut bytes = Vec::new();
            for value in [0, 1, 2, 8] {
                dtype.push_integer(value, &mut bytes);
            }
            assert_eq!(bytes.len(), 4 * dtype.bytes());
            assert_eq!(dtype.floats(&bytes), [0.0, 1.0, 2.0, 8.0], "{dtype}");
            assert_eq!(dtype.name().parse(), Ok(dtype));
        }
    }

    #[test]
    fn negative_integers_keep_their_sign() {
        let mut bytes = Vec::new();
        Dtype::I8.push_integer(-3, &mut bytes);
        assert_eq!(Dtype::I8.integers(&bytes), [-3]);
        assert_eq!(Dtype::U8.integers(&bytes), [253]);
    }
}
