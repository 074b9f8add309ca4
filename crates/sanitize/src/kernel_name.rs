//! Finds a kernel by the name that a person writes: `scale`, `ns::scale<float, 7>` or `_Z5scalePfi`.

use cpp_demangle::{DemangleOptions, Symbol};

use crate::SanitizeError;

/// The wanted kernel among the functions `names`, or the only one. `None` if no function has that name.
pub fn find<'a>(wanted: Option<&str>, names: &[&'a str]) -> Result<Option<&'a str>, SanitizeError> {
    let Some(wanted) = wanted else {
        return match names {
            [only] => Ok(Some(only)),
            _ => Err(SanitizeError::NotOneKernel { kernels: listed(names) }),
        };
    };
    if let Some(exact) = names.iter().find(|name| **name == wanted) {
        return Ok(Some(exact));
    }
    // `k<float>` names one instance, `k` may name several.
    let matching: Vec<&str> = names.iter().copied().filter(|name| is_named(name, wanted)).collect();
    match matching.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        several => {
            let shown: Vec<String> = several.iter().take(12).map(|name| with_parameters(name)).collect();
            Err(SanitizeError::usage(format!("several kernels are called `{wanted}`"))
                .with_hint(format!("kernels: {}", shown.join("; "))))
        }
    }
}

/// The error for a name that no kernel has.
pub fn unknown(wanted: &str, names: &[&str]) -> SanitizeError {
    let readable: Vec<String> = names.iter().map(|name| readable(name)).collect();
    let near = family::nearest(wanted, readable.iter().map(String::as_str));
    let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
    SanitizeError::usage(format!("there is no kernel `{wanted}` in the file"))
        .with_hint(format!("{near}{}", listed(names)))
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() {
        return "the file has no kernel".to_owned();
    }
    // At most a dozen: some files have hundreds of instances.
    let shown: Vec<String> = names.iter().take(12).map(|name| readable(name)).collect();
    let more = names.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("kernels: {}{more}", shown.join(", "))
}

/// The name of a kernel in C++, without parameters: `ns::scale<float, 7>`.
pub fn readable(name: &str) -> String {
    let options = DemangleOptions::new().no_params().no_return_type().hide_expression_literal_types();
    // The name of a type is a mangled name, too: `f` is `float`.
    let symbol = name.starts_with("_Z").then(|| Symbol::new(name).ok()).flatten();
    let demangled = symbol.and_then(|symbol| symbol.demangle_with_options(&options).ok());
    demangled.map_or_else(|| name.to_owned(), |text| without_abi_tags(&text))
}

/// The name of a kernel in C++ with its parameters: `scale(float*, int)`.
fn with_parameters(name: &str) -> String {
    let options = DemangleOptions::new().no_return_type().hide_expression_literal_types();
    let symbol = name.starts_with("_Z").then(|| Symbol::new(name).ok()).flatten();
    symbol.and_then(|symbol| symbol.demangle_with_options(&options).ok()).unwrap_or_else(|| name.to_owned())
}

/// The parameters of a template of a kernel, as the source has them.
pub fn template_parameters(source: &str, kernel: &str) -> Option<String> {
    let name = kernel.rsplit("::").next()?.trim();
    source.match_indices("__global__").find_map(|(at, _)| {
        let head = source[at..].split(['{', ';']).next()?;
        let mut words = head.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let before = source[..at].trim_end();
        let is_template = words.any(|word| word == name) && before.ends_with('>');
        let inside = before[..before.len().checked_sub(1)?].rsplit_once("template")?.1.trim_start();
        let inside = inside.strip_prefix('<').filter(|inside| is_template && !inside.contains(['{', ';']))?;
        Some(inside.split_whitespace().collect::<Vec<_>>().join(" "))
    })
}

