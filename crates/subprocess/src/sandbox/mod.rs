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
use tempfile::TempDir;

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

/// What a script of the user may use: a reference or a proposer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptPolicy {
    /// Files and folders to read, in addition to those of the system. The user's home folder and the folders that
    /// contain it are left out.
    pub read: Vec<PathBuf>,
    /// Folders to read and write, in addition to the private temporary folder.
    pub write: Vec<PathBuf>,
    /// Whether it may use the network.
    pub network: bool,
}

/// The private temporary folder of a confined script. It is deleted when this value is dropped.
#[derive(Debug)]
pub struct PrivateFolder(TempDir);

/// Restricts a script of the user that a command will start: a reference or a proposer. It can read and write only what
/// the policy allows, cannot read the memory of this process or leave its process group, and has no network unless the
/// policy allows it. It may start programs. Returns its temporary folder, which must exist as long as the script runs.
/// Parts that the system lacks are left out ([`probe`] lists them).
pub fn confine(command: &mut Command, mut policy: ScriptPolicy) -> io::Result<PrivateFolder> {
    let folder = PrivateFolder(tempfile::Builder::new().prefix("warpsmith-script-").tempdir()?);
    command.env("TMPDIR", folder.0.path());
    if is_off() {
        return Ok(folder);
    }
    policy.write.push(folder.0.path().to_owned());
    // Other processes of the user can then not open the memory of this one. Only a core file is lost.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let mut rules = Some(files::of_script(&policy).map_err(io::Error::other)?);
    // A system without seccomp has been reported by a warning.
    let filters =
        if probe().seccomp.is_active() { syscalls::of_script(policy.network) } else { Ok(Vec::new()) };
    let filters = filters.map_err(io::Error::other)?;
    // SAFETY: between fork and exec this makes system calls only. It allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || {
            drop_capabilities()?;
            // The child has its own copy of the rules, so each child takes them once.
            if rules.take().is_some_and(|rules| rules.restrict_self().is_err()) {
                return Err(io::Error::last_os_error());
            }
            filters.iter().try_for_each(|filter| apply_filter(filter).map_err(|_| io::Error::last_os_error()))
        });
    }
    Ok(folder)
}

