//! Measures the time to build a space of ten million raw combinations: `space-construction`.

use std::cell::Cell;
use std::time::Instant;

use search::space::{Constraint, Parameter, Space};

pub fn run() -> Result<(), Box<dyn std::error::Error>> {
    // A GEMM's knobs: 8 * 8 * 8 * 8 * 8 * 8 * 5 * 4 * 2 = 10,485,760.
    let sizes = [8, 16, 32, 64, 128, 256, 512, 1024];
    let mut parameters: Vec<Parameter> =
        ["M", "N", "K", "DIM_M", "DIM_N", "VECTOR"].map(|name| Parameter::new(name, sizes)).into();
    parameters.push(Parameter::new("STAGES", 1..=5));
    parameters.push(Parameter::new("WARPS", [1, 2, 4, 8]));
    parameters.push(Parameter::new("SWIZZLE", [0, 1]));
    let calls = Cell::new(0_u64);
    let rule = |over: &[usize], holds: fn(&[f64]) -> bool| {
        let calls = &calls;
        Constraint::new(over, move |values| {
            calls.set(calls.get() + 1);
            holds(&values.iter().filter_map(|value| value.number()).collect::<Vec<_>>())
        })
    };
    let tight = [
        rule(&[0, 3], |v| v[0] % v[1] == 0.0),
        rule(&[1, 4], |v| v[0] % v[1] == 0.0),
        rule(&[3, 4], |v| v[0] * v[1] <= 1024.0),
        rule(&[0, 1, 2, 6], |v| (v[0] + v[1]) * v[2] * v[3] * 2.0 <= 100_000.0),
        rule(&[2, 5], |v| v[0] % v[1] == 0.0),
    ];
    let loose = [rule(&[6, 8], |v| v[0] > 1.0 || v[1] == 0.0)];
    for (name, constraints) in [("five constraints", &tight[..]), ("one constraint", &loose), ("none", &[])] {
        calls.set(0);
        let start = Instant::now();
        let space = Space::new(parameters.clone(), constraints)?;
        println!(
            "{name}: {} raw combinations, {} allowed, {} calls of predicates, {:.3} s",
            space.raw_len(),
            space.len(),
            calls.get(),
            start.elapsed().as_secs_f64()
        );
    }
    Ok(())
}
