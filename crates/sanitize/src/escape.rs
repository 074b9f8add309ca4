//! Escapes untrusted text: names, messages and lines of a kernel must not control a terminal.

/// Escapes untrusted text for a terminal: control characters (C0, C1, DEL), characters that change the text direction
/// and invisible characters become `\u{1b}` and so on. Line breaks and tabs stay.
pub fn visible(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, c| {
        match c {
            '\n' | '\t' => escaped.push(c),
            c if is_hidden(c) => escaped.extend(c.escape_unicode()),
            c => escaped.push(c),
        }
        escaped
    })
}

/// Escapes untrusted text that must stay on one line: as [`visible`], and line breaks and tabs are escaped too.
pub fn one_line(text: &str) -> String {
    flat(&visible(text))
}

/// Escapes the line breaks and tabs of text that may have styles.
pub fn flat(text: &str) -> String {
    text.replace('\n', "\\n").replace('\t', "\\t")
}

/// Whether a character is a control character, is invisible or changes the direction of text.
pub fn is_hidden(c: char) -> bool {
    let invisible = ['\u{ad}', '\u{61c}', '\u{180e}', '\u{feff}'].contains(&c)
        || ('\u{200b}'..='\u{200f}').contains(&c)
        || ('\u{2028}'..='\u{202e}').contains(&c)
        || ('\u{2060}'..='\u{206f}').contains(&c)
        || ('\u{fff9}'..='\u{fffb}').contains(&c)
        || ('\u{e0000}'..='\u{e007f}').contains(&c);
    c.is_control() || invisible
}
