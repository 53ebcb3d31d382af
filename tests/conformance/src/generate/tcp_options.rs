//! Options of opening segments: window scale and MSS, in order or not, at even and odd places, good and broken.

use crate::random::Random;
use crate::values::Hex;

const MOST: usize = 40;

/// A few; a multiple of four bytes.
pub(super) fn of_syn(random: &mut Random) -> Hex {
    let mut bytes = Vec::new();
    while random.percent(45) {
        bytes.extend(other(random));
    }
    if random.percent(75) {
        bytes.extend(mss(random));
    }
    while random.percent(40) {
        bytes.extend(other(random));
    }
    bytes.truncate(MOST);
    let fill = random.of([0, 1, 1]);
    bytes.resize(bytes.len().next_multiple_of(4), fill);
    Hex(bytes)
}

/// Around what fits, and at the ends; now and then of another length.
fn mss(random: &mut Random) -> Vec<u8> {
    let value: u16 = match random.below(10) {
        0 => 0,
        1 => u16::MAX,
        2 => random.of([536, 1220, 8960]),
        3..7 => 1460 - random.below(140) as u16,
        _ => 1460,
    };
    let [high, low] = value.to_be_bytes();
    match random.below(20) {
        0 => vec![2, 3, high],
        1 => vec![2, 6, high, low, 5, 0xb4],
        2 => vec![2, 0, high, low],
        3 => vec![2, 4, high],
        _ => vec![2, 4, high, low],
    }
}

fn other(random: &mut Random) -> Vec<u8> {
    let scale = random.of([0, 3, 7, 14, 15]);
    match random.below(12) {
        0..4 => vec![1],
        4..8 => vec![3, 3, scale],
        8 => vec![4, 2],
        9 => vec![3, 4, scale, 0],
        10 => vec![8, 10, 0, 0, 0, 1, 0, 0, 0, 0],
        _ => random.of([[0, 0], [254, 0], [254, 1], [254, 40]]).to_vec(),
    }
}
