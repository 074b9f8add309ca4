//! Devices and their attributes, and names of errors.

use crate::errors::{Outcome, Status};
use crate::guest;
use crate::{State, initialise, state};

/// The version of CUDA that the library implements: 13.0.
pub const VERSION: i32 = 13_000;

/// Only device 0 exists.
pub fn require_device(device: i32) -> Outcome {
    if device == 0 { Ok(()) } else { Err(Status::INVALID_DEVICE) }
}

/// A bus address that no other device of the machine has.
const BUS_ID: &str = "0000:77:00.0";
const UUID: [u8; 16] = *b"warpsmith-vgpu-0";

/// The value of an attribute by its number in `cuda.h`.
#[expect(clippy::match_same_arms, reason = "a table in the order of the numbers")]
pub fn attribute(state: &State, number: u32) -> Option<i32> {
    let chip = state.chip;
    let limits = chip.limits();
    let capability = limits.compute_capability;
    Some(match number {
        1 => limits.max_threads_per_block as i32,
        2 | 3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65535,
        8 => limits.shared_per_block_default as i32,
        9 => 65536,
        10 => 32,
        11 => i32::MAX,
        12 => limits.max_registers_per_block as i32,
        13 => chip.clocks.boost_mhz as i32 * 1000,
        14 | 30 => 512,
        16 => chip.sms as i32,
        // Kernel timeouts, integrated, compute mode, ECC, PCI device and domain, TCC.
        17 | 18 | 20 | 32 | 34 | 35 | 50 => 0,
        15 | 19 | 31 | 41 | 44 | 78 | 79 | 80 | 83 => 1,
        21 | 55 | 77 => 131_072,
        22 => 131_072,
        23 => 65536,
        24..=26 => 16384,
        27 | 28 | 42 | 45 | 46 | 52 | 53 | 56 | 61 | 63 | 64 | 66 | 67 | 73 | 74 => 32768,
        29 | 43 | 62 | 65 => 2048,
        33 => 0x77,
        36 => chip.memory.clock_mhz as i32 * 1000,
        37 => chip.memory.bus_bits as i32,
        38 => chip.l2.bytes as i32,
        39 => limits.max_threads_per_sm as i32,
        40 => 3,
        47 | 48 => 8192,
        49 => 32768,
        51 => 32,
        54 | 68 => 2046,
        57 => 65536,
        58..=60 => 16384,
        69 => 268_435_456,
        70 => 131_072,
        71 => 65000,
        72 => 2_097_120,
        75 => capability.major as i32,
        76 => capability.minor as i32,
        81 => limits.shared_per_sm as i32,
        82 => limits.registers_per_sm as i32,
        87 => 2,
        // Managed memory, also while kernels run; compute preemption; registered memory at its own address.
        89..=91 => 1,
        95 => 1,
        97 => limits.shared_per_block_opt_in as i32,
        99 => 1,
        106 => limits.max_blocks_per_sm as i32,
        111 => limits.shared_reserved_per_block as i32,
        115 => 1,
        120 | 127 => i32::from(capability.major >= 9),
        134 => -1,
        // What the virtual GPU does not have: see the list in `cuda.h`.
        84..=86 | 88 | 92..=94 | 96 | 98 | 100..=105 | 107..=110 | 112..=114 | 116..=119 | 121..=126 => 0,
        128..=133 | 135..=147 => 0,
        _ => return None,
    })
}

api! {
    fn cuInit(flags: u32) {
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        initialise()
    }

    fn cuDriverGetVersion(version: *mut i32) {
        guest::write(version, VERSION)
    }

    fn cuDeviceGet(device: *mut i32, ordinal: i32) {
        drop(state()?);
        require_device(ordinal)?;
        guest::write(device, 0)
    }

    fn cuDeviceGetCount(count: *mut i32) {
        drop(state()?);
        guest::write(count, 1)
    }

    fn cuDeviceGetName(name: *mut libc::c_char, size: i32, device: i32) {
        let state = state()?;
        require_device(device)?;
        guest::write_text(name, usize::try_from(size).unwrap_or(0), state.chip.name)
    }

    fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: i32) {
        drop(state()?);
        require_device(device)?;
        guest::write(uuid, UUID)
    }

    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: i32) {
        drop(state()?);
        require_device(device)?;
        guest::write(uuid, UUID)
    }

    fn cuDeviceTotalMem_v2(bytes: *mut u64, device: i32) {
        let state = state()?;
        require_device(device)?;
        guest::write(bytes, state.chip.memory.bytes)
    }

    fn cuDeviceGetAttribute(value: *mut i32, number: u32, device: i32) {
        let state = state()?;
        require_device(device)?;
        guest::write(value, attribute(&state, number).ok_or(Status::INVALID_VALUE)?)
    }

    fn cuDeviceComputeCapability(major: *mut i32, minor: *mut i32, device: i32) {
        let state = state()?;
        require_device(device)?;
        let capability = state.chip.limits().compute_capability;
        guest::write(major, capability.major as i32)?;
        guest::write(minor, capability.minor as i32)
    }

    fn cuDeviceGetPCIBusId(id: *mut libc::c_char, size: i32, device: i32) {
        drop(state()?);
        require_device(device)?;
        guest::write_text(id, usize::try_from(size).unwrap_or(0), BUS_ID)
    }

    fn cuDeviceGetByPCIBusId(device: *mut i32, id: *const libc::c_char) {
        drop(state()?);
        let text = guest::read_text(id)?;
        if !BUS_ID.ends_with(text.trim_start_matches("0000:")) || text.is_empty() {
            return Err(Status::INVALID_DEVICE);
        }
        guest::write(device, 0)
    }

    fn cuDeviceCanAccessPeer(answer: *mut i32, device: i32, peer: i32) {
        drop(state()?);
        require_device(device)?;
        require_device(peer)?;
        guest::write(answer, 0)
    }

    fn cuDeviceGetExecAffinitySupport(answer: *mut i32, _kind: u32, device: i32) {
        drop(state()?);
        require_device(device)?;
        guest::write(answer, 0)
    }

    fn cuGetErrorString(error: u32, text: *mut u64) {
        let row = Status(error).row();
        guest::write(text, row.map_or(0, |row| row.2.as_ptr() as u64))?;
        row.map(|_| ()).ok_or(Status::INVALID_VALUE)
    }

    fn cuGetErrorName(error: u32, text: *mut u64) {
        let row = Status(error).row();
        guest::write(text, row.map_or(0, |row| row.1.as_ptr() as u64))?;
        row.map(|_| ()).ok_or(Status::INVALID_VALUE)
    }
}
