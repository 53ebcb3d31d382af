//! The netlink core: one request, its replies, its acknowledgement. `link`, `address`, `route` and
//! `neighbour` add the operations to [`Netlink`].

use std::borrow::Cow;
use std::cell::Cell;

use netlink_packet_core::{
    DecodeError, NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_DUMP_INTR,
    NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload, NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::errno::Errno;

use crate::error::{NetError, Place, errno_of};
use crate::netns::{self, Netns, NetnsId};

/// How often a dump that the kernel marks as interrupted by a change is asked for again.
const DUMP_ATTEMPTS: usize = 16;
const NLMSG_ALIGN: usize = 4;
const NLMSG_HEADER_LEN: usize = 16;
/// `NLMSGERR_ATTR_MSG`: the text of an extended acknowledgement.
const NLMSGERR_ATTR_MSG: u16 = 1;

/// A handle on the network configuration of one namespace.
///
/// It stays with the namespace it was opened in, whichever thread uses it.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: Cell<u32>,
    netns: NetnsId,
}

impl Netlink {
    /// Opens a handle in the namespace of the calling thread.
    pub fn new() -> Result<Self, NetError> {
        let netns = netns::current_id()?;
        let socket = open_socket().map_err(|error| {
            let place = Place::new(None, netns::name_of(netns));
            NetError::refused("open a netlink socket", place, errno_of(&error))
        })?;
        Ok(Self {
            socket,
            sequence: Cell::new(0),
            netns,
        })
    }

    /// Opens a handle in another namespace; the calling thread stays where it is.
    pub fn in_netns(netns: &Netns) -> Result<Self, NetError> {
        netns.run(Self::new)?
    }

    /// Sends a request and collects the replies, up to the acknowledgement or the end of the dump.
    pub(crate) fn call(
        &self,
        operation: impl Into<Cow<'static, str>>,
        device: Option<&str>,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Vec<RouteNetlinkMessage>, NetError> {
        let dump = flags & NLM_F_DUMP == NLM_F_DUMP;
        // Several NEW requests share bits with NLM_F_DUMP (REPLACE|EXCL); none of them sets both.
        let flags = NLM_F_REQUEST | flags | if dump { 0 } else { NLM_F_ACK };
        self.exchange(message, flags).map_err(|failure| {
            let (operation, place) = (operation.into(), self.place(device));
            match failure {
                Failure::Refused(errno, kernel_message) => NetError::Refused {
                    operation,
                    place,
                    errno,
                    kernel_message,
                },
                Failure::Decode(source) => NetError::Decode {
                    operation,
                    place,
                    source,
                },
            }
        })
    }

    /// This handle's place, for errors.
    pub(crate) fn place(&self, device: Option<&str>) -> Place {
        Place::new(device, netns::name_of(self.netns))
    }

    fn exchange(
        &self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Vec<RouteNetlinkMessage>, Failure> {
        let mut request =
            NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(message));
        request.header.flags = flags;
        for _ in 0..DUMP_ATTEMPTS {
            let sequence = self.sequence.get().wrapping_add(1);
            self.sequence.set(sequence);
            request.header.sequence_number = sequence;
            request.finalize();
            let mut bytes = vec![0; request.buffer_len()];
            request.serialize(&mut bytes);
            self.socket.send(&bytes, 0)?;
            if let Some(replies) = self.receive(sequence)? {
                return Ok(replies);
            }
        }
        Err(Failure::Refused(Errno::EINTR, None))
    }

    /// The replies to one request; `None` if a change interrupted the dump.
    fn receive(&self, sequence: u32) -> Result<Option<Vec<RouteNetlinkMessage>>, Failure> {
        let mut replies = Vec::new();
        let mut interrupted = false;
        loop {
            let datagram = match self.socket.recv_from_full() {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                other => other?.0,
            };
            let mut rest = datagram.as_slice();
            while !rest.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)?;
                let length = message.header.length as usize;
                rest = rest
                    .get(length.next_multiple_of(NLMSG_ALIGN)..)
                    .unwrap_or_default();
                // Left over from a request that ended in a decoding error.
                if message.header.sequence_number != sequence {
                    continue;
                }
                interrupted |= message.header.flags & NLM_F_DUMP_INTR != 0;
                match message.payload {
                    NetlinkPayload::InnerMessage(reply) => replies.push(reply),
                    NetlinkPayload::Error(error) if error.code.is_none() => {
                        return Ok(Some(replies));
                    }
                    NetlinkPayload::Error(error) => {
                        let text = kernel_message(message.header.flags, &error.header);
                        return Err(refused(error.raw_code(), text));
                    }
                    NetlinkPayload::Done(done) if done.code == 0 => {
                        return Ok((!interrupted).then_some(replies));
                    }
                    NetlinkPayload::Done(done) => return Err(refused(done.code, None)),
                    _ => {}
                }
            }
        }
    }
}

/// A request that did not succeed, before it is known what it was for.
enum Failure {
    Refused(Errno, Option<String>),
    Decode(DecodeError),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Refused(errno_of(&error), None)
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

fn refused(code: i32, text: Option<String>) -> Failure {
    Failure::Refused(Errno::from_raw(code.wrapping_neg()), text)
}

fn open_socket() -> std::io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    // Errors then carry the kernel's own words, and not a copy of the request.
    socket.set_ext_ack(true)?;
    socket.set_cap_ack(true)?;
    Ok(socket)
}

/// The text of an extended acknowledgement (netlink(7), NETLINK_EXT_ACK). After the error code come the
/// header of the request, its payload unless capped, then attributes.
pub(crate) fn kernel_message(flags: u16, after_code: &[u8]) -> Option<String> {
    if flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let request_len = if flags & NLM_F_CAPPED != 0 {
        NLMSG_HEADER_LEN
    } else {
        u32::from_ne_bytes(*after_code.first_chunk()?) as usize
    };
    let attributes = after_code.get(request_len.next_multiple_of(NLMSG_ALIGN)..)?;
    NlasIterator::new(attributes)
        .flatten()
        .find(|attribute| attribute.kind() == NLMSGERR_ATTR_MSG)
        .map(|attribute| {
            String::from_utf8_lossy(attribute.value())
                .trim_end_matches('\0')
                .to_owned()
        })
        .filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn header(length: u32) -> Vec<u8> {
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.resize(NLMSG_HEADER_LEN, 0);
        bytes
    }

    #[test]
    fn text_of_an_extended_acknowledgement() {
        let offset = attribute(2, &[1, 0, 0, 0]);
        let text = attribute(NLMSGERR_ATTR_MSG, b"Device does not exist\0");
        let capped = [header(40), offset.clone(), text.clone()].concat();
        let whole = [header(24), vec![0xff; 8], text].concat();
        let expected = Some("Device does not exist");
        assert_eq!(
            kernel_message(NLM_F_ACK_TLVS | NLM_F_CAPPED, &capped).as_deref(),
            expected
        );
        assert_eq!(kernel_message(NLM_F_ACK_TLVS, &whole).as_deref(), expected);
        assert_eq!(kernel_message(0, &capped), None);
        assert_eq!(
            kernel_message(NLM_F_ACK_TLVS, &[header(16), offset].concat()),
            None
        );
        assert_eq!(kernel_message(NLM_F_ACK_TLVS, &[]), None);
    }
}
