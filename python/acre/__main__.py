"""`python -m acre` runs the tool acre: the one of the wheel or of the build tree, else the one in PATH."""

import os
import shutil
import sys


def tool():
    """Returns the path of the tool, or None."""
    package = os.path.dirname(os.path.abspath(__file__))
    places = [os.path.join(package, "bin", "acre"), os.path.join(package, "..", "..", "acre")]
    for path in places:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.normpath(path)
    return shutil.which("acre")


def main():
    path = tool()
    if path is None:
        print("acre: the tool is not installed; build it (make) or install acre", file=sys.stderr)
        return 2
    try:
        os.execv(path, ["acre", *sys.argv[1:]])
    except OSError as error:
        print(f"acre: cannot run {path}: {error.strerror}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
