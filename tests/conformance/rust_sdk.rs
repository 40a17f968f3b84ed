//! The driver of the Rust SDK: one line of JSON for each request and each response. `docs/conformance.md` has the
//! protocol. Beyond the SDK it only reads the monotonic clock and counts the tasks of its runtime. It can have a
//! fault, so that a row can be seen to fail.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fastrand::Rng;
use futures::StreamExt;
use futures::channel::oneshot;
use parking_lot::Mutex;
use seq_client::{Allocation, Authorities, Bearer, CallError, Client, Code, ConnectError, Credentials, Current, Files};
use seq_load::outcome::Chain;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;

use crate::driver::now_ns;

mod fault;
mod keys;

pub(crate) use fault::Fault;
use fault::REPETITIONS;

/// Requests that are read before the driver takes them up. The runner sends at most some hundred at once.
const QUEUE: usize = 1_024;

const FEATURES: [&str; 8] = ["stream", "advance", "tls", "token", "reload", "cancel", "stats", "keys"];

/// The result of a request: the value of `ok`, or of `error`.
type Answer = Result<Value, Value>;

/// The clients and the calls of the driver.
#[derive(Debug, Default)]
struct Driver {
    fault: Option<Fault>,
    clients: Mutex<HashMap<String, Open>>,
    calls: Mutex<HashMap<String, InFlight>>,
    /// Closed clients that a fault keeps.
    kept: Mutex<Vec<Open>>,
}

/// An open client.
#[derive(Clone, Debug)]
struct Open {
    client: Client,
    credentials: Option<Credentials>,
}

/// A call in flight, with the sender that ends it with a kind of error.
#[derive(Debug)]
struct InFlight {
    client: String,
    end: oneshot::Sender<&'static str>,
}

/// Runs the driver until stdin ends. `fault` is the name of its fault, if it has one.
pub(crate) fn run(fault: Option<&str>) -> ExitCode {
    let fault = fault.map(|name| Fault::parse(name).unwrap_or_else(|| panic!("the driver has no fault {name:?}")));
    write_line(&json!({"hello": 1, "sdk": "rust", "version": env!("CARGO_PKG_VERSION"), "features": FEATURES}));
    let (lines, mut requests) = tokio::sync::mpsc::channel(QUEUE);
    let reader = std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let request: Value = serde_json::from_str(&line).expect("a request is JSON");
            if lines.blocking_send(request).is_err() {
                break;
            }
        }
    });
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (driver, mut tasks) = (Arc::new(Driver { fault, ..Driver::default() }), JoinSet::new());
        while let Some(mut request) = requests.recv().await {
            driver.damage(&mut request);
            while let Some(ended) = tasks.try_join_next() {
                ended.expect("a request does not panic");
            }
            // A call is known before the next line is read, which may cancel it or close its client.
            let ending = driver.begin(&request);
            let driver = driver.clone();
            tasks.spawn(async move { driver.handle(&request, ending).await });
        }
        driver.clients.lock().clear();
        tasks.shutdown().await;
    });
    reader.join().expect("the reader does not panic");
    ExitCode::SUCCESS
}

