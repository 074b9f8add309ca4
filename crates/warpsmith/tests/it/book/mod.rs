//! Tests of the documentation. Every command of the book and of the README runs and prints what the page shows, the
//! generated parts match the code, and all links resolve. `cargo xtask docs` writes the outputs and generated parts.

mod generate;
mod items;
mod links;
mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::warpsmith_by;

/// If this variable is set, the tests write the pages instead of comparing them. `cargo xtask docs` sets it.
const WRITE: &str = "WARPSMITH_WRITE_DOCS";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The Markdown files below a folder, sorted.
fn markdown_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(markdown_below(&entry));
        } else if entry.extension().is_some_and(|extension| extension == "md") {
            found.push(entry);
        }
    }
    found.sort();
    found
}

/// The pages whose commands are run.
fn pages() -> Vec<PathBuf> {
    let mut pages = markdown_below(&root().join("docs/src"));
    pages.push(root().join("README.md"));
    pages
}

/// Compares a page with what it should contain. If they differ, the page is written or the difference is an error.
fn settle(path: &Path, old: &str, text: &str, compare: impl Fn(&str) -> Vec<String>) -> Result<(), String> {
    let (old, new) = (compare(old), compare(text));
    let Some(at) = (0..old.len().max(new.len())).find(|&at| old.get(at) != new.get(at)) else {
        return Ok(());
    };
    if std::env::var_os(WRITE).is_some() {
        fs::write(path, text).unwrap();
        return Ok(());
    }
    Err(format!(
        "{} is not up to date; `cargo xtask docs` writes it\n  page: {:?}\n  now:  {:?}",
        path.display(),
        old.get(at),
        new.get(at)
    ))
}

