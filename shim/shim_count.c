/* See shim_count.h.
 *
 * Each function has a counter and an address to continue at. At first that address is
 * acre__count_first, which finds the driver's function and creates the counter in the file of
 * `acre run`. A call that another thread makes at that moment may be missing from the count. */
#include "shim_count.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "ledger_record.h"
#include "shim_hooks.h"

#define COUNT_HIDDEN __attribute__((visibility("hidden")))

enum {
#define COUNT_NUMBER(symbol) COUNT_##symbol,
    SHIM_COUNTED(COUNT_NUMBER)
#undef COUNT_NUMBER
        COUNT_ALL
};

static const char *const count_names[COUNT_ALL] = {
#define COUNT_NAME(symbol) #symbol,
    SHIM_COUNTED(COUNT_NAME)
#undef COUNT_NAME
};

void acre__count_first(void);
void *acre__count_find(unsigned number);

static _Atomic uint64_t count_own[COUNT_ALL]; /* until there is a record, and without a report */

/* Used by the assembler code below. */
COUNT_HIDDEN _Atomic uint64_t *acre__count_at[COUNT_ALL] = {
#define COUNT_OWN(symbol) &count_own[COUNT_##symbol],
    SHIM_COUNTED(COUNT_OWN)
#undef COUNT_OWN
};
COUNT_HIDDEN shim_function acre__count_to[COUNT_ALL] = {
#define COUNT_FIRST(symbol) acre__count_first,
    SHIM_COUNTED(COUNT_FIRST)
#undef COUNT_FIRST
};

/* For a function that this driver lacks. */
static CUresult count_not_found(void) {
    return CUDA_ERROR_NOT_FOUND;
}

/* Returns where the first call of a function continues. */
COUNT_HIDDEN void *acre__count_find(unsigned number) {
    void *driver = acre__shim_driver((enum shim_hook)(SHIM_HOOK_COUNT + number));
    shim_function to;
    if (!driver)
        return (void *)count_not_found;
    _Atomic uint64_t *counter = acre__record_counter(count_names[number]);
    if (counter) {
        __atomic_store_n(&acre__count_at[number], counter, __ATOMIC_RELEASE);
        atomic_fetch_add_explicit(
            counter, atomic_exchange_explicit(&count_own[number], 0, memory_order_relaxed),
            memory_order_relaxed);
    }
    memcpy(&to, &driver, sizeof to);
    __atomic_store_n(&acre__count_to[number], to, __ATOMIC_RELEASE);
    return driver;
}

/* ---- hooks that are counted, too ---- */

static const struct acre__driver *count_inner; /* set once, before any thread sees the table */

