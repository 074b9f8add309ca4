//! PTX text to a syntax tree.
//!
//! The parser knows the grammar of PTX, not its instructions: an instruction is a dotted mnemonic, a guard and
//! operands. What each one means is [`crate::isa`]'s business. Everything borrows from the source text.

pub mod ast;
mod error;
mod lexer;
mod parser;

pub use parser::parse;
