//! Waits until all sets of a cluster know that a set was defined or closed, because the operator's next command may go
//! to any of them. The sets exchange messages every two seconds.

use std::time::{Duration, Instant};

use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, note};
use seq_command::set_file::SetFile;
use seq_command::store_client::StoreClient;
use seq_proto::v1::{SetInfo, SetState};

/// Interval between requests to a set.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum time for which a command waits until one of the other sets knows that a set is closed.
const CLOSED_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the first of `names` that no set in `sets` has, or `None` if `sets` contains a set with each of the names.
fn missing<'a>(sets: &[SetInfo], names: &'a [String]) -> Option<&'a str> {
    let lacks = |name: &&String| !sets.iter().any(|set| set.name == **name);
    names.iter().find(lacks).map(String::as_str)
}

/// Returns whether `sets` contains a set with the name `name` that is not closed.
fn is_open(sets: &[SetInfo], name: &str) -> bool {
    sets.iter().any(|set| set.name == name && set.state() != SetState::Closed)
}

/// Waits until the stores of the sets in `files` know all sets with the names `names`.
///
/// # Errors
/// [`Exit::Deadline`] if a store does not know all of them within `timeout`.
pub(super) async fn until_known(
    files: &[&SetFile],
    names: &[String],
    timeout: Duration,
    output: &Output,
) -> anyhow::Result<()> {
    let stores = files.iter().map(|file| (file.spec.name.clone(), StoreClient::of_file(file, timeout)));
    until_all_know(stores.collect(), names, timeout, output).await
}

/// Waits until each of `stores` knows all sets with the names `names`. The text next to each store is its name in
/// messages.
///
/// # Errors
/// [`Exit::Deadline`] if a store does not know all of them within `timeout`.
pub(super) async fn until_all_know(
    stores: Vec<(String, StoreClient)>,
    names: &[String],
    timeout: Duration,
    output: &Output,
) -> anyhow::Result<()> {
    let line = output.progress_line();
    let since = Instant::now();
    for (of, mut store) in stores {
        loop {
            store.restart_time();
            let sets = store.sets().await?.unwrap_or_default();
            let Some(name) = missing(&sets, names) else { break };
            if since.elapsed() > timeout {
                line.finish_and_clear();
                let message = format!("set {name} is defined, but {of} did not know it within {timeout:?}");
                let hint = "their stores exchange messages every two seconds: `seqsvr set list` shows the sets that a set knows";
                return Err(Failure::new(Exit::Deadline, message).hint(hint).into());
            }
            line.set_message(format!("waiting until {of} knows set {name}"));
            line.tick();
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    line.finish_and_clear();
    Ok(())
}

/// Waits until all other sets know that the set `name` is closed. If one of them does not respond or does not know it
/// within [`CLOSED_TIMEOUT`], prints a note and continues with the next, because the set is closed in any case.
pub(super) async fn until_closed(others: &[SetInfo], name: &str, output: &Output) {
    let line = output.progress_line();
    for other in others.iter().filter(|other| other.state() == SetState::Open && !other.stores.is_empty()) {
        let mut store = StoreClient::at("", &other.stores, CLOSED_TIMEOUT);
        let since = Instant::now();
        loop {
            match store.sets().await {
                Ok(Some(sets)) if is_open(&sets, name) && since.elapsed() < CLOSED_TIMEOUT => {}
                Ok(Some(sets)) if is_open(&sets, name) => {
                    note(format_args!("set {} does not know yet that set {name} is closed", other.name));
                    break;
                }
                Ok(_) => break,
                Err(error) => {
                    note(format_args!(
                        "set {} did not report whether it knows that set {name} is closed: {error:#}",
                        other.name
                    ));
                    break;
                }
            }
            store.restart_time();
            line.set_message(format!("waiting until set {} knows that set {name} is closed", other.name));
            line.tick();
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    line.finish_and_clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_known_when_every_set_states_it() {
        let set =
            |name: &str, state: SetState| SetInfo { name: name.to_owned(), state: state.into(), ..SetInfo::default() };
        let sets = [set("a", SetState::Open), set("b", SetState::Closing), set("c", SetState::Closed)];
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(missing(&sets, &names(&["a", "b"])), None);
        assert_eq!(missing(&sets, &names(&["a", "d", "e"])), Some("d"));
        assert_eq!(["a", "b", "c", "d"].map(|name| is_open(&sets, name)), [true, true, false, false]);
    }
}
