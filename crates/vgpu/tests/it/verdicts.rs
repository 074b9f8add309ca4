//! How severe a finding is: unordered stores of equal values, volatile accesses, reads that seed a compare-and-swap,
//! masks and barriers that name exited threads. The verdict must not depend on the number of workers or on the world.

use warpsmith_vgpu::{Device, Kind, Launch, Options, Severity, World, load};

/// A kernel with a pointer to 64 defined words in `%rd1`, the thread in `%r1`, the block in `%r2`, and the address of
/// the thread's own word of 64 words of input in `%rd3`.
fn kernel(body: &str) -> String {
    format!(
        "
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
{{
    .reg .pred %p<9>;
    .reg .b32 %r<30>;
    .reg .b64 %rd<9>;
    .shared .align 16 .b8 s[1024];
    ld.param.u64 %rd1, [p0];
    ld.param.u64 %rd2, [p1];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mul.wide.u32 %rd4, %r1, 4;
    add.u64 %rd3, %rd2, %rd4;
    {body}
    ret;
}}
"
    )
}

/// The most severe finding of each kind, sorted. It must be the same for one and two workers and in several worlds.
fn verdict(body: &str, blocks: u32, threads: u32) -> Vec<(Kind, Severity)> {
    let module = load(&kernel(body)).unwrap_or_else(|e| panic!("{e}"));
    let run = |workers: usize, seed: u64| {
        let world = if seed == 0 { World::default() } else { World::from_seed(seed) };
        let mut device = Device::in_world(1 << 20, world);
        let mut alloc = |label: &str| device.alloc(256, label).expect("memory");
        let (words, input) = (alloc("words"), alloc("input"));
        // All inputs are equal: data that happen to agree must not hide a race.
        device.fill(words, 0, 256).expect("inside");
        device.fill(input, 1, 256).expect("inside");
        let args = [words.0.to_le_bytes(), input.0.to_le_bytes()].concat();
        let (grid, block) = ([blocks, 1, 1], [threads, 1, 1]);
        let launch = Launch { module: &module, kernel: "k", grid, block, shared: 0, args: &args };
        let options = Options { threads: workers, world, budget: 1_000_000, ..Options::default() };
        let report = device.launch(&launch, &options).expect("starts");
        let mut found: Vec<(Kind, Severity)> = report.findings.iter().map(|f| (f.kind, f.severity)).collect();
        found.sort_unstable();
        found.dedup_by_key(|(kind, _)| *kind);
        found
    };
    let first = run(1, 0);
    for seed in 0..5 {
        for workers in [1, 2] {
            assert_eq!(run(workers, seed), first, "{workers} workers, seed {seed}");
        }
    }
    first
}

fn race(severity: Severity) -> Vec<(Kind, Severity)> {
    vec![(Kind::Race, severity)]
}

// Equal values

#[test]
fn one_constant_from_many_threads_is_a_note() {
    assert_eq!(verdict("st.global.u32 [%rd1], 1;", 2, 64), race(Severity::Note));
}

#[test]
fn a_parameter_from_many_threads_is_a_note() {
    assert_eq!(verdict("st.global.u64 [%rd1], %rd2;", 2, 64), race(Severity::Note));
}

#[test]
fn the_number_of_the_block_is_the_same_within_a_block_only() {
    assert_eq!(verdict("st.global.u32 [%rd1], %r2;", 1, 64), race(Severity::Note));
    assert_eq!(verdict("st.global.u32 [%rd1], %r2;", 2, 64), race(Severity::Error));
}

#[test]
fn a_test_of_the_thread_number_is_a_race() {
    let body = "setp.lt.u32 %p1, %r1, 31; selp.u32 %r3, 1, 0, %p1; st.global.u32 [%rd1], %r3;";
    assert_eq!(verdict(body, 1, 32), race(Severity::Error));
}

#[test]
fn data_that_happen_to_be_equal_are_a_race() {
    assert_eq!(
        verdict("ld.global.u32 %r3, [%rd3]; st.global.u32 [%rd1], %r3;", 1, 32),
        race(Severity::Error)
    );
    assert_eq!(verdict("ld.global.u32 %r3, [%rd3]; st.shared.u32 [s], %r3;", 1, 32), race(Severity::Error));
}

