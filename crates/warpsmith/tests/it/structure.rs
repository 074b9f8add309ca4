//! The rules of ARCHITECTURE.md about dependencies: which crate may use which, which folders stand alone, and no import
//! circles between files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The workspace crates that each crate may depend on, from the table of ARCHITECTURE.md.
fn allowed() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(crates().join("../ARCHITECTURE.md")).unwrap();
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, _, uses, _] = cells[..] else { return None };
        Some((name.strip_prefix("`crates/")?.strip_suffix('`')?.to_owned(), uses.to_owned()))
    });
    let rows: BTreeMap<String, String> = rows.collect();
    let names: BTreeSet<String> = rows.keys().cloned().collect();
    let list = |text: &str| -> BTreeSet<String> {
        text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
    };
    let uses = |text: &String| match text.strip_prefix("all but ") {
        Some(excluded) => names.difference(&list(excluded)).cloned().collect(),
        None => list(text),
    };
    rows.iter().map(|(name, text)| (name.clone(), uses(text))).collect()
}

#[test]
fn crates_depend_only_on_crates_that_the_table_allows() {
    let allowed = allowed();
    for folder in fs::read_dir(crates()).unwrap().map(|entry| entry.unwrap().path()) {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let uses = allowed
            .get(&name)
            .unwrap_or_else(|| panic!("the crate {name} has no row in the table of ARCHITECTURE.md"));
        let manifest: toml::Table = fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        let dependencies: BTreeSet<String> = manifest
            .get("dependencies")
            .and_then(toml::Value::as_table)
            .into_iter()
            .flat_map(toml::Table::keys)
            .filter(|dependency| allowed.contains_key(*dependency))
            .cloned()
            .collect();
        let forbidden: Vec<_> = dependencies.difference(uses).collect();
        assert!(forbidden.is_empty(), "{name} must not depend on {forbidden:?}");
        let unused: Vec<_> = uses.difference(&dependencies).filter(|it| **it != name).collect();
        assert!(unused.is_empty(), "ARCHITECTURE.md says that {name} uses {unused:?}, and it does not");
    }
}

#[test]
fn no_file_imports_itself_through_others() {
    for name in allowed().into_keys() {
        let modules = modules(&crates().join(&name).join("src"));
        let imports: BTreeMap<&Module, BTreeSet<Module>> =
            modules.iter().map(|(module, text)| (module, imports(module, text, &modules))).collect();
        for module in modules.keys() {
            if let Some(circle) = circle(module, &imports) {
                let files: Vec<String> = circle.iter().map(|it| it.join("/")).collect();
                panic!("{name}: {}", files.join(" -> "));
            }
        }
    }
}

/// Folders whose files import nothing from the rest of their crate.
const LEAVES: [(&str, &str); 2] = [("vgpu", "num"), ("vgpu", "ptx")];

#[test]
fn a_leaf_imports_nothing_from_the_rest_of_its_crate() {
    for (name, leaf) in LEAVES {
        let modules = modules(&crates().join(name).join("src"));
        let is_inside = |module: &Module| module.first().is_some_and(|folder| folder == leaf);
        assert!(modules.keys().any(is_inside), "{name} has no folder {leaf}");
        for (module, text) in modules.iter().filter(|(module, _)| is_inside(module)) {
            for target in imports(module, text, &modules) {
                let (from, to) = (module.join("/"), target.join("/"));
                assert!(is_inside(&target), "{name}: {from} must not import {to}");
            }
        }
    }
}

/// A module by the parts of its path: `bench`, `run`.
type Module = Vec<String>;

/// The modules of a crate with their code, without comments, strings and tests.
fn modules(source: &Path) -> BTreeMap<Module, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![(source.to_owned(), Module::new())];
    while let Some((folder, path)) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let stem = entry.file_stem().unwrap().to_str().unwrap().to_owned();
            if matches!(stem.as_str(), "tests" | "testing") {
                continue;
            }
            let inner: Module = path.iter().cloned().chain([stem.clone()]).collect();
            if entry.is_dir() {
                folders.push((entry, inner));
            } else if entry.extension().is_some_and(|it| it == "rs") {
                let is_folder = matches!(stem.as_str(), "mod" | "lib" | "main");
                let code = code(&fs::read_to_string(&entry).unwrap());
                found.insert(if is_folder { path.clone() } else { inner }, code);
            }
        }
    }
    found
}

fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut code = String::new();
    let mut in_string = false;
    for line in text.lines() {
        let mut previous = ' ';
        for (index, c) in line.char_indices() {
            if !in_string && line[index..].starts_with("//") {
                break;
            }
            if c == '"' && previous != '\\' && previous != '\'' {
                in_string = !in_string;
            } else if !in_string {
                code.push(c);
            }
            previous = if previous == '\\' { ' ' } else { c };
        }
        code.push('\n');
    }
    code
}

