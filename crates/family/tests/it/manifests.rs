//! Tests of valid and invalid manifests.

use std::fs;
use std::path::Path;

use chips::Target;
use compiler::Request;
use warpsmith_family::{
    Catalog, CatalogError, ManifestError, SettingError, Sizes, TensorBox, Value, Weights,
};

/// A small valid family; each test breaks one thing.
const MANIFEST: &str = r#"specialise = ["dtype"]

[family]
description = "a test"
entry = "scale"
targets = ["sm_80", "sm_89"]
weights = { e4m3 = "fp8" }

[supports]
dtype = ["fp16", "e4m3"]
mask = ["none", "causal-tl"]

[knobs.BLOCK]
values = [64, 128, 256]
default = 128
about = "threads"

[knobs.MODE]
values = ["plain", "fast-path"]
default = "plain"
about = "how"

[knobs.DEEP]
values = [false, true]
default = false
about = "more memory"
search = false

[[constraints]]
require = "!DEEP || BLOCK >= 128"
because = "deep needs width"

[[constraints]]
on = ["sm_80"]
require = 'dtype == "fp16"'
because = "no FP8 there"

[presets.small]
about = "small"
knobs = { BLOCK = 64 }

[presets.large]
about = "large"
knobs = { BLOCK = 256, DEEP = true }

[pathologies.narrow]
about = "few threads"
advice = "more threads"
knobs = { BLOCK = 64, DEEP = false }

[launch]
sizes = ["n"]
grid = ["ceil_div(n, BLOCK)", "2"]
block = ["BLOCK"]

[[shared]]
name = "tile"
element = "half"
shape = ["BLOCK", "DEEP ? 512 : 8"]
align = 128

[[shared]]
name = "codes"
element = "u8"
shape = ["BLOCK"]
when = "dtype == 'e4m3'"

[[workspace]]
name = "partials"
element = "float"
shape = ["n", "2"]

[limits]
registers = 64
spill_bytes = 0
"#;

const SOURCE: &str = "#include \"common/helper.cuh\"\n#include \"generated.cuh\"\nextern \"C\" __global__ void scale(float* x) { *x = knob::BLOCK; }\n";

fn write_family(root: &Path, manifest: &str) {
    fs::create_dir_all(root.join("demo/scale")).unwrap();
    fs::create_dir_all(root.join("demo/common")).unwrap();
    fs::write(root.join("demo/scale/kernel.toml"), manifest).unwrap();
    fs::write(root.join("demo/scale/kernel.cu"), SOURCE).unwrap();
    fs::write(root.join("demo/common/helper.cuh"), "#include \"common/deeper.cuh\"\n").unwrap();
    fs::write(root.join("demo/common/deeper.cuh"), "// end\n").unwrap();
}

fn catalog(manifest: &str) -> (tempfile::TempDir, Catalog) {
    let folder = tempfile::tempdir().unwrap();
    write_family(folder.path(), manifest);
    let catalog = Catalog::load(Some(folder.path())).unwrap();
    (folder, catalog)
}

fn error_of(break_it: impl Fn(&str) -> String) -> ManifestError {
    let broken = break_it(MANIFEST);
    assert_ne!(broken, MANIFEST, "the test changed nothing");
    let (_folder, catalog) = catalog(&broken);
    match catalog.family("scale") {
        Err(CatalogError::Manifest(errors)) => errors.0[0].clone(),
        other => panic!("accepted: {other:?}"),
    }
}

fn line_of(text: &str) -> usize {
    MANIFEST.lines().position(|line| line.contains(text)).expect("in the manifest") + 1
}

#[test]
fn a_valid_manifest_gives_candidates_layouts_and_launches() {
    let (_folder, catalog) = catalog(MANIFEST);
    let family = catalog.family("demo/scale").unwrap();
    let large = family.candidate(Some("large"), &[], &[("dtype".into(), "e4m3".into())]).unwrap();
    assert_eq!(large.knobs["BLOCK"], Value::Int(256));
    let layout = family.layout(&large).unwrap();
    assert_eq!(layout.buffer("codes").unwrap().offset, 256 * 512 * 2);
    assert_eq!(layout.total_bytes, 256 * 512 * 2 + 256);
    let sizes: Sizes = [("n".to_owned(), 1000)].into_iter().collect();
    let launch = family.launch(&large, &sizes).unwrap();
    assert_eq!((launch.grid, launch.block), ([4, 2, 1], [256, 1, 1]));
    assert_eq!(launch.shared_bytes, layout.total_bytes);
    assert_eq!(family.workspace(&large, &sizes).unwrap().total_bytes, 8000);
}

