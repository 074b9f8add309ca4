//! What is counted, on kernels small enough to count by hand.

use warpsmith_vgpu::{Checks, Counters, Device, Launch, Options, load};

/// A kernel of one warp per block: lane `l` reads word `l * STRIDE` of global memory, stores it to word
/// `l * BANKS` of shared memory, reads it back and stores it to word `l`.
fn kernel(stride: u32, banks: u32) -> String {
    format!(
        "
.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
{{
    .reg .b32 %r<8>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<8>;
    .shared .align 4 .b8 tile[8192];
    ld.param.u64 %rd0, [p0];
    ld.param.u64 %rd1, [p1];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd2, %r0, {};
    add.s64 %rd3, %rd0, %rd2;
    ld.global.f32 %f1, [%rd3];
    mov.u32 %r1, tile;
    mad.lo.s32 %r2, %r0, {}, %r1;
    st.shared.f32 [%r2], %f1;
    ld.shared.f32 %f2, [%r2];
    fma.rn.f32 %f3, %f2, %f2, %f1;
    mul.wide.u32 %rd4, %r0, 4;
    add.s64 %rd5, %rd1, %rd4;
    st.global.f32 [%rd5], %f3;
    ret;
}}
",
        stride * 4,
        banks * 4
    )
}

fn count(stride: u32, banks: u32) -> Counters {
    let module = load(&kernel(stride, banks)).expect("valid");
    let mut device = Device::default();
    let x = device.alloc(32 * 4 * 32, "x").expect("memory");
    let y = device.alloc(32 * 4, "y").expect("memory");
    device.fill(x, 0, 32 * 4 * 32).expect("inside");
    let args = [x.0.to_le_bytes(), y.0.to_le_bytes()].concat();
    let launch =
        Launch { module: &module, kernel: "k", grid: [3, 1, 1], block: [32, 1, 1], shared: 0, args: &args };
    let options = Options { checks: Checks::None, counters: true, threads: 1, ..Options::default() };
    device.launch(&launch, &options).expect("runs").counters.expect("asked for")
}

#[test]
fn a_coalesced_kernel_without_conflicts() {
    let c = count(1, 1);
    // Fifteen instructions, return included, by one warp of each of three blocks.
    assert_eq!(c.warp_instructions, 3 * 15);
    assert_eq!(c.thread_instructions, 3 * 15 * 32);
    assert_eq!(c.flops, 3 * 2 * 32);
    assert_eq!((c.global.requests, c.global.transactions, c.global.ideal), (6, 24, 24));
    assert_eq!((c.shared.requests, c.shared.transactions, c.shared.ideal), (6, 6, 6));
    assert_eq!(c.dram_footprint, 2 * 128);
    assert_eq!(c.divergent_branches, 0);
}

#[test]
fn strided_loads_take_a_sector_each() {
    let c = count(32, 1);
    // 32 sectors to read, 4 to write, per block.
    assert_eq!((c.global.transactions, c.global.ideal), (3 * 36, 24));
    assert_eq!(c.dram_footprint, 33 * 128);
}

#[test]
fn a_stride_of_32_words_hits_one_bank() {
    let c = count(1, 32);
    assert_eq!((c.shared.transactions, c.shared.ideal), (6 * 32, 6));
    let c = count(1, 2);
    assert_eq!(c.shared.transactions, 6 * 2);
    let c = count(1, 33);
    assert_eq!(c.shared.transactions, 6);
}