#[test]
fn a_branch_on_data_that_chooses_the_value_is_a_race() {
    let body = "
        ld.global.u32 %r3, [%rd3]; setp.eq.u32 %p1, %r3, 0; mov.u32 %r4, 1; @%p1 bra STORE; mov.u32 %r4, 2;
        STORE: st.global.u32 [%rd1], %r4;";
    assert_eq!(verdict(body, 1, 64), race(Severity::Error));
}

#[test]
fn data_of_one_address_are_the_same_for_all_threads() {
    assert_eq!(verdict("ld.global.u32 %r3, [%rd2]; st.global.u32 [%rd1], %r3;", 2, 64), race(Severity::Note));
}

#[test]
fn data_of_two_addresses_are_not() {
    let body = "
        ld.global.u32 %r3, [%rd2]; ld.global.u32 %r4, [%rd2+4]; setp.lt.u32 %p1, %r1, 32;
        @%p1 st.global.u32 [%rd1], %r3; @!%p1 st.global.u32 [%rd1], %r4;";
    assert_eq!(verdict(body, 1, 64), race(Severity::Error));
}

#[test]
fn two_different_constants_are_a_race_in_any_order() {
    let body = "
        setp.ne.u32 %p1, %r1, 0; @%p1 bra SET; st.global.u32 [%rd1], 0;
        SET: bar.sync 0; st.global.u32 [%rd1], 1;";
    assert_eq!(verdict(body, 3, 32), race(Severity::Error));
}

#[test]
fn a_constant_in_different_iterations_is_a_note() {
    // Lane l stores from iteration l on, so the lanes that have stored before are not those that store now.
    let body = "
        mov.u32 %r3, 0;
        LOOP: setp.ne.u32 %p1, %r3, %r1; @%p1 bra NEXT; mov.u32 %r4, 1; st.global.u32 [%rd1], %r4;
        NEXT: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 32; @%p2 bra LOOP;";
    assert_eq!(verdict(body, 2, 32), race(Severity::Note));
}

#[test]
fn a_loop_counter_is_not_a_constant() {
    let body = "
        mov.u32 %r3, 0;
        LOOP: st.global.u32 [%rd1], %r3; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 4; @%p2 bra LOOP;";
    assert_eq!(verdict(body, 1, 64), race(Severity::Error));
}

#[test]
fn a_difference_of_exchanged_values_is_a_race() {
    let load = "ld.global.u32 %r3, [%rd3]; shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1;";
    let store = "and.b32 %r6, %r1, 30; mul.wide.u32 %rd5, %r6, 4; add.u64 %rd6, %rd1, %rd5; st.global.u32 [%rd6], %r5;";
    assert_eq!(verdict(&format!("{load} add.u32 %r5, %r3, %r4; {store}"), 1, 32), race(Severity::Note));
    assert_eq!(verdict(&format!("{load} sub.u32 %r5, %r3, %r4; {store}"), 1, 32), race(Severity::Error));
    // Lanes 0 and 1 do not exchange values here.
    let load = load.replace("%r3, 1, 31", "%r3, 3, 31");
    assert_eq!(verdict(&format!("{load} add.u32 %r5, %r3, %r4; {store}"), 1, 32), race(Severity::Error));
}

/// One step of a maximum of pairs of value and position, between neighbouring lanes. `choose` sets `%p1`.
fn position_of_the_maximum(choose: &str) -> String {
    format!(
        "ld.global.f32 %r3, [%rd3]; shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1; shfl.sync.bfly.b32 %r5, %r1, 1, 31, -1;
        {choose} selp.b32 %r6, %r1, %r5, %p1;
        and.b32 %r7, %r1, 30; mul.wide.u32 %rd5, %r7, 4; add.u64 %rd6, %rd1, %rd5; st.global.u32 [%rd6], %r6;"
    )
}

#[test]
fn the_position_of_a_maximum_is_the_same_if_ties_are_decided() {
    let body = position_of_the_maximum(
        "setp.eq.f32 %p2, %r3, %r4; setp.lt.u32 %p3, %r1, %r5; and.pred %p4, %p2, %p3;
        setp.gt.f32 %p5, %r3, %r4; or.pred %p1, %p5, %p4;",
    );
    assert_eq!(verdict(&body, 1, 32), race(Severity::Note));
}

