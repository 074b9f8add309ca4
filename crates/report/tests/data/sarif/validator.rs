//! Validates SARIF logs against the official schema. Several test programs contain this file.

use std::sync::LazyLock;

use serde_json::Value;

/// The first error of a SARIF log according to the schema.
pub fn sarif_error(log: &Value) -> Option<String> {
    static VALIDATOR: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
        let mut schema: Value =
            serde_json::from_str(include_str!("sarif-schema-2.1.0.json")).expect("the schema is JSON");
        // These patterns are not valid regular expressions: they have a `]` too many. Warpsmith writes no language.
        for object in ["run", "toolComponent"] {
            let language = schema["definitions"][object]["properties"]["language"].as_object_mut();
            language.expect("the property exists").remove("pattern").expect("the pattern exists");
        }
        jsonschema::options().should_validate_formats(true).build(&schema).expect("a valid schema")
    });
    let error = VALIDATOR.iter_errors(log).next();
    error.map(|error| format!("{}: {error}", error.instance_path()))
}
