//! What one packet carries from stage to stage: who looks at it, how heavy it counts, what has left so
//! far. A stage either goes on with a value or ends the packet's way with a verdict ([`Stage`]).

use std::collections::BTreeMap;
use std::mem;
use std::net::IpAddr;
use std::ops::ControlFlow;

use overlane_model::{DeviceName, Hook, Name, PortTable, RouterTable, SwitchTable, Verdict};

use crate::lib::destination::Ingress;
use crate::lib::explain::{Found, Steps};
use crate::lib::host::Host;
use crate::lib::key::ConnectionKey;
use crate::lib::limit::Limited;
use crate::lib::log::LogRecord;
use crate::lib::outcome::{Counter, Counters, Outcome, Output};
use crate::lib::packet::Packet;
use crate::lib::state::{LimitOf, NeighbourId, State};
use crate::lib::tell::{Answer, Request};

/// Goes on with a value, or ends with a verdict; the `?` of a stage is a drop or an answer.
pub(crate) type Stage<T = ()> = ControlFlow<Verdict, T>;

/// One packet on its way.
pub(crate) struct Context<'a> {
    pub(crate) host: &'a Host,
    pub(crate) state: &'a mut State,
    pub(crate) now_ns: u64,
    pub(crate) hook: Hook,
    pub(crate) entered: &'a Packet,
    pub(crate) weight: Weight,
    /// Where it came from, once that is known.
    pub(crate) sender: Option<Sender<'a>>,
    /// Key of the port that it came from, as far as the tunnel says.
    pub(crate) source_key: u16,
    /// The remote says so, and the FDB knows nobody with the frame's MAC.
    pub(crate) claims_key: bool,
    /// Whose tunnel brought it.
    pub(crate) remote: Option<IpAddr>,
    /// The last router that it came to.
    pub(crate) router: Option<Ingress<'a>>,
    /// A switch that it has been in, or a router, says so.
    pub(crate) clamps_mss: bool,
    /// So many routers of this host have sent it on.
    pub(crate) routed: usize,
    /// On its way in from the leg, by `nat`, to another address.
    pub(crate) is_readdressed: bool,
    /// The translation that began with it, where it came by the leg.
    pub(crate) begun: Option<ConnectionKey>,
    /// What its sender is told in the end.
    pub(crate) answer: Option<Answer>,
    /// What it becomes in the end: a question to everybody.
    pub(crate) question: Option<Request<'a>>,
    /// What the neighbour that it goes to is asked.
    pub(crate) probe: Option<Request<'a>>,
    /// Whose answer it lacks, or whom the probe asks.
    pub(crate) asked: Option<NeighbourId>,
    outputs: Vec<Output>,
    /// What the probe became.
    probed: Vec<Output>,
    counters: Counters,
    log: Vec<LogRecord>,
    steps: Steps,
}

