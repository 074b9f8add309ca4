//! CUDA's error numbers.

/// A result of the driver API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

/// What the body of an exported function returns.
pub type Outcome = Result<(), Status>;

macro_rules! statuses {
    ($($(#[doc = $doc:literal])* $name:ident = $number:literal, $symbol:literal, $text:literal;)*) => {
        impl Status {
            $(
                #[allow(dead_code, reason = "the table has the errors of CUDA, not only those that occur here")]
                pub const $name: Status = Status($number);
            )*
        }
        /// Number, name and description of every error, with ends of strings for C.
        const TABLE: &[(u32, &str, &str)] = &[
            (0, "CUDA_SUCCESS\0", "no error\0"),
            $(($number, concat!("CUDA_ERROR_", $symbol, "\0"), concat!($text, "\0")),)*
        ];
    };
}

statuses! {
    INVALID_VALUE = 1, "INVALID_VALUE", "invalid argument";
    OUT_OF_MEMORY = 2, "OUT_OF_MEMORY", "out of memory";
    NOT_INITIALIZED = 3, "NOT_INITIALIZED", "initialization error";
    DEINITIALIZED = 4, "DEINITIALIZED", "driver shutting down";
    STUB_LIBRARY = 34, "STUB_LIBRARY", "CUDA driver is a stub library";
    NO_DEVICE = 100, "NO_DEVICE", "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "INVALID_DEVICE", "invalid device ordinal";
    INVALID_IMAGE = 200, "INVALID_IMAGE", "device kernel image is invalid";
    INVALID_CONTEXT = 201, "INVALID_CONTEXT", "invalid device context";
    MAP_FAILED = 205, "MAP_FAILED", "mapping of buffer object failed";
    ARRAY_IS_MAPPED = 207, "ARRAY_IS_MAPPED", "array is mapped";
    ALREADY_MAPPED = 208, "ALREADY_MAPPED", "resource already mapped";
    NO_BINARY_FOR_GPU = 209, "NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device";
    NOT_MAPPED = 211, "NOT_MAPPED", "resource not mapped";
    UNSUPPORTED_LIMIT = 215, "UNSUPPORTED_LIMIT", "limit is not supported on this architecture";
    PEER_ACCESS_UNSUPPORTED = 217, "PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices";
    INVALID_PTX = 218, "INVALID_PTX", "a PTX JIT compilation failed";
    UNSUPPORTED_PTX_VERSION = 222, "UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain.";
    INVALID_SOURCE = 300, "INVALID_SOURCE", "device kernel image is invalid";
    FILE_NOT_FOUND = 301, "FILE_NOT_FOUND", "file not found";
    OPERATING_SYSTEM = 304, "OPERATING_SYSTEM", "OS call failed or operation not supported on this OS";
    INVALID_HANDLE = 400, "INVALID_HANDLE", "invalid resource handle";
    ILLEGAL_STATE = 401, "ILLEGAL_STATE", "the operation cannot be performed in the present state";
    NOT_FOUND = 500, "NOT_FOUND", "named symbol not found";
    NOT_READY = 600, "NOT_READY", "device not ready";
    ILLEGAL_ADDRESS = 700, "ILLEGAL_ADDRESS", "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, "LAUNCH_TIMEOUT", "the launch timed out and was terminated";
    PEER_ACCESS_ALREADY_ENABLED = 704, "PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED = 705, "PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled";
    PRIMARY_CONTEXT_ACTIVE = 708, "PRIMARY_CONTEXT_ACTIVE", "cannot set while device is active in this process";
    CONTEXT_IS_DESTROYED = 709, "CONTEXT_IS_DESTROYED", "context is destroyed";
    ASSERT = 710, "ASSERT", "device-side assert triggered";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = 713, "HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region";
    MISALIGNED_ADDRESS = 716, "MISALIGNED_ADDRESS", "misaligned address";
    LAUNCH_FAILED = 719, "LAUNCH_FAILED", "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch";
    NOT_PERMITTED = 800, "NOT_PERMITTED", "operation not permitted";
    NOT_SUPPORTED = 801, "NOT_SUPPORTED", "operation not supported";
    STREAM_CAPTURE_UNSUPPORTED = 900, "STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, "STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture";
    STREAM_CAPTURE_UNMATCHED = 903, "STREAM_CAPTURE_UNMATCHED", "capture was not initiated in this stream";
    STREAM_CAPTURE_UNJOINED = 904, "STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work";
    STREAM_CAPTURE_ISOLATION = 905, "STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream";
    STREAM_CAPTURE_IMPLICIT = 906, "STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT = 907, "CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream";
    GRAPH_EXEC_UPDATE_FAILURE = 910, "GRAPH_EXEC_UPDATE_FAILURE", "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    INVALID_CLUSTER_SIZE = 912, "INVALID_CLUSTER_SIZE", "Invalid cluster size";
    UNKNOWN = 999, "UNKNOWN", "unknown error";
}

impl Status {
    pub fn row(self) -> Option<&'static (u32, &'static str, &'static str)> {
        TABLE.iter().find(|row| row.0 == self.0)
    }
}
