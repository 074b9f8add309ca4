//! Replays of small timelines, compared with what was measured or with what must follow from the order of the steps.

use super::*;
use crate::count::Product;
use crate::num::tile::Elem;

const RATES: Rates = Rates {
    integer: 2.0,
    fp32: 1.0,
    fp16: 0.5,
    fp64: 2.0,
    special: 8.0,
    tensor: 1.0 / 512.0,
    memory: 1.0,
    l2_bytes: 64.0,
    copy_latency: 300.0,
};

/// Clocks of the product below: `wgmma.m64n128k16`.
const PRODUCT: f64 = 66.0;

/// Replays a block of these warps, of which only the first is in the same part as the fifth.
fn replay(works: &[Work], warps: &[Vec<Step>]) -> Replay {
    let product = Product { input: Elem::F16, accumulator: Elem::F32, flops: 1 << 16, by_warpgroup: true };
    let timeline = Timeline { works: works.to_vec(), products: vec![product], ..Timeline::default() };
    Replayer::new(&timeline, RATES, 4, |_| PRODUCT).replay(warps, 1)
}

fn products(count: usize) -> Vec<Step> {
    let mut steps = vec![Step::Product(0); count];
    steps.extend([Step::CommitProducts, Step::AwaitProducts(0)]);
    steps
}

/// Clocks of a work beside a tensor core that is always busy, and alone.
fn beside_and_alone(work: Work) -> (f64, f64) {
    let idle = || vec![Vec::new(); 3];
    let code = || vec![Step::Work(0)];
    let with = |first: Vec<Step>| [vec![first], idle(), vec![code()]].concat();
    // Products without a wait: only the code decides when the replay ends.
    let beside = replay(&[work], &with(vec![Step::Product(0); 10_000]));
    (beside.clocks, replay(&[work], &with(Vec::new())).clocks)
}

/// 64 elements of the mix of a softmax: a maximum, a multiply-addition, an exponential, an addition and half a
/// conversion.
fn softmax() -> Work {
    Work { instructions: 288.0, integer: 96.0, fp32: 128.0, special: 64.0, chain: 100.0, ..Work::default() }
}

#[test]
fn code_beside_products_takes_as_long_as_measured() {
    let special = Work { instructions: 1000.0, special: 1000.0, ..Work::default() };
    let (beside, alone) = beside_and_alone(special);
    assert!((beside / alone - 10.8 / 8.2).abs() < 0.01, "{beside} {alone}");
    let maxima = Work { instructions: 1000.0, integer: 1000.0, ..Work::default() };
    let (beside, alone) = beside_and_alone(maxima);
    assert!((beside / alone - 4.35 / 2.2).abs() < 0.01, "{beside} {alone}");
    let (beside, alone) = beside_and_alone(softmax());
    assert!((beside / 64.0 - 14.3).abs() < 0.1 && (alone / 64.0 - 8.0).abs() < 0.1, "{beside} {alone}");
}

#[test]
fn an_exponential_by_polynomial_does_not_win_beside_products() {
    // A quarter of the exponentials becomes eight f32 instructions each.
    let mut polynomial = softmax();
    polynomial.special -= 16.0;
    polynomial.fp32 += 128.0;
    polynomial.instructions += 112.0;
    let (exponential, polynomial) = (beside_and_alone(softmax()), beside_and_alone(polynomial));
    assert!(polynomial.0 > exponential.0, "{polynomial:?} {exponential:?}");
    // Without products beside it, it would win: the exponentials are the limit.
    assert!(polynomial.1 < exponential.1, "{polynomial:?} {exponential:?}");
}

#[test]
fn many_f32_instructions_slow_a_product_down_and_a_softmax_does_not() {
    let clocks = |work: Work| {
        let code = vec![Step::Work(0); 1000];
        let warps = [vec![products(100)], vec![Vec::new(); 3], vec![code]].concat();
        let replay = replay(&[work], &warps);
        // The first warp waits until its products are done.
        replay.awaiting_products / 100.0
    };
    let stream = Work { instructions: 1000.0, fp32: 1000.0, ..Work::default() };
    assert!((164.0..=192.0).contains(&clocks(stream)), "{}", clocks(stream));
    assert!((clocks(softmax()) / PRODUCT - 1.0).abs() < 0.01, "{}", clocks(softmax()));
}

#[test]
fn two_warps_that_take_turns_hide_their_code_behind_products() {
    // Code and products take about as long, without the slowdown of code beside products.
    let code = Work { instructions: 1.0, chain: 10.0 * PRODUCT, ..Work::default() };
    let one = || [products(10), vec![Step::Work(0)]].concat().repeat(20);
    let alone = replay(&[code], &[one()]).clocks;
    let both = replay(&[code], &[vec![one()], vec![Vec::new(); 3], vec![one()]].concat()).clocks;
    assert!(both < 1.2 * alone, "{both} {alone}");
    // A warp alone waits for its own products before its code, so nothing overlaps.
    assert!(alone > 20.0 * (20.0 * PRODUCT), "{alone}");
}

#[test]
fn a_copy_is_waited_for_and_its_bytes_take_time() {
    let phase = Phase { object: 0, number: 0 };
    let clocks = |bytes: u32| replay(&[], &[vec![Step::Load(bytes, phase), Step::Await(phase)]]).clocks;
    assert_eq!(clocks(64), 301.0 + BARRIER_LATENCY);
    assert_eq!(clocks(64 * 1000), 1300.0 + BARRIER_LATENCY);
}

#[test]
fn a_phase_ends_with_its_last_arrival() {
    let phase = Phase { object: Phase::BLOCK_BARRIER, number: 0 };
    let code = |chain| Work { instructions: 1.0, chain, ..Work::default() };
    let warps = vec![
        vec![Step::Work(0), Step::Arrive(phase), Step::Await(phase)],
        vec![Step::Work(1), Step::Arrive(phase), Step::Await(phase)],
    ];
    let replay = replay(&[code(100.0), code(500.0)], &warps);
    assert_eq!(replay.clocks, 500.0 + BARRIER_LATENCY);
    // The last one to arrive does not wait.
    assert_eq!(replay.awaiting_others, 400.0 + BARRIER_LATENCY);
}

#[test]
fn a_wait_that_nothing_ends_does_not_hang_the_replay() {
    let phase = Phase { object: 8, number: 3 };
    // The other block of a cluster may end the phase, so a phase without arrivals of this block is no wait.
    assert_eq!(replay(&[], &[vec![Step::Await(phase)]]).clocks, 0.0);
    let stuck = vec![vec![Step::Await(phase), Step::Arrive(phase)]];
    assert_eq!(replay(&[], &stuck).clocks, 0.0);
}
