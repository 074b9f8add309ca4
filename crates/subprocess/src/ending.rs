//! Describes how a process ended.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// How a process ended, as a verb phrase that follows "the process".
pub fn ending(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by {}", signal_name(signal)),
        (None, Some(code)) => format!("ended with code {code}"),
        (None, None) => "ended".to_owned(),
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        25 => "SIGXFSZ (a file was larger than allowed)",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}
