//! Every command and flag, in one place.

use std::path::PathBuf;
use std::sync::{LazyLock, OnceLock};

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use gpu::launch::{Argument, Extent};

use crate::exit;

#[derive(Debug, Parser)]
#[command(name = "warpsmith", version, about, after_help = exit::TABLE, max_term_width = 110)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    /// With none, `repro`.
    #[command(subcommand)]
    command: Option<Command>,
}

impl Cli {
    /// What was asked for.
    pub fn asked(&self) -> &Command {
        static ALONE: LazyLock<Command> = LazyLock::new(|| Command::Repro(ReproOptions::default()));
        self.command.as_ref().unwrap_or_else(|| &ALONE)
    }

    /// The flags, and what was asked for.
    pub fn into_parts(self) -> (Global, Command) {
        (self.global, self.command.unwrap_or_else(|| Command::Repro(ReproOptions::default())))
    }
}

/// Flags that every command takes.
#[derive(Debug, Args)]
pub struct Global {
    /// Where kernels run, and so what they are compiled for
    #[arg(long, global = true, value_name = "auto|cuda[:N]|virtual[:GPU]", default_value = "auto")]
    pub device: String,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Seed of searches, statistics and drawn problems
    #[arg(long, global = true, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Seed of inputs, compared rows and launch conditions, to repeat a run (default: a secret one, logged at the end)
    #[arg(long, global = true, value_name = "N")]
    pub input_seed: Option<u64>,
    #[arg(skip)]
    drawn: OnceLock<u64>,
    /// A CUDA toolkit to use instead of the one that would be found
    #[arg(long, global = true, value_name = "DIR", env = "WARPSMITH_CUDA")]
    pub cuda: Option<PathBuf>,
    /// A folder of kernel families that are added to, or replace, the built-in ones
    #[arg(long, global = true, value_name = "DIR")]
    pub kernels: Option<PathBuf>,
}

impl Global {
    /// What inputs are drawn from: what was asked for, or a secret that stays the same for this invocation.
    pub fn secret(&self) -> u64 {
        // Without randomness from the system a kernel could know its inputs, but no kernel of today does.
        self.input_seed.unwrap_or_else(|| *self.drawn.get_or_init(|| random::secret().unwrap_or(1)))
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say what this machine has and what it lacks, with remedies
    #[command(after_help = "Examples:\n  warpsmith doctor\n  warpsmith doctor --json")]
    Doctor,
    /// Show where the CUDA compiler comes from; install or remove Warpsmith's own
    #[command(after_help = "\
Examples:
  warpsmith toolchain             what was found, in the order it was looked for
  warpsmith toolchain install     fetch NVRTC and the CUDA headers from PyPI into the cache
  warpsmith toolchain clean       remove them again")]
    Toolchain(ToolchainOptions),
    /// List kernel families, or show one with its knobs, presets and capabilities
    #[command(
        after_help = "Examples:\n  warpsmith kernels\n  warpsmith kernels mma       also what `--preset tuned` stands for, on which GPU and problem"
    )]
    Kernels(KernelsOptions),
    /// Compile kernels; show registers, shared memory, spills and occupancy
    #[command(after_help = "\
Examples:
  warpsmith build wmma --preset stage-c --arch sm_89
  warpsmith build wmma --set BLOCK_N=64 --axis dtype=e4m3 --device virtual:l4
  warpsmith build wmma --preset stage-c --emit out     write PTX, cubin and the generated header
  warpsmith build mma --preset tuned --problem mission --device virtual:l4
  warpsmith build --all                                every preset for every target")]
    Build(BuildOptions),
    /// Check that kernels give the right answer, over problems, input classes and seeds
    #[command(after_help = "\
Every answer is held against float64 arithmetic; results are poisoned before the launch, memory around them is guarded,
inputs must stay as they were, the same inputs must give the same bits and every input must make a difference.
With nothing named, every preset of every family is checked over the named problems and the shapes where kernels have
their edges. On the virtual GPU large problems are cut to size: fewer heads, then fewer queries, never fewer keys.
On a GPU kernels run in processes of their own, up to four at a time: what faults or hangs costs itself alone. There the
largest problems are asked whether every input makes a difference only where they are named.

