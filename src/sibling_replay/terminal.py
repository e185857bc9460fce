"""Text that any terminal, pipe or file can take.

Three things go wrong between a command and whoever reads it: text of a file holds control
characters, which a terminal would obey; the stream's encoding lacks a character; the reader is gone
(`| head`) or the disk behind the stream is full. None of them may end a command half way.
"""

from __future__ import annotations

import codecs
import io
import sys
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

WIDTH = 120  # columns where there is no terminal to ask; 80 would cut the tables

_ERRORS = "sibling_replay.stand_in"  # name of the error handler that `_stand_in` is
_STAND_INS = {
    "±": "+-",
    "²": "^2",
    "Σ": "sum",
    "−": "-",
    "–": "-",
    "•": "*",
    "…": "...",
    "█": "#",
    "━": "-",
    "╸": "-",
    "╺": "-",
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "ε": "epsilon",
}


def printable(text: str) -> str:
    """Control characters, line ends and invisible characters as escapes: `\\x1b` for ESC."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """The same, but lines stay lines."""
    return "\n".join(map(printable, text.split("\n")))


def new_console(width: int = WIDTH) -> Console:
    """Where commands print; `width` is for a file or pipe, which has none of its own."""
    console = _Console()
    return console if console.is_terminal else _Console(width=width)


class _Console(Console):
    """A console that lays out what its stream can encode: a stand-in may be wider."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(encodable(text, self.encoding), **options)


def encodable(text: str, encoding: str) -> str:
    """The text with a stand-in, or else an escape, for every character the encoding lacks."""
    return text.encode(encoding, _ERRORS).decode(encoding)


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    shown = (_STAND_INS.get(c) or c.encode("unicode_escape").decode() for c in missing)
    return "".join(shown), error.end


codecs.register_error(_ERRORS, _stand_in)


class _Output(io.FileIO):
    """A standard stream that drops the rest of what is written once a write has failed."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes


def take_over() -> None:
    """Make this process's standard output and error streams that never fail."""
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # None if it was closed before we began
            setattr(sys, name, _replacement(stream))


def _replacement(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Output(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors=_ERRORS,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def unwritten() -> str:
    """Why standard output could not be written, or "". That its reader has gone is no failure."""
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper):
        return ""
    stream.flush()
    raw = getattr(stream.buffer, "raw", None)
    failure = raw.failure if isinstance(raw, _Output) else None
    if failure is None or isinstance(failure, BrokenPipeError):
        return ""
    return failure.strerror or str(failure)
