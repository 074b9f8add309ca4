//! Compares the oracle with PyTorch's float64 scaled_dot_product_attention, on cases computed once by
//! `data/make_cases.py`.

use serde::Deserialize;
use warpsmith_attention::inputs::ServingInputs;
use warpsmith_attention::oracle::{self, Rows};
use warpsmith_attention::{Inputs, Problem, Shape, Values};

#[derive(Deserialize)]
struct File {
    torch: String,
    input_unit: f32,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    problem: String,
    q: Vec<i32>,
    k: Vec<i32>,
    v: Vec<i32>,
    output: Vec<f64>,
    lse: Vec<Option<f64>>,
}

#[test]
fn the_oracle_agrees_with_pytorch() {
    let file: File = serde_json::from_str(include_str!("../data/cases.json")).expect("cases.json is valid");
    assert!(file.cases.len() >= 12, "made by PyTorch {}", file.torch);
    for case in &file.cases {
        let problem: Problem = case.problem.parse().expect("a valid name");
        let values = |numbers: &[i32], shape: Shape| {
            assert_eq!(numbers.len(), shape.elements(), "{problem}");
            let data = numbers.iter().map(|&number| number as f32 * file.input_unit).collect();
            Values { shape, data, scales: None }
        };
        let inputs = Inputs {
            q: values(&case.q, problem.query_shape()),
            k: values(&case.k, problem.key_shape()),
            v: values(&case.v, problem.key_shape()),
            serving: ServingInputs::default(),
        };
        let ours = oracle::attention(&problem, &inputs, Rows::all(&problem));
        assert_eq!(ours.output.len(), case.output.len(), "{problem}");
        for (index, (a, b)) in ours.output.iter().zip(&case.output).enumerate() {
            assert!((a - b).abs() < 1e-13, "{problem}: output {index}: {a}, PyTorch {b}");
        }
        for (index, (&a, b)) in ours.lse.iter().zip(&case.lse).enumerate() {
            let b = b.unwrap_or(f64::NEG_INFINITY);
            assert!(a == b || (a - b).abs() < 1e-13, "{problem}: lse {index}: {a}, PyTorch {b}");
        }
    }
}
