//! Compares occupancy with cases computed by hand from the rules of the CUDA occupancy calculator, and checks
//! properties over whole ranges.
//!
//! How a case is computed, for `warps` per block and `r` registers per thread:
//! - registers: a warp takes 32r rounded up to 256; a sub-partition has 16384, so holds 16384 / that, whole;
//!   the SM holds 4 times that many warps; divided by `warps`.
//!   Warps per SM by r: 32: 64, 33-40: 48, 41-48: 40, 64: 32, 65-72: 28, 128: 16, 129-136: 12, 255: 8.
//! - shared: (bytes + 1 KB) rounded up to 128 B into 164 KB (8.0), 100 KB (8.6, 8.9) or 228 KB (9.0).
//! - warps per SM: 64 (8.0, 9.0), 48 (8.6, 8.9), 32 (7.5), divided by `warps`.
//! - blocks per SM: 32 (8.0, 9.0), 24 (8.9), 16 (7.5, 8.6).

use warpsmith_chips::Limiter::{Barriers, Blocks, Registers, SharedMemory, Warps};
use warpsmith_chips::{
    CHIPS, Chip, DoesNotFit, Limiter, Limits, Misfit, NextStep, Resources, Target, next_step, occupancy,
};

const KB: u32 = 1024;

/// Registers per thread, threads per block, shared bytes; blocks per SM and what limits them.
type Case = (u32, u32, u32, u32, &'static [Limiter]);

fn kernel(registers_per_thread: u32, threads_per_block: u32, dynamic_shared_bytes: u32) -> Resources {
    Resources { registers_per_thread, threads_per_block, dynamic_shared_bytes, ..Resources::default() }
}

fn blocks(limits: &Limits, kernel: &Resources) -> u32 {
    occupancy(limits, kernel).map_or(0, |occupancy| occupancy.blocks_per_sm)
}

/// Compute capability 8.9: 48 warps, 24 blocks, 100 KB.
const ADA: &[Case] = &[
    (32, 128, 0, 12, &[Warps]),            // registers 64/4 = 16, warps 48/4 = 12
    (33, 128, 0, 12, &[Registers, Warps]), // registers 48/4 = 12
    (40, 128, 0, 12, &[Registers, Warps]), // the same 1280 registers per warp
    (41, 128, 0, 10, &[Registers]),        // 40/4
    (64, 128, 0, 8, &[Registers]),         // 32/4
    (65, 128, 0, 7, &[Registers]),         // 28/4
    (128, 128, 0, 4, &[Registers]),        // 16/4
    (129, 128, 0, 3, &[Registers]),        // 12/4
    (255, 128, 0, 2, &[Registers]),        // 8/4
    (32, 1024, 0, 1, &[Warps]),            // registers 64/32 = 2, warps 48/32 = 1
    (64, 1024, 0, 1, &[Registers, Warps]), // registers 32/32 = 1
    (255, 256, 0, 1, &[Registers]),        // 8/8: the largest block with every register
    (32, 768, 0, 2, &[Registers, Warps]),  // registers 64/24 = 2, warps 48/24 = 2
    (32, 96, 0, 16, &[Warps]),             // 3 warps: registers 64/3 = 21, warps 48/3 = 16
    (128, 96, 0, 5, &[Registers]),         // 16/3: a block of 3 warps takes 3, not 4 (which would give 4)
    (64, 33, 0, 16, &[Registers]),         // 2 warps: 32/2
    (32, 33, 0, 24, &[Warps, Blocks]),     // registers 64/2 = 32, warps 48/2 = 24
    (32, 1, 0, 24, &[Blocks]),             // registers 64, warps 48
    (255, 1, 0, 8, &[Registers]),          // 8/1
    (0, 32, 0, 24, &[Blocks]),             // no registers at all
    (32, 128, 3 * KB + 128, 12, &[Warps]), // 4.125 KB: 24 blocks would fit
    (32, 32, 3 * KB + 128, 24, &[SharedMemory, Blocks]), // 100/4.125 = 24.2
    (32, 32, 3 * KB + 129, 23, &[SharedMemory]), // 4.25 KB: 23.5
    (128, 128, 24 * KB, 4, &[Registers, SharedMemory]), // 100/25 = 4
    (32, 128, 24 * KB + 1, 3, &[SharedMemory]), // 25.125 KB: 3.98
    (32, 128, 48 * KB, 2, &[SharedMemory]), // 100/49
    (32, 128, 49 * KB, 2, &[SharedMemory]), // 100/50
    (32, 128, 49 * KB + 1, 1, &[SharedMemory]), // 50.125 KB
    (32, 128, 99 * KB, 1, &[SharedMemory]), // 100/100
];

/// Compute capability 8.0: 64 warps, 32 blocks, 164 KB.
const A100: &[Case] = &[
    (32, 128, 0, 16, &[Registers, Warps]),        // 64/4 both
    (33, 128, 0, 12, &[Registers]),               // 48/4
    (64, 128, 0, 8, &[Registers]),                // 32/4
    (65, 128, 0, 7, &[Registers]),                // 28/4
    (128, 128, 0, 4, &[Registers]),               // 16/4
    (129, 128, 0, 3, &[Registers]),               // 12/4
    (255, 128, 0, 2, &[Registers]),               // 8/4
    (32, 1024, 0, 2, &[Registers, Warps]),        // 64/32 both
    (33, 1024, 0, 1, &[Registers]),               // 48/32
    (64, 1024, 0, 1, &[Registers]),               // 32/32; warps 2
    (32, 96, 0, 21, &[Registers, Warps]),         // 64/3 both
    (128, 96, 0, 5, &[Registers]),                // 16/3
    (32, 33, 0, 32, &[Registers, Warps, Blocks]), // 64/2 both, and 32 blocks
    (33, 33, 0, 24, &[Registers]),                // 48/2
    (16, 1, 0, 32, &[Blocks]),                    // registers 128, warps 64
    (255, 1, 0, 8, &[Registers]),                 // 8/1
    (32, 128, 40 * KB, 4, &[SharedMemory]),       // 164/41
    (128, 128, 40 * KB, 4, &[Registers, SharedMemory]),
    (32, 128, 48 * KB, 3, &[SharedMemory]),     // 164/49 = 3.3
    (32, 128, 81 * KB, 2, &[SharedMemory]),     // 164/82
    (32, 128, 81 * KB + 1, 1, &[SharedMemory]), // 82.125 KB
    (32, 128, 99 * KB, 1, &[SharedMemory]),     // 164/100
    (32, 128, 163 * KB, 1, &[SharedMemory]),    // 164/164
];

/// Compute capability 9.0: 64 warps, 32 blocks, 228 KB.
const HOPPER: &[Case] = &[
    (32, 128, 0, 16, &[Registers, Warps]),              // 64/4 both
    (33, 128, 0, 12, &[Registers]),                     // 48/4
    (64, 128, 0, 8, &[Registers]),                      // 32/4
    (65, 128, 0, 7, &[Registers]),                      // 28/4
    (128, 128, 0, 4, &[Registers]),                     // 16/4
    (129, 128, 0, 3, &[Registers]),                     // 12/4
    (255, 128, 0, 2, &[Registers]),                     // 8/4
    (32, 1024, 0, 2, &[Registers, Warps]),              // 64/32 both
    (168, 384, 0, 1, &[Registers]), // 5376 per warp: 3 x 4 = 12 warps, 12/12: FlashAttention-3's shape
    (168, 288, 0, 1, &[Registers]), // 12/9
    (32, 96, 0, 21, &[Registers, Warps]), // 64/3 both
    (128, 96, 0, 5, &[Registers]),  // 16/3
    (64, 33, 0, 16, &[Registers]),  // 32/2
    (32, 1, 0, 32, &[Blocks]),      // 64/1 both
    (255, 1, 0, 8, &[Registers]),   // 8/1
    (32, 128, 48 * KB, 4, &[SharedMemory]), // 228/49 = 4.7
    (128, 128, 56 * KB, 4, &[Registers, SharedMemory]), // 228/57
    (32, 128, 75 * KB, 3, &[SharedMemory]), // 228/76
    (32, 128, 100 * KB, 2, &[SharedMemory]), // 228/101
    (32, 128, 113 * KB, 2, &[SharedMemory]), // 228/114
    (32, 128, 113 * KB + 1, 1, &[SharedMemory]), // 114.125 KB
    (32, 128, 163 * KB, 1, &[SharedMemory]), // 228/164
    (32, 128, 227 * KB, 1, &[SharedMemory]), // 228/228
];

/// Compute capability 8.6: as 8.9, but 16 blocks.
const SM_86: &[Case] = &[
    (32, 32, 0, 16, &[Blocks]),            // registers 64, warps 48
    (32, 96, 0, 16, &[Warps, Blocks]),     // warps 48/3
    (64, 33, 0, 16, &[Registers, Blocks]), // 32/2
    (32, 128, 99 * KB, 1, &[SharedMemory]),
];

/// Compute capability 7.5: 32 warps, 16 blocks, 64 KB, nothing reserved, in units of 256 B.
const SM_75: &[Case] = &[
    (32, 64, 0, 16, &[Warps, Blocks]), // warps 32/2; registers 64/2 = 32; no shared memory at all
    (64, 1024, 0, 1, &[Registers, Warps]), // 32/32 both
    (32, 64, 32 * KB, 2, &[SharedMemory]), // 64/32
    (32, 64, 32 * KB + 1, 1, &[SharedMemory]), // 32.25 KB
    (32, 64, 64 * KB, 1, &[SharedMemory]),
];

#[track_caller]
fn check(limits: &Limits, cases: &[Case]) {
    for &(registers, threads, shared, expected, limiters) in cases {
        let what =
            format!("{registers} registers, {threads} threads, {shared} B on {}", limits.compute_capability);
        let occupancy = occupancy(limits, &kernel(registers, threads, shared)).expect(&what);
        assert_eq!(occupancy.blocks_per_sm, expected, "{what}: {occupancy:?}");
        assert_eq!(occupancy.limiters, limiters, "{what}: {occupancy:?}");
        assert_eq!(occupancy.active_warps, expected * threads.div_ceil(32), "{what}");
        assert_eq!(
            occupancy.fraction,
            f64::from(occupancy.active_warps) / f64::from(limits.max_warps_per_sm),
            "{what}"
        );
    }
}

fn chip(name: &str) -> &'static Chip {
    Chip::by_name(name).expect("a GPU of the table")
}