/// A name with parameters in a normal form: `k(const float *)` becomes `k(floatconst*)`.
fn normalised(name: &str) -> String {
    let plain = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let Some((before, parameters)) = name.trim().strip_suffix(')').and_then(|text| text.split_once('('))
    else {
        return plain(name);
    };
    let parameter = |text: &str| {
        let text = text.replace("__restrict__", " ");
        let text = text.trim();
        match text.strip_prefix("const ") {
            Some(rest) => {
                let end = rest.find(['*', '&']).unwrap_or(rest.len());
                format!("{}const{}", plain(&rest[..end]), plain(&rest[end..]))
            }
            None => plain(text),
        }
    };
    let parameters: Vec<String> = parameters.split(',').map(parameter).collect();
    format!("{}({})", plain(before), parameters.join(","))
}

/// Numba appends long tags to its names: `saxpy[abi:v1][abi:cw51cXTL...]`.
fn without_abi_tags(name: &str) -> String {
    let mut parts = name.split("[abi:");
    let first = parts.next().unwrap_or_default().to_owned();
    first + &parts.map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect::<String>()
}

/// Whether a person may call the function by this name.
fn is_named(name: &str, wanted: &str) -> bool {
    let plain = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    if wanted.trim_end().ends_with(')') {
        let (full, wanted) = (normalised(&with_parameters(name)), normalised(wanted));
        return full.strip_suffix(&wanted).is_some_and(|before| before.is_empty() || before.ends_with("::"));
    }
    let (full, wanted) = (plain(&readable(name)), plain(wanted));
    let without_arguments = full.split('<').next().unwrap_or(&full);
    let ends_with = |whole: &str| {
        whole == wanted || whole.strip_suffix(&wanted).is_some_and(|before| before.ends_with("::"))
    };
    ends_with(&full) || ends_with(without_arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overloaded_kernels_are_found_by_their_parameters() {
        // `scale(float*, int)`, `ns::scale(float const*, unsigned int)`.
        let names = ["_Z5scalePfi", "_ZN2ns5scaleEPKfj"];
        for (wanted, expected) in [
            ("scale(float*, int)", Some(names[0])),
            ("scale(float *,int)", Some(names[0])),
            ("scale(const float* __restrict__, unsigned int)", Some(names[1])),
            ("ns::scale(float const*, unsigned int)", Some(names[1])),
            ("scale(int*)", None),
        ] {
            assert_eq!(find(Some(wanted), &names).unwrap(), expected, "{wanted}");
        }
        let several = format!("{:?}", find(Some("scale"), &names).unwrap_err());
        assert!(several.contains("scale(float*, int); ns::scale(float const*, unsigned int)"), "{several}");
    }

    #[test]
    fn parameters_of_a_template_are_those_of_the_source() {
        let source = "template <class A> __device__ void f();\ntemplate <typename T,\n          int N = 4>\n__global__ void __launch_bounds__(128) scale(T* x) {}\n\
                      __global__ void plain(float* x) {}\n";
        assert_eq!(template_parameters(source, "ns::scale").as_deref(), Some("typename T, int N = 4"));
        assert_eq!(template_parameters(source, "plain"), None);
    }

    #[test]
    fn kernels_are_found_by_any_of_their_names() {
        // `scale(float*, int)`, `ns::scale<float, 7>(float*)`, `ns::scale<int, 7>(int*)` and `plain`.
        let names = ["_Z5scalePfi", "_ZN2ns3sumIfLi7EEEvPT_", "_ZN2ns3sumIiLi7EEEvPT_", "plain"];
        for (wanted, expected) in [
            ("scale", Some(names[0])),
            ("_Z5scalePfi", Some(names[0])),
            ("ns::sum<float, 7>", Some(names[1])),
            ("sum<int,7>", Some(names[2])),
            ("plain", Some(names[3])),
            ("cale", None),
            ("sum<double, 7>", None),
        ] {
            assert_eq!(find(Some(wanted), &names).unwrap(), expected, "{wanted}");
        }
        assert!(find(Some("sum"), &names).unwrap_err().to_string().contains("several"));
        assert_eq!(readable("_ZN1m5saxpyB2v1B3c_3EPf"), "m::saxpy");
        assert!(find(None, &names).is_err());
        assert_eq!(find(None, &names[..1]).unwrap(), Some(names[0]));
        let SanitizeError::Usage { hint: Some(hint), .. } = unknown("scal", &names) else {
            panic!("no hint")
        };
        assert!(hint.contains("did you mean `scale`"));
    }
}
