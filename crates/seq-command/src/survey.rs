//! Surveys of the nodes of a set, before a recovery or a restore. They find out whether the set's store has a majority,
//! and which ceilings the AllocSvrs know. The requests are sent to all nodes at the same time.

use std::time::Duration;

use futures::future::join_all;
use seq_channel::Pool;
use seq_load::outcome::Chain;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{ListCeilingsRequest, SectionCeiling, StatusRequest};
use tonic::Status;

use crate::exit::{Exit, Failure};
use crate::security;
use crate::set_file::SetFile;

/// Timeout of one request. A node in the same network needs only a fraction of this time to respond.
pub const TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of pages of ceilings that are requested from one AllocSvr. Even the largest set has fewer pages.
const MAX_PAGES: usize = 1_000;

/// A StoreSvr of the set file that responded.
pub struct StoreState {
    /// Name of the store.
    pub name: String,
    /// Whether the StoreSvr reports that it belongs to the set and that a majority of the store's members is connected.
    pub alive: bool,
}

/// The ceilings that an AllocSvr reported, or the error if it did not report them.
pub struct Ceilings {
    /// Name of the allocator.
    pub name: String,
    /// Ceilings of all sections that the AllocSvr owns, or the error of the request for them.
    pub outcome: Result<Vec<SectionCeiling>, String>,
}

/// Requests the status of all StoreSvrs of the set, and returns the state of each StoreSvr that responded.
pub async fn stores(set: &SetFile) -> Vec<StoreState> {
    let pool = security::pool();
    let ask = async |name: &str, addr: &str| {
        let mut node = StatusServiceClient::new(pool.get(addr).ok()?);
        let response = tokio::time::timeout(TIMEOUT, node.status(StatusRequest {})).await.ok()?.ok()?.into_inner();
        let alive = match response.role {
            Some(Role::Store(store)) => store.quorum && response.set == set.spec.name,
            _ => false,
        };
        Some(StoreState { name: name.to_owned(), alive })
    };
    let asked = set.spec.stores.iter().map(|store| ask(&store.name, &store.addr));
    join_all(asked).await.into_iter().flatten().collect()
}

/// Requests the status of the AllocSvrs at the addresses `allocs`. Returns the number of those that belong to the set
/// `set` and have a lease.
pub async fn leased(set: &str, allocs: &[String]) -> u32 {
    let pool = security::pool();
    let ask = async |addr: &String| {
        let mut node = StatusServiceClient::new(pool.get(addr).ok()?);
        let response = tokio::time::timeout(TIMEOUT, node.status(StatusRequest {})).await.ok()?.ok()?.into_inner();
        let Some(Role::Alloc(alloc)) = response.role.filter(|_| response.set == set) else { return None };
        (alloc.lease_remaining_ms > 0).then_some(())
    };
    join_all(allocs.iter().map(ask)).await.into_iter().flatten().count() as u32
}

/// Returns an error if a StoreSvr reports that the set's store has a majority. Such a store has lost no state, so it
/// must be neither recovered nor restored.
pub fn refuse_alive(set: &SetFile, stores: &[StoreState]) -> Result<(), Failure> {
    let Some(alive) = stores.iter().find(|store| store.alive) else { return Ok(()) };
    let message = format!("set {} is alive: its store {} sees a majority", set.spec.name, alive.name);
    let hint = "nothing was changed: a store that lost its disk is replaced with `seqsvr store replace`; stop all stores of the \
                set before you restore it";
    Err(Failure::new(Exit::Failed, message).hint(hint))
}

/// Requests the ceilings of all allocators of a set.
pub async fn ceilings(set: &SetFile) -> Vec<Ceilings> {
    let pool = security::pool();
    let ask = async |name: &str, addr: &str| {
        let outcome = ceilings_of(&pool, addr, &set.spec.name).await;
        Ceilings { name: name.to_owned(), outcome }
    };
    join_all(set.spec.allocs.iter().map(|alloc| ask(&alloc.name, &alloc.addr))).await
}

async fn ceilings_of(pool: &Pool, addr: &str, set: &str) -> Result<Vec<SectionCeiling>, String> {
    let mut node = StatusServiceClient::new(pool.get(addr).map_err(|error| error.to_string())?);
    let (mut ceilings, mut first_section) = (Vec::new(), 0);
    for _ in 0..MAX_PAGES {
        let request = node.list_ceilings(ListCeilingsRequest { first_section });
        let late = |_| Status::deadline_exceeded(format!("no response within {TIMEOUT:?}"));
        let response = tokio::time::timeout(TIMEOUT, request).await.map_err(late).and_then(|response| response);
        let page = response.map_err(|status| Chain(&status).to_string())?.into_inner();
        if page.set != set {
            return Err(format!("the node is of set {:?}", page.set));
        }
        ceilings.extend(page.ceilings);
        match page.next_section {
            0 => return Ok(ceilings),
            next => first_section = next,
        }
    }
    Err("its list of ceilings does not end".to_owned())
}
