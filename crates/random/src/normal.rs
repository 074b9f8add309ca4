//! Normal numbers by the ziggurat method of Marsaglia and Tsang: 256 layers of equal area cover the density. A point
//! within the part of its layer that lies below the density is accepted without computing the density; this happens for
//! 99 numbers of 100.

use std::sync::LazyLock;

use crate::Random;

const LAYERS: usize = 256;
/// Where the tail begins.
const TAIL: f64 = 3.654_152_885_361_009;
/// The area of a layer. The lowest layer contains the tail.
const AREA: f64 = 0.004_928_673_233_974_658;

/// The edges of the layers.
struct Layers {
    /// The right edges, from the widest layer to 0. The lowest layer is as wide as a rectangle of its area and height.
    right: [f64; LAYERS + 1],
    /// The density at the right edges.
    density: [f64; LAYERS + 1],
}

static LAYER_TABLE: LazyLock<Layers> = LazyLock::new(|| {
    let mut right = [0.0; LAYERS + 1];
    (right[0], right[1]) = (AREA / density(TAIL), TAIL);
    for layer in 2..LAYERS {
        let below = right[layer - 1];
        right[layer] = (-2.0 * (AREA / below + density(below)).ln()).sqrt();
    }
    Layers { right, density: right.map(density) }
});

/// The normal density, without its constant factor.
fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp()
}

/// The normal number that 64 random bits determine. If these bits do not suffice, others are derived from them, so that
/// a number always takes one draw of its sequence.
pub fn from_bits(bits: u64) -> f64 {
    let layers = &*LAYER_TABLE;
    let layer = bits as usize % LAYERS;
    // The upper 53 bits are independent of the layer: uniform in [-1, 1).
    let position = (bits.cast_signed() >> 11) as f64 / (1_u64 << 52) as f64;
    let x = position * layers.right[layer];
    if x.abs() < layers.right[layer + 1] { x } else { at_the_edge(layers, layer, x, Random::new(bits)) }
}

/// Decides about a point that lies beyond the next layer's edge: in the tail, below the density or above it.
#[cold]
fn at_the_edge(layers: &Layers, layer: usize, x: f64, mut more: Random) -> f64 {
    if layer == 0 {
        return tail(&mut more).copysign(x);
    }
    let [low, high] = [layers.density[layer], layers.density[layer + 1]];
    if low + (high - low) * more.uniform() < density(x) { x } else { more.normal() }
}

/// A number above [`TAIL`], by Marsaglia's method for the tail.
fn tail(more: &mut Random) -> f64 {
    loop {
        // 1 - u is in (0, 1], so the logarithm is finite.
        let [beyond, height] = [(); 2].map(|()| -(1.0 - more.uniform()).ln());
        let beyond = beyond / TAIL;
        if 2.0 * height > beyond * beyond {
            return TAIL + beyond;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layers_have_equal_areas() {
        let Layers { right, density } = &*LAYER_TABLE;
        for layer in 1..LAYERS {
            let area = right[layer] * (density[layer + 1] - density[layer]);
            assert!((area / AREA - 1.0).abs() < 1e-9, "{layer}: {area}");
        }
    }

    #[test]
    fn the_distribution_is_normal() {
        // Probabilities of |x| below these values. The last lie in the tail.
        let expected = [(0.1, 0.079_655_7), (0.5, 0.382_924_9), (1.0, 0.682_689_5), (2.0, 0.954_499_7)];
        let rare = [(3.0, 2.699_796e-3), (TAIL, 2.580_2e-4), (4.0, 6.334_2e-5), (4.5, 6.795e-6)];
        let mut random = Random::new(11);
        let count = 8_000_000_u32;
        let numbers: Vec<f64> = (0..count).map(|_| random.normal()).collect();
        let share = |holds: &dyn Fn(f64) -> bool| {
            numbers.iter().filter(|x| holds(x.abs())).count() as f64 / f64::from(count)
        };
        // Five standard deviations of the share.
        let within = |share: f64, p: f64| (share - p).abs() < 5.0 * (p * (1.0 - p) / f64::from(count)).sqrt();
        for (value, p) in expected {
            assert!(within(share(&|x| x < value), p), "below {value}: {}", share(&|x| x < value));
        }
        for (value, p) in rare {
            assert!(within(share(&|x| x > value), p), "above {value}: {}", share(&|x| x > value));
        }
        let mean = numbers.iter().sum::<f64>() / f64::from(count);
        let fourth = numbers.iter().map(|x| x.powi(4)).sum::<f64>() / f64::from(count);
        assert!(mean.abs() < 0.002 && (fourth - 3.0).abs() < 0.02, "{mean} {fourth}");
    }
}
