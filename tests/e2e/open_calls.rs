//! Calls at a fixed rate that does not depend on their results: each call is due at a time, waits while its connection
//! has as many requests as the server accepts, is cancelled at its deadline, and counts as served only if its response
//! came before the deadline.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::raw_http2::{Decoder, Event, OPEN_WINDOW, Requests, is_blocked, varint};

/// Interval of sending due calls and cancelling late calls.
const TICK: Duration = Duration::from_millis(1);

/// Pause before a connection is made again.
const RECONNECT: Duration = Duration::from_millis(100);

/// The method that is called.
const NEXT: &str = "/seqsvr.v1.SequenceService/Next";

/// Results of the calls that were due in one second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Second {
    pub(crate) due: u64,
    /// Responses within the deadline.
    pub(crate) served: u64,
    /// Calls that the server refused.
    pub(crate) refused: u64,
    /// Calls that were sent, and cancelled at the deadline.
    pub(crate) late: u64,
    /// Calls that were not sent within the caller's patience.
    pub(crate) unsent: u64,
    /// Calls that were lost with their connection.
    pub(crate) lost: u64,
    /// Latencies of served calls, in microseconds.
    pub(crate) latencies_us: Vec<u32>,
    /// Time within the second at which the last call was due that was not served.
    pub(crate) last_failed: Duration,
}

/// A plan of calls.
#[derive(Clone, Debug)]
pub(crate) struct OpenCalls {
    pub(crate) addr: SocketAddr,
    pub(crate) connections: usize,
    /// Calls per second in each second.
    pub(crate) rates: Vec<f64>,
    /// Calls in flight on each connection of a closed loop, which does not use the rates.
    pub(crate) closed: Option<usize>,
    pub(crate) deadline: Duration,
    /// Longest time that a call waits while its connection has as many requests as the server accepts.
    pub(crate) patience: Duration,
    pub(crate) first_uid: u64,
    pub(crate) uids: u64,
}

struct Call {
    stream: u32,
    due: Instant,
    open: bool,
}

/// A connection and its calls.
struct Connection {
    stream: Rc<TcpStream>,
    requests: Requests,
    unsent: Vec<u8>,
    decoder: Decoder,
    /// Maximum number of concurrent requests that the server accepts.
    streams: usize,
    in_flight: usize,
    calls: VecDeque<Call>,
    waiting: VecDeque<Instant>,
    closing: bool,
}

struct Run {
    plan: OpenCalls,
    began: Instant,
    seconds: RefCell<Vec<Second>>,
    uid: Cell<u64>,
}

/// Runs the plan; returns the results of the calls of each second. `at_second` is called at the beginning of each
/// second.
pub(crate) fn run(plan: OpenCalls, at_second: impl FnMut(usize)) -> Vec<Second> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tasks = LocalSet::new();
    runtime.block_on(tasks.run_until(drive(&tasks, plan, at_second)))
}

async fn drive(tasks: &LocalSet, plan: OpenCalls, mut at_second: impl FnMut(usize)) -> Vec<Second> {
    let duration = plan.rates.len();
    let mut connections = Vec::new();
    for _ in 0..plan.connections {
        connections.push(Rc::new(RefCell::new(Connection::open(&plan).await.unwrap())));
    }
    let run = Rc::new(Run {
        began: Instant::now(),
        seconds: RefCell::new(vec![Second::default(); duration]),
        plan,
        uid: Cell::new(0),
    });
    for connection in &connections {
        tasks.spawn_local(receive(run.clone(), connection.clone()));
    }
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let plan = &run.plan;
    let (mut begun, mut due, mut last, mut turn) = (0, 0.0, Duration::ZERO, 0);
    loop {
        tick.tick().await;
        let now = Instant::now();
        let elapsed = now - run.began;
        let second = elapsed.as_secs() as usize;
        if begun <= second.min(duration) {
            at_second(begun);
            begun += 1;
        }
        if elapsed > Duration::from_secs(duration as u64) + plan.deadline {
            break;
        }
        let sending = second < duration;
        if plan.closed.is_none() && sending {
            // The calls that became due since the last tick, at equal distances.
            due += (elapsed - last).as_secs_f64() * plan.rates[second];
            let (calls, since) = (due as u32, elapsed - last);
            for call in 0..calls {
                let at = run.began + last + since * call / calls;
                turn = (turn + 1) % connections.len();
                run.second(at, |second| second.due += 1);
                connections[turn].borrow_mut().waiting.push_back(at);
            }
            due -= f64::from(calls);
            last = elapsed;
        }
        for connection in &connections {
            let mut connection = connection.borrow_mut();
            connection.expire(&run, now);
            if sending || plan.closed.is_none() {
                connection.send(&run);
            }
        }
    }
    run.seconds.take()
}

