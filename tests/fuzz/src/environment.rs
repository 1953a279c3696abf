//! The variables of a call, `CNI_ARGS` among them. An input is a list of `NAME=value`, each ended by a NUL as in
//! /proc/self/environ.

use ebpf_bridge::cni::request::Environment;

use crate::{config, told};

const CONFIGURATION: &[u8] =
    br#"{"cniVersion":"1.1.0","name":"n1","ipam":{"type":"host-local","subnet":"10.1.0.0/16"}}"#;

pub(crate) fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let pairs: Vec<(&str, &str)> = text.split('\0').filter_map(|pair| pair.split_once('=')).collect();
    let variable = |name: &str| {
        let found = pairs.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let environment = match Environment::read(variable) {
        Ok(environment) => environment,
        Err(error) => return told::refused(error),
    };
    contained(&environment);
    match config::read(CONFIGURATION, &environment) {
        Ok(network) => {
            if let Some(mac) = network.mac {
                is_asked(&environment, mac);
            }
        }
        Err(error) => told::refused(error),
    }
}

fn contained(environment: &Environment) {
    if let Some(attachment) = &environment.attachment {
        let file = format!("{}@{}", attachment.container_id, attachment.ifname);
        // `NAME_MAX` of linux/limits.h.
        assert!(file.len() <= 255 && !file.contains('/') && !file.starts_with(['.', '-']), "{file:?}");
        let link = &attachment.ifname;
        assert!(link.len() < 16 && !link.contains(char::is_whitespace), "{link:?}");
        assert!(!["", ".", "..", "all", "default"].contains(&link.as_str()), "no link: {link:?}");
        assert!(!link.contains('%'), "the kernel would number it: {link:?}");
        assert!(!link.contains(char::is_control), "{link:?}");
    }
    if let Some(trace) = &environment.trace {
        assert!(!trace.contains(|c: char| c.is_control() || c.is_whitespace()), "{trace:?}");
    }
}

/// A MAC is six bytes of two digits, and what is taken from them is what they say.
fn is_asked(environment: &Environment, mac: [u8; 6]) {
    let asked = environment.arg("MAC").expect("nobody else asks").to_ascii_lowercase();
    let bytes: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(asked, bytes.join(":"));
}
