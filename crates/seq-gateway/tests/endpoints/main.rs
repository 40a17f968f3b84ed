//! The endpoints in front of a service that counts in a map, used by real clients.

mod bad_input;
mod browser;
mod clients;
mod hostile;
mod http;
mod id_json;
mod id_tenants;
mod id_text;
mod json;
mod key_tenants;
mod late;
mod memory;
mod missing;
mod overload;
mod raw;
mod resp;
mod resp_bad_input;
mod resp_commands;
mod resp_exact;
mod resp_ids;
mod resp_keys;
mod series;
mod serving;
mod stream;
mod text;
mod twin;
