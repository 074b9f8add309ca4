//! Patterns of real kernels, each in a racy and in a correct version.

use super::super::Op::{Atomic, Read, Write};
use super::super::*;
use super::machine::*;

/// Runs a pattern with and without the synchronisation that makes it correct.
fn twin(expected: RaceKind, blocks: u32, threads: u32, run: impl Fn(&mut Machine, bool)) {
    let mut machine = Machine::new(blocks, threads);
    run(&mut machine, true);
    assert_eq!(machine.kinds(), [], "false alarm");
    let mut machine = Machine::new(blocks, threads);
    run(&mut machine, false);
    let kinds = machine.kinds();
    assert!(kinds.contains(&expected), "expected {expected:?}, got {kinds:?}");
}

#[test]
fn fill_barrier_read() {
    twin(RaceKind::Shared, 1, 64, |m, right| {
        m.sh_warp(0, 0, Write, 0, 1);
        m.sh_warp(0, 1, Write, 32, 1);
        if right {
            m.syncthreads(0);
        }
        m.sh_warp(0, 0, Read, 32, 1);
        m.sh_warp(0, 1, Read, 0, 1);
    });
}

#[test]
fn tile_reused_before_all_have_read_it() {
    twin(RaceKind::Shared, 1, 64, |m, right| {
        for _ in 0..3 {
            m.sh_warp(0, 0, Write, 0, 1);
            m.syncthreads(0);
            m.sh_warp(0, 0, Read, 0, 1);
            m.sh_warp(0, 1, Read, 0, 1);
            if right {
                m.syncthreads(0);
            }
        }
    });
}

#[test]
fn one_barrier_per_iteration_needs_two_buffers() {
    twin(RaceKind::Shared, 1, 64, |m, right| {
        for i in 0..4 {
            let buffer = if right { (i % 2) * 64 } else { 0 };
            m.sh_warp(0, 0, Write, buffer, 1);
            m.sh_warp(0, 1, Write, buffer + 32, 1);
            m.syncthreads(0);
            m.sh_warp(0, 0, Read, buffer + 32, 1);
            m.sh_warp(0, 1, Read, buffer, 1);
        }
    });
}

#[test]
fn private_slots_need_nothing() {
    let mut m = Machine::block(64);
    for _ in 0..3 {
        for warp in 0..2 {
            m.sh_warp(0, warp, Read, warp * 32, 1);
            m.sh_warp(0, warp, Write, warp * 32, 1);
            m.gl_warp(0, warp, Read, u64::from(warp) * 32);
            m.gl_warp(0, warp, Write, u64::from(warp) * 32);
        }
    }
    assert_eq!(m.kinds(), []);
}

#[test]
fn warp_tail_needs_syncwarp() {
    twin(RaceKind::IntraWarp, 1, 32, |m, right| {
        m.sh_warp(0, 0, Write, 0, 1);
        for _ in [16, 8, 4] {
            if right {
                m.blocks[0].warp_sync(0, u32::MAX);
            }
            m.sh_warp(0, 0, Read, 1, 1);
            if right {
                m.blocks[0].warp_sync(0, u32::MAX);
            }
            m.sh_warp(0, 0, Write, 0, 1);
        }
    });
}

#[test]
fn tile_of_sixteen_syncs_only_itself() {
    twin(RaceKind::IntraWarp, 1, 32, |m, right| {
        m.sh_warp(0, 0, Write, 0, 1);
        m.blocks[0].warp_sync(0, 0x0000_ffff);
        m.blocks[0].warp_sync(0, 0xffff_0000);
        m.sh(0, 3, Read, WEAK, if right { 12 } else { 20 });
        m.sh(0, 30, Read, WEAK, if right { 16 } else { 1 });
    });
}

