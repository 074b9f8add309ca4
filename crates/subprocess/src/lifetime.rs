//! Children that end when this process ends.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, getpid, getppid, kill_process_group, set_parent_process_death_signal};

/// A command to start, and where the result goes.
type SpawnRequest = (Command, Sender<(Command, io::Result<Child>)>);

/// Starts a process in a process group of its own. The system kills it when this process ends, also by `SIGKILL`.
///
/// Linux sends the death signal when the *thread* that started the child ends. So one thread that never ends starts all
/// of them.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    static STARTER: OnceLock<Mutex<Sender<SpawnRequest>>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<SpawnRequest>();
        thread::spawn(move || {
            for (mut command, reply) in orders {
                let child = command.spawn();
                // Who asked waits for this reply and is therefore there.
                let _ = reply.send((command, child));
            }
        });
        Mutex::new(sender)
    });
    let parent = getpid();
    // SAFETY: between fork and exec this makes system calls only. It allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have ended before the line above.
            if getppid() != Some(parent) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Ok(())
        });
    }
    command.process_group(0);
    let (reply, answer) = mpsc::channel();
    let order = (std::mem::replace(command, Command::new("")), reply);
    let gone = |_| io::Error::other("the thread that starts processes has ended");
    let sent = starter.lock().unwrap_or_else(PoisonError::into_inner).send(order);
    sent.map_err(|_| gone(mpsc::RecvError))?;
    let (given, child) = answer.recv().map_err(gone)?;
    *command = given;
    child
}

/// Kills a child that [`spawn`] started, and every process in its group. The child must not have been waited for: until
/// then nobody else can have its number.
pub fn kill_group(child: &Child) {
    // It may have ended already.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// Kills the process group of a child when this process ends before the guard is dropped.
///
/// The death signal of [`spawn`] reaches the child alone. A program like a shell has children of its own, so a second
/// process waits here: it reads a pipe that only this process holds open.
#[derive(Debug)]
pub struct GroupGuard(Child);

impl GroupGuard {
    /// Guards the group of a child that [`spawn`] started. Drop the guard when the child has ended: its number may become
    /// that of another process.
    pub fn new(child: &Child) -> io::Result<Self> {
        let group = child.id().to_string();
        let script = r#"read -r line; kill -s KILL -- "-$1""#;
        let guard = Command::new("sh")
            .args(["-c", script, "sh", &group])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(GroupGuard(guard))
    }
}

impl Drop for GroupGuard {
    fn drop(&mut self) {
        // Killed before its pipe is closed, so that it kills nobody.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_survives_the_thread_that_asked_for_it() {
        let mut child = thread::spawn(|| spawn(Command::new("sleep").arg("100")).unwrap()).join().unwrap();
        thread::sleep(std::time::Duration::from_millis(100));
        assert!(child.try_wait().unwrap().is_none());
        kill_group(&child);
        assert!(!child.wait().unwrap().success());
        assert!(spawn(&mut Command::new("/no/such/program")).is_err());
    }
}
