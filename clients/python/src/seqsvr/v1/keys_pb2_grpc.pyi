# Types of keys_pb2_grpc.py, generated.
from collections.abc import Iterator
from typing import Any

import grpc
import grpc.aio

from seqsvr.v1 import keys_pb2, sequence_pb2

class KeyServiceStub:
    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None: ...
    Next: grpc.UnaryUnaryMultiCallable[keys_pb2.NextKeyRequest, sequence_pb2.NextResponse]
    NextMany: grpc.UnaryUnaryMultiCallable[keys_pb2.NextKeysRequest, sequence_pb2.NextManyResponse]
    NextStream: grpc.StreamStreamMultiCallable[keys_pb2.NextKeysMessage, sequence_pb2.NextStreamResponse]
    Current: grpc.UnaryUnaryMultiCallable[keys_pb2.CurrentKeyRequest, sequence_pb2.CurrentResponse]
    CurrentMany: grpc.UnaryUnaryMultiCallable[keys_pb2.CurrentKeysRequest, sequence_pb2.CurrentManyResponse]
    Advance: grpc.UnaryUnaryMultiCallable[keys_pb2.AdvanceKeyRequest, sequence_pb2.AdvanceResponse]

class KeyServiceServicer:
    def Next(self, request: keys_pb2.NextKeyRequest, context: grpc.ServicerContext) -> Any: ...
    def NextMany(self, request: keys_pb2.NextKeysRequest, context: grpc.ServicerContext) -> Any: ...
    def NextStream(self, request_iterator: Iterator[keys_pb2.NextKeysMessage], context: grpc.ServicerContext) -> Any: ...
    def Current(self, request: keys_pb2.CurrentKeyRequest, context: grpc.ServicerContext) -> Any: ...
    def CurrentMany(self, request: keys_pb2.CurrentKeysRequest, context: grpc.ServicerContext) -> Any: ...
    def Advance(self, request: keys_pb2.AdvanceKeyRequest, context: grpc.ServicerContext) -> Any: ...

def add_KeyServiceServicer_to_server(
    servicer: KeyServiceServicer, server: grpc.Server | grpc.aio.Server
) -> None: ...

class KeyOwnerServiceStub:
    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None: ...
    NextHashed: grpc.UnaryUnaryMultiCallable[keys_pb2.HashedKeysRequest, sequence_pb2.NextManyResponse]
    CurrentHashed: grpc.UnaryUnaryMultiCallable[keys_pb2.HashedKeysRequest, sequence_pb2.CurrentManyResponse]
    AdvanceHashed: grpc.UnaryUnaryMultiCallable[keys_pb2.AdvanceHashedRequest, sequence_pb2.AdvanceResponse]

class KeyOwnerServiceServicer:
    def NextHashed(self, request: keys_pb2.HashedKeysRequest, context: grpc.ServicerContext) -> Any: ...
    def CurrentHashed(self, request: keys_pb2.HashedKeysRequest, context: grpc.ServicerContext) -> Any: ...
    def AdvanceHashed(self, request: keys_pb2.AdvanceHashedRequest, context: grpc.ServicerContext) -> Any: ...

def add_KeyOwnerServiceServicer_to_server(
    servicer: KeyOwnerServiceServicer, server: grpc.Server | grpc.aio.Server
) -> None: ...

class KeyspaceAdminServiceStub:
    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None: ...
    CreateKeyspace: grpc.UnaryUnaryMultiCallable[keys_pb2.CreateKeyspaceRequest, keys_pb2.CreateKeyspaceResponse]

class KeyspaceAdminServiceServicer:
    def CreateKeyspace(self, request: keys_pb2.CreateKeyspaceRequest, context: grpc.ServicerContext) -> Any: ...

def add_KeyspaceAdminServiceServicer_to_server(
    servicer: KeyspaceAdminServiceServicer, server: grpc.Server | grpc.aio.Server
) -> None: ...
