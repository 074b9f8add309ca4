//! The promises, kept over a thousand simulated runs: no timing, only seeds.
//!
//! Simulated times are what GPU timings look like: a log-normal body, a few per cent of outliers upwards, and a slow
//! drift that both subjects of a block go through because they take turns.

use std::time::Duration;

use random::Random;

use super::bootstrap::median_interval_by;
use super::verdict::conclude;
use super::*;

const RUNS: usize = 1000;
const PER_BLOCK: usize = 2;
const ONE: Blocks = Blocks { per_block: PER_BLOCK, processes: 1 };
/// A twentieth of what is in use, for the tests' time. More resamples steady an interval's ends; they do not move them.
const RESAMPLES: usize = 500;

#[derive(Clone, Copy)]
struct Noise {
    /// Standard deviation of the logarithm of the body.
    body: f64,
    outliers: f64,
    /// How far the device drifts during a run, up and down again.
    drift: f64,
}

const REALISTIC: Noise = Noise { body: 0.015, outliers: 0.03, drift: 0.03 };

/// A baseline and a candidate that is `speedup` times as fast, `blocks` times A B B A.
fn pair(random: &mut Random, noise: Noise, blocks: usize, speedup: f64) -> (Samples, Samples) {
    let phase = random.uniform();
    let [mut baseline, mut candidate] = [Vec::new(), Vec::new()];
    for block in 0..blocks {
        let turn = std::f64::consts::TAU * (phase + block as f64 / blocks as f64);
        let level = 20_000.0 * (1.0 + noise.drift * turn.sin());
        for subject in [0, 1, 1, 0] {
            let outlier = random.uniform() < noise.outliers;
            let extra = if outlier { 1.0 + 0.5 * random.uniform() } else { 1.0 };
            let time = level * (noise.body * random.normal()).exp() * extra;
            if subject == 0 {
                baseline.push(time * speedup);
            } else {
                candidate.push(time);
            }
        }
    }
    (Samples::new(baseline).unwrap(), Samples::new(candidate).unwrap())
}

/// Each run has a control of its own, as a bench has.
fn verdicts(noise: Noise, blocks: usize, speedup: f64) -> Vec<Comparison> {
    let mut random = Random::new(2024);
    let run = |seed: usize| {
        let (a, b) = pair(&mut random, noise, blocks, 1.0);
        let control = Paired::new(&a, &b, PER_BLOCK).unwrap().speedup_by(RESAMPLES, seed as u64);
        let floor = NoiseFloor::from_control(&control, 0.0);
        let (baseline, candidate) = pair(&mut random, noise, blocks, speedup);
        let paired = Paired::new(&baseline, &candidate, PER_BLOCK).unwrap();
        conclude(&paired, paired.speedup_by(RESAMPLES, seed as u64), floor)
    };
    (0..RUNS).map(run).collect()
}

fn count(comparisons: &[Comparison], verdict: Verdict) -> usize {
    comparisons.iter().filter(|comparison| comparison.verdict == verdict).count()
}

#[test]
fn the_same_thing_is_rarely_called_different() {
    let comparisons = verdicts(REALISTIC, 60, 1.0);
    let wrong = count(&comparisons, Verdict::Faster) + count(&comparisons, Verdict::Slower);
    println!("A/A: {wrong} of {RUNS} called different, {} same", count(&comparisons, Verdict::Same));
    assert!(wrong <= RUNS / 20, "{wrong}");
    // And not because nothing is ever called anything.
    assert!(count(&comparisons, Verdict::Same) > RUNS / 2);
}

#[test]
fn two_per_cent_are_found_in_either_direction() {
    for (speedup, right, wrong) in
        [(1.02, Verdict::Faster, Verdict::Slower), (1.0 / 1.02, Verdict::Slower, Verdict::Faster)]
    {
        let comparisons = verdicts(REALISTIC, 60, speedup);
        let found = count(&comparisons, right);
        println!("planted {speedup:.3}: found {found} of {RUNS}");
        assert!(found * 100 >= RUNS * 95, "{found}");
        assert_eq!(count(&comparisons, wrong), 0);
    }
}

