//! The one error type of this crate: which operation, on which device, in which namespace, and what
//! the kernel answered, with the text of its extended acknowledgement where it gave one.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use netlink_packet_core::DecodeError;
use nix::errno::Errno;
use thiserror::Error;

/// An operation on the kernel's network configuration did not succeed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NetError {
    /// The kernel refused.
    #[error("cannot {operation} ({place}): {}", answer(*.errno, .kernel_message.as_deref()))]
    Refused {
        /// What was asked for, as a verb phrase.
        operation: Cow<'static, str>,
        /// Where it was asked for.
        place: Place,
        /// The kernel's answer.
        errno: Errno,
        /// The text of the extended acknowledgement, where there was one.
        kernel_message: Option<String>,
    },
    /// The kernel's reply could not be decoded.
    #[error("cannot {operation} ({place}): the kernel's reply makes no sense")]
    Decode {
        /// What was asked for, as a verb phrase.
        operation: Cow<'static, str>,
        /// Where it was asked for.
        place: Place,
        /// What was wrong with the reply.
        source: DecodeError,
    },
    /// The kernel acknowledged a question but did not answer it.
    #[error("cannot {operation} ({place}): the kernel acknowledged without an answer")]
    NoAnswer {
        /// What was asked for, as a verb phrase.
        operation: Cow<'static, str>,
        /// Where it was asked for.
        place: Place,
    },
    /// The name is not the one that the device goes by.
    #[error(
        "cannot find the device ({place}): this is another name of device {device}, write {device}"
    )]
    OtherName {
        /// Where it was looked for, and by which name.
        place: Place,
        /// Its name.
        device: String,
    },
    /// Device features that did not take the wanted value.
    #[error("cannot set features ({place}): {}", list(rejected))]
    Features {
        /// The device.
        place: Place,
        /// Each feature that did not take, and why.
        rejected: Vec<RejectedFeature>,
    },
    /// The closure given to a thread inside a namespace panicked.
    #[error("a task in namespace {namespace} panicked: {message}")]
    Panicked {
        /// The namespace.
        namespace: String,
        /// The panic's own words.
        message: String,
    },
    /// A name the kernel's interface cannot carry.
    #[error("{name:?} is not usable as {what}")]
    BadName {
        /// The name.
        name: String,
        /// What it was meant to name.
        what: &'static str,
    },
    /// There is such a file, and it is that of no network namespace.
    #[error("{} is not a network namespace", path.display())]
    NotANamespace {
        /// The file.
        path: PathBuf,
    },
    /// A file stands where a namespace should be mounted: creation was interrupted.
    #[error("namespace {name} is only half made: delete it and create it again")]
    HalfMade {
        /// The namespace.
        name: String,
    },
}

/// Where an operation took place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The device, if the operation was about one.
    pub device: Option<String>,
    /// The network namespace: its name, or `net:[inode]` if it has none.
    pub namespace: String,
}

/// A feature that did not take the wanted value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedFeature {
    /// The kernel's name of the feature.
    pub name: String,
    /// The wanted value.
    pub wanted: bool,
    /// Why it did not take.
    pub reason: Rejection,
}

/// Why a feature did not take the wanted value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// The kernel has no feature of this name.
    Unknown,
    /// The device does not let this feature be changed.
    Fixed,
    /// Accepted, but another setting or the driver overrides it.
    Overridden,
}

