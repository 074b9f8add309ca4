//! Tensor maps in the driver's own encoding.

use std::ffi::c_void;

use cudarc::driver::sys;
use vgpu::TensorMap;
use vgpu::tensor_map::{Element, Fill, Promotion, Swizzle};

use super::status::check;
use crate::accelerator::{AcceleratorError, invalid_map};

pub fn encode(map: &TensorMap) -> Result<Vec<u8>, AcceleratorError> {
    use sys::CUtensorMapDataType_enum as Type;
    use sys::CUtensorMapFloatOOBfill_enum as OutOfRange;
    use sys::CUtensorMapL2promotion_enum as Promoted;
    use sys::CUtensorMapSwizzle_enum as Pattern;
    // The driver's refusal does not say which rule was broken.
    map.check().map_err(|error| invalid_map(&error))?;
    let element = match map.element {
        Element::U8 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        Element::U16 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        Element::U32 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        Element::I32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
        Element::U64 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        Element::I64 => Type::CU_TENSOR_MAP_DATA_TYPE_INT64,
        Element::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Element::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        Element::F64 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        Element::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    };
    let swizzle = match map.swizzle {
        Swizzle::None => Pattern::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::B32 => Pattern::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::B64 => Pattern::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::B128 => Pattern::CU_TENSOR_MAP_SWIZZLE_128B,
    };
    let fill = match map.fill {
        Fill::Zero => OutOfRange::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        Fill::Nan => OutOfRange::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
    };
    let mut encoded = sys::CUtensorMap { opaque: [0; 16] };
    let interleave = sys::CUtensorMapInterleave_enum::CU_TENSOR_MAP_INTERLEAVE_NONE;
    let promotion = match map.promotion {
        Promotion::None => Promoted::CU_TENSOR_MAP_L2_PROMOTION_NONE,
        Promotion::B64 => Promoted::CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
        Promotion::B128 => Promoted::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        Promotion::B256 => Promoted::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
    };
    if let Some(im2col) = &map.im2col {
        // SAFETY: as below. The corners have two elements less than the rank says.
        let outcome = unsafe {
            sys::cuTensorMapEncodeIm2col(
                &raw mut encoded,
                element,
                map.rank() as u32,
                map.address as *mut c_void,
                map.dims.as_ptr(),
                map.strides.as_ptr(),
                im2col.lower.as_ptr(),
                im2col.upper.as_ptr(),
                map.box_dims[0],
                im2col.pixels,
                map.element_strides.as_ptr(),
                interleave,
                swizzle,
                promotion,
                fill,
            )
        };
        check("cuTensorMapEncodeIm2col", outcome.result())?;
        return Ok(encoded.opaque.iter().flat_map(|word| word.to_le_bytes()).collect());
    }
    // SAFETY: the arrays have as many elements as the rank says, which `check` has seen; the address is a number to it.
    let outcome = unsafe {
        sys::cuTensorMapEncodeTiled(
            &raw mut encoded,
            element,
            map.rank() as u32,
            map.address as *mut c_void,
            map.dims.as_ptr(),
            map.strides.as_ptr(),
            map.box_dims.as_ptr(),
            map.element_strides.as_ptr(),
            interleave,
            swizzle,
            promotion,
            fill,
        )
    };
    check("cuTensorMapEncodeTiled", outcome.result())?;
    Ok(encoded.opaque.iter().flat_map(|word| word.to_le_bytes()).collect())
}
