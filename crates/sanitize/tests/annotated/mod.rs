//! Files of the corpus with their launch in `// warpsmith:` lines.

use std::path::Path;

use compiler::{Build, Compiler};
use gpu::accelerator::Geometry;
use launch::{Argument, Extent};
use warpsmith_sanitize::code;

/// A CUDA file and how to launch its kernel.
pub struct AnnotatedFile {
    pub name: String,
    pub text: String,
    /// The kernel that the lines name, if they do.
    pub kernel: Option<String>,
    pub geometry: Geometry,
    pub arguments: Vec<Argument>,
    pub build: Build,
}

impl AnnotatedFile {
    pub fn new(file: &Path, compiler: &Compiler) -> AnnotatedFile {
        let text = std::fs::read_to_string(file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let lines = text.lines().filter_map(|line| line.strip_prefix("// warpsmith:"));
        let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
        let flags =
            |name: &'static str| words.windows(2).filter(move |pair| pair[0] == name).map(|pair| pair[1]);
        let flag = |name| flags(name).next();
        let extent = |name| flag(name).map_or([1; 3], |text: &str| text.parse::<Extent>().unwrap().0);
        let geometry = Geometry {
            grid: extent("--grid"),
            block: extent("--block"),
            cluster: extent("--cluster"),
            shared_bytes: flag("--shared").map_or(0, |bytes| bytes.parse().unwrap()),
        };
        let arguments: Vec<Argument> = flags("--arg")
            .map(|text| text.parse().unwrap_or_else(|error| panic!("{name}: {error}")))
            .collect();
        let target = flag("--arch").unwrap().parse().unwrap();
        let kernel = flag("--kernel").map(str::to_owned);
        let request = code::request(file, &text, target, &[], &[]);
        // As the program builds it, so that its tests take these builds from the cache.
        let built = compiler.build_nvcc_source(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
        let build = built.outcome.build;
        AnnotatedFile { name, text, kernel, geometry, arguments, build }
    }
}

/// Calls `complain` for each file on all cores, and fails with all complaints.
pub fn complain_each<T: Sync>(files: &[T], complain: impl Fn(&T) -> Vec<String> + Sync) {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = complain(file);
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    assert!(wrong.is_empty(), "{} complaints:\n{}", wrong.len(), wrong.join("\n"));
}
