"""acre as PyTorch's allocator for the whole process."""

from __future__ import annotations

import functools
import os
import sys
import warnings

from . import _plug, _stats, _throw

OLDEST = (2, 1)

# What torch.compile calls the modes whose graphs save and restore the state of PyTorch's own allocator,
# which no other allocator can do.
GRAPH_MODES = ("reduce-overhead", "max-autotune")
GRAPH_OPTION = "triton.cudagraphs"
GRAPH_BACKEND = "cudagraphs"
GRAPH_VARIABLE = "TORCHINDUCTOR_CUDAGRAPHS"

_used = None  # keeps what PyTorch calls alive


def is_used() -> bool:
    """Returns whether use() made acre the allocator of this process."""
    return _used is not None


def _torch():
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError("acre.torch needs PyTorch, which this Python does not have") from None

    numbers = torch.__version__.split("+")[0].split(".")[:2]
    if tuple(int(n) for n in numbers if n.isdigit()) < OLDEST:
        raise RuntimeError(f"acre.torch needs PyTorch {OLDEST[0]}.{OLDEST[1]} or later, "
                           f"but {torch.__version__} is installed")
    if getattr(getattr(torch, "version", None), "cuda", None) is None:
        raise RuntimeError(f"PyTorch {torch.__version__} is built without CUDA, and has no allocator to replace")
    return torch


def _check_early(torch):
    if torch.cuda.is_initialized():
        raise RuntimeError("acre.torch.use() must come before the first use of CUDA in the process: "
                           "PyTorch cannot change its allocator later. Call it right after import torch, "
                           "or use acre.torch.pool() for a part of the program.")


def _set(allocator, name, value, required=False):
    """Sets one of the functions of the allocator, if this PyTorch has it."""
    setter = getattr(allocator, name, None)
    if setter is not None:
        setter(value)
    elif required:
        raise RuntimeError(f"this version of PyTorch has no {name}: acre.torch.use() needs it for "
                           "tensors that several streams use")


def _connect(torch, throwing):
    """Returns the allocator for PyTorch, and what must stay loaded."""
    plug = _plug.plug()
    make = torch.cuda.memory.CUDAPluggableAllocator
    if throwing is None:
        outer = make(_plug.path(), "acre_torch_alloc", "acre_torch_free")
    else:
        outer = make(throwing[0], "acre_torch_throwing_alloc", "acre_torch_throwing_free")
    inner = outer.allocator()
    _set(inner, "set_record_stream_fn", _plug.address(plug.acre_torch_record_stream), required=True)
    _set(inner, "set_reset_fn", _plug.address(plug.acre_torch_reset))
    _set(inner, "set_memory_fraction_fn", _plug.address(plug.acre_torch_memory_fraction))
    if throwing is not None and hasattr(inner, "set_release_pool"):
        library = throwing[1]
        _set(inner, "set_begin_allocate_to_pool", _plug.address(library.acre_torch_throwing_begin))
        _set(inner, "set_end_allocate_to_pool_fn", _plug.address(library.acre_torch_throwing_end))
        _set(inner, "set_release_pool", _plug.address(library.acre_torch_throwing_release))
    return outer


def use(*, helper: bool = True) -> None:
    """Makes acre's pools PyTorch's allocator. Call it before the first use of CUDA; again is a no-op.

    Out of memory is raised as torch.OutOfMemoryError with acre's report as its text, which needs a small
    library that is compiled against the installed PyTorch at the first use, with the system's C++
    compiler. If that fails, use() refuses. With helper=False it goes on without the library: an
    allocation that fails is then printed to stderr, and PyTorch takes the missing memory for a tensor,
    which fails later, or crashes.

    PyTorch's statistics (torch.cuda.memory_allocated, memory_stats, reset_peak_memory_stats ...),
    empty_cache and set_per_process_memory_fraction work with acre's figures. torch.compile refuses the
    modes reduce-overhead and max-autotune, whose graphs need PyTorch's own allocator, and torch.cuda.MemPool
    refuses, too. torch.backends.cudnn.benchmark stays False, with a warning for a program that sets it.
    """
    global _used
    if _used is not None:
        return
    torch = _torch()
    _check_early(torch)
    throwing = None
    if helper:
        try:
            throwing = _throw.load(torch)
        except _throw.CannotBuild as error:
            raise RuntimeError(f"acre.torch.use() cannot raise torch.OutOfMemoryError: {error}\n"
                               "acre.torch.use(helper=False) goes on without it.") from None
    outer = _connect(torch, throwing)
    if throwing is None:
        _plug.plug().acre_torch_tell_failures(1)
    torch.cuda.memory.change_current_allocator(outer)
    _used = (outer, throwing)
    _stats.replace(torch)
    _guard_compile(torch)
    _guard_pools(torch)
    _guard_benchmark(torch)


