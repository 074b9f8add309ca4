//! Random products of a warpgroup and their expected results. The parity tests also use them.

use random::Random;
use vgpu::num::codec;
use vgpu::num::tile::{self, Elem, Mma, Shape};
use vgpu::tensor_map::Swizzle;

use super::kernels;

/// One product: the bits of its operands, and their layout.
pub struct Product {
    pub a_elem: Elem,
    pub b_elem: Elem,
    pub d_elem: Elem,
    pub n: usize,
    pub a_registers: bool,
    pub a_layout: Layout,
    pub b_layout: Layout,
    pub signs: [i32; 2],
    pub scale: bool,
    /// Rows of a and columns of b, each along k.
    pub a: Vec<Vec<u32>>,
    pub b: Vec<Vec<u32>>,
    /// Rows of c.
    pub c: Vec<Vec<u32>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub swizzle: Swizzle,
    pub mn_major: bool,
    /// Start of the operand within its swizzled lines, in steps of 32 bytes along k. Used only if K-major.
    pub step: u32,
    pub leading: u32,
    pub stride: u32,
}

impl Layout {
    /// Offset of element (`mn`, `k`) of `size` bytes from an aligned base, from the tables of the manual.
    fn offset(&self, mn: u32, k: u32, size: u32) -> u32 {
        let span = match self.swizzle {
            Swizzle::None => 16,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 => 128,
        };
        let per_chunk = 16 / size;
        let linear = match (self.mn_major, self.swizzle) {
            (false, Swizzle::None) => {
                mn / 8 * self.stride + mn % 8 * 16 + k / per_chunk * self.leading + k % per_chunk * size
            }
            (false, _) => mn / 8 * self.stride + mn % 8 * span + 32 * self.step + k * size,
            (true, Swizzle::None) => {
                mn / per_chunk * self.stride + mn % per_chunk * size + k / 8 * self.leading + k % 8 * 16
            }
            (true, _) => {
                let along = span / size;
                mn / along * self.leading + mn % along * size + k / 8 * self.stride + k % 8 * span
            }
        };
        let rows = linear / 128;
        match self.swizzle {
            Swizzle::None => linear,
            Swizzle::B32 => linear ^ (rows & 1) << 4,
            Swizzle::B64 => linear ^ (rows & 3) << 4,
            Swizzle::B128 => linear ^ (rows & 7) << 4,
        }
    }

    pub fn descriptor(&self, base: u32) -> u64 {
        let code = match self.swizzle {
            Swizzle::None => 0,
            Swizzle::B128 => 1,
            Swizzle::B64 => 2,
            Swizzle::B32 => 3,
        };
        let start = base + 32 * self.step;
        u64::from(start >> 4)
            | u64::from(self.leading >> 4) << 16
            | u64::from(self.stride >> 4) << 32
            | code << 62
    }

    /// Returns a random layout for `mn` rows or columns, and its size in bytes.
    fn random(r: &mut Random, mn: u32, elem: Elem) -> (Layout, u32) {
        let swizzle = Swizzle::ALL[r.integer(0, 4) as usize];
        let mn_major = elem.bits() == 16 && r.integer(0, 2) == 1;
        let period = if swizzle == Swizzle::None { 128 } else { 8 * swizzle.span() };
        let gap = |r: &mut Random| period * r.integer(0, 2) as u32;
        let mut layout = Layout { swizzle, mn_major, step: 0, leading: 0, stride: 0 };
        let bytes;
        if mn_major {
            let per_atom = if swizzle == Swizzle::None { 8 } else { swizzle.span() / 2 };
            let atoms = mn.div_ceil(per_atom);
            // Either direction may be the inner one.
            let inner_k = r.integer(0, 2) == 1;
            let (along_mn, along_k) = if inner_k {
                let k = period + gap(r);
                (2 * k + gap(r), k)
            } else {
                let m = period + gap(r);
                (m, atoms * m + gap(r))
            };
            let (leading, stride) =
                if swizzle == Swizzle::None { (along_k, along_mn) } else { (along_mn, along_k) };
            (layout.leading, layout.stride) = (leading, stride);
            bytes = (atoms - 1) * along_mn + along_k + period;
        } else if swizzle == Swizzle::None {
            let groups = mn / 8;
            if r.integer(0, 2) == 1 {
                layout.leading = 128 + gap(r);
                layout.stride = 2 * layout.leading + gap(r);
            } else {
                layout.stride = 128 + gap(r);
                layout.leading = groups * layout.stride + gap(r);
            }
            bytes = (groups - 1) * layout.stride + layout.leading + 128;
        } else {
            layout.step = r.integer(0, i64::from(swizzle.span() / 32)) as u32;
            layout.stride = period + if mn <= 128 { gap(r) } else { 0 };
            layout.leading = 16;
            bytes = mn / 8 * layout.stride + period;
        }
        (layout, bytes)
    }
}

