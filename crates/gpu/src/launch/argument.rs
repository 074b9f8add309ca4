//! One kernel parameter in the user's notation.
//!
//! ```text
//! [NAME=]DTYPE[dims]=INIT          input buffer
//! [NAME=]inout,DTYPE[dims]=INIT    buffer with contents, read and written
//! [NAME=]out,DTYPE[dims]           output: starts uninitialised, every element must be written
//! [NAME=]scratch,DTYPE[dims]       workspace: starts uninitialised, need not be written
//! [NAME=]DTYPE=VALUE               scalar
//! [NAME=]bytes=HEX                 a parameter by value, as raw little-endian bytes
//! [NAME=]tensor,BUFFER[box]=plain  a tensor map of another argument's buffer, copied in boxes; =swizzle(128), (64) or (32)
//! ```

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use vgpu::tensor_map::Swizzle;

use super::{Dtype, Random};

/// A kernel parameter with its optional name.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// The parameter's name; tensor maps and messages refer to it.
    pub name: Option<String>,
    /// How the kernel uses the parameter.
    pub role: Role,
}

/// How a kernel uses a parameter, with its type and shape.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// A buffer with contents that the kernel reads.
    Input {
        /// The type of the elements.
        dtype: Dtype,
        /// The buffer's extents in elements, outermost first.
        dims: Vec<usize>,
        /// The contents before the launch.
        init: Init,
    },
    /// A buffer with contents that the kernel reads and writes.
    InOut {
        /// The type of the elements.
        dtype: Dtype,
        /// The buffer's extents in elements, outermost first.
        dims: Vec<usize>,
        /// The contents before the launch.
        init: Init,
    },
    /// An output buffer. It starts uninitialised, and the kernel must write every element.
    Out {
        /// The type of the elements.
        dtype: Dtype,
        /// The buffer's extents in elements, outermost first.
        dims: Vec<usize>,
    },
    /// A workspace buffer. It starts uninitialised, and the kernel need not write it.
    Scratch {
        /// The type of the elements.
        dtype: Dtype,
        /// The buffer's extents in elements, outermost first.
        dims: Vec<usize>,
    },
    /// A number that is passed by value.
    Scalar {
        /// The type of the number.
        dtype: Dtype,
        /// The encoded number, little-endian.
        bytes: Vec<u8>,
    },
    /// A parameter that is passed by value, as raw little-endian bytes.
    Bytes(Vec<u8>),
    /// A tensor map: of which buffer, by name, and the extents of its boxes in the order of the buffer's.
    Tensor {
        /// The name of the argument that has the buffer.
        of: String,
        /// The extents of a box in elements, outermost first.
        extents: Vec<u32>,
        /// How a box is permuted in shared memory.
        swizzle: Swizzle,
    },
}

/// Contents of a buffer before the launch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Init {
    /// Every element is 0.
    Zeros,
    /// Every element is 1.
    Ones,
    /// Every element is this value, rounded to the element type.
    Const(f64),
    /// Every element is its index in the buffer.
    Iota,
    /// Normally distributed with mean 0 and variance 1, drawn with this seed.
    Normal(u64),
    /// Uniformly distributed in [0, 1), drawn with this seed.
    Uniform(u64),
    /// Uniformly distributed whole numbers.
    RandInt {
        /// The seed of the random numbers.
        seed: u64,
        /// The smallest number.
        low: i64,
        /// The end of the range, which is not drawn.
        high: i64,
    },
}

/// Why an argument cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("argument `{text}`: {reason}")]
pub struct ArgumentError {
    /// The argument as the user wrote it.
    pub text: String,
    /// What is wrong with it.
    pub reason: String,
}

/// More elements than any kernel under test needs. A size typed by mistake is refused, not allocated.
const MOST_ELEMENTS: usize = 1 << 31;

impl FromStr for Argument {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|reason| ArgumentError { text: text.to_owned(), reason })
    }
}

