/* Chunks of virtual memory by hand, exported and imported as file descriptors. */
#include <unistd.h>

#include "api_memory.h"

#define CHUNK ((size_t)2 << 20)

static void *place(acre_device *device, acre_vm_chunk *chunk) {
    void *at = NULL;
    api_ok(acre_vm_reserve(device, CHUNK, 0, NULL, &at, NULL));
    api_ok(acre_vm_map(device, at, chunk));
    api_ok(acre_vm_set_access(device, at, CHUNK, device, ACRE_ACCESS_READ_WRITE));
    return at;
}

static void unplace(acre_device *device, void *at) {
    api_ok(acre_vm_unmap(device, at, CHUNK));
    api_ok(acre_vm_address_free(device, at));
}

API_TEST(vm_exported_chunk_imports_as_the_same_memory) {
    acre_vm_chunk *chunk, *again;
    uint32_t word = 4711, seen = 0;
    int fd = -1;
    api_ok(acre_vm_create(device, CHUNK, ACRE_VM_SHAREABLE, &chunk, NULL));
    api_ok(acre_vm_export(device, chunk, &fd));
    assert_true(fd >= 0);
    api_ok(acre_vm_import(device, fd, CHUNK, &again));
    assert_int_equal(close(fd), 0);
    assert_ptr_not_equal(chunk, again);
    void *first = place(device, chunk), *second = place(device, again);
    api_ok(acre_copy_sync(device, first, &word, sizeof word));
    api_ok(acre_copy_sync(device, &seen, second, sizeof seen));
    assert_int_equal(seen, 4711);
    unplace(device, first);
    unplace(device, second);
    api_ok(acre_vm_release(device, chunk));
    api_ok(acre_vm_release(device, again));
}

API_TEST(vm_export_and_import_of_what_cannot_be_are_refused) {
    acre_vm_chunk *plain, *chunk = NULL;
    int fd = 5, ends[2];
    api_ok(acre_vm_create(device, CHUNK, 0, &plain, NULL));
    api_expect(acre_vm_export(device, plain, &fd), ACRE_E_KIND);
    assert_int_equal(fd, -1);
    api_expect(acre_vm_export(device, plain, NULL), ACRE_E_NULL);
    api_expect(acre_vm_export(device, (acre_vm_chunk *)device, &fd), ACRE_E_HANDLE);
    api_ok(acre_vm_release(device, plain));
    api_expect(acre_vm_export(device, plain, &fd), ACRE_E_HANDLE);
    assert_int_equal(pipe(ends), 0);
    api_expect(acre_vm_import(device, -1, CHUNK, &chunk), ACRE_E_INVALID);
    api_expect(acre_vm_import(device, ends[0], CHUNK + 1, &chunk), ACRE_E_INVALID);
    api_expect(acre_vm_import(device, ends[0], 0, &chunk), ACRE_E_INVALID);
    api_expect(acre_vm_import(device, ends[0], CHUNK, NULL), ACRE_E_NULL);
    assert_int_not_equal(acre_vm_import(device, ends[0], CHUNK, &chunk), ACRE_OK);
    assert_null(chunk);
    close(ends[0]);
    close(ends[1]);
}

int main(void) {
    return tests_run("vm_export");
}
