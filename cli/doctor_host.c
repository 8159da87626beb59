/* Checks of the host: limits, kernel settings, memory. The checks only read.
 *
 * A setting causes a warning if it is below the default of Debian or Ubuntu, or if it is known to
 * make acre's calls fail; never merely because more would be possible. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "doctor.h"

static const char host_area[] = "host";

bool doctor_read_line(const char *path, char *line, size_t room) {
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    bool read = fgets(line, (int)room, file) != NULL;
    fclose(file);
    if (read) {
        line[strcspn(line, "\n")] = '\0';
    }
    return read;
}

static bool host_read_number(const char *path, uint64_t *number) {
    char line[64];
    char *end;
    if (!doctor_read_line(path, line, sizeof line)) {
        return false;
    }
    errno = 0;
    unsigned long long value = strtoull(line, &end, 10);
    if (errno != 0 || end == line) {
        return false;
    }
    *number = value;
    return true;
}

/* Reads a line "Key:   123 kB" of /proc/meminfo, in bytes. */
static bool host_meminfo(const char *key, uint64_t *bytes) {
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file) {
        return false;
    }
    bool found = false;
    size_t length = strlen(key);
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length) == 0 && line[length] == ':') {
            *bytes = strtoull(line + length + 1, NULL, 10) * 1024;
            found = true;
        }
    }
    fclose(file);
    return found;
}

static void host_check_memlock(struct doctor *doctor) {
    struct rlimit limit;
    char text[CLI_NUMBER_BYTES];
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
        return;
    }
    if (limit.rlim_cur == RLIM_INFINITY) {
        doctor_add(doctor, host_area, "locked memory", DOCTOR_OK, NULL, "no limit");
        return;
    }
    /* The GPU driver ignores this limit when it pins memory; network cards and mlock obey it. */
    bool small = limit.rlim_cur < (UINT64_C(64) << 20) && doctor->gpu_rdma;
    doctor_add(doctor, host_area, "locked memory", small ? DOCTOR_WARN : DOCTOR_OK,
               small ? "ulimit -l unlimited, or memlock in /etc/security/limits.conf: network "
                       "cards register memory under this limit"
                     : NULL,
               "limit %s", cli_bytes(limit.rlim_cur, text));
}

static void host_check_files(struct doctor *doctor) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    bool small = limit.rlim_cur < 1024;
    doctor_add(doctor, host_area, "open files", small ? DOCTOR_WARN : DOCTOR_OK,
               small ? "ulimit -n 4096: every shared chunk of memory is an open file" : NULL,
               "limit %" PRIu64 ", can be raised to %" PRIu64, (uint64_t)limit.rlim_cur,
               (uint64_t)limit.rlim_max);
}

static void host_check_address_space(struct doctor *doctor) {
    struct rlimit limit;
    char text[CLI_NUMBER_BYTES];
    if (getrlimit(RLIMIT_AS, &limit) != 0) {
        return;
    }
    if (limit.rlim_cur == RLIM_INFINITY) {
        doctor_add(doctor, host_area, "addresses", DOCTOR_OK, NULL, "no limit");
    } else {
        doctor_add(doctor, host_area, "addresses", DOCTOR_WARN,
                   "ulimit -v unlimited: devices reserve far more addresses than memory",
                   "limit %s", cli_bytes(limit.rlim_cur, text));
    }
}

static void host_check_maps(struct doctor *doctor) {
    uint64_t count;
    if (!host_read_number("/proc/sys/vm/max_map_count", &count)) {
        doctor_add(doctor, host_area, "mappings", DOCTOR_WARN,
                   "mount /proc: other checks need it too", "vm.max_map_count cannot be read");
        return;
    }
    bool small = count < 65530; /* the kernel's default */
    doctor_add(doctor, host_area, "mappings", small ? DOCTOR_WARN : DOCTOR_OK,
               small ? "sysctl vm.max_map_count=65530, or more: each exported chunk and each host "
                       "chunk needs a mapping"
                     : NULL,
               "vm.max_map_count %" PRIu64, count);
}

