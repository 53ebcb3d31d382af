//! Sockets as every job wants them: bound to an address, with the buffers that the order asks for.
//! Used by `tcp` and by whoever has a `buffer_bytes`.

use std::os::fd::AsFd;

use crate::error::TrafficError;
use crate::sys;

/// Sets SO_SNDBUF and SO_RCVBUF and makes sure that they took: a machine's limit (net.core.wmem_max) would
/// otherwise shorten them silently.
pub(crate) fn set_buffers(socket: &impl AsFd, bytes: u32) -> Result<(), TrafficError> {
    let pairs = [
        (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE, "net.core.wmem_max"),
        (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, "net.core.rmem_max"),
    ];
    let wanted = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX / 2);
    for (plain, force, limit) in pairs {
        let refused = |source| TrafficError::Refused {
            operation: format!("give a socket {bytes} bytes of buffer").into(),
            place: limit.to_owned(),
            source,
            help: format!("raise {limit}, or ask for less").into(),
        };
        sys::set_option(socket, libc::SOL_SOCKET, plain, wanted).map_err(refused)?;
        // The kernel keeps twice the value, for its own needs (socket(7)).
        let kept = sys::option(socket, libc::SOL_SOCKET, plain).map_err(refused)?;
        if i64::from(kept) < 2 * i64::from(wanted) {
            sys::set_option(socket, libc::SOL_SOCKET, force, wanted).map_err(refused)?;
        }
    }
    Ok(())
}
