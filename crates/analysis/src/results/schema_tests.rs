//! `docs/result.schema.json` and `docs/lab-method.md` against what is really written.
//!
//! The validator knows the part of JSON Schema that the file uses, and refuses any other keyword, so that no rule is
//! passed over in silence.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fixture;
use super::tests::result_json;

const SCHEMA: &str = include_str!("../../../../docs/result.schema.json");
const METHOD: &str = include_str!("../../../../docs/lab-method.md");

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

/// Where `value` breaks `rule`, if it does.
fn check(root: &Value, rule: &Value, value: &Value, at: &str) -> Result<(), String> {
    for (keyword, limit) in rule.as_object().unwrap() {
        let holds = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" => true,
            "$ref" => {
                let name = limit.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                check(root, &root["$defs"][name], value, at)?;
                true
            }
            "anyOf" => {
                let tries = limit.as_array().unwrap().iter();
                let errors: Result<Vec<String>, ()> = tries
                    .map(|rule| check(root, rule, value, at).err().ok_or(()))
                    .collect();
                match errors {
                    Err(()) => true,
                    Ok(errors) => return Err(errors.join(" or ")),
                }
            }
            "type" => match limit {
                Value::String(name) => is(value, name),
                names => names
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|n| is(value, n.as_str().unwrap())),
            },
            "enum" => limit.as_array().unwrap().contains(value),
            "const" => limit == value,
            "minItems" => value
                .as_array()
                .is_none_or(|v| v.len() as u64 >= limit.as_u64().unwrap()),
            "maxItems" => value
                .as_array()
                .is_none_or(|v| v.len() as u64 <= limit.as_u64().unwrap()),
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, limit, item, &format!("{at}[{i}]"))?;
                }
                true
            }
            "required" => {
                let names = limit
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|n| n.as_str().unwrap());
                let absent: Vec<_> = names.filter(|n| value.get(n).is_none()).collect();
                if !absent.is_empty() {
                    return Err(format!("{at} lacks {absent:?}"));
                }
                true
            }
            "properties" => {
                for (name, rule) in limit.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        check(root, rule, value, &format!("{at}.{name}"))?;
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = &rule["properties"];
                let others = value.as_object().into_iter().flatten();
                for (name, value) in others.filter(|(name, _)| known.get(name).is_none()) {
                    if limit == &Value::Bool(false) {
                        return Err(format!("{at} has {name}, which the schema has not"));
                    }
                    check(root, limit, value, &format!("{at}.{name}"))?;
                }
                true
            }
            other => panic!("{at}: the validator does not know {other}"),
        };
        if !holds {
            return Err(format!("{at}: {value} is not {keyword} {limit}"));
        }
    }
    Ok(())
}

fn is(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("no type {other}"),
    }
}

#[test]
fn every_shape_of_result_follows_the_schema() {
    let schema = schema();
    for (name, run) in fixture::all() {
        check(&schema, &schema, &result_json(&run), "$").unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[test]
fn what_the_schema_forbids_is_found() {
    let schema = schema();
    let sound = result_json(&fixture::cost());
    let fails = |change: fn(&mut Value), part: &str| {
        let mut broken = sound.clone();
        change(&mut broken);
        let error = check(&schema, &schema, &broken, "$").unwrap_err();
        assert!(error.contains(part), "{error}");
    };
    fails(|v| v["schema"] = "overlane-lab/1".into(), "$.schema");
    fails(|v| v["extra"] = 1.into(), "has extra");
    fails(|v| v["cells"][0]["mtu"] = Value::Null, "cells[0].mtu");
    fails(
        |v| v["cells"][0]["figures"]["goodput_gbps"]["mean"] = "1".into(),
        "goodput_gbps",
    );
    fails(
        |v| v["comparisons"][0]["verdict"] = "maybe".into(),
        "verdict",
    );
    fails(|v| v["comparisons"][0]["ci95"] = vec![1.0].into(), "ci95");
    fails(
        |v| drop(v["env"].as_object_mut().unwrap().remove("kernel")),
        "lacks",
    );
}

/// Names of all properties in a schema.
fn names(rule: &Value, out: &mut BTreeSet<String>) {
    if let Some(properties) = rule.get("properties").and_then(Value::as_object) {
        out.extend(properties.keys().cloned());
    }
    match rule {
        Value::Object(parts) => parts.values().for_each(|part| names(part, out)),
        Value::Array(parts) => parts.iter().for_each(|part| names(part, out)),
        _ => {}
    }
}

#[test]
fn every_key_is_documented() {
    let mut keys = BTreeSet::new();
    names(&schema(), &mut keys);
    assert!(keys.len() > 100);
    let undocumented: Vec<_> = keys
        .iter()
        .filter(|key| {
            !METHOD.contains(&format!("`{key}`")) && !METHOD.contains(&format!("`{key}[]`"))
        })
        .collect();
    assert!(
        undocumented.is_empty(),
        "not in docs/lab-method.md: {undocumented:?}"
    );
}

/// A key that only some runs have must not be one that no run has.
#[test]
fn every_key_of_the_schema_is_written_by_some_run() {
    fn written(value: &Value, out: &mut BTreeSet<String>) {
        match value {
            Value::Object(parts) => {
                for (key, part) in parts {
                    out.insert(key.clone());
                    written(part, out);
                }
            }
            Value::Array(parts) => parts.iter().for_each(|part| written(part, out)),
            _ => {}
        }
    }
    let (mut keys, mut seen) = (BTreeSet::new(), BTreeSet::new());
    names(&schema(), &mut keys);
    for (_, run) in fixture::all() {
        written(&result_json(&run), &mut seen);
    }
    let unseen: Vec<_> = keys.difference(&seen).collect();
    assert!(unseen.is_empty(), "{unseen:?}");
}
