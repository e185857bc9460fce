"""Functions that are linked into kernels, and nothing else: no wrapper, no machine code, no file.

Called from Python, as in a test, such a function is compiled once more, as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from numba import config, njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

_WITHOUT = {"nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def linked(options: dict[str, Any]) -> Callable[[Any], Any]:
    """A decorator that compiles a function for kernels alone, with options of `njit`."""

    def compiled(function: Any) -> Any:
        if config.DISABLE_JIT:  # type: ignore[attr-defined]
            return function
        return _Inner(function, targetoptions=options | _WITHOUT, pipeline_class=_Linking)

    return compiled


class _Inner(CPUDispatcher):
    """A function for kernels."""

    def __call__(self, *args: Any) -> Any:
        return self._outer(*args)

    @cached_property
    def _outer(self) -> Any:
        """The same for Python."""
        options = {k: v for k, v in self.targetoptions.items() if k not in _WITHOUT}
        return njit(cache=True, **options)(self.py_func)


class _Linked(JITCodeLibrary):
    """Code to be linked: neither optimised alone nor made machine code of."""

    # its constants for Python objects, which only code that calls Python needs
    codegen = SimpleNamespace(set_env=lambda name, env: None)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0  # it has none


class _Linking(Compiler):
    """Numba's compiler, which makes such code."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *rest: Any) -> None:
        super().__init__(typingctx, targetctx, library, *rest)
        if library is None:
            self.state.library = _Linked(targetctx.codegen(), "inner")
