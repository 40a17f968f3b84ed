from seqsvr.v1 import series_pb2 as _series_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Routes(_message.Message):
    __slots__ = ("set", "version", "base_version", "uid_start", "uid_end", "section_size", "nodes", "runs", "set_id", "sets", "series", "lane_runs")
    SET_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    UID_START_FIELD_NUMBER: _ClassVar[int]
    UID_END_FIELD_NUMBER: _ClassVar[int]
    SECTION_SIZE_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    SET_ID_FIELD_NUMBER: _ClassVar[int]
    SETS_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    LANE_RUNS_FIELD_NUMBER: _ClassVar[int]
    set: str
    version: int
    base_version: int
    uid_start: int
    uid_end: int
    section_size: int
    nodes: _containers.RepeatedCompositeFieldContainer[RouteNode]
    runs: _containers.RepeatedCompositeFieldContainer[RouteRun]
    set_id: int
    sets: _containers.RepeatedCompositeFieldContainer[RouteSet]
    series: _containers.RepeatedCompositeFieldContainer[_series_pb2.StoredSeries]
    lane_runs: _containers.RepeatedCompositeFieldContainer[RouteRun]
    def __init__(self, set: _Optional[str] = ..., version: _Optional[int] = ..., base_version: _Optional[int] = ..., uid_start: _Optional[int] = ..., uid_end: _Optional[int] = ..., section_size: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[RouteNode, _Mapping]]] = ..., runs: _Optional[_Iterable[_Union[RouteRun, _Mapping]]] = ..., set_id: _Optional[int] = ..., sets: _Optional[_Iterable[_Union[RouteSet, _Mapping]]] = ..., series: _Optional[_Iterable[_Union[_series_pb2.StoredSeries, _Mapping]]] = ..., lane_runs: _Optional[_Iterable[_Union[RouteRun, _Mapping]]] = ...) -> None: ...

class RouteSet(_message.Message):
    __slots__ = ("id", "name", "allocs")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ALLOCS_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    allocs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., allocs: _Optional[_Iterable[str]] = ...) -> None: ...

class RouteNode(_message.Message):
    __slots__ = ("id", "name", "addr")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDR_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    addr: str
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., addr: _Optional[str] = ...) -> None: ...

class RouteRun(_message.Message):
    __slots__ = ("first_section", "sections", "owner", "epoch", "away_set_id")
    FIRST_SECTION_FIELD_NUMBER: _ClassVar[int]
    SECTIONS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    AWAY_SET_ID_FIELD_NUMBER: _ClassVar[int]
    first_section: int
    sections: int
    owner: int
    epoch: int
    away_set_id: int
    def __init__(self, first_section: _Optional[int] = ..., sections: _Optional[int] = ..., owner: _Optional[int] = ..., epoch: _Optional[int] = ..., away_set_id: _Optional[int] = ...) -> None: ...
