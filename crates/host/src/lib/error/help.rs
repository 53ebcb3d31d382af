//! What the user can do about an error.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::{HostError, Leftover, UnfitDevice, UsedAs};
use crate::lib::distrust::Distrust;
use crate::lib::holder::Holder;

impl HostError {
    /// What the user can do about it.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::Net(error) if error.is_permission() => "run it as root (sudo)".into(),
            error if error.is_device_gone() => {
                "the device went away, or was made anew, meanwhile: try again".into()
            }
            Self::Compile(error) => return error.help(),
            Self::Ebpf(error) => return error.help(),
            Self::Refused { cause, .. } => return cause.help(),
            Self::Realtime => "boot a kernel without PREEMPT_RT (`uname -v` names it)".into(),
            Self::Locked { holder, .. } => wait_for(holder, ""),
            Self::Capturing { holder, .. } => wait_for(holder, "one capture at a time: "),
            Self::ReadingLog { holder, .. } => wait_for(holder, "one reader at a time: "),
            Self::AgentRuns { holder, .. } => wait_for(holder, "one agent for each host: "),
            Self::Agent { .. } => "`journalctl -u overlane-agent` says more; packets do not need it".into(),
            Self::KeptByAgent(_) => "stop the agent first: `systemctl disable --now overlane-agent`".into(),
            Self::NoAgent(_) => "`systemctl start overlane-agent` starts it, `overlane agent` runs one here".into(),
            Self::Config { .. } => "its keys are host, fabric, netns and watch_mtu; `man overlane-agent` shows one".into(),
            Self::WhichHost => "say it: --host NAME, or `host: NAME` in /etc/overlane/agent.yaml".into(),
            Self::TimeNamespace { .. } => "run it outside of the time namespace".into(),
            Self::NotOurs { path, why } => mend(path, *why),
            Self::LeftUnknown { .. } => {
                "look with `ip -d link`, `ip neighbour`, `ip neighbour show proxy` and `ip maddress`, and take back what nobody else needs; a reboot takes back all".into()
            }
            Self::NoPortOrRouter { known, .. } if known.is_empty() => "it has none".into(),
            Self::NoPortOrRouter { known, .. } => format!("there are {}", known.join(", ")),
            Self::NoPortOrRemote { known, .. } if known.is_empty() => "it has none; `all` and `drops` are always there".into(),
            Self::NoPortOrRemote { known, .. } => format!("there are {}, and `all` and `drops`", known.join(", ")),
            Self::NoPort { known, .. } if known.is_empty() => "it has none; apply the fabric in which the port is on this host first".into(),
            Self::NoPort { known, .. } => {
                format!("there are {}; apply the fabric in which the port is on this host first", known.join(", "))
            }
            Self::OtherPort { .. } => "export the connections of this very port on the host that it leaves; nothing was changed".into(),
            Self::NoFirewall { .. } => {
                "without a firewall its connections go on by themselves; nothing was changed".into()
            }
            Self::ConnectionsFull { .. } => {
                "import again when places are free: it takes what is missing (`overlane show connections`)".into()
            }
            Self::NoNamespace(name) => format!("`ip netns list` shows what there is; `ip netns add {name}` makes it"),
            Self::MissingDevices { devices, .. } => {
                let is_uplink = |device: &UnfitDevice| device.used_as == UsedAs::Uplink;
                let or = match devices.iter().any(is_uplink) {
                    true => "",
                    false => ", or apply without --strict what is there",
                };
                format!("create the devices first, or correct the names in the fabric file{or}; nothing was changed")
            }
            Self::OtherNames { names, .. } => {
                let own: BTreeSet<_> = names.iter().map(|name| name.of.as_str()).collect();
                let own: Vec<_> = own.into_iter().collect();
                format!("write {} in the fabric file; nothing was changed", own.join(", "))
            }
            Self::NotTakenIn { device, source, .. } if source.is_exists() => {
                format!("the host has got a device {device} meanwhile: apply again if that is the port's, or give it another name")
            }
            Self::NotTakenIn { .. } => "not every kind of device can leave its network namespace: take a veth, netkit or TAP".into(),
            Self::Layer3Devices { .. } => {
                "Overlane carries Ethernet frames: take a veth, TAP or physical device, or create netkit with `mode l2`; nothing was changed"
                    .into()
            }
            Self::NoVtepAddress { uplink, address, .. } => {
                let prefix = if address.is_ipv4() { 24 } else { 64 };
                format!("for example: ip address add {address}/{prefix} dev {uplink}")
            }
            Self::TakenAddresses { .. } => {
                "a host and a router cannot share an address: write another one in the fabric file, or take this one off the device (`ip address delete`); nothing was changed"
                    .into()
            }
            Self::MtuTooSmall { uplink, needs, .. } => format!("ip link set {uplink} mtu {needs}, or more"),
            Self::Leftovers(leftovers) => take_off(leftovers),
            Self::NamespaceTaken { other } => {
                format!("one host per namespace: `overlane remove --host {other}` first, or use --netns")
            }
            Self::AppliedElsewhere { host, .. } => {
                format!("name that namespace with --netns, or `overlane remove --host {host}` first")
            }
            Self::NotApplied(_) | Self::NoneApplied => "`overlane apply FILE --host NAME` applies one".into(),
            Self::TablesUnknown(host) => format!("name the fabric file: `overlane apply FILE --host {host}`"),
            Self::SeveralApplied(_) => "name one with --host".into(),
            Self::OtherVersion(_) => "apply it again with this version; traffic goes on meanwhile".into(),
            Self::State { path, .. } => format!("`overlane remove`, then `overlane apply`, writes {} anew", path.display()),
            Self::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "run it as root (sudo)".into()
            }
            Self::RollBack { .. } => "`overlane apply` again repairs what differs; `overlane remove` takes all away".into(),
            _ => return None,
        })
    }
}

/// How each of them goes.
fn take_off(leftovers: &[Leftover]) -> String {
    let way = |it: &Leftover| match (&it.pinned_by, it.link_id) {
        (Some(host), _) => format!("`overlane remove --host {host}`"),
        (None, 0) => format!(
            "`tc filter` and `bpftool net` show who attached program {}",
            it.program_id
        ),
        (None, link) => format!("`bpftool link detach id {link}`"),
    };
    let mut ways: Vec<_> = leftovers.iter().map(way).collect();
    ways.dedup();
    format!(
        "it would take the packets before the new one; take it off: {}; nothing was changed",
        ways.join(", ")
    )
}

fn wait_for(holder: &Holder, rule: &str) -> String {
    match holder {
        Holder::Process { pid, .. } => {
            format!("{rule}wait until process {pid} is done, or end it (`kill {pid}`)")
        }
        Holder::Unseen => {
            format!("{rule}try again; if it stays so, look for it outside of this container")
        }
    }
}

/// How what is not ours alone becomes fit for use.
fn mend(path: &Path, why: Distrust) -> String {
    let path = path.display();
    match why {
        Distrust::Writable(_) => format!(
            "look whether all in it is root's and yours; then `chmod 700 {path}`, or take it away, and try again; nothing was changed"
        ),
        _ => format!("look who made it, take {path} away, and try again; nothing was changed"),
    }
}

#[cfg(test)]
mod tests {
    use overlane_net::Netlink;

    use super::*;

    #[test]
    fn a_device_that_went_away_is_worth_another_try() {
        let error = Netlink::new().unwrap().link("nosuch0").unwrap_err();
        let help = HostError::from(error).help();
        assert!(help.is_some_and(|help| help.contains("try again")));
    }
}
