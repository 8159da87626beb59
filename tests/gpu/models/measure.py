"""What the models of this folder share: the choice of the allocator, memory and time, and the report.

Import it before torch: the allocator is chosen by an environment variable, or before the first allocation.
"""

import argparse
import ctypes
import hashlib
import json
import os
import statistics
import struct
import sys
import threading
import time

SKIPPED = 77
ALLOCATORS = ("native", "expandable", "acre")
SAMPLE_SECONDS = 0.002
MIB = 1 << 20

torch = None  # set by begin()
_base = 0  # bytes of the GPU in use before the model exists
_used = None  # returns the bytes of the GPU in use
_sampled_by = "none"


def arguments(text):
    """Returns the parser of the options that every model has."""
    parser = argparse.ArgumentParser(
        description=text, epilog="Exit status: 0, 1 if the run failed, 77 without PyTorch or a GPU.",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--allocator", choices=ALLOCATORS, default="native",
                        help="PyTorch's own, the same with expandable segments, or acre.torch (default: native)")
    parser.add_argument("--seed", type=int, default=1234, help="of weights and data (default: 1234)")
    parser.add_argument("--json", metavar="FILE", help="also write the figures to FILE")
    parser.add_argument("--cpu", action="store_true", help="run on the CPU, to try the program without a GPU")
    return parser


def begin(args, warm):
    """Chooses the allocator, imports torch and returns the device. Ends the program if that is impossible.

    `warm(torch, device)` runs the model's operations on a few bytes: the libraries then load their kernels
    and allocate their own memory, which is no merit or fault of the allocator and is not counted.
    """
    global torch
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic matrix products
    if args.allocator == "expandable":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    try:
        import torch as imported
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(SKIPPED)
    torch = imported
    if not args.cpu and not torch.cuda.is_available():
        print("skipped: PyTorch finds no GPU")
        sys.exit(SKIPPED)
    if args.allocator == "acre" and not args.cpu:
        import acre.torch

        acre.torch.use()
    torch.manual_seed(args.seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    device = torch.device("cpu" if args.cpu else "cuda")
    warm(torch, device)
    torch.manual_seed(args.seed)
    if not args.cpu:
        _begin_memory()
    return device


def _begin_memory():
    global _base, _used, _sampled_by
    try:
        _used, _sampled_by = _Nvml().used, "nvml"
    except OSError:
        _used, _sampled_by = _cuda_used, "steps"
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    _base = _used()


class _Nvml:
    """The used memory of the first visible GPU, by NVML: it takes no lock of CUDA."""

    class Memory(ctypes.Structure):
        """nvmlMemory_t"""

        _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]

    def __init__(self):
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._device = ctypes.c_void_p()
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        index = int(visible) if visible.isdigit() else 0
        if self._library.nvmlInit_v2() or self._library.nvmlDeviceGetHandleByIndex_v2(
                ctypes.c_uint(index), ctypes.byref(self._device)):
            raise OSError("NVML does not start")
        self.used()

    def used(self):
        """Bytes of the whole GPU in use."""
        memory = self.Memory()
        if self._library.nvmlDeviceGetMemoryInfo(self._device, ctypes.byref(memory)):
            raise OSError("NVML cannot read the memory")
        return memory.used


def _cuda_used():
    free, total = torch.cuda.mem_get_info()
    return total - free


class Meter:
    """Peak memory, step times, and a checksum of what steps compute.

    Memory of the GPU is counted above what it had in use before the model existed. A thread samples it every
    2 ms if NVML works; otherwise each step does once.
    """

    def __init__(self, device):
        self._is_gpu = device.type == "cuda"
        self._hash = hashlib.sha1()
        self._times = []
        self._begin = 0.0
        self._stop = threading.Event()
        self._thread = None
        self._peak = _base
        self._failure = None  # of the thread
        self.last = 0.0
        if _sampled_by == "nvml":
            self._thread = threading.Thread(target=self._sample, daemon=True)
            self._thread.start()

    def _sample(self):
        try:
            while not self._stop.wait(SAMPLE_SECONDS):
                self._peak = max(self._peak, _used())
        except OSError as error:
            self._failure = error

    def step(self):
        """Begins a step."""
        if self._is_gpu:
            torch.cuda.synchronize()
        self._begin = time.perf_counter()

    def step_end(self, value, counts=True):
        """Ends a step. `value`, a number that it computed, goes into the checksum, the time into the median."""
        if self._is_gpu:
            torch.cuda.synchronize()
            self._peak = max(self._peak, _used()) if _sampled_by == "steps" else self._peak
        self.last = float(value)
        self._hash.update(struct.pack("<d", self.last))
        if counts:
            self._times.append(time.perf_counter() - self._begin)

    def report(self, name, args):
        """Prints the figures, and writes them as JSON if asked to."""
        self._stop.set()
        if self._thread:
            self._thread.join()
        if self._failure:
            raise self._failure
        skip = len(self._times) // 5  # the first steps choose kernels and fill caches
        figures = {
            "model": name, "allocator": args.allocator, "steps": len(self._times), "sampled_by": _sampled_by,
            "step_median_ms": round(statistics.median(self._times[skip:]) * 1e3, 3),
            "checksum": self._hash.hexdigest()[:16], "last": self.last,
        }
        if self._is_gpu:
            live = torch.cuda.max_memory_allocated()
            held = torch.cuda.max_memory_reserved()
            device = self._peak - _base
            figures.update(live_peak_mib=live // MIB, held_peak_mib=held // MIB, device_peak_mib=device // MIB,
                           device_to_live=round(device / max(1, live), 3))
        print(" ".join(f"{key}={value}" for key, value in figures.items()), flush=True)
        if args.json:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump(figures, file, indent=2)
