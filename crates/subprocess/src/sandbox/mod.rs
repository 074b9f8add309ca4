//! Restricts a process that runs untrusted code. The process applies this to itself before it reads any input.
//!
//! - Landlock: files. Only named folders can be read, fewer can be written, and no program can be started.
//! - seccomp: system calls. No network, no new processes, no access to other processes, no administration.
//! - Resource limits: no core files, no huge files. Memory is not limited here: a CUDA context maps more address
//!   space than any machine has, so the parent watches the resident memory. The number of processes is not limited
//!   either: the system counts all processes of the user, and seccomp forbids new ones.
//!
//! Landlock and seccomp apply to the calling thread and to threads that it starts later, so apply them while there is
//! only one thread. A part that the system does not support is left out, and the [`Report`] lists it.

mod files;
mod limits;
mod syscalls;

use std::fmt;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use seccompiler::apply_filter;

/// The environment variable that turns the sandbox off when it is `off`.
pub const VARIABLE: &str = "WARPSMITH_SANDBOX";

/// The access that the process needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Files and folders to read, in addition to those of the system.
    pub read: Vec<PathBuf>,
    /// Folders to read and write.
    pub write: Vec<PathBuf>,
    /// Whether a profiler runs. Its code in this process opens files and local network connections, so only the rules
    /// that do not disturb it are applied.
    pub profiled: bool,
}

/// A part of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The part is active; the text is its name.
    Active(String),
    /// The part is not active; the text is the reason.
    Missing(String),
}

impl Part {
    /// Whether the part is active.
    pub fn is_active(&self) -> bool {
        matches!(self, Part::Active(_))
    }
}

/// The active and missing parts of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The restriction of file access.
    pub landlock: Part,
    /// The restriction of system calls.
    pub seccomp: Part,
    /// The resource limits: core files and file size.
    pub limits: Part,
}

impl Report {
    fn same(part: Part) -> Self {
        Report { landlock: part.clone(), seccomp: part.clone(), limits: part }
    }

    fn parts(&self) -> [&Part; 3] {
        [&self.landlock, &self.seccomp, &self.limits]
    }

    /// Whether every part is active.
    pub fn is_complete(&self) -> bool {
        self.parts().into_iter().all(Part::is_active)
    }
}

/// For example `Landlock ABI 6, seccomp, resource limits`, followed by the missing parts and the reasons.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let active: Vec<&str> = self
            .parts()
            .into_iter()
            .filter_map(|part| if let Part::Active(name) = part { Some(name.as_str()) } else { None })
            .collect();
        let mut missing: Vec<&str> = self
            .parts()
            .into_iter()
            .filter_map(|part| if let Part::Missing(why) = part { Some(why.as_str()) } else { None })
            .collect();
        missing.dedup();
        match (active.is_empty(), missing.is_empty()) {
            (_, true) => write!(f, "{}", active.join(", ")),
            (true, false) => write!(f, "none: {}", missing.join("; ")),
            (false, false) => write!(f, "{}; {}", active.join(", "), missing.join("; ")),
        }
    }
}

/// Restricts a script of the user that a command will start: a reference or a proposer. It cannot read the memory of this
/// process, leave its process group, or use the network unless `network` is set. Its access to files is not
/// restricted: what an interpreter reads differs between machines.
pub fn confine(command: &mut Command, network: bool) -> Part {
    if is_off() {
        return turned_off().seccomp;
    }
    // Other processes of the user can then not open the memory of this one. Only a core file is lost.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let active = probe().seccomp;
    let filters = match syscalls::of_script(network) {
        Ok(filters) if active.is_active() => filters,
        Ok(_) => return active,
        Err(error) => return Part::Missing(error.to_string()),
    };
    // SAFETY: between fork and exec this makes system calls only. It allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || {
            filters.iter().try_for_each(|filter| apply_filter(filter).map_err(|_| io::Error::last_os_error()))
        });
    }
    active
}

/// Whether the user turned the sandbox off.
pub fn is_off() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value == "off")
}

/// Applies the sandbox to this thread and to those that it starts later. It cannot be undone.
pub fn apply(policy: &Policy) -> Report {
    if is_off() {
        return turned_off();
    }
    Report {
        limits: limits::apply(),
        // Landlock's own system calls must run before the filter is active.
        landlock: if policy.profiled { under_a_profiler("Landlock") } else { files::apply(policy) },
        seccomp: syscalls::apply(policy),
    }
}

/// What [`apply`] would activate on this system. It is tried on a thread that ends afterwards. Resource limits apply
/// to a whole process and are not tried: every system has them.
pub fn probe() -> Report {
    if is_off() {
        return turned_off();
    }
    let attempt = std::thread::spawn(|| {
        let policy = Policy::default();
        let limits = Part::Active(limits::NAME.to_owned());
        Report { limits, landlock: files::apply(&policy), seccomp: syscalls::apply(&policy) }
    });
    attempt.join().unwrap_or_else(|_| Report::same(Part::Missing("the trial failed".to_owned())))
}