impl NetError {
    /// The device, namespace, route or neighbour asked for does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(
            self.raw(),
            Some(Errno::ENODEV | Errno::ENOENT | Errno::ENXIO | Errno::ESRCH)
        )
    }

    /// What was to be created exists already.
    #[must_use]
    pub fn is_exists(&self) -> bool {
        self.raw() == Some(Errno::EEXIST)
    }

    /// The caller lacks the rights.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        matches!(self.raw(), Some(Errno::EPERM | Errno::EACCES))
    }

    /// Another one has it: the index of a device.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.raw() == Some(Errno::EBUSY)
    }

    /// Another user holds the resource: a UDP port of a tunnel device, a TAP queue.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        matches!(self.raw(), Some(Errno::EADDRINUSE | Errno::EBUSY))
    }

    /// The kernel does not know this operation or kind of device.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.raw() == Some(Errno::EOPNOTSUPP)
    }

    /// The error number of the kernel's answer.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.raw().map(|errno| errno as i32)
    }

    /// The device the operation was about.
    #[must_use]
    pub fn device(&self) -> Option<&str> {
        self.place()?.device.as_deref()
    }

    /// The namespace the operation took place in.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Panicked { namespace, .. } => Some(namespace),
            Self::HalfMade { name } => Some(name),
            _ => self.place().map(|place| place.namespace.as_str()),
        }
    }

    pub(crate) fn refused(
        operation: impl Into<Cow<'static, str>>,
        place: Place,
        errno: Errno,
    ) -> Self {
        Self::Refused {
            operation: operation.into(),
            place,
            errno,
            kernel_message: None,
        }
    }

    fn raw(&self) -> Option<Errno> {
        match self {
            Self::Refused { errno, .. } => Some(*errno),
            // No device goes by this name.
            Self::OtherName { .. } => Some(Errno::ENODEV),
            _ => None,
        }
    }

    fn place(&self) -> Option<&Place> {
        match self {
            Self::Refused { place, .. }
            | Self::Decode { place, .. }
            | Self::NoAnswer { place, .. }
            | Self::OtherName { place, .. }
            | Self::Features { place, .. } => Some(place),
            Self::Panicked { .. }
            | Self::BadName { .. }
            | Self::NotANamespace { .. }
            | Self::HalfMade { .. } => None,
        }
    }
}

impl Place {
    pub(crate) fn new(device: Option<&str>, namespace: impl Into<String>) -> Self {
        Self {
            device: device.map(str::to_owned),
            namespace: namespace.into(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(device) = &self.device {
            write!(f, "device {device}, ")?;
        }
        write!(f, "namespace {}", self.namespace)
    }
}

impl fmt::Display for RejectedFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = if self.wanted { "on" } else { "off" };
        let reason = match self.reason {
            Rejection::Unknown => "no such feature",
            Rejection::Fixed => "fixed by the device",
            Rejection::Overridden => "overridden by the device or another feature",
        };
        write!(f, "{} {value} ({reason})", self.name)
    }
}

/// The errno behind an `io::Error`; errors that are not the kernel's count as EIO.
pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

fn answer(errno: Errno, kernel_message: Option<&str>) -> String {
    match kernel_message {
        Some(message) => format!("{} ({errno:?}): {message}", errno.desc()),
        None => format!("{} ({errno:?})", errno.desc()),
    }
}

fn list(rejected: &[RejectedFeature]) -> String {
    rejected
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_operation_device_namespace_errno_and_kernel_text() {
        let error = NetError::Refused {
            operation: "set the MTU to 70000".into(),
            place: Place::new(Some("eth1"), "h1"),
            errno: Errno::EINVAL,
            kernel_message: Some("mtu greater than device maximum".into()),
        };
        assert_eq!(
            error.to_string(),
            "cannot set the MTU to 70000 (device eth1, namespace h1): Invalid argument (EINVAL): \
             mtu greater than device maximum"
        );
        assert_eq!(
            (error.device(), error.namespace()),
            (Some("eth1"), Some("h1"))
        );
    }

    #[test]
    fn kinds_follow_the_errno() {
        let with = |errno| NetError::refused("x", Place::new(None, "h1"), errno);
        assert!(with(Errno::ENODEV).is_not_found() && !with(Errno::ENODEV).is_exists());
        assert!(with(Errno::EEXIST).is_exists());
        assert!(with(Errno::EPERM).is_permission());
        assert!(with(Errno::EADDRINUSE).is_in_use());
    }
}
