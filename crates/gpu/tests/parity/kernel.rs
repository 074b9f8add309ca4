//! PTX kernels around one instruction: load the operands, execute it, store the results.

use std::fmt::Write;

/// Bits of an element in memory. Eight-bit elements use a 32-bit register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    B8,
    B16,
    B32,
    B64,
}

impl Width {
    pub const fn bits(self) -> u32 {
        match self {
            Width::B8 => 8,
            Width::B16 => 16,
            Width::B32 => 32,
            Width::B64 => 64,
        }
    }

    pub const fn bytes(self) -> usize {
        self.bits() as usize / 8
    }

    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    const fn register(self) -> u32 {
        if matches!(self, Width::B8) { 32 } else { self.bits() }
    }
}

/// An array in global memory with one element per thread.
#[derive(Clone, Debug)]
pub struct Column {
    pub width: Width,
    pub values: Vec<u64>,
}

impl Column {
    pub fn new(width: Width, values: Vec<u64>) -> Self {
        Column { width, values }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let width = self.width.bytes();
        self.values.iter().flat_map(|value| value.to_le_bytes().into_iter().take(width)).collect()
    }

    pub fn from_bytes(width: Width, bytes: &[u8]) -> Self {
        let value = |chunk: &[u8]| chunk.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        Column { width, values: bytes.chunks_exact(width.bytes()).map(value).collect() }
    }
}

pub const ENTRY: &str = "parity";

/// Register names of the operands and of the results.
const SOURCES: [&str; 4] = ["%a", "%b", "%c", "%e"];
const RESULTS: [&str; 2] = ["%d", "%f"];

/// The lowest PTX version that has the instruction: drivers refuse PTX that is newer than they are.
fn header(instruction: &str) -> String {
    let eight_bits = instruction.contains(".e4m3") || instruction.contains(".e5m2");
    let newer = eight_bits && (instruction.contains("k16") || instruction.contains("col.f16"));
    let version = if newer { "8.7" } else { "8.4" };
    format!(".version {version}\n.target sm_90\n.address_size 64\n\n")
}

/// A kernel with one thread per element. `body` reads `%a %b %c %e` and writes `%d %f`; `%p %q` are predicates and
/// `%lane` is the thread's lane.
pub fn per_element(body: &str, sources: &[Width], results: &[Width]) -> String {
    let mut text = header(body);
    let arrays = results.len() + sources.len();
    let _ = write!(text, ".visible .entry {ENTRY}(");
    for index in 0..arrays {
        let _ = write!(text, ".param .u64 array{index}, ");
    }
    text.push_str(".param .u32 count)\n{\n    .reg .pred %p, %q, %past;\n");
    text.push_str("    .reg .b32 %i, %n, %block, %size, %lane, %t, %u;\n    .reg .b64 %base, %index;\n");
    let named = RESULTS.iter().zip(results).chain(SOURCES.iter().zip(sources));
    for (name, width) in named {
        let _ = writeln!(text, "    .reg .b{} {name};", width.register());
    }
    text.push_str(
        "    mov.u32 %i, %tid.x;\n    mov.u32 %block, %ctaid.x;\n    mov.u32 %size, %ntid.x;\n    \
         mad.lo.s32 %i, %block, %size, %i;\n    and.b32 %lane, %i, 31;\n    ld.param.u32 %n, [count];\n    \
         setp.ge.u32 %past, %i, %n;\n    @%past bra END;\n    cvt.u64.u32 %index, %i;\n",
    );
    let address = |text: &mut String, index: usize, width: Width| {
        let _ = writeln!(text, "    ld.param.u64 %base, [array{index}];");
        let _ = writeln!(text, "    mad.lo.u64 %base, %index, {}, %base;", width.bytes());
    };
    for (index, (name, &width)) in SOURCES.iter().zip(sources).enumerate() {
        address(&mut text, results.len() + index, width);
        let _ = writeln!(text, "    ld.global.{} {name}, [%base];", memory_type(width));
    }
    for line in body.lines() {
        let _ = writeln!(text, "    {}", line.trim());
    }
    for (index, (name, &width)) in RESULTS.iter().zip(results).enumerate() {
        address(&mut text, index, width);
        let _ = writeln!(text, "    st.global.{} [%base], {name};", memory_type(width));
    }
    text.push_str("END:\n    ret;\n}\n");
    text
}

fn memory_type(width: Width) -> &'static str {
    match width {
        Width::B8 => "u8",
        Width::B16 => "b16",
        Width::B32 => "b32",
        Width::B64 => "b64",
    }
}

/// `instruction d, a, b, …;` on the registers of [`per_element`].
pub fn simple(instruction: &str, sources: usize) -> String {
    format!("{instruction} %d, {};", SOURCES[..sources].join(", "))
}

