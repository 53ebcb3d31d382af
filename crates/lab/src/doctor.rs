//! What this machine can run, and why not the rest.

use crate::error::LabError;
use crate::machine::programs::Programs;
use crate::machine::spinner::{self, TOLERANCE_POINTS};
use crate::machine::{cpus, environment};
use crate::session::Session;
use crate::session::process::own_program;
use crate::vm::{self, Accelerator, Images};
use crate::{backends, relay};
use nix::unistd::geteuid;
use overlane_analysis::record::{BackendName, Family, FarEnd, Feature, Setting};
use overlane_analysis::study::Study;
use overlane_analysis::study::possible;
use serde::Serialize;
use std::path::Path;

/// How one thing that the laboratory needs stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DoctorState {
    /// It is there.
    Ok,
    /// It is missing or limits the figures; the quick study runs without it.
    Limited,
    /// It is missing and the quick study cannot run.
    Missing,
}

/// One finding of `lab doctor`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DoctorItem {
    /// What was looked at, for example `backend ovs-vxlan`.
    pub what: String,
    /// How it stands.
    pub state: DoctorState,
    /// What was found.
    pub detail: String,
    /// What to do about it; empty when nothing.
    pub help: String,
}

/// What this machine can run and why not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Doctor {
    /// All findings.
    pub items: Vec<DoctorItem>,
    /// The quick study can run here.
    pub quick_can_run: bool,
}

/// Looks at everything that a study needs; changes nothing that lasts.
pub(crate) fn doctor() -> Result<Doctor, LabError> {
    let quick = Study::shipped("jumbo-vxlan")?.quick.backends;
    let mut items = vec![
        kernel(),
        rights(),
        processors()?,
        accounting(),
        cpu_clock()?,
        traffic(),
        ipv6(),
    ];
    items.extend(settings());
    if geteuid().is_root() {
        items.extend(tried(&quick)?);
    } else {
        let detail = "networks are tried in a namespace, which needs root".to_owned();
        items.push(item(
            "networks",
            DoctorState::Missing,
            detail,
            "run it as root (sudo)",
        ));
    }
    let quick_can_run = items.iter().all(|item| item.state != DoctorState::Missing);
    Ok(Doctor {
        items,
        quick_can_run,
    })
}

/// As `overlane apply` has them (`crates/ebpf/src/preflight.rs`), of which this crate knows nothing.
const FIRST_WITH_TCX: (u32, u32) = (6, 6);
const OLDEST_TESTED: (u32, u32) = (6, 12);

fn item(what: &str, state: DoctorState, detail: String, help: &str) -> DoctorItem {
    DoctorItem {
        what: what.to_owned(),
        state,
        detail,
        help: help.to_owned(),
    }
}

fn kernel() -> DoctorItem {
    let release = environment::kernel_release();
    let detail = format!("Linux {release}");
    let (major, minor) = OLDEST_TESTED;
    let (state, help) = match environment::version_of(&release) {
        Some(version) if version < FIRST_WITH_TCX => (
            DoctorState::Missing,
            format!(
                "boot Linux {major}.{minor} or newer: this one has no tcx, where Overlane's data path attaches"
            ),
        ),
        Some(version) if version < OLDEST_TESTED => (
            DoctorState::Limited,
            format!("boot Linux {major}.{minor} or newer: older ones are not tested"),
        ),
        _ => (DoctorState::Ok, String::new()),
    };
    item("kernel", state, detail, &help)
}

fn rights() -> DoctorItem {
    if geteuid().is_root() {
        return item("rights", DoctorState::Ok, "root".to_owned(), "");
    }
    let detail = "not root: namespaces and BPF programs are refused".to_owned();
    item(
        "rights",
        DoctorState::Missing,
        detail,
        "run it as root (sudo)",
    )
}

fn processors() -> Result<DoctorItem, LabError> {
    let cpus = cpus::Cpus::of_this_machine()?;
    if cpus.shared() {
        let detail =
            "one CPU: the virtual hosts share it, and there are no figures per host".to_owned();
        return Ok(item(
            "CPUs",
            DoctorState::Limited,
            detail,
            "give the machine a second CPU",
        ));
    }
    let detail = format!("host1 on {:?}, host2 on {:?}", cpus.host1, cpus.host2);
    Ok(item("CPUs", DoctorState::Ok, detail, ""))
}

