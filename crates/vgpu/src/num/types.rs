//! The types of PTX.

/// Declares the types: variant, name in PTX, bits.
macro_rules! types {
    ($($variant:ident $name:literal $bits:literal,)+) => {
        /// A type of PTX. Packed types, such as `f16x2`, have the bits of all their parts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Ty {
            $($variant,)+
        }

        impl Ty {
            pub fn parse(name: &str) -> Option<Ty> {
                match name {
                    $($name => Some(Ty::$variant),)+
                    _ => None,
                }
            }

            pub const fn bits(self) -> u32 {
                match self {
                    $(Ty::$variant => $bits,)+
                }
            }
        }
    };
}

types! {
    Pred "pred" 1,
    B1 "b1" 1,
    B8 "b8" 8,
    B16 "b16" 16,
    B32 "b32" 32,
    B64 "b64" 64,
    B128 "b128" 128,
    U4 "u4" 4,
    U8 "u8" 8,
    U16 "u16" 16,
    U32 "u32" 32,
    U64 "u64" 64,
    S4 "s4" 4,
    S8 "s8" 8,
    S16 "s16" 16,
    S32 "s32" 32,
    S64 "s64" 64,
    U16x2 "u16x2" 32,
    S16x2 "s16x2" 32,
    F16 "f16" 16,
    F16x2 "f16x2" 32,
    Bf16 "bf16" 16,
    Bf16x2 "bf16x2" 32,
    Tf32 "tf32" 32,
    E4m3 "e4m3" 8,
    E4m3x2 "e4m3x2" 16,
    E5m2 "e5m2" 8,
    E5m2x2 "e5m2x2" 16,
    Ue8m0x2 "ue8m0x2" 16,
    F32 "f32" 32,
    F32x2 "f32x2" 64,
    F64 "f64" 64,
}

impl Ty {
    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    pub const fn is_signed(self) -> bool {
        matches!(self, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64)
    }

    pub fn is_float(self) -> bool {
        matches!(self, Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 | Ty::Tf32 | Ty::F32 | Ty::F64 | Ty::F32x2)
    }
}
