//! The environment that a kernel can observe looks like that of a GPU, differs between worlds, and does not change
//! any finding.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use warpsmith_vgpu::{Buffer, Checks, Device, Kind, Launch, LaunchReport, Limits, Options, World, load};

const MEMORY: u64 = 1 << 30;

struct Ran {
    report: LaunchReport,
    words: Vec<u64>,
}

/// Runs kernel `k(out, out2)` on a new device of the world and returns the words that it wrote.
fn run(ptx: &str, world: World, grid: u32, block: u32, words: usize, options: Options) -> Ran {
    let module = load(ptx).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::in_world(MEMORY, world);
    let out = device.alloc(words as u64 * 8, "out").expect("memory");
    device.fill(out, 0, words as u64 * 8).expect("inside");
    let flags = device.alloc(1 << 16, "flags").expect("memory");
    device.fill(flags, 0, 1 << 16).expect("inside");
    let args: Vec<u8> = [out.0, flags.0].iter().flat_map(|a| a.to_le_bytes()).collect();
    let (grid, block) = ([grid, 1, 1], [block, 1, 1]);
    let launch = Launch { module: &module, kernel: "k", grid, block, shared: 1000, args: &args };
    let report = device.launch(&launch, &Options { world, ..options }).expect("starts");
    let mut bytes = vec![0; words * 8];
    device.read(out, &mut bytes).expect("inside");
    let words = bytes.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("eight"))).collect();
    Ran { report, words }
}

fn kernel(body: &str) -> String {
    format!(
        "
.version 8.4
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .u64 p0, .param .u64 p1)
{{
    .reg .pred %p<8>;
    .reg .b32 %r<32>;
    .reg .b64 %rd<32>;
    .local .align 8 .b8 mine[16];
    ld.param.u64 %rd1, [p0];
    ld.param.u64 %rd2, [p1];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    {body}
    ret;
}}
"
    )
}

/// Writes sixteen values that a kernel can read from its environment, per block of one warp.
fn surroundings() -> String {
    kernel(
        "
    mul.wide.u32 %rd3, %r1, 128;
    add.u64 %rd4, %rd1, %rd3;
    mov.u64 %rd5, %clock64;       st.global.u64 [%rd4], %rd5;
    mov.u64 %rd5, %globaltimer;   st.global.u64 [%rd4+8], %rd5;
    mov.u64 %rd5, %gridid;        st.global.u64 [%rd4+16], %rd5;
    mov.u32 %r3, %smid;    cvt.u64.u32 %rd5, %r3; st.global.u64 [%rd4+24], %rd5;
    mov.u32 %r3, %nsmid;   cvt.u64.u32 %rd5, %r3; st.global.u64 [%rd4+32], %rd5;
    mov.u32 %r3, %warpid;  cvt.u64.u32 %rd5, %r3; st.global.u64 [%rd4+40], %rd5;
    mov.u32 %r3, %nwarpid; cvt.u64.u32 %rd5, %r3; st.global.u64 [%rd4+48], %rd5;
    mov.u32 %r3, %total_smem_size;   cvt.u64.u32 %rd5, %r3; st.global.u64 [%rd4+56], %rd5;
    mov.u32 %r3, %dynamic_smem_size; cvt.u64.u32 %rd5, %r3; st.global.u64 [%rd4+64], %rd5;
    mov.u64 %rd6, dynamic; cvta.shared.u64 %rd5, %rd6; st.global.u64 [%rd4+72], %rd5;
    mov.u64 %rd6, mine;    cvta.local.u64 %rd7, %rd6;  st.global.u64 [%rd4+80], %rd7;
    st.global.u64 [%rd4+88], %rd1;
    st.global.u64 [%rd4+96], %rd2;
    st.u64 [%rd5], 77;
    mov.u64 %rd8, dynamic; ld.shared.u64 %rd9, [%rd8]; st.global.u64 [%rd4+104], %rd9;
    st.u64 [%rd7], 78; ld.u64 %rd9, [%rd7]; st.global.u64 [%rd4+112], %rd9;
    mov.u64 %rd5, %clock64; st.global.u64 [%rd4+120], %rd5;",
    )
}

fn look(world: World) -> Vec<Vec<u64>> {
    let ran = run(&surroundings(), world, 300, 1, 300 * 16, Options { threads: 1, ..Options::default() });
    assert!(ran.report.stats.completed && ran.report.findings.is_empty(), "{:#?}", ran.report.findings);
    ran.words.chunks_exact(16).map(<[u64]>::to_vec).collect()
}

