#!/usr/bin/env bash
# acre run with a program that acre knows nothing about: ffmpeg uploads frames to the device and
# downloads them again. Skipped without ffmpeg or its CUDA support.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2
if is_sanitized || ! ffmpeg -hide_banner -hwaccels 2>/dev/null | grep -x cuda >/dev/null; then
    skip "needs ffmpeg with CUDA (scripts/deps programs) and a build without sanitizers"
fi
quiet=(-hide_banner -loglevel error -nostdin -y)
source=(-f lavfi -i testsrc=size=320x240:rate=10:duration=2)
device=(-init_hw_device cuda=c -filter_hw_device c)

ffmpeg "${quiet[@]}" "${source[@]}" -vf format=nv12 -f framemd5 host.md5
run "$acre" run --leaks --errors --check --stats -- ffmpeg "${quiet[@]}" "${device[@]}" "${source[@]}" \
    -vf format=nv12,hwupload_cuda,hwdownload,format=nv12 -f framemd5 device.md5
expect_rc 0
expect_err '^acre: no races between streams$'
expect_err '^acre: no call was refused$'
expect_err '^acre: everything was freed$'
expect_err '^acre: allocations: [1-9][0-9]*, '
check "20 frames" test "$(grep -vc '^#' device.md5)" -eq 20
check "the same frames" diff <(grep -v '^#' host.md5) <(grep -v '^#' device.md5)

# A filter with a kernel: the report says which call the soft device does not support.
run "$acre" run --errors -- ffmpeg "${quiet[@]}" "${device[@]}" "${source[@]}" \
    -vf format=nv12,hwupload_cuda,scale_cuda=160:120,hwdownload,format=nv12 -f null -
check "it fails" test "$rc" -ne 0
expect_err '^acre: calls that the soft device does not support: 1$'
expect_err '^        1  cuModuleGetFunction +CUDA_ERROR_NOT_SUPPORTED +libavfilter\.so\.[0-9]+\+0x'

# Killed in the middle: the report still has what it held.
last="acre run --leaks -- ffmpeg, killed"
err=$work/killed.err
"$acre" run --leaks -- ffmpeg "${quiet[@]}" "${device[@]}" -re -f lavfi -i testsrc=size=320x240:rate=10 \
    -vf format=nv12,hwupload_cuda,hwdownload,format=nv12 -progress progress.txt -f null - 2>"$err" &
tool=$!
wait_for grep -qs '^frame=[1-9]' progress.txt
kill -KILL "$(pgrep -P "$tool")"
wait "$tool"
rc=$?
expect_rc 137
expect_err '^acre: ffmpeg was killed by SIGKILL$'
expect_err '^acre: not freed: 1$'
expect_err '^ +180 KiB +1  device +cuMemAlloc +0x[0-9a-f]+ +libavutil\.so\.[0-9]+\+0x'
finish
