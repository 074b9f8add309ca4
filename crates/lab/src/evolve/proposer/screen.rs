//! Screens a proposed source before it is compiled: the source must not make the compiler read other files.
//!
//! The compiler runs as the user, and its messages go back to the proposer. A source that includes one of the user's
//! files would leak its contents. So a source may include only the family's own headers, CUDA's and the standard
//! library's. The screen does not distinguish comments and strings from code, because a clever source could mislead
//! such a parser: anything that looks like an `#include`, anywhere, must name one of these headers.

use std::borrow::Cow;

/// The longest source that is accepted, in bytes.
pub const MAX_BYTES: usize = 256 << 10;

/// CUDA's headers for device code. Everything below [`CUDA_FOLDERS`] is allowed too.
const CUDA_HEADERS: &[&str] = &[
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
const CUDA_FOLDERS: &[&str] = &["cooperative_groups/", "cub/", "cuda/", "nv/"];

/// Other ways to read a file, to test whether a file exists, or to change the file name of a line; `##`, which can
/// build each of these words from parts; and the digraphs and trigraphs for `#` and for the end of a line.
const FORBIDDEN: &[&str] = &[
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

/// Words after `#` that are refused. Each of them reads a file, names a file, or is of no use in a kernel.
const FORBIDDEN_DIRECTIVES: &[&str] = &[
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

/// The allowed pragmas, which only affect compilation. Others are refused, because some of them name files.
const ALLOWED_PRAGMAS: &[&str] = &[
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

/// Assembler directives that read or name a file.
const FORBIDDEN_ASSEMBLER: &[&str] = &[".incbin", ".include", ".file", ".section", ".loc"];

/// Refuses a source that is too long, has no kernel `entry`, or would make the compiler read other files.
pub fn check_source(text: &str, entry: &str, own_headers: &[String]) -> Result<(), String> {
    if text.len() > MAX_BYTES {
        return Err(format!("the source has {} bytes; at most {MAX_BYTES} are allowed", text.len()));
    }
    if text.contains('\0') {
        return Err("the source has a zero byte".to_owned());
    }
    if !text.contains(entry) {
        return Err(format!("the source has no kernel `{entry}`"));
    }
    // The text is checked as written and with backslash-continued lines joined, which is the compiler's first step.
    for text in [Cow::Borrowed(text), Cow::Owned(joined_lines(text))] {
        if let Some(word) = FORBIDDEN.iter().find(|word| text.contains(**word)) {
            return Err(format!("the source has `{word}`, which is not allowed"));
        }
        check_escaped_letters(&text)?;
        check_assembler(&text)?;
        check_directives(&text, own_headers)?;
    }
    Ok(())
}

/// Refuses ASCII letters that are written as escapes such as `\u0069`: the other checks would not find such a word.
fn check_escaped_letters(text: &str) -> Result<(), String> {
    for (at, mark) in text.match_indices("\\u").chain(text.match_indices("\\U")) {
        let digits: String = text[at + mark.len()..].chars().take(8).collect();
        let length = if mark == "\\u" { 4 } else { 8 };
        // C++23 adds the forms `\u{69}` and `\N{...}`.
        let code = digits.get(..length).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        if code.is_none_or(|code| code < 0x80) {
            return Err("the source writes a letter as `\\u...`, which is not allowed".to_owned());
        }
    }
    if text.contains("\\N{") { Err("the source has `\\N{`, which is not allowed".to_owned()) } else { Ok(()) }
}

/// Refuses assembler directives that read or name a file. A string literal may be split into several, so quotes and
/// blanks are ignored. This also refuses a member of that name (`x.file`).
fn check_assembler(text: &str) -> Result<(), String> {
    if !text.contains("asm") {
        return Ok(());
    }
    let packed: String = text.chars().filter(|c| *c != '"' && !c.is_whitespace()).collect();
    for word in FORBIDDEN_ASSEMBLER {
        let ends = |at: usize| {
            let next = packed[at + word.len()..].chars().next();
            // `.local` and `.section_size` are different words. A number or a path follows `.file`.
            !next.is_some_and(|c| c == '_' || (c.is_ascii_alphabetic() && *word != ".incbin"))
        };
        if packed.match_indices(word).any(|(at, _)| ends(at)) {
            return Err(format!("the source has assembler with `{word}`, which is not allowed"));
        }
    }
    Ok(())
}

/// Refuses directives that include another file, name a file, or are not in [`ALLOWED_PRAGMAS`].
fn check_directives(text: &str, own_headers: &[String]) -> Result<(), String> {
    for (at, mark) in text.match_indices('#').chain(text.match_indices("%:")) {
        let rest = after_blanks(&text[at + mark.len()..]);
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        // `\u0069nclude` is also read as `include`.
        if rest.starts_with("\\u") || rest.starts_with("\\U") {
            return Err("the source has a directive with an escaped letter".to_owned());
        }
        match word {
            "include" => {
                let name = included_name(after_blanks(rest)).ok_or_else(|| {
                    "the source has an #include without a name in quotes or angle brackets".to_owned()
                })?;
                if !own_headers.iter().any(|own| own == name) && !is_standard_header(name) {
                    let own = own_headers.join(", ");
                    return Err(format!(
                        "the source includes `{name}`; allowed are {own}, CUDA's device headers and standard headers"
                    ));
                }
            }
            "pragma" => {
                let rest = after_blanks(rest);
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                let pragma = &rest[..end];
                if !ALLOWED_PRAGMAS.contains(&pragma) {
                    return Err(format!(
                        "the source has `#pragma {pragma}`; allowed are {}",
                        ALLOWED_PRAGMAS.join(", ")
                    ));
                }
            }
            word if FORBIDDEN_DIRECTIVES.contains(&word) => {
                return Err(format!("the source has `#{word}`, which is not allowed"));
            }
            // `# 1 "file"` means `#line 1 "file"`.
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

/// Whether the compiler could take the text after `before` as the start of a line: only blanks or the end of a comment
/// come before it.
fn starts_line(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let line = line.rsplit_once("*/").map_or(line, |(_, after)| after);
    line.trim().is_empty()
}

/// Joins the lines that a backslash continues.
fn joined_lines(text: &str) -> String {
    let mut pieces = text.split('\\');
    let mut joined = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        // Some compilers accept blanks between the backslash and the end of the line.
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

/// The text without leading blanks and comments.
fn after_blanks(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some(comment) = rest.strip_prefix("/*") {
        rest = comment.split_once("*/").map_or("", |(_, after)| after.trim_start());
    }
    rest
}

/// The file name after `#include`.
fn included_name(rest: &str) -> Option<&str> {
    let line = rest.lines().next()?;
    let (open, close) = if line.starts_with('"') { ('"', '"') } else { ('<', '>') };
    line.strip_prefix(open)?.split_once(close).map(|(name, _)| name)
}

/// Whether a name is one of CUDA's device headers or of the standard library's.
fn is_standard_header(name: &str) -> bool {
    let has_plain_characters = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let stays_in_folder = name.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    let is_verified = CUDA_HEADERS.contains(&name)
        || CUDA_FOLDERS.iter().any(|folder| name.starts_with(folder))
        || compiler::standard_headers().iter().any(|(standard, _)| standard == name);
    has_plain_characters && stays_in_folder && is_verified
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(text: &str) -> Result<(), String> {
        let own = ["generated.cuh".to_owned(), "common/ptx.cuh".to_owned()];
        check_source(&format!("{text}\nvoid kernel() {{}}\n"), "kernel", &own)
    }

    #[test]
    fn ordinary_kernels_pass() {
        for text in [
            "#include \"generated.cuh\"\n#include \"common/ptx.cuh\"\n#include <cuda_fp16.h>\n#include <mma.h>",
            "#include <cuda/std/cstdint>\n#include <cstdint>\n#include <cub/block/block_reduce.cuh>\n",
            "#define STRING(x) #x\n#define LONG(a) \\\n    (a)\n#pragma unroll 4\n",
            "asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" :: \"r\"(a), \"l\"(b));\nasm(\"ld.local.u32 %0, [%1];\");",
            "const char* greek = \"\\u03b1\";",
            "// #1 of several, # included\nconst char* s = \"100 % : #1\";",
        ] {
            assert_eq!(screen(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn the_families_own_sources_pass() {
        let catalog = family::Catalog::load(None).unwrap();
        for family in catalog.entries().iter().filter_map(|entry| entry.family.as_ref().ok()) {
            let candidate = family.candidate(None, &[], &[]).unwrap();
            let request = family.request(&candidate, family.targets[0]).unwrap();
            let own: Vec<String> = request.source.headers.iter().map(|(name, _)| name.clone()).collect();
            assert_eq!(check_source(&request.source.text, &family.entry, &own), Ok(()), "{}", family.name);
        }
    }

    #[test]
    fn a_source_that_would_read_a_file_is_refused() {
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
            // Whether the `#include` is in a comment depends on where the raw string ends.
            "const char* s = R\"x(\" /*)x\";\n#include \"/etc/passwd\"\n/**/",
        ] {
            assert!(screen(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_source_that_cannot_be_a_kernel_is_refused() {
        assert!(screen("\0").unwrap_err().contains("zero byte"));
        assert!(check_source("int x;", "kernel", &[]).unwrap_err().contains("no kernel `kernel`"));
        let long = "x".repeat(MAX_BYTES);
        assert!(screen(&long).unwrap_err().contains("at most 262144 are allowed"));
    }
}
