#!/usr/bin/env bash
# acre top --once and acre ps: programs that publish, on the soft device and under acre run; programs
# that die, damaged files, folders of others; NVML. test_cli_top_screen.sh tests the live view.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/publish.sh"
cd "$work" || exit 2
find_python
cases=$ACRE_BUILD/tests/api/top_cases
folder=$XDG_RUNTIME_DIR/acre
small=ACRE_SOFT_BYTES=256MiB

# No real NVML: a fake one that fails, or has two cards.
export LD_LIBRARY_PATH=$ACRE_BUILD/tests/standin/nvml_cards NVML_FAILS=1

# ps ARGUMENT...: acre ps without its pause, as JSON.
ps() { run "$acre" ps --json --interval 0 "$@"; }
# published PID: the files of a process.
published() { find "$folder" -name "$1-*.stats" | wc -l; }
# is_listed PID: whether acre ps lists the process.
is_listed() { "$acre" ps --json --interval 0 | jq -s -e ".[0].processes | any(.pid == $1)" >/dev/null; }

# has_ended PID: whether a process is gone, or waits for its parent only.
# shellcheck disable=SC2317 # wait_for calls it
has_ended() { ! grep -q '^State:[[:space:]]*[^Z[:space:]]' "/proc/$1/status" 2>/dev/null; }

# ---- a program that publishes ----

publish one ACRE_STATS=1 "$small" "$cases"
one=$pid
check "one file" test "$(published "$one")" -eq 1
check "the folder is the user's alone" test "$(stat -c '%a %u' "$folder")" = "700 $(id -u)"
check "so is the file" test "$(stat -c %a "$folder/$one"-*.stats)" = 600
# A table of more than 64 descriptors costs a program with threads milliseconds: see own_file.h.
number=$(find "/proc/$one/fd" -lname "$folder/$one-*.stats" -printf '%f')
check "a high descriptor, in the smallest table" test "$((number >= 48 && number < 64))" -eq 1
check "no file in the making is left" test "$(find "$folder" -name '.*.new' | wc -l)" -eq 0
order one 'alloc 8 train/forward'
order one 'alloc 4 train/backward'
order one 'alloc 2'
ps
expect_rc 0
expect_no_err
expect_json '.schema == "acre-top/1" and .has_nvml == false and .cards == []'
expect_json "[.processes[] | select(.pid == $one)] | length == 1"
expect_json ".processes[] | select(.pid == $one) | .is_published and .program == \"top_cases\" and .cards == \"soft:0\""
expect_json ".processes[] | select(.pid == $one) | .held_bytes >= 14680064 and .live_bytes == 14680064 and .peak_bytes >= .held_bytes"
expect_json ".processes[] | select(.pid == $one) | .holders[] | select(.kind == \"pool\") | .name == \"soft:0 device default\" and .allocs == 3 and .alloc_bytes == 14680064 and .live_blocks == 3"
expect_json ".processes[] | select(.pid == $one) | [.holders[] | select(.kind == \"tag\") | {(.name): .live_bytes}] | add == {\"train\": 12582912, \"train/forward\": 8388608, \"train/backward\": 4194304}"
expect_json ".processes[] | select(.pid == $one) | .holders[] | select(.kind == \"device\") | .total_bytes == 268435456"
expect_json ".processes[] | select(.pid == $one) | .allocs_per_s == null"
# Only memory of the device counts, and frees are seen, also those that hit a thread's cache.
order one free
sleep 0.05
order one 'churn 10'
ps
expect_json ".processes[] | select(.pid == $one) | .live_bytes <= 1024 and .held_bytes > 0 and .peak_bytes >= 14680064"

