/* Queries of devices, their limits and their peers.
 *
 * Calls that need no context create none. No state, no locks. */
#include "runtime_state.h"

cudaError_t acre__runtime_cudaDriverGetVersion(int *version) {
    return version ? acre__runtime_error(cuDriverGetVersion(version)) : cudaErrorInvalidValue;
}

cudaError_t acre__runtime_cudaRuntimeGetVersion(int *version) {
    if (!version)
        return cudaErrorInvalidValue;
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t acre__runtime_cudaGetDeviceCount(int *count) {
    cudaError_t error = count ? acre__runtime_start() : cudaErrorInvalidValue;
    return error ? error : acre__runtime_error(cuDeviceGetCount(count));
}

cudaError_t acre__runtime_cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute,
                                                 int device) {
    cudaError_t error = value ? acre__runtime_check_device(device) : cudaErrorInvalidValue;
    /* The runtime's attributes have the same numbers as the driver's. */
    return error ? error
                 : acre__runtime_error(
                       cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device));
}

/* ---- limits ---- */

cudaError_t acre__runtime_cudaDeviceGetLimit(size_t *value, enum cudaLimit limit) {
    cudaError_t error = value ? acre__runtime_context() : cudaErrorInvalidValue;
    return error ? error : acre__runtime_error(cuCtxGetLimit(value, (CUlimit)limit));
}

cudaError_t acre__runtime_cudaDeviceSetLimit(enum cudaLimit limit, size_t value) {
    cudaError_t error = acre__runtime_context();
    return error ? error : acre__runtime_error(cuCtxSetLimit((CUlimit)limit, value));
}

cudaError_t acre__runtime_cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    cudaError_t error = acre__runtime_context();
    return error ? error : acre__runtime_error(cuCtxGetStreamPriorityRange(least, greatest));
}

/* ---- PCI addresses ---- */

cudaError_t acre__runtime_cudaDeviceGetPCIBusId(char *text, int bytes, int device) {
    if (!text || bytes <= 0)
        return cudaErrorInvalidValue;
    cudaError_t error = acre__runtime_check_device(device);
    return error ? error : acre__runtime_error(cuDeviceGetPCIBusId(text, bytes, device));
}

cudaError_t acre__runtime_cudaDeviceGetByPCIBusId(int *device, const char *text) {
    cudaError_t error = device && text ? acre__runtime_start() : cudaErrorInvalidValue;
    return error ? error : acre__runtime_error(cuDeviceGetByPCIBusId(device, text));
}

/* ---- peers ---- */

cudaError_t acre__runtime_cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    cudaError_t error = can ? acre__runtime_check_device(device) : cudaErrorInvalidValue;
    if (!error)
        error = acre__runtime_check_device(peer);
    return error ? error : acre__runtime_error(cuDeviceCanAccessPeer(can, device, peer));
}

cudaError_t acre__runtime_cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute,
                                                    int device, int peer) {
    cudaError_t error = value ? acre__runtime_start() : cudaErrorInvalidValue;
    return error ? error
                 : acre__runtime_error(cuDeviceGetP2PAttribute(
                       value, (CUdevice_P2PAttribute)attribute, device, peer));
}

static cudaError_t device_peer(int peer, CUcontext *ctx_out) {
    cudaError_t error = acre__runtime_context();
    return error ? error : acre__runtime_primary(peer, ctx_out);
}

cudaError_t acre__runtime_cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
    CUcontext ctx;
    cudaError_t error = device_peer(peer, &ctx);
    return error ? error : acre__runtime_error(cuCtxEnablePeerAccess(ctx, flags));
}

cudaError_t acre__runtime_cudaDeviceDisablePeerAccess(int peer) {
    CUcontext ctx;
    cudaError_t error = device_peer(peer, &ctx);
    return error ? error : acre__runtime_error(cuCtxDisablePeerAccess(ctx));
}
