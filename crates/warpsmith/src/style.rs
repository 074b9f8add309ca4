//! Styles of text.
//!
//! Text may come from a log, a kernel, a proposer, a compiler or a file name. Such text must not change the terminal's
//! cursor, colours, title or text direction. A random marker around each style, different in every process, tells styles
//! from untrusted text.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use anstyle::{AnsiColor, Style};

pub use text::escape::{flat, is_hidden, one_line, visible};

/// Success.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Errors.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Warnings.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// Titles and names.
pub const STRONG: Style = Style::new().bold();
/// Less important text.
pub const FAINT: Style = Style::new().dimmed();

/// The escape sequence that ends a style.
const RESET: &str = "\x1b[0m";

/// The marker before and after every style: sixty random bits as private-use characters.
pub static MARK: LazyLock<String> = LazyLock::new(|| {
    let bits = RandomState::new().hash_one(0_u8);
    let digit = |place: u32| char::from_u32(0xf0000 + (bits >> (15 * place) & 0x7fff) as u32).unwrap_or('?');
    (0..4).map(digit).collect()
});

/// `text` in a style. Padding must be inside `text`: width specifiers would count the style's characters.
pub fn styled(style: Style, text: impl std::fmt::Display) -> String {
    let mark = &*MARK;
    format!("{mark}{style}{mark}{text}{mark}{style:#}{mark}")
}

/// Keeps the styles in the output of another renderer. That renderer must have received only [`visible`] text.
pub fn styled_already(text: &str) -> String {
    let mark = &*MARK;
    let mut pieces = text.split("\x1b[");
    let mut marked = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (style, rest) = piece.split_once('m').unwrap_or((piece, ""));
        marked += &format!("{mark}\x1b[{style}m{mark}{rest}");
    }
    marked
}

/// A part of a text in one style.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    /// The escape sequence of the style; empty for plain text.
    pub style: String,
    /// The text.
    pub text: String,
}

/// The parts of a text by style.
pub fn pieces(text: &str) -> Vec<Piece> {
    let mut style = String::new();
    let mut all = Vec::new();
    for (index, part) in text.split(&**MARK).enumerate() {
        if index % 2 == 1 {
            part.replace(RESET, "").clone_into(&mut style);
        } else if !part.is_empty() {
            all.push(Piece { style: style.clone(), text: part.to_owned() });
        }
    }
    all
}

/// `text` in the style of a [`Piece`].
pub fn restyled(style: &str, text: &str) -> String {
    let mark = &*MARK;
    if style.is_empty() { text.to_owned() } else { format!("{mark}{style}{mark}{text}{mark}{RESET}{mark}") }
}

/// The text without its styles.
pub fn unstyled(text: &str) -> String {
    text.split(&**MARK).step_by(2).collect()
}
