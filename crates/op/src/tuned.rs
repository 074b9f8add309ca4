//! Tuned settings: selects the best setting that a search found for a problem on a GPU.
//!
//! A family has a table of picks ([`family::tuned`]). [`candidate`] resolves the name of a preset to a candidate,
//! including `tuned`. [`best`] selects among all families of an op.

use family::tuned::{self, Pick};
use family::{Candidate, Catalog, Family};
use gpu::device::Device;

use crate::contract::{Op, Refusal};

/// A pick that is valid for the family, with its problem and its candidate there.
#[derive(Clone, Debug)]
pub struct UsablePick<'f, P> {
    /// The pick as the table lists it.
    pub pick: &'f Pick,
    /// The problem that the pick names.
    pub problem: P,
    /// The candidate of the pick's setting for this problem.
    pub candidate: Candidate,
}

/// A pick that cannot be used, with the reason: the family changed, or the pick belongs to another family.
#[derive(Clone, Debug)]
pub struct UnusablePick<'f> {
    /// The pick as the table lists it.
    pub pick: &'f Pick,
    /// Why the pick cannot be used.
    pub reason: String,
}

/// Returns the usable and the unusable picks of a family's table. An old table stays useful as long as one of its picks
/// is, so unusable picks are never selected. Callers should report them.
pub fn picks<'f, O: Op>(
    op: &O,
    family: &'f Family,
) -> (Vec<UsablePick<'f, O::Problem>>, Vec<UnusablePick<'f>>) {
    let (mut usable, mut unusable) = (Vec::new(), Vec::new());
    for pick in &family.tuned.picks {
        match parse_pick(op, family, pick) {
            Ok((problem, candidate)) => usable.push(UsablePick { pick, problem, candidate }),
            Err(reason) => unusable.push(UnusablePick { pick, reason }),
        }
    }
    (usable, unusable)
}

fn parse_pick<O: Op>(op: &O, family: &Family, pick: &Pick) -> Result<(O::Problem, Candidate), String> {
    if pick.family != family.full_name() {
        return Err(format!("it belongs to {}", pick.family));
    }
    let problems = op.problems(&pick.problem).map_err(|refusal| refusal.to_string())?;
    let [problem] = problems.as_slice() else {
        return Err(format!("`{}` does not name exactly one problem", pick.problem));
    };
    let candidate = pick_candidate(op, family, pick, &[], problem).map_err(|refusal| refusal.to_string())?;
    Ok((problem.clone(), candidate))
}

/// The candidate of a pick on a problem, with knobs set on top.
fn pick_candidate<O: Op>(
    op: &O,
    family: &Family,
    pick: &Pick,
    knobs: &[(String, String)],
    problem: &O::Problem,
) -> Result<Candidate, Refusal> {
    let candidate = op.candidate(family, None, &[&pick.setting(), knobs].concat(), problem)?;
    Ok(candidate.relative_to_nearest_preset(family, &pick.baseline))
}

/// How well a pick fits a request; less is better.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Distance {
    is_other_problem: bool,
    /// Logarithm of the ratio of the sizes, because the load of a GPU scales by factors. From 8 heads to 16 is as far
    /// as from 64 to 128, and a problem of half the size fits as well as one of twice the size.
    log_ratio: f64,
    /// Of two picks that are equally near, a measured one is preferred.
    is_modelled: bool,
}

/// Returns the pick for a problem on a device. This is the problem's own pick, or that of the problem of the same kind
/// nearest in size. The setting must be allowed for this problem and target. The returned candidate is for the
/// requested problem. If the table has no pick, the refusal says what it has.
pub fn pick<'f, O: Op>(
    op: &O,
    family: &'f Family,
    device: &Device,
    problem: &O::Problem,
) -> Result<UsablePick<'f, O::Problem>, Refusal> {
    let nearest = ranked(op, family, device, problem).into_iter().find_map(|(_, usable)| usable.ok());
    nearest.ok_or_else(|| no_pick(op, family, device, problem))
}

type Ranked<'f, P> = (Distance, Result<UsablePick<'f, P>, Refusal>);

/// Returns the picks of the problem's kind on the device, the nearest first. Each has its candidate on the problem, or
/// the reason why it is not allowed there.
fn ranked<'f, O: Op>(
    op: &O,
    family: &'f Family,
    device: &Device,
    problem: &O::Problem,
) -> Vec<Ranked<'f, O::Problem>> {
    let asked = op.similarity(problem);
    let (usable, _) = picks(op, family);
    let mut ranked: Vec<_> = usable
        .into_iter()
        .filter(|usable| usable.pick.matches_gpu(device.gpu()))
        .filter_map(|UsablePick { pick, problem: of, .. }| {
            let own = op.similarity(&of);
            let distance = Distance {
                is_other_problem: of != *problem,
                log_ratio: (own.size / asked.size).ln().abs(),
                is_modelled: pick.time.is_modelled(),
            };
            let allowed = || -> Result<_, Refusal> {
                let candidate = pick_candidate(op, family, pick, &[], problem)?;
                family.check_target(&candidate, device.target())?;
                Ok(UsablePick { pick, problem: of, candidate })
            };
            (own.kind == asked.kind).then(|| (distance, allowed()))
        })
        .collect();
    ranked.sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    ranked
}

/// Returns the candidate of a preset for a problem on a device, with knobs set on top. Like [`Op::candidate`], but
/// `tuned` selects the table's pick.
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
    pick_candidate(op, family, pick(op, family, device, problem)?.pick, knobs, problem)
}

/// Returns the fastest pick of all families of the op. Picks are ranked first by how well they fit the problem, because
/// only times of one problem are comparable, and then by time.
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

/// The refusal if there is no pick. Its hint says what the table has.
fn no_pick<O: Op>(op: &O, family: &Family, device: &Device, problem: &O::Problem) -> Refusal {
    let refusal =
        Refusal::new(format!("{} has no tuned setting for {problem} on {}", family.name, device.gpu()));
    if let Some((_, Err(nearest))) = ranked(op, family, device, problem).into_iter().next() {
        return refusal.hint(Some(format!("the nearest pick is not allowed: {nearest}")));
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
    let own = usable.iter().filter(|usable| usable.pick.matches_gpu(device.gpu()));
    let kinds = distinct(own.map(|usable| op.similarity(&usable.problem).kind).collect());
    let gpus = distinct(usable.iter().map(|usable| usable.pick.gpu.clone()).collect());
    refusal.hint(Some(match (kinds.as_str(), gpus.as_str()) {
        ("", "") => format!("its table is empty; `warpsmith evolve {} --tuned FILE` writes one", family.name),
        ("", gpus) => format!("its table is for {gpus}"),
        (kinds, _) => format!("its table for this GPU has {kinds}, of any size"),
    }))
}