# Tables.
run_leaks "$acre" ps --filter "$one"
expect_rc 0
expect_plain
expect_out '^ *PID +CARD +STATE +LIVE +HELD +PEAK +AWAY +ALLOC/S +BYTES/S +PROGRAM$'
expect_out "^ *$one +soft:0 +running +[0-9]+ K?i?B +[0-9.]+ [KM]iB +[0-9.]+ MiB +- +0 +0 B +top_cases"
check "one process" test "$(wc -l <"$out")" -eq 2
run "$acre" top --once --interval 0 --filter "$one"
expect_out "^ *$one +soft:0 .* - +- +top_cases"
order one 'alloc 8 train/forward'
run "$acre" ps --pid "$one" --interval 0
expect_rc 0
expect_out "^process $one: .*top_cases$"
expect_out '^POOL +LIVE +HELD +PEAK +LIMIT +ALLOC/S +BYTES/S$'
expect_out '^train/forward +8 MiB +- +8 MiB'
run_leaks "$acre" ps --json --pid "$one"
expect_json ".processes | length == 1 and .[0].pid == $one"
run "$acre" ps --filter 'matches nothing'
expect_rc 0
expect_out '^no process matches the filter$'
run "$acre" ps --pid 4194304000
expect_rc 2
expect_err '^acre: process 4194304000 publishes no statistics: start it with ACRE_STATS=1'
# acre stats finds the published file, too.
run "$acre" stats --json "$one"
expect_json '.is_running and (.rows | any(.kind == "tag"))'
# Without a terminal acre top prints once.
run "$acre" top --interval 0 --filter "$one"
expect_rc 0
expect_out "^ *$one "

# Rates: a program that allocates while it is looked at.
while [ ! -e enough ]; do
    order one 'churn 20000'
    echo >>churned
done &
churner=$!
wait_for test -s churned
run "$acre" ps --json --interval 0.2
touch enough
wait "$churner"
allocs=$((14 + 20000 * $(wc -l <churned)))
expect_json ".processes[] | select(.pid == $one) | .allocs_per_s > 0 and (.alloc_bytes_per_s / .allocs_per_s | . > 900 and . < 1100)"
ps
expect_json ".processes[] | select(.pid == $one) | .holders[] | select(.kind == \"pool\") | .allocs == $allocs"

# A child that exits does not remove the parent's file.
order one fork
check "the file is still there" test "$(published "$one")" -eq 1

# ---- the order ----

mkdir 'a dir' # spaces in the path of a program, and slashes in its arguments
ln -s "$cases" 'a dir/top_cases'
publish two ACRE_STATS=yes "$small" './a dir/top_cases' 'x/y z'
two=$pid
order two 'alloc 64'
ps --pid "$two"
expect_json '.processes[0] | .program == "top_cases" and .command == "top_cases x/y z"'
for sort in held live peak pid name rate; do
    ps --sort "$sort"
    expect_rc 0
    pids=$(jq -c "[.processes[] | select(.pid == $one or .pid == $two) | .pid]" "$out")
    case $sort in
        held | live | peak) check "by $sort" test "$pids" = "[$two,$one]" ;;
        pid) check "by $sort" test "$pids" = "$(printf "%s\n" "$one" "$two" | jq -cs sort)" ;; # numbers may have begun again
    esac
done

# ---- the end of a program ----

close_program two
wait "$two"
check "a program that ends removes its file" test "$(published "$two")" -eq 0
check "and is not listed" test "$(is_listed "$two" && echo yes)" = ""
publish three ACRE_STATS=1 "$small" "$cases"
three=$pid
disown "$three"
wait_for is_listed "$three"
kill -KILL "$three"
wait_for has_ended "$three"
check "SIGKILL leaves the file" test "$(published "$three")" -eq 1
ps
expect_rc 0
expect_json ".processes | any(.pid == $three) | not"
expect_json ".processes | any(.pid == $one)"
check "a reader removes it" test "$(published "$three")" -eq 0
publish four ACRE_STATS=1 "$small" "$cases"
four=$pid
disown "$four"
kill -KILL "$four"
wait_for has_ended "$four"
publish five ACRE_STATS=1 "$small" "$cases"
five=$pid
check "so does the next program" test "$(published "$four")" -eq 0
# Processes that die while they are read.
for i in $(seq 10); do
    publish "brief$i" ACRE_STATS=1 "$small" "$cases"
    (sleep "0.0$i" && kill -KILL "$pid") &
    disown "$pid"
    ps
    expect_rc 0
    expect_json '.processes | length > 0'
