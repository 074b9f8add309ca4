use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::*;
use crate::accelerator::{Accelerator, AcceleratorError, Buffer, Geometry, Image, ModuleId, VirtualDevice};

/// Adds one to 32 numbers. Block 7 loops for ever instead, which the virtual GPU cannot detect.
const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry add_one(.param .u64 data)
{
    .reg .pred %never;
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    mov.u32 %r0, %ctaid.x;
    setp.eq.u32 %never, %r0, 7;
    mov.u32 %r2, 0;
AGAIN:
    add.u32 %r2, %r2, 1;
    @%never bra AGAIN;
    ld.param.u64 %rd0, [data];
    cvta.to.global.u64 %rd1, %rd0;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    add.u32 %r2, %r2, 1;
    st.global.u32 [%rd3], %r2;
    ret;
}
";

/// Set in the process that serves a device instead of running tests.
const SERVE: &str = "WARPSMITH_TEST_SERVES_A_DEVICE";

/// The server process: this test program again, with only this test.
#[test]
#[ignore = "not a test: the other tests start it as a process"]
fn serving() {
    if std::env::var_os(SERVE).is_none() {
        return;
    }
    let channel = subprocess::Channel::to_parent().unwrap();
    let chip = chips::Chip::by_name("l4").unwrap();
    let open = || -> Result<Box<dyn Accelerator>, AcceleratorError> {
        let mut device = VirtualDevice::new(chip);
        device.options.budget = u64::MAX;
        Ok(Box::new(device))
    };
    serve(channel, open, || std::process::exit(0)).unwrap();
}

fn limits(limit: Duration) -> ProcessLimits {
    ProcessLimits { limit, stop: Arc::new(AtomicBool::new(false)) }
}

fn start(limit: Duration) -> Result<DeviceProcess, AcceleratorError> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "accelerator::process::tests::serving", "--ignored"]).env(SERVE, "1");
    DeviceProcess::start(command, limits(limit))
}

fn started(limit: Duration) -> DeviceProcess {
    let mut device = start(limit).unwrap();
    device.open().unwrap();
    device
}

const LONG: Duration = Duration::from_mins(1);

fn add_one(
    device: &mut dyn Accelerator,
    module: ModuleId,
    buffer: Buffer,
    blocks: u32,
) -> Result<(), AcceleratorError> {
    let geometry = Geometry { grid: [blocks, 1, 1], block: [32, 1, 1], cluster: [1; 3], shared_bytes: 0 };
    device.launch(module, "add_one", geometry, &[buffer.parameter()]).map(drop)
}

/// Loads the module and writes 32 numbers to a buffer.
fn prepared(device: &mut dyn Accelerator) -> (ModuleId, Buffer) {
    let module = device.load(Image::Ptx(PTX)).unwrap();
    let buffer = device.allocate("numbers", 128).unwrap();
    let numbers: Vec<u8> = (0..32_u32).flat_map(u32::to_le_bytes).collect();
    device.write(buffer, &numbers).unwrap();
    (module, buffer)
}

#[test]
fn a_device_in_another_process_behaves_like_a_local_one() {
    let mut device = started(LONG);
    assert!(device.describe().contains("virtual"), "{}", device.describe());
    let (module, buffer) = prepared(&mut device);
    add_one(&mut device, module, buffer, 1).unwrap();
    let expected: Vec<u8> = (1..33_u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(device.read(buffer), Ok(expected));
    // More bytes than a socket buffer holds, in both directions.
    let large = device.allocate("large", 9 << 20).unwrap();
    let bytes: Vec<u8> = (0..9_u32 << 20).map(|i| (i % 251) as u8).collect();
    device.write(large, &bytes).unwrap();
    assert!(device.read(large).unwrap() == bytes);
    assert_eq!(device.holds(large, &bytes), Ok(true));
    device.write(Buffer { address: large.address + 5, bytes: 1 }, &[0]).unwrap();
    assert_eq!(device.holds(large, &bytes), Ok(false));
    device.free(large).unwrap();
    assert!(device.is_sound());
}

#[test]
fn a_tensor_map_is_encoded_by_the_process() {
    use vgpu::tensor_map::Element;
    let map = vgpu::TensorMap::packed(Element::F16, 0x7f00_0000_1000, &[64, 100, 2, 3], &[64, 16, 1, 1]);
    let local = VirtualDevice::new(chips::Chip::by_name("l4").unwrap()).encode_tensor_map(&map).unwrap();
    assert_eq!(started(LONG).encode_tensor_map(&map), Ok(local));
}

#[test]
fn an_error_without_a_reply_is_reported_by_the_next_reply() {
    let mut device = started(LONG);
    let (module, buffer) = prepared(&mut device);
    let geometry = Geometry { grid: [1; 3], block: [32, 1, 1], cluster: [1; 3], shared_bytes: 0 };
    let missing = device.launch(module, "add_two", geometry, &[buffer.parameter()]).unwrap_err();
    assert_eq!(missing, AcceleratorError::NoKernel("add_two".to_owned()));
    assert!(device.is_sound(), "only the kernel was wrong");
    // The second free is an error, but `free` does not wait for a reply.
    device.free(buffer).unwrap();
    device.free(buffer).unwrap();
    assert!(device.allocate("next", 4).is_err());
    // The error is reported once only.
    assert!(device.allocate("next", 4).is_ok());
}

#[test]
fn a_kernel_that_never_ends_is_stopped() {
    let mut device = started(Duration::from_secs(2));
    let (module, buffer) = prepared(&mut device);
    add_one(&mut device, module, buffer, 7).unwrap();
    let never = add_one(&mut device, module, buffer, 8).unwrap_err();
    let reason = "no answer within 2 s".to_owned();
    assert_eq!(never, AcceleratorError::Fault { kernel: "add_one".to_owned(), reason, access: false });
    assert!(!device.is_sound());
    assert!(matches!(device.read(buffer), Err(AcceleratorError::Lost(_))));
}

#[test]
fn the_error_tells_how_the_process_ended() {
    let ended = |script: &str, limits: ProcessLimits| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut device = DeviceProcess::start(command, limits).unwrap();
        device.open().unwrap_err()
    };
    let lost = |reason: &str| AcceleratorError::Lost(reason.to_owned());
    assert_eq!(ended("exit 3", limits(LONG)), lost("its process ended with code 3"));
    let printed = "echo '{\"Opened\":{\"description\":\"forged\"}}'; exit 0";
    let forged = "its process ended with code 0: {\"Opened\":{\"description\":\"forged\"}}";
    assert_eq!(ended(printed, limits(LONG)), lost(forged));
    assert_eq!(ended("kill -11 $$", limits(LONG)), lost("its process was killed by SIGSEGV"));
    let stopped = ProcessLimits { limit: LONG, stop: Arc::new(AtomicBool::new(true)) };
    assert_eq!(ended("exec sleep 100", stopped), lost("stopped"));
    assert!(DeviceProcess::start(Command::new("/no/such/program"), limits(LONG)).is_err());
}

