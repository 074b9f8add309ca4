//! Every knob has an effect: it reaches the generated source, the build's hash and the code.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use chips::Target;
use compiler::testing::{pinned_toolchain, shared_cache};
use compiler::{Compiler, Request};
use warpsmith_family::{Axis, Candidate, Catalog, Family, Knob, Value};

fn compiler() -> Compiler {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let compiler = Compiler::new(pinned_toolchain(folder), &shared_cache(folder)).unwrap();
    // The PTX shows which settings differ, in half of the time.
    compiler.without_machine_code()
}

fn families(catalog: &Catalog) -> Vec<&Family> {
    catalog
        .entries()
        .iter()
        .map(|entry| entry.family.as_ref().expect("an embedded manifest is right"))
        .collect()
}

/// Sm90, or the first target of a family that does not support it.
fn target_of(family: &Family) -> Target {
    *family.targets.iter().find(|&&target| target == Target::Sm90).unwrap_or(&family.targets[0])
}

/// The request for a preset, or for the defaults, with one knob set, if it is valid and fits the target.
fn with_knob(
    family: &Family,
    preset: Option<&str>,
    knob: &Knob,
    value: &warpsmith_family::Value,
    axes: &[(String, String)],
    target: Target,
) -> Option<Request> {
    let setting = [(knob.name.clone(), value.to_string())];
    let candidate = family.candidate(preset, &setting, axes).ok()?;
    family.request(&candidate, target).ok()
}

/// The requests for the valid values of a knob, for the presets and the defaults under which the knob has the most
/// valid values. The last preset comes first.
fn valid_values(
    family: &Family,
    knob: &Knob,
    axes: &[(String, String)],
    target: Target,
) -> Vec<Vec<(String, Request)>> {
    let of_preset = |preset: Option<&str>| -> Vec<(String, Request)> {
        let each = knob.values.iter();
        each.filter_map(|value| {
            Some((value.to_string(), with_knob(family, preset, knob, value, axes, target)?))
        })
        .collect()
    };
    let presets = family.presets.iter().map(|preset| Some(preset.name.as_str()));
    let mut each: Vec<_> = std::iter::once(None).chain(presets).map(of_preset).collect();
    let most = each.iter().map(Vec::len).max().unwrap_or_default();
    each.retain(|valid| valid.len() == most);
    each.reverse();
    each
}

fn generated(request: &Request) -> &str {
    &request.source.headers.iter().find(|(name, _)| name == "generated.cuh").expect("every build has one").1
}

#[test]
fn every_knob_changes_the_generated_source_and_the_hash() {
    let compiler = compiler();
    let catalog = Catalog::load(None).unwrap();
    for family in families(&catalog) {
        for knob in &family.knobs {
            // Some knobs exist for some values of the axes only, such as one type.
            let axes = std::iter::once(Vec::new()).chain(family.axis_settings());
            let mut settings = axes.flat_map(|axes| valid_values(family, knob, &axes, target_of(family)));
            let valid = settings.find(|valid| valid.len() >= 2).unwrap_or_default();
            assert!(valid.len() >= 2, "{}: no preset allows two values of {}", family.full_name(), knob.name);
            for (index, (value, request)) in valid.iter().enumerate() {
                for (other_value, other) in &valid[..index] {
                    let what = format!("{}: {} {value} and {other_value}", family.full_name(), knob.name);
                    assert_ne!(generated(request), generated(other), "{what}");
                    assert_ne!(compiler.hash(request), compiler.hash(other), "{what}");
                }
            }
        }
    }
}

/// The settings under which a knob's values are compared. A knob may act only for one value of an axis, such as one
/// element type, and a preset may switch off what it changes. The presets under which the knob has the most valid values
/// come first, each axis with the first of them, then with the others.
fn settings(family: &Family, knob: &Knob) -> Vec<Vec<(String, Request)>> {
    let axes = family
        .axes
        .iter()
        .flat_map(|axis| axis.values.iter().map(|value| vec![(axis.name.clone(), value.to_string())]));
    let of_axes = |axes: Vec<_>| valid_values(family, knob, &axes, target_of(family));
    let each: Vec<_> = std::iter::once(Vec::new()).chain(axes).map(of_axes).collect();
    let most = each.iter().map(Vec::len).max().unwrap_or_default();
    (0..most).flat_map(|preset| each.iter().filter_map(move |presets| presets.get(preset)).cloned()).collect()
}

