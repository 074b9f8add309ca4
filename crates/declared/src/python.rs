//! The Python process that computes references.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use op::Refusal;
use serde::{Deserialize, Serialize};
use subprocess::Link;
use subprocess::python::Installation;
use subprocess::sandbox::{PrivateFolder, ScriptPolicy, confine};

/// Largest size of all outputs of one call, in bytes.
const MOST_BYTES: u64 = 4 << 30;
/// The largest memory limit of a reference. The first call sets this limit, because the process can lower it later, but
/// not raise it.
pub(crate) const MOST_MIB: i64 = 1 << 22;
/// Time to start Python and import numpy. It is slow on a busy machine.
const START: Duration = Duration::from_mins(1);

/// One call of a function. The tensors are attachments.
#[derive(Debug, Serialize)]
pub(crate) struct Call<'a> {
    pub script: &'a str,
    /// The path of the script, for messages.
    pub file: &'a str,
    /// The folder from which the script may import.
    pub folder: Option<&'a str>,
    pub function: &'a str,
    pub arguments: Vec<Array<'a>>,
    /// Scalars, sizes and axes.
    pub values: serde_json::Map<String, serde_json::Value>,
    pub outputs: Vec<Array<'a>>,
    pub mib: i64,
    /// The errors that operations get at random.
    pub errors: Option<Errors>,
}

/// See [`crate::rows::Precision`].
#[derive(Debug, Serialize)]
pub(crate) struct Errors {
    pub seed: u64,
    /// `None` for random roundings of fp32.
    pub share: Option<f64>,
}

/// The name, type and shape of a tensor.
#[derive(Debug, Serialize)]
pub(crate) struct Array<'a> {
    pub name: &'a str,
    /// `<f8` or `<i8`, or of outputs also `<u8`. An output of integers has its float64 numbers and its integers.
    pub dtype: &'static str,
    pub shape: Vec<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Reply {
    Missing { missing: String },
    Failed { error: String, line: Option<u32> },
    Done {},
}

/// A Python process that is started when it is first needed, and again after a call that broke it.
#[derive(Debug)]
pub(crate) struct Python {
    /// The op's folder, which the reference may read.
    folder: Option<PathBuf>,
    process: Mutex<Option<Process>>,
}

/// A running process.
#[derive(Debug)]
struct Process {
    link: Link,
    /// The only folder that it may write.
    _temporary: PrivateFolder,
}

impl Python {
    pub fn new(folder: Option<&Path>) -> Self {
        // A path without a folder is in the current one.
        let named = |folder: &Path| {
            if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() }
        };
        Python { folder: folder.map(named), process: Mutex::new(None) }
    }

    /// Calls a function and returns its outputs as bytes of float64.
    pub fn call(&self, call: &Call<'_>, tensors: &[&[u8]], seconds: f64) -> Result<Vec<Vec<u8>>, Refusal> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = match process.take() {
            Some(running) => running,
            None => self.started()?,
        };
        let link = &mut running.link;
        let at = format!("{}:{}", call.file, call.function);
        match exchange(link, call, tensors, Duration::from_secs_f64(seconds)) {
            Ok((Reply::Done {}, outputs)) => {
                *process = Some(running);
                Ok(outputs)
            }
            Ok((Reply::Missing { missing }, _)) => Err(no_numpy(&missing)),
            Ok((Reply::Failed { error, line }, _)) => {
                *process = Some(running);
                let at = line.map_or(at, |line| format!("{}:{line}", call.file));
                Err(Refusal::new(format!("the reference failed: {at}: {error}")))
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                link.kill();
                let message = format!("the reference {at} took longer than {seconds} s");
                Err(Refusal::new(message).hint(Some("set `reference_seconds` in op.toml".to_owned())))
            }
            Err(error) => {
                Err(Refusal::new(format!("the process of the reference {at} ended: {}", ended(link, &error))))
            }
        }
    }
}

/// Sends a call and waits for its reply.
fn exchange(
    link: &mut Link,
    call: &Call<'_>,
    tensors: &[&[u8]],
    limit: Duration,
) -> io::Result<(Reply, Vec<Vec<u8>>)> {
    let until = Instant::now() + limit;
    let in_time = || if Instant::now() > until { Err(ErrorKind::TimedOut.into()) } else { Ok(()) };
    link.send(call, tensors, in_time)?;
    link.receive(MOST_BYTES, in_time)
}

/// What a lost process printed last.
fn ended(link: &mut Link, error: &io::Error) -> String {
    link.kill();
    let printed = link.last_output();
    if printed.is_empty() { error.to_string() } else { printed }
}

impl Python {
    /// A process that has imported numpy. The time for this does not count for the first call.
    fn started(&self) -> Result<Process, Refusal> {
        let nothing = Call {
            script: "def nothing():\n    return 0.0\n",
            file: "nothing.py",
            folder: None,
            function: "nothing",
            arguments: Vec::new(),
            values: serde_json::Map::new(),
            outputs: vec![Array { name: "nothing", dtype: "<f8", shape: Vec::new() }],
            mib: MOST_MIB,
            errors: None,
        };
        let mut process = self.start()?;
        match exchange(&mut process.link, &nothing, &[], START) {
            Ok((Reply::Done {}, _)) => Ok(process),
            Ok((Reply::Missing { missing }, _)) => Err(no_numpy(&missing)),
            Ok((Reply::Failed { error, .. }, _)) => {
                Err(Refusal::new(format!("Python cannot run a function: {error}")))
            }
            Err(error) => {
                Err(Refusal::missing(format!("Python ended: {}", ended(&mut process.link, &error))))
            }
        }
    }

    fn start(&self) -> Result<Process, Refusal> {
        let Some(interpreter) = subprocess::python::interpreter() else {
            let message = "the op's reference needs Python 3, and there is no python3";
            return Err(
                Refusal::missing(message).hint(Some("install Python 3, or set WARPSMITH_PYTHON".to_owned()))
            );
        };
        let failed = |error: io::Error| Refusal::missing(format!("cannot start Python: {error}"));
        let installation = Installation::of(&interpreter).map_err(failed)?;
        let mut command = Command::new(installation.executable);
        command.arg("-c").arg(subprocess::wire::with_python(include_str!("reference.py")));
        // Threads of numpy take address space, which is limited; the reference is not timed.
        for threads in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"] {
            if std::env::var_os(threads).is_none() {
                command.env(threads, "4");
            }
        }
        let read = installation.folders.into_iter().chain(self.folder.clone()).collect();
        let policy = ScriptPolicy { read, ..ScriptPolicy::default() };
        let temporary = confine(&mut command, policy).map_err(failed)?;
        Ok(Process { link: Link::start(command).map_err(failed)?, _temporary: temporary })
    }

    /// An error if Python or numpy is missing.
    pub fn require_numpy(&self) -> Result<(), Refusal> {
        self.started().map(drop)
    }
}

fn no_numpy(reason: &str) -> Refusal {
    let interpreter =
        subprocess::python::interpreter().map_or("python3".to_owned(), |path| path.display().to_string());
    Refusal::missing(format!("the op's reference needs numpy: {reason}"))
        .hint(Some(format!("install it with: {interpreter} -m pip install numpy")))
}
