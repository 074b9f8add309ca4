//! Every knob has an effect: it reaches the generated source, the build's hash and the machine code.

use std::path::Path;

use chips::Target;
use compiler::testing::{pinned_toolchain, shared_cache};
use compiler::{Compiler, Request};
use warpsmith_family::{Axis, Candidate, Catalog, Family, Knob, Value};

fn compiler() -> Compiler {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    Compiler::new(pinned_toolchain(folder), &shared_cache(folder)).unwrap()
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

/// The settings of a knob whose machine code equals that of another value.
fn equal_codes(compiler: &Compiler, family: &Family, knob: &Knob, axes: &[(String, String)]) -> Vec<String> {
    let name = format!("{} {}", family.full_name(), knob.name);
    // A preset may switch off what the knob changes, so the others are tried, too.
    let mut equal = vec![format!("{name}: one valid value with {axes:?}")];
    for valid in valid_values(family, knob, axes, target_of(family)).iter().filter(|valid| valid.len() >= 2) {
        equal = equal_codes_of(compiler, &name, valid);
        if equal.is_empty() {
            break;
        }
    }
    equal
}

fn equal_codes_of(compiler: &Compiler, name: &str, valid: &[(String, Request)]) -> Vec<String> {
    let requests: Vec<Request> = valid.iter().map(|(_, request)| request.clone()).collect();
    let outcomes = compiler.build_many(&requests, 2, &|_, _| ());
    let codes: Vec<String> = outcomes.into_iter().map(|outcome| outcome.unwrap().build.code_hash).collect();
    let is_equal = |&index: &usize| codes[..index].contains(&codes[index]);
    let setting = |index: usize| format!("{name}={}", valid[index].0);
    (0..codes.len()).filter(is_equal).map(setting).collect()
}

#[test]
fn every_value_of_every_knob_changes_the_machine_code() {
    let compiler = compiler();
    let catalog = Catalog::load(None).unwrap();
    let mut without_effect = Vec::new();
    for family in families(&catalog) {
        // In declared ops a number of blocks changes only the launch, and a bound on registers (RESIDENT) changes
        // nothing in a setting that needs fewer.
        let is_exempt = |name: &str| family.grid_depends_on(name) || name == "RESIDENT";
        let has_code = |name: &str| family.op == "attention" || !is_exempt(name);
        for knob in family.knobs.iter().filter(|knob| has_code(&knob.name)) {
            // A knob may act only for one value of an axis, such as one element type.
            let values = family.axes.iter().flat_map(|axis| {
                axis.values.iter().map(|value| vec![(axis.name.clone(), value.to_string())])
            });
            let mut each = std::iter::once(Vec::new()).chain(values);
            let of_axes = |axes: Vec<(String, String)>| equal_codes(&compiler, family, knob, &axes);
            let mut equal = of_axes(each.next().expect("the defaults"));
            while !equal.is_empty() {
                let Some(axes) = each.next() else { break };
                equal = of_axes(axes);
            }
            without_effect.extend(equal);
        }
    }
    assert!(without_effect.is_empty(), "these settings change nothing: {without_effect:?}");
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
fn every_specialised_axis_changes_the_machine_code() {
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
