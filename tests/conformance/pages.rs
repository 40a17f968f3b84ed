//! Pages with facts of this program: the rows in `docs/conformance.md`, and the SDKs in the README.

use std::fmt::Write;
use std::fs;

use crate::driver::{ROOT, Sdk};
use crate::rows::ROWS;

/// Page with the table of the rows, and the lines around the table.
const ROWS_PAGE: &str = "docs/conformance.md";
const BEGIN: &str = "<!-- The rows; UPDATE_EXPECT=1 writes them. -->\n";
const END: &str = "<!-- The end of the rows. -->\n";

/// Features of a driver in the order of the columns in the README.
const FEATURES: [&str; 8] = ["coalesce", "advance", "tls", "token", "reload", "cancel", "fork", "keys"];

/// Checks the pages against the rows and the greetings of the SDKs, except of an SDK that only a command names.
///
/// # Panics
/// If a page states something else.
pub(crate) fn check(sdks: &[Sdk]) {
    check_rows();
    let readme = fs::read_to_string(format!("{ROOT}/README.md")).unwrap();
    for sdk in sdks.iter().filter(|sdk| sdk.is_known()) {
        let cells = FEATURES.map(|feature| if sdk.has(feature) { "yes" } else { "-" }).join(" | ");
        let name = format!("`{}` | ", sdk.name);
        let line = readme.lines().find_map(|line| Some(line.split_once(&name)?.1));
        let expected = format!("{cells} |");
        assert_eq!(line, Some(&*expected), "the table of clients in README.md has another line for {name}");
    }
}

fn check_rows() {
    let path = format!("{ROOT}/{ROWS_PAGE}");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has a place for the rows");
    let (table, after) = rest.split_once(END).expect("the rows on the page have an end");
    let expected = table_of_rows();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
    } else {
        assert_eq!(table, expected, "{ROWS_PAGE} has other rows: UPDATE_EXPECT=1 writes them");
    }
}

fn table_of_rows() -> String {
    let mut table = "\n| row | short | needs | what happens |\n|---|---|---|---|\n".to_owned();
    for row in ROWS {
        let short = if row.is_short() { "yes" } else { "" };
        let needs: Vec<String> = row.needs.iter().map(|feature| format!("`{feature}`")).collect();
        writeln!(table, "| `{}` | {short} | {} | {} |", row.name, needs.join(" "), row.what).unwrap();
    }
    table + "\n"
}
