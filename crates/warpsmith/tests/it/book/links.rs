//! Finds links of the documentation that lead nowhere: a missing file, or a heading that the file does not have.

use std::fs;
use std::path::{Path, PathBuf};

/// A message for every broken link of the book and of the Markdown files at the top of the repository.
pub fn broken(root: &Path) -> Vec<String> {
    let mut files = super::markdown_below(&root.join("docs/src"));
    let top = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    files.extend(top.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    let mut failures = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for target in targets(&text) {
            if let Err(reason) = resolve(root, &file, &target) {
                failures.push(format!("{}: ({target}): {reason}", file.display()));
            }
        }
    }
    failures
}

fn resolve(root: &Path, file: &Path, target: &str) -> Result<(), String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path: PathBuf = if path.is_empty() { file.to_owned() } else { file.parent().unwrap().join(path) };
    let path = path.canonicalize().map_err(|_| "there is no such file".to_owned())?;
    let book = root.join("docs/src");
    if file.starts_with(&book) && !path.starts_with(&book) {
        return Err("the built book does not contain this file".to_owned());
    }
    if anchor.is_empty() {
        return Ok(());
    }
    let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    if text.contains(&format!("<a id=\"{anchor}\">")) {
        return Ok(());
    }
    let mut headings = prose(&text).into_iter().filter_map(heading);
    if headings.any(|name| name == anchor) { Ok(()) } else { Err("there is no such heading".to_owned()) }
}

/// The lines outside fenced blocks.
fn prose(text: &str) -> Vec<&str> {
    let mut in_block = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        if !in_block && !is_fence {
            lines.push(line);
        }
    }
    lines
}

/// The targets of all links and images, without code spans.
fn targets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for rest in plain.split("](").skip(1) {
            found.extend(rest.split(')').next().map(str::to_owned));
        }
    }
    found
}

/// The anchor of a heading, as mdBook and GitHub make it.
fn heading(line: &str) -> Option<String> {
    let title = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?.trim();
    let mut anchor = String::new();
    for c in title.to_lowercase().chars() {
        match c {
            ' ' => anchor.push('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => anchor.push(c),
            _ => {}
        }
    }
    Some(anchor)
}

#[test]
fn a_broken_link_is_found() {
    let root = tempfile::tempdir().unwrap();
    let book = root.path().join("docs/src");
    fs::create_dir_all(&book).unwrap();
    fs::write(root.path().join("README.md"), "[a](docs/src/page.md#two-words) [b](https://example.com)\n")
        .unwrap();
    fs::write(book.join("page.md"), "# Two words\n`[c](none.md)`\n```text\n[d](none.md)\n```\n").unwrap();
    assert_eq!(broken(root.path()), Vec::<String>::new());
    fs::write(book.join("page.md"), "# Other\n[e](none.md) [f](../../README.md)\n").unwrap();
    assert_eq!(broken(root.path()).len(), 3, "{:?}", broken(root.path()));
}
