"""`penstock`: the console script."""

from __future__ import annotations

import gc
from importlib import import_module


def main() -> None:
    """Runs the program, which is imported here.

    What imports make stays: to look for garbage among it would take a tenth of the time of a short call. The command
    itself runs with the collector (`lazy.py`).
    """
    gc.disable()
    try:
        import_module("penstock.cli.program").run()
    finally:
        gc.unfreeze()
        gc.enable()


if __name__ == "__main__":
    main()
