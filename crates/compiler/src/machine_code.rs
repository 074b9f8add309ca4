//! Reads machine code: hashes what the GPU executes, lists variables and counts parameters.
//!
//! A cubin also contains line tables, file names and compiler notes. Two candidates with the same instructions are
//! the same kernel, so only the sections that reach the GPU are hashed.
//!
//! Only variables that an instruction uses are hashed. NVRTC turns every `constexpr` of a namespace into a variable,
//! used or not; without this rule every knob would change the hash by its value alone.

use std::collections::HashMap;

/// Hash of a cubin's machine code with the constants and variables it uses, or of all its bytes if it is not an ELF
/// file. `ptx` is the source of the cubin; its instructions name the variables they use. Without a cubin the
/// instructions of the PTX are hashed.
pub fn code_hash(cubin: &[u8], ptx: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    if let Some(sections) = executable_sections(cubin) {
        for (name, bytes) in sections {
            part(name);
            part(bytes);
        }
        for definition in used_variables(ptx) {
            part(definition.as_bytes());
        }
    } else if cubin.is_empty() {
        for line in code_of_ptx(ptx).chain(used_variables(ptx)) {
            part(line.as_bytes());
        }
    } else {
        hasher.update(cubin);
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// Name and bytes of a section.
type Section<'a> = (&'a [u8], &'a [u8]);

/// A section of a little-endian 64-bit ELF file.
struct Section64<'a> {
    name: &'a [u8],
    kind: u64,
    /// Empty for a section without bits, whatever its declared size.
    bytes: &'a [u8],
    link: usize,
}

fn sections(elf: &[u8]) -> Option<Vec<Section64<'_>>> {
    const NO_BITS: u64 = 8;
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = field(elf, 0x28, 8)? as usize;
    let entry_size = field(elf, 0x3a, 2)? as usize;
    let count = field(elf, 0x3c, 2)? as usize;
    let names_index = field(elf, 0x3e, 2)? as usize;
    let at = |index: usize| table.checked_add(index.checked_mul(entry_size)?);
    let bytes = |index: usize| {
        let at = at(index)?;
        if field(elf, at.checked_add(4)?, 4)? == NO_BITS {
            return Some(&[][..]);
        }
        let offset = field(elf, at.checked_add(0x18)?, 8)? as usize;
        let size = field(elf, at.checked_add(0x20)?, 8)? as usize;
        elf.get(offset..offset.checked_add(size)?)
    };
    let names = bytes(names_index)?;
    let section = |index: usize| {
        let at = at(index)?;
        let name = names.get(field(elf, at, 4)? as usize..)?.split(|&byte| byte == 0).next()?;
        let kind = field(elf, at.checked_add(4)?, 4)?;
        let link = field(elf, at.checked_add(0x28)?, 4)? as usize;
        Some(Section64 { name, kind, bytes: bytes(index)?, link })
    };
    (0..count).map(section).collect()
}

/// Name and bytes of the sections that reach the GPU.
fn executable_sections(elf: &[u8]) -> Option<Vec<Section<'_>>> {
    // Bank 4 holds the addresses of all variables, used or not.
    let is_hashed = |name: &[u8]| {
        let prefixes = [&b".text."[..], b".nv.constant", b".nv.shared"];
        prefixes.iter().any(|prefix| name.starts_with(prefix)) && !name.starts_with(b".nv.constant4")
    };
    let all = sections(elf)?.into_iter();
    Some(all.filter(|it| is_hashed(it.name)).map(|it| (it.name, it.bytes)).collect())
}

/// Names of a cubin's variables in global memory, which kernels can write.
pub fn variables(cubin: &[u8]) -> Vec<String> {
    const SYMBOLS: u64 = 2;
    const SYMBOL_BYTES: usize = 24;
    const OBJECT: u64 = 1;
    let Some(sections) = sections(cubin) else { return Vec::new() };
    let is_global = |index: u64| {
        sections.get(index as usize).is_some_and(|section| section.name.starts_with(b".nv.global"))
    };
    let mut names = Vec::new();
    for table in sections.iter().filter(|section| section.kind == SYMBOLS) {
        let strings = sections.get(table.link).map_or(&[][..], |section| section.bytes);
        for symbol in table.bytes.chunks_exact(SYMBOL_BYTES) {
            let (Some(at), Some(info), Some(section)) =
                (field(symbol, 0, 4), field(symbol, 4, 1), field(symbol, 6, 2))
            else {
                continue;
            };
            let name = strings.get(at as usize..).and_then(|rest| rest.split(|&byte| byte == 0).next());
            if info & 0xf == OBJECT && is_global(section) {
                names.extend(name.map(|name| String::from_utf8_lossy(name).into_owned()));
            }
        }
    }
    names
}

/// The number of parameters of every kernel of a cubin, as far as the file tells.
pub fn parameter_counts(cubin: &[u8]) -> HashMap<String, usize> {
    let kernels = sections(cubin).unwrap_or_default().into_iter().filter_map(|section| {
        let kernel = std::str::from_utf8(section.name.strip_prefix(b".nv.info.")?).ok()?;
        Some((kernel.to_owned(), parameters_of(section.bytes)?))
    });
    kernels.collect()
}

