//! A file of network configuration, as an administrator keeps it for a runtime: a list of plugins or a single one.

use serde_json::Value;

use super::{ConfigError, network::Network};

/// Our `type`.
pub const TYPE: &str = "ebpf-bridge";

/// What is wrong with such a file.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// Not JSON.
    #[error("not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// JSON of another shape.
    #[error("not a network configuration: it has neither a list \"plugins\" nor a \"type\"")]
    Shape,
    /// Only others' plugins.
    #[error("no plugin in it has the type {TYPE:?}")]
    NotOurs,
    /// A plugin of ours in it is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// A network configuration list. A single plugin's configuration is a list of one.
#[derive(Debug, Clone)]
pub struct List {
    head: Value,
    plugins: Vec<Value>,
}

impl List {
    /// Reads a file's text.
    pub fn parse(text: &[u8]) -> Result<Self, ListError> {
        let head: Value = serde_json::from_slice(text)?;
        let plugins = match head.get("plugins") {
            Some(Value::Array(plugins)) => plugins.clone(),
            None if head["type"].is_string() => vec![head.clone()],
            _ => return Err(ListError::Shape),
        };
        Ok(Self { head, plugins })
    }

    /// The configurations for us, as the runtime passes them on (specification, section "Deriving request configuration
    /// from plugin configuration"), or as a plugin that delegates to us does.
    pub fn ours(&self) -> Vec<Value> {
        let delegates = self.plugins.iter().filter_map(|plugin| plugin.get("delegate"));
        let ours = self.plugins.iter().chain(delegates).filter(|plugin| plugin["type"] == TYPE);
        ours.cloned().map(|plugin| self.request(plugin)).collect()
    }

    fn request(&self, mut plugin: Value) -> Value {
        for key in ["cniVersion", "name"] {
            if let Some(value) = self.head.get(key) {
                plugin[key] = value.clone();
            }
        }
        plugin
    }

    /// The networks that are ours, validated. At least one.
    pub fn networks(&self) -> Result<Vec<Network>, ListError> {
        let networks = self.ours().into_iter().map(Network::read).collect::<Result<Vec<_>, _>>()?;
        if networks.is_empty() { Err(ListError::NotOurs) } else { Ok(networks) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(text: &str) -> Result<Vec<Network>, ListError> {
        List::parse(text.as_bytes())?.networks()
    }

    #[test]
    fn a_plugin_is_found_in_a_list_alone_and_as_a_delegate() {
        for text in [
            r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"tuning"},{"type":"ebpf-bridge"}]}"#,
            r#"{"cniVersion":"1.0.0","name":"n","type":"ebpf-bridge"}"#,
            r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"flannel","delegate":{"type":"ebpf-bridge"}}]}"#,
        ] {
            assert_eq!(networks(text).unwrap()[0].name, "n", "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, complaint) in [
            ("nonsense", "not JSON"),
            ("[]", "neither a list"),
            (r#"{"plugins":7}"#, "neither a list"),
            (r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge"}]}"#, "no plugin in it"),
            (
                r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"ebpf-bridge","mtu":1}]}"#,
                "\"mtu\" is 1",
            ),
        ] {
            let error = networks(text).unwrap_err().to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }
}
