/* See elf_find.h. Only arithmetic on mapped memory: neither libc nor the dynamic linker is called,
 * since the audit library runs before either is ready. */
#include "elf_find.h"

#include <stddef.h>
#include <stdint.h>

struct elf_tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu_hash; /* NULL: none */
    const uint32_t *old_hash; /* DT_HASH; NULL: none */
};

static int elf_same(const char *a, const char *b) {
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

int acre__elf_is_named(const char *path, const char *file) {
    const char *last = path;
    for (const char *at = path; *at; at++) {
        if (*at == '/')
            last = at + 1;
    }
    return elf_same(last, file);
}

/* glibc has added the load address to these values on most machines, but not on all. */
static const void *elf_pointer(const struct link_map *object, ElfW(Addr) value) {
    uintptr_t address = value < object->l_addr ? value + object->l_addr : value;
    return (const void *)address;
}

static struct elf_tables elf_tables_of(const struct link_map *object) {
    struct elf_tables tables = {NULL, NULL, NULL, NULL};
    for (const ElfW(Dyn) *entry = object->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
        const void *pointer = elf_pointer(object, entry->d_un.d_ptr);
        switch (entry->d_tag) {
        case DT_SYMTAB:
            tables.symbols = pointer;
            break;
        case DT_STRTAB:
            tables.strings = pointer;
            break;
        case DT_GNU_HASH:
            tables.gnu_hash = pointer;
            break;
        case DT_HASH:
            tables.old_hash = pointer;
            break;
        default:
            break;
        }
    }
    return tables;
}

static int elf_is_match(const struct elf_tables *tables, uint32_t index, const char *name) {
    const ElfW(Sym) *symbol = tables->symbols + index;
    return symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
           elf_same(tables->strings + symbol->st_name, name);
}

int acre__elf_has_soname(const struct link_map *object, const char *name) {
    struct elf_tables tables = elf_tables_of(object);
    for (const ElfW(Dyn) *entry = object->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SONAME && tables.strings)
            return elf_same(tables.strings + entry->d_un.d_val, name);
    }
    return 0;
}

/* The table: {buckets, first symbol, words of the filter, shift}, filter, buckets, chains. A chain
 * ends with an odd hash. */
static uint32_t elf_find_gnu(const struct elf_tables *tables, const char *name) {
    const uint32_t *hash = tables->gnu_hash, count = hash[0], first = hash[1];
    const uint32_t *buckets = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chains = buckets + count;
    uint32_t wanted = 5381;
    for (const char *at = name; *at; at++)
        wanted = wanted * 33 + (unsigned char)*at;
    uint32_t index = count ? buckets[wanted % count] : 0;
    if (index < first)
        return 0;
    for (;; index++) {
        uint32_t has = chains[index - first];
        if ((has | 1) == (wanted | 1) && elf_is_match(tables, index, name))
            return index;
        if (has & 1)
            return 0;
    }
}

/* The table: {buckets, symbols}, buckets, chains. */
static uint32_t elf_find_old(const struct elf_tables *tables, const char *name) {
    const uint32_t *hash = tables->old_hash, count = hash[0], symbols = hash[1];
    for (uint32_t index = 1; count && index < symbols; index++) {
        if (elf_is_match(tables, index, name))
            return index;
    }
    return 0;
}

void *acre__elf_find(const struct link_map *object, const char *name) {
    struct elf_tables tables = elf_tables_of(object);
    if (!tables.symbols || !tables.strings)
        return NULL;
    uint32_t index = tables.gnu_hash   ? elf_find_gnu(&tables, name)
                     : tables.old_hash ? elf_find_old(&tables, name)
                                       : 0;
    return index ? (void *)(object->l_addr + tables.symbols[index].st_value) : NULL;
}