/// The pairs of values of a knob whose code is the same under all settings that allow both.
fn equal_values(compiler: &Compiler, family: &Family, knob: &Knob) -> Vec<String> {
    let name = format!("{} {}", family.full_name(), knob.name);
    let settings = settings(family, knob);
    let pairs = |valid: &[(String, Request)]| -> Vec<(String, String)> {
        let of_second = |second: usize| (0..second).map(move |first| (first, second));
        let pair = |(first, second): (usize, usize)| (valid[first].0.clone(), valid[second].0.clone());
        (0..valid.len()).flat_map(of_second).map(pair).collect()
    };
    let mut equal: BTreeSet<(String, String)> = settings.iter().flat_map(|valid| pairs(valid)).collect();
    assert!(!equal.is_empty(), "{name}: no setting allows two values");
    for valid in settings {
        let is_open = |value: &String| equal.iter().any(|(first, second)| first == value || second == value);
        let (values, requests): (Vec<String>, Vec<Request>) =
            valid.into_iter().filter(|(value, _)| is_open(value)).unzip();
        if requests.len() < 2 {
            continue;
        }
        let outcomes = compiler.build_many(&requests, 2, &|_, _| ());
        let codes: HashMap<String, String> =
            values.into_iter().zip(outcomes.into_iter().map(|it| it.unwrap().build.code_hash)).collect();
        equal.retain(|(first, second)| match (codes.get(first), codes.get(second)) {
            (Some(first), Some(second)) => first == second,
            _ => true,
        });
        if equal.is_empty() {
            break;
        }
    }
    equal.into_iter().map(|(first, second)| format!("{name}: {first} and {second}")).collect()
}

#[test]
fn every_value_of_every_knob_changes_the_code() {
    let compiler = compiler();
    let catalog = Catalog::load(None).unwrap();
    let mut equal = Vec::new();
    for family in families(&catalog) {
        // In declared ops a number of blocks changes only the launch, and a bound on registers (RESIDENT) changes
        // nothing in a setting that needs fewer.
        let is_exempt = |name: &str| family.grid_depends_on(name) || name == "RESIDENT";
        let has_code = |name: &str| family.op == "attention" || !is_exempt(name);
        let knobs = family.knobs.iter().filter(|knob| has_code(&knob.name));
        equal.extend(knobs.flat_map(|knob| equal_values(&compiler, family, knob)));
    }
    assert!(equal.is_empty(), "these values have the same code under all settings: {equal:?}");
}

/// Candidates that differ only in the first two values of an axis. Some values need another preset, or a certain value of
/// a second axis: the type of an FP8 output can be chosen only for FP8.
fn candidates_of_axis(family: &Family, axis: &Axis) -> Vec<Candidate> {
    let presets = std::iter::once(None).chain(family.presets.iter().map(|preset| Some(preset.name.as_str())));
    let others = family.axes.iter().filter(|other| other.name != axis.name);
    let pair = |axis: &Axis, value: &Value| (axis.name.clone(), value.to_string());
    let seconds: Vec<Option<(String, String)>> = std::iter::once(None)
        .chain(others.flat_map(|other| other.values.iter().map(|value| Some(pair(other, value)))))
        .collect();
    let both = |preset: Option<&str>, second: &Option<(String, String)>| -> Option<Vec<Candidate>> {
        let values = axis.values.iter().take(2);
        values
            .map(|value| {
                let axes: Vec<_> = std::iter::once(pair(axis, value)).chain(second.clone()).collect();
                family.candidate(preset, &[], &axes).ok()
            })
            .collect()
    };
    presets
        .flat_map(|preset| seconds.iter().map(move |second| (preset, second)))
        .find_map(|(preset, second)| both(preset, second))
        .unwrap_or_else(|| panic!("{} has no candidates for the values of {}", family.full_name(), axis.name))
}

#[test]
fn every_specialised_axis_changes_the_code() {
    let compiler = compiler();
    let catalog = Catalog::load(None).unwrap();
    for family in families(&catalog) {
        for axis in family.axes.iter().filter(|axis| axis.specialised) {
            let mut codes = Vec::new();
            for candidate in candidates_of_axis(family, axis) {
                let request = family.request(&candidate, target_of(family)).unwrap();
                codes.push(compiler.build(&request).unwrap().build.code_hash);
            }
            codes.dedup();
            assert_eq!(codes.len(), 2.min(axis.values.len()), "{} {}", family.full_name(), axis.name);
        }
    }
}