#[test]
fn partial_masks_chain() {
    // Lanes 0 and 1 synchronise, then lanes 1 and 2. Lane 2 knows about lane 0 only if its sync is the second.
    twin(RaceKind::IntraWarp, 1, 32, |m, right| {
        m.sh(0, 0, Write, WEAK, 5);
        let (a, b) = if right { (0b011, 0b110) } else { (0b110, 0b011) };
        m.blocks[0].warp_sync(0, a);
        m.blocks[0].warp_sync(0, b);
        m.sh(0, 2, Read, WEAK, 5);
    });
}

#[test]
fn lanes_store_to_one_place() {
    let mut m = Machine::block(32);
    m.sh_warp(0, 0, Write, 7, 0);
    assert_eq!(m.kinds(), [RaceKind::IntraWarp]);
}

#[test]
fn same_value_is_a_note_until_read() {
    let mut m = Machine::block(64);
    m.same_values(true);
    m.sh(0, 0, Write, WEAK, 3);
    m.sh(0, 40, Write, WEAK, 3);
    m.gl(0, 0, Write, WEAK, 3);
    m.gl(0, 40, Write, WEAK, 3);
    m.syncthreads(0);
    m.sh(0, 5, Read, WEAK, 3);
    m.gl(0, 5, Read, WEAK, 3);
    assert_eq!(m.notes(), 2);
    assert_eq!(m.kinds(), []);
    m.syncthreads(0);
    m.sh(0, 0, Write, WEAK, 3);
    m.sh(0, 40, Write, WEAK, 3);
    // Thread 40 is ordered after its own write, not after the write of thread 0.
    m.sh(0, 40, Read, WEAK, 3);
    assert_eq!(m.kinds(), [RaceKind::Shared]);
}

#[test]
fn neighbouring_bytes_do_not_conflict() {
    twin(RaceKind::Shared, 1, 64, |m, right| {
        m.sh_bytes(0, 0, Write, WEAK, 8, 2);
        m.sh_bytes(0, 32, Write, WEAK, if right { 10 } else { 9 }, 1);
        m.sh_bytes(0, 1, Write, WEAK, 12, 2);
    });
    twin(RaceKind::Global, 2, 32, |m, right| {
        m.gl_bytes(0, 0, Write, WEAK, 8, 2);
        m.gl_bytes(1, 0, Write, WEAK, if right { 10 } else { 9 }, 1);
    });
}

#[test]
fn granules_refine_without_losing_readers() {
    let mut m = Machine::block(96);
    m.sh(0, 0, Read, WEAK, 2);
    m.sh(0, 32, Read, WEAK, 2);
    m.sh(0, 64, Write, WEAK, 9);
    m.sh_bytes(0, 64, Write, WEAK, 10, 1);
    assert_eq!(m.kinds(), [RaceKind::Shared, RaceKind::Shared]);
}

#[test]
fn block_writes_its_own_output() {
    twin(RaceKind::Global, 2, 32, |m, right| {
        m.gl_warp(0, 0, Write, 0);
        m.gl_warp(1, 0, Write, if right { 32 } else { 0 });
    });
}

#[test]
fn inputs_are_read_by_all() {
    let mut m = Machine::new(5, 32);
    for round in 0..2 {
        for b in 0..5 {
            m.gl_warp(b, 0, Read, 0);
            m.gl_warp(b, 0, Write, 64 + u64::from(b) * 32);
        }
        if round == 0 {
            m.syncthreads(0);
        }
    }
    assert_eq!(m.kinds(), []);
    m.gl(4, 3, Write, WEAK, 9);
    assert_eq!(m.kinds(), [RaceKind::Global, RaceKind::Global], "both readers of the sample");
}

#[test]
fn reread_after_barrier_then_written_by_a_neighbour() {
    // The second read is the one that races, and another block holds the first place in the sample.
    twin(RaceKind::IntraWarp, 1, 32, |m, right| {
        m.gl_warp(0, 0, Read, 0);
        m.syncthreads(0);
        m.gl_warp(0, 0, Read, 0);
        if right {
            m.syncthreads(0);
        }
        m.gl(0, 4, Write, WEAK, 9);
    });
}

