//! The tokens of a C++ file, as far as finding declarations needs them.

/// A word, a string, or a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    pub text: &'a str,
    /// The first byte in the file.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
}

/// Signs of more than one character that matter here. Brackets stay single.
const SIGNS: [&str; 4] = ["<<<", ">>>", "::", "=="];

/// The tokens of a file without comments and without lines of the preprocessor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens<'a> {
    /// The tokens that form declarations. If the alternatives of a condition do not close the brackets that they open,
    /// only those of the first alternative are here.
    pub used: Vec<Token<'a>>,
    /// The tokens of the other alternatives of such conditions. They lie between tokens that are used.
    pub skipped: Vec<Token<'a>>,
}

/// The tokens of a file.
pub fn tokens(text: &str) -> Tokens<'_> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut skipped = Vec::new();
    let mut conditions: Vec<Vec<usize>> = Vec::new();
    let mut at = 0;
    let mut line_start = true;
    while at < bytes.len() {
        let rest = &text[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else if line_start && rest.starts_with('#') {
            let name = rest[1..].trim_start();
            if name.starts_with("if") {
                conditions.push(vec![tokens.len()]);
            } else if let Some(starts) = conditions.last_mut().filter(|_| name.starts_with("el")) {
                starts.push(tokens.len());
            } else if name.starts_with("endif")
                && let Some(starts) = conditions.pop()
            {
                skipped.extend(end_condition(&mut tokens, &starts));
            }
            directive(rest)
        } else if let Some(length) = literal(rest) {
            tokens.push(Token { text: &text[at..at + length], start: at, end: at + length });
            length
        } else if let Some(length) = word(rest) {
            tokens.push(Token { text: &text[at..at + length], start: at, end: at + length });
            length
        } else {
            let first = rest.chars().next().map_or(1, char::len_utf8);
            let length = SIGNS.iter().find(|sign| rest.starts_with(**sign)).map_or(first, |sign| sign.len());
            if !rest.starts_with(char::is_whitespace) {
                tokens.push(Token { text: &text[at..at + length], start: at, end: at + length });
            }
            length
        };
        let passed = &text[at..at + length];
        if passed.contains('\n') {
            line_start = true;
        } else if !passed.trim().is_empty() && !passed.starts_with("/*") {
            line_start = false;
        }
        at += length;
    }
    Tokens { used: tokens, skipped }
}

/// Removes the tokens of all alternatives but the first, if one of them leaves a bracket open or closes one, and returns
/// them. `starts`: the first token of each alternative.
fn end_condition<'a>(tokens: &mut Vec<Token<'a>>, starts: &[usize]) -> Vec<Token<'a>> {
    let is_balanced = |part: &[Token<'_>]| {
        let mut depth = 0_i32;
        for token in part {
            match token.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth < 0 {
                return false;
            }
        }
        depth == 0
    };
    let ends = starts.iter().skip(1).copied().chain([tokens.len()]);
    let all_balanced = starts.iter().zip(ends).all(|(start, end)| is_balanced(&tokens[*start..end]));
    match starts.get(1) {
        Some(second) if !all_balanced => tokens.split_off(*second),
        _ => Vec::new(),
    }
}

/// The length of a line of the preprocessor with its continuations.
fn directive(rest: &str) -> usize {
    let mut length = 0;
    for line in rest.split_inclusive('\n') {
        length += line.len();
        if !line.trim_end().ends_with('\\') {
            break;
        }
    }
    length
}

/// The length of a string or character literal, with its prefix.
fn literal(rest: &str) -> Option<usize> {
    let prefix = ["u8", "u", "U", "L", ""].iter().find(|prefix| {
        let after = rest.strip_prefix(**prefix).unwrap_or("");
        after.starts_with(['"', '\'']) || after.starts_with("R\"")
    })?;
    let after = &rest[prefix.len()..];
    if let Some(raw) = after.strip_prefix("R\"") {
        let delimiter = raw.split_once('(').map_or("", |(delimiter, _)| delimiter);
        let close = format!("){delimiter}\"");
        let end = raw.find(&close).map_or(raw.len(), |end| end + close.len());
        return Some(prefix.len() + 2 + end);
    }
    let quote = after.chars().next()?;
    let mut escaped = false;
    for (index, c) in after.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            // A literal does not pass the end of its line, so that an apostrophe in a number does no harm.
            '\n' => return Some(prefix.len() + index),
            c if c == quote => return Some(prefix.len() + index + 1),
            _ => {}
        }
    }
    Some(rest.len())
}

/// The length of an identifier or a number. A number may contain apostrophes: `1'000'000`.
fn word(rest: &str) -> Option<usize> {
    let first = rest.chars().next().filter(|c| c.is_alphanumeric() || *c == '_')?;
    let is_part = |(index, c): (usize, char)| {
        let apostrophe = c == '\''
            && first.is_ascii_digit()
            && rest[index + 1..].starts_with(|c: char| c.is_alphanumeric());
        c.is_alphanumeric() || c == '_' || apostrophe
    };
    Some(rest.char_indices().find(|&it| !is_part(it)).map_or(rest.len(), |(index, _)| index))
}