/// Two subjects in three processes each, which differ by `sigma` between processes; the verdicts are held against the
/// floor of the two.
fn verdicts_over_processes(sigma: f64, speedup: f64) -> Vec<Comparison> {
    const THREE: Blocks = Blocks { per_block: 6, processes: 3 };
    let mut random = Random::new(31);
    let mut subject = |time: f64| {
        let [a, b, c] = [(); 3].map(|()| time * (sigma * random.normal()).exp());
        let turns = [a, b, c, c, b, a].repeat(15);
        Samples::new(turns.iter().map(|level| level * (0.004 * random.normal()).exp()).collect()).unwrap()
    };
    let run = |seed: usize| {
        let (baseline, candidate) = (subject(20_000.0 * speedup), subject(20_000.0));
        let medians = |samples| Typical::by(2, samples, THREE, 1).unwrap().medians;
        let floor = NoiseFloor::between(&medians(&baseline), &medians(&candidate), 0.0).unwrap();
        let paired = Paired::over(&baseline, &candidate, THREE).unwrap();
        conclude(&paired, paired.speedup_by(RESAMPLES, seed as u64), floor)
    };
    (0..RUNS).map(run).collect()
}

#[test]
fn what_differs_by_its_processes_alone_is_rarely_called_different() {
    for sigma in [0.001, 0.005, 0.02] {
        let comparisons = verdicts_over_processes(sigma, 1.0);
        let wrong = count(&comparisons, Verdict::Faster) + count(&comparisons, Verdict::Slower);
        println!("A/A, processes {sigma} apart: {wrong} of {RUNS} called different");
        assert!(wrong as f64 <= 0.05 * RUNS as f64 + 3.0 * (0.05 * 0.95 * RUNS as f64).sqrt(), "{wrong}");
    }
    let comparisons = verdicts_over_processes(0.003, 1.02);
    let found = count(&comparisons, Verdict::Faster);
    println!("planted 1.02, processes 0.003 apart: found {found} of {RUNS}");
    assert!(found * 100 >= RUNS * 95 && count(&comparisons, Verdict::Slower) == 0, "{found}");
}

/// Three standard deviations of how often 95% happen in `RUNS` runs.
fn nominal(covered: usize) -> bool {
    let expected = 0.95 * RUNS as f64;
    (covered as f64 - expected).abs() <= 3.0 * (expected * 0.05).sqrt()
}

#[test]
fn intervals_of_the_median_cover_it_at_their_rate() {
    let mut random = Random::new(77);
    for count in [50, 101, 400] {
        // Log-normal around 1: the true median is 1, whatever the spread.
        let covered = (0..RUNS)
            .filter(|&seed| {
                let times = (0..count).map(|_| (0.1 * random.normal()).exp()).collect();
                median_interval_by(RESAMPLES, &Samples::new(times).unwrap(), seed as u64).contains(1.0)
            })
            .count();
        println!("median of {count}: covered {covered} of {RUNS}");
        assert!(nominal(covered), "{count}: {covered}");
    }
}

#[test]
fn intervals_of_the_speedup_cover_it_at_their_rate() {
    for (noise, blocks) in
        [(Noise { body: 0.03, outliers: 0.0, drift: 0.0 }, 50), (Noise { drift: 0.0, ..REALISTIC }, 100)]
    {
        let covered = verdicts(noise, blocks, 1.3)
            .iter()
            .filter(|comparison| comparison.speedup.interval.contains(1.3))
            .count();
        println!("speedup over {blocks} blocks: covered {covered} of {RUNS}");
        assert!(nominal(covered), "{blocks}: {covered}");
    }
}

/// With a drift the medians are of a mixture, and the interval over blocks is on the careful side: it covers more
/// often than it says, never less.
#[test]
fn a_drift_never_makes_intervals_too_narrow() {
    for drift in [0.03, 0.1] {
        let covered = verdicts(Noise { drift, ..REALISTIC }, 60, 1.3)
            .iter()
            .filter(|comparison| comparison.speedup.interval.contains(1.3))
            .count();
        println!("speedup with a drift of {drift}: covered {covered} of {RUNS}");
        assert!(nominal(covered) || covered * 100 > RUNS * 95, "{covered}");
    }
}

#[test]
fn stopping_when_tight_keeps_the_coverage() {
    let rule = Stopping { most: Some(2000), ..Stopping::default() };
    let mut random = Random::new(5);
    let mut covered = 0;
    let mut taken = 0;
    for seed in 0..RUNS {
        let mut times: Vec<f64> = Vec::new();
        let mut until = rule.next_look(0);
        let samples = loop {
            times.extend((times.len()..until).map(|_| (0.02 * random.normal()).exp()));
            let samples = Samples::new(times.clone()).unwrap();
            match rule.progress_by(RESAMPLES, &[&samples], ONE, Duration::ZERO, seed as u64) {
                Progress::Continue { until: next } => until = next,
                Progress::Stop(_) => break samples,
            }
        };
        taken += samples.count();
        covered += usize::from(median_interval_by(RESAMPLES, &samples, seed as u64).contains(1.0));
    }
    println!("stopped after {} samples on average, covered {covered} of {RUNS}", taken / RUNS);
    assert!(nominal(covered), "{covered}");
}
