//! The search for a toolchain: a list of places in order. Each place is inspected by reading folders only.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use subprocess::python;

use super::{MINIMUM_MAJOR, Origin, Toolchain, installed};

/// Everything outside the program that the search depends on, so that a test can set its own.
#[derive(Clone, Debug, Default)]
pub struct SearchEnvironment {
    /// From `--cuda`, or else `WARPSMITH_CUDA`.
    pub named: Option<PathBuf>,
    /// From `CUDA_HOME` or `CUDA_PATH`.
    pub cuda_home: Option<PathBuf>,
    /// Folders that contain toolkits, such as `/usr/local/cuda`.
    pub toolkit_folders: Vec<PathBuf>,
    /// Folders that the dynamic loader searches.
    pub loader_folders: Vec<PathBuf>,
    /// `site-packages` folders of the Python environments.
    pub site_packages: Vec<PathBuf>,
    /// Warpsmith's cache folder.
    pub cache: PathBuf,
}

impl SearchEnvironment {
    /// The current environment. `named` is the value of `--cuda`.
    pub fn from_environment(named: Option<&Path>) -> Self {
        let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let named = named.map(Path::to_owned).or_else(|| var("WARPSMITH_CUDA").map(PathBuf::from));
        SearchEnvironment {
            named,
            cuda_home: var("CUDA_HOME").or_else(|| var("CUDA_PATH")).map(PathBuf::from),
            toolkit_folders: toolkit_folders(Path::new("/usr/local"), Path::new("/opt")),
            loader_folders: loader_folders(var("LD_LIBRARY_PATH"), Path::new("/etc")),
            site_packages: site_packages(),
            cache: files::cache_dir(),
        }
    }
}

/// One place that the search inspected.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SearchedPlace {
    /// The kind of the place.
    pub origin: Origin,
    /// `None` if the place does not exist (no `CUDA_HOME` set, no Python environment).
    pub place: Option<PathBuf>,
    #[serde(flatten)]
    /// The result.
    pub verdict: PlaceVerdict,
}

/// The result of inspecting one place.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum PlaceVerdict {
    /// The first usable place; its toolchain is used.
    Chosen,
    /// Usable, but an earlier place was chosen.
    NotNeeded,
    /// The place has no usable toolchain.
    Unfit {
        /// Why it is not usable.
        reason: String,
    },
    /// No place of this kind exists on the machine.
    Absent,
}

/// The results of the search, place by place.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Survey {
    /// The toolchain of the first usable place; `None` if no place is usable.
    pub chosen: Option<Toolchain>,
    /// The inspected places, in search order.
    pub looked: Vec<SearchedPlace>,
}

impl Survey {
    /// The place that the user named and the reason why it cannot be used. The search then stops, because using
    /// another compiler than the named one would be worse than an error.
    pub fn named_refusal(&self) -> Option<(&Path, &str)> {
        self.looked.iter().find_map(|looked| match (&looked.origin, &looked.place, &looked.verdict) {
            (Origin::Named, Some(place), PlaceVerdict::Unfit { reason }) => {
                Some((place.as_path(), reason.as_str()))
            }
            _ => None,
        })
    }
}

/// Inspects every place in order and chooses the first usable one.
pub fn survey(surroundings: &SearchEnvironment) -> Survey {
    let mut survey = Survey { chosen: None, looked: Vec::new() };

    survey.look(Origin::Named, surroundings.named.as_slice(), from_root);
    if survey.named_refusal().is_some() {
        return survey;
    }
    survey.look(Origin::CudaHome, surroundings.cuda_home.as_slice(), from_root);
    survey.look(Origin::ToolkitFolder, &surroundings.toolkit_folders, from_root);
    let with_nvrtc = |folder: &&PathBuf| newest_library(folder, NVRTC).is_some();
    let loader: Vec<PathBuf> = surroundings.loader_folders.iter().filter(with_nvrtc).cloned().collect();
    survey.look(Origin::LoaderPath, &loader, from_library_folder);
    let with_wheels = |folder: &PathBuf| Some(folder.join("nvidia")).filter(|nvidia| nvidia.is_dir());
    let wheels: Vec<PathBuf> = surroundings.site_packages.iter().filter_map(with_wheels).collect();
    survey.look(Origin::PythonWheels, &wheels, from_wheels);
    let installed = installed::installed_root(&surroundings.cache).filter(|root| root.is_dir());
    survey.look(Origin::Cache, installed.as_slice(), from_root);
    survey
}

