//! Where in the fabric file something stands: `fabric.yaml:12`.

use std::path::Path;

use overlane_model::Fabric;
use overlane_pipeline::By;
use serde::Serialize;

/// A fabric and the name its file was given by.
#[derive(Clone, Copy)]
pub(crate) struct Places<'f> {
    pub(crate) fabric: &'f Fabric,
    pub(crate) file: &'f Path,
}

/// A thing of the fabric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Thing {
    pub(crate) kind: &'static str,
    /// The settings of the tunnels have no name.
    pub(crate) name: Option<String>,
    /// Nor have they one line.
    pub(crate) line: Option<u32>,
}

impl Places<'_> {
    /// What decided, and where it is declared.
    pub(crate) fn thing(&self, by: &By) -> Thing {
        let fabric = self.fabric;
        let (kind, name, line) = match by {
            By::Port(name) => {
                let line = fabric.ports().get(name).map(|port| port.line);
                ("port", Some(name), line)
            }
            By::Switch(name) => {
                let line = fabric.switches().get(name).map(|switch| switch.line);
                ("switch", Some(name), line)
            }
            By::Host(name) => {
                let line = fabric.hosts().get(name).map(|host| host.line);
                ("host", Some(name), line)
            }
            By::Router(name) => {
                let line = fabric.routers().get(name).map(|router| router.line);
                ("router", Some(name), line)
            }
            By::Rule(name) => {
                let rule = fabric.rules().iter().find(|rule| rule.name == *name);
                ("rule", Some(name), rule.map(|rule| rule.line))
            }
            By::Tunnel => ("tunnel", None, None),
        };
        Thing {
            kind,
            name: name.map(ToString::to_string),
            line,
        }
    }

    /// `fabric.yaml:12`; without a line, which part of the file.
    pub(crate) fn place(&self, thing: &Thing) -> String {
        match thing.line {
            Some(line) => self.line(line),
            None => format!("{}, {}", self.file.display(), thing.kind),
        }
    }

    /// `fabric.yaml:12`
    pub(crate) fn line(&self, line: u32) -> String {
        format!("{}:{line}", self.file.display())
    }
}
