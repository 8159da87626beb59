#!/usr/bin/env bash
# The checks can fail: for each rule, one small tree keeps it and another breaks it. The check must
# accept the first, reject the second and name the file.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
rc=0
cases=0

# A tree that keeps all rules.
good_tree() {
    mkdir -p "$tmp"/good/{include,examples,cli,bench,docs} \
        "$tmp"/good/src/{base,driver,watch,space,vec,pool,share,plan}
    cd "$tmp/good"
    cp "$root/Makefile" "$root/CMakePresets.json" .
    echo '#include <stddef.h>' >include/acre.h
    echo '#include "acre.h"' >src/base/status.h
    echo '#include "base/status.h"' >src/driver/driver.h
    echo '#include "base/status.h"' >src/watch/watch.h
    printf '#include "driver/driver.h"\n#include "watch/watch.h"\n' >src/space/space.h
    echo '#include "space/space.h"' >src/vec/vec.h
    echo '#include "space/space.h"' >src/pool/pool.h
    printf '#include "vec/vec.h"\n' >src/share/share.c
    echo '#include "pool/pool.h"' >src/plan/plan.c
    echo '#include "base/status.h"' >src/plan/place_core.h
    printf '#include <dlfcn.h>\n#include "place_core.h"\n' >src/plan/place_core.c
    echo '#include "driver/driver.h"' >bench/raw.c
    printf '#include <acre.h>\n#include <stdio.h>\n' >examples/hello.c
    cat >docs/guide.md <<'MD'
Run `make demo`, then `make test PRESET=tsan ARGS='-R lock'`. We make mistakes.
```
make test-all  # all
```
MD
}
good_tree
fresh_tree() {
    cd "$tmp"
    rm -rf tree
    cp -r good tree
    cd tree
}

# expect PASS|FAIL NAME PATTERN COMMAND...: the expected result of the command, and a pattern in its
# output.
expect() {
    local want=$1 name=$2 pattern=$3 got=PASS
    shift 3
    cases=$((cases + 1))
    "$@" >"$tmp/output" 2>&1 || got=FAIL
    if [ "$got" != "$want" ] || ! grep -q -- "$pattern" "$tmp/output"; then
        echo "selftest: $name: wanted $want with \"$pattern\", got $got:"
        cat "$tmp/output"
        rc=1
    fi
}

# A script that stands for the interpreter, as that of pyenv, takes more time than most cases.
python=$("${PYTHON:-python3}" -c 'import sys; print(sys.executable)')
PATH=$(dirname "$python"):$PATH
layers=("$python" "$here/check_layers.py" "$tmp/tree")
words=(bash "$here/check_words.sh" "$tmp/tree")

fresh_tree
expect PASS "layers, good tree" " 0 findings" "${layers[@]}"
expect PASS "words, good tree" "files" "${words[@]}"

# plant NAME FILE LINE: adds a line that breaks a rule of the layers.
plant() {
    fresh_tree
    echo "$3" >>"$2"
    expect FAIL "$1" "^$2:[0-9]*: " "${layers[@]}"
}
plant "base includes driver" src/base/status.h '#include "driver/driver.h"'
plant "driver includes space" src/driver/driver.h '#include "space/space.h"'
plant "base includes watch" src/base/status.h '#include "watch/watch.h"'
plant "watch includes driver" src/watch/watch.h '#include "driver/driver.h"'
plant "space includes pool" src/space/space.h '#include "pool/pool.h"'
plant "pool includes vec" src/pool/pool.h '#include "vec/vec.h"'
plant "vec includes plan" src/vec/vec.h '#  include "plan/place_core.h"'
plant "plan includes vec" src/plan/plan.c '#include "vec/vec.h"'
plant "path around the layers" src/base/status.h '#include "../driver/driver.h"'
plant "angle brackets around the layers" src/base/status.h '#include <driver/driver.h>'
plant "the placer includes the pool" src/plan/place_core.c '#include "pool/pool.h"'
plant "example includes src" examples/hello.c '#include "../src/base/status.h"'
plant "tool includes the driver" cli/main.c '#include "driver/driver.h"'
plant "bench includes space" bench/raw.c '#include "space/space.h"'
plant "public header includes src" include/acre.h '#include "base/status.h"'
plant "src includes a program" src/base/status.h '#include "../../examples/hello.c"'
plant "header that is not there" src/base/status.h '#include "base/gone.h"'
plant "toolkit header" src/driver/driver.h '#include <cuda.h>'
plant "toolkit runtime header" src/driver/driver.h '#include <cuda_runtime_api.h>'

