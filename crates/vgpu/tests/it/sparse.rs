//! The memory that large buffers take follows what kernels write.

use warpsmith_vgpu::{Device, Launch, Options, load};

const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [p0];
    ld.param.u64 %rd2, [p1];
    add.u64 %rd3, %rd1, %rd2;
    ld.global.u32 %r1, [%rd3];
    add.u32 %r2, %r1, 7;
    st.global.u32 [%rd3], %r2;
    ret;
}
";

/// The memory of this process in KiB that it does not share, not even with itself.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_large_buffer_of_zeros_takes_memory_only_where_it_is_written() {
    const BYTES: u64 = 6 << 30;
    let module = load(PTX).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::default();
    let before = resident();
    let zeros = device.alloc(BYTES, "zeros").expect("memory");
    device.fill(zeros, 0, BYTES).expect("inside");
    let unwritten = device.alloc(BYTES, "unwritten").expect("memory");
    let mut args = zeros.0.to_le_bytes().to_vec();
    args.extend((BYTES - 4).to_le_bytes());
    let launch = Launch { module: &module, kernel: "k", grid: [1; 3], block: [1; 3], shared: 0, args: &args };
    let options = Options { outputs: vec![unwritten], ends_outputs: false, ..Options::default() };
    let report = device.launch(&launch, &options).expect("starts");
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    let mut last = [0; 4];
    device.read(warpsmith_vgpu::Buffer(zeros.0 + BYTES - 4), &mut last).expect("inside");
    assert_eq!(last, 7u32.to_le_bytes());
    let taken = resident().saturating_sub(before);
    assert!(taken < 1 << 20, "{taken} KiB for one word");
}

#[test]
fn a_large_buffer_is_uninitialised_until_it_is_filled() {
    const BYTES: u64 = 3 << 30;
    let module = load(PTX).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::default();
    let buffer = device.alloc(BYTES, "x").expect("memory");
    let mut args = buffer.0.to_le_bytes().to_vec();
    args.extend(((1u64 << 31) + 64).to_le_bytes());
    let launch = Launch { module: &module, kernel: "k", grid: [1; 3], block: [1; 3], shared: 0, args: &args };
    let options = Options { outputs: vec![buffer], ends_outputs: false, ..Options::default() };
    let found = |device: &mut Device| device.launch(&launch, &options).expect("starts").findings.len();
    assert_eq!(found(&mut device), 1);
    device.fill(buffer, 0, BYTES).expect("inside");
    assert_eq!(found(&mut device), 0);
}
