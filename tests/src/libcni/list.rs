//! What a runtime is given: a network's list of plugins, and the container to attach.

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::{Pod, config};

/// A network configuration list.
#[derive(Clone, Debug)]
pub struct Conflist {
    /// `cniVersion`.
    pub version: String,
    /// `name`, the network's.
    pub name: String,
    /// `plugins`, in the order of ADD.
    pub plugins: Vec<Value>,
}

impl Conflist {
    /// A list of one plugin, version 1.0.0, for the network the tests use.
    pub fn of(plugin: Value) -> Conflist {
        Conflist { version: "1.0.0".into(), name: config::NETWORK.into(), plugins: vec![plugin] }
    }

    /// The list in a file of a runtime's configuration.
    pub fn read(list: &Value) -> Result<Conflist> {
        let text =
            |key: &str| list[key].as_str().map(str::to_owned).with_context(|| format!("no {key}: {list}"));
        let plugins = list["plugins"].as_array().with_context(|| format!("no plugins: {list}"))?.clone();
        Ok(Conflist { version: text("cniVersion")?, name: text("name")?, plugins })
    }

    /// The same list in another version of the specification.
    pub fn version(mut self, version: &str) -> Conflist {
        self.version = version.into();
        self
    }

    /// The same list with one more plugin at its end.
    pub fn then(mut self, plugin: Value) -> Conflist {
        self.plugins.push(plugin);
        self
    }

    /// The request configuration of one plugin, as section 3 derives it: name and version put in, the runtime's
    /// arguments for the capabilities the plugin declares, and the previous plugin's result.
    pub(crate) fn request(&self, plugin: &Value, container: &Container, previous: Option<&Value>) -> String {
        let mut request = plugin.clone();
        request["cniVersion"] = json!(self.version);
        request["name"] = json!(self.name);
        let declared = plugin["capabilities"].as_object();
        let wanted =
            |name: &String| declared.is_some_and(|declared| declared.get(name) == Some(&Value::Bool(true)));
        let granted: Map<_, _> =
            container.capabilities.clone().into_iter().filter(|(name, _)| wanted(name)).collect();
        if let Some(object) = request.as_object_mut() {
            object.remove("capabilities");
        }
        if !granted.is_empty() {
            request["runtimeConfig"] = Value::Object(granted);
        }
        if let Some(previous) = previous {
            request["prevResult"] = previous.clone();
        }
        request.to_string()
    }
}

/// A container's attachment to one network, as the runtime names it.
#[derive(Clone, Debug)]
pub struct Container {
    /// `CNI_CONTAINERID`.
    pub id: String,
    /// `CNI_NETNS`; left out of the environment when `None`, which only DEL allows.
    pub netns: Option<String>,
    /// `CNI_IFNAME`.
    pub ifname: String,
    /// `CNI_ARGS`.
    pub args: String,
    /// The runtime's arguments by capability, such as `portMappings`.
    pub capabilities: Map<String, Value>,
}

impl Container {
    /// The attachment of a pod as `eth0`, without arguments; the pod's name is the container ID.
    pub fn of(pod: &Pod) -> Container {
        Container {
            id: pod.name().into(),
            netns: Some(pod.netns()),
            ifname: "eth0".into(),
            args: String::new(),
            capabilities: Map::new(),
        }
    }

    /// The same with another `CNI_NETNS`.
    pub fn netns(mut self, netns: Option<&str>) -> Container {
        self.netns = netns.map(Into::into);
        self
    }

    /// The same with `CNI_ARGS`.
    pub fn args(mut self, args: &str) -> Container {
        self.args = args.into();
        self
    }

    /// The same with the runtime's argument for one capability.
    pub fn capability(mut self, name: &str, value: Value) -> Container {
        self.capabilities.insert(name.into(), value);
        self
    }
}