#[test]
fn what_a_kernel_reads_is_as_on_an_h200() {
    for world in (0..20).map(World::from_seed).chain([World::default()]) {
        let blocks = look(world);
        let mut per_sm = [0u32; 132];
        for b in &blocks {
            assert!(b[0] > 1 << 30 && b[15] > b[0] && b[15] - b[0] < 1000, "clocks {b:x?}");
            // Unix time of the years 2025 to 2065. The clock advances in steps.
            assert!((1_735_000_000..3_000_000_000).contains(&(b[1] / 1_000_000_000)), "{b:?}");
            assert_eq!(b[1] % 32, 0);
            assert_eq!(b[2], world.grid_id);
            assert_eq!((b[4], b[6], b[7], b[8]), (132, 64, 1024, 1000));
            assert!(b[3] < 132 && b[5] < 64);
            per_sm[b[3] as usize] += 1;
            for address in &b[9..13] {
                assert!((0x7e00_0000_0000..0x7fff_ffff_ffff).contains(address), "{b:x?}");
            }
            assert_eq!((b[11] % 512, b[12] % 512), (0, 0));
            assert_eq!(b[13..15], [77, 78], "generic addresses reach shared and local memory");
        }
        // 300 blocks on 132 multiprocessors are two or three blocks each.
        assert!(per_sm.iter().all(|n| (2..=3).contains(n)), "{per_sm:?}");
    }
}

/// Eight warps take numbers one after another: each writes the number that it took, and the offset of its block's shared
/// memory.
fn turns() -> String {
    kernel(
        "
    mov.u32 %r2, %tid.x;
    shr.u32 %r3, %r2, 5;
    mul.wide.u32 %rd3, %r3, 16;
    add.u64 %rd4, %rd1, %rd3;
    mov.u64 %rd6, dynamic;
    st.global.u64 [%rd4+8], %rd6;
    atom.global.add.u64 %rd5, [%rd2], 1;
    and.b32 %r2, %r2, 31;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 st.global.u64 [%rd4], %rd5;",
    )
}

#[test]
fn the_place_of_shared_memory_and_the_order_of_warps_differ() {
    let look = |world: World| {
        let options = Options { threads: 1, checks: Checks::None, ..Options::default() };
        let ran = run(&turns(), world, 1, 256, 16, options);
        assert!(ran.report.stats.completed, "{:#?}", ran.report.findings);
        let warps = ran.words.chunks_exact(2);
        let mut order: Vec<(u64, usize)> = warps.clone().map(|w| w[0]).zip(0..).collect();
        order.sort_unstable();
        (ran.words[1], order.into_iter().map(|(_, warp)| warp).collect::<Vec<_>>())
    };
    assert_eq!(look(World::default()), (0, (0..8).collect()));
    let seen: Vec<_> = (1..20).map(|seed| look(World::from_seed(seed))).collect();
    assert!(seen.iter().all(|(offset, _)| offset % 1024 == 0 && (1024..=4096).contains(offset)), "{seen:?}");
    assert!(seen.iter().any(|(offset, _)| *offset != seen[0].0), "{seen:?}");
    assert!(seen.iter().all(|(_, order)| *order != (0..8).collect::<Vec<_>>()), "{seen:?}");
    assert_eq!(look(World::from_seed(3)), look(World::from_seed(3)));
}

/// Memory below the first shared variable belongs to the system.
#[test]
fn accesses_below_shared_memory_are_out_of_bounds() {
    let ptx = kernel("mov.u64 %rd6, dynamic; mov.u32 %r3, 1; st.shared.u32 [%rd6-4], %r3;");
    for world in [World::default(), World::from_seed(1)] {
        let report = run(&ptx, world, 1, 1, 1, Options::default()).report;
        assert!(report.findings.iter().any(|f| f.kind == Kind::OutOfBounds), "{:#?}", report.findings);
    }
}

