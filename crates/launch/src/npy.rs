//! Arrays in .npy files, the format of numpy.

use std::path::Path;
use std::sync::Arc;

use super::Dtype;

/// Largest size of a file that is read, in bytes.
const MOST_BYTES: u64 = 4 << 30;

/// An array from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The type of the elements. A boolean is a `u8`.
    pub dtype: Dtype,
    /// The extents, outermost first.
    pub dims: Vec<usize>,
    /// The elements in C order, little-endian.
    pub elements: Arc<[u8]>,
}

/// Why a file is not an array that a kernel can have.
#[derive(Debug, thiserror::Error)]
pub enum NpyError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// The file is not an .npy file, or not a usable one.
    #[error("{0}")]
    Format(String),
}

/// Reads a file.
pub fn read(path: &Path) -> Result<Array, NpyError> {
    parse(&files::read_bounded(path, MOST_BYTES)?).map_err(NpyError::Format)
}

/// The array in the bytes of a file, of any version of the format.
pub fn parse(file: &[u8]) -> Result<Array, String> {
    let damaged = || "is not an .npy file".to_owned();
    let rest = file.strip_prefix(b"\x93NUMPY").ok_or_else(damaged)?;
    let (version, rest) = rest.split_at_checked(2).ok_or_else(damaged)?;
    // The length of the header has two bytes in version 1, four in later ones.
    let (length, rest) = rest.split_at_checked(if version[0] == 1 { 2 } else { 4 }).ok_or_else(damaged)?;
    let length = length.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte));
    let (header, elements) = rest.split_at_checked(length).ok_or_else(damaged)?;
    let header = std::str::from_utf8(header).map_err(|_| damaged())?;

    let descr = value(header, "descr").ok_or_else(damaged)?;
    let dtype = dtype(descr.trim_matches(['\'', '"']))?;
    let shape = value(header, "shape").and_then(|text| text.strip_prefix('(')).ok_or_else(damaged)?;
    let shape = shape.split_once(')').ok_or_else(damaged)?.0;
    let dims = shape.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    let dims = dims.map(|extent| extent.parse().map_err(|_| damaged())).collect::<Result<Vec<usize>, _>>()?;
    if value(header, "fortran_order").is_some_and(|text| text.starts_with("True")) && dims.len() > 1 {
        return Err("is in Fortran order; save it with np.ascontiguousarray".to_owned());
    }
    let bytes = dims.iter().try_fold(dtype.bytes(), |bytes, &extent| bytes.checked_mul(extent));
    if bytes != Some(elements.len()) {
        return Err(format!(
            "has {} bytes of elements, but its shape is {dims:?} of {dtype}",
            elements.len()
        ));
    }
    Ok(Array { dtype, dims, elements: elements.into() })
}

/// The text after a key of the header, which is a Python dictionary.
fn value<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let after = ['\'', '"'].iter().find_map(|quote| header.split_once(&format!("{quote}{key}{quote}")))?.1;
    let text = after.trim_start().strip_prefix(':')?.trim_start();
    // A shape contains commas; the other values end at the first one.
    Some(if text.starts_with('(') { text } else { text.split_once([',', '}'])?.0.trim() })
}

/// The type of a `descr`.
fn dtype(descr: &str) -> Result<Dtype, String> {
    if descr == "|b1" {
        return Ok(Dtype::U8);
    }
    // Types that numpy lacks are stored under the name of an integer type, so they are left out.
    let plain = Dtype::ALL.into_iter().filter(|it| !it.is_missing_in_numpy());
    plain.into_iter().find(|dtype| dtype.numpy() == descr).ok_or_else(|| {
        let reason = if descr.starts_with('>') { "big-endian" } else { "not a type that kernels have here" };
        format!("has elements of type `{descr}`, which is {reason}")
    })
}

/// The bytes of a version 1.0 .npy file: magic, a padded header that describes the array, the elements.
pub fn write(dtype: Dtype, dims: &[usize], elements: &[u8]) -> Vec<u8> {
    let shape: Vec<String> = dims.iter().map(|extent| format!("{extent},")).collect();
    let description =
        format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", dtype.numpy(), shape.join(" "));
    // Magic, version and length take 10 bytes; the whole header ends on a multiple of 64 with a newline.
    let padded = (10 + description.len() + 1).next_multiple_of(64) - 10;
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((padded as u16).to_le_bytes());
    file.extend(format!("{description:<width$}\n", width = padded - 1).bytes());
    file.extend(elements);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_aligned_and_describes_the_array() {
        let file = write(Dtype::F32, &[2, 3], &[0; 24]);
        let header = u16::from_le_bytes([file[8], file[9]]) as usize;
        assert_eq!((10 + header) % 64, 0);
        assert_eq!(file.len(), 10 + header + 24);
        let text = std::str::from_utf8(&file[10..10 + header]).unwrap();
        assert!(text.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3,), }"), "{text}");
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn a_written_array_is_read_back() {
        for (dtype, dims) in
            [(Dtype::F32, vec![2, 3]), (Dtype::I8, vec![6]), (Dtype::U64, vec![]), (Dtype::F16, vec![0, 4])]
        {
            let elements: Vec<u8> =
                (0..dims.iter().product::<usize>() * dtype.bytes()).map(|n| n as u8).collect();
            let array = parse(&write(dtype, &dims, &elements)).unwrap();
            assert_eq!((array.dtype, array.dims, &*array.elements), (dtype, dims, &*elements));
        }
    }

    #[test]
    fn files_that_no_kernel_can_use_are_refused() {
        let file = |descr: &str, order: &str, shape: &str, bytes: usize| {
            let header = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n");
            let length = (header.len() as u16).to_le_bytes();
            [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &vec![0; bytes]].concat()
        };
        assert!(parse(&file("'<f4'", "False", "(2, 2)", 16)).is_ok());
        assert_eq!(parse(&file("'|b1'", "False", "(3,)", 3)).unwrap().dtype, Dtype::U8);
        for (bytes, words) in [
            (b"PK\x03\x04".to_vec(), "not an .npy file"),
            (b"\x93NUMPY\x01\x00\xff\xff{}".to_vec(), "not an .npy file"),
            (file("'>f4'", "False", "(4,)", 16), "big-endian"),
            (file("'<c8'", "False", "(2,)", 16), "<c8"),
            (file("[('a', '<f4')]", "False", "(4,)", 16), "type"),
            (file("'<f4'", "True", "(2, 2)", 16), "Fortran"),
            (file("'<f4'", "False", "(5,)", 16), "16 bytes"),
            (file("'<f4'", "False", "(99999999999, 99999999999, 99)", 16), "16 bytes"),
            (file("'<f4'", "False", "(x,)", 16), "not an .npy file"),
        ] {
            let error = parse(&bytes).expect_err(words);
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn the_shape_of_a_vector_keeps_the_comma_python_needs() {
        let file = write(Dtype::Bf16, &[4], &[0; 8]);
        assert!(String::from_utf8_lossy(&file).contains("'descr': '<u2'"));
        assert!(String::from_utf8_lossy(&file).contains("'shape': (4,)"));
    }
}
