//! `seqsvr id`: ids of the original systems, and invalid texts.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use expect_test::{Expect, expect};

use crate::{check, run};

/// Runs `id decode` with lines on its standard input, and compares the output.
fn check_lines(args: &[&str], lines: &str, expect: Expect) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_seqsvr"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    expect.assert_eq(&format!("{text}exit {}\n", output.status.code().unwrap()));
}

#[test]
fn an_id_states_its_time_its_lane_and_its_number() {
    check(
        &["id", "decode", "1541815603606036480", "--shape", "snowflake"],
        expect![[r#"
        2022-06-28T16:07:40.105Z  lane 378 (datacenter 11, worker 26)  seq 0
        note: 1541815603606036480: a double may have rounded this id (it is a multiple of 256): pass ids above 2^53 as text, in JavaScript and in JSON
        exit 0
    "#]],
    );
    check(
        &["id", "decode", "1671372309237077023", "--shape", "instagram", "-o", "json"],
        expect![[r#"
        {"items":[{"id":"1671372309237077023","readings":[{"shape":"instagram","time":"2017-12-16T22:25:27.280Z","lane":5,"fields":{"shard":5},"seq":31}]}]}
        exit 0
    "#]],
    );
    check(
        &["id", "decode", "1169786042799259000", "11637205501278089"],
        expect![[r#"
            id                   shape      parts
            1169786042799259000  snowflake  2019-09-06T01:35:00.834Z  lane 39 (datacenter 1, worker 7)  seq 3448
            1169786042799259000  leaf       2019-09-06T01:35:00.834Z  lane 39 (worker)  seq 3448
            1169786042799259000  instagram  2016-01-24T21:03:04.809Z  lane 4255 (shard)  seq 376
            11637205501278089    snowflake  2010-12-06T04:25:00.657Z  lane 335 (datacenter 10, worker 15)  seq 1929
            11637205501278089    leaf       2010-12-06T04:25:00.657Z  lane 335 (worker)  seq 1929
            11637205501278089    instagram  2011-09-09T22:28:04.721Z  lane 1341 (shard)  seq 905
            note: 1169786042799259000: a double may have rounded this id (its text is that of a double): pass ids above 2^53 as text, in JavaScript and in JSON
            exit 0
        "#]],
    );
    check(
        &["id", "decode", "72157623227190423", "--shape", "counter"],
        expect![[r#"
        number 72157623227190423 of the counter
        exit 0
    "#]],
    );
    check(
        &["id", "decode", "5e576ba988846945965b4a41", "017F22E2-79B0-7CC3-98C4-DC0C0C07398F"],
        expect![[r#"
            id                                    shape     parts
            5e576ba988846945965b4a41              ObjectId  2020-02-27T07:11:37Z  counter 5982785, process 8884694596
            017F22E2-79B0-7CC3-98C4-DC0C0C07398F  UUIDv7    2022-02-22T19:22:22.000Z
            exit 0
        "#]],
    );
    check(
        &["id", "decode", "4194305", "--bits", "41/10/12", "--epoch", "2026-01-01"],
        expect![[r#"
        2026-01-01T00:00:00.001Z  lane 0  seq 1
        exit 0
    "#]],
    );
}

#[test]
fn ids_are_read_from_standard_input() {
    check_lines(
        &["id", "decode", "--shape", "instagram", "-"],
        "1671372309237077023\n\n11637205501278089\r\n",
        expect![[r#"
            id                   shape      parts
            1671372309237077023  instagram  2017-12-16T22:25:27.280Z  lane 5 (shard)  seq 31
            11637205501278089    instagram  2011-09-09T22:28:04.721Z  lane 1341 (shard)  seq 905
            exit 0
        "#]],
    );
    check_lines(
        &["id", "decode", "--shape", "instagram", "-"],
        "1671372309237077023\n1,5\n",
        expect![[r#"
        error: line 2 of stdin: "1,5" is no id: ids have digits alone, and are 1 to 9223372036854775807
        exit 2
    "#]],
    );
}

#[test]
fn an_id_is_made_of_its_parts() {
    check(
        &["id", "encode", "--shape", "snowflake", "--time", "2022-06-28T16:07:40.105Z", "--lane", "378"],
        expect![[r#"
            1541815603606036480
            exit 0
        "#]],
    );
    check(
        &[
            "id",
            "encode",
            "--bits",
            "41/10/12",
            "--epoch",
            "2026-01-01",
            "--time",
            "2026-11-26",
            "--seq",
            "7",
            "-o",
            "json",
        ],
        expect![[r#"
            {"id":"119225607782400007"}
            exit 0
        "#]],
    );
    check(
        &["id", "shapes"],
        expect![[r#"
            name       layout        epoch                     last                      lanes  lane by  ids/s in a lane  ids
            snowflake  41/10/12      2010-11-04T01:42:54.657Z  2080-07-10T17:30:30.208Z  1,024  server         4,096,000  Twitter's ids: 4,096 per ms and worker
            leaf       41/10/12      2010-11-04T01:42:54.657Z  2080-07-10T17:30:30.208Z  1,024  server         4,096,000  Meituan's Leaf in its snowflake mode: 4,096 per ms and worker
            instagram  40/13/10      2011-08-24T21:07:01.721Z  2046-06-27T17:00:49.496Z  8,192  caller         1,024,000  Instagram's ids, with the shard of the caller: 1,024 per ms and shard
            js53       31/6/16       2026-01-01T00:00:00.000Z  2094-01-19T03:14:07.999Z     64  server            65,536  below 2^53, exact as numbers in JavaScript: 65,536 per second and worker
            counter    1, 2, 3, ...                                                          1                            1, 2, 3, ..., as a PostgreSQL sequence or Leaf in its segment mode
            exit 0
        "#]],
    );
}

#[test]
fn what_is_no_id_or_no_shape_is_named() {
    let no_ids = ["-5", "+5", "0", "1.5", "1e18", "9223372036854775808", "9007199254740993n", ""];
    let args = |text| ["id", "decode", text, "--shape", "snowflake"];
    for text in no_ids {
        let found = run(Path::new("."), &args(text), &[]);
        let expected =
            format!("error: {text:?} is no id: ids have digits alone, and are 1 to 9223372036854775807\nexit 2\n");
        assert_eq!(found, expected);
    }
    check(
        &["id", "decode", "12"],
        expect![[r#"
        error: no shape gives id 12 a time from 2006 to now
        hint: `seqsvr id shapes` lists the shapes
        exit 1
    "#]],
    );
    check(
        &["id", "decode", "12", "-o", "json"],
        expect![[r#"
        {"error":{"message":"no shape gives id 12 a time from 2006 to now","hint":"`seqsvr id shapes` lists the shapes","exit":1}}
        error: no shape gives id 12 a time from 2006 to now
        hint: `seqsvr id shapes` lists the shapes
        exit 1
    "#]],
    );
    check(
        &["id", "decode", "12", "--shape", "snowflakes"],
        expect![[r#"
            error: invalid value 'snowflakes' for '--shape <NAME>': the shapes are snowflake, leaf, instagram, js53, counter; --bits describes another shape

            For more information, try '--help'.
            exit 2
        "#]],
    );
    check(
        &["id", "decode", "9223372036854775807", "--shape", "js53"],
        expect![[r#"
        error: the shape js53 has no id 9223372036854775807
        hint: `seqsvr id shapes` lists the shapes
        exit 1
    "#]],
    );
    check(
        &["id", "decode", "12", "--bits", "41/10/13", "--epoch", "2026-01-01"],
        expect![[r#"
        error: 41/10/13 bits: the time has at least 1 bit, a lane at most 20, and all have at most 63 in sum
        hint: change --bits or --unit
        exit 2
    "#]],
    );
    check(
        &["id", "decode", "12", "--bits", "41/10"],
        expect![[r#"
        error: invalid value '41/10' for '--bits <TIME/LANE/SEQ>': it must be three numbers of bits, as 41/10/12

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["id", "encode", "--shape", "js53", "--time", "2020-01-01"],
        expect![[r#"
            error: 2020-01-01T00:00:00.000Z is outside the times of the shape
            hint: its times are 2026-01-01T00:00:00.000Z to 2094-01-19T03:14:07.999Z
            exit 2
        "#]],
    );
    check(
        &["id", "encode", "--shape", "js53", "--time", "2026-02-30"],
        expect![[r#"
        error: invalid value '2026-02-30' for '--time <TIME>': it must be a time such as 2026-01-01 or 2026-01-01T00:00:00.000Z

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["id", "encode", "--shape", "js53", "--time", "2026-02-01", "--lane", "64"],
        expect![[r#"
        error: the lane 64 is not 0 to 63
        exit 2
    "#]],
    );
    check(
        &["id", "encode", "--shape", "counter", "--time", "2026-02-01"],
        expect![[r#"
        error: ids of the shape counter have no time
        exit 2
    "#]],
    );
    check(
        &["id", "encode", "--time", "2026-02-01"],
        expect![[r#"
            error: no shape is given
            hint: pass --shape NAME, --bits and --epoch, or --series NAME
            exit 2
        "#]],
    );
}