impl Driver {
    /// Notes a request as a call in flight.
    fn begin(&self, request: &Value) -> oneshot::Receiver<&'static str> {
        let (end, ending) = oneshot::channel();
        self.calls.lock().insert(text(request, "id"), InFlight { client: text(request, "client"), end });
        ending
    }

    /// Carries out a request and writes its response.
    async fn handle(&self, request: &Value, ending: oneshot::Receiver<&'static str>) {
        let id = text(request, "id");
        let answer = tokio::select! {
            answer = self.answer(request) => answer,
            Ok(kind) = ending => Err(error(kind, kind, (false, true))),
        };
        self.calls.lock().remove(&id);
        let mut response = match answer {
            Ok(ok) => json!({"id": id, "ok": ok}),
            Err(error) => json!({"id": id, "error": error}),
        };
        self.damage(&mut response);
        write_line(&response);
    }

    /// Changes a line by the fault of the driver.
    fn damage(&self, line: &mut Value) {
        if let Some(fault) = self.fault {
            fault.damage(line);
        }
    }

    async fn answer(&self, request: &Value) -> Answer {
        let name = text(request, "client");
        match &*text(request, "op") {
            "open" => {
                let open = open(request, self.fault).await?;
                self.clients.lock().insert(name, open);
                Ok(json!({}))
            }
            "close" => {
                let closed = self.clients.lock().remove(&name);
                if self.fault == Some(Fault::Hoard) {
                    self.kept.lock().extend(closed);
                }
                self.end(|_, call| call.client == name, "closed", &text(request, "id"));
                Ok(json!({}))
            }
            "cancel" => {
                let target = text(request, "target");
                self.end(|id, _| id == target, "cancelled", "");
                Ok(json!({}))
            }
            op => {
                let open = self.clients.lock().get(&name).cloned();
                let Open { mut client, credentials } =
                    open.ok_or_else(|| error("closed", "no such client", (false, false)))?;
                let stated = request["deadline_ms"].as_u64().map(Duration::from_millis);
                if let Some(deadline) = self.fault.map_or(stated, |fault| fault.deadline(stated)) {
                    client = client.with_deadline(deadline);
                }
                match op {
                    "reload" if self.fault == Some(Fault::Stale) => Ok(json!({})),
                    "reload" => {
                        let reloaded = credentials.map(|credentials| credentials.reload()).transpose();
                        reloaded
                            .map(|_| json!({}))
                            .map_err(|why| error("connect", &Chain(&why).to_string(), (false, false)))
                    }
                    "stats" => Ok(json!({"tasks": Handle::current().metrics().num_alive_tasks()})),
                    "burst" => Ok(self.burst(&client, request).await),
                    _ => self.call(&client, op, request).await,
                }
            }
        }
    }

    /// Makes a call.
    async fn call(&self, client: &Client, op: &str, request: &Value) -> Answer {
        let mut answer = call(client, op, request).await;
        match self.fault {
            Some(Fault::Hidden) if op == "next" => drop(client.next(digits(request, "uid")).await),
            Some(Fault::Hidden) if op == "next_key" => drop(call(client, op, request).await),
            Some(Fault::Stubborn) => {
                for _ in 0..REPETITIONS {
                    if answer.as_ref().err().is_some_and(|failed| failed["retryable"] == true) {
                        answer = call(client, op, request).await;
                    }
                }
            }
            _ => {}
        }
        answer
    }

    /// Makes the calls of a burst, and writes a line for each of them unless the burst is quiet.
    async fn burst(&self, client: &Client, request: &Value) -> Value {
        let (id, uids) = (&request["id"], all_digits(request, "uids"));
        let number = |field: &str| request[field].as_u64().expect("a number");
        let (calls, concurrency) = (number("calls"), number("concurrency"));
        let (is_quiet, failed) = (request["quiet"] == true, AtomicU64::new(0));
        let failed = &failed;
        let mut random = Rng::with_seed(digits(request, "seed"));
        let chosen: Vec<u64> = (0..calls).map(|_| uids[random.usize(..uids.len())]).collect();
        let one = |uid: u64| async move {
            let uid = uid.to_string();
            let start = now_ns();
            let result = match &request["keyspace"] {
                Value::Null => self.call(client, "next", &json!({"uid": uid})).await,
                keyspace => {
                    let request = json!({"keyspace": keyspace, "key": format!("key:{uid}")});
                    self.call(client, "next_key", &request).await
                }
            };
            failed.fetch_add(u64::from(result.is_err()), Relaxed);
            if is_quiet {
                return;
            }
            let (start_ns, end_ns) = (start.to_string(), now_ns().to_string());
            let mut call = json!({"uid": uid, "start_ns": start_ns, "end_ns": end_ns});
            match result {
                Ok(given) => call["ok"] = given,
                Err(failed) => call["error"] = failed,
            }
            let mut line = json!({"id": id, "call": call});
            self.damage(&mut line);
            write_line(&line);
        };
        futures::stream::iter(chosen).map(one).buffer_unordered(concurrency as usize).collect::<()>().await;
        json!({"done": calls, "failed": failed.load(Relaxed)})
    }

    /// Ends the calls that `which` chooses, except the call with the id `own`.
    fn end(&self, which: impl Fn(&str, &InFlight) -> bool, kind: &'static str, own: &str) {
        if self.fault == Some(Fault::Deaf) {
            return;
        }
        let mut calls = self.calls.lock();
        let chosen: Vec<String> =
            calls.iter().filter(|(id, call)| *id != own && which(id, call)).map(|(id, _)| id.clone()).collect();
        for id in chosen {
            // A call that has just ended ignores it.
            let _ = calls.remove(&id).expect("it was found").end.send(kind);
        }
    }
}

