//! Compares buffers with expected values after the launch.

use launch::Dtype;
use schemars::JsonSchema;
use serde::Serialize;

use crate::SanitizeError;

/// The comparison of a buffer with expected values.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Comparison {
    /// The buffer.
    pub buffer: String,
    /// The file or the name of the expected values.
    pub file: String,
    /// Number of elements.
    pub elements: usize,
    /// Number of elements outside the tolerance.
    pub mismatches: usize,
    /// The element with the largest error in units of the tolerance.
    pub worst: Option<Mismatch>,
}

/// An element that is not as expected.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Mismatch {
    /// The index in each dimension.
    pub index: Vec<usize>,
    /// The value of the buffer.
    pub got: String,
    /// The expected value.
    pub expected: String,
}

impl Comparison {
    /// Whether every element is within the tolerance.
    pub fn is_equal(&self) -> bool {
        self.mismatches == 0
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        let Comparison { buffer, file, elements, mismatches, .. } = self;
        match &self.worst {
            Some(Mismatch { index, got, expected }) => {
                format!(
                    "{mismatches} of {elements} elements of {buffer} differ from {file}; {buffer}{index:?} is {got}, expected {expected}"
                )
            }
            None => {
                format!("{buffer} equals {file} within the tolerance ({})", text::count(*elements, "element"))
            }
        }
    }
}

/// An array with its type and shape.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    /// What messages call it.
    pub name: &'a str,
    /// The type of the elements.
    pub dtype: Dtype,
    /// The extents, outermost first.
    pub dims: &'a [usize],
    /// The elements, little-endian.
    pub bytes: &'a [u8],
}

/// Compares a buffer with the expected array. The tolerances are relative and absolute; `None` for those of the type.
pub fn compare(
    buffer: Array<'_>,
    wanted: Array<'_>,
    tolerances: (Option<f64>, Option<f64>),
) -> Result<Comparison, SanitizeError> {
    let Array { name, dtype, dims, .. } = buffer;
    let file = wanted.name;
    let elements: usize = dims.iter().product();
    if wanted.dims.iter().product::<usize>() != elements {
        return Err(SanitizeError::usage(format!(
            "{file} has the shape {:?}, but {name} has {dims:?}",
            wanted.dims
        )));
    }
    let stored = if dtype.may_be_stored_as(wanted.dtype) { dtype } else { wanted.dtype };
    let (relative, absolute) = tolerance(dtype);
    let (relative, absolute) = (tolerances.0.unwrap_or(relative), tolerances.1.unwrap_or(absolute));
    let mut comparison =
        Comparison { buffer: name.to_owned(), file: file.to_owned(), elements, mismatches: 0, worst: None };
    let mut largest = 0.0;
    let values = |dtype: Dtype, bytes: &[u8]| Values {
        // 64-bit integers are not exact as f64.
        integers: if dtype.is_float() { Vec::new() } else { dtype.integers(bytes) },
        floats: dtype.floats(bytes),
    };
    let (got, expected) = (values(dtype, buffer.bytes), values(stored, wanted.bytes));
    for index in 0..elements {
        let excess = got.excess(&expected, index, relative, absolute);
        if excess > 1.0 {
            comparison.mismatches += 1;
            if excess > largest {
                largest = excess;
                let (got, expected) = (got.text(index), expected.text(index));
                comparison.worst = Some(Mismatch { index: place(index, dims), got, expected });
            }
        }
    }
    Ok(comparison)
}

/// The elements of an array as numbers.
struct Values {
    /// Empty for a floating-point type.
    integers: Vec<i64>,
    floats: Vec<f64>,
}

impl Values {
    fn excess(&self, expected: &Values, index: usize, relative: f64, absolute: f64) -> f64 {
        match (self.integers.get(index), expected.integers.get(index)) {
            (Some(got), Some(wanted)) if got != wanted => {
                let error = got.abs_diff(*wanted) as f64;
                let allowed = absolute + relative * expected.floats[index].abs();
                if allowed == 0.0 { f64::INFINITY } else { error / allowed }
            }
            (Some(_), Some(_)) => 0.0,
            _ => excess(self.floats[index], expected.floats[index], relative, absolute),
        }
    }

