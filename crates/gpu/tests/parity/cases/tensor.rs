//! Tile products: `mma.sync` from registers, `wmma` through memory. Integer results must be equal. Floating-point
//! results of either machine must be within the documented bound of the exact product.

use vgpu::num::Lanes;
use vgpu::num::tile::{self, Accumulation, BitOp, Elem, Fragment, Mma, Shape, error_bound};

use super::Table;
use crate::case::{Case, Judge, Verdict};
use crate::kernel::{Column, MatrixAccess, Width, per_tile, through_memory};
use crate::model::{Format, Mode, two_sum};
use crate::random::Rng;

/// Tiles per form, the same number for each kind of operands. Debug builds use fewer.
const TILES: usize = if cfg!(debug_assertions) { 64 } else { 1024 };

/// Kinds of operands; successive tiles cycle through them.
const KINDS: [&str; 8] = [
    "normal",
    "exponents -8..8",
    "cancelling",
    "subnormal",
    "small integers",
    "infinities and NaNs",
    "any bits",
    "large c",
];

/// A matrix as element codes in row order.
#[derive(Clone, Debug)]
struct Matrix {
    cols: usize,
    codes: Vec<u64>,
}

impl Matrix {
    fn at(&self, row: usize, col: usize) -> u64 {
        self.codes[row * self.cols + col]
    }
}

fn format(elem: Elem) -> Option<Format> {
    match elem {
        Elem::F16 => Some(Format::F16),
        Elem::Bf16 => Some(Format::Bf16),
        Elem::Tf32 => Some(Format::Tf32),
        Elem::E4m3 => Some(Format::E4m3),
        Elem::E5m2 => Some(Format::E5m2),
        Elem::F32 => Some(Format::F32),
        _ => None,
    }
}

fn signed(elem: Elem) -> bool {
    matches!(elem, Elem::S8 | Elem::S4 | Elem::S32)
}

fn mask(elem: Elem) -> u64 {
    u64::MAX >> (64 - elem.bits())
}

/// The number that a code represents.
fn value(elem: Elem, code: u64) -> f64 {
    match elem {
        Elem::F64 => f64::from_bits(code),
        // The low bits of a tf32 register are ignored.
        Elem::Tf32 => Format::Tf32.value(code >> 13),
        _ => format(elem).map_or(0.0, |format| format.value(code)),
    }
}

fn integer(elem: Elem, code: u64) -> i64 {
    let up = 64 - elem.bits() as u32;
    if signed(elem) { (code << up) as i64 >> up } else { (code << up >> up) as i64 }
}

/// The nearest number that an element can represent; beyond its range the largest.
fn code(elem: Elem, x: f64, rng: &mut Rng) -> u64 {
    let Some(format) = format(elem) else { return x.to_bits() };
    let sign = if x.is_sign_negative() { format.sign() } else { 0 };
    let magnitude =
        if x == 0.0 { 0 } else { format.round_sum(x.abs(), 0.0, Mode::Nearest).min(format.largest()) };
    let code = magnitude | sign;
    // The low bits of a tf32 register must not change the result, so they are random.
    if elem == Elem::Tf32 { code << 13 | rng.below(1 << 13) } else { code }
}

/// A number near the lower end of the format: subnormal or slightly larger.
fn tiny(elem: Elem, rng: &mut Rng) -> u64 {
    let (fraction, sign, shift) = match elem {
        Elem::F64 => (52, 63, 0),
        Elem::Tf32 => (10, 18, 13),
        Elem::F16 => (10, 15, 0),
        Elem::Bf16 => (7, 15, 0),
        Elem::E4m3 => (3, 7, 0),
        Elem::E5m2 => (2, 7, 0),
        _ => (23, 31, 0),
    };
    let magnitude = rng.u64() & ((2 << fraction) - 1);
    (magnitude | (rng.u64() & 1) << sign) << shift
}

