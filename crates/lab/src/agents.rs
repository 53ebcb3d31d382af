//! The laboratory's side of the traffic agents: one process per guest, orders to its standard input, answers
//! from its standard output (`overlane_traffic::message`). [`measure`](crate::measure) says what they do.
//!
//! Every answer is waited for with a limit, and a signal ends the waiting. An agent that died, or that says it
//! failed, is an error that names the guest.

use crate::error::LabError;
use crate::machine::interrupt::Interrupts;
use crate::session::Session;
use crate::session::process::{Process, own_program};
use crate::topology::{Guest, Topology};
use overlane_traffic::message::{Answer, Counters, Order, VERSION};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

/// Until an agent has said who it is; many start at once, some on one CPU.
const HELLO: Duration = Duration::from_secs(20);
/// Longest line that is believed to be an answer.
const LONGEST_LINE_BYTES: usize = 16 << 20;

/// The agents of one topology.
pub(crate) struct Agents {
    /// In the order of the topology's pairs.
    pub(crate) pairs: Vec<PairAgents>,
    /// All run under one kernel: their clocks are one, and a time of one means something to another.
    pub(crate) one_clock: bool,
    /// A job was set up and has not come to its end.
    pub(crate) has_job: bool,
    next_job: u32,
}

/// The agents of one pair of guests.
pub(crate) struct PairAgents {
    pub(crate) sender: Agent,
    pub(crate) receiver: Agent,
}

/// The agent of one guest.
pub(crate) struct Agent {
    process: Process,
    orders: ChildStdin,
    talk: Talk,
}

/// What an agent says, as it comes.
struct Talk {
    /// The guest, as errors name it.
    place: String,
    answers: ChildStdout,
    /// A line that is not whole.
    rest: Vec<u8>,
    waiting: VecDeque<Answer>,
    /// The last counters that it told by itself, and when it read them.
    latest: Option<(u64, Counters)>,
    ended: bool,
}

impl Agents {
    /// Starts an agent in each guest, on the guest's CPUs.
    pub(crate) fn start(session: &Session, topology: &Topology) -> Result<Self, LabError> {
        let label = topology.label();
        let start = |guest| Agent::start(session, &label, guest);
        let mut pairs = Vec::with_capacity(topology.pairs.len());
        for pair in &topology.pairs {
            pairs.push(PairAgents {
                sender: start(&pair.sender)?,
                receiver: start(&pair.receiver)?,
            });
        }
        let mut agents = Self {
            pairs,
            one_clock: true,
            has_job: false,
            next_job: 1,
        };
        let mut boots = Vec::new();
        for agent in agents.all() {
            boots.push(agent.meet(&session.interrupts)?);
        }
        agents.one_clock = boots.windows(2).all(|two| two[0] == two[1]);
        Ok(agents)
    }

    /// A number that no job of these agents has had.
    pub(crate) fn new_job(&mut self) -> u32 {
        let job = self.next_job;
        self.next_job += 1;
        job
    }

    /// Every agent: sender and receiver of the first pair, of the second …
    pub(crate) fn all(&mut self) -> impl Iterator<Item = &mut Agent> {
        let pairs = self.pairs.iter_mut();
        pairs.flat_map(|pair| [&mut pair.sender, &mut pair.receiver])
    }

    /// The senders' agents.
    pub(crate) fn senders(&mut self) -> impl Iterator<Item = &mut Agent> {
        self.pairs.iter_mut().map(|pair| &mut pair.sender)
    }

    /// The receivers' agents.
    pub(crate) fn receivers(&mut self) -> impl Iterator<Item = &mut Agent> {
        self.pairs.iter_mut().map(|pair| &mut pair.receiver)
    }
}

impl Agent {
    fn start(session: &Session, label: &str, guest: &Guest) -> Result<Self, LabError> {
        let node = &guest.node;
        let program = own_program().ok_or_else(|| LabError::Unable {
            reason: "the laboratory was not started by the program `overlane`, whose traffic tool it needs"
                .to_owned(),
        })?;
        let mut command = node.netns.command(&program.to_string_lossy());
        command.arg("traffic");
        let (process, orders, answers) = session.converse(command, &node.cpus)?;
        let talk = Talk {
            place: format!("{} of {label}", node.place),
            answers,
            rest: Vec::new(),
            waiting: VecDeque::new(),
            latest: None,
            ended: false,
        };
        Ok(Self {
            process,
            orders,
            talk,
        })
    }

