//! Metrics from Nsight Compute: runs its command line with a worker process, and parses its output.
//!
//! One run of `ncu` profiles one launch into a report. Two more runs read the report as CSV, one for the metrics and
//! one for the source lines. So all numbers, and everything else that is read from the report, describe the same
//! launch. Clocks are not locked. `ncu` flushes the caches before each of its passes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use family::Family;
use gpu::machine::{self, Profiler};
use indexmap::IndexMap;
use runlog::record::{HotLine, LineWeights, METRICS, Metric, Metrics, hottest};
use runlog::{Fact, MeasuredMicros, Time};
use subprocess::{ProgramEnd, ProgramLimits};

/// Why Nsight Compute is unavailable or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NcuError {
    /// The program was not found.
    #[error("there is no Nsight Compute (ncu) on this machine")]
    Missing,
    /// The program needs a newer driver.
    #[error("ncu {version} needs CUDA {needs}, but the driver supports CUDA {has}")]
    Unfit {
        /// The version of Nsight Compute: `2025.3`.
        version: String,
        /// The major CUDA version that the program needs.
        needs: i32,
        /// The major CUDA version that the driver supports.
        has: i32,
    },
    /// The driver does not allow this user to read hardware counters.
    #[error("this user may not read the GPU's hardware counters (ERR_NVGPUCTRPERM)")]
    NoPermission,
    /// The program did not start, ended with an error or exceeded its time limit; the text says why.
    #[error("ncu could not profile: {0}")]
    Failed(String),
    /// The program's output has an unexpected form; the text says what is missing or wrong.
    #[error("cannot parse the output of ncu: {0}")]
    Output(String),
    /// The run was told to stop.
    #[error("stopped")]
    Stopped,
}

impl NcuError {
    /// What to do about it, for a `hint:` line.
    pub fn remedy(&self) -> &'static str {
        match self {
            NcuError::Missing => {
                "install Nsight Compute, or profile on the virtual GPU: --device virtual (`warpsmith doctor` looks for ncu)"
            }
            NcuError::Unfit { .. } => "update the driver, or install an older Nsight Compute",
            NcuError::NoPermission => {
                "as root: set NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module; or --device virtual"
            }
            NcuError::Failed(_) | NcuError::Output(_) | NcuError::Stopped => {
                "`warpsmith doctor` shows what is missing; --device virtual needs no profiler"
            }
        }
    }
}

/// A usable installation of Nsight Compute.
#[derive(Clone, Debug)]
pub struct Ncu {
    path: PathBuf,
    /// For example `2025.3`.
    pub version: String,
}

impl Ncu {
    /// Finds Nsight Compute on this machine. Checks its version and the permission first, as far as possible.
    pub fn find() -> Result<Self, NcuError> {
        let cuda = machine::driver().ok().and_then(|driver| driver.cuda);
        Self::checked(machine::profiler(), cuda.map(|(major, _)| major), machine::counters_permitted())
    }

    fn checked(
        profiler: Option<Profiler>,
        driver: Option<i32>,
        permitted: Option<bool>,
    ) -> Result<Self, NcuError> {
        let profiler = profiler.ok_or(NcuError::Missing)?;
        let version = profiler.version.map_or("?".to_owned(), |(year, release)| format!("{year}.{release}"));
        if let (Some(needs), Some(has)) = (profiler.cuda_major(), driver)
            && needs > has
        {
            return Err(NcuError::Unfit { version, needs, has });
        }
        if permitted == Some(false) {
            return Err(NcuError::NoPermission);
        }
        Ok(Ncu { path: profiler.path, version })
    }