/// The clock of CPU figures against a spinner's own.
fn cpu_clock() -> Result<DoctorItem, LabError> {
    let cpus = cpus::Cpus::of_this_machine()?;
    let before = Programs::now()?;
    let readings = spinner::readings(&cpus)?;
    let foreign = Programs::now()?.foreign_since(&before, std::process::id(), &cpus.all());
    let apart = |reading: &spinner::Reading| (reading.busy_percent - reading.spun_percent).abs();
    let worst = readings
        .iter()
        .max_by(|a, b| apart(a).total_cmp(&apart(b)))
        .map_or_else(String::new, |worst| {
            format!(
                "CPU {} at {} % read {:.1} % where the program used {:.1} %",
                worst.cpu, worst.duty_percent, worst.busy_percent, worst.spun_percent
            )
        });
    if readings.iter().all(spinner::Reading::agrees) {
        let detail = format!(
            "agrees with a spinner at 10, 50 and 90 % of every CPU within {TOLERANCE_POINTS:.0} points; worst: {worst}"
        );
        return Ok(item("CPU clock", DoctorState::Ok, detail, ""));
    }
    let (detail, help) = if foreign.disturbs() {
        let detail = format!("{worst}; {}", foreign.words());
        (detail, "end these programs and try again")
    } else {
        let help = "CPU figures are off by as much on this kernel; ratios of goodput are not";
        (worst, help)
    };
    Ok(item("CPU clock", DoctorState::Limited, detail, help))
}

fn accounting() -> DoctorItem {
    let mode = environment::cpu_accounting();
    let state = if mode.starts_with("measured") {
        DoctorState::Ok
    } else {
        DoctorState::Limited
    };
    let help = match state {
        DoctorState::Ok => "",
        _ => "no need to act: windows under 4 s print no split into user, system and softirq",
    };
    item("CPU accounting", state, mode, help)
}

/// Traffic is sent by the program itself.
fn traffic() -> DoctorItem {
    let what = "traffic tool";
    match own_program() {
        Some(_) => item(what, DoctorState::Ok, "the program itself".to_owned(), ""),
        None => item(
            what,
            DoctorState::Missing,
            "the laboratory was not started by the program `overlane`".to_owned(),
            "start it as `overlane lab`",
        ),
    }
}

fn ipv6() -> DoctorItem {
    if Path::new("/proc/sys/net/ipv6").exists() {
        return item("IPv6", DoctorState::Ok, "in the kernel".to_owned(), "");
    }
    let detail = "the kernel has none: no IPv6 guests, no IPv6 underlay".to_owned();
    item(
        "IPv6",
        DoctorState::Limited,
        detail,
        "boot without ipv6.disable=1; what is IPv4 runs without it",
    )
}

/// Which backends have the settings that not all of them have, on any machine.
fn settings() -> Vec<DoctorItem> {
    let usual = Setting::default();
    let rows = [
        (
            "IPv6 inside and underlay",
            Setting {
                inner: Family::Ipv6,
                underlay: Family::Ipv6,
                ..usual
            },
        ),
        (
            "more VNIs than pairs (trunks)",
            Setting { vnis: 8, ..usual },
        ),
        (
            "4096 VNIs",
            Setting {
                vnis: 4096,
                ..usual
            },
        ),
        (
            "tester at the far end",
            Setting {
                far_end: FarEnd::Tester,
                ..usual
            },
        ),
        (
            "port security off",
            Setting {
                feature: Feature::SecurityOff,
                ..usual
            },
        ),
        (
            "routing and firewall",
            Setting {
                feature: Feature::RoutingFirewall,
                ..usual
            },
        ),
        (
            "gateway and NAT",
            Setting {
                feature: Feature::GatewayNat,
                ..usual
            },
        ),
    ];
    let row = |(what, setting): (&str, Setting)| {
        let has = |name: &BackendName| possible::unsupported(*name, &setting).is_none();
        let (with, without): (Vec<_>, Vec<_>) = BackendName::ALL.into_iter().partition(has);
        let names: Vec<_> = with.iter().map(|name| name.as_str()).collect();
        let detail = match without.is_empty() {
            true => "every network".to_owned(),
            false => names.join(", "),
        };
        item(&format!("setting {what}"), DoctorState::Ok, detail, "")
    };
    rows.into_iter().map(row).collect()
}

