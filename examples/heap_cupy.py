"""malloc inside a kernel that CuPy compiles with NVRTC.

    python3 examples/heap_cupy.py LIBACRE HEADER

LIBACRE is libacre.so, HEADER is acre_heap_rtc.h; both are in the build folder (build/libacre.so,
build/include/acre_heap_rtc.h), and `make install` installs them. Each thread allocates a list node, a second
launch sums the lists up and frees the nodes.
"""

import ctypes
import sys

import cupy
import numpy

THREADS = 1024
LAUNCHES = 64


class Handle(ctypes.Structure):
    """acre_heap_handle"""

    _fields_ = [
        ("base", ctypes.c_void_p),
        ("control", ctypes.c_void_p),
        ("segments", ctypes.c_void_p),
        ("max_segments", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


KERNELS = r"""
struct node { node *next; unsigned long long value; };

extern "C" __global__ void push(acre_heap_handle h, node **lists, unsigned long long value) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    node *n = (node *)acre_heap_malloc(h, sizeof *n);
    if (!n)
        return;
    n->next = lists[i];
    n->value = value + i;
    lists[i] = n;
}

extern "C" __global__ void sum(acre_heap_handle h, node **lists, unsigned long long *sums) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long all = 0;
    for (node *n = lists[i]; n;) {
        node *next = n->next;
        all += n->value;
        acre_heap_free(h, n);
        n = next;
    }
    sums[i] = all;
}
"""


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    acre = ctypes.CDLL(sys.argv[1])
    acre.acre_last_detail.restype = ctypes.c_char_p

    def call(name, *arguments):
        if getattr(acre, name)(*arguments) != 0:
            sys.exit(acre.acre_last_detail().decode())

    cupy.cuda.Device(0).use()
    device, heap, handle = ctypes.c_void_p(), ctypes.c_void_p(), Handle()
    call("acre_open", b"cuda:0", None, ctypes.byref(device))
    call("acre_heap_create", device, None, ctypes.byref(heap))
    call("acre_heap_get_handle", heap, ctypes.byref(handle))
    # CuPy passes an array of one element by value.
    by_value = numpy.frombuffer(bytes(handle), dtype=numpy.dtype((numpy.void, ctypes.sizeof(Handle))))

    with open(sys.argv[2], encoding="utf-8") as header:
        module = cupy.RawModule(code=header.read() + KERNELS, options=("-std=c++17",))
    push, total = module.get_function("push"), module.get_function("sum")
    lists = cupy.zeros(THREADS, dtype=cupy.uint64)
    sums = cupy.zeros(THREADS, dtype=cupy.uint64)
    for value in range(LAUNCHES):
        push((THREADS // 128,), (128,), (by_value, lists, numpy.uint64(value)))
    total((THREADS // 128,), (128,), (by_value, lists, sums))
    wanted = numpy.arange(THREADS, dtype=numpy.uint64) * LAUNCHES + sum(range(LAUNCHES))
    assert (sums.get() == wanted).all()

    leaked = ctypes.c_uint64()
    call("acre_heap_destroy", heap, ctypes.byref(leaked), None)
    call("acre_close", device)
    print(f"{THREADS * LAUNCHES} nodes allocated and freed in kernels; leaked: {leaked.value}")


if __name__ == "__main__":
    main()
