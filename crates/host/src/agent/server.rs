//! The socket on which an agent is called: root's alone, and gone with the agent.

use std::fs::{self, Permissions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use crate::HostError;
use crate::calls::{Answer, Answered, Asked, Call, Refused, VERSION};
use crate::lib::{files, paths};

/// Who calls has its line ready: the loop waits no longer for it.
const PATIENCE: Duration = Duration::from_millis(200);
/// The longest call.
const LONGEST: u64 = 64 << 10;

/// Takes calls.
#[derive(Debug)]
pub(super) struct Server {
    listener: UnixListener,
    path: PathBuf,
}

/// Somebody who waits for an answer.
#[derive(Debug)]
pub(super) struct Caller(UnixStream);

impl Server {
    /// In place of what an agent left behind. Who calls this holds the lock of the agent.
    pub(super) fn open(host: &str) -> Result<Self, HostError> {
        files::run_folder()?;
        let path = paths::socket(host);
        files::remove(&path)?;
        let failed = |error| HostError::file("listen on", &path)(error);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { listener, path })
    }

    /// The next call, if there is one. One that makes no sense is answered here.
    pub(super) fn call(&self) -> Option<(Caller, Call)> {
        loop {
            let (stream, _) = self.listener.accept().ok()?;
            let mut caller = Caller(stream);
            match caller.asked() {
                Ok(Asked {
                    version: VERSION,
                    call,
                }) => return Some((caller, call)),
                Ok(Asked { version, .. }) => {
                    let error = format!("this agent speaks version {VERSION}, and not {version}");
                    caller.refuse(
                        error,
                        Some("restart the agent: another version of the program runs".to_owned()),
                    );
                }
                // It only looked whether somebody is here.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(error) => caller.refuse(format!("not a call: {error}"), None),
            }
        }
    }
}

impl AsFd for Server {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Caller {
    fn asked(&mut self) -> io::Result<Asked> {
        self.0.set_nonblocking(false)?;
        self.0.set_read_timeout(Some(PATIENCE))?;
        self.0.set_write_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        let read = BufReader::new(&self.0).take(LONGEST).read_line(&mut line)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Who went away needs no answer.
    pub(super) fn answer(mut self, answer: Answer) {
        let answered = Answered {
            version: VERSION,
            answer,
        };
        if let Ok(mut line) = serde_json::to_vec(&answered) {
            line.push(b'\n');
            let _ = self.0.write_all(&line);
        }
    }

    fn refuse(self, error: String, help: Option<String>) {
        self.answer(Answer::Refused(Refused {
            error,
            help,
            code: 2,
        }));
    }
}
