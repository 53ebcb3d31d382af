//! What this machine can run, and why not the rest.

use crate::api::{Doctor, DoctorItem, DoctorState};
use crate::error::LabError;
use crate::record::BackendName;
use crate::session::Session;
use crate::study::Study;
use crate::{backends, cpus, environment};
use nix::unistd::geteuid;

/// Looks at everything that a study needs; changes nothing that lasts.
pub(crate) fn doctor() -> Result<Doctor, LabError> {
    let quick = Study::shipped("jumbo-vxlan")?.quick.backends;
    let mut items = vec![kernel(), rights(), processors()?, accounting(), generator()];
    if geteuid().is_root() {
        items.extend(all_backends(&quick)?);
    } else {
        let detail = "backends are tried in a namespace, which needs root".to_owned();
        items.push(item(
            "backends",
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
    match environment::version_of(&release) {
        Some(version) if version < (6, 6) => {
            let help = "boot Linux 6.6 or newer: Overlane's data path attaches by tcx";
            item(
                "kernel",
                DoctorState::Missing,
                format!("Linux {release}"),
                help,
            )
        }
        _ => item("kernel", DoctorState::Ok, format!("Linux {release}"), ""),
    }
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

fn generator() -> DoctorItem {
    match environment::version("iperf3", &["--version"]) {
        Some(version) => item("iperf3", DoctorState::Ok, version, ""),
        None => item(
            "iperf3",
            DoctorState::Missing,
            "not installed".to_owned(),
            "apt-get install iperf3",
        ),
    }
}

/// Tries every backend. While a study runs nothing may disturb it.
fn all_backends(quick: &[BackendName]) -> Result<Vec<DoctorItem>, LabError> {
    let session = match Session::begin() {
        Ok(session) => session,
        Err(LabError::Busy { pid }) => {
            let detail = format!("a study is running (process {pid}): backends were not tried");
            return Ok(vec![item(
                "backends",
                DoctorState::Missing,
                detail,
                "wait until it is done",
            )]);
        }
        Err(error) => return Err(error),
    };
    let mut items = Vec::new();
    for name in BackendName::ALL {
        let what = format!("backend {name}");
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
