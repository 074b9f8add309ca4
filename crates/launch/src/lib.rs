//! Arguments of any kernel's launch, written as text: `x=f32[4096]=normal(7)`, `out,f16[64,64]`, `n=i32=4096`.
//!
//! [`Argument`] is one kernel parameter in the user's notation. Its contents are generated here from seeds and are
//! the same on every machine and every device.

mod argument;
mod call;
mod dtype;
mod init;
mod literal;
pub mod npy;
mod placed;
mod signature;
mod texture;

pub use argument::{Argument, ArgumentError, Role};
pub use call::Call;
pub use dtype::Dtype;
pub use init::Init;
pub use placed::{Placed, PlacedBuffer};
pub use signature::{SourceParameter, source_parameters};
pub use texture::{Contents, TextureArgument};

use std::str::FromStr;

/// One to three extents, such as `4` or `4,2,1`; missing extents are 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Extent(pub [u32; 3]);

impl FromStr for Extent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut extents = [1; 3];
        let parts: Vec<&str> = text.split([',', 'x']).map(str::trim).collect();
        if parts.len() > 3 {
            return Err(format!("`{text}` has more than three dimensions"));
        }
        for (extent, part) in extents.iter_mut().zip(&parts) {
            *extent = part.parse().map_err(|_| format!("`{part}` is not a size"))?;
            if *extent == 0 {
                return Err(format!("`{text}` is empty: every dimension must be at least 1"));
            }
        }
        Ok(Extent(extents))
    }
}

impl std::fmt::Display for Extent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [x, y, z] = self.0;
        match (y, z) {
            (1, 1) => write!(f, "{x}"),
            (_, 1) => write!(f, "{x},{y}"),
            _ => write!(f, "{x},{y},{z}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_one_to_three_sizes() {
        assert_eq!("4".parse(), Ok(Extent([4, 1, 1])));
        assert_eq!("4,2,3".parse(), Ok(Extent([4, 2, 3])));
        assert_eq!("4x2".parse::<Extent>().map(|extent| extent.to_string()), Ok("4,2".to_owned()));
        for wrong in ["", "0", "1,2,3,4", "a", "-1", "4,,2"] {
            assert!(wrong.parse::<Extent>().is_err(), "{wrong}");
        }
    }
}
