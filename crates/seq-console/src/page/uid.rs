//! The page of one uid: the last number of the uid, its section, and the events that may explain a jump.

use seq_command::output::{grouped, printable};
use seq_observe::Observation;
use seq_observe::response::within;
use seq_observe::section;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::v1::{CurrentRequest, CurrentResponse, Exactness};

use super::missing;
use super::section::{facts, history};
use crate::console::Console;
use crate::view::{Block, Column, Field, Form, Page, Region, Row, Shape, Tone, cell, link, text};

const FACTS: &[Column] = &[text("fact"), text("value")];

pub(super) async fn page(console: &Console, observation: &Observation, given: Option<&str>) -> Page {
    let field = Field { label: "Uid", name: "uid", value: given.unwrap_or_default().to_owned(), choices: Vec::new() };
    let mut blocks = vec![Block::Form(Form { label: "Uid to look up", fields: vec![field] })];
    match given.map(parse) {
        None => blocks.push(Block::Text("Shows the last number of a user, its section and the owner.".to_owned())),
        Some(Err(error)) => blocks.push(Block::Text(error)),
        Some(Ok(uid)) => blocks.extend(of_uid(console, observation, uid).await),
    }
    Page { title: "Uid".to_owned(), blocks }
}

/// Reads a uid, with or without separators between its digits.
fn parse(text: &str) -> Result<u64, String> {
    let digits = text.replace([',', '_', ' '], "");
    digits.parse().map_err(|_| format!("{} is not a uid: a whole number from 0 to 2^64-1", printable(text)))
}

async fn of_uid(console: &Console, observation: &Observation, uid: u64) -> Vec<Block> {
    let cluster = &observation.cluster;
    let set = cluster.sets.iter().find(|set| set.section_size > 0);
    let section = set.and_then(|set| uid.checked_sub(set.uid_start).map(|place| place / u64::from(set.section_size)));
    let section = section.and_then(|section| u32::try_from(section).ok());
    let Some(section) = section else {
        return vec![Block::Text(format!("{} is outside of the uids of the cluster", grouped(uid)))];
    };
    let record = match section::record(&console.pool, cluster, section, console.timeout).await {
        Ok(record) if (record.info.uid_start..record.info.uid_end).contains(&uid) => record,
        Ok(_) => return vec![Block::Text(format!("{} is outside of the uids of the cluster", grouped(uid)))],
        Err(error) => return vec![Block::Text(format!("uid {}: {}", grouped(uid), printable(&error)))],
    };
    let owner = record.owner(cluster);
    let (current, described) = match owner {
        Some(owner) => {
            futures::future::join(
                current(console, &owner.addr, uid),
                section::describe(&console.pool, &owner.addr, section, console.timeout),
            )
            .await
        }
        None => {
            let error = || format!("its owner {} does not respond", record.info.owner);
            (Err(error()), Err(error()))
        }
    };
    let word = described.as_ref().map_or("", |described| section::skip_word(Some(&record.info), described));
    let mut rows = vec![number(&current, word)];
    rows.push(Row::new("section", vec![cell("section"), link(grouped(section.into()), format!("/section/{section}"))]));
    rows.extend(facts(&record, &described));
    let [events, shown] = history(observation, &record.set, section);
    vec![
        Block::Region(Region { id: "facts", label: "Number of the user", shape: Shape::Table(FACTS), rows, empty: "" }),
        Block::Heading("Events that may concern it"),
        events,
        shown,
        missing(&record.missing),
        Block::Command { text: "The same in a terminal:", command: format!("seqsvr current {uid}") },
    ]
}

/// Requests the last number of a uid from its owner.
async fn current(console: &Console, addr: &str, uid: u64) -> Result<CurrentResponse, String> {
    let mut node = SequenceServiceClient::new(console.pool.get(addr).map_err(|error| error.to_string())?);
    within(console.timeout, node.current(CurrentRequest { uid: Some(uid), ..CurrentRequest::default() })).await
}

/// Returns the last number of a uid. `word` is the cause for which the owner may not know it exactly.
fn number(current: &Result<CurrentResponse, String>, word: &str) -> Row {
    let why = match word {
        "" | "takeover" => "the owner before was lost".to_owned(),
        word => format!("because of {}", section::skip_text(word)),
    };
    let (text, tone) = match current {
        Ok(response) if response.exactness() == Exactness::UpperBound => {
            (format!("at most {}: {why}, and the next number is above it", grouped(response.value)), Tone::Attention)
        }
        Ok(response) if response.value == 0 => ("none yet".to_owned(), Tone::Plain),
        Ok(response) => (format!("{} (exact)", grouped(response.value)), Tone::Plain),
        Err(error) => (printable(error).into_owned(), Tone::Attention),
    };
    Row::new("number", vec![cell("last number"), cell(text).strong()]).tone(tone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_may_have_separators() {
        assert_eq!(parse("3,114,059,999"), Ok(3_114_059_999));
        assert_eq!(parse("18446744073709551615"), Ok(u64::MAX));
        for wrong in ["-1", "1.5", "x", "18446744073709551616", ""] {
            assert!(parse(wrong).is_err_and(|error| error.contains("is not a uid")), "{wrong}");
        }
    }
}
