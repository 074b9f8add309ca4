//! The shared folder or object store that holds a queue.

use std::fmt;
use std::path::Path as FilePath;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};

/// A shared folder or object store, seen as small documents with names.
#[derive(Clone)]
pub struct Store {
    objects: Arc<dyn ObjectStore>,
    root: Path,
    runtime: Arc<Runtime>,
    place: String,
    /// How many documents were read.
    #[cfg(test)]
    pub(crate) reads: Arc<std::sync::atomic::AtomicUsize>,
}

/// The most bytes of a document. Every program with access to a store can write into it.
const MOST_BYTES: usize = 4 << 20;
/// The most bytes of a job, which has the texts of its kernels.
const MOST_BYTES_OF_JOB: usize = 128 << 20;

/// The most bytes of the document of this name.
fn most_bytes(name: &str) -> usize {
    if name.ends_with("/job") { MOST_BYTES_OF_JOB } else { MOST_BYTES }
}

/// What a store has under a name.
#[derive(Debug, PartialEq)]
pub(crate) enum Document<T> {
    /// Nothing.
    Missing,
    /// Something that is not what was expected, or too large.
    Unreadable,
    /// The document.
    Found(T),
}

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct StoreError {
    place: String,
    reason: String,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.place)
    }
}

impl Store {
    /// Opens a folder, which is created, or the URL of an object store.
    pub fn open(place: &str) -> Result<Self, StoreError> {
        let failed = |reason: String| StoreError { place: place.to_owned(), reason };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = Arc::new(runtime.map_err(|error| failed(error.to_string()))?);
        let (objects, root) = if place.contains("://") {
            cloud(place).map_err(failed)?
        } else {
            std::fs::create_dir_all(place).map_err(|error| failed(error.to_string()))?;
            let folder = FilePath::new(place).canonicalize().map_err(|error| failed(error.to_string()))?;
            let files =
                LocalFileSystem::new_with_prefix(folder).map_err(|error| failed(error.to_string()))?;
            (Arc::new(files) as Arc<dyn ObjectStore>, Path::default())
        };
        Ok(Store {
            objects,
            root,
            runtime,
            place: place.to_owned(),
            #[cfg(test)]
            reads: Arc::default(),
        })
    }

    /// The folder or URL.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Whether every access crosses a network.
    pub fn is_remote(&self) -> bool {
        self.place.contains("://")
    }

    fn path(&self, name: &str) -> Path {
        self.root.parts().chain(Path::from(name).parts()).collect()
    }

    fn failed(&self, name: &str, error: &dyn fmt::Display) -> StoreError {
        StoreError { place: format!("{} ({name})", self.place), reason: error.to_string() }
    }

    /// The document of this name. `None`: there is none, or it is not what was expected, which only another version of the
    /// program can have written.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        Ok(match self.read(name)? {
            Document::Found(document) => Some(document),
            Document::Missing | Document::Unreadable => None,
        })
    }

    /// Like [`Store::get`], and tells apart why there is no document.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Document<T>, StoreError> {
        #[cfg(test)]
        self.reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (path, most) = (self.path(name), most_bytes(name));
        let read = async {
            let mut parts = self.objects.get(&path).await?.into_stream();
            let mut bytes = Vec::new();
            while let Some(part) = parts.try_next().await? {
                if bytes.len() + part.len() > most {
                    return Ok(None);
                }
                bytes.extend_from_slice(&part);
            }
            Ok(Some(bytes))
        };
        match self.runtime.block_on(read) {
            Ok(bytes) => {
                let document = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
                Ok(document.map_or(Document::Unreadable, Document::Found))
            }
            Err(Error::NotFound { .. }) => Ok(Document::Missing),
            Err(error) => Err(self.failed(name, &error)),
        }
    }

    /// Whether there is a document of this name, whatever it contains.
    pub fn has(&self, name: &str) -> Result<bool, StoreError> {
        match self.runtime.block_on(self.objects.head(&self.path(name))) {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.failed(name, &error)),
        }
    }

    /// Writes a document, whole or not at all.
    pub fn put(&self, name: &str, document: &impl Serialize) -> Result<(), StoreError> {
        self.write(name, document, PutMode::Overwrite).map(drop)
    }

    /// Writes a document unless there is one of this name. Returns whether it was written: of several writers exactly
    /// one succeeds.
    pub fn put_new(&self, name: &str, document: &impl Serialize) -> Result<bool, StoreError> {
        self.write(name, document, PutMode::Create)
    }

    fn write(&self, name: &str, document: &impl Serialize, mode: PutMode) -> Result<bool, StoreError> {
        let bytes = serde_json::to_vec(document).map_err(|error| self.failed(name, &error))?;
        if bytes.len() > most_bytes(name) {
            let (size, most) = (bytes.len(), most_bytes(name));
            return Err(
                self.failed(name, &format!("{size} bytes are too many: nobody reads more than {most}"))
            );
        }
        let path = self.path(name);
        let options = PutOptions { mode, ..PutOptions::default() };
        match self.runtime.block_on(self.objects.put_opts(&path, PutPayload::from(bytes), options)) {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(self.failed(name, &error)),
        }
    }

    /// The names of the documents below a folder, without the folder, sorted.
    pub fn list(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let path = self.path(folder);
        let listed = self.runtime.block_on(self.objects.list(Some(&path)).try_collect::<Vec<_>>());
        let mut names: Vec<String> = match listed {
            Ok(found) => found
                .into_iter()
                .filter_map(|it| {
                    let rest: Path = it.location.prefix_match(&path)?.collect();
                    Some(rest.to_string())
                })
                .collect(),
            Err(Error::NotFound { .. }) => Vec::new(),
            Err(error) => return Err(self.failed(folder, &error)),
        };
        names.sort();
        Ok(names)
    }

    /// Removes a document, if there is one.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        match self.runtime.block_on(self.objects.delete(&self.path(name))) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(name, &error)),
        }
    }
}

