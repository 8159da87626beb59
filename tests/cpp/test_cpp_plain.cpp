/* A program without exceptions uses the try_ forms. Compiled with -fno-exceptions. */
#include <acre/acre.hpp>
#include <acre/cpp/heap.hpp>

#include <csignal>
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#if defined(__cpp_exceptions)
#error "compile this file with -fno-exceptions"
#endif

static int failed;

static void check_at(bool is_so, const char *what, int line) {
    if (is_so)
        return;
    std::fprintf(stderr, "line %d: not so: %s (%s)\n", line, what, acre_last_detail());
    failed++;
}
#define CHECK(condition) check_at(static_cast<bool>(condition), #condition, __LINE__)

static void pools(acre::device_ref device, acre::stream_ref stream) {
    acre::result<acre::pool> created = acre::pool::try_create(device);
    CHECK(created);
    acre::pool pool = std::move(*created);
    acre::result<void *> p = pool.try_allocate(1000, stream);
    CHECK(p && pool.try_record_use(*p, stream));
    CHECK(device.try_fill(*p, 1, 1000, stream) && pool.try_stats()->live_blocks == 1);
    int blocks = 0;
    CHECK(pool.try_walk([&](void *, size_t) { blocks++; }) && blocks == 1);
    CHECK(pool.try_deallocate(*p, stream));
    CHECK(pool.try_allocate(size_t(1) << 60, stream).status() == ACRE_E_DEVICE_MEMORY);
    acre::result<acre::tag_scope> tag = acre::tag_scope::try_push("plain");
    CHECK(tag);
    CHECK(pool.try_set_limits(0, 4 << 20));
    acre::oom_callback callback(pool, [&](uint64_t, uint32_t) { return blocks++ < 1; });
    CHECK(pool.try_allocate(3 << 20, stream) && blocks == 1);
}

static void others(acre::device_ref device, acre::stream_ref stream) {
    acre::result<acre::vec<int>> vec = acre::vec<int>::try_create(device, {}, stream);
    CHECK(vec && vec->try_grow(100, stream) && vec->size() == 100);
    acre::result<acre::event> event = acre::event::try_create(device);
    CHECK(event && event->try_record(stream) && event->try_sync() && *event->try_query());
    acre::result<acre::memory> memory = acre::memory::try_create(device, ACRE_KIND_PINNED, 99);
    CHECK(memory && memory->size() == 99);
    acre::result<acre::range> range = acre::range::try_create(device, 4 << 20);
    CHECK(range && range->try_commit(0, 2 << 20, stream));
    acre_plan_options options = {};
    options.device_bytes = options.host_bytes = ACRE_PLAN_AS_NEEDED;
    acre::result<acre::plan> plan = acre::plan::try_create(device, options);
    acre::planned<int> array;
    CHECK(plan && plan->try_want(array, 10) && array && plan->try_commit());
    CHECK(plan->try_release_round(stream));
    acre::result<acre::plan_step> step = plan->try_step(stream);
    CHECK(step && step->try_end());
    acre::result<acre::heap> heap = acre::heap::try_create(device);
    CHECK(heap && heap->try_handle());
    acre::result<acre::suspended> away = acre::suspended::try_suspend(device);
    CHECK(away && away->try_resume());
}

/* A throwing form that fails here ends the program. */
static void aborts(acre::pool_ref pool) {
    std::fflush(nullptr);
    pid_t child = fork();
    if (child == 0) {
        std::signal(SIGABRT, SIG_DFL);
        (void)pool.allocate(1, nullptr); // ACRE_E_FORKED
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main() {
    acre::result<acre::device> device = acre::device::try_open("soft");
    CHECK(device && !acre::device::try_open("nonsense"));
    acre::result<acre::stream> stream = acre::stream::try_create(*device);
    CHECK(stream && stream->try_sync() && *stream->try_query());
    pools(*device, *stream);
    others(*device, *stream);
    aborts(*acre::pool_ref::try_default_of(*device));
    CHECK(device->try_sync() && device->try_trim());
    return failed != 0;
}
