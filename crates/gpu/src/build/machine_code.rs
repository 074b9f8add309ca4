//! A hash over what the GPU will execute.
//!
//! A cubin also carries line tables, file names and the compiler's notes; two candidates whose instructions are
//! the same are the same kernel whatever those say. So only the sections that reach the GPU are hashed.
//!
//! Nor does every variable count: NVRTC turns each `constexpr` of a namespace into one, used or not. Those that no
//! instruction names are left out, or else every knob would change the code by its mere value.

use std::collections::HashMap;

/// Hash of the machine code of a cubin with the constants and variables it uses, or of its bytes if it is not the ELF
/// file it should be. `ptx` is what it was assembled from: there instructions name the variables they use.
pub fn code_hash(cubin: &[u8], ptx: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    match executable_sections(cubin) {
        Some(sections) => {
            for (name, bytes) in sections {
                hasher.update(&(name.len() as u64).to_le_bytes()).update(name);
                hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
            }
            for definition in used_variables(ptx) {
                hasher.update(&(definition.len() as u64).to_le_bytes()).update(definition.as_bytes());
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
        // Bank 4 holds the addresses of all variables, used or not.
        let counts = [&b".text."[..], b".nv.constant", b".nv.shared"];
        if !counts.iter().any(|prefix| name.starts_with(prefix)) || name.starts_with(b".nv.constant4") {
            continue;
        }
        // A section without bits has a size and no bytes; the size is in the section's launch information.
        let bytes = if kind == NO_BITS { &[][..] } else { elf.get(offset..offset.checked_add(size)?)? };
        sections.push((name, bytes));
    }
    Some(sections)
}

/// The definitions of the global variables that are named anywhere else, each a line as the compiler writes it.
fn used_variables(ptx: &str) -> Vec<&str> {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '%');
    let mut mentions: HashMap<&str, usize> = HashMap::new();
    for name in ptx.split(|c| !word(c)) {
        *mentions.entry(name).or_default() += 1;
    }
    let is_definition = |line: &&str| {
        let line = line.strip_prefix(".visible ").or(line.strip_prefix(".weak ")).unwrap_or(line);
        line.starts_with(".global ")
    };
    let name = |line: &str| {
        let declared = line.split(['=', '[', ';']).next().unwrap_or_default();
        declared.split_whitespace().last().map(str::to_owned)
    };
    let is_used = |line: &&str| name(line).is_some_and(|name| mentions.get(name.as_str()) > Some(&1));
    ptx.lines().filter(is_definition).filter(is_used).collect()
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
        assert_ne!(code_hash(b"abc", ""), code_hash(b"abd", ""));
        assert_eq!(code_hash(b"", ""), code_hash(b"", ""));
    }

    #[test]
    fn a_truncated_elf_file_is_no_panic() {
        let mut elf = b"\x7fELF\x02\x01".to_vec();
        elf.resize(64, 0xff);
        for length in 0..elf.len() {
            code_hash(&elf[..length], "");
        }
    }

    #[test]
    fn variables_count_if_something_names_them() {
        let ptx = "\
.global .align 4 .u32 _ZN4knob6UNUSEDE = 1;
.visible .global .align 4 .u32 counter;
.weak .global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.global .align 4 .u32 table_of_another_name = 3;
.visible .entry kernel() {
	ld.global.u32 %r1, [table+4];
	mov.u64 %rd1, counter;
}";
        let used = used_variables(ptx);
        assert_eq!(used.len(), 2, "{used:?}");
        assert!(used[0].contains("counter") && used[1].contains("table[8]"));
    }
}