// Each lane keeps its own position of two equal maxima.
#[test]
fn the_position_of_one_of_two_equal_maxima_is_a_race() {
    let body = position_of_the_maximum("setp.gt.f32 %p1, %r3, %r4;");
    assert_eq!(verdict(&body, 1, 32), race(Severity::Error));
}

#[test]
fn a_choice_between_numbers_by_own_data_is_a_race() {
    let body = "ld.global.f32 %r3, [%rd3]; setp.gt.f32 %p1, %r3, 0f3F000000; selp.b32 %r4, 1, 0, %p1; st.global.u32 [%rd1], %r4;";
    assert_eq!(verdict(body, 1, 32), race(Severity::Error));
}

#[test]
fn a_sum_that_a_fused_product_rounds_in_another_way_is_a_warning() {
    let body = "
        ld.global.f32 %r3, [%rd3]; add.f32 %r4, %r3, 0f3F800000; mul.f32 %r5, %r3, %r4;
        shfl.sync.bfly.b32 %r6, %r5, 1, 31, -1; fma.rn.f32 %r8, %r3, %r4, %r6;
        and.b32 %r7, %r1, 30; mul.wide.u32 %rd5, %r7, 4; add.u64 %rd6, %rd1, %rd5; st.global.f32 [%rd6], %r8;";
    assert_eq!(verdict(body, 1, 32), race(Severity::Warning));
}

#[test]
fn a_value_that_a_thread_replaces_by_a_common_one_is_still_compared() {
    let body = "
        setp.eq.u32 %p1, %r2, 0; @%p1 st.global.u32 [%rd1], 5; bar.sync 0; st.global.u32 [%rd1], 1;";
    assert_eq!(verdict(body, 4, 1), race(Severity::Error));
}

#[test]
fn a_read_through_the_read_only_cache_misses_what_the_launch_wrote() {
    let body =
        "st.global.u32 [%rd1], 1; bar.sync 0; ld.global.nc.u32 %r3, [%rd1]; st.global.u32 [%rd3], %r3;";
    assert_eq!(verdict(body, 1, 1), race(Severity::Error));
    assert_eq!(verdict(&body.replace(".nc", ""), 1, 1), []);
}

#[test]
fn a_barrier_that_exited_threads_do_not_reach_is_a_warning() {
    let body = "setp.gt.u32 %p1, %r1, 40; @%p1 exit; bar.sync 0;";
    assert_eq!(verdict(body, 1, 64), [(Kind::BarrierDivergence, Severity::Warning)]);
}

#[test]
fn an_atomic_that_adds_an_undefined_value_is_a_finding() {
    let body = "ld.shared.u32 %r3, [s]; red.global.add.u32 [%rd1], %r3;";
    assert_eq!(verdict(body, 1, 1), [(Kind::Uninitialised, Severity::Error)]);
}

#[test]
fn the_result_of_a_butterfly_is_the_same_in_the_whole_warp() {
    let step =
        |distance: u32| format!("shfl.sync.bfly.b32 %r4, %r3, {distance}, 31, -1; add.u32 %r3, %r3, %r4;");
    let single = |register: u32, from: u32, distance: u32| {
        format!(
            "shfl.sync.bfly.b32 %r{0}, %r{from}, {distance}, 31, -1; add.u32 %r{1}, %r{from}, %r{0};",
            register,
            register + 1
        )
    };
    let whole: String = [(10, 3, 16), (12, 11, 8), (14, 13, 4), (16, 15, 2), (18, 17, 1)]
        .map(|(register, from, distance)| single(register, from, distance))
        .concat();
    let load = "ld.global.u32 %r3, [%rd3];";
    assert_eq!(verdict(&format!("{load} {whole} st.global.u32 [%rd1], %r19;"), 1, 32), race(Severity::Note));
    // Without the last step, neighbours may differ.
    assert_eq!(verdict(&format!("{load} {whole} st.global.u32 [%rd1], %r17;"), 1, 32), race(Severity::Error));
    // Different warps have different sums.
    assert_eq!(verdict(&format!("{load} {whole} st.global.u32 [%rd1], %r19;"), 1, 64), race(Severity::Error));
    // One register for all steps is beyond the analysis, which then assumes the worst.
    assert_eq!(
        verdict(&format!("{load} {} st.global.u32 [%rd1], %r3;", step(16)), 1, 32),
        race(Severity::Error)
    );
}