/// Drops all capabilities of this process but those for its own files. With others, a privileged user's script could look
/// into other processes. The rules set `no_new_privs`, so that a program that is started later does not get them back.
fn drop_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Sets {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    /// The version of the interface with 64 capabilities.
    const VERSION: u32 = 0x2008_0522;
    /// `CAP_CHOWN`, `CAP_DAC_OVERRIDE`, `CAP_DAC_READ_SEARCH` and `CAP_FOWNER`.
    const FILES: u32 = 0b1111;
    let header = Header { version: VERSION, pid: 0 };
    let mut sets = [Sets { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: both arguments have the layout that this version of the call reads and writes.
    unsafe {
        if libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let [low, high] = &mut sets;
        let kept = low.permitted & FILES;
        *low = Sets { effective: kept, permitted: kept, inheritable: 0 };
        *high = Sets { effective: 0, permitted: 0, inheritable: 0 };
        if libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
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

    /// The result of a confined Python script, which prints the name of each refused attempt.
    fn script(text: &str, policy: ScriptPolicy) -> String {
        let installed = crate::python::Installation::of(&crate::python::interpreter().unwrap()).unwrap();
        let mut command = Command::new(installed.executable);
        command.args(["-c", text]).stdin(std::process::Stdio::null());
        let read = policy.read.iter().cloned().chain(installed.folders).collect();
        let _folder = confine(&mut command, ScriptPolicy { read, ..policy }).unwrap();
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[test]
    fn a_script_has_no_network_and_can_start_programs() {
        let text = "import socket, subprocess\n\
                    subprocess.run(['true'], check=True)\n\
                    socket.socketpair()\n\
                    for kind in [(2, 1), (1, 2), (1, 2 | 0o4000)]:\n\
                    \x20   try:\n        socket.socket(*kind)\n\
                    \x20   except PermissionError:\n        print('refused')";
        assert_eq!(script(text, ScriptPolicy::default()), "refused\nrefused\nrefused\n");
        let policy = ScriptPolicy { network: true, ..ScriptPolicy::default() };
        assert_eq!(script(text, policy), "refused\nrefused\n", "local services act for their clients");
    }

    #[test]
    fn a_script_has_no_capabilities_in_a_namespace_of_its_own() {
        let text = "import ctypes, os\nCLONE_NEWUSER = 0x10000000\n\
                    libc = ctypes.CDLL(None, use_errno=True)\n\
                    print(libc.syscall(56, CLONE_NEWUSER | 17, 0, 0, 0, 0), ctypes.get_errno())";
        if cfg!(target_arch = "x86_64") {
            assert_eq!(script(text, ScriptPolicy::default()), "-1 1\n");
        }
        let own = script("print(open('/proc/self/status').read())", ScriptPolicy::default());
        let effective = own.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
        assert_eq!(u64::from_str_radix(effective, 16).unwrap() & !0b1111, 0, "{effective}");
    }

    #[test]
    fn a_script_uses_only_its_folders_and_not_our_memory() {
        if !probe().landlock.is_active() {
            println!("skipped: no Landlock");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (folder.path().join("own"), folder.path().join("other"));
        for folder in [&own, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), "text").unwrap();
        }
        let home = std::env::home_dir().unwrap();
        let private = tempfile::NamedTempFile::new_in(&home).unwrap();
        let text = format!(
            "import os, tempfile\n\
             def refused(path, mode):\n\
             \x20   try:\n\
             \x20       with open(path, mode) as file: 'r' in mode and file.read(1)\n\
             \x20   except PermissionError:\n\
             \x20       return True\n\
             own, other, private = {:?}, {:?}, {:?}\n\
             assert not refused(own + '/file', 'r') and refused(own + '/file', 'w'), 'own'\n\
             assert refused(other + '/file', 'r') and refused(other + '/new', 'w'), 'other'\n\
             assert refused(private, 'r') and refused(private, 'w'), 'private'\n\
             assert refused('/proc/%d/mem' % os.getppid(), 'rb'), 'memory'\n\
             assert refused('/proc/%d/environ' % os.getppid(), 'rb'), 'environment'\n\
             assert refused('/proc/%d/maps' % os.getppid(), 'rb'), 'maps'\n\
             assert refused('/dev/shm/warpsmith-test', 'w'), 'shared memory'\n\
             with tempfile.TemporaryFile() as file: file.write(b'x')\n\
             print('done')",
            own.display(),
            other.display(),
            private.path().display(),
        );
        // A folder that contains the home folder allows nothing.
        let read = vec![own, home.clone(), home.parent().unwrap().to_owned()];
        assert_eq!(script(&text, ScriptPolicy { read, ..ScriptPolicy::default() }), "done\n");
    }

    #[test]
    fn a_script_in_a_virtual_environment_finds_its_packages() {
        let folder = tempfile::tempdir().unwrap();
        let environment = folder.path().join("environment");
        let interpreter = crate::python::interpreter().unwrap();
        let made = Command::new(interpreter).args(["-m", "venv", "--without-pip"]).arg(&environment).status();
        assert!(made.unwrap().success());
        let installed = crate::python::Installation::of(&environment.join("bin/python3")).unwrap();
        let packages = installed.folders.iter().find(|path| path.ends_with("site-packages")).unwrap();
        assert!(packages.starts_with(&environment), "{installed:?}");
        fs::write(packages.join("only_here.py"), "VALUE = 7").unwrap();
        let mut command = Command::new(installed.executable);
        command.args(["-c", "import only_here, decimal; print(only_here.VALUE)"]);
        let _folder =
            confine(&mut command, ScriptPolicy { read: installed.folders, ..ScriptPolicy::default() })
                .unwrap();
        let output = command.output().unwrap();
        assert_eq!(output.stdout, b"7\n", "{}", String::from_utf8_lossy(&output.stderr));
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
