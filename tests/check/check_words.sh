#!/usr/bin/env bash
# Words that do not belong in the tree: marks of unfinished work, folders of somebody's machine,
# phrases for which the field has a term (phrases.txt), pipes into grep -q in scripts, and in the
# documents make targets and presets that do not exist.
#   check_words.sh [ROOT]
set -euo pipefail

root=${1:-${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}}
cd "$root"
rc=0

list_files() {
    if [ -d .git ] && git rev-parse >/dev/null 2>&1; then
        git ls-files -co --exclude-standard
    else
        find . \( -name .git -o -name build -o -name .sysroot -o -name .deps \) -prune -o -type f -print |
            sed 's:^\./::'
    fi
}
mapfile -t files < <(list_files | sort | while read -r f; do [ ! -f "$f" ] || echo "$f"; done)
[ ${#files[@]} -gt 0 ] || { echo "check_words: no files in $root"; exit 1; }

# complain TEXT, with findings on standard input: none is good.
complain() {
    local line
    while read -r line; do
        echo "$line: $1"
        rc=1
    done
}

# The patterns are put together from pieces so that this file does not match itself. Documents may
# name the marks, to say that there are none.
marks="TO""DO|FIX""ME|X""XX"
mapfile -t not_documents < <(printf '%s\n' "${files[@]}" | grep -v '\.md$')
complain "unfinished work" < <(grep -HInwE "$marks" -- "${not_documents[@]}" | cut -c1-160)

folders="ho""me|ro""ot|wo""rk|Us""ers"
complain "a folder of one machine" < <(
    grep -HInE "(^|[^A-Za-z0-9_.}~)-])/($folders)/[A-Za-z0-9_.]" -- "${files[@]}" | cut -c1-160)

# grep -q ends at its first match. With pipefail the pipe then fails if the writer has not finished.
mapfile -t scripts < <(grep -lI -- 'pipefail' "${files[@]}" | grep -vE '\.md$')
complain "write grep PATTERN >/dev/null, which reads its input to the end" < <(
    grep -HInE '\| *grep -[A-Za-z]*q' -- /dev/null "${scripts[@]}" | grep -v 'grep -HInE' | cut -c1-160)

# Recorded output stays as it is; the checks themselves name the phrases.
phrases=$(dirname "$0")/phrases.txt
mapfile -t prose < <(printf '%s\n' "${files[@]}" | grep -vE '^tests/(data|check|fuzz/corpus)|\.svg$')
# One search for all phrases says whether to search for each, which takes a process per phrase.
if grep -qIE -f <(cut -f1 "$phrases") -- "${prose[@]}"; then
    while IFS=$'\t' read -r phrase instead; do
        complain "write \"$instead\"" < <(grep -HInE -- "$phrase" "${prose[@]}" | cut -c1-160)
    done <"$phrases"
fi

# commands_of FILE: the lines `LINE make WORD...` that a document shows, in a block of code or
# between backticks.
commands_of() {
    awk '
        /^[ \t]*```/ { code = !code; next }
        code && /^[ \t]*(\$ )?make( |$)/ { sub(/^[ \t]*(\$ )?/, ""); print FNR, $0; next }
        !code {
            rest = $0
            while (match(rest, /`make[^`]*`/)) {
                print FNR, substr(rest, RSTART + 1, RLENGTH - 2)
                rest = substr(rest, RSTART + RLENGTH)
            }
        }' "$1" | sed -E "s/=('[^']*'|\"[^\"]*\")/=/g" # a quoted value has blanks but no targets
}

targets=$(sed -n 's/^\([a-z-]*\):.*/\1/p' Makefile)
presets=$(sed -n 's/^ *"name": *"\([a-z]*\)".*/\1/p' CMakePresets.json)
for document in "${files[@]}"; do
    [[ $document == *.md ]] || continue
    while read -r line _ words; do
        for word in $words; do
            case $word in
            PRESET=*)
                grep -qxF -- "${word#PRESET=}" <<<"$presets" ||
                    complain "there is no such preset" <<<"$document:$line: $word"
                ;;
            [a-z]*=* | [A-Z]*=* | -*) ;;
            [a-z]*)
                grep -qxF -- "$word" <<<"$targets" ||
                    complain "there is no such make target" <<<"$document:$line: make $word"
                ;;
            *) break ;; # a comment, a pipe, a second command
            esac
        done
    done < <(commands_of "$document")
done

echo "check_words: ${#files[@]} files"
exit $rc
