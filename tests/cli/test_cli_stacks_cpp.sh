#!/usr/bin/env bash
# Call stacks of a program whose allocations go through one C++ library without debug information,
# loaded with dlopen, as Python loads PyTorch: names are demangled, and rows of a trace tell the
# callers apart.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

if is_sanitized || ! command -v c++ >/dev/null; then
    skip "needs c++ and a build without sanitizers"
fi

cat >"$work/wrapper.cpp" <<'END'
#include <acre.h>
#include <stdexcept>
namespace wrapper {
template <class T> struct buffer {
    T *data = nullptr;
    __attribute__((noinline)) void fill(acre_device *device, std::size_t count);
};
template <class T>
__attribute__((noinline)) void buffer<T>::fill(acre_device *device, std::size_t count) {
    void *p = nullptr;
    if (acre_alloc(device, count * sizeof(T), nullptr, &p) != ACRE_OK)
        throw std::runtime_error("acre_alloc");
    data = static_cast<T *>(p);
}
__attribute__((noinline)) void keep(acre_device *device, std::size_t count) {
    buffer<double> b;
    b.fill(device, count);
    asm volatile("");
}
__attribute__((noinline)) void weights(acre_device *device) { keep(device, 1000); asm volatile(""); }
__attribute__((noinline)) void gradients(acre_device *device) { keep(device, 3000); asm volatile(""); }
} // namespace wrapper
namespace wrapper {
__attribute__((noinline)) void in_lambda(acre_device *device) {
    auto body = [device](unsigned long count) __attribute__((noinline)) {
        keep(device, count);
        asm volatile("");
    };
    body(500);
    asm volatile("");
}
} // namespace wrapper
extern "C" void work(acre_device *device) {
    wrapper::in_lambda(device);
    wrapper::weights(device);
    wrapper::gradients(device);
    asm volatile("");
}
END
cat >"$work/program.c" <<'END'
#include <acre.h>
#include <dlfcn.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    acre_device *device;
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void (*work)(acre_device *) = library ? (void (*)(acre_device *))dlsym(library, "work") : NULL;
    if (!work || acre_open("soft", NULL, &device) != ACRE_OK)
        return 1;
    work(device);
    exit(0); /* the device stays open */
}
END
include=(-I"$ACRE_SOURCE/include" -I"$ACRE_BUILD/include")
link=(-L"$ACRE_BUILD" -lacre "-Wl,-rpath,$ACRE_BUILD")
c++ -std=c++17 -O1 -g0 -fPIC -shared -fno-optimize-sibling-calls "${include[@]}" \
    -o "$work/libwrapper.so" "$work/wrapper.cpp" "${link[@]}" &&
    cc -g "${include[@]}" -o "$work/program" "$work/program.c" "${link[@]}" -ldl || exit 1

# The library's own messages.
run "$no_gpu" ACRE_DEBUG=1 "$work/program" "$work/libwrapper.so"
expect_rc 0
expect_err 'wrapper::buffer<double>::fill\(acre_device\*, unsigned long\) in .*/libwrapper\.so\+0x'
expect_err 'called by wrapper::weights\(acre_device\*\) in '

# The tool: all stacks begin with the same two functions, which say nothing.
run "$no_gpu" ACRE_STACKS=6 ACRE_TRACE="$work/trace" "$work/program" "$work/libwrapper.so"
expect_rc 0
run "$acre" trace "$work/trace"
expect_rc 0
expect_out '^wrapper::gradients in libwrapper\.so\+0x[0-9a-f]+ from work in libwrapper\.so\+0x[0-9a-f]+ +23\.4 KiB '
expect_out '^wrapper::weights in libwrapper\.so\+0x[0-9a-f]+ from work in libwrapper\.so\+0x[0-9a-f]+ +7\.8 KiB '
run "$acre" trace --json "$work/trace"
expect_json '.by_stack[0].frames[0] | test("^wrapper::buffer<double>::fill\\(acre_device\\*, unsigned long\\) in .*libwrapper\\.so\\+0x")'

# acre symbolize names functions without lines, once.
offset=$(nm -D "$work/libwrapper.so" | awk '$3 == "work" { print $1 }')
run "$acre" symbolize "$work/libwrapper.so+0x$(printf '%x' $((16#$offset + 8)))"
expect_rc 0
expect_out "^work in $work/libwrapper\.so\+0x[0-9a-f]+\$"
cp "$out" "$work/named"
run "$acre" symbolize "$work/named"
expect_rc 0
check "not named twice" cmp "$out" "$work/named"
sed 's/^work in/crash in/' "$work/named" >"$work/crash"
run "$acre" symbolize "$work/crash"
expect_out "^crash in work in $work/libwrapper\.so\+0x[0-9a-f]+\$"
offset=$(nm "$work/program" | awk '$3 == "main" { print $1 }')
echo "main in $work/program+0x$(printf '%x' $((16#$offset + 8)))" >"$work/named"
run "$acre" symbolize "$work/named"
expect_out "^main in $work/program\.c:[0-9]+\$"

# A lambda keeps its name in the rows, and folders with odd names do not confuse them.
mkdir "$work/x at y in z"
cp "$work/libwrapper.so" "$work/x at y in z/"
run "$no_gpu" ACRE_STACKS=6 ACRE_TRACE="$work/trace" "$work/program" "$work/x at y in z/libwrapper.so"
run "$acre" trace "$work/trace"
expect_out '^wrapper::in_lambda\(acre_device\*\)::\{lambda\(unsigned .* in libwrapper\.so\+0x'

# A name that would be huge when demangled stays mangled.
long=_Z1fSt4pairIiiE
for level in $(seq 0 28); do long+=S_IS${level}_S${level}_E; done
objcopy --redefine-sym "work=$long" "$work/libwrapper.so" "$work/liblong.so"
run timeout 200 "$acre" symbolize "$work/liblong.so+0x$(printf '%x' $((16#$(nm -D "$work/libwrapper.so" | awk '$3 == "work" { print $1 }') + 8)))"
expect_rc 0
finish
