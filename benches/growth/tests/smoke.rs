//! A smoke run ends and writes every plot.

use std::process::Command;

#[test]
fn a_smoke_run_draws_every_plot() {
    let dir = tempfile::tempdir().unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_seq-growth")).arg("--smoke").arg(dir.path()).output().unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    for name in ["memory", "uids", "sections", "allocators", "raises", "p999", "owner_changes"] {
        let svg = std::fs::read_to_string(dir.path().join(name).with_extension("svg")).unwrap();
        assert!(svg.starts_with("<svg ") && svg.contains("<polyline ") && svg.ends_with("</svg>\n"), "{name}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
    }
    let goals = text.lines().filter(|line| line.starts_with("PASS ") || line.starts_with("FAIL ")).count();
    assert_eq!(goals, 19, "{text}");
}