#[test]
fn known_cases_l4() {
    check(chip("l4").limits(), ADA);
}

#[test]
fn known_cases_rtx4090() {
    check(chip("rtx4090").limits(), ADA);
}

#[test]
fn known_cases_a100() {
    check(chip("a100").limits(), A100);
}

#[test]
fn known_cases_h100() {
    check(chip("h100").limits(), HOPPER);
}

#[test]
fn known_cases_h200() {
    check(chip("h200").limits(), HOPPER);
}

#[test]
fn known_cases_of_targets_without_a_gpu_in_the_table() {
    check(Target::Sm86.limits(), SM_86);
    check(Target::Sm75.limits(), SM_75);
    check(Target::Sm90.limits(), HOPPER);
}

#[test]
fn the_fraction_is_active_warps_over_all_warps() {
    let fraction =
        |name, registers, threads| chip(name).occupancy(&kernel(registers, threads, 0)).unwrap().fraction;
    assert_eq!(fraction("l4", 32, 768), 1.0); // 2 x 24 of 48
    assert_eq!(fraction("l4", 32, 1024), 2.0 / 3.0); // 32 of 48
    assert_eq!(fraction("h200", 128, 256), 0.25); // 2 x 8 of 64
    assert_eq!(fraction("a100", 255, 1), 0.125); // 8 of 64
}

