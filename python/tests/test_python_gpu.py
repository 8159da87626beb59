"""torch, CuPy and JAX take memory of a GPU by DLPack and __cuda_array_interface__, without a copy.

Runs on a machine with a GPU, for those of the libraries that are installed: tests/gpu/run.sh python, or

    ACRE_REQUIRE_CUDA=1 PYTHONPATH=build/python python3 -m pytest python/tests/test_python_gpu.py
"""

import gc
import os

import pytest

import acre

MIB = 1 << 20


@pytest.fixture(name="gpu")
def fixture_gpu():
    try:
        device = acre.open("cuda", soft=False)
    except acre.Error as error:
        if os.environ.get("ACRE_REQUIRE_CUDA") == "1":
            raise
        pytest.skip(f"no GPU: {error.detail}")
    with device:
        yield device
        gc.collect()


@pytest.fixture(name="torch")
def fixture_torch(gpu):
    return pytest.importorskip("torch")


@pytest.fixture(name="cupy")
def fixture_cupy(gpu):
    return pytest.importorskip("cupy")


def test_torch_shares_device_memory(gpu, torch):
    array = gpu.zeros((3, 4), "float32")
    tensor = torch.from_dlpack(array)
    assert tensor.is_cuda and tensor.shape == (3, 4) and tensor.data_ptr() == array.ptr
    tensor += 5
    torch.cuda.synchronize()
    assert (array.get() == 5).all()
    pool, owner = gpu.default_pool(), array.owner
    del array
    with pytest.raises(BufferError):
        owner.free()
    del owner
    assert len(pool.blocks()) == 1  # the tensor has it
    del tensor
    gc.collect()  # the exception's traceback has the owner
    assert pool.blocks() == []


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float64", "int64", "uint8", "bool"])
def test_torch_types(gpu, torch, name):
    tensor = torch.from_dlpack(gpu.zeros((2, 5), name))
    assert tensor.dtype == getattr(torch, name) and tensor.stride() == (5, 1)


def test_torch_waits_for_the_producers_stream(gpu, torch):
    own, consumer = gpu.stream(non_blocking=True), torch.cuda.Stream()
    for turn in range(1, 50):
        block = gpu.alloc(64 * MIB, own)
        block.fill(turn)
        with torch.cuda.stream(consumer):
            tensor = torch.from_dlpack(block)
            total = (tensor == turn).sum()
        consumer.synchronize()
        assert total.item() == 64 * MIB
        del tensor, block


def test_torch_holds_a_growing_vec_in_place(gpu, torch):
    vec = gpu.vec("float32")
    vec.append(torch.arange(1000, dtype=torch.float32, device="cuda"))
    tensor = torch.from_dlpack(vec)
    vec.grow(100 * MIB)
    assert tensor.data_ptr() == vec.ptr and tensor.sum().item() == 499500
    with pytest.raises(BufferError):
        vec.resize(10)
    del tensor
    vec.resize(10)


def test_torch_streams_and_tensors_are_operands(gpu, torch):
    source = torch.arange(256, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    block = gpu.alloc(256, torch.cuda.current_stream())
    block.copy_from(source)
    assert block.tobytes() == bytes(range(256))


def test_torch_takes_pinned_memory(gpu, torch):
    array = gpu.empty(1000, "float32", kind="pinned")
    tensor = torch.from_dlpack(array)
    assert not tensor.is_cuda and tensor.data_ptr() == array.ptr
    assert tensor.is_pinned()


def test_cupy_shares_device_memory(gpu, cupy):
    array = gpu.zeros((3, 4), "float32")
    for take in (cupy.from_dlpack, cupy.asarray):
        taken = take(array)
        assert taken.data.ptr == array.ptr and taken.shape == (3, 4) and taken.dtype == cupy.float32
        taken += 1
        cupy.cuda.Device().synchronize()
    assert (array.get() == 2).all()


def test_cupy_streams_and_arrays_are_operands(gpu, cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        source = cupy.arange(100, dtype=cupy.int32)
    vec = gpu.vec("int32", stream=stream)
    vec.append(source)
    assert vec.get().tolist() == list(range(100))


def test_jax_takes_device_memory(gpu):
    jax, dlpack = pytest.importorskip("jax"), pytest.importorskip("jax.dlpack")
    array = gpu.zeros((3, 4), "float32")
    taken = dlpack.from_dlpack(array)
    assert taken.shape == (3, 4) and float(taken.sum()) == 0
    assert taken.unsafe_buffer_pointer() == array.ptr
    del taken
    jax.block_until_ready(jax.numpy.zeros(1))  # threads of JAX let go of the array when its last use is over


def test_interface_of_device_memory(gpu):
    array = gpu.zeros((3, 4), "float32")
    assert array.__dlpack_device__() == (2, gpu.ordinal)
    assert array.__cuda_array_interface__["data"] == (array.ptr, False)