fn turned_off() -> Report {
    Report::same(Part::Missing(format!("{VARIABLE}=off")))
}

fn under_a_profiler(name: &str) -> Part {
    Part::Missing(format!("no {name} under a profiler"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    /// Runs work on a thread in the sandbox.
    fn inside<T: Send + 'static>(policy: Policy, work: impl FnOnce(Report) -> T + Send + 'static) -> T {
        std::thread::spawn(move || work(apply(&policy))).join().unwrap()
    }

    fn is_refused<T>(outcome: io::Result<T>) -> bool {
        matches!(outcome, Err(error) if error.kind() == io::ErrorKind::PermissionDenied)
    }

    #[test]
    fn the_sandbox_denies_network_and_local_services() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _service = UnixListener::bind(&path).unwrap();
        assert!(TcpStream::connect(address).is_ok() && UnixStream::connect(&path).is_ok());
        let policy = Policy { write: vec![folder.path().to_owned()], ..Policy::default() };
        inside(policy, move |_| {
            assert!(is_refused(TcpStream::connect(address)));
            assert!(is_refused(TcpListener::bind("127.0.0.1:0")));
            assert!(is_refused(UdpSocket::bind("127.0.0.1:0")));
            assert!(is_refused(UnixStream::connect(&path)));
            // The CUDA driver needs these.
            assert!(UnixStream::pair().is_ok());
            assert!(UnixListener::bind(path.with_extension("own")).is_ok());
        });
    }

    #[test]
    fn the_sandbox_allows_threads_but_no_processes() {
        let mut other = Command::new("sleep").arg("100").spawn().unwrap();
        let id = Pid::from_child(&other);
        inside(Policy::default(), move |_| {
            assert!(is_refused(Command::new("true").spawn()));
            assert!(kill_process(id, Signal::KILL).is_err());
            assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
        });
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn only_the_named_files_are_accessible() {
        let folder = tempfile::tempdir().unwrap();
        let home = std::env::home_dir().unwrap();
        let private = tempfile::NamedTempFile::new_in(&home).unwrap();
        let (read, write, other) =
            (folder.path().join("read"), folder.path().join("write"), folder.path().join("other"));
        for folder in [&read, &write, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), "text").unwrap();
        }
        let policy = Policy { read: vec![read.clone()], write: vec![write.clone()], profiled: false };
        let private = private.into_temp_path();
        inside(policy, move |report| {
            if !report.landlock.is_active() {
                println!("skipped: no Landlock");
                return;
            }
            let reads = |path: &Path| fs::read(path.join("file"));
            assert!(reads(&read).is_ok() && reads(&write).is_ok());
            assert!(is_refused(reads(&other)));
            assert!(is_refused(fs::read(&private)));
            assert!(is_refused(fs::read_dir(&home)));
            assert!(is_refused(fs::write(read.join("file"), "")));
            assert!(is_refused(fs::write(other.join("new"), "")));
            fs::write(write.join("new"), "new").unwrap();
            fs::rename(write.join("new"), write.join("file")).unwrap();
            // Libraries read and write these.
            assert!(fs::read("/proc/self/maps").is_ok() && fs::read_dir("/etc").is_ok());
            assert!(fs::write("/dev/null", "x").is_ok());
        });
    }

    #[test]
    fn a_script_has_no_network_and_can_start_programs() {
        let shell = |network: bool| {
            let script = "import socket, subprocess\nsubprocess.run(['true'], check=True)\nsocket.socket()";
            let mut command = Command::new("python3");
            assert!(confine(command.args(["-c", script]), network).is_active());
            let output = command.output().unwrap();
            (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let (success, stderr) = shell(false);
        assert!(!success && stderr.contains("PermissionError"), "{stderr}");
        let (success, stderr) = shell(true);
        assert!(success, "{stderr}");
    }

    #[test]
    fn the_report_lists_missing_parts() {
        let report = Report {
            landlock: Part::Missing("no Landlock: the system does not support it".to_owned()),
            seccomp: Part::Active("seccomp".to_owned()),
            limits: Part::Active("resource limits".to_owned()),
        };
        assert_eq!(
            report.to_string(),
            "seccomp, resource limits; no Landlock: the system does not support it"
        );
        assert!(!report.is_complete());
        assert_eq!(turned_off().to_string(), "none: WARPSMITH_SANDBOX=off");
        // The probe does not restrict this thread.
        assert!(probe().seccomp.is_active());
        assert!(Command::new("true").status().unwrap().success());
    }
}
