//! Fabric files: a file that is refused has a mistake with a place in it, and all mistakes can be shown; one
//! that is accepted has tables for each of its hosts.

#![no_main]

use libfuzzer_sys::fuzz_target;
use overlane_model::Fabric;

fuzz_target!(|text: &str| {
    match Fabric::parse("fuzz.yaml", text) {
        Err(errors) => {
            assert!(!errors.diagnostics().is_empty());
            assert!(errors.render(false).contains("fuzz.yaml"));
        }
        Ok(fabric) => {
            for host in fabric.hosts().keys() {
                let tables = fabric.compile(host.as_str()).expect("a host of the file");
                assert_eq!(tables.host, *host);
            }
        }
    }
});
