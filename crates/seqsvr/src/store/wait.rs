//! Waits until new members have caught up with the log, with a progress line on a terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use seq_proto::v1::{ListMembersResponse, MemberState};

use crate::exit::{Exit, Failure};
use crate::output::{Output, grouped};
use crate::store_client::StoreClient;

/// Interval between requests for the members' progress.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Waits until all of these members have caught up.
pub(super) async fn caught_up(
    client: &mut StoreClient,
    ids: &[u64],
    timeout: Duration,
    output: &Output,
) -> anyhow::Result<()> {
    let line = line(output);
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
        if since.elapsed() > timeout {
            line.finish_and_clear();
            let names = behind.iter().map(|member| member.id.to_string()).collect::<Vec<_>>().join(" ");
            return Err(Failure::new(Exit::Deadline, format!("not caught up within {timeout:?}: {text}"))
                .hint(format!(
                    "is it running, with --join? Repeat the command to continue, or give up with `seqsvr store remove {names}`"
                ))
                .into());
        }
        line.set_message(text);
        line.tick();
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn describe(member: &MemberState, list: &ListMembersResponse) -> String {
    let state = if member.live { "catches up" } else { "does not respond" };
    let log = grouped(list.last_log_index + 1);
    format!("store {} {state}, {} of {log} entries to go", member.id, grouped(member.lag))
}

fn line(output: &Output) -> ProgressBar {
    let target = if output.draws_progress() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}").expect("the template is well-formed");
    ProgressBar::with_draw_target(None, target).with_style(style)
}
