//! The command `config diff`. It compares the settings of running nodes of the same kind.

use std::time::Duration;

use clap::Args;
use seq_command::exit::{Exit, report_error};
use seq_command::output::{Output, Table};
use seq_command::security;
use seq_command::store_client::{NodeRole, SetAddress};
use seq_command::time_limit::time;
use seq_observe::settings::{self, Difference, Report, Surveyed, ValueOfNode};
use serde::Serialize;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr config diff --set sets/three-node.toml\n  \
                        seqsvr config diff --addr http://10.0.0.1:7100 -o json | jq '.items[] | {key, nodes}'\n\n\
                        Nodes of a set and a kind are compared: stores, allocators, and the proxies that --addr names. A \
                        value counts as the majority's if more than half of the nodes have it; without one, all nodes are listed. \
                        Of a secret only whether it is set is compared.\n\n\
                        Exit codes: 0 no differences, 1 differences, or no node reports its settings, 2 a wrong file or address, \
                        4 no node responded, 8 no differences, but some nodes do not report their settings.")]
pub struct DiffArgs {
    #[command(flatten)]
    target: SetAddress,
    /// Also compares the settings in which nodes differ by nature, such as addresses: all keys that begin with `node.`
    #[arg(long)]
    all: bool,
    /// Timeout of each node.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    timeout: Duration,
}

/// A node whose settings are unknown, as JSON.
#[derive(Serialize)]
struct Silent {
    node: Option<String>,
    addr: String,
    why: String,
}

pub(super) async fn run(args: &DiffArgs, output: &Output) -> anyhow::Result<Exit> {
    let nodes = args.target.nodes()?;
    let surveyed = settings::survey(&security::pool(), &nodes, args.timeout).await?;
    let (mut reports, mut failed) = (Vec::new(), Vec::new());
    for Surveyed { node, outcome } in surveyed {
        match outcome {
            Ok(settings) => reports.push(Report { addr: node.addr, settings }),
            Err(failure) => failed.push((node, failure)),
        }
    }
    if reports.is_empty() {
        let (_, failure) = failed.swap_remove(0);
        return Err(failure.into());
    }
    let differences = settings::differences(&reports, args.all);
    let silent = failed.into_iter().map(|(node, failure)| {
        let kind = node.of.as_ref().map(|(_, role)| if *role == NodeRole::Store { "store " } else { "alloc " });
        let name = node.name.as_ref().map(|name| format!("{}{name}: ", kind.unwrap_or_default()));
        report_error(&format_args!("{}{failure}; its settings are not compared", name.unwrap_or_default()));
        Silent { node: node.name, addr: node.addr, why: failure.to_string() }
    });
    let silent: Vec<Silent> = silent.collect();
    print(&differences, &reports, &silent, output)?;
    Ok(match (differences.is_empty(), silent.is_empty()) {
        (false, _) => Exit::Failed,
        (true, false) => Exit::Partial,
        (true, true) => Exit::Ok,
    })
}

fn print(differences: &[Difference], reports: &[Report], silent: &[Silent], output: &Output) -> std::io::Result<()> {
    #[derive(Serialize)]
    struct Compared<'a> {
        items: &'a [Difference],
        /// Number of nodes whose settings were compared.
        compared: usize,
        silent: &'a [Silent],
    }
    if output.is_json() {
        return output.json(&Compared { items: differences, compared: reports.len(), silent });
    }
    if differences.is_empty() {
        return output.line(format_args!("no differences between the settings of {} nodes", reports.len()));
    }
    output.table(&rendered(differences))
}

