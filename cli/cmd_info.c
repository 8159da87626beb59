/* acre info: lists all devices with their properties, GPUs first, then soft devices. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

struct info_item {
    acre_device_info info;
    struct cli_link link; /* bytes is 0 if not measured */
};

struct info_list {
    struct info_item *items;
    size_t count;
    bool measure; /* also measure copy bandwidths */
};

acre_status cli_device_look(const char *name, acre_device_info *info) {
    acre_device *device = NULL;
    *info = (acre_device_info){.struct_size = sizeof *info};
    acre_status status = acre_open(name, NULL, &device);
    if (status != ACRE_OK) {
        return status;
    }
    status = acre_device_get_info(device, info);
    if (status != ACRE_OK) {
        return status; /* does not close the device: that would replace the detail */
    }
    return acre_close(device);
}

char *cli_device_capabilities(const acre_device_info *info) {
    char *text = cli_format("%s", "");
#define INFO_ADD(key, title, field)                                                                \
    if (info->field) {                                                                             \
        char *longer = cli_format("%s%s%s", text, *text ? " " : "", title);                        \
        free(text);                                                                                \
        text = longer;                                                                             \
    }
    CLI_CAPABILITIES(INFO_ADD)
#undef INFO_ADD
    return text;
}

/* Formats a UUID as 8-4-4-4-12; NULL if the driver reported none. */
static char *info_uuid(const uint8_t uuid[16]) {
    static const uint8_t none[16];
    char hex[33];
    if (memcmp(uuid, none, sizeof none) == 0) {
        return NULL;
    }
    for (size_t i = 0; i < 16; i++) {
        snprintf(hex + 2 * i, 3, "%02x", uuid[i]);
    }
    return cli_format("%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

json_t *cli_device_json(const acre_device_info *info) {
    char version[CLI_NUMBER_BYTES];
    json_t *device = json_object();
    cli_json_set(device, "driver", cli_json_text(info->driver));
    cli_json_set(device, "ordinal", cli_json_number(info->ordinal));
    cli_json_set(device, "name", cli_json_text(info->name));
    cli_json_set(device, "bytes", cli_json_number(info->total_bytes));
    cli_json_set(device, "free_bytes", cli_json_number(info->free_bytes));
    cli_json_set(device, "granularity_bytes", cli_json_number(info->granularity_bytes));
    cli_json_set(device, "driver_version",
                 cli_json_text(cli_driver_version(info->driver_version, version)));
    cli_json_set(device, "compute_major", cli_json_number(info->compute_major));
    cli_json_set(device, "compute_minor", cli_json_number(info->compute_minor));
    cli_json_set(device, "multiprocessors", cli_json_number(info->multiprocessors));
    cli_json_set(device, "copy_engines", cli_json_number(info->copy_engines));
    bool has_bus = *info->bus_id && strcmp(info->driver, "soft") != 0; /* soft: invented */
    cli_json_set(device, "bus_id", has_bus ? cli_json_text(info->bus_id) : json_null());
    char *uuid = info_uuid(info->uuid);
    cli_json_set(device, "uuid", uuid ? cli_json_text(uuid) : json_null());
    free(uuid);
    json_t *capabilities = json_object();
#define INFO_ADD(key, title, field) cli_json_set(capabilities, key, json_boolean(info->field));
    CLI_CAPABILITIES(INFO_ADD)
#undef INFO_ADD
    cli_json_set(device, "capabilities", capabilities);
    return device;
}

/* Measures copies on a device. Prints a message on failure. */
static bool info_measure(const char *name, struct cli_link *link) {
    acre_device *device = NULL;
    const char *doing = "open";
    acre_status status = acre_open(name, NULL, &device);
    if (status == ACRE_OK) {
        status = cli_link_measure(device, false, link, &doing);
    }
    if (status == ACRE_OK) {
        doing = "close";
        status = acre_close(device);
    }
    if (status != ACRE_OK) {
        char *what = cli_format("cannot %s %s", doing, name);
        cli_say_failure(what, status);
        free(what);
        *link = (struct cli_link){0};
    }
    return status == ACRE_OK;
}

/* Reads the properties of one device and adds it. Prints a message on failure. */
static bool info_add(struct info_list *list, const char *name) {
    struct info_item item = {0};
    acre_status status = cli_device_look(name, &item.info);
    if (status != ACRE_OK) {
        char *what = cli_format("cannot open %s", name);
        cli_say_failure(what, status);
        free(what);
        return false;
    }
    bool measured = !list->measure || info_measure(name, &item.link);
    struct info_item *longer = cli_alloc((list->count + 1) * sizeof *longer);
    if (list->count) {
        memcpy(longer, list->items, list->count * sizeof *longer);
    }
    free(list->items);
    longer[list->count++] = item;
    list->items = longer;
    return measured;
}

/* Adds all devices of a driver. A missing GPU is reported but is not a failure. */
static bool info_add_driver(struct info_list *list, const char *driver) {
    uint32_t count = 0;
    acre_status status = acre_device_count(driver, &count);
    bool cuda = strcmp(driver, "cuda") == 0;
    if (cuda &&
        (status == ACRE_E_NO_DRIVER || status == ACRE_E_DRIVER_OLD || status == ACRE_E_NO_DEVICE)) {
        cli_say_reason("no GPU", status);
        return true;
    }
    if (status != ACRE_OK) {
        char *what = cli_format("cannot open %s", driver);
        cli_say_failure(what, status);
        free(what);
        return false;
    }
    if (cuda && count == 0) {
        cli_say("no GPU: the driver is installed but finds no device");
    }
    bool all = true;
    for (uint32_t i = 0; i < count; i++) {
        char *name = cli_format("%s:%" PRIu32, driver, i);
        all = info_add(list, name) && all;
        free(name);
    }
    return all;
}

static void info_speed_cell(struct cli_table *table, double speed) {
    if (speed > 0) {
        cli_table_cell(table, CLI_PLAIN, "%.1f", speed);
    } else {
        cli_table_cell(table, CLI_DIM, "-");
    }
}

static void info_print_table(const struct info_list *list) {
    static const char *const titles[] = {"DEVICE",    "NAME",     ">BYTES",       ">FREE",
                                         ">CHUNK",    ">DRIVER",  "CAPABILITIES", ">H2D GB/s",
                                         ">D2H GB/s", ">D2D GB/s"};
    struct cli_table table;
    size_t columns = sizeof titles / sizeof titles[0];
    cli_table_begin(&table, titles, list->measure ? columns : columns - 3);
    for (size_t i = 0; i < list->count; i++) {
        const acre_device_info *info = &list->items[i].info;
        const struct cli_link *link = &list->items[i].link;
        char text[CLI_NUMBER_BYTES];
        cli_table_cell(&table, CLI_GREEN, "%s:%" PRIu32, info->driver, info->ordinal);
        cli_table_cell(&table, CLI_PLAIN, "%s", info->name);
        cli_table_cell(&table, CLI_PLAIN, "%s", cli_bytes(info->total_bytes, text));
        cli_table_cell(&table, CLI_PLAIN, "%s", cli_bytes(info->free_bytes, text));
        cli_table_cell(&table, CLI_PLAIN, "%s",
                       info->granularity_bytes ? cli_bytes(info->granularity_bytes, text) : "-");
        cli_table_cell(&table, CLI_PLAIN, "%s", cli_driver_version(info->driver_version, text));
        char *capabilities = cli_device_capabilities(info);
        cli_table_cell(&table, CLI_DIM, "%s", *capabilities ? capabilities : "-");
        free(capabilities);
        if (list->measure) {
            info_speed_cell(&table, link->pinned_h2d);
            info_speed_cell(&table, link->pinned_d2h);
            info_speed_cell(&table, link->d2d);
        }
    }
    cli_table_end(&table);
}

static void info_print_json(const struct info_list *list) {
    json_t *root = cli_json_begin("acre-info/1");
    json_t *devices = json_array();
    for (size_t i = 0; i < list->count; i++) {
        json_t *device = cli_device_json(&list->items[i].info);
        if (list->items[i].link.d2d > 0) {
            cli_json_set(device, "measured", cli_link_json(&list->items[i].link));
        }
        cli_json_append(devices, device);
    }
    cli_json_set(root, "devices", devices);
    cli_json_end(root);
}

int cmd_info(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"json", CLI_KEY_JSON, NULL, 0, "print JSON (schema acre-info/1) instead of text", 0},
        {"device", CLI_KEY_DEVICE, "NAME", 0,
         "list only this device: auto, cuda, cuda:1, soft, soft:1, ... (default: all)", 0},
        {"measure", CLI_KEY_MEASURE, NULL, 0,
         "also measure the bandwidth of copies: pinned memory to the device (H2D), back (D2H), and "
         "inside the device (D2D). Takes less than a second per device",
         0},
        {0}};
    struct cli_args args;
    struct info_list list = {0};
    cli_parse_args(argc, argv, options,
                   "Lists devices and their capabilities, GPUs first, then soft devices.\v"
                   "Columns:\n"
                   "  DEVICE         name for --device\n"
                   "  NAME           name that the driver reports\n"
                   "  BYTES, FREE    total and free memory\n"
                   "  CHUNK          granularity of physical memory; - if memory cannot be\n"
                   "                 mapped\n"
                   "  DRIVER         CUDA version that the driver supports\n"
                   "  CAPABILITIES   see below\n"
                   "  H2D, D2H, D2D  with --measure: bandwidth of copies of 64 MiB (less if\n"
                   "                 little memory is free) in 10^9 bytes per second; bytes\n"
                   "                 copied count once\n"
                   "\n"
                   "Capabilities:\n"
                   "  vmm         can map physical device memory to reserved addresses\n"
                   "  host-vmm    can map physical host memory to reserved addresses\n"
                   "  fd-sharing  can share memory between processes by file descriptor\n"
                   "  fabric      can share memory between machines over NVLink\n"
                   "  rdma        other PCI devices can access its memory\n"
                   "  managed     has managed memory\n"
                   "  integrated  shares physical memory with the host\n"
                   "\n"
                   "Without a GPU, one line on standard error says why there is none.\n"
                   "\n"
                   "Examples:\n"
                   "  acre info\n"
                   "  acre info --measure\n"
                   "  acre info --device soft --json\n"
                   "  acre info --json | jq '.devices[].bytes'\n"
                   "\n"
                   "Exit status:\n"
                   "  0   all devices were listed\n"
                   "  2   a device could not be opened or measured\n"
                   "  64  wrong usage\n",
                   &args);
    list.measure = args.measure;
    cli_log_to_stderr();
    bool all = true;
    if (args.device) {
        all = info_add(&list, args.device);
    } else {
        all = info_add_driver(&list, "cuda");
        all = info_add_driver(&list, "soft") && all;
    }
    if (args.json) {
        info_print_json(&list);
    } else if (list.count) {
        info_print_table(&list);
    }
    free(list.items);
    return all ? CLI_OK : CLI_CANNOT;
}
