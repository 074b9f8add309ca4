//! Converts text to tokens. A mnemonic with its dotted modifiers is one token, and so is a register with its component
//! (`%tid.x`).

use super::error::{Pos, SyntaxError};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// Identifier, directive (`.reg`), mnemonic (`ld.global.v4.f32`), register (`%r1`) or label name (`$L__BB0_1`).
    Word(&'a str),
    /// An integer literal, as 64 bits.
    Int(u64),
    /// `0f3F800000`: the bits of an f32.
    F32(u32),
    /// `0d3FF0000000000000` or a decimal literal: the bits of an f64.
    F64(u64),
    Str(&'a str),
    Punct(u8),
    End,
}

/// Splits PTX text into tokens.
#[derive(Clone)]
pub struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
}

fn is_word_start(c: u8) -> bool {
    c.is_ascii_alphabetic() || matches!(c, b'_' | b'$' | b'%' | b'.')
}

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$' | b'.')
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, line: 1, line_start: 0 }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    pub fn pos(&self) -> Pos {
        Pos { line: self.line, column: (self.at - self.line_start) as u32 + 1 }
    }

    fn error(&self, message: impl Into<String>) -> SyntaxError {
        SyntaxError { pos: self.pos(), message: message.into() }
    }

    fn newline(&mut self) {
        self.line += 1;
        self.line_start = self.at + 1;
    }

    fn skip_blank(&mut self) -> Result<(), SyntaxError> {
        loop {
            match self.peek(0) {
                b'\n' => {
                    self.newline();
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.at += 1,
                b'/' if self.peek(1) == b'/' => {
                    while self.at < self.text.len() && self.peek(0) != b'\n' {
                        self.at += 1;
                    }
                }
                b'/' if self.peek(1) == b'*' => {
                    let open = self.error("comment is never closed");
                    self.at += 2;
                    while !(self.peek(0) == b'*' && self.peek(1) == b'/') {
                        if self.at >= self.text.len() {
                            return Err(open);
                        }
                        if self.peek(0) == b'\n' {
                            self.newline();
                        }
                        self.at += 1;
                    }
                    self.at += 2;
                }
                // A preprocessor line marker, which `nvcc --keep` leaves in the text.
                b'#' => {
                    while self.at < self.text.len() && self.peek(0) != b'\n' {
                        self.at += 1;
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// Returns the next token and its position.
    pub fn next(&mut self) -> Result<(Token<'a>, Pos), SyntaxError> {
        self.skip_blank()?;
        let pos = self.pos();
        let start = self.at;
        if self.at >= self.text.len() {
            return Ok((Token::End, pos));
        }
        let c = self.peek(0);
        if is_word_start(c) {
            self.at += 1;
            loop {
                // `::` joins the parts of a modifier such as `.shared::cta`.
                if is_word(self.peek(0)) {
                    self.at += 1;
                } else if self.peek(0) == b':' && self.peek(1) == b':' && is_word(self.peek(2)) {
                    self.at += 2;
                } else {
                    break;
                }
            }
            return Ok((Token::Word(&self.text[start..self.at]), pos));
        }
        if c.is_ascii_digit() {
            return Ok((self.number()?, pos));
        }
        if c == b'"' {
            self.at += 1;
            while self.peek(0) != b'"' {
                if self.at >= self.text.len() || self.peek(0) == b'\n' {
                    return Err(self.error("string is never closed"));
                }
                self.at += if self.peek(0) == b'\\' { 2 } else { 1 };
            }
            let body = self.text.get(start + 1..self.at).unwrap_or("");
            self.at += 1;
            return Ok((Token::Str(body), pos));
        }
        if c.is_ascii_graphic() {
            self.at += 1;
            return Ok((Token::Punct(c), pos));
        }
        Err(self.error("unexpected character"))
    }

    fn number(&mut self) -> Result<Token<'a>, SyntaxError> {
        let start = self.at;
        while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == b'.' {
            // The sign of a decimal exponent belongs to the number.
            let exponent = matches!(self.peek(0), b'e' | b'E')
                && matches!(self.peek(1), b'+' | b'-')
                && self.text[start..self.at].contains('.');
            self.at += if exponent { 2 } else { 1 };
        }
        let text = &self.text[start..self.at];
        let bad = || SyntaxError {
            pos: Pos { line: self.line, column: (start - self.line_start) as u32 + 1 },
            message: format!("malformed number `{text}`"),
        };
        let lower = text.to_ascii_lowercase();
        if let Some(hex) = lower.strip_prefix("0f").filter(|h| h.len() == 8) {
            return u32::from_str_radix(hex, 16).map(Token::F32).map_err(|_| bad());
        }
        if let Some(hex) = lower.strip_prefix("0d").filter(|h| h.len() == 16) {
            return u64::from_str_radix(hex, 16).map(Token::F64).map_err(|_| bad());
        }
        if text.contains('.') {
            return text.parse::<f64>().map(|v| Token::F64(v.to_bits())).map_err(|_| bad());
        }
        let digits = lower.strip_suffix('u').unwrap_or(&lower);
        let parsed = if let Some(hex) = digits.strip_prefix("0x") {
            u64::from_str_radix(hex, 16)
        } else if let Some(bin) = digits.strip_prefix("0b") {
            u64::from_str_radix(bin, 2)
        } else if digits.len() > 1 && digits.starts_with('0') {
            u64::from_str_radix(&digits[1..], 8)
        } else {
            digits.parse()
        };
        parsed.map(Token::Int).map_err(|_| bad())
    }
}
