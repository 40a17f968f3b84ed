from seqsvr.v1 import route_pb2 as _route_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Exactness(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXACTNESS_UNSPECIFIED: _ClassVar[Exactness]
    EXACTNESS_EXACT: _ClassVar[Exactness]
    EXACTNESS_UPPER_BOUND: _ClassVar[Exactness]
EXACTNESS_UNSPECIFIED: Exactness
EXACTNESS_EXACT: Exactness
EXACTNESS_UPPER_BOUND: Exactness

class NextRequest(_message.Message):
    __slots__ = ("uid", "count", "route_version", "epoch", "hops", "above")
    UID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ROUTE_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    ABOVE_FIELD_NUMBER: _ClassVar[int]
    uid: int
    count: int
    route_version: int
    epoch: int
    hops: int
    above: int
    def __init__(self, uid: _Optional[int] = ..., count: _Optional[int] = ..., route_version: _Optional[int] = ..., epoch: _Optional[int] = ..., hops: _Optional[int] = ..., above: _Optional[int] = ...) -> None: ...

class NextResponse(_message.Message):
    __slots__ = ("value", "prev", "epoch", "routes", "lost")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PREV_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    value: int
    prev: int
    epoch: int
    routes: _route_pb2.Routes
    lost: int
    def __init__(self, value: _Optional[int] = ..., prev: _Optional[int] = ..., epoch: _Optional[int] = ..., routes: _Optional[_Union[_route_pb2.Routes, _Mapping]] = ..., lost: _Optional[int] = ...) -> None: ...

class NextManyRequest(_message.Message):
    __slots__ = ("uids", "counts", "route_version", "hops", "known_epochs")
    UIDS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    ROUTE_VERSION_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    uids: _containers.RepeatedScalarFieldContainer[int]
    counts: _containers.RepeatedScalarFieldContainer[int]
    route_version: int
    hops: int
    known_epochs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, uids: _Optional[_Iterable[int]] = ..., counts: _Optional[_Iterable[int]] = ..., route_version: _Optional[int] = ..., hops: _Optional[int] = ..., known_epochs: _Optional[_Iterable[int]] = ...) -> None: ...

class NextManyResponse(_message.Message):
    __slots__ = ("values", "prevs", "epochs", "errors", "routes", "lost")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    PREVS_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[int]
    prevs: _containers.RepeatedScalarFieldContainer[int]
    epochs: _containers.RepeatedScalarFieldContainer[int]
    errors: _containers.RepeatedCompositeFieldContainer[ItemError]
    routes: _route_pb2.Routes
    lost: LostAttempts
    def __init__(self, values: _Optional[_Iterable[int]] = ..., prevs: _Optional[_Iterable[int]] = ..., epochs: _Optional[_Iterable[int]] = ..., errors: _Optional[_Iterable[_Union[ItemError, _Mapping]]] = ..., routes: _Optional[_Union[_route_pb2.Routes, _Mapping]] = ..., lost: _Optional[_Union[LostAttempts, _Mapping]] = ...) -> None: ...

class LostAttempts(_message.Message):
    __slots__ = ("indexes", "attempts")
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    indexes: _containers.RepeatedScalarFieldContainer[int]
    attempts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, indexes: _Optional[_Iterable[int]] = ..., attempts: _Optional[_Iterable[int]] = ...) -> None: ...

class ItemError(_message.Message):
    __slots__ = ("index", "code", "reason", "message", "retry_after_ms", "set_id", "since")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    SET_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    index: int
    code: int
    reason: str
    message: str
    retry_after_ms: int
    set_id: int
    since: int
    def __init__(self, index: _Optional[int] = ..., code: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., retry_after_ms: _Optional[int] = ..., set_id: _Optional[int] = ..., since: _Optional[int] = ...) -> None: ...

class NextStreamRequest(_message.Message):
    __slots__ = ("tag", "request", "timeout_ms", "now_only")
    TAG_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    NOW_ONLY_FIELD_NUMBER: _ClassVar[int]
    tag: int
    request: NextManyRequest
    timeout_ms: int
    now_only: bool
    def __init__(self, tag: _Optional[int] = ..., request: _Optional[_Union[NextManyRequest, _Mapping]] = ..., timeout_ms: _Optional[int] = ..., now_only: bool = ...) -> None: ...

