//! Tests of the text, the JSON and the errors of commands.

use std::process::Command;

use crate::common::{SCALE, family_folder, run, settings, skipped, warpsmith, write_family};

/// Compares one invocation with the snapshot of this name.
fn snapshot(name: &str, arguments: &[&str]) {
    let outcome = run(warpsmith().args(arguments));
    settings().bind(|| insta::assert_snapshot!(name, outcome.to_string(), &arguments.join(" ")));
}

#[test]
fn help_of_the_program_and_of_commands() {
    snapshot("help", &["--help"]);
    for command in ["doctor", "toolchain", "kernels", "build"] {
        snapshot(&format!("help-{command}"), &[command, "--help"]);
    }
}

#[test]
fn kernels_lists_families_and_shows_one_as_text_and_json() {
    snapshot("kernels", &["kernels"]);
    snapshot("kernels-reference", &["kernels", "reference"]);
    snapshot("kernels-wmma", &["kernels", "wmma"]);
    snapshot("kernels-reference-json", &["kernels", "reference", "--json"]);
}

#[test]
fn wrong_names_and_values_are_errors_with_hints() {
    snapshot("error-family", &["build", "wmna"]);
    snapshot("error-family-json", &["build", "wmna", "--json"]);
    snapshot("error-kernels-family", &["kernels", "refrence"]);
    snapshot("error-preset", &["build", "wmma", "--preset", "stage-d"]);
    snapshot("error-knob", &["build", "wmma", "--set", "BLOCK_X=32"]);
    snapshot("error-value", &["build", "wmma", "--set", "BLOCK_M=33"]);
    snapshot("error-axis", &["build", "wmma", "--axis", "head_dim=72"]);
    snapshot("error-runtime-axis", &["build", "wmma", "--axis", "mask=causal"]);
    snapshot("error-assignment", &["build", "wmma", "--set", "BLOCK_M"]);
    snapshot("error-arch", &["build", "wmma", "--arch", "sm_98"]);
    snapshot("error-family-arch", &["build", "wmma", "--arch", "sm_75"]);
    snapshot("error-device", &["build", "wmma", "--device", "gpu"]);
    snapshot("error-virtual-device", &["build", "wmma", "--device", "virtual:l5"]);
    snapshot("error-no-family", &["build"]);
    snapshot("error-command", &["biuld"]);
    snapshot("error-command-json", &["biuld", "--json"]);
    snapshot("error-flag-json", &["check", "--json", "--problme", "small"]);
    snapshot("error-argument-json", &["gate", "--json"]);
    snapshot("error-kernels-folder", &["kernels", "--kernels", "/nowhere"]);
}

#[test]
fn invalid_settings_are_refused_before_compiling() {
    snapshot("error-constraint", &["build", "wmma", "--set", "BLOCK_M=16", "--set", "NUM_WARPS=8"]);
    let too_much = [
        "build",
        "wmma",
        "--set",
        "STAGES=4",
        "--set",
        "BLOCK_N=128",
        "--axis",
        "head_dim=128",
        "--arch",
        "sm_89",
    ];
    snapshot("error-shared-memory", &too_much);
}

#[test]
fn a_missing_gpu_is_exit_3() {
    let outcome = run(warpsmith().args(["build", "wmma", "--device", "cuda:7"]));
    assert_eq!(outcome.code, 3, "{outcome}");
    assert!(outcome.stderr.contains("hint: `--device virtual`"), "{outcome}");
}

#[test]
fn toolchain_shows_the_chosen_compiler_and_the_searched_places() {
    let mut settings = settings();
    // The other places depend on the machine.
    settings
        .add_filter(r"(?m)^  (CUDA_HOME|toolkit folder|loader's path|Python wheels) .*$", "  $1 [MACHINE]");
    let text = run(warpsmith().arg("toolchain"));
    settings.bind(|| insta::assert_snapshot!("toolchain", text.to_string()));
    let json = run(warpsmith().args(["toolchain", "--json"]));
    let document: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(document["schema"], "warpsmith.toolchain/1");
    assert_eq!(document["chosen"]["origin"], "named");
    assert_eq!(document["looked"][0]["verdict"], "chosen");
    assert!(document["version"].as_str().unwrap().starts_with("13.0.88"));
    snapshot("error-cuda", &["toolchain", "--cuda", "/nowhere"]);
    snapshot("error-build-cuda", &["build", "wmma", "--cuda", "/nowhere"]);
}

