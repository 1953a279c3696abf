//! A captured configuration, changed so that it leads to nothing outside of the scratch node.

use serde_json::{Value, json};

use super::scratch::LEASES;

/// IPAM plugins that know only what they are told: others may lease from a server.
const SAFE: [&str; 3] = ["", "host-local", "static"];

/// The configuration to run with. `result` is what the ADD answered here, in place of the captured answer.
pub(super) fn adapt(stdin: &[u8], result: Option<&Value>) -> anyhow::Result<Vec<u8>> {
    let mut conf: Value = serde_json::from_slice(stdin)?;
    let ipam = conf["ipam"]["type"].as_str().unwrap_or_default().to_owned();
    anyhow::ensure!(
        SAFE.contains(&ipam.as_str()),
        "ipam.type is {ipam:?}, which may lease outside of the scratch node; only host-local and static can be replayed"
    );
    // A value that is wrong stays: the call is to fail as it did.
    let absolute =
        |value: Option<&Value>| value.and_then(Value::as_str).is_some_and(|path| path.starts_with('/'));
    if let Some(keys) = conf.as_object_mut() {
        for key in ["logFile", "captureDir"] {
            if absolute(keys.get(key)) {
                keys.remove(key);
            }
        }
        if let (Some(previous), Some(result)) = (keys.get_mut("prevResult"), result) {
            *previous = result.clone();
        }
        if let Some(ebpf) = keys.get_mut("ebpf").and_then(Value::as_object_mut)
            && absolute(ebpf.get("bpffs"))
        {
            ebpf.remove("bpffs");
        }
        if let Some(ipam) = keys.get_mut("ipam").and_then(Value::as_object_mut)
            && absolute(ipam.get("dataDir"))
        {
            ipam.insert("dataDir".to_owned(), json!(LEASES));
        }
    }
    Ok(conf.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_outside() {
        let conf = json!({
            "name": "n", "logFile": "/var/log/x", "captureDir": "/var/log/y", "mtu": 7,
            "ipam": {"type": "host-local", "dataDir": "/data", "subnet": "10.1.0.0/24"},
            "ebpf": {"bpffs": "/other/bpf", "mode": "auto"}, "prevResult": {"old": true},
        });
        let adapted = adapt(conf.to_string().as_bytes(), Some(&json!({"new": true}))).unwrap();
        let expected = json!({
            "name": "n", "mtu": 7,
            "ipam": {"type": "host-local", "dataDir": LEASES, "subnet": "10.1.0.0/24"},
            "ebpf": {"mode": "auto"}, "prevResult": {"new": true},
        });
        assert_eq!(serde_json::from_slice::<Value>(&adapted).unwrap(), expected);
        let error = adapt(br#"{"ipam":{"type":"dhcp"}}"#, None).unwrap_err().to_string();
        assert!(error.contains("dhcp"), "{error}");
    }

    #[test]
    fn what_was_wrong_stays_wrong() {
        let conf = r#"{"captureDir":"/c","ebpf":7,"ipam":[],"logFile":"relative"}"#;
        let adapted = adapt(conf.as_bytes(), None).unwrap();
        assert_eq!(String::from_utf8(adapted).unwrap(), r#"{"ebpf":7,"ipam":[],"logFile":"relative"}"#);
    }
}
