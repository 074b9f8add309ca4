//! Fat binaries: containers with PTX and machine code for several targets, as nvcc embeds them into programs.
//!
//! Layout, all numbers little-endian: a header (magic, version, size of the header, size of what follows), then entries.
//! An entry has a header (kind, size of the header, size of the payload, size of the payload if it is compressed, target,
//! flags, size when it is not compressed) and a payload.

use std::io::Read as _;

use chips::ComputeCapability;

use crate::guest;

/// The first word of the structure that nvcc's code passes to the runtime.
const WRAPPER: u32 = 0x4662_43b1;
/// The first word of a container.
const CONTAINER: u32 = 0xba55_ed50;
/// The first bytes of an ELF file: machine code.
const ELF: &[u8] = b"\x7fELF";

const PTX: u16 = 1;
const LZ4: u64 = 1 << 13;
const ZSTD: u64 = 1 << 15;

/// Limits on the sizes that a damaged or malicious image can claim.
const MOST_BYTES: u64 = 1 << 31;
const MOST_TEXT: usize = 1 << 29;

/// Why an image has no PTX for the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageError {
    /// The memory cannot be read, or it is no image.
    Invalid(String),
    /// Only machine code.
    NoPtx(String),
    /// Only PTX for newer devices.
    NewerPtx(String),
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    number(bytes, at).map(u16::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    number(bytes, at).map(u32::from_le_bytes)
}

fn double(bytes: &[u8], at: usize) -> Option<u64> {
    number(bytes, at).map(u64::from_le_bytes)
}

/// PTX with the target that it was compiled for, such as 90 for `sm_90`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Text {
    target: u32,
    text: String,
}

/// The contents of a container.
#[derive(Debug, Default)]
struct Contents {
    texts: Vec<Text>,
    machine_code: Vec<u32>,
}

/// The PTX of an image at an address of the program: a text, a container, or the wrapper of one.
pub fn ptx_at(address: u64, device: ComputeCapability) -> Result<Vec<String>, ImageError> {
    let head = guest::read_available(address, 16);
    let invalid = |what: &str| ImageError::Invalid(what.to_owned());
    match word(&head, 0) {
        Some(WRAPPER) => {
            let wrapper = guest::read_available(address, 24);
            let (Some(version), Some(data)) = (word(&wrapper, 4), double(&wrapper, 8)) else {
                return Err(invalid("the wrapper of the fat binary is cut off"));
            };
            if version == 2 {
                return relocatable(&wrapper, device);
            }
            ptx_at(data, device)
        }
        Some(CONTAINER) => select(&container_at(address)?, device).map(|text| vec![text]),
        _ if head.starts_with(ELF) => {
            Err(ImageError::NoPtx("the image is machine code only (a cubin)".to_owned()))
        }
        Some(_) => {
            let text = guest::read_long_text(address, MOST_TEXT)
                .map_err(|_| invalid("the image is neither PTX nor a fat binary"))?;
            if text.contains(".version") { Ok(vec![text]) } else { Err(invalid("the image is not PTX")) }
        }
        None => Err(invalid("the image cannot be read")),
    }
}

/// The parts of a program that was compiled with `-rdc=true`: a list of containers follows the linked one.
fn relocatable(wrapper: &[u8], device: ComputeCapability) -> Result<Vec<String>, ImageError> {
    let list = double(wrapper, 16).unwrap_or(0);
    let mut texts = Vec::new();
    for index in 0..4096 {
        let Some(part) = double(&guest::read_available(list + 8 * index, 8), 0) else { break };
        if part == 0 {
            break;
        }
        texts.extend(ptx_at(part, device)?);
    }
    if texts.is_empty() {
        return Err(ImageError::NoPtx("the linked image is machine code only".to_owned()));
    }
    Ok(texts)
}

/// Reads a container.
fn container_at(address: u64) -> Result<Contents, ImageError> {
    let cut = || ImageError::Invalid("the fat binary is cut off".to_owned());
    let head = guest::read_available(address, 16);
    let (Some(header), Some(size)) = (half(&head, 6), double(&head, 8)) else { return Err(cut()) };
    if size > MOST_BYTES {
        return Err(cut());
    }
    let mut bytes = vec![0; size as usize];
    guest::read_bytes(address + u64::from(header), &mut bytes).map_err(|_| cut())?;
    contents(&bytes).ok_or_else(cut)
}

/// The entries of a container, without its header.
fn contents(bytes: &[u8]) -> Option<Contents> {
    let mut found = Contents::default();
    let mut at = 0usize;
    while at + 64 <= bytes.len() {
        let entry = &bytes[at..];
        let (kind, header, size) = (half(entry, 0)?, word(entry, 4)? as usize, double(entry, 8)?);
        let size = usize::try_from(size).ok()?;
        if header < 64 {
            return None;
        }
        let payload = entry.get(header..header.checked_add(size)?)?;
        let (compressed, target, flags, plain) =
            (word(entry, 16)?, word(entry, 28)?, double(entry, 40)?, double(entry, 56)?);
        if kind == PTX {
            let text = text(payload, compressed as usize, flags, plain)?;
            found.texts.push(Text { target, text });
        } else {
            found.machine_code.push(target);
        }
        at += header + size;
    }
    Some(found)
}

