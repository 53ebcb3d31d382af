//! TCP jobs: streams, transactions on open connections, transactions with a connection each.
//!
//! ```text
//! prepare ─► stream        a thread per connection, blocking calls
//!         ─► exchange      one instance: a thread, blocking calls; several: an event loop per CPU
//!         ─► short_lived   the same for connect, request, response, close; its loops are `visits`
//! connection, acceptor, crew: what they share
//! ```

mod acceptor;
mod connection;
mod event_loop;
mod exchange;
mod short_lived;
mod stream;
#[cfg(test)]
mod tests;
mod visits;

use std::net::{IpAddr, SocketAddr};

use connection::{Endpoints, Options};

use crate::error::{TrafficError, in_range};
use crate::job::Job;
use crate::message::{MAX_MESSAGE_BYTES, Role, Work};
use crate::pacing::check_rate;

/// Sizes of a transaction.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    request_bytes: usize,
    response_bytes: usize,
}

/// Which side, for TCP.
#[derive(Clone, Copy, Debug)]
enum Side {
    Serve(IpAddr),
    Drive(Endpoints),
}

/// Sets a TCP job up.
pub(crate) fn prepare(
    instances: u32,
    work: &Work,
    role: &Role,
) -> Result<Box<dyn Job>, TrafficError> {
    match work {
        Work::TcpStream {
            message_bytes,
            buffer_bytes,
            congestion,
            direction,
            rate_mbps,
        } => {
            let side = side("tcp_stream", role)?;
            let message_bytes = size("message_bytes", *message_bytes)?;
            let options = options(*buffer_bytes, congestion.as_ref(), false)?;
            check_rate("rate_mbps", *rate_mbps)?;
            let messages = stream::Messages::new(message_bytes, *rate_mbps, instances);
            stream::prepare(instances, messages, *direction, &options, side)
        }
        Work::TcpRr {
            request_bytes,
            response_bytes,
            buffer_bytes,
            congestion,
        } => {
            let side = side("tcp_rr", role)?;
            let sizes = sizes(*request_bytes, *response_bytes)?;
            let options = options(*buffer_bytes, congestion.as_ref(), true)?;
            exchange::prepare(instances, sizes, &options, side)
        }
        Work::TcpCrr {
            request_bytes,
            response_bytes,
        } => {
            let side = side("tcp_crr", role)?;
            let sizes = sizes(*request_bytes, *response_bytes)?;
            short_lived::prepare(instances, sizes, side)
        }
        Work::UdpRr { .. } | Work::Udp { .. } | Work::Frames { .. } => {
            unreachable!("job::prepare sends other work elsewhere")
        }
    }
}

fn side(work: &'static str, role: &Role) -> Result<Side, TrafficError> {
    let wrong = |side| TrafficError::WrongRole {
        work,
        side,
        wanted: "serve or drive",
    };
    match role {
        Role::Serve { address } => Ok(Side::Serve(*address)),
        Role::Drive { from, to, ports } => {
            if from.is_ipv4() != to.is_ipv4() {
                return Err(TrafficError::Invalid {
                    what: "from",
                    value: from.to_string(),
                    wanted: format!("of the same family as {to}").into(),
                });
            }
            match ports[..] {
                [port] if port > 0 => Ok(Side::Drive(Endpoints {
                    from: *from,
                    to: SocketAddr::new(*to, port),
                })),
                _ => Err(TrafficError::Invalid {
                    what: "ports",
                    value: format!("{ports:?}"),
                    wanted: "the one port that the server's `ready` names".into(),
                }),
            }
        }
        Role::ServeFrames { .. } => Err(wrong("serve_frames")),
        Role::DriveFrames { .. } => Err(wrong("drive_frames")),
    }
}

fn sizes(request_bytes: u32, response_bytes: u32) -> Result<Sizes, TrafficError> {
    Ok(Sizes {
        request_bytes: size("request_bytes", request_bytes)?,
        response_bytes: size("response_bytes", response_bytes)?,
    })
}

fn size(what: &'static str, bytes: u32) -> Result<usize, TrafficError> {
    in_range(what, bytes.into(), 1, MAX_MESSAGE_BYTES.into())?;
    Ok(bytes as usize)
}

fn options(
    buffer_bytes: Option<u32>,
    congestion: Option<&String>,
    no_delay: bool,
) -> Result<Options, TrafficError> {
    if let Some(bytes) = buffer_bytes {
        in_range("buffer_bytes", bytes.into(), 1024, 1 << 30)?;
    }
    Ok(Options {
        buffer_bytes,
        congestion: congestion.cloned(),
        no_delay,
    })
}
