//! Tables of nftables that drop what comes in by devices with certain names, and what the host sends out by them.
//!
//! The kernel is asked directly (nfnetlink, linux/netfilter/nf_tables.h), so that nobody needs the program `nft`.
//! Whatever changes a table is one batch: a packet meets the table before or the one after, never a part. As `nft`
//! shows such a table:
//!
//! ```text
//!   table inet NAME {
//!       set ports { type ifname; size 16384; elements = { "web1", … } }
//!       chain prerouting {
//!           type filter hook prerouting priority -500; policy accept;
//!           iifname @ports counter drop
//!       }
//!       chain postrouting {
//!           type filter hook postrouting priority -500; policy accept;
//!           oifname @ports counter drop
//!       }
//!   }
//! ```

mod events;
mod message;

pub use self::events::RulesetEvents;

use std::cell::Cell;
use std::collections::BTreeSet;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_DUMP_INTR, NetlinkBuffer};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};

use crate::error::{NetError, Place, errno_of};
use crate::netlink::kernel_message;
use crate::netns::{self, NetnsId};

/// How often a dump that a change interrupted is asked for again.
const DUMP_ATTEMPTS: usize = 16;
const NLMSG_ALIGN: usize = 4;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// A family of packets; each has tables of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4 and IPv6.
    Inet,
    /// ARP.
    Arp,
    /// Frames that come to a Linux bridge.
    Bridge,
}

/// A place where packets are looked at.
#[derive(Debug, Clone, Copy)]
struct Chain {
    /// As `nft` calls the hook.
    name: &'static str,
    /// Number of the hook in its family.
    hook: u32,
    /// Which device's name counts.
    way: Way,
}

/// Where a packet goes, as the host sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It came in by the device.
    In,
    /// It is about to leave by the device.
    Out,
}

impl Chain {
    const fn incoming(name: &'static str, hook: u32) -> Self {
        let way = Way::In;
        Self { name, hook, way }
    }

    const fn outgoing(name: &'static str, hook: u32) -> Self {
        let way = Way::Out;
        Self { name, hook, way }
    }
}

/// What the rules of a table stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// How many packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl std::ops::AddAssign for Dropped {
    fn add_assign(&mut self, more: Self) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

/// What there is of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DropTable {
    /// The names of the devices.
    pub devices: BTreeSet<String>,
    /// Chains and rules are as [`Nftables::write`] makes them.
    pub is_whole: bool,
    /// What came in by a device.
    pub incoming: Dropped,
    /// What the host sent, or forwarded, to one.
    pub outgoing: Dropped,
}

impl DropTable {
    /// Whether it is as [`Nftables::write`] makes it for these devices.
    #[must_use]
    pub fn is_for(&self, devices: &BTreeSet<String>) -> bool {
        self.is_whole && self.devices == *devices
    }
}

/// A handle on the tables of one namespace.
#[derive(Debug)]
pub struct Nftables {
    socket: Socket,
    sequence: Cell<u32>,
    netns: NetnsId,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Inet, Self::Arp, Self::Bridge];

    /// As `nft` writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inet => "inet",
            Self::Arp => "arp",
            Self::Bridge => "bridge",
        }
    }

    /// `NFPROTO_*` of linux/netfilter.h.
    const fn number(self) -> u8 {
        match self {
            Self::Inet => 1,
            Self::Arp => 3,
            Self::Bridge => 7,
        }
    }

    /// Where all packets of the family come by first, and where all that leave come by: what a program redirects to a
    /// device leaves past them.
    const fn chains(self) -> &'static [Chain] {
        const PREROUTING: Chain = Chain::incoming("prerouting", 0);
        const POSTROUTING: Chain = Chain::outgoing("postrouting", 4);
        const ARP: &[Chain] = &[Chain::incoming("input", 0), Chain::outgoing("output", 1)];
        // A bridge takes frames to its own group addresses past prerouting (net/bridge/br_input.c), and sends what it
        // says itself past postrouting (net/bridge/br_stp_bpdu.c, br_multicast.c).
        const BRIDGE: &[Chain] = &[
            PREROUTING,
            Chain::incoming("input", 1),
            Chain::outgoing("output", 3),
            POSTROUTING,
        ];
        match self {
            Self::Inet => &[PREROUTING, POSTROUTING],
            Self::Arp => ARP,
            Self::Bridge => BRIDGE,
        }
    }
}

