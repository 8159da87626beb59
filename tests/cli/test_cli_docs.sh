#!/usr/bin/env bash
# The documents are correct: C code, commands, variables, links.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$ACRE_SOURCE" || exit 2
rc=0
out=/dev/null
err=/dev/null
last='reading the documents'

# The README's program compiles as printed, without a warning, and runs. A sanitizer build would
# need flags that the README does not have.
awk '/^```c$/ {on = 1; next} /^```$/ {on = 0} on' README.md >"$work/readme.c"
check "the README has a program" grep -q '^int main' "$work/readme.c"
if ! is_sanitized; then
    check "the README's program compiles" cc -Wall -Wextra -Werror -Iinclude "$work/readme.c" -L"$ACRE_BUILD" \
        -lacre "-Wl,-rpath,$ACRE_BUILD" -o "$work/readme"
    run "$no_gpu" "$work/readme"
    expect_rc 0
    expect_out '^1 2 3$'
fi
check "the README has at most 900 words" test "$(wc -w <README.md)" -le 900

# Every command has a man page, and every exported function is in the library's page. Sanitizer
# builds have no man pages.
if ! is_sanitized; then
    "$acre" --help | sed -n '/^Commands:/,/^$/ s/^  \([a-z]*\) .*/\1/p' >"$work/commands"
    check "the tool lists commands" test -s "$work/commands"
    while read -r name; do
        check "acre-$name has a man page" grep -q "^\.TH ACRE-${name^^} " "$ACRE_BUILD/man/acre-$name.1"
        check "... with options and examples" grep -q '^\.SH.*EXAMPLES' "$ACRE_BUILD/man/acre-$name.1"
        check "acre(1) names acre-$name" grep -qF "acre\\-$name (1)" "$ACRE_BUILD/man/acre.1"
    done <"$work/commands"
    check "acre(1) has the variables" grep -q ACRE_SOFT_BYTES "$ACRE_BUILD/man/acre.1"
    grep -oE '\bacre_[a-z0-9_]+;' src/acre.map | tr -d ';' | sort -u >"$work/functions"
    check "the library exports functions" test -s "$work/functions"
    while read -r name; do
        check "acre(3) has $name" grep -q "^\.B .*[ *]$name(" "$ACRE_BUILD/man/acre.3"
    done <"$work/functions"
fi

# A document mentions every example.
for file in examples/*.c examples/cpp/* examples/cuda/*.c examples/cuda/*.cpp; do
    check "a document has $file" grep -qF "$file" examples/README.md docs/guide.md
done

# Links between documents have valid targets.
for file in *.md docs/*.md examples/README.md src/*/README.md cli/README.md bench/README.md standin/README.md; do
    # Lambdas in C++ look like links.
    awk '/^```/ { code = !code } !code' "$file" | grep -o '](\([^)#]*\)' | sed 's/^](//' | grep -v '^[a-z]*:' | sort -u >"$work/links"
    while read -r link; do
        [ -z "$link" ] || check "$file links to $link" test -e "$(dirname "$file")/$link"
    done <"$work/links"
done

check "the changelog has this version" grep -q "^## $("$acre" --version | cut -d' ' -f2)" CHANGELOG.md

finish
