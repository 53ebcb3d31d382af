//! An agent as a controller sees it: orders in, answers out, over pipes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write, pipe};
use std::thread::JoinHandle;

use overlane_traffic::message::{
    Answer, Direction, MAX_INSTANCES, Order, Reading, Role, VERSION, Work,
};
use overlane_traffic::{Histogram, TrafficError, run};

/// A controller, with an agent of its own.
struct Controller {
    orders: Option<PipeWriter>,
    answers: BufReader<PipeReader>,
    agent: JoinHandle<Result<(), TrafficError>>,
}

impl Controller {
    fn new() -> Self {
        let (input, orders) = pipe().unwrap();
        let (answers, output) = pipe().unwrap();
        let mut controller = Self {
            orders: Some(orders),
            answers: BufReader::new(answers),
            agent: std::thread::spawn(move || run(BufReader::new(input), output)),
        };
        let hello = controller.any_answer();
        let Answer::Hello {
            version,
            pid,
            boot_id,
        } = hello
        else {
            panic!("{hello:?}");
        };
        assert_eq!((version, pid), (VERSION, std::process::id()));
        assert_eq!(boot_id.len(), 36);
        controller
    }

    fn say(&mut self, line: &str) {
        let mut orders = self.orders.as_ref().unwrap();
        orders.write_all(line.as_bytes()).unwrap();
        orders.write_all(b"\n").unwrap();
    }

    fn order(&mut self, order: &Order) {
        self.say(&serde_json::to_string(order).unwrap());
    }

