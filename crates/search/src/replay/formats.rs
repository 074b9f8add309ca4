//! The file formats of recorded spaces.
//!
//! * Our own: `params` (name to values, in order) and `time_ms` (values joined with commas to milliseconds, or null).
//! * kernel_tuner's cache: `tune_params` and `cache`, whose entries have a `time` that is a number or the name of an
//!   error. kernel_tuner appends to the file while it tunes and closes the brackets only at the end, so the file of
//!   an interrupted or running tuning lacks them.
//! * T4 results, the exchange format of several tuners: a list of configurations with measurements. The parameters'
//!   values are those that occur.
//!
//! A configuration that a file does not mention is not part of the space.

use std::collections::HashMap;

use indexmap::{IndexMap, IndexSet};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::recorded::{Entry, Recorded, RecordedFault};
use crate::space::Parameter;
use crate::value::Value;

pub(super) fn parse(bytes: &[u8], name: &str) -> Result<Recorded, RecordedFault> {
    let document = match serde_json::from_slice::<Json>(bytes) {
        Ok(document) => document,
        Err(error) if error.is_eof() => closed(bytes).ok_or(RecordedFault::Json(error))?,
        Err(error) => return Err(RecordedFault::Json(error)),
    };
    if document.get("time_ms").is_some() || document.get("params").is_some() {
        native(read(document)?)
    } else if document.get("cache").is_some() {
        kernel_tuner(read(document)?, name)
    } else if document.get("results").is_some() {
        t4(read(document)?, name)
    } else {
        Err(RecordedFault::Unknown)
    }
}

fn read<T: DeserializeOwned>(document: Json) -> Result<T, RecordedFault> {
    serde_json::from_value(document).map_err(RecordedFault::Field)
}

/// An unfinished kernel_tuner cache with closed brackets and without its incomplete last line.
fn closed(bytes: &[u8]) -> Option<Json> {
    let text = std::str::from_utf8(bytes).ok()?.trim_end();
    let whole_lines = text.rsplit_once('\n').map_or("", |(before, _)| before);
    let attempt = |text: &str| {
        let document: Json =
            serde_json::from_str(&format!("{}}}}}", text.trim_end().trim_end_matches(','))).ok()?;
        document.get("cache").is_some().then_some(document)
    };
    attempt(text).or_else(|| attempt(whole_lines))
}

#[derive(Deserialize)]
struct NativeFile {
    name: String,
    kernel: String,
    gpu: String,
    params: IndexMap<String, Vec<Value>>,
    time_ms: IndexMap<String, Option<f64>>,
}

fn native(file: NativeFile) -> Result<Recorded, RecordedFault> {
    let parameters: Vec<Parameter> =
        file.params.into_iter().map(|(name, values)| Parameter { name, values }).collect();
    let value_positions = ValuePositions::new(&parameters);
    let entries = file
        .time_ms
        .into_iter()
        .map(|(key, time)| Ok(Entry { positions: value_positions.of_key(&parameters, &key)?, key, time }))
        .collect::<Result<Vec<_>, RecordedFault>>()?;
    Recorded::new((file.name, file.kernel, file.gpu), parameters, &entries)
}

#[derive(Deserialize)]
struct KernelTuner {
    #[serde(default)]
    device_name: String,
    #[serde(default)]
    kernel_name: String,
    tune_params_keys: Vec<String>,
    tune_params: IndexMap<String, Vec<Value>>,
    cache: IndexMap<String, IndexMap<String, Json>>,
}

/// The time that older versions of kernel_tuner wrote for a failed configuration.
const NO_TIME: f64 = 1e20;

