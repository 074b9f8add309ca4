//! Model based.

use std::collections::HashMap;

use super::knob;
use crate::history::{History, Origin, Proposal};
use crate::model::axis::Axis;
use crate::model::fit::{Shape, fit};
use crate::model::process::{Columns, Process};
use crate::random::Random;
use crate::space::{Neighbourhood, Point, Space};
use crate::strategy::{Strategy, unknown};

pub struct Model {
    seed: u64,
    state: Option<State>,
}

struct State {
    varying: Vec<usize>,
    axes: Vec<Axis>,
    columns: Columns,
    candidates: Vec<Point>,
    place: HashMap<Point, usize>,
    shape: Shape,
    process: Process,
    fitted: usize,
    /// points timed so far
    points: Vec<Vec<u16>>,
    times: Vec<f64>,
    seen: usize,
    /// feasibility sums
    good: Vec<f32>,
    bad: Vec<f32>,
    failures: usize,
    features: Vec<Vec<f32>>,
    coords: Vec<Vec<f32>>,
}

fn features(coords: &[Vec<f32>], p: &[u16]) -> Vec<f32> {
    let z: Vec<f32> = coords.iter().zip(p).map(|(c, &p)| c[p as usize]).collect();
    let mut f = z.clone();
    if knob("PAIRS", 1.0) > 0.0 {
        for i in 0..z.len() {
            if coords[i].len() < 3 {
                continue;
            }
            for j in 0..i {
                if coords[j].len() >= 3 {
                    f.push(z[i] + z[j]);
                    f.push(z[i] - z[j]);
                }
            }
        }
    }
    f
}

impl Model {
    pub fn new(seed: u64) -> Self {
        Model { seed, state: None }
    }
}

fn positions(space: &Space, varying: &[usize], point: Point) -> Vec<u16> {
    varying.iter().map(|&p| space.position(point, p) as u16).collect()
}

impl State {
    fn new(space: &Space, seed: u64) -> Self {
        let varying = space.varying();
        let axes: Vec<Axis> = varying.iter().map(|&p| Axis::of(&space.parameters()[p])).collect();
        let most = knob("POOL", 50000.0) as usize;
        let candidates: Vec<Point> = if space.len() <= most {
            space.points().collect()
        } else {
            let mut random = Random::new(seed);
            let mut c: Vec<Point> =
                (0..most).filter_map(|_| space.point(random.below(space.len()))).collect();
            c.sort();
            c.dedup();
            c
        };
        let mut columns = Columns { positions: vec![Vec::new(); axes.len()], count: candidates.len() };
        for &c in &candidates {
            for (a, &p) in varying.iter().enumerate() {
                columns.positions[a].push(space.position(c, p) as u16);
            }
        }
        let place = candidates.iter().enumerate().map(|(i, &p)| (p, i)).collect();
        let shape = Shape::prior(axes.len());
        let process = Process::new(axes.clone(), &shape, columns.count);
        let n = candidates.len();
        State {
            varying,
            axes,
            columns,
            candidates,
            place,
            shape,
            process,
            fitted: 0,
            points: vec![],
            times: vec![],
            seen: 0,
            good: vec![0.0; n],
            bad: vec![0.0; n],
            failures: 0,
            features: vec![],
            coords: vec![],
        }
    }

    fn targets(&self, n: usize) -> Vec<f64> {
        let mut y: Vec<f64> = self.times[..n].iter().map(|t| t.ln()).collect();
        let q = knob("CLIP", 0.9);
        if q < 1.0 && n > 3 {
            let mut s = y.clone();
            s.sort_by(f64::total_cmp);
            let at = s[((n - 1) as f64 * q) as usize];
            let soft = knob("SOFT", 0.0);
            for v in &mut y {
                if *v > at {
                    *v = at + soft * (*v - at);
                }
            }
        }
        y
    }

