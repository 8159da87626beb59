#!/usr/bin/env bash
# Programs under `acre run` on a GPU: what they print must be what they print without it.
#
#   tests/gpu/run_programs.sh BUILD     BUILD is the folder of the tool; prints "passed P failed F skipped S"
#                                       as its last line, and its measurements before that
#
# Uses nvcc, and python3 with CuPy, PyTorch and JAX. A program that is missing counts as skipped. TRY_OPTIONS
# replaces the options of `acre run` that the frameworks are tried with, for a shorter run. If TORCH_DIR has work.py,
# the figures include PyTorch's. If OUT names a folder, they go there as a table, else to BUILD.
set -uo pipefail
build=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
acre=$build/acre
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

# result WHAT COMMAND...: counts a check.
result() {
    local what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $what"
        tail -n 15 "$work/out" "$work/err" 2>/dev/null
    fi
}
run() { timeout 100 "$@" >"$work/out" 2>"$work/err" </dev/null; }
title() { echo "---- [$SECONDS s] $1"; }

# The programs, while others run.
cat >"$work/past.cu" <<'P'
__global__ void write_past(char *p) { p[1000] = 1; }
int main() { char *p; cudaMalloc(&p, 1000); write_past<<<1, 1>>>(p); return cudaDeviceSynchronize() != cudaSuccess; }
P
compile() { nvcc -O2 -arch=native "$@" || echo "nvcc failed: $*"; }
compile -o "$work/past" "$work/past.cu" &
compile -I "$root/include" -o "$work/pool_past" "$root/tests/gpu/run_past.cu" -L "$build" -lacre \
    -Xlinker -rpath="$build" &
compile -o "$work/parts" "$root/tests/gpu/run_parts.cu" -lcuda &
for kind in static shared; do
    compile -cudart $kind -o "$work/cost_$kind" "$root/tests/gpu/run_cost.cu" &
done

# ---- the driver's answers ----

title conformance

stored=$root/tests/data/conformance-h200.txt
conformance=$build/tests/conformance/conformance
all=$(grep -o '&conf_group_[a-z_]*' "$root/tests/conformance/conformance.c" | sed 's/&conf_group_//' | grep -v sticky | paste -sd,)
some=context,plain,pointer,copy,capture,async,own,reset
only_freed() { grep -q ' cases as stored' "$work/out" && ! grep -E '^[-+<>]' "$work/out" | grep -v 'copy\.freed'; }
for options in "" --gate=preload --watch; do
    groups=$all
    [ -z "$options" ] || groups=$some
    # shellcheck disable=SC2086 # options are words
    run "$acre" run $options -- "$conformance" --driver cuda --check "$stored" --group "$groups"
    head -c 1500 "$work/out"
    result "conformance $options" only_freed
done

# ---- tools ----

wait
title tools
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
run "$acre" run -- "$sanitizer" --target-processes all "$work/past"
result "compute-sanitizer finds a byte past a block" grep -q "Invalid __global__ write" "$work/out" "$work/err"
result "acre only watches under compute-sanitizer" grep -q "only watches" "$work/out" "$work/err"

run "$acre" run -- "$(command -v ncu || echo /usr/local/cuda/bin/ncu)" --metrics sm__cycles_elapsed.max "$work/past"
tail -n 4 "$work/out"
result "acre only watches under ncu" grep -q "only watches" "$work/out" "$work/err"

nsys=$(command -v nsys || find /opt/nvidia /usr/local/cuda/bin -maxdepth 4 -path '*/bin/nsys' 2>/dev/null | head -n 1)
if [ -n "$nsys" ]; then
    run "$nsys" profile --output "$work/profile" "$acre" run -- "$work/past"
    result "acre only watches under nsys" grep -q "only watches" "$work/out" "$work/err"
else
    echo "not tried: nsys, which this machine lacks"
fi

run env ACRE_SANITIZE=1 "$sanitizer" "$work/pool_past"
result "compute-sanitizer finds a byte past a block of a pool" \
    grep -q "1 bytes after the nearest allocation at .* of size 1,000 bytes" "$work/out" "$work/err"

