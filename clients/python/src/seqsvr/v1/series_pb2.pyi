from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Series(_message.Message):
    __slots__ = ("name", "shape", "lanes", "created_ms", "retired")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    RETIRED_FIELD_NUMBER: _ClassVar[int]
    name: str
    shape: Shape
    lanes: Lanes
    created_ms: int
    retired: bool
    def __init__(self, name: _Optional[str] = ..., shape: _Optional[_Union[Shape, _Mapping]] = ..., lanes: _Optional[_Union[Lanes, _Mapping]] = ..., created_ms: _Optional[int] = ..., retired: bool = ...) -> None: ...

class StoredSeries(_message.Message):
    __slots__ = ("name", "shape", "lanes", "created_ms", "retired", "home_set_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    RETIRED_FIELD_NUMBER: _ClassVar[int]
    HOME_SET_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    shape: bytes
    lanes: Lanes
    created_ms: int
    retired: bool
    home_set_id: int
    def __init__(self, name: _Optional[str] = ..., shape: _Optional[bytes] = ..., lanes: _Optional[_Union[Lanes, _Mapping]] = ..., created_ms: _Optional[int] = ..., retired: bool = ..., home_set_id: _Optional[int] = ...) -> None: ...

class LayoutWriter(_message.Message):
    __slots__ = ("term", "from_set_id", "set_id", "changes", "restores", "taken")
    TERM_FIELD_NUMBER: _ClassVar[int]
    FROM_SET_ID_FIELD_NUMBER: _ClassVar[int]
    SET_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    RESTORES_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    term: int
    from_set_id: int
    set_id: int
    changes: int
    restores: int
    taken: bool
    def __init__(self, term: _Optional[int] = ..., from_set_id: _Optional[int] = ..., set_id: _Optional[int] = ..., changes: _Optional[int] = ..., restores: _Optional[int] = ..., taken: bool = ...) -> None: ...

class Shape(_message.Message):
    __slots__ = ("counter", "timed")
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    TIMED_FIELD_NUMBER: _ClassVar[int]
    counter: CounterShape
    timed: TimedShape
    def __init__(self, counter: _Optional[_Union[CounterShape, _Mapping]] = ..., timed: _Optional[_Union[TimedShape, _Mapping]] = ...) -> None: ...

class CounterShape(_message.Message):
    __slots__ = ("offset", "increment", "max_id")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    INCREMENT_FIELD_NUMBER: _ClassVar[int]
    MAX_ID_FIELD_NUMBER: _ClassVar[int]
    offset: int
    increment: int
    max_id: int
    def __init__(self, offset: _Optional[int] = ..., increment: _Optional[int] = ..., max_id: _Optional[int] = ...) -> None: ...

class TimedShape(_message.Message):
    __slots__ = ("epoch_ms", "unit_ms", "time_bits", "lane_bits", "seq_bits", "spread", "named_lanes", "ahead_ms")
    EPOCH_MS_FIELD_NUMBER: _ClassVar[int]
    UNIT_MS_FIELD_NUMBER: _ClassVar[int]
    TIME_BITS_FIELD_NUMBER: _ClassVar[int]
    LANE_BITS_FIELD_NUMBER: _ClassVar[int]
    SEQ_BITS_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    NAMED_LANES_FIELD_NUMBER: _ClassVar[int]
    AHEAD_MS_FIELD_NUMBER: _ClassVar[int]
    epoch_ms: int
    unit_ms: int
    time_bits: int
    lane_bits: int
    seq_bits: int
    spread: bool
    named_lanes: bool
    ahead_ms: int
    def __init__(self, epoch_ms: _Optional[int] = ..., unit_ms: _Optional[int] = ..., time_bits: _Optional[int] = ..., lane_bits: _Optional[int] = ..., seq_bits: _Optional[int] = ..., spread: bool = ..., named_lanes: bool = ..., ahead_ms: _Optional[int] = ...) -> None: ...

class Lanes(_message.Message):
    __slots__ = ("count", "per_section", "start", "margin", "clock", "first_section", "keys")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PER_SECTION_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    MARGIN_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    FIRST_SECTION_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    count: int
    per_section: int
    start: int
    margin: int
    clock: TickClock
    first_section: int
    keys: Hashing
    def __init__(self, count: _Optional[int] = ..., per_section: _Optional[int] = ..., start: _Optional[int] = ..., margin: _Optional[int] = ..., clock: _Optional[_Union[TickClock, _Mapping]] = ..., first_section: _Optional[int] = ..., keys: _Optional[_Union[Hashing, _Mapping]] = ...) -> None: ...

class Hashing(_message.Message):
    __slots__ = ("digest", "seed", "of_uids")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    OF_UIDS_FIELD_NUMBER: _ClassVar[int]
    digest: int
    seed: bytes
    of_uids: bool
    def __init__(self, digest: _Optional[int] = ..., seed: _Optional[bytes] = ..., of_uids: bool = ...) -> None: ...

class TickClock(_message.Message):
    __slots__ = ("epoch_ms", "unit_ms", "seq_bits", "lead_ms")
    EPOCH_MS_FIELD_NUMBER: _ClassVar[int]
    UNIT_MS_FIELD_NUMBER: _ClassVar[int]
    SEQ_BITS_FIELD_NUMBER: _ClassVar[int]
    LEAD_MS_FIELD_NUMBER: _ClassVar[int]
    epoch_ms: int
    unit_ms: int
    seq_bits: int
    lead_ms: int
    def __init__(self, epoch_ms: _Optional[int] = ..., unit_ms: _Optional[int] = ..., seq_bits: _Optional[int] = ..., lead_ms: _Optional[int] = ...) -> None: ...
