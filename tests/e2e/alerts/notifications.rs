//! The notifications that a receiver gets about a fault, from a real Alertmanager with the shipped configuration.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use serde_json::Value;

use super::monitoring::WEBHOOK;
use super::{Scene, Setup};

const ALERTS: &[&str] = &["SeqsvrNoLeader", "SeqsvrNoLease"];

/// The receiver: an HTTP server that keeps the posted notifications.
struct Webhook {
    addr: SocketAddr,
    received: Arc<Mutex<Vec<(String, Value)>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Webhook {
    fn start(addr: SocketAddr) -> Webhook {
        let (received, stop) = (Arc::<Mutex<Vec<(String, Value)>>>::default(), Arc::new(AtomicBool::new(false)));
        let listener = TcpListener::bind(addr).unwrap();
        let (posts, stopped) = (received.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                posts.lock().extend(receive(stream.unwrap()));
            }
        });
        Webhook { addr, received, stop, thread: Some(thread) }
    }

    /// Returns the first notification about an alert with this status: the path of the request, and the alert.
    fn notified(&self, alert: &str, status: &str) -> Option<(String, Value)> {
        let received = self.received.lock();
        let is = |one: &&Value| one["labels"]["alertname"] == alert && one["status"] == status;
        received
            .iter()
            .find_map(|(path, post)| Some((path.clone(), post["alerts"].as_array()?.iter().find(is)?.clone())))
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The connection wakes the thread.
        let _ = TcpStream::connect(self.addr);
        let _ = self.thread.take().unwrap().join();
    }
}

/// Reads a request and responds to it; returns its path and body.
fn receive(stream: TcpStream) -> Option<(String, Value)> {
    let mut stream = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        match line.trim().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().ok()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok()?;
    Some((first.split(' ').nth(1)?.to_owned(), serde_json::from_slice(&body).ok()?))
}

/// Returns the state of an alert in the Alertmanager.
fn state(scene: &Scene, alert: &str) -> Option<String> {
    let url = format!("http://{}:9093/api/v2/alerts?filter=alertname={alert}", scene.place.host);
    let output = Command::new("curl").args(["-sg", "--max-time", "5", &url]).output().unwrap();
    let alerts: Value = serde_json::from_slice(&output.stdout).ok()?;
    alerts[0]["status"]["state"].as_str().map(str::to_owned)
}

#[test]
#[ignore = "four minutes, with Prometheus and Alertmanager; `just alerts`"]
fn notifications_are_sent_when_alerts_fire_and_resolve() {
    let mut scene = Scene::start(&Setup { alerts: ALERTS, notifies: true, ..Setup::default() });
    let webhook = Webhook::start((scene.place.host, WEBHOOK).into());
    scene.expect("stores 2 and 3 are killed", ALERTS);
    (scene.stores[1], scene.stores[2]) = (None, None);
    scene.fired(ALERTS);
    let (mut notified, mut inhibited) = (None, false);
    while notified.is_none() || !inhibited {
        scene.poll();
        notified = webhook.notified("SeqsvrNoLeader", "firing");
        inhibited = state(&scene, "SeqsvrNoLease").as_deref() == Some("suppressed");
        assert!(
            scene.expected[0].since.elapsed() < super::FIRES_WITHIN,
            "notified {notified:?}, inhibited {inhibited}"
        );
    }
    println!("notified of the fault {:.0} s after it", scene.expected[0].since.elapsed().as_secs_f64());
    let (path, alert) = notified.unwrap();
    assert_eq!(path, "/pager", "the alert is critical");
    assert_eq!(alert["labels"]["set"], "im-a");
    assert_eq!(alert["annotations"]["runbook"], "docs/runbook/store.md#seqsvrnoleader");
    assert_eq!(webhook.notified("SeqsvrNoLease", "firing"), None, "its cause fires");

    (2..=3).for_each(|store| scene.start_store(store));
    scene.ended(ALERTS);
    let mut resolved = None;
    while resolved.is_none() {
        scene.poll();
        resolved = webhook.notified("SeqsvrNoLeader", "resolved");
        let end = scene.expected[0].end.unwrap();
        assert!(end.elapsed() < super::RESOLVES_WITHIN, "received {:?}", webhook.received.lock());
    }
    println!("notified of its end {:.0} s after it", scene.expected[0].end.unwrap().elapsed().as_secs_f64());
    scene.print();
}
