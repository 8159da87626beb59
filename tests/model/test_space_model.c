/* Several extents and blocks of one device under random operations, compared with a naive model.
 * The model records the chunk and the written word of every unit, and the address ranges.
 *
 * After each operation address ranges do not overlap, the records agree with the driver's mappings,
 * the words are in place, and the device's free memory is its total minus the chunks. The test
 * prints the seed; ACRE_TEST_SEED=<seed> repeats it. */
#include "unit/space_fixture.h"

enum { UNITS = 32, EXTENTS = 5, BLOCKS = 2, SEEDS = 4, STEPS = 1500, RESERVE_MOST = 48 };

/* The expected state of an extent. */
struct model {
    int is_open, is_moving;
    uint64_t at, old_at;         /* old: the old address during a move */
    size_t reserve, old_reserve; /* in units, like all sizes here */
    size_t mapped, old_mapped;   /* the old address keeps its mappings */
    size_t least;
    uint64_t chunk[UNITS]; /* id of the chunk of every unit */
    uint64_t word[UNITS];  /* in its first word; its complement is in its last */
    struct acre__extent extent;
    struct acre__moved moved;
};

struct block {
    void *p;
    size_t bytes;
    uint64_t word; /* its first word and, inverted, its last */
};

static struct world {
    acre_device *dev;
    size_t unit;
    uint64_t whole, words;
    uint64_t random;
    struct model models[EXTENTS];
    struct block blocks[BLOCKS];
    int step;
    const char *what;
} world;

#define expect(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("step %d, %s: %s", world.step, world.what, #condition);                       \
    } while (0)

static size_t draw(size_t below) {
    return (size_t)random_draw(&world.random, below);
}

/* ---- words ---- */

static void unit_put(uint64_t at, uint64_t word) {
    space_write(world.dev, at, word);
    space_write(world.dev, at + world.unit - 8, ~word);
}

static int unit_has(uint64_t at, uint64_t word) {
    return space_read(world.dev, at) == word && space_read(world.dev, at + world.unit - 8) == ~word;
}

static void block_put(struct block *block) {
    uint64_t at = (uintptr_t)block->p;
    space_write(world.dev, at, block->word);
    space_write(world.dev, at + block->bytes - 8, ~block->word);
}

/* ---- invariants ---- */

struct stretch {
    uint64_t at, end;
};

static size_t stretches(struct stretch *all) {
    size_t count = 0;
    for (size_t i = 0; i < EXTENTS; i++) {
        const struct model *m = &world.models[i];
        if (m->is_open && m->reserve)
            all[count++] = (struct stretch){m->at, m->at + m->reserve * world.unit};
        if (m->is_open && m->is_moving && m->old_reserve)
            all[count++] = (struct stretch){m->old_at, m->old_at + m->old_reserve * world.unit};
    }
    for (size_t i = 0; i < BLOCKS; i++)
        if (world.blocks[i].p)
            all[count++] = (struct stretch){(uintptr_t)world.blocks[i].p,
                                            (uintptr_t)world.blocks[i].p + world.blocks[i].bytes};
    return count;
}

static void expect_apart(void) {
    struct stretch all[2 * EXTENTS + BLOCKS];
    size_t count = stretches(all);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            expect(all[i].end <= all[k].at || all[k].end <= all[i].at);
}

/* Checks the record, the driver's mappings and the words of one extent. */
static void expect_extent(struct model *m) {
    struct acre__extent *extent = &m->extent;
    expect(extent->range.bytes == m->reserve * world.unit);
    expect(!m->reserve || extent->range.at == m->at);
    expect(extent->mapped == m->mapped * world.unit);
    space_expect_truth(extent);
    size_t at = 0;
    for (size_t i = 0; i < extent->count; i++)
        for (size_t k = 0; k < extent->mappings[i]->chunk->bytes / world.unit; k++, at++)
            expect(at < UNITS && extent->mappings[i]->chunk->id == m->chunk[at]);
    expect(at == m->mapped);
    for (size_t i = 0; i < m->mapped; i++)
        expect(unit_has(m->at + i * world.unit, m->word[i]));
    for (size_t i = 0; m->is_moving && i < m->old_mapped; i++)
        expect(space_handle_at(world.dev, m->old_at + i * world.unit) != 0);
}