pub fn value(elem: Elem, bits: u32) -> f64 {
    f64::from(match elem {
        Elem::F16 => codec::f16_to_f32(bits & 0xffff),
        Elem::Bf16 => f32::from_bits(bits << 16),
        Elem::Tf32 => f32::from_bits(bits & 0xffff_e000),
        Elem::F32 => f32::from_bits(bits),
        Elem::E4m3 => codec::e4m3_to_f32(bits as u8),
        Elem::E5m2 => codec::e5m2_to_f32(bits as u8),
        Elem::S8 => f32::from(bits as u8 as i8),
        Elem::U8 => f32::from(bits as u8),
        _ => return f64::from(bits as i32),
    })
}

/// Random finite values that span a few binary orders of magnitude.
fn random_bits(r: &mut Random, elem: Elem) -> u32 {
    let x = (r.normal() * f64::exp2(r.integer(-3, 4) as f64)) as f32;
    match elem {
        Elem::F16 => codec::f32_to_f16_rn(x),
        Elem::Bf16 => x.to_bits() >> 16,
        Elem::Tf32 => x.to_bits() & 0xffff_e000,
        Elem::F32 => x.to_bits(),
        // Any code except those of NaN and infinity.
        Elem::E4m3 => loop {
            let code = r.integer(0, 256) as u32;
            if code & 0x7f != 0x7f {
                break code;
            }
        },
        Elem::E5m2 => loop {
            let code = r.integer(0, 256) as u32;
            if code & 0x7c != 0x7c && code & 0x7f < 0x60 {
                break code;
            }
        },
        Elem::S8 | Elem::U8 => r.integer(0, 256) as u32,
        _ => r.integer(-100_000, 100_000) as u32,
    }
}

pub const TYPES: [(Elem, Elem, Elem); 13] = [
    (Elem::F16, Elem::F16, Elem::F32),
    (Elem::F16, Elem::F16, Elem::F16),
    (Elem::Bf16, Elem::Bf16, Elem::F32),
    (Elem::E4m3, Elem::E4m3, Elem::F32),
    (Elem::E4m3, Elem::E5m2, Elem::F32),
    (Elem::E5m2, Elem::E4m3, Elem::F32),
    (Elem::E5m2, Elem::E5m2, Elem::F32),
    (Elem::E4m3, Elem::E4m3, Elem::F16),
    (Elem::Tf32, Elem::Tf32, Elem::F32),
    (Elem::S8, Elem::S8, Elem::S32),
    (Elem::S8, Elem::U8, Elem::S32),
    (Elem::U8, Elem::S8, Elem::S32),
    (Elem::U8, Elem::U8, Elem::S32),
];

/// Returns a random product of a type with `n` columns, and the image of shared memory that holds its operands.
pub fn random_product(
    r: &mut Random,
    (a_elem, b_elem, d_elem): (Elem, Elem, Elem),
    n: usize,
) -> (Product, Vec<u8>, [u64; 2]) {
    let k = 256 / a_elem.bits();
    let size = a_elem.bits() as u32 / 8;
    let (a_layout, a_bytes) = Layout::random(r, 64, a_elem);
    let (b_layout, b_bytes) = Layout::random(r, n as u32, b_elem);
    let matrix = |r: &mut Random, rows: usize, columns: usize, elem| -> Vec<Vec<u32>> {
        (0..rows).map(|_| (0..columns).map(|_| random_bits(r, elem)).collect()).collect()
    };
    let sign = |r: &mut Random| if a_elem.is_integer() || r.integer(0, 4) > 0 { 1 } else { -1 };
    let product = Product {
        a_elem,
        b_elem,
        d_elem,
        n,
        a_registers: r.integer(0, 2) == 1,
        a_layout,
        b_layout,
        signs: [sign(r), sign(r)],
        scale: r.integer(0, 3) > 0,
        a: matrix(r, 64, k, a_elem),
        b: matrix(r, n, k, b_elem),
        c: matrix(r, 64, n, d_elem),
    };
    let b_base = a_bytes.next_multiple_of(1024);
    let mut image = vec![0; (b_base + b_bytes).next_multiple_of(1024) as usize];
    let mut put = |base: u32, layout: &Layout, lines: &[Vec<u32>]| {
        for (mn, line) in lines.iter().enumerate() {
            for (k, bits) in line.iter().enumerate() {
                let at = (base + layout.offset(mn as u32, k as u32, size)) as usize;
                image[at..at + size as usize].copy_from_slice(&bits.to_le_bytes()[..size as usize]);
            }
        }
    };
    put(0, &product.a_layout, &product.a);
    put(b_base, &product.b_layout, &product.b);
    let descriptors = [product.a_layout.descriptor(0), product.b_layout.descriptor(b_base)];
    (product, image, descriptors)
}

