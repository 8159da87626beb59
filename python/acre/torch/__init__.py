"""acre under PyTorch.

    import acre.torch
    acre.torch.use()            # before the first use of CUDA: all tensors are in acre's pool

    with acre.torch.pool(tag="kv"):
        cache = torch.empty(...)                # counted under the tag "kv"
    print(acre.torch.memory_summary())          # what fills the card
    acre.torch.snapshot("memory.pickle")        # for PyTorch's page memory_viz

Without `use`, PyTorch keeps its own allocator, and `pool` serves a region from acre by a
torch.cuda.MemPool.
"""

from ._pools import Pool, pool
from ._snapshot import record_stacks, snapshot
from ._stats import memory_summary, stats
from ._use import is_used, use

__all__ = ["Pool", "is_used", "memory_summary", "pool", "record_stacks", "snapshot", "stats", "use"]
