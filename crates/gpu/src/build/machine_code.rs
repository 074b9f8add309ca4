//! A hash over what the GPU will execute.
//!
//! A cubin also carries line tables, file names and the compiler's notes; two candidates whose instructions are
//! the same are the same kernel whatever those say. So only the sections that reach the GPU are hashed.

/// Hash of the machine code and constants of a cubin, or of its bytes if it is not the ELF file it should be.
pub fn code_hash(cubin: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    match executable_sections(cubin) {
        Some(sections) => {
            for (name, bytes) in sections {
                hasher.update(&(name.len() as u64).to_le_bytes()).update(name);
                hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
            }
        }
        None => {
            hasher.update(cubin);
        }
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

type Section<'a> = (&'a [u8], &'a [u8]);

/// Name and bytes of the sections that matter, from a little-endian 64-bit ELF file.
fn executable_sections(elf: &[u8]) -> Option<Vec<Section<'_>>> {
    const NO_BITS: u64 = 8;
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = field(elf, 0x28, 8)? as usize;
    let entry_size = field(elf, 0x3a, 2)? as usize;
    let count = field(elf, 0x3c, 2)? as usize;
    let names_index = field(elf, 0x3e, 2)? as usize;
    let header = |index: usize| {
        let at = table.checked_add(index.checked_mul(entry_size)?)?;
        let kind = field(elf, at.checked_add(4)?, 4)?;
        let (offset, size) =
            (field(elf, at.checked_add(0x18)?, 8)? as usize, field(elf, at.checked_add(0x20)?, 8)?);
        Some((field(elf, at, 4)? as usize, kind, offset, size as usize))
    };
    let (_, _, names_at, names_size) = header(names_index)?;
    let names = elf.get(names_at..names_at.checked_add(names_size)?)?;
    let mut sections = Vec::new();
    for index in 0..count {
        let (name_at, kind, offset, size) = header(index)?;
        let name = names.get(name_at..)?.split(|&byte| byte == 0).next()?;
        let counts = [&b".text."[..], b".nv.constant", b".nv.global", b".nv.shared"];
        if !counts.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        // A section without bits has a size and no bytes; the size is in the section's launch information.
        let bytes = if kind == NO_BITS { &[][..] } else { elf.get(offset..offset.checked_add(size)?)? };
        sections.push((name, bytes));
    }
    Some(sections)
}

fn field(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let slice = bytes.get(at..at.checked_add(width)?)?;
    Some(slice.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_that_is_not_an_elf_file_is_hashed_as_it_is() {
        assert_ne!(code_hash(b"abc"), code_hash(b"abd"));
        assert_eq!(code_hash(b""), code_hash(b""));
    }

    #[test]
    fn a_truncated_elf_file_is_no_panic() {
        let mut elf = b"\x7fELF\x02\x01".to_vec();
        elf.resize(64, 0xff);
        for length in 0..elf.len() {
            code_hash(&elf[..length]);
        }
    }
}
