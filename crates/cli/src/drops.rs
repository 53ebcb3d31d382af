//! `overlane show drops`: what was dropped, how often and why; with `--follow` each packet as it is dropped.

use std::io;

use overlane_host::capture::Target;
use overlane_host::observe::{self, Count, Counters};
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
    let drops = of(&counters);
    if args.common.json {
        output.json(&drops)?;
    } else {
        print(&drops, output)?;
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

fn of(counters: &Counters) -> Drops<'_> {
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
    }
}

fn print(drops: &Drops<'_>, output: Output) -> io::Result<()> {
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
    )
}

#[cfg(test)]
mod tests {
    use overlane_host::observe::VerdictCount;

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
            verdicts: vec![
                verdict("encap", false, 9),
                verdict("spoofed_ip", true, 2),
                verdict("spoofed_mac", true, 0),
            ],
            ports: Vec::new(),
            remotes: Vec::new(),
        };
        let json = serde_json::to_value(of(&counters)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"host": "h1", "drops": [{
                "hook": "from_port", "reason": "spoofed_ip",
                "packets": 2, "segments": 2, "bytes": 120,
                "meaning": "port security: the source address is not the port's",
            }]})
        );
    }
}
