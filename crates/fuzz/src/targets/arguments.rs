//! Kernel arguments and extents in the user's notation, one per line.

use launch::{Argument, Extent, npy};

/// Largest number of elements of a buffer whose contents are generated.
const MOST_ELEMENTS: usize = 4096;

/// Parses every line.
pub fn run(input: &[u8]) {
    for line in super::text(input).lines().take(50) {
        if let Ok(extent) = line.parse::<Extent>() {
            assert_eq!(extent.to_string().parse(), Ok(extent));
        }
        let argument = match line.parse::<Argument>() {
            Ok(argument) => argument,
            Err(error) => {
                drop(error.to_string());
                continue;
            }
        };
        drop(argument.to_string());
        let buffer = argument.buffer();
        let elements: usize = buffer.map_or(0, |(_, dims)| dims.iter().product());
        if elements > MOST_ELEMENTS {
            continue;
        }
        let contents = argument.contents().unwrap_or_default();
        if let Some((dtype, dims)) = buffer {
            let file = npy::write(dtype, dims, &contents);
            let header = u16::from_le_bytes([file[8], file[9]]) as usize;
            assert_eq!(file.len(), 10 + header + contents.len(), "the header contains its own length");
            drop((dtype.floats(&contents), dtype.integers(&contents)));
        }
    }
}
