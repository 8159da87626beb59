#!/usr/bin/env bash
# The ABI of libacre.so is the one recorded in tests/abi: a program linked with an older library of
# the same SONAME works with this one. New functions and constants are allowed, a name for a reserved
# field, and new fields at the end of structs that begin with struct_size. In a git checkout the
# library is compared with the record of the last release, too (its tag v*, or the commit that dated
# it in CHANGELOG.md): `make abi` cannot change that.
#   check_abi.sh [LIBRARY [RECORD [INCLUDE]]]     by default those of the build and of the tree
# For a library its record will do: a file *.abi, as `make abi` writes it.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
source_dir=${ACRE_SOURCE:-$root}
library=${1:-${ACRE_BUILD:-$source_dir/build}/libacre.so}
record=${2:-$source_dir/tests/abi/libacre.abi}
include=${3:-$source_dir/include}

skip() {
    echo "skipped: $1"
    exit 77
}
[ -f "$record" ] || skip "there is no $(basename "$record"): \`make abi\` writes it"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [[ $library == *.abi ]]; then
    cp "$library" "$tmp/now.abi"
else
    "$root/scripts/abi" "$library" "$include" "$tmp/now.abi" || exit
fi

soname() { sed -n 's/^soname: //p' "$1"; }
old=$(soname "$record")
new=$(soname "$tmp/now.abi")
[ "$old" = "$new" ] ||
    skip "$(basename "$record") is of $old, this is $new: \`make abi\` writes it again"

# compare OLD: prints what changed since OLD, and fails if the change is incompatible.
compare() { "$root/scripts/abi" --compare "$1" "$tmp/now.abi"; }

if ! compare "$record"; then
    cat <<TEXT
check_abi: the ABI changed, but the SONAME is still $new. A program linked before the change would
load this library and may fail. Do one of these:
  - keep the old function or layout beside the new one;
  - if the last release has this SONAME: raise ACRE_VERSION_MINOR in include/acre.h, which changes the
    SONAME, then run \`make abi\`;
  - if no release has this SONAME yet: run \`make abi\`.
\`make abi\` writes tests/abi/$(basename "$record"); commit it with the change.
TEXT
    exit 1
fi

names() { sed -E 's/: .*//; s/^(function|constant) ([^@]*).*/\2/' "$1" | sort -u; }
added=$(comm -13 <(names "$record") <(names "$tmp/now.abi") | paste -sd ' ')
[ -z "$added" ] || echo "check_abi: not in $(basename "$record") yet, \`make abi\` adds them: $added"
echo "check_abi: $(grep -c '^function' "$record") functions as in $(basename "$record")"

# ---- the last release ----------------------------------------------------------------------------

# In a hook git names its repository in variables.
git() { env -u GIT_DIR -u GIT_WORK_TREE -u GIT_INDEX_FILE git -C "$(dirname "$record")" "$@" 2>/dev/null; }
tag=
# A tarball may be unpacked inside another repository, which then does not know the file.
if command -v git >/dev/null && git ls-files --error-unmatch "$(basename "$record")" >/dev/null; then
    tag=$(git describe --tags --abbrev=0 --match 'v[0-9]*') || tag=
fi
if [ -z "$tag" ]; then # without tags: the commit that gave the changelog the date of the last release
    changes=$(git rev-parse --show-toplevel || true)/CHANGELOG.md
    heading=$(sed -n '/^## [0-9.]* ([0-9-]*)$/{p;q}' "$changes" 2>/dev/null || true)
    [ -z "$heading" ] || tag=$(git log -1 --format=%h -S"$heading" -- "$changes") || tag=
fi
if [ -z "$tag" ]; then
    echo "check_abi: no release to compare with"
elif ! git show "$tag:./$(basename "$record")" >"$tmp/release.abi"; then
    echo "check_abi: the release $tag has no $(basename "$record")"
elif [ "$(soname "$tmp/release.abi")" != "$new" ]; then
    echo "check_abi: the SONAME changed since the release $tag, from $(soname "$tmp/release.abi") to $new"
elif compare "$tmp/release.abi"; then
    echo "check_abi: compatible with the release $tag"
else
    cat <<TEXT
check_abi: the ABI is incompatible with the release $tag, but the SONAME is still $new. A program linked
with that release would load this library and may fail. Keep the old function or layout beside the new
one, or raise ACRE_VERSION_MINOR in include/acre.h, which changes the SONAME, and run \`make abi\`.
TEXT
    exit 1
fi
