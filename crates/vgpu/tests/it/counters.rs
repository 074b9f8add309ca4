//! Checks the counters on kernels that are small enough to count by hand.

use warpsmith_vgpu::count::Class;
use warpsmith_vgpu::num::tile::Elem;
use warpsmith_vgpu::{Checks, Counters, Device, Launch, Options, load};

/// A kernel of one warp per block. Lane `l` reads word `l * STRIDE` of global memory, stores it to word `l * BANKS`
/// of shared memory, reads it back and stores it to word `l`.
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
    count_text(&kernel(stride, banks))
}

/// Runs three blocks of 32 threads and returns the counters.
fn count_text(text: &str) -> Counters {
    let module = load(text).unwrap_or_else(|e| panic!("{e}"));
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
    // Fifteen instructions, including the return, by one warp of each of three blocks.
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
    // Each block reads 32 sectors and writes 4.
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

/// The barriers are in the middle of straight-line code. The warp stops at a barrier and resumes after it.
#[test]
fn what_follows_a_barrier_is_counted_once() {
    let c = count_text(
        "
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
{
    .reg .b32 %r<4>;
    .shared .align 4 .b8 s[4];
    mov.u32 %r1, %tid.x;
    bar.sync 0;
    add.u32 %r2, %r1, 1;
    add.u32 %r3, %r2, 1;
    bar.sync 0;
    add.u32 %r2, %r3, 1;
    ret;
}
",
    );
    assert_eq!(c.warp_instructions, 3 * 7);
    assert_eq!(c.barriers, 3 * 2);
    assert_eq!((c.blocks.finished, c.blocks.busiest), (3, 7));
}

#[test]
fn tensor_work_is_told_apart_by_type() {
    let c = count_text(
        "
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
{
    .reg .b32 %a<4>;
    .reg .b32 %b<2>;
    .reg .f32 %c<4>;
    .reg .b32 %s<4>;
    mov.b32 %a0, 0;
    mov.b32 %a1, 0;
    mov.b32 %a2, 0;
    mov.b32 %a3, 0;
    mov.b32 %b0, 0;
    mov.b32 %b1, 0;
    mov.f32 %c0, 0f00000000;
    mov.f32 %c1, 0f00000000;
    mov.f32 %c2, 0f00000000;
    mov.f32 %c3, 0f00000000;
    mov.b32 %s0, 0;
    mov.b32 %s1, 0;
    mov.b32 %s2, 0;
    mov.b32 %s3, 0;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%c0,%c1,%c2,%c3}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%c0,%c1,%c2,%c3};
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%c0,%c1,%c2,%c3}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%c0,%c1,%c2,%c3};
    mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%s0,%s1,%s2,%s3}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%s0,%s1,%s2,%s3};
    mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%s0,%s1,%s2,%s3}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%s0,%s1,%s2,%s3};
    ret;
}
",
    );
    let work: Vec<(Elem, Elem, u64)> = c.tensor.iter().map(|w| (w.input, w.accumulator, w.flops)).collect();
    let k16 = 3 * 2 * 16 * 8 * 16;
    assert_eq!(
        work,
        [(Elem::F16, Elem::F32, k16), (Elem::Bf16, Elem::F32, k16), (Elem::S8, Elem::S32, 4 * k16)]
    );
    assert_eq!(c.tensor_flops, 6 * k16);
    assert_eq!(c.by_class[&Class::MatrixProduct], 3 * 4);
}

/// A copy reads global memory and writes shared memory. The counters of both must include it.
#[test]
fn an_asynchronous_copy_counts_on_both_sides() {
    let c = count_text(
        "
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    .shared .align 16 .b8 s[128];
    ld.param.u64 %rd1, [p0];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, s;
    add.u32 %r2, %r2, %r3;
    cp.async.ca.shared.global [%r2], [%rd3], 4;
    cp.async.commit_group;
    cp.async.wait_group 0;
    ret;
}
",
    );
    assert_eq!(c.async_bytes, 3 * 128);
    assert_eq!((c.global.requests, c.global.transactions), (3, 12));
    assert_eq!((c.shared.requests, c.shared.transactions), (3, 3));
    assert_eq!(c.l2_bytes, 3 * 128);
}

/// ldmatrix reads a fragment of halves as four 8x8 blocks of eight rows of 16 bytes. A fragment of floats is stored
/// as pairs of words. Rows that are 48 or 96 bytes apart are in different banks. At 32 and 64 bytes, every second
/// wavefront is a conflict.
#[test]
fn fragments_are_counted_as_the_assembler_moves_them() {
    let shared = |instruction: &str, pitch: u32| {
        let c = count_text(&format!(
            "
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
{{
    .reg .b32 %r<9>;
    .reg .f32 %f<8>;
    .shared .align 32 .b8 s[2048];
    mov.u32 %r8, s;
    mov.u32 %r0, {pitch};
    {instruction}
    ret;
}}
"
        ));
        (c.shared.transactions, c.shared.ideal)
    };
    for layout in ["row", "col"] {
        let load = format!(
            "wmma.load.a.sync.aligned.{layout}.m16n16k16.shared.f16 {{%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}}, [%r8], %r0;"
        );
        assert_eq!(shared(&load, 24), (3 * 4, 3 * 4), "{layout}");
        assert_eq!(shared(&load, 16), (3 * 8, 3 * 4), "{layout}");
    }
    let store =
        "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r8], {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, %r0;";
    assert_eq!(shared(store, 24), (3 * 8, 3 * 8));
    assert_eq!(shared(store, 16), (3 * 16, 3 * 8));
}

