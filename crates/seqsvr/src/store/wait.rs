//! Waiting for new members to get the log, with a line on a terminal that says how far they are.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use seq_proto::v1::{ListMembersResponse, MemberState};

use crate::exit::{Exit, Failure};
use crate::leader::Leader;
use crate::output::{Output, grouped};

/// How often the leader is asked how far they are.
const LOOK: Duration = Duration::from_millis(200);

/// Waits until all of these members have caught up.
pub(super) async fn caught_up(
    leader: &mut Leader,
    ids: &[u64],
    patience: Duration,
    output: &Output,
) -> anyhow::Result<()> {
    let line = line(output);
    let since = Instant::now();
    loop {
        let list = leader.list().await?;
        let behind: Vec<&MemberState> =
            list.members.iter().filter(|member| ids.contains(&member.id) && !member.caught_up).collect();
        if behind.is_empty() {
            line.finish_and_clear();
            return Ok(());
        }
        let text = behind.iter().map(|member| describe(member, &list)).collect::<Vec<_>>().join("; ");
        if since.elapsed() > patience {
            line.finish_and_clear();
            let names = behind.iter().map(|member| member.id.to_string()).collect::<Vec<_>>().join(" ");
            return Err(Failure::new(Exit::Deadline, format!("not caught up within {patience:?}: {text}"))
                .hint(format!(
                    "does it run, with --join? Repeat the command to go on, or give up with `seqsvr store remove {names}`"
                ))
                .into());
        }
        line.set_message(text);
        line.tick();
        tokio::time::sleep(LOOK).await;
    }
}

fn describe(member: &MemberState, list: &ListMembersResponse) -> String {
    let state = if member.live { "catches up" } else { "does not answer" };
    let log = grouped(list.last_log_index + 1);
    format!("store {} {state}, {} of {log} entries to go", member.id, grouped(member.lag))
}

fn line(output: &Output) -> ProgressBar {
    let target = if output.draws_progress() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}").expect("the template is well-formed");
    ProgressBar::with_draw_target(None, target).with_style(style)
}
