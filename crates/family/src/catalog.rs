//! All ops and families: those embedded in the program, and those in a folder that the user names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use compiler::is_ptx;

use crate::manifest::{self, Family, Place};
use crate::single_file::{self, Expanded};
use crate::suggest::nearest;
use crate::text::{ManifestError, ManifestErrors, Reader};
use crate::tuned_table::{self, Table};

/// Largest size of a manifest, a source or a header, in bytes.
const MOST_BYTES: u64 = 4 << 20;
/// Largest number of files in a folder of families.
const MOST_FILES: usize = 10_000;
/// Largest depth of folders, such as `<op>/<family>/...`. A link may lead back to a parent folder.
const MOST_DEEP: usize = 8;

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

/// All families, sorted by op and name. A family with an invalid manifest is listed with its error, so that it does
/// not affect the others.
#[derive(Debug)]
pub struct Catalog {
    entries: Vec<Entry>,
    ops: BTreeMap<String, OpFiles>,
    given_ops: BTreeSet<String>,
}

/// The .npy files that the command line names for the arguments of an op.
#[derive(Clone, Debug, Default)]
pub struct NamedArrays {
    /// The contents of inputs, as (argument, file).
    pub inputs: Vec<(String, PathBuf)>,
    /// The expected contents of outputs, as (argument, file).
    pub expected: Vec<(String, PathBuf)>,
    /// The relative tolerance of the expected contents.
    pub rtol: Option<f64>,
    /// The absolute tolerance of the expected contents.
    pub atol: Option<f64>,
}

/// The files of an op that is declared by an `op.toml`.
#[derive(Clone, Debug, Default)]
pub struct OpFiles {
    /// The op's name, which is the name of its folder.
    pub name: String,
    /// The path of `op.toml`, for messages.
    pub label: String,
    /// The folder, if it is one of the user's. The files of a built-in op are only in memory.
    pub folder: Option<PathBuf>,
    /// The text of `op.toml`.
    pub manifest: String,
    /// Its Python files, as (name, text).
    pub scripts: Vec<(String, String)>,
    /// Its suites, as (name, text).
    pub suites: Vec<(String, String)>,
    /// For an op in a single CUDA file: the line of that file for every line of the manifest. Otherwise empty.
    pub lines: Vec<usize>,
    /// Arrays that the command line names.
    pub arrays: NamedArrays,
}

/// The file that declares an op.
pub const OP_FILE: &str = "op.toml";

/// A family, or the error in its manifest.
#[derive(Debug)]
pub struct Entry {
    /// The op that the family computes, which is the name of the parent folder.
    pub op: String,
    /// The family's name, which is the name of its folder.
    pub name: String,
    /// Whether it is in the folder that the user names, not only in the program.
    pub is_users: bool,
    /// The family, or the error in its manifest or tuned table.
    pub family: Result<Family, ManifestErrors>,
}

/// Why a family cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A file or folder cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The folder that the user named contains no families.
    #[error("{} contains no families (expected <op>/<family>/kernel.toml)", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// The folder contains too many files.
    #[error("{} has more than {MOST_FILES} sources, headers and manifests; name a folder of kernel families", path.display())]
    TooMany {
        /// The folder.
        path: PathBuf,
    },
    /// No family has this name.
    #[error("there is no family `{name}`")]
    UnknownFamily {
        /// The unknown name.
        name: String,
        /// The names of all families.
        known: Vec<String>,
        /// The most similar name, if one is similar.
        nearest: Option<String>,
    },
    /// Several ops have a family with this name.
    #[error("`{name}` is a family of several ops: {}", candidates.join(", "))]
    Ambiguous {
        /// The ambiguous name.
        name: String,
        /// The full names, such as `attention/wmma`.
        candidates: Vec<String>,
    },
    /// The manifest or the tuned table of the family is not valid.
    #[error(transparent)]
    Manifest(#[from] ManifestErrors),
}

impl CatalogError {
    /// Advice for a `hint:` line.
    pub fn hint(&self) -> Option<String> {
        match self {
            CatalogError::UnknownFamily { known, nearest, .. } => {
                let all = format!("families: {}", known.join(", "));
                Some(nearest.as_ref().map_or(all.clone(), |near| format!("did you mean `{near}`? {all}")))
            }
            CatalogError::Ambiguous { .. } => Some("add the op, as in `attention/wmma`".to_owned()),
            _ => None,
        }
    }
}

/// The files below a `kernels/` folder by their relative path, with the folder's name in messages.
#[derive(Default)]
struct Tree {
    label: String,
    folder: Option<PathBuf>,
    /// If the tree is a single CUDA file: its path, for messages.
    single_file: Option<String>,
    /// For generated files: the line of the single file for each of their lines.
    lines: BTreeMap<String, Vec<usize>>,
    files: BTreeMap<String, String>,
}

