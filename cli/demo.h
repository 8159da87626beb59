/* The results of `acre demo`: filled by cmd_demo.c and the files demo_*.c, drawn by demo_page.c.
 * Times are nanoseconds of the host's clock since the first step. */
#ifndef ACRE_CLI_DEMO_H
#define ACRE_CLI_DEMO_H

#include "cli.h"
#include "wishes.h"

enum {
    DEMO_HANDOVERS = 12, /* events, recorded on the two streams in turn */
    DEMO_PARTS = 13,
    DEMO_SIZES = 12, /* sizes that an array grows through, at most */
    DEMO_STEPS = 2 * DEMO_HANDOVERS + 4
};

enum demo_call { DEMO_RECORD, DEMO_WAIT, DEMO_SYNC };

/* One call of the host. */
struct demo_step {
    enum demo_call call;
    uint32_t stream; /* 0 or 1; for a sync: the stream that the host waits for */
    uint32_t event;
    uint64_t begin_ns, end_ns;
};

/* One row of the table. */
struct demo_part {
    const char *name;
    bool ok;
    uint64_t time_ns;
    char text[200];
};

enum demo_way { DEMO_IN_PLACE, DEMO_COPYING, DEMO_WAYS };

/* An array that grew from size to size, in place and by copying. */
struct demo_growth {
    size_t count;
    double bytes[DEMO_SIZES];
    double ns[DEMO_WAYS][DEMO_SIZES]; /* from the first growth to the end of this one */
    acre_vec_info info[DEMO_WAYS];    /* at the end */
};

/* The placed buffers of a training step. */
struct demo_plan {
    struct wishes wishes;
    uint64_t wanted_bytes; /* sum of all sizes */
    uint64_t bytes;        /* size of the plan */
    uint64_t bound_bytes;  /* lower bound of any plan */
};

struct demo_result {
    acre_device_info device;
    uint64_t open_ns;
    struct demo_part parts[DEMO_PARTS];
    size_t part_count;
    struct demo_step steps[DEMO_STEPS];
    size_t step_count;
    double done_ns[DEMO_HANDOVERS]; /* when the device completed event i, on the host's clock */
    struct cli_link link;           /* copy bandwidths */
    struct demo_growth growth;
    struct demo_plan plan;
    char *oom_report;        /* text; NULL: none */
    char *report;            /* path of the report about the demo; NULL: none */
    double clock_slack_ns;   /* uncertainty of the offset between the two clocks */
    acre_device_stats stats; /* of the last open device, before it was closed */
};

/* Each runs one part (in demo_memory.c, demo_pool.c, demo_grow.c and demo_plan.c). On failure
 * *doing names the failed action, as in "cannot <doing> soft". */
acre_status demo_kinds(acre_device *device, bool has_managed, struct demo_part *part,
                       const char **doing);
acre_status demo_copies(acre_device *device, struct demo_part *part, struct cli_link *link,
                        const char **doing);
acre_status demo_pool(acre_device *device, struct demo_part *part, const char **doing);

acre_status demo_grow(acre_device *device, const acre_device_info *info, struct demo_part *part,
                      struct demo_growth *growth, const char **doing);

acre_status demo_plan(acre_device *device, struct demo_part *part, struct demo_plan *found,
                      const char **doing);

/* In demo_heap.c, demo_share.c and demo_train.c. The caller frees *report. */
acre_status demo_heap(acre_device *device, bool is_soft, struct demo_part *part,
                      const char **doing);
acre_status demo_share(acre_device *device, const char *device_name, struct demo_part *part,
                       const char **doing);
acre_status demo_train(acre_device *device, struct demo_part *part, const char **doing);
acre_status demo_limit(acre_device *device, struct demo_part *part, char **report,
                       const char **doing);

/* In demo_share.c: `acre demo --share-program DEVICE PATH`, an undocumented option for the other
 * process. */
#define DEMO_SHARE_PROGRAM "--share-program"
int demo_share_program(const char *device_name, const char *path);

/* In demo_cuda.c: runs `acre demo --cuda-program`, an undocumented option that calls
 * demo_cuda_program, under the stand-ins for NVIDIA's libraries. */
#define DEMO_CUDA_PROGRAM "--cuda-program"
void demo_cuda(struct demo_part *part);
int demo_cuda_program(void);

/* In demo_report.c: begins a trace in the folder; and ends it and writes <folder>/report.html.
 * Return false, or NULL, if there is no report; the caller frees the path. */
bool demo_report_begin(const char *folder);
char *demo_report_end(const char *folder, bool force);

/* Creates the folder and its parents. Returns false after a message. */
bool demo_page_folder(const char *folder);
/* Checks whether the page may be written: write_file.h says which files are replaced. Returns
 * CLI_OK, or CLI_CANNOT after a message. */
int demo_page_check(const char *folder, bool force);
/* Writes <folder>/index.html and the picture of the plan, <folder>/plan.svg. Creates the folder and
 * its parents. Folder "-" writes the page to standard output, without the picture. Returns the path
 * of the page, which the caller frees, or NULL after a message. */
char *demo_page_write(const struct demo_result *result, const char *folder, bool force);

#endif
