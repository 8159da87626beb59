"""The wheel: its contents, and its use in a fresh environment without network."""

import base64
import csv
import hashlib
import importlib.metadata
import io
import os
import subprocess
import sys
import zipfile

import pytest

import acre

SOURCE, BUILD = os.environ.get("ACRE_SOURCE", ""), os.environ.get("ACRE_BUILD", "")

pytestmark = pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="a wheel has no sanitizer")


def build(folder):
    command = [sys.executable, os.path.join(SOURCE, "scripts", "wheel"), "--build", BUILD, "--output", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module", name="wheel")
def fixture_wheel(tmp_path_factory):
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", name="python")
def fixture_python(wheel, tmp_path_factory):
    """The interpreter of a fresh environment in which the wheel is installed."""
    folder = str(tmp_path_factory.mktemp("venv"))
    environment = clean()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], env=environment, check=True)
    python = os.path.join(folder, "bin", "python")
    if has_pip():
        command = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps",
                   "--disable-pip-version-check", wheel]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    else:  # an installer unpacks the wheel
        where = [python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"]
        unpack(wheel, subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip())
    return python


def has_pip():
    """Whether there is a pip that installs for another interpreter: a pip of the new environment's own takes 5 s."""
    try:
        return [int(part) for part in importlib.metadata.version("pip").split(".")[:2]] >= [22, 3]
    except importlib.metadata.PackageNotFoundError:
        return False


def clean():
    """An environment that knows nothing of the build tree, and has no way to a network."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ACRE_", "PYTHON", "PIP_"))}
    return {**kept, "http_proxy": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1"}


def unpack(wheel, folder):
    with zipfile.ZipFile(wheel) as archive:
        for item in archive.infolist():
            os.chmod(archive.extract(item, folder), item.external_attr >> 16)


def run(python, *arguments):
    done = subprocess.run([python, *arguments], env=clean(), cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_record_has_every_file_and_its_hash(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        dist = f"acre-{acre.version()}.dist-info"
        for name, digest, length in csv.reader(io.StringIO(archive.read(f"{dist}/RECORD").decode())):
            names.remove(name)
            if name.endswith("RECORD"):
                continue
            data = archive.read(name)
            wanted = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, int(length)) == (f"sha256={wanted}", len(data)), name
        assert names == set()


def test_wheel_has_all_modules_and_libraries(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for name in os.listdir(os.path.join(SOURCE, "python", "acre")):
        if name.endswith(".py"):
            assert f"acre/{name}" in names
    assert {"acre/py.typed", "acre/lib/libacre_python.so", "acre/include/acre_heap_rtc.h"} <= names
    assert any(name.startswith("acre/lib/libacre.so.") for name in names)
    assert not any("__pycache__" in name for name in names)


def test_wheel_is_reproducible(wheel, tmp_path):
    with open(build(tmp_path), "rb") as again, open(wheel, "rb") as first:
        assert again.read() == first.read()


def test_wheel_works_in_a_fresh_environment(python):
    said = run(python, "-c", "import acre; print(acre.open('soft').info); print(acre.__file__)")
    assert "acre soft device" in said and BUILD not in said
    program = (
        "import acre; d = acre.open('soft'); b = d.alloc(10, kind='pinned'); b.__dlpack__(); "
        "print(d.default_pool('pinned').blocks(), acre.heap_header(), acre._library.path())"
    )
    said = run(python, "-c", program)
    assert "LiveBlock" in said and BUILD not in said and "site-packages" in said


def test_wheel_has_the_tool(python, wheel):
    with zipfile.ZipFile(wheel) as archive:
        if "acre/bin/acre" not in archive.namelist():
            pytest.skip("the tool is not built")
    assert acre.version() in run(python, "-m", "acre", "--version")
    script = os.path.join(os.path.dirname(python), "acre")
    if os.path.exists(script):  # pip writes it
        assert acre.version() in run(python, script, "--version")