/// Tries virtual machines and every backend. While a study runs nothing may disturb it.
fn tried(quick: &[BackendName]) -> Result<Vec<DoctorItem>, LabError> {
    let session = match Session::begin() {
        Ok(session) => session,
        Err(LabError::Busy { pid }) => {
            let detail = format!("a study is running (process {pid}): networks were not tried");
            return Ok(vec![item(
                "networks",
                DoctorState::Missing,
                detail,
                "wait until it is done",
            )]);
        }
        Err(error) => return Err(error),
    };
    let mut items = vec![virtual_machines(relay::check(&session)?)];
    items.extend(migration(&session)?);
    for name in BackendName::ALL {
        let what = format!("network {name}");
        items.push(match backends::check(&session, name)? {
            None => item(&what, DoctorState::Ok, "can run".to_owned(), ""),
            Some(reason) if quick.contains(&name) => item(&what, DoctorState::Missing, reason, ""),
            Some(reason) => item(
                &what,
                DoctorState::Limited,
                reason,
                "the quick study runs without it",
            ),
        });
    }
    let left = session.end();
    for thing in left {
        items.push(item(
            "cleanup",
            DoctorState::Limited,
            thing,
            "overlane lab cleanup",
        ));
    }
    Ok(items)
}

/// TAP devices are their cards and ports.
fn virtual_machines(missing: Option<String>) -> DoctorItem {
    let what = "virtual machines";
    match missing {
        None => item(
            what,
            DoctorState::Ok,
            "/dev/net/tun gives TAP devices".to_owned(),
            "",
        ),
        Some(reason) => item(
            what,
            DoctorState::Limited,
            reason,
            "load the kernel's module: modprobe tun; in a container allow the device /dev/net/tun; guests that are \
             containers run without it",
        ),
    }
}

/// What real virtual machines need, for the study of their live migration: one is booted, where KVM has to be tried.
fn migration(session: &Session) -> Result<Vec<DoctorItem>, LabError> {
    if let Some(missing) = vm::missing(session, None)? {
        return Ok(vec![no_migration(missing.what, &missing.help)]);
    }
    match Images::prepare(session, None) {
        Ok(images) => Ok(with_migration(&images)),
        Err(LabError::Interrupted) => Err(LabError::Interrupted),
        Err(error) => Ok(vec![no_migration(error.to_string(), "")]),
    }
}

/// All other studies run without.
fn no_migration(what: String, help: &str) -> DoctorItem {
    item("live migration", DoctorState::Limited, what, help)
}

fn with_migration(images: &Images) -> Vec<DoctorItem> {
    let ok = |what, detail| item(what, DoctorState::Ok, detail, "");
    let kernel = format!("Linux {}", images.kernel.release);
    let accelerator = images.accelerator.to_string();
    vec![
        ok("live migration: QEMU", images.version.clone()),
        ok("live migration: guest kernel", kernel),
        match images.accelerator {
            Accelerator::Kvm => ok("live migration: accelerator", accelerator),
            Accelerator::Emulation => item(
                "live migration: accelerator",
                DoctorState::Limited,
                accelerator,
                "no KVM here boots the guest's kernel: figures are of one switch against another, not of real machines",
            ),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_taps_has_no_virtual_machines() {
        assert_eq!(virtual_machines(None).state, DoctorState::Ok);
        let lacks = virtual_machines(Some("no such device".to_owned()));
        assert_eq!(lacks.state, DoctorState::Limited);
        assert!(lacks.detail.contains("no such device") && lacks.help.contains("modprobe tun"));
    }

    #[test]
    fn settings_name_the_backends_that_have_them() {
        let detail = |what: &str| {
            let found = settings().into_iter().find(|item| item.what.contains(what));
            found.map(|item| item.detail).unwrap_or_default()
        };
        assert_eq!(detail("IPv6"), "every network");
        for what in ["port security", "routing and firewall", "gateway and NAT"] {
            let own = "overlane-vlan, overlane-vxlan, overlane-geneve";
            assert_eq!(detail(what), own, "{what}");
        }
        let tester = detail("tester");
        assert!(
            tester.contains("bridge") && !tester.contains("vxlan"),
            "{tester}"
        );
        let many = detail("4096");
        assert!(
            many.contains("ovs-geneve") && !many.contains("vlan"),
            "{many}"
        );
    }

    #[test]
    fn the_traffic_tool_is_the_program_itself() {
        // A test's program is none that could start itself as an agent.
        assert_eq!(traffic().state, DoctorState::Missing);
    }
}
