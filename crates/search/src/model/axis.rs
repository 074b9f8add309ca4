//! Where a parameter's values lie, for measuring how far two of them are apart.

use crate::space::Parameter;

/// A parameter's values as coordinates between 0 and 1, or as things that are merely different.
#[derive(Clone, Debug)]
pub struct Axis {
    /// By pairs of positions, row by row.
    distances: Vec<f64>,
    values: usize,
}

impl Axis {
    pub fn of(parameter: &Parameter) -> Self {
        let values = parameter.values.len();
        let numbers: Option<Vec<f64>> = parameter.values.iter().map(crate::Value::number).collect();
        let mode = crate::strategies::knob("COORD", 1.0) as i32;
        let coordinates = numbers.map(|numbers| {
            let (low, high) =
                numbers.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &number| {
                    (low.min(number), high.max(number))
                });
            let log: Vec<f64> = if low > 0.0 && high / low >= 4.0 && mode >= 1 {
                numbers.iter().map(|n| n.ln()).collect()
            } else {
                numbers.clone()
            };
            let scale = |v: &Vec<f64>| -> Vec<f64> {
                let lo = v.iter().copied().fold(f64::INFINITY, f64::min);
                let hi = v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                v.iter().map(|x| if hi > lo { (x - lo) / (hi - lo) } else { 0.0 }).collect()
            };
            let index: Vec<f64> = (0..values).map(|i| i as f64).collect();
            match mode {
                1 => scale(&log),
                2 => scale(&log).iter().zip(scale(&index)).map(|(a, b)| 0.5 * (a + b)).collect(),
                3 => scale(&index),
                _ => scale(&numbers),
            }
        });
        let distance = |a: usize, b: usize| match &coordinates {
            Some(at) => (at[a] - at[b]).abs(),
            None => f64::from(u8::from(a != b)),
        };
        let pairs = (0..values).flat_map(|a| (0..values).map(move |b| (a, b)));
        Axis { distances: pairs.map(|(a, b)| distance(a, b)).collect(), values }
    }

    pub fn values(&self) -> usize {
        self.values
    }

    pub fn distances(&self) -> &[f64] {
        &self.distances
    }
}
