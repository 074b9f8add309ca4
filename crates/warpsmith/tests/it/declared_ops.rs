//! Tests of ops that are declared by files: a new op goes through every command, a single file can be checked, and
//! every mistake is a clear error.

use std::fs;
use std::path::Path;

use launch::{Dtype, npy};
use tempfile::TempDir;

use crate::common::{Run, run, runs_kernels, skipped, warpsmith};

/// A folder in which `warpsmith new NAME` has written an op.
fn new_op(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let outcome = run(warpsmith().current_dir(&folder).args(["new", name]));
    assert_eq!(outcome.code, 0, "{outcome}");
    folder
}

fn in_folder(folder: &TempDir, arguments: &[&str]) -> Run {
    let mut command = warpsmith();
    command.current_dir(folder).args(arguments);
    if arguments[0] != "report" {
        command.args(["--kernels", "kernels"]);
    }
    if runs_kernels(arguments[0]) {
        command.args(["--device", "virtual:l4"]);
    }
    run(&mut command)
}

/// Replaces a text in a file of the op `row`.
fn change(folder: &TempDir, file: &str, from: &str, to: &str) {
    let path = folder.path().join("kernels/row").join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{} has no `{from}`", path.display());
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn a_new_op_goes_through_every_command() {
    let folder = new_op("row");
    let step = |arguments: &[&str]| {
        let outcome = in_folder(&folder, arguments);
        assert_eq!(outcome.code, 0, "{arguments:?}\n{outcome}");
        outcome.stdout
    };
    let problem = "rows40-cols300-bf16";
    let checked = step(&["check", "row", "--problem", problem, "--sanitize"]);
    assert!(checked.contains("22 of 22 runs passed on virtual:l4, under all checkers"), "{checked}");
    let listed = step(&["problems", "--op", "row"]);
    assert!(listed.contains("rows64-cols1024-fp16"), "{listed}");
    assert!(step(&["suites", "--op", "row"]).contains("main"));
    assert!(step(&["kernels", "row/block"]).contains("THREADS"));
    let benched = step(&["bench", "row", "--problem", problem, "--run-dir", "bench"]);
    assert!(benched.contains("block default") && benched.contains("modelled"), "{benched}");
    let gated = step(&["gate", "--run-dir", "bench", "--leaderboard", "board.json", "--update"]);
    assert!(gated.contains("PASSED") || gated.contains("passed"), "{gated}");
    step(&["gate", "--run-dir", "bench", "--leaderboard", "board.json"]);
    let evolved = step(&["evolve", "row", "--problem", problem, "--budget", "6", "--run-dir", "evolve"]);
    assert!(evolved.contains("row/block") && evolved.contains(problem), "{evolved}");
    let profiled = step(&["profile", "row", "--preset", "default", "--problem", problem]);
    assert!(profiled.contains("registers"), "{profiled}");
    let inverted = step(&["invert", "row", "--problem", problem]);
    assert!(inverted.contains("strided loads"), "{inverted}");
    step(&["report", "bench"]);
    let report = fs::read_to_string(folder.path().join("bench/report.html")).unwrap();
    assert!(report.contains(problem) && report.contains("block default"));
    let sanitized = step(&["sanitize", "row/block", "--problem", problem]);
    assert!(sanitized.contains("output: correct"), "{sanitized}");
}

#[test]
fn a_wrong_kernel_is_found_with_a_picture() {
    let folder = new_op("row");
    // The last column of a row is not scaled.
    change(&folder, "block/kernel.cu", "if (col < cols) result", "if (col < cols - 1) result");
    let outcome =
        in_folder(&folder, &["check", "row/block", "--preset", "default", "--problem", "rows3-cols70-fp16"]);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(
        outcome.stdout.contains("y: 3 of 210 elements were not written, the first at [0, 69]"),
        "{outcome}"
    );
    assert!(outcome.stdout.contains("columns: only 69 of 0-69"), "{outcome}");
}

#[test]
fn a_kernel_that_ignores_an_input_is_found() {
    let folder = new_op("row");
    change(&folder, "block/kernel.cu", "* static_cast<float>(weight[col])", "");
    let outcome =
        in_folder(&folder, &["check", "row/block", "--preset", "default", "--problem", "rows3-cols70-fp16"]);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("the answer does not change when weight does"), "{outcome}");
}

