//! Measures how well the virtual GPU's modelled times rank kernels, compared with times measured on the real GPU:
//!
//! ```text
//! model-rank TIMES.csv [--device h200] [--blocks N | --sample N [--seed S]] [--parts]
//! ```
//!
//! The file has a line `family,preset,knobs,problem,us` per kernel. Each kernel runs on the virtual GPU, with
//! counters and without checks, and the time model uses the counters. The program prints modelled and measured times
//! side by side with their rank correlation, per problem and over all. Batches and heads are independent and alike. A
//! problem with more than `--blocks` blocks (default 64) is therefore counted with fewer of them, and its counters
//! are multiplied; the table shows the factor. If a fixed number of blocks shares the work, the work is assumed to
//! divide evenly. With `--sample` the problem stays as it is, but only that many blocks of its grid run, spread evenly and selected by
//! `--seed`.
//! `--parts` prints the time of each resource alone.

use std::error::Error;
use std::path::{Path, PathBuf};

use attention::run as attention_run;
use attention::{Attention, Class, Inputs, Layout, Problem};
use chips::{Chip, Resources};
use compiler::Compiler;
use compiler::toolchain;
use family::{Catalog, Family};
use gpu::accelerator::VirtualDevice;
use op::{Kernel, OpProblems as _};
use vgpu::model::{self, Modelled, Shape};
use vgpu::{Checks, Sample};

/// A line of the file.
struct Measured {
    family: String,
    preset: String,
    knobs: Vec<(String, String)>,
    problem: Problem,
    micros: f64,
}

/// How much of a launch is counted.
#[derive(Clone, Copy)]
enum Counted {
    /// A problem with fewer batches and heads, of at most this many blocks.
    Smaller(u64),
    /// A sample of the blocks of the grid.
    Sample(Sample),
}

/// The modelled time of a line.
struct Row {
    name: String,
    problem: Problem,
    measured: f64,
    modelled: Modelled,
    /// The factor of the counters.
    scale: u64,
}

pub fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let (mut file, mut device, mut parts, mut seed) = (None, "h200".to_owned(), false, None);
    let mut counted = Counted::Smaller(64);
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--device" => device = arguments.next().ok_or("--device needs a name")?,
            "--blocks" => {
                counted = Counted::Smaller(arguments.next().ok_or("--blocks needs a number")?.parse()?);
            }
            "--sample" => {
                let most = arguments.next().ok_or("--sample needs a number")?.parse()?;
                counted = Counted::Sample(Sample { most, seed: 0 });
            }
            "--seed" => seed = Some(arguments.next().ok_or("--seed needs a number")?.parse()?),
            "--parts" => parts = true,
            _ => file = Some(word),
        }
    }
    let file = file.ok_or(
        "usage: model-rank TIMES.csv [--device h200] [--blocks N | --sample N [--seed S]] [--parts]",
    )?;
    if let Counted::Sample(sample) = &mut counted {
        sample.seed = seed.or_else(random::secret).ok_or("--seed: the system has no random numbers")?;
        println!("to repeat with the same blocks: --sample {} --seed {}", sample.most, sample.seed);
    }
    let chip = Chip::by_name(&device)?;
    let named = std::env::var_os("WARPSMITH_CUDA").map(PathBuf::from);
    let toolchain = toolchain::ensure(named.as_deref(), &mut |_| ())?;
    let compiler = Compiler::new(toolchain, &files::cache_dir())?;
    let catalog = Catalog::load(None)?;

    let mut rows = Vec::new();
    println!("measured us  modelled us  limited by          counted  kernel");
    for measured in read(Path::new(&file))? {
        let family = catalog.family(&measured.family)?;
        let row = modelled(&compiler, family, &measured, chip, counted)?;
        println!(
            "{:>11.1}  {:>11.1}  {:<18}  {:>7}  {} {}",
            row.measured,
            row.modelled.time.0,
            row.modelled.bottleneck.name(),
            if row.scale == 1 { "all".to_owned() } else { format!("1/{}", row.scale) },
            row.problem,
            row.name
        );
        if parts {
            for (resource, time) in row.modelled.resources.iter().take(5) {
                println!("{:>27.1}  {}", time.0, resource.name());
            }
        }
        rows.push(row);
    }

    println!("\nkernels  Spearman  Kendall  over");
    let mut problems: Vec<Problem> = Vec::new();
    for row in &rows {
        if !problems.contains(&row.problem) {
            problems.push(row.problem);
        }
    }
    for problem in &problems {
        correlate(&problem.to_string(), rows.iter().filter(|row| row.problem == *problem));
    }
    correlate("all", rows.iter());
    Ok(())
}

fn correlate<'r>(name: &str, rows: impl Iterator<Item = &'r Row>) {
    let pairs: Vec<(f64, f64)> = rows.map(|row| (row.measured, row.modelled.time.0)).collect();
    if pairs.len() > 2 {
        println!("{:>7}  {:>8.3}  {:>7.3}  {name}", pairs.len(), spearman(&pairs), kendall(&pairs));
    }
}

