"""Fixtures of the tests. They run on the soft device, or on the device that ACRE_DEVICE names."""

import gc
import os

import forked
import pytest

import acre

MIB = 1 << 20


def pytest_report_header():
    from acre import _library

    return f"acre {acre.version()}, {_library.path()}"


def pytest_collection_finish():
    """Tests search for unused objects: among their own, not in all modules, which takes 20 ms."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session):
    """If all tests were skipped, so is the file: exit status 77."""
    stats = session.config.pluginmanager.get_plugin("terminalreporter").stats
    if stats.get("skipped") and not {"passed", "failed", "error", "xfailed", "xpassed"} & set(stats):
        session.exitstatus = 77
        session.config.skip_reason = stats["skipped"][0].longrepr[2].removeprefix("Skipped: ")


def pytest_unconfigure(config):
    """Prints the reason as the last line."""
    if hasattr(config, "skip_reason"):
        print(f"skipped: {config.skip_reason}")


@pytest.fixture
def device():
    """A device with 256 MiB if it is soft."""
    gc.collect()
    name = os.environ.get("ACRE_DEVICE", "soft")
    options = {"soft_bytes": 256 * MIB} if name.startswith("soft") else {}
    with acre.open(name, **options) as opened:
        yield opened
    gc.collect()


@pytest.fixture
def small(device):
    """A device that a test can fill: the soft one of 256 MiB."""
    if device.driver != "soft":
        pytest.skip("needs a small device")
    return device


@pytest.fixture
def run_python():
    """Runs a program in a process of its own; its exit status must be 0. Returns what it printed."""

    def run(program, cuda=False, rc=0, imports="import acre", **environment):
        """cuda: the stand-in for NVIDIA's driver is found, so that the device is a GPU for acre."""
        if cuda:
            environment.update(ACRE_CUDA_LIBRARY=f"{os.environ['ACRE_BUILD']}/soft/libcuda.so.1", ACRE_DEVICE="cuda")
        done = forked.run(program, imports=imports, environment=environment)
        assert done.returncode == rc, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture
def standin():
    """Skips the test if the stand-in for NVIDIA's driver was not built."""
    if not os.path.exists(os.path.join(os.environ.get("ACRE_BUILD", ""), "soft", "libcuda.so.1")):
        pytest.skip("the stand-ins are not built")
