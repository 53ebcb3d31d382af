//! Every frame that comes, whoever it is for: a network that delivers to the wrong port, or twice, is found out here.

use crate::boot::{Device, Mac};
use crate::counters::Counters;
use crate::sys;
use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// As much of a frame is compared: IP numbers its packets, TCP its bytes, and our datagrams have a number.
const COMPARED: usize = 256;
/// So many frames are remembered.
const REMEMBERED: usize = 512;
/// The copy of a frame is close behind it. What a program repeats comes later.
const CLOSE: Duration = Duration::from_millis(500);

/// Counts from now on what a device receives.
pub(crate) fn watch(device: &Device, own: Mac, counters: &Arc<Counters>) -> Result<(), String> {
    let failed = |error| format!("cannot hear the frames of {}: {error}", device.name);
    let socket = sys::hear_frames(device.index).map_err(failed)?;
    let counters = Arc::clone(counters);
    thread::Builder::new()
        .spawn(move || hear(&socket, own, &counters))
        .map(drop)
        .map_err(failed)
}

fn hear(socket: &OwnedFd, own: Mac, counters: &Counters) {
    let mut frame = [0; COMPARED];
    let mut recent = Recent::default();
    loop {
        match sys::receive_frame(socket.as_fd(), &mut frame) {
            Ok(length) => {
                let head = &frame[..length.min(COMPARED)];
                count(head, length, own, &mut recent, counters);
            }
            // The device went down, or the kernel had no memory for a frame.
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn count(head: &[u8], length: usize, own: Mac, recent: &mut Recent, counters: &Counters) {
    let Some(destination) = head.first_chunk().map(|mac| Mac(*mac)) else {
        return;
    };
    if destination == own {
        // Only of those to itself: what goes to all is repeated on purpose (announcements).
        if recent.is_copy(head, length, Instant::now()) {
            counters.lock().duplicate_frames += 1;
        }
    } else if !destination.is_group() {
        let mut counts = counters.lock();
        counts.wrong_frames += 1;
        counts.wrong_mac.get_or_insert(destination);
    }
}

/// The frames that came last, as sums of their bytes.
#[derive(Default)]
struct Recent(VecDeque<(Instant, u64)>);

impl Recent {
    fn is_copy(&mut self, head: &[u8], length: usize, now: Instant) -> bool {
        let mut hasher = DefaultHasher::new();
        hasher.write_usize(length);
        hasher.write(head);
        let sum = hasher.finish();
        let old = |at: Instant| now.saturating_duration_since(at) > CLOSE;
        while self.0.len() >= REMEMBERED || self.0.front().is_some_and(|(at, _)| old(*at)) {
            self.0.pop_front();
        }
        let is_copy = self.0.iter().any(|(_, known)| *known == sum);
        self.0.push_back((now, sum));
        is_copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Mac = Mac([0x52, 0x54, 0, 0, 0, 1]);

    fn frame(destination: Mac, payload: u8) -> Vec<u8> {
        [&destination.0[..], &[payload; 60]].concat()
    }

    #[test]
    fn wrong_frames_and_copies() {
        let (counters, mut recent) = (Counters::default(), Recent::default());
        let mut hear = |frame: &[u8]| count(frame, frame.len(), OWN, &mut recent, &counters);
        let other = Mac([0x52, 0x54, 0, 0, 0, 2]);
        hear(&frame(OWN, 1));
        hear(&frame(OWN, 2));
        hear(&frame(Mac([0xff; 6]), 1));
        hear(&frame(Mac([0xff; 6]), 1));
        hear(&[1, 2]);
        let counted = || {
            let counts = counters.lock();
            (counts.wrong_frames, counts.duplicate_frames)
        };
        assert_eq!(counted(), (0, 0));
        hear(&frame(OWN, 1));
        hear(&frame(other, 1));
        hear(&frame(Mac([0x52, 0x54, 0, 0, 0, 3]), 1));
        assert_eq!(counted(), (2, 1));
        assert_eq!(counters.lock().wrong_mac, Some(other));
    }

    #[test]
    fn a_copy_is_as_long_and_close_behind() {
        let (mut recent, start) = (Recent::default(), Instant::now());
        assert!(!recent.is_copy(b"head", 1500, start));
        assert!(!recent.is_copy(b"head", 1501, start));
        assert!(recent.is_copy(b"head", 1500, start + CLOSE));
        let late = start + CLOSE * 3;
        assert!(!recent.is_copy(b"head", 1500, late));
        for number in 0..REMEMBERED {
            assert!(!recent.is_copy(b"other", number, late));
        }
        assert!(!recent.is_copy(b"head", 1500, late), "forgotten by then");
    }
}
