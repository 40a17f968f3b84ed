//! Every message of `proto/`, and the messages of the JSON endpoint in JSON.

use prost::Message;
use seq_proto::v1;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Decodes the bytes as `M`. A decoded message must be equal after it was encoded and decoded again.
fn turn<M: Message + Default>(body: &[u8]) {
    if let Ok(message) = M::decode(body) {
        let written = message.encode_to_vec();
        let again = M::decode(&*written).expect("what was written can be read");
        assert_eq!(again.encode_to_vec(), written);
    }
}

/// Decodes the bytes as `M` in JSON, with the same check.
fn turn_json<M: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(body: &[u8]) {
    if let Ok(message) = serde_json::from_slice::<M>(body) {
        let written = serde_json::to_vec(&message).expect("a message can be written");
        assert_eq!(serde_json::from_slice::<M>(&written).expect("what was written can be read"), message);
    }
}

type Turn = fn(&[u8]);

macro_rules! turns {
    ($turn:ident, $($message:ident)*) => {
        &[$((stringify!($message), $turn::<v1::$message> as Turn)),*]
    };
}

/// Every message, by name.
pub(crate) const MESSAGES: &[(&str, Turn)] = turns!(turn,
    StatusRequest StatusResponse StoreStatus StoreMember AllocMember AllocStatus ListMembersRequest ListMembersResponse
    MemberState AddLearnersRequest NewMember AddLearnersResponse ChangeVotersRequest ChangeVotersResponse
    TransferLeaderRequest TransferLeaderResponse RaiseFormatRequest RaiseFormatResponse ListNodesRequest
    ListNodesResponse NodeState DrainNodeRequest
    DrainNodeResponse MoveSectionsRequest MovedSection MoveSectionsResponse PauseBalancingRequest BalancingPause PauseBalancingResponse
    RegisterRequest RegisterResponse RenewRequest CopyPart KeptCopy RenewResponse OwnershipUpdate PlannedHandover RaiseCeilingsRequest
    RaiseCeilingsResponse TransferRequest TransferResponse TransferManyRequest TransferManyResponse StepOutcome
    StepsRequest StepsResponse HandoverOffer PrepareRequest PrepareResponse StageRequest
    StageResponse ActivateRequest ActivateResponse RaftMessage ProbeResponse StateDigest SnapshotChunk Routes RouteNode RouteRun
    NextRequest NextResponse NextManyRequest NextManyResponse ItemError NextStreamRequest NextStreamResponse
    LostAttempts CurrentRequest CurrentResponse CurrentManyRequest CurrentManyResponse AdvanceRequest AdvanceResponse
    GetRoutesRequest GetRoutesResponse
    ProbeRequest LogPosition SetTermsRequest SetTermsResponse
    ArmRequest ArmResponse ArmedNode ArriveRequest ArriveResponse BackupHeader Between ClaimRun CloseSetRequest
    CloseSetResponse CompleteArrivalRequest CompleteArrivalResponse CompleteMigrationRequest CompleteMigrationResponse
    CreateBackupRequest CreateBackupResponse CreateSetRequest CreateSetResponse DepartRequest DepartResponse Departure
    ExchangeRequest ExchangeResponse FenceRequest FenceResponse ForwardRequest ForwardResponse ListMigrationsRequest
    ListMigrationsResponse ListSectionsRequest ListSectionsResponse ListSetsRequest ListSetsResponse MigrationPace MigrationPlan MigrationStatus
    PlanMigrationRequest PlanMigrationResponse RollbackMigrationRequest RollbackMigrationResponse RouteSet SectionInfo
    SectionRange SetFacts SetInfo SetPaceRequest SetPaceResponse StartMigrationRequest StartMigrationResponse
    StartReturnRequest StartReturnResponse AuditEvent BegunOperation EndedOperation EndOperationRequest EndOperationResponse
    ListEventsRequest ListEventsResponse ListSetEventsRequest ListSetEventsResponse WatchSetEventsRequest WatchSetEventsResponse
    SetEvent NodeSections ListCeilingsRequest ListCeilingsResponse SectionCeiling
    ListActivityRequest ListActivityResponse ActivityColumn SectionFigures DescribeSectionRequest DescribeSectionResponse CeilingRaise
    ListNodeEventsRequest ListNodeEventsResponse NodeEvent
    GetConfigRequest GetConfigResponse Setting
    NextIdsRequest NextIdsResponse IdRun CurrentIdRequest CurrentIdResponse AdvanceIdRequest AdvanceIdResponse
    DecodeIdRequest DecodeIdResponse ListSeriesRequest ListSeriesResponse Series StoredSeries Shape CounterShape TimedShape
    Lanes Hashing TickClock CreateSeriesRequest CreateSeriesResponse RetireSeriesRequest RetireSeriesResponse
    LayoutWriter SetLayoutWriterRequest SetLayoutWriterResponse
    ConfirmRequest ConfirmResponse ReadFinalRequest ForgetSetRequest ForgetSetResponse ReportLossRequest ReportLossResponse
    ReportDeathRequest ReportDeathResponse
    NextKeyRequest NextKeysRequest NextKeysMessage CurrentKeyRequest CurrentKeysRequest AdvanceKeyRequest
    HashedKeysRequest AdvanceHashedRequest
    Keyspace CreateKeyspaceRequest CreateKeyspaceResponse
);

/// The requests of the JSON endpoint, and its responses.
pub(crate) const IN_JSON: &[(&str, Turn)] = turns!(turn_json,
    NextRequest NextResponse NextManyRequest NextManyResponse CurrentRequest CurrentResponse CurrentManyRequest
    CurrentManyResponse AdvanceRequest AdvanceResponse GetRoutesRequest GetRoutesResponse
);

/// Takes the message that the first byte of `data` chooses through `turns`.
fn choose(turns: &[(&str, Turn)], data: &[u8]) {
    if let Some((kind, body)) = data.split_first() {
        (turns[usize::from(*kind) % turns.len()].1)(body);
    }
}

/// Reads `data` as some message.
pub fn messages(data: &[u8]) {
    choose(MESSAGES, data);
}

/// Reads `data` as some message in JSON.
pub fn json(data: &[u8]) {
    choose(IN_JSON, data);
}
