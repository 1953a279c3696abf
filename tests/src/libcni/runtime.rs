//! Runs a list of plugins for a container and remembers what they answered.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{AddResult, Conflist, Container, exec};
use crate::Node;

/// One network of one node, as a runtime drives it. Containers may be attached from several threads at once.
pub struct Runtime {
    list: Conflist,
    results: Mutex<HashMap<(String, String), Value>>,
}

impl Runtime {
    /// A runtime with no container attached yet.
    pub fn new(list: Conflist) -> Runtime {
        Runtime { list, results: Mutex::default() }
    }

    /// The list as it was given.
    pub fn list(&self) -> &Conflist {
        &self.list
    }

    /// ADD through the whole list. A runtime is expected to DEL after a failure; this one leaves that to the test.
    ///
    /// # Errors
    /// See [`exec`].
    pub fn add(&self, node: &Node, container: &Container) -> Result<AddResult> {
        let mut result = None;
        for plugin in &self.list.plugins {
            let output = self.exec(node, plugin, "ADD", container, result.as_ref())?;
            result = Some(output.context("ADD succeeded without a result")?);
        }
        let result = result.context("a list without plugins")?;
        let parsed = AddResult::parse(&result)?;
        self.results.lock().unwrap_or_else(PoisonError::into_inner).insert(key(container), result);
        Ok(parsed)
    }

    /// DEL through the whole list, in reverse, with the result of ADD when it is known.
    pub fn del(&self, node: &Node, container: &Container) -> Result<()> {
        let result = self.remembered(container);
        for plugin in self.list.plugins.iter().rev() {
            self.exec(node, plugin, "DEL", container, result.as_ref())?;
        }
        self.results.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(container));
        Ok(())
    }

    /// CHECK through the whole list.
    pub fn check(&self, node: &Node, container: &Container) -> Result<()> {
        let result = self.remembered(container);
        for plugin in &self.list.plugins {
            self.exec(node, plugin, "CHECK", container, result.as_ref())?;
        }
        Ok(())
    }

    fn remembered(&self, container: &Container) -> Option<Value> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).get(&key(container)).cloned()
    }

    fn exec(
        &self,
        node: &Node,
        plugin: &Value,
        verb: &str,
        container: &Container,
        previous: Option<&Value>,
    ) -> Result<Option<Value>> {
        let kind = plugin["type"].as_str().context("a plugin without a type")?;
        let mut env = vec![
            ("CNI_CONTAINERID", container.id.as_str()),
            ("CNI_IFNAME", &container.ifname),
            ("CNI_ARGS", &container.args),
        ];
        if let Some(netns) = &container.netns {
            env.push(("CNI_NETNS", netns));
        }
        Ok(exec(node, kind, verb, &env, &self.list.request(plugin, container, previous))?.document)
    }
}

fn key(container: &Container) -> (String, String) {
    (container.id.clone(), container.ifname.clone())
}
