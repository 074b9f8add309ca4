//! Fits text into the width of a terminal.
//!
//! A line is broken only between words, because paths and commands must stay whole. Text for a pipe or a file is not
//! broken, so that a line can be searched; the environment variable `COLUMNS` sets a width there.

use std::io::{stderr, stdout};

use terminal_size::terminal_size_of;

use crate::style::{Piece, pieces, restyled};

/// The narrowest width that is respected.
const NARROWEST: usize = 40;
/// Additional indentation of the continuation of an indented line.
const HANGING: usize = 2;

/// The width of stdout. `None` if it is not a terminal.
pub fn stdout_width() -> Option<usize> {
    fixed_width().or_else(|| terminal_size_of(stdout()).map(|(width, _)| usize::from(width.0)))
}

/// The width of stderr. `None` if it is not a terminal.
pub fn stderr_width() -> Option<usize> {
    fixed_width().or_else(|| terminal_size_of(stderr()).map(|(width, _)| usize::from(width.0)))
}

fn fixed_width() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|width| *width > 0)
}

/// Breaks every line of prose that is longer than `width`. The continuation of an indented line is indented further.
pub fn wrapped(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let width = width.max(NARROWEST);
    text.split('\n').flat_map(|line| wrapped_line(line, width)).collect::<Vec<_>>().join("\n")
}

fn wrapped_line(line: &str, width: usize) -> Vec<String> {
    let words = words(line);
    let own = words.first().map_or(0, |word| word.spaces);
    let indentation = if own > 0 { own + HANGING } else { 0 };
    let mut lines = lines_of(&words, width, width.saturating_sub(indentation));
    for line in lines.iter_mut().skip(1) {
        line.insert_str(0, &" ".repeat(indentation));
    }
    lines
}

/// Breaks the text of a table's cell into lines of at most `width` characters. Words that are too long are broken.
pub fn cell_lines(cell: &str, width: usize) -> Vec<String> {
    let words = words(cell).into_iter().flat_map(|word| word.broken(width.max(1))).collect::<Vec<_>>();
    lines_of(&words, width, width)
}

/// The width of the longest word.
pub fn longest_word(text: &str) -> usize {
    words(text).iter().map(|word| word.width).max().unwrap_or(0)
}

/// A word with its style and the spaces before it.
#[derive(Debug)]
struct Word {
    spaces: usize,
    width: usize,
    runs: Vec<(String, String)>,
}

impl Word {
    fn text(&self) -> String {
        self.runs.iter().map(|(style, text)| restyled(style, text)).collect()
    }

    /// The word in pieces of at most `width` characters.
    fn broken(self, width: usize) -> Vec<Word> {
        if self.width <= width {
            return vec![self];
        }
        let mut words = vec![Word { spaces: self.spaces, width: 0, runs: Vec::new() }];
        for (style, text) in self.runs {
            for c in text.chars() {
                if words.last().is_some_and(|word| word.width == width) {
                    words.push(Word { spaces: 0, width: 0, runs: Vec::new() });
                }
                let Some(word) = words.last_mut() else { continue };
                word.width += 1;
                match word.runs.last_mut() {
                    Some((known, text)) if *known == style => text.push(c),
                    _ => word.runs.push((style.clone(), c.to_string())),
                }
            }
        }
        words
    }
}

/// The words of a line. Styles may change within a word.
fn words(line: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut spaces = 0;
    let mut is_inside = false;
    for Piece { style, text } in pieces(line) {
        for part in text.split_inclusive(' ') {
            let (visible, ends) = part.strip_suffix(' ').map_or((part, false), |visible| (visible, true));
            if !visible.is_empty() {
                if !is_inside {
                    words.push(Word { spaces, width: 0, runs: Vec::new() });
                    (spaces, is_inside) = (0, true);
                }
                if let Some(word) = words.last_mut() {
                    word.width += visible.chars().count();
                    word.runs.push((style.clone(), visible.to_owned()));
                }
            }
            if ends {
                is_inside = false;
                spaces += 1;
            }
        }
    }
    words
}

/// Places words on lines: `first` characters on the first line, `next` on each of the others.
fn lines_of(words: &[Word], first: usize, next: usize) -> Vec<String> {
    let (mut lines, mut width) = (vec![String::new()], 0);
    for (index, word) in words.iter().enumerate() {
        let limit = if lines.len() == 1 { first } else { next };
        // A word without spaces before it is the rest of a broken word.
        let breaks = index > 0 && width + word.spaces + word.width > limit;
        if breaks {
            lines.push(String::new());
            width = 0;
        }
        let Some(line) = lines.last_mut() else { continue };
        if !breaks {
            line.push_str(&" ".repeat(word.spaces));
            width += word.spaces;
        }
        line.push_str(&word.text());
        width += word.width;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::{GOOD, styled, unstyled};

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "  a line of words that is longer than forty characters, by some\nshort";
        assert_eq!(
            wrapped(text, Some(40)),
            "  a line of words that is longer than\n    forty characters, by some\nshort"
        );
        assert_eq!(wrapped(text, None), text);
        let path = "run: /a/very/long/path/without/any/space/that/does/not/fit";
        assert_eq!(wrapped(path, Some(40)), path.replace(": ", ":\n"));
    }

    #[test]
    fn a_style_ends_with_its_line() {
        let text = styled(GOOD, "these words are all green and need more than one line");
        let lines = wrapped(&text, Some(40));
        assert_eq!(unstyled(&lines), "these words are all green and need more\nthan one line");
        for line in lines.lines() {
            assert_eq!(
                pieces(line).iter().filter(|piece| !piece.style.is_empty()).count(),
                line.trim().split(' ').count()
            );
        }
    }

    #[test]
    fn cells_break_words_that_are_too_long() {
        assert_eq!(cell_lines("ab cdefghij k", 4), ["ab", "cdef", "ghij", "k"]);
        assert_eq!(longest_word("ab cdefghij k"), 8);
    }
}
