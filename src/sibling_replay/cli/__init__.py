"""Rerun the paper, see how far it is, compare it with the published numbers, train your own run,
diagnose your own buffer, compile ahead.

Exit codes: 0 all well, 1 a run failed or the store is damaged, 2 a wrong argument, 130 Ctrl-C.
"""

from __future__ import annotations

import platform
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version

try:
    import tyro

    from sibling_replay import terminal
    from sibling_replay.cli.bench import bench
    from sibling_replay.cli.collect import collect
    from sibling_replay.cli.curves import curves
    from sibling_replay.cli.diagnose import diagnose
    from sibling_replay.cli.report import report
    from sibling_replay.cli.reproduce import reproduce
    from sibling_replay.cli.status import status
    from sibling_replay.cli.table import table
    from sibling_replay.cli.train import train
    from sibling_replay.cli.vqvae import vqvae
    from sibling_replay.cli.warm_up import warm_up
    from sibling_replay.running import store
except ImportError as error:  # pragma: no cover
    raise SystemExit(
        f"{error}: the command line needs an extra, pip install 'sibling-replay[experiments]'"
    ) from None


def main(arguments: Sequence[str] | None = None) -> None:
    """The command; without arguments it is this process's, and owns its streams and signals."""
    alone = arguments is None
    if alone:
        terminal.take_over()
    try:
        code = _command(arguments)
    except KeyboardInterrupt:
        if alone:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one changes nothing any more
        _complain("interrupted: finished runs are kept, the same command goes on", "\n")
        code = 130
    except (ValueError, ImportError, FileNotFoundError) as error:
        _complain(f"sibling-replay: {error}")
        code = 2
    except store.StoreError as error:
        _complain(f"sibling-replay: {error}")
        code = 1
    except OSError as error:  # the disk: full, read-only, a file where a folder should be
        where = "" if error.filename is None else f"{error.filename}: "
        why = error.strerror or str(error)
        _complain(f"sibling-replay: {where}{why}; what was finished before is kept")
        code = 1
    except SystemExit as stop:  # --help, or arguments that cannot be read
        code = stop.code if isinstance(stop.code, int) else 0
    if why := terminal.unwritten():
        _complain(f"sibling-replay: standard output cannot be written: {why}")
        code = code or 1
    sys.exit(code)


def _command(arguments: Sequence[str] | None) -> int:
    if list(sys.argv[1:] if arguments is None else arguments) == ["--version"]:
        print(f"sibling-replay {version('sibling-replay')}, Python {platform.python_version()}")
        return 0
    functions = (
        reproduce, status, table, collect, curves, report, train, bench, diagnose, vqvae, warm_up,
    )  # fmt: skip
    commands = {f.__name__.replace("_", "-"): f for f in functions}
    return tyro.extras.subcommand_cli_from_dict(
        commands, prog="sibling-replay", description=__doc__, args=arguments
    )


def _complain(text: str, before: str = "") -> None:
    print(before + terminal.printable_lines(text), file=sys.stderr)
