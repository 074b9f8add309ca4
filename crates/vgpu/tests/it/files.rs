//! File tests. Each `files/*.ptx` is PTX text with a header that specifies the launch and the expected results.
//!
//! ```text
//! //! launch grid=1 block=32 shared=0 budget=1000000
//! //! arg in i32 iota 32          buffer of 32 elements: iota, zero, or a list of values
//! //! arg out i32 32              output buffer, starts uninitialised, is compared and must be written
//! //! arg scratch i32 32          work space, starts uninitialised
//! //! arg value u32 7             scalar
//! //! expect 1 i32 = 0 1 2 ...    contents of argument 1 after the launch (`..N` repeats the last value to N)
//! //! expect float 1 f32 = 0.5    the same within 1e-6 relative
//! //! finding out-of-bounds 31    a finding of this kind at this PTX line (0: any); no other may be reported
//! //! refused 12 cp.async         the load must fail, with this line and text among the diagnostics
//! //! printed "text"
//! ```
//!
//! Every case runs twice: with all checks, and without checks on two threads. The second run is skipped if a finding
//! is expected.

use std::fmt::Write as _;

use warpsmith_vgpu::{Buffer, Checks, Device, Launch, Options, Severity, load};

struct Arg {
    role: String,
    ty: String,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Case {
    kernel: Option<String>,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    budget: u64,
    args: Vec<Arg>,
    expects: Vec<(usize, String, Vec<String>, bool)>,
    findings: Vec<(String, u32)>,
    refused: Vec<(u32, String)>,
    printed: Option<String>,
}

fn size_of(ty: &str) -> usize {
    ty[1..].parse::<usize>().expect("type ends in its bits") / 8
}

fn encode(ty: &str, text: &str) -> Vec<u8> {
    let n = size_of(ty);
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).expect("hex literal").to_le_bytes()[..n].to_vec();
    }
    match ty {
        "f32" => text.parse::<f32>().expect("f32 literal").to_le_bytes().to_vec(),
        "f64" => text.parse::<f64>().expect("f64 literal").to_le_bytes().to_vec(),
        _ => text.parse::<i128>().expect("integer literal").to_le_bytes()[..n].to_vec(),
    }
}

fn dims(text: &str) -> [u32; 3] {
    let mut d = [1; 3];
    for (to, from) in d.iter_mut().zip(text.split(',')) {
        *to = from.parse().expect("extent");
    }
    d
}

fn values(words: &[&str]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for w in words {
        match w.strip_prefix("..") {
            Some(n) => {
                let last = out.last().expect("a value before `..`").clone();
                out.resize(n.parse().expect("count"), last);
            }
            None => out.push((*w).to_string()),
        }
    }
    out
}

fn parse(text: &str) -> Case {
    let mut case = Case { grid: [1; 3], block: [32, 1, 1], budget: 10_000_000, ..Case::default() };
    for line in text.lines().filter_map(|l| l.trim().strip_prefix("//!")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["launch", ref rest @ ..] => {
                for word in rest {
                    let (key, value) = word.split_once('=').expect("key=value");
                    match key {
                        "kernel" => case.kernel = Some(value.to_string()),
                        "grid" => case.grid = dims(value),
                        "block" => case.block = dims(value),
                        "shared" => case.shared = value.parse().expect("bytes"),
                        "budget" => case.budget = value.parse().expect("instructions"),
                        _ => panic!("unknown launch key `{key}`"),
                    }
                }
            }
            ["arg", role @ ("out" | "scratch"), ty, n] => {
                let bytes = vec![0; n.parse::<usize>().expect("count") * size_of(ty)];
                case.args.push(Arg { role: role.into(), ty: ty.into(), bytes });
            }
            ["arg", "value", ty, v] => {
                case.args.push(Arg { role: "value".into(), ty: ty.into(), bytes: encode(ty, v) });
            }
            ["arg", "in", ty, "iota", n] => {
                let n: usize = n.parse().expect("count");
                let bytes = (0..n).flat_map(|i| encode(ty, &i.to_string())).collect();
                case.args.push(Arg { role: "in".into(), ty: ty.into(), bytes });
            }
            ["arg", "in", ty, ref list @ ..] => {
                let bytes = values(list).iter().flat_map(|v| encode(ty, v)).collect();
                case.args.push(Arg { role: "in".into(), ty: ty.into(), bytes });
            }
            ["expect", "float", n, ty, "=", ref list @ ..] => {
                case.expects.push((n.parse().expect("argument"), ty.into(), values(list), true));
            }
            ["expect", n, ty, "=", ref list @ ..] => {
                case.expects.push((n.parse().expect("argument"), ty.into(), values(list), false));
            }
            ["finding", kind, line] => case.findings.push((kind.into(), line.parse().expect("line"))),
            ["refused", line, ref rest @ ..] => {
                case.refused.push((line.parse().expect("line"), rest.join(" ")));
            }
            ["printed", ..] => {
                let text = line.trim().strip_prefix("printed").expect("checked").trim();
                case.printed = Some(text.trim_matches('"').replace("\\n", "\n"));
            }
            [] => {}
            _ => panic!("header line `{line}` is not understood"),
        }
    }
    case
}

