//! Progress bars of long work, on stderr and only if it is a terminal.

use std::time::Duration;

use gpu::toolchain::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::printer::Printer;

/// A bar that counts to `length`. `indicatif` hides it when stderr is not a terminal.
pub fn counting(length: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(length).with_message(what.to_owned());
    // The message is last and is cut at the width of the terminal, so the bar always takes one line.
    if let Ok(style) = ProgressStyle::with_template("[{bar:20}] {pos}/{len} {elapsed}  {wide_msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    // The elapsed time shows that the program works, even if a step takes long.
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// A duration for a person: `8 s`, `3 min`, `2 h 5 min`.
pub fn rough(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match seconds {
        seconds if seconds < 90.0 => format!("{seconds:.0} s"),
        _ if minutes < 90 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
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

#[cfg(test)]
mod tests {
    use super::rough;

    #[test]
    fn durations_are_rounded_for_people() {
        let words =
            [(7.6, "8 s"), (89.0, "89 s"), (90.0, "2 min"), (3540.0, "59 min"), (7500.0, "2 h 5 min")];
        for (seconds, text) in words {
            assert_eq!(rough(seconds), text);
        }
    }
}