/// Hopper has 64 barriers per SM; older chips do not count them.
#[test]
fn barriers_limit_blocks() {
    let with = |name, barriers| {
        let kernel = Resources { barriers, ..kernel(16, 32, 0) };
        let occupancy = chip(name).occupancy(&kernel).unwrap();
        (occupancy.blocks_per_sm, occupancy.limiters)
    };
    assert_eq!(with("h200", 1), (32, vec![Blocks])); // 64/1
    assert_eq!(with("h200", 2), (32, vec![Blocks, Barriers])); // 64/2
    assert_eq!(with("h200", 3), (21, vec![Barriers])); // 64/3
    assert_eq!(with("h100", 16), (4, vec![Barriers])); // 64/16
    assert_eq!(with("a100", 16), (32, vec![Blocks]));
    assert_eq!(with("l4", 16), (24, vec![Blocks]));
}

/// Static and dynamic shared memory count the same.
#[test]
fn static_and_dynamic_shared_memory_add_up() {
    let l4 = chip("l4");
    let split = Resources { static_shared_bytes: 20 * KB, ..kernel(32, 128, 29 * KB) };
    let whole = l4.occupancy(&kernel(32, 128, 49 * KB)).unwrap();
    assert_eq!(l4.occupancy(&split).unwrap(), whole);
    assert!(whole.needs_shared_opt_in);
    assert!(!l4.occupancy(&kernel(32, 128, 48 * KB)).unwrap().needs_shared_opt_in);
}

