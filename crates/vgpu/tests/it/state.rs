//! Variables of a module keep their values between launches. A launch reports which variables it changed, and a
//! caller can reset them.

use warpsmith_vgpu::{Device, Launch, Options, load};

const MODULE: &str = "
.version 8.4
.target sm_90
.address_size 64
.global .align 4 .u32 counter = 5;
.visible .global .align 16 .b8 target[64];
.global .align 8 .u64 link = generic(counter);
.const .align 4 .u32 fixed = 7;
.visible .entry read(.param .u64 p0)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p0];
    ld.global.u32 %r1, [counter];
    ld.const.u32 %r2, [fixed];
    st.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry count(.param .u64 p0)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p0];
    atom.global.add.u32 %r1, [counter], 1;
    st.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry store(.param .u64 p0)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    mov.u64 %rd1, target;
    cvta.global.u64 %rd2, %rd1;
    mov.u32 %r1, 9;
    st.v2.u32 [%rd2+16], {%r1, %r1};
    red.global.add.u32 [%rd1+8], 0;
    ret;
}
.visible .entry same(.param .u64 p0)
{
    st.global.u32 [counter], 5;
    ret;
}
";

#[test]
fn a_launch_names_the_variables_it_changed() {
    let module = load(MODULE).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::default();
    let out = device.alloc(4, "out").expect("memory");
    let args = out.0.to_le_bytes();
    let mut run = |kernel: &str| {
        let launch =
            Launch { module: &module, kernel, grid: [2, 1, 1], block: [1; 3], shared: 0, args: &args };
        device.launch(&launch, &Options::default()).expect("starts").changed_state
    };
    assert!(run("read").is_empty());
    assert_eq!(run("count"), ["counter"]);
    assert_eq!(run("store"), ["target"]);
    // Storing the same bytes again is not a change. Storing other bytes is a change.
    assert!(run("store").is_empty());
    assert_eq!(run("same"), ["counter"]);
    assert!(run("same").is_empty());
}

#[test]
fn a_reset_gives_variables_their_initial_values() {
    let module = load(MODULE).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::default();
    let out = device.alloc(4, "out").expect("memory");
    let args = out.0.to_le_bytes();
    // The variables are not allocated yet.
    device.reset(&module).expect("reset");
    let mut counted = Vec::new();
    for round in 0..3 {
        let launch =
            Launch { module: &module, kernel: "count", grid: [1; 3], block: [1; 3], shared: 0, args: &args };
        device.launch(&launch, &Options::default()).expect("starts");
        let mut bytes = [0; 4];
        device.read(out, &mut bytes).expect("inside");
        counted.push(u32::from_le_bytes(bytes));
        if round == 1 {
            device.reset(&module).expect("reset");
        }
    }
    assert_eq!(counted, [5, 6, 5]);
    // A reset also restores variables that hold the address of another variable.
    let (link, _) = device.symbol(&module, "link").expect("placed").expect("there");
    let (counter, _) = device.symbol(&module, "counter").expect("placed").expect("there");
    let mut bytes = [0; 8];
    device.read(link, &mut bytes).expect("inside");
    assert_eq!(u64::from_le_bytes(bytes), counter.0);
}
