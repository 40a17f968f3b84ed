//! The series of a cluster: operators create and retire them, at any node of any set, and callers get ids.

use expect_test::expect;
use seq_kit::wall_clock::now_ms;
use seq_testkit::eventually;
use serde_json::{Value, json};

use crate::cluster::{Place, Server, digits, seqsvr, seqsvr_json};
use crate::dev;

/// A transcript of commands and their output, without fingerprints and times.
struct Transcript {
    addr: String,
    text: String,
}

impl Transcript {
    fn run(&mut self, args: &[&str]) {
        let output = seqsvr(&[args, &["--addr", &self.addr]].concat());
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let now =
            |word: &str| word.len() == "2026-11-27T08:06:23Z".len() && word.starts_with("20") && word.ends_with('Z');
        let plan = |word: &str| word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        self.text += &format!("$ seqsvr {}\n", args.join(" "));
        for word in text.split_inclusive([' ', '\n', ',']) {
            let bare = word.trim_end_matches([' ', '\n', ',']);
            let shown = if now(bare) {
                "<time>"
            } else if plan(bare) {
                "<plan>"
            } else {
                bare
            };
            self.text += &word.replace(bare, shown);
        }
        self.text += &format!("exit {}\n", output.status.code().unwrap());
    }
}

fn ids(addr: &str, args: &[&str]) -> Vec<u64> {
    let taken = seqsvr_json(&[&["id", "next"], args, &["--addr", addr]].concat());
    taken["ids"].as_array().unwrap().iter().map(digits).collect()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a transcript")]
fn a_series_is_made_once_and_ends_once() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let mut transcript = Transcript { addr: addr.clone(), text: String::new() };
    transcript.run(&["series", "list"]);
    transcript.run(&["series", "create", "photos", "--counter", "--start", "101", "--increment", "2", "--dry-run"]);
    transcript.run(&["series", "create", "photos", "--counter", "--start", "101", "--increment", "2"]);
    transcript.run(&["series", "create", "photos", "--counter", "--start", "101", "--increment", "2", "--yes"]);
    transcript.run(&["series", "create", "photos", "--counter", "--start", "101", "--increment", "2"]);
    transcript.run(&["series", "create", "photos", "--counter", "--yes"]);
    transcript.run(&["series", "create", "pictures", "--shape", "instagram", "--sections", "1", "--yes"]);
    transcript.run(&["series", "create", "no name", "--counter", "--yes"]);
    transcript.run(&["series", "list"]);
    transcript.run(&["id", "next", "photos", "-n", "2"]);
    transcript.run(&["id", "next", "photos", "--after", "200"]);
    transcript.run(&["id", "next", "media"]);
    transcript.run(&["id", "next", "orders"]);
    transcript.run(&["id", "decode", "105", "--series", "photos"]);
    transcript.run(&["id", "decode", "104", "--series", "photos"]);
    transcript.run(&["id", "decode", "1671372309237077023", "--series", "media", "-o", "json"]);
    transcript.run(&["id", "encode", "--series", "media", "--time", "2017-12-16T22:25:27.280Z", "--lane", "5"]);
    transcript.run(&["series", "retire", "photos"]);
    transcript.run(&["series", "retire", "photos", "--plan", "9f3c0a77d1e25b48"]);
    transcript.run(&["series", "retire", "photos", "--yes"]);
    transcript.run(&["series", "retire", "photos", "--yes"]);
    transcript.run(&["id", "next", "photos"]);
    transcript.run(&["series", "create", "photos", "--counter", "--start", "101", "--increment", "2", "--yes"]);
    transcript.run(&["series", "retire", "tweet", "--yes"]);
    transcript.run(&["series", "show", "tweet"]);
    transcript.run(&["audit", "list"]);
    expect![[r#"
        $ seqsvr series list
        series  ids                lanes  lane by  last                      state   created
        tweets  41/10/12 bits, ms  1,024  server   2080-07-10T17:30:30.208Z  serves  <time>
        media   40/13/10 bits, ms  8,192  caller   2046-06-27T17:00:49.496Z  serves  <time>
        orders  1, 2, ...              1  -        9223372036854775807       serves  <time>
        exit 0
        $ seqsvr series create photos --counter --start 101 --increment 2 --dry-run
        photos: 101, 103, 105, ...; the last id is 9223372036854775807
        set dev would create it; its name, shape and lanes are permanent
        plan: <plan>
        exit 0
        $ seqsvr series create photos --counter --start 101 --increment 2
        photos: 101, 103, 105, ...; the last id is 9223372036854775807
        set dev would create it; its name, shape and lanes are permanent
        plan: <plan>
        error: this would create series photos permanently, and there is no terminal to confirm it on
        hint: pass --yes
        exit 2
        $ seqsvr series create photos --counter --start 101 --increment 2 --yes
        photos: 101, 103, 105, ...; the last id is 9223372036854775807
        set dev would create it; its name, shape and lanes are permanent
        plan: <plan>
        series photos is created
        exit 0
        $ seqsvr series create photos --counter --start 101 --increment 2
        photos: 101, 103, 105, ...; the last id is 9223372036854775807
        nothing to do: series photos was created <time>
        exit 0
        $ seqsvr series create photos --counter --yes
        error: a series named "photos" exists with another shape or other lanes: a name is used once, permanently (SERIES_EXISTS)
        hint: choose another name; `seqsvr series show NAME` shows the series
        exit 1
        $ seqsvr series create pictures --shape instagram --sections 1 --yes
        pictures: 40 bits of ms from 2011-08-24T21:07:01.721Z, 8,192 lanes in 1 section; the last id is of 2046-06-27
        callers name the lane; a lane has 1,024 ids in each ms; ids are at most 1 s ahead of the clock
        set dev would create it; its name, shape and lanes are permanent
        plan: <plan>
        series pictures is created
        exit 0
        $ seqsvr series create no name --counter --yes
        error: the name "no name" of a series is not 1 to 63 characters of a-z, 0-9, '_', '.' and '-' (BAD_NAME)
        exit 2
        $ seqsvr series list
        series    ids                lanes  lane by  last                      state   created
        tweets    41/10/12 bits, ms  1,024  server   2080-07-10T17:30:30.208Z  serves  <time>
        media     40/13/10 bits, ms  8,192  caller   2046-06-27T17:00:49.496Z  serves  <time>
        orders    1, 2, ...              1  -        9223372036854775807       serves  <time>
        photos    101, 103, ...          1  -        9223372036854775807       serves  <time>
        pictures  40/13/10 bits, ms  8,192  caller   2046-06-27T17:00:49.496Z  serves  <time>
        exit 0
        $ seqsvr id next photos -n 2
        101
        103
        exit 0
        $ seqsvr id next photos --after 200
        201
        exit 0
        $ seqsvr id next media
        error: series "media" needs a lane, 0 to 8191 (LANE_REQUIRED)
        hint: --lane N names it, for example the shard of a user
        exit 2
        $ seqsvr id next orders
        1
        exit 0
        $ seqsvr id decode 105 --series photos
        number 53 of the counter
        exit 0
        $ seqsvr id decode 104 --series photos
        error: series photos has no id 104
        hint: `seqsvr series show photos` shows its ids
        exit 1
        $ seqsvr id decode 1671372309237077023 --series media -o json
        {"items":[{"id":"1671372309237077023","readings":[{"shape":"media","time":"2017-12-16T22:25:27.280Z","lane":5,"seq":31}]}]}
        exit 0
        $ seqsvr id encode --series media --time 2017-12-16T22:25:27.280Z --lane 5
        1671372309237076992
        exit 0
        $ seqsvr series retire photos
        photos: 101, 103, 105, ...; the last id is 9223372036854775807
        plan: <plan>
        error: this would retire series photos permanently, and there is no terminal to confirm it on
        hint: pass --yes
        exit 2
        $ seqsvr series retire photos --plan 9f3c0a77d1e25b48
        photos: 101, 103, 105, ...; the last id is 9223372036854775807
        plan: <plan>
        error: the plan <plan> is stale, or of another change: the plan of this change is <plan> now (STALE_PLAN)
        hint: nothing was changed: --dry-run shows the present plan
        exit 5
        $ seqsvr series retire photos --yes
        photos: 101, 103, 105, ...; the last id is 9223372036854775807
        plan: <plan>
        series photos is retired: it gives out no more ids
        exit 0
        $ seqsvr series retire photos --yes
        photos: 101, 103, 105, ...; the last id is 9223372036854775807
        nothing to do: series photos is retired
        exit 0
        $ seqsvr id next photos
        error: series "photos" is retired: it gives out no more ids (SERIES_RETIRED)
        hint: `seqsvr explain SERIES_RETIRED` explains the reason
        exit 1
        $ seqsvr series create photos --counter --start 101 --increment 2 --yes
        error: a series named "photos" exists and is retired: a name is used once, permanently (SERIES_EXISTS)
        hint: choose another name; `seqsvr series show NAME` shows the series
        exit 1
        $ seqsvr series retire tweet --yes
        error: no series is named "tweet" (UNKNOWN_SERIES)
        hint: `seqsvr series list` lists them
        exit 1
        $ seqsvr series show tweet
        error: the cluster has no series "tweet" (UNKNOWN_SERIES)
        hint: `seqsvr series list` lists them
        exit 1
        $ seqsvr audit list
        number  time                  principal        operation               plan              result
             1  <time>  unauthenticated  series create tweets    -                 done
             3  <time>  unauthenticated  series create media     -                 done
             5  <time>  unauthenticated  series create orders    -                 done
             7  <time>  unauthenticated  series create photos    <plan>  done
             9  <time>  unauthenticated  series create pictures  <plan>  done
            11  <time>  unauthenticated  series retire photos    <plan>  done
        exit 0
    "#]].assert_eq(&transcript.text);
}

#[test]
fn a_counter_gives_out_all_ids_up_to_its_last_one() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    seqsvr_json(&["series", "create", "badges", "--counter", "--max-id", "5", "--yes", "--addr", &addr]);
    let refused = |count: &str| {
        let text = String::from_utf8(seqsvr(&["id", "next", "badges", "-n", count, "--addr", &addr]).stderr).unwrap();
        assert!(text.contains("SERIES_ENDED"), "{text}");
        text
    };
    assert_eq!(ids(&addr, &["badges", "-n", "3"]), [1, 2, 3]);
    assert!(refused("3").contains("has no 3 ids left: the last one is 5"));
    assert_eq!(ids(&addr, &["badges", "-n", "2"]), [4, 5]);
    assert!(refused("1").contains("have ended: the last one is 5"));
}

#[test]
fn ids_of_a_timed_series_are_unique_and_of_the_present() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let made = seqsvr_json(&["series", "create", "events", "--shape", "snowflake", "--yes", "--addr", &addr]);
    assert_eq!((&made["changed"], &made["series"]["sections"]), (&json!(true), &json!(16)), "{made:#}");
    let shown = seqsvr_json(&["series", "show", "events", "--addr", &addr]);
    let lanes = |run: &Value| run["lanes"].as_u64().unwrap();
    let runs = shown["runs"].as_array().unwrap();
    assert_eq!(runs.iter().map(lanes).sum::<u64>(), 1_024, "{shown:#}");
    assert!(runs.iter().all(|run| run["set"] == "dev"), "{shown:#}");

    // 10 sections of uids, 33 of the series of a development cluster, and 16 of this series.
    let text = |args: &[&str]| {
        let output = seqsvr(&[args, &["--addr", &addr]].concat());
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let summary = text(&["section", "list", "--summarize"]);
    let rows: Vec<Vec<&str>> = summary.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    assert_eq!(rows[1..], [vec!["0..10", "10", "0..1,000,000", "resident"], vec!["10..59", "49", "lanes", "of"]]);
    assert!(text(&["section", "show", "58"]).contains("lanes of series"));
    assert!(text(&["section", "show", "59"]).contains("section 59 is outside 0..59"));
    let to_itself = text(&["set", "migrate", "dev", "--series", "events", "--into", "dev", "--dry-run"]);
    assert!(to_itself.contains("the sections are in set \"dev\" already"), "{to_itself}");

    // 35 bits of milliseconds are 397 days.
    let epoch = made["series"]["created"].as_str().unwrap();
    let short = ["series", "create", "short", "--bits", "35/4/10", "--epoch", epoch, "--yes", "--addr", &addr];
    let text = String::from_utf8(seqsvr(&short).stderr).unwrap();
    assert!(
        text.contains("BAD_SHAPE") && text.contains("within ten years; allow_short (--allow-short) accepts that"),
        "{text}"
    );
    assert!(seqsvr(&[&short[..], &["--allow-short"]].concat()).status.success());

    let before_ms = now_ms();
    let mut taken = Vec::new();
    for _ in 0..5 {
        taken.extend(ids(&addr, &["events", "-n", "2000"]));
    }
    let last = taken.iter().max().unwrap().to_string();
    assert!(ids(&addr, &["events", "--after", &last])[0] > *taken.iter().max().unwrap());
    let after_ms = now_ms() + 1_000;
    let unix_ms = |id: &u64| (id >> 22) + 1_288_834_974_657;
    assert!(taken.iter().all(|id| (before_ms..=after_ms).contains(&unix_ms(id))), "{before_ms}: {taken:?}");
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken.len(), 10_000, "an id was given out twice");
}