#[test]
fn histogram_needs_atomics() {
    twin(RaceKind::Shared, 1, 64, |m, right| {
        for t in [0, 33, 2] {
            if right {
                m.sh(0, t, Atomic, RELAXED, 4);
            } else {
                m.sh(0, t, Read, WEAK, 4);
                m.sh(0, t, Write, WEAK, 4);
            }
            if t == 33 && !right {
                return;
            }
        }
        m.syncthreads(0);
        m.sh(0, 9, Read, WEAK, 4);
    });
}

#[test]
fn plain_read_among_atomics() {
    twin(RaceKind::Shared, 1, 64, |m, right| {
        m.sh(0, 33, Atomic, RELAXED, 4);
        m.sh(0, 0, Atomic, RELAXED, 4);
        if right {
            m.syncthreads(0);
        }
        // The last atomic belongs to the reader itself.
        m.sh(0, 0, Read, WEAK, 4);
    });
    twin(RaceKind::Global, 2, 32, |m, right| {
        m.gl(1, 0, Atomic, RELAXED, 4);
        m.gl(0, 0, Atomic, RELAXED, 4);
        m.gl(0, 0, Read, if right { VOLATILE } else { WEAK }, 4);
    });
}

#[test]
fn atomics_of_block_scope_across_blocks() {
    twin(RaceKind::ScopeTooNarrow, 2, 32, |m, right| {
        let how = if right { RELAXED } else { BLOCK };
        m.gl(0, 0, Atomic, how, 4);
        m.gl(1, 0, Atomic, how, 4);
    });
    let mut m = Machine::new(2, 64);
    m.gl(0, 0, Atomic, BLOCK, 4);
    m.gl(0, 40, Atomic, BLOCK, 4);
    assert_eq!(m.kinds(), []);
}

fn message(m: &mut Machine, release: Option<Scope>, acquire: Option<Scope>, how: (Order, Scope)) {
    m.gl(0, 0, Write, WEAK, 100);
    if let Some(scope) = release {
        m.fence(0, 0, scope);
    }
    m.gl(0, 0, Write, how, 0);
    m.gl(1, 0, Read, how, 0);
    if let Some(scope) = acquire {
        m.fence(1, 0, scope);
    }
    m.gl(1, 0, Read, WEAK, 100);
}

#[test]
fn message_with_fences() {
    for how in [VOLATILE, RELAXED] {
        twin(RaceKind::MissingRelease, 2, 32, |m, right| {
            message(m, right.then_some(Scope::Gpu), Some(Scope::Gpu), how);
        });
        twin(RaceKind::MissingAcquire, 2, 32, |m, right| {
            message(m, Some(Scope::Sys), right.then_some(Scope::Gpu), how);
        });
        twin(RaceKind::ScopeTooNarrow, 2, 32, |m, right| {
            message(m, Some(if right { Scope::Gpu } else { Scope::Cta }), Some(Scope::Gpu), how);
        });
        twin(RaceKind::ScopeTooNarrow, 2, 32, |m, right| {
            message(m, Some(Scope::Gpu), Some(if right { Scope::Gpu } else { Scope::Cta }), how);
        });
    }
}

#[test]
fn plain_flag_is_a_race() {
    let mut m = Machine::new(2, 32);
    m.gl(0, 0, Write, WEAK, 100);
    m.fence(0, 0, Scope::Gpu);
    m.gl(0, 0, Write, WEAK, 0);
    m.gl(1, 0, Read, WEAK, 0);
    m.fence(1, 0, Scope::Gpu);
    m.gl(1, 0, Read, WEAK, 100);
    assert!(m.kinds().contains(&RaceKind::Global));
}

#[test]
fn message_with_release_and_acquire() {
    for (w, r, expected) in
        [(RELAXED, ACQUIRE, RaceKind::MissingRelease), (RELEASE, RELAXED, RaceKind::MissingAcquire)]
    {
        twin(expected, 2, 32, |m, right| {
            m.gl(0, 0, Write, WEAK, 100);
            m.gl(0, 0, Write, if right { RELEASE } else { w }, 0);
            m.gl(1, 0, Read, if right { ACQUIRE } else { r }, 0);
            m.gl(1, 0, Read, WEAK, 100);
        });
    }
}

