from seqsvr.v1 import sequence_pb2 as _sequence_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NextKeyRequest(_message.Message):
    __slots__ = ("keyspace", "key", "raw_key", "count", "route_version", "epoch")
    KEYSPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    RAW_KEY_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ROUTE_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    keyspace: str
    key: str
    raw_key: bytes
    count: int
    route_version: int
    epoch: int
    def __init__(self, keyspace: _Optional[str] = ..., key: _Optional[str] = ..., raw_key: _Optional[bytes] = ..., count: _Optional[int] = ..., route_version: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class NextKeysRequest(_message.Message):
    __slots__ = ("keyspace", "keys", "raw_keys", "counts", "route_version", "known_epochs")
    KEYSPACE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    RAW_KEYS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    ROUTE_VERSION_FIELD_NUMBER: _ClassVar[int]
    KNOWN_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    keyspace: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    raw_keys: _containers.RepeatedScalarFieldContainer[bytes]
    counts: _containers.RepeatedScalarFieldContainer[int]
    route_version: int
    known_epochs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, keyspace: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., raw_keys: _Optional[_Iterable[bytes]] = ..., counts: _Optional[_Iterable[int]] = ..., route_version: _Optional[int] = ..., known_epochs: _Optional[_Iterable[int]] = ...) -> None: ...

class NextKeysMessage(_message.Message):
    __slots__ = ("tag", "request", "timeout_ms")
    TAG_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    tag: int
    request: NextKeysRequest
    timeout_ms: int
    def __init__(self, tag: _Optional[int] = ..., request: _Optional[_Union[NextKeysRequest, _Mapping]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class CurrentKeyRequest(_message.Message):
    __slots__ = ("keyspace", "key", "raw_key", "route_version", "epoch")
    KEYSPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    RAW_KEY_FIELD_NUMBER: _ClassVar[int]
    ROUTE_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    keyspace: str
    key: str
    raw_key: bytes
    route_version: int
    epoch: int
    def __init__(self, keyspace: _Optional[str] = ..., key: _Optional[str] = ..., raw_key: _Optional[bytes] = ..., route_version: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class CurrentKeysRequest(_message.Message):
    __slots__ = ("keyspace", "keys", "raw_keys", "route_version", "known_epochs")
    KEYSPACE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    RAW_KEYS_FIELD_NUMBER: _ClassVar[int]
    ROUTE_VERSION_FIELD_NUMBER: _ClassVar[int]
    KNOWN_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    keyspace: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    raw_keys: _containers.RepeatedScalarFieldContainer[bytes]
    route_version: int
    known_epochs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, keyspace: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., raw_keys: _Optional[_Iterable[bytes]] = ..., route_version: _Optional[int] = ..., known_epochs: _Optional[_Iterable[int]] = ...) -> None: ...

class AdvanceKeyRequest(_message.Message):
    __slots__ = ("keyspace", "key", "raw_key", "to", "route_version", "epoch")
    KEYSPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    RAW_KEY_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    ROUTE_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    keyspace: str
    key: str
    raw_key: bytes
    to: int
    route_version: int
    epoch: int
    def __init__(self, keyspace: _Optional[str] = ..., key: _Optional[str] = ..., raw_key: _Optional[bytes] = ..., to: _Optional[int] = ..., route_version: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class HashedKeysRequest(_message.Message):
    __slots__ = ("digest", "sections", "hashes", "counts", "known_epochs", "hops")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SECTIONS_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    digest: int
    sections: _containers.RepeatedScalarFieldContainer[int]
    hashes: bytes
    counts: _containers.RepeatedScalarFieldContainer[int]
    known_epochs: _containers.RepeatedScalarFieldContainer[int]
    hops: int
    def __init__(self, digest: _Optional[int] = ..., sections: _Optional[_Iterable[int]] = ..., hashes: _Optional[bytes] = ..., counts: _Optional[_Iterable[int]] = ..., known_epochs: _Optional[_Iterable[int]] = ..., hops: _Optional[int] = ...) -> None: ...

class AdvanceHashedRequest(_message.Message):
    __slots__ = ("key", "to")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    key: HashedKeysRequest
    to: int
    def __init__(self, key: _Optional[_Union[HashedKeysRequest, _Mapping]] = ..., to: _Optional[int] = ...) -> None: ...

class Keyspace(_message.Message):
    __slots__ = ("name", "first_section", "created_ms", "of_uids")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FIRST_SECTION_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    OF_UIDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    first_section: int
    created_ms: int
    of_uids: bool
    def __init__(self, name: _Optional[str] = ..., first_section: _Optional[int] = ..., created_ms: _Optional[int] = ..., of_uids: bool = ...) -> None: ...

class CreateKeyspaceRequest(_message.Message):
    __slots__ = ("name", "dry_run", "plan", "of_uids")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    OF_UIDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    dry_run: bool
    plan: int
    of_uids: bool
    def __init__(self, name: _Optional[str] = ..., dry_run: bool = ..., plan: _Optional[int] = ..., of_uids: bool = ...) -> None: ...

class CreateKeyspaceResponse(_message.Message):
    __slots__ = ("keyspace", "created", "fingerprint", "existed")
    KEYSPACE_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    keyspace: Keyspace
    created: bool
    fingerprint: int
    existed: bool
    def __init__(self, keyspace: _Optional[_Union[Keyspace, _Mapping]] = ..., created: bool = ..., fingerprint: _Optional[int] = ..., existed: bool = ...) -> None: ...
