//! One kernel parameter in the user's notation.
//!
//! ```text
//! [NAME=]DTYPE[dims]=INIT          input buffer
//! [NAME=]inout,DTYPE[dims]=INIT    buffer with contents, read and written
//! [NAME=]out,DTYPE[dims]           output: starts uninitialised, every element must be written
//! [NAME=]scratch,DTYPE[dims]       workspace: starts uninitialised, need not be written
//! [NAME=]DTYPE=VALUE               scalar
//! [NAME=]VALUE                     scalar of the type that the kernel declares
//! [NAME=]bytes=HEX                 a parameter by value, as raw little-endian bytes
//! [NAME=]null                      null pointer
//! [NAME=]FILE.npy                  input buffer with the type, shape and contents of the file; also inout,FILE.npy
//! [NAME=]same,BUFFER[+N]           the buffer of another argument, from its element N on
//! [NAME=]tensor,BUFFER[box]=plain  a tensor map of another argument's buffer, copied in boxes; =swizzle(128), (64) or (32)
//! [NAME=]texture,DTYPE[dims]=INIT  a texture object; see [`TextureArgument`] for its options
//! ```

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use vgpu::tensor_map::Swizzle;

use super::literal::{float_of, initial, integer_of, is_npy, scalar_bytes, shape_dims};
use super::{Dtype, Init, TextureArgument, npy};

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
    /// A number that is passed by value, of the type that the kernel declares.
    Literal(String),
    /// A pointer to nothing.
    Null,
    /// A buffer whose contents are in a file. [`Argument::with_file`] replaces it by an input.
    File {
        /// The file, as the user wrote it.
        path: PathBuf,
        /// The type of the elements, if it is not that of the file.
        dtype: Option<Dtype>,
        /// The extents, if they are not those of the file.
        dims: Option<Vec<usize>>,
        /// Whether the kernel also writes the buffer.
        is_written: bool,
    },
    /// The buffer of another argument.
    Same {
        /// The name of the argument that has the buffer.
        of: String,
        /// The first element.
        from: u64,
    },
    /// A tensor map: of which buffer, by name, and the extents of its boxes in the order of the buffer's.
    Tensor {
        /// The name of the argument that has the buffer.
        of: String,
        /// The extents of a box in elements, outermost first.
        extents: Vec<u32>,
        /// How a box is permuted in shared memory.
        swizzle: Swizzle,
    },
    /// A texture object.
    Texture(TextureArgument),
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

impl FromStr for Argument {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|reason| ArgumentError { text: text.to_owned(), reason })
    }
}

