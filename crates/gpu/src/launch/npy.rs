//! Writes arrays as .npy files, the format of numpy.

use super::Dtype;

/// The bytes of a version 1.0 .npy file: magic, a padded header that describes the array, the elements.
pub fn npy(dtype: Dtype, dims: &[usize], elements: &[u8]) -> Vec<u8> {
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
        let file = npy(Dtype::F32, &[2, 3], &[0; 24]);
        let header = u16::from_le_bytes([file[8], file[9]]) as usize;
        assert_eq!((10 + header) % 64, 0);
        assert_eq!(file.len(), 10 + header + 24);
        let text = std::str::from_utf8(&file[10..10 + header]).unwrap();
        assert!(text.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3,), }"), "{text}");
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn the_shape_of_a_vector_keeps_the_comma_python_needs() {
        let file = npy(Dtype::Bf16, &[4], &[0; 8]);
        assert!(String::from_utf8_lossy(&file).contains("'descr': '<u2'"));
        assert!(String::from_utf8_lossy(&file).contains("'shape': (4,)"));
    }
}