    /// Profiles one launch of `kernel` in the worker that `command` starts, after `skip` launches, and writes a report.
    /// Returns the lines that the worker printed.
    pub fn profile(
        &self,
        command: &Command,
        kernel: &str,
        skip: u32,
        report: &Path,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<Vec<String>, NcuError> {
        let log = report.with_extension("log");
        let mut ncu = Command::new(&self.path);
        ncu.args(["--force-overwrite", "--clock-control", "none", "--import-source", "no", "--export"]);
        ncu.arg(report).arg("--log-file").arg(&log);
        ncu.args(["--kernel-name", kernel, "--launch-skip", &skip.to_string(), "--launch-count", "1"]);
        ncu.args(["--section", "SourceCounters", "--metrics", &requested_metrics().join(",")]);
        ncu.arg(command.get_program()).args(command.get_args());
        let ended = run(&mut ncu, limit, stop)?;
        let log_text = fs::read_to_string(&log).unwrap_or_default();
        // Errors may be in the log, on stdout or on stderr, and the exit code is 0 if no kernel was profiled.
        let all = format!("{log_text}\n{}\n{}", ended.stdout.join("\n"), ended.stderr);
        if !report.exists() {
            return Err(error_from_output(&all));
        }
        Ok(ended.stdout)
    }

    /// Returns a page of a report as CSV.
    pub fn page(&self, report: &Path, page: &[&str], stop: &AtomicBool) -> Result<String, NcuError> {
        let mut ncu = Command::new(&self.path);
        ncu.arg("--import").arg(report).args(["--csv", "--page"]).args(page);
        let ended = run(&mut ncu, Duration::from_mins(2), stop)?;
        if !ended.success {
            return Err(error_from_output(&format!("{}\n{}", ended.stdout.join("\n"), ended.stderr)));
        }
        Ok(ended.stdout.join("\n"))
    }

    /// Returns the metrics of the report's launch.
    pub fn metrics(&self, report: &Path, stop: &AtomicBool) -> Result<Metrics, NcuError> {
        let launches = launches(&self.page(report, &["raw", "--print-units", "base"], stop)?)?;
        let [launch] = &launches[..] else {
            return Err(NcuError::Output(format!(
                "the report has {} launches instead of one",
                launches.len()
            )));
        };
        Ok(launch.metrics())
    }

    /// Returns the lines at which warps were sampled waiting.
    pub fn hot_lines(
        &self,
        report: &Path,
        family: &Family,
        stop: &AtomicBool,
    ) -> Result<Vec<HotLine>, NcuError> {
        // The source view alone needs the source files; together with SASS it does not.
        let mut samples = samples(&self.page(report, &["source", "--print-source", "cuda,sass"], stop)?)?;
        for ((file, _), _) in &mut samples {
            if let Some(own) = family.own_file(file) {
                own.clone_into(file);
            }
        }
        Ok(hottest(samples, "stall samples", family))
    }
}

/// Converts the output of a failed ncu to an error.
fn error_from_output(output: &str) -> NcuError {
    if output.contains("ERR_NVGPUCTRPERM") {
        return NcuError::NoPermission;
    }
    let errors = output.lines().filter_map(|line| line.trim().strip_prefix("==ERROR== "));
    let warnings = output.lines().filter_map(|line| line.trim().strip_prefix("==WARNING== "));
    let messages: Vec<&str> = errors.chain(warnings).collect();
    NcuError::Failed(if messages.is_empty() { "it wrote no report".to_owned() } else { messages.join("; ") })
}

/// Largest number of bytes of ncu's output. A page of a report has a few megabytes.
const MAX_OUTPUT_BYTES: usize = 256 << 20;

struct EndedProcess {
    success: bool,
    stdout: Vec<String>,
    stderr: String,
}

/// Runs a process to its end. On a stop or timeout, kills the process and everything it started.
fn run(command: &mut Command, limit: Duration, stop: &AtomicBool) -> Result<EndedProcess, NcuError> {
    let limits = ProgramLimits { time: limit, stdout_bytes: MAX_OUTPUT_BYTES };
    let finished = subprocess::run(command, Vec::new(), limits, || !stop.load(Ordering::Relaxed))
        .map_err(|error| NcuError::Failed(error.to_string()))?;
    let success = match finished.end {
        ProgramEnd::Exited(status) => status.success(),
        ProgramEnd::Stopped => return Err(NcuError::Stopped),
        ProgramEnd::TimeUp => {
            return Err(NcuError::Failed(format!("it did not finish within {} s", limit.as_secs())));
        }
        ProgramEnd::TooLong => {
            return Err(NcuError::Failed(format!("it printed more than {} MiB", MAX_OUTPUT_BYTES >> 20)));
        }
    };
    let text = String::from_utf8_lossy(&finished.stdout);
    let stdout = text.lines().map(|line| line.trim_end().to_owned()).collect();
    Ok(EndedProcess { success, stdout, stderr: String::from_utf8_lossy(&finished.stderr).into_owned() })
}

// ---- the metrics ----

const TIME: &str = "gpu__time_duration.sum";
const STALL_PREFIX: &str = "smsp__average_warps_issue_stalled_";
const STALL_SUFFIX: &str = "_per_issue_active.ratio";
const STALLS: [&str; 19] = [
    "barrier",
    "branch_resolving",
    "dispatch_stall",
    "drain",
    "gmma",
    "imc_miss",
    "lg_throttle",
    "long_scoreboard",
    "math_pipe_throttle",
    "membar",
    "mio_throttle",
    "misc",
    "no_instruction",
    "not_selected",
    "selected",
    "short_scoreboard",
    "sleeping",
    "tex_throttle",
    "wait",
];

/// Returns every metric that is requested from ncu.
pub fn requested_metrics() -> Vec<String> {
    let stalls = STALLS.iter().map(|reason| format!("{STALL_PREFIX}{reason}{STALL_SUFFIX}"));
    let named = METRICS.iter().flat_map(|metric| metric.ncu).copied();
    [TIME].into_iter().chain(named).map(str::to_owned).chain(stalls).collect()
}

// ---- the raw page ----

/// One profiled launch: its metrics by column name.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfiledLaunch {
    /// The kernel's name as ncu prints it.
    pub kernel: String,
    values: IndexMap<String, Fact<f64>>,
}