#[test]
fn the_resources_of_a_block_and_its_carveout() {
    let taken = |name: &str, registers, threads, shared| {
        let occupancy = chip(name).occupancy(&kernel(registers, threads, shared)).unwrap();
        (occupancy.registers_per_block, occupancy.shared_per_block, occupancy.shared_carveout)
    };
    // 4 warps x 1280; 1 KB; 12 KB of 12 blocks.
    assert_eq!(taken("l4", 33, 128, 0), (5120, KB, 16 * KB));
    // 8192 x 4; 48 KB + 1 KB; 2 blocks are 98 KB.
    assert_eq!(taken("l4", 255, 128, 48 * KB), (32768, 49 * KB, 100 * KB));
    // 100 B + 1 KB round up to 1152 B; 16 blocks are 18 KB.
    assert_eq!(taken("h200", 32, 128, 100), (4096, 1152, 32 * KB));
    // One block of 101 KB.
    assert_eq!(taken("h200", 255, 256, 100 * KB), (65536, 101 * KB, 132 * KB));
}

/// A kernel that exceeds a limit by one gets an error with the numbers.
#[test]
fn every_limit_is_checked() {
    let errors = |name: &str, kernel: Resources| {
        let DoesNotFit { misfits } = chip(name).occupancy(&kernel).unwrap_err();
        misfits
    };
    let shared = |dynamic_bytes, limit| Misfit::SharedPerBlock { static_bytes: 0, dynamic_bytes, limit };

    for (name, limit) in
        [("l4", 99 * KB), ("rtx4090", 99 * KB), ("a100", 163 * KB), ("h100", 227 * KB), ("h200", 227 * KB)]
    {
        assert_eq!(errors(name, kernel(32, 128, limit + 1)), [shared(limit + 1, limit)]);
        assert_eq!(errors(name, kernel(32, 128, limit + KB)), [shared(limit + KB, limit)]);
    }
    assert_eq!(
        errors("l4", Resources { static_shared_bytes: 48 * KB, ..kernel(32, 128, 51 * KB + 1) }),
        [Misfit::SharedPerBlock { static_bytes: 48 * KB, dynamic_bytes: 51 * KB + 1, limit: 99 * KB }]
    );
    assert_eq!(
        errors("l4", Resources { static_shared_bytes: 48 * KB + 1, ..kernel(32, 128, 0) }),
        [Misfit::StaticShared { asked: 48 * KB + 1, limit: 48 * KB }]
    );
    assert_eq!(errors("l4", kernel(32, 0, 0)), [Misfit::NoThreads]);
    assert_eq!(errors("l4", kernel(32, 1025, 0)), [Misfit::ThreadsPerBlock { asked: 1025, limit: 1024 }]);
    assert_eq!(errors("l4", kernel(256, 32, 0)), [Misfit::RegistersPerThread { asked: 256, limit: 255 }]);
    assert_eq!(
        errors("l4", Resources { barriers: 17, ..kernel(32, 32, 0) }),
        [Misfit::Barriers { asked: 17, limit: 16 }]
    );
    // 32 warps x 2304.
    assert_eq!(
        errors("h200", kernel(65, 1024, 0)),
        [Misfit::RegistersPerBlock { per_thread: 65, threads: 1024, takes: 73728, limit: 65536 }]
    );
    // 9 warps x 5632 = 50688 would fit the register file, but not evenly over the sub-partitions: 12 x 5632.
    assert_eq!(
        errors("h200", kernel(169, 288, 0)),
        [Misfit::RegistersPerBlock { per_thread: 169, threads: 288, takes: 67584, limit: 65536 }]
    );
    // Every reason at once, and no overflow with extreme values.
    let max = u32::MAX;
    let extreme = Resources {
        registers_per_thread: max,
        static_shared_bytes: max,
        dynamic_shared_bytes: max,
        threads_per_block: max,
        barriers: max,
    };
    assert_eq!(errors("l4", extreme).len(), 5);
    assert_eq!(next_step(chip("l4").limits(), &extreme), None);
}

