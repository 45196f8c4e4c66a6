"""Let these tests use the oracle and the random problems of the partition tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "partition"))
