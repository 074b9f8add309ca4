//! Types, state spaces and scopes, with their PTX names.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// 8, 16 or 32 bits per lane: one unit.
    R32,
    /// 64 bits per lane: two units.
    R64,
    /// One bit per lane.
    Pred,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    U16x2,
    S16x2,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    E4m3x2,
    E5m2x2,
    E4m3,
    E5m2,
    Ue8m0x2,
    F32,
    F32x2,
    F64,
    Pred,
    S4,
    U4,
    B1,
}

impl Ty {
    pub fn parse(name: &str) -> Option<Ty> {
        Some(match name {
            "b8" => Ty::B8,
            "b16" => Ty::B16,
            "b32" => Ty::B32,
            "b64" => Ty::B64,
            "b128" => Ty::B128,
            "u8" => Ty::U8,
            "u16" => Ty::U16,
            "u32" => Ty::U32,
            "u64" => Ty::U64,
            "s8" => Ty::S8,
            "s16" => Ty::S16,
            "s32" => Ty::S32,
            "s64" => Ty::S64,
            "u16x2" => Ty::U16x2,
            "s16x2" => Ty::S16x2,
            "f16" => Ty::F16,
            "f16x2" => Ty::F16x2,
            "bf16" => Ty::Bf16,
            "bf16x2" => Ty::Bf16x2,
            "tf32" => Ty::Tf32,
            "e4m3x2" => Ty::E4m3x2,
            "e5m2x2" => Ty::E5m2x2,
            "e4m3" => Ty::E4m3,
            "e5m2" => Ty::E5m2,
            "ue8m0x2" => Ty::Ue8m0x2,
            "f32" => Ty::F32,
            "f32x2" => Ty::F32x2,
            "f64" => Ty::F64,
            "pred" => Ty::Pred,
            "s4" => Ty::S4,
            "u4" => Ty::U4,
            "b1" => Ty::B1,
            _ => return None,
        })
    }

    pub fn bits(self) -> u32 {
        match self {
            Ty::Pred | Ty::B1 => 1,
            Ty::S4 | Ty::U4 => 4,
            Ty::B8 | Ty::U8 | Ty::S8 | Ty::E4m3 | Ty::E5m2 => 8,
            Ty::B16 | Ty::U16 | Ty::S16 | Ty::F16 | Ty::Bf16 | Ty::E4m3x2 | Ty::E5m2x2 | Ty::Ue8m0x2 => 16,
            Ty::B64 | Ty::U64 | Ty::S64 | Ty::F64 | Ty::F32x2 => 64,
            Ty::B128 => 128,
            _ => 32,
        }
    }

    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    pub fn class(self) -> Class {
        match self.bits() {
            1 => Class::Pred,
            64 => Class::R64,
            _ => Class::R32,
        }
    }

    pub fn is_signed(self) -> bool {
        matches!(self, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64)
    }

    pub fn is_float(self) -> bool {
        matches!(self, Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 | Ty::Tf32 | Ty::F32 | Ty::F64 | Ty::F32x2)
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
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
