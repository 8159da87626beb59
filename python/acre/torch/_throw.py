"""Compiles torch_throw.cpp against the installed PyTorch, once for each version of both.

The library is stored in the user's cache folder ($XDG_CACHE_HOME/acre, else ~/.cache/acre). A lock lets
processes that start together compile it once.
"""

import ctypes
import fcntl
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile

from . import _plug

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_throw.cpp")
COMPILERS = ("c++", "g++", "clang++")
STANDARDS = ("c++20", "c++17")  # headers of newer PyTorch need the first, older compilers know the second
COMPILE_SECONDS = 120

# struct acre_torch_table of torch_throw.cpp
TABLE = (
    "acre_torch_alloc", "acre_torch_free", "acre_torch_failure", "acre_torch_begin_pool",
    "acre_torch_end_pool", "acre_torch_release_pool",
)


class CannotBuild(RuntimeError):
    """The C++ part could not be compiled or loaded."""


def cache_folder():
    """Returns the folder for compiled files, which belongs to this user alone."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(base, "acre")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        owner = os.stat(folder)
    except OSError as error:
        raise CannotBuild(f"cannot use the cache folder {folder} ({error}): set XDG_CACHE_HOME to "
                          "a folder that can be written") from None
    if owner.st_uid != os.getuid() or owner.st_mode & 0o022:
        raise CannotBuild(f"other users can write to {folder}: set XDG_CACHE_HOME to a folder of your own")
    return folder


def compiler():
    """Returns the command of the C++ compiler: $CXX, or the first that is installed."""
    command = shlex.split(os.environ.get("CXX", ""))
    for name in [command[:1] and command[0], *COMPILERS]:
        if name and shutil.which(name):
            return command if command and name == command[0] else [name]
    raise CannotBuild("no C++ compiler found: install g++, or set CXX")


def flags(torch):
    """Returns the options that the installed PyTorch needs."""
    root = os.path.dirname(os.path.abspath(torch.__file__))
    new_abi = int(bool(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True)))
    libraries = os.path.join(root, "lib")
    return ["-O2", "-fPIC", "-shared", f"-D_GLIBCXX_USE_CXX11_ABI={new_abi}",
            "-I", os.path.join(root, "include"), "-L", libraries, f"-Wl,-rpath,{libraries}"]


def _compile(command, options, output):
    said = ""
    for standard in STANDARDS:
        full = [*command, f"-std={standard}", *options, SOURCE, "-lc10", "-o", output]
        try:
            done = subprocess.run(full, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotBuild(f"{shlex.join(full)}: {error}") from None
        if done.returncode == 0:
            return
        said = said or f"{shlex.join(full)}\n{done.stderr[-2000:]}"
    raise CannotBuild(f"the compiler failed:\n{said}")


def build(torch):
    """Returns the path of the compiled library."""
    command, options = compiler(), flags(torch)
    with open(SOURCE, "rb") as file:
        source = file.read()
    about = "\0".join([torch.__version__, platform.machine(), *command, *options]).encode()
    name = f"torch-{torch.__version__}-{hashlib.sha256(about + source).hexdigest()[:16]}.so"
    folder = cache_folder()
    target = os.path.join(folder, name.replace(os.sep, "_"))
    if os.path.exists(target):
        return target
    with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(target):
            handle, unfinished = tempfile.mkstemp(suffix=".so", dir=folder)
            os.close(handle)
            try:
                _compile(command, options, unfinished)
                os.chmod(unfinished, 0o700)
                os.replace(unfinished, target)
            finally:
                if os.path.exists(unfinished):
                    os.unlink(unfinished)
    return target


def load(torch):
    """Returns the path of the compiled library, loaded and connected with libacre_torch.so."""
    path = build(torch)
    try:
        library = ctypes.CDLL(path)
        table = (ctypes.c_void_p * len(TABLE)).in_dll(library, "acre_torch_functions")
    except (OSError, ValueError) as error:
        raise CannotBuild(f"cannot load {path}: {error}; delete the file to compile it again") from None
    for i, name in enumerate(TABLE):
        table[i] = _plug.address(getattr(_plug.plug(), name))
    return path, library
