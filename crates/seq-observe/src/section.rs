//! Requests the state of one section, which consists of its record in the store of its set and of its counters at its
//! owner.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use seq_channel::Pool;
use seq_command::output::grouped;
use seq_command::utc;
use seq_proto::v1::describe_section_request::Which;
use seq_proto::v1::set_admin_service_client::SetAdminServiceClient;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{
    DescribeSectionRequest, DescribeSectionResponse, ListSectionsRequest, SectionInfo, SectionState, SkipCause,
};
use tokio::time::{Instant, timeout_at};

use crate::Cluster;
use crate::cluster::{AllocView, SetView, StoreView};
use crate::response::within;
use crate::verdict::State;

/// Time limit of the responses of all sets, relative to the limit of one request. If the leader of a store hangs, the
/// next member of the store can still respond.
const ALL_SETS: u32 = 2;

/// A section with the set whose store has its record.
#[derive(Clone, Debug)]
pub struct Record {
    /// Name of the set.
    pub set: String,
    /// The record.
    pub info: SectionInfo,
    /// Texts about the sets that may have the section instead and did not respond, each with the cause. The list is
    /// empty if the record states that the section is in its set.
    pub missing: Vec<String>,
}

impl Record {
    /// Returns the owner of the section, if it responds.
    #[must_use]
    pub fn owner<'a>(&self, cluster: &'a Cluster) -> Option<&'a AllocView> {
        cluster.allocs.iter().find(|alloc| alloc.set == self.set && alloc.name == self.info.owner)
    }
}

/// Requests the record of a section from the stores of all sets. Returns the record from the set that has the section
/// as soon as this set responds. If no set that responds within twice `timeout` has it, returns the record from a set
/// that had it before.
///
/// # Errors
/// No set that responds has or had the section. The text names the stores and sets that did not respond.
pub async fn record(pool: &Pool, cluster: &Cluster, section: u32, timeout: Duration) -> Result<Record, String> {
    let limit = Instant::now() + timeout * ALL_SETS;
    // A closed set has no section, and its processes need not run.
    let open = || cluster.sets.iter().filter(|set| set.state != Some(State::Closed));
    let requests = open().map(|set| {
        let (pool, set, members) = (pool.clone(), set.name.clone(), members(set, cluster));
        async move {
            let found = of_set(&pool, &members, section, timeout).await;
            (set, found)
        }
    });
    let mut requests: FuturesUnordered<_> = requests.collect();
    let mut waiting: BTreeSet<&String> = open().map(|set| &set.name).collect();
    let (mut records, mut missing) = (Vec::new(), Vec::new());
    loop {
        let Ok(response) = timeout_at(limit, requests.next()).await else {
            missing.extend(
                waiting.into_iter().map(|set| format!("set {set}: no response within {:?}", timeout * ALL_SETS)),
            );
            break;
        };
        let Some((set, found)) = response else { break };
        waiting.remove(&set);
        match found {
            // A section is in one set only, so no further response matters.
            Ok(Some(info)) if info.state() == SectionState::Resident => {
                return Ok(Record { set, info, missing: Vec::new() });
            }
            Ok(Some(info)) => records.push((set, info)),
            Ok(None) => {}
            Err(failures) => missing.push(format!("set {set}: {failures}")),
        }
    }
    missing.sort();
    let rank = |info: &SectionInfo| match info.state() {
        SectionState::Resident => 0,
        SectionState::Departed | SectionState::Quarantined => 1,
        SectionState::Arrived => 2,
        SectionState::Never | SectionState::Unspecified => 3,
    };
    match records.into_iter().min_by_key(|(_, info)| rank(info)).filter(|(_, info)| rank(info) < 3) {
        Some((set, info)) => Ok(Record { set, info, missing }),
        None if missing.is_empty() => Err(format!("no set has section {section}")),
        None => Err(format!("no set that responds has section {section}; {}", missing.join("; "))),
    }
}

/// Returns the names and the addresses of the admin ports of a set's StoreSvrs that respond, the leader first.
fn members(set: &SetView, cluster: &Cluster) -> Vec<(String, Option<String>)> {
    let mut stores: Vec<&StoreView> = cluster.stores.iter().filter(|store| store.set == set.name).collect();
    stores.sort_by_key(|store| !store.leader);
    stores.into_iter().map(|store| (store.name.clone(), store.admin.clone())).collect()
}

