//! Programs that go on when their parent has ended.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::sys;

/// Starts a program that nothing ties to this one: it has a session of its own, and neither the terminal nor any
/// open file of this process.
pub fn detach(program: &Path, arguments: &[&str]) -> std::io::Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir("/");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    sys::detach_before_exec(&mut command);
    command.spawn().map(drop)
}
