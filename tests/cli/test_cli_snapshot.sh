#!/usr/bin/env bash
# acre snapshot: programs that listen, that do not, and that have ended; files that it may not replace.
# tests/api/test_snapshot.c tests what a snapshot contains.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2
export XDG_RUNTIME_DIR=$work/run
mkdir -m 700 "$XDG_RUNTIME_DIR"

# start VARIABLE=VALUE...: a program with 500 blocks of 1000 bytes, which then waits.
start() {
    mkfifo to from
    env "$@" "$ACRE_BUILD/tests/api/test_stats_export" serve <to >from &
    program=$!
    exec 7>to 8<from
    rm to from
    read -r -n 1 -u 8 _
}
stop() {
    kill -9 $program
    wait $program 2>/dev/null
    exec 7>&- 8<&-
}

start ACRE_CONTROL=1 ACRE_SOFT_BYTES=1GiB
check "the folder is the user's alone" test "$(stat -c %a "$XDG_RUNTIME_DIR/acre")" = 700
run "$acre" snapshot $program
expect_rc 0
expect_err "^acre: acre-$program.snapshot.json: [0-9]+ bytes\$"
cp "acre-$program.snapshot.json" "$out"
expect_json '.schema == "acre-snapshot/1" and .process == '$program
expect_json '[.pools[].blocks[] | select(.bytes == 1000)] | length == 500'
run "$acre" report --json "acre-$program.snapshot.json"
expect_rc 0
expect_json '.format == "snapshot" and .live_bytes == 500000 and .live_blocks == 500 and .reserved_bytes > 0'
expect_json '.lead | test("^488.3 KiB live in 500 blocks; .* reserved\\.$")'
run "$acre" snapshot --output - $program
expect_rc 0
expect_json '.schema == "acre-snapshot/1"'
# Again, over the file that it wrote; but over no other file.
run "$acre" snapshot $program
expect_rc 0
echo mine >notes.txt
run "$acre" snapshot -o notes.txt $program
expect_rc 2
check "a file of the user's is left alone" test "$(cat notes.txt)" = mine
run "$acre" snapshot -o notes.txt --force $program
expect_rc 0
# A client that says nothing, or nonsense, does not stop the program from answering.
python3 - "$XDG_RUNTIME_DIR/acre" <<'P'
import glob, os, socket, sys
os.chdir(sys.argv[1])
name = glob.glob("*.control")[0]
for text in (b"", b"\n", b"dance\n", b"x" * 5000, b"snapshot now please\n"):
    s = socket.socket(socket.AF_UNIX)
    s.connect(name)
    if text:
        s.sendall(text)
        s.shutdown(socket.SHUT_WR)
    if text == b"dance\n":
        assert s.recv(100).startswith(b"error "), "an unknown request is refused"
    s.close()
P
check "nonsense is refused" test $? -eq 0
run "$acre" snapshot -o - $program
expect_rc 0
run "$acre" ps
expect_rc 0
expect_no_err
stop
# A killed program leaves its socket, which is then removed.
run "$acre" snapshot $program
expect_rc 2
expect_err "^acre: there is no process $program\$"
check "the socket is removed" test -z "$(ls "$XDG_RUNTIME_DIR/acre"/*.control 2>/dev/null)"

# A program that ends removes its socket.
run ACRE_CONTROL=1 "$no_gpu" ACRE_SOFT_BYTES=64MiB "$acre" demo --device soft --output -
check "no socket is left" test -z "$(ls "$XDG_RUNTIME_DIR/acre"/*.control 2>/dev/null)"

# So does the next program that publishes.
start ACRE_CONTROL=1 ACRE_SOFT_BYTES=1GiB
stop
check "a socket is left" test -n "$(ls "$XDG_RUNTIME_DIR/acre"/*.control 2>/dev/null)"
run ACRE_STATS=1 "$no_gpu" ACRE_SOFT_BYTES=64MiB "$acre" demo --device soft --output -
check "the socket is removed" test -z "$(ls "$XDG_RUNTIME_DIR/acre"/*.control 2>/dev/null)"

start ACRE_SOFT_BYTES=1GiB
run "$acre" snapshot $program
expect_rc 2
expect_err 'takes no requests: start it .*, or, if it uses acre, with ACRE_CONTROL=1'
stop
run ACRE_CONTROL=perhaps "$acre" demo --device soft --output -
expect_rc 2
expect_err 'ACRE_CONTROL'
run "$acre" snapshot
expect_rc 64
run "$acre" snapshot me
expect_rc 64

finish
