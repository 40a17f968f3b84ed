from seqsvr.v1 import series_pb2 as _series_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NextIdsRequest(_message.Message):
    __slots__ = ("series", "count", "lane", "after")
    SERIES_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    series: str
    count: int
    lane: int
    after: int
    def __init__(self, series: _Optional[str] = ..., count: _Optional[int] = ..., lane: _Optional[int] = ..., after: _Optional[int] = ...) -> None: ...

class NextIdsResponse(_message.Message):
    __slots__ = ("runs", "step", "epoch", "lane")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[IdRun]
    step: int
    epoch: int
    lane: int
    def __init__(self, runs: _Optional[_Iterable[_Union[IdRun, _Mapping]]] = ..., step: _Optional[int] = ..., epoch: _Optional[int] = ..., lane: _Optional[int] = ...) -> None: ...

class IdRun(_message.Message):
    __slots__ = ("first", "count")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    first: int
    count: int
    def __init__(self, first: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class CurrentIdRequest(_message.Message):
    __slots__ = ("series",)
    SERIES_FIELD_NUMBER: _ClassVar[int]
    series: str
    def __init__(self, series: _Optional[str] = ...) -> None: ...

class CurrentIdResponse(_message.Message):
    __slots__ = ("id", "exact", "epoch")
    ID_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    id: int
    exact: bool
    epoch: int
    def __init__(self, id: _Optional[int] = ..., exact: bool = ..., epoch: _Optional[int] = ...) -> None: ...

class AdvanceIdRequest(_message.Message):
    __slots__ = ("series", "to")
    SERIES_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    series: str
    to: int
    def __init__(self, series: _Optional[str] = ..., to: _Optional[int] = ...) -> None: ...

class AdvanceIdResponse(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class DecodeIdRequest(_message.Message):
    __slots__ = ("series", "id")
    SERIES_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    series: str
    id: int
    def __init__(self, series: _Optional[str] = ..., id: _Optional[int] = ...) -> None: ...

class DecodeIdResponse(_message.Message):
    __slots__ = ("lane", "number", "unix_ms", "seq")
    LANE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    lane: int
    number: int
    unix_ms: int
    seq: int
    def __init__(self, lane: _Optional[int] = ..., number: _Optional[int] = ..., unix_ms: _Optional[int] = ..., seq: _Optional[int] = ...) -> None: ...

class ListSeriesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSeriesResponse(_message.Message):
    __slots__ = ("series",)
    SERIES_FIELD_NUMBER: _ClassVar[int]
    series: _containers.RepeatedCompositeFieldContainer[_series_pb2.Series]
    def __init__(self, series: _Optional[_Iterable[_Union[_series_pb2.Series, _Mapping]]] = ...) -> None: ...

class CreateSeriesRequest(_message.Message):
    __slots__ = ("name", "shape", "sections", "start", "lead_ms", "allow_short", "dry_run", "plan")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SECTIONS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    LEAD_MS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_SHORT_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    name: str
    shape: _series_pb2.Shape
    sections: int
    start: int
    lead_ms: int
    allow_short: bool
    dry_run: bool
    plan: int
    def __init__(self, name: _Optional[str] = ..., shape: _Optional[_Union[_series_pb2.Shape, _Mapping]] = ..., sections: _Optional[int] = ..., start: _Optional[int] = ..., lead_ms: _Optional[int] = ..., allow_short: bool = ..., dry_run: bool = ..., plan: _Optional[int] = ...) -> None: ...

class CreateSeriesResponse(_message.Message):
    __slots__ = ("series", "created", "fingerprint", "existed")
    SERIES_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    series: _series_pb2.Series
    created: bool
    fingerprint: int
    existed: bool
    def __init__(self, series: _Optional[_Union[_series_pb2.Series, _Mapping]] = ..., created: bool = ..., fingerprint: _Optional[int] = ..., existed: bool = ...) -> None: ...

class RetireSeriesRequest(_message.Message):
    __slots__ = ("name", "dry_run", "plan")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    name: str
    dry_run: bool
    plan: int
    def __init__(self, name: _Optional[str] = ..., dry_run: bool = ..., plan: _Optional[int] = ...) -> None: ...

class RetireSeriesResponse(_message.Message):
    __slots__ = ("series", "retired", "fingerprint")
    SERIES_FIELD_NUMBER: _ClassVar[int]
    RETIRED_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    series: _series_pb2.Series
    retired: bool
    fingerprint: int
    def __init__(self, series: _Optional[_Union[_series_pb2.Series, _Mapping]] = ..., retired: bool = ..., fingerprint: _Optional[int] = ...) -> None: ...

class SetLayoutWriterRequest(_message.Message):
    __slots__ = ("to", "dry_run", "plan")
    TO_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    to: str
    dry_run: bool
    plan: int
    def __init__(self, to: _Optional[str] = ..., dry_run: bool = ..., plan: _Optional[int] = ...) -> None: ...

class SetLayoutWriterResponse(_message.Message):
    __slots__ = ("writer", "changed", "fingerprint")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    writer: _series_pb2.LayoutWriter
    changed: bool
    fingerprint: int
    def __init__(self, writer: _Optional[_Union[_series_pb2.LayoutWriter, _Mapping]] = ..., changed: bool = ..., fingerprint: _Optional[int] = ...) -> None: ...
