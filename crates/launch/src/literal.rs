//! Parts that several kinds of arguments have: numbers, lists of numbers, extents, names of files.

use std::path::Path;

use super::{Dtype, Init};

/// More elements than any GPU holds. A size typed by mistake is refused, not allocated.
const MOST_ELEMENTS: usize = 1 << 40;

/// The contents of `count` elements: a kind of contents, or a list of values.
pub(super) fn initial(dtype: Dtype, text: &str, count: usize) -> Result<Init, String> {
    match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        Some(list) => listed(dtype, list, count),
        None => text.parse(),
    }
}

/// The extents in `text`, separated by commas.
pub(super) fn shape_dims(text: &str) -> Result<Vec<usize>, String> {
    let extent = |text: &str| text.trim().parse().map_err(|_| format!("`{text}` is not a size"));
    let dims = text.split(',').map(extent).collect::<Result<Vec<usize>, String>>()?;
    let elements = dims.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent));
    if elements.is_none_or(|elements| elements > MOST_ELEMENTS) {
        return Err(format!("has more than {MOST_ELEMENTS} elements"));
    }
    Ok(dims)
}

/// `V,V,...`: as many values as the buffer has elements.
fn listed(dtype: Dtype, list: &str, count: usize) -> Result<Init, String> {
    let values: Vec<&str> = list.split(',').map(str::trim).filter(|value| !value.is_empty()).collect();
    if values.len() != count {
        return Err(format!("has {} values for {count} elements", values.len()));
    }
    let elements: Result<Vec<Vec<u8>>, String> =
        values.iter().map(|value| scalar_bytes(dtype, value)).collect();
    Ok(Init::Elements(elements?.concat().into()))
}

/// Whether the text is the name of a file of numpy.
pub(super) fn is_npy(text: &str) -> bool {
    Path::new(text).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"))
}

/// A number with or without the suffix of a float.
pub(super) fn float_of(text: &str) -> Option<f64> {
    text.strip_suffix(['f', 'F']).filter(|_| !text.starts_with("0x")).unwrap_or(text).parse().ok()
}

/// A decimal or hexadecimal number.
pub(super) fn integer_of(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The little-endian bytes of a number.
pub(super) fn scalar_bytes(dtype: Dtype, text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    if dtype.is_float() {
        let value = float_of(text).ok_or_else(|| format!("`{text}` is not a number"))?;
        dtype.push_float(value, &mut bytes);
        return Ok(bytes);
    }
    let value = integer_of(text).ok_or_else(|| format!("`{text}` is not a whole number"))?;
    let bits = dtype.bytes() * 8;
    // Both notations of a bit pattern are accepted: -1 and 4294967295 are the same 32 bits.
    if value < -(1_i128 << (bits - 1)) || value >= 1_i128 << bits {
        return Err(format!("{value} does not fit {dtype}"));
    }
    dtype.push_integer(value as i64, &mut bytes);
    Ok(bytes)
}
