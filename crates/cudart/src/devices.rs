//! Devices and their properties.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use crate::api::{INVALID_DEVICE, INVALID_VALUE, NOT_SUPPORTED, Outcome, check, write};
use crate::driver;

/// The version of the API that the program was built for: the number in the name under which it loaded this library.
pub fn api_version() -> u32 {
    static VERSION: OnceLock<u32> = OnceLock::new();
    *VERSION.get_or_init(|| {
        // SAFETY: an all-zero `Dl_info` is valid, and `dladdr` fills it.
        let name = unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            libc::dladdr(api_version as fn() -> u32 as *const c_void, &raw mut info);
            if info.dli_fname.is_null() { c"" } else { CStr::from_ptr(info.dli_fname) }
        };
        let number = name.to_str().ok().and_then(|it| it.rsplit_once("libcudart.so."));
        number.and_then(|(_, number)| number.split('.').next()?.parse().ok()).unwrap_or(13)
    })
}

/// A field of `cudaDeviceProp`, in the order of the structure.
enum Field {
    /// Attributes of the driver by their numbers.
    Int(&'static [u32]),
    Size(u32),
    /// The memory of the device.
    Memory,
    Zeros(usize),
    Value(i32),
    /// A field that CUDA 13 removed.
    Before13(u32),
}

use Field::{Before13, Int, Memory, Size, Value, Zeros};

/// The fields after the name and the UUID.
const FIELDS: &[Field] = &[
    Zeros(12), // luid and its mask
    Memory,
    Size(8),
    Int(&[12]),
    Int(&[10]),
    Size(11),
    Int(&[1]),
    Int(&[2, 3, 4]),
    Int(&[5, 6, 7]),
    Before13(13), // clock rate
    Size(9),
    Int(&[75]),
    Int(&[76]),
    Size(14),
    Size(51),
    Before13(15), // overlap
    Int(&[16]),
    Before13(17), // kernel timeout
    Int(&[18]),
    Int(&[19]),
    Before13(20), // compute mode
    Int(&[21]),
    Int(&[77]),
    Before13(69), // linear textures
    Int(&[22, 23]),
    Int(&[73, 74]),
    Int(&[70, 71, 72]),
    Int(&[45, 46]),
    Int(&[24, 25, 26]),
    Int(&[47, 48, 49]),
    Int(&[52]),
    Int(&[42, 43]),
    Int(&[27, 28, 29]),
    Int(&[53, 54]),
    Int(&[55]),
    Int(&[56, 57]),
    Int(&[58, 59, 60]),
    Int(&[61, 62]),
    Int(&[63, 64, 65]),
    Int(&[66]),
    Int(&[67, 68]),
    Size(30),
    Int(&[31]),
    Int(&[32]),
    Int(&[33]),
    Int(&[34]),
    Int(&[50]),
    Int(&[35]),
    Int(&[40]),
    Int(&[41]),
    Before13(36), // memory clock rate
    Int(&[37]),
    Int(&[38]),
    Int(&[108]),
    Int(&[39]),
    Int(&[78]),
    Int(&[79]),
    Int(&[80]),
    Size(81),
    Int(&[82]),
    Int(&[83]),
    Int(&[84]),
    Int(&[85]),
    Int(&[86]),
    Before13(87), // ratio of single to double precision
    Int(&[88]),
    Int(&[89]),
    Int(&[90]),
    Int(&[91]),
    Int(&[95]),
    Before13(96), // cooperative launch on several devices
    Size(97),
    Int(&[100]),
    Int(&[101]),
    Int(&[106]),
    Int(&[109]),
    Size(111),
    Int(&[99]),
    Int(&[112]),
    Int(&[113]),
    Int(&[114]),
    Int(&[115]),
    Int(&[116]),
    Int(&[117]),
    Int(&[118]),
    Int(&[119]),
    Int(&[121]),
    Int(&[125]),
    Int(&[120]),
    Int(&[129]),
    Int(&[130]),
    Int(&[131]),
    Int(&[133]),
    Value(-1), // NUMA node of the host
];

/// Sizes of `cudaDeviceProp` in CUDA 13, in CUDA 12, and of the first structure of that name.
const BYTES_13: usize = 1008;
const BYTES_12: usize = 1032;
const BYTES_11: usize = 728;

fn attribute(number: u32) -> Result<i32, u32> {
    let mut value = 0;
    check(driver::cuDeviceGetAttribute(&raw mut value, number, 0)).map(|()| value)
}

/// The structure as bytes.
fn properties(version: u32, size: usize) -> Result<Vec<u8>, u32> {
    let mut bytes = vec![0u8; 256 + 16];
    check(driver::cuDeviceGetName(bytes.as_mut_ptr(), 256, 0))?;
    check(driver::cuDeviceGetUuid_v2(bytes[256..].as_mut_ptr(), 0))?;
    let int = |bytes: &mut Vec<u8>, value: i32| bytes.extend(value.to_le_bytes());
    let long = |bytes: &mut Vec<u8>, value: u64| {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend(value.to_le_bytes());
    };
    for field in FIELDS {
        match field {
            Int(numbers) => {
                for number in *numbers {
                    let value = attribute(*number)?;
                    int(&mut bytes, value);
                }
            }
            Before13(number) if version < 13 => {
                let value = attribute(*number)?;
                int(&mut bytes, value);
            }
            Before13(_) => {}
            Size(number) => {
                let value = attribute(*number)? as u64;
                long(&mut bytes, value);
            }
            Memory => {
                let mut total = 0;
                check(driver::cuDeviceTotalMem_v2(&raw mut total, 0))?;
                long(&mut bytes, total);
            }
            Zeros(count) => bytes.resize(bytes.len() + count, 0),
            Value(value) => int(&mut bytes, *value),
        }
    }
    bytes.resize(size, 0);
    Ok(bytes)
}

fn tell_properties(place: u64, device: i32, version: u32, size: usize) -> Outcome {
    require(device)?;
    let bytes = properties(version, size)?;
    check(driver::write_guest(place, bytes.as_ptr() as u64, bytes.len() as u64))
}

fn require(device: i32) -> Outcome {
    if device == 0 { Ok(()) } else { Err(INVALID_DEVICE) }
}

thread_local! {
    static FLAGS: Cell<u32> = const { Cell::new(0) };
}

without_device! {
    fn cudaGetDeviceCount(count: *mut i32) {
        driver::initialise()?;
        check(driver::cuDeviceGetCount(count))
    }

    fn cudaDriverGetVersion(version: *mut i32) {
        check(driver::cuDriverGetVersion(version))
    }

    fn cudaRuntimeGetVersion(version: *mut i32) {
        driver::initialise()?;
        write(version, if api_version() >= 13 { 13_000 } else { 12_090 })
    }

    fn cudaSetDeviceFlags(flags: u32) {
        driver::initialise()?;
        FLAGS.set(flags);
        check(driver::cuDevicePrimaryCtxSetFlags_v2(0, flags))
    }

    fn cudaProfilerStart() {
        Ok(())
    }

    fn cudaProfilerStop() {
        Ok(())
    }
}

runtime! {
    fn cudaGetDevice(device: *mut i32) {
        write(device, 0)
    }

    fn cudaSetDevice(device: i32) {
        require(device)
    }

    fn cudaInitDevice(device: i32, _device_flags: u32, _flags: u32) {
        require(device)
    }

    fn cudaSetValidDevices(_devices: u64, count: i32) {
        if count < 0 { Err(INVALID_VALUE) } else { Ok(()) }
    }

    fn cudaChooseDevice(device: *mut i32, _properties: u64) {
        write(device, 0)
    }

    fn cudaGetDeviceFlags(flags: *mut u32) {
        write(flags, FLAGS.get())
    }

    fn cudaGetDeviceProperties(place: u64, device: i32) {
        if api_version() >= 13 {
            tell_properties(place, device, 13, BYTES_13)
        } else {
            tell_properties(place, device, 12, BYTES_11)
        }
    }

    fn cudaGetDeviceProperties_v2(place: u64, device: i32) {
        tell_properties(place, device, 12, BYTES_12)
    }

    fn cudaDeviceGetAttribute(value: *mut i32, number: u32, device: i32) {
        check(driver::cuDeviceGetAttribute(value, number, device))
    }

    fn cudaDeviceGetPCIBusId(id: *mut u8, bytes: i32, device: i32) {
        check(driver::cuDeviceGetPCIBusId(id, bytes, device))
    }

    fn cudaDeviceGetByPCIBusId(device: *mut i32, id: *const u8) {
        check(driver::cuDeviceGetByPCIBusId(device, id))
    }

    fn cudaDeviceCanAccessPeer(answer: *mut i32, device: i32, peer: i32) {
        check(driver::cuDeviceCanAccessPeer(answer, device, peer))
    }

    fn cudaDeviceEnablePeerAccess(_peer: i32, _flags: u32) {
        Err(INVALID_DEVICE)
    }

    fn cudaDeviceDisablePeerAccess(_peer: i32) {
        Err(INVALID_DEVICE)
    }

    fn cudaDeviceGetP2PAttribute(_value: *mut i32, _attribute: u32, _from: i32, _to: i32) {
        Err(INVALID_DEVICE)
    }

    fn cudaDeviceSynchronize() {
        check(driver::cuCtxSynchronize())
    }

    fn cudaThreadSynchronize() {
        check(driver::cuCtxSynchronize())
    }

    fn cudaDeviceReset() {
        check(driver::cuDevicePrimaryCtxReset_v2(0))
    }

    fn cudaThreadExit() {
        check(driver::cuDevicePrimaryCtxReset_v2(0))
    }

    fn cudaDeviceSetLimit(limit: u32, value: u64) {
        check(driver::cuCtxSetLimit(limit, value))
    }

    fn cudaDeviceGetLimit(value: *mut u64, limit: u32) {
        check(driver::cuCtxGetLimit(value, limit))
    }

    fn cudaDeviceSetCacheConfig(_config: u32) {
        Ok(())
    }

    fn cudaDeviceGetCacheConfig(config: *mut u32) {
        write(config, 0)
    }

    fn cudaDeviceSetSharedMemConfig(_config: u32) {
        Ok(())
    }

    fn cudaDeviceGetSharedMemConfig(config: *mut u32) {
        write(config, 1)
    }

    fn cudaDeviceGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) {
        check(driver::cuCtxGetStreamPriorityRange(least, greatest))
    }

    fn cudaDeviceGetDefaultMemPool(place: *mut u64, device: i32) {
        check(driver::cuDeviceGetDefaultMemPool(place, device))
    }

    fn cudaDeviceGetMemPool(place: *mut u64, device: i32) {
        check(driver::cuDeviceGetDefaultMemPool(place, device))
    }

    fn cudaDeviceSetMemPool(device: i32, pool: u64) {
        check(driver::cuDeviceSetMemPool(device, pool))
    }

    fn cudaCtxResetPersistingL2Cache() {
        Ok(())
    }

    fn cudaGetExportTable(table: *mut u64, _id: u64) {
        write(table, 0)?;
        Err(NOT_SUPPORTED)
    }
}
