//! Which frames a receive ring takes: the numbered ones, and of those only the headers. A classic filter
//! program (Documentation/networking/filter.rst) that the kernel runs for each frame.
//!
//! The kernel takes a VLAN tag out of the frame before packet sockets see it, so that the offsets are the
//! same with and without.

use crate::sequence::{HEADER, MARK};

use super::template::{DESTINATION_PORT, headers_bytes};

/// Bytes of a frame that the ring keeps: up to the end of the numbered header over IPv6.
pub(super) const KEPT_BYTES: usize = 14 + 40 + 8 + HEADER;

const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_BITS: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

const ETHERTYPE_AT: u32 = 12;
const PROTOCOL_UDP: u32 = 17;

/// The program.
pub(super) fn program() -> Vec<libc::sock_filter> {
    // Offsets: IPv4 begins at 14 with version and header length 0x45, flags and fragment offset at 20, the
    // protocol at 23; IPv6 has the next header at 20.
    let ipv4 = vec![
        test(LOAD_BYTE, 14, IF_EQUAL, 0x45),
        test(LOAD_BYTE, 23, IF_EQUAL, PROTOCOL_UDP),
        unless(LOAD_HALF, 20, IF_BITS, 0x3fff),
    ];
    let ipv6 = vec![test(LOAD_BYTE, 20, IF_EQUAL, PROTOCOL_UDP)];
    let ipv4 = branch(ipv4, headers_bytes(true));
    let ipv6 = branch(ipv6, headers_bytes(false));
    let mut program = vec![
        instruction(LOAD_HALF, 0, 0, ETHERTYPE_AT),
        instruction(IF_EQUAL, 0, ipv4.len() as u8, 0x0800),
    ];
    program.extend(ipv4);
    program.push(instruction(IF_EQUAL, 0, ipv6.len() as u8, 0x86dd));
    program.extend(ipv6);
    program.push(instruction(RETURN, 0, 0, 0));
    program
}

/// A load, what is compared, and whether equality (or a common bit) means to go on.
struct Test {
    load: u32,
    offset: u32,
    compare: u32,
    value: u32,
    goes_on: bool,
}

fn test(load: u32, offset: u32, compare: u32, value: u32) -> Test {
    Test {
        load,
        offset,
        compare,
        value,
        goes_on: true,
    }
}

fn unless(load: u32, offset: u32, compare: u32, value: u32) -> Test {
    Test {
        goes_on: false,
        ..test(load, offset, compare, value)
    }
}

/// The tests of one family: those before UDP, its destination port, the mark.
fn branch(mut tests: Vec<Test>, payload_at: usize) -> Vec<libc::sock_filter> {
    let payload_at = payload_at as u32;
    tests.push(test(
        LOAD_HALF,
        payload_at - 6,
        IF_EQUAL,
        DESTINATION_PORT.into(),
    ));
    tests.push(test(LOAD_HALF, payload_at, IF_EQUAL, MARK.into()));
    let mut branch = Vec::new();
    // A failed test jumps to the end of the branch, where nothing is kept: two instructions for each of the
    // later tests, and the one that keeps.
    for (position, test) in tests.iter().enumerate() {
        let to_end = (2 * (tests.len() - position - 1) + 1) as u8;
        let (then, otherwise) = match test.goes_on {
            true => (0, to_end),
            false => (to_end, 0),
        };
        branch.push(instruction(test.load, 0, 0, test.offset));
        branch.push(instruction(test.compare, then, otherwise, test.value));
    }
    branch.push(instruction(RETURN, 0, 0, KEPT_BYTES as u32));
    branch.push(instruction(RETURN, 0, 0, 0));
    branch
}

fn instruction(code: u32, then: u8, otherwise: u8, value: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: then,
        jf: otherwise,
        k: value,
    }
}
