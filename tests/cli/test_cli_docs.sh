#!/usr/bin/env bash
# What the documents say is so: the lines of C, the commands, the variables, the links.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$ACRE_SOURCE" || exit 2
rc=0
out=/dev/null
err=/dev/null
last='reading the documents'

# The README's program compiles as printed, without a warning, and runs. A sanitizer's library would
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

# Every command and variable is in the man page.
for word in info doctor replay plan bench demo trace stats run; do
    check "man page has $word" grep -q "^\*$word\*" man/acre.1.scd
done
"$acre" --help | sed -n 's/^  \(ACRE_[A-Z_]*\) .*/\1/p' | sort >"$work/variables"
check "the tool lists variables" test -s "$work/variables"
while read -r name; do
    check "man page has $name" grep -qF "${name//_/\\_}" man/acre.1.scd
done <"$work/variables"

# Every suite of the bench and every example is in a document.
"$acre" bench --help | sed -n '/^Suites:/,/^$/ s/^  \([a-z]*\) .*/\1/p' >"$work/suites"
check "the tool lists suites" test -s "$work/suites"
while read -r name; do
    check "man page has suite $name" grep -qF "*$name*" man/acre.1.scd
done <"$work/suites"
for file in examples/*.c examples/cuda/*.c examples/cuda/*.cpp; do
    check "a document has $file" grep -qF "$file" examples/README.md docs/guide.md
done

# Links between documents lead somewhere.
for file in README.md CONTRIBUTING.md CHANGELOG.md docs/*.md examples/README.md; do
    grep -o '](\([^)#]*\)' "$file" | sed 's/^](//' | grep -v '^[a-z]*:' | sort -u >"$work/links"
    while read -r link; do
        [ -z "$link" ] || check "$file links to $link" test -e "$(dirname "$file")/$link"
    done <"$work/links"
done

check "the changelog has this version" grep -q "^## $("$acre" --version | cut -d' ' -f2)" CHANGELOG.md

finish