fresh_tree
mkdir src/misc
echo >src/misc/misc.c
expect FAIL "folder that is no layer" "^src/misc/misc.c:1: " "${layers[@]}"
fresh_tree
echo '#include "driver/driver.h"' >cli/replay_calls.c
expect PASS "replay may include the driver" " 0 findings" "${layers[@]}"
fresh_tree
yes '' | head -n 900 >src/base/long.c || true
expect PASS "900 lines" " 0 findings" "${layers[@]}"
echo >>src/base/long.c
expect FAIL "901 lines" "^src/base/long.c:901: " "${layers[@]}"
fresh_tree
echo >cli/hello.c
expect FAIL "one name twice" "the name hello.c is taken" "${layers[@]}"

# The map and the READMEs: a tree of one folder, its README.md and docs/map.md.
doc_map=("$python" "$here/check_map.py" "$tmp/tree")
# shellcheck disable=SC2016
mapped_tree() {
    fresh_tree
    rm -rf src bench
    mkdir src src/base
    echo 'int acre__low_call(int);' >src/base/low.h
    printf '/* acre__low_note */\nint acre__low_call(int a) {\n    return low_help(a);\n}\n' >src/base/low.c
    echo 'Start with `acre__low_call()` in `low.c` / `low.h`.' >src/base/README.md
    printf '%s\n' 'See [base](../src/base/README.md).' '| `acre__low_call` | `src/base/low.c` | `acre__low_call` |' >docs/map.md
}
mapped_tree
expect PASS "map, good tree" " 0 findings" "${doc_map[@]}"
mapped_tree
echo >src/base/high.c
expect FAIL "map, file that the README does not name" "^src/base/README.md:1: does not name high.c" "${doc_map[@]}"
mapped_tree
rm src/base/README.md
expect FAIL "map, folder without a README" "^src/base/README.md:1: there is none" "${doc_map[@]}"
mapped_tree
mkdir src/space
expect FAIL "map, new folder" "^src/space/README.md:1: there is none" "${doc_map[@]}"
# plant_map NAME FILE TEXT PATTERN: adds a line to a document that breaks the rule.
plant_map() {
    mapped_tree
    printf '%s\n' "$3" >>"$2"
    expect FAIL "$1" "^$2:[0-9]*: $4" "${doc_map[@]}"
}
# shellcheck disable=SC2016
plant_map "map, path that is not there" docs/map.md 'See `src/base/gone.c`.' "there is no src/base/gone.c"
# shellcheck disable=SC2016
plant_map "map, file that is not there" src/base/README.md 'See `gone.h`.' "there is no gone.h"
plant_map "map, link that leads nowhere" docs/map.md '[gone](../src/gone/README.md)' "there is no ../src/gone"
# shellcheck disable=SC2016
plant_map "map, function that is not there" src/base/README.md '`acre__gone`' "acre__gone is not in the sources"
# shellcheck disable=SC2016
plant_map "map, function of another file" docs/map.md '`src/base/low.h`: `low_help`' "src/base/low.h does not declare low_help"
# shellcheck disable=SC2016
plant_map "map, function that is only called" docs/map.md '`src/base/low.c`: `low_help`' "src/base/low.c does not declare"

# objects FILE=CODE...: compiles object files as in a build, for the check of calls.
objects() {
    fresh_tree
    rm -rf src build
    mkdir -p tests/check
    : >tests/check/cycles.txt
    local file
    for pair in "$@"; do
        file=${pair%%=*}
        mkdir -p "$(dirname "$file")" "build/CMakeFiles/acre_objects.dir/$(dirname "$file")"
        printf '%s\n' "${pair#*=}" >"$file"
        "${CC:-cc}" -c "$file" -o "build/CMakeFiles/acre_objects.dir/$file.o"
    done
}
calls=(env "ACRE_SOURCE=$tmp/tree" "$python" "$here/check_calls.py" "$tmp/tree/build")
base='void acre__low(void) {}'
uses_base='void acre__low(void); void acre__high(void) { acre__low(); }'
objects "src/base/low.c=$base" "src/space/high.c=$uses_base"
expect PASS "calls go down" " 0 findings" "${calls[@]}"
objects "src/space/low.c=$base" "src/base/high.c=$uses_base"
expect FAIL "a call goes up" "^src/base/high.c: layer base may not use acre__low" "${calls[@]}"
objects "src/mem/a.c=void acre_b(void); void acre_a(void) { acre_b(); }" "src/vec/b.c=void acre_b(void) {}"
expect PASS "a public call beside the layers" " 0 findings" "${calls[@]}"
objects "src/mem/a.c=void acre_b(void); void acre_a(void) { acre_b(); }" \
    "src/vec/b.c=void acre_a(void); void acre_b(void) { acre_a(); }"