fn kernel_tuner(mut file: KernelTuner, name: &str) -> Result<Recorded, RecordedFault> {
    let parameters = file
        .tune_params_keys
        .into_iter()
        .map(|name| {
            // Lists written by hand sometimes repeat values; kernel_tuner accepts them.
            let mut values: Vec<Value> = Vec::new();
            for value in file.tune_params.shift_remove(&name).unwrap_or_default() {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            Parameter { name, values }
        })
        .collect::<Vec<_>>();
    let value_positions = ValuePositions::new(&parameters);
    let mut entries = Vec::with_capacity(file.cache.len());
    for (key, fields) in file.cache {
        // The fields have types. The key is text, which is ambiguous if values contain commas.
        let typed: Option<Vec<usize>> = parameters
            .iter()
            .map(|parameter| {
                let value: Value = serde_json::from_value(fields.get(&parameter.name)?.clone()).ok()?;
                parameter.values.iter().position(|known| same(known, &value))
            })
            .collect();
        let positions = match typed {
            Some(positions) => positions,
            None => value_positions.of_key(&parameters, &key)?,
        };
        let time = match fields.get("time") {
            Some(Json::String(_) | Json::Null) => None,
            Some(Json::Number(number)) => number.as_f64().filter(|&time| time < NO_TIME),
            other => {
                let time = other.map_or_else(|| "a missing field".to_owned(), ToString::to_string);
                return Err(RecordedFault::Time { key, time });
            }
        };
        entries.push(Entry { key, positions, time });
    }
    let kernel = if file.kernel_name.is_empty() { name.to_owned() } else { file.kernel_name };
    Recorded::new((name.to_owned(), kernel, file.device_name), parameters, &entries)
}

#[derive(Deserialize)]
struct Results {
    results: Vec<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
    configuration: IndexMap<String, Value>,
    #[serde(default)]
    invalidity: String,
    #[serde(default)]
    measurements: Vec<Measurement>,
}

#[derive(Deserialize)]
struct Measurement {
    name: String,
    value: Json,
}

fn t4(file: Results, name: &str) -> Result<Recorded, RecordedFault> {
    let mut results = file.results;
    // Configurations that a constraint forbids were never tried; some tuners list them anyway.
    results.retain(|result| result.invalidity != "constraints");
    let names: IndexSet<&String> = results.iter().flat_map(|result| result.configuration.keys()).collect();
    let parameters: Vec<Parameter> = names
        .into_iter()
        .map(|name| {
            let mut values: Vec<Value> = Vec::new();
            for value in results.iter().filter_map(|result| result.configuration.get(name)) {
                if !values.contains(value) {
                    values.push(value.clone());
                }
            }
            // Numbers are sorted: the order of the list is that of some search.
            if values.iter().all(|value| value.number().is_some()) {
                values.sort_by(|a, b| a.number().unwrap_or(0.0).total_cmp(&b.number().unwrap_or(0.0)));
            }
            Parameter { name: name.clone(), values }
        })
        .collect();
    let mut entries = Vec::with_capacity(results.len());
    for result in &results {
        let values: Vec<String> = result.configuration.values().map(ToString::to_string).collect();
        let key = values.join(",");
        let positions: Option<Vec<usize>> = parameters
            .iter()
            .map(|parameter| {
                let value = result.configuration.get(&parameter.name)?;
                parameter.values.iter().position(|known| known == value)
            })
            .collect();
        let (found, wanted) = (values.len(), parameters.len());
        let positions = positions.ok_or_else(|| RecordedFault::Values { key: key.clone(), found, wanted })?;
        let valid = result.invalidity.is_empty() || result.invalidity == "correct";
        let measured = result.measurements.iter().find(|measurement| measurement.name == "time");
        let time = measured.and_then(|measurement| measurement.value.as_f64()).filter(|_| valid);
        entries.push(Entry { key, positions, time: time.filter(|&time| time < NO_TIME) });
    }
    Recorded::new((name.to_owned(), name.to_owned(), String::new()), parameters, &entries)
}

/// Whether the values are equal, also if one is written `1` and the other `1.0`.
fn same(a: &Value, b: &Value) -> bool {
    a == b || a.number().is_some_and(|number| Some(number) == b.number())
}

/// For each parameter, the positions of its values by their text.
struct ValuePositions(Vec<HashMap<String, usize>>);

impl ValuePositions {
    fn new(parameters: &[Parameter]) -> Self {
        let texts = |parameter: &Parameter| {
            let mut positions_by_text = HashMap::new();
            for (position, value) in parameter.values.iter().enumerate() {
                positions_by_text.insert(value.to_string(), position);
                if let Value::Bool(value) = value {
                    positions_by_text.insert(if *value { "True" } else { "False" }.to_owned(), position);
                }
            }
            positions_by_text
        };
        ValuePositions(parameters.iter().map(texts).collect())
    }

    fn of_key(&self, parameters: &[Parameter], key: &str) -> Result<Vec<usize>, RecordedFault> {
        let texts: Vec<&str> = if parameters.is_empty() { Vec::new() } else { key.split(',').collect() };
        if texts.len() != parameters.len() {
            let (key, found, wanted) = (key.to_owned(), texts.len(), parameters.len());
            return Err(RecordedFault::Values { key, found, wanted });
        }
        texts
            .iter()
            .zip(&self.0)
            .zip(parameters)
            .map(|((&text, positions_by_text), parameter)| {
                positions_by_text.get(text).copied().ok_or_else(|| RecordedFault::Value {
                    key: key.to_owned(),
                    parameter: parameter.name.clone(),
                    value: text.to_owned(),
                })
            })
            .collect()
    }
}
