/* Fills cudaDeviceProp from the driver's attributes, and chooses a device by it.
 *
 * No state, no locks. */
#include <string.h>

#include "runtime_state.h"

/* A member with the value of one attribute. Its size tells int from size_t. The runtime's
 * attributes have the same numbers as the driver's. */
struct property {
    size_t offset, bytes;
    int attribute;
};
#define PROPERTY_OF(member, attribute)                                                             \
    {                                                                                              \
        offsetof(struct cudaDeviceProp, member), sizeof(((struct cudaDeviceProp *)0)->member),     \
            attribute                                                                              \
    }
#define PROPERTY(member, attribute) PROPERTY_OF(member, cudaDevAttr##attribute)

static const struct property properties[] = {
    PROPERTY(sharedMemPerBlock, MaxSharedMemoryPerBlock),
    PROPERTY(regsPerBlock, MaxRegistersPerBlock),
    PROPERTY(warpSize, WarpSize),
    PROPERTY(memPitch, MaxPitch),
    PROPERTY(maxThreadsPerBlock, MaxThreadsPerBlock),
    PROPERTY(maxThreadsDim[0], MaxBlockDimX),
    PROPERTY(maxThreadsDim[1], MaxBlockDimY),
    PROPERTY(maxThreadsDim[2], MaxBlockDimZ),
    PROPERTY(maxGridSize[0], MaxGridDimX),
    PROPERTY(maxGridSize[1], MaxGridDimY),
    PROPERTY(maxGridSize[2], MaxGridDimZ),
    PROPERTY(totalConstMem, TotalConstantMemory),
    PROPERTY(major, ComputeCapabilityMajor),
    PROPERTY(minor, ComputeCapabilityMinor),
    PROPERTY(textureAlignment, TextureAlignment),
    PROPERTY(texturePitchAlignment, TexturePitchAlignment),
    PROPERTY(multiProcessorCount, MultiProcessorCount),
    PROPERTY(integrated, Integrated),
    PROPERTY(canMapHostMemory, CanMapHostMemory),
    PROPERTY(surfaceAlignment, SurfaceAlignment),
    PROPERTY(concurrentKernels, ConcurrentKernels),
    PROPERTY(ECCEnabled, EccEnabled),
    PROPERTY(pciBusID, PciBusId),
    PROPERTY(pciDeviceID, PciDeviceId),
    PROPERTY(pciDomainID, PciDomainId),
    PROPERTY(tccDriver, TccDriver),
    PROPERTY(asyncEngineCount, AsyncEngineCount),
    PROPERTY(unifiedAddressing, UnifiedAddressing),
    PROPERTY(memoryBusWidth, GlobalMemoryBusWidth),
    PROPERTY(l2CacheSize, L2CacheSize),
    PROPERTY(persistingL2CacheMaxSize, MaxPersistingL2CacheSize),
    PROPERTY(maxThreadsPerMultiProcessor, MaxThreadsPerMultiProcessor),
    PROPERTY(streamPrioritiesSupported, StreamPrioritiesSupported),
    PROPERTY(globalL1CacheSupported, GlobalL1CacheSupported),
    PROPERTY(localL1CacheSupported, LocalL1CacheSupported),
    PROPERTY(sharedMemPerMultiprocessor, MaxSharedMemoryPerMultiprocessor),
    PROPERTY(regsPerMultiprocessor, MaxRegistersPerMultiprocessor),
    PROPERTY(managedMemory, ManagedMemory),
    PROPERTY(isMultiGpuBoard, IsMultiGpuBoard),
    PROPERTY(multiGpuBoardGroupID, MultiGpuBoardGroupID),
    PROPERTY(hostNativeAtomicSupported, HostNativeAtomicSupported),
    PROPERTY(pageableMemoryAccess, PageableMemoryAccess),
    PROPERTY(concurrentManagedAccess, ConcurrentManagedAccess),
    PROPERTY(computePreemptionSupported, ComputePreemptionSupported),
    PROPERTY(canUseHostPointerForRegisteredMem, CanUseHostPointerForRegisteredMem),
    PROPERTY(cooperativeLaunch, CooperativeLaunch),
    PROPERTY(sharedMemPerBlockOptin, MaxSharedMemoryPerBlockOptin),
    PROPERTY(pageableMemoryAccessUsesHostPageTables, PageableMemoryAccessUsesHostPageTables),
    PROPERTY(directManagedMemAccessFromHost, DirectManagedMemAccessFromHost),
    PROPERTY(maxBlocksPerMultiProcessor, MaxBlocksPerMultiprocessor),
    PROPERTY(accessPolicyMaxWindowSize, MaxAccessPolicyWindowSize),
    PROPERTY(reservedSharedMemPerBlock, ReservedSharedMemoryPerBlock),
    PROPERTY(hostRegisterSupported, HostRegisterSupported),
    PROPERTY(sparseCudaArraySupported, SparseCudaArraySupported),
    PROPERTY(hostRegisterReadOnlySupported, HostRegisterReadOnlySupported),
    PROPERTY(timelineSemaphoreInteropSupported, TimelineSemaphoreInteropSupported),
    PROPERTY(memoryPoolsSupported, MemoryPoolsSupported),
    PROPERTY(gpuDirectRDMASupported, GPUDirectRDMASupported),
    PROPERTY_OF(gpuDirectRDMAFlushWritesOptions,
                CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS),
    PROPERTY(gpuDirectRDMAWritesOrdering, GPUDirectRDMAWritesOrdering),
    PROPERTY(memoryPoolSupportedHandleTypes, MemoryPoolSupportedHandleTypes),
    PROPERTY(deferredMappingCudaArraySupported, DeferredMappingCudaArraySupported),
    PROPERTY(ipcEventSupported, IpcEventSupport),
    PROPERTY(clusterLaunch, ClusterLaunch),
    PROPERTY(deviceNumaConfig, NumaConfig),
    PROPERTY(deviceNumaId, NumaId),
    PROPERTY(mpsEnabled, MpsEnabled),
    PROPERTY(hostNumaId, HostNumaId),
    PROPERTY(gpuPciDeviceID, GpuPciDeviceId),
    PROPERTY(gpuPciSubsystemID, GpuPciSubsystemId),
    PROPERTY(hostNumaMultinodeIpcSupported, HostNumaMultinodeIpcSupported),
    PROPERTY(maxTexture1D, MaxTexture1DWidth),
    PROPERTY(maxTexture1DMipmap, MaxTexture1DMipmappedWidth),
    PROPERTY(maxTexture2D[0], MaxTexture2DWidth),
    PROPERTY(maxTexture2D[1], MaxTexture2DHeight),
    PROPERTY(maxTexture2DMipmap[0], MaxTexture2DMipmappedWidth),
    PROPERTY(maxTexture2DMipmap[1], MaxTexture2DMipmappedHeight),
    PROPERTY(maxTexture2DLinear[0], MaxTexture2DLinearWidth),
    PROPERTY(maxTexture2DLinear[1], MaxTexture2DLinearHeight),
    PROPERTY(maxTexture2DLinear[2], MaxTexture2DLinearPitch),
    PROPERTY(maxTexture2DGather[0], MaxTexture2DGatherWidth),
    PROPERTY(maxTexture2DGather[1], MaxTexture2DGatherHeight),
    PROPERTY(maxTexture3D[0], MaxTexture3DWidth),
    PROPERTY(maxTexture3D[1], MaxTexture3DHeight),
    PROPERTY(maxTexture3D[2], MaxTexture3DDepth),
    PROPERTY(maxTexture3DAlt[0], MaxTexture3DWidthAlt),
    PROPERTY(maxTexture3DAlt[1], MaxTexture3DHeightAlt),
    PROPERTY(maxTexture3DAlt[2], MaxTexture3DDepthAlt),
    PROPERTY(maxTextureCubemap, MaxTextureCubemapWidth),
    PROPERTY(maxTexture1DLayered[0], MaxTexture1DLayeredWidth),
    PROPERTY(maxTexture1DLayered[1], MaxTexture1DLayeredLayers),
    PROPERTY(maxTexture2DLayered[0], MaxTexture2DLayeredWidth),
    PROPERTY(maxTexture2DLayered[1], MaxTexture2DLayeredHeight),
    PROPERTY(maxTexture2DLayered[2], MaxTexture2DLayeredLayers),
    PROPERTY(maxTextureCubemapLayered[0], MaxTextureCubemapLayeredWidth),
    PROPERTY(maxTextureCubemapLayered[1], MaxTextureCubemapLayeredLayers),
    PROPERTY(maxSurface1D, MaxSurface1DWidth),
    PROPERTY(maxSurface2D[0], MaxSurface2DWidth),
    PROPERTY(maxSurface2D[1], MaxSurface2DHeight),
    PROPERTY(maxSurface3D[0], MaxSurface3DWidth),
    PROPERTY(maxSurface3D[1], MaxSurface3DHeight),
    PROPERTY(maxSurface3D[2], MaxSurface3DDepth),
    PROPERTY(maxSurface1DLayered[0], MaxSurface1DLayeredWidth),
    PROPERTY(maxSurface1DLayered[1], MaxSurface1DLayeredLayers),
    PROPERTY(maxSurface2DLayered[0], MaxSurface2DLayeredWidth),
    PROPERTY(maxSurface2DLayered[1], MaxSurface2DLayeredHeight),
    PROPERTY(maxSurface2DLayered[2], MaxSurface2DLayeredLayers),
    PROPERTY(maxSurfaceCubemap, MaxSurfaceCubemapWidth),
    PROPERTY(maxSurfaceCubemapLayered[0], MaxSurfaceCubemapLayeredWidth),
    PROPERTY(maxSurfaceCubemapLayered[1], MaxSurfaceCubemapLayeredLayers),
};