fn parse(text: &str) -> Result<Argument, String> {
    // A name is an identifier before the first `=`, unless the identifier starts a specification.
    let (name, spec) = match text.split_once('=') {
        // `bytes` is an ordinary name if a specification follows it.
        Some((name, rest)) if is_name(name) || name == "bytes" && rest.contains(['[', '=']) => {
            (Some(name.to_owned()), rest)
        }
        _ => (None, text),
    };
    if let Some(hex) = spec.strip_prefix("bytes=").filter(|rest| !rest.contains(['[', '='])) {
        return Ok(Argument { name, role: Role::Bytes(from_hex(hex)?) });
    }
    if let Some(tensor) = spec.strip_prefix("tensor,") {
        return Ok(Argument { name, role: tensor_role(tensor)? });
    }
    let (kind, rest) = match spec.split_once(',') {
        Some((kind @ ("out" | "inout" | "scratch"), rest)) => (kind, rest),
        _ => ("in", spec),
    };
    let Some((dtype, shape)) = rest.split_once('[') else {
        let scalar = rest.split_once('=').filter(|_| kind == "in");
        let (dtype, value) = scalar.ok_or("expected DTYPE[dims]=INIT, out,DTYPE[dims] or DTYPE=VALUE")?;
        let dtype: Dtype = dtype.parse()?;
        return Ok(Argument { name, role: Role::Scalar { dtype, bytes: scalar_bytes(dtype, value)? } });
    };
    let dtype: Dtype = dtype.parse()?;
    let (dims, rest) = shape.split_once(']').ok_or("the `[` has no matching `]`")?;
    let dims = dims
        .split(',')
        .map(|extent| extent.trim().parse().map_err(|_| format!("`{extent}` is not a size")))
        .collect::<Result<Vec<usize>, String>>()?;
    let elements = dims.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent));
    if elements.is_none_or(|elements| elements > MOST_ELEMENTS) {
        return Err(format!("has more than {MOST_ELEMENTS} elements"));
    }
    let init = match rest {
        "" => None,
        rest => Some(
            rest.strip_prefix('=').ok_or_else(|| format!("unexpected `{rest}` after the shape"))?.parse()?,
        ),
    };
    let role = match (kind, init) {
        ("out", None) => Role::Out { dtype, dims },
        ("scratch", None) => Role::Scratch { dtype, dims },
        ("inout", Some(init)) => Role::InOut { dtype, dims, init },
        ("in", Some(init)) => Role::Input { dtype, dims, init },
        ("out" | "scratch", Some(_)) => {
            return Err(format!("`{kind}` starts uninitialised; use inout for contents"));
        }
        _ => return Err("has no contents; add =zeros, =iota, =normal(SEED) ...".to_owned()),
    };
    Ok(Argument { name, role })
}

/// `BUFFER[box]=plain` or `=swizzle(BYTES)`.
fn tensor_role(text: &str) -> Result<Role, String> {
    let (of, rest) = text.split_once('[').ok_or("expected tensor,BUFFER[box]=swizzle(128)")?;
    let (extents, swizzle) = rest.split_once(']').ok_or("the `[` has no `]`")?;
    let extents = extents
        .split(',')
        .map(|extent| extent.trim().parse().map_err(|_| format!("`{extent}` is not a size")))
        .collect::<Result<Vec<u32>, String>>()?;
    let swizzle = match swizzle {
        "=plain" => Swizzle::None,
        "=swizzle(32)" => Swizzle::B32,
        "=swizzle(64)" => Swizzle::B64,
        "=swizzle(128)" => Swizzle::B128,
        other => return Err(format!("`{other}` after the box; =plain or =swizzle(32), (64) or (128)")),
    };
    Ok(Role::Tensor { of: of.to_owned(), extents, swizzle })
}

fn is_name(text: &str) -> bool {
    let identifier = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().next().is_some_and(|c| !c.is_ascii_digit());
    identifier && text != "bytes" && text.parse::<Dtype>().is_err()
}

fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = text
        .chars()
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()
        .ok_or("is not hexadecimal")?;
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return Err("needs two hexadecimal digits per byte".to_owned());
    }
    Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn scalar_bytes(dtype: Dtype, text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    if dtype.is_float() {
        let value: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
        dtype.push_float(value, &mut bytes);
        return Ok(bytes);
    }
    let value: i128 = match text.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).map_err(|_| format!("`{text}` is not a number"))?,
        None => text.parse().map_err(|_| format!("`{text}` is not a whole number"))?,
    };
    let bits = dtype.bytes() * 8;
    // Both notations of a bit pattern are accepted: -1 and 4294967295 are the same 32 bits.
    if value < -(1_i128 << (bits - 1)) || value >= 1_i128 << bits {
        return Err(format!("{value} does not fit {dtype}"));
    }
    dtype.push_integer(value as i64, &mut bytes);
    Ok(bytes)
}

impl FromStr for Init {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || {
            format!(
                "`{text}` is not a kind of contents; expected zeros, ones, const(V), iota, normal(SEED), uniform(SEED) \
                 or randint(SEED,LO,HI)"
            )
        };
        let (word, numbers) = match text.split_once('(') {
            None => (text, Vec::new()),
            Some((word, rest)) => {
                let inside = rest.strip_suffix(')').ok_or_else(unknown)?;
                (word, inside.split(',').map(str::trim).collect())
            }
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a seed"));
        let integer = |text: &str| text.parse::<i64>().map_err(|_| format!("`{text}` is not a whole number"));
        match (word, numbers.as_slice()) {
            ("zeros", []) => Ok(Init::Zeros),
            ("ones", []) => Ok(Init::Ones),
            ("iota", []) => Ok(Init::Iota),
            ("const", [value]) => {
                value.parse().map(Init::Const).map_err(|_| format!("`{value}` is not a number"))
            }
            ("normal", [seed]) => Ok(Init::Normal(number(seed)?)),
            ("uniform", [seed]) => Ok(Init::Uniform(number(seed)?)),
            ("randint", [seed, low, high]) => {
                let (low, high) = (integer(low)?, integer(high)?);
                if low >= high {
                    return Err(format!("randint has no number in the range [{low}, {high})"));
                }
                Ok(Init::RandInt { seed: number(seed)?, low, high })
            }
            _ => Err(unknown()),
        }
    }
}

impl Init {
    /// The bytes of `count` elements.
    pub fn bytes(self, dtype: Dtype, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count * dtype.bytes());
        let seed = match self {
            Init::Normal(seed) | Init::Uniform(seed) | Init::RandInt { seed, .. } => seed,
            _ => 0,
        };
        let mut random = Random::new(seed);
        for index in 0..count {
            match self {
                Init::Zeros => dtype.push_integer(0, &mut bytes),
                Init::Ones => dtype.push_integer(1, &mut bytes),
                Init::Iota => dtype.push_integer(index as i64, &mut bytes),
                Init::Const(value) => dtype.push_float(value, &mut bytes),
                Init::Normal(_) => dtype.push_float(random.normal(), &mut bytes),
                Init::Uniform(_) => dtype.push_float(random.uniform(), &mut bytes),
                Init::RandInt { low, high, .. } => dtype.push_integer(random.integer(low, high), &mut bytes),
            }
        }
        bytes
    }
}

impl Argument {
    /// The buffer's element type and shape; `None` for a parameter that is passed by value.
    pub fn buffer(&self) -> Option<(Dtype, &[usize])> {
        match &self.role {
            Role::Input { dtype, dims, .. }
            | Role::InOut { dtype, dims, .. }
            | Role::Out { dtype, dims }
            | Role::Scratch { dtype, dims } => Some((*dtype, dims)),
            Role::Scalar { .. } | Role::Bytes(_) | Role::Tensor { .. } => None,
        }
    }

