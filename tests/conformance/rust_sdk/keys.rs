//! Calls for keys of the driver of the Rust SDK.

use seq_client::Client;
use serde_json::{Value, json};

use super::{Answer, allocation, call_error, count, current, digits, items, text};

/// Makes a call for keys.
pub(super) async fn call(client: &Client, op: &str, request: &Value) -> Answer {
    let keyspace = client.keyspace(&text(request, "keyspace")).await.map_err(call_error)?;
    match op {
        "next_key" => keyspace.next_n(key(&request["key"]), count(request)).await.map(allocation).map_err(call_error),
        "next_keys" => {
            let results = keyspace.next_many_n(&keys(request), count(request)).await;
            results.map(|results| items(results, allocation)).map_err(call_error)
        }
        "current_key" => keyspace.current(key(&request["key"])).await.map(current).map_err(call_error),
        "current_keys" => {
            let results = keyspace.current_many(&keys(request)).await;
            results.map(|results| items(results, current)).map_err(call_error)
        }
        _ => {
            let advanced = keyspace.advance(key(&request["key"]), digits(request, "to")).await;
            advanced.map(|epoch| json!({"epoch": epoch.to_string()})).map_err(call_error)
        }
    }
}

/// Returns the bytes of a key, which is a text, or an object with the bytes in hex.
fn key(value: &Value) -> Vec<u8> {
    match (value.as_str(), value["hex"].as_str()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(hex)) => {
            let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits of hex");
            (0..hex.len()).step_by(2).map(digits).collect()
        }
        (None, None) => panic!("{value} is no key"),
    }
}

fn keys(request: &Value) -> Vec<Vec<u8>> {
    request["keys"].as_array().into_iter().flatten().map(key).collect()
}
