//! Requests the state of one section, which consists of its record in the store of its set and of its counters at its
//! owner.

use std::time::Duration;

use futures::future::join_all;
use seq_channel::Pool;
use seq_command::output::grouped;
use seq_command::utc;
use seq_proto::v1::describe_section_request::Which;
use seq_proto::v1::set_admin_service_client::SetAdminServiceClient;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{DescribeSectionRequest, DescribeSectionResponse, ListSectionsRequest, SectionInfo, SectionState};

use crate::Cluster;
use crate::activity::within;
use crate::cluster::{AllocView, SetView, StoreView};

/// A section with the set whose store has its record.
#[derive(Clone, Debug)]
pub struct Record {
    /// Name of the set.
    pub set: String,
    /// The record.
    pub info: SectionInfo,
}

impl Record {
    /// Returns the owner of the section, if it responds.
    #[must_use]
    pub fn owner<'a>(&self, cluster: &'a Cluster) -> Option<&'a AllocView> {
        cluster.allocs.iter().find(|alloc| alloc.set == self.set && alloc.name == self.info.owner)
    }
}

/// Requests the record of a section from the stores of all sets. Returns the record from the set that has the section.
/// If no set that responds has it, returns the record from a set that had it before.
///
/// # Errors
/// No set that responds has or had the section. The text names the stores that did not respond.
pub async fn record(pool: &Pool, cluster: &Cluster, section: u32, timeout: Duration) -> Result<Record, String> {
    let of_set = |set: &SetView| {
        let mut stores: Vec<&StoreView> = cluster.stores.iter().filter(|store| store.set == set.name).collect();
        stores.sort_by_key(|store| !store.leader);
        let members = stores.into_iter().map(|store| (store.name.clone(), store.admin.clone()));
        (set.name.clone(), members.collect::<Vec<_>>())
    };
    let sets: Vec<_> = cluster.sets.iter().map(of_set).collect();
    let requests = sets.into_iter().map(|(set, members)| {
        let pool = pool.clone();
        async move {
            let mut failures = Vec::new();
            for (name, admin) in members {
                match of_store(&pool, admin.as_deref(), section, timeout).await {
                    Ok(info) => return Ok(info.map(|info| Record { set, info })),
                    Err(error) => failures.push(format!("{name} of {set}: {error}")),
                }
            }
            Err(failures)
        }
    });
    let (mut records, mut failures) = (Vec::new(), Vec::new());
    for response in join_all(requests).await {
        match response {
            Ok(record) => records.extend(record),
            Err(failed) => failures.extend(failed),
        }
    }
    let rank = |record: &Record| match record.info.state() {
        SectionState::Resident => 0,
        SectionState::Departed | SectionState::Quarantined => 1,
        SectionState::Arrived => 2,
        SectionState::Never | SectionState::Unspecified => 3,
    };
    match records.into_iter().min_by_key(rank).filter(|record| rank(record) < 3) {
        Some(record) => Ok(record),
        None if failures.is_empty() => Err(format!("no set has section {section}")),
        None => Err(format!("no set that responds has section {section}; {}", failures.join("; "))),
    }
}

/// Requests the record of a section from the store with an admin port. Returns `None` if the set has no such section.
async fn of_store(
    pool: &Pool,
    admin: Option<&str>,
    section: u32,
    timeout: Duration,
) -> Result<Option<SectionInfo>, String> {
    let addr = admin.ok_or("the address of its admin port is not known")?;
    let mut client = SetAdminServiceClient::new(pool.get(addr).map_err(|error| error.to_string())?);
    let request = ListSectionsRequest { first_section: section, limit: 1, ..ListSectionsRequest::default() };
    let records = within(timeout, client.list_sections(request)).await?.sections;
    let is_it = |info: &SectionInfo| {
        let range = info.range.unwrap_or_default();
        (u64::from(range.first_section)..u64::from(range.first_section) + u64::from(range.sections))
            .contains(&u64::from(section))
    };
    Ok(records.into_iter().find(is_it))
}

/// Requests the state of a section from the AllocSvr at `addr`.
///
/// # Errors
/// The AllocSvr does not respond within `timeout`, or does not own the section. The text names the cause.
pub async fn describe(
    pool: &Pool,
    addr: &str,
    section: u32,
    timeout: Duration,
) -> Result<DescribeSectionResponse, String> {
    let mut node = StatusServiceClient::new(pool.get(addr).map_err(|error| error.to_string())?);
    let request = DescribeSectionRequest { which: Some(Which::Section(section)) };
    within(timeout, node.describe_section(request)).await
}

/// Returns the time at which the present ownership of a section began, if it is known.
#[must_use]
pub fn began_at(record: &SectionInfo) -> Option<String> {
    (record.began_at_unix_ms > 0).then(|| utc::text_of_ms(record.began_at_unix_ms))
}

/// Returns a text about the beginning of the present ownership of a section; `None` if there is no owner, or if the
/// store does not know the beginning.
#[must_use]
pub fn beginning(record: &SectionInfo) -> Option<String> {
    let by = Some(&record.began_by).filter(|by| !by.is_empty())?;
    let ceiling = grouped(record.began_ceiling?);
    let at = began_at(record).unwrap_or_else(|| "at an unknown time".to_owned());
    Some(format!("began {at} ({by}), at the ceiling {ceiling}"))
}