/// The text of a payload.
fn text(payload: &[u8], compressed: usize, flags: u64, plain: u64) -> Option<String> {
    let bytes = if flags & (LZ4 | ZSTD) != 0 {
        if plain > MOST_BYTES {
            return None;
        }
        let packed = payload.get(..compressed)?;
        if flags & LZ4 != 0 {
            lz4_flex::block::decompress(packed, plain as usize).ok()?
        } else {
            let mut bytes = Vec::new();
            let decoder = ruzstd::decoding::StreamingDecoder::new(packed).ok()?;
            decoder.take(plain).read_to_end(&mut bytes).ok()?;
            bytes
        }
    } else {
        payload.to_vec()
    };
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8(bytes[..end].to_vec()).ok()
}

/// The PTX for the newest target that the device can run.
fn select(contents: &Contents, device: ComputeCapability) -> Result<String, ImageError> {
    let own = device.major * 10 + device.minor;
    let best = contents.texts.iter().filter(|text| text.target <= own).max_by_key(|text| text.target);
    if let Some(best) = best {
        return Ok(best.text.clone());
    }
    let list = |targets: &mut dyn Iterator<Item = u32>| {
        targets.map(|target| format!("sm_{target}")).collect::<Vec<_>>().join(", ")
    };
    if contents.texts.is_empty() {
        let targets = list(&mut contents.machine_code.iter().copied());
        return Err(ImageError::NoPtx(format!("the fat binary has machine code only ({targets})")));
    }
    let targets = list(&mut contents.texts.iter().map(|text| text.target));
    Err(ImageError::NewerPtx(format!(
        "the fat binary has PTX for {targets} only, and the device is an sm_{own}"
    )))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn entry(kind: u16, target: u32, flags: u64, payload: &[u8], plain: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; 64];
        bytes[0..2].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&64u32.to_le_bytes());
        let padded = payload.len().next_multiple_of(8);
        bytes[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
        bytes[16..20].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes[28..32].copy_from_slice(&target.to_le_bytes());
        bytes[40..48].copy_from_slice(&flags.to_le_bytes());
        bytes[56..64].copy_from_slice(&(plain as u64).to_le_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(64 + padded, 0);
        bytes
    }

    const DEVICE: ComputeCapability = ComputeCapability { major: 9, minor: 0 };

    #[test]
    fn the_newest_ptx_that_the_device_runs_is_selected() {
        let mut bytes = entry(2, 90, 0, b"\x7fELF machine code", 0);
        bytes.extend(entry(PTX, 75, 0, b".version 7.0\n", 0));
        bytes.extend(entry(PTX, 90, 0, b".version 8.0\n\0\0", 0));
        bytes.extend(entry(PTX, 100, 0, b".version 9.0\n", 0));
        assert_eq!(select(&contents(&bytes).unwrap(), DEVICE).unwrap(), ".version 8.0\n");
    }

    #[test]
    fn compressed_ptx_is_decompressed() {
        let plain = ".version 8.0 ".repeat(100);
        let packed = lz4_flex::block::compress(plain.as_bytes());
        let bytes = entry(PTX, 80, LZ4, &packed, plain.len());
        assert_eq!(contents(&bytes).unwrap().texts[0].text, plain);
        let packed =
            ruzstd::encoding::compress_to_vec(plain.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
        let bytes = entry(PTX, 80, ZSTD, &packed, plain.len());
        assert_eq!(contents(&bytes).unwrap().texts[0].text, plain);
    }

    #[test]
    fn machine_code_alone_is_refused_and_named() {
        let bytes = entry(2, 90, 0, b"\x7fELF", 0);
        let error = select(&contents(&bytes).unwrap(), DEVICE).unwrap_err();
        assert_eq!(error, ImageError::NoPtx("the fat binary has machine code only (sm_90)".to_owned()));
    }

    #[test]
    fn ptx_for_a_newer_device_is_refused_as_such() {
        let bytes = entry(PTX, 100, 0, b".version 9.0\n", 0);
        let error = select(&contents(&bytes).unwrap(), DEVICE).unwrap_err();
        let reason = "the fat binary has PTX for sm_100 only, and the device is an sm_90";
        assert_eq!(error, ImageError::NewerPtx(reason.to_owned()));
    }

    #[test]
    fn broken_containers_are_no_panic() {
        let whole = entry(PTX, 80, LZ4, &[0xff; 40], 1 << 40);
        for end in 0..whole.len() {
            let _ = contents(&whole[..end]);
            let mut changed = whole.clone();
            changed[end] ^= 0xff;
            let _ = contents(&changed);
        }
    }
}
