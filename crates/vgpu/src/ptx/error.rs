//! Syntax errors and their positions.

#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    schemars::JsonSchema,
    serde::Serialize,
    serde::Deserialize,
)]
/// A position in the PTX text. Both numbers count from 1.
pub struct Pos {
    pub line: u32,
    pub column: u32,
}

/// A syntax error in PTX.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}:{}: {message}", pos.line, pos.column)]
pub struct SyntaxError {
    pub pos: Pos,
    pub message: String,
}
