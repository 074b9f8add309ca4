//! Kernel families: manifests and tuned tables.

use attention::Attention;
use family::tuned_table::Table;
use family::{Catalog, Family, Sizes};
use indexmap::IndexMap;
use op::OpProblems as _;

/// One of our families, for its tuned table.
const MANIFEST: &str = include_str!("../../../../kernels/attention/mma/kernel.toml");
/// Number of settings of a family that are tried.
const MOST_SETTINGS: usize = 6;

/// A manifest, and everything that is computed from it before the compiler runs.
pub fn manifest(input: &[u8]) {
    let text = super::text(input);
    // The manifest is also the source, so the source contains the entry's name.
    let files = [("kernel.toml", text.to_string()), ("kernel.cu", text.to_string())];
    let files = files.map(|(name, text)| (format!("attention/fuzzed/{name}"), text));
    let catalog = Catalog::from_files("kernels", files);
    for entry in catalog.entries() {
        match &entry.family {
            Ok(family) => use_family(family),
            Err(error) => drop(error.to_string()),
        }
    }
}

fn use_family(family: &Family) {
    let presets = family.presets.iter().map(|preset| Some(preset.name.as_str())).chain([None]);
    let sizes: [Sizes; 2] =
        [1, i64::MAX].map(|size| family.size_names().iter().map(|name| (name.clone(), size)).collect());
    for preset in presets.take(MOST_SETTINGS) {
        let candidate = match family.candidate(preset, &[], &[]) {
            Ok(candidate) => candidate,
            Err(error) => {
                drop((error.to_string(), error.hint()));
                continue;
            }
        };
        drop((candidate.label(family), candidate.changes(family)));
        for sizes in &sizes {
            let _ = family.workspace(&candidate, sizes);
            let _ = family.launch(&candidate, sizes);
        }
        for &target in &family.targets {
            if let Err(error) = family.request(&candidate, target) {
                drop((error.to_string(), error.hint()));
            }
        }
        drop(candidate.relative_to_nearest_preset(family, "fuzzed"));
    }
    if let (Some(&target), Ok(problem)) = (family.targets.first(), Attention.problems("b1h8s512d64-fp16")) {
        let axes: IndexMap<_, _> =
            family.axes.iter().map(|axis| (axis.name.clone(), axis.values[0].clone())).collect();
        for rule in family.rules(&axes, target) {
            let values: Vec<&family::Value> =
                rule.knobs.iter().map(|&knob| &family.knobs[knob].default).collect();
            rule.holds(&values);
        }
        for problem in &problem {
            let _ = Attention.candidate(family, None, &[], problem);
        }
    }
}

/// A tuned table: alone, and next to one of our families.
pub fn tuned(input: &[u8]) {
    let text = super::text(input);
    let Ok(table) = Table::parse("tuned.toml", &text) else { return };
    for pick in &table.picks {
        pick.matches_gpu("NVIDIA H200");
        drop(pick.setting());
    }
    let mut taken = Table::default();
    taken.merge(table.picks.clone());
    if let Ok(written) = toml::to_string(&table) {
        assert!(Table::parse("tuned.toml", &written).is_ok(), "a written table cannot be read");
    }
    let files = [("kernel.toml", MANIFEST), ("kernel.cu", MANIFEST), ("tuned.toml", &text)];
    let files = files.map(|(name, text)| (format!("attention/mma/{name}"), text.to_owned()));
    let catalog = Catalog::from_files("kernels", files);
    if let Ok(family) = catalog.family("mma") {
        let (usable, stale) = op::dispatch::picks(&Attention, family);
        assert_eq!(usable.len() + stale.len(), table.picks.len(), "a pick is lost");
    }
}
