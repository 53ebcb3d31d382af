//! The first and only process of the laboratory's virtual machines.
//!
//! ```text
//!  /dev/ttyS0  console: the kernel, and what went wrong
//!  /dev/ttyS1  control: `up …` once; then orders in, answers out, a line each (control.rs)
//!  eth0        TCP and UDP echo, port 7 (echo.rs); frames that do not belong here are counted (frames.rs)
//! ```
//!
//! The laboratory compiles it into a static program that is `/init` of an initial RAM disk (`crates/lab/src/vm`). It
//! waits wherever it has nothing to do: where the machine is emulated, each of its steps is dear.

mod boot;
mod control;
mod counters;
mod echo;
mod frames;
mod memory;
mod sequence;
#[expect(
    unsafe_code,
    reason = "system calls that the standard library does not have"
)]
mod sys;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    // It mounts, and it ends the machine: nothing to try on a machine that does something else.
    if std::process::id() != 1 || !Path::new(boot::MODULES).is_dir() {
        eprintln!(
            "error: this is the first process of a virtual machine of `overlane lab`; it does nothing elsewhere"
        );
        return ExitCode::from(2);
    }
    let Err(reason) = run();
    // The console's file outlives the machine.
    println!("overlane-guest: {reason}");
    sys::power_off()
}

fn run() -> Result<std::convert::Infallible, String> {
    let settings = boot::boot()?;
    let counters = Arc::new(counters::Counters::default());
    if let Some(network) = &settings {
        let device = boot::raise_network(network)?;
        frames::watch(&device, network.mac, &counters)?;
        echo::serve(network.address, &counters)?;
    }
    control::serve(settings.as_ref(), &counters)
}
