//! Control service of every member. The leader processes a request with its local service, and a follower forwards the
//! request to the leader.

use seq_core::limits;
use seq_kit::telemetry::traces;
use seq_proto::v1::control_service_client::ControlServiceClient;
use seq_proto::v1::control_service_server::ControlService;
use seq_proto::v1::{
    DepartRequest, DepartResponse, RaiseCeilingsRequest, RaiseCeilingsResponse, RegisterRequest, RegisterResponse,
    RenewRequest, RenewResponse, ReportDeathRequest, ReportDeathResponse, ReportLossRequest, ReportLossResponse,
    TransferManyRequest, TransferManyResponse, TransferRequest, TransferResponse,
};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use super::service::ControlServer;
use crate::leader_link::LeaderHop;

/// Control service of one member, which processes or forwards requests.
#[derive(Clone)]
pub(crate) struct ControlForward {
    pub(crate) local: ControlServer,
    pub(crate) leader: LeaderHop,
}

/// Returns a client of the control service on the connection to the leader.
fn client(channel: Channel) -> ControlServiceClient<Channel> {
    ControlServiceClient::new(channel)
        .max_decoding_message_size(limits::MAX_RESPONSE_BYTES)
        .max_encoding_message_size(limits::MAX_REQUEST_BYTES)
}

#[tonic::async_trait]
impl ControlService for ControlForward {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<RegisterResponse>, Status> {
        let Some(hop) = self.leader.hop(request.metadata())? else {
            let mut response = self.local.register(request).await?;
            // This member has just processed the request as the leader, so its list of members is current.
            response.get_mut().stores = self.leader.stores();
            return Ok(response);
        };
        hop.forward(request, |channel, request| async move { client(channel).register(request).await }).await
    }

    async fn renew(&self, request: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        let handle = |request: Request<RenewRequest>| async move {
            let Some(hop) = self.leader.hop(request.metadata())? else {
                let mut response = self.local.renew(request).await?;
                response.get_mut().stores = self.leader.stores();
                return Ok(response);
            };
            hop.forward(request, |channel, request| async move { client(channel).renew(request).await }).await
        };
        traces::continued(request, handle).await
    }

    async fn raise_ceilings(
        &self,
        request: Request<RaiseCeilingsRequest>,
    ) -> Result<Response<RaiseCeilingsResponse>, Status> {
        let handle = |request: Request<RaiseCeilingsRequest>| async move {
            let Some(hop) = self.leader.hop(request.metadata())? else {
                return self.local.raise_ceilings(request).await;
            };
            hop.forward(request, |channel, request| async move { client(channel).raise_ceilings(request).await }).await
        };
        traces::continued(request, handle).await
    }

    async fn transfer(&self, request: Request<TransferRequest>) -> Result<Response<TransferResponse>, Status> {
        let handle = |request: Request<TransferRequest>| async move {
            let Some(hop) = self.leader.hop(request.metadata())? else { return self.local.transfer(request).await };
            hop.forward(request, |channel, request| async move { client(channel).transfer(request).await }).await
        };
        traces::continued(request, handle).await
    }

    async fn transfer_many(
        &self,
        request: Request<TransferManyRequest>,
    ) -> Result<Response<TransferManyResponse>, Status> {
        let handle = |request: Request<TransferManyRequest>| async move {
            let Some(hop) = self.leader.hop(request.metadata())? else {
                return self.local.transfer_many(request).await;
            };
            hop.forward(request, |channel, request| async move { client(channel).transfer_many(request).await }).await
        };
        traces::continued(request, handle).await
    }

    async fn depart(&self, request: Request<DepartRequest>) -> Result<Response<DepartResponse>, Status> {
        let handle = |request: Request<DepartRequest>| async move {
            let Some(hop) = self.leader.hop(request.metadata())? else { return self.local.depart(request).await };
            hop.forward(request, |channel, request| async move { client(channel).depart(request).await }).await
        };
        traces::continued(request, handle).await
    }

    async fn report_loss(&self, request: Request<ReportLossRequest>) -> Result<Response<ReportLossResponse>, Status> {
        let Some(hop) = self.leader.hop(request.metadata())? else { return self.local.report_loss(request).await };
        hop.forward(request, |channel, request| async move { client(channel).report_loss(request).await }).await
    }

    async fn report_death(
        &self,
        request: Request<ReportDeathRequest>,
    ) -> Result<Response<ReportDeathResponse>, Status> {
        let Some(hop) = self.leader.hop(request.metadata())? else { return self.local.report_death(request).await };
        hop.forward(request, |channel, request| async move { client(channel).report_death(request).await }).await
    }
}
