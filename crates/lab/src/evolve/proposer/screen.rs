//! A look at a proposed source before any compiler sees it: what the compiler would read besides.
//!
//! The compiler runs as the user, and its messages go back to the proposer: a source that includes a file of the user's
//! would have it read out. So nothing is included but the family's own headers, CUDA's and the standard library's. This
//! does not try to know comments and strings from code, where a clever source could make it err: whatever looks like
//! an `#include` anywhere must be one of these.

use std::borrow::Cow;

/// Bytes of a source.
pub const MOST_BYTES: usize = 256 << 10;

/// CUDA's headers for device code; besides, everything below [`FOLDERS`].
const CUDA: &[&str] = &[
    "cooperative_groups.h",
    "cuda_awbarrier.h",
    "cuda_awbarrier_primitives.h",
    "cuda_bf16.h",
    "cuda_fp16.h",
    "cuda_fp4.h",
    "cuda_fp6.h",
    "cuda_fp8.h",
    "cuda_pipeline.h",
    "cuda_pipeline_primitives.h",
    "cuda_runtime.h",
    "device_launch_parameters.h",
    "math_constants.h",
    "mma.h",
    "vector_functions.h",
    "vector_types.h",
];
const FOLDERS: &[&str] = &["cooperative_groups/", "cub/", "cuda/", "nv/"];

/// Other ways to have a file read, to ask whether there is one, or to give lines another file's name; `##`, which can
/// build each of these words from parts; and spellings of `#` and of a line's end that C++ has given up.
const NEVER: &[&str] = &[
    "__has_include",
    "__has_embed",
    "__include_level__",
    "__FILE__",
    "__DATE__",
    "__TIME__",
    "__TIMESTAMP__",
    "__FILE_NAME__",
    "__BASE_FILE__",
    "__TIMESTAMP__",
    "__builtin_FILE",
    "source_location",
    "_Pragma",
    "__pragma",
    "##",
    "%:%:",
    "#%:",
    "%:#",
    "??=",
    "??/",
];

/// Words after `#` that are refused: each reads a file, names one, or is no kernel's business.
const DIRECTIVES: &[&str] = &[
    "include_next",
    "import",
    "embed",
    "line",
    "using",
    "ident",
    "sccs",
    "assert",
    "unassert",
    "include_alias",
];

/// Pragmas that say how to compile; no other one is allowed, since some name files.
const PRAGMAS: &[&str] = &[
    "unroll",
    "nounroll",
    "once",
    "nv_diag_suppress",
    "nv_diag_default",
    "nv_diagnostic",
    "nv_abi",
    "diag_suppress",
    "diag_default",
];

/// Directives of an assembler that read or name a file.
const ASSEMBLER: &[&str] = &[".incbin", ".include", ".file", ".section", ".loc"];

/// Refuses a source that is too long, lacks the kernel, or would have the compiler read what is none of its business.
pub fn source(text: &str, entry: &str, own_headers: &[String]) -> Result<(), String> {
    if text.len() > MOST_BYTES {
        return Err(format!("the source has {} bytes; {MOST_BYTES} are allowed", text.len()));
    }
    if text.contains('\0') {
        return Err("the source has a zero byte".to_owned());
    }
    if !text.contains(entry) {
        return Err(format!("the source has no kernel `{entry}`"));
    }
    // As it stands, and with lines that a backslash continues put together, as the compiler does first of all.
    for text in [Cow::Borrowed(text), Cow::Owned(spliced(text))] {
        if let Some(word) = NEVER.iter().find(|word| text.contains(**word)) {
            return Err(format!("the source has `{word}`, which is not allowed"));
        }
        escaped_letters(&text)?;
        assembler(&text)?;
        directives(&text, own_headers)?;
    }
    Ok(())
}

/// Refuses letters of plain ASCII that are written as `\u0069`: a word spelled so is a word nobody looks for.
fn escaped_letters(text: &str) -> Result<(), String> {
    for (at, mark) in text.match_indices("\\u").chain(text.match_indices("\\U")) {
        let digits: String = text[at + mark.len()..].chars().take(8).collect();
        let length = if mark == "\\u" { 4 } else { 8 };
        // `\u{69}` and `\N{...}` are spellings of a later C++.
        let code = digits.get(..length).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        if code.is_none_or(|code| code < 0x80) {
            return Err("the source spells a letter as `\\u...`, which is not allowed".to_owned());
        }
    }
    if text.contains("\\N{") { Err("the source has `\\N{`, which is not allowed".to_owned()) } else { Ok(()) }
}

