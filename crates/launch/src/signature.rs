//! The parameters of a kernel as its CUDA C++ source declares them.
//!
//! PTX has neither the names of parameters nor the types behind pointers. With the source, a wrong argument is found
//! before the launch, such as a float64 array for a `float*`. The reader knows only declarations that are written out:
//! it expands no macros and no typedefs, and says nothing about parameters that it does not understand.

use crate::Dtype;

/// A parameter: its name and its type in C++.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceParameter {
    /// The parameter's name.
    pub name: String,
    /// The type as a person would write it, without qualifiers: `float*`.
    pub text: String,
    /// The type of the elements, if it is a pointer to a known type.
    pub element: Option<Dtype>,
    /// The type of the value, if it is a number of a known type.
    pub value: Option<Dtype>,
}

/// The qualifiers of parameters, which do not change what may be passed.
const QUALIFIERS: [&str; 7] =
    ["const", "volatile", "__restrict__", "__restrict", "__grid_constant__", "restrict", "struct"];

/// The element types by their names in C++.
fn element_type(name: &str) -> Option<Dtype> {
    Some(match name {
        "float" => Dtype::F32,
        "double" => Dtype::F64,
        "half" | "__half" => Dtype::F16,
        "__nv_bfloat16" | "nv_bfloat16" => Dtype::Bf16,
        "__nv_fp8_e4m3" => Dtype::E4m3,
        "__nv_fp8_e5m2" => Dtype::E5m2,
        "int" | "int32_t" => Dtype::I32,
        "unsigned" | "unsigned int" | "uint32_t" => Dtype::U32,
        "long long" | "long" | "int64_t" => Dtype::I64,
        "unsigned long long" | "unsigned long" | "uint64_t" | "size_t" => Dtype::U64,
        "short" | "int16_t" => Dtype::I16,
        "unsigned short" | "uint16_t" => Dtype::U16,
        "char" | "signed char" | "int8_t" => Dtype::I8,
        "unsigned char" | "uint8_t" | "bool" => Dtype::U8,
        _ => return None,
    })
}

/// The parameters of the kernel called `kernel`, which may have template arguments and a namespace. `None` if the
/// source does not show them, or if it has several kernels of this name with different parameters: the preprocessor or
/// the namespace decides which of them is meant.
pub fn source_parameters(source: &str, kernel: &str) -> Option<Vec<SourceParameter>> {
    let text = without_comments(source);
    let base = kernel.split(['<', '(']).next().and_then(|name| name.rsplit("::").next())?.trim();
    let mut declared = text
        .match_indices("__global__")
        .filter_map(|(at, mark)| text_of_parameters(&text[at + mark.len()..], base))
        .map(|inside| split(inside).into_iter().map(parameter).collect::<Option<Vec<_>>>());
    let first = declared.next()?;
    declared.all(|other| other == first).then_some(first).flatten()
}

/// The text between the brackets of a declaration after `__global__`, if it is that of the kernel called `name`.
fn text_of_parameters<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let head = &text[..text.find([';', '{', '}'])?];
    let start = head.match_indices(name).find_map(|(at, name)| {
        let before = head[..at].chars().next_back();
        let is_whole = before.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        let rest = &head[at + name.len()..];
        let opening = rest.len() - rest.trim_start().len();
        (is_whole && rest[opening..].starts_with('(')).then_some(at + name.len() + opening)
    })?;
    balanced(&head[start..])
}

/// The source with spaces instead of comments.
fn without_comments(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('/') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = match rest.as_bytes().get(1) {
            Some(b'/') => rest.find('\n').unwrap_or(rest.len()),
            Some(b'*') => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            _ => {
                text.push('/');
                1
            }
        };
        if end > 1 {
            text.push(' ');
        }
        rest = &rest[end..];
    }
    text + rest
}

/// The text inside the brackets that it starts with.
fn balanced(text: &str) -> Option<&str> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth == 0 {
            return text.get(1..at);
        }
    }
    None
}

