//! Classes of registers, elements in memory, state spaces and scopes.

pub use crate::num::types::Ty;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// 8, 16 or 32 bits per lane: one unit.
    R32,
    /// 64 bits per lane: two units.
    R64,
    /// One bit per lane.
    Pred,
}

impl Ty {
    /// The class of the registers that hold the type.
    pub fn class(self) -> Class {
        match self.bits() {
            1 => Class::Pred,
            64 => Class::R64,
            _ => Class::R32,
        }
    }
}

/// An element in memory. `signed` matters if the register is wider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemType {
    pub bytes: u8,
    pub signed: bool,
    pub float: bool,
    /// The PTX type, for atomics.
    pub ty: Ty,
}

impl MemType {
    pub fn from_type(ty: Ty) -> MemType {
        MemType { bytes: ty.bytes() as u8, signed: ty.is_signed(), float: ty.is_float(), ty }
    }
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, schemars::JsonSchema, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Space {
    Generic,
    /// Global and constant memory, which share one range of addresses.
    Global,
    Shared,
    Local,
    /// Kernel parameters.
    Param,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Scope {
    Cta,
    Cluster,
    Gpu,
    #[default]
    Sys,
}
