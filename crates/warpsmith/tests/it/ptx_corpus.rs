//! Runs the PTX of other projects' compilers (`corpus/ptx`) with `sanitize`: no finding, and the outputs of numpy.

#[allow(dead_code, reason = "the program reads and compares the files itself")]
#[path = "../../../../corpus/ptx/cases.rs"]
mod cases;

use std::fmt::Write as _;

use cases::Case;

use crate::common::{run, skipped, target_tmp, warpsmith};

/// The flags of `sanitize` for a case. Parameter `n` is called `an`.
fn flags(case: &Case) -> Vec<String> {
    let extent = |[x, y, z]: [u32; 3]| format!("{x},{y},{z}");
    let mut flags = vec![
        case.ptx.display().to_string(),
        format!("--kernel={}", case.kernel),
        format!("--grid={}", extent(case.grid)),
        format!("--block={}", extent(case.block)),
        format!("--shared={}", case.shared),
    ];
    let (mut rtol, mut atol) = (0f64, 0f64);
    for (n, argument) in case.arguments.iter().enumerate() {
        let (element, count) = (&argument.element, argument.count);
        let file = argument.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
        let form = match argument.role.as_str() {
            "value" => format!("{element}={}", argument.value.as_ref().unwrap()),
            "read" => file,
            "update" => format!("inout,{file}"),
            "write" => format!("out,{element}[{count}]"),
            _ => format!("scratch,{element}[{count}]"),
        };
        flags.push(format!("--arg=a{n}={form}"));
        if let Some((file, relative, absolute)) = &argument.expected {
            flags.push(format!("--expect=a{n}={}", file.display()));
            (rtol, atol) = (rtol.max(*relative), atol.max(*absolute));
        }
    }
    flags.extend([format!("--rtol={rtol}"), format!("--atol={atol}")]);
    flags
}

#[test]
fn kernels_of_other_compilers_are_clean_and_match_numpy() {
    let cases = match cases::all(target_tmp()) {
        Ok(cases) => cases,
        Err(reason) => {
            skipped(&format!("the compilers of corpus/ptx cannot be installed: {reason}"));
            return;
        }
    };
    let mut failed = String::new();
    for case in &cases {
        let outcome = run(warpsmith().arg("sanitize").args(flags(case)));
        if outcome.code != 0 {
            let _ = writeln!(failed, "{}\n{outcome}", case.name);
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn a_kernel_that_differs_from_numpy_fails() {
    let Ok(cases) = cases::all(target_tmp()) else { return };
    let case = cases.iter().find(|case| case.name == "numba_saxpy_sm80").unwrap();
    // Another factor than the one that numpy used.
    let wrong = flags(case).into_iter().map(|flag| flag.replace("=f32=2.5", "=f32=2.25"));
    let outcome = run(warpsmith().arg("sanitize").args(wrong));
    assert_eq!(outcome.code, 1, "{outcome}");
}
