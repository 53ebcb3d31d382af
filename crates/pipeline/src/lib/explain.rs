//! The explanation of a packet's way: sentences that cost nothing unless somebody reads them. A stage
//! hands over a closure; it is called only by `Host::run`.

use overlane_model::Name;

use crate::lib::outcome::{By, Step};

/// What a stage found and did, in one sentence without a full stop.
pub(crate) struct Found {
    text: String,
    by: Option<By>,
}

impl Found {
    /// A port of the fabric decided.
    pub(crate) fn by_port(text: String, port: &Name) -> Self {
        Self::by(text, By::Port(port.clone()))
    }

    /// A logical switch decided.
    pub(crate) fn by_switch(text: String, switch: &Name) -> Self {
        Self::by(text, By::Switch(switch.clone()))
    }

    /// A host decided.
    pub(crate) fn by_host(text: String, host: &Name) -> Self {
        Self::by(text, By::Host(host.clone()))
    }

    /// A logical router decided.
    pub(crate) fn by_router(text: String, router: &Name) -> Self {
        Self::by(text, By::Router(router.clone()))
    }

    /// A rule of the firewall decided.
    pub(crate) fn by_rule(text: String, rule: &Name) -> Self {
        Self::by(text, By::Rule(rule.clone()))
    }

    /// The settings of the tunnels decided.
    pub(crate) fn by_tunnel(text: String) -> Self {
        Self::by(text, By::Tunnel)
    }

    /// The same thing decided, for a longer reason.
    pub(crate) fn and(mut self, more: &str) -> Self {
        self.text.push_str(more);
        self
    }

    fn by(text: String, by: By) -> Self {
        Self { text, by: Some(by) }
    }
}

impl From<String> for Found {
    fn from(text: String) -> Self {
        Self { text, by: None }
    }
}

impl From<&str> for Found {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// The steps so far; `None` when nobody asks.
pub(crate) struct Steps(Option<Vec<Step>>);

impl Steps {
    pub(crate) fn new(wanted: bool) -> Self {
        Self(wanted.then(Vec::new))
    }

    pub(crate) fn add<F: Into<Found>>(&mut self, stage: &'static str, found: impl FnOnce() -> F) {
        if let Some(steps) = &mut self.0 {
            let Found { text, by } = found().into();
            steps.push(Step {
                stage,
                found: text,
                by,
            });
        }
    }

    pub(crate) fn into_vec(self) -> Vec<Step> {
        self.0.unwrap_or_default()
    }
}

/// The ports that share an address, in words.
pub(crate) fn sharers(ports: &[Name]) -> String {
    let names: Vec<&str> = ports.iter().map(Name::as_str).collect();
    match names.as_slice() {
        [name] => format!("port {name}"),
        names => format!("ports {}", names.join(", ")),
    }
}