# ---- parts ----

title parts
parts() { # parts PART EXPECTED OPTION...: what the program prints, on one line
    local part=$1 expected=$2
    shift 2
    if [ "$1" = native ]; then run "$work/parts" "$part"; else run "$acre" run "$@" -- "$work/parts" "$part"; fi
    echo "$part, $*: $(paste -sd, "$work/out")"
    result "$part $*" test "$(paste -sd, "$work/out")" = "$expected"
}
for how in native --ipc=acre --watch; do
    parts memops "memset: running; with the attribute: done" $how
    parts arrays "8 arrays,8 arrays" $how
    parts graphs "6 blocks beside the graph" $how
done
for how in "" --watch; do
    # shellcheck disable=SC2086 # options are words
    parts arrays "4 arrays,4 arrays" $how --limit 1100MiB
    # shellcheck disable=SC2086
    parts graphs "2 blocks beside the graph" $how --limit 1100MiB
done

# ---- costs and waits ----

title costs
figures=("$build" "$work/cost_static" "$work/cost_shared" --output "${OUT:-$build}/run-figures.json")
[ -z "${TORCH_DIR:-}" ] || figures+=(--work "$TORCH_DIR")
timeout 250 python3 "$root/tests/gpu/run_figures.py" "${figures[@]}" </dev/null
result "figures" test $? -eq 0
for kind in static shared; do
    run "$work/cost_$kind" overwrite
    cat "$work/out"
    result "the hazard test notices overwriting" grep -q 'overwritten words: [1-9]' "$work/out"
    for how in native "" --free=defer --watch; do
        echo "--- $kind runtime, ${how:-served}"
        # shellcheck disable=SC2086
        if [ "$how" = native ]; then run "$work/cost_$kind" hazard; else run "$acre" run $how -- "$work/cost_$kind" hazard; fi
        result "hazard $kind $how" test $? -eq 0
        cat "$work/out"
    done
done

# ---- frameworks ----

title frameworks