expect FAIL "folders in a cycle" "^folders use each other: mem, vec" "${calls[@]}"
circle=("src/base/a.c=void acre__b(void); void acre__a(void) { acre__b(); }"
    "src/base/b.c=void acre__a(void); void acre__b(void) { acre__a(); }")
objects "${circle[@]}"
expect FAIL "files in a cycle" "^these files use each other: base/a base/b" "${calls[@]}"
echo "base/a base/b" >tests/check/cycles.txt
expect PASS "files in a known cycle" "the largest of 2, 0 findings" "${calls[@]}"
echo "base/a base/b base/c" >tests/check/cycles.txt
expect FAIL "a known cycle that shrank" "no longer a cycle" "${calls[@]}"

# These words are assembled from parts, so that this file passes the check itself.
plant_word() {
    fresh_tree
    printf '%s\n' "$3" >>"$2"
    expect FAIL "$1" "^$2:[0-9]*:" "${words[@]}"
}
plant_word "mark of unfinished work" src/base/status.h "/* TO""DO: later */"
plant_word "second mark" Makefile "# FIX""ME"
plant_word "third mark" src/plan/plan.c "// X""XX why"
plant_word "folder of a machine" docs/guide.md "see /ro""ot/notes.txt"
plant_word "folder of a person" src/plan/plan.c "\"/ho""me/me/data\""
# shellcheck disable=SC2016
plant_word "target that is not there" docs/guide.md 'Run `make coffee`.'
# shellcheck disable=SC2016
plant_word "preset that is not there" docs/guide.md 'Run `make test PRESET=msan`.'
plant_word "target in a block of code" docs/guide.md $'```\n$ make tea\n```'
plant_word "pipe into a grep that stops reading" src/pipe.sh $'set -o pipefail\nls | grep -''q a'
fresh_tree
echo 'char name[] = "acre.XXXXXX";' >>src/plan/plan.c
expect PASS "template of mkstemp" "files" "${words[@]}"

# Symbols: a library of two functions, then with one error at a time.
cd "$tmp"
cc=cc
library() {
    local map=$1 source=$2
    shift 2
    $cc -shared -fPIC "-Wl,-soname,${soname:-libacre.so.0.3}" -Wl,-z,nodelete "-Wl,--version-script=$map" \
        -o "$tmp/lib.so" -x c "$source" "$@"
}
symbols() {
    expect "$@" bash "$here/check_symbols.sh" "$tmp/lib.so" "$tmp/acre.map" "$tmp/acre.h"
}
fresh_symbols() {
    cat >acre.h <<'C'
#define ACRE_API __attribute__((visibility("default")))
#define ACRE_VERSION_MAJOR 0
#define ACRE_VERSION_MINOR 3
/* ACRE_API int acre_comment(void); */
ACRE_API int acre_one(int (*callback)(void),
                      void *user);
ACRE_API const char *acre_two(void);
C
    cat >acre.c <<'C'
int acre_one(int (*callback)(void), void *user) { (void)user; return callback(); }
const char *acre_two(void) { return ""; }
int acre__inner(void) { return 0; }
int stray(void) { return 0; }
C
    echo 'ACRE_0.1 { global: acre_one; acre_two; local: *; };' >acre.map
}
fresh_symbols
library acre.map acre.c
symbols PASS "symbols, good library" "2 functions exported"
echo 'ACRE_0.1 { global: acre_one; acre_two; stray; local: *; };' >acre.map
library acre.map acre.c
symbols FAIL "stray name" "stray is exported, but is not called acre_"
fresh_symbols
echo 'ACRE_0.1 { global: acre_one; acre_two; acre__inner; local: *; };' >acre.map
library acre.map acre.c
symbols FAIL "internal name" "acre__inner is exported"
fresh_symbols
echo 'ACRE_0.1 { global: acre_*; local: *; };' >wide.map
library wide.map acre.c
symbols FAIL "name that the map lacks" "acre__inner is exported, but not in the version map"
cp wide.map acre.map
symbols FAIL "pattern in the map" "without patterns"
fresh_symbols
echo 'ACRE_API int acre_three(void);' >>acre.h
library acre.map acre.c
symbols FAIL "declared, not exported" "acre_three is declared ACRE_API, but not exported"
fresh_symbols
sed -i '/acre_two/d' acre.h
library acre.map acre.c
symbols FAIL "exported, not declared" "acre_two is exported, but no public header"
fresh_symbols
echo 'ACRE_0.1 { global: acre_one; acre_two; acre_gone; local: *; };' >acre.map
library acre.map acre.c
symbols FAIL "mapped, not exported" "acre_gone is in the version map, but not exported"
fresh_symbols
echo 'int other(void) { return 0; }' >other.c
$cc -shared -fPIC -Wl,-soname,libother.so.1 -o libother.so other.c
library acre.map acre.c -x none -Wl,--no-as-needed "$tmp/libother.so"
symbols FAIL "a second library" "needs libother.so.1"
fresh_symbols
soname=libacre.so.0 library acre.map acre.c
symbols FAIL "soname without the minor version" "\"libacre.so.0\" instead of libacre.so.0.3"
sed -i -e '/VERSION_MAJOR/s/0/2/' acre.h
soname=libacre.so.2 library acre.map acre.c
symbols PASS "soname after 1.0" "2 functions exported"

