//! The traffic generator: iperf3, one server and one client a sample, and its report.

use crate::error::LabError;
use crate::process::{Process, last_lines};
use crate::session::Session;
use crate::topology::{GUEST1_ADDRESS, GUEST2_ADDRESS, Topology};
use overlane_net::netns::Netns;
use serde::Deserialize;
use std::fs;
use std::time::Duration;

const PORT: u16 = 5201;
/// Beyond the length of a sample: starting, connecting, exchanging results.
const GRACE: Duration = Duration::from_secs(8);
const SERVER_READY: Duration = Duration::from_secs(5);

/// What one sample's traffic came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Traffic {
    pub(crate) goodput_gbps: f64,
    pub(crate) retransmits: Option<u64>,
    pub(crate) seconds: f64,
}

/// Traffic under way.
pub(crate) struct Transfer {
    client: Process,
    _server: Process,
    seconds: u32,
}

/// Socket buffers of every stream. Without a limit, streams that lose nothing grow until their data no
/// longer fits the CPU's caches, and a virtual cable falls from 27 to 11 Gbit/s, now and then. A
/// machine with the kernel's own limits (208 kB) allows less; the generator refuses what it cannot get.
fn window() -> &'static str {
    let allowed = ["rmem_max", "wmem_max"].iter().all(|name| {
        let limit = fs::read_to_string(format!("/proc/sys/net/core/{name}"));
        // The kernel doubles what is asked for, within the limit.
        limit.is_ok_and(|text| {
            text.trim()
                .parse::<u64>()
                .is_ok_and(|limit| limit >= 1 << 19)
        })
    });
    if allowed { "1M" } else { "256K" }
}

fn cubic_is_there() -> bool {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .is_ok_and(|known| known.split_whitespace().any(|name| name == "cubic"))
}

/// Starts a transfer from guest1 to guest2.
pub(crate) fn start(
    session: &Session,
    topology: &Topology,
    streams: u32,
    seconds: u32,
) -> Result<Transfer, LabError> {
    let (port, seconds_text, streams) =
        (PORT.to_string(), seconds.to_string(), streams.to_string());
    let (server_at, client_at) = (GUEST2_ADDRESS.to_string(), GUEST1_ADDRESS.to_string());
    // A server for one transfer only: it cannot be busy with the one before.
    let mut command = topology.guest2.netns.command("iperf3");
    command.args([
        "--server",
        "--one-off",
        "--bind",
        &server_at,
        "--port",
        &port,
    ]);
    let mut server = session.start(command, &topology.guest2.cpus)?;
    session.wait_until("the iperf3 server", SERVER_READY, || {
        if !server.is_running() {
            return Err(LabError::Generator {
                reason: "its server ended at once".to_owned(),
            });
        }
        is_listening(&topology.guest2.netns)
    })?;
    let mut command = topology.guest1.netns.command("iperf3");
    command.args([
        "--client", &server_at, "--bind", &client_at, "--port", &port, "--json",
    ]);
    command.args([
        "--time",
        &seconds_text,
        "--parallel",
        &streams,
        "--interval",
        "0",
    ]);
    command.args(["--connect-timeout", "3000"]);
    command.args(["--window", window()]);
    // The kernel's own default, so that a machine's choice does not bound the figures: BBR paces each
    // stream, which halves the rate of a virtual cable.
    if cubic_is_there() {
        command.args(["--congestion", "cubic"]);
    }
    let client = session.start(command, &topology.guest1.cpus)?;
    Ok(Transfer {
        client,
        _server: server,
        seconds,
    })
}

impl Transfer {
    /// Waits for the end and reads the report.
    pub(crate) fn finish(self, session: &Session) -> Result<Traffic, LabError> {
        let limit = Duration::from_secs(u64::from(self.seconds)) + GRACE;
        let output = self.client.finish(limit, &session.interrupts)?;
        parse(&output.stdout).map_err(|reason| {
            let stderr = last_lines(&output.stderr);
            let reason = if stderr.is_empty() {
                reason
            } else {
                format!("{reason} ({stderr})")
            };
            LabError::Generator { reason }
        })
    }
}

/// True when somebody listens on the port. Looked up, not tried: a trial connection would use up the server.
fn is_listening(netns: &Netns) -> Result<bool, LabError> {
    // `/proc/net` is that of the process's first thread; this one is the entering thread's.
    let path = "/proc/thread-self/net/tcp";
    let text = netns
        .run(|| fs::read_to_string(path))?
        .map_err(LabError::io("reading", path.as_ref()))?;
    Ok(has_listener(&text, PORT))
}

/// proc(5) net/tcp: the second column is the local address and port in hexadecimal, the fourth the
/// state, 0A for listening.
fn has_listener(table: &str, port: u16) -> bool {
    let ending = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        words.next().is_some_and(|local| local.ends_with(&ending)) && words.nth(1) == Some("0A")
    })
}

#[derive(Deserialize)]
struct Report {
    error: Option<String>,
    end: Option<End>,
}

#[derive(Deserialize)]
struct End {
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
}

#[derive(Deserialize)]
struct Sum {
    seconds: f64,
    bits_per_second: f64,
    retransmits: Option<u64>,
}

/// Goodput as the receiver saw it: what the sender handed to its kernel may still be in a queue.
fn parse(json: &[u8]) -> Result<Traffic, String> {
    let report: Report =
        serde_json::from_slice(json).map_err(|error| format!("no report: {error}"))?;
    if let Some(error) = report.error {
        return Err(error);
    }
    let end = report.end.ok_or("it has no end")?;
    let received = end.sum_received.ok_or("it has no receiver's side")?;
    if !(received.bits_per_second.is_finite()
        && received.bits_per_second > 0.0
        && received.seconds > 0.0)
    {
        return Err("nothing was received".to_owned());
    }
    Ok(Traffic {
        goodput_gbps: received.bits_per_second / 1e9,
        retransmits: end.sum_sent.and_then(|sent| sent.retransmits),
        seconds: received.seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_is_the_receivers() {
        let json = br#"{"start":{},"intervals":[],"end":{"streams":[],
            "sum_sent":{"start":0,"end":2.0,"seconds":2.0,"bytes":5,"bits_per_second":9.9e9,"retransmits":3,"sender":true},
            "sum_received":{"start":0,"end":2.04,"seconds":2.04,"bytes":4,"bits_per_second":9.5e9,"sender":true}}}"#;
        let traffic = parse(json).unwrap();
        assert_eq!(
            traffic,
            Traffic {
                goodput_gbps: 9.5,
                retransmits: Some(3),
                seconds: 2.04
            }
        );
    }

    #[test]
    fn errors_of_the_generator_are_told() {
        let busy = br#"{"start":{},"intervals":[],"end":{},"error":"the server is busy running a test. try again later"}"#;
        assert!(parse(busy).unwrap_err().contains("busy"));
        assert!(parse(br#"{"end":{"sum_sent":{"seconds":1,"bits_per_second":1}}}"#).is_err());
        assert!(parse(br#"{"end":{"sum_received":{"seconds":0,"bits_per_second":0}}}"#).is_err());
        assert!(parse(b"").is_err());
    }

    #[test]
    fn a_listener_is_found_by_port_and_state() {
        let table = "  sl  local_address rem_address   st tx_queue\n   \
            0: 026412C6:1451 00000000:0000 0A 00000000:00000000 00:00000000\n   \
            1: 026412C6:1450 016412C6:D431 01 00000000:00000000 00:00000000\n";
        assert!(has_listener(table, 5201));
        assert!(!has_listener(table, 5200));
        assert!(!has_listener("", 5201));
    }
}
