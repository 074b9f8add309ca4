//! Recognises copies of a family: the same code under other names, with other comments, or divided into other headers.

use std::collections::{HashMap, HashSet};

use crate::Family;

impl Family {
    /// The family's code in a form that copies have in common: its headers are at their places, comments and spaces are
    /// removed, and every name is the number of its first use. Families with the same code are copies of each other.
    pub fn code(&self) -> String {
        let mut text = String::new();
        self.inline(&self.source.1, &mut HashSet::new(), &mut text);
        let entries: Vec<&str> = self.entries().collect();
        without_names(&text, &entries)
    }

    /// Appends a source with the family's own headers, each once.
    fn inline<'f>(&'f self, source: &'f str, included: &mut HashSet<&'f str>, text: &mut String) {
        for line in source.lines() {
            let own = compiler::included_names(line)
                .find_map(|name| self.headers.iter().find(|(own, _)| own == name));
            match own {
                Some((name, header)) if included.insert(name) => self.inline(header, included, text),
                Some(_) => {}
                None if line.trim_start().starts_with("#pragma once") => {}
                None => {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
    }
}

/// Words before which no name is declared.
const NOT_TYPES: [&str; 6] = ["return", "else", "case", "goto", "new", "delete"];

/// A source without comments and spaces, in which each name that it declares is the number of its declaration, and each
/// launched function that of its launch. All other names stay: `expf` and `__expf` are different functions.
fn without_names(source: &str, entries: &[&str]) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut code = String::new();
    let mut known: HashMap<&str, Option<usize>> = HashMap::new();
    let mut before = "";
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let (length, is_code) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |end| end + 2), false)
        } else if is_part(first) {
            (rest.find(|c| !is_part(c)).unwrap_or(rest.len()), true)
        } else {
            (first.len_utf8(), !first.is_whitespace())
        };
        let (token, after) = rest.split_at(length);
        if let Some(entry) = entries.iter().position(|entry| *entry == token) {
            code.extend(["`entry ", &entry.to_string(), " "]);
            before = token;
        } else if is_code {
            let declared = known.values().flatten().count();
            let number =
                *known.entry(token).or_insert_with(|| declares(before, token, after).then_some(declared));
            match number {
                Some(number) => code.extend(["`", &number.to_string(), " "]),
                None => code.push_str(token),
            }
            before = token;
        }
        rest = after;
    }
    code
}

/// Whether the first use of a name declares it: `int name`, `float* name`, `T& name`.
fn declares(before: &str, token: &str, after: &str) -> bool {
    let is_name = |word: &str| word.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let next = after.trim_start().chars().next();
    let follows_type = is_name(before) && !NOT_TYPES.contains(&before);
    is_name(token)
        && match next {
            Some('(') => follows_type,
            Some(',' | ')' | '=' | ';' | '[' | '{' | ':') => {
                follows_type || ["*", "&", ">"].contains(&before)
            }
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(source: &str) -> String {
        without_names(source, &[])
    }

    #[test]
    fn names_comments_and_spaces_make_no_difference() {
        let code = plain("int sum(int a, int b) { return a + 2 * b; }");
        assert_eq!(code, plain("int  add(int x, /* and */ int y)\n{ return x + 2 * y; } // end"));
        let exact = "float f(float x) { return 2 * expf(x); }";
        assert_ne!(plain(exact), plain(&exact.replace("expf", "__expf")));
        for other in [
            "int sum(int a, int b) { return b + 2 * a; }",
            "int sum(int a, int b) { return a + 3 * b; }",
            "int sum(int a, int b) { return a - 2 * b; }",
            "int sum(int a, int b) { return a + 2 * min(b, 7); }",
        ] {
            assert_ne!(code, plain(other), "{other}");
        }
        let kernel = "extern \"C\" __global__ void __launch_bounds__(32) scale(float* x) { x[0] = 2; }";
        let other = kernel.replace("scale", "twice");
        assert_eq!(without_names(kernel, &["scale"]), without_names(&other, &["twice"]));
    }
}
