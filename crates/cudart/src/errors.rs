//! Errors and their names.

use std::ffi::CStr;

macro_rules! names {
    ($($number:literal $name:literal $text:literal;)*) => {
        /// The runtime's own errors, and names that differ from those of the driver.
        const NAMES: &[(u32, &str, &str)] = &[$(($number, concat!($name, "\0"), concat!($text, "\0")),)*];
    };
}

names! {
    0 "cudaSuccess" "no error";
    1 "cudaErrorInvalidValue" "invalid argument";
    2 "cudaErrorMemoryAllocation" "out of memory";
    3 "cudaErrorInitializationError" "initialization error";
    4 "cudaErrorCudartUnloading" "driver shutting down";
    9 "cudaErrorInvalidConfiguration" "invalid configuration argument";
    12 "cudaErrorInvalidPitchValue" "invalid pitch argument";
    13 "cudaErrorInvalidSymbol" "invalid device symbol";
    16 "cudaErrorInvalidHostPointer" "invalid host pointer";
    17 "cudaErrorInvalidDevicePointer" "invalid device pointer";
    18 "cudaErrorInvalidTexture" "invalid texture reference";
    20 "cudaErrorInvalidChannelDescriptor" "invalid channel descriptor";
    21 "cudaErrorInvalidMemcpyDirection" "invalid copy direction for memcpy";
    34 "cudaErrorStubLibrary" "CUDA driver is a stub library";
    35 "cudaErrorInsufficientDriver" "CUDA driver version is insufficient for CUDA runtime version";
    36 "cudaErrorCallRequiresNewerDriver" "API call is not supported in the installed CUDA driver";
    46 "cudaErrorDevicesUnavailable" "CUDA-capable device(s) is/are busy or unavailable";
    49 "cudaErrorIncompatibleDriverContext" "incompatible driver context";
    52 "cudaErrorMissingConfiguration" "__global__ function call is not configured";
    98 "cudaErrorInvalidDeviceFunction" "invalid device function";
    100 "cudaErrorNoDevice" "no CUDA-capable device is detected";
    101 "cudaErrorInvalidDevice" "invalid device ordinal";
    200 "cudaErrorInvalidKernelImage" "device kernel image is invalid";
    201 "cudaErrorDeviceUninitialized" "invalid device context";
    205 "cudaErrorMapBufferObjectFailed" "mapping of buffer object failed";
    209 "cudaErrorNoKernelImageForDevice" "no kernel image is available for execution on the device";
    215 "cudaErrorUnsupportedLimit" "limit is not supported on this architecture";
    217 "cudaErrorPeerAccessUnsupported" "peer access is not supported between these two devices";
    218 "cudaErrorInvalidPtx" "a PTX JIT compilation failed";
    222 "cudaErrorUnsupportedPtxVersion" "the provided PTX was compiled with an unsupported toolchain.";
    300 "cudaErrorInvalidSource" "device kernel image is invalid";
    301 "cudaErrorFileNotFound" "file not found";
    304 "cudaErrorOperatingSystem" "OS call failed or operation not supported on this OS";
    400 "cudaErrorInvalidResourceHandle" "invalid resource handle";
    401 "cudaErrorIllegalState" "the operation cannot be performed in the present state";
    500 "cudaErrorSymbolNotFound" "named symbol not found";
    600 "cudaErrorNotReady" "device not ready";
    700 "cudaErrorIllegalAddress" "an illegal memory access was encountered";
    701 "cudaErrorLaunchOutOfResources" "too many resources requested for launch";
    702 "cudaErrorLaunchTimeout" "the launch timed out and was terminated";
    704 "cudaErrorPeerAccessAlreadyEnabled" "peer access is already enabled";
    705 "cudaErrorPeerAccessNotEnabled" "peer access has not been enabled";
    708 "cudaErrorSetOnActiveProcess" "cannot set while device is active in this process";
    709 "cudaErrorContextIsDestroyed" "context is destroyed";
    710 "cudaErrorAssert" "device-side assert triggered";
    712 "cudaErrorHostMemoryAlreadyRegistered" "part or all of the requested memory range is already mapped";
    713 "cudaErrorHostMemoryNotRegistered" "pointer does not correspond to a registered memory region";
    716 "cudaErrorMisalignedAddress" "misaligned address";
    719 "cudaErrorLaunchFailure" "unspecified launch failure";
    720 "cudaErrorCooperativeLaunchTooLarge" "too many blocks in cooperative launch";
    800 "cudaErrorNotPermitted" "operation not permitted";
    801 "cudaErrorNotSupported" "operation not supported";
    900 "cudaErrorStreamCaptureUnsupported" "operation not permitted when stream is capturing";
    901 "cudaErrorStreamCaptureInvalidated" "operation failed due to a previous error during capture";
    903 "cudaErrorStreamCaptureUnmatched" "capture was not initiated in this stream";
    904 "cudaErrorStreamCaptureUnjoined" "capturing stream has unjoined work";
    905 "cudaErrorStreamCaptureIsolation" "dependency created on uncaptured work in another stream";
    906 "cudaErrorStreamCaptureImplicit" "operation would make the legacy stream depend on a capturing blocking stream";
    907 "cudaErrorCapturedEvent" "operation not permitted on an event last recorded in a capturing stream";
    910 "cudaErrorGraphExecUpdateFailure" "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    912 "cudaErrorInvalidClusterSize" "Invalid cluster size";
    999 "cudaErrorUnknown" "unknown error";
}

fn row(error: u32) -> Option<&'static (u32, &'static str, &'static str)> {
    NAMES.iter().find(|row| row.0 == error)
}

/// The name of an error, for messages.
pub fn name(error: u32) -> &'static str {
    row(error).map_or("an unknown error", |row| row.1.trim_end_matches('\0'))
}

/// `cudaGetErrorName` of the runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorName(error: u32) -> *const u8 {
    row(error).map_or(c"unrecognized error code".as_ptr().cast(), |row| row.1.as_ptr())
}

/// `cudaGetErrorString` of the runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(error: u32) -> *const u8 {
    let unknown: &CStr = c"unrecognized error code";
    row(error).map_or(unknown.as_ptr().cast(), |row| row.2.as_ptr())
}
