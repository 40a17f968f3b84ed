"""Generates the messages and stubs in src/seqsvr/v1 from ../../proto: `python generate.py`, or `--check` to compare.

They are committed: installing the package needs no protoc, and a review shows their changes. CI compares them with proto/, so
they are never stale. Needs the version of grpcio-tools in pyproject.toml.
"""

from __future__ import annotations

import filecmp
import re
import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto
from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"
OUT = HERE / "src" / "seqsvr" / "v1"
FILES = [f"seqsvr/v1/{name}.proto" for name in ("ids", "keys", "route", "sequence", "series")]

# The stubs refuse a grpcio that is older than the generator. They need none of its newer parts.
VERSION_CHECK = re.compile(r"^import warnings\n|^GRPC_GENERATED_VERSION = .*?\n    \)\n\n", re.MULTILINE | re.DOTALL)


def generate(out: Path) -> None:
    """Writes the modules and their types; of files with services also the stubs and theirs."""
    with tempfile.TemporaryDirectory() as directory:
        outputs = [f"--{kind}={directory}" for kind in ("python_out", "pyi_out", "grpc_python_out")]
        described = Path(directory) / "descriptors"
        args = ["protoc", f"--proto_path={PROTO}", *outputs, f"--descriptor_set_out={described}", *FILES]
        if protoc.main(args) != 0:
            sys.exit("protoc failed")
        made = Path(directory) / "seqsvr" / "v1"
        files = FileDescriptorSet.FromString(described.read_bytes()).file
        modules = {f".seqsvr.v1.{each.name}": Path(file.name).stem for file in files for each in file.message_type}
        for file in files:
            name = Path(file.name).stem
            stubs = made / f"{name}_pb2_grpc.py"
            if file.service:
                stubs.write_text(VERSION_CHECK.sub("", stubs.read_text()))
                stubs.with_suffix(".pyi").write_text(stub_types(file, name, modules))
            else:
                stubs.unlink()
        for each in sorted(made.iterdir()):
            (out / each.name).write_text(each.read_text())


def stub_types(file: FileDescriptorProto, name: str, modules: dict[str, str]) -> str:
    """Writes the types of stubs, which the generator of grpcio-tools does not. `modules` has the file of each message."""
    methods = [method for service in file.service for method in service.method]
    used = {modules[of] for method in methods for of in (method.input_type, method.output_type)}
    lines = [
        f"# Types of {name}_pb2_grpc.py, generated.",
        "from collections.abc import Iterator",
        "from typing import Any",
        "",
        "import grpc",
        "import grpc.aio",
        "",
        f"from seqsvr.v1 import {', '.join(f'{module}_pb2' for module in sorted(used))}",
    ]
    for service in file.service:
        lines += [
            "",
            f"class {service.name}Stub:",
            "    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None: ...",
        ]
        lines += [f"    {method.name}: {callable_type(method, modules)}" for method in service.method]
        lines += ["", f"class {service.name}Servicer:"]
        lines += [f"    def {method.name}{handler_type(method, modules)}: ..." for method in service.method]
        lines += ["", f"def add_{service.name}Servicer_to_server("]
        lines += [f"    servicer: {service.name}Servicer, server: grpc.Server | grpc.aio.Server", ") -> None: ..."]
    return "\n".join(lines) + "\n"


def callable_type(method: MethodDescriptorProto, modules: dict[str, str]) -> str:
    """The type of a method of a stub."""
    kinds = [("Unary", "Stream")[is_stream] for is_stream in (method.client_streaming, method.server_streaming)]
    request, response = message(method.input_type, modules), message(method.output_type, modules)
    return f"grpc.{''.join(kinds)}MultiCallable[{request}, {response}]"


def handler_type(method: MethodDescriptorProto, modules: dict[str, str]) -> str:
    """The signature of a method of a servicer, whose results may be awaitable."""
    request = message(method.input_type, modules)
    request = f"request_iterator: Iterator[{request}]" if method.client_streaming else f"request: {request}"
    return f"(self, {request}, context: grpc.ServicerContext) -> Any"


def message(full_name: str, modules: dict[str, str]) -> str:
    """The class of a message."""
    return f"{modules[full_name]}_pb2.{full_name.removeprefix('.seqsvr.v1.')}"


def main() -> None:
    """Generates, or compares."""
    if "--check" not in sys.argv[1:]:
        generate(OUT)
        return
    with tempfile.TemporaryDirectory() as directory:
        generate(Path(directory))
        names = sorted(path.name for path in Path(directory).iterdir())
        _, other, missing = filecmp.cmpfiles(directory, OUT, names, shallow=False)
        stale = {path.name for path in OUT.glob("*_pb2*")}.difference(names)
        if other or missing or stale:
            sys.exit(f"stale against proto/: {', '.join([*other, *missing, *sorted(stale)])}; run `python generate.py`")


if __name__ == "__main__":
    main()
