//! What a host should carry, and where that is written.

use std::borrow::Cow;
use std::path::Path;

use overlane_model::{Fabric, Report as Warnings, Tables};

use crate::HostError;
use crate::state::State;

/// What a host should carry.
#[derive(Debug, Clone, Copy)]
pub enum Declared<'a> {
    /// These tables; `tables.host` names the host.
    Tables(&'a Tables),
    /// What a fabric file says of a host.
    File {
        /// The file.
        path: &'a Path,
        /// The host.
        host: &'a str,
    },
    /// What a host was applied with last, in the network namespace of that time if the request names no other. Read under
    /// the lock: an apply at work may be about to change it.
    Last {
        /// The host.
        host: &'a str,
    },
}

impl<'a> Declared<'a> {
    /// The tables, and the network namespace where they are known to be applied.
    pub(super) fn read(
        self,
        on_warnings: &dyn Fn(&Warnings),
    ) -> Result<(Cow<'a, Tables>, Option<String>), HostError> {
        match self {
            Self::Tables(tables) => Ok((Cow::Borrowed(tables), None)),
            Self::File { path, host } => {
                let fabric = Fabric::load(path)?;
                fabric.warnings().into_iter().for_each(on_warnings);
                Ok((Cow::Owned(fabric.compile(host)?), None))
            }
            Self::Last { host } => {
                let state = State::applied(host)?;
                if !state.knows_tables {
                    return Err(HostError::TablesUnknown(host.to_owned()));
                }
                let netns = state.namespace_name()?;
                Ok((Cow::Owned(state.tables), netns))
            }
        }
    }
}

impl<'a> From<&'a Tables> for Declared<'a> {
    fn from(tables: &'a Tables) -> Self {
        Self::Tables(tables)
    }
}
