//! Tuned settings: what a search found best, for a problem on a GPU, without a search.
//!
//! A family carries its table ([`family::tuned`]); here is who gets which pick of it. [`candidate`] is how a preset's name
//! becomes a candidate wherever kernels are named, [`best`] is for those who do not care which family it is.

use family::tuned::{self, Pick};
use family::{Candidate, Catalog, Family};
use gpu::device::Device;

use crate::contract::{Op, Refusal};

/// How two problems compare where a setting is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct Likeness {
    /// Problems of one kind differ in size alone; what is best for one kind says nothing about another.
    pub kind: String,
    /// How much there is to do, on whatever scale: sizes are compared by their ratio.
    pub size: f64,
}

/// A pick that the family still has, with the problem it is of and what it comes to there.
#[derive(Clone, Debug)]
pub struct UsablePick<'f, P> {
    pub pick: &'f Pick,
    pub problem: P,
    pub candidate: Candidate,
}

/// A pick that is of no use, and why: the family changed, or the table is another's.
#[derive(Clone, Debug)]
pub struct UnusablePick<'f> {
    pub pick: &'f Pick,
    pub reason: String,
}

/// The picks of a family's table. An old table has its use as long as one of its picks has, so what does not fit any more
/// is left out of every choice; whoever shows or uses the others should say what was left out.
pub fn picks<'f, O: Op>(
    op: &O,
    family: &'f Family,
) -> (Vec<UsablePick<'f, O::Problem>>, Vec<UnusablePick<'f>>) {
    let (mut usable, mut stale) = (Vec::new(), Vec::new());
    for pick in &family.tuned.picks {
        match read(op, family, pick) {
            Ok((problem, candidate)) => usable.push(UsablePick { pick, problem, candidate }),
            Err(reason) => stale.push(UnusablePick { pick, reason }),
        }
    }
    (usable, stale)
}

fn read<O: Op>(op: &O, family: &Family, pick: &Pick) -> Result<(O::Problem, Candidate), String> {
    if pick.family != family.full_name() {
        return Err(format!("it is of {}", pick.family));
    }
    let problems = op.problems(&pick.problem).map_err(|refusal| refusal.to_string())?;
    let [problem] = problems.as_slice() else {
        return Err(format!("`{}` is not one problem", pick.problem));
    };
    let candidate = setting(op, family, pick, &[], problem).map_err(|refusal| refusal.to_string())?;
    Ok((problem.clone(), candidate))
}

/// A pick's setting on a problem, with knobs set on top.
fn setting<O: Op>(
    op: &O,
    family: &Family,
    pick: &Pick,
    knobs: &[(String, String)],
    problem: &O::Problem,
) -> Result<Candidate, Refusal> {
    let candidate = op.candidate(family, None, &[&pick.setting(), knobs].concat(), problem)?;
    Ok(candidate.told_shortest(family, &pick.baseline))
}

/// How far a pick is from what is asked for; less is better.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Distance {
    another: bool,
    /// Logarithm of the ratio of the sizes: whether a GPU is filled, and how often, goes by factors. From 8 heads to 16 is
    /// as far as from 64 to 128, and a problem of half the size is as good a guide as one of twice the size.
    factor: f64,
    /// Of two that are as near, one that was measured.
    modelled: bool,
}

/// The pick for a problem on a device: its own if there is one, else that of the problem of its kind that is nearest in
/// size, as far as the setting is allowed for this problem and on this target. The candidate is the asked problem's.
/// Where the table has none, the refusal says what it has.
pub fn pick<'f, O: Op>(
    op: &O,
    family: &'f Family,
    device: &Device,
    problem: &O::Problem,
) -> Result<UsablePick<'f, O::Problem>, Refusal> {
    let nearest = ranked(op, family, device, problem).into_iter().find_map(|(_, usable)| usable.ok());
    nearest.ok_or_else(|| none(op, family, device, problem))
}

type Ranked<'f, P> = (Distance, Result<UsablePick<'f, P>, Refusal>);