static CUresult property_read(struct cudaDeviceProp *prop, const struct property *property,
                              int device) {
    int value = 0;
    char *member = (char *)prop + property->offset;
    CUresult result = cuDeviceGetAttribute(&value, (CUdevice_attribute)property->attribute, device);
    if (result)
        return result;
    if (property->bytes == sizeof(size_t))
        *(size_t *)(void *)member = (size_t)value;
    else
        *(int *)(void *)member = value;
    return CUDA_SUCCESS;
}

cudaError_t acre__runtime_cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device) {
    struct cudaDeviceProp found;
    CUuuid uuid;
    cudaError_t error = prop ? acre__runtime_check_device(device) : cudaErrorInvalidValue;
    if (error)
        return error;
    memset(&found, 0, sizeof found);
    CUresult result = cuDeviceGetName(found.name, sizeof found.name, device);
    if (!result)
        result = cuDeviceTotalMem_v2(&found.totalGlobalMem, device);
    if (!result)
        result = cuDeviceGetUuid_v2(&uuid, device);
    for (size_t i = 0; !result && i < sizeof properties / sizeof properties[0]; i++)
        result = property_read(&found, &properties[i], device);
    if (result)
        return acre__runtime_error(result);
    memcpy(&found.uuid, &uuid, sizeof found.uuid);
    *prop = found;
    return cudaSuccess;
}