/// Requests the record of a section from the members of a store, one after another until one responds. Returns `None`
/// if the set has no such section.
async fn of_set(
    pool: &Pool,
    members: &[(String, Option<String>)],
    section: u32,
    timeout: Duration,
) -> Result<Option<SectionInfo>, String> {
    let mut failures = Vec::new();
    for (name, admin) in members {
        match of_store(pool, admin.as_deref(), section, timeout).await {
            Ok(info) => return Ok(info),
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    Err(if failures.is_empty() { "no store responds".to_owned() } else { failures.join(", ") })
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
    utc::text_if_known(record.began_at_unix_ms)
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

/// Returns the cause for which uids of a section may have skipped numbers at the beginning of the present ownership, as
/// one word. `described` is the state at the owner, which knows that its counters were not exact; the record in the
/// store knows why. Without a record the word is `unknown`. Returns an empty word if no numbers were skipped.
#[must_use]
pub fn skip_word(record: Option<&SectionInfo>, described: &DescribeSectionResponse) -> &'static str {
    if described.skip_cause() == SkipCause::Unspecified {
        return "";
    }
    let Some(record) = record else { return "unknown" };
    let is_same = record.epoch == described.epoch;
    match (described.skip_cause(), record.began_by.as_str()) {
        (_, "restored_owners") if is_same => "restore",
        (_, "arrival") if is_same => "arrival",
        (SkipCause::Takeover, "release") if is_same => "release",
        (SkipCause::Takeover | SkipCause::Unspecified, _) => "takeover",
        (SkipCause::Handover, _) => "handover",
    }
}

/// Returns the text for a word of [`skip_word`], as the end of "because of".
#[must_use]
pub fn skip_text(word: &str) -> &'static str {
    match word {
        "restore" => "a restore of the set from a backup",
        "arrival" => "an arrival from another set without the exact numbers",
        "release" => "a stop of the owner before whose exact numbers were not kept",
        "takeover" => "a takeover",
        "handover" => "a handover without its copy",
        _ => "an unknown cause",
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use seq_channel::Dial;
    use seq_proto::v1::status_response::Role;
    use seq_proto::v1::{StatusResponse, StoreStatus};
    use tokio::net::TcpListener;

    use super::*;
    use crate::sample::Sample;

    /// Returns a listener whose connections get no response.
    async fn hanging() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let addr = listener.local_addr().expect("an address").to_string();
        (listener, addr)
    }

    fn store(set: &str, id: u64, admin: &str) -> StatusResponse {
        let status =
            StoreStatus { id, leader: 1, quorum: true, section_size: 1, sections: 9, ..StoreStatus::default() };
        StatusResponse {
            set: set.to_owned(),
            node: format!("s{id}"),
            admin_addrs: vec![admin.to_owned()],
            role: Some(Role::Store(status)),
            ..StatusResponse::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn sets_that_hang_are_named_after_a_bounded_time() {
        let (_listener, admin) = hanging().await;
        let mut sample = Sample::default();
        for (set, id) in [("im-a", 1), ("im-a", 2), ("im-a", 3), ("im-b", 1)] {
            sample.responses.insert(format!("{set}-{id}:1"), Ok(store(set, id, &admin)));
        }
        let cluster = Cluster::new(&sample, &[], SystemTime::UNIX_EPOCH);
        let (begin, timeout) = (Instant::now(), Duration::from_secs(1));
        let pool = Pool::with_dial(1, Dial::tcp());
        let error = record(&pool, &cluster, 7, timeout).await.expect_err("no set responds");
        assert!(error.contains("set im-a: no response within 2s"), "{error}");
        assert!(error.contains("set im-b: s1: no response within 1s"), "{error}");
        assert_eq!(begin.elapsed(), timeout * ALL_SETS, "three members of one set");
    }

    #[test]
    fn the_store_knows_why_numbers_were_skipped() {
        let word = |cause: SkipCause, by: &str, epoch| {
            let record = SectionInfo { began_by: by.to_owned(), epoch: 7, ..SectionInfo::default() };
            let described = DescribeSectionResponse { epoch, skip_cause: cause.into(), ..Default::default() };
            skip_word(Some(&record), &described)
        };
        assert_eq!(word(SkipCause::Takeover, "takeover", 7), "takeover");
        assert_eq!(word(SkipCause::Takeover, "restored_owners", 7), "restore");
        assert_eq!(
            word(SkipCause::Takeover, "restored_owners", 8),
            "takeover",
            "the record is of an earlier ownership"
        );
        assert_eq!(word(SkipCause::Handover, "handover", 7), "handover");
        assert_eq!(word(SkipCause::Unspecified, "restored_owners", 7), "");
        assert_eq!(skip_text("restore"), "a restore of the set from a backup");
        let described = DescribeSectionResponse { skip_cause: SkipCause::Takeover.into(), ..Default::default() };
        assert_eq!(skip_text(skip_word(None, &described)), "an unknown cause", "no store responds");
        assert_eq!(skip_word(None, &DescribeSectionResponse::default()), "");
    }
}