/// Parses the launches of a raw page. The first row has the names, the second the units. Numbers may have thousands
/// separators, and `n/a` marks metrics that could not be collected.
pub fn launches(text: &str) -> Result<Vec<ProfiledLaunch>, NcuError> {
    let mut rows = csv_rows(text).into_iter();
    let names = rows
        .find(|row| row.iter().any(|cell| cell == "Kernel Name"))
        .ok_or_else(|| NcuError::Output("the raw page has no row with column names".to_owned()))?;
    let column = |name: &str| names.iter().position(|cell| cell == name);
    let kernel = column("Kernel Name").unwrap_or_default();
    let id = column("ID");
    let mut units: Vec<String> = Vec::new();
    let mut launches = Vec::new();
    for row in rows {
        let cell = |at: usize| row.get(at).map_or("", String::as_str);
        // In the row of units, the column of launch numbers is empty.
        if units.is_empty() && launches.is_empty() && id.is_some_and(|at| cell(at).is_empty()) {
            units = row;
            continue;
        }
        let values = names.iter().enumerate().map(|(at, name)| {
            let unit = units.get(at).map_or("", String::as_str);
            (name.clone(), quantity(cell(at), unit))
        });
        launches.push(ProfiledLaunch { kernel: cell(kernel).to_owned(), values: values.collect() });
    }
    if launches.is_empty() {
        return Err(NcuError::Output("no launch was profiled".to_owned()));
    }
    Ok(launches)
}

/// Returns the CSV rows of the text. Lines that start with `==` are ncu's own messages.
fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let csv: String = text.lines().filter(|line| !line.starts_with("==") && !line.trim().is_empty()).fold(
        String::new(),
        |mut all, line| {
            all.push_str(line);
            all.push('\n');
            all
        },
    );
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(csv.as_bytes());
    reader.records().map_while(Result::ok).map(|row| row.iter().map(str::to_owned).collect()).collect()
}