    /// Waits until the agent has said who it is; returns the boot of the kernel that it runs under.
    fn meet(&mut self, interrupts: &Interrupts) -> Result<String, LabError> {
        match self.answer(interrupts, "its first word", HELLO)? {
            Answer::Hello {
                version, boot_id, ..
            } if version == VERSION => Ok(boot_id),
            Answer::Hello { version, .. } => Err(self.talk.failed(&format!(
                "speaks version {version} of the messages, this program speaks {VERSION}; both have to be of one build"
            ))),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Gives an order.
    pub(crate) fn order(&mut self, order: &Order) -> Result<(), LabError> {
        let mut line = serde_json::to_vec(order).map_err(|error| {
            self.talk
                .failed(&format!("cannot be told an order: {error}"))
        })?;
        line.push(b'\n');
        match self.orders.write_all(&line) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(self.died()),
            Err(error) => Err(self.talk.failed(&format!("takes no orders: {error}"))),
        }
    }

    /// Waits for the next answer, which is to be `what`. Counters that the agent tells by itself are kept aside.
    pub(crate) fn answer(
        &mut self,
        interrupts: &Interrupts,
        what: &str,
        limit: Duration,
    ) -> Result<Answer, LabError> {
        let end = Instant::now() + limit;
        loop {
            if let Some(answer) = self.talk.waiting.pop_front() {
                return Ok(answer);
            }
            let left = end.saturating_duration_since(Instant::now());
            if !self.listen(interrupts, left)? && Instant::now() >= end {
                return Err(self.talk.failed(&format!(
                    "gave no answer within {} s ({what}); it hangs or its CPU is taken by something else, see `top`",
                    limit.as_secs_f64()
                )));
            }
        }
    }

    /// An answer that is none of those that were asked for.
    pub(crate) fn unexpected(&self, answer: &Answer) -> LabError {
        let said = format!("{answer:?}");
        let said: String = said.chars().take(120).collect();
        self.talk
            .failed(&format!("gave an answer that nobody asked for: {said}"))
    }

    /// The last counters that the agent told by itself, and when it read them. Does not wait.
    pub(crate) fn latest(
        &mut self,
        interrupts: &Interrupts,
    ) -> Result<Option<(u64, Counters)>, LabError> {
        while self.listen(interrupts, Duration::ZERO)? {}
        Ok(self.talk.latest)
    }

    /// Forgets what the agent told of a job before.
    pub(crate) fn forget(&mut self) {
        self.talk.latest = None;
    }

    /// Takes what has come, or comes within `time`; false: nothing.
    fn listen(&mut self, interrupts: &Interrupts, time: Duration) -> Result<bool, LabError> {
        if !interrupts.wait_for(self.talk.answers.as_fd(), time)? {
            return Ok(false);
        }
        self.talk.read()?;
        if self.talk.ended {
            return Err(self.died());
        }
        Ok(true)
    }

    fn died(&mut self) -> LabError {
        let pid = self.process.pid();
        let outcome = self.process.last_words();
        self.talk.failed(&format!(
            "(process {pid}) {outcome}; if nobody ended it, see `dmesg` for what the kernel says"
        ))
    }
}

impl Talk {
    fn failed(&self, what: &str) -> LabError {
        LabError::Generator {
            reason: format!("the agent in {} {what}", self.place),
        }
    }

    /// Reads what is there, once.
    fn read(&mut self) -> Result<(), LabError> {
        let mut bytes = [0; 1 << 16];
        let count = match self.answers.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(self.failed(&format!("cannot be heard: {error}"))),
        };
        self.ended = count == 0;
        self.take(bytes.get(..count).unwrap_or_default())
    }