impl Catalog {
    /// The families embedded in the program and those of `folder`. A family in `folder` replaces the embedded one of
    /// the same op and name, and its headers are looked up in `folder` first. It uses only the tuned table in
    /// `folder`, because the embedded table is about another kernel.
    pub fn load(folder: Option<&Path>) -> Result<Self, CatalogError> {
        let own = Tree {
            label: "kernels".to_owned(),
            files: embedded::FILES.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect(),
            ..Tree::default()
        };
        let mut families: BTreeMap<(String, String), Entry> = BTreeMap::new();
        let mut ops = own.ops();
        let mut given_ops = BTreeSet::new();
        if let Some(folder) = folder {
            let theirs = if folder.is_file() { Tree::single_file(folder)? } else { Tree::read(folder)? };
            if theirs.families().next().is_none() {
                return Err(CatalogError::Empty { path: folder.to_owned() });
            }
            for (op, name) in theirs.families() {
                let entry = Entry { is_users: true, ..entry(op.clone(), name.clone(), &[&theirs, &own]) };
                families.insert((op, name), entry);
            }
            ops.extend(theirs.ops());
            given_ops.extend(theirs.kernels().map(|(op, _)| op));
        }
        for (op, name) in own.families() {
            families.entry((op.clone(), name.clone())).or_insert_with(|| entry(op, name, &[&own]));
        }
        Ok(Catalog { entries: families.into_values().collect(), ops, given_ops })
    }

    /// The families of files in memory, given by their path below a `kernels/` folder. `label` is the folder's name
    /// in messages.
    pub fn from_files(label: &str, files: impl IntoIterator<Item = (String, String)>) -> Self {
        let tree = Tree { label: label.to_owned(), files: files.into_iter().collect(), ..Tree::default() };
        let mut families: Vec<(String, String)> = tree.families().collect();
        families.dedup();
        let entries = families.into_iter().map(|(op, name)| entry(op, name, &[&tree])).collect();
        Catalog { entries, ops: tree.ops(), given_ops: BTreeSet::new() }
    }

    /// Adds arrays to the op of a single file.
    pub fn add_arrays(&mut self, op: &str, arrays: NamedArrays) {
        if let Some(files) = self.ops.get_mut(op) {
            files.arrays = arrays;
        }
    }

    /// The files of a declared op.
    pub fn op(&self, name: &str) -> Option<&OpFiles> {
        self.ops.get(name)
    }

    /// The declared ops, by name.
    pub fn ops(&self) -> impl Iterator<Item = &OpFiles> {
        self.ops.values()
    }

    /// The ops of which the user's folder has kernels, not only tuned tables. They are the default of a command.
    pub fn given_ops(&self) -> &BTreeSet<String> {
        &self.given_ops
    }

    /// All families, sorted by op and name.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The family with this name: `wmma` or `attention/wmma`. If several ops have it, the user's own family is meant.
    pub fn family(&self, name: &str) -> Result<&Family, CatalogError> {
        let full = |entry: &Entry| format!("{}/{}", entry.op, entry.name);
        let matching: Vec<&Entry> = self
            .entries
            .iter()
            .filter(|entry| entry.name.eq_ignore_ascii_case(name) || full(entry).eq_ignore_ascii_case(name))
            .collect();
        let users: Vec<&Entry> = matching.iter().copied().filter(|entry| entry.is_users).collect();
        let matching = if users.len() == 1 { users } else { matching };
        match matching.as_slice() {
            [] => {
                let known: Vec<String> = self.entries.iter().map(full).collect();
                // A name without its op is compared with names without theirs.
                let part = |entry: &Entry| {
                    if name.contains('/') { full(entry) } else { entry.name.clone() }
                };
                let parts: Vec<String> = self.entries.iter().map(part).collect();
                let near = nearest(name, parts.iter().map(String::as_str)).map(str::to_owned);
                Err(CatalogError::UnknownFamily { name: name.to_owned(), known, nearest: near })
            }
            [one] => one.family.as_ref().map_err(|error| CatalogError::Manifest(error.clone())),
            several => Err(CatalogError::Ambiguous {
                name: name.to_owned(),
                candidates: several.iter().map(|entry| full(entry)).collect(),
            }),
        }
    }
}

/// The names that a family's source can have.
const SOURCE_FILES: [&str; 2] = ["kernel.cu", "kernel.ptx"];

/// The name that a source gets in a family's folder, by the name of its file.
fn source_file(path: &Path) -> &'static str {
    SOURCE_FILES[usize::from(is_ptx(path))]
}

