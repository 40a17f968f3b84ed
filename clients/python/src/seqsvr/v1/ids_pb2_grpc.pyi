# Types of ids_pb2_grpc.py, generated.
from collections.abc import Iterator
from typing import Any

import grpc
import grpc.aio

from seqsvr.v1 import ids_pb2

class IdServiceStub:
    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None: ...
    Next: grpc.UnaryUnaryMultiCallable[ids_pb2.NextIdsRequest, ids_pb2.NextIdsResponse]
    Current: grpc.UnaryUnaryMultiCallable[ids_pb2.CurrentIdRequest, ids_pb2.CurrentIdResponse]
    Advance: grpc.UnaryUnaryMultiCallable[ids_pb2.AdvanceIdRequest, ids_pb2.AdvanceIdResponse]
    Decode: grpc.UnaryUnaryMultiCallable[ids_pb2.DecodeIdRequest, ids_pb2.DecodeIdResponse]
    ListSeries: grpc.UnaryUnaryMultiCallable[ids_pb2.ListSeriesRequest, ids_pb2.ListSeriesResponse]

class IdServiceServicer:
    def Next(self, request: ids_pb2.NextIdsRequest, context: grpc.ServicerContext) -> Any: ...
    def Current(self, request: ids_pb2.CurrentIdRequest, context: grpc.ServicerContext) -> Any: ...
    def Advance(self, request: ids_pb2.AdvanceIdRequest, context: grpc.ServicerContext) -> Any: ...
    def Decode(self, request: ids_pb2.DecodeIdRequest, context: grpc.ServicerContext) -> Any: ...
    def ListSeries(self, request: ids_pb2.ListSeriesRequest, context: grpc.ServicerContext) -> Any: ...

def add_IdServiceServicer_to_server(
    servicer: IdServiceServicer, server: grpc.Server | grpc.aio.Server
) -> None: ...

class SeriesAdminServiceStub:
    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None: ...
    CreateSeries: grpc.UnaryUnaryMultiCallable[ids_pb2.CreateSeriesRequest, ids_pb2.CreateSeriesResponse]
    RetireSeries: grpc.UnaryUnaryMultiCallable[ids_pb2.RetireSeriesRequest, ids_pb2.RetireSeriesResponse]
    SetLayoutWriter: grpc.UnaryUnaryMultiCallable[ids_pb2.SetLayoutWriterRequest, ids_pb2.SetLayoutWriterResponse]

class SeriesAdminServiceServicer:
    def CreateSeries(self, request: ids_pb2.CreateSeriesRequest, context: grpc.ServicerContext) -> Any: ...
    def RetireSeries(self, request: ids_pb2.RetireSeriesRequest, context: grpc.ServicerContext) -> Any: ...
    def SetLayoutWriter(self, request: ids_pb2.SetLayoutWriterRequest, context: grpc.ServicerContext) -> Any: ...

def add_SeriesAdminServiceServicer_to_server(
    servicer: SeriesAdminServiceServicer, server: grpc.Server | grpc.aio.Server
) -> None: ...
