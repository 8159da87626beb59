/* Virtual memory by hand in C++: chunks, addresses, mappings. */
#include "cpp_cases.hpp"
#include "cpp_lag.hpp"

#include <unistd.h>

static_assert(!std::is_copy_constructible_v<acre::vm_chunk>, "owners move");
static_assert(!std::is_copy_constructible_v<acre::vm_mapping>, "owners move");
static_assert(std::is_nothrow_move_assignable_v<acre::vm_addresses>, "owners move");
static_assert(!std::is_convertible_v<acre::vm_addresses, void *>, "no handle by accident");

namespace {

struct fixture {
    acre::device device;
    acre::stream stream;
    size_t unit;
    explicit fixture(const char *name)
        : device(name), stream(device, ACRE_STREAM_NON_BLOCKING),
          unit(acre::get_vm_granularity(device).minimum) {
    }
    unsigned char at(const acre::vm_mapping &mapping, size_t i) {
        auto *p = static_cast<unsigned char *>(mapping.data());
        return cpp_read(device, p, mapping.size(), stream)[i];
    }
};

} // namespace

TEST(vm_ring_buffer_is_mapped_twice) {
    fixture t(device_name);
    CHECK(acre::get_vm_granularity(t.device).recommended % t.unit == 0);
    acre::vm_addresses ring(t.device, 2 * t.unit);
    acre::vm_chunk chunk(t.device, t.unit - 1);
    CHECK(ring.size() == 2 * t.unit && chunk.size() == t.unit);
    acre::vm_mapping low(ring, 0, chunk), high(ring, t.unit, chunk);
    chunk.reset(); // the mappings keep the memory
    CHECK(!chunk && chunk.size() == 0);
    for (const acre::vm_mapping *mapping : {&low, &high})
        mapping->set_access(t.device, ACRE_ACCESS_READ_WRITE);
    t.device.fill(static_cast<char *>(low.data()) + t.unit - 1, 7, 2, t.stream);
    t.stream.sync();
    CHECK(t.at(high, t.unit - 1) == 7 && t.at(low, 0) == 7);
    CHECK(low.get_access(t.device) == ACRE_ACCESS_READ_WRITE);
}

TEST(vm_objects_move_and_free_themselves) {
    fixture t(device_name);
    acre_device_stats before = t.device.stats();
    {
        acre::vm_addresses addresses(t.device, t.unit, 8 * t.unit);
        CHECK(reinterpret_cast<uintptr_t>(addresses.data()) % (8 * t.unit) == 0);
        acre::vm_chunk chunk(t.device, t.unit), other(std::move(chunk));
        CHECK(!chunk && other && other.get() && chunk.size() == 0);
        acre::vm_mapping none, mapping(addresses, 0, other);
        CHECK(!acre::vm_mapping::try_map(addresses, 0, other)); // something is mapped there
        void *at = mapping.data();
        none = std::move(mapping);
        CHECK(none.data() == at && !mapping && mapping.data() == nullptr);
        CHECK(none.device() == t.device);
        none.reset();
        mapping = acre::vm_mapping(addresses, 0, other); // the addresses are free again
        acre_vm_chunk *handle = other.release();
        CHECK(handle && !other);
        CHECK(acre_vm_release(t.device.get(), handle) == ACRE_OK);
    }
    acre_device_stats after = t.device.stats();
    CHECK(after.driver_unmaps - before.driver_unmaps == 2);
    CHECK(after.driver_releases - before.driver_releases == 1);
    CHECK(after.driver_creates - before.driver_creates == 1);
}

TEST(vm_destruction_waits_for_queued_work) {
    fixture t(device_name);
    acre::vm_addresses addresses(t.device, t.unit);
    cpp_lag lag(t.device);
    {
        acre::vm_chunk chunk(t.device, t.unit);
        acre::vm_mapping mapping(addresses, 0, chunk);
        mapping.set_access(t.device, ACRE_ACCESS_READ_WRITE);
        t.device.fill(mapping.data(), 1, mapping.size(), t.stream);
        CHECK(!lag.is_on() || !t.stream.query());
    }
    t.stream.sync(); // the fill did not find its memory gone
}