#[test]
fn data_after_the_fence_is_not_published() {
    twin(RaceKind::MissingRelease, 2, 32, |m, right| {
        if right {
            m.gl(0, 0, Write, WEAK, 100);
        }
        m.fence(0, 0, Scope::Gpu);
        if !right {
            m.gl(0, 0, Write, WEAK, 100);
        }
        m.gl(0, 0, Write, VOLATILE, 0);
        m.gl(1, 0, Read, VOLATILE, 0);
        m.fence(1, 0, Scope::Gpu);
        m.gl(1, 0, Read, WEAK, 100);
    });
}

#[test]
fn other_lanes_data_needs_syncwarp_before_the_flag() {
    twin(RaceKind::MissingRelease, 2, 32, |m, right| {
        m.gl_warp(0, 0, Write, 100);
        if right {
            m.blocks[0].warp_sync(0, u32::MAX);
        }
        m.fence(0, 0, Scope::Gpu);
        m.gl(0, 0, Write, VOLATILE, 0);
        m.gl(1, 0, Read, VOLATILE, 0);
        m.fence(1, 0, Scope::Gpu);
        m.blocks[1].warp_sync(0, u32::MAX);
        m.gl_warp(1, 0, Read, 100);
    });
}

#[test]
fn all_fence_then_barrier_then_one_flag() {
    let mut m = Machine::new(2, 64);
    for w in 0..2 {
        m.gl_warp(0, w, Write, 100 + u64::from(w) * 32);
        m.blocks[0].fence(w, u32::MAX, Scope::Gpu);
    }
    m.syncthreads(0);
    m.gl(0, 0, Atomic, RELAXED, 0);
    m.gl(1, 0, Atomic, RELAXED, 0);
    m.fence(1, 0, Scope::Gpu);
    m.syncthreads(1);
    m.gl_warp(1, 1, Read, 100);
    m.gl_warp(1, 0, Read, 132);
    assert_eq!(m.kinds(), []);
}

#[test]
fn last_block_sums_up() {
    // Blocks write partial sums, fence, and increment a counter. The last block reads all sums.
    twin(RaceKind::MissingRelease, 6, 64, |m, right| {
        for b in 0..6 {
            m.gl(b, 0, Write, WEAK, 100 + u64::from(b));
            if right {
                m.fence(b, 0, Scope::Gpu);
            }
            m.gl(b, 0, Atomic, RELAXED, 0);
        }
        m.fence(5, 0, Scope::Gpu);
        m.syncthreads(5);
        for t in 0..5 {
            m.gl(5, t + 30, Read, WEAK, 100 + u64::from(t));
        }
    });
}

#[test]
fn last_block_as_in_the_samples() {
    // First variant: one fence before the ticket and none after it. Second variant: one thread takes the ticket, and
    // all threads fence after the barrier.
    for all_fence in [false, true] {
        let mut m = Machine::new(3, 64);
        for b in 0..3 {
            m.gl(b, 0, Write, WEAK, 100 + u64::from(b));
            m.fence(b, 0, Scope::Gpu);
            m.gl(b, 0, Atomic, RELAXED, 0);
            m.syncthreads(b);
        }
        if all_fence {
            m.blocks[2].fence(1, u32::MAX, Scope::Gpu);
        }
        m.gl(2, 40, Read, WEAK, 100);
        let reports = m.blocks[2].take_reports();
        assert_eq!(reports.iter().filter(|r| r.severity == Severity::Note).count(), usize::from(!all_fence));
        assert_eq!(reports.iter().filter(|r| r.severity != Severity::Note).count(), 0);
    }
}

