//! Access to memory of the program. The operating system copies the bytes and reports which ones it could not reach, so
//! a wrong pointer of the program is an error and does not crash the library.

use std::mem::MaybeUninit;

use crate::errors::{Outcome, Status};
use crate::host_memory;

/// Types that may have any bits.
///
/// # Safety
///
/// Every pattern of bits must be a valid value.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),*) => { $(
        // SAFETY: numbers have no invalid bits.
        unsafe impl Plain for $type {}
    )* };
}
plain!(u8, i8, u16, u32, i32, u64, i64, usize, f32, f64);
// SAFETY: as for its elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Whether the process may copy by these system calls. Some sandboxes forbid them.
fn copies_through_kernel() -> bool {
    static ALLOWED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let (from, mut to) = ([7u8], [0u8]);
        transfer(to.as_mut_ptr() as u64, from.as_ptr() as u64, 1, false) == 1
    })
}

/// Copies between the library (`own`) and the program (`theirs`). Returns the number of bytes that were reachable.
fn transfer(own: u64, theirs: u64, bytes: usize, to_program: bool) -> usize {
    let local = libc::iovec { iov_base: own as *mut libc::c_void, iov_len: bytes };
    let remote = libc::iovec { iov_base: theirs as *mut libc::c_void, iov_len: bytes };
    // SAFETY: the operating system checks both ranges.
    let done = unsafe {
        if to_program {
            libc::process_vm_writev(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
        } else {
            libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
        }
    };
    done.max(0) as usize
}

/// Copies all bytes that are reachable, and returns their number.
fn copy(own: u64, theirs: u64, bytes: usize, to_program: bool) -> usize {
    if theirs < 4096 {
        return 0;
    }
    if !copies_through_kernel() {
        let (from, to) = if to_program { (own, theirs) } else { (theirs, own) };
        // SAFETY: without the system calls the pointers of the program must be right, as with NVIDIA's library.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
        return bytes;
    }
    let mut done = 0;
    let mut opened = false;
    while done < bytes {
        let more = transfer(own + done as u64, theirs + done as u64, bytes - done, to_program);
        done += more;
        if more == 0 {
            // The page may be closed to the program (`host_memory`). Then it is opened, and the copy goes on.
            if opened || !host_memory::open(theirs + done as u64) {
                break;
            }
            opened = true;
        } else {
            opened = false;
        }
    }
    done
}

/// Reads a value of the program.
pub fn read<T: Plain>(at: *const T) -> Result<T, Status> {
    let mut value = MaybeUninit::<T>::zeroed();
    let bytes = size_of::<T>();
    if copy(value.as_mut_ptr() as u64, at as u64, bytes, false) != bytes {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: all bytes were written, and the type may have any bits.
    Ok(unsafe { value.assume_init() })
}

/// Writes a value of the program.
pub fn write<T: Plain>(at: *mut T, value: T) -> Outcome {
    let bytes = size_of::<T>();
    if copy((&raw const value) as u64, at as u64, bytes, true) == bytes {
        Ok(())
    } else {
        Err(Status::INVALID_VALUE)
    }
}

/// Writes a value if the program gave a place for it.
pub fn write_optional<T: Plain>(at: *mut T, value: T) -> Outcome {
    if at.is_null() { Ok(()) } else { write(at, value) }
}

/// Reads several values of the program.
pub fn read_many<T: Plain>(at: *const T, count: usize) -> Result<Vec<T>, Status> {
    const MOST: usize = 1 << 28;
    let bytes =
        count.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= MOST).ok_or(Status::INVALID_VALUE)?;
    let mut values: Vec<T> = Vec::with_capacity(count);
    if count > 0 && copy(values.as_mut_ptr() as u64, at as u64, bytes, false) != bytes {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: all bytes were written, and the type may have any bits.
    unsafe { values.set_len(count) };
    Ok(values)
}

/// Writes several values of the program.
pub fn write_many<T: Plain>(at: *mut T, values: &[T]) -> Outcome {
    let bytes = size_of_val(values);
    if bytes == 0 || copy(values.as_ptr() as u64, at as u64, bytes, true) == bytes {
        Ok(())
    } else {
        Err(Status::INVALID_VALUE)
    }
}

/// Reads bytes of the program. The error is the number of bytes that could be read.
pub fn read_bytes(at: u64, into: &mut [u8]) -> Result<(), usize> {
    let done = copy(into.as_mut_ptr() as u64, at, into.len(), false);
    if done == into.len() { Ok(()) } else { Err(done) }
}

/// Writes bytes of the program. The error is the number of bytes that could be written.
pub fn write_bytes(at: u64, bytes: &[u8]) -> Result<(), usize> {
    let done = copy(bytes.as_ptr() as u64, at, bytes.len(), true);
    if done == bytes.len() { Ok(()) } else { Err(done) }
}

/// Reads up to `most` bytes, as many as there are.
pub fn read_available(at: u64, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; most];
    let done = copy(bytes.as_mut_ptr() as u64, at, most, false);
    bytes.truncate(done);
    bytes
}

/// Reads a text that ends with a zero.
pub fn read_text(at: *const libc::c_char) -> Result<String, Status> {
    read_long_text(at as u64, 1 << 16)
}

/// Reads a text of at most `most` bytes that ends with a zero.
pub fn read_long_text(at: u64, most: usize) -> Result<String, Status> {
    let mut text = Vec::new();
    while text.len() < most {
        // Pieces end with a page, so that a text at the end of the accessible memory can be read.
        let from = at.wrapping_add(text.len() as u64);
        let piece = read_available(from, 4096 - (from % 4096) as usize);
        let end = piece.iter().position(|byte| *byte == 0);
        text.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
        if end.is_some() {
            return String::from_utf8(text).map_err(|_| Status::INVALID_VALUE);
        }
        if piece.is_empty() {
            break;
        }
    }
    Err(Status::INVALID_VALUE)
}

/// Writes a text into a buffer of the program, cut to its size.
pub fn write_text(at: *mut libc::c_char, size: usize, text: &str) -> Outcome {
    if size == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let mut bytes = text.as_bytes()[..text.len().min(size - 1)].to_vec();
    bytes.push(0);
    write_many(at.cast::<u8>(), &bytes)
}

/// Reads memory of the program, for the runtime library.
#[unsafe(no_mangle)]
pub extern "C" fn warpsmithReadGuest(from: u64, into: u64, bytes: u64) -> u32 {
    if copy(into, from, bytes as usize, false) as u64 == bytes { 0 } else { Status::INVALID_VALUE.0 }
}

/// Writes memory of the program, for the runtime library.
#[unsafe(no_mangle)]
pub extern "C" fn warpsmithWriteGuest(into: u64, from: u64, bytes: u64) -> u32 {
    if copy(from, into, bytes as usize, true) as u64 == bytes { 0 } else { Status::INVALID_VALUE.0 }
}