    fn learn(&mut self, space: &Space, history: &History) {
        let flen = knob("FLEN", 0.3);
        for &(point, outcome) in &history.told()[self.seen..] {
            let p = positions(space, &self.varying, point);
            // feasibility
            let mut w = vec![1.0_f32; self.columns.count];
            for (a, axis) in self.axes.iter().enumerate() {
                let v = axis.values();
                let row: Vec<f32> = axis.distances()[p[a] as usize * v..][..v]
                    .iter()
                    .map(|d| (-d / flen).exp() as f32)
                    .collect();
                for (w, &q) in w.iter_mut().zip(&self.columns.positions[a]) {
                    *w *= row[q as usize];
                }
            }
            let sum = if outcome.time().is_some() { &mut self.good } else { &mut self.bad };
            for (s, w) in sum.iter_mut().zip(&w) {
                *s += w;
            }
            if let Some(time) = outcome.time() {
                self.points.push(p.clone());
                self.times.push(time);
                let n = self.points.len();
                let n0 = knob("FITMIN", 4.0) as usize;
                if n >= n0 && n >= (self.fitted as f64 * knob("GROW", 1.15)) as usize + 1 {
                    self.fitted = n;
                    let y = self.targets(n);
                    let start = if knob("WARM", 1.0) > 0.0 {
                        self.shape.clone()
                    } else {
                        Shape::prior(self.axes.len())
                    };
                    self.shape = fit(&self.axes, &self.points, &y, &start, knob("STEPS", 15.0) as usize);
                }
            } else {
                self.failures += 1;
            }
        }
        self.seen = history.told().len();
    }

    fn refresh(&mut self, stale: bool) {
        if stale {
            self.process = Process::new(self.axes.clone(), &self.shape, self.columns.count);
        }
        for i in self.process.len()..self.points.len() {
            self.process.push(self.points[i].clone(), &self.columns);
        }
    }
}

fn cdf(u: f32) -> f32 {
    // Abramowitz-Stegun 26.2.17
    let x = u.abs();
    let t = 1.0 / (1.0 + 0.231_641_9 * x);
    let poly =
        t * (0.319_381_53 + t * (-0.356_563_78 + t * (1.781_477_9 + t * (-1.821_255_9 + t * 1.330_274_4))));
    let tail = pdf(x) * poly;
    if u >= 0.0 { 1.0 - tail } else { tail }
}
fn pdf(u: f32) -> f32 {
    0.398_942_3 * (-0.5 * u * u).exp()
}