Examples:
  warpsmith check
  warpsmith check wmma --preset stage-5-p2 --problem b1h8kv2s513d64-causal-e4m3 --class all
  warpsmith check wmma --suite canonical --sanitize
  warpsmith check --fuzz 200 --seed 7
  warpsmith check wmma --set BLOCK_N=64 --problem mission --svg maps")]
    Check(CheckOptions),
    /// Time kernels against their baselines, each in processes of its own
    #[command(after_help = "\
Every subject is compiled, run once and held against float64 arithmetic before it is timed; what is wrong is never
timed. Kernels and baselines then take turns (A B C C B A) in one run, until every median is known to half a per cent.
Each runs in three processes (--processes), which all take part: what a thing differs from itself by is in every interval.
Times are of CUDA-graph replays; --cold adds such with the L2 flushed, --eager the time of one call, launch included. The
virtual GPU gives modelled times only, which are compared with nothing.

Baselines: auto, math, flash, mem_efficient, cudnn (PyTorch's scaled_dot_product_attention), reference (our own
unfused kernel), none. With --require the run fails with code 3 if the baseline cannot be measured.

Examples:
  warpsmith bench
  warpsmith bench wmma --preset stage-5-p2 --problem mission --cold --eager
  warpsmith bench mma --preset tuned --preset small --problem mission
  warpsmith bench --suite headline --require auto --processes 5
  warpsmith bench wmma --set BLOCK_N=64 --problem b2h8s2048d64-causal-e4m3 --baseline cudnn
  warpsmith bench --resume --run-dir warpsmith-runs/20261115T054710Z-bench-1f3a9c")]
    Bench(BenchOptions),
    /// Search a family's settings for the fastest that is right
    #[command(after_help = "\
Every candidate goes the same way: constraints, compile (in parallel, ahead), identical-binary check, correctness, timing
next to the baseline in worker processes. What hangs, crashes or is wrong costs that candidate alone. Elites are kept at a
gain of 3% or more that is no loss on two shapes. The run's folder has every trial, and `tuned.toml` with the best
setting for each problem; with --tuned the picks also go into a table of yours. A family's own table is `tuned.toml`
beside its `kernel.toml`: `--preset tuned` is its pick for the device and problem, or for the nearest problem of that
dtype, head dimension and mask.

Strategies: model, genetic, hillclimb, annealing, random, exhaustive (`warpsmith replay` scores them).