/// A kernel with one warp per tile. The registers of fragments are stored as `[tile][register][lane]`. `registers`
/// counts those of d, a, b and c.
pub fn per_tile(instruction: &str, registers: [usize; 4], width: Width) -> String {
    let bits = width.bits();
    let mut text = header(instruction);
    let _ = writeln!(
        text,
        ".visible .entry {ENTRY}(.param .u64 array0, .param .u64 array1, .param .u64 array2, .param .u64 array3, \
         .param .u32 count)\n{{"
    );
    text.push_str(TILE_PROLOGUE);
    for (name, count) in ["d", "a", "b", "c"].iter().zip(registers) {
        let _ = writeln!(text, "    .reg .b{bits} %{name}<{count}>;");
    }
    let address = |text: &mut String, array: usize, count: usize| {
        let _ = writeln!(text, "    ld.param.u64 %base, [array{array}];");
        let _ = writeln!(text, "    mad.lo.s32 %t, %i, {}, %lane;", count * 32);
        let _ = writeln!(text, "    mul.wide.u32 %index, %t, {};", width.bytes());
        text.push_str("    add.s64 %base, %base, %index;\n");
    };
    for (array, name) in [(1, "a"), (2, "b"), (3, "c")] {
        address(&mut text, array, registers[array]);
        for register in 0..registers[array] {
            let offset = register * 32 * width.bytes();
            let _ = writeln!(text, "    ld.global.b{bits} %{name}{register}, [%base+{offset}];");
        }
    }
    let list = |name: &str, count: usize| {
        let names: Vec<String> = (0..count).map(|register| format!("%{name}{register}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let [d, a, b, c] = registers;
    let (d_list, a_list, b_list, c_list) = (list("d", d), list("a", a), list("b", b), list("c", c));
    let _ = writeln!(text, "    {instruction} {d_list}, {a_list}, {b_list}, {c_list};");
    address(&mut text, 0, d);
    for register in 0..d {
        let offset = register * 32 * width.bytes();
        let _ = writeln!(text, "    st.global.b{bits} [%base+{offset}], %d{register};");
    }
    text.push_str("END:\n    ret;\n}\n");
    text
}

const TILE_PROLOGUE: &str = "    .reg .pred %past;
    .reg .b32 %i, %n, %block, %size, %lane, %t;
    .reg .b64 %base, %index;
    mov.u32 %i, %tid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mad.lo.s32 %i, %block, %size, %i;
    and.b32 %lane, %i, 31;
    shr.u32 %i, %i, 5;
    ld.param.u32 %n, [count];
    setp.ge.u32 %past, %i, %n;
    @%past bra END;
";

/// How a [`through_memory`] kernel loads or stores a matrix.
#[derive(Clone, Debug)]
pub struct MatrixAccess {
    /// For example `wmma.load.a.sync.aligned.row.m16n16k16.global.f16`.
    pub instruction: String,
    pub registers: usize,
    /// Size of a whole matrix in bytes.
    pub bytes: usize,
    /// Elements from the start of one row (or column) to the next.
    pub stride: usize,
}

/// A kernel with one warp per tile whose matrices are in the layout of `wmma.load` and `wmma.store`. `access` is for
/// d, a, b and c.
pub fn through_memory(instruction: &str, access: &[MatrixAccess; 4], bits: u32) -> String {
    let mut text = header(instruction);
    let _ = writeln!(
        text,
        ".visible .entry {ENTRY}(.param .u64 array0, .param .u64 array1, .param .u64 array2, .param .u64 array3, \
         .param .u32 count)\n{{"
    );
    text.push_str(TILE_PROLOGUE);
    text.push_str("    .reg .b32 %stride;\n");
    let mut lists = Vec::new();
    for (name, matrix) in ["d", "a", "b", "c"].iter().zip(access) {
        let _ = writeln!(text, "    .reg .b{bits} %{name}<{}>;", matrix.registers);
        let names: Vec<String> = (0..matrix.registers).map(|register| format!("%{name}{register}")).collect();
        lists.push(format!("{{{}}}", names.join(", ")));
    }
    let address = |text: &mut String, array: usize| {
        let matrix = &access[array];
        let _ = writeln!(text, "    ld.param.u64 %base, [array{array}];");
        let _ = writeln!(text, "    mul.wide.u32 %index, %i, {};", matrix.bytes);
        let _ = writeln!(text, "    add.s64 %base, %base, %index;\n    mov.u32 %stride, {};", matrix.stride);
    };
    for array in 1..4 {
        address(&mut text, array);
        let _ = writeln!(text, "    {} {}, [%base], %stride;", access[array].instruction, lists[array]);
    }
    let _ = writeln!(text, "    {instruction} {}, {}, {}, {};", lists[0], lists[1], lists[2], lists[3]);
    address(&mut text, 0);
    let _ = writeln!(text, "    {} [%base], {}, %stride;", access[0].instruction, lists[0]);
    text.push_str("END:\n    ret;\n}\n");
    text
}
