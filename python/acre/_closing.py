"""What all objects that can be closed have in common."""

from __future__ import annotations

from typing import Any


class Closing:
    """`with` closes the object."""

    def close(self) -> None:
        """Ends the object. A second call is a no-op."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            self.close()
        except BufferError:
            if kind is None:
                raise
            # An exception has priority. It may hold the export itself; the garbage collector closes the object.
