/* Checks of the driver and of every device: whether there is a GPU, whether this user may access
 * it, whether it opens, its capabilities, and whether events order its streams. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"

static const char driver_area[] = "driver";
static const char device_area[] = "device";

/* ---- the driver ------------------------------------------------------------------------------ */

/* Counts NVIDIA's (vendor 10de) display controllers and accelerators (class 03xxxx) on the PCI bus,
 * with or without a driver. */
static uint32_t driver_count_pci(void) {
    static const char folder[] = "/sys/bus/pci/devices";
    uint32_t count = 0;
    DIR *dir = opendir(folder);
    if (!dir) {
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[512], vendor[32], class[32];
        snprintf(path, sizeof path, "%s/%s/vendor", folder, entry->d_name);
        if (!doctor_read_line(path, vendor, sizeof vendor) || strcmp(vendor, "0x10de") != 0) {
            continue;
        }
        snprintf(path, sizeof path, "%s/%s/class", folder, entry->d_name);
        if (doctor_read_line(path, class, sizeof class) && strncmp(class, "0x03", 4) == 0) {
            count++;
        }
    }
    closedir(dir);
    return count;
}

static bool driver_is_gpu_node(const char *name) {
    return strcmp(name, "nvidiactl") == 0 || strcmp(name, "nvidia-uvm") == 0 ||
           (strncmp(name, "nvidia", 6) == 0 && name[6] >= '0' && name[6] <= '9');
}

/* Checks the device files and returns their number. */
static uint32_t driver_check_nodes(struct doctor *doctor) {
    uint32_t count = 0, closed = 0;
    bool uvm = false;
    char first_closed[300] = "";
    DIR *dir = opendir("/dev");
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        char path[300];
        if (!driver_is_gpu_node(entry->d_name)) {
            continue;
        }
        count++;
        uvm = uvm || strcmp(entry->d_name, "nvidia-uvm") == 0;
        snprintf(path, sizeof path, "/dev/%s", entry->d_name);
        if (access(path, R_OK | W_OK) != 0 && closed++ == 0) {
            memcpy(first_closed, path, sizeof first_closed);
        }
    }
    if (dir) {
        closedir(dir);
    }
    if (count == 0) {
        return 0;
    }
    if (closed) {
        doctor_add(doctor, driver_area, "device files", DOCTOR_PROBLEM,
                   "join the group that owns /dev/nvidia* (often video or render), or start the "
                   "container with access to them",
                   "%s cannot be opened for reading and writing", first_closed);
    } else if (!uvm) {
        doctor_add(doctor, driver_area, "device files", DOCTOR_PROBLEM,
                   "nvidia-modprobe -u -c=0 (as root)", "/dev/nvidia-uvm is missing");
    } else {
        doctor_add(doctor, driver_area, "device files", DOCTOR_OK, NULL,
                   "%" PRIu32 " of /dev/nvidia*, readable and writable", count);
    }
    return count;
}

static bool driver_in_container(void) {
    return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0 ||
           getenv("container") != NULL;
}

static void driver_check_module(struct doctor *doctor, bool hardware) {
    char line[256];
    if (doctor_read_line("/proc/driver/nvidia/version", line, sizeof line)) {
        const char *text = strncmp(line, "NVRM version: ", 14) == 0 ? line + 14 : line;
        doctor_add(doctor, driver_area, "kernel module", DOCTOR_OK, NULL, "%s", text);
    } else if (hardware) {
        doctor_add(doctor, driver_area, "kernel module", DOCTOR_PROBLEM,
                   "modprobe nvidia (as root); after a kernel update rebuild the module",
                   "there is a GPU, but its kernel module is not loaded");
    }
}

static void driver_check_hidden(struct doctor *doctor) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible && (*visible == '\0' || strcmp(visible, "-1") == 0)) {
        doctor_add(doctor, driver_area, "visible devices", DOCTOR_WARN,
                   "unset CUDA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES hides every GPU");
    } else if (visible) {
        doctor_add(doctor, driver_area, "visible devices", DOCTOR_OK, NULL,
                   "CUDA_VISIBLE_DEVICES=%s", visible);
    }
}

