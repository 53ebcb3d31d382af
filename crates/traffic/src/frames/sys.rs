//! A receive ring of a packet socket (TPACKET_V3, Documentation/networking/packet_mmap.rst): the kernel
//! puts the beginnings of frames into blocks of shared memory and hands over a block when it is full or old.
//!
//! ```text
//!  block 0            block 1            block 2
//! ┌──────────────────┬──────────────────┬──────────────────┐
//! │ header frame … … │ header frame …   │ (the kernel's)   │
//! └──────────────────┴──────────────────┴──────────────────┘
//!    TP_STATUS_USER: ours      0: the kernel's
//! ```

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::{tpacket_block_desc, tpacket_req3, tpacket3_hdr};

use crate::sys::set_option;

/// Bytes of a block: a whole number of pages.
const BLOCK_BYTES: usize = 64 * 1024;
/// After how long the kernel hands over a block that is not full.
const RETIRE_MS: u32 = 4;

/// One frame of a ring.
pub(super) struct RingFrame<'a> {
    /// Its beginning.
    pub(super) bytes: &'a [u8],
    /// Its length on the way.
    pub(super) length: usize,
    /// When the kernel took it, CLOCK_REALTIME.
    pub(super) at_ns: u64,
}

/// A packet socket with its ring.
pub(super) struct Ring {
    socket: OwnedFd,
    memory: NonNull<u8>,
    blocks: usize,
    /// The block that is handed over next.
    next: usize,
}

// SAFETY: The memory belongs to the ring alone, and nothing of it is bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Makes a ring of about `bytes` for a packet socket that is not bound yet.
    pub(super) fn new(socket: OwnedFd, bytes: usize) -> io::Result<Self> {
        let blocks = (bytes / BLOCK_BYTES).max(4);
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, version)?;
        let request = tpacket_req3 {
            tp_block_size: BLOCK_BYTES as libc::c_uint,
            tp_block_nr: blocks as libc::c_uint,
            // Frames are of any length in this version; these two have to fit all the same.
            tp_frame_size: BLOCK_BYTES as libc::c_uint,
            tp_frame_nr: blocks as libc::c_uint,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        // SAFETY: the kernel reads the request on this stack frame, whose size is given.
        let code = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_RX_RING,
                (&raw const request).cast(),
                size_of_val(&request) as libc::socklen_t,
            )
        };
        if code != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: A new mapping at an address that the kernel chooses, of the size of the ring just made.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                blocks * BLOCK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            socket,
            memory,
            blocks,
            next: 0,
        })
    }

    /// Takes a block, if the kernel has handed one over; whether it has.
    pub(super) fn take(&mut self, mut each: impl FnMut(RingFrame<'_>)) -> bool {
        let at = self.next * BLOCK_BYTES;
        // SAFETY: `next` is below `blocks`, so that a whole block is there; the kernel aligns it to a page.
        let (block, status) = unsafe {
            let block = self.memory.add(at);
            let description = block.cast::<tpacket_block_desc>().as_ptr();
            let status = &raw mut (*description).hdr.bh1.block_status;
            (block, AtomicU32::from_ptr(status))
        };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: The kernel does not write to a block that it handed over.
        let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), BLOCK_BYTES) };
        for_each_frame(bytes, &mut each);
        self.next = (self.next + 1) % self.blocks;
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        true
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: The mapping is the ring's own, and no reference into it outlives `take`.
        let code = unsafe { libc::munmap(self.memory.as_ptr().cast(), self.blocks * BLOCK_BYTES) };
        debug_assert_eq!(code, 0);
    }
}

/// Walks through a block. What would reach past its end is not there.
fn for_each_frame(block: &[u8], each: &mut impl FnMut(RingFrame<'_>)) {
    let Some(description) = read::<tpacket_block_desc>(block, 0) else {
        return;
    };
    // SAFETY: The union has one member.
    let header = unsafe { description.hdr.bh1 };
    let mut at = header.offset_to_first_pkt as usize;
    for _ in 0..header.num_pkts {
        let Some(frame) = read::<tpacket3_hdr>(block, at) else {
            return;
        };
        let begin = at + usize::from(frame.tp_mac);
        let Some(bytes) = block.get(begin..begin + frame.tp_snaplen as usize) else {
            return;
        };
        each(RingFrame {
            bytes,
            length: frame.tp_len as usize,
            at_ns: u64::from(frame.tp_sec) * 1_000_000_000 + u64::from(frame.tp_nsec),
        });
        at += frame.tp_next_offset as usize;
    }
}

/// What the kernel can write as plain bytes.
trait Plain: Copy {}
impl Plain for tpacket_block_desc {}
impl Plain for tpacket3_hdr {}

fn read<T: Plain>(bytes: &[u8], at: usize) -> Option<T> {
    let bytes = bytes.get(at..at.checked_add(size_of::<T>())?)?;
    // SAFETY: There are as many bytes as the structure has, and any bytes are a value of it: it consists of
    // integers only.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Adds to `total` what a packet socket had no room for since the last call, and returns it.
pub(super) fn count_drops(socket: &impl AsFd, total: &AtomicU64) -> u64 {
    let mut statistics = libc::tpacket_stats_v3 {
        tp_packets: 0,
        tp_drops: 0,
        tp_freeze_q_cnt: 0,
    };
    let mut length = size_of_val(&statistics) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of the structure on this stack frame.
    let code = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut length,
        )
    };
    let more = if code == 0 { statistics.tp_drops } else { 0 };
    total.fetch_add(more.into(), Ordering::Relaxed) + u64::from(more)
}
