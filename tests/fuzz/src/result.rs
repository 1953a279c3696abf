//! Results: `prevResult`, and what an IPAM plugin answers.

use ebpf_bridge::{
    cni::{layout, types::CniResult, version::SUPPORTED},
    plan,
    verbs::VerbError,
};
use serde_json::Value;

use crate::{config, record, told};

const CONFIGURATION: &[u8] =
    br#"{"cniVersion":"1.1.0","name":"n1","bridge":"br0","isDefaultGateway":true,"ipMasq":true,
    "ipam":{"type":"host-local","subnet":"10.1.0.0/16"}}"#;

pub(crate) fn run(input: &[u8]) {
    let Ok(document) = serde_json::from_slice::<Value>(input) else { return };
    let result = match layout::decode(&document) {
        Ok(result) => result,
        Err(source) => {
            return told::sentence(&VerbError::Answer { plugin: "dhcp".into(), source });
        }
    };
    for version in SUPPORTED {
        understood(&result, version);
    }
    checked(&result);
}

/// What we write we read, and it says the same.
fn understood(result: &CniResult, version: &str) {
    let told = CniResult { cni_version: (*version).into(), ..result.clone() };
    let document = layout::encode(&told).expect("a result can be written");
    let read = layout::decode(&document).expect("what was written can be read");
    assert_eq!(read.dns, told.dns);
    if version == "1.1.0" {
        assert_eq!(read, told);
    }
    for ip in &read.ips {
        assert!(told.ips.iter().any(|asked| asked.address == ip.address), "{version}: {ip:?} is new");
    }
}

/// CHECK finds words for whatever it differs in.
fn checked(result: &CniResult) {
    let environment = record::environment();
    let network = config::read(CONFIGURATION, &environment).expect("a sound configuration");
    let record = record::sound();
    for expected in plan::check(&network, &record, result).expect("a plan for an empty node") {
        assert!(!expected.to_string().is_empty());
    }
    assert!(plan::lost(&record, result).iter().all(|lost| !lost.is_empty()));
}
