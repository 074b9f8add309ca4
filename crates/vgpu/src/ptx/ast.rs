//! The syntax tree of a PTX module. Names are slices of the source text.

pub use super::error::Pos;

#[derive(Debug, Default)]
pub struct Module<'a> {
    pub version: (u32, u32),
    /// `sm_80`, `sm_90a`, ...
    pub target: &'a str,
    pub files: Vec<(u32, &'a str)>,
    /// `.debug_str` labels and their text: the (mangled) names of inlined functions.
    pub debug_strings: Vec<(&'a str, String)>,
    pub variables: Vec<Variable<'a>>,
    pub functions: Vec<Function<'a>>,
    /// Top-level directives that were skipped.
    pub ignored: Vec<(&'a str, Pos)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    Reg,
    Const,
    Global,
    Local,
    Param,
    Shared,
}

#[derive(Clone, Debug)]
pub struct Variable<'a> {
    pub name: &'a str,
    pub space: Space,
    pub ty: &'a str,
    /// Vector width of the element: 1, 2 or 4.
    pub vector: u32,
    pub align: Option<u32>,
    /// Array dimensions; 0 means `[]`.
    pub dims: Vec<u64>,
    pub init: Vec<Init<'a>>,
    pub external: bool,
    /// True for a parameter that is declared as a pointer: `.ptr`.
    pub pointer: bool,
    /// True for a variable in managed memory: `.attribute(.managed)`.
    pub managed: bool,
    /// `%r<32>`: the number of registers that the name stands for.
    pub range: Option<u32>,
    pub pos: Pos,
}

/// One scalar of an initialiser, in memory order.
#[derive(Clone, Debug)]
pub enum Init<'a> {
    Int(u64),
    F32(u32),
    F64(u64),
    /// The address of a variable, as `name` or `generic(name)`, plus an offset.
    Address {
        name: &'a str,
        offset: i64,
    },
}

#[derive(Debug)]
pub struct Function<'a> {
    pub name: &'a str,
    pub entry: bool,
    pub params: Vec<Variable<'a>>,
    pub returns: Vec<Variable<'a>>,
    /// `None` for a declaration.
    pub body: Option<Vec<Statement<'a>>>,
    /// `.maxntid`, `.reqntid`, `.minnctapersm` and others, with their numbers.
    pub directives: Vec<(&'a str, Vec<u64>)>,
    pub pos: Pos,
}

#[derive(Debug)]
pub enum Statement<'a> {
    Open,
    Close,
    Label(&'a str, Pos),
    Declare(Variable<'a>),
    Instruction(Instruction<'a>),
    Loc(Loc<'a>),
    /// `name: .branchtargets a, b, c;`
    BranchTargets(&'a str, Vec<&'a str>),
}

#[derive(Clone, Copy, Debug)]
pub struct Loc<'a> {
    pub file: u32,
    pub line: u32,
    pub column: u32,
    /// `function_name label+offset, inlined_at file line column`
    pub inlined: Option<InlinedAt<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub struct InlinedAt<'a> {
    pub function: &'a str,
    pub file: u32,
    pub line: u32,
    pub column: u32,
}

#[derive(Clone, Debug)]
pub struct Instruction<'a> {
    /// `@p` or `@!p`.
    pub guard: Option<(&'a str, bool)>,
    /// Base opcode: `ld`.
    pub opcode: &'a str,
    /// Everything after the opcode: `global.v4.f32`.
    pub modifiers: &'a str,
    pub operands: Vec<Operand<'a>>,
    pub pos: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'a> {
    /// A register, variable, label or special register. `negated` is true for `!p`.
    Name {
        name: &'a str,
        negated: bool,
    },
    /// `name+4`
    Offset {
        name: &'a str,
        offset: i64,
    },
    Int(u64),
    F32(u32),
    F64(u64),
    Sink,
    /// `{a, b}`
    Vector(Vec<Operand<'a>>),
    /// `[base+offset]`. Tensor copies have more than one part inside.
    Address {
        parts: Vec<Operand<'a>>,
        offset: i64,
    },
    /// `a|b`: two results.
    Pair(Box<(Operand<'a>, Operand<'a>)>),
    /// `(a, b)`: call arguments.
    List(Vec<Operand<'a>>),
}
