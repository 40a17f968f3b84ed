//! Style, scripts and icon, which this program was built with. Their addresses have a hash of their contents, so no
//! page gets the file of another release. Browsers do not keep them: another process may have had the port before.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// A file of the console.
pub(crate) struct Asset {
    name: &'static str,
    media_type: &'static str,
    content: &'static str,
    path: LazyLock<String>,
}

/// The style of all pages.
pub(crate) static STYLE: Asset = Asset {
    name: "console.css",
    media_type: "text/css; charset=utf-8",
    content: include_str!("assets/console.css"),
    path: LazyLock::new(|| path_of(&STYLE)),
};

/// The script that keeps the values of a page current.
pub(crate) static LIVE: Asset = Asset {
    name: "live.js",
    media_type: "text/javascript; charset=utf-8",
    content: include_str!("assets/live.js"),
    path: LazyLock::new(|| path_of(&LIVE)),
};

/// The script of the section map.
pub(crate) static MAP: Asset = Asset {
    name: "map.js",
    media_type: "text/javascript; charset=utf-8",
    content: include_str!("assets/map.js"),
    path: LazyLock::new(|| path_of(&MAP)),
};

/// The icon of the pages.
pub(crate) static ICON: Asset = Asset {
    name: "icon.svg",
    media_type: "image/svg+xml",
    content: include_str!("assets/icon.svg"),
    path: LazyLock::new(|| path_of(&ICON)),
};

/// Returns the address of a file, with 64 bits of the hash of its content.
fn path_of(asset: &Asset) -> String {
    let hash = Sha256::digest(asset.content);
    let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("/assets/{hash}/{}", asset.name)
}

impl Asset {
    /// Returns the address of the file.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

/// Returns the file at an address; `None` if there is none, as after a change of version.
pub(crate) fn response(path: &str) -> Option<Response> {
    let asset = [&STYLE, &LIVE, &MAP, &ICON].into_iter().find(|asset| asset.path() == path)?;
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(asset.media_type))];
    Some((headers, asset.content).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_hash_and_no_other_address_is_served() {
        let path = STYLE.path();
        assert!(path.starts_with("/assets/") && path.ends_with("/console.css"), "{path}");
        assert!(response(path).is_some() && response("/assets/0/console.css").is_none());
    }

    #[test]
    fn scripts_and_style_are_small() {
        let size: usize = [&STYLE, &LIVE, &MAP, &ICON].iter().map(|asset| asset.content.len()).sum();
        assert!(size < 40_000, "{size} bytes are sent at the first visit");
    }
}