fn special(elem: Elem, rng: &mut Rng) -> u64 {
    let Some(format) = format(elem) else {
        return [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0][rng.below(4) as usize].to_bits();
    };
    let code = [format.infinity(), format.infinity() | format.sign(), format.nan(), 0][rng.below(4) as usize];
    if elem == Elem::Tf32 { code << 13 } else { code & mask(elem) }
}

/// The operands of one tile: A, B and C.
fn matrices(op: &Mma, kind: &str, rng: &mut Rng) -> [Matrix; 3] {
    let (m, n, k) = (usize::from(op.shape.m), usize::from(op.shape.n), usize::from(op.shape.k));
    let fill = |elem: Elem, rows: usize, cols: usize, rng: &mut Rng, accumulator: bool| {
        let codes = (0..rows * cols)
            .map(|_| match (elem.is_integer(), kind) {
                // The ends of the range make integer sums overflow where possible.
                (true, "infinities and NaNs") if accumulator => {
                    [0x7fff_fff0, 0x8000_000f][rng.below(2) as usize]
                }
                (true, "small integers") if accumulator => {
                    (rng.below(2001) as i64 - 1000) as u64 & mask(elem)
                }
                (true, _) => rng.u64() & mask(elem),
                (_, "normal" | "cancelling") => {
                    let x = rng.normal();
                    code(elem, x, rng)
                }
                (_, "exponents -8..8") => {
                    let x =
                        rng.normal().signum() * (1.0 + rng.unit()) * f64::exp2(rng.below(17) as f64 - 8.0);
                    code(elem, x, rng)
                }
                (_, "subnormal") => tiny(elem, rng),
                (_, "small integers") => {
                    let limit = if accumulator { 50 } else { 4 };
                    let x = rng.below(2 * limit + 1) as f64 - limit as f64;
                    code(elem, x, rng)
                }
                (_, "infinities and NaNs") if rng.below(48) == 0 => special(elem, rng),
                (_, "any bits") => rng.u64() & mask(elem),
                (_, "large c") if accumulator => {
                    let x = rng.normal() * 1000.0;
                    code(elem, x, rng)
                }
                _ => {
                    let x = rng.normal();
                    code(elem, x, rng)
                }
            })
            .collect();
        Matrix { cols, codes }
    };
    let a = fill(op.a, m, k, rng, false);
    let mut b = fill(op.b, k, n, rng, false);
    let c = fill(op.c, m, n, rng, true);
    let mut a = a;
    if kind == "cancelling" && !op.a.is_integer() {
        // Products come in pairs that cancel except for a last place of a.
        let step = if op.a == Elem::Tf32 { 1 << 13 } else { 1 };
        let sign = if op.b == Elem::Tf32 { 1 << 31 } else { 1 << (op.b.bits() - 1) };
        for pair in 0..k / 2 {
            for row in 0..m {
                a.codes[row * k + 2 * pair + 1] = a.at(row, 2 * pair) ^ (rng.below(2) * step);
            }
            for col in 0..n {
                b.codes[(2 * pair + 1) * n + col] = b.at(2 * pair, col) ^ sign;
            }
        }
    }
    if kind == "subnormal" && !op.a.is_integer() {
        // Half of the tiles multiply tiny by ordinary numbers, so that products do not all vanish.
        if rng.below(2) == 0 {
            b.codes = (0..k * n)
                .map(|_| {
                    let x = rng.normal();
                    code(op.b, x, rng)
                })
                .collect();
        }
    }
    [a, b, c]
}

/// The expected value of an element of D.
enum Expected {
    /// The exact sum, and the sum of the magnitudes of its terms.
    Near { sum: f64, magnitude: f64 },
    /// An infinity or NaN that follows from the operands. The finite terms may overflow as well; `magnitude` is the
    /// sum of theirs.
    Special { special: f64, magnitude: f64 },
}