#[cfg(feature = "s3")]
fn cloud(url: &str) -> Result<(Arc<dyn ObjectStore>, Path), String> {
    use object_store::aws::AmazonS3Builder;
    // Keys, region and endpoint come from the usual AWS_ variables.
    let store = AmazonS3Builder::from_env().with_url(url).build().map_err(|error| error.to_string())?;
    let path = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
    Ok((Arc::new(store), Path::from(path)))
}

#[cfg(not(feature = "s3"))]
fn cloud(_: &str) -> Result<(Arc<dyn ObjectStore>, Path), String> {
    Err("this program was built without object stores; build it with `--features s3`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_writers_of_a_new_document_one_wins() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().to_str().unwrap().to_owned();
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let place = place.clone();
                std::thread::spawn(move || {
                    let store = Store::open(&place).unwrap();
                    (0..50)
                        .filter(|at| store.put_new(&format!("claims/{at}"), &(writer, at)).unwrap())
                        .count()
                })
            })
            .collect();
        let won: usize = writers.into_iter().map(|it| it.join().unwrap()).sum();
        assert_eq!(won, 50);
        let store = Store::open(&place).unwrap();
        assert_eq!(store.list("claims").unwrap().len(), 50);
        assert_eq!(store.list("nothing").unwrap(), Vec::<String>::new());
        assert_eq!(store.get::<(u32, u32)>("claims/7").unwrap().unwrap().1, 7);
        store.remove("claims/7").unwrap();
        store.remove("claims/7").unwrap();
        assert_eq!(store.get::<(u32, u32)>("claims/7").unwrap(), None);
    }

    #[test]
    fn a_document_that_is_too_large_is_neither_read_nor_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().to_str().unwrap()).unwrap();
        let fits = "x".repeat(MOST_BYTES - 2);
        store.put("fits", &fits).unwrap();
        assert_eq!(store.read("fits").unwrap(), Document::Found(fits.clone()));
        let error = store.put("large", &format!("{fits}x")).unwrap_err();
        assert!(error.to_string().contains("too many") && !store.has("large").unwrap(), "{error}");
        std::fs::write(folder.path().join("large"), format!("\"{fits}x\"")).unwrap();
        assert_eq!(store.read::<String>("large").unwrap(), Document::Unreadable);
        assert_eq!(store.read::<String>("none").unwrap(), Document::Missing);
    }

    #[test]
    fn a_document_is_there_whatever_it_contains() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().to_str().unwrap()).unwrap();
        std::fs::write(folder.path().join("stopped"), "").unwrap();
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        assert!(store.has("stopped").unwrap() && !store.has("folder").unwrap() && !store.has("x").unwrap());
    }

    #[test]
    fn a_file_in_place_of_the_folder_is_an_error_that_names_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Store::open(file.path().to_str().unwrap()).unwrap_err();
        assert!(error.to_string().starts_with(file.path().to_str().unwrap()), "{error}");
    }
}
