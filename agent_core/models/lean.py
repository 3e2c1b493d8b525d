"""Import an SDK without the hundreds of classes that describe its answers, until somebody asks for one.

The SDKs of models import one module for each shape that their services know: half a second or more, and some 15 MB, at
the first call after a start. We build the requests and read the answers ourselves and need none of them. So the
packages of types are put into `sys.modules` unread; the first look at a name that they should have reads them then.
Nothing else changes: an SDK that looks for its types finds them, and one that is laid out otherwise is simply imported.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

_TYPES = "types"
_reading = threading.RLock()


class _Later(ModuleType):
    """A package whose `__init__` runs when a name of it is first asked for."""

    def __getattr__(self, name: str) -> Any:
        """Called for names that are not there (yet)."""
        if name.startswith("__"):
            raise AttributeError(name)
        with _reading:
            if type(self) is _Later:
                # from here on the import system and we treat it as any other
                object.__setattr__(self, "__class__", ModuleType)
                assert self.__spec__ is not None
                assert self.__spec__.loader is not None
                self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def defer_types(package: str) -> int:
    """Put off the types of an SDK that is not imported yet. Returns how many packages are put off.

    Call it right before the import, in the same thread. Does nothing for an SDK that is imported already.
    """
    if package in sys.modules:
        return 0
    top = importlib.util.find_spec(package)
    if top is None or not top.submodule_search_locations:
        return 0
    folder = Path(next(iter(top.submodule_search_locations)))
    names = [_TYPES, *(f"{_TYPES}.{one.name}" for one in sorted((folder / _TYPES).glob("*")) if _is_package(one))]
    return sum(_defer(f"{package}.{name}", folder.joinpath(*name.split(".")[:-1])) for name in names)


def _is_package(folder: Path) -> bool:
    return (folder / "__init__.py").is_file()


def _defer(name: str, parent: Path) -> bool:
    spec = importlib.machinery.PathFinder.find_spec(name, [str(parent)])
    if spec is None or spec.loader is None or spec.submodule_search_locations is None:
        return False
    module = importlib.util.module_from_spec(spec)
    module.__class__ = _Later
    sys.modules[name] = module
    above, _, own = name.rpartition(".")
    if above in sys.modules:  # the import system names a package in the one above it; so must we
        setattr(sys.modules[above], own, module)
    return True
