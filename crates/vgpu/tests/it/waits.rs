//! A slow warp is not stuck. Other warps may wait for it for any length of time.

use std::fmt::Write as _;

use warpsmith_vgpu::{Device, Kind, Launch, LaunchReport, Options, load};

/// Warp 0 runs `rounds` rounds of `body`, which must not change `%r2`, and then executes `signal`. Warp 1 executes
/// `wait`. Both end with a store, so that no block is idle.
fn slow_and_waiting(body: &str, rounds: u32, signal: &str, wait: &str, functions: &str) -> String {
    format!(
        "
.version 8.0
.target sm_80
.address_size 64
{functions}
.visible .entry k(.param .u64 p0)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .shared .align 8 .b8 object[8];
    ld.param.u64 %rd1, [p0];
    mov.u32 %r1, %tid.x;
    mov.u32 %r3, 1;
    mov.u32 %r9, object;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared.b64 [%r9], 32;
READY:
    bar.sync 0;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    setp.ge.u32 %p1, %r1, 32;
    @%p1 bra WAIT;
    mov.u32 %r2, 0;
LOOP:
    {body}
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p2, %r2, {rounds};
    @%p2 bra LOOP;
    {signal}
    bra END;
WAIT:
    {wait}
END:
    st.global.u32 [%rd3], %r3;
    ret;
}}
"
    )
}

fn run(ptx: &str, grid: u32) -> LaunchReport {
    let module = load(ptx).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::default();
    let out = device.alloc(64 * 4, "out").expect("memory");
    let launch = Launch {
        module: &module,
        kernel: "k",
        grid: [grid, 1, 1],
        block: [64, 1, 1],
        shared: 0,
        args: &out.0.to_le_bytes(),
    };
    device.launch(&launch, &Options::default()).expect("starts")
}

fn expect_silent(ptx: &str) {
    let report = run(ptx, 1);
    assert!(report.stats.completed && report.findings.is_empty(), "{:#?}", report.findings);
}

/// A body with more consecutive instructions than a slice. The slice ends at the start of the next round.
fn long_body() -> String {
    let mut body = String::new();
    for i in 0..2500 {
        let _ = writeln!(body, "    mad.lo.u32 %r3, %r3, %r2, {i};");
    }
    body
}

const BARRIER: (&str, &str) = ("bar.sync 1, 64;", "bar.sync 1, 64;");
const OBJECT: (&str, &str) = (
    "mbarrier.arrive.shared.b64 %rd4, [%r9];",
    "
AGAIN:
    mbarrier.test_wait.parity.shared.b64 %p3, [%r9], 0;
    @!%p3 bra AGAIN;",
);

#[test]
fn a_loop_longer_than_a_slice_is_not_a_circle() {
    for (signal, wait) in [BARRIER, OBJECT] {
        expect_silent(&slow_and_waiting(&long_body(), 200, signal, wait, ""));
    }
}

#[test]
fn a_short_loop_with_many_rounds_is_not_a_circle() {
    for (signal, wait) in [BARRIER, OBJECT] {
        expect_silent(&slow_and_waiting("mad.lo.u32 %r3, %r3, %r2, 7;", 300_000, signal, wait, ""));
    }
}

/// Calls the same function with the same arguments from one place after another.
#[test]
fn equal_calls_from_different_places_are_no_circle() {
    let function = "
.func (.param .b32 out) slow(.param .b32 in)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    ld.param.u32 %r1, [in];
    mov.u32 %r2, 0;
LOOP:
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 6000;
    @%p1 bra LOOP;
    st.param.b32 [out], %r1;
    ret;
}";
    let call = "
    {
    .param .b32 given;
    .param .b32 got;
    st.param.b32 [given], %r1;
    call.uni (got), slow, (given);
    ld.param.b32 %r4, [got];
    }";
    for (signal, wait) in [BARRIER, OBJECT] {
        expect_silent(&slow_and_waiting(&call.repeat(40), 1, signal, wait, function));
    }
}