#[test]
fn counter_set_back_by_the_last() {
    let mut m = Machine::new(3, 64);
    for b in 0..3 {
        m.gl(b, 0, Atomic, RELAXED, 0);
    }
    m.gl(2, 0, Write, WEAK, 0);
    for t in [0, 1, 40] {
        m.sh(0, t, Atomic, RELAXED, 0);
    }
    m.sh(0, 40, Write, WEAK, 0);
    assert_eq!(m.kinds(), []);
    // A thread that executed no atomic has observed nothing.
    m.gl(1, 0, Atomic, RELAXED, 9);
    m.gl(2, 5, Write, WEAK, 9);
    assert_eq!(m.kinds(), [RaceKind::Global]);
}

#[test]
fn flag_set_back_by_its_reader() {
    twin(RaceKind::Global, 2, 32, |m, right| {
        m.gl(0, 0, Write, VOLATILE, 0);
        m.gl(1, 0, Read, if right { VOLATILE } else { WEAK }, 0);
        m.gl(1, 0, Write, WEAK, 0);
    });
}

#[test]
fn chain_of_atomics_ends_at_a_plain_strong_write() {
    twin(RaceKind::MissingRelease, 3, 32, |m, right| {
        m.gl(0, 0, Write, WEAK, 100);
        m.fence(0, 0, Scope::Gpu);
        m.gl(0, 0, Atomic, RELAXED, 0);
        m.gl(1, 0, if right { Atomic } else { Write }, RELAXED, 0);
        m.gl(2, 0, Read, ACQUIRE, 0);
        m.gl(2, 0, Read, WEAK, 100);
    });
}

#[test]
fn spin_lock() {
    twin(RaceKind::MissingRelease, 4, 32, |m, right| {
        for b in 0..4 {
            m.gl(b, 0, Atomic, RELAXED, 0);
            m.fence(b, 0, Scope::Gpu);
            m.gl(b, 0, Read, WEAK, 50);
            m.gl(b, 0, Write, WEAK, 50);
            if right {
                m.fence(b, 0, Scope::Gpu);
            }
            m.gl(b, 0, Atomic, RELAXED, 0);
        }
    });
}

#[test]
fn grid_barrier_by_counter() {
    twin(RaceKind::Global, 4, 64, |m, right| {
        for phase in 0..3u64 {
            for b in 0..4 {
                // Each block writes its row and reads the row that its neighbour wrote in the previous phase.
                if phase > 0 {
                    m.gl_warp(b, 1, Read, 1000 + (phase - 1) * 128 + u64::from((b + 1) % 4) * 32);
                }
                m.gl_warp(b, 0, Write, 1000 + phase * 128 + u64::from(b) * 32);
            }
            if !right {
                continue;
            }
            for b in 0..4 {
                m.syncthreads(b);
                m.fence(b, 0, Scope::Gpu);
                m.gl(b, 0, Atomic, RELAXED, 0);
            }
            for b in 0..4 {
                m.gl(b, 0, Read, VOLATILE, 0);
                m.fence(b, 0, Scope::Gpu);
                m.syncthreads(b);
            }
        }
    });
}

#[test]
fn write_in_place_after_grid_barrier() {
    // Many threads read one address, then a writer that is synchronised with all of them writes it.
    let mut m = Machine::new(8, 32);
    for b in 0..8 {
        m.gl_warp(b, 0, Read, 1000);
        m.syncthreads(b);
        m.fence(b, 0, Scope::Gpu);
        m.gl(b, 0, Atomic, RELAXED, 0);
    }
    for b in 0..8 {
        m.gl(b, 0, Read, VOLATILE, 0);
        m.fence(b, 0, Scope::Gpu);
        m.syncthreads(b);
    }
    m.gl_warp(3, 0, Write, 1000);
    assert_eq!(m.kinds(), []);
}

#[test]
fn look_back_with_value_in_the_flag() {
    let mut m = Machine::new(3, 32);
    for b in 0..3u32 {
        if b > 0 {
            m.gl_bytes(b, 0, Read, VOLATILE, u64::from(b - 1) * 8, 8);
        }
        m.gl_bytes(b, 0, Write, VOLATILE, u64::from(b) * 8, 8);
        m.gl_bytes(b, 0, Write, VOLATILE, u64::from(b) * 8, 8);
    }
    assert_eq!(m.kinds(), []);
}

