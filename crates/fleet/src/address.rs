//! Where a fleet is, as users write it.

use std::fmt;
use std::str::FromStr;

/// The value of `--fleet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A shared folder, or the URL of an object store: `dir:/shared/fleet`, `dir:s3://bucket/fleet`.
    Folder(String),
    /// A Ray cluster. `None`: the one of this machine, which is started if there is none.
    Ray(Option<String>),
    /// Workers that `sbatch` starts, with a queue in this shared folder.
    Slurm(Option<String>),
    /// The process that started this one; for workers only.
    Pipe,
}

/// A value of `--fleet` that names no fleet.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no fleet; write dir:FOLDER, dir:s3://BUCKET/FOLDER, ray, ray://HOST:PORT or slurm:FOLDER")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = || AddressError(text.to_owned());
        let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        match (kind, rest) {
            ("dir", Some(place)) if !place.is_empty() => Ok(Address::Folder(place.to_owned())),
            ("ray", None) => Ok(Address::Ray(None)),
            ("ray", Some(host)) if host.len() > 2 && host.starts_with("//") => {
                Ok(Address::Ray(Some(text.to_owned())))
            }
            ("slurm", None) => Ok(Address::Slurm(None)),
            ("slurm", Some(folder)) if !folder.is_empty() => Ok(Address::Slurm(Some(folder.to_owned()))),
            ("pipe", None) => Ok(Address::Pipe),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Folder(place) => write!(f, "dir:{place}"),
            Address::Ray(None) => f.write_str("ray"),
            Address::Ray(Some(url)) => f.write_str(url),
            Address::Slurm(None) => f.write_str("slurm"),
            Address::Slurm(Some(folder)) => write!(f, "slurm:{folder}"),
            Address::Pipe => f.write_str("pipe"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn addresses_are_read_and_written_alike() {
        for text in
            ["dir:/shared/fleet", "dir:s3://bucket/a", "ray", "ray://head:10001", "slurm", "slurm:/x", "pipe"]
        {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "dir", "dir:", "ray:", "ray://", "slurm:", "pipe:x", "kubernetes", "/shared"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
