//! Progress bars of long work, on stderr and only if it is a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use compiler::toolchain::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use text::count;

use crate::printer::Printer;

/// A bar that counts to `length`. `indicatif` hides it when stderr is not a terminal.
pub fn counting(length: u64, what: &str) -> ProgressBar {
    let bar = counting_on(ProgressDrawTarget::stderr(), length, what);
    // The elapsed time shows that the program works, even if a step takes long.
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

fn counting_on(target: ProgressDrawTarget, length: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), target).with_message(what.to_owned());
    // The message is last and is cut at the width of the terminal, so the bar always takes one line.
    if let Ok(style) = ProgressStyle::with_template("[{bar:20}] {pos}/{len} {elapsed}  {wide_msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// The message of a search's bar. It has no estimate of the remaining time until the first candidates are done, because
/// several of them compile at once.
pub fn search_message(progress: &lab::evolve::Progress, elapsed: Duration) -> String {
    const BASIS: u32 = 4;
    let best = progress.best.as_ref().map_or(1.0, |(_, score)| *score);
    let elites = count(progress.elites, "elite");
    let mut text = format!("best {best:.3}x, {} correct, {elites}", progress.valid);
    let left = progress.budget.saturating_sub(progress.evaluated);
    if progress.evaluated >= BASIS && left > 0 {
        let each = elapsed.as_secs_f64() / f64::from(progress.evaluated);
        text += &format!(", about {} left", rough(each * f64::from(left)));
    }
    text
}

/// Reacts to the first Ctrl-C: says how the program stops. A bar is then drawn below the message.
pub fn stopping() {
    replace_bar("stopping after the work in progress; press Ctrl-C again to stop at once\n");
}

/// Reacts to the second Ctrl-C, which ends the program: removes the bar, so that the prompt starts on an empty line.
pub fn stopped() {
    replace_bar("");
}

/// Writes text over the line of a bar. It uses no lock and no bar, because it runs while other threads may draw.
fn replace_bar(text: &str) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r\x1b[2K{text}");
    }
}

/// A duration for a person: `8 s`, `3 min`, `2 h 5 min`.
fn rough(seconds: f64) -> String {
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
                        (total + 500_000) / 1_000_000
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
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    /// A terminal of 60 columns that keeps what it shows. The cursor is at the end of the last line.
    #[derive(Clone, Debug)]
    struct Screen(Arc<Mutex<Vec<String>>>);

    impl Screen {
        fn new() -> Self {
            Screen(Arc::new(Mutex::new(vec![String::new()])))
        }

        fn lines(&self) -> Vec<String> {
            self.0.lock().unwrap().iter().map(|line| line.trim_end().to_owned()).collect()
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            60
        }

        fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
            let mut all = self.0.lock().unwrap();
            let length = all.len() - lines;
            all.truncate(length);
            Ok(())
        }

        fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
            assert_eq!(lines, 0, "the bar takes one line");
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)?;
            self.0.lock().unwrap().push(String::new());
            Ok(())
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            let mut all = self.0.lock().unwrap();
            for c in text.chars() {
                if all.last().unwrap().chars().count() == usize::from(self.width()) {
                    all.push(String::new());
                }
                all.last_mut().unwrap().push(c);
            }
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().last_mut().unwrap().clear();
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_bar_of_a_search_from_start_to_end() {
        let screen = Screen::new();
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let mut progress =
            lab::evolve::Progress { evaluated: 0, budget: 8, valid: 0, same: 0, elites: 0, best: None };
        // The start.
        let bar = counting_on(target, u64::from(progress.budget), "searching");
        bar.tick();
        assert_eq!(screen.lines(), ["[                    ] 0/8 0s  searching"]);
        // A tick without progress.
        let bar = bar.with_elapsed(Duration::from_mins(10));
        bar.tick();
        assert_eq!(screen.lines(), ["[                    ] 0/8 10m  searching"]);
        // The first candidates give no estimate.
        progress = lab::evolve::Progress { evaluated: 2, valid: 1, ..progress };
        bar.set_message(search_message(&progress, Duration::from_secs(75)));
        bar.set_position(2);
        bar.tick();
        assert_eq!(screen.lines(), ["[=====>              ] 2/8 10m  best 1.000x, 1 correct, 0 el"]);
        // An estimate: five candidates in 75 s, three are left.
        let best = Some(("mma d64".to_owned(), 1.25));
        progress = lab::evolve::Progress { evaluated: 5, valid: 4, elites: 1, best, ..progress };
        let message = search_message(&progress, Duration::from_secs(75));
        assert_eq!(message, "best 1.250x, 4 correct, 1 elite, about 45 s left");
        // A line that is printed above the bar.
        bar.println("trial 5: 1.250x  mma d64");
        assert_eq!(
            screen.lines(),
            ["trial 5: 1.250x  mma d64", "[=====>              ] 2/8 10m  best 1.000x, 1 correct, 0 el"]
        );
        // The end: no bar is left, and the next text starts on an empty line.
        progress = lab::evolve::Progress { evaluated: 8, ..progress };
        assert_eq!(search_message(&progress, Duration::from_secs(80)), "best 1.250x, 4 correct, 1 elite");
        bar.finish_and_clear();
        assert_eq!(screen.lines(), ["trial 5: 1.250x  mma d64", ""]);
    }

    #[test]
    fn durations_are_rounded_for_people() {
        let words =
            [(7.6, "8 s"), (89.0, "89 s"), (90.0, "2 min"), (3540.0, "59 min"), (7500.0, "2 h 5 min")];
        for (seconds, text) in words {
            assert_eq!(rough(seconds), text);
        }
    }
}