/// Converts a number to nanoseconds, bytes, per cent or plain counts, according to its unit.
fn quantity(text: &str, unit: &str) -> Fact<f64> {
    let text = text.trim();
    let number = text.strip_prefix("(!)").unwrap_or(text).trim().replace(',', "");
    let value: f64 = match number.parse() {
        Ok(value) if f64::is_finite(value) => value,
        Ok(_) => return Fact::unavailable(format!("ncu reports {text}")),
        Err(_) if number.is_empty() || number.eq_ignore_ascii_case("n/a") => {
            return Fact::unavailable("ncu could not collect it");
        }
        Err(_) => return Fact::unavailable(format!("ncu reports `{text}`, which is not a number")),
    };
    match unit_factor(unit.trim()) {
        Some(factor) => Fact::Known(value * factor),
        None => Fact::unavailable(format!("ncu reports it in the unknown unit `{unit}`")),
    }
}

/// The factor from a unit to nanoseconds, bytes, per cent, hertz or counts.
fn unit_factor(unit: &str) -> Option<f64> {
    let prefixed = |names: &[&str]| {
        let prefixes = [("", 1.0), ("K", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];
        prefixes.iter().find_map(|(prefix, factor)| {
            names.iter().any(|name| unit.strip_prefix(prefix) == Some(name)).then_some(*factor)
        })
    };
    match unit {
        "" | "%" | "ns" | "nsecond" | "SM" => Some(1.0),
        "us" | "usecond" => Some(1e3),
        "ms" | "msecond" => Some(1e6),
        "s" | "second" => Some(1e9),
        // `inst`, `cycle/s`, `warp`, `register/thread`: only the prefix changes the number.
        _ => prefixed(&[
            "byte", "B", "Hz", "hz", "inst", "cycle", "sector", "request", "warp", "thread", "block",
        ])
        .or_else(|| {
            let counted = unit.split('/').all(|word| {
                !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == ' ' || c == '_')
            });
            counted.then_some(1.0)
        }),
    }
}

impl ProfiledLaunch {
    fn fact(&self, name: &str) -> Fact<f64> {
        let none = || Fact::unavailable(format!("ncu has no {name} on this GPU"));
        self.values.get(name).cloned().unwrap_or_else(none)
    }

    /// Returns the first of several names that this GPU has.
    fn first(&self, names: &[&str]) -> Fact<f64> {
        let facts = names.iter().map(|name| self.fact(name));
        let mut all: Vec<Fact<f64>> = facts.collect();
        match all.iter().position(|fact| fact.known().is_some()) {
            Some(at) => all.swap_remove(at),
            None => all.into_iter().next().unwrap_or_default(),
        }
    }

    /// Returns a sum. Some of its parts may be missing, but not all.
    fn sum(&self, names: &[&str]) -> Fact<f64> {
        let facts: Vec<Fact<f64>> = names.iter().map(|name| self.fact(name)).collect();
        if facts.iter().all(|fact| fact.known().is_none()) {
            return facts.into_iter().next().unwrap_or_default();
        }
        Fact::Known(facts.iter().filter_map(Fact::known).sum())
    }

    /// Returns the metric with this name in the table. If several names of ncu are listed, the first that this GPU has.
    fn metric(&self, name: &str) -> Fact<f64> {
        self.first(Metric::named(name).ncu)
    }