fn read(file: &Path) -> Result<Vec<Measured>, Box<dyn Error>> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line == "family,preset,knobs,problem,us" {
            continue;
        }
        let wrong = |what: &str| format!("{}:{}: {what}", file.display(), number + 1);
        let [family, preset, knobs, problem, micros] = line.split(',').map(str::trim).collect::<Vec<_>>()[..]
        else {
            return Err(wrong("a line must be family,preset,knobs,problem,us").into());
        };
        let knobs = knobs
            .split_whitespace()
            .map(|knob| knob.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| wrong("knobs must be NAME=VALUE"))?;
        lines.push(Measured {
            family: family.to_owned(),
            preset: preset.to_owned(),
            knobs,
            problem: problem.parse().map_err(|error| wrong(&format!("{error}")))?,
            micros: micros.parse().map_err(|_| wrong("the time is not a number"))?,
        });
    }
    Ok(lines)
}

fn modelled(
    compiler: &Compiler,
    family: &Family,
    measured: &Measured,
    chip: &'static Chip,
    how: Counted,
) -> Result<Row, Box<dyn Error>> {
    let problem = measured.problem;
    let preset = (!measured.preset.is_empty()).then_some(measured.preset.as_str());
    let candidate = attention_run::candidate(family, preset, &measured.knobs, &problem)?;
    let target = chip.target;
    let build = compiler.build(&family.request(&candidate, target)?)?.build;
    let launch = |problem: &Problem| family.launch(&candidate, &attention_run::sizes(problem));
    let whole = launch(&problem)?;
    let blocks_of = |grid: [u64; 3]| grid.iter().product::<u64>();
    let blocks = blocks_of(whole.grid);

    let mut counted = problem;
    let mut scale = 1;
    let most_blocks = match how {
        Counted::Smaller(most) => most,
        Counted::Sample(_) => u64::MAX,
    };
    while blocks_of(launch(&counted)?.grid) > most_blocks {
        counted = if counted.batch.is_multiple_of(2) {
            Problem { batch: counted.batch / 2, ..counted }
        } else if counted.heads.is_multiple_of(2) && counted.kv_heads.is_multiple_of(2) {
            Problem { heads: counted.heads / 2, kv_heads: counted.kv_heads / 2, ..counted }
        } else {
            break;
        };
        scale *= 2;
    }

    let mut device = VirtualDevice::new(chip);
    device.options.checks = Checks::None;
    device.options.counters = true;
    device.options.budget = u64::MAX;
    if let Counted::Sample(sample) = how {
        device.options.sample = Some(sample);
        scale = blocks.div_ceil(sample.most);
    }
    let name = candidate.label(family);
    let entry = build.entry(&family.entry).ok_or("the build does not contain the kernel")?;
    let occupancy = chip.occupancy(&Resources {
        registers_per_thread: entry.registers,
        static_shared_bytes: entry.static_shared_bytes,
        dynamic_shared_bytes: whole.shared_bytes as u32,
        threads_per_block: whole.block.iter().product(),
        barriers: entry.barriers,
    })?;
    let kernel = Kernel::build(&mut device, compiler, family, candidate, target)?;
    let inputs = Inputs::generate(&counted, Class::Normal, 1).encode(counted.dtype, Layout::Bhsd);
    let report = attention_run::run(&kernel, &mut device, &counted, &inputs, false)?.reports.pop();
    let counters = report.and_then(|report| report.counters).ok_or("the run has no counters")?;
    let shape = Shape {
        blocks,
        threads_per_block: whole.block.iter().product(),
        blocks_per_sm: occupancy.blocks_per_sm,
        shared_per_block: entry.static_shared_bytes + whole.shared_bytes as u32,
    };
    let bytes = |problem: &Problem| Attention.work(problem).bytes as f64;
    let memory =
        if matches!(how, Counted::Sample(_)) { scale as f64 } else { bytes(&problem) / bytes(&counted) };
    let mut counters = counters.scaled(scale, memory);
    counters.blocks.finished = blocks;
    let modelled = model::modelled(&counters, shape, chip);
    Ok(Row { name, problem, measured: measured.micros, modelled, scale })
}

/// Spearman's rank correlation: the correlation of the ranks. Equal values share the mean of their ranks.
fn spearman(pairs: &[(f64, f64)]) -> f64 {
    let ranks = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        let rank = |value: f64| {
            let below = pairs.iter().filter(|pair| of(pair) < value).count() as f64;
            let equal = pairs.iter().filter(|pair| of(pair) == value).count() as f64;
            below + f64::midpoint(equal, 1.0)
        };
        pairs.iter().map(|pair| rank(of(pair))).collect()
    };
    let (a, b) = (ranks(|pair| pair.0), ranks(|pair| pair.1));
    let mean = f64::midpoint(pairs.len() as f64, 1.0);
    let product =
        |x: &[f64], y: &[f64]| -> f64 { x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum() };
    product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt()
}

/// Kendall's tau-b: the pairs in the same order minus the pairs in the opposite order, normalised.
fn kendall(pairs: &[(f64, f64)]) -> f64 {
    let (mut agree, mut left, mut right) = (0.0, 0.0, 0.0);
    for (i, p) in pairs.iter().enumerate() {
        for q in &pairs[i + 1..] {
            let sign = |x: f64| if x == 0.0 { 0.0 } else { x.signum() };
            let (a, b) = (sign(p.0 - q.0), sign(p.1 - q.1));
            agree += a * b;
            left += a * a;
            right += b * b;
        }
    }
    agree / f64::sqrt(left * right)
}
