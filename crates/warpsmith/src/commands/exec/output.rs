//! What `exec` prints.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;

use execlog::{HostKind, KernelTotal, Record};
use report::ci::{self, CiCase, CiFinding, CiReport, CiStatus, Level, Location};
use sanitize::findings::Message;
use schemars::JsonSchema;
use serde::Serialize;
use text::count;
use vgpu::{Finding, Place, Related, Severity};

use super::symbols::Symbols;
use crate::ci_output;
use crate::cli::{ExecCheck, ExecOptions};
use crate::error::CommandError;
use crate::findings;
use crate::printer::{BAD, FAINT, GOOD, Printer, STRONG, styled, styled_already};
use crate::snippet;

/// A finding about host code, with the lines of the source.
#[derive(Debug, JsonSchema, Serialize)]
struct HostFinding {
    /// Kind of the problem.
    kind: HostKind,
    /// Severity of the problem.
    severity: Severity,
    /// Description for the user.
    message: String,
    /// The function of CUDA that was called.
    call: String,
    /// Where it was called, innermost call first. Empty without debug information.
    place: Place,
    /// Other places that explain the problem.
    related: Vec<Related>,
}

/// What a program did.
#[derive(Debug)]
pub struct Run {
    program: String,
    device: String,
    host: Vec<HostFinding>,
    kernels: Vec<Finding>,
    totals: Vec<KernelTotal>,
    missing: Vec<String>,
    repeated: u64,
    has_started: bool,
    has_ended: bool,
    status: ExitStatus,
}

#[derive(JsonSchema, Serialize)]
pub struct Document<'a> {
    program: &'a str,
    device: &'a str,
    checked: bool,
    clean: bool,
    /// The exit code of the program; 128 and the number of the signal that ended it.
    code: i32,
    /// Whether the program used CUDA.
    used_cuda: bool,
    /// Findings about host code.
    host_findings: &'a [HostFinding],
    /// Findings about kernels.
    findings: &'a [Finding],
    /// The findings about kernels by probable cause: lists of indices of `findings`.
    causes: Vec<Vec<usize>>,
    /// Number of findings that were left out because an equal one is listed.
    repeated: u64,
    kernels: &'a [KernelTotal],
    /// Functions that the program called and that the virtual GPU does not have.
    missing_functions: &'a [String],
}

/// The text of a source file.
fn source(file: &str) -> Option<String> {
    files::read_text_bounded(std::path::Path::new(file), ::sanitize::MAX_SOURCE).ok()
}

fn path(file: &str) -> Option<PathBuf> {
    Some(PathBuf::from(file)).filter(|path| path.is_file())
}

impl Run {
    /// Collects the records of a program.
    pub fn new(program: &[OsString], device: &str, records: Vec<Record>, status: ExitStatus) -> Run {
        let symbols = Symbols::default();
        let words: Vec<_> = program.iter().map(|word| word.to_string_lossy()).collect();
        let mut run = Run {
            program: words.join(" "),
            device: format!("virtual:{device}"),
            host: Vec::new(),
            kernels: Vec::new(),
            totals: Vec::new(),
            missing: Vec::new(),
            repeated: 0,
            has_started: false,
            has_ended: false,
            status,
        };
        for record in records {
            run.add(record, &symbols);
        }
        run.host.sort_by_key(|finding| finding.severity);
        run.kernels.sort_by_key(|finding| finding.severity);
        run
    }

    fn add(&mut self, record: Record, symbols: &Symbols) {
        match record {
            Record::Start { .. } => self.has_started = true,
            Record::Host(found) => {
                let related = found.related.into_iter();
                let related =
                    related.map(|(label, stack)| Related { label, place: symbols.place(&stack) }).collect();
                self.host.push(HostFinding {
                    kind: found.kind,
                    severity: found.severity,
                    message: found.message,
                    call: found.call,
                    place: symbols.place(&found.stack),
                    related,
                });
            }
            Record::Kernel { mut finding, launch } => {
                let place = symbols.place(&launch);
                if !place.frames.is_empty() {
                    finding.related.push(Related { label: "the kernel was launched here".to_owned(), place });
                }
                self.kernels.push(*finding);
            }
            Record::Missing { function } => {
                if !self.missing.contains(&function) {
                    self.missing.push(function);
                }
            }
            Record::End { kernels, repeated, .. } => {
                self.has_ended = true;
                self.repeated += repeated;
                for total in kernels {
                    match self.totals.iter_mut().find(|it| it.kernel == total.kernel) {
                        Some(known) => {
                            known.launches += total.launches;
                            known.blocks += total.blocks;
                            known.warp_instructions += total.warp_instructions;
                            known.modelled_seconds = match (known.modelled_seconds, total.modelled_seconds) {
                                (Some(a), Some(b)) => Some(a + b),
                                (a, b) => a.or(b),
                            };
                        }
                        None => self.totals.push(total),
                    }
                }
            }
        }
    }

