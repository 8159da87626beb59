/* Accounts of live memory: see accounts.h. A hash table with linear probing, at most half full. */
#include "accounts.h"

#include <stdlib.h>

#include "cli.h"

/* Returns the account of a value, or the free slot where it belongs. */
static struct account *account_place(const struct accounts *accounts, uint64_t value) {
    size_t i = (size_t)(value * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (accounts->room - 1);
    while (accounts->table[i].is_used && accounts->table[i].value != value) {
        i = (i + 1) & (accounts->room - 1);
    }
    return &accounts->table[i];
}

struct account *account_of(struct accounts *accounts, uint64_t value) {
    if (2 * (accounts->count + 1) > accounts->room) {
        struct accounts larger = {.room = accounts->room ? 2 * accounts->room : 64};
        larger.table = cli_alloc(larger.room * sizeof *larger.table);
        for (size_t i = 0; i < accounts->room; i++) {
            if (accounts->table[i].is_used) {
                *account_place(&larger, accounts->table[i].value) = accounts->table[i];
            }
        }
        free(accounts->table);
        accounts->table = larger.table;
        accounts->room = larger.room;
    }
    struct account *account = account_place(accounts, value);
    if (!account->is_used) {
        *account = (struct account){.value = value, .is_used = true};
        accounts->count++;
    }
    return account;
}

static int account_compare(const void *a, const void *b) {
    const struct account *x = a, *y = b;
    if (x->peak_bytes != y->peak_bytes) {
        return x->peak_bytes > y->peak_bytes ? -1 : 1;
    }
    return (x->value > y->value) - (x->value < y->value);
}

struct account *accounts_sorted(const struct accounts *accounts) {
    struct account *list = cli_alloc(accounts->count * sizeof *list);
    size_t count = 0;
    for (size_t i = 0; i < accounts->room; i++) {
        if (accounts->table[i].is_used) {
            list[count++] = accounts->table[i];
        }
    }
    qsort(list, count, sizeof *list, account_compare);
    return list;
}

void account_alloc(struct account *account, uint64_t bytes, bool is_new) {
    account->bytes += bytes;
    account->blocks++;
    account->allocations += is_new;
    account->allocated_bytes += bytes;
    account->peak_bytes =
        account->bytes > account->peak_bytes ? account->bytes : account->peak_bytes;
}

void account_free(struct account *account, uint64_t bytes) {
    account->bytes -= bytes;
    account->blocks--;
}

void accounts_end(struct accounts *accounts) {
    free(accounts->table);
    *accounts = (struct accounts){0};
}
