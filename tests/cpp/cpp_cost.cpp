// Pairs of calls in C and in C++, for test_cpp_cost.sh: NAME_c calls the C API and ignores
// statuses, NAME_cpp does the same in C++ and throws. The script compares their success paths.
//
// The functions in C keep the address in a second variable. The first one is known to the library,
// so a compiler would load it again after each call.
#include <acre/acre.hpp>

extern "C" {

// What the pair does with the block. Defined nowhere: the file is compiled, not linked.
void use(void *p);

// Ends a function whose last call would otherwise become a jump.
#define NO_TAIL_CALL __asm__ volatile("")

void pool_c(acre_pool *pool, acre_stream stream, size_t bytes) {
    void *p;
    acre_pool_alloc(pool, bytes, 0, stream, &p);
    void *block = p;
    use(block);
    acre_pool_free(pool, block, stream);
    NO_TAIL_CALL;
}

void pool_cpp(acre_pool *handle, acre_stream stream, size_t bytes) {
    acre::pool_ref pool = handle;
    void *p = pool.allocate(bytes, stream);
    use(p);
    pool.deallocate(p, stream);
}

// An owner is no slower than a reference.
void owner_c(acre_pool **pool, acre_stream stream, size_t bytes) {
    void *p;
    acre_pool_alloc(*pool, bytes, 0, stream, &p);
    void *block = p;
    use(block);
    acre_pool_free(*pool, block, stream);
    NO_TAIL_CALL;
}

void owner_cpp(acre::pool &pool, acre_stream stream, size_t bytes) {
    void *p = pool.allocate(bytes, stream);
    use(p);
    pool.deallocate(p, stream);
}

// The try_ forms: a program that handles its failures.
void try_c(acre_pool *pool, acre_stream stream, size_t bytes) {
    void *p;
    acre_pool_alloc(pool, bytes, 0, stream, &p);
    void *block = p;
    use(block);
    acre_pool_free(pool, block, stream);
    NO_TAIL_CALL;
}

void try_cpp(acre_pool *handle, acre_stream stream, size_t bytes) {
    acre::pool_ref pool = handle;
    acre::result<void *> p = pool.try_allocate(bytes, stream);
    if (!p)
        acre::throw_error(p.status());
    use(*p);
    acre::result<void> freed = pool.try_deallocate(*p, stream);
    if (!freed)
        acre::throw_error(freed.status());
}

void plan_c(acre_plan *plan, size_t bytes) {
    void *p;
    acre_plan_alloc(plan, ACRE_PLACE_DEVICE, bytes, 0, &p);
    void *block = p;
    use(block);
    acre_plan_free(plan, block);
    NO_TAIL_CALL;
}

void plan_cpp(acre_plan *handle, size_t bytes) {
    acre::plan_ref plan(handle);
    void *p = plan.allocate(bytes);
    use(p);
    plan.deallocate(p);
}

// A pair that costs more, which the script must find: the address goes through memory.
void slow_c(acre_pool *pool, acre_stream stream, size_t bytes) {
    void *p;
    acre_pool_alloc(pool, bytes, 0, stream, &p);
    void *block = p;
    use(block);
    acre_pool_free(pool, block, stream);
    NO_TAIL_CALL;
}

void slow_cpp(acre_pool *handle, acre_stream stream, size_t bytes) {
    acre::pool_ref pool = handle;
    void *volatile first = pool.allocate(bytes, stream);
    void *volatile second = first;
    void *volatile third = second;
    use(third);
    pool.deallocate(third, stream);
}
}
