//! What differs between two runs besides what is compared.

use crate::record::Run;

/// The doubts about a single run that bear on a comparison within it.
pub(super) fn of_one(run: &Run) -> Vec<String> {
    let mut out = Vec::new();
    if run.interrupted {
        out.push("The run was broken off: cells may have few samples.".to_owned());
    }
    if run.env.shared_cpus {
        out.push("The virtual hosts share a CPU.".to_owned());
    }
    out
}

/// What differs between the machines, programs and studies of two runs, one sentence each.
pub(super) fn differences(a: &Run, b: &Run) -> Vec<String> {
    let mut out = vec![
        "Two runs are no pairs: what changed on the machine between them is in every ratio."
            .to_owned(),
    ];
    for (name, run) in [("baseline", a), ("candidate", b)] {
        if run.interrupted {
            out.push(format!(
                "The run of the {name} was broken off: cells may have few samples."
            ));
        }
    }
    let (env_a, env_b) = (&a.env, &b.env);
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
    let facts = [
        ("format", a.schema.clone(), b.schema.clone()),
        ("study", a.study.name.clone(), b.study.name.clone()),
        ("matrix", matrix(a).to_owned(), matrix(b).to_owned()),
        ("length of a sample", seconds(a), seconds(b)),
        ("kernel", env_a.kernel.clone(), env_b.kernel.clone()),
        (
            "kernel command line",
            env_a.cmdline.clone(),
            env_b.cmdline.clone(),
        ),
        ("distribution", env_a.os.clone(), env_b.os.clone()),
        ("CPU", env_a.cpu_model.clone(), env_b.cpu_model.clone()),
        (
            "number of CPUs",
            env_a.cpus.to_string(),
            env_b.cpus.to_string(),
        ),
        ("memory", mib(env_a.memory_mib), mib(env_b.memory_mib)),
        (
            "frequency governor",
            text(&env_a.governor),
            text(&env_b.governor),
        ),
        ("SMT", text(&env_a.smt), text(&env_b.smt)),
        (
            "CPU accounting",
            env_a.cpu_accounting.clone(),
            env_b.cpu_accounting.clone(),
        ),
        (
            "CPUs of host1",
            cpus(&env_a.host1_cpus),
            cpus(&env_b.host1_cpus),
        ),
        (
            "CPUs of host2",
            cpus(&env_a.host2_cpus),
            cpus(&env_b.host2_cpus),
        ),
        (
            "version of overlane",
            env_a.overlane_version.clone(),
            env_b.overlane_version.clone(),
        ),
    ];
    for (what, a, b) in facts {
        if a != b {
            out.push(format!("The {what} differs: baseline {a}; candidate {b}."));
        }
    }
    for (what, a, b) in [
        ("mitigation", &env_a.mitigations, &env_b.mitigations),
        ("sysctl", &env_a.sysctl, &env_b.sysctl),
        ("version of", &env_a.tools, &env_b.tools),
    ] {
        let names: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
        for name in names {
            let (a, b) = (a.get(name), b.get(name));
            if a != b {
                let text = |value: Option<&String>| value.map_or("none", String::as_str).to_owned();
                out.push(format!(
                    "The {what} {name} differs: baseline {}; candidate {}.",
                    text(a),
                    text(b)
                ));
            }
        }
    }
    out
}

fn matrix(run: &Run) -> &'static str {
    if run.quick { "quick" } else { "whole" }
}

fn seconds(run: &Run) -> String {
    format!("{} s", run.matrix().seconds)
}

fn mib(memory: u64) -> String {
    format!("{memory} MiB")
}

fn cpus(list: &[usize]) -> String {
    let list: Vec<String> = list.iter().map(usize::to_string).collect();
    list.join(" ")
}
