//! Raw-frame jobs: numbered frames one way, past the sending guest's IP stack and queueing discipline.
//!
//! ```text
//! lanes ─► template ─► send ──frames──► filter (in the kernel) ─► ring ─► receive
//! ```

mod filter;
mod receive;
mod send;
#[expect(
    unsafe_code,
    reason = "a receive ring is memory that the kernel writes to"
)]
mod sys;
mod template;

use std::io;
use std::os::fd::OwnedFd;

use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::error::TrafficError;
use crate::job::Job;
use crate::message::{Lane, Role, Work};
use crate::pacing::{Rate, check_rate};

use crate::workers::{Worker, Workers, shares};

use template::Template;

/// Bytes of FCS that belong to a frame on a wire, but that virtual devices do not have.
const FCS_BYTES: usize = 4;

/// Most streams: a number of 16 bits tells them apart.
const MOST_STREAMS: usize = 1 << 16;

/// A packet socket that receives nothing (protocol 0, packet(7)) as long as it is not bound to one.
fn packet_socket() -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::Packet, SockType::Raw);
    Ok(socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?)
}

/// Sets a raw-frame job up.
pub(crate) fn prepare(
    instances: u32,
    work: &Work,
    role: &Role,
) -> Result<Box<dyn Job>, TrafficError> {
    let Work::Frames {
        frame_bytes,
        rate_pps,
    } = *work
    else {
        unreachable!("job::prepare sends other work elsewhere")
    };
    check_rate("rate_pps", rate_pps)?;
    let wrong = |side| TrafficError::WrongRole {
        work: "frames",
        side,
        wanted: "serve_frames or drive_frames",
    };
    match role {
        Role::ServeFrames { devices } => serve(frame_bytes, rate_pps, devices),
        Role::DriveFrames { lanes } => drive(instances, frame_bytes, rate_pps, lanes),
        Role::Serve { .. } => Err(wrong("serve")),
        Role::Drive { .. } => Err(wrong("drive")),
    }
}

fn serve(
    frame_bytes: u32,
    rate_pps: Option<f64>,
    devices: &[String],
) -> Result<Box<dyn Job>, TrafficError> {
    template::check_size(frame_bytes, None)?;
    some("devices", devices)?;
    let (rings, counters) = receive::rings(devices)?.into_iter().unzip();
    let drops = receive::drops(counters);
    let receiver = receive::Receiver::new(frame_bytes as usize, rings);
    let job = Workers::new(vec![Box::new(receiver)])?
        .measuring_latency(rate_pps.is_some())
        .serving(Vec::new(), drops)?;
    Ok(Box::new(job))
}

fn drive(
    instances: u32,
    frame_bytes: u32,
    rate_pps: Option<f64>,
    lanes: &[Lane],
) -> Result<Box<dyn Job>, TrafficError> {
    some("lanes", lanes)?;
    let paths = paths(instances, frame_bytes, lanes)?;
    let shares = shares(paths);
    let threads = shares.len();
    let mut workers: Vec<Box<dyn Worker>> = Vec::new();
    for (thread, paths) in shares.into_iter().enumerate() {
        let rate = Rate::share(rate_pps, paths.len(), instances, thread, threads);
        let paths: Vec<Path> = paths.into_iter().flatten().collect();
        workers.push(Box::new(send::Sender::new(rate, paths)?));
    }
    Ok(Box::new(Workers::new(workers)?))
}

/// One stream of frames: an instance on a tag of a lane.
struct Path {
    stream: u16,
    device_index: libc::c_int,
    device: String,
    template: Template,
}

/// The paths of each instance.
fn paths(instances: u32, frame_bytes: u32, lanes: &[Lane]) -> Result<Vec<Vec<Path>>, TrafficError> {
    let each: usize = lanes.iter().map(|lane| lane.vlans.len().max(1)).sum();
    let all = each.saturating_mul(instances as usize);
    if all > MOST_STREAMS {
        return Err(TrafficError::Invalid {
            what: "lanes",
            value: format!("{each} tags for {instances} instances: {all} streams"),
            wanted: format!("at most {MOST_STREAMS} streams").into(),
        });
    }
    let mut streams = 0..=u16::MAX;
    let mut instance = || {
        let mut paths = Vec::new();
        for lane in lanes {
            let device_index = index(&lane.device)?;
            let mut add = |vlan| {
                let stream = streams.next().unwrap_or_default();
                paths.push(Path {
                    stream,
                    device_index,
                    device: lane.device.clone(),
                    template: Template::new(lane, vlan, stream, frame_bytes)?,
                });
                Ok(())
            };
            if lane.vlans.is_empty() {
                add(None)?;
            }
            lane.vlans.iter().try_for_each(|vlan| add(Some(*vlan)))?;
        }
        Ok(paths)
    };
    (0..instances).map(|_| instance()).collect()
}

/// The number of a device.
fn index(device: &str) -> Result<libc::c_int, TrafficError> {
    let found = if_nametoindex(device)
        .map_err(|errno| TrafficError::refused("find a device", device, errno))?;
    Ok(found as libc::c_int)
}

fn some<T>(what: &'static str, list: &[T]) -> Result<(), TrafficError> {
    if list.is_empty() {
        return Err(TrafficError::Invalid {
            what,
            value: "an empty list".into(),
            wanted: "at least one".into(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
