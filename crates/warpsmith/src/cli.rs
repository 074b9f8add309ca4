//! Defines every command and flag.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};

use attention::fp8_study::StudyClass;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, Args, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use family::{Catalog, CatalogError, NamedArrays};
use launch::{Argument, Call, Extent};

use crate::error::CommandError;
use crate::exit;

/// The parsed command line.
#[derive(Debug, Args)]
pub struct Cli {
    /// The shared flags.
    #[command(flatten)]
    pub global: Global,
    /// The command to run. `None` means `repro`.
    #[command(subcommand)]
    command: Option<Command>,
}

/// The shared flags that a command uses, by their names in [`Global`]. The help of a command lists only these, and others
/// are refused.
fn shared_flags(command: &str) -> &'static [&'static str] {
    match command {
        "completions" | "man" | "lend-compiler" => &[],
        "export" | "replay" | "report" | "fleet" => &["json"],
        "toolchain" => &["cuda", "json"],
        "devices" => &["device", "json"],
        "doctor" | "exec" => &["device", "cuda", "json"],
        "kernels" | "new" => &["kernels", "json"],
        "problems" | "suites" | "gate" | "runs" => &["kernels", "op", "json"],
        "build" => &["device", "cuda", "kernels", "json"],
        "fp8" => &["device", "cuda", "json", "input_seed"],
        "profile" => &["device", "cuda", "kernels", "op", "json", "input_seed"],
        "sanitize" => &["device", "cuda", "kernels", "op", "json", "seed"],
        "lend-device" => &["device"],
        "worker" => &["device", "cuda", "kernels", "op"],
        // check, bench, evolve, invert and repro.
        _ => &["device", "cuda", "kernels", "op", "json", "seed", "input_seed"],
    }
}

/// The definition of the command line. The program itself has all shared flags, because it runs `repro` if no command is
/// named. A shared flag may stand before the command or after it.
pub fn command() -> clap::Command {
    let command = Cli::augment_args(clap::Command::new("warpsmith"))
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .after_help(exit::TABLE)
        .max_term_width(100);
    // A global flag of a subcommand takes the value of the program's flag with the same name, and gives it its own.
    let shared: Vec<Arg> = command.get_arguments().map(|flag| flag.clone().global(true)).collect();
    command.mut_subcommands(|subcommand| {
        let used = shared_flags(subcommand.get_name());
        let is_used = |flag: &&Arg| used.contains(&flag.get_id().as_str());
        subcommand.args(shared.iter().filter(is_used).cloned().collect::<Vec<_>>())
    })
}

/// Parses a command line. The first word is the name of the program.
pub fn parse<W: Into<OsString> + Clone>(words: impl IntoIterator<Item = W>) -> Result<Cli, clap::Error> {
    let mut matches = command().try_get_matches_from(words)?;
    if let Some((_, own)) = matches.subcommand() {
        let is_unused = |flag: &Arg| {
            let id = flag.get_id().as_str();
            matches.value_source(id) == Some(ValueSource::CommandLine) && own.try_contains_id(id).is_err()
        };
        if let Some(flag) = command().get_arguments().find(|flag| is_unused(flag)) {
            let message = format!("unexpected argument '--{}' found", flag.get_long().unwrap_or_default());
            return Err(command().error(ErrorKind::UnknownArgument, message));
        }
    }
    Cli::from_arg_matches_mut(&mut matches)
}

impl Cli {
    /// The command to run; `repro` if the user named none.
    pub fn selected(&self) -> &Command {
        static DEFAULT: LazyLock<Command> = LazyLock::new(|| Command::Repro(ReproOptions::default()));
        self.command.as_ref().unwrap_or_else(|| &DEFAULT)
    }

    /// The global flags and the command to run; `repro` if the user named none.
    pub fn into_parts(self) -> (Global, Command) {
        (self.global, self.command.unwrap_or_else(|| Command::Repro(ReproOptions::default())))
    }

    /// Replaces a CUDA or PTX file among the families by the op that it declares: `check scale.cu` means `check scale
    /// --kernels scale.cu`.
    pub fn with_file_as_op(mut self) -> Result<Self, CommandError> {
        let mut names: Vec<&mut String> = match &mut self.command {
            Some(Command::Check(options)) => options.kernels.families.iter_mut().collect(),
            Some(Command::Bench(options)) => options.kernels.families.iter_mut().collect(),
            Some(Command::Profile(options)) => options.kernels.families.iter_mut().collect(),
            Some(Command::Invert(options)) => options.families.iter_mut().collect(),
            Some(Command::Evolve(options)) => options.family.iter_mut().collect(),
            Some(Command::Repro(options)) => options.family.iter_mut().collect(),
            Some(Command::Build(options)) => options.family.iter_mut().collect(),
            Some(Command::Kernels(options)) => options.family.iter_mut().collect(),
            _ => Vec::new(),
        };
        names.retain(|name| family::is_kernel_file(Path::new(name.as_str())));
        for name in names {
            let path = PathBuf::from(name.as_str());
            if self.global.kernels.as_ref().is_some_and(|other| *other != path) {
                let message = format!(
                    "{} declares its own op; --kernels and other files cannot be added",
                    path.display()
                );
                return Err(CommandError::usage(message));
            }
            *name = family::family_of_file(&path);
            self.global.kernels = Some(path);
        }
        self.global.arrays = match &self.command {
            Some(Command::Check(options)) => options.arrays.named(),
            Some(Command::Bench(options)) => options.arrays.named(),
            Some(Command::Worker(options)) => {
                NamedArrays { inputs: paths(&options.array), ..NamedArrays::default() }
            }
            _ => NamedArrays::default(),
        };
        let names_arrays = !self.global.arrays.inputs.is_empty() || !self.global.arrays.expected.is_empty();
        if names_arrays && !self.global.kernels.as_ref().is_some_and(|path| path.is_file()) {
            return Err(CommandError::usage(
                "--input and --expect need a .cu or .ptx file that declares its op",
            )
            .hint("in an op's folder, name the arrays in op.toml: file = \"x.npy\", expect = \"y.npy\""));
        }
        Ok(self)
    }
}

/// Groups of flags in the help. Flags without a group belong to the command.
const DEVICE: &str = "Device and toolchain";
const SEEDS: &str = "Random numbers";
const OUTPUT: &str = "Output";

/// Flags that several commands share; `shared_flags` says which.
#[derive(Debug, Args)]
pub struct Global {
    /// Device that runs the kernels: auto, cuda, cuda:N or virtual:GPU. `warpsmith devices` lists them
    #[arg(long, value_name = "NAME", default_value = "auto", help_heading = DEVICE)]
    pub device: String,
    /// CUDA toolkit to use, instead of searching for one
    #[arg(long, value_name = "DIR", env = "WARPSMITH_CUDA", hide_env_values = true, help_heading = DEVICE)]
    pub cuda: Option<PathBuf>,
    /// Folder with more ops and kernel families; one with the name of a built-in one replaces it
    #[arg(long, value_name = "DIR", help_heading = DEVICE)]
    pub kernels: Option<PathBuf>,
    /// Op, if no family names it (default: attention)
    #[arg(long, value_name = "NAME", help_heading = DEVICE)]
    pub op: Option<String>,
    /// Print JSON instead of text
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Seed for searches, statistics and random problems
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = SEEDS)]
    pub seed: u64,
    /// Seed for inputs, compared rows and launch conditions; set it to repeat a run (default: random and secret, logged
    /// when the run ends)
    #[arg(long, value_name = "N", help_heading = SEEDS)]
    pub input_seed: Option<u64>,
    #[arg(skip)]
    random_seed: OnceLock<u64>,
    /// The arrays of a single file.
    #[arg(skip)]
    pub arrays: NamedArrays,
}

impl Global {
    /// The families and ops that are embedded in the program or named by `--kernels`, with the arrays of a single file.
    pub fn catalog(&self) -> Result<Catalog, CatalogError> {
        let mut catalog = Catalog::load(self.kernels.as_deref())?;
        if let Some(path) = self.kernels.as_deref().filter(|path| path.is_file()) {
            catalog.add_arrays(&family::op_of_file(path), self.arrays.clone());
        }
        Ok(catalog)
    }