TEST(vm_destruction_waits_for_other_devices) {
    acre_open_options options = {};
    options.soft_devices = 2;
    acre::device owner("soft:0", options), user("soft:1", options);
    acre::stream stream(user, ACRE_STREAM_NON_BLOCKING);
    acre::vm_addresses addresses(owner, 1);
    acre::memory to(user, ACRE_KIND_DEVICE, addresses.size());
    cpp_lag lag(user);
    {
        acre::vm_chunk chunk(owner, addresses.size());
        acre::vm_mapping mapping(addresses, 0, chunk);
        mapping.set_access(user, ACRE_ACCESS_READ);
        user.copy(to.data(), mapping.data(), mapping.size(), stream);
        CHECK(!stream.query());
    }
    stream.sync(); // the copy did not find its memory gone
}

TEST(vm_host_memory_and_its_access) {
    fixture t(device_name);
    acre::vm_chunk chunk(t.device, 1, ACRE_VM_HOST);
    acre::vm_addresses addresses(t.device, chunk.size());
    acre::vm_mapping mapping(addresses, 0, chunk);
    CHECK(mapping.get_access(acre::device_ref()) == ACRE_ACCESS_NONE);
    mapping.set_access(t.device, ACRE_ACCESS_READ_WRITE);
    mapping.set_access(acre::device_ref(), ACRE_ACCESS_READ_WRITE);
    std::memset(mapping.data(), 3, mapping.size());
    CHECK(t.at(mapping, mapping.size() - 1) == 3);
}

TEST(vm_chunks_go_to_other_processes) {
    fixture t(device_name);
    acre::vm_chunk chunk(t.device, 1, ACRE_VM_SHAREABLE);
    acre::vm_addresses addresses(t.device, 2 * chunk.size());
    acre::vm_mapping mapping(addresses, 0, chunk);
    mapping.set_access(t.device, ACRE_ACCESS_READ_WRITE);
    t.device.fill(mapping.data(), 8, mapping.size(), t.stream);
    t.stream.sync();
    int fd = chunk.export_fd();
    acre::vm_chunk same = acre::vm_chunk::import_fd(t.device, fd, chunk.size());
    close(fd);
    acre::vm_mapping there(addresses, chunk.size(), same);
    there.set_access(t.device, ACRE_ACCESS_READ);
    CHECK(t.at(there, 99) == 8);
    acre::vm_chunk own(t.device, 1);
    CHECK(own.try_export_fd().status() == ACRE_E_KIND);
    CHECK(!acre::vm_chunk::try_import_fd(t.device, -1, chunk.size()));
}

TEST(vm_failures_throw) {
    fixture t(device_name);
    acre::vm_addresses addresses(t.device, t.unit);
    acre::vm_chunk chunk(t.device, t.unit);
    CHECK_THROWS(acre::call_error, acre::vm_mapping unaligned(addresses, 1, chunk));
    CHECK(acre::vm_mapping::try_map(addresses, t.unit, chunk).status() == ACRE_E_RANGE);
    CHECK(!acre::vm_mapping::try_map(acre::vm_addresses(), t.unit, chunk));
    CHECK_THROWS(acre::call_error, acre::vm_addresses(t.device.get(), 0, 0));
    CHECK_THROWS(acre::out_of_memory, acre::vm_chunk(t.device, size_t(1) << 50));
    acre::vm_mapping mapping(addresses, 0, chunk);
    CHECK_THROWS(acre::call_error, mapping.set_access(acre::device_ref(), ACRE_ACCESS_READ));
    // Addresses in use are not freed, and can still be freed later.
    void *at = addresses.data();
    addresses.reset();
    mapping.reset();
    CHECK(acre_vm_address_free(t.device.get(), at) == ACRE_OK);
}

int main() {
    return cpp_test::run();
}
