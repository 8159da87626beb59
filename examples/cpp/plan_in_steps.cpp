// A training loop with a plan: weights for all steps, and temporary blocks that every iteration
// allocates alike. The plan records the first iteration and serves the others without the pool.
#include <acre/acre.hpp>

#include <cstdio>

static const size_t LAYERS = 4, KIB = 1024;

static void iterate(acre::device_ref device, acre::plan_ref plan, acre::stream_ref stream,
                    const acre::planned<float> &weights) {
    acre::plan_step step = plan.step(stream); // ends with the scope, also if something throws
    void *kept[LAYERS];
    for (size_t i = 0; i < LAYERS; i++) {
        kept[i] = step.allocate((i + 1) * 64 * KIB);
        void *scratch = step.allocate(128 * KIB);
        device.copy(scratch, weights.data(), 64 * KIB, stream); // stands for a kernel
        device.copy(kept[i], scratch, 64 * KIB, stream);
        step.deallocate(scratch);
    }
    for (size_t i = LAYERS; i-- > 0;)
        step.deallocate(kept[i]);
}

int main() {
    acre::device device;
    acre::stream stream(device, ACRE_STREAM_NON_BLOCKING);
    acre_plan_options options = {};
    options.device_bytes = options.host_bytes = ACRE_PLAN_AS_NEEDED;
    acre::plan plan(device, options);

    acre::planned<float> weights;
    plan.want(weights, 16 * KIB);
    device.fill(weights.data(), 0, weights.size() * sizeof(float), stream);

    for (int i = 0; i < 6; i++) {
        acre_plan_stats before = plan.stats();
        iterate(device, plan, stream, weights);
        std::printf("iteration %d: %d hits, %d calls of the pool\n", i,
                    int(plan.stats().hits - before.hits),
                    int(plan.stats().pool_calls - before.pool_calls));
    }
    acre_plan_stats stats = plan.stats();
    std::printf("the loop needs %d KiB\n", int(stats.loop_bytes / KIB));
    return stats.hits == 5 * 2 * LAYERS && stats.pool_calls == 4 * LAYERS ? 0 : 1;
}