impl Product {
    fn name(elem: Elem) -> &'static str {
        match elem {
            Elem::F16 => "f16",
            Elem::Bf16 => "bf16",
            Elem::Tf32 => "tf32",
            Elem::F32 => "f32",
            Elem::E4m3 => "e4m3",
            Elem::E5m2 => "e5m2",
            Elem::S8 => "s8",
            Elem::U8 => "u8",
            _ => "s32",
        }
    }

    pub fn registers(&self) -> usize {
        self.n * self.d_elem.bits() / 64
    }

    pub fn text(&self) -> String {
        let instruction = format!(
            "wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{}",
            self.n,
            256 / self.a_elem.bits(),
            Self::name(self.d_elem),
            Self::name(self.a_elem),
            Self::name(self.b_elem)
        );
        let mut constants = String::new();
        if !self.a_elem.is_integer() {
            constants += &format!(", {}, {}", self.signs[0], self.signs[1]);
        }
        if self.a_elem.bits() == 16 {
            if !self.a_registers {
                constants += &format!(", {}", u8::from(self.a_layout.mn_major));
            }
            constants += &format!(", {}", u8::from(self.b_layout.mn_major));
        }
        kernels::wgmma(&instruction, self.registers(), self.a_registers, &constants)
    }

    /// The registers of a, as `[register][thread]`.
    pub fn a_fragment(&self) -> Vec<u8> {
        let per = 32 / self.a_elem.bits();
        let mut out = Vec::new();
        for register in 0..4 {
            for thread in 0..128 {
                let (warp, lane) = (thread / 32, thread % 32);
                let row = 16 * warp + lane / 4 + 8 * (register % 2);
                let first = (lane % 4 + 4 * (register / 2)) * per;
                let word =
                    (0..per).fold(0u32, |word, e| word | self.a[row][first + e] << (e * self.a_elem.bits()));
                out.extend(word.to_le_bytes());
            }
        }
        out
    }

    /// Row and column of part `part` of register `register` of d in a thread.
    pub fn place(&self, register: usize, thread: usize, part: usize) -> (usize, usize) {
        let (warp, lane) = (thread / 32, thread % 32);
        if self.d_elem == Elem::F16 {
            (16 * warp + lane / 4 + 8 * (register % 2), register / 2 * 8 + 2 * (lane % 4) + part)
        } else {
            (16 * warp + lane / 4 + 8 * (register / 2 % 2), register / 4 * 8 + 2 * (lane % 4) + register % 2)
        }
    }

    pub fn c_fragment(&self) -> Vec<u8> {
        let parts = 32 / self.d_elem.bits();
        let mut out = Vec::new();
        for register in 0..self.registers() {
            for thread in 0..128 {
                let word = (0..parts).fold(0u32, |word, part| {
                    let (row, column) = self.place(register, thread, part);
                    word | self.c[row][column] << (16 * part)
                });
                out.extend(word.to_le_bytes());
            }
        }
        out
    }

    /// The largest error of a result, in units of the documented bound. An error above 1 is a failure.
    pub fn error(&self, out: &[u8]) -> f64 {
        let parts = 32 / self.d_elem.bits();
        let k = 256 / self.a_elem.bits();
        let form = Mma::new(Shape::new(16, 8, k as u16), self.a_elem, self.b_elem, self.d_elem, self.d_elem);
        let mut worst: f64 = 0.0;
        for register in 0..self.registers() {
            for thread in 0..128 {
                let at = 4 * (register * 128 + thread);
                let word = u32::from_le_bytes(out[at..at + 4].try_into().unwrap());
                for part in 0..parts {
                    let (row, column) = self.place(register, thread, part);
                    let bits = if parts == 2 { word >> (16 * part) & 0xffff } else { word };
                    let mut exact = if self.scale { value(self.d_elem, self.c[row][column]) } else { 0.0 };
                    let mut magnitude = exact.abs();
                    for (x, y) in self.a[row].iter().zip(&self.b[column]) {
                        let term = value(self.a_elem, *x) * value(self.b_elem, *y);
                        exact += f64::from(self.signs[0] * self.signs[1]) * term;
                        magnitude += term.abs();
                    }
                    let got = value(self.d_elem, bits);
                    let bound = tile::error_bound(&form, magnitude);
                    let overflows = self.d_elem == Elem::F16 && magnitude > 60000.0;
                    if got == exact || overflows {
                        continue;
                    }
                    let error = (got - exact).abs() / bound;
                    worst = worst.max(if error.is_finite() { error } else { f64::MAX });
                }
            }
        }
        worst
    }

    pub fn describe(&self) -> String {
        format!(
            "{:?} {:?} {:?} n{} registers {} a {:?} b {:?} signs {:?} scale {}",
            self.d_elem,
            self.a_elem,
            self.b_elem,
            self.n,
            self.a_registers,
            self.a_layout,
            self.b_layout,
            self.signs,
            self.scale
        )
    }
}