void acre__count_call(const char *name) {
    _Atomic uint64_t *counter = acre__record_counter(name);
    if (counter)
        atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* X(name, params, args), as in driver_list.h. */
#define COUNT_HOOKS(X)                                                                             \
    X(cuModuleLoadData, (CUmodule * module_out, const void *image), (module_out, image))           \
    X(cuModuleLoadDataEx,                                                                          \
      (CUmodule * module_out, const void *image, unsigned int count, CUjit_option *options,        \
       void **values),                                                                             \
      (module_out, image, count, options, values))                                                 \
    X(cuGraphInstantiateWithFlags,                                                                 \
      (CUgraphExec * exec_out, CUgraph graph, unsigned long long flags), (exec_out, graph, flags))

#define COUNT_HOOK(name, params, args)                                                             \
    static CUresult count_hook_##name params {                                                     \
        acre__count_call(#name);                                                                   \
        return count_inner->name args;                                                             \
    }
COUNT_HOOKS(COUNT_HOOK)

void acre__count_wrap(struct acre__driver *table, const struct acre__driver *inner) {
    count_inner = inner;
#define COUNT_REPLACE(name, params, args) table->name = count_hook_##name;
    COUNT_HOOKS(COUNT_REPLACE)
#undef COUNT_REPLACE
}

void acre__count_forget(void) {
    for (unsigned i = 0; i < COUNT_ALL; i++) {
        atomic_store_explicit(&count_own[i], 0, memory_order_relaxed);
        __atomic_store_n(&acre__count_at[i], &count_own[i], __ATOMIC_RELAXED);
        __atomic_store_n(&acre__count_to[i], acre__count_first, __ATOMIC_RELAXED);
    }
}

/* acre__count_code NAME: adds 1 to the counter of NAME and continues at its address, with its
 * number in a register that no parameter uses.
 *
 * acre__count_first: calls acre__count_find with all parameters kept, then continues at the result.
 * Those in vector registers are kept, too. */
/* clang-format off */
#if defined(__x86_64__)
asm(".text\n"
    ".set acre__count_number, 0\n"
    ".macro acre__count_code name\n"
    ".globl \\name\n.type \\name, @function\n"
    ".globl acre__count_\\name\n.hidden acre__count_\\name\n"
    ".p2align 4\n"
    "\\name:\nacre__count_\\name:\n"
    "  .cfi_startproc\n  endbr64\n"
    "  movq acre__count_at + 8 * acre__count_number(%rip), %r11\n"
    "  lock incq (%r11)\n"
    "  movl $acre__count_number, %r11d\n"
    "  jmp *acre__count_to + 8 * acre__count_number(%rip)\n"
    "  .cfi_endproc\n"
    ".size \\name, . - \\name\n"
    ".set acre__count_number, acre__count_number + 1\n"
    ".endm\n"
    ".hidden acre__count_first\n.globl acre__count_first\n.type acre__count_first, @function\n"
    "acre__count_first:\n"
    "  endbr64\n"
    "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n  push %r9\n  push %rax\n"
    "  sub $128, %rsp\n"
    "  movups %xmm0, (%rsp)\n  movups %xmm1, 16(%rsp)\n"
    "  movups %xmm2, 32(%rsp)\n  movups %xmm3, 48(%rsp)\n"
    "  movups %xmm4, 64(%rsp)\n  movups %xmm5, 80(%rsp)\n"
    "  movups %xmm6, 96(%rsp)\n  movups %xmm7, 112(%rsp)\n"
    "  movl %r11d, %edi\n  call acre__count_find\n  movq %rax, %r11\n"
    "  movups (%rsp), %xmm0\n  movups 16(%rsp), %xmm1\n"
    "  movups 32(%rsp), %xmm2\n  movups 48(%rsp), %xmm3\n"
    "  movups 64(%rsp), %xmm4\n  movups 80(%rsp), %xmm5\n"
    "  movups 96(%rsp), %xmm6\n  movups 112(%rsp), %xmm7\n"
    "  add $128, %rsp\n"
    "  pop %rax\n  pop %r9\n  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n"
    "  jmp *%r11\n"
    ".size acre__count_first, . - acre__count_first\n"
#elif defined(__aarch64__)
asm(".text\n"
    ".set acre__count_number, 0\n"
    ".macro acre__count_code name\n"
    ".globl \\name\n.type \\name, %function\n"
    ".globl acre__count_\\name\n.hidden acre__count_\\name\n"
    ".p2align 4\n"
    "\\name:\nacre__count_\\name:\n"
    "  .cfi_startproc\n  hint 34\n"
    "  adrp x16, acre__count_at\n  add x16, x16, :lo12:acre__count_at\n"
    "  ldr x16, [x16, 8 * acre__count_number]\n"
    "1: ldxr x17, [x16]\n  add x17, x17, 1\n  stxr w9, x17, [x16]\n  cbnz w9, 1b\n"
    "  mov x17, acre__count_number\n"
    "  adrp x16, acre__count_to\n  add x16, x16, :lo12:acre__count_to\n"
    "  ldr x16, [x16, 8 * acre__count_number]\n"
    "  br x16\n"
    "  .cfi_endproc\n"
    ".size \\name, . - \\name\n"
    ".set acre__count_number, acre__count_number + 1\n"
    ".endm\n"
    ".hidden acre__count_first\n.globl acre__count_first\n.type acre__count_first, %function\n"
    "acre__count_first:\n"
    "  hint 34\n"
    "  stp x29, x30, [sp, -224]!\n  mov x29, sp\n"
    "  stp x0, x1, [sp, 16]\n  stp x2, x3, [sp, 32]\n  stp x4, x5, [sp, 48]\n"
    "  stp x6, x7, [sp, 64]\n  str x8, [sp, 80]\n"
    "  stp q0, q1, [sp, 96]\n  stp q2, q3, [sp, 128]\n"
    "  stp q4, q5, [sp, 160]\n  stp q6, q7, [sp, 192]\n"
    "  mov w0, w17\n  bl acre__count_find\n  mov x16, x0\n"
    "  ldp q6, q7, [sp, 192]\n  ldp q4, q5, [sp, 160]\n"
    "  ldp q2, q3, [sp, 128]\n  ldp q0, q1, [sp, 96]\n"
    "  ldr x8, [sp, 80]\n  ldp x6, x7, [sp, 64]\n"
    "  ldp x4, x5, [sp, 48]\n  ldp x2, x3, [sp, 32]\n  ldp x0, x1, [sp, 16]\n"
    "  ldp x29, x30, [sp], 224\n"
    "  br x16\n"
    ".size acre__count_first, . - acre__count_first\n"
#else
#error "shim_count.c has no code for this processor"
#endif
#define COUNT_CODE(symbol) "acre__count_code " #symbol "\n"
    SHIM_COUNTED(COUNT_CODE)
    ".purgem acre__count_code\n");
/* clang-format on */