# PyTorch's own tests of CUDA, if the installation has them: each one that passes without acre must pass with it.
own=$(python3 -c 'import importlib.util as u, pathlib
print(pathlib.Path(u.find_spec("torch").origin).parent.parent / "test/test_cuda.py")' 2>/dev/null)
own=${TORCH_OWN_TESTS:-$own}
if [ -f "$own" ]; then
    own_tests() { (cd "$(dirname "$own")" && timeout 200 "$@" python3 "$own" -v TestCuda 2>&1 | grep ' \.\.\. ok$' | sort); }
    own_tests >"$work/own_plain"
    own_tests "$acre" run -- >"$work/own_acre"
    echo "test_cuda.py: $(wc -l <"$work/own_plain") pass without acre"
    comm -23 "$work/own_plain" "$work/own_acre" >"$work/out"
    result "test_cuda.py" test ! -s "$work/out"
else
    echo "not tried: PyTorch's test/test_cuda.py, which this installation lacks"
fi

cat >"$work/use_cupy.py" <<'P'
import cupy
a = cupy.arange(1 << 20, dtype=cupy.float32)
for i in range(20): b = (a * i).sum()
print(float(b), float(cupy.linalg.norm(cupy.random.RandomState(1).rand(500, 500) @ cupy.eye(500))) > 0)
cupy.get_default_memory_pool().free_all_blocks()
P
cat >"$work/use_torch.py" <<'P'
import torch
torch.manual_seed(1)
x = torch.randn(2048, 2048, device="cuda")
for i in range(10): x = (x @ x).tanh()
s = torch.zeros(1000, device="cuda"); one = torch.ones(1000, device="cuda")
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g): s += one
for i in range(5): g.replay()
torch.cuda.synchronize(); torch.cuda.empty_cache()
print(float(x.double().sum()), float(s.sum()))
P
cat >"$work/use_nccl.py" <<'P'
import torch, torch.distributed as dist
import os
dist.init_process_group("nccl", init_method=f"file:///tmp/acre-nccl-{os.getpid()}", rank=0, world_size=1, device_id=torch.device("cuda:0"))
x = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
dist.all_reduce(x); dist.broadcast(x, 0)
print(float(x.sum()))
dist.destroy_process_group()
P
cat >"$work/use_jax.py" <<'P'
import jax, jax.numpy as jnp
x = jax.random.normal(jax.random.PRNGKey(1), (1024, 1024))
for i in range(5): x = jnp.tanh(jnp.dot(x, x, precision="highest"))
print(float(x.sum()))
P
# same OUT: the program has printed there what it prints without acre.
same() { [ -s "$work/native" ] && cmp -s "$work/native" "$1"; }
options_tried=${TRY_OPTIONS:---ipc=acre --gate=preload --watch --free=defer --limit=40GiB}
try() { # try NAME MODULE [VARIABLE=VALUE...]
    local name=$1 program=$work/use_$2.py options module=${2/nccl/torch}
    # To import it would take seconds each time.
    if ! python3 -c "import importlib.util as u; raise SystemExit(u.find_spec('$module') is None)"; then
        skipped=$((skipped + 1))
        echo "$module: not installed"
        return
    fi
    shift 2
    # At the same time: most of it is the start of Python.
    timeout 100 env "$@" python3 "$program" >"$work/native" 2>"$work/err" </dev/null &
    for options in $options_tried; do
        timeout 100 env "$@" "$acre" run "$options" -- python3 "$program" >"$work/out$options" 2>"$work/err$options" \
            </dev/null &
    done
    wait
    cp "$work/native" "$work/out"
    echo "$name: $(cat "$work/native")"
    result "$name without acre" test -s "$work/native"
    for options in $options_tried; do
        cp "$work/out$options" "$work/out"
        cp "$work/err$options" "$work/err"
        result "$name $options" same "$work/out$options"
    done
}
# XLA measures which of several kernels is the fastest: results differ in the last bits from run to run.
export XLA_FLAGS=--xla_gpu_autotune_level=0
try cupy cupy
try torch torch
try "torch without its cache" torch PYTORCH_NO_CUDA_MEMORY_CACHING=1
try nccl nccl
try jax jax XLA_PYTHON_CLIENT_MEM_FRACTION=.05
try "jax, platform" jax XLA_PYTHON_CLIENT_ALLOCATOR=platform XLA_PYTHON_CLIENT_PREALLOCATE=false

# ---- a test suite of others: numba's, of its layer over the driver ----

title numba
# summary FILE: the outcome of each test, from the last line that is a JSON object.
summary() { grep '^{' "$1" | tail -n 1 | jq -S .; }
if python3 -c 'import numba.cuda' 2>/dev/null; then
    export PYTHONPATH=tests/gpu/numba_compat${PYTHONPATH:+:$PYTHONPATH}
    suite=(timeout 140 python3 -W ignore python/tests/numba_suite.py --all)
    "${suite[@]}" </dev/null >"$work/out" 2>"$work/err" &
    for options in --ipc=acre --ipc=driver; do
        "$acre" run $options -- "${suite[@]}" </dev/null >"$work/out$options" 2>"$work/err$options" &
    done
    wait
    summary "$work/out" >"$work/numba.native"
    passing=$(jq '[.[] | select(. == "ok")] | length' "$work/numba.native")
    echo "numba: ${passing:-0} tests pass without acre"
    result "numba's tests without acre" test "${passing:-0}" -gt 100
    for options in --ipc=acre --ipc=driver; do
        summary "$work/out$options" >"$work/numba.served"
        diff "$work/numba.native" "$work/numba.served" || tail -n 5 "$work/err$options"
        result "numba's tests $options" cmp -s "$work/numba.native" "$work/numba.served"
    done
else
    skipped=$((skipped + 1))
    echo "numba: not installed"
fi

echo "passed $passed failed $failed skipped $skipped"
