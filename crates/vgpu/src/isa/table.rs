//! The table of PTX instructions: one declaration for each opcode. The decoder and the analysis of pointers
//! ([`crate::notice`]) read it. What the virtual GPU must know about the decoded operations is in `properties.rs`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::decode::{Decoded, Decoder, Mods, Pipe};
use crate::ptx::ast;

/// The declaration of a PTX instruction.
#[derive(Debug)]
pub struct Declaration {
    opcodes: &'static [&'static str],
    pub pointers: Pointers,
    forms: &'static [Form],
}

/// The forms of an instruction that one function decodes.
#[derive(Debug)]
pub struct Form {
    types: Types,
    pub pipe: Pipe,
    pub decode: Decode,
}

type Decode =
    for<'a, 'k, 'i> fn(&'i mut Decoder<'a, 'k>, &'i ast::Instruction<'a>, &'i mut Mods<'a>) -> Decoded;

/// The operand types of a form.
#[derive(Clone, Copy, Debug)]
enum Types {
    /// f16 and bf16, single or packed.
    Half,
    F32x2,
    F64,
    F32,
    Any,
}

impl Types {
    fn fit(self, m: &Mods<'_>) -> bool {
        match self {
            Types::Half => ["f16", "f16x2", "bf16", "bf16x2"].iter().any(|ty| m.has(ty)),
            Types::F32x2 => m.has("f32x2"),
            Types::F64 => m.has("f64"),
            Types::F32 => m.has("f32"),
            Types::Any => true,
        }
    }
}

/// What an instruction does with pointers among its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointers {
    /// Computes with the bits of the pointer. This is also the case for all unknown instructions.
    Examine,
    /// The result is an address in the same buffer.
    Keep,
    /// The last operand may be an address, to which a product is added.
    AddProduct,
    /// An offset or another address is subtracted.
    Subtract,
    /// The result is the address if it keeps its width.
    Convert,
    /// The result is an address if the other operand is a mask that aligns it.
    Mask,
    Compare,
    /// Loads through the pointer. The memory may hold other pointers.
    Load,
    /// Loads through the pointer what cannot be a pointer.
    Fetch,
    /// Stores through the pointer.
    Store,
    /// Combines memory with a value.
    Reduce,
    /// Combines memory with a value and returns the old contents.
    Exchange,
    /// Copies from one pointer to another.
    Copy,
    /// Loads or stores a tile, as its modifiers say.
    Tile,
    /// Neither accesses the memory nor tells anything about the pointer.
    Ignore,
    /// Has no result; all operands are read.
    NoResult,
}

/// Returns the declaration of an instruction.
pub fn instruction(opcode: &str) -> Option<&'static Declaration> {
    static BY_OPCODE: LazyLock<HashMap<&str, &Declaration>> = LazyLock::new(|| {
        INSTRUCTIONS.iter().flat_map(|row| row.opcodes.iter().map(move |opcode| (*opcode, row))).collect()
    });
    BY_OPCODE.get(opcode).copied()
}

