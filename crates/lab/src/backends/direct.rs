//! `direct`: the guests' own cable, and nothing between. The limit of the machine.

use super::Backend;
use crate::error::LabError;
use crate::session::Session;
use crate::topology::{Expected, Topology};

pub(super) struct Direct;

impl Backend for Direct {
    fn build(&mut self, _session: &Session, _topology: &Topology) -> Result<(), LabError> {
        Ok(())
    }

    fn expected(&self) -> Expected {
        Expected::NoUnderlay
    }
}