static void host_check_overcommit(struct doctor *doctor) {
    uint64_t mode;
    if (!host_read_number("/proc/sys/vm/overcommit_memory", &mode)) {
        return;
    }
    static const char *const meaning[] = {"heuristic", "always", "never"};
    bool strict = mode == 2;
    doctor_add(doctor, host_area, "overcommit", strict ? DOCTOR_WARN : DOCTOR_OK,
               strict ? "sysctl vm.overcommit_memory=0: with 2, a soft device larger than free "
                        "memory may fail to open"
                      : NULL,
               "vm.overcommit_memory %" PRIu64 " (%s)", mode, mode < 3 ? meaning[mode] : "unknown");
}

static void host_check_huge_pages(struct doctor *doctor) {
    char line[128];
    if (!doctor_read_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line)) {
        doctor_add(doctor, host_area, "huge pages", DOCTOR_WARN,
                   "a kernel with transparent huge pages pins large memory several times faster",
                   "this kernel has no transparent huge pages");
        return;
    }
    bool off = strstr(line, "[never]") != NULL;
    char *open = strchr(line, '['), *close = strchr(line, ']');
    int length = open && close > open ? (int)(close - open - 1) : 0;
    doctor_add(doctor, host_area, "huge pages", off ? DOCTOR_WARN : DOCTOR_OK,
               off ? "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: large memory is "
                     "then pinned several times faster"
                   : NULL,
               "transparent: %.*s", length, length ? open + 1 : "");
}

static void host_check_shm(struct doctor *doctor) {
    struct statvfs fs;
    char all[CLI_NUMBER_BYTES], left[CLI_NUMBER_BYTES];
    if (statvfs("/dev/shm", &fs) != 0 || access("/dev/shm", W_OK) != 0) {
        doctor_add(doctor, host_area, "/dev/shm", DOCTOR_WARN,
                   "mount -t tmpfs tmpfs /dev/shm: programs that share memory by name need it",
                   "%s", strerror(errno));
        return;
    }
    uint64_t total = (uint64_t)fs.f_blocks * fs.f_frsize,
             free = (uint64_t)fs.f_bavail * fs.f_frsize;
    bool small = free < (UINT64_C(32) << 20);
    doctor_add(doctor, host_area, "/dev/shm", small ? DOCTOR_WARN : DOCTOR_OK,
               small ? "mount -o remount,size=1G /dev/shm; for a container --shm-size=1g" : NULL,
               "%s, %s free", cli_bytes(total, all), cli_bytes(free, left));
}

static void host_check_memory(struct doctor *doctor) {
    uint64_t total = 0, available = 0, limit = 0;
    char all[CLI_NUMBER_BYTES], left[CLI_NUMBER_BYTES];
    if (!host_meminfo("MemTotal", &total) || !host_meminfo("MemAvailable", &available)) {
        doctor_add(doctor, host_area, "memory", DOCTOR_WARN,
                   "mount /proc: other checks need it too", "/proc/meminfo cannot be read");
        return;
    }
    bool small = available < (UINT64_C(256) << 20);
    doctor_add(doctor, host_area, "memory", small ? DOCTOR_WARN : DOCTOR_OK,
               small ? "end other programs: soft devices take the memory that they use from here"
                     : NULL,
               "%s, %s free", cli_bytes(total, all), cli_bytes(available, left));
    /* In a container the limit of the control group applies. The kernel kills a process that
     * exceeds it; allocations do not fail. */
    if (host_read_number("/sys/fs/cgroup/memory.max", &limit) && limit < total) {
        bool tight = limit < (UINT64_C(512) << 20);
        doctor_add(doctor, host_area, "memory limit", tight ? DOCTOR_WARN : DOCTOR_OK,
                   tight ? "give the container more memory, or set ACRE_SOFT_BYTES below its limit"
                         : NULL,
                   "this control group may use %s", cli_bytes(limit, all));
    }
}

void doctor_check_host(struct doctor *doctor) {
    host_check_memory(doctor);
    host_check_address_space(doctor);
    host_check_memlock(doctor);
    host_check_files(doctor);
    host_check_maps(doctor);
    host_check_overcommit(doctor);
    host_check_huge_pages(doctor);
    host_check_shm(doctor);
}