fn parse<'a>(text: &'a str) -> Result<Argument, String> {
    // A name is an identifier before the first `=`, unless the identifier starts a specification.
    let trimmed = |(name, rest): (&'a str, &'a str)| (name.trim(), rest.trim());
    let (name, spec) = match text.split_once('=').map(trimmed) {
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
    if let Some(texture) = spec.strip_prefix("texture,") {
        return Ok(Argument { name, role: Role::Texture(TextureArgument::parse(texture)?) });
    }
    if let Some(other) = spec.strip_prefix("same,") {
        return Ok(Argument { name, role: same_role(other)? });
    }
    if spec == "null" {
        return Ok(Argument { name, role: Role::Null });
    }
    if is_number(spec) {
        return Ok(Argument { name, role: Role::Literal(spec.to_owned()) });
    }
    let (kind, rest) = match spec.split_once(',') {
        Some((kind @ ("out" | "inout" | "scratch"), rest)) => (kind, rest),
        _ => ("in", spec),
    };
    if is_npy(rest) && matches!(kind, "in" | "inout") {
        return Ok(Argument { name, role: file_role(rest, kind == "inout")? });
    }
    let Some((dtype, shape)) = rest.split_once('[') else {
        let scalar = rest.split_once('=').filter(|_| kind == "in");
        let (dtype, value) = scalar.ok_or("expected DTYPE[dims]=INIT, out,DTYPE[dims] or DTYPE=VALUE")?;
        let dtype: Dtype = dtype.parse()?;
        return Ok(Argument { name, role: Role::Scalar { dtype, bytes: scalar_bytes(dtype, value)? } });
    };
    let dtype: Dtype = dtype.parse()?;
    let (dims, rest) = shape.split_once(']').ok_or("the `[` has no matching `]`")?;
    let dims = shape_dims(dims)?;
    let init = match rest {
        "" => None,
        rest => {
            let text =
                rest.strip_prefix('=').ok_or_else(|| format!("unexpected `{rest}` after the shape"))?;
            Some(initial(dtype, text, dims.iter().product())?)
        }
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

/// `FILE.npy` or `DTYPE[dims]=FILE.npy`.
fn file_role(text: &str, is_written: bool) -> Result<Role, String> {
    let typed = text.split_once("]=").and_then(|(shape, path)| Some((shape.split_once('[')?, path)));
    let Some(((dtype, dims), path)) = typed else {
        return Ok(Role::File { path: text.into(), dtype: None, dims: None, is_written });
    };
    let (dtype, dims) = (Some(dtype.parse()?), Some(shape_dims(dims)?));
    Ok(Role::File { path: path.into(), dtype, dims, is_written })
}

/// `BUFFER` or `BUFFER+N`.
fn same_role(text: &str) -> Result<Role, String> {
    let (of, from) = text.split_once('+').unwrap_or((text, "0"));
    let from = from.trim().parse().map_err(|_| format!("`{from}` is not a number of elements"))?;
    let of = of.trim();
    if !is_name(of) {
        return Err(format!("`{of}` is not the name of an argument"));
    }
    Ok(Role::Same { of: of.to_owned(), from })
}

/// Whether the text is a number without a type: `1000`, `-0.5`, `1e-5f`, `0xff`.
fn is_number(text: &str) -> bool {
    let digits = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
    digits && (float_of(text).is_some() || integer_of(text).is_some())
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
    // A variable of a namespace is called `n::table`.
    let identifier = text.replace("::", "_").chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
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

impl Argument {
    /// The buffer's element type and shape; `None` for a parameter that is passed by value.
    pub fn buffer(&self) -> Option<(Dtype, &[usize])> {
        match &self.role {
            Role::Input { dtype, dims, .. }
            | Role::InOut { dtype, dims, .. }
            | Role::Out { dtype, dims }
            | Role::Scratch { dtype, dims } => Some((*dtype, dims)),
            _ => None,
        }
    }

    /// Contents of the buffer or parameter before the launch; `None` for a buffer that starts uninitialised.
    pub fn contents(&self) -> Option<Vec<u8>> {
        match &self.role {
            Role::Input { dtype, dims, init } | Role::InOut { dtype, dims, init } => {
                Some(init.bytes(*dtype, dims.iter().product()))
            }
            Role::Scalar { bytes, .. } | Role::Bytes(bytes) => Some(bytes.clone()),
            Role::Null => Some(vec![0; 8]),
            _ => None,
        }
    }

    /// Reads the file of the argument, if it has one. A relative path starts in `folder`.
    pub fn with_file(self, folder: &Path) -> Result<Self, ArgumentError> {
        if let Role::Texture(texture) = self.role {
            let text = texture.to_string();
            let texture = texture.with_file(folder).map_err(|reason| ArgumentError { text, reason })?;
            return Ok(Argument { name: self.name, role: Role::Texture(texture) });
        }
        let Role::File { path, dtype, dims, is_written } = &self.role else { return Ok(self) };
        let failed = |reason: String| ArgumentError { text: path.display().to_string(), reason };
        let file = npy::read(&folder.join(path)).map_err(|error| failed(error.to_string()))?;
        let (dtype, dims) = (dtype.unwrap_or(file.dtype), dims.clone().unwrap_or(file.dims));
        if dtype.bytes() != file.dtype.bytes() {
            return Err(failed(format!("has elements of type {}, not {dtype}", file.dtype)));
        }
        let elements: usize = dims.iter().product();
        if elements * dtype.bytes() != file.elements.len() {
            let held = file.elements.len() / dtype.bytes();
            return Err(failed(format!("has {held} elements, but the shape {dims:?} has {elements}")));
        }
        let init = Init::Elements(file.elements);
        let role = match is_written {
            true => Role::InOut { dtype, dims, init },
            false => Role::Input { dtype, dims, init },
        };
        Ok(Argument { name: self.name, role })
    }

    /// Gives a number without a type the type of the kernel's parameter.
    pub fn with_type_of(self, parameter: &vgpu::Param) -> Result<Self, ArgumentError> {
        let Role::Literal(text) = &self.role else { return Ok(self) };
        let failed = |reason: String| ArgumentError { text: text.clone(), reason };
        let signed = text.starts_with('-');
        let dtype = match (parameter.element.as_str(), parameter.bytes) {
            ("f32", 4) => Dtype::F32,
            ("f64", 8) => Dtype::F64,
            ("f16", 2) => Dtype::F16,
            ("bf16", 2) => Dtype::Bf16,
            ("u64" | "b64" | "s64", 8) if signed => Dtype::I64,
            ("u64" | "b64" | "s64", 8) => Dtype::U64,
            ("u32" | "b32" | "s32", 4) => Dtype::I32,
            ("u16" | "b16" | "s16", 2) => Dtype::I16,
            ("u8" | "b8" | "s8", 1) => Dtype::I8,
            _ => {
                let reason = format!(
                    "the kernel's parameter is {parameter}, so the number needs a type, such as f16={text}"
                );
                return Err(failed(reason));
            }
        };
        let bytes = scalar_bytes(dtype, text).map_err(|reason| {
            failed(format!("{reason}, but the kernel's parameter has the type {parameter}"))
        })?;
        Ok(Argument { name: self.name, role: Role::Scalar { dtype, bytes } })
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
            Role::Literal(text) => f.write_str(text),
            Role::Null => f.write_str("null pointer"),
            Role::File { path, .. } => write!(f, "{}", path.display()),
            Role::Same { of, from: 0 } => write!(f, "buffer of {of}"),
            Role::Same { of, from } => write!(f, "buffer of {of} from element {from}"),
            Role::Tensor { of, extents, .. } => write!(f, "tensor map of {of}, boxes of {extents:?}"),
            Role::Texture(texture) => texture.fmt(f),
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
        assert_eq!(
            argument("i32[3]={0, 64,-1}").contents().unwrap(),
            [0, 0, 0, 0, 64, 0, 0, 0, 255, 255, 255, 255]
        );
        assert_eq!(argument("n = 1000").role, Role::Literal("1000".into()));
        assert_eq!(argument("-1.5e-3f").role, Role::Literal("-1.5e-3f".into()));
        assert_eq!(argument("p=null").contents().unwrap(), [0; 8]);
        assert_eq!(argument("same,x+16").role, Role::Same { of: "x".into(), from: 16 });
        let file = |dtype, dims, is_written| Role::File { path: "a/x.npy".into(), dtype, dims, is_written };
        assert_eq!(argument("x=a/x.npy").role, file(None, None, false));
        assert_eq!(argument("inout,a/x.npy").role, file(None, None, true));
        assert_eq!(argument("x=bf16[2,3]=a/x.npy").role, file(Some(Dtype::Bf16), Some(vec![2, 3]), false));
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
            ("x=i32[3]={1,2}", "2 values for 3 elements"),
            ("x=i32[1]={1.5}", "not a whole number"),
            ("y=same,2x", "not the name"),
            ("y=same,x+b", "not a number of elements"),
            ("y=out,x.npy", "expected"),
            ("m=tensor,x=plain", "expected tensor"),
            ("m=tensor,x[1,b]=plain", "not a size"),
            ("m=tensor,x[1]=swizzle(16)", "after the box"),
        ] {
            let error = text.parse::<Argument>().expect_err(text);
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn files_give_type_shape_and_contents() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("x.npy"),
            npy::write(Dtype::U16, &[2, 2], &[1, 0, 2, 0, 3, 0, 4, 0]),
        )
        .unwrap();
        let read = |text: &str| argument(text).with_file(folder.path());
        let own = read("x=x.npy").unwrap();
        assert_eq!(own.buffer(), Some((Dtype::U16, &[2, 2][..])));
        assert_eq!(own.contents().unwrap(), [1, 0, 2, 0, 3, 0, 4, 0]);
        assert_eq!(read("bf16[4]=x.npy").unwrap().buffer(), Some((Dtype::Bf16, &[4][..])));
        assert!(matches!(read("inout,x.npy").unwrap().role, Role::InOut { .. }));
        for (text, words) in
            [("f32[4]=x.npy", "type u16"), ("u16[3]=x.npy", "4 elements"), ("y.npy", "cannot be read")]
        {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_number_without_a_type_gets_that_of_the_parameter() {
        let parameter = |element: &str, bytes| vgpu::Param {
            name: "p".into(),
            offset: 0,
            bytes,
            align: bytes,
            element: element.into(),
            pointer: false,
        };
        let typed = |text: &str, element, bytes| argument(text).with_type_of(&parameter(element, bytes));
        assert_eq!(typed("2", "f32", 4).unwrap().contents().unwrap(), 2.0_f32.to_le_bytes());
        assert_eq!(typed("-2", "b32", 4).unwrap().contents().unwrap(), (-2_i32).to_le_bytes());
        assert_eq!(
            typed("3000000000", "u32", 4).unwrap().contents().unwrap(),
            3_000_000_000_u32.to_le_bytes()
        );
        assert_eq!(typed("1", "u8", 1).unwrap().contents().unwrap(), [1]);
        for (text, element, bytes) in [("1.5", "u32", 4), ("1", "b8", 2), ("300", "u8", 1)] {
            assert!(typed(text, element, bytes).is_err(), "{text} {element}");
        }
    }
}