/// The modules that a module uses. A folder's `mod.rs` re-exports its files, so its use of them does not count.
fn imports(module: &Module, text: &str, modules: &BTreeMap<Module, String>) -> BTreeSet<Module> {
    let targets = paths(text).into_iter().filter_map(|path| resolve(module, &path, modules));
    targets.filter(|target| target != module && !target.starts_with(module)).collect()
}

/// Every path in `use` items, and every other path that starts with `crate` or `super`.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for item in text.split("use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        expand(item, &[], &mut found);
    }
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            let rest = &text[at..];
            let end = rest.find(|c: char| !(c.is_alphanumeric() || "_:".contains(c))).unwrap_or(rest.len());
            found.push(rest[..end].split("::").map(str::to_owned).collect());
        }
    }
    found
}

/// Adds the paths of one `use` item: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(item: &str, prefix: &[String], found: &mut Vec<Vec<String>>) {
    let (mut depth, mut start) = (0, 0);
    let mut parts = Vec::new();
    for (index, c) in item.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&item[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&item[start..]);
    for part in parts.into_iter().map(str::trim).filter(|part| !part.is_empty()) {
        let (path, group) = part.split_once('{').map_or((part, None), |(path, rest)| (path, Some(rest)));
        let path = path.split(" as ").next().unwrap_or_default();
        let names = path.split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        let whole: Vec<String> = prefix.iter().cloned().chain(names).collect();
        match group.and_then(|rest| rest.rfind('}').map(|end| &rest[..end])) {
            Some(inner) => expand(inner, &whole, found),
            None => found.push(whole),
        }
    }
}

/// The module in which a path's item is defined. A re-export is followed once.
fn resolve(from: &Module, path: &[String], modules: &BTreeMap<Module, String>) -> Option<Module> {
    let (base, rest) = match path.first()?.as_str() {
        "crate" => (Module::new(), &path[1..]),
        "super" => {
            let count = path.iter().take_while(|part| *part == "super").count();
            (from[..from.len().checked_sub(count)?].to_vec(), &path[count..])
        }
        "self" => (from.clone(), &path[1..]),
        first => {
            let inner: Module = from.iter().cloned().chain([first.to_owned()]).collect();
            modules.contains_key(&inner).then_some((from.clone(), path))?
        }
    };
    let full: Module = base.into_iter().chain(rest.iter().cloned()).collect();
    let length = (0..=full.len()).rev().find(|&length| modules.contains_key(&full[..length]))?;
    let module = full[..length].to_vec();
    let Some(name) = full.get(length) else { return Some(module) };
    let exported =
        paths(&modules[&module]).into_iter().find(|path| path.len() > 1 && path.last() == Some(name));
    let inner =
        exported.map(|path| module.iter().chain(&path[..path.len() - 1]).cloned().collect::<Module>());
    Some(inner.filter(|inner| modules.contains_key(inner)).unwrap_or(module))
}

/// The shortest way from a module back to itself.
fn circle(start: &Module, imports: &BTreeMap<&Module, BTreeSet<Module>>) -> Option<Vec<Module>> {
    let mut ways: BTreeMap<&Module, &Module> = BTreeMap::new();
    let mut next = vec![start];
    while let Some(module) = next.pop() {
        for target in &imports[module] {
            if target == start {
                let mut circle = vec![start.clone(), module.clone()];
                let mut at = module;
                while at != start {
                    at = ways[at];
                    circle.push(at.clone());
                }
                circle.reverse();
                return Some(circle);
            }
            if !ways.contains_key(target) {
                ways.insert(target, module);
                next.insert(0, target);
            }
        }
    }
    None
}

#[test]
fn a_circle_is_found() {
    let text = |text: &str| text.to_owned();
    let modules = BTreeMap::from([
        (vec!["a".to_owned()], text("use crate::b::{self, C};")),
        (vec!["b".to_owned()], text("pub use d::C; fn f() { crate::e::g() }")),
        (vec!["b".to_owned(), "d".to_owned()], text("use super::super::a::X;")),
        (vec!["e".to_owned()], text("")),
    ]);
    let imports: BTreeMap<&Module, BTreeSet<Module>> =
        modules.iter().map(|(module, text)| (module, imports(module, text, &modules))).collect();
    let circle = circle(&vec!["a".to_owned()], &imports).unwrap();
    let names: Vec<String> = circle.iter().map(|it| it.join("/")).collect();
    assert_eq!(names, ["a", "b/d", "a"]);
    assert!(super::structure::circle(&vec!["e".to_owned()], &imports).is_none());
}