#[test]
fn errors_and_summaries_have_the_expected_text() {
    let error = |kernel: &Resources| chip("l4").occupancy(kernel).unwrap_err().to_string();
    assert_eq!(
        error(&kernel(32, 128, 100 * KB)),
        "the kernel does not fit: 102400 B of shared memory per block (limit 101376)"
    );
    assert_eq!(
        error(&Resources { static_shared_bytes: KB, ..kernel(65, 1024, 99 * KB) }),
        "the kernel does not fit: 1024 threads x 65 registers take 73728 registers (limit 65536 per block); \
         102400 B of shared memory per block: 1024 static + 101376 dynamic (limit 101376)"
    );

    let l4 = chip("l4");
    let text = |kernel: &Resources| l4.occupancy(kernel).unwrap().to_string();
    assert_eq!(text(&kernel(65, 128, 0)), "7 blocks, 28 of 48 warps (58%), limited by registers");
    assert_eq!(text(&kernel(32, 1024, 0)), "1 block, 32 of 48 warps (67%), limited by warps");
    assert_eq!(
        text(&kernel(128, 128, 24 * KB)),
        "4 blocks, 16 of 48 warps (33%), limited by registers and shared memory"
    );
    assert_eq!(
        l4.next_step(&kernel(128, 128, 24 * KB)).unwrap().to_string(),
        "5 blocks per SM with at most 96 registers per thread and at most 19456 B of shared memory per block"
    );
}

