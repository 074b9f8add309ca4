//! Reads files of recorded spaces.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use super::formats;
use super::recorded::{MOST_BYTES, Recorded, RecordedError, RecordedFault};

impl Recorded {
    /// Reads a recorded space, a kernel_tuner cache or T4 results, compressed with gzip or not.
    pub fn read(path: &Path) -> Result<Self, RecordedError> {
        let read = || {
            let metadata = fs::metadata(path).map_err(RecordedFault::Io)?;
            if !metadata.is_file() || metadata.len() > MOST_BYTES {
                return Err(RecordedFault::TooLarge);
            }
            let bytes = fs::read(path).map_err(RecordedFault::Io)?;
            let stem = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            let stem = stem.trim_end_matches(".gz").trim_end_matches(".json");
            Recorded::from_bytes(&bytes, stem)
        };
        read().map_err(|fault| RecordedError { path: path.to_owned(), fault })
    }

    /// Parses a file's bytes. `name` is used for formats that contain no name.
    pub fn from_bytes(bytes: &[u8], name: &str) -> Result<Self, RecordedFault> {
        let mut decompressed = Vec::new();
        let bytes = if bytes.starts_with(&[0x1f, 0x8b]) {
            // A small file may decompress to more than the memory.
            let decoder = flate2::read::MultiGzDecoder::new(bytes);
            decoder.take(MOST_BYTES + 1).read_to_end(&mut decompressed).map_err(RecordedFault::Gzip)?;
            if decompressed.len() as u64 > MOST_BYTES {
                return Err(RecordedFault::TooLarge);
            }
            &decompressed
        } else {
            bytes
        };
        formats::parse(bytes, name)
    }
}
