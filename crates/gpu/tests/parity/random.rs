//! Operands: edge values, and random ones that coincide, cancel, overflow and tie more often than random bits would.

use crate::kernel::{Column, Width};

/// SplitMix64: gives the same operands on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Seeded by the case's name, so that a case keeps its operands whichever other cases run.
    pub fn for_name(name: &str) -> Self {
        let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Rng(name.bytes().fold(0xcbf2_9ce4_8422_2325, fnv))
    }

    pub fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn u32(&mut self) -> u32 {
        (self.u64() >> 32) as u32
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.u64() % n
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.u64() >> 11) as f64 * f64::exp2(-53.0)
    }

    /// Approximately normal(0, 1), which is sufficient for tiles: the sum of twelve uniform numbers.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// The meaning of an operand's bits; it decides the edge values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int,
    /// Shift amounts, bit positions, lengths and selectors: small numbers.
    Small,
    F16,
    Bf16,
    F32,
    F64,
}

const EDGES_F32: &[u32] = &[
    0,
    0x8000_0000,
    0x3f80_0000,
    0xbf80_0000,
    1,
    0x8000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x8080_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fff_ffff,
    0x7fc0_0000,
    0xff81_2345,
    0x7f80_0001,
    0x3f00_0000,
    0x4000_0000,
    0x4040_0000,
    0x3f7f_ffff,
    0x3f80_0001,
    0x4b80_0000,
    0x477f_e000,
    0x477f_f000,
    0x4049_0fdb,
    0x4f00_0000,
    0xcf00_0000,
    0x4f80_0000,
    0x5f00_0000,
    0x5f80_0000,
    0x3fc0_0000,
    0x3eaa_aaab,
    0x0100_0000,
    // Reciprocals and products of these are near the smallest normal number.
    0x7e7f_ffff,
    0x0080_0001,
    0x7e80_0001,
    0xfe80_0003,
];

const EDGES_F64: &[u64] = &[
    0,
    1 << 63,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    1,
    0x8000_0000_0000_0001,
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0xffef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x7ff8_0000_0000_0000,
    0xfff0_1234_5678_9abc,
    0x7ff0_0000_0000_0001,
    0x3fe0_0000_0000_0000,
    0x4000_0000_0000_0000,
    0x3ff0_0000_0000_0001,
    0x3fef_ffff_ffff_ffff,
    0x4330_0000_0000_0000,
    0x41e0_0000_0000_0000,
    0xc1e0_0000_0000_0000,
    0x43e0_0000_0000_0000,
    0x43f0_0000_0000_0000,
    0x47ef_ffff_e000_0000,
    0x47ef_ffff_f000_0000,
    0x3690_0000_0000_0000,
    0x3800_0000_0000_0000,
    0x400921fb54442d18,
    0x3ff8_0000_0000_0000,
];

const EDGES_F16: &[u64] = &[
    0, 0x8000, 1, 0x8001, 0x03ff, 0x0400, 0x8400, 0x3c00, 0xbc00, 0x3c01, 0x3bff, 0x3800, 0x4000, 0x4200,
    0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7fff, 0x7e00, 0xfd23, 0x3555, 0x5bf8, 0x1400,
];

const EDGES_BF16: &[u64] = &[
    0, 0x8000, 1, 0x8001, 0x007f, 0x0080, 0x8080, 0x3f80, 0xbf80, 0x3f81, 0x3f7f, 0x3f00, 0x4000, 0x4040,
    0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fff, 0x7fc0, 0xffa3, 0x3eab, 0x4b80, 0x0100,
];

