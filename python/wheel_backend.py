"""The build backend of pyproject.toml (PEP 517): `pip install ./python` gets the wheel of scripts/wheel."""

import os
import subprocess
import sys

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scripts", "wheel")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    command = [sys.executable, SCRIPT, "--output", wheel_directory]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return os.path.basename(done.stdout.strip())


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("acre has no source distribution of its Python package alone: build a wheel")