#[test]
fn doctor_shows_a_state_and_a_remedy_for_each_requirement() {
    let text = run(warpsmith().arg("doctor"));
    assert_eq!(text.code, 0, "{text}");
    for name in ["NVRTC", "GPU", "clocks", "toolkit", "ncu", "counters", "sandbox", "Python", "PyTorch"] {
        let line = text
            .stdout
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name}: {text}"));
        let state = line.split_whitespace().nth(1).unwrap();
        assert!(["found", "missing", "unusable"].contains(&state), "{line}");
    }
    assert!(text.stdout.contains("NVRTC     found    13.0.88"), "{text}");

    let json = run(warpsmith().args(["doctor", "--json"]));
    let document: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(document["schema"], "warpsmith.doctor/1");
    for check in document["checks"].as_array().unwrap() {
        let needs_remedy = check["status"] != "found";
        assert_eq!(needs_remedy, check["remedy"].is_string(), "{check}");
    }
}

#[test]
fn doctor_shows_which_parts_of_the_sandbox_are_active() {
    let line = |command: &mut Command| {
        let text = run(command);
        let line = text.stdout.lines().find(|line| line.starts_with("sandbox"));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let on = line(warpsmith().arg("doctor"));
    assert!(on.contains("seccomp, resource limits"), "{on}");
    let off = line(warpsmith().arg("doctor").env("WARPSMITH_SANDBOX", "off"));
    assert_eq!(off, "sandbox   missing  none: WARPSMITH_SANDBOX=off");
}

#[test]
fn doctor_without_compiler_and_python_is_exit_3() {
    let empty = tempfile::tempdir().unwrap();
    let mut command = warpsmith();
    command.arg("doctor").env_remove("WARPSMITH_CUDA").env("WARPSMITH_CACHE", empty.path());
    command.env("WARPSMITH_PYTHON", "/nowhere/python3").env("HOME", empty.path()).env("PATH", "/nowhere");
    let outcome = run(&mut command);
    // A CUDA toolkit in a standard folder is found in any case.
    if outcome.stdout.contains("NVRTC     found") {
        skipped("this machine has a CUDA toolkit");
        return;
    }
    assert_eq!(outcome.code, 3, "{outcome}");
    assert!(outcome.stderr.contains("no pip to install one"), "{outcome}");
}

#[test]
fn build_reports_resources_and_then_hits_the_cache() {
    let folder = family_folder(SCALE);
    let cache = tempfile::tempdir().unwrap();
    let build = |json: bool| {
        let mut command = warpsmith();
        command.env("WARPSMITH_CACHE", cache.path()).args(["build", "scale", "--arch", "sm_89", "--kernels"]);
        command.arg(folder.path());
        if json {
            command.arg("--json");
        }
        run(&mut command)
    };
    let (first, second, third) = (build(false), build(false), build(true));
    settings().bind(|| {
        insta::assert_snapshot!("build-first", first.to_string());
        insta::assert_snapshot!("build-cached", second.to_string());
        insta::assert_snapshot!("build-json", third.to_string());
    });
}

#[test]
fn stage_c_builds_for_an_l4_without_spills() {
    let outcome =
        run(warpsmith().args(["build", "wmma", "--preset", "stage-c", "--arch", "sm_89", "--json"]));
    assert_eq!(outcome.code, 0, "{outcome}");
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let build = &document["builds"][0];
    assert_eq!(build["status"], "built");
    assert_eq!(build["spill_store_bytes"], 0);
    assert!(build["registers"].as_u64().unwrap() > 16);
    assert_eq!(build["occupancy"][0]["gpu"], "L4");
    assert!(build["occupancy"][0]["blocks_per_sm"].as_u64().unwrap() > 0);
}

#[test]
fn a_compile_error_shows_file_line_and_caret() {
    let folder = family_folder(&SCALE.replace("x[i] *=", "y[i] *="));
    let mut command = warpsmith();
    command.args(["build", "scale", "--arch", "sm_80", "--kernels"]).arg(folder.path());
    let outcome = run(&mut command);
    settings().bind(|| insta::assert_snapshot!("error-compile", outcome.to_string()));
}

#[test]
fn a_broken_family_affects_only_its_own_rows() {
    let folder = family_folder(SCALE);
    write_family(folder.path(), "broken", &SCALE.replace("if (i < n)", "if (i < n"));
    let manifest = write_family(folder.path(), "unreadable", SCALE).join("kernel.toml");
    std::fs::write(manifest, "[family]\nentry = 3\n").unwrap();
    let mut command = warpsmith();
    command.args(["build", "--all", "--arch", "sm_80", "--json", "--kernels"]).arg(folder.path());
    let outcome = run(&mut command);
    assert_eq!(outcome.code, 1, "{outcome}");
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    for row in document["builds"].as_array().unwrap() {
        let expected = if row["family"] == "demo/broken" { "failed" } else { "built" };
        assert_eq!(row["status"], expected, "{row}");
    }
    assert!(document["builds"].as_array().unwrap().len() >= 10);
    assert!(
        document["broken_families"][0].as_str().unwrap().contains("unreadable/kernel.toml:2"),
        "{outcome}"
    );
}

#[test]
fn build_all_prints_one_table_of_presets_and_targets() {
    let folder = family_folder(SCALE);
    let mut command = warpsmith();
    command.args(["build", "scale", "--all", "--kernels"]).arg(folder.path());
    let outcome = run(&mut command);
    settings().bind(|| {
        // Whether a row is cached depends on earlier tests.
        let mut settings = insta::Settings::clone_current();
        settings.add_filter("  (built|cached)\n", "  [BUILT]\n");
        // The width of the column depends on the times.
        settings.add_filter("limited by +time", "limited by  time");
        settings.bind(|| insta::assert_snapshot!("build-all", outcome.to_string()));
    });
}

#[test]
fn a_kernel_above_its_limits_is_exit_1() {
    let folder = family_folder(SCALE);
    let manifest = folder.path().join("demo/scale/kernel.toml");
    let text = std::fs::read_to_string(&manifest).unwrap().replace("registers = 32", "registers = 2");
    std::fs::write(&manifest, text).unwrap();
    let mut command = warpsmith();
    command.args(["build", "scale", "--arch", "sm_80", "--kernels"]).arg(folder.path());
    let outcome = run(&mut command);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stderr.contains("registers, 2 allowed"), "{outcome}");
}

