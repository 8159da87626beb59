/* libacre_dlsym.so: a gate for systems whose dynamic linker is too old for the audit library. It is
 * preloaded and exports dlsym and dlvsym. A function of the driver or of NVML that they find is
 * replaced by its hook.
 * It does not see objects that were loaded with RTLD_DEEPBIND: those find the C library's dlsym.
 *
 * RTLD_NEXT means "after the object that calls dlsym", so a name that is none of NVIDIA's must
 * reach the real function by a jump, with the caller's return address. Hence assembler.
 *
 * Locks: none. */
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "elf_find.h"

/* Of libacre_shim.so. */
extern void *acre_shim_swap(void *function);
extern void *acre_shim_swap_nvml(void *function);

static void *gate_swap(const char *name, void *function) {
    return name[0] == 'n' ? acre_shim_swap_nvml(function) : acre_shim_swap(function);
}

/* The real functions; at first, code that finds them. Used by the assembler code below. */
extern char acre__gate_first_dlsym[], acre__gate_first_dlvsym[];
__attribute__((visibility("hidden"))) void *acre__gate_dlsym = acre__gate_first_dlsym;
__attribute__((visibility("hidden"))) void *acre__gate_dlvsym = acre__gate_first_dlvsym;
void acre__gate_begin(void);
void *acre__gate_hooked_dlsym(void *library, const char *name);
void *acre__gate_hooked_dlvsym(void *library, const char *name, const char *version);

static int gate_look(struct dl_phdr_info *info, size_t bytes, void *user) {
    (void)bytes, (void)user;
    if (!acre__elf_is_named(info->dlpi_name, "libc.so.6") &&
        !acre__elf_is_named(info->dlpi_name, "libdl.so.2"))
        return 0;
    struct link_map object = {.l_addr = info->dlpi_addr};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            object.l_ld = (ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
    void *dlsym_found = acre__elf_find(&object, "dlsym");
    void *dlvsym_found = acre__elf_find(&object, "dlvsym");
    if (!dlsym_found || !dlvsym_found)
        return 0;
    __atomic_store_n(&acre__gate_dlvsym, dlvsym_found, __ATOMIC_RELAXED);
    __atomic_store_n(&acre__gate_dlsym, dlsym_found, __ATOMIC_RELAXED);
    return 1;
}

/* Several threads may do this at the same time, with the same result. */
void acre__gate_begin(void) {
    if (!dl_iterate_phdr(gate_look, NULL))
        abort(); /* neither library is loaded, so nobody can have called dlsym */
}

void *acre__gate_hooked_dlsym(void *library, const char *name) {
    void *(*real)(void *, const char *);
    if (acre__gate_dlsym == (void *)acre__gate_first_dlsym)
        acre__gate_begin();
    memcpy(&real, &acre__gate_dlsym, sizeof real);
    return gate_swap(name, real(library, name));
}

void *acre__gate_hooked_dlvsym(void *library, const char *name, const char *version) {
    void *(*real)(void *, const char *, const char *);
    if (acre__gate_dlvsym == (void *)acre__gate_first_dlvsym)
        acre__gate_begin();
    memcpy(&real, &acre__gate_dlvsym, sizeof real);
    return gate_swap(name, real(library, name, version));
}

/* NAME: if the second argument begins with cu or nvml and a capital letter, continues at HOOKED,
 * else at the address in REAL. FIRST: calls acre__gate_begin with all arguments kept, then
 * continues at REAL. */
#if defined(__x86_64__)
#define GATE_FUNCTION(NAME, HOOKED, REAL, FIRST)                                                   \
    asm(".text\n"                                                                                  \
        ".globl " NAME "\n.type " NAME ", @function\n" NAME ":\n"                                  \
        "  test %rdi, %rdi\n  je 1f\n  cmp $-1, %rdi\n  je 1f\n"                                   \
        "  cmpb $'c', (%rsi)\n  jne 2f\n"                                                          \
        "  cmpb $'u', 1(%rsi)\n  jne 1f\n"                                                         \
        "  movzbl 2(%rsi), %eax\n  jmp 3f\n"                                                       \
        "2: cmpb $'n', (%rsi)\n  jne 1f\n  cmpb $'v', 1(%rsi)\n  jne 1f\n"                         \
        "  cmpb $'m', 2(%rsi)\n  jne 1f\n  cmpb $'l', 3(%rsi)\n  jne 1f\n"                         \
        "  movzbl 4(%rsi), %eax\n"                                                                 \
        "3: subl $'A', %eax\n  cmpl $25, %eax\n  ja 1f\n"                                          \
        "  jmp " HOOKED "\n"                                                                       \
        "1: jmp *" REAL "(%rip)\n"                                                                 \
        ".size " NAME ", . - " NAME "\n"                                                           \
        ".hidden " FIRST "\n.globl " FIRST "\n" FIRST ":\n"                                        \
        "  push %rdi\n  push %rsi\n  push %rdx\n"                                                  \
        "  call acre__gate_begin\n"                                                                \
        "  pop %rdx\n  pop %rsi\n  pop %rdi\n"                                                     \
        "  jmp *" REAL "(%rip)\n")
#elif defined(__aarch64__)
#define GATE_FUNCTION(NAME, HOOKED, REAL, FIRST)                                                   \
    asm(".text\n"                                                                                  \
        ".globl " NAME "\n.type " NAME ", @function\n" NAME ":\n"                                  \
        "  hint 34\n  cbz x0, 1f\n  cmn x0, 1\n  b.eq 1f\n"                                        \
        "  ldrb w9, [x1]\n  cmp w9, 'c'\n  b.ne 2f\n"                                              \
        "  ldrb w9, [x1, 1]\n  cmp w9, 'u'\n  b.ne 1f\n"                                           \
        "  ldrb w9, [x1, 2]\n  b 3f\n"                                                             \
        "2: cmp w9, 'n'\n  b.ne 1f\n"                                                              \
        "  ldrb w9, [x1, 1]\n  cmp w9, 'v'\n  b.ne 1f\n"                                           \
        "  ldrb w9, [x1, 2]\n  cmp w9, 'm'\n  b.ne 1f\n"                                           \
        "  ldrb w9, [x1, 3]\n  cmp w9, 'l'\n  b.ne 1f\n"                                           \
        "  ldrb w9, [x1, 4]\n"                                                                     \
        "3: sub w9, w9, 'A'\n  cmp w9, 25\n  b.hi 1f\n"                                            \
        "  b " HOOKED "\n"                                                                         \
        "1: adrp x16, " REAL "\n  ldr x16, [x16, :lo12:" REAL "]\n  br x16\n"                      \
        ".size " NAME ", . - " NAME "\n"                                                           \
        ".hidden " FIRST "\n.globl " FIRST "\n" FIRST ":\n"                                        \
        "  hint 34\n  stp x29, x30, [sp, -48]!\n  stp x0, x1, [sp, 16]\n  str x2, [sp, 32]\n"      \
        "  bl acre__gate_begin\n"                                                                  \
        "  ldr x2, [sp, 32]\n  ldp x0, x1, [sp, 16]\n  ldp x29, x30, [sp], 48\n"                   \
        "  adrp x16, " REAL "\n  ldr x16, [x16, :lo12:" REAL "]\n  br x16\n")
#else
#error "gate_preload.c has no code for this processor"
#endif

GATE_FUNCTION("dlsym", "acre__gate_hooked_dlsym", "acre__gate_dlsym", "acre__gate_first_dlsym");
GATE_FUNCTION("dlvsym", "acre__gate_hooked_dlvsym", "acre__gate_dlvsym", "acre__gate_first_dlvsym");