/// Counts the descriptions of parameters among a kernel's attributes. Each attribute has a format, a number and a value
/// or the size of the value that follows. The descriptions must end where the parameters end: another compiler may
/// describe some of them in another way, and then the count would be too small.
fn parameters_of(mut attributes: &[u8]) -> Option<usize> {
    const VALUE_FOLLOWS: u64 = 4;
    const PARAMETER: u64 = 0x17;
    const BYTES_OF_ALL: u64 = 0x19;
    let (mut count, mut described, mut all) = (0, 0, 0);
    while !attributes.is_empty() {
        let (format, number, value) =
            (field(attributes, 0, 1)?, field(attributes, 1, 1)?, field(attributes, 2, 2)?);
        let following = if format == VALUE_FOLLOWS { value as usize } else { 0 };
        match number {
            PARAMETER if format == VALUE_FOLLOWS => {
                let (offset, size) = (field(attributes, 10, 2)?, field(attributes, 12, 4)? >> 18);
                described = described.max(offset + size);
                count += 1;
            }
            BYTES_OF_ALL => all = value,
            _ => {}
        }
        attributes = attributes.get(4 + following..)?;
    }
    (described == all).then_some(count)
}

/// The lines of a PTX text that decide what the GPU executes, without its variables.
fn code_of_ptx(ptx: &str) -> impl Iterator<Item = &str> {
    let is_code =
        |line: &&str| !line.is_empty() && ![".loc", ".file", "//"].iter().any(|it| line.starts_with(it));
    let lines = ptx.lines().map(str::trim).take_while(|line| !line.starts_with(".section"));
    lines.filter(is_code).filter(|line| !is_variable(line))
}

/// Whether a line of PTX defines a global variable.
fn is_variable(line: &str) -> bool {
    let line = line.strip_prefix(".visible ").or(line.strip_prefix(".weak ")).unwrap_or(line);
    line.starts_with(".global ")
}

/// Definitions of the global variables that the PTX uses elsewhere, each as one line of the compiler's output.
fn used_variables(ptx: &str) -> Vec<&str> {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '%');
    let mut mentions: HashMap<&str, usize> = HashMap::new();
    for name in ptx.split(|c| !word(c)) {
        *mentions.entry(name).or_default() += 1;
    }
    let name = |line: &str| {
        let declared = line.split(['=', '[', ';']).next().unwrap_or_default();
        declared.split_whitespace().last().map(str::to_owned)
    };
    let is_used = |line: &&str| name(line).is_some_and(|name| mentions.get(name.as_str()) > Some(&1));
    ptx.lines().filter(|line| is_variable(line)).filter(is_used).collect()
}

fn field(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let slice = bytes.get(at..at.checked_add(width)?)?;
    Some(slice.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_elf_is_hashed_as_bytes() {
        assert_ne!(code_hash(b"abc", ""), code_hash(b"abd", ""));
        assert_eq!(code_hash(b"", ""), code_hash(b"", ""));
    }

    #[test]
    fn without_a_cubin_the_instructions_and_used_variables_are_hashed() {
        let ptx = |line: u32, unused: u32, used: u32, code: &str| {
            let variables = format!(".global .u32 unused = {unused};\n.global .u32 used = {used};");
            let body = format!("\t.loc 1 {line} 0\n\tld.global.u32 %r1, [used];\n\t{code}");
            let places = format!("\t.file 1 \"k{line}.cu\"\n\t.section .debug\n{{\n{line}\n}}");
            format!("// line {line}\n{variables}\n.entry k()\n{{\n{body}\n}}\n{places}\n")
        };
        let hash = |text: String| code_hash(b"", &text);
        let first = hash(ptx(1, 2, 3, "ret;"));
        assert_eq!(first, hash(ptx(9, 8, 3, "ret;")));
        assert_ne!(first, hash(ptx(1, 2, 4, "ret;")));
        assert_ne!(first, hash(ptx(1, 2, 3, "exit;")));
    }

    #[test]
    fn a_truncated_elf_file_does_not_panic() {
        let mut elf = b"\x7fELF\x02\x01".to_vec();
        elf.resize(64, 0xff);
        for length in 0..elf.len() {
            code_hash(&elf[..length], "");
            parameter_counts(&elf[..length]);
        }
    }

    #[test]
    fn parameters_are_counted_among_other_attributes() {
        // 128 bytes at 432, 176 bytes at 0, and 560 bytes in all.
        let flag = [1, 0x36, 0, 0];
        let last = [4, 0x17, 12, 0, 0, 0, 0, 0, 1, 0, 0xb0, 1, 0, 0xf0, 1, 2];
        let first = [4, 0x17, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0xc1, 2];
        let all = [3, 0x19, 0x30, 2];
        assert_eq!(parameters_of(&[]), Some(0));
        assert_eq!(parameters_of(&[&flag[..], &last, &first, &all].concat()), Some(2));
        assert_eq!(parameters_of(&[&first[..], &all].concat()), None, "one has no description");
        assert_eq!(parameters_of(&last[..15]), None, "cut off");
    }

    #[test]
    fn only_variables_that_are_used_are_hashed() {
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