const FIRST_LAUNCH: &str = r#"[[launches]]
entry = "knob"
when = "DEEP"
shared = false
grid = ["n"]
block = ["32"]

[[launches]]
sizes = ["n"]"#;

#[test]
fn a_launch_with_a_condition_is_made_only_for_some_settings() {
    let manifest = MANIFEST.replace("[launch]\nsizes = [\"n\"]", FIRST_LAUNCH);
    let (_folder, catalog) = catalog(&manifest);
    let family = catalog.family("scale").unwrap();
    let sizes: Sizes = [("n".to_owned(), 1000)].into_iter().collect();
    let launches = |preset: &str| {
        let candidate = family.candidate(Some(preset), &[], &[]).unwrap();
        let sequence = family.launch_sequence(&candidate, &sizes).unwrap().into_iter();
        let launches =
            sequence.map(|(entry, launch)| (entry.to_owned(), launch.shared_bytes)).collect::<Vec<_>>();
        (launches, family.launched(&candidate).unwrap())
    };
    assert_eq!(launches("small"), (vec![("scale".to_owned(), 64 * 8 * 2)], vec![1]));
    let both = vec![("knob".to_owned(), 0), ("scale".to_owned(), 256 * 512 * 2)];
    assert_eq!(launches("large"), (both, vec![0, 1]));
}

#[test]
fn the_main_launch_has_no_condition() {
    let error = error_of(|manifest| manifest.replace("[launch]\n", "[launch]\nwhen = \"DEEP\"\n"));
    assert_eq!(
        (error.field.as_str(), error.message.as_str()),
        ("launch.when", "the main launch is always made")
    );
}

const TENSOR_MAP: &str = r#"
[[tensor_maps]]
tensor = "x"
box = ["64", "BLOCK"]
swizzle = 128
"#;

#[test]
fn tensor_maps_have_boxes_that_depend_on_knobs() {
    let (_folder, catalog) = catalog(&(MANIFEST.to_owned() + TENSOR_MAP));
    let family = catalog.family("scale").unwrap();
    let boxes = |preset: &str| {
        let candidate = family.candidate(Some(preset), &[], &[]).unwrap();
        family.tensor_boxes(&candidate).unwrap()
    };
    let expected = |rows: u32| {
        let (tensor, extents) = ("x".to_owned(), vec![64, rows]);
        vec![TensorBox { tensor, extents, swizzle_bytes: 128, promotion_bytes: 256 }]
    };
    assert_eq!(boxes("small"), expected(64));
    assert_eq!(boxes("large"), expected(256));
}

#[test]
fn a_swizzle_may_be_an_expression_of_knobs() {
    let swizzle = |expression: &str| {
        let map = TENSOR_MAP.replace("swizzle = 128", &format!("swizzle = \"{expression}\""));
        let (_folder, catalog) = catalog(&(MANIFEST.to_owned() + &map));
        let family = catalog.family("scale").unwrap();
        ["small", "large"].map(|preset| {
            let candidate = family.candidate(Some(preset), &[], &[]).unwrap();
            let boxes = family.tensor_boxes(&candidate);
            boxes.map(|boxes| boxes[0].swizzle_bytes).map_err(|error| error.to_string())
        })
    };
    assert_eq!(swizzle("BLOCK > 64 ? 128 : 64"), [Ok(64), Ok(128)]);
    let [_, refused] = swizzle("BLOCK");
    assert!(refused.unwrap_err().contains("a swizzle of 256 bytes does not exist"));
}