/* Returns the number of units in all chunks in use. */
static size_t live_units(void) {
    size_t units = 0;
    for (size_t i = 0; i < EXTENTS; i++) {
        const struct model *m = &world.models[i];
        if (m->is_open)
            units += m->is_moving && m->old_mapped > m->mapped ? m->old_mapped : m->mapped;
    }
    for (size_t i = 0; i < BLOCKS; i++)
        if (world.blocks[i].p && world.blocks[i].bytes >= world.unit)
            units += (world.blocks[i].bytes + world.unit - 1) / world.unit;
    return units;
}

static void expect_counts(void) {
    uint64_t count, bytes, cached, reserved, taken;
    acre__chunk_count(world.dev, &count, &bytes, &cached);
    acre__range_count(world.dev, &reserved, &taken);
    int has_blocks = world.blocks[0].p || world.blocks[1].p;
    /* A block may hold more than it needs: it releases only whole chunks. */
    expect(has_blocks ? bytes - cached >= live_units() * world.unit
                      : bytes - cached == live_units() * world.unit);
    size_t small = 0; /* blocks below a unit share memory of the driver */
    for (size_t i = 0; i < BLOCKS; i++)
        small += world.blocks[i].p && world.blocks[i].bytes < world.unit;
    uint64_t used = world.whole - space_free_bytes(world.dev);
    expect(used >= bytes && used <= bytes + small * world.unit);
    struct stretch all[2 * EXTENTS + BLOCKS];
    uint64_t sum = 0;
    for (size_t i = stretches(all); i > 0; i--)
        sum += all[i - 1].end - all[i - 1].at;
    expect(taken <= reserved && (has_blocks || taken == sum));
}

static void expect_block(const struct block *block) {
    uint64_t at = (uintptr_t)block->p;
    expect(space_read(world.dev, at) == block->word);
    expect(space_read(world.dev, at + block->bytes - 8) == ~block->word);
}

static void expect_all(const struct model *touched) {
    int is_full = world.step % 16 == 0;
    expect_apart();
    expect_counts();
    for (size_t i = 0; i < EXTENTS; i++)
        if (world.models[i].is_open && (is_full || &world.models[i] == touched || draw(3) == 0))
            expect_extent(&world.models[i]);
    for (size_t i = 0; i < BLOCKS; i++)
        if (world.blocks[i].p)
            expect_block(&world.blocks[i]);
    expect(api_stats(world.dev).limbo_count == 0);
}

/* ---- operations ---- */

static void do_open(struct model *m) {
    world.what = "open";
    *m = (struct model){.is_open = 1, .reserve = draw(RESERVE_MOST), .least = draw(4)};
    uint32_t flags = draw(2) ? ACRE__CHUNK_SHAREABLE : 0;
    api_ok(acre__extent_open(&m->extent, world.dev, flags, m->reserve * world.unit,
                             world.unit << draw(3), m->least * world.unit));
    m->at = m->extent.range.at;
    m->least = m->least ? m->least : 1;
}

static void do_move_end(struct model *m) {
    world.what = "move end";
    acre__extent_move_end(&m->moved);
    for (size_t i = 0; i < m->old_mapped; i++) {
        int is_other = 0; /* another extent uses the addresses now */
        for (size_t k = 0; k < EXTENTS; k++)
            is_other |= &world.models[k] != m && world.models[k].is_open &&
                        m->old_at + i * world.unit - world.models[k].at <
                            world.models[k].mapped * world.unit;
        expect(is_other || !space_handle_at(world.dev, m->old_at + i * world.unit));
    }
    m->is_moving = 0;
}