#[test]
fn worlds_differ_in_everything_a_kernel_can_read() {
    let (a, b) = (look(World::from_seed(1)), look(World::from_seed(2)));
    for (what, n) in
        [("clock", 0), ("timer", 1), ("grid", 2), ("shared", 9), ("local", 10), ("p0", 11), ("p1", 12)]
    {
        assert_ne!(a[0][n], b[0][n], "{what}");
    }
    let sms = |blocks: &[Vec<u64>]| blocks.iter().map(|b| b[3]).collect::<Vec<_>>();
    assert_ne!(sms(&a), sms(&b));
    // The distance between two buffers also differs.
    assert_ne!(a[0][11].wrapping_sub(a[0][12]), b[0][11].wrapping_sub(b[0][12]));
    assert_eq!(look(World::from_seed(1)), a, "a world is the same every time");
}

#[test]
fn time_goes_on_from_launch_to_launch() {
    let module = load(&surroundings()).expect("valid");
    let mut device = Device::new(MEMORY);
    let out = device.alloc(128, "out").expect("memory");
    let args: Vec<u8> = [out.0, out.0].iter().flat_map(|a| a.to_le_bytes()).collect();
    let launch =
        Launch { module: &module, kernel: "k", grid: [1; 3], block: [1; 3], shared: 1000, args: &args };
    let mut seen = Vec::new();
    for _ in 0..3 {
        device.launch(&launch, &Options::default()).expect("starts");
        let mut bytes = [0; 128];
        device.read(out, &mut bytes).expect("inside");
        let word = |n: usize| u64::from_le_bytes(bytes[8 * n..8 * n + 8].try_into().expect("eight"));
        seen.push((word(0), word(1), word(2)));
    }
    assert!(seen.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1 && w[0].2 + 1 == w[1].2), "{seen:?}");
}

/// Block i waits for block i - 1, which adds its number. Decoupled look-back has this order.
fn chain() -> String {
    kernel(
        "
    mul.wide.u32 %rd3, %r1, 8;
    add.u64 %rd4, %rd1, %rd3;
    mul.wide.u32 %rd5, %r1, 4;
    add.u64 %rd6, %rd2, %rd5;
    mov.u64 %rd9, 0;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra GO;
WAIT:
    ld.acquire.gpu.global.u32 %r3, [%rd6+-4];
    setp.eq.u32 %p2, %r3, 0;
    @%p2 bra WAIT;
    ld.global.u64 %rd9, [%rd4+-8];
GO:
    cvt.u64.u32 %rd10, %r1;
    add.u64 %rd9, %rd9, %rd10;
    st.global.u64 [%rd4], %rd9;
    st.release.gpu.global.u32 [%rd6], 1;",
    )
}

#[test]
fn a_chain_of_blocks_ends_in_every_world() {
    // The grid has far more blocks than can be resident.
    let limits = Limits { sms: 4, blocks_per_sm: 2, ..Limits::default() };
    for seed in 0..8 {
        for threads in [1, 3] {
            let options = Options { limits, threads, ..Options::default() };
            let ran = run(&chain(), World::from_seed(seed), 100, 1, 100, options);
            assert!(
                ran.report.stats.completed && ran.report.findings.is_empty(),
                "{:#?}",
                ran.report.findings
            );
            let sums: Vec<u64> = (0..100u64).map(|i| i * (i + 1) / 2).collect();
            assert_eq!(ran.words, sums);
        }
    }
}

/// Kinds and lines of findings. The order of blocks decides how often a race is seen and in which block first, so
/// these are not compared.
fn shape(report: &LaunchReport) -> Vec<(Kind, u32)> {
    report.findings.iter().map(|f| (f.kind, f.place.ptx_line)).collect()
}

#[test]
fn findings_are_the_same_in_every_world() {
    // Every block except the first reads what the previous block writes, without synchronisation.
    let racy = kernel(
        "
    mul.wide.u32 %rd3, %r1, 8;
    add.u64 %rd4, %rd1, %rd3;
    add.u64 %rd7, %rd3, 1;
    st.global.u64 [%rd4], %rd7;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra END;
    ld.global.u64 %rd5, [%rd4+-8];
    add.u64 %rd6, %rd2, %rd3;
    st.global.u64 [%rd6], %rd5;
END:",
    );
    // Waits for ever for a block that does not exist.
    let stuck = kernel(
        "
WAIT:
    ld.acquire.gpu.global.u32 %r3, [%rd2];
    setp.ne.u32 %p1, %r3, 7;
    @%p1 bra WAIT;
    st.global.u64 [%rd1], %rd2;",
    );
    let beyond =
        kernel("mul.wide.u32 %rd3, %r1, 8; add.u64 %rd4, %rd1, %rd3; st.global.u64 [%rd4+24], %rd3;");
    for ptx in [racy, stuck, beyond] {
        let options = || Options { threads: 1, ..Options::default() };
        let usual = run(&ptx, World::default(), 6, 1, 6, options()).report;
        assert!(!usual.findings.is_empty());
        for seed in 0..6 {
            let other = run(&ptx, World::from_seed(seed), 6, 1, 6, options()).report;
            assert_eq!(shape(&usual), shape(&other), "{:#?}\n{:#?}", usual.findings, other.findings);
        }
    }
}

