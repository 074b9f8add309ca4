//! Finds the place of an instruction in the CUDA source from `.file` and `.loc`, inlined frames included.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ptx::ast;

/// One frame of a source stack. The first frame is where the code is written, the last is in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
pub struct SourceFrame {
    /// Path of the source file.
    pub file: String,
    /// Line in the file.
    pub line: u32,
    /// Column in the line.
    pub column: u32,
    /// Function that contains the line, demangled to its plain name where possible.
    pub function: String,
}

#[derive(Clone, Copy, Debug)]
struct Loc {
    file: u32,
    line: u32,
    column: u32,
    /// Index into `names`.
    function: u32,
    /// Location of the call site at which this was inlined; 0 if not inlined.
    parent: u32,
}

/// All locations of a module. Index 0 means "unknown".
#[derive(Debug, Default)]
pub struct SourceMap {
    files: HashMap<u32, String>,
    names: Vec<String>,
    locs: Vec<Loc>,
}

/// More levels of inlining than any compiler produces. The limit protects against a cycle in a hostile file.
const MAX_FRAMES: usize = 64;

impl SourceMap {
    pub fn new(module: &ast::Module<'_>) -> SourceMap {
        let files = module.files.iter().map(|(i, name)| (*i, (*name).to_string())).collect();
        let unknown = Loc { file: 0, line: 0, column: 0, function: 0, parent: 0 };
        SourceMap { files, names: vec![String::new()], locs: vec![unknown] }
    }

    /// The frames of a location, innermost first; empty if unknown.
    pub fn stack(&self, loc: u32) -> Vec<SourceFrame> {
        let mut frames = Vec::new();
        let mut at = loc;
        while at != 0 && frames.len() < MAX_FRAMES {
            let Some(loc) = self.locs.get(at as usize) else { break };
            frames.push(SourceFrame {
                file: self.files.get(&loc.file).cloned().unwrap_or_default(),
                line: loc.line,
                column: loc.column,
                function: self.names.get(loc.function as usize).cloned().unwrap_or_default(),
            });
            at = loc.parent;
        }
        frames
    }
}

/// Converts the `.loc` directives of one function to locations.
#[derive(Debug)]
pub struct SourceReader<'m, 'a> {
    map: &'m mut SourceMap,
    labels: &'m HashMap<&'a str, &'m str>,
    function: u32,
    /// Locations seen in this function. An `inlined_at` names one of them.
    seen: HashMap<(u32, u32, u32), u32>,
    current: u32,
}

impl<'m, 'a> SourceReader<'m, 'a> {
    pub fn new(map: &'m mut SourceMap, labels: &'m HashMap<&'a str, &'m str>, function: &str) -> Self {
        map.names.push(plain_name(function));
        let function = map.names.len() as u32 - 1;
        SourceReader { map, labels, function, seen: HashMap::new(), current: 0 }
    }

    fn push(&mut self, loc: Loc) -> u32 {
        self.map.locs.push(loc);
        self.map.locs.len() as u32 - 1
    }

    /// Returns the location that applies from this directive on.
    pub fn directive(&mut self, loc: &ast::Loc<'a>) -> u32 {
        // Line 0 means that the compiler knows no line. The previous line is more useful.
        if loc.line == 0 {
            return self.current;
        }
        let (function, parent) = match loc.inlined {
            None => (self.function, 0),
            Some(at) => {
                let site = (at.file, at.line, at.column);
                let parent = match self.seen.get(&site) {
                    Some(parent) => *parent,
                    None => self.push(Loc {
                        file: at.file,
                        line: at.line,
                        column: at.column,
                        function: self.function,
                        parent: 0,
                    }),
                };
                let name = self.labels.get(at.function).copied().unwrap_or(at.function);
                self.map.names.push(plain_name(name));
                (self.map.names.len() as u32 - 1, parent)
            }
        };
        let entry = Loc { file: loc.file, line: loc.line, column: loc.column, function, parent };
        self.current = self.push(entry);
        self.seen.insert((loc.file, loc.line, loc.column), self.current);
        self.current
    }
}

/// Demangles a name to its identifiers, without types: `_ZN2ns4funcIfEEvv` becomes `ns::func`. Other names stay
/// unchanged.
pub fn plain_name(name: &str) -> String {
    let Some(mut rest) = name.strip_prefix("_Z") else { return name.to_string() };
    let nested = rest.starts_with('N');
    if nested {
        rest = rest[1..].trim_start_matches(['K', 'V', 'r', 'R', 'O']);
    }
    let mut parts: Vec<&str> = Vec::new();
    loop {
        rest = rest.strip_prefix('L').unwrap_or(rest);
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let Ok(length) = rest[..digits].parse::<usize>() else { break };
        let Some(part) = rest.get(digits..digits + length) else { break };
        if !part.starts_with("_INTERNAL") && !part.starts_with("_GLOBAL__N") {
            parts.push(part);
        }
        rest = &rest[digits + length..];
        if nested && rest.starts_with('I') {
            rest = skip_template(rest);
        }
        if !nested || rest.is_empty() {
            break;
        }
    }
    if parts.is_empty() { name.to_string() } else { parts.join("::") }
}

/// Returns the text after the `I…E` of template arguments. Counts the letters that open a group.
fn skip_template(text: &str) -> &str {
    let bytes = text.as_bytes();
    let (mut depth, mut i) = (0i32, 0);
    while i < bytes.len() {
        match bytes[i] {
            b'0'..=b'9' => {
                let end = bytes[i..].iter().position(|c| !c.is_ascii_digit()).map_or(bytes.len(), |n| i + n);
                let skip = text[i..end].parse::<usize>().unwrap_or(0);
                i = end.saturating_add(skip);
                continue;
            }
            b'I' | b'N' | b'J' | b'X' => depth += 1,
            b'L' => {
                // Skips a literal such as `Lb1E`; it contains no identifier length.
                i += bytes[i..].iter().position(|c| *c == b'E').unwrap_or(bytes.len());
            }
            b'E' => depth -= 1,
            _ => {}
        }
        i += 1;
        if depth == 0 {
            break;
        }
    }
    text.get(i..).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::plain_name;

    #[test]
    fn mangled_names_lose_their_types() {
        assert_eq!(plain_name("_Z6helperf1Pi"), "helper");
        assert_eq!(plain_name("_ZNK4cuda3std3__44plusIfEclERKfS5_"), "cuda::std::__4::plus");
        assert_eq!(plain_name("plain"), "plain");
        assert_eq!(plain_name("_ZN2cg3fooILi4ENS_3barEE3runEv"), "cg::foo::run");
        assert_eq!(plain_name("_Z"), "_Z");
        assert_eq!(plain_name("_ZN99999999999999999999"), "_ZN99999999999999999999");
    }
}
