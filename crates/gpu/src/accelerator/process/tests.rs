use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::*;
use crate::accelerator::{Accelerator, AcceleratorError, Buffer, Geometry, Image, ModuleId, VirtualDevice};

/// Adds one to 32 numbers; block 7 counts for ever instead, which the virtual GPU cannot know.
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

/// Set for the process that is to serve a device instead of being tested.
const SERVE: &str = "WARPSMITH_TEST_SERVES_A_DEVICE";

/// The other process: this program again, with only this test.
#[test]
#[ignore = "no test, but what the tests start"]
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

fn terms(limit: Duration) -> ProcessLimits {
    ProcessLimits { limit, stop: Arc::new(AtomicBool::new(false)) }
}

fn start(limit: Duration) -> Result<DeviceProcess, AcceleratorError> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "accelerator::process::tests::serving", "--ignored"]).env(SERVE, "1");
    DeviceProcess::start(command, terms(limit))
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

/// A module and 32 numbers.
fn prepared(device: &mut dyn Accelerator) -> (ModuleId, Buffer) {
    let module = device.load(Image::Ptx(PTX)).unwrap();
    let buffer = device.allocate("numbers", 128).unwrap();
    let numbers: Vec<u8> = (0..32_u32).flat_map(u32::to_le_bytes).collect();
    device.write(buffer, &numbers).unwrap();
    (module, buffer)
}

#[test]
fn a_device_in_another_process_is_one_like_any_other() {
    let mut device = started(LONG);
    assert!(device.describe().contains("virtual"), "{}", device.describe());
    let (module, buffer) = prepared(&mut device);
    add_one(&mut device, module, buffer, 1).unwrap();
    let expected: Vec<u8> = (1..33_u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(device.read(buffer), Ok(expected));
    // More than a socket holds, there and back.
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
fn what_is_wrong_is_said_by_the_next_answer_at_the_latest() {
    let mut device = started(LONG);
    let (module, buffer) = prepared(&mut device);
    let geometry = Geometry { grid: [1; 3], block: [32, 1, 1], cluster: [1; 3], shared_bytes: 0 };
    let missing = device.launch(module, "add_two", geometry, &[buffer.parameter()]).unwrap_err();
    assert_eq!(missing, AcceleratorError::NoKernel("add_two".to_owned()));
    assert!(device.is_sound(), "only the kernel was wrong");
    // Twice the same: the second time there is nothing to free. Nobody waits for that.
    device.free(buffer).unwrap();
    device.free(buffer).unwrap();
    assert!(device.allocate("next", 4).is_err());
    // It was said, and that was all.
    assert!(device.allocate("next", 4).is_ok());
}

#[test]
fn a_kernel_that_never_ends_is_ended() {
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
fn a_process_that_is_gone_is_said_to_be() {
    let ended = |script: &str, terms: ProcessLimits| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut device = DeviceProcess::start(command, terms).unwrap();
        device.open().unwrap_err()
    };
    let lost = |reason: &str| AcceleratorError::Lost(reason.to_owned());
    assert_eq!(ended("exit 3", terms(LONG)), lost("its process ended with code 3"));
    let printed = "echo '{\"Opened\":{\"description\":\"forged\"}}'; exit 0";
    let forged = "its process ended with code 0: {\"Opened\":{\"description\":\"forged\"}}";
    assert_eq!(ended(printed, terms(LONG)), lost(forged));
    assert_eq!(ended("kill -11 $$", terms(LONG)), lost("its process was ended by SIGSEGV"));
    let stopped = ProcessLimits { limit: LONG, stop: Arc::new(AtomicBool::new(true)) };
    assert_eq!(ended("exec sleep 100", stopped), lost("stopped"));
    assert!(DeviceProcess::start(Command::new("/no/such/program"), terms(LONG)).is_err());
}

#[test]
fn what_broke_is_not_lent_again_and_what_did_not_is() {
    let starts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&starts);
    let pool = DevicePool::new(1, move || {
        counted.fetch_add(1, Ordering::Relaxed);
        start(Duration::from_secs(2))
    });
    for _ in 0..3 {
        let mut device = pool.lend(Lease::Shared).unwrap();
        let (module, buffer) = prepared(&mut device);
        // As one that was just opened.
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
fn what_became_of_an_idle_one_is_not_the_next_ones_fault() {
    let pool = DevicePool::new(1, || start(LONG));
    let mut device = pool.lend(Lease::Shared).unwrap();
    prepared(&mut device);
    drop(device);
    pool.shelf.lock().unwrap().idle[0].kill();
    let mut device = pool.lend(Lease::Shared).unwrap();
    let (module, buffer) = prepared(&mut device);
    add_one(&mut device, module, buffer, 1).unwrap();
}

#[test]
fn who_is_to_be_alone_is() {
    let pool = DevicePool::new(3, || start(LONG));
    let shared = [0, 1].map(|_| pool.lend(Lease::Shared).unwrap());
    let lent = AtomicUsize::new(2);
    thread::scope(|scope| {
        let alone = scope.spawn(|| {
            let device = pool.lend(Lease::Alone).unwrap();
            assert_eq!(lent.fetch_add(1, Ordering::SeqCst), 0, "somebody else has it");
            thread::sleep(Duration::from_millis(50));
            lent.fetch_sub(1, Ordering::SeqCst);
            drop(device);
        });
        // It waits for those that are out, and those that come after it wait for it.
        while !pool.shelf.lock().unwrap().alone {
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
fn no_more_are_lent_than_there_may_be() {
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
    // One that cannot be started is nobody's any more.
    let broken = DevicePool::new(1, || Err(AcceleratorError::NoDevice(3)));
    for _ in 0..2 {
        assert_eq!(broken.lend(Lease::Shared).unwrap_err(), AcceleratorError::NoDevice(3));
    }
}