Instead of a strategy, a program or a model may propose. It is asked with a JSON document (the task; with
--information insight also what came of earlier candidates, with profiles; with full also the best so far). It answers
  {\"knobs\": {\"STAGES\": 3}, \"why\": \"...\"}           knobs on top of the baseline's
  {\"source\": \"...\", \"knobs\": {...}}                a kernel source of its own
--proposer-cmd is run by `sh -c` for every answer, with the document on its stdin and the answer on its stdout.
--endpoint is the base address of an OpenAI-compatible server, asked through curl; its key is read from the environment
(WARPSMITH_API_KEY) and written nowhere. Every answer counts, also one that is no candidate. A proposed source may
include the family's, CUDA's and standard headers only, and runs under all checkers of the virtual GPU first.

Examples:
  warpsmith evolve
  warpsmith evolve mma --problem mission --problem small --budget 64
  warpsmith evolve wmma --preset stage-2 --suite headline --strategy genetic --seed 7
  warpsmith evolve mma --suite v3 --tuned tuned.toml
  warpsmith evolve mma --suite v3 --tuned kernels/attention/mma/tuned.toml --kernels kernels
  warpsmith evolve mma --proposer-cmd \"python3 propose.py\" --budget 20
  warpsmith evolve mma --endpoint https://api.example.com/v1 --model NAME --information insight
  warpsmith evolve --resume --run-dir warpsmith-runs/20261115T054710Z-evolve-1f3a9c")]
    Evolve(EvolveOptions),
    /// All of it in order, from the environment to the report; what `warpsmith` alone does
    #[command(after_help = "\
One run: every kernel beside what people use today, a search from the best preset on, the best it found against everybody,
what limits it, what known pathologies would cost, and a report in one page. With a GPU it is measured; with none it
runs on the virtual GPU, and says modelled wherever a time stands.

Examples:
  warpsmith
  warpsmith repro --quick
  warpsmith repro --suite v3 --budget 256
  warpsmith repro --problem b2h16s1024d128-causal-fp16 --device virtual:a100
  warpsmith repro --resume --run-dir warpsmith-runs/20261115T054710Z-repro-1f3a9c")]
    Repro(ReproOptions),
    /// Say what limits kernels, and which levers to pull
    #[command(after_help = "\
On a GPU, Nsight Compute (ncu) profiles one launch of every kernel; it must be installed, fit the driver and be permitted
to read the counters, or the command ends with code 3. On the virtual GPU the same figures come from its counters and
its time model; large problems are counted in part: fewer heads, then fewer queries, never fewer keys. Either way the
kernel's answer is held against float64 arithmetic first: nothing wrong is profiled.

Examples:
  warpsmith profile wmma --preset stage-2
  warpsmith profile mma --problem mission --problem small --device cuda
  warpsmith profile wmma --preset stage-2 --set PATHOLOGY=barriers --device virtual:h200
  warpsmith profile --suite canonical --run-dir run --json")]
    Profile(ProfileOptions),
    /// Put known pathologies into a kernel on purpose, and rank them by what they cost
    #[command(after_help = "\
A family names its pathologies in its manifest: strided loads, no staging in shared memory, extra barriers, divergent
branches, over-unrolling, tiny blocks. Each is checked like any other kernel (the answer stays right), then timed in
turns with the healthy one on a GPU, or counted on the virtual GPU, where costs are modelled.

Examples:
  warpsmith invert
  warpsmith invert wmma --preset stage-2 --problem small
  warpsmith invert wmma --device virtual:h200 --json")]
    Invert(InvertOptions),
    /// Fail on a wrong result or a regression against the best on record
    #[command(after_help = "\
A run fails on a wrong answer, on a candidate that broke, on registers or spills above the family's limits, and where
the best candidate's median is more than 2% above the one on record, the intervals are apart and the rank test agrees.
What is missing is code 4, never a pass.

Examples:
  warpsmith gate --leaderboard leaderboard.json
  warpsmith gate --leaderboard leaderboard.json --update
  warpsmith gate --leaderboard leaderboard.json --suite headline --run-dir run --junit gate.xml --github")]
    Gate(GateOptions),
    /// Score the search strategies on recorded search spaces; needs no GPU
    #[command(after_help = "\
A recorded space holds the time of every configuration of a kernel, so a search on it costs nothing but its own time.
Scores are shares of the optimum: best possible time over best time found after so many evaluations, mean over seeds.
Failed configurations cost an evaluation. Seeds count up from 0; --seed plays no part.

Files: recorded spaces, kernel_tuner caches (also of interrupted runs), T4 results; each may be gzip'd.

Examples:
  warpsmith replay --space spaces/*.json.gz
  warpsmith replay --space gemm.json --strategy all --seeds 50 --csv scores.csv
  warpsmith replay --space gemm.json --strategy genetic --budget 500 --at 100,500 --json")]
    Replay(ReplayOptions),
    /// Write a run's report: one HTML page and Markdown, from its log alone
    #[command(after_help = "\
Writes report.html (one file: no network, no script), summary.md and the run's data files (bench.json, bench.csv,
tune_log.csv, topk.json, profile.json: those it has anything for) into the run's folder, and prints their paths. Every
number in them is read from the run's events.jsonl. A run that was stopped, or is still going on, can be reported too;
the report says that it is incomplete.

Examples:
  warpsmith report
  warpsmith report warpsmith-runs/20261115T054710Z-bench-1f3a9c
  warpsmith report --json")]
    Report(ReportOptions),
    /// List runs, the latest first
    #[command(after_help = "Examples:\n  warpsmith runs\n  warpsmith runs --json")]
    Runs(RunsOptions),
    /// Compile, run and time kernels for the command that starts this process
    #[command(hide = true)]
    Worker {
        /// Whose worker it is, for those who look at the list of processes
        subject: Option<String>,
        /// A file with the questions, instead of the channel
        #[arg(long, value_name = "FILE")]
        asks: Option<PathBuf>,
    },
    /// Lend the GPU to the command that starts this process
    #[command(hide = true)]
    LendDevice,
    /// Run a CUDA kernel on the virtual GPU under all its checkers
    #[command(after_help = "\
The launch may stand in the file itself, as comment lines that hold the same flags:
  // warpsmith: --kernel scale --grid 4 --block 256
  // warpsmith: --arg x=f32[1000]=normal(7) --arg y=out,f32[1000] --arg n=i32=1000
Flags on the command line take precedence; one --arg there replaces all of the file's.

Arguments, one per kernel parameter, in order:
  [NAME=]DTYPE[dims]=INIT        input buffer
  [NAME=]inout,DTYPE[dims]=INIT  buffer with contents, read and written
  [NAME=]out,DTYPE[dims]         output: starts uninitialised, every element must be written
  [NAME=]scratch,DTYPE[dims]     work space: starts uninitialised, need not be written
  [NAME=]DTYPE=VALUE             scalar
  [NAME=]bytes=HEX               a struct by value
DTYPE: f64 f32 f16 bf16 e4m3 e5m2 i8 u8 i16 u16 i32 u32 i64 u64
INIT: zeros ones const(V) iota normal(SEED) uniform(SEED) randint(SEED,LO,HI)

Examples:
  warpsmith sanitize kernel.cu
  warpsmith sanitize kernel.cu --grid 8 --block 128 --arg f32[1024]=normal(7) --arg out,f32[1024] --print all
  warpsmith sanitize kernel.cu --counters --device virtual:a100
  warpsmith sanitize wmma --preset stage-5-p2 --problem b1h2s200d64-causal-e4m3 --counters")]
    Sanitize(SanitizeOptions),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  warpsmith completions bash > ~/.local/share/bash-completion/completions/warpsmith"
    )]
    Completions { shell: Shell },
    /// Write man pages into a folder
    #[command(after_help = "Example:\n  warpsmith man ~/.local/share/man/man1")]
    Man {
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct ToolchainOptions {
    #[command(subcommand)]
    pub action: Option<ToolchainAction>,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub enum ToolchainAction {
    /// Show what was chosen and why (the default)
    Show,
    /// Install the pinned compiler into the cache
    Install,
    /// Remove the installed compiler from the cache
    Clean,
}

#[derive(Debug, Args)]
pub struct KernelsOptions {
    /// Show this family in full
    pub family: Option<String>,
}

#[derive(Debug, Args)]
pub struct BuildOptions {
    /// The family to build; several with --all
    #[arg(required_unless_present = "all")]
    pub family: Option<String>,
    /// Every preset of the family, or of all families, for every target
    #[arg(long, conflicts_with_all = ["preset", "set"])]
    pub all: bool,
    /// A named setting of the knobs, or `tuned`: the tuned table's pick for the device and problem
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Set a knob
    #[arg(long, value_name = "KNOB=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// Compile for this problem, or an alias: its compile-time properties; `tuned` goes by it
    #[arg(long, value_name = "NAME", conflicts_with_all = ["all", "axis"])]
    pub problem: Option<String>,
    /// Set a compile-time property of the problem
    #[arg(long, value_name = "AXIS=VALUE", value_parser = assignment)]
    pub axis: Vec<(String, String)>,
    /// With --all: every value of every compile-time axis, not only the default one
    #[arg(long, requires = "all", conflicts_with = "axis")]
    pub every_axis: bool,
    /// Compile for this target instead of the device's
    #[arg(long, value_name = "sm_NN")]
    pub arch: Vec<String>,
    /// Write PTX, cubin and generated header into this folder
    #[arg(long, value_name = "DIR")]
    pub emit: Option<PathBuf>,
    /// Compilations at a time (default: one per core)
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
}

#[derive(Debug, Args)]
pub struct CheckOptions {
    /// Families to check (default: all)
    #[arg(value_name = "FAMILY")]
    pub families: Vec<String>,
    /// Check only this preset, or `tuned`, the tuned table's pick for each problem (default: all presets)
    #[arg(long, value_name = "NAME")]
    pub preset: Vec<String>,
    /// Set a knob on top of the preset
    #[arg(long, value_name = "KNOB=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// A problem or an alias, such as mission or b2h8s2048d64-causal-e4m3
    #[arg(long, value_name = "NAME")]
    pub problem: Vec<String>,
    /// The problems of a suite
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Vec<String>,
    /// A class of inputs, or `all` (default: normal, and every class on small shapes or on a small part of the problem)
    #[arg(long, value_name = "NAME")]
    pub class: Vec<String>,
    /// Repeat every case with this many seeds, counted up from --input-seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MOST_CASES))]
    pub seeds: u64,
    /// Check this many problems drawn at random from --seed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_CASES))]
    pub fuzz: Option<u64>,
    /// Run under every checker of the virtual GPU: races, uninitialised values, bounds, barriers
    #[arg(long)]
    pub sanitize: bool,
    /// Do not cut large problems to size
    #[arg(long)]
    pub full_size: bool,
    /// Write a picture of the errors of every wrong answer into this folder
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Seconds a kernel may take on a GPU, which it shares with up to three, before it is called hung
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "120")]
    pub limit: f64,
    /// Cases at a time (default: one per core)
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
}

#[derive(Debug, Default, Args)]
pub struct BenchOptions {
    /// Families to bench (default: all)
    #[arg(value_name = "FAMILY")]
    pub families: Vec<String>,
    /// Bench only this preset, or `tuned`, the tuned table's pick for each problem (default: all presets)
    #[arg(long, value_name = "NAME")]
    pub preset: Vec<String>,
    /// Set a knob on top of the preset
    #[arg(long, value_name = "KNOB=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// A problem or an alias, such as mission or b2h8s2048d64-causal-e4m3
    #[arg(long, value_name = "NAME")]
    pub problem: Vec<String>,
    /// The problems, baselines and targets of a suite (default: headline)
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Option<String>,
    /// Compare with this (default: the suite's baselines, and reference)
    #[arg(long, value_name = "NAME")]
    pub baseline: Vec<String>,
    /// A baseline that must be there
    #[arg(long, value_name = "NAME")]
    pub require: Vec<String>,
    /// Worker processes of every subject. Processes that run the same thing differ by more than samples of one of them
    /// show; with several, intervals hold for the next run, and every subject is its own A/A control. Each takes a CUDA
    /// context's memory. The virtual GPU, whose times are modelled, has one
    #[arg(long, value_name = "N", default_value_t = PROCESSES, value_parser = processes)]
    pub processes: u32,
    /// Most samples per subject, problem and timer (default: until the median is known well enough)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pub iters: Option<u32>,
    /// Calls before anything is timed (default: the suite's, or 10)
    #[arg(long, value_name = "N")]
    pub warmup: Option<u32>,
    /// Also with the L2 flushed before every launch
    #[arg(long)]
    pub cold: bool,
    /// Also one call at a time, launch included
    #[arg(long)]
    pub eager: bool,
    /// Seconds of timing per problem and timer, at most (default: the suite's, or 5)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Seconds one candidate may take to run before it is called hung (default: 120; 900 on the virtual GPU)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub limit: Option<f64>,
    /// Memory of one candidate's process before it is ended, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 16384)]
    pub memory: u64,
    /// Go on with the run in --run-dir; what is finished is not repeated. What the log alone is not trusted with must be
    /// given again: --cuda, --kernels
    #[arg(long, requires = "run_dir")]
    pub resume: bool,
    /// The run's folder (default: a new one below warpsmith-runs)
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct EvolveOptions {
    /// The family to search (default: mma)
    #[arg(value_name = "FAMILY")]
    pub family: Option<String>,
    /// The preset everything is compared with (default: the first that takes every problem)
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Set a knob on top of that preset
    #[arg(long, value_name = "KNOB=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// A problem or an alias to be fast on (default: mission)
    #[arg(long, value_name = "NAME")]
    pub problem: Vec<String>,
    /// The problems of a suite
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Option<String>,
    /// Candidates to evaluate (default: 128)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub budget: Option<u32>,
    /// A budget of 32
    #[arg(long, conflicts_with = "budget")]
    pub quick: bool,
    /// How candidates are chosen
    #[arg(long, value_name = "NAME", default_value = search::strategy::DEFAULT)]
    pub strategy: String,
    /// A command line that proposes candidates, instead of a strategy
    #[arg(long, value_name = "COMMAND", group = "proposer", conflicts_with = "strategy")]
    pub proposer_cmd: Option<String>,
    /// An OpenAI-compatible server whose model proposes candidates, instead of a strategy
    #[arg(long, value_name = "URL", group = "proposer", requires = "model", conflicts_with = "strategy")]
    pub endpoint: Option<String>,
    /// The model's name at the endpoint
    #[arg(long, value_name = "NAME", requires = "endpoint")]
    pub model: Option<String>,
    /// What a proposer is told
    #[arg(long, value_enum, requires = "proposer", default_value_t = ProposerInformation::Full)]
    pub information: ProposerInformation,
    /// Seconds a proposer may take for one answer
    #[arg(long, value_name = "SECONDS", requires = "proposer", default_value = "120", value_parser = seconds)]
    pub proposer_seconds: f64,
    /// How many are kept
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub elites: u32,
    /// Seconds of timing per candidate and problem, at most (default: 1)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Seconds one candidate may take to run before it is called hung (default: 20; 120 on the virtual GPU)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub limit: Option<f64>,
    /// A table of picks to write into; what is there stays unless this search is better placed to know
    #[arg(long, value_name = "FILE")]
    pub tuned: Option<PathBuf>,
    /// Go on with the run in --run-dir; what is finished is not repeated. What the log alone is not trusted with must be
    /// given again: --cuda, --kernels, --proposer-cmd, --endpoint, --model, --tuned
    #[arg(long, requires = "run_dir")]
    pub resume: bool,
    /// The run's folder (default: a new one below warpsmith-runs)
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum ProposerInformation {
    /// The task
    Free,
    /// The task, and what came of earlier candidates
    Insight,
    /// The task, what came of earlier candidates, and the best so far
    Full,
}

#[derive(Debug, Args)]
pub struct ReproOptions {
    /// A problem or an alias
    #[arg(long, value_name = "NAME")]
    pub problem: Vec<String>,
    /// The problems, baselines and targets of a suite (default: headline)
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Option<String>,
    /// The family that is searched (default: mma)
    #[arg(long, value_name = "FAMILY")]
    pub family: Option<String>,
    /// Candidates of the search (default: 128)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub budget: Option<u32>,
    /// A budget of 32, and less time for timing
    #[arg(long, conflicts_with = "budget")]
    pub quick: bool,
    /// How candidates are chosen
    #[arg(long, value_name = "NAME", default_value = search::strategy::DEFAULT)]
    pub strategy: String,
    /// Seconds of timing per problem, at most (default: the suite's, or 5; 2 with --quick)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Go on with the run in --run-dir; what is finished is not repeated. What the log alone is not trusted with must be
    /// given again: --cuda, --kernels
    #[arg(long, requires = "run_dir")]
    pub resume: bool,
    /// The run's folder (default: a new one below warpsmith-runs)
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
}

impl Default for ReproOptions {
    fn default() -> Self {
        ReproOptions {
            problem: Vec::new(),
            suite: None,
            family: None,
            budget: None,
            quick: false,
            strategy: search::strategy::DEFAULT.to_owned(),
            seconds: None,
            resume: false,
            run_dir: None,
        }
    }
}

#[derive(Debug, Args)]
pub struct ProfileOptions {
    /// Families to profile (default: all)
    #[arg(value_name = "FAMILY")]
    pub families: Vec<String>,
    /// Profile only this preset, or `tuned`, the tuned table's pick for each problem (default: all presets)
    #[arg(long, value_name = "NAME")]
    pub preset: Vec<String>,
    /// Set a knob on top of the preset
    #[arg(long, value_name = "KNOB=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// A problem or an alias, such as mission or b2h8s2048d64-causal-e4m3 (default: mission)
    #[arg(long, value_name = "NAME")]
    pub problem: Vec<String>,
    /// The problems of a suite
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Option<String>,
    #[command(flatten)]
    pub process: ProcessOptions,
}

#[derive(Debug, Args)]
pub struct InvertOptions {
    /// The family (default: every one that has pathologies)
    #[arg(value_name = "FAMILY")]
    pub families: Vec<String>,
    /// The healthy kernel (default: the family's last preset that can have every pathology)
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Set a knob of the healthy kernel on top of the preset
    #[arg(long, value_name = "KNOB=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// A problem or an alias, such as mission or b2h8s2048d64-causal-e4m3 (default: mission)
    #[arg(long, value_name = "NAME")]
    pub problem: Vec<String>,
    /// Seconds of timing per problem, at most
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value_t = 5.0)]
    pub seconds: f64,
    #[command(flatten)]
    pub process: ProcessOptions,
}

/// How long and how large a candidate's process may get, and where its results go.
#[derive(Debug, Args)]
pub struct ProcessOptions {
    /// Count problems on the virtual GPU as they are, however long it takes
    #[arg(long)]
    pub full_size: bool,
    /// Seconds one candidate may take to run before it is called hung (default: 120; 900 on the virtual GPU)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub limit: Option<f64>,
    /// Memory of one candidate's process before it is ended, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 16384)]
    pub memory: u64,
    /// Go on with the run in --run-dir; what is finished is not repeated. What the log alone is not trusted with must be
    /// given again: --cuda, --kernels
    #[arg(long, requires = "run_dir")]
    pub resume: bool,
    /// The run's folder (default: a new one below warpsmith-runs)
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct GateOptions {
    /// The best on record; a file that is not there is an empty one
    #[arg(long, value_name = "FILE")]
    pub leaderboard: PathBuf,
    /// The run to judge (default: the latest bench below warpsmith-runs)
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// Problems that must be there (default: those on record for the run's device)
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Vec<String>,
    /// Which of the run's times
    #[arg(long, value_enum, default_value_t = GateTimer::Hot)]
    pub timer: GateTimer,
    /// Put what is better, and what is on no record yet, on record
    #[arg(long)]
    pub update: bool,
    /// Also write a JUnit file
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Also print annotations for GitHub
    #[arg(long)]
    pub github: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum GateTimer {
    Hot,
    Cold,
    Eager,
}

#[derive(Debug, Args)]
pub struct ReplayOptions {
    /// Recorded spaces
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    pub space: Vec<PathBuf>,
    /// Strategies by name, or `all`
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = search::strategy::DEFAULT)]
    pub strategy: Vec<String>,
    /// Runs per space and strategy
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=MOST_CASES))]
    pub seeds: u64,
    /// Evaluations per run
    #[arg(long, value_name = "N", default_value = "200", value_parser = budget)]
    pub budget: usize,
    /// Score after so many evaluations (default: 25,50,100,200, as far as the budget goes)
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub at: Vec<usize>,
    /// Write the scores into this file, as they come
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ReportOptions {
    /// The run's folder (default: the latest run below warpsmith-runs)
    #[arg(value_name = "RUN_DIR")]
    pub run_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RunsOptions {
    /// Where to look
    #[arg(long, value_name = "DIR", default_value = lab::run::DEFAULT_FOLDER)]
    pub run_dir: PathBuf,
}

#[derive(Debug, Args)]
pub struct SanitizeOptions {
    /// A CUDA source file, or the name of one of Warpsmith's families
    #[arg(value_name = "FILE|FAMILY")]
    pub file: PathBuf,
    #[command(flatten)]
    pub launch: LaunchOptions,
    /// Of a family: the preset, or `tuned`, the tuned table's pick for the problem
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Of a family: set a knob on top of the preset
    #[arg(long, value_name = "KNOB=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// Of a family: the problem to run it on, whole (default: a small one)
    #[arg(long, value_name = "NAME")]
    pub problem: Option<String>,
    /// Print this buffer after the launch (`all` for every buffer)
    #[arg(long, value_name = "NAME")]
    pub print: Vec<String>,
    /// Save every buffer as NAME.npy in this folder after the launch
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    /// Count instructions, memory traffic and bank conflicts, per kernel and per source line
    #[arg(long)]
    pub counters: bool,
    /// List the kernel's instructions with how faithfully they are executed
    #[arg(long)]
    pub fidelity: bool,
    /// Run without checks, several times as fast; a fault still ends the launch
    #[arg(long)]
    pub unchecked: bool,
    /// Warp instructions before a kernel is called run-away: half a minute or so
    #[arg(long, value_name = "N", default_value_t = 300_000_000)]
    pub budget: u64,
    /// Worker threads (default: one per core)
    #[arg(long, short, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub jobs: usize,
}

/// A launch in flags. The same ones stand in a file's `// warpsmith:` comments.
#[derive(Clone, Debug, Default, Args)]
pub struct LaunchOptions {
    /// The kernel to launch (default: the file's only one)
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Blocks, as X or X,Y,Z
    #[arg(long, value_name = "EXTENT")]
    pub grid: Option<Extent>,
    /// Threads of a block, as X or X,Y,Z
    #[arg(long, value_name = "EXTENT")]
    pub block: Option<Extent>,
    /// Dynamic shared memory in bytes
    #[arg(long, value_name = "BYTES")]
    pub shared: Option<u32>,
    /// One kernel argument; repeat for each, in order
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub arg: Vec<Argument>,
    /// Compile for this target instead of the device's
    #[arg(long, value_name = "sm_NN")]
    pub arch: Option<String>,
    /// A macro definition for the compiler
    #[arg(long, short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
    /// A folder with headers the file includes; its own folder is always one
    #[arg(long, short = 'I', value_name = "DIR")]
    pub include: Vec<PathBuf>,
}

/// For reading the flags in a file's comments.
#[derive(Debug, Parser)]
#[command(name = "// warpsmith:", no_binary_name = true, disable_help_flag = true)]
pub struct HeaderFlags {
    #[command(flatten)]
    pub launch: LaunchOptions,
}

/// Cases of a check, and runs of a replay: more would take months, and more memory than there is.
pub const MOST_CASES: u64 = 1_000_000;

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

fn budget(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&evaluations| evaluations > 0)
        .ok_or("expected a number of evaluations".to_owned())
}

/// How many processes a subject is measured in, unless told: with three, two runs of something that is in one of two
/// places from process to process are apart in 1 of 32, with two in 1 of 8.
pub const PROCESSES: u32 = 3;

fn processes(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("expected a number of processes, at least 1".to_owned()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    // Three years. Clocks end somewhere.
    const MOST: f64 = 1e8;
    match text.parse() {
        Ok(value) if value > 0.0 && value <= MOST => Ok(value),
        _ => Err(format!("expected a number of seconds, above 0 and at most {MOST}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    #[test]
    fn seconds_are_what_a_clock_can_count() {
        assert_eq!(super::seconds("0.5"), Ok(0.5));
        for wrong in ["", "soon", "0", "-1", "nan", "inf", "1e300"] {
            assert!(super::seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_resumed_bench_has_the_processes_it_was_started_with() {
        // A run is gone on with by the command line in its manifest.
        let asked = |line: &[&str]| match super::Cli::try_parse_from(line).unwrap().asked() {
            super::Command::Bench(options) => options.processes,
            other => panic!("{other:?}"),
        };
        assert_eq!(asked(&["warpsmith", "bench", "--processes", "5"]), 5);
        assert_eq!(asked(&["warpsmith", "bench"]), super::PROCESSES);
    }

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