#[test]
fn memory_that_nothing_wrote_differs_from_world_to_world() {
    let read = kernel("ld.shared.u64 %rd5, [dynamic]; st.global.u64 [%rd1], %rd5;");
    let unchecked = || Options { checks: Checks::None, ..Options::default() };
    let words: Vec<u64> =
        (1..4).map(|s| run(&read, World::from_seed(s), 1, 1, 1, unchecked()).words[0]).collect();
    assert!(words[0] != words[1] && words[1] != words[2], "{words:?}");
    let fresh = |seed: u64| {
        let mut device = Device::in_world(MEMORY, World::from_seed(seed));
        let buffer = device.alloc(5000, "x").expect("memory");
        let mut bytes = vec![0; 5000];
        device.read(buffer, &mut bytes).expect("inside");
        bytes
    };
    assert_ne!(fresh(1), fresh(2));
}

#[test]
fn allocations_keep_apart_and_are_aligned_as_cuda_does() {
    for world in (0..3).map(World::from_seed).chain([World::default()]) {
        let mut device = Device::in_world(1 << 32, world);
        let mut placed: Vec<(u64, u64)> = Vec::new();
        for round in 0..30u64 {
            if round == 15 {
                device.move_to(World::from_seed(round));
            }
            let bytes = [100, 4000, 1 << 20, 3 << 20, 33 << 20][round as usize % 5];
            let buffer = device.alloc(bytes, "x").expect("memory");
            assert_eq!(buffer.0 % if bytes >= 1 << 20 { 2 << 20 } else { 512 }, 0, "{buffer:x?}");
            assert!((1 << 40..0x7fff_ffff_ffff).contains(&buffer.0), "{buffer:x?}");
            for (at, size) in &placed {
                let gap = if buffer.0 > *at { buffer.0 - at - size } else { at - buffer.0 - bytes };
                assert!(gap >= 1 << 28, "{gap:x}");
            }
            placed.push((buffer.0, bytes));
            device.write(buffer, &[1; 16]).expect("inside");
        }
        for (at, _) in placed {
            device.free(Buffer(at)).expect("allocated");
        }
    }
}

#[test]
fn a_launch_ends_at_its_time_limit_and_says_so() {
    let endless =
        kernel("mov.u32 %r3, 0; LOOP: add.u32 %r3, %r3, 1; st.volatile.global.u32 [%rd1], %r3; bra LOOP;");
    for checks in [Checks::All, Checks::None] {
        let limit = Some(Duration::from_millis(200));
        let options = Options { checks, budget: u64::MAX, time_limit: limit, ..Options::default() };
        let start = Instant::now();
        let report = run(&endless, World::default(), 2, 32, 1, options).report;
        assert!(start.elapsed() < Duration::from_secs(20));
        assert!(!report.stats.completed);
        let found = report.findings.iter().find(|f| f.kind == Kind::Runaway).expect("a run-away");
        assert!(found.message.contains("time limit of 0.2 seconds"), "{}", found.message);
    }
    let options = Options { budget: 100_000, ..Options::default() };
    let report = run(&endless, World::default(), 2, 32, 1, options).report;
    let found = report.findings.iter().find(|f| f.kind == Kind::Runaway).expect("a run-away");
    assert!(found.message.contains("budget of 100000 warp instructions"), "{}", found.message);
}

#[test]
fn findings_that_are_not_kept_are_counted() {
    let mut body = String::new();
    for i in 0..1203 {
        let _ = writeln!(body, "st.global.u32 [%rd1+{}], %r1;", (1 << 20) + 4 * i);
    }
    let report = run(&kernel(&body), World::default(), 4, 1, 1, Options::default()).report;
    let kept = report.findings.len() as u64;
    assert_eq!(kept + report.dropped_findings, 1203);
    assert!(report.dropped_findings > 0);
}
