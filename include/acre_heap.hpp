/* malloc inside kernels for C++17: objects, an owning pointer, an allocator for containers, and
 * blocks for groups of threads. For nvcc, and for kernels of the soft device. It needs acre_heap.h
 * alone, so that device code includes no header of the standard library but <new>.
 *
 *   __global__ void build(acre_heap_handle h) {
 *       acre::heap_ptr<node> n = acre::make_heap<node>(h, 1, 2.0f);
 *       if (!n)
 *           return;                     // out of memory
 *       n->value = 3;
 *   }                                   // destroyed and freed
 *
 * Without memory the result is null, and nothing is thrown. For `new` and `delete` in device code
 * see ACRE_HEAP_AS_NEW in acre/heap/dropin.h. */
#ifndef ACRE_HEAP_HPP
#define ACRE_HEAP_HPP

#ifdef __CUDACC_RTC__
#error "acre_heap.hpp is for nvcc and C++ compilers; NVRTC compiles acre_heap_rtc.h"
#endif

#include <new>

#include "acre_heap.h"

#ifdef __CUDACC__
#define ACRE__HEAP_METHOD __device__
#else
#define ACRE__HEAP_METHOD
#endif

namespace acre {

/* Allocates memory for an object and constructs it. Null if there is no memory. If the constructor
 * throws, which is possible only in a kernel of the soft device, the memory is freed. */
template <class T, class... Arguments>
ACRE__HEAP_METHOD T *heap_create(acre_heap_handle h, Arguments &&...arguments) {
    void *p = alignof(T) > 16 ? acre_heap_aligned_malloc(h, sizeof(T), alignof(T))
                              : acre_heap_malloc(h, sizeof(T));
    if (!p)
        return nullptr;
#if defined(__cpp_exceptions) && !defined(__CUDACC__)
    try {
        return ::new (p) T(static_cast<Arguments &&>(arguments)...);
    } catch (...) {
        acre_heap_free(h, p);
        throw;
    }
#else
    return ::new (p) T(static_cast<Arguments &&>(arguments)...);
#endif
}

/* Destroys an object of heap_create and frees its memory. Null is a no-op. */
template <class T> ACRE__HEAP_METHOD void heap_destroy(acre_heap_handle h, T *p) {
    if (!p)
        return;
    p->~T();
    acre_heap_free(h, const_cast<void *>(static_cast<const volatile void *>(p)));
}

/* Owns an object that heap_create<T> made, of that very type. It can be moved, not copied; a
 * moved-from pointer is null. */
template <class T> class heap_ptr {
  public:
    ACRE__HEAP_METHOD heap_ptr() noexcept : h_{}, p_{nullptr} {
    }
    ACRE__HEAP_METHOD heap_ptr(acre_heap_handle h, T *p) noexcept : h_(h), p_(p) {
    }
    ACRE__HEAP_METHOD heap_ptr(heap_ptr &&other) noexcept : h_(other.h_), p_(other.release()) {
    }
    /* `other` may be a member of the object that this pointer owns, as in a list. */
    ACRE__HEAP_METHOD heap_ptr &operator=(heap_ptr &&other) noexcept {
        acre_heap_handle h = other.h_;
        T *p = other.release();
        reset();
        h_ = h;
        p_ = p;
        return *this;
    }
    heap_ptr(const heap_ptr &) = delete;
    heap_ptr &operator=(const heap_ptr &) = delete;
    ACRE__HEAP_METHOD ~heap_ptr() {
        reset();
    }

    ACRE__HEAP_METHOD T *get() const {
        return p_;
    }
    ACRE__HEAP_METHOD T &operator*() const {
        return *p_;
    }
    ACRE__HEAP_METHOD T *operator->() const {
        return p_;
    }
    ACRE__HEAP_METHOD explicit operator bool() const {
        return p_ != nullptr;
    }

    /* Gives the object to the caller, who destroys it with heap_destroy, in any launch. */
    ACRE__HEAP_METHOD T *release() {
        T *p = p_;
        p_ = nullptr;
        return p;
    }
    /* Destroys the object. */
    ACRE__HEAP_METHOD void reset() {
        heap_destroy(h_, release());
    }

  private:
    acre_heap_handle h_;
    T *p_;
};

template <class T, class... Arguments>
ACRE__HEAP_METHOD heap_ptr<T> make_heap(acre_heap_handle h, Arguments &&...arguments) {
    return heap_ptr<T>(h, heap_create<T>(h, static_cast<Arguments &&>(arguments)...));
}

/* An allocator for containers in device code that check for null: allocate() returns null if there
 * is no memory, since device code cannot throw. */
template <class T> class heap_allocator {
  public:
    using value_type = T;

    ACRE__HEAP_METHOD explicit heap_allocator(acre_heap_handle h) : h_(h) {
    }
    template <class U>
    ACRE__HEAP_METHOD heap_allocator(const heap_allocator<U> &other) : h_(other.handle()) {
    }

    ACRE__HEAP_METHOD T *allocate(size_t count) const {
        size_t bytes = count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);
        return static_cast<T *>(alignof(T) > 16 ? acre_heap_aligned_malloc(h_, bytes, alignof(T))
                                                : acre_heap_malloc(h_, bytes));
    }
    ACRE__HEAP_METHOD void deallocate(T *p, size_t) const {
        acre_heap_free(h_, p);
    }
    ACRE__HEAP_METHOD acre_heap_handle handle() const {
        return h_;
    }

    template <class U> ACRE__HEAP_METHOD bool operator==(const heap_allocator<U> &other) const {
        return h_.control == other.handle().control;
    }
    template <class U> ACRE__HEAP_METHOD bool operator!=(const heap_allocator<U> &other) const {
        return !(*this == other);
    }

  private:
    acre_heap_handle h_;
};

/* Allocates one block for a group, such as a tile or a coalesced group of cooperative groups: a
 * type with thread_rank(), shfl() and sync(). All its threads make the call with the same size and
 * get the address. */
template <class Group>
ACRE__HEAP_METHOD void *heap_allocate(acre_heap_handle h, const Group &group, size_t bytes) {
    unsigned long long p = 0;
    if (group.thread_rank() == 0)
        p = reinterpret_cast<uintptr_t>(acre_heap_malloc(h, bytes));
    p = group.shfl(p, 0);
    group.sync();
    return reinterpret_cast<void *>(static_cast<uintptr_t>(p));
}

/* As above, for a group without shfl(), such as a thread block: `slot` is in shared memory, and
 * nothing else uses it until the call returns. */
template <class Group>
ACRE__HEAP_METHOD void *heap_allocate(acre_heap_handle h, const Group &group, size_t bytes,
                                      void **slot) {
    if (group.thread_rank() == 0)
        *slot = acre_heap_malloc(h, bytes);
    group.sync();
    void *p = *slot;
    group.sync();
    return p;
}

/* Frees a block once for all threads of a group, after all of them have made the call. */
template <class Group>
ACRE__HEAP_METHOD void heap_deallocate(acre_heap_handle h, const Group &group, void *p) {
    group.sync();
    if (group.thread_rank() == 0)
        acre_heap_free(h, p);
}

} // namespace acre

#endif