#[test]
fn a_promotion_may_be_a_number_or_an_expression_of_knobs() {
    let promotion = |value: &str| {
        let (_folder, catalog) = catalog(&format!("{MANIFEST}{TENSOR_MAP}promotion = {value}\n"));
        let family = catalog.family("scale").unwrap();
        let boxes = family.tensor_boxes(&family.candidate(Some("small"), &[], &[]).unwrap());
        boxes.map(|boxes| boxes[0].promotion_bytes).map_err(|error| error.to_string())
    };
    assert_eq!(promotion("128"), Ok(128));
    assert_eq!(promotion(r#""BLOCK > 64 ? 128 : 0""#), Ok(0));
    assert!(promotion(r#""BLOCK / 2""#).unwrap_err().contains("a promotion of 32 bytes does not exist"));
    let error = error_of(|manifest| format!("{manifest}{TENSOR_MAP}promotion = 32\n"));
    assert_eq!(
        (error.field.as_str(), error.message.as_str()),
        ("tensor_maps.x.promotion", "32 is not one of 0, 64, 128, 256")
    );
}

#[test]
fn an_invalid_tensor_map_is_refused() {
    let error = |from: &str, to: &str| {
        let error = error_of(|manifest| manifest.to_owned() + &TENSOR_MAP.replace(from, to));
        (error.field, error.message)
    };
    let (field, message) = error("128", "48");
    assert_eq!(
        (field.as_str(), message.as_str()),
        ("tensor_maps.x.swizzle", "48 is not one of 0, 32, 64, 128")
    );
    assert_eq!(error(r#"["64", "BLOCK"]"#, "[]").1, "must have one to five extents");
    let (field, message) = error("BLOCK", "n");
    assert_eq!(field, "tensor_maps.x.box");
    assert!(message.contains("`n` is not known here"), "{message}");
}

#[test]
fn the_generated_header_contains_the_setting_and_the_layout() {
    let (_folder, catalog) = catalog(MANIFEST);
    let family = catalog.family("scale").unwrap();
    let candidate = family.candidate(Some("small"), &[("mode".into(), "fast-path".into())], &[]).unwrap();
    let request = family.request(&candidate, Target::Sm80).unwrap();
    let header_of = |request: &Request| {
        let headers = request.source.headers.iter();
        headers.filter(|(name, _)| name == "generated.cuh").map(|(_, text)| text.clone()).collect::<String>()
    };
    let fp8 = family.candidate(Some("small"), &[], &[("dtype".into(), "e4m3".into())]).unwrap();
    let fp8 = header_of(&family.request(&fp8, Target::Sm89).unwrap());
    assert!(fp8.contains("using Element = E4m3;") && !fp8.contains("struct __half;"), "{fp8}");
    let header = header_of(&request);
    for line in [
        "struct __half;",
        "using Element = ::__half;",
        "enum class Dtype { fp16, e4m3 };",
        "constexpr Dtype dtype = Dtype::fp16;",
        "constexpr int BLOCK = 64;",
        "constexpr Mode MODE = Mode::fast_path;",
        "constexpr bool DEEP = false;",
        "struct tile { static constexpr unsigned offset = 0, bytes = 1024;",
        "constexpr unsigned total = 1024;",
    ] {
        assert!(header.contains(line), "{line} is missing in\n{header}");
    }
    let names: Vec<&str> = request.source.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["common/deeper.cuh", "common/helper.cuh", "generated.cuh"]);
}

#[test]
fn an_invalid_setting_is_refused_with_the_valid_ones() {
    let (_folder, catalog) = catalog(MANIFEST);
    let family = catalog.family("scale").unwrap();
    let knob =
        |name: &str, value: &str| family.candidate(None, &[(name.into(), value.into())], &[]).unwrap_err();
    assert!(knob("BLOK", "64").hint().unwrap().starts_with("did you mean `BLOCK`?"));
    assert_eq!(knob("BLOCK", "65").hint().unwrap(), "BLOCK is one of 64, 128, 256");
    let constraint = family.candidate(Some("small"), &[("DEEP".into(), "on".into())], &[]).unwrap_err();
    assert_eq!(
        constraint.to_string(),
        "scale: `!DEEP || BLOCK >= 128` does not hold (BLOCK = 64, DEEP = true): deep needs width"
    );
    let axis = family.candidate(None, &[], &[("mask".into(), "none".into())]).unwrap_err();
    assert!(matches!(axis, SettingError::NotSpecialised { .. }), "{axis}");
    let large = family.candidate(Some("large"), &[], &[]).unwrap();
    let error = family.request(&large, Target::Sm89).unwrap_err();
    assert_eq!(
        error.to_string(),
        "scale needs 262144 bytes of shared memory per block (tile 262144); sm_89 has 101376"
    );
    assert!(matches!(family.request(&large, Target::Sm90), Err(SettingError::Target { .. })));
}

#[test]
fn a_constraint_on_targets_applies_only_to_them() {
    let folder = tempfile::tempdir().unwrap();
    write_family(folder.path(), MANIFEST);
    let catalog = Catalog::load(Some(folder.path())).unwrap();
    let family = catalog.family("scale").unwrap();
    let fp8 = family.candidate(None, &[], &[("dtype".into(), "e4m3".into())]).unwrap();
    assert!(family.check_target(&fp8, Target::Sm89).is_ok());
    let error = family.check_target(&fp8, Target::Sm80).unwrap_err();
    assert!(matches!(error, SettingError::Constraint { .. }), "{error}");
    assert!(error.to_string().ends_with("(dtype = e4m3): no FP8 there"), "{error}");
    assert!(family.check_target(&family.candidate(None, &[], &[]).unwrap(), Target::Sm80).is_ok());
}

#[test]
fn weights_are_half_unless_the_manifest_says_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    write_family(folder.path(), MANIFEST);
    let catalog = Catalog::load(Some(folder.path())).unwrap();
    let family = catalog.family("scale").unwrap();
    assert_eq!(family.weights("e4m3"), Weights::Fp8);
    assert_eq!(family.weights("fp16"), Weights::Half);
}

#[test]
fn knobs_are_searched_by_default_and_pathologies_are_settings() {
    let (_folder, catalog) = catalog(MANIFEST);
    let family = catalog.family("scale").unwrap();
    let searched: Vec<bool> = family.knobs.iter().map(|knob| knob.search).collect();
    assert_eq!(searched, [true, true, false]);
    let [narrow] = &family.pathologies[..] else { panic!("{:?}", family.pathologies) };
    assert_eq!((narrow.name.as_str(), narrow.advice.as_str()), ("narrow", "more threads"));
    assert_eq!(narrow.knobs["BLOCK"], Value::Int(64));
    let source = family.source_name();
    assert_eq!(family.own_file(&format!("/somewhere/{source}")), Some(source));
    assert_eq!(family.own_file("/tmp/common/helper.cuh"), Some("common/helper.cuh"));
    assert_eq!(family.own_file("/tmp/uncommon/helper.cuh"), None);
}

#[test]
fn errors_name_file_line_and_field() {
    let cases: [(&str, &str, &str, &str, &str); 20] = [
        ("targets = [\"sm_80\"", "targets = [\"sm_8\"", "targets =", "family.targets", "sm_8"),
        ("entry = \"scale\"", "entry = \"scael\"", "entry =", "family.entry", "no `scael` in"),
        ("specialise = [\"dtype\"]", "specialise = [\"dtyp\"]", "specialise", "specialise", "not an axis"),
        ("default = 128", "default = 129", "[knobs.BLOCK]", "knobs.BLOCK.default", "not one of 64, 128, 256"),
        ("values = [64, 128, 256]", "values = [64, 64]", "[knobs.BLOCK]", "knobs.BLOCK.values", "twice"),
        ("values = [false, true]", "values = [false, 1]", "[knobs.DEEP]", "knobs.DEEP.values", "mixes"),
        (
            "knobs = { BLOCK = 64 }",
            "knobs = { BLOK = 64 }",
            "[presets.small]",
            "presets.small.knobs.BLOK",
            "did you mean `BLOCK`",
        ),
        (
            "knobs = { BLOCK = 64, DEEP = false }",
            "knobs = { BLOCK = 65 }",
            "[pathologies.narrow]",
            "pathologies.narrow.knobs.BLOCK",
            "65 is not one of",
        ),
        (
            "knobs = { BLOCK = 64, DEEP = false }",
            "knobs = {}",
            "[pathologies.narrow]",
            "pathologies.narrow",
            "sets no knob",
        ),
        ("[presets.large]", "[presets.Tuned]", "[presets.large]", "presets.Tuned", "the tuned table's picks"),
        ("BLOCK = 256, DEEP", "BLOCK = 64, DEEP", "[presets.large]", "presets.large", "deep needs width"),
        (
            "require = \"!DEEP || BLOCK",
            "require = \"!DEEP || BLOCKS",
            "require =",
            "constraints.require",
            "`BLOCKS` is not known",
        ),
        ("on = [\"sm_80\"]", "on = [\"sm_8\"]", "on = [", "constraints.on", "sm_8"),
        ("{ e4m3 = \"fp8\" }", "{ bf16 = \"fp8\" }", "weights =", "family.weights.bf16", "not a dtype of"),
        (
            "{ e4m3 = \"fp8\" }",
            "{ e4m3 = \"fp4\" }",
            "weights =",
            "family.weights.e4m3",
            "neither half nor fp8",
        ),
        ("grid = [\"ceil_div(n,", "grid = [\"ceil_div(m,", "grid =", "launch.grid", "`m` is not known"),
        ("block = [\"BLOCK\"]", "block = [\"BLOCK +\"]", "block =", "launch.block", "BLOCK +"),
        ("element = \"half\"", "element = \"halb\"", "element = \"half\"", "shared.tile.element", "`halb`"),
        ("align = 128", "align = 100", "align = 128", "shared.tile.align", "power of two"),
        ("registers = 64", "registes = 64", "registers = 64", "kernel.toml", "unknown field `registes`"),
    ];
    for (right, wrong, at, field, words) in cases {
        let error = error_of(|text| text.replacen(right, wrong, 1));
        assert!(error.file.ends_with("demo/scale/kernel.toml"), "{error}");
        assert_eq!(error.field, field, "{error}");
        assert_eq!(error.line, line_of(at), "{error}");
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn invalid_toml_is_an_error_with_a_line() {
    let error = error_of(|text| text.replacen("[supports]", "[supports", 1));
    assert_eq!(error.line, line_of("[supports]"), "{error}");
}

#[test]
fn an_invalid_family_in_a_folder_does_not_affect_others() {
    let folder = tempfile::tempdir().unwrap();
    write_family(folder.path(), &MANIFEST.replace("[launch]", "[lunch]"));
    let catalog = Catalog::load(Some(folder.path())).unwrap();
    assert!(catalog.family("scale").is_err());
    assert!(catalog.family("wmma").is_ok());
    let missing = Catalog::load(Some(&folder.path().join("nowhere"))).unwrap_err();
    assert!(matches!(missing, CatalogError::Io { .. }), "{missing}");
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(Catalog::load(Some(empty.path())), Err(CatalogError::Empty { .. })));
}

#[test]
fn an_unknown_family_gets_a_suggestion() {
    let catalog = Catalog::load(None).unwrap();
    let error = catalog.family("refrence").unwrap_err();
    assert!(error.hint().unwrap().starts_with("did you mean `reference`?"), "{error}");
}

#[test]
fn a_manifest_without_a_source_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    write_family(folder.path(), MANIFEST);
    fs::remove_file(folder.path().join("demo/scale/kernel.cu")).unwrap();
    let catalog = Catalog::load(Some(folder.path())).unwrap();
    assert!(catalog.family("scale").unwrap_err().to_string().contains("no kernel.cu"));
}

#[test]
fn a_family_with_another_source_is_read_back_with_its_headers() {
    let catalog = Catalog::load(None).unwrap();
    let mma = catalog.family("mma").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let other = "#include \"common/chunks.cuh\"\nvoid attention_mma();\n";
    for (path, text) in mma.files_with(other) {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let again = Catalog::load(Some(folder.path())).unwrap();
    let again = again.family("attention/mma").unwrap();
    let request = |family: &warpsmith_family::Family| {
        let candidate = family.candidate(Some("small"), &[], &[]).unwrap();
        family.request(&candidate, Target::Sm89).unwrap().source
    };
    let (before, after) = (request(mma), request(again));
    assert_eq!(after.text, other);
    // The knobs and the layout are the same. The headers are those that the new source includes, directly or
    // indirectly.
    let names: Vec<&str> = after.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["common/chunks.cuh", "common/ptx.cuh", "generated.cuh"]);
    assert!(after.headers.iter().all(|header| before.headers.contains(header)));
}

#[test]
fn endless_files_and_cyclic_links_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    write_family(folder.path(), MANIFEST);
    std::os::unix::fs::symlink(folder.path(), folder.path().join("again")).unwrap();
    assert!(Catalog::load(Some(folder.path())).is_ok());
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("endless.toml")).unwrap();
    let error = Catalog::load(Some(folder.path())).unwrap_err().to_string();
    assert!(error.contains("endless.toml: is not a regular file"), "{error}");
}

/// Found by fuzzing: the product of the extents overflowed.
#[test]
fn a_block_or_cluster_with_huge_extents_is_refused() {
    let launch = |from: &str, to: &str| {
        let (_folder, catalog) = catalog(&MANIFEST.replace(from, to));
        let family = catalog.family("scale").unwrap();
        let candidate = family.candidate(Some("small"), &[], &[]).unwrap();
        let sizes: Sizes = [("n".to_owned(), 1000)].into_iter().collect();
        family.launch(&candidate, &sizes).unwrap_err()
    };
    let block = "block = [\"BLOCK\"]";
    for extents in ["4294967296, 4294967296, BLOCK", "17179869184, 4294967296, 0 - (0 - BLOCK)"] {
        let quoted = extents.replace(", ", "\", \"");
        let error = launch(block, &format!("block = [\"{quoted}\"]"));
        assert!(matches!(error, SettingError::Threads { threads: u64::MAX, .. }), "{error}");
    }
    // 2^32 + 1 is not 1.
    let error = launch(block, &format!("{block}\ncluster = [\"4294967297\"]"));
    assert!(matches!(error, SettingError::Cluster { blocks: 4_294_967_297, .. }), "{error}");
}