async fn open(request: &Value, fault: Option<Fault>) -> Result<Open, Value> {
    let refused = |why: &dyn std::fmt::Display| error("connect", &why.to_string(), (false, false));
    let mut builder = Client::builder().coalesce(request["coalesce"].as_bool().unwrap_or(true));
    for seed in strings(request, "seeds") {
        builder = builder.seed(seed);
    }
    if let Some(deadline_ms) = request["deadline_ms"].as_u64() {
        builder = builder.deadline(Duration::from_millis(deadline_ms));
    }
    let mut credentials = None;
    if let Some(ca) = request["tls"]["ca"].as_str() {
        // The list of revocations is in the directory of the authorities, if it exists.
        let bundle = PathBuf::from(ca);
        let revocations = bundle.with_file_name("crl.pem");
        let certificate = PathBuf::from(request["tls"]["cert"].as_str().unwrap_or_default());
        let has_certificate = request["tls"]["cert"].is_string();
        let files = Files { bundle, certificate, revocations };
        if has_certificate {
            let loaded = Credentials::load(files).map_err(|why| refused(&Chain(&why)))?;
            credentials = Some(loaded.clone());
            builder = builder.tls(loaded);
        } else {
            builder = builder.tls(Authorities::load(&files).map_err(|why| refused(&Chain(&why)))?);
        }
    }
    if let Some(token) = request["token"].as_str() {
        if fault == Some(Fault::Loud) {
            eprintln!("connecting with the token {token}");
        }
        builder = builder.token(Bearer::new(token).map_err(|why| refused(&why))?);
    }
    if let Some(fault) = fault {
        builder = fault.build(builder, strings(request, "seeds").next().unwrap_or_default());
    }
    let client = builder
        .connect()
        .await
        .map_err(|why: ConnectError| error("connect", &Chain(&why).to_string(), (why.is_retryable(), false)))?;
    Ok(Open { client, credentials })
}

async fn call(client: &Client, op: &str, request: &Value) -> Answer {
    match op {
        "next" => {
            let result = client.next_n(digits(request, "uid"), count(request)).await;
            result.map(allocation).map_err(call_error)
        }
        "next_many" => {
            let uids = all_digits(request, "uids");
            let results = match request["counts"].as_array() {
                None => client.next_many(&uids).await,
                Some(counts) => {
                    let counts = counts.iter().map(|count| count.as_u64().and_then(|count| u32::try_from(count).ok()));
                    let items: Vec<(u64, u32)> = uids.into_iter().zip(counts.map(Option::unwrap_or_default)).collect();
                    client.next_many_n(&items).await
                }
            };
            results.map(|results| items(results, allocation)).map_err(call_error)
        }
        "current" => client.current(digits(request, "uid")).await.map(current).map_err(call_error),
        "current_many" => {
            let results = client.current_many(&all_digits(request, "uids")).await;
            results.map(|results| items(results, current)).map_err(call_error)
        }
        "advance" => {
            let result = client.advance(digits(request, "uid"), digits(request, "to")).await;
            result.map(|epoch| json!({"epoch": epoch.to_string()})).map_err(call_error)
        }
        "next_key" | "next_keys" | "current_key" | "current_keys" | "advance_key" => {
            keys::call(client, op, request).await
        }
        _ => Err(error("unsupported", op, (false, false))),
    }
}

