//! Child processes that end when this process ends.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, getpid, getppid, kill_process_group, set_parent_process_death_signal};

/// A command to start, and the channel for the result.
type SpawnRequest = (Command, Sender<(Command, io::Result<Child>)>);

/// Starts a process in its own process group. The system kills it when this process ends, also after `SIGKILL`.
///
/// Linux sends the death signal when the *thread* that started the child ends. Therefore one thread that never ends
/// starts all children.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<Sender<SpawnRequest>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, requests) = mpsc::channel::<SpawnRequest>();
        thread::spawn(move || {
            for (mut command, reply) in requests {
                let child = command.spawn();
                // The caller waits for this reply, so the receiver exists.
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
    let (reply, response) = mpsc::channel();
    let request = (std::mem::replace(command, Command::new("")), reply);
    let gone = |_| io::Error::other("the thread that starts processes has ended");
    let sent = spawner.lock().unwrap_or_else(PoisonError::into_inner).send(request);
    sent.map_err(|_| gone(mpsc::RecvError))?;
    let (returned, child) = response.recv().map_err(gone)?;
    *command = returned;
    child
}

/// Kills a child that [`spawn`] started, and every process in its group. The child must not have been waited for:
/// until then no other process can have its number.
pub fn kill_group(child: &Child) {
    // The group may have ended already.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// Kills the process group of a child when this process ends before the guard is dropped.
///
/// The death signal of [`spawn`] reaches only the child. A program such as a shell has children of its own. Therefore
/// a second process reads a pipe that only this process holds open, and kills the group when the pipe closes.
#[derive(Debug)]
pub struct GroupGuard(Child);

impl GroupGuard {
    /// Guards the group of a child that [`spawn`] started. Drop the guard when the child has ended, because its
    /// number may be reused for another process.
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
        // The guard is killed before its pipe is closed, so that it kills nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_outlives_the_thread_that_called_spawn() {
        let mut child = thread::spawn(|| spawn(Command::new("sleep").arg("100")).unwrap()).join().unwrap();
        thread::sleep(std::time::Duration::from_millis(100));
        assert!(child.try_wait().unwrap().is_none());
        kill_group(&child);
        assert!(!child.wait().unwrap().success());
        assert!(spawn(&mut Command::new("/no/such/program")).is_err());
    }
}