fn expected(op: &Mma, [a, b, c]: &[Matrix; 3], row: usize, col: usize) -> Expected {
    let start = value(op.c, c.at(row, col));
    let (mut sum, mut special) = if start.is_finite() { (start, 0.0) } else { (0.0, start) };
    let (mut magnitude, mut lost) = (sum.abs(), 0.0);
    for k in 0..usize::from(op.shape.k) {
        let (x, y) = (value(op.a, a.at(row, k)), value(op.b, b.at(k, col)));
        let product = x * y;
        if !(x.is_finite() && y.is_finite()) {
            special += product;
            continue;
        }
        // The rounding error of f64 is accumulated, too: sums that cancel must not look wrong because of the
        // reference.
        let (next, low) = two_sum(sum, product);
        sum = next;
        lost += if low.is_finite() { low } else { 0.0 };
        magnitude += product.abs();
    }
    if special == 0.0 {
        Expected::Near { sum: sum + lost, magnitude }
    } else {
        Expected::Special { special, magnitude }
    }
}

fn exact_integer(op: &Mma, [a, b, c]: &[Matrix; 3], row: usize, col: usize) -> u64 {
    let products: i64 = (0..usize::from(op.shape.k))
        .map(|k| match op.a {
            Elem::B1 => {
                let (x, y) = (a.at(row, k), b.at(k, col));
                (if op.bit_op == BitOp::Xor { x ^ y } else { x & y }) as i64
            }
            _ => integer(op.a, a.at(row, k)) * integer(op.b, b.at(k, col)),
        })
        .sum();
    let sum = products + integer(Elem::S32, c.at(row, col));
    let sum = if op.satfinite { sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) } else { sum };
    u64::from(sum as u32)
}

/// How matrices reach the registers.
#[derive(Clone, Copy, Debug)]
enum Route {
    /// The test builds the fragments.
    Registers,
    /// `wmma.load` and `wmma.store`. The values tell whether a, b and d are stored by columns.
    Memory([bool; 3]),
}

/// One form of a product.
#[derive(Clone, Debug)]
struct Product {
    name: String,
    op: Mma,
    route: Route,
}

impl Product {
    fn width(&self) -> Width {
        if self.op.a == Elem::F64 { Width::B64 } else { Width::B32 }
    }

    fn fragments(&self) -> [Fragment; 4] {
        self.op.fragments().unwrap_or_else(|| panic!("{}: the virtual GPU has no such fragments", self.name))
    }

    /// The operands of every tile.
    fn tiles(&self) -> Vec<[Matrix; 3]> {
        let mut rng = Rng::for_name(&self.name);
        (0..TILES).map(|tile| matrices(&self.op, KINDS[tile % KINDS.len()], &mut rng)).collect()
    }

    /// The registers of a fragment, as `[register][lane]`.
    fn pack(&self, fragment: &Fragment, matrix: &Matrix, out: &mut Vec<u64>) {
        let per = fragment.per_reg();
        let bits = fragment.elem.bits();
        for register in 0..fragment.regs {
            for lane in 0..32 {
                let word = (0..per)
                    .map(|part| {
                        let (row, col) = fragment.position(lane, register * per + part);
                        matrix.at(row, col) << (part * bits % 64)
                    })
                    .fold(0, |word, part| word | part);
                out.push(word);
            }
        }
    }

    /// The results of one tile as an m by n matrix.
    fn unpack(&self, results: &Column, tile: usize) -> Matrix {
        let (m, n) = (usize::from(self.op.shape.m), usize::from(self.op.shape.n));
        let mut matrix = Matrix { cols: n, codes: vec![0; m * n] };
        match self.route {
            Route::Registers => {
                let fragment = self.fragments()[3];
                let (per, bits) = (fragment.per_reg(), fragment.elem.bits());
                let words = &results.values[tile * fragment.regs * 32..][..fragment.regs * 32];
                for lane in 0..32 {
                    for element in 0..fragment.elems() {
                        let (row, col) = fragment.position(lane, element);
                        let word = words[element / per * 32 + lane];
                        matrix.codes[row * n + col] =
                            word >> (element % per * bits % 64) & mask(fragment.elem);
                    }
                }
            }
            Route::Memory([.., by_columns]) => {
                let codes = &results.values[tile * m * n..][..m * n];
                for row in 0..m {
                    for col in 0..n {
                        matrix.codes[row * n + col] =
                            codes[if by_columns { col * m + row } else { row * n + col }];
                    }
                }
            }
        }
        matrix
    }

