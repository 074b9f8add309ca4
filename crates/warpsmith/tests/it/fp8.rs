//! `fp8`: the table, the document, and what it refuses.

use serde_json::Value;

use crate::common::{run, warpsmith};

const SMALL: [&str; 5] = ["fp8", "--problem", "b1h1sq16sk70d64-bf16", "--class", "normal"];

#[test]
fn every_way_to_quantise_has_a_row_with_errors_and_modelled_times() {
    let outcome = run(warpsmith().args(SMALL).args(["--device", "virtual:h200", "--json"]));
    assert_eq!(outcome.code, 0, "{outcome}");
    let document: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let rows = document["rows"].as_array().unwrap();
    let way = |row: &Value| (row["scales"].as_str().map(str::to_owned), row["rotate"].as_bool());
    let (head, block) = (Some("head".to_owned()), Some("block".to_owned()));
    let wanted = [
        (None, None),
        (head.clone(), Some(false)),
        (head, Some(true)),
        (block.clone(), Some(false)),
        (block, Some(true)),
    ];
    assert_eq!(rows.iter().map(way).collect::<Vec<_>>(), wanted, "{outcome}");
    for row in &rows[1..] {
        assert!(row["relative_l2"].as_f64().unwrap() < 0.08, "{row}");
        let time = |part: &str| row[part]["modelled_us"].as_f64().unwrap();
        assert!((time("quantise") + time("attention") - time("total")).abs() < 1e-9, "{row}");
    }
}

#[test]
fn a_gpu_without_scales_per_block_says_so() {
    let on_l4 = |more: &[&str]| run(warpsmith().args(SMALL).args(["--device", "virtual:l4"]).args(more));
    let reason = "the kernels of mma, which this GPU runs, have scales per head only";
    let outcome = on_l4(&[]);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(outcome.stdout.contains("per head") && !outcome.stdout.contains("per block"), "{outcome}");
    assert!(outcome.stdout.contains(&format!("not run: {reason}")), "{outcome}");
    let outcome = on_l4(&["--scales", "block"]);
    assert_eq!(outcome.code, 2, "{outcome}");
    assert!(outcome.stderr.contains(reason), "{outcome}");
}

#[test]
fn other_problems_and_inputs_are_refused() {
    let refused = |arguments: &[&str], message: &str| {
        let outcome = run(warpsmith().arg("fp8").args(arguments));
        assert_eq!(outcome.code, 2, "{outcome}");
        assert!(outcome.stderr.contains(message), "{outcome}");
    };
    refused(&["--problem", "mission-e4m3"], "b1h8s512d64-e4m3 is in FP8 already");
    refused(&["--op", "softmax"], "unexpected argument '--op' found");
    refused(&["--class", "tiny"], "expected one of normal, outliers, sink");
    refused(
        &["--problem", "b1h1s16d80", "--rotate", "true", "--device", "virtual:h200"],
        "head_dim is 80, but a rotation needs a power of two",
    );
}
