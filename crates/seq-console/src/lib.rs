//! The web console: pages about a cluster for a browser on the machine of an operator.
//!
//! [`Server`] runs inside a command, with the certificate of the operator, and listens on a loopback address, so nodes
//! have no port for browsers. It observes the cluster while somebody looks at it, and only reads.
//!
//! A page is data first ([`view`]): `html` renders it, and `live` sends the rows that change while it is open. Pages
//! need no other script than `assets/live.js` and, for the section map, `assets/map.js`.

mod access;
mod assets;
mod connections;
mod console;
mod gzip;
mod heat;
mod html;
mod live;
mod map_view;
mod model;
mod page;
mod route;
mod server;
mod staircase;
mod view;

pub use server::{Addresses, Options, Server};
