//! Checks the `clippy.toml` files of crates. Clippy reads only the nearest file. So the file of a crate must repeat
//! every rule of the file in the root of the repository, or state in a comment of the form `# lifted: RULE: why` that
//! the rule does not apply to the crate.

use crate::report::Finding;
use crate::source::Source;

const ROOT: &str = "clippy.toml";

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let Some(root) = sources.iter().find(|source| source.path == ROOT) else {
        findings.push(Finding::new(ROOT, 0, "the file is missing"));
        return;
    };
    for nested in sources.iter().filter(|source| source.path.ends_with("/clippy.toml")) {
        for rule in rules(&root.text).filter(|rule| !repeats(&nested.text, rule)) {
            findings.push(Finding::new(
                &nested.path,
                0,
                format!("repeat `{rule}` of the root's, or add `# lifted: {rule}: why`"),
            ));
        }
    }
}

/// Returns the rules of a `clippy.toml`, which are its banned paths and its settings that are written on a single line.
fn rules(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| match line.trim().strip_prefix("{ path = \"") {
        Some(rest) => rest.split_once('"').map(|(path, _)| path),
        None => (line.contains(" = ") && !line.starts_with('#') && !line.ends_with('[')).then_some(line),
    })
}

fn repeats(text: &str, rule: &str) -> bool {
    let lifted = format!("# lifted: {rule}: ");
    rules(text).any(|own| own == rule) || text.lines().any(|line| line.starts_with(&lifted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_that_a_crate_would_lose_is_found() {
        let root = "# Bans.\nlimit = 70\ndisallowed-methods = [\n  { path = \"a::b\", reason = \"x\" },\n]\n";
        let messages = |nested: &str| {
            let sources = [Source::planted(ROOT, root), Source::planted("crates/x/clippy.toml", nested)];
            let mut findings = Vec::new();
            check(&sources, &mut findings);
            findings.into_iter().map(|finding| finding.message).collect::<Vec<_>>()
        };
        assert!(messages(root).is_empty());
        assert!(messages("limit = 70\n# lifted: a::b: it is the one place\n").is_empty());
        assert_eq!(messages("limit = 70\n"), ["repeat `a::b` of the root's, or add `# lifted: a::b: why`"]);
        assert_eq!(messages("limit = 80\n# lifted: a::b: x\n").len(), 1);
    }
}
