//! A packet socket on one device, for the path proof: it hears whole headers, with the VLAN tag where a wire
//! has it, and sends raw frames. What the frames are says [`frames`](crate::proof::frames).

use crate::error::LabError;
use crate::machine::sys;
use crate::topology::Node;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType,
    recvmsg, send, socket,
};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Enough of a frame for every header.
const SNAP: usize = 256;

/// What a packet socket says of a frame besides its bytes.
struct Seen {
    length: usize,
    /// The tag beside the bytes.
    tag: Option<[u8; 4]>,
}

/// A packet socket on one device: sees what leaves and what arrives.
pub(crate) struct Capture {
    socket: OwnedFd,
}

impl Capture {
    pub(crate) fn open(node: &Node, device: &str) -> Result<Self, LabError> {
        let index = node.netlink.link(device)?.index;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let opened = node.netns.run(|| {
            socket(
                AddressFamily::Packet,
                SockType::Raw,
                flags,
                SockProtocol::EthAll,
            )
        })?;
        let socket = opened.map_err(LabError::system("opening a packet socket"))?;
        sys::tell_tags(socket.as_fd()).map_err(LabError::system("asking for VLAN tags"))?;
        let bound = sys::bind_to_device(socket.as_fd(), index);
        bound.map_err(LabError::system("binding a packet socket to its device"))?;
        let capture = Self { socket };
        // What it heard of other devices before it was bound.
        capture.drain(|_| {})?;
        Ok(capture)
    }

    /// Sends a frame, its tag in the bytes.
    pub(crate) fn send(&self, frame: &[u8]) -> Result<(), LabError> {
        let sent = send(self.socket.as_raw_fd(), frame, MsgFlags::empty());
        sent.map(drop)
            .map_err(LabError::system("sending a raw frame"))
    }

    /// Hands over every frame that the device has seen, its tag in the bytes. The buffer holds the burst's
    /// headers and not all of its payload: what is dropped at the end is more of the same.
    pub(crate) fn drain(&self, mut frame: impl FnMut(&[u8])) -> Result<(), LabError> {
        let mut buffer = [0; SNAP];
        while let Some(seen) = self.receive(&mut buffer)? {
            frame(&restored(&buffer[..seen.length.min(SNAP)], seen.tag));
        }
        Ok(())
    }

    /// The next frame, cut to the buffer; `None` when there is no more.
    fn receive(&self, buffer: &mut [u8]) -> Result<Option<Seen>, LabError> {
        let failed = |errno| LabError::system("reading captured packets")(errno);
        let mut control = nix::cmsg_space!([u8; AUXDATA]);
        let mut bytes = [IoSliceMut::new(buffer)];
        let (socket, flags) = (self.socket.as_raw_fd(), MsgFlags::empty());
        let message = match recvmsg::<LinkAddr>(socket, &mut bytes, Some(&mut control), flags) {
            Ok(message) => message,
            Err(Errno::EAGAIN) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        Ok(Some(Seen {
            length: message.bytes,
            tag: message.cmsgs().map_err(failed)?.find_map(|each| tag(&each)),
        }))
    }
}

/// `struct tpacket_auxdata` of linux/if_packet.h: status, len and snaplen of 32 bits, then mac, net,
/// vlan_tci and vlan_tpid of 16.
const AUXDATA: usize = 20;

/// The tag that the kernel keeps beside the bytes, as four bytes of a frame.
fn tag(message: &ControlMessageOwned) -> Option<[u8; 4]> {
    let ControlMessageOwned::Unknown(unknown) = message else {
        return None;
    };
    let header = &unknown.cmsg_header;
    if (header.cmsg_level, header.cmsg_type) != (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
        return None;
    }
    tag_of_auxdata(&unknown.data_bytes)
}

fn tag_of_auxdata(data: &[u8]) -> Option<[u8; 4]> {
    let word = |at: usize| Some(u16::from_ne_bytes(data.get(at..at + 2)?.try_into().ok()?));
    let status = u32::from_ne_bytes(data.get(..4)?.try_into().ok()?);
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let [[a, b], [c, d]] = [word(18)?.to_be_bytes(), word(16)?.to_be_bytes()];
    Some([a, b, c, d])
}

/// The frame with its tag where a wire has it.
fn restored(bytes: &[u8], tag: Option<[u8; 4]>) -> Vec<u8> {
    let mut frame = bytes.to_vec();
    if let Some(tag) = tag
        && frame.len() >= 12
    {
        frame.splice(12..12, tag);
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::frames::tests::{A, B, ip, tagged};

    const VLAN: u16 = 100;

    #[test]
    fn a_tag_beside_the_bytes_is_put_back() {
        let frame = ip(A, B, 6, &[]);
        let mut auxdata = [0; AUXDATA];
        auxdata[16..18].copy_from_slice(&(0xa000 | VLAN).to_ne_bytes());
        auxdata[18..].copy_from_slice(&0x8100_u16.to_ne_bytes());
        assert_eq!(
            restored(&frame, tag_of_auxdata(&auxdata)),
            frame,
            "not valid"
        );
        auxdata[..4].copy_from_slice(&libc::TP_STATUS_VLAN_VALID.to_ne_bytes());
        let put_back = restored(&frame, tag_of_auxdata(&auxdata));
        assert_eq!(put_back, tagged(VLAN, &frame));
        assert_eq!(tag_of_auxdata(&auxdata[..19]), None);
    }
}