/// Each row: the file, the text that is replaced, its replacement, and parts of the error.
#[test]
fn references_that_fail_are_errors_with_their_place() {
    let rows: [(&str, &str, &[&str]); 8] = [
        ("return x", "raise KeyError('weights')\n    return x", &["reference.py:8", "KeyError: 'weights'"]),
        ("* weight\n", "* weight[:3]\n", &["reference.py:8", "ValueError: operands could not be broadcast"]),
        ("* weight\n", "* weight, 0\n", &["returned 2 outputs; the op has 1 (y)"]),
        (
            "return x / numpy.sqrt(mean_square + eps)",
            "weight = 1\n    return (x * x).T",
            &["`y` has the shape [70, 3], not [3, 70]"],
        ),
        ("return x /", "return 0 * x[:, :0] /", &["reference.py"]),
        ("return x /", "return numpy.inf * x /", &["must be finite"]),
        ("def row(x, weight, eps)", "def row(x, weights, eps)", &["`weights` is not an argument"]),
        ("return x /", "numpy.ones(1 << 31); return x /", &["limit of 8192 MiB"]),
    ];
    for (from, to, parts) in rows {
        let folder = new_op("row");
        change(&folder, "reference.py", from, to);
        let outcome = in_folder(&folder, &["check", "row", "--problem", "rows3-cols70-fp16"]);
        assert_eq!(outcome.code, 2, "{to}\n{outcome}");
        for part in parts {
            assert!(outcome.stderr.contains(part), "`{part}` of {to}\n{outcome}");
        }
    }
}

#[test]
fn a_reference_can_be_another_family() {
    let folder = new_op("row");
    let plain = folder.path().join("kernels/row/plain");
    fs::create_dir(&plain).unwrap();
    for file in ["kernel.cu", "kernel.toml"] {
        fs::copy(folder.path().join("kernels/row/block").join(file), plain.join(file)).unwrap();
    }
    change(&folder, "plain/kernel.cu", "* scale", "* scale * 1.0f");
    change(&folder, "op.toml", "reference.py:row", "family:plain");
    let arguments = ["check", "row/block", "--preset", "default", "--problem", "rows3-cols70-fp16"];
    let outcome = in_folder(&folder, &arguments);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(outcome.stderr.contains("a mistake that both kernels have is not found"), "{outcome}");
    change(&folder, "block/kernel.cu", "* scale", "* scale * 1.01f");
    let outcome = in_folder(&folder, &arguments);
    assert_eq!(outcome.code, 1, "{outcome}");
    change(&folder, "op.toml", "family:plain", "family:other");
    let outcome = in_folder(&folder, &arguments);
    assert_eq!(outcome.code, 2, "{outcome}");
    assert!(outcome.stderr.contains("there is no family `row/other`"), "{outcome}");
}

#[test]
fn a_family_is_not_compared_with_itself() {
    let folder = new_op("row");
    // The kernel is wrong, and so is its reference.
    change(&folder, "block/kernel.cu", "* scale", "* scale * 1.01f");
    let copy = folder.path().join("kernels/row/copy");
    fs::create_dir(&copy).unwrap();
    for file in ["kernel.cu", "kernel.toml"] {
        fs::copy(folder.path().join("kernels/row/block").join(file), copy.join(file)).unwrap();
    }
    change(&folder, "copy/kernel.cu", "* scale", "/* the same */ *  scale");
    // The other copy has the code under other names, a part of it in a header.
    let moved = folder.path().join("kernels/row/moved");
    fs::create_dir(&moved).unwrap();
    fs::copy(copy.join("kernel.toml"), moved.join("kernel.toml")).unwrap();
    let code = fs::read_to_string(copy.join("kernel.cu")).unwrap();
    let code =
        code.replace("row_block", "other").replace("block_sum", "total_of").replace("per_thread", "steps");
    let common = folder.path().join("kernels/row/common");
    fs::create_dir_all(&common).unwrap();
    let (functions, kernel) = code.split_at(code.find("extern \"C\"").unwrap());
    fs::write(common.join("part.cuh"), functions).unwrap();
    fs::write(moved.join("kernel.cu"), format!("#include \"common/part.cuh\"\n{kernel}")).unwrap();
    change(&folder, "moved/kernel.toml", "row_block", "other");
    change(&folder, "op.toml", "reference.py:row", "family:block");
    let problem = "rows3-cols70-fp16";
    for arguments in [
        &["check", "row/block", "--preset", "default", "--problem", problem][..],
        &["check", "row/block", "--set", "threads=64", "--problem", problem],
        &["check", "row/copy", "--problem", problem],
        &["check", "row/moved", "--problem", problem],
        &["check", "row", "--problem", problem],
        &["bench", "row/block", "--problem", problem],
        &["bench", "row/copy", "--problem", problem],
    ] {
        let outcome = in_folder(&folder, arguments);
        assert_eq!(outcome.code, 2, "{arguments:?}\n{outcome}");
        let message = "its answers would be compared with themselves";
        assert!(outcome.stderr.contains(message), "{arguments:?}\n{outcome}");
    }
}