#[allow(clippy::too_many_lines)] // The rows of one table.
fn run(text: &str, case: &Case, checks: Checks, threads: usize) -> Result<(), String> {
    let module = match load(text) {
        Ok(module) => module,
        Err(e) => {
            for (line, wanted) in &case.refused {
                let hit = e.diagnostics.iter().any(|d| {
                    let instruction = d.instruction.clone().unwrap_or_default();
                    (*line == 0 || d.line == *line) && format!("{instruction} {}", d.message).contains(wanted)
                });
                if !hit {
                    return Err(format!("not refused at line {line} for `{wanted}`: {e}"));
                }
            }
            return if case.refused.is_empty() { Err(format!("refused: {e}")) } else { Ok(()) };
        }
    };
    if !case.refused.is_empty() {
        return Err("loaded, but should have been refused".into());
    }
    let kernel = match &case.kernel {
        Some(name) => module.kernel(name).ok_or("no such kernel")?,
        None => &module.kernels[0],
    };
    let mut device = Device::default();
    let mut block = vec![0u8; kernel.param_bytes as usize];
    let mut buffers = Vec::new();
    let mut outputs = Vec::new();
    for (arg, slot) in case.args.iter().zip(&kernel.params) {
        let at = slot.offset as usize;
        if arg.role == "value" {
            block[at..at + arg.bytes.len()].copy_from_slice(&arg.bytes);
            buffers.push(Buffer(0));
            continue;
        }
        let b = device.alloc(arg.bytes.len() as u64, &slot.name).map_err(|e| e.to_string())?;
        if arg.role == "in" {
            device.write(b, &arg.bytes).map_err(|e| e.to_string())?;
        } else if arg.role == "out" {
            outputs.push(b);
        }
        block[at..at + 8].copy_from_slice(&b.0.to_le_bytes());
        buffers.push(b);
    }
    let options = Options { checks, threads, budget: case.budget, outputs, ..Options::default() };
    let launch = Launch {
        module: &module,
        kernel: &kernel.name,
        grid: case.grid,
        block: case.block,
        shared: case.shared,
        args: &block,
    };
    let report = device.launch(&launch, &options).map_err(|e| e.to_string())?;
    let loud: Vec<_> = report.findings.iter().filter(|f| f.severity != Severity::Note).collect();
    if checks == Checks::All {
        let mut text = String::new();
        for f in &loud {
            let _ = write!(text, "\n  {} at line {}: {}", f.kind, f.place.ptx_line, f.message);
        }
        for (kind, line) in &case.findings {
            if !loud.iter().any(|f| f.kind.name() == kind && (*line == 0 || f.place.ptx_line == *line)) {
                return Err(format!("no finding {kind} at line {line}; got:{text}"));
            }
        }
        let expected = |f: &&&warpsmith_vgpu::Finding| {
            !case.findings.iter().any(|(k, l)| f.kind.name() == k && (*l == 0 || f.place.ptx_line == *l))
        };
        if loud.iter().any(|f| expected(&f)) {
            return Err(format!("unexpected findings:{text}"));
        }
    } else if !loud.is_empty() {
        return Err(format!("unchecked run failed: {}", loud[0].message));
    }
    for (n, ty, wanted, near) in &case.expects {
        let arg = &case.args[*n];
        let mut got = vec![0u8; arg.bytes.len()];
        device.read(buffers[*n], &mut got).map_err(|e| e.to_string())?;
        let size = size_of(ty);
        for (i, w) in wanted.iter().enumerate() {
            let bits = &got[i * size..(i + 1) * size];
            let want = encode(ty, w);
            let close = *near && {
                let float = |b: &[u8]| match size {
                    4 => f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
                    _ => f64::from_le_bytes(b.try_into().expect("eight bytes")),
                };
                let (x, y) = (float(bits), float(&want));
                (x - y).abs() <= 1e-6 * y.abs().max(1e-30)
            };
            if bits != want && !close {
                return Err(format!(
                    "argument {n} ({}) element {i}: {bits:02x?}, expected {w} = {want:02x?}",
                    arg.ty
                ));
            }
        }
    }
    if let Some(printed) = &case.printed
        && *printed != report.printed
    {
        return Err(format!("printed {:?}, expected {printed:?}", report.printed));
    }
    Ok(())
}

#[test]
fn file_tests() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("folder of cases").map(|e| e.expect("entry").path()).collect();
    paths.sort();
    let mut failed = String::new();
    let mut count = 0;
    for path in paths.iter().filter(|p| p.extension().is_some_and(|e| e == "ptx")) {
        let text = std::fs::read_to_string(path).expect("readable file");
        let case = parse(&text);
        count += 1;
        let mut modes = vec![(Checks::All, 1)];
        if case.findings.is_empty() {
            modes.push((Checks::None, 2));
        }
        for (checks, threads) in modes {
            if let Err(e) = run(&text, &case, checks, threads) {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let _ = writeln!(failed, "{name} ({checks:?}): {e}");
            }
        }
    }
    assert!(failed.is_empty(), "\n{failed}");
    assert!(count >= 25, "only {count} cases found in {folder}");
}
