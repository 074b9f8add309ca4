//! Progress bars of long work, on stderr and only if it is a terminal.

use std::time::Duration;

use gpu::toolchain::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::printer::Printer;

/// A bar that counts to `length`. `indicatif` hides it when stderr is not a terminal.
pub fn counting(length: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(length).with_message(what.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:32}] {pos}/{len} {elapsed}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// Shows the progress of a toolchain installation; without a terminal it prints one message.
#[derive(Debug)]
pub struct Installation<'a> {
    printer: &'a Printer,
    bar: Option<ProgressBar>,
}

impl<'a> Installation<'a> {
    /// A display that shows nothing until the installation starts.
    pub fn new(printer: &'a Printer) -> Self {
        Installation { printer, bar: None }
    }

    /// Shows one step of the installation.
    pub fn show(&mut self, progress: Progress) {
        match progress {
            Progress::WaitingForOther => {
                self.printer.message("waiting for another process that is installing the CUDA compiler");
            }
            Progress::Downloading { package, done, total } => {
                let bar = self.bar.get_or_insert_with(|| {
                    self.printer.message(&format!(
                        "installing the CUDA compiler from PyPI wheels (one download of {} MB)",
                        total / 1_000_000
                    ));
                    download_bar(total)
                });
                bar.set_message(package);
                bar.set_position(done);
            }
            Progress::Unpacking { package } => {
                if let Some(bar) = &self.bar {
                    bar.set_message(format!("unpacking {package}"));
                }
            }
            Progress::Finished => {
                if let Some(bar) = self.bar.take() {
                    bar.finish_and_clear();
                }
            }
        }
    }
}

fn download_bar(total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    let template = "[{bar:32}] {bytes}/{total_bytes} {elapsed} {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
