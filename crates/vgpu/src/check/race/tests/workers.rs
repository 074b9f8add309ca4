//! Runs blocks on several workers at the same time.

use std::sync::atomic::{AtomicU32, Ordering};

use super::super::*;
use super::machine::{polling, site};

const GLOBAL: u64 = 0x10_0000;

fn row(base: u64) -> [u64; 32] {
    std::array::from_fn(|l| GLOBAL + base + l as u64 * 4)
}

fn block(number: u32) -> BlockRaces {
    let mut b = BlockRaces::default();
    b.start(number, 32, 0);
    b.set_facts(&polling(16));
    b
}

/// Two workers write the same rows at the same time. One of them must detect every instruction's race in every round.
#[test]
fn either_worker_finds_the_race() {
    for round in 0..50 {
        let memory = GlobalRaces::new([(GLOBAL, 1 << 16)]);
        let gate = AtomicU32::new(0);
        let found: Vec<Vec<RaceReport>> = std::thread::scope(|s| {
            let workers: Vec<_> = (0..2)
                .map(|number| {
                    let (memory, gate) = (&memory, &gate);
                    s.spawn(move || {
                        let mut b = block(number);
                        gate.fetch_add(1, Ordering::SeqCst);
                        while gate.load(Ordering::SeqCst) < 2 {
                            std::hint::spin_loop();
                        }
                        for i in 0..64u64 {
                            // One worker goes up, the other down. Some rows cross sectors.
                            let at = if number == 0 { i } else { 63 - i };
                            let site = site(at as u32, 0, u32::MAX);
                            b.global(memory, site, Access::weak(Op::Write), &Ranges::new(&row(at * 132), 4));
                        }
                        b.take_reports()
                    })
                })
                .collect();
            workers.into_iter().map(|w| w.join().expect("worker")).collect()
        });
        let mut rows: Vec<u32> = found.iter().flatten().map(|r| r.second.pc).collect();
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len(), 64, "round {round}");
    }
}

/// A real flag between two workers: what was published is visible when the flag is seen.
#[test]
fn hand_over_between_workers_is_silent() {
    let memory = GlobalRaces::new([(GLOBAL, 1 << 16)]);
    let flag = AtomicU32::new(0);
    let volatile = |op| Access { op, order: Order::Volatile, scope: Scope::Sys };
    let flag_at = [GLOBAL + 0x8000; 32];
    let rounds = 300u32;
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut b = block(0);
            for i in 1..=rounds {
                b.global(
                    &memory,
                    site(1, 0, u32::MAX),
                    Access::weak(Op::Write),
                    &Ranges::new(&row(u64::from(i % 50) * 128), 4),
                );
                b.warp_sync(0, u32::MAX);
                b.fence(0, 1, Scope::Gpu);
                b.global(&memory, site(7, 0, 1), volatile(Op::Write), &Ranges::new(&flag_at, 4));
                flag.store(i, Ordering::Relaxed);
                // Waits for the answer before the row is used again.
                loop {
                    b.global(&memory, site(7, 0, 1), volatile(Op::Read), &Ranges::new(&flag_at, 4));
                    let seen = flag.load(Ordering::Relaxed);
                    b.global_observed(&memory, site(7, 0, 1), volatile(Op::Read), &flag_at, 4);
                    if seen == i | 1 << 31 {
                        break;
                    }
                    std::thread::yield_now();
                }
                b.fence(0, 1, Scope::Gpu);
                b.warp_sync(0, u32::MAX);
            }
            assert!(b.take_reports().iter().all(|r| r.kind == RaceKind::VolatileFlag));
        });
        s.spawn(|| {
            let mut b = block(1);
            for i in 1..=rounds {
                loop {
                    b.global(&memory, site(7, 0, 1), volatile(Op::Read), &Ranges::new(&flag_at, 4));
                    let seen = flag.load(Ordering::Relaxed);
                    b.global_observed(&memory, site(7, 0, 1), volatile(Op::Read), &flag_at, 4);
                    if seen == i {
                        break;
                    }
                    std::thread::yield_now();
                }
                b.fence(0, 1, Scope::Gpu);
                b.warp_sync(0, u32::MAX);
                b.global(
                    &memory,
                    site(2, 0, u32::MAX),
                    Access::weak(Op::Read),
                    &Ranges::new(&row(u64::from(i % 50) * 128), 4),
                );
                b.warp_sync(0, u32::MAX);
                b.fence(0, 1, Scope::Gpu);
                b.global(&memory, site(7, 0, 1), volatile(Op::Write), &Ranges::new(&flag_at, 4));
                flag.store(i | 1 << 31, Ordering::Relaxed);
            }
            assert!(b.take_reports().iter().all(|r| r.kind == RaceKind::VolatileFlag));
        });
    });
}
