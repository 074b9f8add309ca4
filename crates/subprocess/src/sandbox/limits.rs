//! Resource limits.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Part;

pub(super) const NAME: &str = "resource limits";

/// Largest size of a file. A build has a few megabytes.
const FILE_BYTES: u64 = 1 << 30;

pub(super) fn apply() -> Part {
    let lower = |resource: Resource, most: u64| {
        let now = getrlimit(resource);
        let least = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
        setrlimit(resource, Rlimit { current: least(now.current), maximum: least(now.maximum) })
    };
    match lower(Resource::Core, 0).and_then(|()| lower(Resource::Fsize, FILE_BYTES)) {
        Ok(()) => Part::Active(NAME.to_owned()),
        Err(error) => Part::Missing(format!("no {NAME}: {error}")),
    }
}