static void do_close(struct model *m) {
    if (m->is_moving)
        do_move_end(m);
    world.what = "close";
    acre__extent_close(&m->extent);
    m->is_open = 0;
}

static void do_grow(struct model *m) {
    world.what = "grow";
    size_t to = draw(UNITS + 8), bytes = to * world.unit - (to ? draw(world.unit) : 0);
    size_t more = to > m->mapped ? to - m->mapped : 0;
    if (more) {
        more = more < m->least ? m->least : more;
        more = more > m->reserve - m->mapped ? m->reserve - m->mapped : more;
    }
    acre_status wanted = to > m->mapped && to > m->reserve ? ACRE_E_ADDRESS_SPACE : ACRE_OK;
    uint64_t count, has, cached;
    acre__chunk_count(world.dev, &count, &has, &cached);
    uint64_t used = world.whole - space_free_bytes(world.dev) - cached;
    if (wanted == ACRE_OK && used + more * world.unit > world.whole)
        wanted = ACRE_E_DEVICE_MEMORY;
    acre_status status = acre__extent_grow(&m->extent, bytes);
    if (status != wanted)
        fail_msg("step %d: growing from %zu to %zu units: got %s, expected %s: %s", world.step,
                 m->mapped, to, acre_status_name(status), acre_status_name(wanted),
                 acre_last_detail());
    if (status || !more)
        return;
    size_t at = m->mapped;
    m->mapped += more;
    for (size_t i = 0, unit = 0; i < m->extent.count; i++)
        for (size_t k = 0; k < m->extent.mappings[i]->chunk->bytes / world.unit; k++, unit++)
            if (unit >= at && unit < UNITS)
                m->chunk[unit] = m->extent.mappings[i]->chunk->id;
    for (; at < m->mapped; at++) {
        m->word[at] = ++world.words;
        unit_put(m->at + at * world.unit, m->word[at]);
    }
}

static void do_shrink(struct model *m) {
    world.what = "shrink";
    size_t bytes = draw((m->mapped + 1) * world.unit), keep = m->mapped;
    for (;;) { /* whole chunks from the end */
        size_t first = keep;
        while (first > 0 && m->chunk[first - 1] == m->chunk[keep - 1])
            first--;
        if (!keep || first * world.unit < bytes)
            break;
        keep = first;
    }
    expect(acre__extent_shrink(&m->extent, bytes) == (m->mapped - keep) * world.unit);
    m->mapped = keep;
}

static void do_extend(struct model *m) {
    world.what = "extend";
    size_t to = m->reserve + draw(6);
    int is_done = acre__extent_extend(&m->extent, to * world.unit - (to ? draw(world.unit) : 0));
    expect(is_done || to > m->reserve || !m->reserve);
    if (is_done && to > m->reserve)
        m->reserve = to;
}

static void do_trim_addresses(struct model *m) {
    world.what = "trim addresses";
    size_t to = draw(m->reserve + 3);
    acre__extent_trim_addresses(&m->extent, to * world.unit);
    to = to < m->mapped ? m->mapped : to;
    m->reserve = to < m->reserve ? to : m->reserve;
}

static void do_move(struct model *m) {
    if (m->is_moving) {
        if (m->old_mapped && m->mapped) { /* both addresses map the same memory */
            size_t both = m->old_mapped < m->mapped ? m->old_mapped : m->mapped;
            size_t i = draw(both);
            if (unit_has(m->old_at + i * world.unit, m->word[i])) {
                m->word[i] = ++world.words;
                unit_put(m->old_at + i * world.unit, m->word[i]);
            } else {
                fail_msg("step %d: the contents differ at the old address", world.step);
            }
        }
        do_move_end(m);
        return;
    }
    world.what = "move";
    size_t to = 1 + draw(RESERVE_MOST);
    api_ok(acre__extent_move_begin(&m->extent, to * world.unit, &m->moved));
    m->is_moving = 1;
    m->old_at = m->at;
    m->old_reserve = m->reserve;
    m->old_mapped = m->mapped;
    m->reserve = to < m->mapped ? m->mapped : to;
    m->at = m->extent.range.at;
    expect(!m->old_reserve || m->at != m->old_at);
}