/* Checks the driver library. A missing GPU is a problem only if the machine has the hardware. */
static void driver_check_library(struct doctor *doctor, bool hardware) {
    uint32_t count = 0;
    acre_status status = acre_device_count("cuda", &count);
    char *detail = cli_format("%s", cli_detail());
    const char *reason = *detail ? detail : acre_status_text(status);
    enum doctor_result absent = hardware ? DOCTOR_PROBLEM : DOCTOR_WARN;
    if (status == ACRE_OK && count > 0) {
        doctor->gpu_count = count;
        doctor_add(doctor, driver_area, "GPU", DOCTOR_OK, NULL,
                   "the driver library reports %" PRIu32 " GPU%s", count, count == 1 ? "" : "s");
    } else if (status == ACRE_OK || status == ACRE_E_NO_DEVICE) {
        doctor_add(doctor, driver_area, "GPU", absent,
                   hardware
                       ? "nvidia-smi shows whether the driver finds it; look for NVRM lines in "
                         "dmesg"
                       : "nothing to do for soft devices: they work without a GPU",
                   "the driver library is installed but finds no GPU (%s)",
                   status == ACRE_OK ? "its device count is 0" : reason);
    } else if (status == ACRE_E_NO_DRIVER) {
        doctor_add(doctor, driver_area, "GPU", absent,
                   driver_in_container()
                       ? "to use a GPU, start the container with it (docker run --gpus all); soft "
                         "devices work without"
                       : "to use a GPU, install NVIDIA's driver; soft devices work without",
                   "no driver library: %s", reason);
    } else if (status == ACRE_E_DRIVER_OLD) {
        doctor_add(doctor, driver_area, "GPU", DOCTOR_PROBLEM,
                   "update NVIDIA's driver; soft devices work without", "the driver is too old: %s",
                   reason);
    } else {
        doctor_add(doctor, driver_area, "GPU", DOCTOR_PROBLEM, cli_advice(status), "%s: %s",
                   acre_status_text(status), reason);
    }
    free(detail);
}

void doctor_check_driver(struct doctor *doctor) {
    uint32_t pci = driver_count_pci();
    uint32_t nodes = driver_check_nodes(doctor);
    bool hardware = pci > 0 || nodes > 0;
    if (pci) {
        doctor_add(doctor, driver_area, "PCI bus", DOCTOR_OK, NULL, "%" PRIu32 " NVIDIA GPU%s", pci,
                   pci == 1 ? "" : "s");
    }
    driver_check_module(doctor, hardware);
    driver_check_hidden(doctor);
    driver_check_library(doctor, hardware);
}

/* ---- devices --------------------------------------------------------------------------------- */

static void device_capability(struct doctor *doctor, const char *device, const char *what, bool has,
                              const char *yes, const char *no, const char *advice) {
    char *name = cli_format("%s %s", device, what);
    doctor_add(doctor, device_area, name, has || !advice ? DOCTOR_OK : DOCTOR_WARN,
               has ? NULL : advice, "%s", has ? yes : no);
    free(name);
}

static void device_check_facts(struct doctor *doctor, const char *name,
                               const acre_device_info *info) {
    bool gpu = strcmp(info->driver, "cuda") == 0;
    char all[CLI_NUMBER_BYTES], left[CLI_NUMBER_BYTES];
    char *memory = cli_format("%s memory", name);
    bool full = info->free_bytes < info->total_bytes / 20;
    doctor_add(doctor, device_area, memory, full ? DOCTOR_WARN : DOCTOR_OK,
               full ? "end the programs that hold it; nvidia-smi lists them" : NULL, "%s, %s free",
               cli_bytes(info->total_bytes, all), cli_bytes(info->free_bytes, left));
    free(memory);
    device_capability(doctor, name, "vmm", info->has_vmm,
                      "physical memory can be mapped to reserved addresses",
                      "physical memory cannot be mapped to reserved addresses: arrays grow by "
                      "copying",
                      "expected on some virtual GPUs and old drivers; else update the driver");
    device_capability(doctor, name, "fd sharing", info->has_fd_sharing,
                      "memory can be shared between processes by file descriptor",
                      "memory cannot be shared between processes by file descriptor",
                      "expected on some virtual GPUs; else update the driver");
    device_capability(doctor, name, "fabric", info->has_fabric,
                      "memory can be shared over the fabric, if permitted",
                      gpu ? "no fabric (needs NVLink between machines)"
                          : "no fabric: a soft device has none",
                      NULL);
    device_capability(
        doctor, name, "rdma", info->has_rdma, "other PCI devices can access its memory",
        gpu ? "other PCI devices cannot access its memory" : "no RDMA: a soft device has none",
        NULL);
    doctor->gpu_rdma = doctor->gpu_rdma || (gpu && info->has_rdma);
}