/// Starts two sets in one process; returns the URLs of an allocator of each.
fn two_sets(place: &Place) -> (Server, [String; 2]) {
    let mut server = place.server("dev", &["dev", "--sets", "2", "--ports", "random", "-o", "json"]);
    let ready = server.ready();
    let url = |set: &Value| set["allocs"][0]["grpc"].as_str().unwrap().to_owned();
    let urls = [url(&ready), url(&ready["further_sets"][0])];
    eventually("the sets know each other", || {
        let output = seqsvr(&["set", "list", "--addr", &urls[1], "-o", "json"]);
        let list: Value = serde_json::from_slice(&output.stdout).ok()?;
        let sets = list["items"].as_array()?;
        let is_known = |set: &Value| set["allocs"].as_array().is_some_and(|allocs| allocs.len() == 2);
        (sets.len() == 2 && sets.iter().all(is_known)).then_some(())
    });
    (server, urls)
}

#[test]
fn the_first_set_makes_the_series_of_all_sets() {
    let place = Place::new();
    let (_server, [first, second]) = two_sets(&place);
    // The second set refers the command to the first set.
    let made = seqsvr_json(&["series", "create", "bills", "--counter", "--yes", "--addr", &second]);
    assert_eq!((&made["set"], &made["changed"]), (&json!("dev"), &json!(true)), "{made:#}");
    assert_eq!(made.get("pending"), None, "{made:#}");
    let lists = [&first, &second].map(|addr| seqsvr_json(&["series", "list", "--addr", addr]));
    assert_eq!(lists[0], lists[1]);
    assert_eq!(lists[0]["items"][3]["name"], "bills");
    let mut last = 0;
    for addr in [&second, &first, &second] {
        let id = ids(addr, &["bills"])[0];
        assert!(id > last, "{id} after {last} at {addr}");
        last = id;
    }
    let again = seqsvr_json(&["series", "create", "bills", "--counter", "--yes", "--addr", &second]);
    assert_eq!(again["changed"], false, "{again:#}");
    let retired = seqsvr_json(&["series", "retire", "bills", "--yes", "--addr", &second]);
    assert_eq!((&retired["set"], &retired["changed"]), (&json!("dev"), &json!(true)), "{retired:#}");
    for addr in [&first, &second] {
        let output = seqsvr(&["id", "next", "bills", "--addr", addr]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && text.contains("SERIES_RETIRED"), "{addr}: {text}");
    }
}
