/* Mappings by address, and the gate: see mapped.h.
 *
 * The count of those inside is an atomic number, so that a copy pays for two atomic additions only.
 * Both sides order their write before their read (sequentially consistent): either the move sees
 * the other thread inside, or that thread sees the move. */
#include "space/mapped.h"

#include <pthread.h>
#include <time.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/device.h"
#include "space/steps.h"

static struct {
    struct acre__lock lock; /* guards the trees */
    struct acre__cond cond; /* a move or a resume has ended */
    _Atomic uint64_t resumes;
    int is_moving; /* a move is in progress, or begins */
    _Atomic uint32_t is_closed[ACRE__GATES];
    _Atomic uint32_t inside[ACRE__GATES];
    _Atomic uint64_t away_bytes; /* of all devices */
    struct acre__tree mappings[ACRE__DEVICE_SLOTS];
    _Atomic uint64_t away[ACRE__DEVICE_SLOTS];
} mapped = {.lock = ACRE__LOCK_INIT("mappings", ACRE__RANK_LEAF), .cond = ACRE__COND_INIT};

static struct acre__mapping *mapping_of(struct acre__node *node) {
    return acre__tree_entry(node, struct acre__mapping, node);
}

static struct acre__tree *tree_of(const acre_device *dev) {
    return &mapped.mappings[acre__device_index(dev)];
}

/* ---- the gate ---- */

static void gate_wait(enum acre__gate gate) {
    acre__lock_take(&mapped.lock);
    while (acre__load(&mapped.is_closed[gate], memory_order_seq_cst))
        acre__cond_wait(&mapped.cond, &mapped.lock);
    acre__lock_give(&mapped.lock);
}

void acre__gate_enter(enum acre__gate gate) {
    for (;;) {
        acre__fetch_add(&mapped.inside[gate], 1, memory_order_seq_cst);
        if (!acre__load(&mapped.is_closed[gate], memory_order_seq_cst))
            return;
        acre__fetch_sub(&mapped.inside[gate], 1, memory_order_seq_cst);
        gate_wait(gate);
    }
}

void acre__gate_leave(enum acre__gate gate) {
    acre__fetch_sub(&mapped.inside[gate], 1, memory_order_seq_cst);
}

/* Those inside leave without waking anyone, so this polls. */
static void move_poll(void) {
    const struct acre__sched_hooks *hooks = acre__sched_hooks_get();
    const struct timespec nap = {0, 20000};
    if (hooks && hooks->is_virtual())
        hooks->yield();
    else
        nanosleep(&nap, NULL);
}

/* Closes a gate and waits until nobody is inside. Returns 0 if that takes too long. */
static int gate_close(enum acre__gate gate, uint64_t until_ns) {
    acre__store(&mapped.is_closed[gate], 1, memory_order_seq_cst);
    while (acre__load(&mapped.inside[gate], memory_order_seq_cst)) {
        if (acre__now_ns() >= until_ns)
            return 0;
        move_poll();
    }
    return 1;
}

/* Copies first: one that is inside may wait for the lock of a pool whose holder maps memory. */
int acre__move_begin(uint64_t until_ns) {
    acre__lock_take(&mapped.lock);
    while (mapped.is_moving)
        acre__cond_wait(&mapped.cond, &mapped.lock);
    mapped.is_moving = 1;
    acre__lock_give(&mapped.lock);
    if (gate_close(ACRE__GATE_COPY, until_ns) && gate_close(ACRE__GATE_MAP, UINT64_MAX))
        return 1;
    acre__move_end();
    return 0;
}

void acre__move_end(void) {
    acre__lock_take(&mapped.lock);
    for (int i = 0; i < ACRE__GATES; i++)
        acre__store(&mapped.is_closed[i], 0, memory_order_seq_cst);
    mapped.is_moving = 0;
    acre__cond_wake(&mapped.cond);
    acre__lock_give(&mapped.lock);
}

/* ---- mappings by address ---- */

void acre__mapped_add(struct acre__mapping *mapping) {
    mapping->node.key = mapping->at;
    acre__lock_take(&mapped.lock);
    mapping->is_listed = acre__tree_insert(tree_of(mapping->chunk->dev), &mapping->node);
    acre__lock_give(&mapped.lock);
}

void acre__mapped_remove(struct acre__mapping *mapping) {
    acre__lock_take(&mapped.lock);
    if (mapping->is_listed)
        acre__tree_remove(tree_of(mapping->chunk->dev), &mapping->node);
    mapping->is_listed = 0;
    acre__lock_give(&mapped.lock);
}

struct acre__mapping *acre__mapped_next(acre_device *dev, const struct acre__mapping *mapping) {
    struct acre__tree *tree = tree_of(dev);
    acre__lock_take(&mapped.lock);
    struct acre__node *node =
        mapping ? acre__tree_next(tree, &mapping->node) : acre__tree_first(tree);
    acre__lock_give(&mapped.lock);
    return node ? mapping_of(node) : NULL;
}

/* Lock held: the first mapping that ends behind `at`; NULL if there is none. */
static struct acre__mapping *mapped_from(const struct acre__tree *tree, uint64_t at) {
    struct acre__node *node = acre__tree_floor(tree, at);
    if (node && node->key + mapping_of(node)->chunk->bytes <= at)
        node = acre__tree_next(tree, node);
    else if (!node)
        node = acre__tree_ceil(tree, at);
    return node ? mapping_of(node) : NULL;
}