#[test]
fn the_next_step_names_the_resources_to_reduce() {
    let none = NextStep {
        blocks_per_sm: 0,
        threads_per_block: None,
        registers_per_thread: None,
        shared_bytes: None,
        barriers: None,
    };
    let next = |name: &str, kernel: Resources| chip(name).next_step(&kernel);

    // 8 blocks are 32 warps, 8 per sub-partition: 2048 registers each.
    assert_eq!(
        next("l4", kernel(65, 128, 0)),
        Some(NextStep { blocks_per_sm: 8, registers_per_thread: Some(64), ..none })
    );
    // 100 KB / 3, less 1 KB, in units of 128 B.
    assert_eq!(
        next("l4", kernel(32, 128, 48 * KB)),
        Some(NextStep { blocks_per_sm: 3, shared_bytes: Some(33024), ..none })
    );
    // 48 warps / 2.
    assert_eq!(
        next("l4", kernel(32, 1024, 0)),
        Some(NextStep { blocks_per_sm: 2, threads_per_block: Some(768), ..none })
    );
    // 64 barriers / 5.
    assert_eq!(
        next("h200", Resources { barriers: 16, ..kernel(16, 32, 0) }),
        Some(NextStep { blocks_per_sm: 5, barriers: Some(12), ..none })
    );
    // No block fits: what the first block needs.
    assert_eq!(
        next("h200", kernel(169, 288, 228 * KB)),
        Some(NextStep {
            blocks_per_sm: 1,
            registers_per_thread: Some(168),
            shared_bytes: Some(227 * KB),
            ..none
        })
    );
    // The SM holds no more blocks.
    assert_eq!(next("l4", kernel(16, 32, 0)), None);
    assert_eq!(next("l4", kernel(16, 0, 0)), None);
    assert_eq!(next("l4", Resources { static_shared_bytes: 49 * KB, ..kernel(16, 32, 0) }), None);
}

// Properties over whole ranges instead of samples: register counts and block sizes are few.

/// Amounts of shared memory around every carve-out and every even share of it, and the limits.
fn shared_amounts(limits: &Limits) -> Vec<u32> {
    let mut amounts = vec![0, 1, 48 * KB, 48 * KB + 1];
    let shares = (1..=limits.max_blocks_per_sm).map(|blocks| limits.shared_per_sm / blocks);
    for edge in shares.chain(limits.shared_carveouts.iter().copied()) {
        let edge = edge.saturating_sub(limits.shared_reserved_per_block);
        amounts.extend([edge.saturating_sub(128), edge.saturating_sub(1), edge, edge + 1, edge + 128]);
    }
    amounts.sort_unstable();
    amounts.dedup();
    amounts
}