def _graphs_wanted(mode, options, backend):
    """Returns what asks torch.compile for graphs, or None."""
    if mode in GRAPH_MODES:
        return f"mode={mode!r}"
    if options and options.get(GRAPH_OPTION):
        return f"options={{{GRAPH_OPTION!r}: True}}"
    if backend == GRAPH_BACKEND:
        return f"backend={backend!r}"
    if mode not in (None, "default") or backend not in (None, "inductor") or GRAPH_OPTION in (options or ()):
        return None  # these decide, whatever the configuration says
    config = sys.modules.get("torch._inductor.config")
    if config is None:  # torch.compile imports it, and it then reads the environment
        return f"{GRAPH_VARIABLE}=1" if os.environ.get(GRAPH_VARIABLE) == "1" else None
    if getattr(getattr(config, "triton", None), "cudagraphs", False):
        return f"torch._inductor.config.triton.cudagraphs (or {GRAPH_VARIABLE}=1)"
    return None


def _guard_compile(torch):
    """Makes torch.compile refuse what cannot work, by name, instead of failing inside PyTorch."""
    inner = getattr(torch, "compile", None)
    if inner is None:
        return

    @functools.wraps(inner)
    def compile_without_graphs(*args, **kwargs):
        asked = _graphs_wanted(kwargs.get("mode"), kwargs.get("options"), kwargs.get("backend"))
        if asked:
            raise RuntimeError(
                f"torch.compile with {asked} does not work under acre.torch.use(): its graphs save and "
                "restore the state of PyTorch's own allocator. Use mode='default' or "
                "'max-autotune-no-cudagraphs', capture graphs by torch.cuda.graph or "
                "torch.cuda.make_graphed_callables, or leave acre.torch.use() out and serve regions by "
                "acre.torch.pool().")
        return inner(*args, **kwargs)

    torch.compile = compile_without_graphs


def _guard_pools(torch):
    """Makes torch.cuda.MemPool refuse, by name, instead of failing inside PyTorch."""
    kind = getattr(torch.cuda, "MemPool", None)
    if kind is None:
        return

    def refuse(*_args, **_kwargs):
        raise RuntimeError("torch.cuda.MemPool does not work under acre.torch.use(): its memory comes from PyTorch's own "
                           "allocator. Use `with acre.torch.pool(tag=...):`, or leave acre.torch.use() out.")

    kind.__init__ = refuse


def _guard_benchmark(torch):
    """Makes torch.backends.cudnn.benchmark = True a no-op, instead of a convolution that fails.

    cuDNN's search asks PyTorch's own allocator how much memory is free.
    """
    core = torch._C
    inner = getattr(core, "_set_cudnn_benchmark", None)
    if inner is None:
        return

    def set_benchmark(value):
        if value:
            warnings.warn("torch.backends.cudnn.benchmark stays False under acre.torch.use(): cuDNN's search for the "
                          "fastest algorithm needs PyTorch's own allocator", stacklevel=3)
        inner(False)

    if getattr(core, "_get_cudnn_benchmark", bool)():
        set_benchmark(True)
    core._set_cudnn_benchmark = set_benchmark
    module = getattr(getattr(torch, "backends", None), "cudnn", None)
    # The property has the function itself.
    held = vars(type(module)).get("benchmark")
    if getattr(held, "setter", None) is inner:
        held.setter = set_benchmark
