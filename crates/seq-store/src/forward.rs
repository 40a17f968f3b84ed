//! Forwarding of operators' requests. A follower receives them at its admin port and forwards them to the leader over
//! the ports for peers.
//!
//! An admin port is open only on the loopback interface or on a network of operators. So an operator may be able to
//! reach the admin port of a follower, but not the admin port of the leader. One layer in front of all services of the
//! admin port forwards the requests. It does not decode their messages.
//!
//! **Invariant:** the port for peers offers no service of operators. A forwarded request arrives there as a call of
//! [`ForwardService`]. This service accepts calls only from stores of the same set, and checks the rights of the
//! original sender, whose identity the forwarded request states.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{BoxStream, StreamExt};
use seq_core::limits;
use seq_kit::connection::Peer;
use seq_proto::roles::Called;
use seq_proto::v1::forward_service_client::ForwardServiceClient;
use seq_proto::v1::forward_service_server::ForwardService;
use seq_proto::v1::{ForwardRequest, ForwardResponse};
use seq_proto::{Reason, ports};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{Service, http};
use tonic::server::ServerStreamingService;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::leader_link::LeaderHop;
use crate::sender::sender;

/// Maximum number of bytes by which a [`ForwardRequest`] or [`ForwardResponse`] is longer than the message in it.
pub(crate) const ENVELOPE_BYTES: usize = 1024;

/// Stream of the encoded messages of a response.
type Messages = BoxStream<'static, Result<Bytes, Status>>;

/// Services of an admin port, with a layer in front of them that forwards requests to the leader if another member
/// leads.
#[derive(Clone)]
pub(crate) struct AdminPort {
    pub(crate) services: Routes,
    pub(crate) leader: LeaderHop,
}

impl Service<http::Request<Body>> for AdminPort {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut this = self.clone();
        if !ports::is_admin(request.uri().path()) {
            return async move { this.services.call(request).await }.boxed();
        }
        let method = request.uri().path().to_owned();
        let mut grpc = tonic::server::Grpc::new(Encoded)
            .max_decoding_message_size(limits::MAX_REQUEST_BYTES)
            .max_encoding_message_size(limits::MAX_RESPONSE_BYTES);
        async move { Ok(grpc.server_streaming(AtLeader { port: this, method }, request).await) }.boxed()
    }
}

/// Handler of one request at the admin port. It forwards the request to the leader, or passes it to the services of
/// this member if no other member leads.
struct AtLeader {
    port: AdminPort,
    /// Path of the requested method.
    method: String,
}

impl ServerStreamingService<Bytes> for AtLeader {
    type Response = Bytes;
    type ResponseStream = Messages;
    type Future = BoxFuture<'static, Result<Response<Messages>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let (AdminPort { services, leader }, method) = (self.port.clone(), self.method.clone());
        async move {
            let Some(hop) = leader.hop(request.metadata())? else { return dispatch(services, &method, request).await };
            let request = request.map(|message| ForwardRequest { method, message });
            let forwarded = hop.forward(request, |channel, request| async move {
                let client = ForwardServiceClient::new(channel);
                client.max_decoding_message_size(limits::MAX_RESPONSE_BYTES + ENVELOPE_BYTES).forward(request).await
            });
            let messages = forwarded.await?.into_inner();
            Ok(Response::new(messages.map(|message| message.map(|message| message.message)).boxed()))
        }
        .boxed()
    }
}

/// Passes an encoded request to the service of this member that has the method `method`, and returns the encoded
/// response.
async fn dispatch(services: Routes, method: &str, request: Request<Bytes>) -> Result<Response<Messages>, Status> {
    let path: PathAndQuery =
        method.parse().map_err(|_| Reason::Malformed.status(format!("{method:?} is no path of a method")))?;
    let mut services = tonic::client::Grpc::new(services).max_decoding_message_size(limits::MAX_RESPONSE_BYTES);
    match services.ready().await {
        Ok(()) => {}
        Err(never) => match never {},
    }
    Ok(services.server_streaming(request, path, Encoded).await?.map(StreamExt::boxed))
}

/// Service at the port for peers that receives forwarded requests.
#[derive(Clone)]
pub(crate) struct ForwardServer {
    /// Services of the admin port that process the forwarded requests.
    pub(crate) services: Routes,
    pub(crate) set: Arc<str>,
}

#[tonic::async_trait]
impl ForwardService for ForwardServer {
    type ForwardStream = BoxStream<'static, Result<ForwardResponse, Status>>;

    async fn forward(&self, request: Request<ForwardRequest>) -> Result<Response<Self::ForwardStream>, Status> {
        let acting = sender(&request)?;
        let ForwardRequest { method, message } = request.into_inner();
        if !ports::is_admin(&method) {
            return Err(Reason::Malformed.status(format!("{method:?} is no method of an admin port")));
        }
        let mut request = Request::new(message);
        if let Some(identity) = acting {
            Called::by_path(&method).check(Some(&identity), &self.set)?;
            request.extensions_mut().insert(Peer::identified(identity));
        }
        let messages = dispatch(self.services.clone(), &method, request).await?;
        Ok(messages.map(|messages| messages.map(|one| one.map(|message| ForwardResponse { message })).boxed()))
    }
}

/// Codec that passes messages on as bytes, without decoding them.
#[derive(Clone, Copy, Default)]
struct Encoded;

impl Codec for Encoded {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Encoded;
    type Decoder = Encoded;

    fn encoder(&mut self) -> Encoded {
        Encoded
    }

    fn decoder(&mut self) -> Encoded {
        Encoded
    }
}

impl Encoder for Encoded {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(message);
        Ok(())
    }
}

impl Decoder for Encoded {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}
