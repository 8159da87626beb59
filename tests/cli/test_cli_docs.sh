#!/usr/bin/env bash
# What the documents say is so: the lines of C, the commands, the variables, the links.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$ACRE_SOURCE" || exit 2
rc=0
out=/dev/null
err=/dev/null
last='reading the documents'

# The README's C is part of the example that the tests build and run.
awk '/^```c$/ {on = 1; next} /^```$/ {on = 0} on' README.md | sed 's/^ *//; /^$/d' >"$work/readme.c"
awk '/README begins/ {on = 1; next} /README ends/ {on = 0} on' examples/*.c |
    sed 's/^ *//; /^$/d' >"$work/example.c"
check "the README has lines of C" test -s "$work/readme.c"
check "the README's lines are the example's" diff "$work/readme.c" "$work/example.c"

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
    check "README or guide has $file" grep -qF "$file" README.md docs/guide.md
done

# Links between documents lead somewhere.
for file in README.md CONTRIBUTING.md CHANGELOG.md docs/*.md; do
    grep -o '](\([^)#]*\)' "$file" | sed 's/^](//' | grep -v '^[a-z]*:' | sort -u >"$work/links"
    while read -r link; do
        [ -z "$link" ] || check "$file links to $link" test -e "$(dirname "$file")/$link"
    done <"$work/links"
done

check "the changelog has this version" grep -q "^## $("$acre" --version | cut -d' ' -f2)" CHANGELOG.md

finish