impl Survey {
    fn look(
        &mut self,
        origin: Origin,
        places: &[PathBuf],
        inspect: impl Fn(Origin, &Path) -> Result<Toolchain, String>,
    ) {
        if places.is_empty() {
            self.looked.push(SearchedPlace { origin, place: None, verdict: PlaceVerdict::Absent });
        }
        for place in places {
            let verdict = match inspect(origin, place) {
                Err(reason) => PlaceVerdict::Unfit { reason },
                Ok(_) if self.chosen.is_some() => PlaceVerdict::NotNeeded,
                Ok(toolchain) => {
                    self.chosen = Some(toolchain);
                    PlaceVerdict::Chosen
                }
            };
            self.looked.push(SearchedPlace { origin, place: Some(place.clone()), verdict });
        }
    }
}

/// The toolchain in a toolkit, a folder of unpacked wheels, or an environment's `nvidia` folder.
pub(crate) fn from_root(origin: Origin, root: &Path) -> Result<Toolchain, String> {
    if !root.is_dir() {
        return Err("no such folder".to_owned());
    }
    if root.join("nvidia").is_dir() {
        return from_wheels(origin, &root.join("nvidia"));
    }
    let libraries = ["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"];
    let includes = ["include", "targets/x86_64-linux/include", "targets/sbsa-linux/include"];
    assemble(
        origin,
        root,
        &libraries.map(|folder| root.join(folder)),
        &includes.map(|folder| root.join(folder)),
    )
}

/// The toolchain in the `nvidia` folder of a Python environment. CUDA 13 wheels share one folder (`cu13`); CUDA 12
/// wheels have one folder each.
fn from_wheels(origin: Origin, nvidia: &Path) -> Result<Toolchain, String> {
    let shared = nvidia.join("cu13");
    if shared.join("lib").is_dir() {
        return assemble(origin, nvidia, &[shared.join("lib")], &[shared.join("include")]);
    }
    let packages = ["cuda_runtime", "cuda_nvcc", "cuda_cccl", "cuda_crt"];
    let includes = packages.map(|package| nvidia.join(package).join("include"));
    assemble(
        origin,
        nvidia,
        &["cuda_nvrtc/lib", "nvjitlink/lib"].map(|folder| nvidia.join(folder)),
        &includes,
    )
}

/// The toolchain of a library on the loader's path, with headers where system packages install them.
fn from_library_folder(origin: Origin, folder: &Path) -> Result<Toolchain, String> {
    let includes =
        [folder.join("../include"), folder.join("../../include"), PathBuf::from("/usr/include/cuda")];
    assemble(origin, folder, &[folder.to_owned()], &includes)
}

/// Headers that are in different wheels. PyTorch installs NVRTC without the second, which `mma.h` includes.
const HEADERS: [&str; 2] = ["cuda_fp16.h", "crt/mma.h"];

fn assemble(
    origin: Origin,
    root: &Path,
    libraries: &[PathBuf],
    includes: &[PathBuf],
) -> Result<Toolchain, String> {
    let newest = libraries.iter().find_map(|folder| newest_library(folder, NVRTC));
    let Some((major, nvrtc)) = newest else {
        return Err("it contains no libnvrtc.so".to_owned());
    };
    if major < MINIMUM_MAJOR {
        return Err(format!("NVRTC {major} is older than {MINIMUM_MAJOR}.0"));
    }
    // In a toolkit some of these folders are links to others.
    let mut seen = HashSet::new();
    let is_new =
        |folder: &&PathBuf| folder.canonicalize().is_ok_and(|real| real.is_dir() && seen.insert(real));
    let mut folders: Vec<PathBuf> = includes.iter().filter(is_new).cloned().collect();
    let is_missing = |name: &&&str| !folders.iter().any(|folder| folder.join(name).is_file());
    if let Some(missing) = HEADERS.iter().find(is_missing) {
        return Err(format!("it contains libnvrtc.so but not all CUDA headers ({missing})"));
    }
    // CUDA 13 moved libcu++ and CUB into a subfolder.
    let cccl: Vec<PathBuf> =
        folders.iter().map(|folder| folder.join("cccl")).filter(|folder| folder.is_dir()).collect();
    folders.extend(cccl);
    let builtins = nvrtc.parent().and_then(|folder| matching_builtins(folder, major));
    let nvjitlink = libraries.iter().find_map(|folder| newest_library(folder, NVJITLINK));
    let nvjitlink = nvjitlink.map(|(_, library)| library);
    let libraries = [Some(&nvrtc), builtins.as_ref(), nvjitlink.as_ref()];
    if let Some(cut) = libraries.into_iter().flatten().find(|library| is_cut_off(library)) {
        return Err(format!("{} is incomplete: a copy or a download was interrupted", cut.display()));
    }
    Ok(Toolchain { origin, root: root.to_owned(), nvrtc, builtins, nvjitlink, includes: folders })
}