    fn case(self) -> Case {
        match self.route {
            Route::Registers => self.case_in_registers(),
            Route::Memory(columns) => self.case_in_memory(columns),
        }
    }

    fn case_in_registers(self) -> Case {
        let fragments = self.fragments();
        let [a, b, c, d] = fragments;
        let width = self.width();
        let mut inputs = [Vec::new(), Vec::new(), Vec::new()];
        for matrices in self.tiles() {
            for ((fragment, matrix), out) in fragments.iter().zip(&matrices).zip(&mut inputs) {
                self.pack(fragment, matrix, out);
            }
        }
        Case {
            name: self.name.clone(),
            ptx: per_tile(&self.name, [d.regs, a.regs, b.regs, c.regs], width),
            inputs: inputs.map(|values| Column::new(width, values)).to_vec(),
            outputs: vec![(width, TILES * d.regs * 32)],
            threads: TILES * 32,
            count: TILES,
            judge: Box::new(self),
        }
    }

    fn case_in_memory(self, columns: [bool; 3]) -> Case {
        let [a, b, c, d] = self.fragments();
        let shape = self.op.shape;
        let shape_name = format!("m{}n{}k{}", shape.m, shape.n, shape.k);
        let order = |by_columns: bool| if by_columns { "col" } else { "row" };
        let access = |what: &str, by_columns: bool, fragment: &Fragment| MatrixAccess {
            instruction: format!(
                "wmma.{what}.sync.aligned.{}.{shape_name}.global.{}",
                order(by_columns),
                type_name(fragment.elem)
            ),
            registers: fragment.regs,
            bytes: fragment.rows * fragment.cols * fragment.elem.bits() / 8,
            stride: if by_columns { fragment.rows } else { fragment.cols },
        };
        let accesses = [
            access("store.d", columns[2], &d),
            access("load.a", columns[0], &a),
            access("load.b", columns[1], &b),
            access("load.c", columns[2], &c),
        ];
        let mut inputs = [Vec::new(), Vec::new(), Vec::new()];
        for matrices in self.tiles() {
            for ((matrix, by_columns), out) in matrices.iter().zip(columns).zip(&mut inputs) {
                let rows = matrix.codes.len() / matrix.cols;
                out.extend(
                    (0..matrix.codes.len())
                        .map(|i| if by_columns { matrix.at(i % rows, i / rows) } else { matrix.codes[i] }),
                );
            }
        }
        let widths = [a, b, c].map(|fragment| element_width(fragment.elem));
        let instruction = self.name.split(' ').next().unwrap_or(&self.name).to_owned();
        let columns_of = |(values, width)| Column::new(width, values);
        Case {
            name: self.name.clone(),
            ptx: through_memory(&instruction, &accesses, self.width().bits()),
            inputs: inputs.into_iter().zip(widths).map(columns_of).collect(),
            outputs: vec![(element_width(d.elem), TILES * usize::from(shape.m) * usize::from(shape.n))],
            threads: TILES * 32,
            count: TILES,
            judge: Box::new(self),
        }
    }

