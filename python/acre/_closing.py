"""What objects have in common that own something of the library."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

Self = TypeVar("Self", bound="Closing")


class Unique:
    """An object that owns something: a copy of it would free that a second time."""

    def _refuse(self, what: str) -> NoReturn:
        raise TypeError(f"acre.{type(self).__name__} cannot be {what}: it owns what it stands for")

    def __copy__(self) -> NoReturn:
        self._refuse("copied")

    def __deepcopy__(self, _memo: Any) -> NoReturn:
        self._refuse("copied")

    def __reduce_ex__(self, _protocol: Any) -> NoReturn:
        self._refuse("pickled")


class Closing(Unique):
    """`with` closes the object."""

    def close(self) -> None:
        """Ends the object. A second call is a no-op."""
        raise NotImplementedError

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            self.close()
        except BufferError:
            if kind is None:
                raise
            # An exception has priority. It may hold the export itself; the garbage collector closes the object.
