//! The E4M3 quantiser: a scale per head maps the head's largest element to 448, the largest number of the format.
//!
//! `scale = absmax / 448`, in fp32. A head whose absmax is at most 1e-6 is not scaled and gets 1.0. Codes are `x /
//! scale` rounded to nearest even, saturating. Kernels and the virtual GPU use the same codec.

use vgpu::num::codec;

use crate::tensor::Values;

/// E4M3's largest finite number.
pub const LARGEST: f32 = 448.0;

/// Heads without an element above this are not scaled.
pub const NEGLIGIBLE: f32 = 1e-6;

/// Values as codes with a scale per head.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantised {
    /// Codes, in the order of the values.
    pub codes: Vec<u8>,
    /// One scale per head and batch entry.
    pub scales: Vec<f32>,
}

/// The scale of one head. Infinities do not count, because they saturate.
pub fn scale_of(head: &[f32]) -> f32 {
    let finite = head.iter().map(|x| x.abs()).filter(|x| x.is_finite());
    let absmax = finite.fold(0.0, f32::max);
    if absmax <= NEGLIGIBLE { 1.0 } else { absmax / LARGEST }
}

/// Quantises values to codes.
pub fn quantise(values: &Values) -> Quantised {
    let scaled = scaled(values);
    Quantised {
        codes: scaled.data.iter().map(|&x| codec::f32_to_e4m3(x)).collect(),
        scales: scaled.scales.unwrap_or_default(),
    }
}

/// The values divided by their head's scale, not yet rounded to codes, with the scales.
pub(crate) fn scaled(values: &Values) -> Values {
    let mut data = values.data.clone();
    let heads = data.chunks_exact_mut(values.shape.head_elements().max(1));
    let scales = heads
        .map(|head| {
            let scale = scale_of(head);
            for x in head {
                *x /= scale;
            }
            scale
        })
        .collect();
    Values { shape: values.shape, data, scales: Some(scales) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::{Class, Inputs};
    use crate::problem::{Dtype, Problem};
    use crate::tensor::Shape;

    fn one_head(data: Vec<f32>) -> Values {
        let shape = Shape { batch: 1, heads: 1, seq: data.len(), head_dim: 1 };
        Values { shape, data, scales: None }
    }

    /// The numbers that the codes represent.
    fn values(quantised: &Quantised, head: usize) -> Vec<f64> {
        let scale = f64::from(quantised.scales[head]);
        quantised.codes.iter().map(|&code| f64::from(codec::e4m3_to_f32(code)) * scale).collect()
    }

    #[test]
    fn all_256_codes_round_trip() {
        for code in 0..=255_u8 {
            let value = codec::e4m3_to_f32(code);
            if code & 0x7f == 0x7f {
                assert!(value.is_nan());
                assert_eq!(codec::f32_to_e4m3(value), 0x7f);
            } else {
                assert_eq!(codec::f32_to_e4m3(value), code);
            }
        }
        // The same through the quantiser: a head that contains all finite codes has scale 1.
        let codes: Vec<u8> = (0..=255).filter(|code| code & 0x7f != 0x7f).collect();
        let head = one_head(codes.iter().map(|&code| codec::e4m3_to_f32(code)).collect());
        assert_eq!(quantise(&head), Quantised { codes, scales: vec![1.0] });
    }

    #[test]
    fn a_zero_head_has_scale_one_and_zero_codes() {
        for data in [vec![0.0; 8], vec![1e-6, -1e-6, 0.0, 5e-7]] {
            let quantised = quantise(&one_head(data));
            assert_eq!(quantised.scales, [1.0]);
            assert!(quantised.codes.iter().all(|&code| codec::e4m3_to_f32(code) == 0.0));
        }
        assert_eq!(quantise(&one_head(vec![2e-6])).codes, [0x7e]);
    }

    #[test]
    fn every_head_has_its_own_scale() {
        let shape = Shape { batch: 2, heads: 2, seq: 1, head_dim: 2 };
        let data = vec![448.0, 1.0, -4.48, 0.01, 0.0, 0.0, 896.0, -896.0];
        let quantised = quantise(&Values { shape, data, scales: None });
        assert_eq!(quantised.scales, [1.0, 4.48 / 448.0, 1.0, 2.0]);
        assert_eq!(quantised.codes, [0x7e, 0x38, 0xfe, 0x38, 0, 0, 0x7e, 0xfe]);
    }

    #[test]
    fn rounding_is_to_nearest_even_and_saturates() {
        // 17 is halfway between 16 (0x58) and 18 (0x59) and goes to the even code. 19 is between 18 and 20 and goes
        // to 20.
        let quantised = quantise(&one_head(vec![448.0, 17.0, 19.0, -17.0, f32::INFINITY, f32::NEG_INFINITY]));
        assert_eq!(quantised.scales, [1.0]);
        assert_eq!(quantised.codes, [0x7e, 0x58, 0x5a, 0xd8, 0x7e, 0xfe]);
        assert_eq!(quantise(&one_head(vec![f32::NAN, 1.0])).codes, [0x7f, 0x7e]);
    }

    #[test]
    fn quantisation_has_no_bias() {
        let problem = Problem::new(1, 1, 4096, 64, Dtype::E4m3);
        for class in [Class::Normal, Class::Uniform, Class::Large] {
            let head = Inputs::generate(&problem, class, 11).q;
            let quantised = quantise(&head);
            let decoded = values(&quantised, 0);
            let signed: f64 = decoded.iter().zip(&head.data).map(|(after, &x)| after - f64::from(x)).sum();
            let range = f64::from(quantised.scales[0] * LARGEST);
            let mean = signed / decoded.len() as f64 / range;
            assert!(mean.abs() < 1e-4, "{class}: mean signed error {mean:e} of the range");
        }
    }

    #[test]
    fn errors_stay_within_half_a_step() {
        let head = Inputs::generate(&Problem::new(1, 1, 512, 64, Dtype::E4m3), Class::Normal, 5).q;
        let quantised = quantise(&head);
        let scale = f64::from(quantised.scales[0]);
        for (after, &x) in values(&quantised, 0).iter().zip(&head.data) {
            let x = f64::from(x);
            // With three fraction bits, half a step is 2^-4 of the power of two below; subnormal steps are 2^-9.
            let half_step = (x.abs() / 16.0).max(scale / 1024.0);
            assert!((after - x).abs() <= half_step * 1.000_001, "{x} became {after}");
        }
    }
}
