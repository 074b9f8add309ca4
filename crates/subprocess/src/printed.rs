//! Collects the output of a child in bounded memory.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use text::escape::one_line;

/// Number of bytes of a stream that are kept: the last ones.
const KEPT_BYTES: usize = 8 << 10;
/// Largest number of characters of a line that are shown.
const LINE_CHARACTERS: usize = 300;
/// How long the rest of a stream may take to arrive after its process has ended. A process that the child left behind
/// may keep the stream open.
const DRAIN: Duration = Duration::from_millis(500);

/// The last part of one output stream of a child, read by a thread. Memory use is bounded, with or without line
/// breaks.
#[derive(Debug)]
pub struct OutputTail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    ended: Receiver<()>,
}

impl OutputTail {
    /// Starts a thread that reads the stream.
    pub fn read(mut stream: impl Read + Send + 'static) -> Self {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let (sender, ended) = mpsc::channel::<()>();
        let into = Arc::clone(&kept);
        thread::spawn(move || {
            // Dropped when the thread ends; `ended` waits for that.
            let _sender = sender;
            let mut buffer = [0; 4096];
            loop {
                match stream.read(&mut buffer) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) | Ok(0) => break,
                    Ok(count) => {
                        let mut kept = into.lock().unwrap_or_else(PoisonError::into_inner);
                        kept.extend(&buffer[..count]);
                        let excess = kept.len().saturating_sub(KEPT_BYTES);
                        kept.drain(..excess);
                    }
                }
            }
        });
        OutputTail { kept, ended }
    }

    /// Waits until the stream has ended, for a short time only.
    pub fn wait(&self) {
        // Nothing is ever sent: either the thread has ended or the time is over.
        let _ = self.ended.recv_timeout(DRAIN);
    }

    /// The last `most` non-empty lines, each cut to a readable length and without control characters.
    pub fn last_lines(&self, most: usize) -> Vec<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        drop(kept);
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(most)..].iter().map(|line| sanitised(line)).collect()
    }
}

/// Makes a line safe to print to a terminal, and cuts it.
fn sanitised(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARACTERS) {
        Some((end, _)) => one_line(&line[..end]) + "...",
        None => one_line(line),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn endless_output_without_a_line_break_takes_bounded_memory() {
        let printed = OutputTail::read(io::repeat(b'x').take(200 << 20));
        while printed.ended.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(printed.kept.lock().unwrap().capacity() <= 4 * KEPT_BYTES);
        let lines = printed.last_lines(3);
        assert_eq!(lines, ["x".repeat(LINE_CHARACTERS) + "..."]);
    }

    #[test]
    fn the_last_lines_are_kept_and_cannot_control_a_terminal() {
        let printed = OutputTail::read(&b"one\n\n two \x1b[31m\xff\nthree\nhalf"[..]);
        printed.wait();
        assert_eq!(printed.last_lines(3), ["two \\u{1b}[31m\u{fffd}", "three", "half"]);
    }
}
