//! Removes host code from a CUDA file: `main`, functions that allocate memory and launch kernels, and the classes and
//! variables that only they use. NVRTC compiles device code only.
//!
//! nvcc does the same with a complete C++ front end. This module only knows tokens, brackets and declarations, which is
//! enough to find functions without `__device__` or `__global__`. Removed text becomes spaces, so that every line keeps
//! its number. Conditions and macros of the preprocessor stay.

use std::collections::BTreeSet;
use std::ops::Range;

mod tokens;

use tokens::{Token, Tokens, tokens};

/// A source without its host code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithoutHostCode {
    /// The text, with the same lines.
    pub text: String,
    /// The names of the removed functions, in the order of the file.
    pub functions: Vec<String>,
}

/// Removes the host code of a CUDA file.
pub fn without_host_code(text: &str, device_words: &BTreeSet<String>) -> WithoutHostCode {
    let tokens = tokens(text);
    let mut scan = Scan::new(text, &tokens, device_words);
    scan.namespace(0..tokens.used.len());
    let Scan { removed, functions, .. } = scan;
    WithoutHostCode { text: blanked(text, &removed), functions }
}

/// The declarations that [`without_lines`] keeps, besides specialisations of templates.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// Declarations that contain one of these words.
    pub words: &'a BTreeSet<String>,
    /// Functions and classes with these names. `None`: none for its name, and no function because it is a specialisation,
    /// which is right for what device code cannot use.
    pub ambiguous: Option<&'a Ambiguous>,
}

/// Removes the declarations that contain one of these lines and are not kept. `None` if there is none. Of a class
/// only the member functions are removed, if they have the lines. The compiler reports the lines: types and variables
/// of host code that only its headers declare. A specialisation of a class or a variable always stays: without it the code
/// would use the general template, and compute something else. Returns the text and what was removed.
pub fn without_lines(text: &str, lines: &[u32], kept: Kept<'_>) -> Option<(String, Vec<String>)> {
    let tokens = tokens(text);
    let mut scan = Scan::new(text, &tokens, kept.words);
    scan.ambiguous = kept.ambiguous;
    let starts: Vec<usize> =
        std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let places: Vec<usize> =
        lines.iter().filter_map(|line| starts.get((*line as usize).checked_sub(1)?).copied()).collect();
    scan.declarations_at(0..tokens.used.len(), &|range| {
        places.iter().any(|&place| {
            let end = text[place..].find('\n').map_or(text.len(), |length| place + length);
            range.start < end && place < range.end
        })
    });
    let removed = scan.removed.iter().map(|range| text[range.clone()].to_owned()).collect();
    (!scan.removed.is_empty()).then(|| (blanked(text, &scan.removed), removed))
}

/// Words that make a declaration one of device code: the specifiers, and macros of the texts that contain one. A file
/// may use macros of the headers that it includes.
pub fn device_words<'a>(texts: &(impl Iterator<Item = &'a str> + Clone)) -> BTreeSet<String> {
    words_with(&["__device__", "__global__", "__constant__", "__shared__", "constexpr", "consteval"], texts)
}

/// The specifier of a kernel, and macros of the texts that contain it.
pub fn kernel_words<'a>(texts: &(impl Iterator<Item = &'a str> + Clone)) -> BTreeSet<String> {
    words_with(&["__global__"], texts)
}

fn words_with<'a>(specifiers: &[&str], texts: &(impl Iterator<Item = &'a str> + Clone)) -> BTreeSet<String> {
    let mut words: BTreeSet<String> = specifiers.iter().map(|word| (*word).to_owned()).collect();
    let mut definitions: Vec<&str> = texts.clone().flat_map(definitions).collect();
    // A macro may use another one that is defined later.
    loop {
        let before = definitions.len();
        definitions.retain(|definition| {
            let mut parts = definition.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            let Some(name) = parts.find(|part| !part.is_empty()) else { return false };
            let is_found = parts.any(|part| words.contains(part));
            if is_found {
                words.insert(name.to_owned());
            }
            !is_found
        });
        if definitions.len() == before {
            return words;
        }
    }
}