impl Run {
    fn second(&self, at: Instant, count: impl FnOnce(&mut Second)) {
        let at = at - self.began;
        if let Some(second) = self.seconds.borrow_mut().get_mut(at.as_secs() as usize) {
            let served = second.served + second.due;
            count(second);
            if second.served + second.due == served {
                second.last_failed = second.last_failed.max(at - Duration::from_secs(at.as_secs()));
            }
        }
    }
}

impl Connection {
    async fn open(plan: &OpenCalls) -> io::Result<Connection> {
        let stream = TcpStream::connect(plan.addr).await?;
        stream.set_nodelay(true)?;
        Ok(Connection {
            stream: Rc::new(stream),
            requests: Requests::new(NEXT, &format!("{}m", plan.deadline.as_millis())),
            unsent: Requests::open(OPEN_WINDOW),
            decoder: Decoder::default(),
            streams: 100,
            in_flight: 0,
            calls: VecDeque::new(),
            waiting: VecDeque::new(),
            closing: false,
        })
    }

    /// Gives up calls past their deadline.
    fn expire(&mut self, run: &Run, now: Instant) {
        let deadline = run.plan.deadline;
        while self.waiting.front().is_some_and(|due| now >= *due + run.plan.patience) {
            let due = self.waiting.pop_front().unwrap();
            run.second(due, |second| second.unsent += 1);
        }
        while let Some(call) = self.calls.front().filter(|call| !call.open || now >= call.due + deadline) {
            if call.open {
                Requests::cancel(&mut self.unsent, call.stream);
                self.in_flight -= 1;
                run.second(call.due, |second| second.late += 1);
            }
            self.calls.pop_front();
        }
    }

    /// Sends the calls that the server accepts at this time.
    fn send(&mut self, run: &Run) {
        if let Some(most) = run.plan.closed {
            let now = Instant::now();
            while self.in_flight + self.waiting.len() < most {
                self.waiting.push_back(now);
                run.second(now, |second| second.due += 1);
            }
        }
        while self.in_flight < self.streams && !self.closing && self.unsent.len() < 64 << 10 {
            let Some(due) = self.waiting.pop_front() else { break };
            let uid = run.uid.get();
            run.uid.set(uid + 1);
            let mut message = vec![0x08];
            varint(&mut message, run.plan.first_uid + uid.wrapping_mul(7_919) % run.plan.uids);
            // The field `count`, which is 1.
            message.extend([0x10, 1]);
            let stream = self.requests.whole(&mut self.unsent, &message);
            self.calls.push_back(Call { stream, due, open: true });
            self.in_flight += 1;
        }
        self.write();
    }

    fn write(&mut self) {
        while !self.unsent.is_empty() {
            match self.stream.try_write(&self.unsent) {
                Ok(bytes) => drop(self.unsent.drain(..bytes)),
                Err(_) => break,
            }
        }
    }

    /// Decodes bytes from the server.
    fn received(&mut self, run: &Run, bytes: &[u8]) {
        let Connection { decoder, unsent, calls, in_flight, streams, closing, .. } = self;
        let now = Instant::now();
        decoder.decode(bytes, unsent, |event| {
            let (stream, served) = match event {
                Event::Message(stream) => (stream, true),
                Event::End(stream) | Event::Refused(stream) => (stream, false),
                Event::Streams(most) => return *streams = most as usize,
                Event::GoAway => return *closing = true,
                Event::Window(_) | Event::More(..) => return,
            };
            let Some(first) = calls.front() else { return };
            let Some(at) = stream.checked_sub(first.stream) else { return };
            let Some(call) = calls.get_mut(at as usize / 2).filter(|call| call.open) else { return };
            call.open = false;
            *in_flight -= 1;
            let latency = now - call.due;
            run.second(call.due, |second| match served {
                true if latency <= run.plan.deadline => {
                    second.served += 1;
                    second.latencies_us.push(latency.as_micros() as u32);
                }
                true => second.late += 1,
                false => second.refused += 1,
            });
        });
    }
}

/// Receives responses; connects again if the server closes the connection.
async fn receive(run: Rc<Run>, connection: Rc<RefCell<Connection>>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let stream = connection.borrow().stream.clone();
        if stream.readable().await.is_err() {
            return;
        }
        match stream.try_read(&mut buffer) {
            Ok(bytes) if bytes > 0 => {
                let mut connection = connection.borrow_mut();
                connection.received(&run, &buffer[..bytes]);
                if run.plan.closed.is_some() {
                    connection.send(&run);
                }
                continue;
            }
            Err(error) if is_blocked(&error) => continue,
            _ => {}
        }
        let again = loop {
            tokio::time::sleep(RECONNECT).await;
            if let Ok(again) = Connection::open(&run.plan).await {
                break again;
            }
        };
        let mut connection = connection.borrow_mut();
        for call in connection.calls.iter().filter(|call| call.open) {
            run.second(call.due, |second| second.lost += 1);
        }
        let waiting = std::mem::take(&mut connection.waiting);
        *connection = Connection { waiting, ..again };
    }
}
