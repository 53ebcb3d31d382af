//! Why a file is not used.

/// Why a file or a folder is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// It may lead anywhere.
    #[error("it is a symbolic link")]
    Link,
    /// Whoever owns it decides what is in it.
    #[error("it belongs to user {0}, and not to root")]
    Owner(u32),
    /// Others may have put something in.
    #[error("others may write in it (mode {0:04o})")]
    Writable(u32),
    /// A device, a pipe, a folder in place of a file.
    #[error("it is no {0}")]
    Kind(&'static str),
}