/// What follows `#define` in the lines of a text, with the lines that continue them.
fn definitions(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let mut lines = rest.split_inclusive('\n');
            let mut length = 0;
            for line in &mut lines {
                length += line.len();
                if !line.trim_end().ends_with('\\') {
                    break;
                }
            }
            let (whole, after) = rest.split_at(length);
            rest = after;
            let directive = whole.trim_start().strip_prefix('#');
            if let Some(definition) = directive.and_then(|it| it.trim_start().strip_prefix("define")) {
                return Some(definition);
            }
        }
        None
    })
}

/// Names with more than one definition. Without one of them the code may use another one, or what the compiler writes
/// itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ambiguous {
    /// Names of functions that are defined more than once, and of classes, which are those of constructors.
    functions: BTreeSet<String>,
    /// Names of classes that are defined more than once.
    classes: BTreeSet<String>,
}

impl Ambiguous {
    /// The ambiguous names of some texts.
    pub fn find<'a>(texts: impl Iterator<Item = &'a str>) -> Ambiguous {
        let no_words = BTreeSet::new();
        let (mut functions, mut classes) = (BTreeSet::new(), BTreeSet::new());
        let mut ambiguous = Ambiguous::default();
        for text in texts {
            let tokens = tokens(text);
            let scan = Scan::new(text, &tokens, &no_words);
            let mut definitions = Vec::new();
            scan.definitions(0..tokens.used.len(), &mut definitions);
            for definition in definitions {
                let (name, known, repeated) = match definition {
                    Definition::Class(name) => (name, &mut classes, &mut ambiguous.classes),
                    Definition::Function(name) => (name, &mut functions, &mut ambiguous.functions),
                };
                if !known.insert(name.to_owned()) {
                    repeated.insert(name.to_owned());
                }
            }
        }
        ambiguous.functions.extend(classes);
        ambiguous
    }
}