    /// Judges one machine's results and returns the largest error in units of the bound.
    fn within_bound(&self, who: &str, results: &Column, verdict: &mut Verdict) -> f64 {
        let op = &self.op;
        let (m, n) = (usize::from(op.shape.m), usize::from(op.shape.n));
        let mut most = 0.0f64;
        for (tile, matrices) in self.tiles().iter().enumerate() {
            let got = self.unpack(results, tile);
            let kind = KINDS[tile % KINDS.len()];
            for row in 0..m {
                for col in 0..n {
                    let bits = got.at(row, col);
                    let place = || format!("tile {tile} ({kind}), row {row}, column {col}: {who} {bits:x}");
                    if op.a.is_integer() {
                        let expected = exact_integer(op, matrices, row, col);
                        if bits != expected {
                            verdict.wrong(|| format!("{}, exact {expected:x}", place()));
                        }
                        continue;
                    }
                    let result = value(op.d, bits);
                    // One order of summation may overflow where another does not.
                    let largest = match op.d {
                        Elem::F64 => f64::MAX,
                        Elem::F16 => 65504.0,
                        _ => f64::from(f32::MAX),
                    };
                    let (exact, magnitude) = match expected(op, matrices, row, col) {
                        Expected::Near { sum, magnitude } => (sum, magnitude),
                        Expected::Special { special, magnitude } => {
                            let overflows = special.is_infinite() && magnitude > largest;
                            let same = result == special || result.is_nan() && special.is_nan();
                            if overflows {
                                verdict.unbounded += 1;
                            } else if !same {
                                verdict.wrong(|| format!("{} = {result:e}, expected {special}", place()));
                            }
                            continue;
                        }
                    };
                    let bound = error_bound(op, magnitude);
                    if magnitude.is_infinite() || magnitude + bound > largest {
                        verdict.unbounded += 1;
                        continue;
                    }
                    let error = (result - exact).abs();
                    let units = match error {
                        0.0 => 0.0,
                        _ if error.is_nan() => f64::INFINITY,
                        _ => error / bound,
                    };
                    most = most.max(units);
                    if units > 1.0 {
                        verdict.wrong(|| {
                            format!(
                                "{} = {result:e}, exact {exact:e}, {units:.3} of the bound {bound:e}",
                                place()
                            )
                        });
                    }
                }
            }
        }
        most
    }

    /// Counts how often a second model of the accumulation has the same bits as hardware.
    fn survey(&self, inputs: &[Column], theirs: &Column, verdict: &mut Verdict) {
        if !matches!(self.route, Route::Registers) || self.op.a.is_integer() || self.op.a == Elem::F64 {
            return;
        }
        let [a, b, c, d] = self.fragments();
        let op = Mma { accumulation: Accumulation::Hopper, ..self.op };
        let mut parts: Vec<(String, u64, u64)> =
            KINDS.iter().map(|kind| (format!("{kind}, model `Hopper`"), 0, 0)).collect();
        for tile in 0..TILES {
            let registers = |column: &Column, fragment: &Fragment| -> Vec<Lanes> {
                let words = &column.values[tile * fragment.regs * 32..][..fragment.regs * 32];
                words.chunks(32).map(|lanes| std::array::from_fn(|lane| lanes[lane] as u32)).collect()
            };
            let (a, b, c) = (registers(&inputs[0], &a), registers(&inputs[1], &b), registers(&inputs[2], &c));
            let [a, b, c] = [&a, &b, &c].map(|registers| registers.iter().collect::<Vec<&Lanes>>());
            let mut result = vec![[0; 32]; d.regs];
            tile::mma(&op, &a, &b, &c, &mut result);
            let words = &theirs.values[tile * d.regs * 32..][..d.regs * 32];
            for (ours, theirs) in result.as_flattened().iter().zip(words) {
                let (_, compared, equal) = &mut parts[tile % KINDS.len()];
                *compared += 1;
                let same = u64::from(*ours) == *theirs;
                *equal += u64::from(same);
                if !same && verdict.notes.len() < 8 {
                    verdict.notes.push(format!("tile {tile}: model `Hopper` {ours:08x}, cuda {theirs:08x}"));
                }
            }
        }
        verdict.parts.extend(parts);
    }
}

impl Judge for Product {
    fn against_model(&self, _inputs: &[Column], ours: &[Column]) -> Option<Verdict> {
        let shape = self.op.shape;
        let results = (TILES * usize::from(shape.m) * usize::from(shape.n)) as u64;
        let mut verdict = Verdict { compared: results, ..Verdict::default() };
        let error = self.within_bound("virtual", &ours[0], &mut verdict);
        if !self.op.a.is_integer() {
            verdict.our_error = Some(error);
        }
        verdict.equal = results - verdict.wrong;
        Some(verdict)
    }