    /// Sector use of loads and copies together. ncu reports only plain loads, which may be few compared with copies.
    /// Copies are assumed to have 16 bytes per lane: 16 sectors per request if they are well aligned.
    fn sector_use(&self) -> Fact<f64> {
        let (requests, sectors) = request_and_sector_names();
        let plain = self.metric("sector_use_percent");
        if plain.known() == Some(&0.0) {
            // Every load uses some of its bytes. Copies that bypass L1 count as load requests, but not in this metric.
            return Fact::unavailable("ncu reports it only for plain loads, and there are none");
        }
        let known = |names: &[&str]| self.sum(names).known().copied().unwrap_or(0.0);
        let (loaded, copied) = (known(&sectors[..1]), known(&sectors[1..]));
        let all = loaded + copied;
        if copied == 0.0 || all == 0.0 {
            return plain;
        }
        let filled = (16.0 * known(&requests[1..])).min(copied);
        plain.map(|percent| (percent * loaded + 100.0 * filled) / all)
    }

    /// Returns the conflicts between the addresses of one access, or all conflicts if the GPU does not separate them.
    fn own_conflicts(&self) -> Fact<f64> {
        let [all, arbitration] = Metric::named("bank_conflicts").ncu else { return Fact::default() };
        let between_warps = self.fact(arbitration).known().copied().unwrap_or(0.0);
        self.fact(all).map(|all| (all - between_warps).max(0.0))
    }

    /// Converts the columns to metrics.
    pub fn metrics(&self) -> Metrics {
        let (requests, sectors) = request_and_sector_names();
        let (requests, sectors) = (self.sum(requests), self.sum(sectors));
        let each = match (sectors.known(), requests.known()) {
            (Some(sectors), Some(requests)) if *requests > 0.0 => Fact::Known(sectors / requests),
            (Some(_), Some(_)) => Fact::unavailable("no load from global memory"),
            (None, _) => sectors,
            (_, None) => requests.clone(),
        };
        let local_sectors = self.sum(Metric::named("local_bytes").ncu);
        let mut stalls: Vec<(String, f64)> = STALLS
            .iter()
            .filter_map(|reason| {
                let waiting = self.fact(&format!("{STALL_PREFIX}{reason}{STALL_SUFFIX}"));
                waiting.known().map(|warps| ((*reason).to_owned(), *warps))
            })
            .collect();
        let total: f64 = stalls.iter().map(|(_, warps)| warps).sum();
        stalls.retain(|(_, warps)| *warps > 0.0);
        for (_, warps) in &mut stalls {
            *warps *= 100.0 / total;
        }
        stalls.sort_by(|a, b| b.1.total_cmp(&a.1));
        let whole = |name: &str| to_u64(self.metric(name));
        let small = |name: &str| to_u32(self.metric(name));
        Metrics {
            resources: Vec::new(),
            time: self.fact(TIME).known().map(|nanos| Time::Measured(MeasuredMicros::from_nanos(*nanos))),
            tensor_active_percent: self.metric("tensor_active_percent"),
            dram_percent: self.metric("dram_percent"),
            sm_busy_percent: self.metric("sm_busy_percent"),
            warps_active_percent: self.metric("warps_active_percent"),
            occupancy_percent: self.metric("occupancy_percent"),
            theoretical_occupancy_percent: self.metric("theoretical_occupancy_percent"),
            l2_hit_percent: self.metric("l2_hit_percent"),
            bank_conflicts: to_u64(self.own_conflicts()),
            shared_wavefronts: whole("shared_wavefronts"),
            global_requests: to_u64(requests),
            sectors_per_request: each,
            sector_use_percent: self.sector_use(),
            registers: small("registers"),
            local_bytes: to_u64(local_sectors.map(|sectors| sectors * 32.0)),
            spill_bytes: Fact::default(),
            branches: whole("branches"),
            divergent_branches: whole("divergent_branches"),
            threads_per_instruction: self.metric("threads_per_instruction"),
            barriers: Fact::unavailable("ncu counts the time at barriers, not the barriers"),
            instructions: whole("instructions"),
            tensor_instructions: whole("tensor_instructions"),
            blocks: whole("blocks"),
            threads_per_block: small("threads_per_block"),
            sms: small("sms"),
            stalls,
        }
    }
}