#[test]
fn an_answer_that_does_not_depend_on_the_inputs_is_told_in_every_verdict() {
    let problem = "rows3-cols70-fp16";
    let note = "the answer does not depend on the inputs within the tolerance";
    let honest = new_op("row");
    let arguments = ["check", "row/block", "--preset", "default", "--problem", problem];
    let outcome = in_folder(&honest, &arguments);
    assert!(outcome.code == 0 && !outcome.stdout.contains(note), "{outcome}");
    for (from, to) in [
        ("independent =", "classes = [\"zeros\"]\nindependent ="),
        ("reduction = \"cols\"", "reduction = \"cols\"\ny = { rtol = 0, atol = 1e6, l2 = 1e6 }"),
        ("reduction = \"cols\"", "reduction = \"1000000000000000000\""),
        // Zeros are right: the answers differ, but each by no more than its own size.
        ("reduction = \"cols\"", "reduction = \"cols\"\ny = { rtol = 1.0, l2 = 1.0 }"),
        ("name = \"x\"", "name = \"x\"\nscale = 1e-30"),
    ] {
        let folder = new_op("row");
        change(&folder, "op.toml", from, to);
        let outcome = in_folder(&folder, &arguments);
        assert_eq!(outcome.code, 0, "{to}\n{outcome}");
        assert!(outcome.stdout.replace('\n', " ").contains(note), "{to}\n{outcome}");
        let outcome = in_folder(&folder, &[&arguments[..], &["--json"]].concat());
        assert!(outcome.stdout.contains(note), "{to}\n{outcome}");
    }
    let folder = new_op("row");
    change(&folder, "op.toml", "independent =", "classes = [\"zeros\"]\nindependent =");
    let arguments = ["bench", "row/block", "--problem", problem, "--baseline", "none", "--run-dir", "run"];
    let outcome = in_folder(&folder, &arguments);
    assert!(outcome.code == 0 && outcome.stderr.contains(note), "{outcome}");
    let report = in_folder(&folder, &["report", "run"]);
    assert_eq!(report.code, 0, "{report}");
    for file in ["summary.md", "report.html"] {
        let text = fs::read_to_string(folder.path().join("run").join(file)).unwrap();
        assert!(text.contains(note), "{file}");
    }
}

#[test]
fn a_reference_uses_only_the_folder_of_its_op() {
    if !subprocess::sandbox::probe().landlock.is_active() {
        skipped("no Landlock");
        return;
    }
    let folder = new_op("row");
    let private = tempfile::NamedTempFile::new_in(std::env::home_dir().unwrap()).unwrap();
    let attempts = format!(
        "import ctypes, os, socket\n    \
         folder = os.path.dirname(os.path.abspath(__file__))\n    \
         libc = ctypes.CDLL(None, use_errno=True)\n    \
         here = ctypes.create_string_buffer(8)\n    \
         piece = ctypes.byref((ctypes.c_size_t * 2)(ctypes.addressof(here), 8))\n    \
         def call(name, *arguments):\n        \
         if getattr(libc, name)(*arguments) < 0:\n            \
         raise OSError(ctypes.get_errno(), name)\n    \
         assert open(folder + '/op.toml').read()\n    \
         for attempt in [\n        \
         lambda: open({:?}), lambda: open(folder + '/new', 'w'), socket.socket,\n        \
         lambda: open('/proc/%d/mem' % os.getppid(), 'rb'), lambda: open('/proc/%d/environ' % os.getppid()),\n        \
         lambda: call('process_vm_readv', os.getppid(), piece, 1, piece, 1, 0),\n        \
         lambda: call('ptrace', 16, os.getppid(), 0, 0),\n    \
         ]:\n        \
         try:\n            attempt()\n        \
         except PermissionError:\n            continue\n        \
         raise ValueError('an attempt succeeded')\n    \
         return x",
        private.path()
    );
    change(&folder, "reference.py", "return x", &attempts);
    let outcome =
        in_folder(&folder, &["check", "row/block", "--preset", "default", "--problem", "rows3-cols7-fp16"]);
    assert_eq!(outcome.code, 0, "{outcome}");
}

