//! Unusual addresses of real nodes: peers dial other addresses than the nodes listen at, names have underscores, and a
//! name has addresses of both families.

use std::net::{Ipv6Addr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use seq_testkit::eventually;

use crate::balancer::Balancer;
use crate::cluster::{Place, json};
use crate::redis::tool;

/// The keys of addresses in `three-node.toml`, and the ports of each node in the order of those keys.
const STORES: [(&str, [&str; 4]); 3] = [
    ("s1", ["7301", "7307", "7304", "7311"]),
    ("s2", ["7302", "7308", "7305", "7312"]),
    ("s3", ["7303", "7309", "7306", "7313"]),
];
const STORE_KEYS: [&str; 4] = ["addr", "raft", "admin", "http"];
const ALLOCS: [(&str, [&str; 4]); 2] =
    [("a1", ["7400", "7404", "7480", "7479"]), ("a2", ["7401", "7405", "7481", "7478"])];
const ALLOC_KEYS: [&str; 4] = ["addr", "peer", "http", "redis"];

/// Runs nodes as behind address translation: no node has the address that the set file announces.
#[test]
fn nodes_listen_at_other_addresses_than_others_dial() {
    let Some(program) = tool("haproxy") else { return };
    let (place, inside) = (Place::new(), Place::new().host);
    let set = place.secure_set_file("three-node.toml");
    let (mut text, mut forwarded) = (std::fs::read_to_string(&set).unwrap(), String::new());
    let stores = STORES.iter().map(|node| (node, STORE_KEYS));
    for ((name, ports), keys) in stores.chain(ALLOCS.iter().map(|node| (node, ALLOC_KEYS))) {
        let listen: Vec<String> =
            keys.iter().zip(ports).map(|(key, port)| format!("{key} = \"{inside}:{port}\"")).collect();
        let named = format!("name = \"{name}\"");
        text = text.replacen(&named, &format!("{named}\nlisten = {{ {} }}", listen.join(", ")), 1);
        for port in ports {
            forwarded += &format!("listen p{port}\n  bind {}:{port}\n  server one {inside}:{port}\n\n", place.host);
        }
    }
    std::fs::write(&set, text).unwrap();
    let set = set.display().to_string();
    let checked = place.seqsvr_json(&["config", "check", &set]);
    assert_eq!(checked["listen"].as_array().unwrap().len(), 20, "{checked:#}");
    assert_eq!(checked["listen"][0]["listen"], format!("{inside}:7301"), "{checked:#}");

    let _forwarding = Balancer::start(&program, &place, &forwarded);
    let _stores = ["1", "2", "3"].map(|id| {
        let data = place.path(&format!("s{id}")).display().to_string();
        place.server(&format!("s{id}"), &["store", "--set", &set, "--id", id, "--data", &data])
    });
    let mut a1 = place.server("a1", &["alloc", "--set", &set, "--name", "a1", "--cores", "1"]);
    let _a2 = place.server("a2", &["alloc", "--set", &set, "--name", "a2", "--cores", "1"]);
    eventually("all is served", || place.seqsvr(&["status", "--set", &set]).status.success().then_some(()));
    let a2 = format!("https://{}:7401", place.host);
    // Both nodes own some of these uids, and forward the calls for the others.
    let uids: Vec<String> = (0..20).map(|section| (section * 100_000).to_string()).collect();
    let next = |addr: &str| {
        let args: Vec<&str> = ["next"].into_iter().chain(uids.iter().map(String::as_str)).collect();
        let args = [&args[..], &["--addr", addr, "-o", "json"]].concat();
        let values = json(&args, &place.seqsvr_as("client/backend", &args));
        let items = values["items"].as_array().unwrap().iter();
        items.map(|item| item["value"].as_str().unwrap().parse::<u64>().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(next(&format!("https://{}:7400", place.host)), [1; 20]);
    assert_eq!(next(&a2), [2; 20]);
    // The nodes hand over through the ports for peers.
    assert_eq!(a1.terminate(), Some(0), "{}", a1.log());
    assert_eq!(next(&a2), [3; 20]);
    assert!(a1.log().contains(&format!("grpc=\"{inside}:7400\"")), "{}", a1.log());
    for line in ["cannot reach", "handed over, and it is not ready"] {
        assert!(!a1.log().contains(line), "a1 reaches itself: {}", a1.log());
    }
}

/// Returns the beginning of a command that runs another command with `hosts` as `/etc/hosts`; `None` if that takes
/// root.
fn with_hosts(hosts: &Path) -> Option<Vec<String>> {
    const MOUNT: &str = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let command = ["--mount", "sh", "-c", MOUNT].map(str::to_owned).into_iter().chain([hosts.display().to_string()]);
    let command: Vec<String> = command.collect();
    let works = Command::new("unshare").args(&command).arg("true").stderr(Stdio::null()).status();
    works.is_ok_and(|status| status.success()).then_some(command)
}

/// The certificates are issued for these names, too.
#[test]
fn names_with_underscores_and_with_addresses_of_both_families() {
    let place = Place::new();
    let hosts = place.path("hosts");
    let host = place.host;
    std::fs::write(&hosts, format!("{host} s_1.im_a _a1_\n{host} both\n::1 both\n")).unwrap();
    let Some(run) = with_hosts(&hosts) else { return eprintln!("skipped: it takes root to have names of its own") };
    let set = place.path("set.toml");
    let text = "name = \"im-a\"\nuids = \"0..1_000_000\"\nsection_size = 100_000\nstep = 10_000\n\
                [[store]]\nid = 1\nname = \"s1\"\naddr = \"s_1.im_a:7301\"\nraft = \"s_1.im_a:7307\"\nhttp = \"both:7311\"\n\
                [[alloc]]\nname = \"a1\"\naddr = \"both:7400\"\npeer = \"_a1_:7404\"\nhttp = \"both:7480\"\nredis = \"both:7479\"\n";
    std::fs::write(&set, text).unwrap();
    let set = set.display().to_string();
    let issued = place.seqsvr(&["cert", "issue", "--set", &set]);
    assert!(issued.status.success(), "{}", String::from_utf8_lossy(&issued.stderr));
    let seqsvr = env!("CARGO_BIN_EXE_seqsvr");
    let command = |args: &[&str]| {
        let run = run.iter().map(String::as_str);
        run.chain([seqsvr]).chain(args.iter().copied()).map(str::to_owned).collect::<Vec<_>>()
    };
    let server = |name: &str, args: &[&str]| {
        let args = command(args);
        place.server_of(Path::new("unshare"), name, &args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let data = place.path("s1").display().to_string();
    let mut store = server("s1", &["store", "--set", &set, "--id", "1", "--data", &data, "--form"]);
    let mut alloc = server("a1", &["alloc", "--set", &set, "--name", "a1", "--cores", "2"]);
    let client = |args: &[&str]| {
        let mut client = Command::new("unshare");
        client.args(command(args)).stdin(Stdio::null());
        client.env("SEQSVR_CERTS", place.path("certs")).env("SEQSVR_IDENTITY", "operator/admin").output().unwrap()
    };
    eventually("all is served", || client(&["status", "--set", &set]).status.success().then_some(()));
    for port in [7311, 7400, 7480, 7479] {
        TcpStream::connect((host, port)).unwrap();
        TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
    }
    // A name may have an address at which no process listens.
    std::fs::write(&hosts, format!("{host} s_1.im_a _a1_\n100::1 both\n{host} both\n")).unwrap();
    assert!(client(&["status", "--set", &set]).status.success(), "the next address is tried");
    assert_eq!((alloc.terminate(), store.terminate()), (Some(0), Some(0)));
}