/* ---- the choice of a device ---- */

/* Returns how many of the requested properties a device has. A property of 0 is not requested. */
static unsigned property_score(const struct cudaDeviceProp *has,
                               const struct cudaDeviceProp *wish) {
    unsigned score = 0;
    score += wish->name[0] != '\0' && strncmp(has->name, wish->name, sizeof has->name) == 0;
    score += wish->major > 0 &&
             (has->major > wish->major || (has->major == wish->major && has->minor >= wish->minor));
    score += wish->totalGlobalMem > 0 && has->totalGlobalMem >= wish->totalGlobalMem;
    score += wish->sharedMemPerBlock > 0 && has->sharedMemPerBlock >= wish->sharedMemPerBlock;
    score += wish->maxThreadsPerBlock > 0 && has->maxThreadsPerBlock >= wish->maxThreadsPerBlock;
    score += wish->multiProcessorCount > 0 && has->multiProcessorCount >= wish->multiProcessorCount;
    score += wish->integrated > 0 && has->integrated > 0;
    score += wish->canMapHostMemory > 0 && has->canMapHostMemory > 0;
    score += wish->managedMemory > 0 && has->managedMemory > 0;
    score += wish->memoryPoolsSupported > 0 && has->memoryPoolsSupported > 0;
    return score;
}

cudaError_t acre__runtime_cudaChooseDevice(int *device, const struct cudaDeviceProp *prop) {
    struct cudaDeviceProp has = {.major = 0};
    unsigned best_score = 0;
    int count = 0, best = 0;
    if (!device || !prop)
        return cudaErrorInvalidValue;
    cudaError_t error = acre__runtime_cudaGetDeviceCount(&count);
    for (int i = 0; !error && i < count; i++) {
        error = acre__runtime_cudaGetDeviceProperties(&has, i);
        unsigned score = error ? 0 : property_score(&has, prop);
        if (score > best_score) {
            best_score = score;
            best = i;
        }
    }
    if (!error)
        *device = best;
    return error;
}
