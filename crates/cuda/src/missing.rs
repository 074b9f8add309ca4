//! Functions that the virtual GPU does not have. They say so once and return CUDA's "not supported".

use crate::errors::Status;
use crate::state;

/// Whether this is the first time that a name is missed.
pub fn say_once(name: &'static str) -> bool {
    match state() {
        Ok(mut state) => {
            let is_first = state.missing.insert(name);
            if is_first {
                state.findings.missing(name);
            }
            is_first
        }
        Err(_) => true,
    }
}

/// Says that a function does not exist here.
fn missing(name: &'static str) -> u32 {
    if say_once(name) {
        eprintln!("warpsmith: the virtual GPU does not have {name}; it returns CUDA_ERROR_NOT_SUPPORTED");
    }
    Status::NOT_SUPPORTED.0
}

/// Says that a part of a function does not exist here. The caller may hold the lock of the state.
pub fn unsupported(what: &'static str) -> Status {
    eprintln!("warpsmith: {}: the virtual GPU does not have {what}", crate::api::current_call());
    Status::NOT_SUPPORTED
}

macro_rules! missing {
    ($($name:ident)*) => { $(
        #[doc = concat!("`", stringify!($name), "` of the driver API: not supported.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> u32 {
            missing(stringify!($name))
        }
    )* };
}

