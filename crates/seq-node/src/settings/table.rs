//! Converts the settings of a process to the rows of a table. `config show` prints this table, and a running node
//! reports it.
//!
//! **Invariant:** no row contains a secret, because rows are printed and are sent over the network.

use seq_kit::config::Key;
use seq_observe::settings::WITHHELD;
use seq_proto::v1::Setting;

/// Keys whose values are withheld.
const SECRETS: [&str; 1] = ["redis.password"];

/// Returns the rows of several keys, in the order of the keys.
pub(crate) fn rows(keys: &[Key]) -> Vec<Setting> {
    keys.iter().map(row).collect()
}

/// Returns the row of a key.
pub(crate) fn row(key: &Key) -> Setting {
    let is_secret = SECRETS.contains(&&*key.name) && key.value.as_str() != Some("");
    Setting {
        key: key.name.clone(),
        value: if is_secret { WITHHELD.to_owned() } else { key.value.to_string() },
        default: key.default.to_string(),
        origin: key.origin.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use seq_kit::config::Layers;
    use seq_observe::settings::typed;

    use super::*;
    use crate::settings::Settings;

    #[test]
    fn a_secret_is_withheld_once_it_is_set() {
        let layers = Layers::new(&Settings::default().sections());
        let password =
            |layers: &Layers| rows(&layers.keys()).into_iter().find(|row| row.key == "redis.password").unwrap();
        assert_eq!(password(&layers).value, "\"\"");
        let text = "[redis]\npassword = \"very-secret\"\nprefix = \"x:\"\n";
        let layers = layers.text(Path::new("seqsvr.toml"), text).unwrap();
        let set = password(&layers);
        assert_eq!((&*set.value, &*set.default, &*set.origin), ("(set)", "\"\"", "seqsvr.toml:2"));
        assert_eq!(typed(&set.value).as_str(), Some("(set)"));
        assert!(!format!("{:?}", rows(&layers.keys())).contains("very-secret"));
    }

    #[test]
    fn each_key_that_sounds_secret_is_withheld() {
        let words = ["password", "secret", "token", "private", "credential"];
        for row in rows(&Layers::new(&Settings::default().sections()).keys()) {
            let sounds_secret = words.iter().any(|word| row.key.contains(word));
            assert_eq!(sounds_secret, SECRETS.contains(&&*row.key), "{}: withhold it, or rename it", row.key);
        }
    }

    #[test]
    fn values_keep_their_types() {
        for row in rows(&Layers::new(&Settings::default().sections()).keys()) {
            assert_eq!(typed(&row.value).to_string(), row.value, "{}", row.key);
            assert_eq!(row.value, row.default, "{}", row.key);
        }
    }
}