    /// The seed for inputs: `--input-seed`, or a secret random seed that is the same for the whole invocation.
    pub fn secret_seed(&self) -> u64 {
        // The seed is 1 if the system gives no randomness. A kernel could then know its inputs; no known kernel does.
        self.input_seed.unwrap_or_else(|| *self.random_seed.get_or_init(|| random::secret().unwrap_or(1)))
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what this machine has and what is missing, with a remedy for each
    #[command(after_help = "Examples:\n  warpsmith doctor\n  warpsmith doctor --json")]
    Doctor,
    /// Show which CUDA compiler is used; install or remove Warpsmith's own copy
    #[command(after_help = "\
Examples:
  warpsmith toolchain           show the chosen compiler and all searched places
  warpsmith toolchain install   download NVRTC and the CUDA headers from PyPI
  warpsmith toolchain clean     remove them from the cache
  warpsmith toolchain requirements > cuda.txt   for pip on a machine with a network")]
    Toolchain(ToolchainOptions),
    /// List the problems that have a short name, or explain one problem
    #[command(after_help = "\
A problem is written as b2h8kv2s2048d64-causal-e4m3: batch, heads, key-value heads (if fewer), \
sequence length, head dimension, mask, dtype. Different numbers of queries and keys are sq and sk. \
The output of e4m3 is fp16, or bf16 with -obf16 after it. \
An alias such as `mission` means fp16 unless a dtype follows it.

Examples:
  warpsmith problems
  warpsmith problems mission-e4m3
  warpsmith problems b1h8kv2sq17sk129d64-causal-fp16")]
    Problems(ProblemsOptions),
    /// List the built-in suites, or show one with its problems and targets
    #[command(
        after_help = "Examples:\n  warpsmith suites\n  warpsmith suites headline\n  warpsmith suites my-suite.toml"
    )]
    Suites(SuitesOptions),
    /// List the GPUs of this machine and the virtual GPUs
    #[command(after_help = "Examples:\n  warpsmith devices\n  warpsmith check mma --device virtual:h200")]
    Devices,
    /// List kernel families, or show one with its knobs, presets and capabilities
    #[command(
        after_help = "Examples:\n  warpsmith kernels\n  warpsmith kernels mma       also lists the tuned picks for each GPU and problem"
    )]
    Kernels(KernelsOptions),
    /// Write a folder for an op of your own that already passes its checks
    #[command(after_help = "\
Writes kernels/NAME (or DIR/NAME with --kernels DIR): op.toml declares the op, reference.py computes \
the right answer in numpy, baselines.py has what people use today, and block/ has a kernel with its \
manifest. Files that exist are never overwritten.

Examples:
  warpsmith new my_norm
  warpsmith check my_norm --kernels kernels")]
    New(NewOptions),
    /// Write attention as a solution of another project's benchmark
    #[command(after_help = "\
KernelBench gets a module in PyTorch (model.py) and one that replaces it (model_new.py). \
FlashInfer-Bench gets a definition, a solution and a workload. The solutions call the Python \
package `warpsmith`, which must be installed where they run. Files that exist are never \
overwritten. `run_kernelbench.py` and `run_flashinfer_bench.py` in `python/scripts` run these \
projects' own evaluators on the files.

Examples:
  warpsmith export kernelbench --problem mission --out kernelbench
  warpsmith export flashinfer-bench --problem b4h16s1024d128-causal-bf16 --out trace")]
    Export(ExportOptions),
    /// Compile kernels; show registers, shared memory, spills and occupancy
    #[command(after_help = "\
Examples:
  warpsmith build wmma --preset stage-c --arch sm_89
  warpsmith build wmma --set BLOCK_N=64 --axis dtype=e4m3 --device virtual:l4
  warpsmith build wmma --preset stage-c --emit out   write PTX, cubin and header
  warpsmith build mma --preset tuned --problem mission --device virtual:l4
  warpsmith build --all                              all presets and targets")]
    Build(BuildOptions),
    /// Check that kernels give correct results, over problems, input classes and seeds
    #[command(after_help = "\
Every output is compared with a float64 reference. Outputs are poisoned before each launch, and \
the memory around them is guarded. Inputs must not change, the same inputs must give the same \
bits, and every input must affect the output.

Without arguments, every preset of every family of attention is checked on the named problems and \
on edge-case shapes; with --kernels, every family in that folder. Failures with the same cause (a \
finding at a line, or the same complaint) are shown once. On the virtual GPU large problems are reduced: fewer heads, then fewer queries, never \
fewer keys.

On a GPU, kernels run in up to twelve separate processes, so a fault or a hang affects only the \
kernel that caused it. The test that every input affects the output runs on the largest \
problems only if they are named, and with one class of inputs.

Examples:
  warpsmith check
  warpsmith check wmma --problem b1h8kv2s513d64-causal-e4m3 --class all
  warpsmith check wmma --suite canonical --sanitize
  warpsmith check wmma --sanitize --sarif check.sarif --github
  warpsmith check --fuzz 200 --seed 7
  warpsmith check wmma --set BLOCK_N=64 --problem mission --svg maps")]
    Check(CheckOptions),
    /// Time kernels and their baselines, each in separate processes
    #[command(after_help = "\
Every subject is compiled, run and compared with a float64 reference before it is timed. A kernel \
with a wrong result is never timed. Kernels and baselines are then timed in turns (A B C C B A) \
until every median is known to 0.5%. On a GPU each subject runs in three processes (--processes), \
and the intervals include the variation between processes.

Times are from CUDA graph replays. --cold adds times with the L2 cache flushed, --eager adds the \
time of one call with its launch. The virtual GPU gives modelled times only; they are never \
compared with measured times. It also counts instructions and memory traffic for `gate`, and runs \
a small part of each problem under all its checkers.

Baselines of attention: auto, math, flash, mem_efficient, cudnn (PyTorch's \
scaled_dot_product_attention), reference (our unfused kernel), none; if their packages are \
installed, fa2, fa3 and fa3_fp8 (FlashAttention), xformers, flashinfer and cudnn_fp8 (cuDNN's \
frontend). The environment variable WARPSMITH_FA3 can name a library of FlashAttention-3, which \
python/scripts/build_fa3.sh builds. The exit code is 3 if a baseline named with --require cannot be \
measured.

Examples:
  warpsmith bench
  warpsmith bench wmma --preset stage-5-p2 --problem mission --cold --eager
  warpsmith bench mma --preset tuned --preset small --problem mission
  warpsmith bench --suite headline --require auto --processes 5
  warpsmith bench wmma --set BLOCK_N=64 --problem mission-e4m3 --baseline cudnn
  warpsmith bench best --problem mission-e4m3 --baseline fa3_fp8 --errors
  warpsmith bench --resume --run-dir warpsmith-runs/20261115T054710Z-bench-1f3a9c")]
    Bench(BenchOptions),
    /// Show the errors and times of FP8 attention on fp16 or bf16 tensors
    #[command(after_help = "\
Queries, keys and values in fp16 or bf16 are quantised to E4M3, and attention is computed on the \
codes. The table has the error against float64 on the tensors before they are quantised, and the \
times of quantising, of attention and of both, beside attention without FP8.

Scales are per head, or per block: 64 queries, and as many keys and values as the kernel uses in \
one step. A rotation multiplies queries and keys by the same random orthogonal matrix first, so \
that their products stay the same.

Inputs: normal; outliers (one element in 500 is 64 times as large); sink (the score of the first \
key is about 8 higher in every row). The virtual GPU gives modelled times and reduces large \
problems, as `check` does.

Examples:
  warpsmith fp8
  warpsmith fp8 --problem b4h16s4096d128-causal-bf16 --scales block --rotate true
  warpsmith fp8 --problem long --class outliers --json")]
    Fp8(Fp8Options),
    /// Search a family's settings for the fastest correct kernel
    #[command(after_help = "\
