//! Progress of long work, on stderr and only where somebody can see it.

use std::time::Duration;

use gpu::toolchain::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::printer::Printer;

/// A bar that counts to `length`. Hidden by itself when stderr is not a terminal.
pub fn counting(length: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(length).with_message(what.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:32}] {pos}/{len} {elapsed}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// Draws a toolchain's installation; where there is no terminal, says once that it happens.
#[derive(Debug)]
pub struct Installation<'a> {
    printer: &'a Printer,
    bar: Option<ProgressBar>,
}

impl<'a> Installation<'a> {
    pub fn new(printer: &'a Printer) -> Self {
        Installation { printer, bar: None }
    }

    pub fn show(&mut self, progress: Progress) {
        match progress {
            Progress::WaitingForOther => {
                self.printer.message("another process is installing the CUDA compiler; waiting for it");
            }
            Progress::Downloading { package, done, total } => {
                let bar = self.bar.get_or_insert_with(|| {
                    self.printer.message(&format!(
                        "installing the CUDA compiler from PyPI wheels ({} MB, once)",
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
