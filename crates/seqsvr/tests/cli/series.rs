//! `seqsvr series` and `seqsvr id next`: the help, and arguments that are refused before anything is sent.

use expect_test::expect;

use crate::check;

#[test]
fn the_help_of_create_has_every_kind_of_series() {
    check(
        &["series", "-h"],
        expect![[r#"
        Creates, lists, shows and retires series, from whose numbers ids are made

        Usage: seqsvr series [OPTIONS] <COMMAND>

        Commands:
          create  Creates a series: a name for ids of one shape. Neither ever changes
          list    Lists the series of the cluster
          show    Shows a series, and where its sections are
          retire  Ends a series permanently: it gives out no more ids, and its name is not used again
          help    Print this message or the help of the given subcommand(s)

        Options:
          -h, --help  Print help (see more with '--help')

        Options of every command:
          -o, --output <FORMAT>  Format of the output: plain, in aligned columns; json, one object with 64-bit numbers as
                                 strings; or wide, with more columns [env: SEQSVR_OUTPUT=] [default: plain]
        exit 0
    "#]],
    );
    check(
        &["series", "create", "-h"],
        expect![[r#"
            Creates a series: a name for ids of one shape. Neither ever changes

            Usage: seqsvr series create [OPTIONS] <--shape <NAME>|--bits <TIME/LANE/SEQ>|--counter> <SERIES>

            Arguments:
              <SERIES>  Name of the series: 1 to 63 characters of a-z, 0-9, _, . and -

            Options:
                  --shape <NAME>          The shape's name; `seqsvr id shapes` lists them
                  --bits <TIME/LANE/SEQ>  A shape without a name: bits of time, lane and sequence number, from the highest to the
                                          lowest
                  --epoch <TIME>          Time 0 of the shape of --bits, as 2026-01-01 or 2026-01-01T00:00:00Z
                  --unit <TIME>           Unit of time of the shape of --bits, as ms, 10ms or s [default: 1ms]
                  --named-lanes           With --bits: callers name the lane, such as a shard, with each request; by default the
                                          server chooses it
                  --spread                With --bits: a new unit of time continues the sequence numbers of the unit before; by
                                          default it begins at 0, so that at low rates most ids are even
                  --counter               Ids are the numbers of a counter
                  --start <ID>            The first id. If --offset is given and the counter has no id with this value, the counter
                                          begins with its next larger id [default: the offset]
                  --increment <N>         Distance of neighbouring ids, 1 to 2^32 [default: 1]
                  --offset <N>            The smallest id of the counter, 1 to the increment [default: that of --start, or 1]
                  --max-id <ID>           The largest id [default: 2^63-1]
                  --sections <N>          Number of sections for the lanes [default: 16, or one for each lane if there are fewer]
                  --lead <TIME>           Time by which the ceilings of a timed series are ahead of the clock: ids continue for half
                                          of it to all of it without a store [default: 60s, with named lanes 2s]
                  --ahead <TIME>          Time by which an id may be ahead of the clock in a burst, or after the clock went back; 0
                                          is Twitter's rule [default: 1s]
                  --allow-short           Accepts a shape whose ids end within ten years
                  --yes                   Skips the confirmation
                  --dry-run               Changes nothing; shows the plan of the change and its fingerprint
                  --plan <FINGERPRINT>    Makes the change without a confirmation, but only if its plan has this fingerprint, which
                                          a dry run prints
                  --set <FILE>            The set file, which has the addresses of its nodes [env: SEQSVR_SET=]
                  --addr <URL>            Address of a node of the set to start from, as http://host:port; repeat the flag for more
                                          [env: SEQSVR_ADDR=]
                  --timeout <TIME>        Time limit of the whole command [default: 20s]
              -h, --help                  Print help (see more with '--help')

            Options of every command:
              -o, --output <FORMAT>  Format of the output: plain, in aligned columns; json, one object with 64-bit numbers as
                                     strings; or wide, with more columns [env: SEQSVR_OUTPUT=] [default: plain]

            Examples:
              seqsvr series create tweets --shape snowflake
              seqsvr series create media --shape instagram    (callers name the shard with each request)
              seqsvr series create events --bits 41/10/12 --epoch 2026-01-01 --spread --dry-run
              seqsvr series create orders --counter --start 1000001 --yes -o json    (in scripts)
              seqsvr series create photos --counter --increment 2 --offset 1 --max-id 2147483647

            A name is used once: a series is neither renamed nor removed, and its shape and lanes never change. The same command
            again changes nothing.

            Exit codes: 0 the series exists, 1 refused (SERIES_EXISTS, OLD_FORMAT, SET_OUTDATED), 2 a wrong name, shape, file or
            address, or no terminal to confirm on, 3 the store has no set or no majority, 4 no node responded, 5 the plan is stale
            and nothing was changed, 6 declined, 7 not done within --timeout.
            exit 0
        "#]],
    );
    check(
        &["id", "next", "-h"],
        expect![[r#"
        Requests the next id, or several ids, of a series

        Usage: seqsvr id next [OPTIONS] <SERIES>

        Arguments:
          <SERIES>  Name of the series

        Options:
          -n, --count <N>       Count of ids, of a timed series up to 10,000 [default: 1]
              --lane <N>        The lane, where callers name it
              --after <ID>      An id that all ids are above, for example the last id that the caller has seen
              --set <FILE>      The set file, from whose allocators the command starts [env: SEQSVR_SET=]
              --addr <URL>      Address of a node, as http://host:port, or https:// for TLS; repeat the flag for more nodes to
                                start from [default: http://127.0.0.1:7100] [env: SEQSVR_ADDR=]
              --timeout <TIME>  Time limit of the command [default: 5s]
          -h, --help            Print help (see more with '--help')

        Options of every command:
          -o, --output <FORMAT>  Format of the output: plain, in aligned columns; json, one object with 64-bit numbers as
                                 strings; or wide, with more columns [env: SEQSVR_OUTPUT=] [default: plain]

        Examples:
          seqsvr id next tweets
          seqsvr id next tweets -n 3      (an id a line)
          seqsvr id next media --lane 1341    (the lane, such as a shard, where callers name it)
          seqsvr id next tweets --after 1541815603606036480    (all ids are above it)
          seqsvr id next tweets -n 3 -o json | jq -r '.ids[]'

        Exit codes: 0 done, 1 refused (UNKNOWN_SERIES, SERIES_RETIRED, SERIES_ENDED, AFTER_TOO_FAR), 2 a wrong count, lane, file
        or address, 3 refused for now, 4 no node responded, 7 the deadline passed. An error states whether ids may have been
        consumed: they are a gap, never a duplicate.
        exit 0
    "#]],
    );
}

#[test]
fn a_series_has_one_kind_of_ids() {
    check(
        &["series", "create", "tweets"],
        expect![[r#"
        error: the following required arguments were not provided:
          <--shape <NAME>|--bits <TIME/LANE/SEQ>|--counter>

        Usage: seqsvr series create <--shape <NAME>|--bits <TIME/LANE/SEQ>|--counter> <SERIES>

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["series", "create", "tweets", "--counter", "--shape", "leaf"],
        expect![[r#"
        error: the argument '--counter' cannot be used with '--shape <NAME>'

        Usage: seqsvr series create <--shape <NAME>|--bits <TIME/LANE/SEQ>|--counter> <SERIES>

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["series", "create", "tweets", "--shape", "snowflakes"],
        expect![[r#"
        error: invalid value 'snowflakes' for '--shape <NAME>': the shapes are snowflake, leaf, instagram, js53, counter; --bits describes another shape

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["series", "create", "tweets", "--bits", "41/10/12"],
        expect![[r#"
        error: the following required arguments were not provided:
          --epoch <TIME>

        Usage: seqsvr series create --epoch <TIME> <--shape <NAME>|--bits <TIME/LANE/SEQ>|--counter> <SERIES>

        For more information, try '--help'.
        exit 2
    "#]],
    );
    // Another epoch is another shape, so no epoch is ignored.
    check(
        &["series", "create", "tweets", "--shape", "snowflake", "--epoch", "2026-01-01"],
        expect![[r#"
            error: the argument '--shape <NAME>' cannot be used with '--epoch <TIME>'

            Usage: seqsvr series create <--shape <NAME>|--bits <TIME/LANE/SEQ>|--counter> <SERIES>

            For more information, try '--help'.
            exit 2
        "#]],
    );
    check(
        &["series", "create", "tweets", "--counter", "--unit", "s"],
        expect![[r#"
        error: the argument '--counter' cannot be used with '--unit <TIME>'

        Usage: seqsvr series create <--shape <NAME>|--bits <TIME/LANE/SEQ>|--counter> <SERIES>

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["id", "decode", "5", "--series", "tweets", "--epoch", "2026-01-01"],
        expect![[r#"
        error: the argument '--series <SERIES>' cannot be used with '--epoch <TIME>'

        Usage: seqsvr id decode --series <SERIES> <ID>...

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["id", "decode", "5", "--unit", "s"],
        expect![[r#"
        error: the following required arguments were not provided:
          --epoch <TIME>
          --bits <TIME/LANE/SEQ>

        Usage: seqsvr id decode --epoch <TIME> --bits <TIME/LANE/SEQ> --unit <TIME> <ID>...

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["series", "create", "tweets", "--bits", "41/10/13", "--epoch", "2026-01-01"],
        expect![[r#"
        error: 41/10/13 bits: the time has at least 1 bit, a lane at most 20, and all have at most 63 in sum
        hint: change --bits or --unit
        exit 2
    "#]],
    );
    check(
        &["series", "create", "tweets", "--bits", "41/10/12", "--epoch", "2026-01-01", "--unit", "1.5ms"],
        expect![[r#"
            error: invalid value '1.5ms' for '--unit <TIME>': it must be whole milliseconds, from 1ms to a day

            For more information, try '--help'.
            exit 2
        "#]],
    );
    check(
        &["series", "create", "orders", "--counter", "--start", "1e18"],
        expect![[r#"
        error: invalid value '1e18' for '--start <ID>': "1e18" is no id: ids have digits alone, and are 1 to 9223372036854775807

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["series", "create", "orders", "--counter", "--increment", "2", "--offset", "3"],
        expect![[r#"
        error: the offset 3 is not 1 to the increment 2
        hint: change --increment, --offset or --max-id
        exit 2
    "#]],
    );
}

#[test]
fn a_request_for_ids_is_checked_before_it_is_sent() {
    for text in ["-5", "+5", "1.5", "1e18", "9223372036854775808"] {
        let found = crate::run(".".as_ref(), &["id", "next", "tweets", "--after", text], &[]);
        let no_id = format!("{text:?} is no id: ids have digits alone, and are 1 to 9223372036854775807");
        assert!(found.contains(&no_id) && found.ends_with("exit 2\n"), "{found}");
    }
    check(
        &["id", "next", "tweets", "-n", "0"],
        expect![[r#"
        error: invalid value '0' for '--count <N>': it must be from 1 to 1,000,000

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["id", "next", "tweets", "--lane", "-1"],
        expect![[r#"
        error: invalid value '-1' for '--lane <N>': it must be from 0 to 4,294,967,295

        For more information, try '--help'.
        exit 2
    "#]],
    );
    // No process listens on the port of a closed socket.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = format!("127.0.0.1:{}", socket.local_addr().unwrap().port());
    for args in [&["id", "next", "tweets"][..], &["series", "list"], &["id", "decode", "5", "--series", "tweets"]] {
        let found = crate::run(".".as_ref(), &[args, &["--addr", &addr]].concat(), &[]);
        let expected = format!(
            "error: no node responded; {addr} failed last: tcp connect error: Connection refused\n\
             hint: is the cluster running? `seqsvr dev` starts one; --addr URL names another\nexit 4\n"
        );
        assert_eq!(found, expected, "{args:?}");
    }
}
