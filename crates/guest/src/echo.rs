//! TCP and UDP echo (RFC 862). A datagram begins with a number of 8 bytes, which its sender counts up: what comes twice or
//! late is counted.

use crate::counters::Counters;
use crate::sequence::{Arrival, Sequences};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// RFC 862.
const PORT: u16 = 7;
const CHUNK: usize = 64 << 10;

/// Answers on the address from now on.
pub(crate) fn serve(address: Ipv4Addr, counters: &Arc<Counters>) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot serve echo on {address}: {error}");
    let socket = UdpSocket::bind((address, PORT)).map_err(failed)?;
    let listener = TcpListener::bind((address, PORT)).map_err(failed)?;
    let counting = Arc::clone(counters);
    spawn(move || answer_datagrams(&socket, &counting)).map_err(failed)?;
    let counting = Arc::clone(counters);
    spawn(move || {
        // A connection that ends before it is taken is none of ours.
        for stream in listener.incoming().flatten() {
            counting.lock().tcp_connections += 1;
            let counting = Arc::clone(&counting);
            // Without a thread for it the connection is closed, as its sender sees.
            let _ = spawn(move || answer_stream(stream, &counting));
        }
    })
    .map_err(failed)
}

fn spawn(task: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().spawn(task).map(drop)
}

fn answer_datagrams(socket: &UdpSocket, counters: &Counters) {
    let mut sequences = Sequences::default();
    let mut datagram = vec![0; CHUNK];
    loop {
        // An error is the news of a datagram that found nobody: the next one counts.
        let Ok((length, sender)) = socket.recv_from(&mut datagram) else {
            continue;
        };
        let arrival =
            number(&datagram[..length]).and_then(|number| sequences.arrived(sender, number));
        let mut counts = counters.lock();
        counts.datagram_at(Instant::now());
        counts.udp_received += 1;
        match arrival {
            Some(Arrival::New) => {}
            Some(Arrival::Late) => counts.udp_reordered += 1,
            Some(Arrival::Again) => counts.udp_duplicates += 1,
            None => counts.udp_uncounted += 1,
        }
        drop(counts);
        // Who has the answer may ask for the counters.
        let _ = socket.send_to(&datagram[..length], sender);
    }
}

fn number(datagram: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*datagram.first_chunk()?))
}

fn answer_stream(mut stream: TcpStream, counters: &Counters) {
    let mut bytes = vec![0; CHUNK];
    // Small answers are not held back.
    let _ = stream.set_nodelay(true);
    while let Ok(length @ 1..) = stream.read(&mut bytes) {
        if stream.write_all(&bytes[..length]).is_err() {
            return;
        }
        counters.lock().tcp_bytes += length as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn datagrams_are_answered_and_counted() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let counters = Arc::new(Counters::default());
        let counting = Arc::clone(&counters);
        spawn(move || answer_datagrams(&socket, &counting)).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut answer = [0; 64];
        for number in [1_u64, 3, 2, 3] {
            let datagram = [&number.to_be_bytes()[..], b"beat"].concat();
            sender.send_to(&datagram, address).unwrap();
            let length = sender.recv(&mut answer).unwrap();
            assert_eq!(answer[..length], datagram);
        }
        sender.send_to(b"short", address).unwrap();
        sender.recv(&mut answer).unwrap();
        let counts = counters.lock();
        assert_eq!((counts.udp_received, counts.udp_duplicates), (5, 1));
        assert_eq!((counts.udp_reordered, counts.udp_uncounted), (1, 1));
    }

    #[test]
    fn a_stream_comes_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let counters = Arc::new(Counters::default());
        let counting = Arc::clone(&counters);
        let served = thread::spawn(move || answer_stream(stream, &counting));
        client.write_all(b"there and back").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut back = String::new();
        client.read_to_string(&mut back).unwrap();
        served.join().unwrap();
        assert_eq!(back, "there and back");
        assert_eq!(counters.lock().tcp_bytes, 14);
    }
}