#[test]
fn emit_writes_ptx_cubin_and_header() {
    let folder = family_folder(SCALE);
    let out = tempfile::tempdir().unwrap();
    let mut command = warpsmith();
    command.args(["build", "scale", "--arch", "sm_80", "--kernels"]).arg(folder.path());
    command.arg("--emit").arg(out.path().join("new"));
    assert_eq!(run(&mut command).code, 0);
    let file = |name: &str| std::fs::read(out.path().join("new").join(name)).unwrap();
    assert!(String::from_utf8(file("scale-defaults-sm_80.ptx")).unwrap().contains(".entry scale"));
    assert!(file("scale-defaults-sm_80.cubin").starts_with(b"\x7fELF"));
    assert!(
        String::from_utf8(file("scale-defaults-sm_80.cuh")).unwrap().contains("constexpr int BLOCK = 128;")
    );
}

#[test]
fn completions_and_man_pages_are_generated() {
    let script = run(warpsmith().args(["completions", "bash"]));
    assert_eq!(script.code, 0);
    assert!(script.stdout.contains("_warpsmith()"));
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(warpsmith().arg("man").arg(folder.path())).code, 0);
    for page in ["warpsmith.1", "warpsmith-build.1", "warpsmith-toolchain-install.1"] {
        assert!(folder.path().join(page).is_file(), "{page}");
    }
}

#[test]
fn colour_is_used_only_on_terminals_or_if_forced() {
    let outcome = run(warpsmith().env_remove("NO_COLOR").args(["kernels", "wmma"]));
    assert!(!outcome.stdout.contains('\x1b'), "{outcome}");
    let forced = run(warpsmith().env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1").args(["kernels", "wmma"]));
    assert!(forced.stdout.contains('\x1b'), "{forced}");
}
