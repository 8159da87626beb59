#!/usr/bin/env bash
# The page that acre report writes, in Chromium: see browser.mjs.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../cli/lib.sh"
playwright=$ACRE_SOURCE/.deps/browser
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if ! command -v node >/dev/null || [ -z "$browser" ] || [ ! -d "$playwright/node_modules/playwright-core" ]; then
    skip "scripts/deps browser installs Chromium and playwright-core"
fi
! is_sanitized || skip "the pages are those of a plain build"
cd "$work" || exit 2
mkdir pages

run "$no_gpu" ACRE_TRACE=program.trace ACRE_STACKS=8 "$ACRE_BUILD/examples/oom_report"
expect_rc 0
python3 "$ACRE_SOURCE/tests/page/gen_trace.py" hostile.trace || exit 2
run "$acre" report program.trace -o pages/program.html
if [ "$rc" -eq 2 ] && grep -q 'built without uPlot' "$err"; then
    skip "scripts/deps page installs uPlot"
fi
expect_rc 0
"$acre" trace --json program.trace >pages/program.json
run "$acre" report hostile.trace -o pages/hostile.html
expect_rc 0
"$acre" trace --json hostile.trace >pages/hostile.json
python3 "$ACRE_SOURCE/tests/page/gen_trace.py" many.trace 8000 || exit 2
run "$acre" report many.trace -o pages/many.html
expect_rc 0
"$acre" trace --json many.trace >pages/many.json
head -c $((4096 + 65536 + 64 + 200)) hostile.trace >cut.trace
run "$acre" report cut.trace -o pages/cut.html
expect_rc 2
run "$acre" report "$ACRE_SOURCE/tests/fuzz/corpus/rmm.csv" -o pages/rmm.html
expect_rc 0
run "$acre" report program.trace --against hostile.trace -o pages/pair.html
expect_rc 0

run node "$ACRE_SOURCE/tests/page/browser.mjs" "$playwright" "$browser" "$work/pages"
expect_rc 0
expect_out '^[0-9]+ pages$'
finish
