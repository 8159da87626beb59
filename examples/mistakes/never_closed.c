/* A leak at exit: the program ends without acre_close. ACRE_DEBUG=1 lists at exit what is left:
 * here a vec, and memory of acre_mem_alloc. */
#include <acre.h>
#include <stdio.h>

int main(void) {
    acre_device *device;
    acre_vec *vec;
    void *p;
    if (acre_open("auto", NULL, &device) || acre_vec_create(device, sizeof(int), NULL, &vec) ||
        acre_vec_grow(vec, 1000, NULL) || acre_mem_alloc(device, ACRE_KIND_PINNED, 12345, 0, &p)) {
        fprintf(stderr, "%s\n", acre_last_detail());
        return 2;
    }
    return 0; /* the mistake: acre_mem_free, acre_vec_destroy and acre_close are missing */
}
