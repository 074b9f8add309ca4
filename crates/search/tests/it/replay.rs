//! Recorded spaces: their file formats, and conformance to the replay rules.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use warpsmith_search::replay::{Recorded, RecordedFault, play, play_all, score, write_csv};
use warpsmith_search::strategies::{ALL, by_name};

/// The folder of recorded spaces: `WARPSMITH_SPACES`, or `shared/spaces` in a parent folder of this crate.
fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("WARPSMITH_SPACES").map(PathBuf::from);
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared/spaces"));
    let found = named.into_iter().chain(above).find(|folder| folder.join("README.md").is_file());
    if found.is_none() {
        eprintln!("skipped: no recorded spaces; set WARPSMITH_SPACES to their folder");
    }
    found
}

fn recorded(folder: &Path, name: &str) -> Recorded {
    Recorded::read(&folder.join(format!("{name}.json.gz"))).unwrap()
}

/// Rows of the table in the folder's README: name, configurations, valid, optimum.
fn listed(folder: &Path) -> Vec<(String, usize, usize, f64)> {
    let text = fs::read_to_string(folder.join("README.md")).unwrap();
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, configurations, valid, optimum, _] = cells[..] else { return None };
        Some((name.to_owned(), configurations.parse().ok()?, valid.parse().ok()?, optimum.parse().ok()?))
    });
    rows.collect()
}

#[test]
fn conformance_a_sizes_and_optima() {
    let Some(folder) = folder() else { return };
    let rows = listed(&folder);
    assert!(rows.len() >= 8, "{rows:?}");
    for (name, configurations, valid, optimum) in rows {
        let recorded = recorded(&folder, &name);
        assert_eq!((recorded.space.len(), recorded.valid()), (configurations, valid), "{name}");
        assert_eq!(recorded.optimum(), optimum, "{name}");
    }
}

#[test]
fn conformance_b_random_has_the_exact_expectation() {
    let Some(folder) = folder() else { return };
    let text = fs::read_to_string(folder.join("random_exact.csv")).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at: Vec<usize> = header[1..].iter().map(|title| title[1..].parse().unwrap()).collect();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let recorded = recorded(&folder, cells[0]);
        let runs = play_all(&recorded, by_name("random").unwrap(), 300, 200, &AtomicBool::new(false), &|| ())
            .unwrap();
        let score = score(&recorded, "random", &runs, 200, &at);
        for (mark, exact) in score.at.iter().zip(&cells[1..]) {
            let exact: f64 = exact.parse().unwrap();
            let off = (mark.mean - exact).abs() / mark.standard_error;
            assert!(off < 4.0, "{} at {}: {} for {exact}, {off} se", cells[0], mark.evaluations, mark.mean);
        }
    }
}

#[test]
fn conformance_c_equal_seeds_give_equal_orders() {
    let Some(folder) = folder() else { return };
    let recorded = recorded(&folder, "convolutionkt-rtx3090");
    for entry in ALL {
        let order = |seed| play(&recorded, entry, seed, 60).order;
        assert_eq!(order(11), order(11), "{}", entry.name);
    }
}

#[test]
fn a_run_does_not_depend_on_the_order_of_the_file() {
    let Some(folder) = folder() else { return };
    let bytes = fs::read(folder.join("pnpoly-rtx3090.json.gz")).unwrap();
    let recorded = Recorded::from_bytes(&bytes, "").unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut text).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let times = document["time_ms"].as_object_mut().unwrap();
    *times = std::mem::take(times).into_iter().rev().collect();
    let reversed = Recorded::from_bytes(document.to_string().as_bytes(), "").unwrap();
    let entry = by_name("model").unwrap();
    assert_eq!(play(&recorded, entry, 1, 30).order, play(&reversed, entry, 1, 30).order);
}

const NATIVE: &str = r#"{"name":"toy","kernel":"k","gpu":"g","params":{"a":[1,2,4],"b":[0,1]},
    "time_ms":{"1,0":4.0,"1,1":null,"2,0":2.0,"4,1":1.5}}"#;

#[test]
fn a_recorded_space_is_read() {
    let toy = Recorded::from_bytes(NATIVE.as_bytes(), "file").unwrap();
    assert_eq!((toy.name.as_str(), toy.kernel.as_str(), toy.gpu.as_str()), ("toy", "k", "g"));
    assert_eq!((toy.space.len(), toy.valid(), toy.optimum()), (4, 3, 1.5));
    let keys: Vec<String> = toy.space.points().map(|point| toy.space.key(point)).collect();
    assert_eq!(keys, ["1,0", "1,1", "2,0", "4,1"]);
}

#[test]
fn failures_count_and_a_run_ends_with_the_space() {
    let toy = Recorded::from_bytes(NATIVE.as_bytes(), "").unwrap();
    let run = play(&toy, by_name("exhaustive").unwrap(), 0, 200);
    assert_eq!(run.order.len(), 4);
    assert_eq!(run.failed, 1);
    assert_eq!(run.fractions, [0.375, 0.375, 0.75, 1.0]);
    let score = score(&toy, "exhaustive", &[run], 200, &[1, 3, 200]);
    assert_eq!(score.at.iter().map(|at| at.mean).collect::<Vec<_>>(), [0.375, 0.75, 1.0]);
    assert_eq!((score.to_95, score.mean_unique, score.mean_failed), (Some(4.0), 4.0, 1.0));
}