#[test]
fn flag_in_shared_memory() {
    twin(RaceKind::MissingRelease, 1, 64, |m, right| {
        m.sh(0, 0, Write, WEAK, 10);
        if right {
            m.fence(0, 0, Scope::Cta);
        }
        m.sh(0, 0, Write, VOLATILE, 0);
        m.sh(0, 32, Read, VOLATILE, 0);
        m.fence(0, 32, Scope::Cta);
        m.sh(0, 32, Read, WEAK, 10);
    });
}

#[test]
fn named_barrier_hands_over() {
    // Producer warp 0 arrives and consumer warp 1 waits. Then they hand back through another barrier.
    twin(RaceKind::Shared, 1, 96, |m, right| {
        for _ in 0..3 {
            m.sh_warp(0, 0, Write, 0, 1);
            m.blocks[0].bar_arrive(1, 0, u32::MAX, false);
            m.blocks[0].bar_arrive(1, 1, u32::MAX, true);
            m.blocks[0].bar_complete(1, false);
            m.sh_warp(0, 1, Read, 0, 1);
            if right {
                m.blocks[0].bar_arrive(2, 1, u32::MAX, false);
                m.blocks[0].bar_arrive(2, 0, u32::MAX, true);
                m.blocks[0].bar_complete(2, false);
            }
        }
    });
}

#[test]
fn arrive_does_not_cover_what_comes_after_it() {
    let mut m = Machine::block(64);
    m.blocks[0].bar_arrive(1, 0, u32::MAX, false);
    m.sh_warp(0, 0, Write, 0, 1);
    m.blocks[0].bar_arrive(1, 1, u32::MAX, true);
    m.blocks[0].bar_complete(1, false);
    m.sh_warp(0, 1, Read, 0, 1);
    assert_eq!(m.kinds(), [RaceKind::Shared]);
}

#[test]
fn barrier_of_some_warps_leaves_the_others_out() {
    let mut m = Machine::block(96);
    m.sh_warp(0, 0, Write, 0, 1);
    for w in 0..2 {
        m.blocks[0].bar_arrive(3, w, u32::MAX, true);
    }
    m.blocks[0].bar_complete(3, false);
    m.sh_warp(0, 1, Read, 0, 1);
    assert_eq!(m.kinds(), []);
    m.sh_warp(0, 2, Read, 0, 1);
    assert_eq!(m.kinds(), [RaceKind::Shared]);
}

#[test]
fn barrier_of_those_who_are_left_leaves_out_who_has_gone() {
    for (whole_block, races) in [(true, vec![]), (false, vec![RaceKind::Shared])] {
        let mut m = Machine::block(96);
        m.sh_warp(0, 2, Write, 0, 1);
        m.blocks[0].exit(2, u32::MAX);
        for w in 0..2 {
            m.blocks[0].bar_arrive(1, w, u32::MAX, true);
        }
        m.blocks[0].bar_complete(1, whole_block);
        m.sh_warp(0, 0, Read, 0, 1);
        assert_eq!(m.kinds(), races);
    }
}

#[test]
fn copy_waits_then_barrier() {
    twin(RaceKind::AsyncNotWaited, 1, 64, |m, right| {
        m.copy(0, 8, 0);
        m.blocks[0].agent_commit(Agent::Copy, 0, u32::MAX);
        if right {
            m.blocks[0].agent_wait(Agent::Copy, 0, u32::MAX, 0);
        }
        m.syncthreads(0);
        m.sh(0, 40, Read, WEAK, 8);
    });
    twin(RaceKind::Shared, 1, 64, |m, right| {
        m.copy(0, 8, 0);
        m.blocks[0].copy_wait_all(0, u32::MAX);
        m.sh(0, 0, Read, WEAK, 8);
        if right {
            m.syncthreads(0);
        }
        m.sh(0, 40, Read, WEAK, 8);
    });
    twin(RaceKind::IntraWarp, 1, 64, |m, right| {
        m.copy(0, 8, 0);
        m.blocks[0].copy_wait_all(0, u32::MAX);
        if right {
            m.blocks[0].warp_sync(0, u32::MAX);
        }
        m.sh(0, 4, Read, WEAK, 8);
    });
}

