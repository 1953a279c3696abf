//! The network configuration, from standard input to the plan of an ADD.

use ebpf_bridge::{
    cni::{request::Environment, types::Ip},
    config::{ConfigError, Ipam, LogConfig, NetConf, Network},
    plan::{self, Addressing, Observed, Placement, Step},
    verbs::requested_version,
};
use serde_json::Value;

use crate::told;

pub(crate) fn run(input: &[u8]) {
    let variable = |name: &str| (name == "CNI_COMMAND").then(|| "STATUS".to_owned());
    let environment = Environment::read(variable).expect("a sound environment");
    // Errors carry it, and a runtime reads them before it knows what was wrong.
    requested_version(input);
    match read(input, &environment) {
        Ok(network) => planned(&network),
        Err(error) => told::refused(error),
    }
}

/// What the verbs do with standard input.
pub(crate) fn read(input: &[u8], environment: &Environment) -> Result<Network, ConfigError> {
    let raw: Value = serde_json::from_slice(input)?;
    let conf = NetConf::parse(&raw)?;
    LogConfig::validate(&conf)?;
    let unknown = conf.unknown_keys().count();
    assert!(unknown <= raw.as_object().map_or(0, serde_json::Map::len));
    let network = Network::validate(conf, raw, environment)?;
    contained(&network);
    Ok(network)
}

/// Names become components of paths and arguments of programs: they must be no more than that.
fn contained(network: &Network) {
    let component = |name: &str| {
        assert!(!name.is_empty() && name.len() < 256 && name != "." && name != "..", "{name:?}");
        assert!(!name.contains(|c: char| c == '/' || c.is_control() || c.is_whitespace()), "{name:?}");
    };
    component(&network.name);
    assert!(!network.name.starts_with('-'), "an option: {:?}", network.name);
    let links = network.ebpf.uplinks.iter().flatten().chain([&network.bridge]);
    for link in links {
        component(link);
        // `IFNAMSIZ`, and the two directories of /proc/sys/net/*/conf that are no link's.
        assert!(link.len() < 16 && link != "all" && link != "default", "no link: {link:?}");
        assert!(!link.contains('%'), "the kernel would number it: {link:?}");
    }
    let mut paths = vec![&network.ebpf.bpffs];
    match &network.ipam {
        Ipam::None => {}
        Ipam::Exec { plugin } => component(plugin),
        Ipam::HostLocal(config) => paths.push(&config.data_dir),
    }
    for path in paths {
        let text = path.to_string_lossy();
        assert!(text.starts_with('/') && !text.split('/').any(|part| part == ".."), "{text:?}");
    }
}

/// A network that is accepted can be planned for, with the first address of each range.
fn planned(network: &Network) {
    let placement = Placement { veth: "veth0".into(), ifname: "eth0".into(), bridge_mac: [2, 0, 0, 0, 0, 1] };
    let observed = Observed::default();
    let addressing = plan::complete(network, &observed, leased(network));
    let steps = match plan::add(network, &observed, &placement, &addressing) {
        Ok(steps) => steps,
        // Nothing is on this node that could be in the way.
        Err(error) => panic!("no plan for an empty node: {error}"),
    };
    let veths = steps.iter().filter(|step| matches!(step, Step::CreateVeth { .. })).count();
    assert_eq!(veths, 1, "{steps:?}");
}

fn leased(network: &Network) -> Addressing {
    let Ipam::HostLocal(config) = &network.ipam else { return Addressing::default() };
    let mut ips = Vec::new();
    for set in &config.ranges {
        let Some((address, range)) = set.candidates(None).next() else { continue };
        let address = format!("{address}/{}", range.subnet().prefix());
        let address = address.parse().expect("an address of the subnet");
        ips.push(Ip { interface: None, address, gateway: Some(range.gateway()) });
    }
    Addressing { ips, routes: config.routes.clone() }
}