/// Splits at commas outside brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn parameter(text: &str) -> Option<SourceParameter> {
    let text = text.split('=').next().unwrap_or_default().trim();
    let (text, is_array) = match text.strip_suffix(']') {
        Some(before) => (before.rsplit_once('[')?.0.trim_end(), true),
        None => (text, false),
    };
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let name_start = text.rfind(|c| !is_part(c))? + 1;
    let (kind, name) = text.split_at(name_start);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let pointers = kind.matches('*').count() + usize::from(is_array);
    let kind = kind.replace('*', " ");
    let words: Vec<&str> = kind.split_whitespace().filter(|word| !QUALIFIERS.contains(word)).collect();
    let element = words.join(" ");
    if element.is_empty() {
        return None;
    }
    let known = element_type(element.strip_prefix("std::").unwrap_or(&element));
    Some(SourceParameter {
        name: name.to_owned(),
        text: format!("{element}{}", "*".repeat(pointers)),
        element: known.filter(|_| pointers == 1),
        value: known.filter(|_| pointers == 0),
    })
}

impl Dtype {
    /// Whether a number of this type may be passed as an `element`: integers may have either sign, and types that numpy
    /// lacks are stored as integers of their width.
    pub fn fits(self, element: Dtype) -> bool {
        if self == element {
            return true;
        }
        let is_stored = !element.is_float() || element.bytes() < 4;
        self.bytes() == element.bytes() && !self.is_float() && is_stored
    }

    /// Whether an array of this type may be passed as a pointer to `element`. Kernels also read narrow numbers through
    /// pointers to integers, several at a time or by their bits.
    pub fn fits_pointer_to(self, element: Dtype) -> bool {
        let is_narrow = self.bytes() < element.bytes() || self.bytes() < 4;
        self.fits(element) || (!element.is_float() && self.bytes() <= element.bytes() && is_narrow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r"
        // __global__ void k(int wrong)
        template <typename T> __global__ void __launch_bounds__(256, 2) other(T* x) {}
        namespace n { __global__ void k(const float* __restrict__ x, /* out */ double y[], unsigned int n = 3,
            std::int64_t big, const T* unknown, float **rows) { } }
        __global__ void next(float k) {}";

    #[test]
    fn parameters_are_read_from_the_source() {
        let found = source_parameters(SOURCE, "n::k").unwrap();
        let texts: Vec<String> = found.iter().map(|it| format!("{} {}", it.text, it.name)).collect();
        let expected =
            ["float* x", "double* y", "unsigned int n", "std::int64_t big", "T* unknown", "float** rows"];
        assert_eq!(texts, expected);
        let types: Vec<_> = found.iter().map(|it| (it.element, it.value)).collect();
        let none = (None, None);
        let (element, value) = (|it| (Some(it), None), |it| (None, Some(it)));
        let expected =
            [element(Dtype::F32), element(Dtype::F64), value(Dtype::U32), value(Dtype::I64), none, none];
        assert_eq!(types, expected);
        assert_eq!(source_parameters(SOURCE, "other<float>").unwrap()[0].text, "T*");
        assert_eq!(source_parameters(SOURCE, "missing"), None);
        let alternatives =
            "#ifdef NARROW\n__global__ void k(float* x) {}\n#else\n__global__ void k(double* x) {}\n#endif";
        assert_eq!(source_parameters(alternatives, "k"), None, "the preprocessor decides");
        let prototype = "__global__ void k(float* x);\n__global__ void k(float* x) {}";
        assert_eq!(source_parameters(prototype, "k").unwrap().len(), 1);
        assert_eq!(source_parameters("__global__ void k(", "k"), None);
    }

    #[test]
    fn integers_stand_for_narrow_numbers_but_not_for_floats() {
        for (given, element, fits) in [
            (Dtype::F32, Dtype::F32, true),
            (Dtype::F64, Dtype::F32, false),
            (Dtype::I32, Dtype::F32, false),
            (Dtype::U32, Dtype::I32, true),
            (Dtype::U16, Dtype::Bf16, true),
            (Dtype::F16, Dtype::Bf16, false),
            (Dtype::F32, Dtype::I32, false),
        ] {
            assert_eq!(given.fits(element), fits, "{given:?} for {element:?}");
        }
    }

    #[test]
    fn pointers_to_integers_take_narrow_numbers_but_not_wider_ones() {
        for (given, element, fits) in [
            (Dtype::I8, Dtype::I32, true),
            (Dtype::E4m3, Dtype::U16, true),
            (Dtype::F16, Dtype::U16, true),
            (Dtype::F16, Dtype::U32, true),
            (Dtype::F32, Dtype::I32, false),
            (Dtype::U64, Dtype::I32, false),
            (Dtype::F64, Dtype::F32, false),
            (Dtype::F16, Dtype::F32, false),
        ] {
            assert_eq!(given.fits_pointer_to(element), fits, "{given:?} for a pointer to {element:?}");
        }
    }
}