    /// Takes bytes of the answers, however they are cut.
    fn take(&mut self, bytes: &[u8]) -> Result<(), LabError> {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let answer = serde_json::from_slice(&line).map_err(|error| {
                let said: String = String::from_utf8_lossy(&line).chars().take(80).collect();
                self.failed(&format!(
                    "said what is no answer ({error}): {}",
                    said.trim_end()
                ))
            })?;
            match answer {
                Answer::Interval {
                    at_ns, counters, ..
                } => self.latest = Some((at_ns, counters)),
                Answer::Failed { reason, .. } => {
                    return Err(self.failed(&format!("failed: {reason}")));
                }
                answer => self.waiting.push_back(answer),
            }
        }
        if self.rest.len() > LONGEST_LINE_BYTES {
            return Err(self.failed("said a line without an end"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const HELLO: &str = r#"{"answer":"hello","version":2,"pid":1,"boot_id":"b"}"#;
    const READY: &str = r#"{"answer":"ready","job":3,"ports":[7]}"#;
    const SECOND: Duration = Duration::from_secs(10);

    /// An agent that a shell script plays.
    fn played(script: &str) -> (Agent, Interrupts) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let (process, orders, answers) = Process::converse(command, &[]).unwrap();
        let talk = Talk {
            place: "guest1 of bridge".to_owned(),
            answers,
            rest: Vec::new(),
            waiting: VecDeque::new(),
            latest: None,
            ended: false,
        };
        let agent = Agent {
            process,
            orders,
            talk,
        };
        (agent, Interrupts::take_over().unwrap())
    }

    fn interval(at_ns: u64) -> String {
        let answer = Answer::Interval {
            job: 3,
            at_ns,
            counters: Counters::default(),
        };
        serde_json::to_string(&answer).unwrap()
    }

    #[test]
    fn orders_and_answers_with_counters_between() {
        let (first, second) = (interval(5), interval(9));
        let script = format!(
            "echo '{HELLO}'; read order; echo '{first}'; echo '{second}'; \
             case $order in *go*) echo '{READY}';; esac; read end"
        );
        let (mut agent, interrupts) = played(&script);
        assert_eq!(agent.meet(&interrupts).unwrap(), "b");
        agent.order(&Order::Go { job: 3 }).unwrap();
        let answer = agent.answer(&interrupts, "ports", SECOND).unwrap();
        assert!(matches!(answer, Answer::Ready { job: 3, ports } if ports == [7]));
        let (at_ns, _) = agent.latest(&interrupts).unwrap().unwrap();
        assert_eq!(at_ns, 9);
        agent.forget();
        assert_eq!(agent.latest(&interrupts).unwrap(), None);
    }

    #[test]
    fn lines_come_in_pieces() {
        let (mut agent, _) = played("read end");
        let (start, rest) = READY.split_at(10);
        agent.talk.take(start.as_bytes()).unwrap();
        assert!(agent.talk.waiting.is_empty());
        agent
            .talk
            .take(format!("{rest}\n{READY}\n{start}").as_bytes())
            .unwrap();
        assert_eq!(agent.talk.waiting.len(), 2);
        assert_eq!(agent.talk.rest, start.as_bytes());
    }

    fn error_of(script: &str) -> String {
        let (mut agent, interrupts) = played(script);
        let limit = Duration::from_millis(500);
        let answer = agent.answer(&interrupts, "a reading", limit);
        answer.unwrap_err().to_string()
    }

    #[test]
    fn what_goes_wrong_names_the_guest() {
        for (script, words) in [
            ("echo lost >&2; exit 3", "exited with status 3: lost"),
            ("kill -9 $$", "signal: 9"),
            (
                r#"echo '{"answer":"failed","job":3,"reason":"no way"}'; read end"#,
                "failed: no way",
            ),
            ("echo nonsense; read end", "what is no answer"),
            ("read end", "no answer within 0.5 s (a reading)"),
        ] {
            let error = error_of(script);
            assert!(error.contains("guest1 of bridge"), "{error}");
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn another_version_is_refused() {
        let other = HELLO.replace("\"version\":2", "\"version\":99");
        let (mut agent, interrupts) = played(&format!("echo '{other}'; read end"));
        let error = agent.meet(&interrupts).unwrap_err().to_string();
        assert!(error.contains("99"), "{error}");
    }

    #[test]
    fn orders_to_a_dead_agent_say_how_it_died() {
        let (mut agent, _) = played("exit 4");
        let mut told = Ok(());
        while told.is_ok() {
            told = agent.order(&Order::Quit);
        }
        let error = told.unwrap_err().to_string();
        assert!(error.contains("status 4"), "{error}");
    }
}
