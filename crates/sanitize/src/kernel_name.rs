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
            Err(SanitizeError::usage(format!("several kernels are called `{wanted}`"))
                .with_hint(listed(several)))
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

/// Numba appends long tags to its names: `saxpy[abi:v1][abi:cw51cXTL...]`.
fn without_abi_tags(name: &str) -> String {
    let mut parts = name.split("[abi:");
    let first = parts.next().unwrap_or_default().to_owned();
    first + &parts.map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect::<String>()
}

/// Whether a person may call the function by this name.
fn is_named(name: &str, wanted: &str) -> bool {
    let plain = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
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