/// Edge values that are worth combining with each other.
pub fn edges(kind: Kind, width: Width) -> Vec<u64> {
    let bits = width.bits();
    let mask = width.mask();
    match (kind, width) {
        (Kind::F64, _) => EDGES_F64.to_vec(),
        (Kind::F32, _) => EDGES_F32.iter().map(|&bits| u64::from(bits)).collect(),
        (Kind::F16, Width::B16) => EDGES_F16.to_vec(),
        (Kind::Bf16, Width::B16) => EDGES_BF16.to_vec(),
        // Packed halves: each edge with its neighbour in the list as the upper half.
        (Kind::F16 | Kind::Bf16, _) => {
            let halves = if kind == Kind::F16 { EDGES_F16 } else { EDGES_BF16 };
            let shifted = halves.iter().cycle().skip(5);
            halves.iter().zip(shifted).map(|(low, high)| low | high << 16).collect()
        }
        (Kind::Small, _) => {
            vec![0, 1, 2, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 0xffff_ffff]
        }
        (Kind::Int, _) => {
            let sign = 1 << (bits - 1);
            let patterns =
                [0x5555_5555_5555_5555, 0x0123_4567_89ab_cdef, 0x8080_7f7f_8080_7f7f, 0x00ff_00ff_ff00_0001];
            let near = [0, 1, 2, 3, 7, 10, 127, 128, 255, 256, sign - 1, sign, sign + 1, mask - 1, mask];
            near.into_iter().chain(patterns).map(|value: u64| value & mask).collect()
        }
    }
}

/// One operand.
pub fn operand(rng: &mut Rng, kind: Kind, width: Width) -> u64 {
    let bits = match (kind, width) {
        (Kind::Small, _) => match rng.below(4) {
            0 => rng.below(1 << 10),
            1 => u64::from(rng.u32()),
            _ => rng.below(70),
        },
        (Kind::Int, _) => match rng.below(4) {
            // Any magnitude, either sign.
            0 => (rng.u64() as i64 >> rng.below(64)) as u64,
            1 => (rng.u64() >> rng.below(64)).wrapping_neg(),
            _ => rng.u64(),
        },
        (Kind::F32, _) => u64::from(match rng.below(8) {
            0 => EDGES_F32[rng.below(EDGES_F32.len() as u64) as usize],
            1 => rng.u32() & 0x80ff_ffff,
            2..5 => rng.u32() & 0x83ff_ffff | 0x3c00_0000,
            // Few significant bits produce ties.
            5 => rng.u32() & 0xffff_e000 | (rng.u32() & 3) << 11,
            _ => rng.u32(),
        }),
        (Kind::F64, _) => match rng.below(8) {
            0 => EDGES_F64[rng.below(EDGES_F64.len() as u64) as usize],
            1 => rng.u64() & 0x801f_ffff_ffff_ffff,
            2..5 => rng.u64() & 0x807f_ffff_ffff_ffff | 0x3f80_0000_0000_0000,
            5 => f64::from(f32::from_bits(rng.u32())).to_bits(),
            _ => rng.u64(),
        },
        (Kind::F16 | Kind::Bf16, Width::B16) => half(rng, kind),
        (Kind::F16 | Kind::Bf16, _) => half(rng, kind) | half(rng, kind) << 16,
    };
    bits & width.mask()
}

fn half(rng: &mut Rng, kind: Kind) -> u64 {
    let (edges, near) = if kind == Kind::F16 { (EDGES_F16, 0x3000) } else { (EDGES_BF16, 0x3c00) };
    match rng.below(8) {
        0 => edges[rng.below(edges.len() as u64) as usize],
        1..4 => rng.u64() & 0x8fff | near,
        _ => rng.u64() & 0xffff,
    }
}

/// Edge values combined with each other, then random operands. A single operand of 16 bits or less takes every code.
pub fn operands(rng: &mut Rng, sources: &[(Kind, Width)], random: usize) -> Vec<Column> {
    if let [(_, width @ (Width::B8 | Width::B16))] = sources {
        return vec![Column::new(*width, (0..=width.mask()).collect())];
    }
    let edges: Vec<Vec<u64>> = sources
        .iter()
        .map(|&(kind, width)| {
            let all = edges(kind, width);
            // Three and more operands would make too many combinations, so only every other edge is used.
            let step = if sources.len() > 2 { 2 } else { 1 };
            all.into_iter().step_by(step).collect()
        })
        .collect();
    let crossed: usize = edges.iter().map(Vec::len).product();
    let mut columns = Vec::new();
    let mut stride = 1;
    for (edges, &(kind, width)) in edges.iter().zip(sources) {
        let mut values: Vec<u64> =
            (0..crossed).map(|i| edges[i / stride % edges.len()] & width.mask()).collect();
        stride *= edges.len();
        values.extend((0..random).map(|_| operand(rng, kind, width)));
        columns.push(Column::new(width, values));
    }
    columns
}
