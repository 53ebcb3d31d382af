//! `overlane show drops`: what was dropped, how often and why; with `--follow` each packet as it is dropped.

use std::collections::BTreeSet;
use std::io;

use overlane_host::capture::Target;
use overlane_host::observe::{
    self, Count, Counters, DeviceRow, Devices, LimitRow, OtherDevice, UNTOLD, limit_help,
};
use overlane_model::Verdict;
use serde::Serialize;

use crate::args::ShowDrops;
use crate::capture::{self, Request, Sink, filter::Filter};
use crate::failure::Failure;
use crate::output::{Output, number, state, text};
use crate::show;

/// Enough for the headers.
const SNAP: u32 = 256;

/// `show drops` for programs.
#[derive(Debug, Serialize)]
struct Drops<'a> {
    host: &'a str,
    drops: Vec<Drop<'a>>,
    /// What is at a limit now, of those that dropped something.
    limits: Vec<LimitRow>,
    /// All devices, also those that lost nothing.
    devices: Vec<DeviceRow>,
    others: Vec<OtherDevice>,
}

/// One reason at one hook.
#[derive(Debug, Serialize)]
struct Drop<'a> {
    hook: &'a str,
    reason: &'a str,
    #[serde(flatten)]
    count: Count,
    meaning: &'static str,
}

pub(crate) fn run(args: &ShowDrops, output: Output) -> Result<(), Failure> {
    let host = show::host(&args.common.host, output)?;
    if args.follow {
        return follow(args, &host, output);
    }
    let counters = observe::counters(&host)?;
    let devices = observe::devices(&host)?;
    let reasons = limited(&counters);
    let limits = observe::limits(&host, &reasons)?;
    let drops = of(&counters, limits, devices);
    if args.common.json {
        output.json(&drops)?;
    } else {
        print(&drops, &reasons, output)?;
    }
    Ok(())
}

fn follow(args: &ShowDrops, host: &str, output: Output) -> Result<(), Failure> {
    let request = Request {
        host,
        target: Target::Drops,
        filter: Filter::default(),
        count: None,
        time: None,
        snap: SNAP,
    };
    let sink = if args.common.json {
        Sink::json()
    } else {
        Sink::text(false, output)
    };
    capture::live(&request, sink, &format!("drops on host {host}"), output)
}

/// The limits that something was dropped by, as reasons.
fn limited(counters: &Counters) -> BTreeSet<&'static str> {
    let drops = counters.verdicts.iter();
    let drops = drops.filter(|verdict| verdict.drop && verdict.count.packets > 0);
    let untold = counters.ports.iter().any(|port| port.untold.packets > 0);
    let reasons = drops.map(|verdict| verdict.verdict);
    let reasons = reasons.chain(untold.then_some(UNTOLD));
    reasons.filter(|it| limit_help(it).is_some()).collect()
}

fn of(counters: &Counters, limits: Vec<LimitRow>, devices: Devices) -> Drops<'_> {
    let meaning = |name: &str| {
        let verdict = Verdict::ALL.iter().find(|verdict| verdict.name() == name);
        verdict.map_or("", |verdict| verdict.meaning())
    };
    let occurred = counters
        .verdicts
        .iter()
        .filter(|verdict| verdict.drop && verdict.count.packets > 0);
    Drops {
        host: &counters.host,
        drops: occurred
            .map(|verdict| Drop {
                hook: verdict.hook,
                reason: verdict.verdict,
                count: verdict.count,
                meaning: meaning(verdict.verdict),
            })
            .collect(),
        limits,
        devices: devices.devices,
        others: devices.others,
    }
}

fn print(drops: &Drops<'_>, reasons: &BTreeSet<&str>, output: Output) -> io::Result<()> {
    let mut rows = output.table(&["HOOK", "REASON", "#PACKETS", "#SEGMENTS", "MEANING"]);
    for drop in &drops.drops {
        rows.push(vec![
            text(drop.hook),
            state(drop.reason, false),
            number(drop.count.packets),
            number(drop.count.segments),
            text(drop.meaning),
        ]);
    }
    output.section(
        &format!("host {}: drops", drops.host),
        &rows,
        "nothing was dropped",
    )?;
    print_limits(&drops.limits, reasons, output)?;
    print_devices(&drops.devices, output)?;
    show::show_others(&drops.others, output)
}