# The ABI: a library of two functions and two structs, one of which has struct_size.
abi() {
    expect "$@" bash "$here/check_abi.sh" "$tmp/lib.so" "$tmp/lib.abi" "$tmp/abi"
}
# abi_library [SED-SCRIPT]: builds the library with changes.
abi_library() {
    mkdir -p abi
    cat >abi/acre.h <<'C'
#include <stddef.h>
#define ACRE_FAST 1u
typedef enum acre_kind { ACRE_KIND_ONE = 1, ACRE_KIND_TWO = 2 } acre_kind;
typedef enum acre_how { ACRE_HOW = 1 } acre_how;
typedef void (*acre_walk_fn)(void *user, acre_kind kind);
typedef struct acre_options { size_t struct_size; acre_kind kind; int reserved; } acre_options;
typedef struct acre_info { size_t struct_size; char how; int level; int floor; } acre_info;
typedef struct acre_handle { void *at; int level; int floor; } acre_handle;
typedef struct acre_old { int unused; } acre_old;
typedef struct acre_pool acre_pool;
int acre_one(acre_pool *pool, const acre_options *options);
int acre_two(acre_pool *pool, acre_handle handle, acre_walk_fn walk);
int acre_four(int a);
C
    cat >abi.c <<'C'
#include "abi/acre.h"
struct acre_pool { int count; };
int acre_one(acre_pool *pool, const acre_options *options) { return pool->count + (int)options->struct_size; }
int acre_two(acre_pool *pool, acre_handle handle, acre_walk_fn walk) { return !walk + pool->count + handle.level; }
int acre_four(int a) { return a; }
C
    echo "ACRE_0.3 { global: acre_[ot]*; local: *; }; ${version:-ACRE_0.3.1} { global: acre_four; };" >two.map
    sed -i -e "${1:-}" abi/acre.h abi.c
    library two.map abi.c
}
if "$root/scripts/abi" --compare /dev/null /dev/null >/dev/null; then
    abi_library
    abi FAIL "no ABI stored" "skipped: there is no lib.abi"
    "$root/scripts/abi" lib.so abi lib.abi
    abi PASS "ABI as it was" "3 functions as in"
    abi_library '
        s/struct acre_pool { int/struct acre_pool { long more; int/
        s/acre_pool \*pool,/acre_pool *heap,/; s/pool->/heap->/
        s/^int acre_one(.*;$/&\nint acre_three(void);/; s/^int acre_one(.*}$/&\nint acre_three(void) { return 3; }/
        s/ACRE_KIND_TWO = 2/&, ACRE_KIND_THREE/; s/^#define ACRE_FAST.*/&\n#define ACRE_SLOW 2u/
        s/^typedef struct acre_pool/struct acre_new { int a; };\n&/
        s/int reserved;/int named; int more;/'
    abi PASS "ABI, all compatible changes" \
        "adds them: ACRE_KIND_THREE ACRE_SLOW acre_three struct acre_new struct acre_new at 0 struct acre_options at 16$"
    version=ACRE_0.4 abi_library '
        s/ACRE_FAST 1u/ACRE_FAST 4u/; s/KIND_ONE = 1, ACRE_KIND_TWO = 2/KIND_ONE = 3/; s/HOW = 1/&, ACRE_BIG = 0x10000000000/
        s/(void \*user, acre_kind/(void *user, int more, acre_kind/
        s/acre_kind kind; int reserved/int more; float reserved/
        s/char how;/& char more;/; s/int level; int floor; } acre_info/int floor; } acre_info/
        s/int level; int floor; } acre_handle/int floor; int level; long more; } acre_handle/
        /acre_old/d; /acre_two/d
        s/^int acre_one(/long acre_one(/'
    abi FAIL "ABI, all incompatible changes" "the SONAME is still libacre.so.0.3.*"
    cp output said
    expect PASS "ABI, advice" "raise ACRE_VERSION_MINOR" cat said
    sed '/^check_abi/,$d' said >changes
    expect PASS "ABI, what is incompatible" "as expected" sh -c 'diff changes - && echo as expected' <<'TEXT'
constant ACRE_FAST: was 1; now 4
constant ACRE_KIND_ONE: was 1; now 3
constant ACRE_KIND_TWO: was 2; now gone
enum acre_how: was 4 bytes; now 8 bytes
function acre_four@ACRE_0.3.1: was int(int); now gone
function acre_one@ACRE_0.3: was int(acre_pool*, const acre_options*); now long(acre_pool*, const acre_options*)
function acre_two@ACRE_0.3: was int(acre_pool*, acre_handle, acre_walk_fn); now gone
struct acre_handle at 12: was int floor; now int level
struct acre_handle at 16: new; long more
struct acre_handle at 8: was int level; now int floor
struct acre_handle: was 16 bytes; now 24 bytes
struct acre_info at 12: was int level; now int floor
struct acre_info at 16: was int floor; now gone
struct acre_info at 9: new; char more
struct acre_info: was 24 bytes; now 16 bytes
struct acre_old at 0: was int unused; now gone
struct acre_old: was 4 bytes; now gone
struct acre_options at 12: was int reserved; now float reserved
struct acre_options at 8: was acre_kind kind; now int more
typedef acre_walk_fn: was void(*)(void*, acre_kind); now void(*)(void*, int, acre_kind)
TEXT
    soname=libacre.so.0.4 abi_library '/acre_two/d'
    abi FAIL "ABI, another SONAME" "skipped: lib.abi is of libacre.so.0.3, this is libacre.so.0.4"

    # A release: the record is in a repository with a tag. The cases before compare libraries, these compare records.
    sed '/^function acre_two/{p;s/two/three/}' lib.abi >three.abi
    sed '/^function acre_two/s/ int(/ long(/' lib.abi >long.abi
    sed 's/^soname: .*/soname: libacre.so.0.4/' long.abi >long4.abi
    sed '/^function acre_two/d' long4.abi >less4.abi
    mapfile -t local_variables < <(git rev-parse --local-env-vars)
    unset "${local_variables[@]}"
    repository() {
        GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null git -C "$tmp/repository" -c user.name=test \
            -c user.email=test@example.invalid "$@"
    }
    # release RECORD PASS|FAIL NAME PATTERN
    release() {
        cp "$1.abi" repository/lib.abi
        repository add lib.abi
        repository commit -qm record --allow-empty
        expect "${@:2}" bash "$here/check_abi.sh" "$tmp/$1.abi" "$tmp/repository/lib.abi"
    }
    mkdir repository
    repository init -q
    release lib PASS "ABI, no release" "no release to compare with"
    repository tag nightly
    release lib PASS "ABI, a tag that is no release" "no release to compare with"
    printf '## 0.4.0 (in development)\n\n## 0.3.0 (2026-01-02)\n' >repository/CHANGELOG.md
    repository add CHANGELOG.md
    release lib PASS "ABI as in the release without a tag" "compatible with the release [0-9a-f]"
    release long FAIL "ABI, not that of the release without a tag" "incompatible with the release [0-9a-f]"
    release lib PASS "ABI as before" "compatible with the release"
    repository tag v0.3.0
    release lib PASS "ABI as in the release" "compatible with the release v0.3.0"
    release three PASS "ABI, function added since the release" "compatible with the release v0.3.0"
    release long FAIL "ABI, recorded, but not that of the release" "incompatible with the release v0.3.0"
    release long4 PASS "ABI, SONAME changed since the release" "changed since the release v0.3.0, from libacre.so.0.3 to"
    repository tag v0.4.0
    release less4 FAIL "ABI, not that of the last release" "incompatible with the release v0.4.0"
fi

echo "check_selftest: $cases cases"
exit $rc
