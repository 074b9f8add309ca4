//! Functions that the virtual GPU does not have. They say so once and return CUDA's "not supported".

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::api::{NOT_SUPPORTED, call};

fn say_once(name: &'static str, text: &str) {
    static SAID: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(name) {
        eprintln!("warpsmith: {text}");
    }
}

/// Says that a function does not exist here.
fn missing(name: &'static str) -> u32 {
    call(name, false, || {
        say_once(name, &format!("the virtual GPU does not have {name}; it returns cudaErrorNotSupported"));
        Err(NOT_SUPPORTED)
    })
}

/// Says that a part of a function does not exist here.
pub fn unsupported(what: &'static str) -> u32 {
    say_once(what, &format!("the virtual GPU does not have {what}; the call returns cudaErrorNotSupported"));
    NOT_SUPPORTED
}

macro_rules! missing {
    ($($name:ident)*) => { $(
        #[doc = concat!("`", stringify!($name), "` of the runtime API: not supported.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> u32 {
            missing(stringify!($name))
        }
    )* };
}

// The parameters are not read, so the functions need none.
missing! {
    __cudaGetProcAddress __cudaRegisterHostVar __cudaRegisterUnifiedTable     cudaArrayGetMemoryRequirements cudaArrayGetPlane cudaArrayGetSparseProperties cudaCreateSurfaceObject
    cudaDestroyExternalMemory cudaDestroyExternalSemaphore cudaDestroySurfaceObject
    cudaDeviceFlushGPUDirectRDMAWrites cudaDeviceGetGraphMemAttribute
    cudaDeviceGetHostAtomicCapabilities cudaDeviceGetNvSciSyncAttributes cudaDeviceGetP2PAtomicCapabilities
    cudaDeviceGetTexture1DLinearMaxWidth cudaDeviceGraphMemTrim cudaDeviceRegisterAsyncNotification
    cudaDeviceSetGraphMemAttribute cudaDeviceUnregisterAsyncNotification cudaEGLStreamConsumerAcquireFrame
    cudaEGLStreamConsumerConnect cudaEGLStreamConsumerConnectWithFlags cudaEGLStreamConsumerDisconnect
    cudaEGLStreamConsumerReleaseFrame cudaEGLStreamProducerConnect cudaEGLStreamProducerDisconnect
    cudaEGLStreamProducerPresentFrame cudaEGLStreamProducerReturnFrame cudaEventCreateFromEGLSync
    cudaEventRecordWithFlags_ptsz cudaExternalMemoryGetMappedBuffer cudaExternalMemoryGetMappedMipmappedArray
    cudaFreeMipmappedArray cudaGLGetDevices cudaGLMapBufferObject cudaGLMapBufferObjectAsync
    cudaGLRegisterBufferObject cudaGLSetBufferObjectMapFlags cudaGLSetGLDevice cudaGLUnmapBufferObject
    cudaGLUnmapBufferObjectAsync cudaGLUnregisterBufferObject     cudaGetDriverEntryPointByVersion_ptsz cudaGetDriverEntryPoint_ptsz cudaGetMipmappedArrayLevel
    cudaGetSurfaceObjectResourceDesc cudaGetTextureObjectResourceDesc cudaGetTextureObjectResourceViewDesc
    cudaGetTextureObjectTextureDesc cudaGraphAddExternalSemaphoresSignalNode
    cudaGraphAddExternalSemaphoresWaitNode cudaGraphAddMemAllocNode cudaGraphAddMemFreeNode cudaGraphAddNode
    cudaGraphChildGraphNodeGetGraph cudaGraphConditionalHandleCreate cudaGraphDebugDotPrint
    cudaGraphEventRecordNodeGetEvent cudaGraphEventRecordNodeSetEvent cudaGraphEventWaitNodeGetEvent
    cudaGraphEventWaitNodeSetEvent cudaGraphExecChildGraphNodeSetParams cudaGraphExecEventRecordNodeSetEvent
    cudaGraphExecEventWaitNodeSetEvent cudaGraphExecExternalSemaphoresSignalNodeSetParams
    cudaGraphExecExternalSemaphoresWaitNodeSetParams cudaGraphExecGetFlags cudaGraphExecHostNodeSetParams
    cudaGraphExecMemcpyNodeSetParams cudaGraphExecMemcpyNodeSetParamsFromSymbol
    cudaGraphExecMemcpyNodeSetParamsToSymbol cudaGraphExecMemsetNodeSetParams cudaGraphExecNodeSetParams
    cudaGraphExternalSemaphoresSignalNodeGetParams cudaGraphExternalSemaphoresSignalNodeSetParams
    cudaGraphExternalSemaphoresWaitNodeGetParams cudaGraphExternalSemaphoresWaitNodeSetParams
    cudaGraphHostNodeGetParams cudaGraphHostNodeSetParams cudaGraphInstantiateWithParams
    cudaGraphInstantiateWithParams_ptsz cudaGraphKernelNodeCopyAttributes cudaGraphKernelNodeGetAttribute
    cudaGraphKernelNodeGetParams cudaGraphKernelNodeSetAttribute cudaGraphMemAllocNodeGetParams
    cudaGraphMemFreeNodeGetParams cudaGraphMemcpyNodeGetParams cudaGraphMemcpyNodeSetParams
    cudaGraphMemcpyNodeSetParams1D cudaGraphMemcpyNodeSetParamsFromSymbol cudaGraphMemcpyNodeSetParamsToSymbol
    cudaGraphMemsetNodeGetParams cudaGraphMemsetNodeSetParams cudaGraphNodeFindInClone
    cudaGraphNodeGetDependencies cudaGraphNodeGetDependentNodes cudaGraphNodeGetEnabled cudaGraphNodeSetParams
    cudaGraphReleaseUserObject cudaGraphRetainUserObject cudaGraphUpload_ptsz cudaGraphicsEGLRegisterImage
    cudaGraphicsGLRegisterBuffer cudaGraphicsGLRegisterImage cudaGraphicsMapResources
    cudaGraphicsResourceGetMappedEglFrame cudaGraphicsResourceGetMappedMipmappedArray
    cudaGraphicsResourceGetMappedPointer cudaGraphicsResourceSetMapFlags cudaGraphicsSubResourceGetMappedArray
    cudaGraphicsUnmapResources cudaGraphicsUnregisterResource cudaGraphicsVDPAURegisterOutputSurface
    cudaGraphicsVDPAURegisterVideoSurface cudaImportExternalMemory cudaImportExternalSemaphore
    cudaIpcCloseMemHandle cudaIpcGetEventHandle cudaIpcGetMemHandle cudaIpcOpenEventHandle
    cudaIpcOpenMemHandle cudaLaunchCooperativeKernel_ptsz cudaLaunchHostFunc_ptsz cudaLaunchKernelExC_ptsz
    cudaLibraryGetManaged cudaLibraryGetUnifiedFunction cudaLogsCurrent cudaLogsDumpToFile
    cudaLogsDumpToMemory cudaLogsRegisterCallback cudaLogsUnregisterCallback     cudaMallocFromPoolAsync_ptsz cudaMallocMipmappedArray cudaMemDiscardAndPrefetchBatchAsync
    cudaMemDiscardAndPrefetchBatchAsync_ptsz cudaMemDiscardBatchAsync cudaMemDiscardBatchAsync_ptsz
    cudaMemGetDefaultMemPool cudaMemGetMemPool cudaMemPoolExportPointer cudaMemPoolExportToShareableHandle
    cudaMemPoolGetAccess cudaMemPoolImportFromShareableHandle cudaMemPoolImportPointer cudaMemPoolSetAccess
    cudaMemPrefetchAsync_ptsz cudaMemPrefetchBatchAsync cudaMemPrefetchBatchAsync_ptsz
    cudaMemRangeGetAttributes cudaMemSetMemPool cudaMemcpy2DArrayToArray cudaMemcpy2DArrayToArray_ptds
    cudaMemcpy2DFromArrayAsync_ptsz
    cudaMemcpy2DFromArray_ptds cudaMemcpy2DToArrayAsync_ptsz
    cudaMemcpy2DToArray_ptds cudaMemcpy3DAsync_ptsz cudaMemcpy3DBatchAsync cudaMemcpy3DBatchAsync_ptsz
    cudaMemcpy3DPeer cudaMemcpy3DPeerAsync cudaMemcpy3DPeerAsync_ptsz cudaMemcpy3DPeer_ptds cudaMemcpy3D_ptds
    cudaMemcpyArrayToArray cudaMemcpyArrayToArray_ptds cudaMemcpyBatchAsync cudaMemcpyBatchAsync_ptsz
    cudaMemcpyFromArrayAsync cudaMemcpyFromArrayAsync_ptsz cudaMemcpyFromArray_ptds
    cudaMemcpyFromSymbolAsync_ptsz cudaMemcpyToArrayAsync cudaMemcpyToArrayAsync_ptsz
    cudaMemcpyToArray_ptds cudaMemcpyToSymbolAsync_ptsz cudaMemset2DAsync_ptsz cudaMemset2D_ptds
    cudaMemset3DAsync_ptsz cudaMemset3D_ptds cudaMipmappedArrayGetMemoryRequirements
    cudaMipmappedArrayGetSparseProperties cudaSignalExternalSemaphoresAsync
    cudaSignalExternalSemaphoresAsync_ptsz cudaStreamAddCallback_ptsz cudaStreamAttachMemAsync_ptsz
    cudaStreamBeginCaptureToGraph cudaStreamBeginCaptureToGraph_ptsz cudaStreamBeginCapture_ptsz
    cudaStreamCopyAttributes_ptsz cudaStreamEndCapture_ptsz cudaStreamGetAttribute cudaStreamGetAttribute_ptsz
    cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_ptsz cudaStreamGetDevice_ptsz cudaStreamGetFlags_ptsz
    cudaStreamGetId_ptsz cudaStreamGetPriority_ptsz cudaStreamIsCapturing_ptsz cudaStreamSetAttribute_ptsz
    cudaStreamUpdateCaptureDependencies cudaStreamUpdateCaptureDependencies_ptsz cudaUserObjectCreate
    cudaUserObjectRelease cudaUserObjectRetain cudaVDPAUGetDevice cudaVDPAUSetVDPAUDevice
    cudaWaitExternalSemaphoresAsync cudaWaitExternalSemaphoresAsync_ptsz
}
