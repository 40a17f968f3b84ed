//! The settings of a running node on the wire.

use std::sync::{Arc, PoisonError, RwLock};

use seq_core::layout::{FNV1A_BASIS, fnv1a};

use crate::v1::{GetConfigResponse, Setting};

/// Limit on the settings in a response. It is several times the number of settings of any node.
pub const MAX_SETTINGS: usize = 256;

/// Begin of the keys in which nodes differ by nature.
pub const OWN: &str = "node.";

/// Limit on the bytes of a setting's text. Only lists of networks have longer texts, and for them the beginning of the
/// list is enough.
const MAX_TEXT: usize = 4_096;

/// The settings of a node in the form in which the node reports them. Clones share the same settings, so that a process
/// that reads its settings file again can update all of them.
#[derive(Clone, Debug, Default)]
pub struct NodeSettings(Arc<RwLock<Vec<Setting>>>);

impl NodeSettings {
    /// Creates the settings from `rows`, which must not contain secrets.
    ///
    /// # Panics
    /// If there are more rows than a response may have.
    #[must_use]
    pub fn new(rows: impl IntoIterator<Item = Setting>) -> NodeSettings {
        let rows: Vec<Setting> = rows.into_iter().map(bounded).collect();
        assert!(rows.len() <= MAX_SETTINGS, "{} settings are more than {MAX_SETTINGS}", rows.len());
        NodeSettings(Arc::new(RwLock::new(rows)))
    }

    /// Replaces the setting that has the same key as `row`. It is called after the running process has adopted the new
    /// value.
    pub fn update(&self, row: Setting) {
        let mut rows = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = rows.iter_mut().find(|known| known.key == row.key) {
            *known = bounded(row);
        }
    }

    /// Returns the response of `StatusService.GetConfig`.
    #[must_use]
    pub fn response(&self, set: &str, node: &str, kind: &str) -> GetConfigResponse {
        let settings = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        GetConfigResponse { set: set.to_owned(), node: node.to_owned(), kind: kind.to_owned(), settings }
    }

    /// Returns the digest of the settings that nodes of a set and kind should have in common. Nodes of one release with
    /// the same values have the same digest, which is never 0.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let settings = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let common = settings.iter().filter(|row| !row.key.starts_with(OWN));
        let texts = common.flat_map(|row| [&*row.key, "\0", &*row.value, "\0"]);
        // The digest is no protection against forgery: it only has to differ if a value in it differs.
        let digest = texts.fold(FNV1A_BASIS, |digest, text| fnv1a(digest, text.as_bytes()));
        digest.max(1)
    }
}

fn bounded(row: Setting) -> Setting {
    let Setting { key, value, default, origin } = row;
    Setting { key, value: cut(value), default: cut(default), origin: cut(origin) }
}

/// Shortens a text to at most [`MAX_TEXT`] bytes, including a note that states the length of the whole text.
fn cut(text: String) -> String {
    if text.len() <= MAX_TEXT {
        return text;
    }
    let end = format!("... ({} bytes)", text.len());
    let at = text.floor_char_boundary(MAX_TEXT - end.len());
    format!("{}{end}", &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, value: &str) -> Setting {
        Setting { key: key.to_owned(), value: value.to_owned(), ..Setting::default() }
    }

    #[test]
    fn a_row_is_replaced_by_its_key_in_all_clones() {
        let settings = NodeSettings::new([row("log.filter", "\"info\""), row("alloc.cores", "0")]);
        settings.clone().update(row("log.filter", "\"debug\""));
        settings.update(row("no.such", "1"));
        let response = settings.response("im-a", "a1", "alloc");
        assert_eq!(response.settings, [row("log.filter", "\"debug\""), row("alloc.cores", "0")]);
        assert_eq!((&*response.set, &*response.node, &*response.kind), ("im-a", "a1", "alloc"));
    }

    #[test]
    fn a_digest_is_of_the_values_that_nodes_have_in_common() {
        let digest =
            |rows: &[(&str, &str)]| NodeSettings::new(rows.iter().map(|(key, value)| row(key, value))).digest();
        let one = digest(&[("alloc.cores", "0"), ("node.name", "\"a1\"")]);
        assert_eq!(one, digest(&[("alloc.cores", "0"), ("node.name", "\"a2\"")]));
        assert_eq!(one, digest(&[("alloc.cores", "0")]));
        assert_ne!(one, digest(&[("alloc.cores", "1")]));
        assert_ne!(digest(&[("a", "12")]), digest(&[("a1", "2")]));
        assert_ne!(digest(&[]), 0);
    }

    #[test]
    fn long_texts_are_cut_and_state_their_length() {
        let longest = "x".repeat(MAX_TEXT);
        let settings = NodeSettings::new([row("a", &longest), row("b", &format!("{longest}x"))]);
        settings.update(row("c", "1"));
        let response = settings.response("", "", "");
        assert_eq!(response.settings[0].value, longest);
        let cut = &response.settings[1].value;
        assert!(cut.len() == MAX_TEXT && cut.ends_with("x... (4097 bytes)"), "{cut}");
        // Each character has two bytes, and the cut does not divide any of them.
        let settings = NodeSettings::new([row("a", &"\u{e9}".repeat(MAX_TEXT))]);
        let cut = settings.response("", "", "").settings.remove(0).value;
        assert!(cut.len() <= MAX_TEXT && cut.ends_with("\u{e9}... (8192 bytes)"), "{cut}");
    }
}