impl Family {
    /// The name of the source in the family's folder.
    fn source_file(&self) -> &'static str {
        source_file(Path::new(self.source_name()))
    }

    /// The family's files with another source, by their path below a `kernels/` folder. [`Catalog::load`] can read
    /// them.
    pub fn files_with(&self, source: &str) -> Vec<(String, String)> {
        let Family { op, name, manifest, headers, op_manifest, .. } = self;
        let headers = headers.iter().map(|(name, text)| (format!("{op}/{name}"), text.clone()));
        let own = [(self.source_file(), source), ("kernel.toml", manifest.as_str())];
        let own = own.map(|(file, text)| (format!("{op}/{name}/{file}"), text.to_owned()));
        let declared = op_manifest.iter().map(|text| (format!("{op}/{OP_FILE}"), text.clone()));
        own.into_iter().chain(headers).chain(declared).collect()
    }
}

impl Tree {
    fn read(folder: &Path) -> Result<Self, CatalogError> {
        let mut files = BTreeMap::new();
        collect(folder, folder, &mut files)?;
        let (label, folder) = (folder.display().to_string(), Some(folder.to_owned()));
        Ok(Tree { label, folder, files, ..Tree::default() })
    }

    /// One CUDA or PTX file that declares its own op.
    fn single_file(path: &Path) -> Result<Self, CatalogError> {
        let at = |source| CatalogError::Io { path: path.to_owned(), source };
        let text = files::read_text_bounded(path, MOST_BYTES).map_err(at)?;
        let Expanded { op, kernel, source, beside } =
            single_file::expand(path, &text).map_err(ManifestErrors::from)?;
        let name = single_file::op_name(path);
        // Its one family has the same name.
        let family = crate::family_of_file(path);
        let mut tree = Tree {
            label: path.display().to_string(),
            folder: path.parent().map(Path::to_owned),
            single_file: Some(path.display().to_string()),
            ..Tree::default()
        };
        for (file, generated) in
            [(format!("{name}/{OP_FILE}"), op), (format!("{family}/kernel.toml"), kernel)]
        {
            tree.lines.insert(file.clone(), generated.lines);
            tree.files.insert(file, generated.text);
        }
        tree.files.insert(format!("{family}/{}", source_file(path)), source);
        tree.files.extend(beside.into_iter().map(|(file, text)| (format!("{name}/{file}"), text)));
        Ok(tree)
    }

    /// The path of a file for messages.
    fn path(&self, file: &str) -> String {
        self.single_file.clone().unwrap_or_else(|| format!("{}/{file}", self.label))
    }

    /// An error in a generated file, at its place in the single file.
    fn place(&self, file: &str, mut error: ManifestError) -> ManifestError {
        if let Some(lines) = self.lines.get(file) {
            error.line = lines.get(error.line.saturating_sub(1)).copied().unwrap_or(1);
            error.column = 1;
        }
        error
    }

    /// The ops that have an `op.toml`.
    fn ops(&self) -> BTreeMap<String, OpFiles> {
        let mut ops = BTreeMap::new();
        for (path, text) in &self.files {
            let Some((name, OP_FILE)) = path.split_once('/') else { continue };
            let below = |folder: &str, extension: &str| {
                let start = format!("{name}/{folder}");
                let files = self.files.iter().filter_map(|(path, text)| {
                    let file = path.strip_prefix(&start)?.strip_suffix(extension)?;
                    (!file.contains('/')).then(|| (file.to_owned(), text.clone()))
                });
                files.collect::<Vec<_>>()
            };
            let scripts = below("", ".py").into_iter().map(|(file, text)| (format!("{file}.py"), text));
            ops.insert(
                name.to_owned(),
                OpFiles {
                    name: name.to_owned(),
                    label: self.path(path),
                    folder: match (&self.folder, &self.single_file) {
                        (Some(folder), None) => Some(folder.join(name)),
                        (folder, _) => folder.clone(),
                    },
                    lines: self.lines.get(path).cloned().unwrap_or_default(),
                    manifest: text.clone(),
                    scripts: scripts.collect(),
                    suites: below("suites/", ".toml"),
                    arrays: NamedArrays::default(),
                },
            );
        }
        ops
    }

    /// The op and family of every manifest and every tuned table. A folder may replace only the tuned table.
    fn families(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.with_file(&["kernel.toml", tuned_table::FILE])
    }

    /// The op and family of every manifest.
    fn kernels(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.with_file(&["kernel.toml"])
    }