    fn any_answer(&mut self) -> Answer {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// The next answer that was asked for.
    fn answer(&mut self) -> Answer {
        loop {
            let answer = self.any_answer();
            if !matches!(answer, Answer::Interval { .. }) {
                return answer;
            }
        }
    }

    fn failure(&mut self) -> (Option<u32>, String) {
        match self.answer() {
            Answer::Failed { job, reason } => (job, reason),
            other => panic!("{other:?}"),
        }
    }

    fn mark(&mut self, job: u32) -> Reading {
        self.order(&Order::Mark { job });
        match self.answer() {
            Answer::Mark { job: of, reading } if of == job => reading,
            other => panic!("{other:?}"),
        }
    }

    fn stop(&mut self, job: u32) -> Reading {
        self.order(&Order::Stop { job });
        match self.answer() {
            Answer::Done {
                job: of, reading, ..
            } if of == job => reading,
            other => panic!("{other:?}"),
        }
    }

    fn prepare(&mut self, job: u32, work: &Work, role: Role) -> Vec<u16> {
        self.order(&Order::Prepare {
            job,
            instances: 2,
            work: work.clone(),
            role,
        });
        match self.answer() {
            Answer::Ready { job: of, ports } if of == job => ports,
            other => panic!("{other:?}"),
        }
    }

    /// The end of the input is the end of the agent.
    fn end(mut self) {
        self.orders = None;
        self.agent.join().unwrap().unwrap();
    }
}

fn rr() -> Work {
    Work::TcpRr {
        request_bytes: 10,
        response_bytes: 20,
        buffer_bytes: None,
        congestion: None,
    }
}

fn serve() -> Role {
    Role::Serve {
        address: "127.0.0.1".parse().unwrap(),
    }
}

fn drive(ports: Vec<u16>) -> Role {
    Role::Drive {
        from: "127.0.0.1".parse().unwrap(),
        to: "127.0.0.1".parse().unwrap(),
        ports,
    }
}

fn count(reading: &Reading) -> u64 {
    Histogram::from_latencies(reading.latency.as_ref().unwrap()).count()
}

#[test]
fn two_marks_are_a_window() {
    let mut far = Controller::new();
    let mut near = Controller::new();
    let ports = far.prepare(7, &rr(), serve());
    assert_eq!(ports.len(), 1);
    assert!(near.prepare(7, &rr(), drive(ports)).is_empty());
    let before = near.mark(7);
    assert_eq!(before.counters.transactions, 0);
    assert_eq!(count(&before), 0);
    near.order(&Order::Go { job: 7 });
    let mut measured = 0;
    let mut last = before.counters;
    for _ in 0..3 {
        // Latencies are those since the last mark; counters are totals.
        let mark = loop {
            let mark = near.mark(7);
            measured += count(&mark);
            if mark.counters.transactions > last.transactions {
                break mark;
            }
        };
        assert!(mark.at_ns > before.at_ns && mark.cpu_ns > before.cpu_ns);
        assert!(mark.memory_kib > 100);
        last = mark.counters;
    }
    let done = near.stop(7);
    measured += count(&done);
    assert_eq!(measured, done.counters.transactions);
    let far_done = far.stop(7);
    assert_eq!(far_done.counters.transactions, done.counters.transactions);
    assert_eq!(far_done.latency, None, "a server measures no latency");
    near.end();
    far.end();
}

#[test]
fn one_agent_may_have_both_sides_and_says_how_they_go() {
    let mut agent = Controller::new();
    let work = Work::TcpStream {
        message_bytes: 1000,
        buffer_bytes: Some(100_000),
        congestion: None,
        direction: Direction::Both,
        rate_mbps: None,
    };
    let ports = agent.prepare(1, &work, serve());
    agent.prepare(2, &work, drive(ports));
    agent.order(&Order::Go { job: 2 });
    let mut seen = [false; 2];
    while seen != [true; 2] {
        if let Answer::Interval { job, counters, .. } = agent.any_answer() {
            seen[job as usize - 1] |= counters.received_bytes > 0;
        }
    }
    let driver = agent.stop(2).counters;
    let server = agent.stop(1).counters;
    assert_eq!(driver.sent_bytes, server.received_bytes);
    assert_eq!(server.sent_bytes, driver.received_bytes);
    agent.end();
}

#[test]
fn super_packets_are_taken_whole_or_cut_and_their_datagrams_counted() {
    let line = r#"{"test":"udp","payload_bytes":1400,"rate_pps":20000,"segments":40,"buffer_bytes":4000000}"#;
    let whole: Work = serde_json::from_str(line).unwrap();
    let mut cut = whole.clone();
    let Work::Udp { gro, .. } = &mut cut else {
        panic!("{cut:?}");
    };
    assert!(std::mem::replace(gro, false), "whole unless told otherwise");
    let mut agent = Controller::new();
    for (work, each) in [(whole, 40), (cut, 1)] {
        let ports = agent.prepare(1, &work, serve());
        assert_eq!(ports.len(), 2);
        agent.prepare(2, &work, drive(ports));
        agent.order(&Order::Go { job: 2 });
        while agent.mark(1).counters.received_packets < 2000 {}
        let sent = agent.stop(2).counters;
        let came = agent.stop(1).counters;
        let dropped = came.receiver_dropped_packets * each;
        assert_eq!(sent.sent_packets, came.received_packets + dropped);
        assert_eq!(came.received_bytes, came.received_packets * 1400);
        assert_eq!((sent.sent_packets % 40, sent.due_packets % 40), (0, 0));
        assert!(sent.due_packets >= sent.sent_packets + sent.refused_packets);
        assert_eq!((came.duplicate_packets, came.corrupt_packets), (0, 0));
    }
    agent.end();
}

#[test]
fn a_wrong_order_is_answered_and_the_agent_lives_on() {
    let mut agent = Controller::new();
    let long = "x".repeat(3 << 20);
    for (line, expected) in [
        ("hello", "not an order: expected value at line 1 column 1"),
        (r#"{"order":"dance","job":1}"#, "unknown variant `dance`"),
        (
            r#"{"order":"go","job":1,"now":true}"#,
            "unknown field `now`",
        ),
        (r#"{"order":"go"}"#, "missing field `job`"),
        ("\u{fffd}{", "not an order"),
        (&long, "a line of more than 1048576 bytes"),
    ] {
        agent.say(line);
        let (job, reason) = agent.failure();
        assert_eq!(job, None);
        assert!(reason.contains(expected), "{reason}");
    }
    agent.say("");
    for order in [
        Order::Go { job: 3 },
        Order::Mark { job: 3 },
        Order::Stop { job: 3 },
    ] {
        agent.order(&order);
        let there_is_none = "there is no job 3; prepare it first".to_owned();
        assert_eq!(agent.failure(), (Some(3), there_is_none));
    }
    for instances in [0, MAX_INSTANCES + 1] {
        agent.order(&Order::Prepare {
            job: 3,
            instances,
            work: rr(),
            role: serve(),
        });
        let reason = format!("instances is {instances}; allowed are 1 to 256");
        assert_eq!(agent.failure(), (Some(3), reason));
    }
    let ports = agent.prepare(3, &rr(), serve());
    agent.order(&Order::Prepare {
        job: 3,
        instances: 1,
        work: rr(),
        role: serve(),
    });
    assert!(agent.failure().1.starts_with("job 3 is there already"));
    agent.order(&Order::Go { job: 3 });
    assert!(agent.failure().1.starts_with("job 3 does not wait"));
    agent.prepare(4, &rr(), drive(ports));
    agent.order(&Order::Go { job: 4 });
    agent.order(&Order::Go { job: 4 });
    assert!(agent.failure().1.starts_with("job 4 does not wait"));
    agent.stop(4);
    agent.stop(3);
    agent.prepare(3, &rr(), serve());
    agent.order(&Order::Quit);
    agent.agent.join().unwrap().unwrap();
}

#[test]
fn a_job_that_broke_says_so_unasked_and_to_every_order_but_stop() {
    let mut agent = Controller::new();
    let ports = agent.prepare(1, &rr(), serve());
    agent.prepare(2, &rr(), drive(ports));
    agent.order(&Order::Go { job: 2 });
    while agent.mark(2).counters.transactions < 10 {}
    agent.order(&Order::Stop { job: 1 });
    // While the server is stopping, its driver breaks: either may be told first.
    let (done, reason) = match (agent.answer(), agent.answer()) {
        (
            Answer::Done { job, .. },
            Answer::Failed {
                job: Some(2),
                reason,
            },
        )
        | (
            Answer::Failed {
                job: Some(2),
                reason,
            },
            Answer::Done { job, .. },
        ) => (job, reason),
        other => panic!("{other:?}"),
    };
    assert_eq!(done, 1);
    assert!(reason.contains("127.0.0.1:"), "{reason}");
    agent.order(&Order::Mark { job: 2 });
    assert_eq!(agent.failure(), (Some(2), reason));
    assert!(agent.stop(2).counters.transactions >= 10);
    agent.end();
}

#[test]
fn a_controller_that_goes_away_ends_the_agent() {
    let mut agent = Controller::new();
    agent.prepare(1, &rr(), serve());
    drop(agent.answers);
    agent.orders = None;
    // Whether it meets the end of its input or that of its reader first.
    let _ = agent.agent.join().unwrap();
}
