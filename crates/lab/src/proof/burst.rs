//! A burst of TCP between the guests of a pair: payload there, and an answer back.

use crate::error::LabError;
use crate::session::Session;
use crate::topology::{Pair, Topology};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// What it sends.
pub(super) const BURST: usize = 256 * 1024;
const PORT: u16 = 5202;
/// A userspace switch learns and resolves with the first packets, and loses them.
const CONNECT: Duration = Duration::from_secs(10);
const TRANSFER: Duration = Duration::from_secs(10);

/// Sends it.
pub(super) fn send(session: &Session, topology: &Topology, pair: &Pair) -> Result<(), LabError> {
    let (from, to) = (&pair.sender.node, &pair.receiver.node);
    let failed = |action: &str| {
        let proof = format!("path proof of {}", topology.backend);
        LabError::system(&format!(
            "{proof}: {action} ({} to {})",
            from.place, to.place
        ))
    };
    let address = SocketAddr::from((pair.receiver.address, PORT));
    let listener = to.netns.run(|| TcpListener::bind(address))?;
    let listener = listener.map_err(failed("listening in the receiving guest"))?;
    let end = Instant::now() + CONNECT;
    let mut sender = loop {
        let attempt = Duration::from_millis(1500);
        let connected = from
            .netns
            .run(|| TcpStream::connect_timeout(&address, attempt))?;
        match connected {
            Ok(stream) => break stream,
            Err(error) if Instant::now() >= end => {
                return Err(failed("no connection")(error));
            }
            Err(_) => session.interrupts.wait(Duration::from_millis(50))?,
        }
    };
    let (mut receiver, _) = listener.accept().map_err(failed("accepting"))?;
    for stream in [&sender, &receiver] {
        stream
            .set_read_timeout(Some(TRANSFER))
            .and_then(|()| stream.set_write_timeout(Some(TRANSFER)))
            .map_err(failed("setting time limits"))?;
    }
    let sent = std::thread::spawn(move || -> std::io::Result<()> {
        sender.write_all(&vec![0x5a; BURST])?;
        sender.read_exact(&mut [0; 4])
    });
    let mut payload = vec![0; BURST];
    receiver
        .read_exact(&mut payload)
        .and_then(|()| receiver.write_all(b"done"))
        .map_err(failed("no payload there"))?;
    let answered = sent
        .join()
        .unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()));
    answered.map_err(failed("no answer back"))
}