/// The names of requests to global memory and of their sectors: first that of loads, then those of asynchronous copies.
fn request_and_sector_names() -> (&'static [&'static str], &'static [&'static str]) {
    (Metric::named("global_requests").ncu, Metric::named("sectors_per_request").ncu)
}

fn to_u64(fact: Fact<f64>) -> Fact<u64> {
    fact.map(|value| value.round().max(0.0) as u64)
}

fn to_u32(fact: Fact<f64>) -> Fact<u32> {
    fact.map(|value| value.round().clamp(0.0, f64::from(u32::MAX)) as u32)
}

// ---- the source page ----

/// Returns the samples by file and line of a source page. The layout differs between versions of ncu, so columns are
/// found by name: a row with the path of a file, a row with column names, then one row per line.
fn samples(text: &str) -> Result<LineWeights, NcuError> {
    let mut file = String::new();
    let mut columns: Option<(usize, usize)> = None;
    let mut samples: IndexMap<(String, u32), f64> = IndexMap::new();
    for row in csv_rows(text) {
        if let [key, path, ..] = &row[..]
            && matches!(key.as_str(), "File Path" | "File Name" | "Source File" | "File")
        {
            path.clone_into(&mut file);
            columns = None;
            continue;
        }
        let find = |names: &[&str]| row.iter().position(|cell| names.contains(&cell.as_str()));
        let line = find(&["Line No", "#", "Line", "Line Number"]);
        let sampled = find(&["# Samples", "Warp Stall Sampling (All Samples)", "Samples"]);
        if let (Some(line), Some(sampled)) = (line, sampled) {
            columns = Some((line, sampled));
            continue;
        }
        let Some((line, sampled)) = columns else { continue };
        let number = |at: usize| row.get(at).and_then(|cell| cell.replace(',', "").parse::<f64>().ok());
        if let (Some(line), Some(count)) = (number(line), number(sampled))
            && count > 0.0
        {
            *samples.entry((file.clone(), line as u32)).or_default() += count;
        }
    }
    if samples.is_empty() {
        return Err(NcuError::Output("the source page has no line with samples".to_owned()));
    }
    Ok(samples.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As ncu 2025.3 prints it: its own lines, names, units, launches.
    const RAW: &str = r#"==PROF== Connected to process 4242 (/usr/bin/warpsmith)
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","gpu__time_duration.sum","dram__throughput.avg.pct_of_peak_sustained_elapsed","l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum","l1tex__data_bank_conflicts_type_arbitration.sum","l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","launch__registers_per_thread","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed","sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed","smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio","smsp__average_warps_issue_stalled_wait_per_issue_active.ratio","lts__t_sector_hit_rate.pct","l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"
"","","","","","","","","","","","us","%","","","","sector","register/thread","%","%","inst","inst","%","sector"
"0","4242","warpsmith","127.0.0.1","attention_wmma","1","13","(128, 1, 1)","(1,024, 1, 1)","0","9.0","5,440.25","3.5","1,234,567","234,567","1,000","16,000","107","n/a","41.5","1.5","0.5","(!) nan","0"
"#;

    fn launch() -> ProfiledLaunch {
        launches(RAW).unwrap().swap_remove(0)
    }

    #[test]
    fn names_units_and_separators_are_parsed() {
        let launch = launch();
        assert_eq!(launch.kernel, "attention_wmma");
        let metrics = launch.metrics();
        assert_eq!(metrics.time, Some(Time::Measured(MeasuredMicros(5440.25))));
        assert_eq!(metrics.bank_conflicts, Fact::Known(1_000_000));
        assert_eq!(metrics.global_requests, Fact::Known(1000));
        assert_eq!(metrics.sectors_per_request, Fact::Known(16.0));
        assert_eq!((metrics.registers, metrics.dram_percent), (Fact::Known(107), Fact::Known(3.5)));
        let shares: Vec<(&str, f64)> =
            metrics.stalls.iter().map(|(name, part)| (name.as_str(), *part)).collect();
        assert_eq!(shares, [("barrier", 75.0), ("wait", 25.0)]);
    }

    #[test]
    fn missing_values_are_unavailable_and_zero_is_zero() {
        let metrics = launch().metrics();
        // The first name is n/a here, the second has a value.
        assert_eq!(metrics.tensor_active_percent, Fact::Known(41.5));
        assert_eq!(metrics.local_bytes, Fact::Known(0));
        assert!(metrics.l2_hit_percent.to_string().contains("nan"));
        let none = metrics.sm_busy_percent.to_string();
        assert!(none.starts_with("unavailable: ncu has no sm__instruction_throughput"), "{none}");
        assert_eq!(quantity("n/a", "%").to_string(), "unavailable: ncu could not collect it");
        assert_eq!(quantity("(!) n/a", "").to_string(), "unavailable: ncu could not collect it");
        assert!(quantity("5", "parsec\u{b2}").known().is_none());
    }

    #[test]
    fn sector_use_includes_copies() {
        let used = Metric::named("sector_use_percent").ncu[0];
        let (requests, sectors) = request_and_sector_names();
        let launch = |copied: f64| ProfiledLaunch {
            kernel: "k".to_owned(),
            values: [(used, 50.0), (sectors[0], 100.0), (sectors[1], copied), (requests[1], 100.0)]
                .map(|(name, value)| (name.to_owned(), Fact::Known(value)))
                .into(),
        };
        assert_eq!(launch(0.0).sector_use(), Fact::Known(50.0));
        let mut none = launch(0.0);
        none.values.insert(used.to_owned(), Fact::Known(0.0));
        assert_eq!(none.sector_use().known(), None, "observed on an H200 with only cp.async.cg");
        let well = *launch(1600.0).sector_use().known().unwrap();
        assert!((well - 100.0 * 1650.0 / 1700.0).abs() < 1e-9, "{well}");
        let strided = *launch(3200.0).sector_use().known().unwrap();
        assert!((strided - 50.0).abs() < 1e-9, "{strided}");
    }

    #[test]
    fn every_unit_of_a_time_or_size_gives_the_same_number() {
        for (value, unit) in [("5440", "ns"), ("5.44", "us"), ("0.00544", "ms"), ("5,440", "nsecond")] {
            let nanos = quantity(value, unit);
            assert!((nanos.known().unwrap() - 5440.0).abs() < 1e-6, "{value} {unit}");
        }
        for (value, unit) in [("1,500", "byte"), ("1.5", "Kbyte"), ("0.0015", "Mbyte"), ("1.5", "KB")] {
            let bytes = quantity(value, unit);
            assert!((bytes.known().unwrap() - 1500.0).abs() < 1e-6, "{value} {unit}");
        }
        for unit in
            ["", "%", "inst", "sector", "register/thread", "warp", "cycle", "inst/cycle", "block", "SM"]
        {
            assert_eq!(quantity("7", unit), Fact::Known(7.0), "{unit}");
        }
    }

    #[test]
    fn a_malformed_page_is_an_error() {
        for text in ["", "==PROF== nothing\n", "\"ID\",\"Kernel Name\"\n\"\",\"\"\n", "\"a\",\"b\"\n1,2\n"] {
            assert!(matches!(launches(text), Err(NcuError::Output(_))), "{text:?}");
        }
    }

    #[test]
    fn a_missing_permission_is_distinguished_from_other_failures() {
        let refused = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU \
                       Performance Counters on the target device 0.\n";
        assert_eq!(error_from_output(refused), NcuError::NoPermission);
        let broken = "==PROF== Connected\n==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n";
        let messages = "Failed to initialize the profiler: LibraryNotLoaded".to_owned();
        assert_eq!(error_from_output(broken), NcuError::Failed(messages));
        assert_eq!(error_from_output(""), NcuError::Failed("it wrote no report".to_owned()));
    }

    #[test]
    fn version_and_permission_are_checked_before_anything_runs() {
        let profiler = |version| Some(Profiler { path: "/opt/ncu".into(), version });
        let checked = Ncu::checked;
        assert_eq!(checked(None, Some(13), Some(true)).unwrap_err(), NcuError::Missing);
        let unfit = checked(profiler(Some((2025, 3))), Some(12), Some(true)).unwrap_err();
        assert_eq!(unfit, NcuError::Unfit { version: "2025.3".to_owned(), needs: 13, has: 12 });
        let denied = checked(profiler(Some((2025, 3))), Some(13), Some(false)).unwrap_err();
        assert_eq!(denied, NcuError::NoPermission);
        assert_eq!(checked(profiler(Some((2025, 3))), Some(13), None).unwrap().version, "2025.3");
        for error in [NcuError::Missing, unfit, denied] {
            assert!(!error.remedy().is_empty());
        }
    }

    /// A script that behaves like ncu: it runs its target, and writes a report or prints an error.
    fn fake_ncu(folder: &Path, script: &str) -> Ncu {
        use std::os::unix::fs::PermissionsExt as _;
        let path = folder.join("ncu");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Ncu { path, version: "2025.3".to_owned() }
    }

    fn profile(ncu: &Ncu, report: &Path, limit: Duration) -> Result<Vec<String>, NcuError> {
        let mut worker = Command::new("echo");
        worker.arg("answer");
        ncu.profile(&worker, "k", 1, report, limit, &AtomicBool::new(false))
    }

    #[test]
    fn a_report_is_written_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("a.ncu-rep");
        fs::write(folder.path().join("raw.csv"), RAW).unwrap();
        let script = format!(
            "case \"$*\" in *--import\\ *) cat {0}/raw.csv;; *) touch {0}/a.ncu-rep; echo answer;; esac",
            folder.path().display()
        );
        let ncu = fake_ncu(folder.path(), &script);
        let printed = profile(&ncu, &report, Duration::from_mins(1)).unwrap();
        assert_eq!(printed, ["answer"]);
        let metrics = ncu.metrics(&report, &AtomicBool::new(false)).unwrap();
        assert_eq!(metrics.registers, Fact::Known(107));
    }

    #[test]
    fn a_profiler_that_is_denied_or_hangs_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("a.ncu-rep");
        let ncu = fake_ncu(folder.path(), "echo '==ERROR== ERR_NVGPUCTRPERM - no' >&2; exit 1");
        assert_eq!(profile(&ncu, &report, Duration::from_mins(1)), Err(NcuError::NoPermission));
        let ncu = fake_ncu(folder.path(), "sleep 600");
        let late = profile(&ncu, &report, Duration::from_millis(60));
        assert!(matches!(late, Err(NcuError::Failed(_))), "{late:?}");
    }

    #[test]
    fn samples_are_assigned_to_file_and_line() {
        // As ncu 2025.3 prints it: one row per line, followed by its machine code.
        let text = r##"==WARNING== Unable to open source file /tmp/common/tiles.cuh.
"File Path","/tmp/common/tiles.cuh"
"Function Name","k"
"Line No","Source","Address","Source","Warp Stall Sampling (All Samples)","# Samples"
"2","<Unable to open source file>","-","-","30","30"
"","","0x7f611b7a0030","      ULDC UR4, c[0x0][0x2cc]","14","14"
"","","...","...","-","-"
"1","<Unable to open source file>","-","-","1,000","1,000"
"3","<Unable to open source file>","-","-","0","0"
"##;
        let found = samples(text).unwrap();
        let line = |number: u32, count: f64| (("/tmp/common/tiles.cuh".to_owned(), number), count);
        assert_eq!(found, [line(2, 30.0), line(1, 1000.0)]);
        assert!(samples("\"a\"\n").is_err());
    }
}