/// One half of a warp polls while the other half computes for a long time, in a function call or not.
#[test]
fn half_a_warp_that_waits_for_its_other_half_is_no_circle() {
    let ptx = "
.version 8.0
.target sm_80
.address_size 64
.func (.param .b32 out) slow(.param .b32 in)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    ld.param.u32 %r1, [in];
    mov.u32 %r2, 0;
LOOP:
    mad.lo.u32 %r1, %r1, %r2, 7;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 200000;
    @%p1 bra LOOP;
    st.param.b32 [out], %r1;
    ret;
}
.visible .entry k(.param .u64 p0)
{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .shared .align 4 .b8 flag[4];
    ld.param.u64 %rd1, [p0];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    st.shared.u32 [flag], 0;
READY:
    bar.sync 0;
    setp.ge.u32 %p1, %r1, 16;
    @%p1 bra WAIT;
    {
    .param .b32 given;
    .param .b32 got;
    st.param.b32 [given], %r1;
    call.uni (got), slow, (given);
    ld.param.b32 %r4, [got];
    }
    atom.shared.exch.b32 %r5, [flag], 1;
    bra END;
WAIT:
    ld.relaxed.cta.shared.u32 %r6, [flag];
    setp.eq.u32 %p2, %r6, 0;
    @%p2 bra WAIT;
END:
    st.global.u32 [%rd3], %r1;
    ret;
}
";
    let report = run(ptx, 1);
    assert!(report.stats.completed && report.findings.is_empty(), "{:#?}", report.findings);
}

/// Polls with a back-off that reads the clock, as libcu++ does. The time makes every round different.
const TIMED: &str = "
AGAIN:
    mbarrier.test_wait.parity.shared.b64 %p3, [%r9], 0;
    @%p3 bra END;
    mov.u64 %rd5, %globaltimer;
    and.b64 %rd6, %rd5, 1023;
    cvt.u32.u64 %r10, %rd6;
    nanosleep.u32 %r10;
    bra AGAIN;";

#[test]
fn a_wait_with_a_time_limit_that_nobody_ends_is_a_deadlock() {
    // No thread arrives at the barrier.
    let report = run(&slow_and_waiting("", 1, "", TIMED, ""), 1);
    let kinds: Vec<Kind> = report.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [Kind::Deadlock], "{:#?}", report.findings);
    assert!(report.stats.warp_instructions < 10_000_000);
    // Warp 0 arrives, but late.
    let late = OBJECT.0;
    expect_silent(&slow_and_waiting("mad.lo.u32 %r3, %r3, %r2, 7;", 100_000, late, TIMED, ""));
}

#[test]
fn waiting_for_time_to_pass_is_not_a_circle() {
    let delay = "
    mov.u64 %rd5, %globaltimer;
    add.u64 %rd6, %rd5, 500000000;
DELAY:
    mov.u64 %rd5, %globaltimer;
    setp.lt.u64 %p3, %rd5, %rd6;
    @%p3 bra DELAY;";
    for (signal, wait) in [BARRIER, (OBJECT.0, TIMED)] {
        expect_silent(&slow_and_waiting(delay, 10, signal, wait, ""));
    }
    let cycles = "
    mov.u32 %r11, %clock;
DELAY:
    mov.u32 %r12, %clock;
    sub.u32 %r13, %r12, %r11;
    setp.lt.u32 %p3, %r13, 100000000;
    @%p3 bra DELAY;";
    expect_silent(&slow_and_waiting(cycles, 10, BARRIER.0, BARRIER.1, ""));
}

#[test]
fn lanes_that_meet_inside_a_block_go_on_while_another_warp_polls() {
    // Lane 0 takes a longer way back to the start of the loop, whose text comes later. The other lanes wait for it at the
    // shuffle, which is not at the start of a basic block.
    let body = "
    add.u32 %r5, %r2, 1;
    shfl.sync.bfly.b32 %r4, %r5, 1, 31, -1;
    setp.eq.u32 %p3, %r1, 0;
    @%p3 bra LATE;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p2, %r2, 3;
    @%p2 bra LOOP;
    bra DONE;
LATE:
    add.u32 %r7, %r2, 7;";
    let signal = "DONE: mbarrier.arrive.shared.b64 %rd4, [%r9];";
    let wait = "POLL: mbarrier.test_wait.parity.shared.b64 %p3, [%r9], 0; @!%p3 bra POLL;";
    expect_silent(&slow_and_waiting(body, 3, signal, wait, ""));
}
