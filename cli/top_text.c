/* Figures as text: see top_text.h. */
#include "top_text.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

const char *top_bytes(uint64_t bytes, char text[TOP_TEXT_BYTES]) {
    if (bytes == TOP_UNKNOWN) {
        snprintf(text, TOP_TEXT_BYTES, "-");
        return text;
    }
    return cli_bytes(bytes, text);
}

const char *top_rate(double per_second, char text[TOP_TEXT_BYTES]) {
    static const char *const unit[] = {"", " k", " M", " G", " T"};
    size_t power = 0;
    if (per_second < 0) {
        snprintf(text, TOP_TEXT_BYTES, "-");
        return text;
    }
    while (per_second >= 1000 && power + 1 < sizeof unit / sizeof unit[0]) {
        per_second /= 1000;
        power++;
    }
    bool is_whole = power == 0 && (per_second >= 10 || per_second == 0);
    snprintf(text, TOP_TEXT_BYTES, "%.*f%s", is_whole ? 0 : 1, per_second, unit[power]);
    return text;
}

const char *top_byte_rate(double per_second, char text[TOP_TEXT_BYTES]) {
    return top_bytes(per_second < 0 ? TOP_UNKNOWN : (uint64_t)per_second, text);
}

const char *top_age(uint64_t since_ns, char text[TOP_TEXT_BYTES]) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    uint64_t s = now_ns > since_ns ? (now_ns - since_ns) / UINT64_C(1000000000) : 0;
    const char *unit = s < 120 ? "s" : s < 7200 ? "min" : s < 172800 ? "h" : "d";
    uint64_t value = s < 120 ? s : s < 7200 ? s / 60 : s < 172800 ? s / 3600 : s / 86400;
    snprintf(text, TOP_TEXT_BYTES, "%" PRIu64 " %s", value, unit);
    return text;
}

const char *top_spark(const struct top_history *history, size_t width, bool is_utf8,
                      char text[TOP_SPARK_BYTES]) {
    static const char *const bars[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                       "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char *const plain[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
    enum { LEVELS = sizeof bars / sizeof bars[0] };
    width = width < TOP_HISTORY ? width : TOP_HISTORY;
    size_t count = history->count < width ? history->count : width;
    const uint64_t *values = history->values + history->count - count;
    uint64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        most = values[i] > most ? values[i] : most;
    }
    size_t at = width - count;
    memset(text, ' ', at);
    text[at] = '\0';
    for (size_t i = 0; i < count; i++) {
        double part = most ? (double)values[i] / (double)most : 0;
        size_t level = (size_t)(part * (LEVELS - 1) + 0.5);
        const char *bar = (is_utf8 ? bars : plain)[level < LEVELS ? level : LEVELS - 1];
        memcpy(text + at, bar, strlen(bar) + 1);
        at += strlen(bar);
    }
    return text;
}

const char *top_kind_title(enum acre__stats_kind kind) {
    static const char *const titles[] = {"", "DEVICE", "POOL", "TAG", "MEMORY"};
    return kind <= ACRE__STATS_MEMORY ? titles[kind] : "";
}

bool top_note(const struct top_files *files, char *text, size_t room) {
    if (files->refused) {
        snprintf(text, room, "%s must be yours and have mode 0700: ignored", files->folder);
    } else if (files->damaged) {
        snprintf(text, room, "%u file%s in %s: not statistics of acre", files->damaged,
                 files->damaged == 1 ? "" : "s", files->folder);
    } else if (files->left_out) {
        snprintf(text, room, "%u more processes are left out", files->left_out);
    } else {
        return false;
    }
    return true;
}