#[test]
fn a_reference_that_hangs_is_stopped() {
    let folder = new_op("row");
    change(&folder, "reference.py", "return x", "while True: pass\n    return x");
    change(&folder, "op.toml", "independent =", "reference_seconds = 0.5\nindependent =");
    let outcome =
        in_folder(&folder, &["check", "row/block", "--preset", "wide", "--problem", "rows3-cols70-fp16"]);
    assert_eq!(outcome.code, 2, "{outcome}");
    let both = &outcome.stderr;
    assert!(both.contains("took longer than 0.5 s") && both.contains("reference_seconds"), "{outcome}");
}

#[test]
fn all_mistakes_of_a_manifest_are_reported_at_once() {
    let folder = new_op("row");
    change(&folder, "op.toml", "kind = \"out\"", "kind = \"output\"");
    change(&folder, "op.toml", "flops = \"4 * rows * cols\"", "flops = \"4 * row * cols\"");
    change(&folder, "op.toml", "reference.py:row", "references.py:row");
    change(&folder, "op.toml", "value = 1e-5", "valeu = 1e-5");
    let outcome = in_folder(&folder, &["check", "row"]);
    assert_eq!(outcome.code, 2, "{outcome}");
    for part in [
        "kernels/row/op.toml:2:",
        "there is no references.py beside op.toml",
        "arguments.y.kind: `output` is not one of in, out, inout, scalar",
        "arguments.eps.valeu",
        "did you mean `value`?",
        "there is no `row` here (known: rows, cols, dtype); did you mean `rows`?",
    ] {
        assert!(outcome.stderr.contains(part), "{part}\n{outcome}");
    }
}

#[test]
fn impossible_problems_and_declarations_are_refused() {
    // The change of op.toml, the problem, and a part of the error.
    let rows: [((&str, &str), &str, &str); 6] = [
        (("", ""), "rows0-cols70-fp16", "rows is 0; it must be from 1 to 2147483647"),
        (("", ""), "rows2147483648-cols70-fp16", "rows is 2147483648"),
        (("", ""), "rows3-cols70-fp15", "cannot read `fp15`"),
        (("shape = [\"cols\"]", "shape = [\"cols / (rows - 3)\"]"), "rows3-cols70-fp16", "division by zero"),
        (("name = \"weight\"", "name = \"x\""), "rows3-cols70-fp16", "have the name `x`"),
        (
            ("name = \"y\"", "name = \"yy\""),
            "rows3-cols70-fp16",
            "the parameter `y` is neither an argument nor a size",
        ),
    ];
    for (change_of, problem, message) in rows {
        let folder = new_op("row");
        change(&folder, "op.toml", change_of.0, change_of.1);
        let outcome = in_folder(&folder, &["check", "row/block", "--problem", problem]);
        assert_eq!(outcome.code, 2, "{problem}\n{outcome}");
        assert!(outcome.stderr.contains(message), "{message}\n{outcome}");
    }
}

#[test]
fn parameters_that_do_not_fit_the_kernel_are_an_error() {
    let folder = new_op("row");
    change(&folder, "block/kernel.toml", "\"eps\", \"cols\"]", "\"eps\"]");
    let outcome =
        in_folder(&folder, &["check", "row/block", "--preset", "wide", "--problem", "rows3-cols70-fp16"]);
    assert_ne!(outcome.code, 0, "{outcome}");
    let both = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(both.contains("parameter"), "{outcome}");
}