#[test]
fn own_copy_needs_its_wait() {
    twin(RaceKind::AsyncNotWaited, 1, 32, |m, right| {
        m.copy(5, 8, 0);
        m.blocks[0].agent_commit(Agent::Copy, 0, u32::MAX);
        m.copy(5, 9, 0);
        m.blocks[0].agent_commit(Agent::Copy, 0, u32::MAX);
        m.blocks[0].agent_wait(Agent::Copy, 0, u32::MAX, u32::from(!right));
        m.sh(0, 5, Read, WEAK, 8);
        m.sh(0, 5, Read, WEAK, 9);
    });
}

#[test]
fn pipeline_of_copies_in_two_buffers() {
    twin(RaceKind::Shared, 1, 64, |m, right| {
        for i in 0..5u32 {
            for w in 0..2 {
                m.copy(w * 32, (i % 2) * 64 + w, 0);
                m.blocks[0].agent_commit(Agent::Copy, w, u32::MAX);
                m.blocks[0].agent_wait(Agent::Copy, w, u32::MAX, 0);
            }
            m.syncthreads(0);
            for t in [0, 32] {
                m.sh(0, t, Read, WEAK, (i % 2) * 64);
                m.sh(0, t, Read, WEAK, (i % 2) * 64 + 1);
            }
            if !right && i > 0 {
                // The copy goes into the buffer that is being read.
                m.copy(0, (i % 2) * 64 + 1, 0);
            }
        }
    });
}

#[test]
fn source_of_a_copy_overwritten_too_soon() {
    let mut m = Machine::block(32);
    m.copy(0, 8, 50);
    m.blocks[0].agent_commit(Agent::Copy, 0, u32::MAX);
    m.gl(0, 0, Write, WEAK, 50);
    assert_eq!(m.kinds(), [RaceKind::AsyncNotWaited]);
    let mut m = Machine::block(32);
    m.copy(0, 8, 50);
    m.blocks[0].copy_wait_all(0, u32::MAX);
    m.gl(0, 0, Write, WEAK, 50);
    assert_eq!(m.kinds(), []);
}

#[test]
fn mbarrier_ring() {
    twin(RaceKind::Shared, 1, 64, |m, right| {
        let (full, empty) = ([512; 32], [520; 32]);
        m.blocks[0].mbarrier_init(site(900, 0, 1), &full);
        m.blocks[0].mbarrier_init(site(901, 0, 1), &empty);
        m.syncthreads(0);
        for _ in 0..4 {
            m.sh_warp(0, 0, Write, 0, 1);
            m.blocks[0].mbarrier_arrive(site(902, 0, u32::MAX), &full, true);
            m.blocks[0].mbarrier_complete(512);
            m.blocks[0].mbarrier_wait(site(903, 1, u32::MAX), u32::MAX, &full, true);
            m.sh_warp(0, 1, Read, 0, 1);
            m.blocks[0].mbarrier_arrive(site(904, 1, u32::MAX), &empty, true);
            m.blocks[0].mbarrier_complete(520);
            if right {
                m.blocks[0].mbarrier_wait(site(905, 0, u32::MAX), u32::MAX, &empty, true);
            }
        }
    });
}

#[test]
fn one_lane_arrives_for_the_warp() {
    twin(RaceKind::Shared, 1, 64, |m, right| {
        let full = [512; 32];
        m.blocks[0].mbarrier_init(site(900, 0, 1), &full);
        m.syncthreads(0);
        m.sh_warp(0, 0, Write, 0, 1);
        if right {
            m.blocks[0].warp_sync(0, u32::MAX);
        }
        m.blocks[0].mbarrier_arrive(site(902, 0, 1), &full, true);
        m.blocks[0].mbarrier_complete(512);
        m.blocks[0].mbarrier_wait(site(903, 1, u32::MAX), u32::MAX, &full, true);
        m.sh_warp(0, 1, Read, 0, 1);
    });
}