#[test]
fn the_csv_has_the_documented_header() {
    let toy = Recorded::from_bytes(NATIVE.as_bytes(), "").unwrap();
    let runs = [play(&toy, by_name("exhaustive").unwrap(), 0, 200)];
    let mut bytes = Vec::new();
    write_csv(&[score(&toy, "exhaustive", &runs, 200, &[25, 50, 100, 200])], &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next().unwrap(),
        "space,kernel,gpu,strategy,seeds,budget,f25,f50,f100,f200,se25,se50,se100,se200,auc200,ev95_median,reach95,\
         mean_unique,mean_failed,wall_s_per_100"
    );
    let row = lines.next().unwrap();
    assert!(row.starts_with("toy,k,g,exhaustive,1,200,1.000000,1.000000,"), "{row}");
    assert_eq!(row.split(',').count(), 20);
}

const CACHE: &str = r#"{
"device_name": "NVIDIA A4000",
"kernel_name": "vector_add",
"problem_size": 1000,
"tune_params_keys": ["block_size_x", "fast", "mode"],
"tune_params": {"block_size_x": [32, 64, 64, 128], "fast": [false, true], "mode": ["a", "b,c"]},
"cache": {
"32,False,a": {"block_size_x": 32, "fast": false, "mode": "a", "time": 0.5, "times": [0.5]},
"64,True,b,c": {"block_size_x": 64, "fast": true, "mode": "b,c", "time": "RuntimeFailedConfig"},
"128,True,a": {"time": 0.25},
"64,False,a": {"block_size_x": 64, "fast": false, "mode": "a", "time": 1e+20},"#;

#[test]
fn complete_and_interrupted_kernel_tuner_caches_are_read() {
    let closed = format!("{}\n}}\n}}", CACHE.trim_end_matches(','));
    let mid_line = format!("{CACHE}\n\"32,True,a\": {{\"block_size_x\": 32, \"fa");
    for text in [closed.as_str(), CACHE, mid_line.as_str()] {
        let cache = Recorded::from_bytes(text.as_bytes(), "file").unwrap();
        assert_eq!((cache.kernel.as_str(), cache.gpu.as_str()), ("vector_add", "NVIDIA A4000"));
        assert_eq!((cache.space.len(), cache.valid(), cache.optimum()), (4, 2, 0.25));
        assert_eq!(cache.space.parameters()[0].values.len(), 3, "a value listed twice is one value");
    }
}

#[test]
fn t4_results_are_read() {
    let text = r#"{"schema_version": "1.0.0", "results": [
        {"configuration": {"x": 64, "y": 1}, "invalidity": "correct", "measurements": [{"name": "time", "value": 2.0, "unit": "ms"}]},
        {"configuration": {"x": 32, "y": 1}, "invalidity": "correct", "measurements": [{"name": "time", "value": 1.0, "unit": "ms"}]},
        {"configuration": {"x": 32, "y": 2}, "invalidity": "compile", "measurements": []},
        {"configuration": {"x": 64, "y": 2}, "invalidity": "constraints", "measurements": []}]}"#;
    let results = Recorded::from_bytes(text.as_bytes(), "conv-t4").unwrap();
    assert_eq!((results.name.as_str(), results.space.len(), results.valid()), ("conv-t4", 3, 2));
    assert_eq!(results.space.parameters()[0].values, [32.into(), 64.into()], "values are sorted");
}

#[test]
fn damaged_files_are_refused_with_a_reason() {
    let fault = |text: &str| Recorded::from_bytes(text.as_bytes(), "").unwrap_err();
    let message = |text: &str| fault(text).to_string();
    assert!(matches!(fault(""), RecordedFault::Json(_)));
    assert!(matches!(fault("{\"params\": {"), RecordedFault::Json(_)));
    assert!(matches!(fault("{\"a\": 1}"), RecordedFault::Unknown));
    assert!(matches!(fault("[1, 2]"), RecordedFault::Unknown));
    assert_eq!(message(r#"{"name":"n","kernel":"k","params":{},"time_ms":{}}"#), "missing field `gpu`");
    assert_eq!(message(&NATIVE.replace("2,0", "2")), "`2` has 1 values for 2 parameters");
    assert_eq!(message(&NATIVE.replace("2,0", "3,0")), "`3,0`: a has no value 3");
    assert_eq!(message(&NATIVE.replace("2.0", "-2.0")), "`2,0`: -2 is not a time");
    assert_eq!(
        message(&NATIVE.replace("4.0", "null").replace("2.0", "null").replace("1.5", "null")),
        "no configuration has a time"
    );
    assert_eq!(message(&NATIVE.replace("[0,1]", "[0,1,0]")), "parameter `b` has the value 0 twice");
    let no_time = CACHE.replace("{\"time\": 0.25}", "{\"gflops\": 1}");
    assert_eq!(message(&no_time), "`128,True,a`: a missing field is not a time");
    assert!(matches!(
        Recorded::from_bytes(&[0x1f, 0x8b, 8, 0, 1, 2], "").unwrap_err(),
        RecordedFault::Gzip(_)
    ));
    let path = tempfile::tempdir().unwrap().path().join("nothing.json");
    let error = Recorded::read(&path).unwrap_err().to_string();
    assert!(error.contains("nothing.json: cannot read the file"), "{error}");
}

/// A file that is cut short anywhere is an error or a smaller space, never a panic.
#[test]
fn truncated_files_do_not_panic() {
    let mut outcomes = String::new();
    for text in [NATIVE, CACHE] {
        for end in 0..text.len() {
            let outcome = Recorded::from_bytes(&text.as_bytes()[..end], "");
            let _ = write!(outcomes, "{}", u8::from(outcome.is_ok()));
        }
    }
    assert!(outcomes.contains('0') && outcomes.contains('1'), "some prefixes of the cache are valid spaces");
}
