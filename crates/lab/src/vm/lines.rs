//! A socket on which both sides say a line at a time: QEMU's monitor, and the guest's second serial port.

use crate::error::LabError;
use crate::machine::interrupt::Interrupts;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Until the other side has taken a line.
const SEND: Duration = Duration::from_secs(10);

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A line, without its end.
    Line(String),
    /// Nothing in time.
    Silence,
    /// The other side is gone.
    End,
}

/// One side of such a socket.
pub(super) struct Lines {
    stream: UnixStream,
    /// What came and is no whole line yet, or was not asked for.
    bytes: Vec<u8>,
}

impl Lines {
    pub(super) fn new(stream: UnixStream) -> Result<Self, LabError> {
        let failed = "setting up a socket of a virtual machine";
        stream
            .set_nonblocking(true)
            .map_err(LabError::system(failed))?;
        Ok(Self {
            stream,
            bytes: Vec::new(),
        })
    }

    /// Says a line; false: the other side is gone, or takes nothing.
    pub(super) fn say(&mut self, interrupts: &Interrupts, line: &str) -> Result<bool, LabError> {
        let line = format!("{line}\n");
        let (mut rest, end) = (line.as_bytes(), Instant::now() + SEND);
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if is_transient(&error) && Instant::now() < end => {
                    interrupts.wait(Duration::from_millis(5))?;
                }
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The next line, if it comes until `end`.
    pub(super) fn hear(
        &mut self,
        interrupts: &Interrupts,
        end: Instant,
    ) -> Result<Heard, LabError> {
        loop {
            if let Some(at) = self.bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.bytes.drain(..=at).collect();
                return Ok(Heard::Line(
                    String::from_utf8_lossy(&line).trim().to_owned(),
                ));
            }
            let mut chunk = [0; 16 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(Heard::End),
                Ok(count) => self.bytes.extend_from_slice(&chunk[..count]),
                Err(error) if is_transient(&error) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if !interrupts.wait_for(self.stream.as_fd(), left)? {
                        return Ok(Heard::Silence);
                    }
                }
                Err(_) => return Ok(Heard::End),
            }
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_silence_and_the_end() {
        let interrupts = Interrupts::take_over().unwrap();
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut lines = Lines::new(one).unwrap();
        let mut hear = |ms| {
            lines
                .hear(&interrupts, Instant::now() + Duration::from_millis(ms))
                .unwrap()
        };
        other.write_all(b"first\r\nsecond\nthi").unwrap();
        assert_eq!(hear(1000), Heard::Line("first".into()));
        assert_eq!(hear(0), Heard::Line("second".into()));
        assert_eq!(hear(20), Heard::Silence);
        other.write_all(b"rd\n").unwrap();
        assert_eq!(hear(1000), Heard::Line("third".into()));
        drop(other);
        assert_eq!(hear(1000), Heard::End);
        assert!(!lines.say(&interrupts, "nobody there").unwrap());
    }
}
