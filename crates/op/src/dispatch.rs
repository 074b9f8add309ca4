//! The dispatcher: selects the best setting that a search found for a problem on a GPU.
//!
//! A family has a table of picks ([`family::tuned_table`]). [`candidate`] resolves the name of a preset to a candidate,
//! including `tuned`. [`choose`] selects among all families of an op. All selections use one rule, `Distance`: the pick
//! that fits the problem best, and of equally good ones the fastest. A measured and a modelled time are never compared:
//! of two picks that fit equally well, the measured one is selected.

use std::fmt;

use family::tuned_table::{Pick, is_tuned};
use family::{Candidate, Catalog, Family};
use gpu::device::Device;

use crate::contract::{OpProblems, Refusal, Similarity, Work};
use crate::plausible::implausible_reason;

/// What the dispatcher asks of an op. Every op with [`OpProblems`] has it. A crate that cannot depend on an op's crate can
/// implement it for the problems that it needs.
pub trait Dispatch {
    /// A size and type of the inputs.
    type Problem: Clone + PartialEq + fmt::Display;

    /// The folder of the op's families under `kernels/`.
    fn op(&self) -> &str;

    /// The problem with a name, as a tuned table lists it.
    fn problem(&self, name: &str) -> Result<Self::Problem, Refusal>;

    /// Describes which problems can share a setting with this one.
    fn similarity(&self, problem: &Self::Problem) -> Similarity;

    /// The candidate of a preset (or of the defaults) for a problem, with knobs overridden.
    fn candidate(
        &self,
        family: &Family,
        preset: Option<&str>,
        knobs: &[(String, String)],
        problem: &Self::Problem,
    ) -> Result<Candidate, Refusal>;

    /// The minimum work of a problem, with the element type of its matrix products; `None` if it is not known.
    fn work(&self, _problem: &Self::Problem) -> Option<(Work, Option<&str>)> {
        None
    }

    /// Families in the order in which to try them for a problem without a tuned setting. Other families come last.
    fn preferred_families(&self) -> &[&str] {
        &[]
    }
}

impl<O: OpProblems + ?Sized> Dispatch for O {
    type Problem = O::Problem;

    fn op(&self) -> &str {
        self.name()
    }

    fn problem(&self, name: &str) -> Result<O::Problem, Refusal> {
        match self.problems(name)?.as_slice() {
            [problem] => Ok(problem.clone()),
            _ => Err(Refusal::new(format!("`{name}` does not name exactly one problem"))),
        }
    }

    fn similarity(&self, problem: &O::Problem) -> Similarity {
        OpProblems::similarity(self, problem)
    }

    fn candidate(
        &self,
        family: &Family,
        preset: Option<&str>,
        knobs: &[(String, String)],
        problem: &O::Problem,
    ) -> Result<Candidate, Refusal> {
        OpProblems::candidate(self, family, preset, knobs, problem)
    }

    fn work(&self, problem: &O::Problem) -> Option<(Work, Option<&str>)> {
        Some((OpProblems::work(self, problem), self.matrix_type(problem)))
    }

    fn preferred_families(&self) -> &[&str] {
        OpProblems::preferred_families(self)
    }
}

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

/// A pick that cannot be used, with the reason: the family changed, the pick belongs to another family, or its time
/// cannot be true.
#[derive(Clone, Debug)]
pub struct UnusablePick<'f> {
    /// The pick as the table lists it.
    pub pick: &'f Pick,
    /// Why the pick cannot be used.
    pub reason: String,
}

/// Returns the usable and the unusable picks of a family's table. An old table stays useful as long as one of its picks
/// is, so unusable picks are never selected. Callers should report them.
pub fn picks<'f, O: Dispatch + ?Sized>(
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

fn parse_pick<O: Dispatch + ?Sized>(
    op: &O,
    family: &Family,
    pick: &Pick,
) -> Result<(O::Problem, Candidate), String> {
    if pick.family != family.full_name() {
        return Err(format!("it belongs to {}", pick.family));
    }
    let problem = op.problem(&pick.problem).map_err(|refusal| refusal.to_string())?;
    let candidate = pick_candidate(op, family, pick, &[], &problem).map_err(|refusal| refusal.to_string())?;
    match implausible_reason(&pick.gpu, pick.time, op.work(&problem)) {
        Some(reason) => Err(reason),
        None => Ok((problem, candidate)),
    }
}

/// The candidate of a pick on a problem, with knobs set on top.
fn pick_candidate<O: Dispatch + ?Sized>(
    op: &O,
    family: &Family,
    pick: &Pick,
    knobs: &[(String, String)],
    problem: &O::Problem,
) -> Result<Candidate, Refusal> {
    let candidate = op.candidate(family, None, &[&pick.setting(), knobs].concat(), problem)?;
    Ok(candidate.relative_to_nearest_preset(family, &pick.baseline))
}

/// How well a pick fits a request; less is better. Only times of picks with the same distance are compared.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Distance {
    is_other_gpu: bool,
    is_other_problem: bool,
    /// The distance of the regimes ([`Similarity::regime`]).
    other_regime: u32,
    /// Logarithm of the ratio of the sizes, because the load of a GPU scales by factors. From 8 heads to 16 is as far
    /// as from 64 to 128, and a problem of half the size fits as well as one of twice the size. Every related kind
    /// that is preferred to the pick's own kind counts like a factor of [`OTHER_KIND`].
    unlike: f64,
    /// Of two picks that are equally near, a measured one is preferred.
    is_modelled: bool,
}

/// The distance of a related kind, as a ratio of sizes.
const OTHER_KIND: f64 = 2.0;