// Values that one run or one choice makes equal

/// Threads 0 and 32 store to one word; `%r10` is the word of the thread's warp, and `%r11` and `%r12` are common data.
fn of_two_warps(body: &str) -> String {
    format!(
        "and.b32 %r20, %r1, 31; setp.ne.u32 %p8, %r20, 0; shr.u32 %r21, %r1, 5; mul.wide.u32 %rd5, %r21, 4;
        add.u64 %rd6, %rd2, %rd5; ld.global.u32 %r10, [%rd6+16]; ld.global.u32 %r11, [%rd2]; ld.global.u32 %r12, [%rd2+4];
        {body} @!%p8 st.global.u32 [%rd1], %r13;"
    )
}

#[test]
fn a_choice_between_a_common_value_and_an_own_one_is_a_race() {
    // Every condition, whatever it chooses in this run.
    for condition in
        ["gt.s32 %p1, %r11, 5", "lt.s32 %p1, %r11, %r12", "ge.u32 %p1, %r11, %r12", "ne.s32 %p1, %r12, 77"]
    {
        let body = format!("setp.{condition}; selp.b32 %r13, %r11, %r10, %p1;");
        assert_eq!(verdict(&of_two_warps(&body), 1, 64), race(Severity::Error), "{condition}");
        let both_common = body.replace("%r10", "%r12");
        assert_eq!(verdict(&of_two_warps(&both_common), 1, 64), race(Severity::Note), "{condition}");
    }
}

#[test]
fn a_choice_that_only_one_thread_makes_is_a_race() {
    for limit in 2..8 {
        let body = format!(
            "setp.eq.u32 %p1, %r1, 0; setp.gt.and.s32 %p2, %r11, {limit}, %p1; selp.b32 %r13, %r11, %r12, %p2;"
        );
        assert_eq!(verdict(&of_two_warps(&body), 1, 64), race(Severity::Error), "{limit}");
    }
}

#[test]
fn a_choice_by_branches_is_a_race_even_if_one_arm_may_return() {
    for early_return in ["", "setp.eq.u32 %p3, %r11, 99; @%p3 bra END;"] {
        let body = |other: &str| {
            format!(
                "setp.ne.s32 %p1, %r12, 77; @!%p1 bra OTHER; mov.u32 %r13, %r11; bra JOIN;
                OTHER: {early_return} mov.u32 %r13, {other}; JOIN:"
            )
        };
        let verdict = |other: &str| verdict(&(of_two_warps(&body(other)) + " END:"), 1, 64);
        assert_eq!(verdict("%r10"), race(Severity::Error), "{early_return}");
        assert_eq!(verdict("%r12"), race(Severity::Note), "{early_return}");
    }
}

#[test]
fn bytes_of_shared_memory_are_data_unless_they_only_decide_about_branches() {
    // Each warp has a byte of its own. In this run the bytes are equal.
    let load = "
        setp.ne.u32 %p1, %r1, 0; @%p1 bra FILLED; st.shared.u8 [s], 3; st.shared.u8 [s+1], 3;
        FILLED: bar.sync 0; mov.u32 %r14, s; add.u32 %r14, %r14, %r21; ld.shared.u8 %r15, [%r14];";
    let verdict = |rest: &str| verdict(&(of_two_warps(&format!("{load} {rest}")) + " END:"), 1, 64);
    assert_eq!(verdict("mov.u32 %r13, %r15;"), race(Severity::Error));
    assert_eq!(verdict("add.u32 %r13, %r15, 1;"), race(Severity::Error));
    let choose = "setp.eq.u32 %p2, %r15, 9;";
    assert_eq!(verdict(&format!("{choose} selp.b32 %r13, %r11, %r12, %p2;")), race(Severity::Error));
    // Compilers keep in such bytes what each group of warps does next.
    let branch = "mov.u32 %r13, %r11; @!%p2 bra STORE; mov.u32 %r13, %r12; STORE:";
    assert_eq!(verdict(&format!("{choose} {branch}")), race(Severity::Warning));
}

