/* A double free: a clean-up function frees what the program has freed already. The second acre_free
 * returns ACRE_E_POINTER; ACRE_DEBUG=1 names both frees. */
#include <acre.h>
#include <stdio.h>

static void clean_up(void *p) {
    acre_free(p, NULL); /* the mistake: nobody checks the status */
}

int main(void) {
    acre_device *device;
    void *p;
    if (acre_open("auto", NULL, &device) || acre_alloc(device, 3000, NULL, &p)) {
        fprintf(stderr, "%s\n", acre_last_detail());
        return 2;
    }
    acre_free(p, NULL);
    clean_up(p);
    acre_close(device);
    return 0;
}