#[test]
fn a_missing_numpy_is_exit_3_with_the_command_that_installs_it() {
    let folder = new_op("row");
    let mut command = warpsmith();
    command.current_dir(&folder).args(["check", "row", "--kernels", "kernels", "--device", "virtual:l4"]);
    // A package of the same name that cannot be imported.
    let empty = folder.path().join("python");
    fs::create_dir_all(&empty).unwrap();
    fs::write(empty.join("numpy.py"), "raise ImportError('no numpy here')\n").unwrap();
    let outcome = run(command.env("PYTHONPATH", empty));
    assert_eq!(outcome.code, 3, "{outcome}");
    assert!(outcome.stderr.contains("needs numpy"), "{outcome}");
    assert!(outcome.stderr.contains("-m pip install numpy"), "{outcome}");
}

#[test]
fn modules_of_the_current_folder_are_not_imported() {
    let folder = new_op("row");
    for module in ["numpy", "json", "inspect"] {
        fs::write(folder.path().join(format!("{module}.py")), "raise SystemExit('from the current folder')")
            .unwrap();
    }
    let outcome = in_folder(&folder, &["check", "row", "--problem", "rows3-cols70-fp16"]);
    assert_eq!(outcome.code, 0, "{outcome}");
}

const SCALE: &str = r#"// warpsmith: reference = "scale.py:scale"
// warpsmith: sizes = { n = 1000 }
// warpsmith: launch = { grid = ["ceil_div(n, 256)"], block = [256] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[n]"
// warpsmith: y = "out fp32[n]"
// warpsmith: factor = "scalar fp32 = 2.5"
// warpsmith: n = "size"
extern "C" __global__ void scale(const float* x, float* y, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}
"#;

fn single_file(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("scale.cu"), text).unwrap();
    fs::write(folder.path().join("scale.py"), "def scale(x, factor):\n    return factor * x\n").unwrap();
    folder
}

fn on_file(folder: &Path, arguments: &[&str]) -> Run {
    run(warpsmith().current_dir(folder).args(arguments).args(["--device", "virtual:l4"]))
}

#[test]
fn a_single_file_is_checked_and_timed() {
    let folder = single_file(SCALE);
    let outcome = on_file(folder.path(), &["check", "scale.cu", "--problem", "n777", "--sanitize"]);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(outcome.stdout.contains("11 of 11 runs passed"), "{outcome}");
    let outcome = on_file(folder.path(), &["bench", "scale.cu", "--problem", "n777"]);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(outcome.stdout.contains("scale default") && outcome.stdout.contains("modelled"), "{outcome}");
}

#[test]
fn a_fault_in_a_single_file_is_reported_at_its_line() {
    let folder = single_file(&SCALE.replace("i < n", "i <= n"));
    let outcome = on_file(folder.path(), &["check", "scale.cu", "--problem", "n777", "--sanitize"]);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("scale.cu:11:"), "{outcome}");
    assert!(outcome.stdout.contains("repeat: warpsmith check scale.cu --preset default"), "{outcome}");
}

/// A folder with `SCALE` and arrays of 300 numbers, of which `y` has the right ones.
fn file_with_arrays(text: &str) -> TempDir {
    let folder = single_file(text);
    let x: Vec<f32> = (0..300).map(|index| index as f32 / 7.0).collect();
    let y: Vec<f64> = x.iter().map(|x| 2.5 * f64::from(*x)).collect();
    let wrong: Vec<f64> =
        y.iter().enumerate().map(|(index, y)| if index == 7 { y + 1.0 } else { *y }).collect();
    let singles: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    let doubles = |values: &[f64]| values.iter().flat_map(|y| y.to_le_bytes()).collect::<Vec<u8>>();
    let save = |name: &str, dtype, dims: &[usize], bytes: &[u8]| {
        fs::write(folder.path().join(name), npy::write(dtype, dims, bytes)).unwrap();
    };
    save("x.npy", Dtype::F32, &[300], &singles);
    save("square.npy", Dtype::F32, &[30, 10], &singles);
    save("y.npy", Dtype::F64, &[300], &doubles(&y));
    save("wrong.npy", Dtype::F64, &[300], &doubles(&wrong));
    save("nan.npy", Dtype::F64, &[300], &doubles(&[f64::NAN; 300]));
    save("infinite.npy", Dtype::F64, &[300], &doubles(&[f64::INFINITY; 300]));
    save("short.npy", Dtype::F64, &[299], &doubles(&y[..299]));
    folder
}

