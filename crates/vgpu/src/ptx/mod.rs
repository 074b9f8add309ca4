//! Converts PTX text to a syntax tree.
//!
//! The parser knows the grammar of PTX but not its instructions: an instruction is a dotted mnemonic, a guard and
//! operands. [`crate::isa`] defines what each instruction means. Everything borrows from the source text.

pub mod ast;
mod error;
mod lexer;
mod parser;

pub use parser::parse;
