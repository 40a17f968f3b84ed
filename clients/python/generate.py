"""Generates the wire types in src/seqsvr/_proto from ../../proto: `python generate.py`, or `--check` to compare.

They are committed: installing the package needs no protoc, and a review shows their changes. CI compares them with proto/, so
they are never stale. Needs the version of grpcio-tools in pyproject.toml.
"""

from __future__ import annotations

import filecmp
import re
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"
OUT = HERE / "src" / "seqsvr" / "_proto"
FILES = ["seqsvr/v1/ids.proto", "seqsvr/v1/route.proto", "seqsvr/v1/sequence.proto", "seqsvr/v1/series.proto"]


def generate(out: Path) -> None:
    """Writes the modules and their types, as a part of the package instead of `seqsvr.v1`."""
    with tempfile.TemporaryDirectory() as directory:
        args = ["protoc", f"--proto_path={PROTO}", f"--python_out={directory}", f"--pyi_out={directory}", *FILES]
        if protoc.main(args) != 0:
            sys.exit("protoc failed")
        for made in sorted((Path(directory) / "seqsvr" / "v1").iterdir()):
            text = made.read_text()
            text = re.sub(r"^from seqsvr\.v1 import ", "from seqsvr._proto import ", text, flags=re.MULTILINE)
            (out / made.name).write_text(text)


def main() -> None:
    """Generates, or compares."""
    if "--check" not in sys.argv[1:]:
        generate(OUT)
        return
    with tempfile.TemporaryDirectory() as directory:
        generate(Path(directory))
        names = sorted(path.name for path in Path(directory).iterdir())
        _, other, missing = filecmp.cmpfiles(directory, OUT, names, shallow=False)
        if other or missing:
            sys.exit(f"stale against proto/: {', '.join(other + missing)}; run `python generate.py`")


if __name__ == "__main__":
    main()