/* Makes stream `second` wait for an event on stream `first`. When an event on `second` is complete,
 * the event on `first` must be complete too. *step names the current step. */
static acre_status device_order(acre_device *device, acre_stream *first, acre_stream *second,
                                acre_event *marked, acre_event *last, const char **step) {
    acre_status status = ACRE_OK;
#define ORDER_TRY(text, call)                                                                      \
    *step = text;                                                                                  \
    if ((status = (call)) != ACRE_OK) {                                                            \
        return status;                                                                             \
    }
    ORDER_TRY("create a stream", acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, first))
    ORDER_TRY("create a second stream",
              acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, second))
    ORDER_TRY("create an event", acre_event_create(device, ACRE_EVENT_DEFAULT, marked))
    ORDER_TRY("create a second event", acre_event_create(device, ACRE_EVENT_DEFAULT, last))
    ORDER_TRY("record an event", acre_event_record(device, *marked, *first))
    ORDER_TRY("make a stream wait", acre_stream_wait(device, *second, *marked))
    ORDER_TRY("record a second event", acre_event_record(device, *last, *second))
    ORDER_TRY("wait for the second event", acre_event_sync(device, *last))
    ORDER_TRY("find the first event complete", acre_event_query(device, *marked))
#undef ORDER_TRY
    return ACRE_OK;
}

static void device_check_order(struct doctor *doctor, const char *name, acre_device *device) {
    acre_stream first = NULL, second = NULL;
    acre_event marked = NULL, last = NULL;
    const char *step = "";
    char text[CLI_NUMBER_BYTES];
    char *check = cli_format("%s order", name);
    uint64_t begin = cli_now_ns();
    acre_status status = device_order(device, &first, &second, &marked, &last, &step);
    uint64_t end = cli_now_ns();
    if (status == ACRE_OK) {
        doctor_add(doctor, device_area, check, DOCTOR_OK, NULL,
                   "two streams ordered by an event, in %s", cli_duration(end - begin, text));
    } else {
        doctor_add(doctor, device_area, check, DOCTOR_PROBLEM, cli_advice(status),
                   "could not %s: %s (%s)", step, acre_status_text(status), cli_detail());
    }
    free(check);
    if (last) {
        (void)acre_event_destroy(device, last);
    }
    if (marked) {
        (void)acre_event_destroy(device, marked);
    }
    (void)acre_stream_destroy(device, second);
    (void)acre_stream_destroy(device, first);
}

static void device_check(struct doctor *doctor, const char *name) {
    acre_device *device = NULL;
    acre_device_info info = {.struct_size = sizeof info};
    char text[CLI_NUMBER_BYTES], version[CLI_NUMBER_BYTES];
    char *check = cli_format("%s open", name);
    uint64_t begin = cli_now_ns();
    acre_status status = acre_open(name, NULL, &device);
    uint64_t end = cli_now_ns();
    if (status == ACRE_OK) {
        status = acre_device_get_info(device, &info);
    }
    if (status != ACRE_OK) {
        doctor_add(doctor, device_area, check, DOCTOR_PROBLEM, cli_advice(status),
                   "cannot open %s: %s (%s)", name, acre_status_text(status), cli_detail());
    } else {
        doctor->devices_opened++;
        doctor_add(doctor, device_area, check, DOCTOR_OK, NULL, "%s, driver %s, in %s", info.name,
                   cli_driver_version(info.driver_version, version),
                   cli_duration(end - begin, text));
        device_check_facts(doctor, name, &info);
        device_check_order(doctor, name, device);
    }
    free(check);
    (void)acre_close(device);
}

void doctor_check_devices(struct doctor *doctor) {
    static const char *const drivers[] = {"cuda", "soft"};
    for (size_t i = 0; i < 2; i++) {
        uint32_t count = 0;
        acre_status status = acre_device_count(drivers[i], &count);
        if (status != ACRE_OK && i == 1) { /* doctor_check_driver has reported that of "cuda" */
            doctor_add(doctor, device_area, "soft open", DOCTOR_PROBLEM, cli_advice(status),
                       "cannot open soft: %s (%s)", acre_status_text(status), cli_detail());
        }
        for (uint32_t n = 0; status == ACRE_OK && n < count; n++) {
            char *name = cli_format("%s:%" PRIu32, drivers[i], n);
            device_check(doctor, name);
            free(name);
        }
    }
}
