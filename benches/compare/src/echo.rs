//! The bare wire: the same service and messages over the same tonic, on the same kind of runtime, without any logic.
//!
//! The difference to seqsvr is the cost of seqsvr; the cost of this server is the lower bound of any service on tonic.

use std::net::SocketAddr;
use std::pin::Pin;

use futures::{Stream, StreamExt};
use rustix::time::{ClockId, clock_gettime};
use seq_kit::cores::Cores;
use seq_kit::listen;
use seq_proto::v1;
use seq_proto::v1::next_stream_response::Outcome;
use seq_proto::v1::sequence_service_server::{SequenceService, SequenceServiceServer};
use seq_proto::v1::status_service_server::{StatusService, StatusServiceServer};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

/// Flow-control windows of the gRPC endpoint: they bound the bytes in flight.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// Serves until the process ends, on one current-thread runtime for each core. Prints its address.
pub(crate) fn serve(addr: SocketAddr, cores: usize) -> anyhow::Result<()> {
    let listeners = listen::bind(addr, cores)?;
    println!("{}", listeners[0].local_addr()?);
    let threads = Cores::start("echo", listeners, |listener| async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("the runtime takes the socket");
        let incoming = TcpListenerStream::new(listener).map(|stream| {
            let stream = stream?;
            stream.set_nodelay(true)?;
            Ok::<_, std::io::Error>(stream)
        });
        let served = Server::builder()
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .add_service(SequenceServiceServer::new(Echo))
            .add_service(StatusServiceServer::new(Echo))
            .serve_with_incoming(incoming)
            .await;
        if let Err(error) = served {
            eprintln!("echo: {error}");
        }
    })?;
    threads.join();
    Ok(())
}

struct Echo;

fn many(request: &v1::NextManyRequest) -> v1::NextManyResponse {
    let items = request.uids.len();
    // Numbers of a realistic size: one-byte varints would make the bare wire too cheap.
    let values: Vec<u64> = request.uids.iter().map(|uid| uid + 1_000).collect();
    let prevs = request.uids.iter().map(|uid| uid + 999).collect();
    v1::NextManyResponse { values, prevs, epochs: vec![1; items], ..v1::NextManyResponse::default() }
}

/// CPU time of all threads of the process, in microseconds.
fn cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_nsec.unsigned_abs() / 1_000
}

fn unimplemented<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("the bare wire only echoes"))
}

#[tonic::async_trait]
impl SequenceService for Echo {
    async fn next(&self, request: Request<v1::NextRequest>) -> Result<Response<v1::NextResponse>, Status> {
        let uid = request.into_inner().uid;
        let uid = uid.unwrap_or_default();
        let (value, prev) = (uid + 1_000, uid + 999);
        Ok(Response::new(v1::NextResponse { value, prev, epoch: 1, ..v1::NextResponse::default() }))
    }

    async fn next_many(&self, request: Request<v1::NextManyRequest>) -> Result<Response<v1::NextManyResponse>, Status> {
        Ok(Response::new(many(&request.into_inner())))
    }

    type NextStreamStream = Pin<Box<dyn Stream<Item = Result<v1::NextStreamResponse, Status>> + Send>>;

    async fn next_stream(
        &self,
        request: Request<Streaming<v1::NextStreamRequest>>,
    ) -> Result<Response<Self::NextStreamStream>, Status> {
        let responses = request.into_inner().map(|message| {
            let v1::NextStreamRequest { tag, request, .. } = message?;
            let outcome = Some(Outcome::Response(many(&request.unwrap_or_default())));
            Ok(v1::NextStreamResponse { tag, outcome })
        });
        Ok(Response::new(Box::pin(responses)))
    }

    async fn current(&self, _: Request<v1::CurrentRequest>) -> Result<Response<v1::CurrentResponse>, Status> {
        unimplemented()
    }

    async fn current_many(
        &self,
        _: Request<v1::CurrentManyRequest>,
    ) -> Result<Response<v1::CurrentManyResponse>, Status> {
        unimplemented()
    }

    async fn advance(&self, _: Request<v1::AdvanceRequest>) -> Result<Response<v1::AdvanceResponse>, Status> {
        unimplemented()
    }

    async fn get_routes(&self, _: Request<v1::GetRoutesRequest>) -> Result<Response<v1::GetRoutesResponse>, Status> {
        Ok(Response::new(v1::GetRoutesResponse { routes: None }))
    }
}

#[tonic::async_trait]
impl StatusService for Echo {
    async fn status(&self, _: Request<v1::StatusRequest>) -> Result<Response<v1::StatusResponse>, Status> {
        let (pid, cpu_us) = (std::process::id(), cpu_us());
        Ok(Response::new(v1::StatusResponse { pid, cpu_us, ..v1::StatusResponse::default() }))
    }

    async fn list_ceilings(
        &self,
        _: Request<v1::ListCeilingsRequest>,
    ) -> Result<Response<v1::ListCeilingsResponse>, Status> {
        unimplemented()
    }

    async fn list_activity(
        &self,
        _: Request<v1::ListActivityRequest>,
    ) -> Result<Response<v1::ListActivityResponse>, Status> {
        unimplemented()
    }

    async fn describe_section(
        &self,
        _: Request<v1::DescribeSectionRequest>,
    ) -> Result<Response<v1::DescribeSectionResponse>, Status> {
        unimplemented()
    }

    async fn get_config(&self, _: Request<v1::GetConfigRequest>) -> Result<Response<v1::GetConfigResponse>, Status> {
        unimplemented()
    }

    async fn list_node_events(
        &self,
        _: Request<v1::ListNodeEventsRequest>,
    ) -> Result<Response<v1::ListNodeEventsResponse>, Status> {
        unimplemented()
    }
}
