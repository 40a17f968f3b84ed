//! The services of the port: numbers, routes, deadlines, reflection, status, health, shutdown.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use seq_api::service::Via;
use seq_proto::v1;
use seq_proto::v1::status_service_client::StatusServiceClient;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tonic::Request;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::twin::TestServer;

const TIMEOUT: Duration = Duration::from_secs(20);

fn next(route_version: Option<u64>) -> v1::NextRequest {
    v1::NextRequest { uid: Some(4), count: 1, route_version, ..v1::NextRequest::default() }
}

#[tokio::test]
async fn numbers_and_readings_come_through() {
    let server = TestServer::open().await;
    let first = server.client().next(next(None)).await.unwrap().into_inner();
    assert_eq!(first, v1::NextResponse { value: 1, prev: 0, epoch: 1, ..v1::NextResponse::default() });
    let ten = v1::NextRequest { count: 10, ..next(None) };
    assert_eq!(server.client().next(ten).await.unwrap().into_inner().value, 11);
    let read = v1::CurrentRequest { uid: Some(4), ..v1::CurrentRequest::default() };
    let read = server.client().current(read).await.unwrap().into_inner();
    assert_eq!((read.value, read.exactness(), read.epoch), (11, v1::Exactness::Exact, 1));
    let read = v1::CurrentManyRequest { uids: vec![5, 4, 5_000], ..v1::CurrentManyRequest::default() };
    let read = server.client().current_many(read).await.unwrap().into_inner();
    assert_eq!(
        (&read.values[..], &read.exactness[..], &read.epochs[..]),
        (&[0, 11, 0][..], &[2, 1, 0][..], &[1, 1, 0][..])
    );
    assert_eq!(read.errors.len(), 1);
}

#[tokio::test]
async fn routes_are_sent_only_to_callers_with_older_ones_and_are_computed_once() {
    let server = TestServer::open().await;
    let routes = async |known| server.client().next(next(known)).await.unwrap().into_inner().routes;
    assert_eq!(routes(Some(0)).await, None, "there are none yet");
    server.twin.route(3);
    assert_eq!(routes(None).await, None);
    assert_eq!(routes(Some(3)).await, None);
    assert_eq!(routes(Some(9)).await, None);
    for _ in 0..5 {
        let whole = routes(Some(0)).await.unwrap();
        assert_eq!((whole.version, whole.base_version, whole.runs.len()), (3, 0, 1));
        assert_eq!(routes(Some(2)).await.unwrap().base_version, 2);
    }
    assert_eq!(server.twin.routes_made(), 2, "once for each version of the callers");
    server.twin.route(4);
    assert_eq!(routes(Some(3)).await.unwrap().version, 4);
    let stated = server.client().get_routes(v1::GetRoutesRequest { known_version: 0 }).await.unwrap().into_inner();
    assert_eq!(stated.routes.unwrap().version, 4);
    let stated = server.client().get_routes(v1::GetRoutesRequest { known_version: 4 }).await.unwrap().into_inner();
    assert_eq!(stated.routes, None);
}

#[tokio::test]
async fn the_deadline_of_a_request_is_that_of_its_caller() {
    let server = TestServer::open().await;
    let held = async |timeout: Option<Duration>, hops| {
        let mut request = Request::new(v1::NextRequest { hops, ..next(None) });
        if let Some(timeout) = timeout {
            request.set_timeout(timeout);
        }
        let sent = Instant::now();
        server.client().next(request).await.unwrap();
        let call = *server.twin.calls().last().unwrap();
        (call.deadline.saturating_duration_since(sent), call)
    };
    let (stated, call) = held(Some(Duration::from_secs(5)), 0).await;
    assert!(stated > Duration::from_secs(4), "{stated:?}");
    assert_eq!((call.hops, call.via), (0, Via::Grpc));
    let (default, call) = held(None, 1).await;
    assert!(default < stated, "{default:?}");
    assert_eq!((call.hops, call.via), (1, Via::Forwarded));
    let (longest, _) = held(Some(Duration::from_secs(3_600)), 0).await;
    assert!(longest < Duration::from_secs(3_600) / 2 && longest > stated, "{longest:?}");
}

#[tokio::test]
async fn reflection_lists_what_the_port_serves() {
    let server = TestServer::open().await;
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(server.channel.clone());
    let mut responses = client.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
    let answer = responses.next().await.unwrap().unwrap().message_response;
    let Some(MessageResponse::ListServicesResponse(list)) = answer else { panic!("{answer:?}") };
    let mut names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
            "seqsvr.v1.IdService",
            "seqsvr.v1.KeyOwnerService",
            "seqsvr.v1.KeyService",
            "seqsvr.v1.SequenceService",
            "seqsvr.v1.StatusService"
        ]
    );
}

#[tokio::test]
async fn status_is_served() {
    let server = TestServer::open().await;
    let status = StatusServiceClient::new(server.channel.clone()).status(v1::StatusRequest {}).await.unwrap();
    assert_eq!(status.into_inner().node, "a1");
}

#[tokio::test]
async fn health_reports_readiness() {
    let server = TestServer::open().await;
    let mut health = HealthClient::new(server.channel.clone());
    for (ready, expected) in [(false, ServingStatus::NotServing), (true, ServingStatus::Serving)] {
        server.twin.ready.store(ready, Relaxed);
        for service in ["", "seqsvr.v1.SequenceService"] {
            let check = HealthCheckRequest { service: service.to_owned() };
            assert_eq!(health.check(check).await.unwrap().into_inner().status(), expected, "{service:?}");
        }
    }
    let unknown = HealthCheckRequest { service: "seqsvr.v1.NoService".to_owned() };
    assert_eq!(health.check(unknown).await.unwrap_err().code(), tonic::Code::NotFound);
}

#[tokio::test]
async fn shutdown_closes_the_port_and_notifies_health_watches() {
    let server = TestServer::open().await;
    let mut health = HealthClient::new(server.channel.clone());
    let check = HealthCheckRequest { service: "seqsvr.v1.SequenceService".to_owned() };
    let mut watch = health.watch(check).await.unwrap().into_inner();
    assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    server.twin.ready.store(true, Relaxed);
    assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
    server.group.cancel();
    assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    // The watch never ends by itself; the shutdown closes it.
    assert_eq!(server.group.shutdown(TIMEOUT).await, Ok(()));
    assert!(tokio::net::TcpStream::connect(server.addr).await.is_err(), "the port is closed");
}