class NextStreamResponse(_message.Message):
    __slots__ = ("tag", "response", "refusal")
    TAG_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    tag: int
    response: NextManyResponse
    refusal: ItemError
    def __init__(self, tag: _Optional[int] = ..., response: _Optional[_Union[NextManyResponse, _Mapping]] = ..., refusal: _Optional[_Union[ItemError, _Mapping]] = ...) -> None: ...

class CurrentRequest(_message.Message):
    __slots__ = ("uid", "route_version", "epoch", "hops")
    UID_FIELD_NUMBER: _ClassVar[int]
    ROUTE_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    uid: int
    route_version: int
    epoch: int
    hops: int
    def __init__(self, uid: _Optional[int] = ..., route_version: _Optional[int] = ..., epoch: _Optional[int] = ..., hops: _Optional[int] = ...) -> None: ...

class CurrentResponse(_message.Message):
    __slots__ = ("value", "exactness", "epoch", "routes")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EXACTNESS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    value: int
    exactness: Exactness
    epoch: int
    routes: _route_pb2.Routes
    def __init__(self, value: _Optional[int] = ..., exactness: _Optional[_Union[Exactness, str]] = ..., epoch: _Optional[int] = ..., routes: _Optional[_Union[_route_pb2.Routes, _Mapping]] = ...) -> None: ...

class CurrentManyRequest(_message.Message):
    __slots__ = ("uids", "route_version", "hops", "known_epochs")
    UIDS_FIELD_NUMBER: _ClassVar[int]
    ROUTE_VERSION_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    uids: _containers.RepeatedScalarFieldContainer[int]
    route_version: int
    hops: int
    known_epochs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, uids: _Optional[_Iterable[int]] = ..., route_version: _Optional[int] = ..., hops: _Optional[int] = ..., known_epochs: _Optional[_Iterable[int]] = ...) -> None: ...

class CurrentManyResponse(_message.Message):
    __slots__ = ("values", "exactness", "epochs", "errors", "routes")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    EXACTNESS_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[int]
    exactness: _containers.RepeatedScalarFieldContainer[Exactness]
    epochs: _containers.RepeatedScalarFieldContainer[int]
    errors: _containers.RepeatedCompositeFieldContainer[ItemError]
    routes: _route_pb2.Routes
    def __init__(self, values: _Optional[_Iterable[int]] = ..., exactness: _Optional[_Iterable[_Union[Exactness, str]]] = ..., epochs: _Optional[_Iterable[int]] = ..., errors: _Optional[_Iterable[_Union[ItemError, _Mapping]]] = ..., routes: _Optional[_Union[_route_pb2.Routes, _Mapping]] = ...) -> None: ...

class AdvanceRequest(_message.Message):
    __slots__ = ("uid", "to", "route_version", "epoch", "hops")
    UID_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    ROUTE_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    uid: int
    to: int
    route_version: int
    epoch: int
    hops: int
    def __init__(self, uid: _Optional[int] = ..., to: _Optional[int] = ..., route_version: _Optional[int] = ..., epoch: _Optional[int] = ..., hops: _Optional[int] = ...) -> None: ...

class AdvanceResponse(_message.Message):
    __slots__ = ("epoch", "routes")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    routes: _route_pb2.Routes
    def __init__(self, epoch: _Optional[int] = ..., routes: _Optional[_Union[_route_pb2.Routes, _Mapping]] = ...) -> None: ...

class GetRoutesRequest(_message.Message):
    __slots__ = ("known_version",)
    KNOWN_VERSION_FIELD_NUMBER: _ClassVar[int]
    known_version: int
    def __init__(self, known_version: _Optional[int] = ...) -> None: ...

class GetRoutesResponse(_message.Message):
    __slots__ = ("routes",)
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    routes: _route_pb2.Routes
    def __init__(self, routes: _Optional[_Union[_route_pb2.Routes, _Mapping]] = ...) -> None: ...
