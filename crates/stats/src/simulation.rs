//! Checks the statistical guarantees on a thousand simulated runs, without timing, from seeds only.
//!
//! Simulated times look like GPU timings: log-normal, with a few per cent of slow outliers and a slow drift that
//! affects both subjects of a block, because they take turns.

use std::time::Duration;

use random::Random;

use super::bootstrap::median_interval_by;
use super::verdict::conclude;
use super::*;

const RUNS: usize = 1000;
const PER_BLOCK: usize = 2;
const ONE: Blocks = Blocks { per_block: PER_BLOCK, processes: 1 };
/// A twentieth of the usual number, to save time. More resamples make the ends of an interval more stable, but do not
/// move them.
const RESAMPLES: usize = 500;

#[derive(Clone, Copy)]
struct Noise {
    /// Standard deviation of the logarithm of the time.
    body: f64,
    /// The fraction of outliers.
    outliers: f64,
    /// Relative drift of the device during a run, up and down again.
    drift: f64,
}

const REALISTIC: Noise = Noise { body: 0.015, outliers: 0.03, drift: 0.03 };

/// A baseline and a candidate that is `speedup` times as fast, as `blocks` blocks of A B B A.
fn pair(random: &mut Random, noise: Noise, blocks: usize, speedup: f64) -> (Samples, Samples) {
    let phase = random.uniform();
    let [mut baseline, mut candidate] = [Vec::new(), Vec::new()];
    for block in 0..blocks {
        let phase_angle = std::f64::consts::TAU * (phase + block as f64 / blocks as f64);
        let level = 20_000.0 * (1.0 + noise.drift * phase_angle.sin());
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

/// Each run has its own control, as in a bench.
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
fn equal_subjects_are_rarely_called_different() {
    let comparisons = verdicts(REALISTIC, 60, 1.0);
    let wrong = count(&comparisons, Verdict::Faster) + count(&comparisons, Verdict::Slower);
    println!("A/A: {wrong} of {RUNS} called different, {} same", count(&comparisons, Verdict::Same));
    assert!(wrong <= RUNS / 20, "{wrong}");
    // The verdict is usually `same`, not `unclear`.
    assert!(count(&comparisons, Verdict::Same) > RUNS / 2);
}

#[test]
fn a_difference_of_two_per_cent_is_found_in_both_directions() {
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

/// Two subjects in three processes each, with a standard deviation of `sigma` between processes. The verdicts use the
/// noise floor of the two.
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
        let medians = |samples| ProcessMean::by(2, samples, THREE, 1).unwrap().medians;
        let floor = NoiseFloor::between(&medians(&baseline), &medians(&candidate), 0.0).unwrap();
        let paired = Paired::over(&baseline, &candidate, THREE).unwrap();
        conclude(&paired, paired.speedup_by(RESAMPLES, seed as u64), floor)
    };
    (0..RUNS).map(run).collect()
}

#[test]
fn variation_between_processes_is_rarely_called_a_difference() {
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

/// Whether the count is within three standard deviations of 95% of `RUNS`.
fn is_near_95_per_cent(covered: usize) -> bool {
    let expected = 0.95 * RUNS as f64;
    (covered as f64 - expected).abs() <= 3.0 * (expected * 0.05).sqrt()
}

#[test]
fn intervals_of_the_median_have_their_nominal_coverage() {
    let mut random = Random::new(77);
    for count in [50, 101, 400] {
        // Log-normal around 1: the true median is 1 for any spread.
        let covered = (0..RUNS)
            .filter(|&seed| {
                let times = (0..count).map(|_| (0.1 * random.normal()).exp()).collect();
                median_interval_by(RESAMPLES, &Samples::new(times).unwrap(), seed as u64).contains(1.0)
            })
            .count();
        println!("median of {count}: covered {covered} of {RUNS}");
        assert!(is_near_95_per_cent(covered), "{count}: {covered}");
    }
}

#[test]
fn intervals_of_the_speedup_have_their_nominal_coverage() {
    for (noise, blocks) in
        [(Noise { body: 0.03, outliers: 0.0, drift: 0.0 }, 50), (Noise { drift: 0.0, ..REALISTIC }, 100)]
    {
        let covered = verdicts(noise, blocks, 1.3)
            .iter()
            .filter(|comparison| comparison.speedup.interval.contains(1.3))
            .count();
        println!("speedup over {blocks} blocks: covered {covered} of {RUNS}");
        assert!(is_near_95_per_cent(covered), "{blocks}: {covered}");
    }
}

/// With a drift the medians are those of a mixture, and the interval over blocks is conservative: it covers more
/// often than 95%, never less.
#[test]
fn a_drift_does_not_make_intervals_too_narrow() {
    for drift in [0.03, 0.1] {
        let covered = verdicts(Noise { drift, ..REALISTIC }, 60, 1.3)
            .iter()
            .filter(|comparison| comparison.speedup.interval.contains(1.3))
            .count();
        println!("speedup with a drift of {drift}: covered {covered} of {RUNS}");
        assert!(is_near_95_per_cent(covered) || covered * 100 > RUNS * 95, "{covered}");
    }
}

#[test]
fn stopping_at_a_tight_interval_keeps_the_coverage() {
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
    assert!(is_near_95_per_cent(covered), "{covered}");
}