impl Declaration {
    /// The first form whose types the modifiers name.
    pub fn form(&self, m: &Mods<'_>) -> Option<&'static Form> {
        self.forms.iter().find(|form| form.types.fit(m))
    }
}

/// Declares instructions: `opcodes, pointers: types pipe decoder, ..;`. A form has all types unless it names them.
macro_rules! instructions {
    ($($($opcode:literal)+, $pointers:ident: $($([$types:ident])? $pipe:ident $decode:ident),+;)+) => {
        &[$(Declaration {
            opcodes: &[$($opcode),+],
            pointers: Pointers::$pointers,
            forms: &[$(Form {
                types: instructions!(@ $($types)?),
                pipe: Pipe::$pipe,
                decode: |decoder, i, m| decoder.$decode(i, m),
            }),+],
        }),+]
    };
    (@) => { Types::Any };
    (@ $types:ident) => { Types::$types };
}

static INSTRUCTIONS: &[Declaration] = instructions! {
    // Arithmetic
    "add", Keep: [Half] Fp16 half, [F32x2] Fp32 float_pairs, [F64] Fp64 float, [F32] Fp32 float, Integer add_sub;
    "sub", Subtract: [Half] Fp16 half, [F32x2] Fp32 float_pairs, [F64] Fp64 float, [F32] Fp32 float, Integer add_sub;
    "mul", Examine: [Half] Fp16 half, [F32x2] Fp32 float_pairs, [F64] Fp64 float, [F32] Fp32 float, Integer mul;
    "fma", Examine: [Half] Fp16 half, [F32x2] Fp32 float_pairs, [F64] Fp64 float, [F32] Fp32 float;
    "mad", AddProduct: [F64] Fp64 float, [F32] Fp32 float, Integer mad;
    "div", Examine: [F64] Fp64 float, [F32] Special float, Integer div_rem;
    "rem", Examine: Integer div_rem;
    "min" "max", Examine: [Half] Fp16 half, [F64] Fp64 float_min_max, [F32] Fp32 float_min_max, Integer min_max;
    "abs", Examine: [Half] Fp16 half, [F64] Fp64 float, [F32] Fp32 float, Integer abs;
    "neg", Examine: [Half] Fp16 half, [F64] Fp64 float, [F32] Fp32 float, Integer neg;
    "copysign", Examine: [F64] Fp64 float, [F32] Fp32 float;
    "ex2" "tanh", Examine: [Half] Special half, [F64] Fp64 float, [F32] Special float;
    "rcp" "sqrt" "rsqrt" "sin" "cos" "lg2", Examine: [F64] Fp64 float, [F32] Special float;
    "addc" "subc" "madc", Examine: Integer carry_chain;
    "mul24" "mad24", Examine: Integer mul24;
    "sad", Examine: Integer sad;
    "dp4a" "dp2a", Examine: Integer dot_product;
    "vadd" "vadd2" "vadd4" "vsub" "vsub2" "vsub4" "vavrg2" "vavrg4" "vabsdiff" "vabsdiff2" "vabsdiff4"
        "vmin" "vmin2" "vmin4" "vmax" "vmax2" "vmax4" "vset" "vset2" "vset4" "vshl" "vshr", Examine: Integer video;

    // Bits
    "and", Mask: Integer bitwise;
    "or" "xor", Examine: Integer bitwise;
    "not", Examine: Integer not;
    "cnot", Examine: Integer cnot;
    "shl" "shr", Examine: Integer shift;
    "shf", Examine: Integer funnel_shift;
    "bfe", Examine: Integer bit_field_extract;
    "bfi", Examine: Integer bit_field_insert;
    "bmsk", Examine: Integer bit_mask;
    "szext", Examine: Integer extend_sign;
    "prmt", Examine: Integer permute;
    "lop3", Examine: Integer lop3;
    "popc" "clz" "bfind" "brev", Examine: Integer bit_count;
    "fns", Examine: Integer find_nth_set;

    // Comparisons, moves and conversions
    "setp", Compare: [F64] Fp64 setp, [F32] Fp32 setp, [Half] Fp32 setp, Integer setp;
    "set", Compare: Integer set;
    "selp", Keep: Integer selp;
    "slct", Examine: Integer slct;
    "testp", Examine: Integer testp;
    "mov", Keep: Move mov;
    "cvt", Convert: Conversion cvt;
    "cvta", Keep: Integer cvta;

    // Memory
    "ld" "ldu", Load: LoadStore load;
    "st", Store: LoadStore store;
    "atom", Exchange: Atomic atomic;
    "red", Reduce: Atomic atomic;
    "multimem", Exchange: Atomic unsupported;
    "prefetch" "prefetchu" "applypriority", Ignore: LoadStore prefetch;
    "createpolicy", Ignore: Integer create_policy;
    "isspacep", Ignore: LoadStore is_space;
    "mapa" "getctarank", Ignore: Integer cluster_address;
    "tex", Fetch: LoadStore texture;
    "tld4", Fetch: LoadStore gather;
    "suld", Fetch: LoadStore surface;
    "txq" "sust" "sured" "suq" "istypep", Examine: LoadStore surface;
    "membar", NoResult: Sync membar;
    "fence", NoResult: Sync fence;
    "cp", Copy: Async cp;
    "tensormap", Examine: Async tensormap;

    // Tensor cores
    "ldmatrix", Fetch: LoadStore matrix;
    "stmatrix", NoResult: LoadStore matrix;
    "movmatrix", Examine: Tensor move_matrix;
    "wmma", Tile: Tensor wmma;
    "mma", Examine: Tensor mma;
    "wgmma", Examine: Tensor wgmma;

    // Synchronisation and warp operations
    "bar" "barrier", NoResult: Sync barrier;
    "mbarrier", Examine: Sync mbarrier;
    "shfl", Keep: Sync shuffle;
    "vote", Examine: Sync vote;
    "match", Examine: Sync match_lanes;
    "redux", Examine: Sync redux;
    "activemask", Examine: Sync active_mask;
    "elect", Examine: Sync elect;

    // Control
    "bra", NoResult: Control branch_to;
    "brx", NoResult: Control branch_indexed;
    "call", Examine: Control call;
    "ret", NoResult: Control ret;
    "exit", NoResult: Control exit;
    "trap" "brkpt", NoResult: Control trap;
    "nanosleep", NoResult: Control nanosleep;
    "setmaxnreg", Examine: Control set_max_registers;
    "griddepcontrol", Examine: Control grid_dependency;
    "pmevent", Examine: Control profiler_event;
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_opcode_is_declared_once() {
        let mut opcodes: Vec<&str> = INSTRUCTIONS.iter().flat_map(|row| row.opcodes).copied().collect();
        opcodes.sort_unstable();
        let count = opcodes.len();
        opcodes.dedup();
        assert_eq!(opcodes.len(), count);
    }
}
