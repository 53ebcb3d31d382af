//! Changes of the ruleset of one namespace, whoever makes them: the kernel tells of each batch (nf_tables_api.c,
//! `nf_tables_gen_notify`).

use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::{Socket, protocols::NETLINK_NETFILTER};
use nix::errno::Errno;

use crate::error::{NetError, Place, errno_of};
use crate::netns::{self, NetnsId};

/// `NFNLGRP_NFTABLES` of linux/netfilter/nfnetlink.h.
const GROUP: libc::c_uint = 7;
/// Messages of one reading: a batch has one for each rule.
const MOST: usize = 4096;

/// Tells that somebody changed the ruleset, and not what: who wants to know that reads its own tables.
#[derive(Debug)]
pub struct RulesetEvents {
    socket: Socket,
    netns: NetnsId,
    buffer: Vec<u8>,
}

impl RulesetEvents {
    /// Begins to listen in the namespace of the calling thread.
    pub fn open() -> Result<Self, NetError> {
        let netns = netns::current_id()?;
        let refused = |error: std::io::Error| {
            let place = Place::new(None, netns::name_of(netns));
            NetError::refused("listen to nftables", place, errno_of(&error))
        };
        let mut socket = Socket::new(NETLINK_NETFILTER).map_err(refused)?;
        socket.set_non_blocking(true).map_err(refused)?;
        socket.bind_auto().map_err(refused)?;
        socket.add_membership(GROUP).map_err(refused)?;
        Ok(Self {
            socket,
            netns,
            buffer: Vec::new(),
        })
    }

    /// Whether anything was changed since the last time, without waiting.
    pub fn changed(&mut self) -> Result<bool, NetError> {
        let mut changed = false;
        for _ in 0..MOST {
            self.buffer.clear();
            match self.socket.recv_from(&mut self.buffer, libc::MSG_TRUNC) {
                Ok(_) => changed = true,
                Err(error) => match errno_of(&error) {
                    Errno::EAGAIN => break,
                    Errno::EINTR => {}
                    // More than the queue holds: then there were some.
                    Errno::ENOBUFS => changed = true,
                    errno => {
                        let place = Place::new(None, netns::name_of(self.netns));
                        return Err(NetError::refused("read of nftables", place, errno));
                    }
                },
            }
        }
        Ok(changed)
    }
}

impl AsFd for RulesetEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
