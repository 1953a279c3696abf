//! What is asked for one pod, by whoever may ask: the runtime, the configuration's `args`, `CNI_ARGS`.

use std::net::IpAddr;

use ipnetwork::IpNetwork;

use super::netconf::{ConfigError, NetConf};
use crate::cni::request::Environment;

/// The MAC asked for, in the reference's order of precedence.
pub(super) fn mac(conf: &NetConf, environment: &Environment) -> Result<Option<[u8; 6]>, ConfigError> {
    let candidates = [
        ("runtimeConfig.mac", conf.runtime_config.mac.as_deref()),
        ("args.cni.mac", conf.args.cni.mac.as_deref()),
        ("CNI_ARGS MAC", environment.arg("MAC")),
    ];
    let Some((key, text)) = candidates.into_iter().find_map(|(key, text)| Some((key, text?))) else {
        return Ok(None);
    };
    let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
    match bytes.as_deref() {
        // Bit 0 of the first byte marks a group address, which no interface may have.
        Some(&[a, b, c, d, e, f]) if a & 1 == 0 => Ok(Some([a, b, c, d, e, f])),
        _ => Err(ConfigError::value(key, format!("{text:?}"), "a unicast MAC such as \"02:00:00:00:00:01\"")),
    }
}

/// Every address asked for; the reference takes them from three places.
pub(super) fn ips(conf: &NetConf, environment: &Environment) -> Result<Vec<IpAddr>, ConfigError> {
    let args = environment.arg("IP").map(str::to_owned);
    let sources = [
        ("runtimeConfig.ips", conf.runtime_config.ips.clone()),
        ("args.cni.ips", conf.args.cni.ips.clone()),
        ("CNI_ARGS IP", args.map(|ips| ips.split(',').map(str::to_owned).collect()).unwrap_or_default()),
    ];
    let mut ips = Vec::new();
    for (key, texts) in sources {
        for text in texts {
            ips.push(address(&text).ok_or_else(|| {
                ConfigError::value(key, format!("{text:?}"), "IP addresses, with or without a prefix length")
            })?);
        }
    }
    Ok(ips)
}

/// Two hexadecimal digits. The number parser alone would take a sign for one.
fn byte(text: &str) -> Option<u8> {
    let digits = text.len() == 2 && text.chars().all(|c| c.is_ascii_hexdigit());
    digits.then(|| u8::from_str_radix(text, 16).ok()).flatten()
}

fn address(text: &str) -> Option<IpAddr> {
    if text.contains('/') { text.parse::<IpNetwork>().ok().map(|net| net.ip()) } else { text.parse().ok() }
}
