//! The command `fake`: its first line, faults on request, and its end.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use seq_client::{CallError, Client};
use serde_json::Value;

#[tokio::test(flavor = "multi_thread")]
async fn a_fake_cluster_has_faults_on_request_and_ends_with_stdin() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seqsvr"));
    command.args(["fake", "-o", "json", "--sets", "2", "--uids", "4000", "--section-size", "1000"]);
    let mut fake = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, stdout) = (fake.stdin.take().unwrap(), fake.stdout.take().unwrap());
    let mut lines = BufReader::new(stdout).lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let ready = lines.next().unwrap();
    assert_eq!((&ready["ready"], &ready["uid_end"]), (&true.into(), &"4000".into()), "{ready}");
    assert_eq!(ready["further_sets"][0]["set"], "fake-2", "{ready}");
    let mut inject = |line: &str| {
        writeln!(stdin, "{line}").unwrap();
        lines.next().unwrap()
    };
    let ok = serde_json::json!({"ok": true});

    let client = Client::connect(ready["allocs"][0]["grpc"].as_str().unwrap()).await.unwrap();
    assert_eq!(client.next(42).await.unwrap().value, 1);
    assert_eq!(inject(r#"{"fault":"refuse","node":"a1","reason":"EXHAUSTED"}"#), ok);
    let refused = client.next(42).await.unwrap_err();
    assert!(matches!(&refused, CallError::Refused(refused) if refused.reason == "EXHAUSTED"), "{refused}");

    assert_eq!(inject(r#"{"fault":"move","uid":"42","to":"fake-2/a2"}"#), ok);
    assert_eq!(client.next(42).await.unwrap().prev, 1);
    assert_eq!(inject(r#"{"fault":"take_over","uid":"42","to":"fake/a2"}"#), ok);
    assert!(client.next(42).await.unwrap().value > 3);
    assert_eq!(inject(r#"{"fault":"stop","node":"a1"}"#), ok);
    assert_eq!(inject(r#"{"fault":"delay","ms":1}"#), ok);
    client.next(42).await.unwrap();

    for (line, said) in [
        ("{}", "`seqsvr fake --help` has examples"),
        (r#"{"fault":"stop","node":"a9"}"#, "the nodes are a1, a2, fake-2/a1, fake-2/a2"),
        (r#"{"fault":"refuse","reason":"NEVER"}"#, "NEVER is not a reason"),
        (r#"{"fault":"move","uid":"4000","to":"a2"}"#, "in 0..4000"),
    ] {
        let error = inject(line);
        assert!(error["error"].as_str().is_some_and(|error| error.contains(said)), "{line}: {error}");
    }
    drop(stdin);
    assert!(fake.wait().unwrap().success());
}