#[test]
fn a_single_file_takes_inputs_and_answers_from_npy_files() {
    let folder = file_with_arrays(&SCALE.replacen("// warpsmith: reference = \"scale.py:scale\"\n", "", 1));
    let with = |arguments: &str| {
        let words: Vec<&str> = arguments.split(' ').collect();
        on_file(folder.path(), &words)
    };
    for command in ["check", "bench"] {
        let outcome = with(&format!("{command} scale.cu --input x=x.npy --expect y=y.npy"));
        assert_eq!(outcome.code, 0, "{outcome}");
        assert!(outcome.stdout.contains("n300"), "{outcome}");
        assert!(outcome.stderr.contains("only one set of inputs"), "{outcome}");
        let outcome = with(&format!("{command} scale.cu --input x=x.npy --expect y=wrong.npy"));
        assert_eq!(outcome.code, 1, "{outcome}");
        assert!(outcome.to_string().contains("1 of 300 elements are wrong"), "{outcome}");
    }
    for (file, expected) in [("nan.npy", "expected NaN"), ("infinite.npy", "expected inf")] {
        let outcome = with(&format!("check scale.cu --input x=x.npy --expect y={file} --rtol 1"));
        assert_eq!(outcome.code, 1, "{outcome}");
        let message = outcome.stdout.replace('\n', " ");
        assert!(message.contains("300 of 300 elements are wrong") && message.contains(expected), "{outcome}");
    }
    // The given tolerances are the only limits.
    let outcome = with("check scale.cu --input x=x.npy --expect y=wrong.npy --atol 2 --rtol 1");
    assert_eq!(outcome.code, 0, "{outcome}");
    for (arguments, message) in [
        ("check scale.cu", "reference: is missing"),
        ("check scale.cu --expect y=y.npy", "x must come from a file, too"),
        ("check scale.cu --input x=x.npy --expect z=y.npy", "no output `z`"),
        ("check scale.cu --input factor=x.npy --expect y=y.npy", "no input `factor`"),
        ("check scale.cu --input x=none.npy --expect y=y.npy", "none.npy cannot be read"),
        ("check scale.cu --input x=square.npy --expect y=y.npy", "has the shape [30, 10], but x has"),
        ("check scale.cu --input x=y.npy --expect y=y.npy", "has the type f64, but x is f32"),
        ("check scale.cu --input x=x.npy --expect y=short.npy", "has the shape [299], but y has [300]"),
        ("check scale.cu --problem n5 --input x=x.npy --expect y=y.npy", "x has [5]"),
        ("check mma --input q=x.npy", "declares its op"),
    ] {
        let outcome = with(arguments);
        assert_eq!(outcome.code, 2, "{outcome}");
        assert!(outcome.stderr.contains(message), "{arguments}: {outcome}");
    }
}

#[test]
fn the_lines_of_a_single_file_can_name_arrays() {
    let declared =
        SCALE.replace("in fp32[n]", "in fp32[n] = x.npy").replace("out fp32[n]", "out fp32[n] = y.npy");
    let without = declared.replacen("// warpsmith: reference = \"scale.py:scale\"\n", "", 1);
    let folder = file_with_arrays(&without);
    let outcome = on_file(folder.path(), &["check", "scale.cu"]);
    assert_eq!(outcome.code, 0, "{outcome}");
    // Expected values and a reference contradict each other.
    let folder = file_with_arrays(&declared);
    let outcome = on_file(folder.path(), &["check", "scale.cu"]);
    assert_eq!(outcome.code, 2, "{outcome}");
    assert!(outcome.stderr.contains("the expected values are the reference"), "{outcome}");
    // An input from a file with a reference: only the kernel's answer to this input is compared.
    let folder =
        file_with_arrays(&SCALE.replace("in fp32[n]", "in fp32[n] = x.npy").replace("factor * x[i]", "i"));
    let outcome = on_file(folder.path(), &["check", "scale.cu"]);
    assert_eq!(outcome.code, 1, "{outcome}");
}