/// Returns the pick for a problem on a device. This is the problem's own pick, or that of the problem of the same kind
/// nearest in size. The setting must be allowed for this problem and target. The returned candidate is for the
/// requested problem. If the table has no pick, the refusal says what it has.
pub fn pick<'f, O: Dispatch + ?Sized>(
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
fn ranked<'f, O: Dispatch + ?Sized>(
    op: &O,
    family: &'f Family,
    device: &Device,
    problem: &O::Problem,
) -> Vec<Ranked<'f, O::Problem>> {
    let all = all_ranked(op, family, device, problem).into_iter();
    let own = all.filter(|(kind, (distance, _))| *kind == 0 && !distance.is_other_gpu);
    own.map(|(_, ranked)| ranked).collect()
}

/// Like [`ranked`], but also of related kinds and of other GPUs. Each pick has the place of its kind: 0 for the
/// problem's own kind, then the kinds of [`crate::Similarity::related`] in order.
fn all_ranked<'f, O: Dispatch + ?Sized>(
    op: &O,
    family: &'f Family,
    device: &Device,
    problem: &O::Problem,
) -> Vec<(usize, Ranked<'f, O::Problem>)> {
    let asked = op.similarity(problem);
    let (usable, _) = picks(op, family);
    let mut ranked: Vec<_> = usable
        .into_iter()
        .filter_map(|UsablePick { pick, problem: of, .. }| {
            let own = op.similarity(&of);
            let mut kinds = std::iter::once(&asked.kind).chain(&asked.related);
            let kind = kinds.position(|kind| *kind == own.kind)?;
            let distance = Distance {
                is_other_gpu: !pick.matches_gpu(device.gpu()),
                is_other_problem: of != *problem,
                other_regime: own.regime.abs_diff(asked.regime),
                unlike: (own.size / asked.size).ln().abs() + kind as f64 * OTHER_KIND.ln(),
                is_modelled: pick.time.is_modelled(),
            };
            let allowed = || -> Result<_, Refusal> {
                let candidate = pick_candidate(op, family, pick, &[], problem)?;
                family.check_target(&candidate, device.target())?;
                Ok(UsablePick { pick, problem: of, candidate })
            };
            Some((kind, (distance, allowed())))
        })
        .collect();
    ranked.sort_by(|(_, (a, _)), (_, (b, _))| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    ranked
}

/// Returns the candidate of a preset for a problem on a device, with knobs set on top. Like [`Dispatch::candidate`], but `tuned`
/// selects the table's pick.
pub fn candidate<O: Dispatch + ?Sized>(
    op: &O,
    family: &Family,
    preset: Option<&str>,
    knobs: &[(String, String)],
    (problem, device): (&O::Problem, &Device),
) -> Result<Candidate, Refusal> {
    if !preset.is_some_and(is_tuned) {
        return op.candidate(family, preset, knobs, problem);
    }
    pick_candidate(op, family, pick(op, family, device, problem)?.pick, knobs, problem)
}

/// Returns a family and a setting for a problem on a device, among all families of the op.
///
/// This is the fastest pick. Picks are ranked first by how well they fit (`Distance`), because only times of one kind,
/// of one problem on one GPU, are comparable, and then by time. A problem of a kind without picks gets a pick of a related kind, and a GPU without
/// picks gets those of another GPU. If no pick is allowed, the first allowed preset of the preferred families is
/// returned. It refuses only a problem that no family supports on the device.
pub fn choose<'c, O: Dispatch + ?Sized>(
    op: &O,
    catalog: &'c Catalog,
    device: &Device,
    problem: &O::Problem,
) -> Result<(&'c Family, Candidate), Refusal> {
    let entries = catalog.entries().iter().filter(|entry| entry.op == op.op());
    let families: Vec<&Family> = entries.filter_map(|entry| entry.family.as_ref().ok()).collect();
    let picks = families.iter().flat_map(|&family| {
        let ranked = all_ranked(op, family, device, problem).into_iter();
        ranked.filter_map(move |(_, (distance, usable))| Some((distance, family, usable.ok()?)))
    });
    let key = |(distance, _, usable): &(Distance, &Family, UsablePick<'_, O::Problem>)| {
        (*distance, usable.pick.time.micros())
    };
    let best = picks.min_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
    match best {
        Some((_, family, usable)) => Ok((family, usable.candidate)),
        None => first_allowed(op, families, device, problem),
    }
}

/// Returns the first preset that is allowed for a problem on a device, of the preferred families first. Of other
/// families, a plain one comes last.
fn first_allowed<'c, O: Dispatch + ?Sized>(
    op: &O,
    mut families: Vec<&'c Family>,
    device: &Device,
    problem: &O::Problem,
) -> Result<(&'c Family, Candidate), Refusal> {
    let preferred = op.preferred_families();
    let place = |family: &&Family| preferred.iter().position(|name| *name == family.name);
    families.sort_by_key(|family| (place(family).unwrap_or(preferred.len()), family.plain));
    let found = families.iter().find_map(|&family| {
        let presets = family.presets.iter().map(|preset| Some(preset.name.as_str())).chain([None]);
        let mut candidates = presets.filter_map(|preset| op.candidate(family, preset, &[], problem).ok());
        let allowed = candidates.find(|candidate| family.check_target(candidate, device.target()).is_ok());
        Some((family, allowed?))
    });
    found.ok_or_else(|| Refusal::new(format!("no family supports {problem} on {}", device.gpu())))
}

/// The refusal if there is no pick. Its hint says what the table has.
fn no_pick<O: Dispatch + ?Sized>(op: &O, family: &Family, device: &Device, problem: &O::Problem) -> Refusal {
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