    /// The exit code of the program, as a shell has it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    fn severities(&self) -> impl Iterator<Item = Severity> {
        self.host.iter().map(|it| it.severity).chain(self.kernels.iter().map(|it| it.severity))
    }

    /// Whether no finding fails the run.
    pub fn is_clean(&self, strict: bool) -> bool {
        self.severities().all(|severity| match severity {
            Severity::Error => false,
            Severity::Warning => !strict,
            Severity::Note => true,
        })
    }

    /// Prints everything.
    pub fn print(&self, options: &ExecOptions, printer: &Printer) -> Result<(), CommandError> {
        if printer.is_json() {
            let document = Document {
                program: &self.program,
                device: &self.device,
                checked: options.check == ExecCheck::All,
                clean: self.is_clean(options.strict),
                code: self.code(),
                used_cuda: self.has_started,
                host_findings: &self.host,
                findings: &self.kernels,
                causes: findings::causes(&self.kernels),
                repeated: self.repeated,
                kernels: &self.totals,
                missing_functions: &self.missing,
            };
            printer.json("exec", &document);
            return Ok(());
        }
        for finding in &self.host {
            printer.verbatim_message(&finding.render());
        }
        for cause in findings::causes(&self.kernels) {
            let group: Vec<&Finding> = cause.iter().map(|index| &self.kernels[*index]).collect();
            printer.verbatim_message(&findings::render_cause(&group, &|file| source(file)));
        }
        if self.repeated > 0 {
            let text = format!("{} not shown: equal ones are", count(self.repeated as usize, "more finding"));
            printer.message(&styled(FAINT, text));
        }
        printer.message(&self.summary(options));
        Ok(())
    }

    fn summary(&self, options: &ExecOptions) -> String {
        let mut lines = Vec::new();
        for total in &self.totals {
            let time = total
                .modelled_seconds
                .map_or(String::new(), |seconds| format!(", modelled time {:.3} ms", seconds * 1000.0));
            lines.push(format!(
                "  {}: {}, {}, {}{time}",
                styled(STRONG, ::sanitize::readable(&total.kernel)),
                count(total.launches as usize, "launch"),
                count(total.blocks as usize, "block"),
                count(total.warp_instructions as usize, "warp instruction"),
            ));
        }
        for function in &self.missing {
            lines.push(format!("  the virtual GPU does not have {function}"));
        }
        let end = match (self.status.code(), self.status.signal()) {
            (Some(0), _) | (None, None) => String::new(),
            (Some(code), _) => format!("; the program ended with code {code}"),
            (None, Some(signal)) => format!("; the program was ended by signal {signal}"),
        };
        let verdict = self.verdict(options);
        lines.push(format!("`{}` on {}: {verdict}{end}", self.program, self.device));
        if !self.has_started && self.status.success() {
            lines.push(
                "note: the program did not use CUDA's driver; was it linked with `-cudart shared`?"
                    .to_owned(),
            );
        } else if self.has_started && !self.has_ended {
            lines.push("note: the program ended without its usual end, so leaks are not known".to_owned());
        }
        lines.join("\n")
    }

    fn verdict(&self, options: &ExecOptions) -> String {
        let with = |wanted| self.severities().filter(|severity| *severity == wanted).count();
        let counts = [Severity::Error, Severity::Warning, Severity::Note].map(with);
        match counts {
            _ if options.check == ExecCheck::None => styled(FAINT, "ran unchecked"),
            [0, 0, 0] => styled(GOOD, "clean"),
            [0, 0, notes] => format!("{}, {}", styled(GOOD, "clean"), count(notes, "note")),
            [errors, warnings, notes] => {
                let names = [(errors, "error"), (warnings, "warning"), (notes, "note")];
                let text = names.map(|(number, name)| count(number, name)).join(", ");
                styled(if self.is_clean(options.strict) { GOOD } else { BAD }, text)
            }
        }
    }

    /// The findings for CI systems.
    pub fn ci_report(&self) -> CiReport {
        let status = if self.is_clean(false) { CiStatus::Passed } else { CiStatus::Failed };
        let number = self.host.len() + self.kernels.len();
        let mut case = CiCase::new(&self.program, status, count(number, "finding"));
        case.findings = self.host.iter().map(HostFinding::for_ci).collect();
        let texts = |file: &str| source(file);
        let paths = |file: &str| path(file);
        let kernels = self.kernels.iter();
        case.findings.extend(kernels.map(|it| ci_output::finding(it, &it.kernel, &texts, &paths)));
        CiReport::new("exec", &self.device, vec![case])
    }
}

impl HostFinding {
    fn render(&self) -> String {
        let message = Message {
            level: self.severity,
            kind: self.kind.name(),
            text: &format!("{}: {}", self.call, self.message),
            place: &self.place,
            related: self.related.iter().map(|it| (it.label.as_str(), &it.place)).collect(),
            notes: Vec::new(),
        };
        styled_already(&message.render(&|file| source(file), &snippet::renderer()))
    }

    fn for_ci(&self) -> CiFinding {
        let located = |place: &Place| {
            let (frame, text) = findings::shown_frame(place, &|file| source(file))?;
            let file = ci::display_path(&path(&frame.file)?);
            Some(Location { file, line: frame.line, column: 0, text })
        };
        CiFinding {
            level: match self.severity {
                Severity::Error => Level::Error,
                Severity::Warning => Level::Warning,
                Severity::Note => Level::Note,
            },
            location: located(&self.place),
            related: self
                .related
                .iter()
                .filter_map(|it| Some((it.label.clone(), located(&it.place)?)))
                .collect(),
            ..CiFinding::new(self.kind.name(), &self.call, &self.message)
        }
    }
}