/// Runs one block of 64 threads with this body and returns the clocks of its critical path.
fn clocks(body: &str) -> u64 {
    let c = count_block(body);
    assert_eq!(c.blocks.finished, 1);
    c.blocks.longest_chain_clocks
}

fn count_block(body: &str) -> Counters {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p0)\n{{\n\
         .reg .pred %p<9>;\n.reg .b32 %r<9>;\n.reg .f32 %f<9>;\n.reg .b64 %rd<9>;\n\
         .shared .align 128 .b8 s[256];\n.shared .align 8 .b64 b;\n\
         ld.param.u64 %rd0, [p0];\nmov.u32 %r0, %tid.x;\nshr.u32 %r1, %r0, 5;\nmov.f32 %f0, 0f3F800000;\n\
         {body}\nret;\n}}\n"
    );
    let module = load(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::default();
    let x = device.alloc(4096, "x").expect("memory");
    device.fill(x, 0, 4096).expect("inside");
    let args = x.0.to_le_bytes();
    let launch =
        Launch { module: &module, kernel: "k", grid: [1; 3], block: [64, 1, 1], shared: 0, args: &args };
    let options = Options { checks: Checks::None, counters: true, threads: 1, ..Options::default() };
    let report = device.launch(&launch, &options).expect("runs");
    assert!(report.stats.completed, "{:#?}", report.findings);
    report.counters.expect("asked for")
}

#[test]
fn sleep_takes_its_time() {
    let time = |nanoseconds: u32| clocks(&format!("mov.u32 %r2, {nanoseconds};\nnanosleep.u32 %r2;"));
    assert_eq!(time(5000) - time(0), 10_000);
    // A GPU sleeps for at most a millisecond.
    assert_eq!(time(4_000_000_000), time(1_000_000));
}

/// Warp 0 works, then warp 1: they wait for each other at barriers.
#[test]
fn work_that_is_passed_from_warp_to_warp_takes_the_sum() {
    let work = "fma.rn.f32 %f0, %f0, %f0, %f0;\n".repeat(500);
    let both = clocks(&work);
    let relay = clocks(&format!(
        "setp.eq.u32 %p1, %r1, 1;\n@%p1 bra first;\n{work}\nfirst: bar.sync 0;\n\
         setp.eq.u32 %p2, %r1, 0;\n@%p2 bra second;\n{work}\nsecond: bar.sync 0;"
    ));
    assert!(both >= 2000 && relay >= 2 * both - 100, "{both} {relay}");
    let relay = clocks(&format!(
        "setp.ne.u32 %p3, %r0, 0;\n@%p3 bra ready;\nmbarrier.init.shared.b64 [b], 32;\nready: bar.sync 0;\n\
         setp.eq.u32 %p1, %r1, 1;\n@%p1 bra again;\n{work}\nmbarrier.arrive.shared.b64 %rd1, [b];\nret;\n\
         again: mbarrier.test_wait.parity.shared.b64 %p2, [b], 0;\n@!%p2 bra again;\n{work}"
    ));
    assert!(relay >= 2 * both - 100, "{both} {relay}");
}

/// Eight copies, one after another. The wait is in another basic block than the copy.
#[test]
fn a_copy_takes_as_long_as_a_load() {
    let chase = |hop: &str| {
        clocks(&format!(
            "mov.u32 %r7, 0;\nmov.u32 %r2, s;\nhop: {hop}\nadd.u32 %r7, %r7, 1;\nsetp.lt.u32 %p1, %r7, 8;\n@%p1 bra hop;"
        ))
    };
    let load = chase("ld.global.u32 %r3, [%rd0];\nadd.u32 %r4, %r3, 1;");
    let copy = chase(
        "cp.async.ca.shared.global [%r2], [%rd0], 4;\ncp.async.commit_group;\nbra wait;\nwait: cp.async.wait_group 0;",
    );
    assert!(load >= 8 * 270 && copy >= load, "{load} {copy}");
    let bulk = clocks(
        "setp.ne.u32 %p3, %r0, 0;\n@%p3 bra done;\nmbarrier.init.shared.b64 [b], 1;\nmov.u32 %r7, 0;\n\
         mov.u32 %r2, s;\nmov.u32 %r3, b;\n\
         hop: mbarrier.arrive.expect_tx.shared.b64 %rd1, [b], 128;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 128, [%r3];\n\
         and.b32 %r4, %r7, 1;\n\
         again: mbarrier.test_wait.parity.shared.b64 %p2, [b], %r4;\n@!%p2 bra again;\n\
         add.u32 %r7, %r7, 1;\nsetp.lt.u32 %p1, %r7, 8;\n@%p1 bra hop;\ndone:",
    );
    assert!(bulk >= load, "{load} {bulk}");
}

#[test]
fn bulk_copies_and_volatile_loads_need_l2() {
    let bulk = count_block(
        "setp.ne.u32 %p3, %r0, 0;\n@%p3 bra done;\nmbarrier.init.shared.b64 [b], 1;\n\
         mov.u32 %r2, s;\nmov.u32 %r3, b;\nmbarrier.arrive.expect_tx.shared.b64 %rd1, [b], 256;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 256, [%r3];\n\
         cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r2], 128;\n\
         again: mbarrier.test_wait.parity.shared.b64 %p2, [b], 0;\n@!%p2 bra again;\ndone:",
    );
    assert_eq!((bulk.l2_bytes, bulk.bulk_bytes, bulk.dram_footprint), (384, 384, 256));
    // Two warps read one sector ten times. Only weak loads find it in L1.
    let sectors = |load: &str| count_block(&format!("{load} %r2, [%rd0];\n").repeat(10)).l2_bytes / 32;
    assert_eq!((sectors("ld.global.u32"), sectors("ld.volatile.global.u32")), (1, 20));
}