/// Who is at the limits that something was dropped by, and what to do about each.
fn print_limits(limits: &[LimitRow], reasons: &BTreeSet<&str>, output: Output) -> io::Result<()> {
    if reasons.is_empty() {
        return Ok(());
    }
    let mut rows = output.table(&["REASON", "WHOSE", "#USED", "#LIMIT", "OF"]);
    for row in limits {
        rows.push(vec![
            state(row.reason, false),
            text(&row.whose),
            number(row.used),
            number(row.most),
            text(&row.of),
        ]);
    }
    output.line("")?;
    output.section("limits that are reached", &rows, "none of them now")?;
    output.line("")?;
    for reason in reasons {
        let help = limit_help(reason).unwrap_or_default();
        let line = output.wrapped(&format!("{reason}: "), help);
        output.line(line)?;
    }
    Ok(())
}

/// What the devices lost, where they lost anything.
fn print_devices(devices: &[DeviceRow], output: Output) -> io::Result<()> {
    let with_losses = devices.iter().filter(|row| !row.lost.is_nothing());
    let with_losses: Vec<_> = with_losses.collect();
    if !with_losses.is_empty() {
        let columns = [
            "DEVICE",
            "USED AS",
            "#TX DROPPED",
            "#TX ERRORS",
            "#RX DROPPED",
            "#RX ERRORS",
        ];
        let mut rows = output.table(&columns);
        for row in with_losses {
            let lost = row.lost;
            rows.push(vec![
                text(&row.device),
                text(row.used_as),
                number(lost.tx_dropped),
                number(lost.tx_errors),
                number(lost.rx_dropped),
                number(lost.rx_errors),
            ]);
        }
        output.line("")?;
        output.section("lost by devices, since apply", &rows, "")?;
    }
    for row in devices.iter().filter(|row| row.has_lower_mtu()) {
        let at_apply = row.mtu_at_apply.unwrap_or_default();
        let words = show::lower_mtu(&row.device, row.mtu, at_apply);
        output.line(format!("\n{words}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use overlane_host::UsedAs;
    use overlane_host::observe::{Lost, PortState, VerdictCount};

    use super::*;

    #[test]
    fn only_what_was_dropped_with_its_meaning() {
        let verdict = |verdict, drop, packets| VerdictCount {
            hook: "from_port",
            verdict,
            drop,
            count: Count {
                packets,
                segments: packets,
                bytes: packets * 60,
            },
        };
        let counters = Counters {
            host: "h1".to_owned(),
            at: std::time::Instant::now(),
            verdicts: vec![
                verdict("encap", false, 9),
                verdict("spoofed_ip", true, 2),
                verdict("spoofed_mac", true, 0),
            ],
            ports: Vec::new(),
            remotes: Vec::new(),
        };
        let device = DeviceRow {
            device: "eth1".to_owned(),
            used_as: "uplink",
            lost: Lost {
                tx_dropped: 7,
                ..Lost::default()
            },
            mtu: 1400,
            mtu_at_apply: Some(1500),
        };
        assert!(device.has_lower_mtu());
        let devices = Devices {
            host: "h1".to_owned(),
            devices: vec![device],
            others: vec![OtherDevice {
                device: "phys0".to_owned(),
                used_as: UsedAs::Leg,
                state: PortState::Missing,
            }],
        };
        let limits = vec![LimitRow {
            reason: "mac_limit",
            whose: "port lab".to_owned(),
            used: 16,
            most: 16,
            of: "MACs".to_owned(),
        }];
        assert!(limited(&counters).is_empty());
        let json = serde_json::to_value(of(&counters, limits, devices)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"host": "h1", "drops": [{
                "hook": "from_port", "reason": "spoofed_ip",
                "packets": 2, "segments": 2, "bytes": 120,
                "meaning": "port security: the source address is not the port's",
            }], "limits": [{
                "reason": "mac_limit", "whose": "port lab", "used": 16, "most": 16, "of": "MACs",
            }], "devices": [{
                "device": "eth1", "used_as": "uplink", "tx_dropped": 7, "tx_errors": 0,
                "rx_dropped": 0, "rx_errors": 0, "mtu": 1400, "mtu_at_apply": 1500,
            }], "others": [{"device": "phys0", "used_as": "leg", "state": "missing"}]})
        );
    }
}