fn each_target(test: impl Fn(&'static Limits)) {
    for target in [Target::Sm75, Target::Sm80, Target::Sm86, Target::Sm89, Target::Sm90] {
        test(target.limits());
    }
}

/// More of any resource never allows more blocks.
#[test]
fn monotonic_in_every_resource() {
    each_target(|limits| {
        for threads in 1..=1025 {
            let mut last = u32::MAX;
            for registers in 0..=256 {
                let now = blocks(limits, &kernel(registers, threads, 0));
                assert!(now <= last, "{threads} threads, {registers} registers");
                last = now;
            }
        }
        for registers in 0..=256 {
            let mut last = u32::MAX;
            for threads in 1..=1025 {
                let now = blocks(limits, &kernel(registers, threads, 0));
                assert!(now <= last, "{registers} registers, {threads} threads");
                last = now;
            }
        }
        for (registers, threads) in
            [(0, 1), (32, 32), (40, 96), (64, 128), (128, 256), (255, 256), (64, 1024)]
        {
            let mut last = u32::MAX;
            for shared in 0..=limits.shared_per_sm + 1 {
                let now = blocks(limits, &kernel(registers, threads, shared));
                assert!(now <= last, "{registers} registers, {threads} threads, {shared} B");
                last = now;
            }
            let mut last = u32::MAX;
            for barriers in 0..=17 {
                let now = blocks(limits, &Resources { barriers, ..kernel(registers, threads, 0) });
                assert!(now <= last, "{registers} registers, {threads} threads, {barriers} barriers");
                last = now;
            }
        }
    });
}

/// The blocks fit the SM, and one more does not.
#[test]
fn blocks_fill_the_sm() {
    each_target(|limits| {
        let shared_amounts = shared_amounts(limits);
        for threads in (1..=1024).step_by(31).chain([96, 128, 256, 384, 512, 768, 1024]) {
            for registers in (0..=255).step_by(5).chain([32, 33, 64, 128, 129, 168]) {
                for &shared in &shared_amounts {
                    let kernel = kernel(registers, threads, shared);
                    let Ok(occupancy) = occupancy(limits, &kernel) else { continue };
                    let what = || format!("{kernel:?} on {}: {occupancy:?}", limits.compute_capability);
                    let fits = |blocks: u32| {
                        let warps = blocks * occupancy.warps_per_block;
                        let registers_per_warp = occupancy.registers_per_block / occupancy.warps_per_block;
                        blocks <= limits.max_blocks_per_sm
                            && warps <= limits.max_warps_per_sm
                            && blocks * occupancy.shared_per_block <= limits.shared_per_sm
                            // Warps spread evenly over the sub-partitions.
                            && warps.div_ceil(4) * registers_per_warp <= limits.registers_per_sm / 4
                    };
                    assert!(occupancy.blocks_per_sm >= 1, "{}", what());
                    assert!(fits(occupancy.blocks_per_sm), "{}", what());
                    assert!(!fits(occupancy.blocks_per_sm + 1), "{}", what());
                    assert!(!occupancy.limiters.is_empty(), "{}", what());
                    assert!(occupancy.fraction > 0.0 && occupancy.fraction <= 1.0, "{}", what());
                    assert!(
                        occupancy.shared_carveout >= occupancy.blocks_per_sm * occupancy.shared_per_block,
                        "{}",
                        what()
                    );
                }
            }
        }
    });
}

/// A next step is sufficient, and one unit more in any of its values is not.
#[test]
fn next_steps_suffice_and_are_needed() {
    each_target(|limits| {
        let shared_amounts = shared_amounts(limits);
        for threads in [0, 1, 32, 33, 96, 128, 160, 256, 288, 384, 480, 512, 768, 1000, 1024, 1025, 2000] {
            for registers in (0..=257).step_by(7).chain([64, 128, 168, 255]) {
                for &shared in &shared_amounts {
                    for barriers in [0, 1, 3, 16, 17] {
                        let before = Resources { barriers, ..kernel(registers, threads, shared) };
                        let Some(step) = next_step(limits, &before) else {
                            let full = blocks(limits, &before) == limits.max_blocks_per_sm;
                            assert!(full || threads == 0, "{before:?}");
                            continue;
                        };
                        assert_eq!(step.blocks_per_sm, blocks(limits, &before) + 1);

                        let after = Resources {
                            registers_per_thread: step.registers_per_thread.unwrap_or(registers),
                            dynamic_shared_bytes: step.shared_bytes.unwrap_or(shared),
                            threads_per_block: step.threads_per_block.unwrap_or(threads),
                            barriers: step.barriers.unwrap_or(barriers),
                            ..before
                        };
                        assert!(blocks(limits, &after) >= step.blocks_per_sm, "{before:?}: {step:?}");

                        let mut too_much = Vec::new();
                        if let Some(most) = step.registers_per_thread {
                            too_much.push(Resources { registers_per_thread: most + 1, ..after });
                        }
                        if let Some(most) = step.shared_bytes {
                            too_much.push(Resources { dynamic_shared_bytes: most + 1, ..after });
                        }
                        if let Some(most) = step.threads_per_block {
                            too_much.push(Resources { threads_per_block: most + 1, ..after });
                        }
                        if let Some(most) = step.barriers {
                            too_much.push(Resources { barriers: most + 1, ..after });
                        }
                        assert!(!too_much.is_empty(), "{before:?}: {step:?}");
                        for resources in too_much {
                            assert!(
                                blocks(limits, &resources) < step.blocks_per_sm,
                                "{resources:?}: {step:?}"
                            );
                        }
                    }
                }
            }
        }
    });
}

/// A chip has the occupancy of its compute capability.
#[test]
fn chips_use_the_limits_of_their_compute_capability() {
    let kernel = kernel(96, 256, 30 * KB);
    for chip in &CHIPS {
        assert_eq!(chip.occupancy(&kernel), occupancy(chip.target.limits(), &kernel));
        assert_eq!(chip.next_step(&kernel), next_step(chip.target.limits(), &kernel));
    }
}
