//! Spreads the channels of a migration over several links.
//!
//! ```text
//!  QEMU ── unix socket ──► channel 0 ──► TCP to the destination's address on link 1 ──► QEMU, on all its addresses
//!                     ──► channel 1 ──► TCP to the destination's address on link 2 ──►
//! ```
//!
//! QEMU connects all channels to one address, and which of two equal routes a connection takes is left to a hash of its ports:
//! of 4 channels 2 took each in 14 of 40 tries, and all took the same in 3. Here they take turns. A channel's bytes go through a
//! pipe, in the kernel; each direction has a thread.

use crate::error::LabError;
use crate::machine::cpus::pin_thread;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::unistd::pipe2;
use overlane_net::netns::Netns;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// What moves at once, and the size of the pipe.
const CHUNK: usize = 1 << 20;
/// Until the destination has taken a channel.
const CONNECT: Duration = Duration::from_secs(10);

/// Takes channels until it is dropped; those that it has taken go on until one side ends.
pub(super) struct Spread {
    path: PathBuf,
    ended: Arc<AtomicBool>,
}

impl Spread {
    /// Takes channels at `path`, and hands them on from a namespace and on its CPUs to these addresses, in turn.
    pub(super) fn start(
        path: &Path,
        netns: Netns,
        cpus: &[usize],
        targets: Vec<SocketAddr>,
    ) -> Result<Self, LabError> {
        let listener = UnixListener::bind(path).map_err(LabError::io("listening at", path))?;
        let ended = Arc::new(AtomicBool::new(false));
        let is_ended = Arc::clone(&ended);
        let cpus = cpus.to_vec();
        let take = move || {
            // Elsewhere it costs another's time, and does the same.
            let _ = pin_thread(&cpus);
            for (number, channel) in listener.incoming().enumerate() {
                if is_ended.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(channel) = channel else {
                    // Without descriptors it would fail again at once.
                    thread::sleep(Duration::from_millis(20));
                    continue;
                };
                // The next channel waits: the destination sees them in QEMU's order. One that cannot be handed on ends, as
                // QEMU sees.
                let target = &targets[number % targets.len()];
                if let Ok(stream) = TcpStream::connect_timeout(target, CONNECT) {
                    let _ = stream.set_nodelay(true);
                    let _ = join(channel, stream);
                }
            }
        };
        spawn(move || {
            // The threads that it starts are in the namespace, too.
            let _ = netns.run(take);
        })
        .map_err(LabError::system(
            "starting a thread for a migration's channels",
        ))?;
        Ok(Self {
            path: path.to_owned(),
            ended,
        })
    }
}

impl Drop for Spread {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // It wakes up, and sees that it is to end.
        let _ = UnixStream::connect(&self.path);
        let _ = std::fs::remove_file(&self.path);
    }
}

fn spawn(task: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new()
        .name("channel".to_owned())
        .spawn(task)
        .map(drop)
}

/// Moves bytes both ways from now on.
fn join(unix: UnixStream, tcp: TcpStream) -> io::Result<()> {
    let (unix_too, tcp_too) = (unix.try_clone()?, tcp.try_clone()?);
    spawn(move || {
        let ended = pump(&unix, &tcp);
        let _ = tcp.shutdown(Shutdown::Write);
        if ended.is_err() {
            let _ = unix.shutdown(Shutdown::Both);
        }
    })?;
    spawn(move || {
        let ended = pump(&tcp_too, &unix_too);
        let _ = unix_too.shutdown(Shutdown::Write);
        if ended.is_err() {
            let _ = tcp_too.shutdown(Shutdown::Both);
        }
    })
}

/// Moves bytes one way until there are no more.
fn pump(from: &impl AsFd, to: &impl AsFd) -> io::Result<()> {
    let (outlet, inlet) = pipe2(OFlag::O_CLOEXEC)?;
    // A small pipe takes more calls.
    let _ = fcntl(&inlet, FcntlArg::F_SETPIPE_SZ(CHUNK as i32));
    let step = |from: &dyn AsDescriptor, to: &dyn AsDescriptor, length| loop {
        match splice(
            from.descriptor(),
            None,
            to.descriptor(),
            None,
            length,
            SpliceFFlags::SPLICE_F_MOVE,
        ) {
            Err(Errno::EINTR) => {}
            other => break other,
        }
    };
    loop {
        let mut count = step(&from, &inlet, CHUNK)?;
        if count == 0 {
            return Ok(());
        }
        while count > 0 {
            match step(&outlet, &to, count)? {
                0 => return Err(ErrorKind::WriteZero.into()),
                moved => count -= moved,
            }
        }
    }
}

trait AsDescriptor {
    fn descriptor(&self) -> std::os::fd::BorrowedFd<'_>;
}

impl<T: AsFd> AsDescriptor for T {
    fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        self.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn channels_take_turns_and_bytes_go_both_ways() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("channels");
        let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let targets = listeners
            .iter()
            .map(|listener| listener.local_addr().unwrap());
        let netns = Netns::current().unwrap();
        let Ok(()) = netns.run(|| ()) else {
            let _ = writeln!(io::stderr(), "SKIPPED lab channels: needs root");
            return;
        };
        let spread = Spread::start(&path, netns, &[], targets.collect()).unwrap();
        let bytes: Vec<u8> = (0..3_000_000_u32)
            .map(|number| (number % 251) as u8)
            .collect();
        for number in 0..4 {
            let mut channel = UnixStream::connect(&path).unwrap();
            let (mut taken, _) = listeners[number % 2].accept().unwrap();
            let sent = bytes.clone();
            let sender = thread::spawn(move || {
                channel.write_all(&sent).unwrap();
                channel.shutdown(Shutdown::Write).unwrap();
                let mut back = String::new();
                channel.read_to_string(&mut back).unwrap();
                back
            });
            let mut received = Vec::new();
            taken.read_to_end(&mut received).unwrap();
            assert!(received == bytes, "{} bytes", received.len());
            taken.write_all(b"thanks").unwrap();
            drop(taken);
            assert_eq!(sender.join().unwrap(), "thanks");
        }
        drop(spread);
        assert!(UnixStream::connect(&path).is_err());
    }

    #[test]
    fn a_destination_that_is_not_there_ends_the_channel() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("channels");
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let netns = Netns::current().unwrap();
        let Ok(()) = netns.run(|| ()) else {
            let _ = writeln!(io::stderr(), "SKIPPED lab channels: needs root");
            return;
        };
        let _spread = Spread::start(&path, netns, &[], vec![free]).unwrap();
        let mut channel = UnixStream::connect(&path).unwrap();
        assert_eq!(channel.read(&mut [0; 8]).unwrap(), 0);
    }
}
