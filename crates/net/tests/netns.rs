//! Namespaces: made, found, entered, deleted, and the same ones to `ip netns`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod common;

use std::fs;

use common::{TestNetns, host_output, unique_name};
use overlane_net::netns::{self, Netns};
use overlane_net::{NetError, Netlink};

#[test]
fn created_namespaces_are_those_of_ip_netns() {
    need_root!();
    let test = TestNetns::new();
    let name = test.0.name().to_owned();
    assert!(netns::exists(&name));
    assert!(netns::list().unwrap().contains(&name));
    let listed = host_output("ip", &["netns", "list"]);
    assert!(
        listed
            .lines()
            .any(|line| line.split(' ').next() == Some(&name)),
        "{listed}"
    );
    let lo = host_output(
        "ip",
        &["netns", "exec", &name, "ip", "-br", "link", "show", "lo"],
    );
    assert!(lo.contains("UP"), "{lo}");

    netns::delete(&name).unwrap();
    assert!(!netns::exists(&name));
    assert!(!netns::list().unwrap().contains(&name));
    assert!(!host_output("ip", &["netns", "list"]).contains(&name));
}

#[test]
fn namespaces_of_ip_netns_are_ours() {
    need_root!();
    let name = unique_name();
    host_output("ip", &["netns", "add", &name]);
    let opened = Netns::open(&name);
    let deleted = netns::delete(&name);
    assert_eq!(opened.unwrap().name(), name);
    deleted.unwrap();
}

#[test]
fn run_enters_on_a_thread_of_its_own() {
    need_root!();
    let test = TestNetns::new();
    let outside = fs::read_link("/proc/thread-self/ns/net").unwrap();
    let mounts = fs::read_link("/proc/thread-self/ns/mnt").unwrap();
    let (inside, inside_mounts, name) = test
        .0
        .run(|| {
            let ns = |kind| fs::read_link(format!("/proc/thread-self/ns/{kind}")).unwrap();
            (
                ns("net"),
                ns("mnt"),
                Netns::current().unwrap().name().to_owned(),
            )
        })
        .unwrap();
    assert_ne!(inside, outside);
    assert_eq!(inside_mounts, mounts, "mounts are kept");
    assert_eq!(name, test.0.name());
    assert_eq!(
        fs::read_link("/proc/thread-self/ns/net").unwrap(),
        outside,
        "the caller stays"
    );
    assert!(
        Netns::current()
            .unwrap()
            .is_same(&Netns::current().unwrap())
    );
    assert!(!Netns::current().unwrap().is_same(&test.0));
}

#[test]
fn panics_inside_are_errors_outside() {
    need_root!();
    let test = TestNetns::new();
    let error = test
        .0
        .run(|| panic!("lost the way"))
        .map(|(): ()| ())
        .unwrap_err();
    assert!(matches!(&error, NetError::Panicked { message, .. } if message == "lost the way"));
    assert_eq!(error.namespace(), Some(test.0.name()));
}

#[test]
fn commands_run_inside_with_our_mounts() {
    need_root!();
    let test = TestNetns::new();
    let inside = test.output("readlink", &["/proc/self/ns/net", "/proc/self/ns/mnt"]);
    let net = test
        .0
        .run(|| fs::read_link("/proc/thread-self/ns/net").unwrap())
        .unwrap();
    let mounts = fs::read_link("/proc/self/ns/mnt").unwrap();
    let expected: Vec<_> = [net, mounts].map(|path| path.display().to_string()).into();
    assert_eq!(inside.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_handle_stays_with_its_namespace() {
    need_root!();
    let test = TestNetns::new();
    let netlink = test.netlink();
    let names: Vec<_> = netlink
        .links()
        .unwrap()
        .into_iter()
        .map(|link| link.name)
        .collect();
    assert_eq!(names, ["lo"]);
    assert!(Netlink::new().unwrap().links().is_ok());
}

#[test]
fn errors_tell_what_is_the_matter() {
    need_root!();
    let test = TestNetns::new();
    let name = test.0.name();
    let exists = Netns::create(name).unwrap_err();
    assert!(
        exists.is_exists() && exists.to_string().contains(name),
        "{exists}"
    );
    assert!(netns::exists(name), "the existing one is left alone");

    let missing = unique_name();
    assert!(Netns::open(&missing).unwrap_err().is_not_found());
    assert!(netns::delete(&missing).unwrap_err().is_not_found());
    assert!(!netns::exists(&missing));
    for bad in ["", "..", "a/b", ".hidden"] {
        assert!(
            matches!(Netns::create(bad), Err(NetError::BadName { .. })),
            "{bad}"
        );
    }
}

#[test]
fn half_made_namespaces_can_be_deleted() {
    need_root!();
    let test = TestNetns::new(); // makes sure that the folder is there
    let name = unique_name();
    fs::write(format!("/run/netns/{name}"), "").unwrap();
    let opened = Netns::open(&name);
    let listed = netns::list().unwrap();
    netns::delete(&name).unwrap();
    assert!(matches!(opened, Err(NetError::HalfMade { .. })));
    assert!(listed.contains(&name) && listed.contains(&test.0.name().to_owned()));
    assert!(!netns::exists(&name));
}

#[test]
fn a_namespace_is_found_by_its_file() {
    need_root!();
    let test = TestNetns::new();
    let by_name = Netns::at(format!("/run/netns/{}", test.0.name()).as_ref()).unwrap();
    assert!(by_name.is_same(&test.0));
    let process = std::process::id();
    let of_process = Netns::at(format!("/proc/{process}/ns/net").as_ref()).unwrap();
    assert!(of_process.is_same(&Netns::current().unwrap()));

    let folder = std::env::temp_dir();
    let pipe = folder.join(unique_name());
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let namespace_of_mounts = format!("/proc/{process}/ns/mnt");
    for wrong in [
        "/etc/passwd".as_ref(),
        "/etc/passwd/x".as_ref(),
        "/dev/null".as_ref(),
        namespace_of_mounts.as_ref(),
        pipe.as_path(),
        folder.as_path(),
    ] {
        let error = Netns::at(wrong).unwrap_err();
        let is_told = matches!(&error, NetError::NotANamespace { path } if path == wrong);
        assert!(is_told, "{error}");
    }
    fs::remove_file(&pipe).unwrap();
    for missing in ["/run/netns/none-such", "/proc/4194304/ns/net"] {
        let error = Netns::at(missing.as_ref()).unwrap_err();
        assert!(error.is_not_found(), "{error}");
    }
}
