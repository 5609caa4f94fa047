"""A stack whose State Syncer, Task Managers and Spark hosts obey orders to die."""

from __future__ import annotations

from dataclasses import replace

from penstock.local.stack import LocalStack
from penstock.local.supervisor import ProcessSpec
from tests.support.faults.__main__ import WRAPPED
from tests.support.faults.orders import Orders


class MortalStack(LocalStack):
    """As `LocalStack`; its supervisor starts again who has died."""

    @property
    def orders(self) -> Orders:
        """Who is to die, and where."""
        return Orders(self.data_dir / "orders")

    def processes(self) -> tuple[ProcessSpec, ...]:
        """See `LocalStack`."""
        self.orders.folder.mkdir(exist_ok=True)
        return tuple(self._by_launcher(spec) for spec in super().processes())

    def _by_launcher(self, spec: ProcessSpec) -> ProcessSpec:
        python, option, module = spec.command
        if module not in WRAPPED:
            return spec
        return replace(spec, command=(python, option, "tests.support.faults", str(self.orders.folder), module))