    /// Contents of the buffer or parameter before the launch; `None` for a buffer that starts uninitialised.
    pub fn contents(&self) -> Option<Vec<u8>> {
        match &self.role {
            Role::Input { dtype, dims, init } | Role::InOut { dtype, dims, init } => {
                Some(init.bytes(*dtype, dims.iter().product()))
            }
            Role::Scalar { bytes, .. } | Role::Bytes(bytes) => Some(bytes.clone()),
            Role::Out { .. } | Role::Scratch { .. } | Role::Tensor { .. } => None,
        }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}: ")?;
        }
        match &self.role {
            Role::Scalar { dtype, bytes } if dtype.is_float() => {
                write!(f, "{dtype} {}", dtype.floats(bytes)[0])
            }
            Role::Scalar { dtype, bytes } => write!(f, "{dtype} {}", dtype.integers(bytes)[0]),
            Role::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Role::Tensor { of, extents, .. } => write!(f, "tensor map of {of}, boxes of {extents:?}"),
            Role::Input { dtype, dims, .. } => write!(f, "{dtype}{dims:?}"),
            Role::InOut { dtype, dims, .. } => write!(f, "inout {dtype}{dims:?}"),
            Role::Out { dtype, dims } => write!(f, "out {dtype}{dims:?}"),
            Role::Scratch { dtype, dims } => write!(f, "scratch {dtype}{dims:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(text: &str) -> Argument {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_form_is_parsed() {
        assert_eq!(
            argument("in=f32[4,2]=normal(7)"),
            Argument {
                name: Some("in".into()),
                role: Role::Input { dtype: Dtype::F32, dims: vec![4, 2], init: Init::Normal(7) }
            }
        );
        assert_eq!(argument("f32[4]=zeros").name, None);
        assert_eq!(argument("o=out,f16[64,64]").role, Role::Out { dtype: Dtype::F16, dims: vec![64, 64] });
        assert!(matches!(argument("scratch,u8[3]").role, Role::Scratch { .. }));
        assert!(matches!(argument("x=inout,i64[3]=randint(1,-5,5)").role, Role::InOut { .. }));
        assert_eq!(argument("n=i32=-3").contents().unwrap(), (-3_i32).to_le_bytes());
        assert_eq!(argument("u32=0xffffffff").contents().unwrap(), [255; 4]);
        assert_eq!(argument("f32=0.5").contents().unwrap(), 0.5_f32.to_le_bytes());
        assert_eq!(argument("s=bytes=01ff").contents().unwrap(), [1, 255]);
        assert_eq!(argument("bytes=u8[2]=ones").contents().unwrap(), [1, 1]);
        assert_eq!(argument("bytes=bytes=0a").contents().unwrap(), [10]);
        assert_eq!(argument("i16[3]=iota").contents().unwrap(), [0, 0, 1, 0, 2, 0]);
        assert_eq!(
            argument("f64[2]=const(-2.5)").contents().unwrap(),
            [(-2.5_f64).to_le_bytes(); 2].concat()
        );
        assert_eq!(argument("out,f32[4]").contents(), None);
        assert_eq!(
            argument("m=tensor,x[16,64]=swizzle(128)").role,
            Role::Tensor { of: "x".into(), extents: vec![16, 64], swizzle: Swizzle::B128 }
        );
    }

    #[test]
    fn an_invalid_argument_is_refused_with_a_reason() {
        for (text, words) in [
            ("", "expected"),
            ("x=f31[3]=zeros", "is not a type"),
            ("x=f32[3", "no matching `]`"),
            ("x=f32[a]=zeros", "not a size"),
            ("x=f32[3]", "has no contents"),
            ("x=f32[3]=normal", "not a kind of contents"),
            ("x=f32[3]=normal(x)", "not a seed"),
            ("x=f32[3]=randint(1,5,5)", "no number"),
            ("x=out,f32[3]=zeros", "starts uninitialised"),
            ("x=f32[9999999999,9999999999]=zeros", "has more than"),
            ("x=i8=300", "does not fit"),
            ("x=i32=1.5", "not a whole number"),
            ("x=bytes=0", "two hexadecimal"),
            ("x=bytes=zz", "not hexadecimal"),
            ("x=f32[3]zeros", "after the shape"),
            ("m=tensor,x=plain", "expected tensor"),
            ("m=tensor,x[1,b]=plain", "not a size"),
            ("m=tensor,x[1]=swizzle(16)", "after the box"),
        ] {
            let error = text.parse::<Argument>().expect_err(text);
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
