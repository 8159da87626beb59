/* Driver functions that the stand-in exports but does not support: X(name, symbol, version, why).
 *
 * Names and versions are as in driver_list.h. `why` selects the message that the door prints before
 * it returns CUDA_ERROR_NOT_SUPPORTED:
 *
 *   CALL    the soft driver does not have the call
 *   SHARE   the soft driver does not have the call; another one shares memory between processes
 *   KERNEL  the call is about kernels, which need a GPU
 *   OLD     a form from before CUDA 3.2, with 32-bit sizes; the stand-in has its successor
 *
 * A program that is linked against one of these functions still starts, and a call prints the
 * message. */
#ifndef ACRE_STANDIN_DRIVER_OTHERS_H
#define ACRE_STANDIN_DRIVER_OTHERS_H

/* clang-format off */
#define STANDIN_OTHERS(X)                                                                          \
    X(cuArray3DCreate, cuArray3DCreate, 2000, CALL)                                                \
    X(cuArray3DCreate, cuArray3DCreate_v2, 3020, CALL)                                             \
    X(cuArray3DGetDescriptor, cuArray3DGetDescriptor, 2000, CALL)                                  \
    X(cuArray3DGetDescriptor, cuArray3DGetDescriptor_v2, 3020, CALL)                               \
    X(cuArrayCreate, cuArrayCreate, 2000, CALL)                                                    \
    X(cuArrayCreate, cuArrayCreate_v2, 3020, CALL)                                                 \
    X(cuArrayDestroy, cuArrayDestroy, 2000, CALL)                                                  \
    X(cuArrayGetDescriptor, cuArrayGetDescriptor, 2000, CALL)                                      \
    X(cuArrayGetDescriptor, cuArrayGetDescriptor_v2, 3020, CALL)                                   \
    X(cuArrayGetMemoryRequirements, cuArrayGetMemoryRequirements, 11060, CALL)                     \
    X(cuArrayGetPlane, cuArrayGetPlane, 11020, CALL)                                               \
    X(cuArrayGetSparseProperties, cuArrayGetSparseProperties, 11010, CALL)                         \
    X(cuCheckpointProcessCheckpoint, cuCheckpointProcessCheckpoint, 12080, CALL)                   \
    X(cuCheckpointProcessGetRestoreThreadId, cuCheckpointProcessGetRestoreThreadId, 12080, CALL)   \
    X(cuCheckpointProcessGetState, cuCheckpointProcessGetState, 12080, CALL)                       \
    X(cuCheckpointProcessLock, cuCheckpointProcessLock, 12080, CALL)                               \
    X(cuCheckpointProcessRestore, cuCheckpointProcessRestore, 12080, CALL)                         \
    X(cuCheckpointProcessUnlock, cuCheckpointProcessUnlock, 12080, CALL)                           \
    X(cuCoredumpGetAttribute, cuCoredumpGetAttribute, 12010, CALL)                                 \
    X(cuCoredumpGetAttributeGlobal, cuCoredumpGetAttributeGlobal, 12010, CALL)                     \
    X(cuCoredumpSetAttribute, cuCoredumpSetAttribute, 12010, CALL)                                 \
    X(cuCoredumpSetAttributeGlobal, cuCoredumpSetAttributeGlobal, 12010, CALL)                     \
    X(cuCtxAttach, cuCtxAttach, 2000, CALL)                                                        \
    X(cuCtxDetach, cuCtxDetach, 2000, CALL)                                                        \
    X(cuCtxFromGreenCtx, cuCtxFromGreenCtx, 12040, CALL)                                           \
    X(cuCtxGetCacheConfig, cuCtxGetCacheConfig, 3020, CALL)                                        \
    X(cuCtxGetDevResource, cuCtxGetDevResource, 12040, CALL)                                       \
    X(cuCtxGetExecAffinity, cuCtxGetExecAffinity, 11040, CALL)                                     \
    X(cuCtxGetSharedMemConfig, cuCtxGetSharedMemConfig, 4020, CALL)                                \
    X(cuCtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache, 11000, CALL)                       \
    X(cuCtxSetCacheConfig, cuCtxSetCacheConfig, 3020, CALL)                                        \
    X(cuCtxSetSharedMemConfig, cuCtxSetSharedMemConfig, 4020, CALL)                                \
    X(cuCtxWaitEvent, cuCtxWaitEvent, 12050, CALL)                                                 \
    X(cuDestroyExternalMemory, cuDestroyExternalMemory, 10000, CALL)                               \
    X(cuDestroyExternalSemaphore, cuDestroyExternalSemaphore, 10000, CALL)                         \
    X(cuDevResourceGenerateDesc, cuDevResourceGenerateDesc, 12040, CALL)                           \
    X(cuDevSmResourceSplitByCount, cuDevSmResourceSplitByCount, 12040, CALL)                       \
    X(cuDeviceGetDevResource, cuDeviceGetDevResource, 12040, CALL)                                 \
    X(cuDeviceGetExecAffinitySupport, cuDeviceGetExecAffinitySupport, 11040, CALL)                 \
    X(cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute, 11040, CALL)                     \
    X(cuDeviceGetHostAtomicCapabilities, cuDeviceGetHostAtomicCapabilities, 13000, CALL)           \
    X(cuDeviceGetLuid, cuDeviceGetLuid, 10000, CALL)                                               \
    X(cuDeviceGetNvSciSyncAttributes, cuDeviceGetNvSciSyncAttributes, 10020, CALL)                 \
    X(cuDeviceGetP2PAtomicCapabilities, cuDeviceGetP2PAtomicCapabilities, 13000, CALL)             \
    X(cuDeviceGetProperties, cuDeviceGetProperties, 2000, CALL)                                    \
    X(cuDeviceGetTexture1DLinearMaxWidth, cuDeviceGetTexture1DLinearMaxWidth, 11010, CALL)         \
    X(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 11040, CALL)                                     \
    X(cuDeviceRegisterAsyncNotification, cuDeviceRegisterAsyncNotification, 12040, CALL)           \
    X(cuDeviceSetGraphMemAttribute, cuDeviceSetGraphMemAttribute, 11040, CALL)                     \
    X(cuDeviceTotalMem, cuDeviceTotalMem, 2000, OLD)                                               \
    X(cuDeviceUnregisterAsyncNotification, cuDeviceUnregisterAsyncNotification, 12040, CALL)       \
    X(cuEGLStreamConsumerAcquireFrame, cuEGLStreamConsumerAcquireFrame, 7000, CALL)                \
    X(cuEGLStreamConsumerConnect, cuEGLStreamConsumerConnect, 7000, CALL)                          \
    X(cuEGLStreamConsumerConnectWithFlags, cuEGLStreamConsumerConnectWithFlags, 8000, CALL)        \
    X(cuEGLStreamConsumerDisconnect, cuEGLStreamConsumerDisconnect, 7000, CALL)                    \
    X(cuEGLStreamConsumerReleaseFrame, cuEGLStreamConsumerReleaseFrame, 7000, CALL)                \
    X(cuEGLStreamProducerConnect, cuEGLStreamProducerConnect, 7000, CALL)                          \
    X(cuEGLStreamProducerDisconnect, cuEGLStreamProducerDisconnect, 7000, CALL)                    \
    X(cuEGLStreamProducerPresentFrame, cuEGLStreamProducerPresentFrame, 7000, CALL)                \
    X(cuEGLStreamProducerReturnFrame, cuEGLStreamProducerReturnFrame, 7000, CALL)                  \
    X(cuEventCreateFromEGLSync, cuEventCreateFromEGLSync, 9000, CALL)                              \
    X(cuExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedBuffer, 10000, CALL)               \
    X(cuExternalMemoryGetMappedMipmappedArray,                                                     \
      cuExternalMemoryGetMappedMipmappedArray, 10000, CALL)                                        \
    X(cuFlushGPUDirectRDMAWrites, cuFlushGPUDirectRDMAWrites, 11030, CALL)                         \
    X(cuFuncGetAttribute, cuFuncGetAttribute, 2020, KERNEL)                                        \
    X(cuFuncGetModule, cuFuncGetModule, 11000, KERNEL)                                             \
    X(cuFuncGetName, cuFuncGetName, 12030, KERNEL)                                                 \
    X(cuFuncGetParamInfo, cuFuncGetParamInfo, 12040, KERNEL)                                       \
    X(cuFuncIsLoaded, cuFuncIsLoaded, 12040, KERNEL)                                               \
    X(cuFuncLoad, cuFuncLoad, 12040, KERNEL)                                                       \
    X(cuFuncSetAttribute, cuFuncSetAttribute, 9000, KERNEL)                                        \
    X(cuFuncSetBlockShape, cuFuncSetBlockShape, 2000, KERNEL)                                      \
    X(cuFuncSetCacheConfig, cuFuncSetCacheConfig, 3000, KERNEL)                                    \
    X(cuFuncSetSharedMemConfig, cuFuncSetSharedMemConfig, 4020, KERNEL)                            \
    X(cuFuncSetSharedSize, cuFuncSetSharedSize, 2000, KERNEL)                                      \
    X(cuGLCtxCreate, cuGLCtxCreate, 2000, CALL)                                                    \
    X(cuGLCtxCreate, cuGLCtxCreate_v2, 3020, CALL)                                                 \
    X(cuGLGetDevices, cuGLGetDevices, 4010, CALL)                                                  \
    X(cuGLGetDevices, cuGLGetDevices_v2, 6050, CALL)                                               \
    X(cuGLInit, cuGLInit, 2000, CALL)                                                              \
    X(cuGLMapBufferObject, cuGLMapBufferObject, 2000, CALL)                                        \
    X(cuGLMapBufferObject, cuGLMapBufferObject_v2, 3020, CALL)                                     \
    X(cuGLMapBufferObject, cuGLMapBufferObject_v2_ptds, 7000, CALL)                                \
    X(cuGLMapBufferObjectAsync, cuGLMapBufferObjectAsync, 2030, CALL)                              \
    X(cuGLMapBufferObjectAsync, cuGLMapBufferObjectAsync_v2, 3020, CALL)                           \
    X(cuGLMapBufferObjectAsync, cuGLMapBufferObjectAsync_v2_ptsz, 7000, CALL)                      \
    X(cuGLRegisterBufferObject, cuGLRegisterBufferObject, 2000, CALL)                              \
    X(cuGLSetBufferObjectMapFlags, cuGLSetBufferObjectMapFlags, 2030, CALL)                        \
    X(cuGLUnmapBufferObject, cuGLUnmapBufferObject, 2000, CALL)                                    \
    X(cuGLUnmapBufferObjectAsync, cuGLUnmapBufferObjectAsync, 2030, CALL)                          \
    X(cuGLUnregisterBufferObject, cuGLUnregisterBufferObject, 2000, CALL)                          \
    X(cuGraphAddBatchMemOpNode, cuGraphAddBatchMemOpNode, 11070, CALL)                             \
    X(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode, 10000, CALL)                             \
    X(cuGraphAddDependencies, cuGraphAddDependencies, 10000, CALL)                                 \
    X(cuGraphAddDependencies, cuGraphAddDependencies_v2, 12030, CALL)                              \
    X(cuGraphAddEmptyNode, cuGraphAddEmptyNode, 10000, CALL)                                       \
    X(cuGraphAddEventRecordNode, cuGraphAddEventRecordNode, 11010, CALL)                           \
    X(cuGraphAddEventWaitNode, cuGraphAddEventWaitNode, 11010, CALL)                               \
    X(cuGraphAddExternalSemaphoresSignalNode,                                                      \
      cuGraphAddExternalSemaphoresSignalNode, 11020, CALL)                                         \
    X(cuGraphAddExternalSemaphoresWaitNode, cuGraphAddExternalSemaphoresWaitNode, 11020, CALL)     \
    X(cuGraphAddHostNode, cuGraphAddHostNode, 10000, CALL)                                         \
    X(cuGraphAddKernelNode, cuGraphAddKernelNode, 10000, CALL)                                     \
    X(cuGraphAddKernelNode, cuGraphAddKernelNode_v2, 12000, CALL)                                  \
    X(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040, CALL)                                 \
    X(cuGraphAddMemFreeNode, cuGraphAddMemFreeNode, 11040, CALL)                                   \
    X(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000, CALL)                                     \
    X(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000, CALL)                                     \
    X(cuGraphAddNode, cuGraphAddNode, 12020, CALL)                                                 \
    X(cuGraphAddNode, cuGraphAddNode_v2, 12030, CALL)                                              \
    X(cuGraphBatchMemOpNodeGetParams, cuGraphBatchMemOpNodeGetParams, 11070, CALL)                 \
    X(cuGraphBatchMemOpNodeSetParams, cuGraphBatchMemOpNodeSetParams, 11070, CALL)                 \
    X(cuGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph, 10000, CALL)                   \
    X(cuGraphClone, cuGraphClone, 10000, CALL)                                                     \
    X(cuGraphConditionalHandleCreate, cuGraphConditionalHandleCreate, 12030, CALL)                 \
    X(cuGraphCreate, cuGraphCreate, 10000, CALL)                                                   \
    X(cuGraphDebugDotPrint, cuGraphDebugDotPrint, 11030, CALL)                                     \
    X(cuGraphDestroyNode, cuGraphDestroyNode, 10000, CALL)                                         \
    X(cuGraphEventRecordNodeGetEvent, cuGraphEventRecordNodeGetEvent, 11010, CALL)                 \
    X(cuGraphEventRecordNodeSetEvent, cuGraphEventRecordNodeSetEvent, 11010, CALL)                 \
    X(cuGraphEventWaitNodeGetEvent, cuGraphEventWaitNodeGetEvent, 11010, CALL)                     \
    X(cuGraphEventWaitNodeSetEvent, cuGraphEventWaitNodeSetEvent, 11010, CALL)                     \
    X(cuGraphExecBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams, 11070, CALL)         \
    X(cuGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams, 11010, CALL)         \
    X(cuGraphExecEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent, 11010, CALL)         \
    X(cuGraphExecEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent, 11010, CALL)             \
    X(cuGraphExecExternalSemaphoresSignalNodeSetParams,                                            \
      cuGraphExecExternalSemaphoresSignalNodeSetParams, 11020, CALL)                               \
    X(cuGraphExecExternalSemaphoresWaitNodeSetParams,                                              \
      cuGraphExecExternalSemaphoresWaitNodeSetParams, 11020, CALL)                                 \
    X(cuGraphExecGetFlags, cuGraphExecGetFlags, 12000, CALL)                                       \
    X(cuGraphExecHostNodeSetParams, cuGraphExecHostNodeSetParams, 10020, CALL)                     \
    X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, 10010, CALL)                 \
    X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2, 12000, CALL)              \
    X(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, 10020, CALL)                 \
    X(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, 10020, CALL)                 \
    X(cuGraphExecNodeSetParams, cuGraphExecNodeSetParams, 12020, CALL)                             \
    X(cuGraphExecUpdate, cuGraphExecUpdate, 10020, CALL)                                           \
    X(cuGraphExecUpdate, cuGraphExecUpdate_v2, 12000, CALL)                                        \
    X(cuGraphExternalSemaphoresSignalNodeGetParams,                                                \
      cuGraphExternalSemaphoresSignalNodeGetParams, 11020, CALL)                                   \
    X(cuGraphExternalSemaphoresSignalNodeSetParams,                                                \
      cuGraphExternalSemaphoresSignalNodeSetParams, 11020, CALL)                                   \
    X(cuGraphExternalSemaphoresWaitNodeGetParams,                                                  \
      cuGraphExternalSemaphoresWaitNodeGetParams, 11020, CALL)                                     \
    X(cuGraphExternalSemaphoresWaitNodeSetParams,                                                  \
      cuGraphExternalSemaphoresWaitNodeSetParams, 11020, CALL)                                     \
    X(cuGraphGetEdges, cuGraphGetEdges, 10000, CALL)                                               \
    X(cuGraphGetEdges, cuGraphGetEdges_v2, 12030, CALL)                                            \
    X(cuGraphGetNodes, cuGraphGetNodes, 10000, CALL)                                               \
    X(cuGraphGetRootNodes, cuGraphGetRootNodes, 10000, CALL)                                       \
    X(cuGraphHostNodeGetParams, cuGraphHostNodeGetParams, 10000, CALL)                             \
    X(cuGraphHostNodeSetParams, cuGraphHostNodeSetParams, 10000, CALL)                             \
    X(cuGraphInstantiate, cuGraphInstantiate, 10000, CALL)                                         \
    X(cuGraphInstantiate, cuGraphInstantiate_v2, 11000, CALL)                                      \
    X(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, 12000, CALL)                     \
    X(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz, 12000, CALL)                \
    X(cuGraphKernelNodeCopyAttributes, cuGraphKernelNodeCopyAttributes, 11000, CALL)               \
    X(cuGraphKernelNodeGetAttribute, cuGraphKernelNodeGetAttribute, 11000, CALL)                   \
    X(cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams, 10000, CALL)                         \
    X(cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams_v2, 12000, CALL)                      \
    X(cuGraphKernelNodeSetAttribute, cuGraphKernelNodeSetAttribute, 11000, CALL)                   \
    X(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams, 10000, CALL)                         \
    X(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams_v2, 12000, CALL)                      \
    X(cuGraphMemAllocNodeGetParams, cuGraphMemAllocNodeGetParams, 11040, CALL)                     \
    X(cuGraphMemFreeNodeGetParams, cuGraphMemFreeNodeGetParams, 11040, CALL)                       \
    X(cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeGetParams, 10000, CALL)                         \
    X(cuGraphMemcpyNodeSetParams, cuGraphMemcpyNodeSetParams, 10000, CALL)                         \
    X(cuGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams, 10000, CALL)                         \
    X(cuGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams, 10000, CALL)                         \
    X(cuGraphNodeFindInClone, cuGraphNodeFindInClone, 10000, CALL)                                 \
    X(cuGraphNodeGetDependencies, cuGraphNodeGetDependencies, 10000, CALL)                         \
    X(cuGraphNodeGetDependencies, cuGraphNodeGetDependencies_v2, 12030, CALL)                      \
    X(cuGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes, 10000, CALL)                     \
    X(cuGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes_v2, 12030, CALL)                  \
    X(cuGraphNodeGetEnabled, cuGraphNodeGetEnabled, 11060, CALL)                                   \
    X(cuGraphNodeGetType, cuGraphNodeGetType, 10000, CALL)                                         \
    X(cuGraphNodeSetEnabled, cuGraphNodeSetEnabled, 11060, CALL)                                   \
    X(cuGraphNodeSetParams, cuGraphNodeSetParams, 12020, CALL)                                     \
    X(cuGraphRemoveDependencies, cuGraphRemoveDependencies, 10000, CALL)                           \
    X(cuGraphRemoveDependencies, cuGraphRemoveDependencies_v2, 12030, CALL)                        \
    X(cuGraphUpload, cuGraphUpload, 11010, CALL)                                                   \
    X(cuGraphUpload, cuGraphUpload_ptsz, 11010, CALL)                                              \
    X(cuGraphicsEGLRegisterImage, cuGraphicsEGLRegisterImage, 7000, CALL)                          \
    X(cuGraphicsGLRegisterBuffer, cuGraphicsGLRegisterBuffer, 3000, CALL)                          \
    X(cuGraphicsGLRegisterImage, cuGraphicsGLRegisterImage, 3000, CALL)                            \
    X(cuGraphicsMapResources, cuGraphicsMapResources, 3000, CALL)                                  \
    X(cuGraphicsMapResources, cuGraphicsMapResources_ptsz, 7000, CALL)                             \
    X(cuGraphicsResourceGetMappedEglFrame, cuGraphicsResourceGetMappedEglFrame, 7000, CALL)        \
    X(cuGraphicsResourceGetMappedMipmappedArray,                                                   \
      cuGraphicsResourceGetMappedMipmappedArray, 5000, CALL)                                       \
    X(cuGraphicsResourceGetMappedPointer, cuGraphicsResourceGetMappedPointer, 3000, CALL)          \
    X(cuGraphicsResourceGetMappedPointer, cuGraphicsResourceGetMappedPointer_v2, 3020, CALL)       \
    X(cuGraphicsResourceSetMapFlags, cuGraphicsResourceSetMapFlags, 3000, CALL)                    \
    X(cuGraphicsResourceSetMapFlags, cuGraphicsResourceSetMapFlags_v2, 6050, CALL)                 \
    X(cuGraphicsSubResourceGetMappedArray, cuGraphicsSubResourceGetMappedArray, 3000, CALL)        \
    X(cuGraphicsUnmapResources, cuGraphicsUnmapResources, 3000, CALL)                              \
    X(cuGraphicsUnmapResources, cuGraphicsUnmapResources_ptsz, 7000, CALL)                         \
    X(cuGraphicsUnregisterResource, cuGraphicsUnregisterResource, 3000, CALL)                      \
    X(cuGraphicsVDPAURegisterOutputSurface, cuGraphicsVDPAURegisterOutputSurface, 3010, CALL)      \
    X(cuGraphicsVDPAURegisterVideoSurface, cuGraphicsVDPAURegisterVideoSurface, 3010, CALL)        \
    X(cuGreenCtxCreate, cuGreenCtxCreate, 12040, CALL)                                             \
    X(cuGreenCtxDestroy, cuGreenCtxDestroy, 12040, CALL)                                           \
    X(cuGreenCtxGetDevResource, cuGreenCtxGetDevResource, 12040, CALL)                             \
    X(cuGreenCtxGetId, cuGreenCtxGetId, 12090, CALL)                                               \
    X(cuGreenCtxRecordEvent, cuGreenCtxRecordEvent, 12040, CALL)                                   \
    X(cuGreenCtxStreamCreate, cuGreenCtxStreamCreate, 12050, CALL)                                 \
    X(cuGreenCtxWaitEvent, cuGreenCtxWaitEvent, 12040, CALL)                                       \
    X(cuImportExternalMemory, cuImportExternalMemory, 10000, CALL)                                 \
    X(cuImportExternalSemaphore, cuImportExternalSemaphore, 10000, CALL)                           \
    X(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, CALL)                                        \
    X(cuIpcGetEventHandle, cuIpcGetEventHandle, 4010, CALL)                                        \
    X(cuIpcOpenEventHandle, cuIpcOpenEventHandle, 4010, CALL)                                      \
    X(cuIpcOpenMemHandle, cuIpcOpenMemHandle, 4010, SHARE)                                         \
    X(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, 11000, SHARE)                                     \
    X(cuKernelGetAttribute, cuKernelGetAttribute, 12000, KERNEL)                                   \
    X(cuKernelGetFunction, cuKernelGetFunction, 12000, KERNEL)                                     \
    X(cuKernelGetLibrary, cuKernelGetLibrary, 12050, KERNEL)                                       \
    X(cuKernelGetName, cuKernelGetName, 12030, KERNEL)                                             \
    X(cuKernelGetParamInfo, cuKernelGetParamInfo, 12040, KERNEL)                                   \
    X(cuKernelSetAttribute, cuKernelSetAttribute, 12000, KERNEL)                                   \
    X(cuKernelSetCacheConfig, cuKernelSetCacheConfig, 12000, KERNEL)                               \
    X(cuLaunch, cuLaunch, 2000, KERNEL)                                                            \
    X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000, KERNEL)                          \
    X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz, 9000, KERNEL)                     \
    X(cuLaunchCooperativeKernelMultiDevice, cuLaunchCooperativeKernelMultiDevice, 9000, KERNEL)    \
    X(cuLaunchGrid, cuLaunchGrid, 2000, KERNEL)                                                    \
    X(cuLaunchGridAsync, cuLaunchGridAsync, 2000, KERNEL)                                          \
    X(cuLaunchKernelEx, cuLaunchKernelEx, 11060, KERNEL)                                           \
    X(cuLaunchKernelEx, cuLaunchKernelEx_ptsz, 11060, KERNEL)                                      \
    X(cuLibraryEnumerateKernels, cuLibraryEnumerateKernels, 12040, KERNEL)                         \
    X(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000, KERNEL)                                       \
    X(cuLibraryGetKernel, cuLibraryGetKernel, 12000, KERNEL)                                       \
    X(cuLibraryGetKernelCount, cuLibraryGetKernelCount, 12040, KERNEL)                             \
    X(cuLibraryGetManaged, cuLibraryGetManaged, 12000, KERNEL)                                     \
    X(cuLibraryGetModule, cuLibraryGetModule, 12000, KERNEL)                                       \
    X(cuLibraryGetUnifiedFunction, cuLibraryGetUnifiedFunction, 12000, KERNEL)                     \
    X(cuLibraryLoadData, cuLibraryLoadData, 12000, KERNEL)                                         \
    X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000, KERNEL)                                 \
    X(cuLibraryUnload, cuLibraryUnload, 12000, KERNEL)                                             \
    X(cuLinkAddData, cuLinkAddData, 5050, KERNEL)                                                  \
    X(cuLinkAddData, cuLinkAddData_v2, 6050, KERNEL)                                               \
    X(cuLinkAddFile, cuLinkAddFile, 5050, KERNEL)                                                  \
    X(cuLinkAddFile, cuLinkAddFile_v2, 6050, KERNEL)                                               \
    X(cuLinkComplete, cuLinkComplete, 5050, KERNEL)                                                \
    X(cuLinkCreate, cuLinkCreate, 5050, KERNEL)                                                    \
    X(cuLinkCreate, cuLinkCreate_v2, 6050, KERNEL)                                                 \
    X(cuLinkDestroy, cuLinkDestroy, 5050, KERNEL)                                                  \
    X(cuLogsCurrent, cuLogsCurrent, 12090, CALL)                                                   \
    X(cuLogsDumpToFile, cuLogsDumpToFile, 12090, CALL)                                             \
    X(cuLogsDumpToMemory, cuLogsDumpToMemory, 12090, CALL)                                         \
    X(cuLogsRegisterCallback, cuLogsRegisterCallback, 12090, CALL)                                 \
    X(cuLogsUnregisterCallback, cuLogsUnregisterCallback, 12090, CALL)                             \
    X(cuMemAlloc, cuMemAlloc, 2000, OLD)                                                           \
    X(cuMemAllocHost, cuMemAllocHost, 2000, OLD)                                                   \
    X(cuMemAllocPitch, cuMemAllocPitch, 2000, OLD)                                                 \
    X(cuMemBatchDecompressAsync, cuMemBatchDecompressAsync, 12060, CALL)                           \
    X(cuMemBatchDecompressAsync, cuMemBatchDecompressAsync_ptsz, 12060, CALL)                      \
    X(cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync, 13000, CALL)           \
    X(cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync_ptsz, 13000, CALL)      \
    X(cuMemDiscardBatchAsync, cuMemDiscardBatchAsync, 13000, CALL)                                 \
    X(cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz, 13000, CALL)                            \
    X(cuMemFree, cuMemFree, 2000, OLD)                                                             \
    X(cuMemGetAddressRange, cuMemGetAddressRange, 2000, OLD)                                       \
    X(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange, 11070, CALL)                   \
    X(cuMemGetInfo, cuMemGetInfo, 2000, OLD)                                                       \
    X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer, 2020, OLD)                             \
    X(cuMemMapArrayAsync, cuMemMapArrayAsync, 11010, CALL)                                         \
    X(cuMemMapArrayAsync, cuMemMapArrayAsync_ptsz, 11010, CALL)                                    \
    X(cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync, 13000, CALL)                               \
    X(cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync_ptsz, 13000, CALL)                          \
    X(cuMemcpy2D, cuMemcpy2D, 2000, OLD)                                                           \
    X(cuMemcpy2DAsync, cuMemcpy2DAsync, 2000, OLD)                                                 \
    X(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned, 2000, OLD)                                         \
    X(cuMemcpy3D, cuMemcpy3D, 2000, CALL)                                                          \
    X(cuMemcpy3D, cuMemcpy3D_v2, 3020, CALL)                                                       \
    X(cuMemcpy3D, cuMemcpy3D_v2_ptds, 7000, CALL)                                                  \
    X(cuMemcpy3DAsync, cuMemcpy3DAsync, 2000, CALL)                                                \
    X(cuMemcpy3DAsync, cuMemcpy3DAsync_v2, 3020, CALL)                                             \
    X(cuMemcpy3DAsync, cuMemcpy3DAsync_v2_ptsz, 7000, CALL)                                        \
    X(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync, 12080, CALL)                                     \
    X(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_ptsz, 12080, CALL)                                \
    X(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_v2, 13000, CALL)                                  \
    X(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_v2_ptsz, 13000, CALL)                             \
    X(cuMemcpy3DPeer, cuMemcpy3DPeer, 4000, CALL)                                                  \
    X(cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, 7000, CALL)                                             \
    X(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, 4000, CALL)                                        \
    X(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz, 7000, CALL)                                   \
    X(cuMemcpyAtoA, cuMemcpyAtoA, 2000, CALL)                                                      \
    X(cuMemcpyAtoA, cuMemcpyAtoA_v2, 3020, CALL)                                                   \
    X(cuMemcpyAtoA, cuMemcpyAtoA_v2_ptds, 7000, CALL)                                              \
    X(cuMemcpyAtoD, cuMemcpyAtoD, 2000, CALL)                                                      \
    X(cuMemcpyAtoD, cuMemcpyAtoD_v2, 3020, CALL)                                                   \
    X(cuMemcpyAtoD, cuMemcpyAtoD_v2_ptds, 7000, CALL)                                              \
    X(cuMemcpyAtoH, cuMemcpyAtoH, 2000, CALL)                                                      \
    X(cuMemcpyAtoH, cuMemcpyAtoH_v2, 3020, CALL)                                                   \
    X(cuMemcpyAtoH, cuMemcpyAtoH_v2_ptds, 7000, CALL)                                              \
    X(cuMemcpyAtoHAsync, cuMemcpyAtoHAsync, 2000, CALL)                                            \
    X(cuMemcpyAtoHAsync, cuMemcpyAtoHAsync_v2, 3020, CALL)                                         \
    X(cuMemcpyAtoHAsync, cuMemcpyAtoHAsync_v2_ptsz, 7000, CALL)                                    \
    X(cuMemcpyBatchAsync, cuMemcpyBatchAsync, 12080, CALL)                                         \
    X(cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz, 12080, CALL)                                    \
    X(cuMemcpyBatchAsync, cuMemcpyBatchAsync_v2, 13000, CALL)                                      \
    X(cuMemcpyBatchAsync, cuMemcpyBatchAsync_v2_ptsz, 13000, CALL)                                 \
    X(cuMemcpyDtoA, cuMemcpyDtoA, 2000, CALL)                                                      \
    X(cuMemcpyDtoA, cuMemcpyDtoA_v2, 3020, CALL)                                                   \
    X(cuMemcpyDtoA, cuMemcpyDtoA_v2_ptds, 7000, CALL)                                              \
    X(cuMemcpyDtoD, cuMemcpyDtoD, 2000, OLD)                                                       \
    X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync, 3000, OLD)                                             \
    X(cuMemcpyDtoH, cuMemcpyDtoH, 2000, OLD)                                                       \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync, 2000, OLD)                                             \
    X(cuMemcpyHtoA, cuMemcpyHtoA, 2000, CALL)                                                      \
    X(cuMemcpyHtoA, cuMemcpyHtoA_v2, 3020, CALL)                                                   \
    X(cuMemcpyHtoA, cuMemcpyHtoA_v2_ptds, 7000, CALL)                                              \
    X(cuMemcpyHtoAAsync, cuMemcpyHtoAAsync, 2000, CALL)                                            \
    X(cuMemcpyHtoAAsync, cuMemcpyHtoAAsync_v2, 3020, CALL)                                         \
    X(cuMemcpyHtoAAsync, cuMemcpyHtoAAsync_v2_ptsz, 7000, CALL)                                    \
    X(cuMemcpyHtoD, cuMemcpyHtoD, 2000, OLD)                                                       \
    X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync, 2000, OLD)                                             \
    X(cuMemsetD16, cuMemsetD16, 2000, OLD)                                                         \
    X(cuMemsetD2D16, cuMemsetD2D16, 2000, OLD)                                                     \
    X(cuMemsetD2D32, cuMemsetD2D32, 2000, OLD)                                                     \
    X(cuMemsetD2D8, cuMemsetD2D8, 2000, OLD)                                                       \
    X(cuMemsetD32, cuMemsetD32, 2000, OLD)                                                         \
    X(cuMemsetD8, cuMemsetD8, 2000, OLD)                                                           \
    X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000, CALL)                                  \
    X(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000, CALL)                                \
    X(cuMipmappedArrayGetLevel, cuMipmappedArrayGetLevel, 5000, CALL)                              \
    X(cuMipmappedArrayGetMemoryRequirements, cuMipmappedArrayGetMemoryRequirements, 11060, CALL)   \
    X(cuMipmappedArrayGetSparseProperties, cuMipmappedArrayGetSparseProperties, 11010, CALL)       \
    X(cuModuleEnumerateFunctions, cuModuleEnumerateFunctions, 12040, KERNEL)                       \
    X(cuModuleGetFunctionCount, cuModuleGetFunctionCount, 12040, KERNEL)                           \
    X(cuModuleGetGlobal, cuModuleGetGlobal, 2000, KERNEL)                                          \
    X(cuModuleGetGlobal, cuModuleGetGlobal_v2, 3020, KERNEL)                                       \
    X(cuModuleGetLoadingMode, cuModuleGetLoadingMode, 11070, KERNEL)                               \
    X(cuModuleGetSurfRef, cuModuleGetSurfRef, 3000, KERNEL)                                        \
    X(cuModuleGetTexRef, cuModuleGetTexRef, 2000, KERNEL)                                          \
    X(cuMulticastAddDevice, cuMulticastAddDevice, 12010, CALL)                                     \
    X(cuMulticastBindAddr, cuMulticastBindAddr, 12010, CALL)                                       \
    X(cuMulticastBindMem, cuMulticastBindMem, 12010, CALL)                                         \
    X(cuMulticastCreate, cuMulticastCreate, 12010, CALL)                                           \
    X(cuMulticastGetGranularity, cuMulticastGetGranularity, 12010, CALL)                           \
    X(cuMulticastUnbind, cuMulticastUnbind, 12010, CALL)                                           \
    X(cuOccupancyAvailableDynamicSMemPerBlock,                                                     \
      cuOccupancyAvailableDynamicSMemPerBlock, 10020, KERNEL)                                      \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                 \
      cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, KERNEL)                                   \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,                                        \
      cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000, KERNEL)                          \
    X(cuOccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters, 11070, KERNEL)                   \
    X(cuOccupancyMaxPotentialBlockSize, cuOccupancyMaxPotentialBlockSize, 6050, KERNEL)            \
    X(cuOccupancyMaxPotentialBlockSizeWithFlags,                                                   \
      cuOccupancyMaxPotentialBlockSizeWithFlags, 7000, KERNEL)                                     \
    X(cuOccupancyMaxPotentialClusterSize, cuOccupancyMaxPotentialClusterSize, 11070, KERNEL)       \
    X(cuParamSetSize, cuParamSetSize, 2000, KERNEL)                                                \
    X(cuParamSetTexRef, cuParamSetTexRef, 2000, KERNEL)                                            \
    X(cuParamSetf, cuParamSetf, 2000, KERNEL)                                                      \
    X(cuParamSeti, cuParamSeti, 2000, KERNEL)                                                      \
    X(cuParamSetv, cuParamSetv, 2000, KERNEL)                                                      \
    X(cuProfilerInitialize, cuProfilerInitialize, 4000, CALL)                                      \
    X(cuProfilerStart, cuProfilerStart, 4000, CALL)                                                \
    X(cuProfilerStop, cuProfilerStop, 4000, CALL)                                                  \
    X(cuSignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync, 10000, CALL)               \
    X(cuSignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync_ptsz, 10000, CALL)          \
    X(cuStreamBatchMemOp, cuStreamBatchMemOp, 8000, CALL)                                          \
    X(cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz, 8000, CALL)                                     \
    X(cuStreamBatchMemOp, cuStreamBatchMemOp_v2, 11070, CALL)                                      \
    X(cuStreamBatchMemOp, cuStreamBatchMemOp_v2_ptsz, 11070, CALL)                                 \
    X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030, CALL)                       \
    X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz, 12030, CALL)                  \
    X(cuStreamCopyAttributes, cuStreamCopyAttributes, 11000, CALL)                                 \
    X(cuStreamCopyAttributes, cuStreamCopyAttributes_ptsz, 11000, CALL)                            \
    X(cuStreamGetAttribute, cuStreamGetAttribute, 11000, CALL)                                     \
    X(cuStreamGetAttribute, cuStreamGetAttribute_ptsz, 11000, CALL)                                \
    X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo, 10010, CALL)                                 \
    X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz, 10010, CALL)                            \
    X(cuStreamGetGreenCtx, cuStreamGetGreenCtx, 12040, CALL)                                       \
    X(cuStreamSetAttribute, cuStreamSetAttribute, 11000, CALL)                                     \
    X(cuStreamSetAttribute, cuStreamSetAttribute_ptsz, 11000, CALL)                                \
    X(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies, 11030, CALL)           \
    X(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz, 11030, CALL)      \
    X(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_v2, 12030, CALL)        \
    X(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_v2_ptsz, 12030, CALL)   \
    X(cuStreamWaitValue32, cuStreamWaitValue32, 8000, CALL)                                        \
    X(cuStreamWaitValue32, cuStreamWaitValue32_ptsz, 8000, CALL)                                   \
    X(cuStreamWaitValue32, cuStreamWaitValue32_v2, 11070, CALL)                                    \
    X(cuStreamWaitValue32, cuStreamWaitValue32_v2_ptsz, 11070, CALL)                               \
    X(cuStreamWaitValue64, cuStreamWaitValue64, 9000, CALL)                                        \
    X(cuStreamWaitValue64, cuStreamWaitValue64_ptsz, 9000, CALL)                                   \
    X(cuStreamWaitValue64, cuStreamWaitValue64_v2, 11070, CALL)                                    \
    X(cuStreamWaitValue64, cuStreamWaitValue64_v2_ptsz, 11070, CALL)                               \
    X(cuStreamWriteValue32, cuStreamWriteValue32, 8000, CALL)                                      \
    X(cuStreamWriteValue32, cuStreamWriteValue32_ptsz, 8000, CALL)                                 \
    X(cuStreamWriteValue32, cuStreamWriteValue32_v2, 11070, CALL)                                  \
    X(cuStreamWriteValue32, cuStreamWriteValue32_v2_ptsz, 11070, CALL)                             \
    X(cuStreamWriteValue64, cuStreamWriteValue64, 9000, CALL)                                      \
    X(cuStreamWriteValue64, cuStreamWriteValue64_ptsz, 9000, CALL)                                 \
    X(cuStreamWriteValue64, cuStreamWriteValue64_v2, 11070, CALL)                                  \
    X(cuStreamWriteValue64, cuStreamWriteValue64_v2_ptsz, 11070, CALL)                             \
    X(cuSurfObjectCreate, cuSurfObjectCreate, 5000, CALL)                                          \
    X(cuSurfObjectDestroy, cuSurfObjectDestroy, 5000, CALL)                                        \
    X(cuSurfObjectGetResourceDesc, cuSurfObjectGetResourceDesc, 5000, CALL)                        \
    X(cuSurfRefGetArray, cuSurfRefGetArray, 3000, CALL)                                            \
    X(cuSurfRefSetArray, cuSurfRefSetArray, 3000, CALL)                                            \
    X(cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2col, 12000, CALL)                               \
    X(cuTensorMapEncodeIm2colWide, cuTensorMapEncodeIm2colWide, 12080, CALL)                       \
    X(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled, 12000, CALL)                                 \
    X(cuTensorMapReplaceAddress, cuTensorMapReplaceAddress, 12000, CALL)                           \
    X(cuTexObjectCreate, cuTexObjectCreate, 5000, CALL)                                            \
    X(cuTexObjectDestroy, cuTexObjectDestroy, 5000, CALL)                                          \
    X(cuTexObjectGetResourceDesc, cuTexObjectGetResourceDesc, 5000, CALL)                          \
    X(cuTexObjectGetResourceViewDesc, cuTexObjectGetResourceViewDesc, 5000, CALL)                  \
    X(cuTexObjectGetTextureDesc, cuTexObjectGetTextureDesc, 5000, CALL)                            \
    X(cuTexRefCreate, cuTexRefCreate, 2000, CALL)                                                  \
    X(cuTexRefDestroy, cuTexRefDestroy, 2000, CALL)                                                \
    X(cuTexRefGetAddress, cuTexRefGetAddress, 2000, CALL)                                          \
    X(cuTexRefGetAddress, cuTexRefGetAddress_v2, 3020, CALL)                                       \
    X(cuTexRefGetAddressMode, cuTexRefGetAddressMode, 2000, CALL)                                  \
    X(cuTexRefGetArray, cuTexRefGetArray, 2000, CALL)                                              \
    X(cuTexRefGetBorderColor, cuTexRefGetBorderColor, 8000, CALL)                                  \
    X(cuTexRefGetFilterMode, cuTexRefGetFilterMode, 2000, CALL)                                    \
    X(cuTexRefGetFlags, cuTexRefGetFlags, 2000, CALL)                                              \
    X(cuTexRefGetFormat, cuTexRefGetFormat, 2000, CALL)                                            \
    X(cuTexRefGetMaxAnisotropy, cuTexRefGetMaxAnisotropy, 5000, CALL)                              \
    X(cuTexRefGetMipmapFilterMode, cuTexRefGetMipmapFilterMode, 5000, CALL)                        \
    X(cuTexRefGetMipmapLevelBias, cuTexRefGetMipmapLevelBias, 5000, CALL)                          \
    X(cuTexRefGetMipmapLevelClamp, cuTexRefGetMipmapLevelClamp, 5000, CALL)                        \
    X(cuTexRefGetMipmappedArray, cuTexRefGetMipmappedArray, 5000, CALL)                            \
    X(cuTexRefSetAddress, cuTexRefSetAddress, 2000, CALL)                                          \
    X(cuTexRefSetAddress, cuTexRefSetAddress_v2, 3020, CALL)                                       \
    X(cuTexRefSetAddress2D, cuTexRefSetAddress2D, 2020, CALL)                                      \
    X(cuTexRefSetAddress2D, cuTexRefSetAddress2D_v2, 3020, CALL)                                   \
    X(cuTexRefSetAddress2D, cuTexRefSetAddress2D_v3, 4010, CALL)                                   \
    X(cuTexRefSetAddressMode, cuTexRefSetAddressMode, 2000, CALL)                                  \
    X(cuTexRefSetArray, cuTexRefSetArray, 2000, CALL)                                              \
    X(cuTexRefSetBorderColor, cuTexRefSetBorderColor, 8000, CALL)                                  \
    X(cuTexRefSetFilterMode, cuTexRefSetFilterMode, 2000, CALL)                                    \
    X(cuTexRefSetFlags, cuTexRefSetFlags, 2000, CALL)                                              \
    X(cuTexRefSetFormat, cuTexRefSetFormat, 2000, CALL)                                            \
    X(cuTexRefSetMaxAnisotropy, cuTexRefSetMaxAnisotropy, 5000, CALL)                              \
    X(cuTexRefSetMipmapFilterMode, cuTexRefSetMipmapFilterMode, 5000, CALL)                        \
    X(cuTexRefSetMipmapLevelBias, cuTexRefSetMipmapLevelBias, 5000, CALL)                          \
    X(cuTexRefSetMipmapLevelClamp, cuTexRefSetMipmapLevelClamp, 5000, CALL)                        \
    X(cuTexRefSetMipmappedArray, cuTexRefSetMipmappedArray, 5000, CALL)                            \
    X(cuVDPAUCtxCreate, cuVDPAUCtxCreate, 3010, CALL)                                              \
    X(cuVDPAUCtxCreate, cuVDPAUCtxCreate_v2, 3020, CALL)                                           \
    X(cuVDPAUGetDevice, cuVDPAUGetDevice, 3010, CALL)                                              \
    X(cuWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync, 10000, CALL)                   \
    X(cuWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync_ptsz, 10000, CALL)
/* clang-format on */

#endif