    fn text(&self, index: usize) -> String {
        self.integers.get(index).map_or_else(|| self.floats[index].to_string(), i64::to_string)
    }
}

/// The error in units of the tolerance. A NaN or an infinity equals only itself, and a huge expected value whose tolerance
/// overflows equals only itself, too.
fn excess(got: f64, expected: f64, relative: f64, absolute: f64) -> f64 {
    if got == expected || got.is_nan() && expected.is_nan() {
        return 0.0;
    }
    let error = (got - expected).abs();
    let allowed = absolute + relative * expected.abs();
    if !error.is_finite() || !allowed.is_finite() || allowed == 0.0 { f64::INFINITY } else { error / allowed }
}

/// The relative and the absolute tolerance of torch.testing.assert_close. FP8 has the spacing of its values.
fn tolerance(dtype: Dtype) -> (f64, f64) {
    match dtype {
        Dtype::F64 => (1e-7, 1e-7),
        Dtype::F32 => (1.3e-6, 1e-5),
        Dtype::F16 => (1e-3, 1e-5),
        Dtype::Bf16 => (1.6e-2, 1e-5),
        Dtype::E4m3 => (0.0625, 1e-3),
        Dtype::E5m2 => (0.125, 1e-3),
        _ => (0.0, 0.0),
    }
}

/// The index in each dimension.
fn place(mut index: usize, dims: &[usize]) -> Vec<usize> {
    let mut place: Vec<usize> = dims
        .iter()
        .rev()
        .map(|&extent| {
            let here = index % extent.max(1);
            index /= extent.max(1);
            here
        })
        .collect();
    place.reverse();
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_the_bits_of_types_that_numpy_lacks_and_numbers_of_others() {
        let equal = |dtype: Dtype, bytes: &[u8], stored: Dtype, expected: &[u8]| {
            let array = |name, dtype, bytes| Array { name, dtype, dims: &[1], bytes };
            let compared =
                compare(array("p", dtype, bytes), array("want.npy", stored, expected), (None, None));
            compared.unwrap().is_equal()
        };
        let seven = 7.0_f32.to_le_bytes();
        assert!(equal(Dtype::F32, &seven, Dtype::I32, &7_i32.to_le_bytes()));
        assert!(!equal(Dtype::F32, &seven, Dtype::I32, &seven));
        assert!(equal(Dtype::F64, &7.0_f64.to_le_bytes(), Dtype::U64, &7_u64.to_le_bytes()));
        assert!(equal(Dtype::Bf16, &seven[2..], Dtype::U16, &seven[2..]));
        assert!(equal(Dtype::Bf16, &seven[2..], Dtype::I32, &7_i32.to_le_bytes()));
        assert!(equal(Dtype::E4m3, &[0x38], Dtype::U8, &[0x38]));
    }

    #[test]
    fn errors_are_compared_with_the_tolerance() {
        assert!(excess(1.0, 1.001, 1e-2, 0.0) < 1.0);
        assert!(excess(1.0, 1.1, 1e-2, 0.0) > 1.0);
        assert!(excess(0.0, 1e-6, 0.0, 1e-5) < 1.0);
        assert!(excess(f64::NAN, 1.0, 1.0, 1.0) > 1.0);
        assert!(excess(1.0, f64::NAN, 1.0, 1.0) > 1.0);
        assert!(excess(1e30, f64::INFINITY, 1.0, 1.0) > 1.0);
        assert!(excess(f64::NAN, f64::NAN, 0.0, 0.0) < 1.0);
        assert!(excess(f64::INFINITY, f64::INFINITY, 0.0, 0.0) < 1.0);
        assert!(excess(2.0, 1.0, 0.0, 0.0) > 1.0);
        assert!(excess(f64::NEG_INFINITY, f64::INFINITY, 1.0, 1.0) > 1.0);
        assert!(excess(7.0, 1e308, 10.0, 0.0) > 1.0);
        let integers = |value: i64| Values { integers: vec![value], floats: vec![value as f64] };
        assert!(integers(i64::MAX).excess(&integers(i64::MAX - 1), 0, 0.0, 0.0) > 1.0);
        assert!(integers(5).excess(&integers(6), 0, 0.0, 2.0) < 1.0);
        assert_eq!(place(5, &[2, 3]), [1, 2]);
    }
}
