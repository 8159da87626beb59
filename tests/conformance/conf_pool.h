/* Helpers for the cases about the driver's pools. */
#ifndef ACRE_TESTS_CONF_POOL_H
#define ACRE_TESTS_CONF_POOL_H

#include <string.h>

#include "conformance.h"

static inline CUmemPoolProps pool_props(void) {
    CUmemPoolProps props;

    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = conf_here();
    return props;
}

/* Returns 0 on success. */
static inline int pool_make(CUmemoryPool *pool) {
    CUmemPoolProps props = pool_props();

    return conf_need("create", conf.drv->cuMemPoolCreate(pool, &props));
}

static inline unsigned long long pool_get(CUmemoryPool pool, CUmemPool_attribute attribute) {
    unsigned long long value = 0;

    conf_need("get", conf.drv->cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static inline CUresult pool_set(CUmemoryPool pool, CUmemPool_attribute attribute,
                                unsigned long long value) {
    return conf.drv->cuMemPoolSetAttribute(pool, attribute, &value);
}

/* For attributes that are flags, not bytes. */
static inline CUresult pool_set_flag(CUmemoryPool pool, CUmemPool_attribute attribute, int value) {
    return conf.drv->cuMemPoolSetAttribute(pool, attribute, &value);
}

#endif