impl Strategy for Model {
    fn ask(&mut self, space: &Space, history: &History) -> Option<Proposal> {
        let mut random = Random::at(self.seed, history.asked().len());
        let seed = self.seed;
        let state = self.state.get_or_insert_with(|| State::new(space, seed));
        let before = state.fitted;
        state.learn(space, history);
        let n0 = knob("INIT", 8.0) as usize;
        if history.known().len() < n0 || state.points.len() < 2 {
            // maximin
            let tries = knob("SPREAD", 10.0) as usize;
            let known: Vec<Vec<u16>> =
                history.asked().iter().map(|q| positions(space, &state.varying, q.point)).collect();
            let mut best: Option<(f64, Point)> = None;
            for _ in 0..tries {
                let p = unknown(space, history, &mut random)?;
                let x = positions(space, &state.varying, p);
                let d = known
                    .iter()
                    .map(|k| {
                        state
                            .axes
                            .iter()
                            .enumerate()
                            .map(|(a, axis)| {
                                let d = axis.distances()[x[a] as usize * axis.values() + k[a] as usize];
                                d
                            })
                            .sum::<f64>()
                    })
                    .fold(f64::INFINITY, f64::min);
                if best.is_none_or(|b| d > b.0) {
                    best = Some((d, p));
                }
            }
            return best.map(|(_, p)| Proposal::new(p, Origin::Start));
        }
        state.refresh(before != state.fitted || state.process.len() == 0);
        let n = state.points.len();
        let y = state.targets(n);
        let best_y = y.iter().copied().fold(f64::INFINITY, f64::min);
        let (_, scale, mut mean) = state.process.means(&y);
        let mut spread: Vec<f32> =
            state.process.explained.iter().map(|e| scale as f32 * (1.0 - e).max(1e-6).sqrt()).collect();
        let mix = knob("FOREST", 0.0) as f32;
        if mix > 0.0 {
            use crate::model::forest::Tree;
            if state.features.is_empty() {
                state.coords = state
                    .varying
                    .iter()
                    .map(|&p| {
                        let v = &space.parameters()[p].values;
                        let nums: Option<Vec<f64>> = v.iter().map(crate::Value::number).collect();
                        match nums {
                            Some(n) if n.iter().all(|&x| x > 0.0) => {
                                n.iter().map(|x| x.ln() as f32).collect()
                            }
                            Some(n) => n.iter().map(|&x| x as f32).collect(),
                            None => (0..v.len()).map(|i| i as f32).collect(),
                        }
                    })
                    .collect();
                let m = knob("FPOOL", 3000.0) as usize;
                let pos = &state.columns.positions;
                state.features = (0..state.candidates.len())
                    .map(|c| features(&state.coords, &pos.iter().map(|p| p[c]).collect::<Vec<_>>()))
                    .collect();
                let _ = m;
            }
            let rows: Vec<Vec<f32>> = state.points.iter().map(|p| features(&state.coords, p)).collect();
            let t = knob("TREES", 30.0) as usize;
            let tries = (rows[0].len() as f64 * knob("MTRY", 0.5)).ceil() as usize;
            let trees: Vec<Tree> = (0..t)
                .map(|_| Tree::grow(&rows, &y, tries, knob("LEAF", 3.0) as usize, &mut random))
                .collect();
            let m = knob("FPOOL", 3000.0) as usize;
            let keep = m as f64 / state.candidates.len() as f64;
            let mut near = vec![false; state.candidates.len()];
            let mut fastest: Vec<(Point, f64)> = history.timed().collect();
            fastest.sort_by(|a, b| a.1.total_cmp(&b.1));
            for (p, _) in fastest.into_iter().take(5) {
                for q in space.neighbours(p, Neighbourhood::AnyValue) {
                    if let Some(&i) = state.place.get(&q) {
                        near[i] = true;
                    }
                }
            }
            for c in 0..state.candidates.len() {
                if !near[c] && random.uniform() > keep {
                    mean[c] = 1e9;
                    continue;
                }
                let (mut a, mut b, mut lv) = (0.0, 0.0, 0.0);
                for tree in &trees {
                    let (p, v) = tree.predict(&state.features[c]);
                    a += p;
                    b += p * p;
                    lv += v;
                }
                let fm = a / t as f32;
                let fv = (b / t as f32 - fm * fm).max(0.0) + lv / t as f32;
                mean[c] = mix * fm + (1.0 - mix) * mean[c];
                spread[c] = mix * fv.sqrt().max(1e-4) + (1.0 - mix) * spread[c];
            }
        }
        let mut pick: Option<(f32, f32, usize)> = None;
        let xi = knob("XI", 0.0) as f32 * scale as f32;
        let mask: Option<Vec<bool>> = {
            let local = knob("LOCAL", 0.0) as usize;
            if local > 0 && history.asked().len() % local == local - 1 {
                let mut m = vec![false; state.candidates.len()];
                let mut any = false;
                let mut fastest: Vec<(Point, f64)> = history.timed().collect();
                fastest.sort_by(|a, b| a.1.total_cmp(&b.1));
                for (p, _) in fastest.into_iter().take(knob("LTOP", 1.0) as usize) {
                    for q in space.neighbours(p, Neighbourhood::AnyValue) {
                        if !history.is_known(q)
                            && let Some(&i) = state.place.get(&q)
                        {
                            m[i] = true;
                            any = true;
                        }
                    }
                }
                any.then_some(m)
            } else {
                None
            }
        };
        let prior = knob("FPRIOR", 0.5) as f32;
        let pw = knob("FPOW", 1.0) as f32;
        let beta = knob("BETA", 0.0) as f32;
        for c in 0..state.candidates.len() {
            if history.is_known(state.candidates[c]) {
                continue;
            }
            if let Some(m) = &mask
                && !m[c]
            {
                continue;
            }
            let s = spread[c];
            let gain = best_y as f32 - xi - mean[c];
            let u = gain / s;
            let mut ei = if beta > 0.0 { 10.0 + gain + beta * s } else { s * (u * cdf(u) + pdf(u)) };
            if state.failures > 0 {
                let p = (state.good[c] + prior) / (state.good[c] + state.bad[c] + prior);
                ei *= p.powf(pw);
            }
            let m = -mean[c];
            if pick.is_none_or(|(e, pm, _)| ei > e || (ei == e && m > pm)) {
                pick = Some((ei, m, c));
            }
        }
        let (_, _, c) = pick?;
        let point = state.candidates[c];
        Some(
            Proposal::new(point, Origin::Model)
                .from(history.best().map(|b| b.0).into_iter().collect::<Vec<_>>()),
        )
    }
}