/// Whether a library is shorter than its ELF header says. The loader maps such a file, and a process that uses it ends
/// with a bus error.
fn is_cut_off(library: &Path) -> bool {
    let mut header = [0; 64];
    let Ok(mut file) = fs::File::open(library) else { return false };
    let Ok(size) = file.metadata().map(|metadata| metadata.len()) else { return false };
    // Only 64-bit files with little-endian numbers are libraries of CUDA.
    if file.read_exact(&mut header).is_err() || header[..6] != *b"\x7fELF\x02\x01" {
        return false;
    }
    let number = |at: usize, bytes: usize| {
        header[at..at + bytes].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    // The table of sections is the last part of a library.
    let (table, entry, entries) = (number(40, 8), number(58, 2), number(60, 2));
    table.saturating_add(entry * entries) > size
}

/// The starts of the libraries' file names.
const NVRTC: &str = "libnvrtc.so.";
const NVJITLINK: &str = "libnvJitLink.so.";

/// The library of a folder with the highest number N after this start of its name, with N. Toolkits have links from
/// `libnvrtc.so.13` to the full version; wheels have only the file with the major number.
fn newest_library(folder: &Path, prefix: &str) -> Option<(u32, PathBuf)> {
    let mut found: Vec<(u32, usize, PathBuf)> = file_names(folder)
        .into_iter()
        .filter_map(|name| {
            let version = name.strip_prefix(prefix)?;
            let major = version.split('.').next()?.parse().ok()?;
            Some((major, usize::MAX - version.len(), folder.join(&name)))
        })
        .collect();
    found.sort();
    found.pop().map(|(major, _, file)| (major, file))
}

fn matching_builtins(folder: &Path, major: u32) -> Option<PathBuf> {
    let prefix = format!("libnvrtc-builtins.so.{major}.");
    let mut names: Vec<String> =
        file_names(folder).into_iter().filter(|name| name.starts_with(&prefix)).collect();
    names.sort_by_key(String::len);
    names.first().map(|name| folder.join(name))
}

fn file_names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// `cuda` first (the choice of the installation), then `cuda-13.0`, `cuda-12.9`, ..., newest first.
fn toolkit_folders(usr_local: &Path, opt: &Path) -> Vec<PathBuf> {
    let version = |name: &str| -> Vec<u32> {
        name.trim_start_matches("cuda-").split('.').filter_map(|part| part.parse().ok()).collect()
    };
    let mut versioned: Vec<String> =
        file_names(usr_local).into_iter().filter(|name| name.starts_with("cuda-")).collect();
    versioned.sort_by_key(|name| std::cmp::Reverse(version(name)));
    let mut folders = vec![usr_local.join("cuda")];
    folders.extend(versioned.iter().map(|name| usr_local.join(name)));
    folders.push(opt.join("cuda"));
    folders.retain(|folder| folder.is_dir());
    folders
}

/// The loader's folders, read from its configuration files without starting a process.
fn loader_folders(ld_library_path: Option<OsString>, etc: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        ld_library_path.map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let mut files = vec![etc.join("ld.so.conf")];
    let mut drop_ins: Vec<PathBuf> = file_names(&etc.join("ld.so.conf.d"))
        .iter()
        .map(|name| etc.join("ld.so.conf.d").join(name))
        .collect();
    drop_ins.sort();
    files.extend(drop_ins);
    for text in files.iter().filter_map(|file| fs::read_to_string(file).ok()) {
        folders.extend(text.lines().map(str::trim).filter(|line| line.starts_with('/')).map(PathBuf::from));
    }
    let multiarch = format!("{}-linux-gnu", std::env::consts::ARCH);
    folders.extend(["/usr/lib64", "/usr/lib", "/usr/local/lib"].map(PathBuf::from));
    folders.push(Path::new("/usr/lib").join(multiarch));
    let mut seen = HashSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    folders
}

/// `site-packages` of the active environment, of the interpreter on the path, and of the user.
fn site_packages() -> Vec<PathBuf> {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let mut prefixes: Vec<PathBuf> =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|name| var(name)).collect();
    if let Some(interpreter) = python::interpreter() {
        // First the interpreter's own folder (`bin/python3` of a virtual environment is a link), then that of the
        // link's target.
        prefixes.extend(interpreter.ancestors().nth(2).map(Path::to_owned));
        if let Ok(real) = interpreter.canonicalize() {
            prefixes.extend(real.ancestors().nth(2).map(Path::to_owned));
        }
        if interpreter.parent().is_some_and(|folder| folder.ends_with("shims")) {
            prefixes.extend(interpreter.ancestors().nth(2).and_then(pyenv_prefix));
        }
    }
    prefixes.extend(std::env::home_dir().map(|home| home.join(".local")));

    let mut folders: Vec<PathBuf> = Vec::new();
    for library in prefixes.iter().flat_map(|prefix| [prefix.join("lib"), prefix.join("lib64")]) {
        for name in file_names(&library).iter().filter(|name| name.starts_with("python3")) {
            folders.extend(["site-packages", "dist-packages"].map(|kind| library.join(name).join(kind)));
        }
    }
    let mut seen = HashSet::new();
    folders.retain(|folder| folder.is_dir() && seen.insert(folder.canonicalize().unwrap_or_default()));
    folders
}