    /// The op and family of every file with one of these names.
    fn with_file<'t>(&'t self, names: &'t [&str]) -> impl Iterator<Item = (String, String)> + 't {
        self.files.keys().filter_map(|path| {
            let mut parts = path.split('/');
            let (op, name, file) = (parts.next()?, parts.next()?, parts.next()?);
            let is_one = names.contains(&file) && parts.next().is_none();
            is_one.then(|| (op.to_owned(), name.to_owned()))
        })
    }
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) -> Result<(), CatalogError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| CatalogError::Io { path, source }
    };
    let depth = folder.strip_prefix(root).map_or(0, |below| below.components().count());
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        if path.is_dir() {
            if depth < MOST_DEEP {
                collect(root, &path, files)?;
            }
        } else if path
            .extension()
            .is_some_and(|kind| ["cu", "cuh", "ptx", "toml", "py"].iter().any(|known| kind == *known))
        {
            if files.len() == MOST_FILES {
                return Err(CatalogError::TooMany { path: root.to_owned() });
            }
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            let bytes = files::read_bounded(&path, MOST_BYTES).map_err(at(&path))?;
            files.insert(name, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    Ok(())
}

/// Reads one family. Files are looked up in the trees in order; the tuned table only in the first.
fn entry(op: String, name: String, trees: &[&Tree]) -> Entry {
    let family = read(&op, &name, trees);
    Entry { op, name, is_users: false, family }
}

fn read(op: &str, name: &str, trees: &[&Tree]) -> Result<Family, ManifestErrors> {
    let find = |path: &str| trees.iter().find_map(|tree| Some((*tree, tree.files.get(path)?)));
    let folder = format!("{op}/{name}");
    let file = |tree: &Tree, path: &str| tree.path(&format!("{folder}/{path}"));
    let missing = |at: String, what: &str, beside: &str| ManifestError {
        file: at,
        line: 1,
        column: 1,
        field: what.to_owned(),
        message: format!("there is no {what} next to the {beside}"),
    };
    let Some((tree, text)) = find(&format!("{folder}/kernel.toml")) else {
        let at = trees.first().map_or_else(|| folder.clone(), |tree| file(tree, tuned_table::FILE));
        return Err(missing(at, "kernel.toml", "tuned table").into());
    };
    let sources = SOURCE_FILES.iter().filter_map(|name| Some((*name, find(&format!("{folder}/{name}"))?)));
    let sources: Vec<(&str, (&Tree, &String))> = sources.collect();
    let (source_file, (source_tree, source)) = match sources.as_slice() {
        [one] => *one,
        [] => return Err(missing(file(tree, "kernel.toml"), "kernel.cu", "manifest").into()),
        _ => {
            let message = "the family has a kernel.cu and a kernel.ptx; it can have only one source";
            let error = missing(file(tree, "kernel.toml"), "kernel.ptx", "manifest");
            let error = ManifestError { message: message.to_owned(), ..error };
            return Err(error.into());
        }
    };
    let table = trees.first().and_then(|tree| {
        let text = tree.files.get(&format!("{folder}/{}", tuned_table::FILE))?;
        Some(Table::parse(&file(tree, tuned_table::FILE), text))
    });
    let op_manifest = find(&format!("{op}/{OP_FILE}"));
    let op_sizes = op_manifest.map_or(Ok(Vec::new()), |(tree, text)| {
        let path = format!("{op}/{OP_FILE}");
        declared_sizes(&tree.path(&path), text).map_err(|error| tree.place(&path, error))
    })?;
    let place = Place {
        op_manifest: op_manifest.map(|(_, text)| text.clone()),
        op_sizes,
        op: op.to_owned(),
        name: name.to_owned(),
        is_single_file: tree.single_file.is_some(),
        file: file(tree, "kernel.toml"),
        source: (file(source_tree, source_file), source.clone()),
        headers: included_headers(op, source, &find),
        tuned: table.transpose()?.unwrap_or_default(),
    };
    manifest::read(text, place).map_err(|ManifestErrors(errors)| {
        let place = |error| tree.place(&format!("{folder}/kernel.toml"), error);
        ManifestErrors(errors.into_iter().map(place).collect())
    })
}

/// The names of the sizes in an `op.toml`. Whoever loads the op checks the rest of the file.
fn declared_sizes(file: &str, text: &str) -> Result<Vec<String>, ManifestError> {
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let reader = Reader { file, text };
        let message = error.message().replace('\n', " ");
        reader.error(error.span().unwrap_or(0..0), OP_FILE, message)
    })?;
    let sizes = table.get("sizes").and_then(toml::Value::as_table);
    Ok(sizes.map(|sizes| sizes.keys().cloned().collect()).unwrap_or_default())
}

/// The op's headers that a source includes, directly or indirectly: `common/x.cuh` is `<op>/common/x.cuh` in a tree.
/// All other headers are CUDA's.
fn included_headers<'a>(
    op: &str,
    source: &str,
    find: &impl Fn(&str) -> Option<(&'a Tree, &'a String)>,
) -> Vec<(String, String)> {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    let mut pending = vec![source.to_owned()];
    while let Some(text) = pending.pop() {
        for name in compiler::included_names(&text) {
            if headers.contains_key(name) {
                continue;
            }
            if let Some((_, text)) = find(&format!("{op}/{name}")) {
                headers.insert(name.to_owned(), text.clone());
                pending.push(text.clone());
            }
        }
    }
    headers.into_iter().collect()
}
