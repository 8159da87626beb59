# shellcheck shell=bash
# For tests that run compilers: commands side by side. The test sources this file and has a folder $tmp.

: "${tmp:?}"
beside_count=0

# beside COMMAND...: starts a command or a function, as soon as a core is free.
beside() {
    local log=$tmp/beside.$((++beside_count))
    while [ "$(jobs -pr | wc -l)" -ge "$(nproc)" ]; do
        wait -n || true
    done
    (
        trap '[ $? -eq 0 ] || mv "$log" "$log.failed"' EXIT
        "$@"
    ) >"$log" 2>&1 &
}

# beside_ends: waits for all commands, prints what they said in their order, and fails if one failed.
beside_ends() {
    local i failed=0
    wait
    for ((i = 1; i <= beside_count; i++)); do
        if [ -e "$tmp/beside.$i" ]; then
            cat "$tmp/beside.$i"
        else
            cat "$tmp/beside.$i.failed"
            failed=1
        fi
    done
    return $failed
}
