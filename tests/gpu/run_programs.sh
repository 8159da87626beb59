#!/usr/bin/env bash
# Programs under `acre run` on a GPU: what they print must be what they print without it.
#
#   tests/gpu/run_programs.sh BUILD     BUILD is the folder of the tool; prints "passed P failed F skipped S"
#                                       as its last line, and its measurements before that
#
# Uses nvcc, and python3 with CuPy, PyTorch and JAX. A program that is missing counts as skipped. TRY_OPTIONS
# replaces the options of `acre run` that the frameworks are tried with, for a shorter run.
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

# ---- the driver's answers ----

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

# ---- frameworks ----

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
g = torch.cuda.CUDAGraph(); s = torch.zeros(1000, device="cuda")
with torch.cuda.graph(g): s += torch.ones(1000, device="cuda")
for i in range(5): g.replay()
torch.cuda.synchronize(); torch.cuda.empty_cache()
print(float(x.double().sum()), float(s.sum()))
P
cat >"$work/use_jax.py" <<'P'
import jax, jax.numpy as jnp
x = jax.random.normal(jax.random.PRNGKey(1), (1024, 1024))
for i in range(5): x = jnp.tanh(x @ x)
print(float(x.sum()))
P
same() { [ -s "$work/native" ] && cmp -s "$work/native" "$work/out"; }
try() { # try NAME MODULE [VARIABLE=VALUE...]
    local name=$1 program=$work/use_$2.py options
    if ! python3 -c "import $2" 2>/dev/null; then
        skipped=$((skipped + 1))
        echo "$2: not installed"
        return
    fi
    shift 2
    run env "$@" python3 "$program"
    cp "$work/out" "$work/native"
    echo "$name: $(cat "$work/native")"
    for options in ${TRY_OPTIONS:---ipc=acre --gate=preload --watch --free=defer --limit=40GiB}; do
        run env "$@" "$acre" run "$options" -- python3 "$program"
        result "$name $options" same
    done
}
try cupy cupy
try torch torch
try "torch without its cache" torch PYTORCH_NO_CUDA_MEMORY_CACHING=1
try jax jax XLA_PYTHON_CLIENT_MEM_FRACTION=.2
try "jax, platform" jax XLA_PYTHON_CLIENT_ALLOCATOR=platform XLA_PYTHON_CLIENT_PREALLOCATE=false

# ---- tools ----

cat >"$work/past.cu" <<'P'
__global__ void write_past(char *p) { p[1000] = 1; }
int main() { char *p; cudaMalloc(&p, 1000); write_past<<<1, 1>>>(p); return cudaDeviceSynchronize() != cudaSuccess; }
P
nvcc -arch=native -o "$work/past" "$work/past.cu" || exit 2
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
run "$acre" run -- "$sanitizer" --target-processes all "$work/past"
result "compute-sanitizer finds a byte past a block" grep -q "Invalid __global__ write" "$work/out" "$work/err"
result "acre only watches under compute-sanitizer" grep -q "only watches" "$work/out" "$work/err"

# ---- costs and waits ----

for kind in static shared; do
    nvcc -O2 -arch=native -cudart $kind -o "$work/cost_$kind" "$root/tests/gpu/run_cost.cu" || exit 2
    for how in native "" --free=defer --watch; do
        echo "--- $kind runtime, ${how:-served}"
        # shellcheck disable=SC2086
        if [ "$how" = native ]; then run "$work/cost_$kind"; else run "$acre" run $how -- "$work/cost_$kind"; fi
        result "cost $kind $how" test $? -eq 0
        cat "$work/out"
        # shellcheck disable=SC2086
        if [ "$how" = native ]; then run "$work/cost_$kind" hazard; else run "$acre" run $how -- "$work/cost_$kind" hazard; fi
        result "hazard $kind $how" test $? -eq 0
        cat "$work/out"
    done
done

echo "passed $passed failed $failed skipped $skipped"
