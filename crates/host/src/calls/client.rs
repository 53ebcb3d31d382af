//! Asking the agent of a host.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::{Answer, Answered, Asked, Call, LONGEST, VERSION};
use crate::HostError;
use crate::lib::paths;

/// Whether an agent keeps this host right now.
pub fn is_kept(host: &str) -> bool {
    UnixStream::connect(paths::socket(host)).is_ok()
}

/// Asks the agent of a host, if it has one.
pub fn ask(host: &str, call: &Call) -> Result<Option<Answer>, HostError> {
    let stream = match UnixStream::connect(paths::socket(host)) {
        Ok(stream) => stream,
        Err(error) if is_nobody(&error) => return Ok(None),
        Err(error) => return Err(HostError::file("connect to", &paths::socket(host))(error)),
    };
    let failed = |source: io::Error| HostError::Agent {
        host: host.to_owned(),
        why: match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not answer".to_owned(),
            io::ErrorKind::UnexpectedEof => "it ended before it answered".to_owned(),
            _ => source.to_string(),
        },
    };
    let answered = talk(stream, call).map_err(failed)?;
    if answered.version != VERSION {
        let why = format!(
            "it speaks version {}, and this program version {VERSION}",
            answered.version
        );
        return Err(HostError::Agent {
            host: host.to_owned(),
            why,
        });
    }
    Ok(Some(answered.answer))
}

fn talk(mut stream: UnixStream, call: &Call) -> io::Result<Answered> {
    stream.set_read_timeout(Some(patience(call)))?;
    stream.set_write_timeout(Some(patience(call)))?;
    let asked = Asked {
        version: VERSION,
        call: call.clone(),
    };
    let mut line = serde_json::to_vec(&asked)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    let read = BufReader::new(stream)
        .take(LONGEST)
        .read_line(&mut answer)?;
    if read == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&answer)?)
}

/// An agent does one thing at a time, and a large fabric takes its time.
const fn patience(call: &Call) -> Duration {
    Duration::from_secs(match call {
        Call::Status => 5,
        Call::Apply { .. } | Call::Accept => 120,
    })
}

/// No socket, or one that an agent left behind.
fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}