/// Where a packet came from.
#[derive(Clone, Copy)]
pub(crate) enum Sender<'a> {
    /// This port.
    Port(&'a PortTable),
    /// This switch, from the underlay.
    Underlay(&'a SwitchTable),
    /// The physical network behind this router's leg.
    Leg(&'a RouterTable),
}

/// What a packet adds to counters.
#[derive(Clone, Copy)]
pub(crate) struct Weight {
    /// Bytes before the frame: the outer header, and an inner tag.
    pub(crate) offset: usize,
    /// Of the frame without its tag; before `parse`, of the packet.
    pub(crate) len: usize,
    pub(crate) segments: u64,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        host: &'a Host,
        state: &'a mut State,
        now_ns: u64,
        hook: Hook,
        entered: &'a Packet,
        explain: bool,
    ) -> Self {
        let segments = entered.gso.map_or(1, |gso| gso.segments.max(1));
        Self {
            host,
            state,
            now_ns,
            hook,
            entered,
            weight: Weight {
                offset: 0,
                len: entered.bytes.len(),
                segments: segments.into(),
            },
            sender: None,
            source_key: 0,
            claims_key: false,
            remote: None,
            router: None,
            clamps_mss: false,
            routed: 0,
            is_readdressed: false,
            begun: None,
            answer: None,
            question: None,
            probe: None,
            asked: None,
            outputs: Vec::new(),
            probed: Vec::new(),
            counters: Counters::default(),
            log: Vec::new(),
            steps: Steps::new(explain),
        }
    }

    /// Counts the verdict: once for each packet, here.
    pub(crate) fn finish(mut self, verdict: Verdict) -> Outcome {
        self.count_sender(verdict);
        let mut counter = self.counter();
        counter.bytes += self.weight.offset as u64;
        self.counters.verdicts.insert((self.hook, verdict), counter);
        Outcome {
            hook: self.hook,
            verdict,
            outputs: self.outputs,
            probe: self.probed,
            asked: self.asked,
            counters: self.counters,
            log: self.log,
            steps: self.steps.into_vec(),
        }
    }

    /// A packet can leave by this device, or the packet's way ends.
    pub(crate) fn check_device(&mut self, stage: &'static str, device: &DeviceName) -> Stage {
        if !self.state.gone.contains(device) {
            return Stage::Continue(());
        }
        let (verdict, how) = match self.state.missing.contains(device) {
            true => (Verdict::NoPort, "missing"),
            false => (Verdict::DeviceGone, "gone"),
        };
        self.end(stage, verdict, || {
            format!("device {device} is {how}: apply again once there is one of that name")
        })
    }

    /// Explains what a stage did.
    pub(crate) fn step<F: Into<Found>>(&mut self, stage: &'static str, found: impl FnOnce() -> F) {
        self.steps.add(stage, found);
    }

    /// Ends the packet's way, and explains why.
    pub(crate) fn end<T, F: Into<Found>>(
        &mut self,
        stage: &'static str,
        verdict: Verdict,
        why: impl FnOnce() -> F,
    ) -> Stage<T> {
        self.steps.add(stage, why);
        ControlFlow::Break(verdict)
    }

    /// It came by the uplink, and no router has sent it on.
    pub(crate) fn is_from_underlay(&self) -> bool {
        matches!(self.sender, Some(Sender::Underlay(_))) && self.routed == 0
    }

    /// The port that it came from.
    pub(crate) fn source_port(&self) -> Option<&'a PortTable> {
        match self.sender {
            Some(Sender::Port(port)) => Some(port),
            _ => None,
        }
    }

    /// Where it came from; its switch may clamp.
    pub(crate) fn came_from(&mut self, sender: Sender<'a>, switch: &SwitchTable) {
        self.sender = Some(sender);
        self.clamps_mss = switch.mss_clamp;
    }

    /// A router says so; and a switch that the packet came from. `mtu`: of the largest IP packet that would pass.
    pub(crate) fn tell_too_big(&mut self, mtu: usize) {
        let switch = match self.sender {
            Some(Sender::Port(port)) => self.host.switch(port.switch),
            Some(Sender::Underlay(switch)) => Some(switch),
            Some(Sender::Leg(_)) | None => None,
        };
        if self.router.is_some() || switch.is_some_and(|switch| switch.path_mtu_discovery) {
            self.answer = Some(Answer::too_big(mtu));
        }
    }

    /// What leaves is an answer: it counts nowhere, nothing is said about it, and nobody is told of it.
    pub(crate) fn in_silence(&mut self, act: impl FnOnce(&mut Self)) {
        let counters = mem::take(&mut self.counters);
        let steps = mem::replace(&mut self.steps, Steps::new(false));
        let answer = self.answer.take();
        act(self);
        (self.counters, self.steps, self.answer) = (counters, steps, answer);
    }

    /// What leaves is the question that a copy of the packet became.
    pub(crate) fn as_probe(&mut self, act: impl FnOnce(&mut Self)) {
        let outputs = mem::take(&mut self.outputs);
        act(self);
        self.probed = mem::replace(&mut self.outputs, outputs);
    }

    pub(crate) fn send(&mut self, output: Output) {
        self.outputs.push(output);
    }

    pub(crate) fn count_from_port(&mut self, port: &PortTable) {
        let counter = self.counter();
        add(&mut self.counters.from_port, &port.name, counter);
    }

    pub(crate) fn count_to_port(&mut self, port: &PortTable) {
        let counter = self.counter();
        add(&mut self.counters.to_port, &port.name, counter);
    }

    /// Of what its sender is not told: it has been told enough.
    pub(crate) fn count_untold(&mut self) {
        if let Some(port) = self.source_port() {
            let counter = self.counter();
            add(&mut self.counters.port_untold, &port.name, counter);
        }
    }

    /// For the port, or the remote, that the packet came from.
    fn count_sender(&mut self, verdict: Verdict) {
        if let (Some(Sender::Port(port)), true) = (self.sender, verdict.is_drop()) {
            let counter = self.counter();
            add(&mut self.counters.port_dropped, &port.name, counter);
        }
        let is_counted = !matches!(verdict, Verdict::ToHost | Verdict::Greeting);
        if let Some(remote) = self.remote.filter(|_| is_counted) {
            let which = match verdict.is_drop() {
                true => RemoteCount::Dropped,
                false => RemoteCount::From,
            };
            self.count_remote(which, remote);
        }
    }

    /// Of a rule of the firewall.
    pub(crate) fn count_rule(&mut self, rule: &Name) {
        let counter = self.counter();
        add(&mut self.counters.rules, rule, counter);
    }

    /// Lost where its port had too many of late.
    pub(crate) fn log(&mut self, record: LogRecord) {
        let port = record.packet.zone.into();
        if self.allows(port, Limited::Log, 1, Limited::LOG) {
            self.log.push(record);
        }
    }

    /// Whether so much more may happen now; then it is counted.
    pub(crate) fn allows(&mut self, of: LimitOf, what: Limited, weight: u32, most: u32) -> bool {
        self.state.allows(of, what, self.now_ns, weight, most)
    }

    /// Whose packet it is.
    pub(crate) fn limit_of_sender(&self) -> Option<LimitOf> {
        Some(match self.sender? {
            Sender::Port(port) => LimitOf::Port(port.switch, port.key.get()),
            Sender::Underlay(_) if self.claims_key => LimitOf::Remote(self.remote?),
            Sender::Underlay(switch) => LimitOf::Port(switch.id, self.source_key),
            Sender::Leg(router) => LimitOf::Leg(router.id),
        })
    }

    /// A remote has counters as long as it is in the tables.
    pub(crate) fn count_remote(&mut self, which: RemoteCount, remote: IpAddr) {
        if self.host.remote(remote).is_none() {
            return;
        }
        let counter = self.counter();
        let counters = match which {
            RemoteCount::To => &mut self.counters.to_remote,
            RemoteCount::From => &mut self.counters.from_remote,
            RemoteCount::Dropped => &mut self.counters.remote_dropped,
        };
        add(counters, &remote, counter);
    }

    fn counter(&self) -> Counter {
        Counter {
            packets: 1,
            segments: self.weight.segments,
            bytes: self.weight.len as u64,
        }
    }
}

/// Which counter of a remote.
#[derive(Clone, Copy)]
pub(crate) enum RemoteCount {
    To,
    From,
    Dropped,
}

fn add<K: Ord + Clone>(counters: &mut BTreeMap<K, Counter>, key: &K, weight: Counter) {
    let counter = counters.entry(key.clone()).or_default();
    counter.packets += weight.packets;
    counter.segments += weight.segments;
    counter.bytes += weight.bytes;
}