done
wait "$!"

# A program that was killed while it created its file.
touch -d '2 minutes ago' "$folder/.4711-abcdef.new"
touch "$folder/.4712-abcdef.new"
ps
expect_json '.damaged_files == 0'
check "an old file in the making is removed" test ! -e "$folder/.4711-abcdef.new"
check "a new one is not" test -e "$folder/.4712-abcdef.new"
rm "$folder/.4712-abcdef.new"

# ---- files that are not statistics ----

echo 'dear reader' >"$folder/letter"
head -c 400000 /dev/urandom >"$folder/4711-abcdef.stats"
: >"$folder/4712-abcdef.stats"
printf 'ACRESTA\n' >"$folder/4713-abcdef.stats" # of a program that has ended: removed
mkfifo "$folder/4714-abcdef.stats"
mkdir "$folder/4715-abcdef.stats"
ln -s /etc/passwd "$folder/4716-abcdef.stats"
ps
expect_rc 0
expect_json ".processes | any(.pid == $one)"
expect_json '.damaged_files == 6'
run "$acre" ps --interval 0
expect_err "^acre: 6 files in .*/acre: not statistics of acre$"
check "they stay" test -s "$folder/letter" -a -p "$folder/4714-abcdef.stats" -a -L "$folder/4716-abcdef.stats"
check "a leftover does not" test ! -e "$folder/4713-abcdef.stats"
rm -rf "$folder"/letter "$folder"/471?-abcdef.stats
# A damaged file that a running process holds.
inputs=("$ACRE_SOURCE"/tests/fuzz/corpus_stats/*)
if is_sanitized; then # where the fuzz target has read all of them
    inputs=("$ACRE_SOURCE"/tests/fuzz/corpus_stats/{device_without_number,tag_and_memory,texts_not_terminated})
fi
for input in "${inputs[@]}"; do
    cp "$input" "$folder/4711-abcdef.stats"
    flock "$folder/4711-abcdef.stats" "$acre" ps --json --interval 0 >"$out" 2>"$err"
    rc=$?
    expect_rc 0
    expect_json ".processes | any(.pid == $one)"
    flock "$folder/4711-abcdef.stats" "$acre" ps --interval 0 >"$out" 2>"$err"
    check "only printable ASCII of $input" test -z "$(tr -d '\n -~' <"$out")"
    flock "$folder/4711-abcdef.stats" "$acre" ps --prometheus >metrics.prom 2>/dev/null
    check "metrics of $input" python3 "$ACRE_SOURCE/tests/cli/prometheus_check.py" metrics.prom
done
rm "$folder/4711-abcdef.stats"

# Names with control characters, bidirectional marks and 10 kB of text.
long=$(printf 'x%.0s' $(seq 10000))
ln -s "$cases" "$(printf 'evil\033[31m\xe2\x80\xaename')"
publish evil ACRE_STATS=1 "$small" "./$(printf 'evil\033[31m\xe2\x80\xaename')" "$long"
evil=$pid
run "$acre" ps --interval 0 --filter "$evil"
expect_plain
expect_out "^ *$evil .*evil\\?\\[31m\\?\\?\\?name"
check "only printable ASCII" test -z "$(tr -d '\n -~' <"$out")"
check "a bounded line" test "$(awk '{ if (length($0) > most) most = length($0) } END { print most + 0 }' "$out")" -le 400
ps --pid "$evil"
expect_json '.processes[0].program == "evil?[31m???name" and (.processes[0].command | length < 300)'
order evil "alloc 1 a-tag-that-is-long/$(printf 'y%.0s' $(seq 60))/$(printf 'z%.0s' $(seq 60))/end-of-it"
ps --pid "$evil"
expect_json '.processes[0].holders | any(.kind == "tag" and (.name | startswith("...") and endswith("/end-of-it")))'
close_program evil

# ---- folders ----

# Where programs publish without XDG_RUNTIME_DIR: in memory, else in /tmp. Containers may share
# /dev/shm, and then have the same process numbers: each pid namespace has a folder of its own.
other_folder=$(printf '/dev/shm/acre-%d-%x' "$(id -u)" "$(stat -Lc %i /proc/self/ns/pid)")
[ -d /dev/shm ] || other_folder=/tmp/acre-$(id -u)

# is_refused NAME: a program publishes elsewhere if its folder $refused/acre is refused, and is listed.
refused=$work/refused
is_refused() {
    publish "$1" XDG_RUNTIME_DIR="$refused" ACRE_STATS=1 ACRE_CONTROL=1 "$small" "$cases"
    check "nothing was written" test -z "$(ls -A "$refused/acre/")"
    check "it publishes elsewhere" test "$(find "$other_folder" -name "$pid-*.stats" | wc -l)" -eq 1
    check "with its socket" test "$(find "$other_folder" -name "$pid-*.control" | wc -l)" -eq 1
    run XDG_RUNTIME_DIR="$refused" "$acre" ps --json --interval 0
    expect_json ".refused_folders == 1 and (.processes | any(.pid == $pid))"
    close_program "$1"
}
# A folder that others can use is refused, by programs and by readers.
mkdir -p "$refused/acre"
chmod 755 "$refused/acre"
is_refused open
run XDG_RUNTIME_DIR="$refused" "$acre" ps --interval 0
expect_rc 0
expect_err "^acre: $refused/acre must be yours and have mode 0700: ignored$"
rmdir "$refused/acre"
mkdir -m 700 "$refused/elsewhere"
ln -s elsewhere "$refused/acre"
is_refused link
rm "$refused/acre"
if [ "$(id -u)" -eq 0 ]; then
    mkdir -m 700 "$refused/acre"
    chown 65534 "$refused/acre"
    is_refused foreign
    chown 0 "$refused/acre"
    # A read-only folder is passed over as well: even root cannot write there.
    if unshare -m mount --bind "$refused/acre" "$refused/acre" 2>/dev/null; then
        read_only="mount --bind '$refused/acre' '$refused/acre' && mount -o remount,ro,bind '$refused/acre' && exec \"\$@\""
        publish read_only XDG_RUNTIME_DIR="$refused" ACRE_STATS=1 ACRE_CONTROL=1 "$small" unshare -m sh -c "$read_only" sh "$cases"
        check "it publishes elsewhere" test "$(find "$other_folder" -name "$pid-*.stats" | wc -l)" -eq 1
        check "with its socket" test "$(find "$other_folder" -name "$pid-*.control" | wc -l)" -eq 1
        close_program read_only
    fi
fi
# Without the variable, or with a folder that does not exist.
for variable in -uXDG_RUNTIME_DIR XDG_RUNTIME_DIR=/nonexistent/runtime XDG_RUNTIME_DIR=relative; do
    name=other${#variable}
    publish "$name" "$variable" ACRE_STATS=1 "$small" "$cases"
    other=$pid
    check "it publishes there" test "$(find "$other_folder" -name "$other-*.stats" | wc -l)" -eq 1
    check "a folder for the user alone" test "$(stat -c %a "$other_folder")" = 700
    run "$variable" "$acre" ps --json --interval 0
    expect_json ".processes | any(.pid == $other)"
    ps
    expect_json ".processes | any(.pid == $other)"
    close_program "$name"
    wait "$other"
done
# Two containers that share /dev/shm: neither lists the other's programs, or suspends them.
if [ -d /dev/shm ] && unshare -pf --mount-proc true 2>/dev/null; then
    contained() { publish "$1" -uXDG_RUNTIME_DIR ACRE_STATS=1 ACRE_CONTROL=1 "$small" unshare -pf --mount-proc "$cases"; }
    contained left
    contained right
    inside=$(pgrep -P "$pid")
    run nsenter -t "$inside" -p -m -- env -u XDG_RUNTIME_DIR "$acre" ps --json --interval 0
    expect_json '.processes | length == 1 and .[0].pid == 1'
    run nsenter -t "$inside" -p -m -- env -u XDG_RUNTIME_DIR "$acre" suspend 1 --json
    expect_rc 0
    expect_json '.devices | length == 1'
    close_program left
    close_program right
fi
# 0 publishes nothing, and a file is a file.
publish off ACRE_STATS=0 "$small" "$cases"
check "not published" test "$(published "$pid")" -eq 0
run "$acre" stats "$pid"
expect_rc 2
expect_err 'keeps no statistics: start it with ACRE_STATS=1$'
close_program off
publish file ACRE_STATS=own.stats "$small" "$cases"
check "not published" test "$(published "$pid")" -eq 0
run "$acre" stats own.stats
expect_out "^process $pid, "
close_program file

# ---- acre run ----

if [ -f "$ACRE_BUILD/soft/libcuda.so.1" ] && ! is_sanitized; then
    publish run "$small" "$acre" run --device soft -- "$ACRE_BUILD/tests/standin/top_cuda"
    ran=$pid
    ps
    expect_json ".processes[] | select(.pid == $ran) | .is_published and .cards == \"soft\" and .live_bytes == 4194304 and .held_bytes == 4194304 and .peak_bytes == 5242880 and .allocs == 3"
    expect_json ".processes[] | select(.pid == $ran) | .holders | any(.name == \"pinned\" and .live_bytes == 3145728 and .is_host)"
    close_program run
    wait "$ran"
    check "the file is removed" test "$(published "$ran")" -eq 0
    publish runs "$small" "$acre" run --device soft --stats -- "$ACRE_BUILD/tests/standin/top_cuda"
    check "both publish" test "$(find "$folder" -name '*.stats' | wc -l)" -ge 3
    close_program runs
    wait "$pid"
    publish quiet "$small" ACRE_STATS=0 "$acre" run --device soft -- "$ACRE_BUILD/tests/standin/top_cuda"
    check "the user's value counts" test "$(published "$pid")" -eq 0
    close_program quiet
fi

# On a GPU, for which the stand-in is the driver here: acre's pool, or with --watch the driver's own
# memory. The card is found by its address, whatever its number.
if [ -f "$ACRE_BUILD/shim/libacre_shim.so" ] && ! is_sanitized; then
    driver=LD_LIBRARY_PATH=$ACRE_BUILD/soft
    publish served "$small" "$driver" "$acre" run --device cuda -- "$ACRE_BUILD/tests/standin/top_cuda"
    ran=$pid
    run -uNVML_FAILS NVML_BUS=7AC0:01:00.0 "$acre" ps --json --interval 0 --pid "$ran"
    expect_json '.processes[0] | .cards == "GPU 1" and .live_bytes == 4194304'
    expect_json '.processes[0].holders | map(.kind) == ["device", "pool"]'
    ps --pid "$ran"
    expect_json '.processes[0].cards == "cuda:0"'
    close_program served
    wait "$ran"
    check "the file is removed" test "$(published "$ran")" -eq 0
    publish watched "$small" "$driver" "$acre" run --watch -- "$ACRE_BUILD/tests/standin/top_cuda"
    ps --filter top_cuda
    expect_json '.processes[0] | .live_bytes == 4194304 and .peak_bytes == 5242880'
    expect_json '.processes[0].holders | map([.kind, .name]) == [["memory", "device"], ["memory", "pinned"]]'
    close_program watched
    wait "$pid"
fi

# ---- NVML ----

unset NVML_FAILS
export NVML_PIDS="$one:0:500,$$:1:1024,999999999:1:-"
ps
expect_rc 0
expect_json '.has_nvml and (.cards | length == 2)'
expect_json '.cards[0] == {"index": 0, "name": "NVIDIA H200", "pci": "00000000:3B:00.0", "total_bytes": 85899345920, "used_bytes": 21474836480, "busy_percent": 12}'
expect_json '.cards[1].name == "evil?[31m??? card"'
expect_json ".processes[] | select(.pid == $one) | .is_published and .card_bytes == 524288000 and .cards == \"soft:0\""
expect_json ".processes[] | select(.pid == $$) | (.is_published | not) and .held_bytes == 1073741824 and .live_bytes == null and .cards == \"GPU 1\" and (.program | length > 1)"
expect_json '.processes[] | select(.pid == 999999999) | .held_bytes == null and .program == "?"'
run "$acre" ps --interval 0
expect_rc 0
expect_plain
expect_out '^CARD +USED +TOTAL +USE +BUSY +NAME$'
expect_out '^GPU 0 +20 GiB +80 GiB +25 % +12 % +NVIDIA H200$'
expect_out "^ *$$ +GPU 1 +- +- +1 GiB +- +- +- +- "
run "$acre" ps --pid "$$" --interval 0
expect_rc 0
expect_out 'publishes no statistics$'

# ---- metrics ----

run_leaks "$acre" ps --prometheus
expect_rc 0
cp "$out" metrics.prom
check "the format" python3 "$ACRE_SOURCE/tests/cli/prometheus_check.py" metrics.prom
expect_out "^acre_pool_live_bytes\\{pid=\"$one\",program=\"top_cases\",pool=\"soft:0 device default\",id=\"[0-9]+\"\\} 838[89][0-9]{3}$"
expect_out "^acre_pool_allocs_total\\{pid=\"$one\",.*\\} $allocs\$"
expect_out "^acre_tag_live_bytes\\{pid=\"$one\",.*tag=\"train/forward\",.*\\} 8388608$"
expect_out '^acre_card_used_bytes\{card="0",name="NVIDIA H200",pci="00000000:3B:00.0"\} 21474836480$'
expect_out "^acre_process_running\\{pid=\"$five\",program=\"top_cases\"\\} 1$"
run "$acre" ps --prometheus --output all.prom
expect_rc 0
expect_no_out
check "the file has the metrics" grep -q '^acre_card_total_bytes' all.prom
check "others may read it" test "$(stat -c %a all.prom)" = "$(printf '%o' $((0666 & ~$(umask))))"
run "$acre" ps --prometheus --output all.prom
expect_rc 0
echo 'dear reader' >letter
run "$acre" ps --prometheus --output letter
expect_rc 2
expect_err 'acre did not write the existing file'
check "the letter is as before" grep -q '^dear reader$' letter
run "$acre" ps --prometheus --output letter --force
expect_rc 0
run "$acre" stats --prometheus "$one"
expect_rc 0
cp "$out" one.prom
check "the format" python3 "$ACRE_SOURCE/tests/cli/prometheus_check.py" one.prom
check "one process" test "$(grep -o 'pid="[0-9]*"' one.prom | sort -u)" = "pid=\"$one\""
run "$acre" stats --prometheus --output stats.prom "$one"
expect_rc 0
check "all counters of a pool" test "$(grep -c '^# TYPE acre_pool_' stats.prom)" -eq \
    "$("$acre" stats --json "$one" | jq '[.rows[] | select(.kind == "pool")][0].values | length')"
if command -v promtool >/dev/null; then
    for file in metrics.prom one.prom; do
        check "promtool accepts $file" promtool check metrics <"$file"
    done
fi

# ---- usage ----

for arguments in '--sort size' '--interval x' '--interval -1' '--interval 4000' '--pid 0' '--pid x' \
    '--prometheus --json' '--output x' '--force' 'argument'; do
    # shellcheck disable=SC2086 # words
    run "$acre" ps $arguments
    expect_rc 64
done
for arguments in '--prometheus --json' '--prometheus --watch 1' '--output x'; do
    # shellcheck disable=SC2086 # words
    run "$acre" stats $arguments own.stats
    expect_rc 64
done

close_program one
close_program five
wait
finish