/// Whether an error says that this kernel cannot do it: it has no nftables, or not for this family.
#[must_use]
pub fn is_unsupported(error: &NetError) -> bool {
    let answers = [
        Errno::EOPNOTSUPP,
        Errno::EPROTONOSUPPORT,
        Errno::EAFNOSUPPORT,
        // There is no such type of chain, or of expression.
        Errno::ENOENT,
    ];
    let errno = error.errno();
    answers.iter().any(|answer| errno == Some(*answer as i32))
}

impl Nftables {
    /// Opens a handle in the namespace of the calling thread.
    pub fn new() -> Result<Self, NetError> {
        let netns = netns::current_id()?;
        let socket = open_socket().map_err(|errno| {
            let place = Place::new(None, netns::name_of(netns));
            NetError::refused("open a netlink socket for nftables", place, errno)
        })?;
        Ok(Self {
            socket,
            sequence: Cell::new(0),
            netns,
        })
    }

    /// What there is of the table; none where the kernel has no nftables.
    pub fn read(&self, family: Family, table: &str) -> Result<Option<DropTable>, NetError> {
        let ask = |question| self.ask(family, table, question);
        let Some(flags) = ask(message::get_table(family, table))? else {
            return Ok(None);
        };
        let mut found = DropTable {
            // A dormant one drops nothing.
            is_whole: flags.iter().all(|reply| message::table_is_active(reply)),
            ..DropTable::default()
        };
        let elements = ask(message::get_elements(family, table))?;
        found.is_whole &= elements.is_some();
        for reply in elements.iter().flatten() {
            found.devices.extend(message::element_names(reply));
        }
        for chain in family.chains() {
            let is_there = ask(message::get_chain(family, table, *chain))?;
            found.is_whole &= is_there.is_some_and(|replies| {
                let mut replies = replies.iter();
                replies.any(|reply| message::chain_is(reply, *chain))
            });
            let rules = ask(message::get_rules(family, table, *chain))?;
            let rules = rules.unwrap_or_default();
            found.is_whole &= rules.len() == 1;
            for reply in &rules {
                let rule = message::rule(reply, *chain);
                found.is_whole &= rule.is_ours;
                match chain.way {
                    Way::In => found.incoming += rule.dropped,
                    Way::Out => found.outgoing += rule.dropped,
                }
            }
        }
        Ok(Some(found))
    }

    /// Makes the table anew, whatever there is of it; it begins to count.
    pub fn write(
        &self,
        family: Family,
        table: &str,
        comment: &str,
        devices: &BTreeSet<String>,
    ) -> Result<(), NetError> {
        let mut messages = vec![
            message::destroy_table(family, table),
            message::new_table(family, table, comment),
            message::new_set(family, table),
        ];
        messages.extend(message::new_elements(family, table, devices));
        for chain in family.chains() {
            messages.push(message::new_chain(family, table, *chain));
            messages.push(message::new_rule(family, table, *chain));
        }
        self.commit(format!("write table {table}"), family, messages)
    }

    /// Gives a table other devices; it goes on counting.
    pub fn replace_devices(
        &self,
        family: Family,
        table: &str,
        devices: &BTreeSet<String>,
    ) -> Result<(), NetError> {
        let mut messages = vec![message::flush_elements(family, table)];
        messages.extend(message::new_elements(family, table, devices));
        self.commit(
            format!("write the devices of table {table}"),
            family,
            messages,
        )
    }

    /// Takes the table away; that it is not there is no error.
    pub fn destroy(&self, family: Family, table: &str) -> Result<(), NetError> {
        let messages = vec![message::destroy_table(family, table)];
        self.commit(format!("remove table {table}"), family, messages)
    }

    /// A question. None: there is no such thing, or nobody who would know.
    fn ask(
        &self,
        family: Family,
        table: &str,
        mut question: Vec<u8>,
    ) -> Result<Option<Vec<Vec<u8>>>, NetError> {
        let is_dump = question
            .get(6..8)
            .and_then(|flags| flags.first_chunk())
            .is_some_and(|flags| u16::from_ne_bytes(*flags) & NLM_F_DUMP == NLM_F_DUMP);
        for _ in 0..DUMP_ATTEMPTS {
            let sequence = self.next_sequence();
            message::set_sequence(&mut question, sequence);
            let answers = self.exchange(&question)?;
            if answers.interrupted {
                continue;
            }
            return match answers.error {
                // Without nftables the kernel knows the question less than its answer.
                Some((Errno::ENOENT | Errno::EINVAL | Errno::EOPNOTSUPP, _)) => Ok(None),
                Some((errno, text)) => {
                    Err(self.refused(format!("read table {table}"), family, errno, text))
                }
                None if is_dump && !answers.done => {
                    let operation = format!("read table {table}");
                    Err(self.refused(operation, family, Errno::EIO, None))
                }
                None => Ok(Some(answers.replies)),
            };
        }
        Err(self.refused(format!("read table {table}"), family, Errno::EINTR, None))
    }