#[test]
fn mbarrier_used_before_its_initialisation_is_known() {
    twin(RaceKind::Shared, 1, 64, |m, right| {
        m.blocks[0].mbarrier_init(site(900, 0, 1), &[512; 32]);
        if right {
            m.syncthreads(0);
        }
        m.blocks[0].mbarrier_arrive(site(902, 1, u32::MAX), &[512; 32], true);
    });
}

#[test]
fn copies_signal_an_mbarrier() {
    // The second copy is issued after the mark, so nothing orders its start with the reader.
    twin(RaceKind::Shared, 1, 64, |m, right| {
        let full = [512; 32];
        m.blocks[0].mbarrier_init(site(900, 0, 1), &full);
        m.syncthreads(0);
        m.copy(3, 8, 0);
        let mark = m.blocks[0].agent_mark(Agent::Copy, 0);
        m.copy(3, 9, 0);
        m.blocks[0].mbarrier_arrive_copies(Agent::Copy, 0, 3, 512, mark);
        m.blocks[0].mbarrier_complete(512);
        m.blocks[0].mbarrier_wait(site(903, 1, u32::MAX), u32::MAX, &full, true);
        m.sh(0, 40, Read, WEAK, if right { 8 } else { 9 });
    });
}

#[test]
fn unfinished_phase_hands_over_nothing() {
    let mut m = Machine::block(64);
    m.sh_warp(0, 0, Write, 0, 1);
    m.blocks[0].mbarrier_arrive(site(902, 0, u32::MAX), &[512; 32], true);
    // Wrong parity: the wait returns for the previous phase.
    m.blocks[0].mbarrier_wait(site(903, 1, u32::MAX), u32::MAX, &[512; 32], true);
    m.sh_warp(0, 1, Read, 0, 1);
    assert_eq!(m.kinds(), [RaceKind::Shared]);
}

#[test]
fn reports_name_both_sides() {
    let mut m = Machine::new(2, 64);
    m.gl(0, 33, Write, WEAK, 7);
    m.gl(1, 2, Read, WEAK, 7);
    let report = &m.blocks[1].take_reports()[0];
    let (a, b) = (report.first, report.second);
    assert_eq!((a.block, a.warp, a.lane, a.pc, a.op), (0, 1, 1, 1, Write));
    assert_eq!((b.block, b.warp, b.lane, b.pc, b.op), (1, 0, 2, 2, Read));
    assert_eq!((report.address, report.count, report.lanes), (0x10_0000 + 28, 1, 4));
}

#[test]
fn races_of_other_causes_are_found_among_many_of_one_cause() {
    let mut block = BlockRaces::default();
    block.start(0, 64, 4096);
    let at = std::array::from_fn(|l| l as u32 * 4);
    let access = |block: &mut BlockRaces, pc: u32, warp: u32, op: Op| {
        block.shared(site(pc, warp, u32::MAX), Access::weak(op), &Ranges::new(&at, 4));
    };
    for _ in 0..1000 {
        access(&mut block, 1, 0, Write);
        access(&mut block, 2, 1, Write);
    }
    // Another instruction.
    access(&mut block, 3, 1, Read);
    // The same instruction and another one.
    for _ in 0..200 {
        access(&mut block, 4, 0, Write);
        access(&mut block, 2, 1, Write);
    }
    let of =
        |report: &RaceReport| [report.first.pc.min(report.second.pc), report.first.pc.max(report.second.pc)];
    let pairs: Vec<[u32; 2]> = block.take_reports().iter().map(of).collect();
    for pair in [[1, 2], [3, 4], [2, 4]] {
        assert!(pairs.contains(&pair), "{pair:?} of {pairs:?}");
    }
}