#[test]
fn commands_run_and_print_what_the_pages_show() {
    let failures: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = pages().into_iter().map(|path| scope.spawn(move || run_page(&path))).collect();
        running.into_iter().filter_map(|page| page.join().unwrap().err()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Runs the commands of a page in a new folder. The files that the page shows are written when they are reached.
fn run_page(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for name in ["corpus", "kernels"] {
        if text.contains("<!-- folder: repository -->") {
            std::os::unix::fs::symlink(root().join(name), folder.path().join(name)).unwrap();
        }
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut moved = 0_isize;
    for block in page::blocks(&text) {
        let place = format!("{}, line {}", path.display(), block.start + 1);
        if let Some(name) = block.mark("file") {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, block.lines.join("\n") + "\n").unwrap();
        }
        if block.language != "console" || block.mark("needs").is_some() {
            continue;
        }
        let expected = block.mark("exit").map_or(0, |code| code.parse().expect("an exit code"));
        let most = block.mark("lines").map_or(usize::MAX, |count| count.parse().expect("a number of lines"));
        for shown in block.commands() {
            let output = shell(&shown.command, folder.path());
            let (stdout, stderr) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            if output.status.code() != Some(expected) {
                let code = output.status.code();
                return Err(format!(
                    "{place}: `{}` ended with {code:?} instead of {expected}\n{stdout}\n{stderr}",
                    shown.command
                ));
            }
            if shown.output.is_empty() {
                continue;
            }
            let printed = if stdout.trim().is_empty() { stderr } else { stdout };
            let mut printed: Vec<String> =
                printed.trim_end().lines().map(|line| line.trim_end().to_owned()).collect();
            if printed.len() > most {
                printed.truncate(most);
                printed.push("...".to_owned());
            }
            let at = |index: usize| (block.start + 1 + index).checked_add_signed(moved).unwrap();
            let (from, to) = (at(shown.output.start), at(shown.output.end));
            moved += printed.len() as isize - shown.output.len() as isize;
            lines.splice(from..to, printed);
        }
    }
    settle(path, &text, &(lines.join("\n") + "\n"), |text| text.lines().map(without_numbers).collect())
}

fn shell(command: &str, folder: &Path) -> std::process::Output {
    let program = Path::new(env!("CARGO_BIN_EXE_warpsmith"));
    let mut path = program.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut shell: Command = warpsmith_by("sh");
    shell.env("PATH", path).env_remove("COLUMNS").stdin(Stdio::null());
    shell.args(["-c", command]).current_dir(folder).output().unwrap()
}

/// A line with every number and hash replaced, and with single spaces: what must be equal in every run.
fn without_numbers(line: &str) -> String {
    let mut text = String::new();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == ',';
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len()).max(first.len_utf8());
        let (word, after) = rest.split_at(length);
        let has_digit = word.contains(|c: char| c.is_ascii_digit());
        let is_hash =
            word.len() >= 6 && word.chars().all(|c| c.is_ascii_hexdigit()) || word.starts_with("0x");
        if has_digit && is_hash {
            text.push('#');
        } else {
            let mut in_number = false;
            for c in word.chars() {
                let digit = c.is_ascii_digit() || (in_number && matches!(c, '.' | ',' | 'e'));
                if digit && !in_number {
                    text.push('#');
                } else if !digit {
                    text.push(c);
                }
                in_number = digit;
            }
        }
        rest = after;
    }
    let text = text.replace("#-#", "#").replace("-#", "#").replace(['^', '+'], "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn generated_parts_match_the_code() {
    let parts = generate::parts();
    let mut used = Vec::new();
    let mut failures = Vec::new();
    for path in pages() {
        let text = fs::read_to_string(&path).unwrap();
        let mut lines = Vec::new();
        let mut skipping = false;
        for line in text.lines() {
            if line == "<!-- end of generated part -->" {
                skipping = false;
            }
            if !skipping {
                lines.push(line.to_owned());
            }
            if let Some(("generated", name)) =
                page::mark(line).as_ref().map(|(a, b)| (a.as_str(), b.as_str()))
            {
                let part = parts.get(name).unwrap_or_else(|| panic!("{}: no part {name}", path.display()));
                lines.extend([String::new(), part.trim().to_owned(), String::new()]);
                used.push(name.to_owned());
                skipping = true;
            }
        }
        assert!(!skipping, "{}: a generated part has no end", path.display());
        let new = lines.join("\n") + "\n";
        failures.extend(settle(&path, &text, &new, |text| text.lines().map(str::to_owned).collect()).err());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    for name in parts.keys() {
        assert!(used.iter().any(|used| used == name), "no page has the generated part `{name}`");
    }
}

#[test]
fn every_page_is_in_the_summary() {
    let source = root().join("docs/src");
    let summary = fs::read_to_string(source.join("SUMMARY.md")).unwrap();
    for page in markdown_below(&source) {
        let name = page.strip_prefix(&source).unwrap().display().to_string();
        let is_listed = name == "SUMMARY.md" || summary.contains(&format!("]({name})"));
        assert!(is_listed, "docs/src/SUMMARY.md does not list {name}");
    }
}

#[test]
fn links_resolve() {
    let failures = links::broken(&root());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The hand-written tables must have every rule, every JSON document and every environment variable of the code.
#[test]
fn reference_tables_are_complete() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let rules = read("crates/lab/src/profile/rules.rs");
    let page = read("docs/src/reference/profile-rules.md");
    let code = rules.split("#[cfg(test)]").next().unwrap();
    let names: Vec<&str> = code
        .split("diagnosis(\n")
        .skip(1)
        .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
        .collect();
    assert!(names.len() > 5, "the rules were not found: {names:?}");
    for name in names {
        assert!(page.contains(&format!("| {name} |")), "profile-rules.md has no row for `{name}`");
    }

    let page = read("docs/src/reference/environment.md");
    let mut variables: Vec<String> = Vec::new();
    for folder in fs::read_dir(root().join("crates")).unwrap() {
        let mut folders = vec![folder.unwrap().path().join("src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    folders.push(entry);
                    continue;
                }
                let text = fs::read_to_string(&entry).unwrap_or_default();
                for rest in text.split("\"WARPSMITH_").skip(1) {
                    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
                    let end = rest.find(|c| !is_name(c)).unwrap_or(0);
                    variables.push(format!("WARPSMITH_{}", &rest[..end]));
                }
            }
        }
    }
    assert!(variables.iter().any(|name| name == "WARPSMITH_CACHE"), "{variables:?}");
    for name in variables.iter().filter(|name| !name.starts_with("WARPSMITH_TEST_")) {
        assert!(page.contains(&format!("`{name}`")), "environment.md does not mention {name}");
    }
}

#[test]
fn numbers_do_not_make_an_output_differ() {
    let same = [
        ("10 of 10 runs passed, in 0 s", "9 of 12 runs passed, in 1.5 s"),
        ("mma d64   2.8e-4  1.0e-3", "mma d64  0.0e0   1.1e-16"),
        ("run: runs/20261116T122902Z-bench-2a34c2", "run: runs/20271116T122952Z-bench-ff34c9"),
    ];
    for (a, b) in same {
        assert_eq!(without_numbers(a), without_numbers(b));
    }
    assert_ne!(without_numbers("10 runs passed"), without_numbers("10 runs failed"));
}