/// The picks of the problem's kind on the device, the nearest first, with what each comes to on the problem; or why it
/// comes to nothing there.
fn ranked<'f, O: Op>(
    op: &O,
    family: &'f Family,
    device: &Device,
    problem: &O::Problem,
) -> Vec<Ranked<'f, O::Problem>> {
    let asked = op.likeness(problem);
    let (usable, _) = picks(op, family);
    let mut ranked: Vec<_> = usable
        .into_iter()
        .filter(|usable| usable.pick.is_of(device.gpu()))
        .filter_map(|UsablePick { pick, problem: of, .. }| {
            let own = op.likeness(&of);
            let distance = Distance {
                another: of != *problem,
                factor: (own.size / asked.size).ln().abs(),
                modelled: pick.time.is_modelled(),
            };
            let allowed = || -> Result<_, Refusal> {
                let candidate = setting(op, family, pick, &[], problem)?;
                family.check_target(&candidate, device.target())?;
                Ok(UsablePick { pick, problem: of, candidate })
            };
            (own.kind == asked.kind).then(|| (distance, allowed()))
        })
        .collect();
    ranked.sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    ranked
}

/// The candidate of a preset for a problem on a device, with knobs set on top: as [`Op::candidate`], and `tuned` is the
/// table's pick.
pub fn candidate<O: Op>(
    op: &O,
    family: &Family,
    preset: Option<&str>,
    knobs: &[(String, String)],
    (problem, device): (&O::Problem, &Device),
) -> Result<Candidate, Refusal> {
    if !preset.is_some_and(tuned::is_tuned) {
        return op.candidate(family, preset, knobs, problem);
    }
    setting(op, family, pick(op, family, device, problem)?.pick, knobs, problem)
}

/// The fastest there is a pick for, of all the families of the op. Picks are ranked by how well they fit the problem
/// first, since only times of one problem can be compared; of those that fit as well, the shortest time.
pub fn best<'c, O: Op>(
    op: &O,
    catalog: &'c Catalog,
    device: &Device,
    problem: &O::Problem,
) -> Option<(&'c Family, Candidate)> {
    let entries = catalog.entries().iter().filter(|entry| entry.op == op.name());
    let families = entries.filter_map(|entry| entry.family.as_ref().ok());
    let picks = families.flat_map(|family| {
        let ranked = ranked(op, family, device, problem).into_iter();
        ranked.filter_map(move |(distance, usable)| Some((distance, family, usable.ok()?)))
    });
    let key = |(distance, _, usable): &(Distance, &Family, UsablePick<'_, O::Problem>)| {
        (*distance, usable.pick.time.micros())
    };
    let best = picks.min_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
    best.map(|(_, family, usable)| (family, usable.candidate))
}

/// Why there is no pick, and what the table has instead.
fn none<O: Op>(op: &O, family: &Family, device: &Device, problem: &O::Problem) -> Refusal {
    let refusal =
        Refusal::new(format!("{} has no tuned setting for {problem} on {}", family.name, device.gpu()));
    if let Some((_, Err(nearest))) = ranked(op, family, device, problem).into_iter().next() {
        return refusal.hint(Some(format!("the nearest is not allowed there: {nearest}")));
    }
    let (usable, _) = picks(op, family);
    let distinct = |words: Vec<String>| {
        let mut seen: Vec<String> = Vec::new();
        for word in words {
            if !seen.contains(&word) {
                seen.push(word);
            }
        }
        seen.join(", ")
    };
    let own = usable.iter().filter(|usable| usable.pick.is_of(device.gpu()));
    let kinds = distinct(own.map(|usable| op.likeness(&usable.problem).kind).collect());
    let gpus = distinct(usable.iter().map(|usable| usable.pick.gpu.clone()).collect());
    refusal.hint(Some(match (kinds.as_str(), gpus.as_str()) {
        ("", "") => format!("its table is empty; `warpsmith evolve {} --tuned FILE` fills one", family.name),
        ("", gpus) => format!("its table is of {gpus}"),
        (kinds, _) => format!("its table has there: {kinds}, of any size"),
    }))
}