    /// All of it, or nothing.
    fn commit(
        &self,
        operation: String,
        family: Family,
        messages: Vec<Vec<u8>>,
    ) -> Result<(), NetError> {
        let wanted = messages.len();
        let mut batch = Vec::new();
        let begin = std::iter::once(message::batch_begin());
        let end = std::iter::once(message::batch_end());
        for mut each in begin.chain(messages).chain(end) {
            message::set_sequence(&mut each, self.next_sequence());
            batch.extend(each);
        }
        let answers = self.exchange(&batch)?;
        match answers.error {
            Some((errno, text)) => Err(self.refused(operation, family, errno, text)),
            None if answers.acknowledged == wanted => Ok(()),
            None => Err(self.refused(operation, family, Errno::EIO, None)),
        }
    }

    fn next_sequence(&self) -> u32 {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        sequence
    }

    /// Sends, and takes all answers. The kernel does the work while it is sent (net/netlink/af_netlink.c,
    /// `netlink_unicast_kernel`): who waits for another answer waits in vain.
    fn exchange(&self, bytes: &[u8]) -> Result<Answers, NetError> {
        let failed = |error: std::io::Error| {
            let place = Place::new(None, netns::name_of(self.netns));
            NetError::refused("speak with nftables", place, errno_of(&error))
        };
        self.socket.send(bytes, 0).map_err(failed)?;
        let mut answers = Answers::default();
        loop {
            match self.socket.recv_from_full() {
                Ok((datagram, _)) => answers.take(&datagram),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(answers),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    fn refused(
        &self,
        operation: String,
        family: Family,
        errno: Errno,
        kernel_message: Option<String>,
    ) -> NetError {
        NetError::Refused {
            operation: format!("{operation} of nftables, family {}", family.name()).into(),
            place: Place::new(None, netns::name_of(self.netns)),
            errno,
            kernel_message,
        }
    }
}

/// What came back.
#[derive(Debug, Default)]
struct Answers {
    /// Contents of messages, without their headers.
    replies: Vec<Vec<u8>>,
    acknowledged: usize,
    /// The first one.
    error: Option<(Errno, Option<String>)>,
    /// A dump is complete.
    done: bool,
    /// A change came between the parts of a dump.
    interrupted: bool,
}

impl Answers {
    fn take(&mut self, datagram: &[u8]) {
        let mut rest = datagram;
        while let Ok(message) = NetlinkBuffer::new_checked(rest) {
            let payload = message.payload();
            self.interrupted |= message.flags() & NLM_F_DUMP_INTR != 0;
            match message.message_type() {
                NLMSG_ERROR | NLMSG_DONE => {
                    let code = payload
                        .first_chunk()
                        .map_or(0, |code| i32::from_ne_bytes(*code));
                    if code != 0 {
                        let text =
                            kernel_message(message.flags(), payload.get(4..).unwrap_or_default());
                        let errno = Errno::from_raw(code.wrapping_neg());
                        self.error.get_or_insert((errno, text));
                    } else if message.message_type() == NLMSG_DONE {
                        self.done = true;
                    } else {
                        self.acknowledged += 1;
                    }
                }
                _ => self.replies.push(payload.to_vec()),
            }
            let length = (message.length() as usize).next_multiple_of(NLMSG_ALIGN);
            rest = rest.get(length..).unwrap_or_default();
        }
    }
}

fn open_socket() -> Result<Socket, Errno> {
    let mut socket = Socket::new(NETLINK_NETFILTER).map_err(|error| errno_of(&error))?;
    let prepare = |socket: &mut Socket| {
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_ext_ack(true)?;
        socket.set_cap_ack(true)?;
        socket.set_non_blocking(true)
    };
    prepare(&mut socket).map_err(|error| errno_of(&error))?;
    // A batch is one datagram, whatever number of devices it names.
    setsockopt(&socket, sockopt::SndBufForce, &message::LONGEST_BATCH)?;
    Ok(socket)
}