static void do_access(struct model *m) {
    world.what = "access";
    api_ok(acre__extent_set_access(&m->extent, world.dev, CU_MEM_ACCESS_FLAGS_PROT_READ));
    if (m->reserve)
        expect(space_access_at(world.dev, m->at, 0) == (m->mapped ? 1 : -1));
    api_ok(acre__extent_set_access(&m->extent, world.dev, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

static void do_block(struct block *block) {
    size_t bytes = 8 * (1 + draw(draw(2) ? world.unit / 8 : world.unit)); /* up to 8 units */
    void *p = block->p;
    world.what = "block";
    if (p && draw(4) == 0) {
        api_ok(acre_mem_free(world.dev, p));
        block->p = NULL;
        return;
    }
    acre_status status = acre_mem_realloc(world.dev, p, bytes, NULL, &p);
    if (status == ACRE_E_DEVICE_MEMORY)
        return;
    api_ok(status);
    if (!block->p)
        block->word = ++world.words;
    else
        expect(space_read(world.dev, (uintptr_t)p) == block->word);
    if (block->p && bytes >= block->bytes)
        expect(space_read(world.dev, (uintptr_t)p + block->bytes - 8) == ~block->word);
    block->p = p;
    block->bytes = bytes;
    block_put(block);
}

static void do_trim(void) {
    world.what = "trim";
    api_ok(acre_trim(world.dev));
    uint64_t count, bytes, cached;
    acre__chunk_count(world.dev, &count, &bytes, &cached);
    expect(cached == 0);
}

/* ---- running ---- */

static void step(void) {
    struct model *m = &world.models[draw(EXTENTS)];
    size_t what = draw(20);
    if (what == 0)
        do_trim();
    else if (what < 4)
        do_block(&world.blocks[draw(BLOCKS)]);
    else if (!m->is_open)
        do_open(m);
    else if (what < 9)
        do_grow(m);
    else if (what < 12 && !m->is_moving)
        do_shrink(m);
    else if (what < 14)
        do_extend(m);
    else if (what < 16)
        do_trim_addresses(m);
    else if (what < 18)
        do_move(m);
    else if (what < 19)
        do_access(m);
    else
        do_close(m);
    expect_all(m);
}

static void run(uint64_t seed, const char *cache_bytes, const char *address_bytes) {
    setenv("ACRE_CHUNK_CACHE_BYTES", cache_bytes, 1);
    setenv("ACRE_ADDRESS_BYTES", address_bytes, 1);
    world = (struct world){.random = seed};
    world.dev = space_open_soft(UNITS * 2 * MIB, 1, 0);
    world.unit = acre__chunk_unit(world.dev, 0);
    world.whole = space_free_bytes(world.dev);
    for (world.step = 0; world.step < STEPS; world.step++)
        step();
    for (size_t i = 0; i < EXTENTS; i++)
        if (world.models[i].is_open)
            do_close(&world.models[i]);
    for (size_t i = 0; i < BLOCKS; i++)
        api_ok(acre_mem_free(world.dev, world.blocks[i].p));
    space_close_empty(world.dev, world.whole);
}

TEST(space_agrees_with_a_model_of_units) {
    const char *const caches[] = {"8MiB", "0", "64MiB", "2MiB"};
    const char *const addresses[] = {"128MiB", "8MiB", "1GiB", "40MiB"};
    uint64_t seeds = random_seed("space");
    for (size_t i = 0; i < SEEDS; i++)
        run(random_draw(&seeds, UINT64_MAX), caches[i], addresses[i]);
}

int main(void) {
    return tests_run("space_model");
}
