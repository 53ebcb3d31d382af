//! The calls of glibc.

/// In bytes. Once it is set, glibc no longer raises it by itself.
const LARGE: i32 = 1 << 20;

pub(super) fn be_frugal() {
    // SAFETY: it changes how memory is allocated from now on, and touches none that is in use.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

pub(super) fn trim() {
    // SAFETY: it takes its own locks, and touches only memory that is free.
    unsafe {
        libc::malloc_trim(0);
    }
}