/// The kernel of `SCALE` in PTX.
const SCALE_PTX: &str = "\
// warpsmith: reference = \"scale.py:scale\"
// warpsmith: sizes = { n = 1000 }
// warpsmith: launch = { grid = [\"ceil_div(n, 256)\"], block = [256] }
// warpsmith: [arguments]
// warpsmith: x = \"in fp32[n]\"
// warpsmith: y = \"out fp32[n]\"
// warpsmith: factor = \"scalar fp32 = 2.0\"
// warpsmith: n = \"size\"
.version 8.0
.target sm_80
.address_size 64
// The .entry of this file:
.visible .entry scale(
    .param .u64 x, .param .u64 y, .param .f32 factor, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .f32 %f<3>;
    .reg .b64 %d<6>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.s32 %r3, %r1, 256, %r2;
    ld.param.u32 %r4, [n];
    setp.ge.s32 %p, %r3, %r4;
    @%p bra DONE;
    ld.param.u64 %d1, [x];
    ld.param.u64 %d2, [y];
    ld.param.f32 %f1, [factor];
    mul.wide.s32 %d3, %r3, 4;
    add.s64 %d4, %d1, %d3;
    add.s64 %d5, %d2, %d3;
    ld.global.f32 %f2, [%d4];
    mul.f32 %f2, %f2, %f1;
    st.global.f32 [%d5], %f2;
DONE:
    ret;
}
";

fn ptx_file(text: &str) -> TempDir {
    let folder = single_file(SCALE);
    fs::remove_file(folder.path().join("scale.cu")).unwrap();
    fs::write(folder.path().join("scale.ptx"), text).unwrap();
    folder
}

#[test]
fn a_ptx_file_is_checked_timed_and_built() {
    let folder = ptx_file(SCALE_PTX);
    let checked = on_file(folder.path(), &["check", "scale.ptx", "--problem", "n777", "--sanitize"]);
    assert_eq!(checked.code, 0, "{checked}");
    assert!(checked.stdout.contains("11 of 11 runs passed"), "{checked}");
    let timed = on_file(folder.path(), &["bench", "scale.ptx", "--problem", "n777"]);
    assert_eq!(timed.code, 0, "{timed}");
    assert!(timed.stdout.contains("scale default") && timed.stdout.contains("modelled"), "{timed}");
    let built = on_file(folder.path(), &["build", "scale.ptx", "--arch", "sm_90"]);
    assert_eq!(built.code, 0, "{built}");
    // A wrong address is a finding at its line of the PTX.
    let wrong = ptx_file(&SCALE_PTX.replace("setp.ge.s32", "setp.gt.s32"));
    let found = on_file(wrong.path(), &["check", "scale.ptx", "--problem", "n777", "--sanitize"]);
    assert_eq!(found.code, 1, "{found}");
    assert!(found.stdout.contains("out of bounds") && found.stdout.contains("scale.ptx:32"), "{found}");
}

#[test]
fn mistakes_in_a_ptx_file_are_told() {
    let rows = [
        ("mul.f32 %f2", "mul.nonsense %f2", 1, "scale.ptx"),
        (".target sm_80", ".target sm_100", 1, ".target"),
        (".visible .entry scale(", ".func scale(", 2, "the file has no .entry function"),
        ("in fp32[n]", "in fp33[n]", 2, "scale.ptx:5:1"),
        (
            "// warpsmith: [arguments]",
            "// warpsmith: knobs = { SPEED = { values = [1, 2], default = 1, about = \"none\" } }\n\
             // warpsmith: [arguments]",
            2,
            "knobs.SPEED: the source is PTX, which a knob cannot change",
        ),
    ];
    for (from, to, code, message) in rows {
        assert!(SCALE_PTX.contains(from), "{from}");
        let folder = ptx_file(&SCALE_PTX.replace(from, to));
        let outcome = on_file(folder.path(), &["check", "scale.ptx", "--problem", "n777"]);
        assert_eq!(outcome.code, code, "{to}\n{outcome}");
        let text = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(text.contains(message), "{message}\n{outcome}");
    }
    // A family has one source.
    let folder = new_op("row");
    fs::write(folder.path().join("kernels/row/block/kernel.ptx"), SCALE_PTX).unwrap();
    let outcome = in_folder(&folder, &["check", "row/block"]);
    assert!(outcome.code != 0 && outcome.stderr.contains("only one source"), "{outcome}");
}