fn rendered(differences: &[Difference]) -> Table {
    let mut table = Table::new(&["set", "kind", "key", "node", "value", "from", "majority"]);
    let text = |value: Option<&String>| value.cloned().unwrap_or_else(|| "-".to_owned());
    for Difference { set, kind, key, majority, nodes } in differences {
        for ValueOfNode { node, addr, value, origin } in nodes {
            table.row([
                if set.is_empty() { "-".to_owned() } else { set.clone() },
                kind.clone(),
                key.clone(),
                // Several proxies may have the same name.
                if set.is_empty() { format!("{node} at {addr}") } else { node.clone() },
                text(value.as_ref()),
                origin.clone().unwrap_or_else(|| "-".to_owned()),
                text(majority.as_ref()),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use seq_observe::settings::differences;
    use seq_proto::v1::{GetConfigResponse, Setting};

    use super::*;

    fn report(set: &str, kind: &str, node: &str, settings: &[(&str, &str, &str)]) -> Report {
        let setting = |(key, value, origin): &(&str, &str, &str)| Setting {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
            default: String::new(),
            origin: (*origin).to_owned(),
        };
        let settings = settings.iter().map(setting).collect();
        let settings =
            GetConfigResponse { set: set.to_owned(), node: node.to_owned(), kind: kind.to_owned(), settings };
        Report { addr: format!("{node}:1"), settings }
    }

    fn check(reports: &[Report], all: bool, expect: Expect) {
        expect.assert_eq(&rendered(&differences(reports, all)).render());
    }

    #[test]
    fn the_nodes_that_differ_from_the_majority_are_named() {
        let default = [("log.filter", "\"info\"", "default"), ("alloc.lease_ms", "2000", "default")];
        let store = |node| report("im-a", "store", node, &default);
        let debug = [("log.filter", "\"debug\"", "s.toml:2"), ("alloc.lease_ms", "2000", "s.toml:4")];
        let differing = report("im-a", "store", "s3", &debug);
        let other_set = report("im-b", "store", "s1", &debug);
        let other_kind = report("im-a", "alloc", "a1", &debug);
        check(
            &[differing, other_kind, other_set, store("s1"), store("s2")],
            false,
            expect![[r#"
                set   kind   key         node  value    from      majority
                im-a  store  log.filter  s3    "debug"  s.toml:2  "info"
            "#]],
        );
    }

    #[test]
    fn without_a_majority_all_nodes_are_named() {
        let alloc = |node, lease, origin| report("im-a", "alloc", node, &[("alloc.lease_ms", lease, origin)]);
        check(
            &[alloc("a1", "2000", "default"), alloc("a2", "1900", "$SEQSVR_ALLOC_LEASE_MS")],
            false,
            expect![[r#"
                set   kind   key             node  value  from                    majority
                im-a  alloc  alloc.lease_ms  a1    2000   default                 -
                im-a  alloc  alloc.lease_ms  a2    1900   $SEQSVR_ALLOC_LEASE_MS  -
            "#]],
        );
    }

    #[test]
    fn own_settings_secrets_and_missing_settings() {
        let proxy = |addr, rows: &[(&str, &str, &str)]| Report {
            addr: format!("h:{addr}"),
            ..report("", "proxy", "proxy", rows)
        };
        let reports = [
            proxy(1, &[("redis.password", "(set)", "p.toml:2"), ("node.addr", "\"h:1\"", "--listen")]),
            proxy(
                2,
                &[("redis.password", "\"\"", "default"), ("node.addr", "\"h:2\"", "--listen"), ("new", "1", "default")],
            ),
            proxy(3, &[("redis.password", "(set)", "p.toml:2"), ("node.addr", "\"h:3\"", "--listen")]),
        ];
        check(
            &reports,
            false,
            expect![[r#"
                set  kind   key             node          value  from     majority
                -    proxy  redis.password  proxy at h:2  ""     default  (set)
                -    proxy  new             proxy at h:2  1      default  -
            "#]],
        );
        let all = differences(&reports, true);
        assert_eq!(
            all.iter().map(|one| (&*one.key, one.nodes.len())).collect::<Vec<_>>(),
            [("redis.password", 1), ("node.addr", 3), ("new", 1)]
        );
    }
}