/* Lock held: the first mapping of the range that is away, or NULL. */
static struct acre__mapping *away_find(const struct acre__tree *tree, uint64_t at, size_t bytes) {
    struct acre__mapping *mapping = mapped_from(tree, at);
    while (mapping && mapping->at < at + bytes && !mapping->is_away) {
        struct acre__node *next = acre__tree_next(tree, &mapping->node);
        mapping = next ? mapping_of(next) : NULL;
    }
    return mapping && mapping->at < at + bytes ? mapping : NULL;
}

static acre_status away_fail(const struct acre__mapping *mapping, const char *which, const void *p,
                             size_t bytes) {
    return acre__fail(acre__chunk_suspended(mapping->chunk),
                      "some of the %zu bytes of the %s at %p are suspended; call acre_resume first",
                      bytes, which, p);
}

static void access_note(struct acre__mapping *mapping, const CUmemAccessDesc *access) {
    if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE || access->location.id < 0 ||
        access->location.id >= ACRE__DEVICE_SLOTS)
        return; /* host memory is never away */
    uint64_t bit = (uint64_t)1 << access->location.id;
    mapping->readers &= ~bit;
    mapping->writers &= ~bit;
    if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        mapping->writers |= bit;
    else if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
        mapping->readers |= bit;
}

acre_status acre__mapped_access(acre_device *dev, uint64_t at, size_t bytes,
                                const CUmemAccessDesc *access, size_t count) {
    const struct acre__tree *tree = tree_of(dev);
    acre__gate_enter(ACRE__GATE_MAP);
    acre__lock_take(&mapped.lock);
    struct acre__mapping *mapping = away_find(tree, at, bytes);
    acre__lock_give(&mapped.lock);
    acre_status status = mapping ? away_fail(mapping, "memory", (void *)(uintptr_t)at, bytes)
                                 : acre__step_access(dev, at, bytes, access, count);
    acre__lock_take(&mapped.lock);
    mapping = status ? NULL : mapped_from(tree, at);
    while (mapping && mapping->at < at + bytes) {
        for (size_t i = 0; i < count; i++)
            access_note(mapping, &access[i]);
        struct acre__node *next = acre__tree_next(tree, &mapping->node);
        mapping = next ? mapping_of(next) : NULL;
    }
    acre__lock_give(&mapped.lock);
    acre__gate_leave(ACRE__GATE_MAP);
    return status;
}

/* ---- memory that is away ---- */

void acre__away_set(struct acre__mapping *mapping, int is_away) {
    acre__lock_take(&mapped.lock);
    mapping->is_away = is_away;
    acre__lock_give(&mapped.lock);
    acre__away_count(mapping->chunk->dev,
                     is_away ? (int64_t)mapping->chunk->bytes : -(int64_t)mapping->chunk->bytes);
}

void acre__away_count(acre_device *dev, int64_t bytes) {
    acre__fetch_add(&mapped.away[acre__device_index(dev)], (uint64_t)bytes, memory_order_relaxed);
    acre__fetch_add(&mapped.away_bytes, (uint64_t)bytes, memory_order_seq_cst);
}

uint64_t acre__away_bytes(const acre_device *dev) {
    return acre__load(&mapped.away[acre__device_index(dev)], memory_order_relaxed);
}

acre_status acre__away_check(const void *p, size_t bytes, const char *which) {
    if (!acre__load(&mapped.away_bytes, memory_order_seq_cst))
        return ACRE_OK;
    const struct acre__mapping *mapping = NULL;
    acre__lock_take(&mapped.lock);
    for (unsigned i = 0; i < ACRE__DEVICE_SLOTS && !mapping; i++)
        mapping = away_find(&mapped.mappings[i], (uintptr_t)p, bytes);
    acre__lock_give(&mapped.lock);
    return mapping ? away_fail(mapping, which, p, bytes) : ACRE_OK;
}

uint64_t acre__resumes(void) {
    return acre__load(&mapped.resumes, memory_order_acquire);
}

acre_status acre__suspended_as(uint32_t how) {
    struct acre__thread *self = acre__thread_self();
    if (self->id) /* the shared record must not be written */
        self->may_wait = how == ACRE__SUSPEND_WAITS;
    return ACRE_E_SUSPENDED;
}

acre_status acre__chunk_suspended(const struct acre__chunk *chunk) {
    return acre__suspended_as(chunk->is_waited ? ACRE__SUSPEND_WAITS : ACRE__SUSPEND_REFUSES);
}

void acre__wait_forbid(void) {
    struct acre__thread *self = acre__thread_self();
    self->wait_forbidden += self->id != 0; /* the shared record must not be written */
}

void acre__wait_allow(void) {
    struct acre__thread *self = acre__thread_self();
    self->wait_forbidden -= self->id != 0;
}

int acre__resume_wait(uint64_t *seen) {
    const struct acre__thread *self = acre__thread_self();
    if (!self->may_wait || self->wait_forbidden)
        return 0;
    acre__lock_take(&mapped.lock);
    while (acre__resumes() == *seen)
        acre__cond_wait(&mapped.cond, &mapped.lock);
    *seen = acre__resumes();
    acre__lock_give(&mapped.lock);
    return 1;
}

void acre__resume_note(void) {
    acre__lock_take(&mapped.lock);
    acre__fetch_add(&mapped.resumes, 1, memory_order_release);
    acre__cond_wake(&mapped.cond);
    acre__lock_give(&mapped.lock);
}

acre_status acre__device_has_memory(const acre_device *dev) {
    uint32_t how = acre__load(&dev->is_suspended, memory_order_seq_cst);
    if (!how)
        return ACRE_OK;
    return acre__fail(acre__suspended_as(how),
                      "all memory of %s is suspended; call acre_resume before allocating more",
                      dev->label);
}
