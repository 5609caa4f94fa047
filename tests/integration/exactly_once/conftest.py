"""What the proofs of the exactly-once sink share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.exactly_once.process import compile_proof


@pytest.fixture(scope="session")
def proof_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the test-side Java classes."""
    return compile_proof(tmp_path_factory.mktemp("proof-classes"))