// The parameters are not read, so the functions need none.
missing! {
        cuArrayGetMemoryRequirements cuArrayGetPlane cuArrayGetSparseProperties cuCheckpointProcessCheckpoint
    cuCheckpointProcessGetRestoreThreadId cuCheckpointProcessGetState cuCheckpointProcessLock
    cuCheckpointProcessRestore cuCheckpointProcessUnlock cuCoredumpGetAttribute cuCoredumpGetAttributeGlobal
    cuCoredumpSetAttribute cuCoredumpSetAttributeGlobal cuCtxAttach cuCtxDetach cuCtxFromGreenCtx
    cuCtxGetDevResource cuCtxGetExecAffinity cuCtxRecordEvent cuCtxWaitEvent cuDestroyExternalMemory
    cuDestroyExternalSemaphore cuDevResourceGenerateDesc cuDevSmResourceSplitByCount cuDeviceGetDevResource
    cuDeviceGetGraphMemAttribute cuDeviceGetHostAtomicCapabilities cuDeviceGetLuid
    cuDeviceGetNvSciSyncAttributes cuDeviceGetP2PAtomicCapabilities cuDeviceGetP2PAttribute
    cuDeviceGetProperties cuDeviceGetTexture1DLinearMaxWidth cuDeviceGraphMemTrim
    cuDeviceRegisterAsyncNotification cuDeviceSetGraphMemAttribute cuDeviceUnregisterAsyncNotification
    cuExternalMemoryGetMappedBuffer cuExternalMemoryGetMappedMipmappedArray cuFlushGPUDirectRDMAWrites
    cuFuncSetBlockShape cuFuncSetSharedSize cuGraphAddBatchMemOpNode cuGraphAddExternalSemaphoresSignalNode
    cuGraphAddExternalSemaphoresWaitNode cuGraphAddMemAllocNode cuGraphAddMemFreeNode cuGraphAddNode_v2
    cuGraphBatchMemOpNodeGetParams cuGraphBatchMemOpNodeSetParams cuGraphChildGraphNodeGetGraph
    cuGraphConditionalHandleCreate cuGraphDebugDotPrint cuGraphEventRecordNodeGetEvent
    cuGraphEventRecordNodeSetEvent cuGraphEventWaitNodeGetEvent cuGraphEventWaitNodeSetEvent
    cuGraphExecBatchMemOpNodeSetParams cuGraphExecChildGraphNodeSetParams cuGraphExecEventRecordNodeSetEvent
    cuGraphExecEventWaitNodeSetEvent cuGraphExecExternalSemaphoresSignalNodeSetParams
    cuGraphExecExternalSemaphoresWaitNodeSetParams cuGraphExecNodeSetParams
    cuGraphExternalSemaphoresSignalNodeGetParams cuGraphExternalSemaphoresSignalNodeSetParams
    cuGraphExternalSemaphoresWaitNodeGetParams cuGraphExternalSemaphoresWaitNodeSetParams
    cuGraphHostNodeGetParams cuGraphKernelNodeCopyAttributes cuGraphKernelNodeGetAttribute
    cuGraphKernelNodeGetParams_v2 cuGraphKernelNodeSetAttribute cuGraphMemAllocNodeGetParams
    cuGraphMemFreeNodeGetParams cuGraphMemcpyNodeGetParams cuGraphMemsetNodeGetParams
    cuGraphNodeGetDependentNodes_v2 cuGraphNodeSetParams cuGraphReleaseUserObject cuGraphRetainUserObject
    cuGraphicsMapResources cuGraphicsResourceGetMappedMipmappedArray cuGraphicsResourceGetMappedPointer_v2
    cuGraphicsResourceSetMapFlags_v2 cuGraphicsSubResourceGetMappedArray cuGraphicsUnmapResources
    cuGraphicsUnregisterResource cuGreenCtxCreate cuGreenCtxDestroy cuGreenCtxGetDevResource cuGreenCtxGetId
    cuGreenCtxRecordEvent cuGreenCtxStreamCreate cuGreenCtxWaitEvent cuImportExternalMemory
    cuImportExternalSemaphore cuIpcCloseMemHandle cuIpcGetEventHandle cuIpcGetMemHandle cuIpcOpenEventHandle
    cuIpcOpenMemHandle_v2 cuLaunch cuLaunchCooperativeKernelMultiDevice cuLaunchGrid cuLaunchGridAsync
    cuLibraryGetUnifiedFunction cuLogsCurrent cuLogsDumpToFile cuLogsDumpToMemory cuLogsRegisterCallback
    cuLogsUnregisterCallback cuMemAddressFree cuMemAddressReserve cuMemBatchDecompressAsync cuMemCreate
    cuMemDiscardAndPrefetchBatchAsync cuMemDiscardBatchAsync cuMemExportToShareableHandle cuMemGetAccess
    cuMemGetAllocationGranularity cuMemGetAllocationPropertiesFromHandle cuMemGetDefaultMemPool
    cuMemGetHandleForAddressRange cuMemGetMemPool cuMemImportFromShareableHandle cuMemMap cuMemMapArrayAsync
    cuMemPoolExportPointer cuMemPoolExportToShareableHandle cuMemPoolImportFromShareableHandle
    cuMemPoolImportPointer cuMemPrefetchBatchAsync cuMemRangeGetAttributes cuMemRelease
    cuMemRetainAllocationHandle cuMemSetAccess cuMemSetMemPool cuMemUnmap cuMemcpy3DBatchAsync_v2
    cuMemcpy3DPeer cuMemcpy3DPeerAsync cuMemcpyAtoA_v2 cuMemcpyAtoHAsync_v2     cuMemcpyBatchAsync_v2 cuMemcpyHtoAAsync_v2 cuMipmappedArrayCreate
    cuMipmappedArrayDestroy cuMipmappedArrayGetLevel cuMipmappedArrayGetMemoryRequirements
    cuMipmappedArrayGetSparseProperties cuModuleGetSurfRef cuModuleGetTexRef cuMulticastAddDevice
    cuMulticastBindAddr cuMulticastBindMem cuMulticastCreate cuMulticastGetGranularity cuMulticastUnbind
    cuParamSetSize cuParamSetTexRef cuParamSetf cuParamSeti cuParamSetv cuSignalExternalSemaphoresAsync
    cuStreamBatchMemOp_v2 cuStreamBeginCaptureToGraph cuStreamGetCtx_v2 cuStreamGetGreenCtx
    cuStreamUpdateCaptureDependencies_v2 cuStreamWaitValue32_v2 cuStreamWaitValue64_v2 cuStreamWriteValue32_v2
    cuStreamWriteValue64_v2 cuSurfObjectCreate cuSurfObjectDestroy cuSurfObjectGetResourceDesc
    cuSurfRefGetArray cuSurfRefSetArray cuTensorMapEncodeIm2col cuTensorMapEncodeIm2colWide     cuTexObjectGetResourceDesc cuTexObjectGetResourceViewDesc cuTexObjectGetTextureDesc
    cuTexRefCreate cuTexRefDestroy cuTexRefGetAddressMode cuTexRefGetAddress_v2 cuTexRefGetArray
    cuTexRefGetBorderColor cuTexRefGetFilterMode cuTexRefGetFlags cuTexRefGetFormat cuTexRefGetMaxAnisotropy
    cuTexRefGetMipmapFilterMode cuTexRefGetMipmapLevelBias cuTexRefGetMipmapLevelClamp
    cuTexRefGetMipmappedArray cuTexRefSetAddress2D_v2 cuTexRefSetAddress2D_v3 cuTexRefSetAddressMode
    cuTexRefSetAddress_v2 cuTexRefSetArray cuTexRefSetBorderColor cuTexRefSetFilterMode cuTexRefSetFlags
    cuTexRefSetFormat cuTexRefSetMaxAnisotropy cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias
    cuTexRefSetMipmapLevelClamp cuTexRefSetMipmappedArray cuUserObjectCreate cuUserObjectRelease
    cuUserObjectRetain cuWaitExternalSemaphoresAsync
}
