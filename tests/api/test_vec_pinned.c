/* Pinned vecs as host memory: device pointers and copies of addresses inside them. */
#include "api_devices.h"

#define MIB ((size_t)1 << 20)

static acre_vec *pinned_vec(acre_device *device, size_t bytes) {
    acre_vec_options options = {
        .struct_size = sizeof options, .kind = ACRE_KIND_PINNED, .address_bytes = 16 * MIB};
    acre_vec *vec = NULL;
    api_ok(acre_vec_create(device, 1, &options, &vec));
    api_ok(acre_vec_grow(vec, bytes, NULL));
    return vec;
}

API_TEST(vec_pinned_has_a_device_pointer) {
    acre_vec *vec = pinned_vec(device, 3 * MIB);
    char *at = acre_vec_data(vec);
    void *first = NULL, *inside = NULL;
    api_ok(acre_mem_device_pointer(device, at, &first));
    assert_non_null(first);
    api_ok(acre_mem_device_pointer(device, at + 3 * MIB - 1, &inside));
    assert_ptr_equal(inside, (char *)first + 3 * MIB - 1);
    api_ok(acre_vec_destroy(vec, NULL));
    api_expect(acre_mem_device_pointer(device, at, &first), ACRE_E_KIND);
    assert_null(first);
}

API_TEST(vec_pinned_is_read_and_written_by_the_host) {
    acre_vec *vec = pinned_vec(device, 5 * MIB);
    char *at = acre_vec_data(vec);
    void *memory = NULL;
    api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, 5 * MIB, 0, &memory));
    memset(at, 0x31, 5 * MIB);
    api_ok(acre_copy_sync(device, memory, at, 5 * MIB));
    memset(at, 0, 5 * MIB);
    api_ok(acre_copy_sync(device, at, memory, 5 * MIB));
    for (size_t i = 0; i < 5 * MIB; i++)
        if (at[i] != 0x31)
            assert_int_equal(at[i], 0x31);
    api_ok(acre_mem_free(device, memory));
    api_ok(acre_vec_destroy(vec, NULL));
}

int main(void) {
    return tests_run("vec_pinned");
}