#[test]
fn a_branch_on_a_predicate_that_is_set_again_keeps_its_condition() {
    let body = "
        setp.gt.u32 %p1, %r1, 31; mov.u32 %r13, %r11; @%p1 bra SKIP; mov.u32 %r13, %r12;
        SKIP: setp.eq.u32 %p1, %r11, 3;";
    assert_eq!(verdict(&of_two_warps(body), 1, 64), race(Severity::Error));
}

#[test]
fn words_that_change_between_ordered_loads_are_a_race() {
    // Warp 1 waits at a barrier of its own for warp 0, which has changed the word.
    let handed_over = |added: u32| {
        format!(
            "setp.eq.u32 %p1, %r21, 0; @%p1 bra LOAD; bar.sync 1, 64;
            LOAD: ld.global.u32 %r13, [%rd1+128]; bar.warp.sync -1; add.u32 %r15, %r13, {added};
            @!%p8 st.global.u32 [%rd1+128], %r15; bar.warp.sync -1; @!%p1 bra END; bar.arrive 1, 64;
            END:"
        )
    };
    for added in [0, 1] {
        let found = verdict(&of_two_warps(&handed_over(added)), 1, 64);
        assert_eq!(found, race(Severity::Error), "{added}");
    }
    // After a barrier of the whole block, all threads find the same word.
    let body = "setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [s], %r11; bar.sync 0; ld.shared.u32 %r13, [s];";
    assert_eq!(verdict(&of_two_warps(body), 1, 64), race(Severity::Note));
}

#[test]
fn the_same_local_address_is_another_word_in_each_thread() {
    let local = "
        .local .align 4 .b8 own[16]; mov.u64 %rd7, own; cvta.local.u64 %rd8, %rd7; st.local.u32 [own], %r21;
        st.local.u32 [own+4], 3;";
    let body = format!("{local} ld.u32 %r13, [%rd8+4];");
    assert_eq!(verdict(&of_two_warps(&body), 1, 64), race(Severity::Error));
}

#[test]
fn barriers_with_other_numbers_have_other_results() {
    let body = "add.u32 %r14, %r21, 1; setp.ne.u32 %p1, %r11, 0; barrier.red.popc.u32 %r13, %r14, 32, %p1;";
    assert_eq!(verdict(&of_two_warps(body), 1, 64), race(Severity::Error));
    let body = "setp.ne.u32 %p1, %r21, 0; barrier.red.popc.u32 %r13, 1, %p1;";
    assert_eq!(verdict(&of_two_warps(body), 1, 64), race(Severity::Note));
}

#[test]
fn a_value_beside_a_product_in_shared_memory_is_not_a_product() {
    let body = "
        mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r14, %r15, %r16, %r17}, {%r11, %r11}, {%r11}, {%r11, %r11, %r11, %r11};
        and.b32 %r18, %r1, 31; shl.b32 %r18, %r18, 2; mov.u32 %r19, s; add.u32 %r18, %r18, %r19; setp.eq.u32 %p1, %r21, 0;
        @%p1 st.shared.u32 [%r18], %r14; shl.b32 %r22, %r21, 2; add.u32 %r22, %r22, %r19;
        @!%p8 st.shared.u32 [%r22+512], %r10; bar.sync 0; ld.shared.u32 %r13, [%r22+512];";
    assert_eq!(verdict(&of_two_warps(body), 1, 64), race(Severity::Error));
}

// Plain stores and atomics

#[test]
fn a_plain_store_beside_atomics_is_a_race_in_any_order() {
    let body = "
        setp.ne.u32 %p1, %r1, 0; @%p1 bra END; atom.global.add.u32 %r3, [%rd1], 1;
        setp.ne.u32 %p2, %r2, 2; @%p2 bra END; st.global.u32 [%rd1], 0;
        END:";
    assert_eq!(verdict(body, 4, 32), race(Severity::Error));
}

#[test]
fn the_last_block_may_reset_the_counter() {
    let body = "
        setp.ne.u32 %p1, %r1, 0; @%p1 bra END; atom.global.add.u32 %r3, [%rd1], 1;
        setp.ne.u32 %p2, %r3, 3; @%p2 bra END; st.global.u32 [%rd1], 0;
        END:";
    assert_eq!(verdict(body, 4, 32), []);
}