/// Refuses an assembler's directives that read or name a file. A text in quotes may be put together from several, so
/// quotes and blanks do not count; a member of that name (`x.file`) is refused too.
fn assembler(text: &str) -> Result<(), String> {
    if !text.contains("asm") {
        return Ok(());
    }
    let packed: String = text.chars().filter(|c| *c != '"' && !c.is_whitespace()).collect();
    for word in ASSEMBLER {
        let ends = |at: usize| {
            let next = packed[at + word.len()..].chars().next();
            // `.local` and `.section_size` are other words; after `.file` comes a number or a path.
            !next.is_some_and(|c| c == '_' || (c.is_ascii_alphabetic() && *word != ".incbin"))
        };
        if packed.match_indices(word).any(|(at, _)| ends(at)) {
            return Err(format!("the source has assembler with `{word}`, which is not allowed"));
        }
    }
    Ok(())
}

fn directives(text: &str, own_headers: &[String]) -> Result<(), String> {
    for (at, mark) in text.match_indices('#').chain(text.match_indices("%:")) {
        let rest = after_blanks(&text[at + mark.len()..]);
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        // `\u0069nclude` is a spelling too.
        if rest.starts_with("\\u") || rest.starts_with("\\U") {
            return Err("the source has a directive with an escaped letter".to_owned());
        }
        match word {
            "include" => {
                let name = included(after_blanks(rest)).ok_or_else(|| {
                    "the source has an #include of something other than a name in quotes or brackets"
                        .to_owned()
                })?;
                if !own_headers.iter().any(|own| own == name) && !is_cudas(name) {
                    let own = own_headers.join(", ");
                    return Err(format!(
                        "the source includes `{name}`; allowed are {own}, CUDA's device headers and the standard ones"
                    ));
                }
            }
            "pragma" => {
                let rest = after_blanks(rest);
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                let pragma = &rest[..end];
                if !PRAGMAS.contains(&pragma) {
                    return Err(format!(
                        "the source has `#pragma {pragma}`; allowed are {}",
                        PRAGMAS.join(", ")
                    ));
                }
            }
            word if DIRECTIVES.contains(&word) => {
                return Err(format!("the source has `#{word}`, which is not allowed"));
            }
            // `# 1 "file"` is `#line 1 "file"`.
            word if is_line_number(word) && starts_line(&text[..at]) => {
                return Err(format!("the source has `# {word}`, which is not allowed"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_line_number(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_digit())
}

/// Whether what comes next could begin a line for the compiler: only blanks and the end of a comment are before it.
fn starts_line(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let line = line.rsplit_once("*/").map_or(line, |(_, after)| after);
    line.trim().is_empty()
}

fn spliced(text: &str) -> String {
    let mut pieces = text.split('\\');
    let mut joined = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        // Blanks between the backslash and the line's end do not matter to some compilers.
        let end = piece.trim_start_matches([' ', '\t', '\r', '\u{b}', '\u{c}']);
        if let Some(next_line) = end.strip_prefix('\n') {
            joined.push_str(next_line);
        } else {
            joined.push('\\');
            joined.push_str(piece);
        }
    }
    joined
}

fn after_blanks(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some(comment) = rest.strip_prefix("/*") {
        rest = comment.split_once("*/").map_or("", |(_, after)| after.trim_start());
    }
    rest
}

/// The name after `#include`.
fn included(rest: &str) -> Option<&str> {
    let line = rest.lines().next()?;
    let (open, close) = if line.starts_with('"') { ('"', '"') } else { ('<', '>') };
    line.strip_prefix(open)?.split_once(close).map(|(name, _)| name)
}

fn is_cudas(name: &str) -> bool {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let stays = name.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    let known = CUDA.contains(&name)
        || FOLDERS.iter().any(|folder| name.starts_with(folder))
        || gpu::build::standard_headers().iter().any(|(standard, _)| standard == name);
    plain && stays && known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screened(text: &str) -> Result<(), String> {
        let own = ["generated.cuh".to_owned(), "common/ptx.cuh".to_owned()];
        source(&format!("{text}\nvoid kernel() {{}}\n"), "kernel", &own)
    }

    #[test]
    fn kernels_as_people_write_them_pass() {
        for text in [
            "#include \"generated.cuh\"\n#include \"common/ptx.cuh\"\n#include <cuda_fp16.h>\n#include <mma.h>",
            "#include <cuda/std/cstdint>\n#include <cstdint>\n#include <cub/block/block_reduce.cuh>\n",
            "#define STRING(x) #x\n#define LONG(a) \\\n    (a)\n#pragma unroll 4\n",
            "asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" :: \"r\"(a), \"l\"(b));\nasm(\"ld.local.u32 %0, [%1];\");",
            "const char* greek = \"\\u03b1\";",
            "// #1 of several, # included\nconst char* s = \"100 % : #1\";",
        ] {
            assert_eq!(screened(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn the_families_own_sources_pass() {
        let catalog = family::Catalog::load(None).unwrap();
        for family in catalog.entries().iter().filter_map(|entry| entry.family.as_ref().ok()) {
            let candidate = family.candidate(None, &[], &[]).unwrap();
            let request = family.request(&candidate, family.targets[0]).unwrap();
            let own: Vec<String> = request.source.headers.iter().map(|(name, _)| name.clone()).collect();
            assert_eq!(source(&request.source.text, &family.entry, &own), Ok(()), "{}", family.name);
        }
    }

    #[test]
    fn whatever_would_read_a_file_is_refused() {
        for text in [
            "#include \"/etc/passwd\"",
            "#include </etc/passwd>",
            "  #\tinclude\t\"/etc/passwd\"",
            "#include \"../../secret.h\"",
            "#include \"cuda/../../secret.h\"",
            "#include \"secret.h\"",
            "#include <cuda/std/cstdint\n>",
            "# /* a\ncomment */ include /**/ \"/etc/passwd\"",
            "#inc\\\nlude \"/etc/passwd\"",
            "#inc\\  \r\nlude \"/etc/passwd\"",
            "#\\\ninclude \"/etc/passwd\"",
            "%:include \"/etc/passwd\"",
            "%: include </etc/passwd>",
            "??=include \"/etc/passwd\"",
            "#inc??/\nlude \"/etc/passwd\"",
            "#incl\\u0075de \"/etc/passwd\"",
            "#define F \"/etc/passwd\"\n#include F",
            "#include_next <stdlib.h>",
            "#import \"x\"",
            "const char s[] = {\n#embed \"/etc/passwd\"\n};",
            "#if __has_include(\"/etc/passwd\")\n#error yes\n#endif",
            "#if __has_\\\ninclude(\"/etc/passwd\")\n#endif",
            "#define X(a, b) a##b\n#if X(__has_, include)(\"/etc/passwd\")\n#error yes\n#endif",
            "#define X(a, b) a %:%: b\n#if X(__has_, include)(\"/etc/passwd\")\n#endif",
            "#define X(a, b) a#\\\n#b\n#if X(__has_, include)(\"/etc/passwd\")\n#endif",
            "#if __has_\\u0069nclude(\"/etc/passwd\")\n#endif",
            "#if __has_\\U00000069nclude(\"/etc/passwd\")\n#endif",
            "#if __has_\\u{69}nclude(\"/etc/passwd\")\n#endif",
            "_Pragma(\"message(__FILE__)\")",
            "#line 1 \"/etc/passwd\"",
            "# line 1 \"/etc/passwd\"",
            "# 1 \"/etc/passwd\"",
            "/* a\n */ # 1 \"/etc/passwd\"",
            "#pragma include_alias(\"mma.h\", \"/etc/passwd\")",
            "#pragma GCC dependency \"/etc/passwd\"",
            "%:pragma message \"x\"",
            "#include __FILE__",
            "const char* where = __FILE__;",
            "static_assert(__builtin_FILE()[0] == 'x');",
            "asm(\".incbin \\\"/etc/passwd\\\"\");",
            "asm(\".inc\" \"bin /etc/passwd\");",
            "asm(\".file 1 \\\"/etc/passwd\\\"\\n.loc 1 1 1\");",
            "#using \"x.dll\"",
            // What is a comment here depends on what is a string there.
            "const char* s = R\"x(\" /*)x\";\n#include \"/etc/passwd\"\n/**/",
        ] {
            assert!(screened(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_a_kernel_is_refused() {
        assert!(screened("\0").unwrap_err().contains("zero byte"));
        assert!(source("int x;", "kernel", &[]).unwrap_err().contains("no kernel `kernel`"));
        let long = "x".repeat(MOST_BYTES);
        assert!(screened(&long).unwrap_err().contains("262144 are allowed"));
    }
}