/// Returns the count of numbers of each item.
fn count(request: &Value) -> u32 {
    u32::try_from(request["count"].as_u64().unwrap_or(1)).unwrap_or(u32::MAX)
}

fn allocation(given: Allocation) -> Value {
    json!({
        "first": given.first().to_string(), "value": given.value.to_string(), "prev": given.prev.to_string(),
        "epoch": given.epoch.to_string(), "count": given.count, "lost": given.lost,
    })
}

fn current(read: Current) -> Value {
    json!({"value": read.value.to_string(), "exact": read.exact, "epoch": read.epoch.to_string()})
}

fn items<T>(results: Vec<Result<T, CallError>>, ok: impl Fn(T) -> Value) -> Value {
    let item = |result: Result<T, CallError>| match result {
        Ok(given) => json!({"ok": ok(given)}),
        Err(failed) => json!({"error": call_error(failed)}),
    };
    json!({"items": results.into_iter().map(item).collect::<Vec<Value>>()})
}

fn call_error(failed: CallError) -> Value {
    let mut value = error("other", &Chain(&failed).to_string(), (failed.is_retryable(), failed.may_have_applied()));
    let millis = |after: Option<Duration>| after.map(|after| after.as_millis() as u64);
    let (kind, attempts, retry_after) = match &failed {
        CallError::UidOutside { .. } => ("uid_outside", 0, None),
        CallError::CountOutOfRange { .. } => ("count", 0, None),
        CallError::Refused(refused) => {
            value["reason"] = json!(refused.reason);
            value["code"] = json!(code_name(refused.code));
            ("refused", refused.attempts, millis(refused.retry_after))
        }
        CallError::SetUnavailable(unavailable) => {
            value["reason"] = json!("SET_UNAVAILABLE");
            ("set_unavailable", unavailable.attempts, millis(unavailable.retry_after))
        }
        CallError::Unreachable(unreachable) => ("unreachable", unreachable.attempts, None),
        CallError::DeadlineExceeded { attempts, .. } => ("deadline", *attempts, None),
        CallError::BadAnswer { .. } => ("bad_answer", 1, None),
        other => panic!("an error without a kind: {other}"),
    };
    value["kind"] = json!(kind);
    value["attempts"] = json!(attempts);
    value["retry_after_ms"] = json!(retry_after);
    value
}

fn error(kind: &str, message: &str, (retryable, may_have_applied): (bool, bool)) -> Value {
    json!({"kind": kind, "message": message, "retryable": retryable, "may_have_applied": may_have_applied})
}

/// Returns the name of a gRPC code in capitals.
pub(crate) fn code_name(code: Code) -> String {
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// Writes a line to stdout at once.
fn write_line(value: &Value) {
    let line = format!("{value}\n");
    let mut stdout = io::stdout().lock();
    // The runner reads until the driver ends. If it has ended, there is nothing left to do.
    let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
}

fn text(request: &Value, field: &str) -> String {
    request[field].as_str().unwrap_or_default().to_owned()
}

fn strings<'a>(request: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    request[field].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn digits(request: &Value, field: &str) -> u64 {
    text(request, field).parse().expect("a string of decimal digits")
}

fn all_digits(request: &Value, field: &str) -> Vec<u64> {
    strings(request, field).map(|text| text.parse().expect("a string of decimal digits")).collect()
}
