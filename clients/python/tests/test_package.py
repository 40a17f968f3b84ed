"""The wheel and the source distribution, as users get them."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import seqsvr

HERE = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(directory)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, timeout=120, text=True)
    assert done.returncode == 0, done.stderr
    return directory


def test_the_wheel_has_its_licence_types_and_metadata(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        info = f"seqsvr-{seqsvr.__version__}.dist-info"
        metadata = email.message_from_bytes(file.read(f"{info}/METADATA"))
        assert file.read(f"{info}/licenses/LICENSE") == (HERE / "LICENSE").read_bytes()
    assert {"seqsvr/py.typed", "seqsvr/v1/sequence_pb2.pyi", "seqsvr/v1/sequence_pb2_grpc.pyi", "seqsvr/testing/_fake.py"} <= {
        *names
    }
    assert not [name for name in names if name.startswith("tests")]
    assert metadata["Version"] == seqsvr.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert "Three calls" in str(metadata.get_payload())
    # It works from another place, with the stubs and what tests need.
    target = built / "installed"
    with zipfile.ZipFile(wheel) as file:
        file.extractall(target)
    program = (
        "import seqsvr, seqsvr.testing, seqsvr.opentelemetry; from seqsvr.v1 import sequence_pb2_grpc, ids_pb2_grpc;"
        "print(seqsvr.__file__, seqsvr.__version__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, timeout=60, text=True)
    assert done.stdout.split() == [str(target / "seqsvr" / "__init__.py"), seqsvr.__version__], done.stderr


def test_the_source_distribution_has_all_that_its_tests_need(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "pyproject.toml",
        "PKG-INFO",
        "generate.py",
        "conformance_driver.py",
    } <= names
    assert {"tests/conftest.py", "examples/next_numbers.py", "src/seqsvr/py.typed"} <= names


def test_the_licence_is_the_projects() -> None:
    project = HERE.parent.parent / "LICENSE"
    assert (HERE / "LICENSE").read_bytes() == project.read_bytes()
