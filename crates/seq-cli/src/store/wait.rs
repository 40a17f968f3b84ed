//! Waits until new members of a store have caught up with the log. Draws a progress line if stderr is a terminal.

use std::time::{Duration, Instant};

use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, grouped};
use seq_command::signals::Interrupts;
use seq_command::store_client::StoreClient;
use seq_proto::v1::{ListMembersResponse, MemberState};

/// Interval between requests for the members' progress.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Waits until the members `ids` have caught up with the log.
pub(super) async fn caught_up(
    client: &mut StoreClient,
    ids: &[u64],
    timeout: Duration,
    output: &Output,
) -> anyhow::Result<()> {
    let line = output.progress_line();
    let mut interrupts = Interrupts::new()?;
    let since = Instant::now();
    loop {
        let list = client.list().await?;
        let behind: Vec<&MemberState> =
            list.members.iter().filter(|member| ids.contains(&member.id) && !member.caught_up).collect();
        if behind.is_empty() {
            line.finish_and_clear();
            return Ok(());
        }
        let text = behind.iter().map(|member| describe(member, &list)).collect::<Vec<_>>().join("; ");
        let names = behind.iter().map(|member| member.id.to_string()).collect::<Vec<_>>().join(" ");
        if since.elapsed() > timeout {
            line.finish_and_clear();
            return Err(Failure::new(Exit::Deadline, format!("not caught up within {timeout:?}: {text}"))
                .hint(format!("is it running, with --join? Repeat the command to continue. {}", give_up(&names)))
                .into());
        }
        line.set_message(text.clone());
        line.tick();
        tokio::select! {
            _ = interrupts.next() => {
                line.finish_and_clear();
                let message = format!("interrupted: no vote has changed, and the log is still sent to the new member: {text}");
                let hint = format!("repeat the command to continue. {}", give_up(&names));
                return Err(Failure::new(Exit::Interrupted, message).hint(hint).into());
            }
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

/// Returns a hint with the command that removes the new members `names` again. The hint states that their ids can never
/// be used again, because an id belongs permanently to one disk.
fn give_up(names: &str) -> String {
    format!(
        "`seqsvr store remove {names}` gives up and retires the id for good, with its name in the set file and its data \
         directory: the next attempt needs an id that was never used"
    )
}

fn describe(member: &MemberState, list: &ListMembersResponse) -> String {
    let state = if member.live { "catches up" } else { "does not respond" };
    let log = grouped(list.last_log_index + 1);
    format!("store {} {state}, {} of {log} entries to go", member.id, grouped(member.lag))
}
