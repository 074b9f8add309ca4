//! The records that the virtual CUDA libraries write while a program runs, and that `warpsmith exec` reads afterwards.
//!
//! A record is one line of JSON. Every record is written by one `write` to a file that is open for appending, so that
//! several processes of a program can share the file, and a process that is killed loses nothing that it wrote before.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vgpu::Severity;

/// Names of the environment variables by which `exec` tells the libraries what to do.
pub mod variables {
    /// The file of the records.
    pub const LOG: &str = "WARPSMITH_EXEC_LOG";
    /// The name of the chip.
    pub const DEVICE: &str = "WARPSMITH_EXEC_DEVICE";
    /// `all` or `none`.
    pub const CHECK: &str = "WARPSMITH_EXEC_CHECK";
    /// The largest number of warp instructions of a launch.
    pub const BUDGET: &str = "WARPSMITH_EXEC_BUDGET";
    /// The longest time of a launch, in seconds.
    pub const TIME_LIMIT: &str = "WARPSMITH_EXEC_TIME_LIMIT";
    /// The number of threads that run the blocks of a grid.
    pub const THREADS: &str = "WARPSMITH_EXEC_THREADS";
    /// `1`: count events, for modelled times.
    pub const COUNTERS: &str = "WARPSMITH_EXEC_COUNTERS";
}

/// Names of the libraries' files as cargo builds them.
pub mod libraries {
    /// The driver API.
    pub const DRIVER: &str = "libwarpsmith_cuda.so";
    /// The runtime API.
    pub const RUNTIME: &str = "libwarpsmith_cudart.so";
}

/// The kind of a finding about host code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostKind {
    /// A copy, fill or free of memory that was freed before.
    UseAfterFree,
    /// Memory that was freed twice.
    DoubleFree,
    /// A free of an address that is not the start of an allocation.
    InvalidFree,
    /// A copy or fill that does not fit into its allocation.
    CopyTooLarge,
    /// A copy whose direction does not fit its addresses.
    WrongDirection,
    /// Two accesses of streams to the same memory that no event and no wait orders.
    StreamRace,
    /// The host accesses memory that an asynchronous operation may still use.
    HostRace,
    /// Host code reads or writes an address of device memory.
    HostAccess,
    /// A launch that failed, and whose error the program never asked for.
    UncheckedLaunch,
    /// A launch with a configuration or arguments that the device or the kernel does not allow.
    InvalidLaunch,
    /// A graph uses memory that was freed after the graph was made.
    StaleGraph,
    /// A name that the module does not have.
    UnknownSymbol,
    /// Another call that returned an error.
    ApiError,
    /// Device memory that was not freed.
    Leak,
    /// A kernel that the virtual GPU does not support.
    Unsupported,
}

impl HostKind {
    /// The name that users see.
    pub fn name(self) -> &'static str {
        match self {
            HostKind::UseAfterFree => "use-after-free",
            HostKind::DoubleFree => "double-free",
            HostKind::InvalidFree => "invalid-free",
            HostKind::CopyTooLarge => "copy-too-large",
            HostKind::WrongDirection => "wrong-direction",
            HostKind::StreamRace => "stream-race",
            HostKind::HostRace => "host-race",
            HostKind::HostAccess => "host-access",
            HostKind::UncheckedLaunch => "unchecked-launch",
            HostKind::InvalidLaunch => "invalid-launch",
            HostKind::StaleGraph => "stale-graph",
            HostKind::UnknownSymbol => "unknown-symbol",
            HostKind::ApiError => "api-error",
            HostKind::Leak => "leak",
            HostKind::Unsupported => "unsupported",
        }
    }
}

/// A place in the machine code of the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CodeAddress {
    /// The file of the program or library.
    pub module: String,
    /// The address as the file's debug information has it. It lies inside the call instruction.
    pub offset: u64,
}

/// The calls that led to a place, innermost first.
pub type Stack = Vec<CodeAddress>;

/// Something wrong in what host code asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostFinding {
    /// Kind of the problem.
    pub kind: HostKind,
    /// Severity of the problem.
    pub severity: Severity,
    /// Description for the user.
    pub message: String,
    /// The function that was called.
    pub call: String,
    /// Where it was called.
    pub stack: Stack,
    /// Other places that explain the problem.
    pub related: Vec<(String, Stack)>,
}

/// The launches of one kernel.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct KernelTotal {
    /// Name of the kernel.
    pub kernel: String,
    /// Number of launches.
    pub launches: u64,
    /// Number of blocks of all launches.
    pub blocks: u64,
    /// Number of warp instructions of all launches.
    pub warp_instructions: u64,
    /// Modelled time of all launches in seconds, if the events were counted.
    pub modelled_seconds: Option<f64>,
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// A process has initialised CUDA.
    Start {
        /// The process.
        process: u32,
        /// The virtual GPU.
        device: String,
    },
    /// A finding about host code.
    Host(HostFinding),
    /// A finding of the virtual GPU about a kernel.
    Kernel {
        /// The finding.
        finding: Box<vgpu::Finding>,
        /// Where the kernel was launched.
        launch: Stack,
    },
    /// A function that does not exist on the virtual GPU was called.
    Missing {
        /// Name of the function.
        function: String,
    },
    /// A process ends.
    End {
        /// The process.
        process: u32,
        /// Its kernels, in the order of their first launch.
        kernels: Vec<KernelTotal>,
        /// Number of findings that were not written because an equal one had been.
        repeated: u64,
    },
}

/// Writes records.
#[derive(Debug)]
pub struct Writer(File);

impl Writer {
    /// Opens a log for appending.
    pub fn open(path: &Path) -> io::Result<Writer> {
        File::options().append(true).create(true).open(path).map(Writer)
    }

    /// Writes a record.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        self.0.write_all(&line)
    }
}

/// Reads the records of a log. Lines that are not records are left out: a process that is killed while it writes may
/// leave one.
pub fn read(path: &Path) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    for line in BufReader::new(File::open(path)?).split(b'\n') {
        records.extend(serde_json::from_slice(&line?));
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn records_can_be_read_again_and_broken_lines_are_left_out() {
        let path = std::env::temp_dir().join(format!("warpsmith-execlog-{}", std::process::id()));
        let end = Record::End { process: 7, kernels: vec![KernelTotal::default()], repeated: 3 };
        let missing = Record::Missing { function: "cuFoo".to_owned() };
        Writer::open(&path).unwrap().write(&missing).unwrap();
        std::fs::File::options().append(true).open(&path).unwrap().write_all(b"{\"record\":\"en\n").unwrap();
        Writer::open(&path).unwrap().write(&end).unwrap();
        let records = read(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(records.unwrap(), [missing, end]);
    }
}