    fn against_hardware(&self, inputs: &[Column], ours: &[Column], theirs: &[Column]) -> Verdict {
        let mut verdict = Verdict::default();
        let error = self.within_bound("cuda", &theirs[0], &mut verdict);
        if !self.op.a.is_integer() {
            verdict.their_error = Some(error);
        }
        let mut parts: Vec<(String, u64, u64)> =
            KINDS.iter().map(|kind| ((*kind).to_owned(), 0, 0)).collect();
        for tile in 0..TILES {
            let (a, b) = (self.unpack(&ours[0], tile), self.unpack(&theirs[0], tile));
            let (_, compared, equal) = &mut parts[tile % KINDS.len()];
            *compared += a.codes.len() as u64;
            *equal += a.codes.iter().zip(&b.codes).filter(|(a, b)| a == b).count() as u64;
            let is_exact = self.op.a.is_integer() || KINDS[tile % KINDS.len()] == "small integers";
            if is_exact && a.codes != b.codes {
                verdict.wrong(|| format!("tile {tile}: exact results differ"));
            }
        }
        verdict.compared = parts.iter().map(|part| part.1).sum();
        verdict.equal = parts.iter().map(|part| part.2).sum();
        verdict.parts = parts;
        self.survey(inputs, &theirs[0], &mut verdict);
        verdict
    }
}

fn element_width(elem: Elem) -> Width {
    match elem.bits() {
        64 => Width::B64,
        32 => Width::B32,
        16 => Width::B16,
        _ => Width::B8,
    }
}

fn type_name(elem: Elem) -> &'static str {
    match elem {
        Elem::F16 => "f16",
        Elem::Bf16 => "bf16",
        Elem::Tf32 => "tf32",
        Elem::E4m3 => "e4m3",
        Elem::E5m2 => "e5m2",
        Elem::F32 => "f32",
        Elem::F64 => "f64",
        Elem::S8 => "s8",
        Elem::U8 => "u8",
        Elem::S4 => "s4",
        Elem::U4 => "u4",
        Elem::B1 => "b1",
        Elem::S32 => "s32",
    }
}

fn product(table: &mut Table, name: String, op: Mma, route: Route) {
    table.add(&name.clone(), move || Product { name, op, route }.case());
}

pub fn add(table: &mut Table) {
    mma(table);
    wmma(table);
}

fn mma(table: &mut Table) {
    use Elem::{B1, Bf16, E4m3, E5m2, F16, F32, F64, S4, S8, S32, Tf32, U4, U8};
    let forms: &[(Elem, Elem, &[Elem], &[(u16, u16, u16)])] = &[
        (F16, F16, &[F16, F32], &[(16, 8, 8), (16, 8, 16)]),
        (Bf16, Bf16, &[F32], &[(16, 8, 8), (16, 8, 16)]),
        (Tf32, Tf32, &[F32], &[(16, 8, 4), (16, 8, 8)]),
        (E4m3, E4m3, &[F32, F16], &[(16, 8, 16), (16, 8, 32)]),
        (E4m3, E5m2, &[F32, F16], &[(16, 8, 16), (16, 8, 32)]),
        (E5m2, E4m3, &[F32, F16], &[(16, 8, 16), (16, 8, 32)]),
        (E5m2, E5m2, &[F32, F16], &[(16, 8, 16), (16, 8, 32)]),
        (F64, F64, &[F64], &[(8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)]),
    ];
    for &(a, b, sums, shapes) in forms {
        for &sum in sums {
            for &(m, n, k) in shapes {
                let types = [sum, a, b, sum].map(type_name).join(".");
                let name = format!("mma.sync.aligned.m{m}n{n}k{k}.row.col.{types}");
                product(table, name, Mma::new(Shape::new(m, n, k), a, b, sum, sum), Route::Registers);
            }
        }
    }
    let integers: &[(&[Elem], &[(u16, u16, u16)])] = &[
        (&[S8, U8], &[(8, 8, 16), (16, 8, 16), (16, 8, 32)]),
        (&[S4, U4], &[(8, 8, 32), (16, 8, 32), (16, 8, 64)]),
    ];
    for &(elems, shapes) in integers {
        for &(m, n, k) in shapes {
            for &a in elems {
                for &b in elems {
                    for satfinite in [false, true] {
                        let types = [S32, a, b, S32].map(type_name).join(".");
                        let suffix = if satfinite { ".satfinite" } else { "" };
                        let name = format!("mma.sync.aligned.m{m}n{n}k{k}.row.col{suffix}.{types}");
                        let op = Mma { satfinite, ..Mma::new(Shape::new(m, n, k), a, b, S32, S32) };
                        product(table, name, op, Route::Registers);
                    }
                }
            }
        }
    }
    for (m, n, k) in [(8, 8, 128), (16, 8, 128), (16, 8, 256)] {
        for (word, bit_op) in [("xor", BitOp::Xor), ("and", BitOp::And)] {
            let name = format!("mma.sync.aligned.m{m}n{n}k{k}.row.col.s32.b1.b1.s32.{word}.popc");
            let op = Mma { bit_op, ..Mma::new(Shape::new(m, n, k), B1, B1, S32, S32) };
            product(table, name, op, Route::Registers);
        }
    }
}

