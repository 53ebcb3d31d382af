//! Memory of a process that lives long: a large fabric needs much of it while it is read, and little afterwards.
//!
//! The allocator of glibc keeps what is free, and an arena for each thread that asked at the same time as others; each
//! look into a namespace is a thread. Other C libraries are left as they are.

#[cfg(target_env = "gnu")]
#[expect(
    unsafe_code,
    reason = "mallopt(3) and malloc_trim(3) have no safe form"
)]
mod sys;

/// From here on all threads share one arena, and large pieces go back to the kernel as soon as they are free.
pub(crate) fn be_frugal() {
    #[cfg(target_env = "gnu")]
    sys::be_frugal();
}

/// Gives what is free back to the kernel.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    sys::trim();
}