#[test]
fn mistakes_in_the_header_of_a_file_have_their_line() {
    let rows = [
        ("out fp32[n]", "out fp33[n]", "scale.cu:6:1: arguments.y.dtype"),
        ("out fp32[n]", "output fp32[n]", "scale.cu:6:1: y: write `in fp16[rows, cols]`"),
        ("ceil_div(n, 256)", "ceil_div(m, 256)", "scale.cu:3:1: launch.grid"),
        ("scale.py:scale", "other.py:scale", "scale.cu:1:1: reference: there is no other.py"),
        ("// warpsmith: sizes = { n = 1000 }\n", "\n", "sizes: is missing"),
    ];
    for (from, to, message) in rows {
        let folder = single_file(&SCALE.replace(from, to));
        let outcome = on_file(folder.path(), &["check", "scale.cu"]);
        assert_eq!(outcome.code, 2, "{to}\n{outcome}");
        assert!(outcome.stderr.contains(message), "{message}\n{outcome}");
    }
}

#[test]
fn new_overwrites_nothing_and_refuses_bad_names() {
    let folder = new_op("row");
    let outcome = run(warpsmith().current_dir(&folder).args(["new", "row"]));
    assert_eq!(outcome.code, 2, "{outcome}");
    assert!(outcome.stderr.contains("kernels/row exists"), "{outcome}");
    for name in ["Row", "../row", "attention", "2row", "a b"] {
        let outcome = run(warpsmith().current_dir(&folder).args(["new", name]));
        assert_eq!(outcome.code, 2, "{name}\n{outcome}");
    }
}

#[test]
fn the_families_of_the_built_in_ops_are_right_and_clean() {
    for (op, problem, runs) in [
        ("rmsnorm", "rows5-cols264-bf16", 5),
        ("softmax", "rows3-cols257-fp16", 6),
        ("quantise", "batch1-heads2-seq33-head_dim64-fp16", 4),
        ("quantise", "batch1-heads2-seq33-head_dim64-fp16-rotate", 2),
        ("quantise", "batch1-heads2-seq70-head_dim128-bf16-block64-rotate", 3),
        ("gemm", "m33-n40-k96-fp16-bias-gelu", 4),
    ] {
        let mut command = warpsmith();
        command.args(["check", op, "--problem", problem, "--class", "normal", "--sanitize"]);
        let outcome = run(command.args(["--device", "virtual:h200"]));
        assert_eq!(outcome.code, 0, "{op}\n{outcome}");
        let last = outcome.stdout.lines().last().unwrap();
        let passed: usize = last.split(' ').next().unwrap().parse().unwrap();
        assert!(passed >= runs && last.contains("passed"), "{op}\n{outcome}");
    }
}

/// The codes of E4M3 have only four significant bits, so a loose tolerance would accept numbers that are a few percent off.
#[test]
fn a_quantiser_that_is_slightly_off_is_refused() {
    let quotient = "scale.quotient(value(i))";
    for wrong in [format!("0.96f * {quotient}"), format!("0.94f * {quotient}"), format!("{quotient} + 0.25f")]
    {
        let folder = tempfile::tempdir().unwrap();
        let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/quantise");
        for part in ["plain", "common"] {
            let to = folder.path().join("quantise").join(part);
            fs::create_dir_all(&to).unwrap();
            for file in fs::read_dir(kernels.join(part)).unwrap().map(|file| file.unwrap()) {
                let text = fs::read_to_string(file.path()).unwrap();
                fs::write(to.join(file.file_name()), text.replace(quotient, &wrong)).unwrap();
            }
        }
        let mut command = warpsmith();
        command.args([
            "check",
            "quantise/plain",
            "--problem",
            "batch1-heads2-seq33-head_dim64-fp16",
            "--kernels",
        ]);
        let outcome = run(command.arg(folder.path()).args(["--class", "normal", "--device", "virtual:l4"]));
        assert_eq!(outcome.code, 1, "{wrong}\n{outcome}");
        assert!(outcome.stdout.contains("codes: "), "{wrong}\n{outcome}");
    }
}

#[test]
fn the_tuned_picks_of_the_built_in_ops_can_be_used() {
    for family in [
        "rmsnorm/fused",
        "softmax/rows",
        "softmax/online",
        "quantise/ring",
        "quantise/two-pass",
        "gemm/tiles",
    ] {
        let outcome = run(warpsmith().args(["kernels", family]));
        assert_eq!(outcome.code, 0, "{outcome}");
        assert!(outcome.stdout.contains("measured") && !outcome.stdout.contains("ignored"), "{outcome}");
    }
}
