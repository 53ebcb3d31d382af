//! Greetings: `apply` asks each remote what it can take. The programs take the answers, and tell who answers the same of
//! this host (`bpf/lib/outer.h` has the format). Nobody waits for them: until one comes, the remote gets what any can take.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use overlane_ebpf::maps::MapSet;
use overlane_ebpf::{abi, abilities};
use overlane_model::{Encapsulation, Tables, cookie};

use crate::HostError;
use crate::kinds::Target;
use crate::lib::clock::Clock;
use crate::lib::detour::Detour;
use crate::lib::greeting::{ETHERNET, header};
use crate::lib::paths;
use crate::report::{Report, finding};
use crate::state::State;

/// Longer than any round trip in a data centre.
const ANSWER_TIME: Duration = Duration::from_millis(200);
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// What is sent is not acknowledged, and a packet may be lost.
const TIMES: usize = 2;
const ASK: u8 = 1;
/// Of ports, and of routers.
const WHOLE_UDP: u8 = 1 | 2;

/// What remotes said before may be out of date: they are asked anew. All is applied already: no reason to fail.
pub(super) fn greet(target: &Target<'_>, report: &mut Report) {
    if let Err(error) = ask_remotes(target) {
        let row = finding::remotes_not_asked(&report.host, &error.to_string());
        report.notes.push(row);
    }
}

/// What they said holds until they say it again, which takes no longer than a round trip; who does not is another
/// build now, or away.
fn ask_remotes(target: &Target<'_>) -> Result<(), HostError> {
    let (tables, host) = (target.tables, target.tables.host.as_str());
    let folder = paths::map_set(host, target.data_path.signature());
    let Some(maps) = MapSet::open(&folder, target.data_path.layouts())? else {
        return Ok(());
    };
    let is_remote = |addr: IpAddr| tables.remotes.iter().any(|remote| remote.addr == addr);
    let mut is_waiting = abilities::doubt(&maps, is_remote)?;
    // Answers would be the other device's.
    if !target.resolved.devices.port_shared {
        let devices = &target.resolved.devices;
        let key = cookie::Key {
            secret: devices.secret,
            words: devices.cookie_key,
        };
        ask(tables, unmarks(target)?, key)?;
        let end = Instant::now() + ANSWER_TIME;
        while is_waiting && Instant::now() < end {
            thread::sleep(BETWEEN_LOOKS);
            is_waiting = abilities::are_doubted(&maps)?;
        }
    }
    Ok(abilities::forget_doubted(&maps)?)
}

/// Whether this host takes UDP super-packets whole.
fn unmarks(target: &Target<'_>) -> Result<bool, HostError> {
    let state = State::read(target.tables.host.as_str())?;
    let is_refused = state.is_some_and(|it| it.refused.contains_key(&Detour::Unmarker.thing()));
    Ok(target.resolved.detours.contains(&Detour::Unmarker) && !is_refused)
}

/// Greets each remote from the host's VTEP, in the namespace of this thread. One that cannot be reached is left out.
/// `key`: the programs believe the answer by the cookie that it brings back.
fn ask(tables: &Tables, takes_whole_udp: bool, key: cookie::Key) -> Result<(), HostError> {
    let now_ns = Clock::now()?.monotonic_ns;
    let Ok(socket) = UdpSocket::bind((tables.vtep, 0)) else {
        return Ok(());
    };
    // Packets wait for next hops that nobody has answered for yet; apply does not.
    if socket.set_nonblocking(true).is_err() {
        return Ok(());
    }
    for remote in &tables.remotes {
        let cookie = cookie::cookie(key, remote.addr, now_ns);
        let greeting = greeting(tables.tunnel.encapsulation, takes_whole_udp, cookie);
        let to = SocketAddr::new(remote.addr, tables.tunnel.port);
        for _ in 0..TIMES {
            let _ = socket.send_to(&greeting, to);
        }
    }
    Ok(())
}

fn greeting(
    encapsulation: Encapsulation,
    takes_whole_udp: bool,
    cookie: [u8; cookie::LEN],
) -> Vec<u8> {
    let header = header(match encapsulation {
        Encapsulation::Vxlan => abi::ENCAPSULATION_VXLAN,
        Encapsulation::Geneve => abi::ENCAPSULATION_GENEVE,
    });
    let abilities = if takes_whole_udp { WHOLE_UDP } else { 0 };
    let says = [b'O', b'V', b'L', 1, ASK, abilities, 0, 0];
    // Who answers writes its own behind it.
    [&header[..], &ETHERNET, &says, &cookie, &[0; cookie::LEN]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_is_a_tunnel_packet_with_vni_0() {
        let vxlan = greeting(Encapsulation::Vxlan, true, *b"mycookie");
        assert_eq!(vxlan[4..7], [0; 3]);
        assert_eq!(
            vxlan[20..],
            *b"\x88\xb5OVL\x01\x01\x03\0\0mycookie\0\0\0\0\0\0\0\0"
        );
        let geneve = greeting(Encapsulation::Geneve, false, [0; 8]);
        assert_eq!(geneve[2..7], [0x65, 0x58, 0, 0, 0]);
        assert_eq!(geneve[26..30], [ASK, 0, 0, 0]);
    }
}
