//! Runs the corpus on compiled PTX: `cargo run --release --example corpus -- CORPUS_DIR PTX_DIR [NAME...]`
//!
//! Kernels must be silent and match `reference.rs`; bugs must raise what their marks say and nothing else; fixed twins
//! must be silent. PTX_DIR holds `kernels/NAME.ptx` and `bugs/NAME.ptx`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use warpsmith_vgpu::num::codec;
use warpsmith_vgpu::{Buffer, Checks, Device, Finding, Launch, LaunchReport, Options, Severity, load};

#[allow(clippy::all, clippy::pedantic)] // Formulas written the way the literature has them.
#[path = "../../../corpus/reference.rs"]
#[allow(dead_code, clippy::pedantic)]
mod reference;
use reference::{Arg, Values};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [corpus, ptx, names @ ..] = &args[..] else {
        eprintln!("usage: corpus CORPUS_DIR PTX_DIR [NAME...]");
        std::process::exit(2);
    };
    let verbose = !names.is_empty();
    let (mut passed, mut failed) = (0, 0);
    for group in ["kernels", "bugs"] {
        let Ok(entries) = std::fs::read_dir(Path::new(corpus).join(group)) else { continue };
        let mut files: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
        files.sort();
        for file in files {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if file.extension().is_none_or(|e| e != "cu") || (verbose && !names.contains(&name)) {
                continue;
            }
            let compiled = Path::new(ptx).join(group).join(format!("{name}.ptx"));
            let Ok(text) = std::fs::read_to_string(&compiled) else { continue };
            let source = std::fs::read_to_string(&file).unwrap_or_default();
            let start = std::time::Instant::now();
            let outcome = std::panic::catch_unwind(|| run_case(group, &name, &source, &text, verbose))
                .unwrap_or_else(|_| Err("panicked".into()));
            let took = start.elapsed().as_secs_f64();
            match outcome {
                Ok(()) => {
                    passed += 1;
                    if verbose || took > 5.0 {
                        println!("ok   {group}/{name} ({took:.1} s)");
                    }
                }
                Err(e) => {
                    failed += 1;
                    println!("FAIL {group}/{name} ({took:.1} s): {e}");
                }
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    std::process::exit(i32::from(failed > 0));
}

struct Case {
    kernel: String,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    params: Vec<Parameter>,
}

struct Parameter {
    name: String,
    role: String,
    dtype: String,
    dims: Vec<usize>,
    data: Vec<u8>,
}

fn run_case(group: &str, name: &str, source: &str, text: &str, verbose: bool) -> Result<(), String> {
    let case = parse_header(source)?;
    let module = load(text).map_err(|e| format!("load: {e}"))?;
    let mut device = Device::default();
    let kernel = module.kernel(&case.kernel).ok_or("no such kernel")?;
    let mut block = vec![0u8; kernel.param_bytes as usize];
    let mut buffers: Vec<Option<Buffer>> = Vec::new();
    let mut outputs = Vec::new();
    for (p, slot) in case.params.iter().zip(&kernel.params) {
        let at = slot.offset as usize;
        if p.role == "scalar" {
            block[at..at + p.data.len()].copy_from_slice(&p.data);
            buffers.push(None);
            continue;
        }
        let elements: usize = p.dims.iter().product();
        let bytes = elements * size_of(&p.dtype);
        let b = device.alloc(bytes as u64, &p.name).map_err(|e| e.to_string())?;
        if p.role == "in" || p.role == "inout" {
            device.write(b, &p.data).map_err(|e| e.to_string())?;
        }
        if p.role == "out" {
            outputs.push(b);
        }
        block[at..at + 8].copy_from_slice(&b.0.to_le_bytes());
        buffers.push(Some(b));
    }
    let budget = if group == "bugs" { 30_000_000 } else { 2_000_000_000 };
    let options = Options { checks: Checks::All, outputs, budget, threads: 1, ..Options::default() };
    let launch = Launch {
        module: &module,
        kernel: &case.kernel,
        grid: case.grid,
        block: case.block,
        shared: case.shared,
        args: &block,
    };
    let report = device.launch(&launch, &options).map_err(|e| e.to_string())?;
    if verbose {
        print_report(&report);
    }
    if group == "kernels" || name.ends_with("_fixed") {
        let loud: Vec<String> =
            report.findings.iter().filter(|f| f.severity != Severity::Note).map(describe).collect();
        if !loud.is_empty() {
            return Err(format!("false alarm: {}", loud.join("; ")));
        }
    } else {
        check_marks(source, &report)?;
    }
    if group == "kernels" {
        compare(name, &case, &device, &buffers, &report)?;
    }
    Ok(())
}

fn describe(f: &Finding) -> String {
    let lines: Vec<String> = f.place.frames.iter().map(|x| x.line.to_string()).collect();
    format!("{} at {} (x{}): {}", f.kind, lines.join("<"), f.count, f.message)
}

fn print_report(report: &LaunchReport) {
    for f in &report.findings {
        println!(
            "  {:?} {} block {:?} warp {:?} lanes {:#x}",
            f.severity,
            describe(f),
            f.block,
            f.warp,
            f.lanes
        );
        for r in &f.related {
            println!("      {}: {:?}", r.label, r.place.frames.first().map(|x| x.line));
        }
    }
    println!("  {:?}", report.stats);
    if !report.printed.is_empty() {
        println!("{}", report.printed);
    }
}

/// Marks of the corpus: expectations are lists of alternatives (kind, line).
fn check_marks(source: &str, report: &LaunchReport) -> Result<(), String> {
    let mut expected: Vec<Vec<(String, u32)>> = Vec::new();
    let mut allowed: BTreeSet<(String, u32)> = BTreeSet::new();
    for (n, line) in source.lines().enumerate() {
        let number = n as u32 + 1;
        let mut rest = line;
        while let Some(at) = rest.find("//~") {
            rest = &rest[at + 3..];
            let end = rest.find("//~").unwrap_or(rest.len());
            let mark = rest[..end].trim();
            let (how, kind) = match mark.chars().next() {
                Some(c @ ('|' | '?')) => (c, mark[1..].trim()),
                _ => (' ', mark),
            };
            let entry = (kind.to_string(), number);
            allowed.insert(entry.clone());
            match how {
                ' ' => expected.push(vec![entry]),
                '|' => expected.last_mut().ok_or("mark without an expectation")?.push(entry),
                _ => {}
            }
        }
    }
    let placeless = |k: &str| matches!(k, "unwritten-output" | "idle-blocks" | "not-resident");
    let matches = |f: &Finding, (kind, line): &(String, u32)| {
        f.kind.name() == kind && (placeless(kind) || f.place.frames.iter().any(|x| x.line == *line))
    };
    let loud: Vec<&Finding> = report.findings.iter().filter(|f| f.severity != Severity::Note).collect();
    for alternatives in &expected {
        if !alternatives.iter().any(|a| loud.iter().any(|f| matches(f, a))) {
            let got: Vec<String> = loud.iter().map(|f| describe(f)).collect();
            return Err(format!("missed {alternatives:?}; got [{}]", got.join("; ")));
        }
    }
    for f in &loud {
        if !allowed.iter().any(|a| matches(f, a)) {
            return Err(format!("not marked: {}", describe(f)));
        }
    }
    Ok(())
}

fn compare(
    name: &str,
    case: &Case,
    device: &Device,
    buffers: &[Option<Buffer>],
    report: &LaunchReport,
) -> Result<(), String> {
    let args: Vec<Arg> = case
        .params
        .iter()
        .map(|p| Arg {
            name: p.name.clone(),
            dims: p.dims.clone(),
            values: if p.role == "out" || p.role == "scratch" {
                empty(&p.dtype)
            } else {
                decode(&p.dtype, &p.data)
            },
        })
        .collect();
    let Some(answers) = reference::reference(name, &args) else {
        return Err("no reference".into());
    };
    for a in answers {
        if a.name == "stdout" {
            let lines = report.printed.lines().map(str::to_string).collect();
            a.check(&Values::Text(lines))?;
            continue;
        }
        let at = case.params.iter().position(|p| p.name == a.name).ok_or("answer for an unknown buffer")?;
        let p = &case.params[at];
        let mut bytes = vec![0u8; p.dims.iter().product::<usize>() * size_of(&p.dtype)];
        device.read(buffers[at].ok_or("answer for a scalar")?, &mut bytes).map_err(|e| e.to_string())?;
        a.check(&decode(&p.dtype, &bytes))?;
    }
    Ok(())
}

fn empty(dtype: &str) -> Values {
    if is_float(dtype) { Values::Float(Vec::new()) } else { Values::Int(Vec::new()) }
}

fn is_float(dtype: &str) -> bool {
    matches!(dtype, "f64" | "f32" | "f16" | "bf16" | "e4m3" | "e5m2")
}

fn size_of(dtype: &str) -> usize {
    match dtype {
        "f64" | "i64" | "u64" => 8,
        "f32" | "i32" | "u32" => 4,
        "f16" | "bf16" | "i16" | "u16" => 2,
        _ => 1,
    }
}

fn decode(dtype: &str, bytes: &[u8]) -> Values {
    let raw = bytes.chunks_exact(size_of(dtype)).map(|c| {
        let mut b = [0u8; 8];
        b[..c.len()].copy_from_slice(c);
        u64::from_le_bytes(b)
    });
    if is_float(dtype) {
        Values::Float(
            raw.map(|v| match dtype {
                "f64" => f64::from_bits(v),
                "f32" => f64::from(f32::from_bits(v as u32)),
                "f16" => f64::from(codec::f16_to_f32(v as u32)),
                "bf16" => f64::from(codec::bf16_to_f32(v as u32)),
                "e4m3" => f64::from(codec::e4m3_to_f32(v as u8)),
                _ => f64::from(codec::e5m2_to_f32(v as u8)),
            })
            .collect(),
        )
    } else {
        Values::Int(
            raw.map(|v| match dtype {
                "i8" => i64::from(v as i8),
                "i16" => i64::from(v as i16),
                "i32" => i64::from(v as i32),
                _ => v as i64,
            })
            .collect(),
        )
    }
}

fn encode(dtype: &str, v: f64) -> Vec<u8> {
    match dtype {
        "f64" => v.to_le_bytes().to_vec(),
        "f32" => (v as f32).to_le_bytes().to_vec(),
        "f16" => (codec::f32_to_f16_rn(v as f32) as u16).to_le_bytes().to_vec(),
        "bf16" => (codec::f32_to_bf16_rn(v as f32) as u16).to_le_bytes().to_vec(),
        "e4m3" => vec![codec::f32_to_e4m3(v as f32)],
        "e5m2" => vec![codec::f32_to_e5m2(v as f32)],
        "i8" => (v as i64 as i8).to_le_bytes().to_vec(),
        "u8" => vec![v as i64 as u8],
        "i16" => (v as i64 as i16).to_le_bytes().to_vec(),
        "u16" => (v as i64 as u16).to_le_bytes().to_vec(),
        "i32" => (v as i64 as i32).to_le_bytes().to_vec(),
        "u32" => (v as i64 as u32).to_le_bytes().to_vec(),
        "i64" => (v as i64).to_le_bytes().to_vec(),
        _ => (v as u64).to_le_bytes().to_vec(),
    }
}

fn parse_header(source: &str) -> Result<Case, String> {
    let flags: String =
        source.lines().filter_map(|l| l.strip_prefix("// warpsmith:")).collect::<Vec<_>>().join(" ");
    let mut case = Case { kernel: String::new(), grid: [1; 3], block: [1; 3], shared: 0, params: Vec::new() };
    let mut words = flags.split_whitespace();
    let dims = |s: &str| {
        let mut d = [1u32; 3];
        for (to, from) in d.iter_mut().zip(s.split(',')) {
            *to = from.parse().unwrap_or(0);
        }
        d
    };
    while let Some(flag) = words.next() {
        let value = words.next().ok_or("flag without a value")?;
        match flag {
            "--kernel" => case.kernel = value.to_string(),
            "--grid" => case.grid = dims(value),
            "--block" => case.block = dims(value),
            "--shared" => case.shared = value.parse().map_err(|_| "bad --shared")?,
            "--arg" => case.params.push(parse_arg(value)?),
            _ => {}
        }
    }
    Ok(case)
}

fn parse_arg(text: &str) -> Result<Parameter, String> {
    let (name, rest) = text.split_once('=').ok_or("argument without `=`")?;
    let mut p = Parameter {
        name: name.to_string(),
        role: "in".into(),
        dtype: String::new(),
        dims: vec![],
        data: vec![],
    };
    let mut rest = rest;
    if let Some(hex) = rest.strip_prefix("bytes=") {
        p.role = "scalar".into();
        p.dtype = "u8".into();
        p.data =
            (0..hex.len() / 2).filter_map(|i| u8::from_str_radix(&hex[i * 2..i * 2 + 2], 16).ok()).collect();
        p.dims = vec![p.data.len()];
        return Ok(p);
    }
    for role in ["inout", "out", "scratch"] {
        if let Some(r) = rest.strip_prefix(&format!("{role},")) {
            p.role = role.into();
            rest = r;
        }
    }
    let (head, init) = rest.split_once('=').unwrap_or((rest, ""));
    if let Some((dtype, dims)) = head.split_once('[') {
        p.dtype = dtype.to_string();
        p.dims = dims.trim_end_matches(']').split(',').filter_map(|d| d.parse().ok()).collect();
        let n: usize = p.dims.iter().product();
        if !init.is_empty() {
            p.data = initial(&p.dtype, n, init)?;
        }
    } else {
        p.role = "scalar".into();
        p.dtype = head.to_string();
        let v: f64 = init.parse().map_err(|_| format!("bad scalar `{init}`"))?;
        p.data = encode(&p.dtype, v);
        if !is_float(&p.dtype)
            && let Ok(exact) = init.parse::<i128>()
        {
            p.data = exact.to_le_bytes()[..size_of(&p.dtype)].to_vec();
        }
    }
    Ok(p)
}

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn initial(dtype: &str, n: usize, init: &str) -> Result<Vec<u8>, String> {
    let (name, args) = init.split_once('(').unwrap_or((init, ""));
    let args: Vec<f64> = args.trim_end_matches(')').split(',').filter_map(|a| a.parse().ok()).collect();
    let arg = |i: usize| args.get(i).copied().unwrap_or(0.0);
    let mut rng = Rng(arg(0) as u64 + 1);
    let mut out = Vec::with_capacity(n * size_of(dtype));
    for i in 0..n {
        let v = match name {
            "zeros" => 0.0,
            "ones" => 1.0,
            "const" => arg(0),
            "iota" => i as f64,
            "normal" => (-2.0 * (1.0 - rng.unit()).ln()).sqrt() * (std::f64::consts::TAU * rng.unit()).cos(),
            "uniform" => rng.unit(),
            "randint" => (arg(1) + (rng.unit() * (arg(2) - arg(1))).floor()).floor(),
            _ => return Err(format!("unknown init `{init}`")),
        };
        out.extend(encode(dtype, v));
    }
    Ok(out)
}
