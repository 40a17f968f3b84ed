# Types of sequence_pb2_grpc.py, generated.
from collections.abc import Iterator
from typing import Any

import grpc
import grpc.aio

from seqsvr.v1 import sequence_pb2

class SequenceServiceStub:
    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None: ...
    Next: grpc.UnaryUnaryMultiCallable[sequence_pb2.NextRequest, sequence_pb2.NextResponse]
    NextMany: grpc.UnaryUnaryMultiCallable[sequence_pb2.NextManyRequest, sequence_pb2.NextManyResponse]
    NextStream: grpc.StreamStreamMultiCallable[sequence_pb2.NextStreamRequest, sequence_pb2.NextStreamResponse]
    Current: grpc.UnaryUnaryMultiCallable[sequence_pb2.CurrentRequest, sequence_pb2.CurrentResponse]
    CurrentMany: grpc.UnaryUnaryMultiCallable[sequence_pb2.CurrentManyRequest, sequence_pb2.CurrentManyResponse]
    Advance: grpc.UnaryUnaryMultiCallable[sequence_pb2.AdvanceRequest, sequence_pb2.AdvanceResponse]
    GetRoutes: grpc.UnaryUnaryMultiCallable[sequence_pb2.GetRoutesRequest, sequence_pb2.GetRoutesResponse]

class SequenceServiceServicer:
    def Next(self, request: sequence_pb2.NextRequest, context: grpc.ServicerContext) -> Any: ...
    def NextMany(self, request: sequence_pb2.NextManyRequest, context: grpc.ServicerContext) -> Any: ...
    def NextStream(self, request_iterator: Iterator[sequence_pb2.NextStreamRequest], context: grpc.ServicerContext) -> Any: ...
    def Current(self, request: sequence_pb2.CurrentRequest, context: grpc.ServicerContext) -> Any: ...
    def CurrentMany(self, request: sequence_pb2.CurrentManyRequest, context: grpc.ServicerContext) -> Any: ...
    def Advance(self, request: sequence_pb2.AdvanceRequest, context: grpc.ServicerContext) -> Any: ...
    def GetRoutes(self, request: sequence_pb2.GetRoutesRequest, context: grpc.ServicerContext) -> Any: ...

def add_SequenceServiceServicer_to_server(
    servicer: SequenceServiceServicer, server: grpc.Server | grpc.aio.Server
) -> None: ...
