//! The JSON schema of the configuration, from the very types that read it, so that the two cannot drift apart.

use schemars::{generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::{Value, json};

use super::netconf::NetConf;

/// The schema (JSON Schema 2020-12) of a plugin's configuration, as `conf/schema` has it.
pub fn schema() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let tidy = RecursiveTransform(|schema: &mut schemars::Schema| tidy(schema));
    let generator = settings.with_transform(tidy).into_generator();
    let mut schema = generator.into_root_schema_for::<NetConf>().to_value();
    schema["title"] = json!("Network configuration of ebpf-bridge");
    schema["description"] =
        json!("A plugin's configuration in a network configuration list; docs/configuration.md.");
    schema["properties"]["type"] = json!({ "const": super::TYPE, "description": "Names this plugin." });
    schema["required"] = json!(["type"]);
    schema
}

/// Takes out what is true of Rust and no help to a user: that a missing key may be written as null, the width of numbers.
fn tidy(schema: &mut schemars::Schema) {
    let Some(keys) = schema.as_object_mut() else { return };
    keys.remove("format");
    if let Some(Value::String(text)) = keys.get_mut("description") {
        // As the source is wrapped.
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    if keys.get("default").is_some_and(is_nothing) {
        keys.remove("default");
    }
    if let Some(Value::Array(types)) = keys.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            keys.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = keys.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = &choices[..] {
            let only = only.clone();
            keys.remove("anyOf");
            for (key, value) in only {
                // What the key says counts for more than what its type says.
                keys.entry(key).or_insert(value);
            }
        }
    }
}

/// A default that says no more than that the key may be left out.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::validated;

    /// Every key that has rules or a default, as (path, schema).
    fn keys(schema: &Value, path: &[String], found: &mut Vec<(Vec<String>, Value)>) {
        for (name, key) in schema["properties"].as_object().into_iter().flatten() {
            let path = [path, std::slice::from_ref(name)].concat();
            keys(key, &path, found);
            found.push((path, key.clone()));
        }
    }

    fn set(path: &[String], value: Value) -> Value {
        path.iter().rev().fold(value, |inner, name| json!({ name: inner }))
    }

    fn all() -> Vec<(Vec<String>, Value)> {
        let mut found = Vec::new();
        keys(&schema(), &[], &mut found);
        // The IPAM's own keys need each other, and the protocol's are the runtime's.
        found.retain(|(path, _)| !["ipam", "type", "name", "prevResult"].contains(&path[0].as_str()));
        found
    }

    #[test]
    fn what_the_schema_lists_is_taken_and_what_it_excludes_is_refused() {
        let mut tried = 0;
        for (path, key) in all() {
            for value in key["enum"].as_array().into_iter().flatten() {
                assert!(validated(set(&path, value.clone())).is_ok(), "{path:?} {value}");
                validated(set(&path, json!("nonsense"))).expect_err(&path.join("."));
                tried += 1;
            }
            for (bound, beyond) in [("minimum", -1), ("maximum", 1)] {
                let Some(value) = key[bound].as_i64() else { continue };
                let inside = validated(set(&path, json!(value)));
                assert!(inside.is_ok() || path[0] == "runtimeConfig", "{path:?} {value}: {inside:?}");
                validated(set(&path, json!(value + beyond))).expect_err(&path.join("."));
                tried += 1;
            }
        }
        assert!(tried > 20, "only {tried}");
    }

    #[test]
    fn a_default_is_what_the_plugin_does_without_the_key() {
        let shown = |keys: Value| {
            let mut network = validated(keys).unwrap();
            network.raw = Value::Null;
            format!("{network:?}")
        };
        let without = shown(json!({}));
        let with_defaults: Vec<_> =
            all().into_iter().filter(|(_, key)| key.get("default").is_some()).collect();
        assert!(with_defaults.len() > 15);
        for (path, key) in with_defaults {
            assert_eq!(shown(set(&path, key["default"].clone())), without, "{path:?}");
        }
    }

    #[test]
    fn every_key_is_explained() {
        for (path, key) in all() {
            assert!(key["description"].as_str().is_some_and(|text| text.ends_with('.')), "{path:?}: {key}");
        }
    }

    #[test]
    fn a_type_is_what_the_plugin_takes() {
        // Only with host-local is there anybody to read them.
        for (path, key) in all().into_iter().filter(|(path, _)| path.last().unwrap() != "ipRanges") {
            let wrong = if key["type"] == "string" { json!(7) } else { json!("nonsense") };
            assert!(validated(set(&path, wrong)).is_err() || key.get("anyOf").is_some(), "{path:?}");
        }
    }
}