#[test]
fn the_read_that_seeds_a_compare_and_swap_is_a_note() {
    let body = "
        ld.global.u32 %r3, [%rd1];
        LOOP: mov.u32 %r4, %r3; add.u32 %r5, %r4, 1; atom.global.cas.b32 %r3, [%rd1], %r4, %r5;
        setp.ne.u32 %p1, %r3, %r4; @%p1 bra LOOP;";
    assert_eq!(verdict(body, 2, 64), race(Severity::Note));
    // A plain read whose value goes elsewhere is a race.
    let body = format!("{body} ld.global.u32 %r6, [%rd1]; st.global.u32 [%rd3], %r6;");
    assert_eq!(verdict(&body, 1, 64), race(Severity::Error));
}

// Volatile

const OWN_WORD: &str = "shl.b32 %r5, %r1, 2; mov.u32 %r6, s; add.u32 %r5, %r5, %r6;";

#[test]
fn volatile_between_lanes_of_a_warp_is_an_error_without_syncwarp() {
    let exchange = |between: &str| {
        format!(
            "{OWN_WORD} st.volatile.shared.u32 [%r5], %r1; {between} xor.b32 %r7, %r5, 64;
             ld.volatile.shared.u32 %r8, [%r7]; st.global.u32 [%rd3], %r8;"
        )
    };
    assert_eq!(verdict(&exchange(""), 1, 32), race(Severity::Error));
    assert_eq!(verdict(&exchange("bar.warp.sync -1;"), 1, 32), []);
}

#[test]
fn volatile_between_warps_and_blocks_is_a_warning() {
    let body = format!(
        "{OWN_WORD} st.volatile.shared.u32 [%r5], %r1; xor.b32 %r7, %r5, 128;
         ld.volatile.shared.u32 %r8, [%r7]; st.global.u32 [%rd3], %r8;"
    );
    let found = verdict(&body, 1, 64);
    assert!(found.contains(&(Kind::Race, Severity::Error)), "{found:?}");
    let body = "
        setp.ne.u32 %p1, %r1, 0; @%p1 bra END; mul.wide.u32 %rd5, %r2, 4; add.u64 %rd6, %rd1, %rd5;
        st.volatile.global.u32 [%rd6], %r2; ld.volatile.global.u32 %r3, [%rd1]; ld.volatile.global.u32 %r4, [%rd1+4];
        END:";
    assert_eq!(verdict(body, 2, 32), race(Severity::Error));
}

#[test]
fn a_volatile_flag_that_is_polled_is_a_note() {
    let body = "
        setp.ne.u32 %p1, %r1, 0; @%p1 bra END; setp.ne.u32 %p2, %r2, 0; @%p2 bra WAIT;
        st.global.u32 [%rd1+8], 7; membar.gl; st.volatile.global.u32 [%rd1], 1; bra END;
        WAIT: ld.volatile.global.u32 %r3, [%rd1]; setp.eq.u32 %p3, %r3, 0; @%p3 bra WAIT;
        membar.gl; ld.global.u32 %r4, [%rd1+8];
        END:";
    assert_eq!(verdict(body, 2, 32), race(Severity::Note));
}

// Exited threads

#[test]
fn a_mask_may_name_lanes_that_have_exited() {
    let body = "
        setp.ge.u32 %p1, %r1, 20; @%p1 bra END; setp.lt.u32 %p2, %r1, 3; vote.sync.ballot.b32 %r3, %p2, -1;
        bar.warp.sync -1; st.global.u32 [%rd3], %r3;
        END:";
    assert_eq!(verdict(body, 1, 32), []);
}

#[test]
fn lanes_that_go_past_a_warp_operation_and_then_work_are_missing() {
    let body = "
        mov.u32 %r3, 0; setp.ge.u32 %p1, %r1, 20; @%p1 bra JOIN; vote.sync.ballot.b32 %r3, %p1, -1;
        JOIN: st.global.u32 [%rd3], %r3;";
    assert_eq!(verdict(body, 1, 32), [(Kind::WarpMask, Severity::Error)]);
}