#[test]
fn a_failed_device_is_not_lent_again_and_a_usable_one_is() {
    let starts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&starts);
    let pool = DevicePool::new(1, move || {
        counted.fetch_add(1, Ordering::Relaxed);
        start(Duration::from_secs(2))
    });
    for _ in 0..3 {
        let mut device = pool.lend(Lease::Shared).unwrap();
        let (module, buffer) = prepared(&mut device);
        // A freshly opened device numbers its modules from 0.
        assert_eq!(module, ModuleId(0));
        add_one(&mut device, module, buffer, 1).unwrap();
    }
    assert_eq!(starts.load(Ordering::Relaxed), 1);
    let mut device = pool.lend(Lease::Shared).unwrap();
    let (module, buffer) = prepared(&mut device);
    assert!(add_one(&mut device, module, buffer, 8).is_err());
    drop(device);
    let mut device = pool.lend(Lease::Shared).unwrap();
    let (module, buffer) = prepared(&mut device);
    add_one(&mut device, module, buffer, 1).unwrap();
    assert_eq!(starts.load(Ordering::Relaxed), 2);
}

#[test]
fn an_idle_process_that_died_is_replaced() {
    let pool = DevicePool::new(1, || start(LONG));
    let mut device = pool.lend(Lease::Shared).unwrap();
    prepared(&mut device);
    drop(device);
    pool.state.lock().unwrap().idle[0].kill();
    let mut device = pool.lend(Lease::Shared).unwrap();
    let (module, buffer) = prepared(&mut device);
    add_one(&mut device, module, buffer, 1).unwrap();
}

#[test]
fn an_exclusive_lease_excludes_all_others() {
    let pool = DevicePool::new(3, || start(LONG));
    let shared = [0, 1].map(|_| pool.lend(Lease::Shared).unwrap());
    let lent = AtomicUsize::new(2);
    thread::scope(|scope| {
        let alone = scope.spawn(|| {
            let device = pool.lend(Lease::Alone).unwrap();
            assert_eq!(lent.fetch_add(1, Ordering::SeqCst), 0, "another caller has the device");
            thread::sleep(Duration::from_millis(50));
            lent.fetch_sub(1, Ordering::SeqCst);
            drop(device);
        });
        // The exclusive caller waits for the lent devices, and later callers wait for the exclusive one.
        while !pool.state.lock().unwrap().alone {
            thread::yield_now();
        }
        let after = scope.spawn(|| {
            let device = pool.lend(Lease::Shared).unwrap();
            lent.fetch_add(1, Ordering::SeqCst);
            drop(device);
        });
        for device in shared {
            lent.fetch_sub(1, Ordering::SeqCst);
            drop(device);
        }
        alone.join().unwrap();
        after.join().unwrap();
    });
}

#[test]
fn at_most_the_given_number_of_devices_is_lent() {
    let (lent, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let pool = DevicePool::new(2, || start(LONG));
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut device = pool.lend(Lease::Shared).unwrap();
                most.fetch_max(lent.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let (module, buffer) = prepared(&mut device);
                add_one(&mut device, module, buffer, 1).unwrap();
                lent.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    assert!(most.into_inner() <= 2);
    // A device that cannot be started does not count as lent.
    let broken = DevicePool::new(1, || Err(AcceleratorError::NoDevice(3)));
    for _ in 0..2 {
        assert_eq!(broken.lend(Lease::Shared).unwrap_err(), AcceleratorError::NoDevice(3));
    }
}
