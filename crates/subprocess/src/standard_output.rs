//! Whether standard output was closed when the program started.

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Called before `main`: Rust's own start opens `/dev/null` in place of a closed standard stream, and everything that is
/// printed is then lost without an error.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = remember;

extern "C" fn remember() {
    // SAFETY: this call only asks for the flags of a descriptor, which need not be open.
    let is_closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1;
    WAS_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Whether standard output was closed when the program started.
pub fn was_closed() -> bool {
    // The reference keeps the function that is called at the start in the program.
    #[cfg(target_os = "linux")]
    std::hint::black_box(&AT_START);
    WAS_CLOSED.load(Ordering::Relaxed)
}
