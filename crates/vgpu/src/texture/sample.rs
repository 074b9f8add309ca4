//! Which texels a fetch reads, and with which weights, as the CUDA programming guide says ("Texture Fetching").

use super::{Address, Filter, Texture};

/// The weight of a filter has 8 bits of fraction.
const WEIGHT_ONE: i64 = 256;

/// One dimension of a fetch: up to two texels, each with its weight in 256ths. `None` is outside the texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub texels: [Option<u32>; 2],
    pub weights: [u32; 2],
}

impl Axis {
    /// One texel.
    pub fn single(texel: Option<u32>) -> Axis {
        Axis { texels: [texel; 2], weights: [WEIGHT_ONE as u32, 0] }
    }
}

impl Texture {
    /// The texels along one dimension at a coordinate. `extent` is the number of texels in this dimension. `Linear` reads
    /// the two texels whose centres are nearest.
    pub(crate) fn along(&self, coordinate: f32, extent: u32, filter: Filter) -> Axis {
        let scale = if self.normalised { f64::from(extent) } else { 1.0 };
        // Far outside, every mode gives the same texel as nearer outside, or none is more right than another.
        let x = (f64::from(coordinate) * scale).clamp(-1e12, 1e12);
        match filter {
            Filter::Point => Axis::single(self.inside(x.floor() as i64, extent)),
            Filter::Linear => {
                // The hardware rounds the coordinate to 256ths before it separates the texel from the weight.
                let fixed = ((x - 0.5) * WEIGHT_ONE as f64).round_ties_even() as i64;
                let (first, weight) = (fixed.div_euclid(WEIGHT_ONE), fixed.rem_euclid(WEIGHT_ONE));
                Axis {
                    texels: [self.inside(first, extent), self.inside(first + 1, extent)],
                    weights: [(WEIGHT_ONE - weight) as u32, weight as u32],
                }
            }
        }
    }

    /// The texel that the address mode reads for a texel number. `None` is the border.
    fn inside(&self, texel: i64, extent: u32) -> Option<u32> {
        let n = i64::from(extent);
        let texel = match self.address {
            Address::Clamp => texel.clamp(0, n - 1),
            Address::Border => return u32::try_from(texel).ok().filter(|texel| *texel < extent),
            Address::Wrap => texel.rem_euclid(n),
            Address::Mirror => {
                let twice = texel.rem_euclid(2 * n);
                twice.min(2 * n - 1 - twice)
            }
        };
        Some(texel as u32)
    }

    /// The layer of a layered texture: the nearest one that exists.
    pub(crate) fn layer(&self, layer: u32) -> u32 {
        layer.min(self.extents[2] - 1)
    }

    /// The offset in bytes of a texel.
    pub(crate) fn offset(&self, [x, y, z]: [u32; 3]) -> u64 {
        let [width, height, _] = self.extents.map(u64::from);
        (u64::from(x) + width * (u64::from(y) + height * u64::from(z))) * self.texel_bytes()
    }
}

/// The texels of all dimensions together with the product of their weights. Texels without weight are left out.
pub(crate) fn corners(axes: &[Axis; 3]) -> impl Iterator<Item = (Option<[u32; 3]>, f64)> + '_ {
    (0..8usize).filter_map(|corner| {
        let side = |axis: usize| corner >> axis & 1;
        let weight = (0..3).map(|axis| f64::from(axes[axis].weights[side(axis)])).product::<f64>();
        let texel = |axis: usize| axes[axis].texels[side(axis)];
        let place = match (texel(0), texel(1), texel(2)) {
            (Some(x), Some(y), Some(z)) => Some([x, y, z]),
            _ => None,
        };
        (weight > 0.0).then_some((place, weight / (WEIGHT_ONE * WEIGHT_ONE * WEIGHT_ONE) as f64))
    })
}