/// A function with a body, or a class.
enum Definition<'a> {
    Function(&'a str),
    Class(&'a str),
}

/// The text with the ranges replaced by spaces. Lines, conditions and macros of the preprocessor stay.
fn blanked(text: &str, removed: &[Range<usize>]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut in_directive = vec![false; bytes.len()];
    let mut at = 0;
    let mut continued = false;
    for line in text.split_inclusive('\n') {
        let is_directive = continued || line.trim_start().starts_with('#');
        if is_directive {
            in_directive[at..at + line.len()].fill(true);
        }
        continued = is_directive && line.trim_end().ends_with('\\');
        at += line.len();
    }
    for range in removed {
        for index in range.clone() {
            if bytes[index] != b'\n' && !in_directive[index] {
                bytes[index] = b' ';
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Words whose parentheses are not a parameter list.
const PARENTHESISED: [&str; 8] = [
    "alignas",
    "__align__",
    "__attribute__",
    "__declspec",
    "__launch_bounds__",
    "decltype",
    "noexcept",
    "requires",
];

/// Words that may follow the parameter list of a function.
const AFTER_PARAMETERS: [&str; 8] =
    ["const", "volatile", "noexcept", "override", "final", "try", "requires", "mutable"];

struct Scan<'a> {
    text: &'a str,
    tokens: &'a [Token<'a>],
    /// Tokens of alternatives of the preprocessor that are in no declaration.
    skipped: &'a [Token<'a>],
    device_words: &'a BTreeSet<String>,
    /// As [`Kept::ambiguous`].
    ambiguous: Option<&'a Ambiguous>,
    /// Ranges of bytes.
    removed: Vec<Range<usize>>,
    functions: Vec<String>,
}

/// How a declaration ends.
enum End {
    /// At a semicolon, or at the end of the scope. Contains the token after it.
    Semicolon(usize),
    /// With a block in braces. Contains the tokens of the opening and of the closing brace.
    Block(usize, usize),
}

impl<'a> Scan<'a> {
    fn new(text: &'a str, tokens: &'a Tokens<'a>, device_words: &'a BTreeSet<String>) -> Self {
        Scan {
            text,
            tokens: &tokens.used,
            skipped: &tokens.skipped,
            device_words,
            ambiguous: None,
            removed: Vec::new(),
            functions: Vec::new(),
        }
    }

    fn word(&self, index: usize) -> &'a str {
        self.tokens.get(index).map_or("", |token| token.text)
    }

    /// The token after the bracket that closes the one at `open`, at most `end`.
    fn after_bracket(&self, open: usize, end: usize) -> usize {
        let mut depth = 0_usize;
        for index in open..end {
            match self.word(index) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return index + 1;
            }
        }
        end
    }

    /// The token after the angle bracket that closes the one at `open`, if there is one in the declaration.
    fn after_angle(&self, open: usize, end: usize) -> Option<usize> {
        let (mut depth, mut at) = (0_i32, open);
        while at < end {
            match self.word(at) {
                "<" => depth += 1,
                ">" => depth -= 1,
                ">>>" => depth -= 3,
                "(" | "[" => {
                    at = self.after_bracket(at, end);
                    continue;
                }
                "{" | "}" | ";" => return None,
                _ => {}
            }
            at += 1;
            if depth <= 0 {
                return Some(at);
            }
        }
        None
    }

    /// Where the declaration that starts at `start` ends, and whether a parameter list precedes its block.
    fn end_of(&self, start: usize, end: usize) -> (End, bool) {
        let mut at = start;
        let (mut has_parameters, mut has_initialiser) = (false, false);
        while at < end {
            match self.word(at) {
                ";" | "}" => return (End::Semicolon(at + 1), has_parameters),
                "{" => {
                    let close = self.after_bracket(at, end);
                    has_parameters &= !self.is_class_head(start, at);
                    // A list after `=`, or a member that a constructor initialises with braces.
                    let is_list = has_initialiser || has_parameters && matches!(self.word(close), "," | "{");
                    if !is_list {
                        return (End::Block(at, close), has_parameters);
                    }
                    at = close;
                    continue;
                }
                "(" => {
                    has_parameters |= !PARENTHESISED.contains(&self.word(at.wrapping_sub(1)));
                    at = self.after_bracket(at, end);
                    continue;
                }
                "[" => {
                    at = self.after_bracket(at, end);
                    continue;
                }
                // Parameters of a template can have defaults, which are no initialisers.
                "template" if self.word(at + 1) == "<" => {
                    at = self.after_angle(at + 1, end).unwrap_or(at + 2);
                    continue;
                }
                "=" if self.word(at.wrapping_sub(1)) != "operator" => has_initialiser = true,
                _ => {}
            }
            at += 1;
        }
        (End::Semicolon(end), has_parameters)
    }

    fn namespace(&mut self, tokens: Range<usize>) {
        let mut at = tokens.start;
        while at < tokens.end {
            if let Some(open) = self.scope_opens(at, tokens.end) {
                let close = self.after_bracket(open, tokens.end);
                self.namespace(open + 1..close.saturating_sub(1));
                at = close;
                continue;
            }
            at = self.declaration(at, tokens.end);
        }
    }

    /// The bytes of a declaration.
    fn bytes(&self, tokens: Range<usize>) -> Range<usize> {
        let last = tokens.end.saturating_sub(1);
        match (self.tokens.get(tokens.start), self.tokens.get(last)) {
            (Some(first), Some(last)) => first.start..last.end,
            _ => 0..0,
        }
    }

    /// Removes the member functions whose bytes are wanted.
    fn members_at(&mut self, tokens: Range<usize>, wanted: &dyn Fn(Range<usize>) -> bool) {
        let mut at = tokens.start;
        while at < tokens.end {
            if matches!(self.word(at), "public" | "private" | "protected") && self.word(at + 1) == ":" {
                at += 2;
                continue;
            }
            let (ending, has_parameters) = self.end_of(at, tokens.end);
            let next = match ending {
                End::Semicolon(next) => next,
                End::Block(open, close) if self.has_class(at, open) && !has_parameters => {
                    self.members_at(open + 1..close.saturating_sub(1), wanted);
                    close
                }
                End::Block(_, close) => close,
            };
            let is_removable = has_parameters && !self.is_device(at..next) && !self.is_kept(at, next);
            if is_removable && wanted(self.bytes(at..next)) {
                self.remove(at, next);
            }
            at = next.max(at + 1);
        }
    }

    /// Removes the declarations of host code whose bytes are wanted.
    fn declarations_at(&mut self, tokens: Range<usize>, wanted: &dyn Fn(Range<usize>) -> bool) {
        let mut at = tokens.start;
        while at < tokens.end {
            if let Some(open) = self.scope_opens(at, tokens.end) {
                let close = self.after_bracket(open, tokens.end);
                self.declarations_at(open + 1..close.saturating_sub(1), wanted);
                at = close;
                continue;
            }
            let before = self.removed.len();
            let next = match self.end_of(at, tokens.end) {
                (End::Semicolon(next), _) => next,
                // The names of variables may follow a class.
                (End::Block(open, close), false) if self.has_class(at, open) => {
                    self.members_at(open + 1..close.saturating_sub(1), wanted);
                    (close..tokens.end).find(|&index| self.word(index) == ";").map_or(tokens.end, |it| it + 1)
                }
                (End::Block(_, close), _) => close,
            };
            let is_removable = !self.is_device(at..next) && !self.is_kept(at, next);
            if self.removed.len() == before && is_removable && wanted(self.bytes(at..next)) {
                self.remove(at, next);
            }
            at = next.max(at + 1);
        }
    }

    /// The brace of `namespace name {` or `extern "C" {`.
    fn scope_opens(&self, at: usize, end: usize) -> Option<usize> {
        let is_namespace =
            self.word(at) == "namespace" || self.word(at) == "inline" && self.word(at + 1) == "namespace";
        if is_namespace {
            let open = (at..end).find(|&index| matches!(self.word(index), "{" | ";" | "="))?;
            return (self.word(open) == "{").then_some(open);
        }
        let is_linkage = self.word(at) == "extern" && self.word(at + 1).starts_with('"');
        (is_linkage && self.word(at + 2) == "{").then_some(at + 2)
    }

    /// Handles the declaration at `start`; returns the token after it.
    fn declaration(&mut self, start: usize, end: usize) -> usize {
        let (ending, has_parameters) = self.end_of(start, end);
        match ending {
            End::Semicolon(next) => {
                if self.is_host_statement(start, next, has_parameters) {
                    self.remove(start, next);
                }
                next
            }
            End::Block(open, close) if self.has_class(start, open) && !has_parameters => {
                // The names of variables may follow the class.
                let next = (close..end).find(|&index| self.word(index) == ";").map_or(end, |it| it + 1);
                let is_enumeration = (start..open).any(|index| self.word(index) == "enum");
                if self.mentions_host_library(start..next) && !self.is_device(start..next) {
                    self.remove(start, next);
                } else if !is_enumeration {
                    self.members(open + 1..close.saturating_sub(1));
                }
                next
            }
            End::Block(open, close) => {
                let is_host = has_parameters && !self.is_device(start..open);
                if is_host
                    && self.remove(start, close)
                    && let Some(name) = self.function_name(start, open)
                {
                    self.functions.push(name.to_owned());
                }
                close
            }
        }
    }

    /// The functions with a body and the classes, also inside of classes.
    fn definitions(&self, tokens: Range<usize>, found: &mut Vec<Definition<'a>>) {
        let mut at = tokens.start;
        while at < tokens.end {
            let is_label =
                matches!(self.word(at), "public" | "private" | "protected") && self.word(at + 1) == ":";
            if is_label {
                at += 2;
                continue;
            }
            if let Some(open) = self.scope_opens(at, tokens.end) {
                let close = self.after_bracket(open, tokens.end);
                self.definitions(open + 1..close.saturating_sub(1), found);
                at = close;
                continue;
            }
            let next = match self.end_of(at, tokens.end) {
                (End::Semicolon(next), _) => next,
                (End::Block(open, close), false) if self.has_class(at, open) => {
                    found.extend(self.class_name(at, open).map(Definition::Class));
                    self.definitions(open + 1..close.saturating_sub(1), found);
                    close
                }
                (End::Block(open, close), has_parameters) => {
                    let name = self.function_name(at, open).filter(|_| has_parameters);
                    found.extend(name.map(Definition::Function));
                    close
                }
            };
            at = next.max(at + 1);
        }
    }

    /// Whether a declaration must stay: it specialises a template, or another function may be called in its place.
    fn is_kept(&self, start: usize, end: usize) -> bool {
        let (ending, has_parameters) = self.end_of(start, end);
        let head = match ending {
            End::Block(open, _) => open,
            End::Semicolon(next) => next,
        };
        let is_template = self.word(start) == "template" && self.word(start + 1) == "<";
        let is_full = is_template && self.word(start + 2) == ">";
        if has_parameters {
            let Some(ambiguous) = self.ambiguous else { return false };
            let is_named =
                self.function_name(start, head).is_none_or(|name| ambiguous.functions.contains(name));
            return is_full || is_named || (start..head).any(|at| self.word(at) == "operator");
        }
        // What follows the name: the arguments of a partial specialisation.
        let after_name = match self.class_keyword(start, head) {
            Some(_) => self.class_name_at(start, head).map(|name| name + 1),
            None => (start..head).find(|&at| self.word(at) == "=").map(|at| at.saturating_sub(1)),
        };
        let is_repeated = || {
            let name = self.class_name(start, head);
            self.ambiguous.is_some_and(|it| name.is_some_and(|name| it.classes.contains(name)))
        };
        is_full
            || is_template && after_name.is_some_and(|at| matches!(self.word(at), "<" | ">"))
            || is_repeated()
    }

    /// The member functions of a class. Host functions lose their bodies and stay declared.
    fn members(&mut self, tokens: Range<usize>) {
        let mut at = tokens.start;
        while at < tokens.end {
            if matches!(self.word(at), "public" | "private" | "protected") && self.word(at + 1) == ":" {
                at += 2;
                continue;
            }
            let start = at;
            let (ending, has_parameters) = self.end_of(start, tokens.end);
            at = match ending {
                End::Semicolon(next) => next,
                End::Block(open, close) if self.has_class(start, open) && !has_parameters => {
                    self.members(open + 1..close.saturating_sub(1));
                    close
                }
                End::Block(open, close) => {
                    if has_parameters && !self.is_device(start..open) && self.uses_host(open..close) {
                        self.remove(start, close);
                    }
                    close
                }
            };
        }
    }

    fn is_device(&self, mut tokens: Range<usize>) -> bool {
        tokens.any(|index| self.device_words.contains(self.word(index)))
    }

    fn has_class(&self, start: usize, end: usize) -> bool {
        // `template <class T>` is not a class.
        let mut angle = 0_i32;
        (start..end).any(|index| {
            match self.word(index) {
                "<" => angle += 1,
                ">" => angle -= 1,
                ">>" => angle -= 2,
                "class" | "struct" | "union" | "enum" => return angle <= 0,
                _ => {}
            }
            false
        })
    }

    /// The keyword of a class, outside the parameters of a template.
    fn class_keyword(&self, start: usize, end: usize) -> Option<usize> {
        let mut at = start;
        while at < end {
            match self.word(at) {
                "template" if self.word(at + 1) == "<" => {
                    at = self.after_angle(at + 1, end).unwrap_or(at + 2);
                }
                "class" | "struct" | "union" | "enum" => return Some(at),
                "(" => at = self.after_bracket(at, end),
                _ => at += 1,
            }
        }
        None
    }

    /// The name of a class, if it has one.
    fn class_name_at(&self, start: usize, end: usize) -> Option<usize> {
        let mut at = self.class_keyword(start, end)? + 1;
        while at < end {
            match self.word(at) {
                "class" | "struct" => at += 1,
                // The square brackets of an attribute.
                "[" => at = self.after_bracket(at, end),
                // An attribute, or a macro that stands for one.
                _ if self.word(at + 1) == "(" => at = self.after_bracket(at + 1, end),
                "<" | ":" | "{" | ";" | "," => return None,
                // The last of several words: the others are macros.
                _ if self.is_name(at + 1) && self.word(at + 1) != "final" => at += 1,
                _ => return self.is_name(at).then_some(at),
            }
        }
        None
    }

    fn class_name(&self, start: usize, end: usize) -> Option<&'a str> {
        self.class_name_at(start, end).map(|at| self.word(at))
    }

    fn is_name(&self, at: usize) -> bool {
        self.word(at).starts_with(|c: char| c.is_alphabetic() || c == '_')
    }

    /// Whether the tokens before a block are those of a class, although they have parentheses: of an attribute, a macro,
    /// or of types and values in angle brackets, as in `template <> struct Traits<void(int)>`.
    fn is_class_head(&self, start: usize, end: usize) -> bool {
        let Some(keyword) = self.class_keyword(start, end) else { return false };
        let mut at = keyword + 1;
        while at < end {
            match self.word(at) {
                "<" => at = self.after_angle(at, end).unwrap_or(at + 1),
                "(" => {
                    let before = at - 1;
                    at = self.after_bracket(at, end);
                    let is_attribute = before == keyword + 1
                        || PARENTHESISED.contains(&self.word(before))
                        || self.is_name(at) && !AFTER_PARAMETERS.contains(&self.word(at));
                    if !is_attribute {
                        return false;
                    }
                }
                _ => at += 1,
            }
        }
        true
    }

    /// Whether the tokens use a part of the standard library that only host code has.
    fn mentions_host_library(&self, mut tokens: Range<usize>) -> bool {
        const HOST: [&str; 23] = [
            "vector",
            "string",
            "map",
            "unordered_map",
            "set",
            "unordered_set",
            "mutex",
            "once_flag",
            "thread",
            "ostream",
            "istream",
            "ofstream",
            "ifstream",
            "stringstream",
            "ostringstream",
            "unique_ptr",
            "shared_ptr",
            "chrono",
            "list",
            "deque",
            "future",
            "random_device",
            "mt19937",
        ];
        tokens.any(|index| {
            self.word(index) == "std" && self.word(index + 1) == "::" && HOST.contains(&self.word(index + 2))
        })
    }

    /// Whether a body can only run on the host.
    fn uses_host(&self, tokens: Range<usize>) -> bool {
        self.mentions_host_library(tokens.clone())
            || tokens.into_iter().any(|index| {
                let word = self.word(index);
                word == "<<<"
                    || ["cuda", "cublas", "cudnn", "curand", "cusparse"].iter().any(|prefix| {
                        word.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(char::is_uppercase))
                    }) && self.word(index + 1) == "("
            })
    }

    /// Whether a declaration without a block belongs to host code.
    fn is_host_statement(&self, start: usize, next: usize, has_parameters: bool) -> bool {
        if self.is_device(start..next) {
            return false;
        }
        let names_removed = has_parameters
            && self.function_name(start, next).is_some_and(|name| self.functions.iter().any(|it| it == name));
        names_removed || self.mentions_host_library(start..next) || self.uses_host(start..next)
    }

    /// The name before the parameter list of a function.
    fn function_name(&self, start: usize, end: usize) -> Option<&'a str> {
        let mut at = start;
        let open = loop {
            match self.word(at) {
                _ if at >= end => return None,
                "template" if self.word(at + 1) == "<" => {
                    at = self.after_angle(at + 1, end).unwrap_or(at + 2);
                }
                "(" if at > start && !PARENTHESISED.contains(&self.word(at - 1)) => break at,
                "(" => at = self.after_bracket(at, end),
                _ => at += 1,
            }
        };
        let mut name = open.checked_sub(1)?;
        if self.word(name) == ">" {
            // The arguments of a specialisation.
            let mut depth = 0_i32;
            while name > start {
                depth += match self.word(name) {
                    ">" => 1,
                    "<" => -1,
                    _ => 0,
                };
                name -= 1;
                if depth == 0 {
                    break;
                }
            }
        }
        let word = self.word(name);
        word.starts_with(|c: char| c.is_alphabetic() || c == '_').then_some(word)
    }

    /// Removes a declaration, unless an alternative of the preprocessor inside of it has device code. Returns whether it
    /// is removed.
    fn remove(&mut self, start: usize, end: usize) -> bool {
        let bytes = self.bytes(start..end);
        debug_assert!(bytes.end <= self.text.len());
        let hides_device_code = self
            .skipped
            .iter()
            .any(|token| bytes.contains(&token.start) && self.device_words.contains(token.text));
        if bytes.is_empty() || hides_device_code {
            return false;
        }
        self.removed.push(bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(text: &str) -> WithoutHostCode {
        without_host_code(text, &device_words(&[text].into_iter()))
    }

    fn kept(text: &str) -> (String, Vec<String>) {
        let WithoutHostCode { text: kept, functions } = without(text);
        assert_eq!(kept.lines().count(), text.lines().count(), "every line keeps its number");
        let lines: Vec<&str> = kept.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        (lines.join("\n"), functions)
    }

    #[test]
    fn functions_without_a_device_specifier_are_removed() {
        let text = "\
#include <cstdio>
#define HD __host__ __device__
__device__ float twice(float x) { return 2 * x; }
HD float thrice(float x) { return 3 * x; }
constexpr int half(int n) { return n / 2; }
template <typename T> __global__ void scale(T* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
static void launch(float* x) { scale<<<1, 32>>>(x); }
template <class T, int N = 1> T* allocate(int n) { T* p; cudaMalloc(&p, n); return p; }
int main(int argc, char** argv)
{
#ifdef VERBOSE
    printf(\"}\");
#endif
    launch(allocate<float>(32));
}
__constant__ float table[2] = {1, 2};
";
        let (kept, functions) = kept(text);
        assert_eq!(functions, ["launch", "allocate", "main"]);
        assert_eq!(
            kept,
            "#include <cstdio>
#define HD __host__ __device__
__device__ float twice(float x) { return 2 * x; }
HD float thrice(float x) { return 3 * x; }
constexpr int half(int n) { return n / 2; }
template <typename T> __global__ void scale(T* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
#ifdef VERBOSE
#endif
__constant__ float table[2] = {1, 2};"
        );
    }

    #[test]
    fn classes_keep_their_device_functions() {
        let text = "\
struct Matrix {
    int rows = 3; float* data;
    Matrix(int n) : rows(n), data{nullptr} { cudaMalloc(&data, n); }
    __device__ float& at(int i) { return data[i]; }
    int size() const { return rows; }
};
class Timer { std::vector<cudaEvent_t> events; void start() { cudaEventRecord(events[0]); } } timer;
enum Mode { FAST, SLOW };
struct __align__(16) Quad { float x, y, z, w; };
namespace inner { extern \"C\" { struct P { int a; }; void run(Matrix& m) { k<<<1, 1>>>(m); } } }
template void launch<float>(float*);
std::vector<int> sizes = {1, 2};
float values[] = {1, 2};
";
        let (kept, functions) = kept(text);
        assert_eq!(functions, ["run"]);
        for present in [
            "float& at(int i)",
            "int size()",
            "enum Mode",
            "Quad",
            "struct P { int a; };",
            "float values[]",
            "rows = 3",
        ] {
            assert!(kept.contains(present), "{present}\n{kept}");
        }
        for absent in ["Matrix(int n)", "Timer", "k<<<", "std::vector"] {
            assert!(!kept.contains(absent), "{absent}\n{kept}");
        }
    }

    #[test]
    fn declarations_at_reported_lines_are_removed() {
        let text = "\
int first;
struct Clock {
    timeval start;
} watch;
__device__ timeval kept;
namespace n {
timeval gone;
int stays; }
";
        let words = device_words(&[text].into_iter());
        let kept_words = Kept { words: &words, ambiguous: None };
        let (kept, removed) = without_lines(text, &[3, 5, 7], kept_words).unwrap();
        assert_eq!(removed.len(), 2);
        let lines: Vec<&str> = kept.lines().map(str::trim_end).collect();
        let expected =
            ["int first;", "", "", "", "__device__ timeval kept;", "namespace n {", "", "int stays; }"];
        assert_eq!(lines, expected);
        assert_eq!(without_lines(text, &[5, 99, 0], kept_words), None);
    }

    #[test]
    fn a_class_loses_only_the_member_functions_at_reported_lines() {
        let text = "\
struct Mixed {
    int size;
    int rows() { return unknown(size); }
    __device__ int columns() { return size; }
};
";
        let words = device_words(&[text].into_iter());
        let of_host = Kept { words: &words, ambiguous: None };
        let (kept, _) = without_lines(text, &[3], of_host).unwrap();
        assert!(!kept.contains("rows") && kept.contains("columns") && kept.contains("int size"), "{kept}");
        assert_eq!(without_lines(text, &[4], of_host), None);
        let words = kernel_words(&[text].into_iter());
        let names = Ambiguous::find([text].into_iter());
        let but_kernels = Kept { words: &words, ambiguous: Some(&names) };
        let (kept, removed) = without_lines(text, &[4], but_kernels).unwrap();
        assert!(kept.contains("rows") && !kept.contains("columns"), "{kept}");
        assert_eq!(removed, ["__device__ int columns() { return size; }"]);
    }

    #[test]
    fn alternatives_that_do_not_close_their_brackets_do_not_hide_what_follows() {
        let text = "\
#ifdef HIP
void first(int a) {
#else
void second(int a) {
#endif
    launch();
}
void third() {}
__device__ int kept;
";
        let (kept, functions) = kept(text);
        assert_eq!(functions, ["first", "third"]);
        assert_eq!(kept, "#ifdef HIP\n#else\n#endif\n__device__ int kept;");
    }

    #[test]
    fn what_another_definition_may_replace_is_never_removed() {
        let text = "\
template <class T> struct Size { static constexpr int value = 1; };
template <> struct Size<half> { static constexpr int value = unknown; };
template <class T> struct Size<T*> { static constexpr int value = unknown; };
template <class T> __device__ float load(T x) { return x; }
template <> __device__ float load<half>(half x) { return unknown; }
__device__ float twice(int x) { return unknown; }
__attribute__((noinline)) __device__ float twice(float x) { return 2 * x; }
struct Point {
    __device__ Point() { unknown; }
    __device__ bool operator<(int) { return unknown; }
};
template <class T> __device__ const int size = 1;
template <class T> __device__ const int size<T*> = unknown;
namespace a { struct Twice { int n; }; }
struct Twice { unknown n; };
__device__ float once(float x) { return unknown; }
";
        let (words, names) = (kernel_words(&[text].into_iter()), Ambiguous::find([text].into_iter()));
        let all = [2, 3, 5, 6, 13, 15, 16];
        let kept = Kept { words: &words, ambiguous: Some(&names) };
        let (_, removed) = without_lines(text, &all, kept).unwrap();
        assert_eq!(removed, ["__device__ float once(float x) { return unknown; }"]);
        // The class goes as a whole, so that what uses it does not compile.
        let (_, removed) = without_lines(text, &[9, 10], kept).unwrap();
        assert!(removed.len() == 1 && removed[0].starts_with("struct Point"), "{removed:?}");
        let of_host = Kept { words: &BTreeSet::new(), ambiguous: None };
        assert_eq!(without_lines(text, &[2, 3], of_host), None);
    }

    #[test]
    fn classes_with_parentheses_in_their_heads_are_no_functions() {
        let text = "\
template <> struct Traits<void(int)> { static constexpr int arity = 1; };
template <int N> struct Traits<int[(N > 1)]> { int n; };
struct ALIGN(16) Wide { float x[4]; };
typedef struct ALIGN(8) { float x; } Narrow;
template <int N> requires (N > 0) struct Positive { int n; };
struct Wide make(int n) { return {}; }
";
        let (kept, functions) = kept(text);
        assert_eq!(functions, ["make"]);
        assert_eq!(kept.lines().count(), 5, "{kept}");
    }

    #[test]
    fn macros_with_continued_lines_are_words_of_device_code() {
        let text = "\
#define OUTER INNER
#define INNER \\
    inline \\
    __device__
#define OTHER \\
    inline
OUTER float twice(float x) { return 2 * x; }
OTHER float thrice(float x) { return 3 * x; }
";
        for text in [text.to_owned(), text.replace('\n', "\r\n")] {
            assert_eq!(without(&text).functions, ["thrice"]);
        }
    }

    #[test]
    fn kernels_in_alternatives_that_do_not_close_their_brackets_stay() {
        let text = "\
#ifdef HIP
void first(int a) {
#else
__global__ void kernel(int* a) { *a = 1; }
void second(int a) {
#endif
    launch();
}
void third() {}
";
        let (kept, functions) = kept(text);
        assert_eq!(functions, ["third"]);
        assert!(kept.contains("__global__ void kernel(int* a) { *a = 1; }"), "{kept}");
    }

    #[test]
    fn device_code_alone_stays_as_it_is() {
        let text =
            "// {\n__global__ void k(const char* s /* ) */)\n{\n    if (s[0] == '{') printf(R\"(}})\");\n}\n";
        assert_eq!(without(text), WithoutHostCode { text: text.to_owned(), functions: vec![] });
        for broken in [
            "int main() {",
            "}}}} void f() {}",
            "template <",
            "\"",
            "R\"x(",
            "/*",
            "#define",
            "namespace {",
            "(",
        ] {
            without(broken);
        }
    }
}
