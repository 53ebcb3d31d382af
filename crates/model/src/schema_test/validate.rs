//! A validator that knows only the words that our schema uses, and fails on any other.

use serde_json::{Map, Value, json};

/// What is wrong with `value`, as "path: what" lines.
pub(super) fn validate(
    root: &Value,
    schema: &Value,
    value: &Value,
    path: &str,
    faults: &mut Vec<String>,
) {
    for (word, rule) in schema.as_object().unwrap() {
        let right = match word.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" | "format" => true,
            "patternProperties" | "additionalProperties" => true, // with "properties", below
            "$ref" => {
                let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                validate(root, root.pointer(pointer).unwrap(), value, path, faults);
                true
            }
            "type" => match rule.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_i64(),
                other => panic!("type {other}"),
            },
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "oneOf" | "anyOf" => {
                let fits = rule.as_array().unwrap().iter().filter(|choice| {
                    let mut inner = Vec::new();
                    validate(root, choice, value, path, &mut inner);
                    inner.is_empty()
                });
                let fits = fits.count();
                fits == 1 || (word == "anyOf" && fits > 0)
            }
            "minimum" => value
                .as_i64()
                .is_none_or(|value| value >= rule.as_i64().unwrap()),
            "maximum" => value
                .as_i64()
                .is_none_or(|value| value <= rule.as_i64().unwrap()),
            "pattern" => value.as_str().is_none_or(|text| matches(rule, text)),
            "minProperties" => value
                .as_object()
                .is_none_or(|map| map.len() as u64 >= rule.as_u64().unwrap()),
            "required" => rule.as_array().unwrap().iter().all(|key| {
                value
                    .as_object()
                    .is_none_or(|map| map.contains_key(key.as_str().unwrap()))
            }),
            "dependentRequired" => value.as_object().is_none_or(|map| {
                let mut rules = rule.as_object().unwrap().iter();
                rules.all(|(key, needs)| {
                    let mut needs = needs.as_array().unwrap().iter();
                    !map.contains_key(key)
                        || needs.all(|need| map.contains_key(need.as_str().unwrap()))
                })
            }),
            "minItems" => value
                .as_array()
                .is_none_or(|list| list.len() as u64 >= rule.as_u64().unwrap()),
            "maxItems" => value
                .as_array()
                .is_none_or(|list| list.len() as u64 <= rule.as_u64().unwrap()),
            "uniqueItems" => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                (1..items.len()).all(|index| !items[..index].contains(&items[index]))
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    validate(root, rule, item, &format!("{path}/{index}"), faults);
                }
                true
            }
            "properties" => true,
            other => panic!("the schema uses `{other}`: teach the validator"),
        };
        if !right {
            faults.push(format!("{path}: {word}"));
        }
    }
    if let Some(map) = value.as_object() {
        members(root, schema, map, path, faults);
    }
}

fn members(
    root: &Value,
    schema: &Value,
    map: &Map<String, Value>,
    path: &str,
    faults: &mut Vec<String>,
) {
    for (key, value) in map {
        let path = format!("{path}/{key}");
        let by_name = schema.get("properties").and_then(|all| all.get(key));
        let by_pattern = schema.get("patternProperties").and_then(|all| {
            let mut all = all.as_object().unwrap().iter();
            all.find(|(pattern, _)| matches(&json!(pattern), key))
                .map(|(_, rule)| rule)
        });
        match by_name.or(by_pattern) {
            Some(rule) => validate(root, rule, value, &path, faults),
            None if schema.get("additionalProperties") == Some(&json!(false)) => {
                faults.push(format!("{path}: unknown"));
            }
            None => {}
        }
    }
}

fn matches(pattern: &Value, text: &str) -> bool {
    regex_lite::Regex::new(pattern.as_str().unwrap())
        .unwrap()
        .is_match(text)
}