#[test]
fn a_barrier_does_not_wait_for_exited_threads() {
    // CUDA's guide does not define it, so there is a warning.
    let skipped = [(Kind::BarrierDivergence, Severity::Warning)];
    for exited in [16, 32, 40] {
        for barrier in ["bar.sync 0;", "barrier.sync 0;"] {
            let body = format!(
                "setp.lt.u32 %p1, %r1, {exited}; @%p1 bra END; {barrier} st.global.u32 [%rd3], 1; END:"
            );
            assert_eq!(verdict(&body, 1, 64), skipped, "{exited} {barrier}");
        }
    }
    // A barrier with a thread count counts whole warps.
    let body = "setp.lt.u32 %p1, %r1, 8; @%p1 bra END; bar.sync 1, 64; END:";
    assert!(verdict(body, 1, 64).iter().all(|finding| *finding == skipped[0]));
    let body = "setp.lt.u32 %p1, %r1, 32; @%p1 bra END; bar.sync 1, 64; END:";
    assert_eq!(verdict(body, 1, 64), [(Kind::Deadlock, Severity::Error)]);
}

#[test]
fn lanes_that_go_past_a_barrier_and_then_work_diverge() {
    let body = "
        setp.lt.u32 %p1, %r1, 8; @%p1 bra JOIN; bar.sync 0;
        JOIN: st.global.u32 [%rd3], 1;";
    assert_eq!(verdict(body, 1, 64), [(Kind::BarrierDivergence, Severity::Error)]);
}

// Matrices

#[test]
fn ldmatrix_needs_aligned_rows_from_the_lanes_that_give_them() {
    // Measured on an H200: .x4 faults if lanes 16 to 31 are misaligned, .x2 and .x1 do not.
    let body = |form: &str, registers: &str, first: u32| {
        format!(
            "shl.b32 %r5, %r1, 4; mov.u32 %r6, s; add.u32 %r5, %r5, %r6;
             st.shared.v4.u32 [%r5], {{%r1, %r1, %r1, %r1}}; st.shared.v4.u32 [%r5+512], {{%r1, %r1, %r1, %r1}};
             bar.sync 0; setp.ge.u32 %p1, %r1, {first}; @%p1 add.u32 %r5, %r5, 8;
             ldmatrix.sync.aligned.m8n8.{form}.shared.b16 {{{registers}}}, [%r5];"
        )
    };
    let misaligned = vec![(Kind::Misaligned, Severity::Error)];
    assert_eq!(verdict(&body("x4", "%r10, %r11, %r12, %r13", 32), 1, 32), []);
    assert_eq!(verdict(&body("x4", "%r10, %r11, %r12, %r13", 16), 1, 32), misaligned);
    assert_eq!(verdict(&body("x4", "%r10, %r11, %r12, %r13", 31), 1, 32), misaligned);
    assert_eq!(verdict(&body("x2", "%r10, %r11", 16), 1, 32), []);
    assert_eq!(verdict(&body("x2", "%r10, %r11", 15), 1, 32), misaligned);
    assert_eq!(verdict(&body("x1", "%r10", 8), 1, 32), []);
    assert_eq!(verdict(&body("x1", "%r10", 7), 1, 32), misaligned);
}

#[test]
fn a_loop_may_read_a_register_in_a_block_before_its_definition() {
    // The blocks are in the order of a compiler: NEXT is before HEAD, which it follows. `%r17` is what HEAD has computed.
    let body = |stored: &str| {
        format!(
            "mov.u32 %r14, 0; mov.u32 %r15, 0; mov.u32 %r22, 0; bra HEAD;
            NEXT: mov.u32 %r15, %r17; add.u32 %r14, %r14, 1; setp.lt.u32 %p4, %r14, 3; @!%p4 bra DONE;
            HEAD: mad.lo.u32 %r17, %r11, %r12, %r15; setp.ge.s32 %p1, %r22, %r17; @%p1 bra NEXT;
            mov.u32 %r13, 5; setp.gt.s32 %p2, %r12, 0; @!%p2 bra STORE; mov.u32 %r13, {stored};
            STORE: @!%p8 st.global.u32 [%rd1], %r13; bar.sync 0; add.u32 %r22, %r22, 1; bra NEXT;
            DONE:"
        )
    };
    let verdict = |stored: &str| verdict(&of_two_warps(&body(stored)), 1, 64);
    assert_eq!(verdict("%r11"), race(Severity::Note));
    assert_eq!(verdict("%r17"), race(Severity::Note));
    assert_eq!(verdict("%r10"), race(Severity::Error));
}
