//! The findings of the running program. Each is written immediately, so that a crash loses none.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use execlog::{HostFinding, HostKind, KernelTotal, Record, Writer, variables};
use vgpu::Severity;

use crate::api::{current_call, set_caller};
use crate::call_site::Site;
use crate::launches::readable;
use crate::{State, state};

/// The findings of the process.
#[derive(Debug)]
pub struct Findings {
    log: Option<Writer>,
    /// Hashes of what was written.
    written: HashSet<u64>,
    repeated: u64,
    kernels: Vec<KernelTotal>,
    by_kernel: HashMap<String, usize>,
    has_ended: bool,
}

/// The most findings that one process writes. A program in a loop could otherwise fill the disk.
const MOST: usize = 10_000;

impl Findings {
    /// Opens the log that `exec` names. Without one nothing is kept.
    pub fn open(device: &str) -> Findings {
        let path = std::env::var_os(variables::LOG);
        let mut log = path.and_then(|path| Writer::open(Path::new(&path)).ok());
        if let Some(log) = &mut log {
            let start = Record::Start { process: std::process::id(), device: device.to_owned() };
            // If this fails, the log has no end either, and `exec` reports that.
            let _ = log.write(&start);
        }
        Findings {
            log,
            written: HashSet::new(),
            repeated: 0,
            kernels: Vec::new(),
            by_kernel: HashMap::new(),
            has_ended: false,
        }
    }

    /// Writes a record, unless one with an equal key was written. Equal keys are what makes two findings the same.
    fn write_once(&mut self, key: impl Hash, record: impl FnOnce() -> Record) {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        if self.written.len() >= MOST || !self.written.insert(hasher.finish()) {
            self.repeated += 1;
        } else if let Some(log) = &mut self.log {
            let _ = log.write(&record());
        }
    }

    /// Records a finding about host code.
    pub fn host(&mut self, kind: HostKind, severity: Severity, message: String, site: &Site) {
        self.host_with(kind, severity, message, site, Vec::new());
    }

    /// Records a finding about host code, with other places that explain it.
    pub fn host_with(
        &mut self,
        kind: HostKind,
        severity: Severity,
        message: String,
        site: &Site,
        related: Vec<(String, Site)>,
    ) {
        let call = current_call();
        self.write_once((kind, site), || {
            Record::Host(HostFinding {
                kind,
                severity,
                message,
                call: call.to_owned(),
                stack: site.stack(),
                related: related.into_iter().map(|(label, site)| (label, site.stack())).collect(),
            })
        });
    }

    /// Records a finding about a kernel.
    pub fn kernel(&mut self, finding: &vgpu::Finding, launch: &Site) {
        let place =
            (finding.place.ptx_line, finding.place.frames.first().map(|it| (it.file.clone(), it.line)));
        self.write_once((finding.kind, &finding.kernel, place), || Record::Kernel {
            finding: Box::new(finding.clone()),
            launch: launch.stack(),
        });
    }

    /// Records a call of a function that does not exist here.
    pub fn missing(&mut self, function: &str) {
        self.write_once(("missing", function), || Record::Missing { function: function.to_owned() });
    }

    /// Adds a launch to the totals.
    pub fn count(&mut self, kernel: &str, stats: &vgpu::Stats, modelled: Option<f64>) {
        let next = self.kernels.len();
        let index = *self.by_kernel.entry(kernel.to_owned()).or_insert(next);
        if index == next {
            self.kernels.push(KernelTotal { kernel: kernel.to_owned(), ..KernelTotal::default() });
        }
        let total = &mut self.kernels[index];
        total.launches += 1;
        total.blocks += stats.blocks;
        total.warp_instructions += stats.warp_instructions;
        if let Some(seconds) = modelled {
            *total.modelled_seconds.get_or_insert(0.0) += seconds;
        }
    }

    /// Writes the totals, once.
    pub fn end(&mut self) {
        if let Some(log) = &mut self.log
            && !std::mem::replace(&mut self.has_ended, true)
        {
            let kernels = std::mem::take(&mut self.kernels);
            let end = Record::End { process: std::process::id(), kernels, repeated: self.repeated };
            let _ = log.write(&end);
        }
    }
}

impl State {
    /// Records an error about host code at the place of the current call.
    pub fn report(&mut self, kind: HostKind, message: String) {
        if self.is_checked() {
            self.findings.host(kind, Severity::Error, message, &Site::here());
        }
    }

    /// Records memory that is still allocated.
    fn report_leaks(&mut self) {
        let leaks: Vec<_> = self.allocations.iter().filter(|(_, it)| it.is_leak()).collect();
        for (_, leak) in leaks {
            let message = format!("{} of {} were not freed", leak.size_text(), leak.label());
            let (call, site) = (leak.call, leak.site.clone());
            let caller = set_caller(call);
            self.findings.host(HostKind::Leak, Severity::Warning, message, &site);
            set_caller(caller);
        }
    }
}

extern "C" fn at_exit() {
    if let Ok(mut state) = state() {
        // After a kernel has failed the program can free nothing.
        if state.is_checked() && state.fault.is_none() {
            state.report_leaks();
        }
        state.findings.end();
    }
}

/// The dynamic linker calls this when the process exits, after the program's own functions of `atexit`.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

/// The runtime library names the function that the program has called; an empty name when it returns.
#[unsafe(no_mangle)]
pub extern "C" fn warpsmithCaller(name: *const libc::c_char, bytes: usize) {
    // SAFETY: only the runtime library calls this, with a text that lives as long as the process.
    let name: &'static [u8] = unsafe { std::slice::from_raw_parts(name.cast(), bytes) };
    set_caller(std::str::from_utf8(name).unwrap_or_default());
}

/// Forgets a place of [`warpsmithSite`].
#[unsafe(no_mangle)]
pub extern "C" fn warpsmithForgetSite(site: u64) {
    if site != 0 {
        // SAFETY: only the runtime library calls this, once for every box that `warpsmithSite` made.
        drop(unsafe { Box::from_raw(site as *mut Site) });
    }
}

/// The runtime library reports a launch whose error the program never asked for. `site` is one of [`warpsmithSite`].
#[unsafe(no_mangle)]
pub extern "C" fn warpsmithUncheckedLaunch(
    kernel: *const libc::c_char,
    bytes: usize,
    error: *const libc::c_char,
    error_bytes: usize,
    site: u64,
) {
    let Ok(mut state) = state() else { return };
    if !state.is_checked() || site == 0 {
        return;
    }
    // SAFETY: only the runtime library calls this; `site` is a box that `warpsmithSite` made and that is given back once.
    let (name, error, site) = unsafe {
        (
            std::slice::from_raw_parts(kernel.cast::<u8>(), bytes),
            std::slice::from_raw_parts(error.cast::<u8>(), error_bytes),
            Box::from_raw(site as *mut Site),
        )
    };
    let (name, error) = (String::from_utf8_lossy(name), String::from_utf8_lossy(error));
    let message = format!(
        "the launch of `{}` failed with {error}, and the program did not ask for the error; call cudaGetLastError after the \
         launch",
        readable(&name)
    );
    let caller = set_caller("kernel launch");
    state.findings.host(HostKind::UncheckedLaunch, Severity::Error, message, &site);
    set_caller(caller);
}

/// The place of the current call, for [`warpsmithUncheckedLaunch`].
#[unsafe(no_mangle)]
pub extern "C" fn warpsmithSite() -> u64 {
    Box::into_raw(Box::new(Site::here())) as u64
}