/// pyenv's `python3` is a script; a file names the interpreter that it starts.
fn pyenv_prefix(root: &Path) -> Option<PathBuf> {
    let version =
        std::env::var("PYENV_VERSION").ok().or_else(|| fs::read_to_string(root.join("version")).ok())?;
    Some(root.join("versions").join(version.split_whitespace().next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like a toolkit of the given NVRTC major version.
    fn toolkit(at: &Path, major: u32, headers: bool) -> PathBuf {
        fs::create_dir_all(at.join("lib64")).unwrap();
        fs::create_dir_all(at.join("include")).unwrap();
        fs::write(at.join(format!("lib64/libnvrtc.so.{major}")), "").unwrap();
        fs::write(at.join(format!("lib64/libnvrtc-builtins.so.{major}.1")), "").unwrap();
        if headers {
            write_headers(&at.join("include"));
        }
        at.to_owned()
    }

    fn write_headers(folder: &Path) {
        fs::create_dir_all(folder.join("crt")).unwrap();
        for header in HEADERS {
            fs::write(folder.join(header), "").unwrap();
        }
    }

    #[test]
    fn wheels_of_pytorch_without_all_headers_are_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let wheels = dir.path().join("a/nvidia/cu13");
        fs::create_dir_all(wheels.join("lib")).unwrap();
        fs::write(wheels.join("lib/libnvrtc.so.13"), "").unwrap();
        write_headers(&wheels.join("include"));
        let surroundings =
            SearchEnvironment { site_packages: vec![dir.path().join("a")], ..surroundings_in(dir.path()) };
        assert!(survey(&surroundings).chosen.is_some());
        fs::remove_file(wheels.join("include/crt/mma.h")).unwrap();
        let survey = survey(&surroundings);
        assert!(survey.chosen.is_none());
        let reasons: Vec<String> =
            survey.looked.iter().map(|looked| format!("{:?}", looked.verdict)).collect();
        assert!(reasons.iter().any(|it| it.contains("not all CUDA headers (crt/mma.h)")), "{reasons:?}");
    }

    fn surroundings_in(dir: &Path) -> SearchEnvironment {
        SearchEnvironment { cache: dir.join("cache"), ..SearchEnvironment::default() }
    }

    #[test]
    fn the_first_usable_place_is_chosen_and_later_ones_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        let mut surroundings = surroundings_in(dir.path());
        surroundings.cuda_home = Some(toolkit(&dir.path().join("home"), 13, true));
        surroundings.toolkit_folders = vec![toolkit(&dir.path().join("kit"), 12, true)];
        let survey = survey(&surroundings);
        assert_eq!(survey.chosen.unwrap().origin, Origin::CudaHome);
        let verdicts: Vec<_> = survey.looked.iter().map(|looked| (looked.origin, &looked.verdict)).collect();
        assert!(verdicts.contains(&(Origin::ToolkitFolder, &PlaceVerdict::NotNeeded)));
        assert!(verdicts.contains(&(Origin::Cache, &PlaceVerdict::Absent)));
    }

    #[test]
    fn an_unusable_place_is_skipped_with_its_reason() {
        let dir = tempfile::tempdir().unwrap();
        let mut surroundings = surroundings_in(dir.path());
        surroundings.cuda_home = Some(toolkit(&dir.path().join("old"), 11, true));
        surroundings.toolkit_folders =
            vec![toolkit(&dir.path().join("bare"), 13, false), toolkit(&dir.path().join("good"), 12, true)];
        let survey = survey(&surroundings);
        assert!(survey.chosen.unwrap().root.ends_with("good"));
        let reasons: Vec<String> = survey
            .looked
            .iter()
            .filter_map(|looked| match &looked.verdict {
                PlaceVerdict::Unfit { reason } => Some(reason.clone()),
                _ => None,
            })
            .collect();
        assert!(reasons[0].contains("NVRTC 11 is older than 12.0"), "{reasons:?}");
        assert!(reasons[1].contains("cuda_fp16.h"), "{reasons:?}");
    }

    #[test]
    fn a_library_that_is_cut_off_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let mut surroundings = surroundings_in(dir.path());
        let kit = toolkit(&dir.path().join("home"), 13, true);
        let library = kit.join("lib64/libnvrtc.so.13");
        surroundings.cuda_home = Some(kit);
        // This test program is an ELF file, too.
        let whole = fs::read(std::env::current_exe().unwrap()).unwrap();
        fs::write(&library, &whole).unwrap();
        assert!(survey(&surroundings).chosen.is_some());
        fs::write(&library, &whole[..whole.len() - 1]).unwrap();
        let survey = survey(&surroundings);
        assert!(survey.chosen.is_none());
        let reasons: Vec<String> =
            survey.looked.iter().map(|looked| format!("{:?}", looked.verdict)).collect();
        assert!(reasons.iter().any(|it| it.contains("libnvrtc.so.13 is incomplete")), "{reasons:?}");
    }

    #[test]
    fn an_unusable_place_named_by_the_user_ends_the_search() {
        let dir = tempfile::tempdir().unwrap();
        let mut surroundings = surroundings_in(dir.path());
        surroundings.named = Some(dir.path().join("nowhere"));
        surroundings.cuda_home = Some(toolkit(&dir.path().join("home"), 13, true));
        let survey = survey(&surroundings);
        assert!(survey.chosen.is_none());
        assert_eq!(survey.named_refusal().unwrap().1, "no such folder");
    }

    #[test]
    fn wheels_of_cuda_12_and_13_are_recognised() {
        let dir = tempfile::tempdir().unwrap();
        let thirteen = dir.path().join("a/nvidia/cu13");
        fs::create_dir_all(thirteen.join("lib")).unwrap();
        fs::create_dir_all(thirteen.join("include/cccl")).unwrap();
        fs::write(thirteen.join("lib/libnvrtc.so.13"), "").unwrap();
        write_headers(&thirteen.join("include"));
        let twelve = dir.path().join("b/nvidia");
        fs::create_dir_all(twelve.join("cuda_nvrtc/lib")).unwrap();
        fs::write(twelve.join("cuda_nvrtc/lib/libnvrtc.so.12"), "").unwrap();
        write_headers(&twelve.join("cuda_runtime/include"));

        let mut surroundings = surroundings_in(dir.path());
        surroundings.site_packages = vec![dir.path().join("a")];
        let chosen = survey(&surroundings).chosen.unwrap();
        assert!(chosen.includes.iter().any(|folder| folder.ends_with("include/cccl")));
        surroundings.site_packages = vec![dir.path().join("b")];
        assert!(survey(&surroundings).chosen.unwrap().nvrtc.ends_with("cuda_nvrtc/lib/libnvrtc.so.12"));
    }

    #[test]
    fn the_newest_of_several_libraries_is_chosen() {
        let dir = tempfile::tempdir().unwrap();
        for name in
            ["libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so.13.0.88", "libnvrtc.alt.so.13"]
        {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(newest_library(dir.path(), NVRTC).unwrap(), (13, dir.path().join("libnvrtc.so.13")));
    }

    #[test]
    fn toolkit_folders_are_newest_first() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["cuda-12.9", "cuda-13.0", "cuda-9.2", "other"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let names: Vec<String> = toolkit_folders(dir.path(), &dir.path().join("opt"))
            .iter()
            .map(|folder| folder.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["cuda-13.0", "cuda-12.9", "cuda-9.2"]);
    }
}