Every candidate passes the same stages: constraints, compilation (in parallel, ahead of the \
timing), comparison with binaries that were already tried, correctness, and timing next to the \
baseline in worker processes. A candidate that hangs, crashes or is wrong does not affect the \
others. A candidate becomes an elite if it is at least 3% faster than the candidate it was \
derived from and is slower on at most one problem.

The run folder records every trial. Its `tuned.toml` has the best setting for each problem; \
--tuned merges these picks into another file. A family's own table is `tuned.toml` beside its \
`kernel.toml`: `--preset tuned` selects its pick for the device and problem, or for the nearest \
problem with the same dtype, head dimension and mask.

Strategies: model, genetic, hillclimb, annealing, random, exhaustive. `warpsmith replay` scores \
them.

Instead of a strategy, a program or a language model can propose candidates. It receives a JSON \
document with the task; --information adds the results of earlier candidates. It answers with
  {\"knobs\": {\"STAGES\": 3}, \"why\": \"...\"}           knobs that differ from the baseline
  {\"source\": \"...\", \"knobs\": {...}}                a new kernel source
--proposer-cmd runs a program with `sh -c` for every answer: document on stdin, answer on stdout. \
It can read the system's folders, those on PATH and those of the files on its command line, but not \
your home folder, and it can write only a temporary folder; --proposer-folder and \
--proposer-network allow more. \
--endpoint is the base URL of an OpenAI-compatible server, called with curl. Its key is read from \
the environment variable WARPSMITH_API_KEY and is never written to a file. Every answer counts \
against the budget, even if it is not a valid candidate. A proposed source may include only \
headers of the family, of CUDA and of the C++ standard library, and must first pass all checkers \
of the virtual GPU.

Examples:
  warpsmith evolve
  warpsmith evolve mma --problem mission --problem small --budget 64
  warpsmith evolve wmma --suite headline --strategy genetic --seed 7
  warpsmith evolve mma --suite v3 --tuned tuned.toml
  warpsmith evolve mma --proposer-cmd \"python3 propose.py\" --budget 20
  warpsmith evolve mma --endpoint https://api.example.com/v1 --model NAME
  warpsmith evolve --resume --run-dir warpsmith-runs/20261115T054710Z-evolve-1f3a9c")]
    Evolve(EvolveOptions),
    /// Run every stage in order and write a report; the default command
    #[command(after_help = "\
The stages, in one run: time every kernel and its baselines, search from the best preset, time the \
best result against all baselines, profile it, measure known pathologies, and write a one-page \
report. Without a GPU everything runs on the virtual GPU, and every time is marked as modelled.

Examples:
  warpsmith
  warpsmith repro --quick
  warpsmith repro --suite v3 --budget 256
  warpsmith repro --problem b2h16s1024d128-causal-fp16 --device virtual:a100
  warpsmith repro --resume --run-dir warpsmith-runs/20261115T054710Z-repro-1f3a9c")]
    Repro(ReproOptions),
    /// Show what limits kernels and how to improve them
    #[command(after_help = "\
On a GPU, Nsight Compute (ncu) profiles one launch of every kernel. It must be installed, match \
the driver and be allowed to read the hardware counters; otherwise the exit code is 3. On the \
virtual GPU the same metrics come from its counters and its time model. Large problems are then \
counted in part: fewer heads, then fewer queries, never fewer keys. The kernel's output is first \
compared with a float64 reference; a kernel with a wrong result is never profiled.

Examples:
  warpsmith profile wmma --preset stage-2
  warpsmith profile mma --problem mission --problem small --device cuda
  warpsmith profile wmma --set PATHOLOGY=barriers --device virtual:h200
  warpsmith profile --suite canonical --run-dir run --json")]
    Profile(ProfileOptions),
    /// Add known performance pathologies to a kernel and rank them by their cost
    #[command(after_help = "\
A family lists its pathologies in its manifest: strided loads, no staging in shared memory, extra \
barriers, divergent branches, over-unrolling, tiny blocks. Each is checked like any other kernel \
and must give a correct result. On a GPU it is then timed in turns with the healthy kernel; on the \
virtual GPU its cost is modelled.

Examples:
  warpsmith invert
  warpsmith invert wmma --preset stage-2 --problem small
  warpsmith invert wmma --device virtual:h200 --json")]
    Invert(InvertOptions),
    /// Fail if a run has a wrong result or is slower than the leaderboard
    #[command(after_help = "\
A run fails on a wrong result, on a candidate that did not compile or run, and on registers or \
spills above the family's limits. Missing data gives exit code 4, never success.

A run on a GPU also fails on a regression: the best candidate's median is more than 2% above the \
leaderboard's, the intervals do not overlap, and the rank test agrees.

A run on the virtual GPU needs no GPU. Every candidate is compared with its own entry: registers \
(4 more are allowed), spilled bytes (no increase), and, with 2% allowed, shared memory, \
instructions, sectors of global and local memory, bank conflicts and the modelled time. A modelled \
time of another version of the time model is not compared. Entries of different devices are \
never compared.

--update records first results and improvements. To accept a larger value, remove the entry's line \
from the leaderboard and update it.

Examples:
  warpsmith gate --leaderboard leaderboard.json
  warpsmith gate --leaderboard leaderboard.json --update
  warpsmith gate --leaderboard leaderboard.json --junit gate.xml --github
  warpsmith gate --leaderboard leaderboard.json --sarif gate.sarif")]
    Gate(GateOptions),
    /// Score the search strategies on recorded search spaces; needs no GPU
    #[command(after_help = "\
A recorded space has the time of every configuration of a kernel, so a search on it runs no \
kernels. A score is a share of the optimum: the best possible time divided by the best time found \
after N evaluations, averaged over seeds. A failed configuration uses one evaluation. Seeds start \
at 0; --seed has no effect.

Input files: recorded spaces, kernel_tuner caches (complete or interrupted), T4 results; plain or \
gzip-compressed.

Examples:
  warpsmith replay --space spaces/*.json.gz
  warpsmith replay --space gemm.json --strategy all --seeds 50 --csv scores.csv
  warpsmith replay --space gemm.json --budget 500 --at 100,500 --json")]
    Replay(ReplayOptions),
    /// Write a run's report, as one HTML page and as Markdown, or compare two runs
    #[command(after_help = "\
Writes report.html (one file: no network, no script), summary.md and the data files that apply to \
the run (bench.json, bench.csv, tune_log.csv, topk.json, profile.json) into the run folder, and \
prints their paths. Every number comes from the run's events.jsonl. A stopped or running run can \
be reported too; its report says that the run is incomplete.

Examples:
  warpsmith report
  warpsmith report 20261115T054710Z-bench-1f3a9c
  warpsmith report 20261115T054710Z-bench-1f3a9c 20261116T101112Z-bench-2b4c6d
  warpsmith report --json")]
    Report(ReportOptions),
    /// List runs, latest first
    #[command(
        after_help = "Examples:\n  warpsmith runs\n  warpsmith runs --trend mission\n  warpsmith runs --json"
    )]
    Runs(RunsOptions),
    /// Evaluate candidates for searches on other machines
    #[command(after_help = "\
A worker has no state of its own: it can be started, stopped and killed at any time. It works for every search whose \
`--fleet` names the same folder, as long as the program is the same build and the device the same kind of GPU. \
It ends when `warpsmith fleet stop` says so, or with --idle. Ctrl-C or SIGTERM gives the \
present candidate back.

Examples:
  warpsmith worker --fleet dir:/shared/fleet
  warpsmith worker --fleet dir:/shared/fleet --device cuda:1 --idle 600")]
    Worker(WorkerOptions),
    /// Show the workers and searches of a fleet, stop it, or write scripts that start workers
    #[command(after_help = "\
A fleet is a shared folder. `evolve --fleet dir:FOLDER` puts candidates into it, and `warpsmith worker --fleet dir:FOLDER`, on any \
machine that sees the folder, evaluates them.

Examples:
  warpsmith fleet status dir:/shared/fleet
  warpsmith fleet stop dir:/shared/fleet
  warpsmith fleet slurm dir:/shared/fleet --workers 32 --gpu > workers.sh && sbatch workers.sh
  warpsmith fleet kubernetes dir:/fleet --workers 8 --image registry/warpsmith:1 | kubectl apply -f -")]
    Fleet(FleetOptions),
    /// Lend the GPU to the command that started this process
    #[command(hide = true)]
    LendDevice,
    /// Compile for the command that started this process
    #[command(hide = true)]
    LendCompiler,
    /// Run a CUDA or PTX kernel on the virtual GPU under all its checkers
    #[command(after_help = "\
The file itself can describe the launch, in comment lines with the same flags:
  // warpsmith: --kernel scale --grid 4 --block 256
  // warpsmith: --arg x=f32[1000]=normal(7) --arg y=out,f32[1000]
  // warpsmith: --arg n=1000
Host code in the file is ignored. Flags on the command line take precedence. If the command line has an --arg, every --arg of the \
file is ignored.

Arguments, one per kernel parameter, in order:
  [NAME=]DTYPE[dims]=INIT        input buffer
  [NAME=]inout,DTYPE[dims]=INIT  buffer with contents, read and written
  [NAME=]out,DTYPE[dims]         output; every element must be written
  [NAME=]scratch,DTYPE[dims]     workspace; starts uninitialised
  [NAME=]FILE.npy                input buffer with the contents of a file; also inout,FILE.npy
  [NAME=]same,BUFFER[+N]         another argument's buffer, from its element N on
  [NAME=]VALUE                   scalar of the type that the kernel declares
  [NAME=]DTYPE=VALUE             scalar of this type
  [NAME=]null                    null pointer
  [NAME=]bytes=HEX               struct passed by value
  [NAME=]tensor,BUFFER[box]=MAP  tensor map of another argument's buffer
  [NAME=]texture,[OPTION,...]TEXEL[dims]=INIT
                                 texture object (cudaTextureObject_t); also texture,FILE.npy
DTYPE: f64 f32 f16 bf16 e4m3 e5m2 i8 u8 i16 u16 i32 u32 i64 u64
INIT: zeros ones const(V) iota normal(SEED) uniform(SEED) randint(SEED,LO,HI)
      {V,V,...} FILE.npy
MAP: plain swizzle(32) swizzle(64) swizzle(128)
OPTION: linear (filter; default point), border wrap mirror (outside; default clamp),
        normalised (coordinates), float (read integers as floats), layered (first of dims)
TEXEL: f32 f16 i8 u8 i16 u16 i32 u32, or with 2 or 4 channels: f32x2 u8x4

Examples:
  warpsmith sanitize kernel.cu
  warpsmith sanitize kernel.cu --block 64 --arg 'f32[64]=iota' --print all
  warpsmith sanitize kernel.cu --launch 'scale<float><<<4, 256>>>(x, y, 1000)' \\
    --arg 'x=f32[1000]=normal(7)' --arg 'y=out,f32[1000]'
  warpsmith sanitize kernel.ptx --grid 4 --block 128 --arg x.npy --arg 'y=out,f32[512]' --arg 512 \\
    --expect y=y.npy
  warpsmith sanitize kernel.cu --counters --device virtual:a100
  warpsmith sanitize kernel.cu --sarif kernel.sarif --github
  warpsmith sanitize wmma --problem b1h2s200d64-causal-e4m3 --counters")]
    Sanitize(SanitizeOptions),
    /// Run a whole CUDA program on the virtual GPU under all its checkers
    #[command(after_help = "\
The program runs unchanged, with its own host code and its own launches: it gets libraries of Warpsmith in place of libcuda.so.1 and \
libcudart.so.12 or .13, for its own process and those that it starts. It must link CUDA's runtime library as a shared library \
(`nvcc -cudart shared`) and contain PTX. A CUDA file is compiled first, with nvcc of a toolkit or of NVIDIA's wheels, which are \
installed if there is none.

Findings are shown at the lines of the kernels (compile with -lineinfo) and of the host code (compile with -g). The exit code is \
that of the program, or 1 if there are findings.

Examples:
  warpsmith exec ./program 1000
  warpsmith exec vector_add.cu
  warpsmith exec --nvcc=-O2 --nvcc=-Iinclude vector_add.cu -- --size 1000
  warpsmith exec --check none ./program
  warpsmith exec --device virtual:a100 --sarif findings.sarif -- python3 test.py")]
    Exec(ExecOptions),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  warpsmith completions bash > ~/.local/share/bash-completion/completions/warpsmith"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write man pages into a folder
    #[command(after_help = "Example:\n  warpsmith man ~/.local/share/man/man1")]
    Man {
        /// The folder; created if missing
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// Options of `toolchain`.
#[derive(Debug, Args)]
pub struct ToolchainOptions {
    /// What to do; `show` if none is named.
    #[command(subcommand)]
    pub action: Option<ToolchainAction>,
}

/// What `toolchain` does.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum ToolchainAction {
    /// Show the chosen compiler and why it was chosen (the default)
    Show,
    /// Install the pinned compiler into the cache
    Install,
    /// Remove the installed compiler from the cache
    Clean,
    /// Print the pinned wheels as a requirements file for pip, to download them on another machine
    Requirements,
}

/// Options of `worker`. Commands such as `bench` also start it, for one kernel; those options are hidden.
#[derive(Debug, Args)]
pub struct WorkerOptions {
    /// Name of the subject, shown in the list of processes
    #[arg(hide = true)]
    pub subject: Option<String>,
    /// File to read requests from, instead of the channel
    #[arg(long, value_name = "FILE", hide = true)]
    pub asks: Option<PathBuf>,
    /// Contents of an input of a single file
    #[arg(long, value_name = "ARG=FILE", value_parser = assignment, hide = true)]
    pub array: Vec<(String, String)>,
    /// Fleet to work for: dir:FOLDER or dir:s3://BUCKET/FOLDER
    #[arg(long, value_name = "WHERE")]
    pub fleet: Option<fleet::Address>,
    /// End after this many seconds without work (default: never)
    #[arg(long, value_name = "SECONDS", requires = "fleet", value_parser = seconds)]
    pub idle: Option<f64>,
}

/// Options of `fleet`.
#[derive(Debug, Args)]
pub struct FleetOptions {
    /// What to do
    #[arg(value_enum)]
    pub action: FleetAction,
    /// The fleet: dir:FOLDER or dir:s3://BUCKET/FOLDER
    #[arg(value_name = "WHERE")]
    pub place: fleet::Address,
    /// Number of workers that the script starts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: u32,
    /// Processors of each worker
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub processors: u32,
    /// Give each worker a GPU (default: the virtual GPU)
    #[arg(long)]
    pub gpu: bool,
    /// Image of the containers, for Kubernetes
    #[arg(long, value_name = "IMAGE", default_value = "warpsmith")]
    pub image: String,
}

/// What `fleet` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FleetAction {
    /// Show workers and searches
    Status,
    /// Tell all workers to leave when they have done what they do
    Stop,
    /// Take `stop` back
    Resume,
    /// Print a script for sbatch
    Slurm,
    /// Print a job for kubectl
    Kubernetes,
}

/// Where candidates are evaluated.
#[derive(Debug, Args)]
pub struct SearchFleetOptions {
    /// Let the workers of a fleet evaluate the candidates: dir:FOLDER, dir:s3://BUCKET/FOLDER, ray, ray://HOST:PORT or slurm:FOLDER
    #[arg(long, value_name = "WHERE", conflicts_with = "proposer")]
    pub fleet: Option<fleet::Address>,
    /// Start this many workers: for dir: on this machine, for slurm: and ray on the cluster (default: none for dir:, 8 for slurm:,
    /// all processors or GPUs for ray)
    #[arg(long, value_name = "N", requires = "fleet", value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: Option<u32>,
    /// Seconds without a sign of life after which a worker counts as lost; at least 6
    #[arg(long, value_name = "SECONDS", requires = "fleet", default_value = "30", value_parser = lease)]
    pub lease: f64,
    /// Candidates to ask for before the result of the first is known. The result of a search depends on it, but not on the
    /// number of workers (default: the processors, at most 16; with --fleet twice the workers, at least 8)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub ahead: Option<u32>,
}

/// Options of `problems`.
#[derive(Debug, Args)]
pub struct ProblemsOptions {
    /// Problem or alias to explain
    pub name: Option<String>,
}

/// Options of `suites`.
#[derive(Debug, Args)]
pub struct SuitesOptions {
    /// Suite or file to show
    #[arg(value_name = "NAME|FILE")]
    pub name: Option<String>,
}

/// Options of `new`.
#[derive(Debug, Args)]
pub struct NewOptions {
    /// Name of the op, in lower case
    pub name: String,
}

/// Options of `fp8`.
#[derive(Debug, Args)]
pub struct Fp8Options {
    /// Problem in fp16 or bf16
    #[arg(long, value_name = "PROBLEM", default_value = "mission")]
    pub problem: String,
    /// Inputs: normal, outliers or sink; may be repeated (default: all)
    #[arg(long, value_name = "CLASS")]
    pub class: Vec<StudyClass>,
    /// Which elements share a scale; may be repeated (default: both)
    #[arg(long, value_enum, value_name = "PART")]
    pub scales: Vec<ScaledPartName>,
    /// Only with a rotation of queries and keys, or only without (default: both)
    #[arg(long, value_name = "BOOL", action = clap::ArgAction::Set)]
    pub rotate: Option<bool>,
}

/// Which elements share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ScaledPartName {
    /// All elements of a head
    Head,
    /// 64 queries, and the keys and values of one step
    Block,
}

/// Options of `export`.
#[derive(Debug, Args)]
pub struct ExportOptions {
    /// The project whose evaluator runs the files
    #[arg(value_enum)]
    pub evaluator: Evaluator,
    /// Problem to export
    #[arg(long, value_name = "PROBLEM", default_value = "mission")]
    pub problem: String,
    /// Folder for the files
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
}

/// A project with its own evaluator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Evaluator {
    /// KernelBench
    #[value(name = "kernelbench")]
    KernelBench,
    /// FlashInfer-Bench
    #[value(name = "flashinfer-bench")]
    FlashInferBench,
}

/// Options of `kernels`.
#[derive(Debug, Args)]
pub struct KernelsOptions {
    /// Show all details of this family
    pub family: Option<String>,
}

/// Knobs that are set on top of a preset.
#[derive(Clone, Debug, Default, Args)]
pub struct KnobOptions {
    /// Set a knob on top of the preset
    #[arg(long, value_name = "KNOB=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
}

/// Arrays in .npy files for the arguments of a single file.
#[derive(Clone, Debug, Default, Args)]
pub struct ArrayOptions {
    /// Take the contents of an input of a single file from an .npy file
    #[arg(long, value_name = "ARG=FILE", value_parser = assignment)]
    pub input: Vec<(String, String)>,
    /// Compare an output of a single file with an .npy file instead of the reference; all inputs must come from files
    #[arg(long, value_name = "ARG=FILE", value_parser = assignment)]
    pub expect: Vec<(String, String)>,
    /// Relative tolerance of --expect (default: by type and length of the sums)
    #[arg(long, value_name = "X", requires = "expect", value_parser = tolerance)]
    pub rtol: Option<f64>,
    /// Absolute tolerance of --expect
    #[arg(long, value_name = "X", requires = "expect", value_parser = tolerance)]
    pub atol: Option<f64>,
}

impl ArrayOptions {
    fn named(&self) -> NamedArrays {
        let ArrayOptions { input, expect, rtol, atol } = self;
        NamedArrays { inputs: paths(input), expected: paths(expect), rtol: *rtol, atol: *atol }
    }
}

fn paths(assignments: &[(String, String)]) -> Vec<(String, PathBuf)> {
    assignments.iter().map(|(name, path)| (name.clone(), PathBuf::from(path))).collect()
}

/// The kernels that a command works on.
#[derive(Clone, Debug, Default, Args)]
pub struct KernelOptions {
    /// Families or ops (default: all families of the op), a .cu or .ptx file that declares its op, or `best` for the setting
    /// that the dispatcher chooses for each problem
    #[arg(value_name = "FAMILY")]
    pub families: Vec<String>,
    /// Preset to use, or `tuned` for the tuned table's pick for each problem (default: all presets)
    #[arg(long, value_name = "NAME")]
    pub preset: Vec<String>,
    /// The knobs.
    #[command(flatten)]
    pub knobs: KnobOptions,
}

/// Where a run is written, or resumed.
#[derive(Clone, Debug, Default, Args)]
pub struct RunFolderOptions {
    /// Resume the run in --run-dir; finished work is not repeated. Repeat the flags that name programs, servers,
    /// kernels or output files: the log is untrusted, so they are not read from it
    #[arg(long, requires = "run_dir", help_heading = OUTPUT)]
    pub resume: bool,
    /// Run folder (default: a new one in warpsmith-runs)
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub run_dir: Option<PathBuf>,
}

/// Output for CI systems.
#[derive(Clone, Debug, Default, Args)]
pub struct CiOptions {
    /// Also write the findings as SARIF 2.1.0, for code scanning
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,
    /// Also write a JUnit file
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Also print annotations for GitHub; with --json they go to stderr
    #[arg(long)]
    pub github: bool,
    /// Also append a summary in Markdown to this file
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
}

/// Options of `build`.
#[derive(Debug, Args)]
pub struct BuildOptions {
    /// The family to build; optional with --all
    #[arg(required_unless_present = "all")]
    pub family: Option<String>,
    /// Build every preset of the family, or of all families, for every target
    #[arg(long, conflicts_with_all = ["preset", "set"])]
    pub all: bool,
    /// Preset to use, or `tuned` for the tuned table's pick for the device and problem
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// The knobs.
    #[command(flatten)]
    pub knobs: KnobOptions,
    /// Problem or alias to compile for; it sets the compile-time axes and selects the `tuned` pick
    #[arg(long, value_name = "NAME", conflicts_with_all = ["all", "axis"])]
    pub problem: Option<String>,
    /// Set a compile-time axis, such as dtype or head_dim
    #[arg(long, value_name = "AXIS=VALUE", value_parser = assignment)]
    pub axis: Vec<(String, String)>,
    /// With --all: build every value of every compile-time axis, not only the defaults
    #[arg(long, requires = "all", conflicts_with = "axis")]
    pub every_axis: bool,
    /// Compile for this target instead of the device's
    #[arg(long, value_name = "sm_NN")]
    pub arch: Vec<String>,
    /// Write the PTX, the cubin and the generated header into this folder
    #[arg(long, value_name = "DIR")]
    pub emit: Option<PathBuf>,
    /// Number of parallel compilations (default: one per core)
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
}

/// Options of `check`.
#[derive(Debug, Args)]
pub struct CheckOptions {
    /// The kernels.
    #[command(flatten)]
    pub kernels: KernelOptions,
    /// The arrays of a single file.
    #[command(flatten)]
    pub arrays: ArrayOptions,
    /// Problem or alias, such as mission or b2h8s2048d64-causal-e4m3
    #[arg(long, value_name = "NAME")]
    pub problem: Vec<String>,
    /// Use the problems of a suite
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Vec<String>,
    /// Class of inputs, or `all` (default: normal, plus every class on small shapes or on a small part of the problem)
    #[arg(long, value_name = "NAME")]
    pub class: Vec<String>,
    /// Repeat every case with this many seeds, starting at --input-seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MAX_CASES))]
    pub seeds: u64,
    /// Check this many random problems, generated from --seed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_CASES))]
    pub fuzz: Option<u64>,
    /// Search for the inputs on which each kernel is worst, in this many steps: changes of queries, keys and values that
    /// bring an error nearer to its limit. Problems are reduced (see --full-size)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_CASES), conflicts_with_all = ["class", "fuzz"])]
    pub hard: Option<u64>,
    /// Run under every checker of the virtual GPU: races, uninitialised values, bounds, barriers
    #[arg(long)]
    pub sanitize: bool,
    /// With --sanitize: known findings, which do not fail a run: a TOML file, each finding with its reason
    #[arg(long, value_name = "FILE", requires = "sanitize")]
    pub suppressions: Option<PathBuf>,
    /// With --json: one entry per kernel and one example per cause of a failure, instead of every run
    #[arg(long)]
    pub compact: bool,
    /// Run large problems at full size on the virtual GPU; this can take long
    #[arg(long)]
    pub full_size: bool,
    /// Leave out the rest of the cases of a kernel that has failed this many times with the same cause; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = MAX_FAILURES)]
    pub max_failures: usize,
    /// Write an SVG map of the errors of every wrong output into this folder
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Seconds until a launch counts as hung (default: 120 on a GPU, which up to twelve kernels share; 600 on the virtual
    /// GPU)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub limit: Option<f64>,
    /// Number of parallel cases (default: one per core)
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Output for CI systems.
    #[command(flatten)]
    pub ci: CiOptions,
}

/// After this many failures with the same cause, more say nothing new.
const MAX_FAILURES: usize = 5;

/// Options of `bench`.
#[derive(Debug, Default, Args)]
pub struct BenchOptions {
    /// The kernels.
    #[command(flatten)]
    pub kernels: KernelOptions,
    /// The arrays of a single file.
    #[command(flatten)]
    pub arrays: ArrayOptions,
    /// Problem or alias, such as mission or b2h8s2048d64-causal-e4m3
    #[arg(long, value_name = "NAME")]
    pub problem: Vec<String>,
    /// Use the problems, baselines and targets of a suite (default: headline)
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Option<String>,
    /// Baseline to compare with (default: the suite's baselines and reference)
    #[arg(long, value_name = "NAME")]
    pub baseline: Vec<String>,
    /// Baseline that must be measured; if it cannot be measured, the exit code is 3
    #[arg(long, value_name = "NAME")]
    pub require: Vec<String>,
    /// Worker processes per subject. Times of the same code differ more between processes than within one. With several
    /// processes, intervals include this variation, and each subject has an A/A control. Each process needs the memory
    /// of a CUDA context. The virtual GPU uses one process
    #[arg(long, value_name = "N", default_value_t = PROCESSES, value_parser = processes)]
    pub processes: u32,
    /// Class of the timed inputs (default: normal). The times are not compared with those of other classes
    #[arg(long, value_name = "NAME")]
    pub class: Option<String>,
    /// Maximum samples per subject, problem and timer (default: until the median is precise enough)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pub iters: Option<u32>,
    /// Warm-up calls before timing (default: the suite's, or 10)
    #[arg(long, value_name = "N")]
    pub warmup: Option<u32>,
    /// Also show the error of every subject, baselines included, on inputs of every class
    #[arg(long)]
    pub errors: bool,
    /// Also measure with the L2 cache flushed before every launch
    #[arg(long)]
    pub cold: bool,
    /// Also time single calls, including their launch
    #[arg(long)]
    pub eager: bool,
    /// Maximum seconds of timing per problem and timer (default: the suite's, or 5)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Seconds until a running candidate counts as hung (default: 120; 900 on the virtual GPU)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub limit: Option<f64>,
    /// Memory limit of a candidate's process, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 16384)]
    pub memory: u64,
    /// The run folder.
    #[command(flatten)]
    pub folder: RunFolderOptions,
}

/// Options of `evolve`.
#[derive(Debug, Args)]
pub struct EvolveOptions {
    /// Family to search (default: mma)
    #[arg(value_name = "FAMILY")]
    pub family: Option<String>,
    /// Preset to start from and to compare with (default: the first preset that supports every problem)
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// The knobs.
    #[command(flatten)]
    pub knobs: KnobOptions,
    /// Problem or alias, such as mission or b2h8s2048d64-causal-e4m3 (default: mission)
    #[arg(long, value_name = "NAME")]
    pub problem: Vec<String>,
    /// Use the problems of a suite
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Option<String>,
    /// Number of candidates to evaluate (default: 128)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub budget: Option<u32>,
    /// Use a budget of 32, unless --budget is given
    #[arg(long)]
    pub quick: bool,
    /// Search strategy
    #[arg(long, value_name = "NAME", default_value = search::strategies::DEFAULT)]
    pub strategy: String,
    /// Command line that proposes candidates, instead of a strategy
    #[arg(long, value_name = "COMMAND", group = "proposer", conflicts_with = "strategy")]
    pub proposer_cmd: Option<String>,
    /// Let the program of --proposer-cmd use the network
    #[arg(long, requires = "proposer_cmd")]
    pub proposer_network: bool,
    /// A folder that the program of --proposer-cmd may read and write; may be repeated
    #[arg(long, value_name = "DIR", requires = "proposer_cmd")]
    pub proposer_folder: Vec<PathBuf>,
    /// OpenAI-compatible server whose model proposes candidates, instead of a strategy
    #[arg(long, value_name = "URL", group = "proposer", requires = "model", conflicts_with = "strategy")]
    pub endpoint: Option<String>,
    /// Name of the model at the endpoint
    #[arg(long, value_name = "NAME", requires = "endpoint")]
    pub model: Option<String>,
    /// Information that the proposer receives
    #[arg(long, value_enum, requires = "proposer", default_value_t = ProposerInformation::Full)]
    pub information: ProposerInformation,
    /// Shorter documents for the proposer: without the headers of the op, and with the latest six results only
    #[arg(long, requires = "proposer")]
    pub compact_prompt: bool,
    /// Maximum seconds for one answer of the proposer
    #[arg(long, value_name = "SECONDS", requires = "proposer", default_value = "120", value_parser = seconds)]
    pub proposer_seconds: f64,
    /// Number of elites to keep
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub elites: u32,
    /// Maximum seconds of timing per candidate and problem (default: 1)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Seconds until a running candidate counts as hung (default: 20; 120 on the virtual GPU)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub limit: Option<f64>,
    /// Merge the best settings into this tuned table. A measured entry is never replaced by a modelled one
    #[arg(long, value_name = "FILE")]
    pub tuned: Option<PathBuf>,
    /// The fleet.
    #[command(flatten)]
    pub fleet: SearchFleetOptions,
    /// The run folder.
    #[command(flatten)]
    pub folder: RunFolderOptions,
}

/// What a proposer is told.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum ProposerInformation {
    /// The task
    Free,
    /// The task, and the results and profiles of earlier candidates
    Insight,
    /// The task, the results and profiles of earlier candidates, and the best candidates so far
    Full,
}

/// Options of `repro`.
#[derive(Debug, Args)]
pub struct ReproOptions {
    /// Problem or alias, such as mission or b2h8s2048d64-causal-e4m3
    #[arg(long, value_name = "NAME")]
    pub problem: Vec<String>,
    /// Use the problems, baselines and targets of a suite (default: headline)
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Option<String>,
    /// Family to search (default: mma)
    #[arg(long, value_name = "FAMILY")]
    pub family: Option<String>,
    /// Number of candidates to evaluate (default: 128)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub budget: Option<u32>,
    /// Use a budget of 32 and a shorter timing limit, unless --budget or --seconds are given
    #[arg(long)]
    pub quick: bool,
    /// Search strategy
    #[arg(long, value_name = "NAME", default_value = search::strategies::DEFAULT)]
    pub strategy: String,
    /// Maximum seconds of timing per problem (default: the suite's, or 5; 2 with --quick)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Exit with 1 if a target of the suite is missed
    #[arg(long)]
    pub strict: bool,
    /// The run folder.
    #[command(flatten)]
    pub folder: RunFolderOptions,
}

impl Default for ReproOptions {
    fn default() -> Self {
        ReproOptions {
            problem: Vec::new(),
            suite: None,
            family: None,
            budget: None,
            quick: false,
            strategy: search::strategies::DEFAULT.to_owned(),
            seconds: None,
            strict: false,
            folder: RunFolderOptions::default(),
        }
    }
}

/// Options of `profile`.
#[derive(Debug, Args)]
pub struct ProfileOptions {
    /// The kernels.
    #[command(flatten)]
    pub kernels: KernelOptions,
    /// Problem or alias, such as mission or b2h8s2048d64-causal-e4m3 (default: mission)
    #[arg(long, value_name = "NAME")]
    pub problem: Vec<String>,
    /// Use the problems of a suite
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Option<String>,
    /// Limits of the worker processes, and the run folder.
    #[command(flatten)]
    pub process: ProcessOptions,
}

/// Options of `invert`.
#[derive(Debug, Args)]
pub struct InvertOptions {
    /// Families to use (default: every family that has pathologies)
    #[arg(value_name = "FAMILY")]
    pub families: Vec<String>,
    /// Preset of the healthy kernel, or `tuned` (default: the family's last preset that supports every pathology)
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// The knobs.
    #[command(flatten)]
    pub knobs: KnobOptions,
    /// Problem or alias, such as mission or b2h8s2048d64-causal-e4m3 (default: mission)
    #[arg(long, value_name = "NAME")]
    pub problem: Vec<String>,
    /// Maximum seconds of timing per problem
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value_t = 5.0)]
    pub seconds: f64,
    /// Limits of the worker processes, and the run folder.
    #[command(flatten)]
    pub process: ProcessOptions,
}

/// Time and memory limits of a candidate's process, and the run folder.
#[derive(Debug, Args)]
pub struct ProcessOptions {
    /// Run large problems at full size on the virtual GPU; this can take long
    #[arg(long)]
    pub full_size: bool,
    /// Seconds until a running candidate counts as hung (default: 120; 900 on the virtual GPU)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub limit: Option<f64>,
    /// Memory limit of a candidate's process, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 16384)]
    pub memory: u64,
    /// The run folder.
    #[command(flatten)]
    pub folder: RunFolderOptions,
}

/// Options of `gate`.
#[derive(Debug, Args)]
pub struct GateOptions {
    /// Leaderboard file with the best results so far; a missing file counts as empty
    #[arg(long, value_name = "FILE")]
    pub leaderboard: PathBuf,
    /// Run to judge (default: the latest bench in warpsmith-runs)
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// Suites whose problems the run must contain (default: the leaderboard's problems for the run's device)
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Vec<String>,
    /// Timer whose measured times are judged
    #[arg(long, value_enum, default_value_t = GateTimer::Hot)]
    pub timer: GateTimer,
    /// Add better results and new entries to the leaderboard
    #[arg(long)]
    pub update: bool,
    /// Output for CI systems.
    #[command(flatten)]
    pub ci: CiOptions,
}

/// The timers that `gate` can judge: graph replays, graph replays with a flushed L2 cache, and single calls.
// The variants have no doc comments: clap would switch the whole help of `gate` to its long form.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum GateTimer {
    Hot,
    Cold,
    Eager,
}

/// Options of `replay`.
#[derive(Debug, Args)]
pub struct ReplayOptions {
    /// Recorded search spaces
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    pub space: Vec<PathBuf>,
    /// Names of search strategies, or `all`
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = search::strategies::DEFAULT)]
    pub strategy: Vec<String>,
    /// Runs per space and strategy
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=MAX_CASES))]
    pub seeds: u64,
    /// Evaluations per run
    #[arg(long, value_name = "N", default_value = "200", value_parser = budget)]
    pub budget: usize,
    /// Numbers of evaluations at which to score (default: 25,50,100,200, up to the budget)
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub at: Vec<usize>,
    /// Also write the scores into this CSV file, after each search space
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Simulate searches on fleets of these numbers of workers, with stragglers and lost workers, instead of scoring one
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        conflicts_with = "csv",
        value_parser = clap::value_parser!(u32).range(1..=4096)
    )]
    pub workers: Vec<u32>,
}

/// Options of `report`.
#[derive(Debug, Args)]
pub struct ReportOptions {
    /// Run folder, or the name of a run in warpsmith-runs (default: the latest run). Two runs are compared
    #[arg(value_name = "RUN", num_args = 0..=2)]
    pub runs: Vec<PathBuf>,
}

/// Options of `runs`.
#[derive(Debug, Args)]
pub struct RunsOptions {
    /// Folder with runs, or one run folder
    #[arg(long, value_name = "DIR", default_value = runlog::DEFAULT_FOLDER)]
    pub run_dir: PathBuf,
    /// Show the fastest kernel on this problem over runs and commits
    #[arg(long, value_name = "PROBLEM")]
    pub trend: Option<String>,
}

/// The default of `sanitize --budget`.
pub const SANITIZE_BUDGET: u64 = 300_000_000;

/// Options of `sanitize`.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct SanitizeOptions {
    /// CUDA source file, PTX file, or the name of a family
    #[arg(value_name = "FILE|FAMILY")]
    pub file: PathBuf,
    /// The launch of a source file.
    #[command(flatten)]
    pub launch: LaunchOptions,
    /// For a family: preset to use, or `tuned` for the tuned table's pick for the problem
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// For a family: set a knob on top of the preset
    #[arg(long, value_name = "KNOB=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// For a family: problem or alias, run at full size (default: a small problem)
    #[arg(long, value_name = "NAME")]
    pub problem: Option<String>,
    /// Print this buffer after the launch (`all` for every buffer)
    #[arg(long, value_name = "NAME")]
    pub print: Vec<String>,
    /// Save every buffer as NAME.npy in this folder after the launch
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    /// Compare a buffer with a file after the launch
    #[arg(long, value_name = "NAME=FILE.npy", value_parser = assignment)]
    pub expect: Vec<(String, String)>,
    /// Relative tolerance of --expect (default: by type, as in torch.testing.assert_close)
    #[arg(long, value_name = "X", requires = "expect", value_parser = tolerance)]
    pub rtol: Option<f64>,
    /// Absolute tolerance of --expect
    #[arg(long, value_name = "X", requires = "expect", value_parser = tolerance)]
    pub atol: Option<f64>,
    /// Count instructions, memory traffic and bank conflicts, per kernel and per source line
    #[arg(long)]
    pub counters: bool,
    /// List the kernel's instructions and how faithfully each is executed
    #[arg(long)]
    pub fidelity: bool,
    /// Run without checkers, several times faster; a fault still ends the launch
    #[arg(long)]
    pub unchecked: bool,
    /// Warnings fail the run, as errors do
    #[arg(long)]
    pub strict: bool,
    /// Known findings, which do not fail the run: a TOML file, each finding with its reason
    #[arg(long, value_name = "FILE", conflicts_with = "unchecked")]
    pub suppressions: Option<PathBuf>,
    /// Maximum warp instructions before a kernel counts as runaway; the default takes about half a minute
    #[arg(long, value_name = "N", default_value_t = SANITIZE_BUDGET)]
    pub budget: u64,
    /// Number of worker threads (default: one per core)
    #[arg(long, short, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub jobs: usize,
    /// Output for CI systems.
    #[command(flatten)]
    pub ci: CiOptions,
}

/// Which checks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExecCheck {
    /// All checks of kernels and of host code
    All,
    /// None; a fault still ends a kernel
    None,
}

/// Options of `exec`.
#[derive(Clone, Debug, Args)]
pub struct ExecOptions {
    /// The program and its arguments, or a CUDA file and the arguments of its program
    #[arg(
        value_name = "PROGRAM|FILE.cu",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub program: Vec<OsString>,
    /// Which checks to run
    #[arg(long, value_name = "CHECKS", default_value = "all")]
    pub check: ExecCheck,
    /// Warnings fail the run, as errors do
    #[arg(long)]
    pub strict: bool,
    /// Count the events of kernels and show their modelled times; the program takes longer
    #[arg(long)]
    pub counters: bool,
    /// Maximum warp instructions of a launch before its kernel counts as runaway
    #[arg(long, value_name = "N", default_value_t = 100_000_000_000)]
    pub budget: u64,
    /// Maximum time of a launch in seconds before its kernel counts as runaway
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub time_limit: u64,
    /// Number of worker threads (default: one per core)
    #[arg(long, short, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub jobs: usize,
    /// For a CUDA file: one more argument for nvcc; repeat it for several
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub nvcc: Vec<OsString>,
    /// Output for CI systems.
    #[command(flatten)]
    pub ci: CiOptions,
}

/// The flags that describe a launch. A source file can have the same flags in its `// warpsmith:` comments.
#[derive(Clone, Debug, Default, Args)]
pub struct LaunchOptions {
    /// Kernel to launch, with its template arguments if it has some (default: the only kernel of the file)
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Launch in CUDA's notation, instead of --kernel, --grid, --block and --shared; repeat it for several
    /// launches in order
    #[arg(long, value_name = "CALL", conflicts_with_all = ["kernel", "grid", "block", "shared"])]
    pub launch: Vec<Call>,
    /// Number of blocks, as X or X,Y,Z
    #[arg(long, value_name = "EXTENT")]
    pub grid: Option<Extent>,
    /// Threads per block, as X or X,Y,Z
    #[arg(long, value_name = "EXTENT")]
    pub block: Option<Extent>,
    /// Dynamic shared memory in bytes
    #[arg(long, value_name = "BYTES")]
    pub shared: Option<u32>,
    /// One kernel argument; repeat the flag for each, in order
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub arg: Vec<Argument>,
    /// Value of a `__constant__` or `__device__` variable before the launch
    #[arg(long, value_name = "NAME=VALUE", allow_hyphen_values = true)]
    pub variable: Vec<Argument>,
    /// Compile for this target instead of the device's
    #[arg(long, value_name = "sm_NN")]
    pub arch: Option<String>,
    /// Define a macro for the compiler
    #[arg(long, short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
    /// Folder with headers; the folder of the file is always searched
    #[arg(long, short = 'I', value_name = "DIR")]
    pub include: Vec<PathBuf>,
    /// Standard of C++ for the compiler: c++14, c++17 or c++20 (default: c++17)
    #[arg(long, value_name = "NAME", value_parser = ["c++14", "c++17", "c++20"], hide_possible_values = true)]
    pub std: Option<String>,
}

/// Parses the flags in a source file's `// warpsmith:` comments. These are all flags of `sanitize` but those that write
/// files, which a file of somebody else must not do.
#[derive(Debug, Parser)]
#[command(name = "// warpsmith:", no_binary_name = true, disable_help_flag = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct HeaderFlags {
    /// The launch that the comments describe.
    #[command(flatten)]
    pub launch: LaunchOptions,
    /// The virtual GPU.
    #[arg(long)]
    pub device: Option<String>,
    /// As in [`SanitizeOptions`].
    #[arg(long)]
    pub print: Vec<String>,
    /// As in [`SanitizeOptions`]. The files lie beside the source.
    #[arg(long, value_parser = assignment)]
    pub expect: Vec<(String, String)>,
    /// As in [`SanitizeOptions`].
    #[arg(long, value_parser = tolerance)]
    pub rtol: Option<f64>,
    /// As in [`SanitizeOptions`].
    #[arg(long, value_parser = tolerance)]
    pub atol: Option<f64>,
    /// As in [`SanitizeOptions`].
    #[arg(long)]
    pub counters: bool,
    /// As in [`SanitizeOptions`].
    #[arg(long)]
    pub fidelity: bool,
    /// As in [`SanitizeOptions`].
    #[arg(long)]
    pub unchecked: bool,
    /// As in [`SanitizeOptions`].
    #[arg(long)]
    pub strict: bool,
    /// As in [`SanitizeOptions`]. The file lies beside the source.
    #[arg(long)]
    pub suppressions: Option<PathBuf>,
    /// As in [`SanitizeOptions`].
    #[arg(long)]
    pub budget: Option<u64>,
    /// As in [`SanitizeOptions`].
    #[arg(long, short)]
    pub jobs: Option<usize>,
}

/// The maximum number of cases of a check and of runs of a replay. More would take months, and too much memory.
pub const MAX_CASES: u64 = 1_000_000;

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| *value >= 0.0 && value.is_finite());
    value.ok_or("expected a number that is not negative".to_owned())
}

fn budget(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&evaluations| evaluations > 0)
        .ok_or("expected a number of evaluations".to_owned())
}

/// The default number of processes per subject. Suppose that each process of a subject has one of two speeds at random.
/// Two runs then disagree completely with a probability of 1 in 32 with three processes each, 1 in 8 with two.
pub const PROCESSES: u32 = 3;

fn processes(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("expected a number of processes, at least 1".to_owned()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    // About three years: `Duration` and deadlines must not overflow.
    const MAX_SECONDS: f64 = 1e8;
    match text.parse() {
        Ok(value) if value > 0.0 && value <= MAX_SECONDS => Ok(value),
        _ => Err(format!("expected a number of seconds, above 0 and at most {MAX_SECONDS}")),
    }
}

/// The seconds of a lease. A shorter one would end between two signs of life.
fn lease(text: &str) -> Result<f64, String> {
    let (value, least) = (seconds(text)?, fleet::LEAST_LEASE.as_secs_f64());
    if value < least {
        let beat = fleet::BEAT.as_secs_f64();
        return Err(format!("expected at least {least} s: workers give a sign of life every {beat} s"));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::{command, parse, shared_flags};

    #[test]
    fn seconds_must_be_positive_finite_and_bounded() {
        assert_eq!(super::seconds("0.5"), Ok(0.5));
        for wrong in ["", "soon", "0", "-1", "nan", "inf", "1e300"] {
            assert!(super::seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_lease_is_longer_than_a_few_signs_of_life() {
        assert_eq!(super::lease("6"), Ok(6.0));
        for short in ["0.5", "2", "5.9"] {
            assert!(super::lease(short).unwrap_err().contains("every 2 s"), "{short}");
        }
        let line = ["warpsmith", "evolve", "--fleet", "dir:x", "--lease", "2"];
        assert!(parse(line).unwrap_err().to_string().contains("at least 6 s"));
    }

    #[test]
    fn a_resumed_bench_has_the_processes_it_was_started_with() {
        // A resumed run parses the command line in its manifest again.
        let processes = |line: &[&str]| match parse(line).unwrap().selected() {
            super::Command::Bench(options) => options.processes,
            other => panic!("{other:?}"),
        };
        assert_eq!(processes(&["warpsmith", "bench", "--processes", "5"]), 5);
        assert_eq!(processes(&["warpsmith", "bench"]), super::PROCESSES);
    }

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn a_shared_flag_may_stand_before_or_after_the_command() {
        for line in [
            ["warpsmith", "--device", "virtual:l4", "--json", "check"],
            ["warpsmith", "check", "--device", "virtual:l4", "--json"],
            ["warpsmith", "--device", "virtual:l4", "check", "--json"],
        ] {
            let cli = parse(line).unwrap();
            assert_eq!(
                (cli.global.device.as_str(), cli.global.json, cli.global.seed),
                ("virtual:l4", true, 1)
            );
        }
        let nested = parse(["warpsmith", "toolchain", "show", "--json", "--cuda", "/opt"]).unwrap();
        assert!(nested.global.json && nested.global.cuda.is_some());
        let default = parse(["warpsmith", "--input-seed", "7"]).unwrap();
        assert_eq!(default.global.secret_seed(), 7);
    }

    #[test]
    fn a_shared_flag_that_a_command_does_not_use_is_refused() {
        for line in [
            &["warpsmith", "doctor", "--input-seed", "7"][..],
            &["warpsmith", "--input-seed", "7", "doctor"],
            &["warpsmith", "fp8", "--op", "softmax"],
            &["warpsmith", "completions", "bash", "--json"],
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnknownArgument, "{line:?}");
            assert!(error.to_string().starts_with("error: unexpected argument '--"), "{error}");
        }
    }

    #[test]
    fn every_command_names_known_flags() {
        let known: Vec<String> = command().get_arguments().map(|flag| flag.get_id().to_string()).collect();
        for command in command().get_subcommands() {
            for flag in shared_flags(command.get_name()) {
                assert!(known.iter().any(|known| known == flag), "{} {flag}", command.get_name());
            }
        }
    }
}
