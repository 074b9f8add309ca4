//! Memory of the host that kernels access at its own address, and what a launch has touched.

use std::ptr::NonNull;

use warpsmith_vgpu::{Device, Launch, MemoryError, Options, Touched, load};

/// Thread `i` of 32 adds 1 to `x[i]` if `i` is even, and reads it otherwise.
const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p0)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p0];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    and.b32 %r3, %r1, 1;
    setp.ne.u32 %p1, %r3, 0;
    @%p1 bra END;
    add.u32 %r2, %r2, 1;
    st.global.u32 [%rd3], %r2;
END:
    ret;
}
";

fn run(device: &mut Device, address: u64, threads: u32) -> Vec<Touched> {
    let module = load(PTX).unwrap_or_else(|e| panic!("{e}"));
    let args = address.to_le_bytes();
    let (grid, block) = ([1; 3], [threads, 1, 1]);
    let launch = Launch { module: &module, kernel: "k", grid, block, shared: 0, args: &args };
    let options = Options { touched: true, ..Options::default() };
    let report = device.launch(&launch, &options).expect("starts");
    assert!(report.is_clean(), "{:#?}", report.findings);
    device.touched().to_vec()
}

#[test]
fn kernels_access_memory_of_the_host_at_its_address() {
    // More than the kernel uses, so that a multiple of 256 is inside.
    let mut memory = vec![7u32; 256];
    let at = (memory.as_mut_ptr() as u64).next_multiple_of(256);
    let data = NonNull::new(at as *mut u8).expect("not null");
    let mut device = Device::default();
    // SAFETY: the vector outlives the device's use of it, and the addresses are equal.
    let buffer = unsafe { device.adopt(at, data, 128, "host") }.expect("is free");
    assert_eq!(buffer.0, at);
    // SAFETY: as above; this one is refused.
    let again = unsafe { device.adopt(at + 64, data, 128, "other") };
    assert_eq!(again, Err(MemoryError::Occupied { address: at + 64, bytes: 128 }));
    run(&mut device, at, 32);
    let mut bytes = [0; 128];
    device.read(buffer, &mut bytes).expect("inside");
    let values: Vec<u32> =
        bytes.chunks_exact(4).map(|it| u32::from_le_bytes(it.try_into().unwrap())).collect();
    assert_eq!(values[..4], [8, 7, 8, 7]);
    let first = (at - memory.as_ptr() as u64) as usize / 4;
    assert_eq!(memory[first..first + 4], [8, 7, 8, 7], "the host sees it");
    assert_eq!(device.allocation_at(at + 3), Some((buffer, 128, "host")));
    device.free(buffer).expect("is allocated");
    assert_eq!(device.allocation_at(at), None);
}

#[test]
fn a_launch_tells_which_bytes_it_read_and_wrote() {
    let mut device = Device::default();
    let x = device.upload("x", &[0u32; 64]).expect("memory");
    let at = x.buffer.0;
    let touched = run(&mut device, at, 3);
    let part = |index: u64, written| Touched { address: at + 4 * index, bytes: 4, written };
    assert_eq!(touched, [part(0, true), part(1, false), part(2, true)]);
    // Whole rows are merged.
    let module = load(&PTX.replace("@%p1 bra END;", "")).unwrap_or_else(|e| panic!("{e}"));
    let args = at.to_le_bytes();
    let launch =
        Launch { module: &module, kernel: "k", grid: [1; 3], block: [64, 1, 1], shared: 0, args: &args };
    let options = Options { touched: true, ..Options::default() };
    device.launch(&launch, &options).expect("starts");
    assert_eq!(device.touched(), [Touched { address: at, bytes: 256, written: true }]);
    device.launch(&launch, &Options::default()).expect("starts");
    assert!(device.touched().is_empty(), "only if it was asked for");
}