fn wmma(table: &mut Table) {
    use Elem::{B1, Bf16, F16, F32, F64, S4, S8, S32, Tf32, U4, U8};
    // Elements smaller than a byte go through registers: their matrices in memory are not supported.
    for (elem, words, k) in [(S4, "", 32), (U4, "", 32), (B1, ".xor.popc", 128), (B1, ".and.popc", 128)] {
        let types = [S32, elem, elem, S32].map(type_name).join(".");
        let name = format!("wmma.mma{words}.sync.aligned.row.col.m8n8k{k}.{types}");
        let bit_op = if words.starts_with(".and") { BitOp::And } else { BitOp::Xor };
        let op = Mma { wmma: true, bit_op, ..Mma::new(Shape::new(8, 8, k), elem, elem, S32, S32) };
        product(table, name, op, Route::Registers);
    }
    const SQUARE: &[(u16, u16, u16)] = &[(16, 16, 16), (32, 8, 16), (8, 32, 16)];
    let forms: &[(Elem, &[(Elem, Elem)], &[(u16, u16, u16)])] = &[
        (F16, &[(F32, F32), (F16, F16), (F32, F16), (F16, F32)], SQUARE),
        (Bf16, &[(F32, F32)], SQUARE),
        (Tf32, &[(F32, F32)], &[(16, 16, 8)]),
        (F64, &[(F64, F64)], &[(8, 8, 4)]),
        (S8, &[(S32, S32)], SQUARE),
        (U8, &[(S32, S32)], SQUARE),
    ];
    for &(elem, sums, shapes) in forms {
        for &(d, c) in sums {
            for (index, &(m, n, k)) in shapes.iter().enumerate() {
                // Every order of a and b with the first shape, one order with the others.
                let orders: &[[bool; 3]] = match index {
                    0 => &[
                        [false, false, false],
                        [false, true, true],
                        [true, false, false],
                        [true, true, true],
                    ],
                    1 => &[[false, true, false]],
                    _ => &[[true, false, true]],
                };
                for &columns in orders {
                    for satfinite in [false, true] {
                        if satfinite && d != S32 {
                            continue;
                        }
                        let types = match elem {
                            F16 => format!("{}.{}", type_name(d), type_name(c)),
                            _ => [d, elem, elem, c].map(type_name).join("."),
                        };
                        let order = |by_columns: bool| if by_columns { "col" } else { "row" };
                        let suffix = if satfinite { ".satfinite" } else { "" };
                        let rounding = if elem == F64 { ".rn" } else { "" };
                        let shape = format!("m{m}n{n}k{k}");
                        let name = format!(
                            "wmma.mma.sync.aligned.{}.{}.{shape}{rounding}.{types}{suffix} stored by {}",
                            order(columns[0]),
                            order(columns[1]),
                            order(columns[2]),
                        );
                        let op =
                            Mma { wmma: true, satfinite, ..Mma::new(Shape::new(m, n, k), elem, elem, c, d) };
                        product(table, name, op, Route::Memory(columns));
                    }
                }
            }
        }
    }
}
