//! Reads tables of a TOML file and collects every mistake with its place, so that a user sees all of them at once.

use std::cell::RefCell;
use std::ops::Range;

use family::{Expression, ManifestError, Reader, Value, nearest};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The mistakes of a file that were found so far.
#[derive(Debug)]
pub(crate) struct Mistakes<'t> {
    reader: Reader<'t>,
    found: RefCell<Vec<ManifestError>>,
}

impl<'t> Mistakes<'t> {
    pub fn new(reader: Reader<'t>) -> Self {
        Mistakes { reader, found: RefCell::new(Vec::new()) }
    }

    /// Adds a mistake.
    pub fn add(&self, span: Range<usize>, field: &str, message: impl Into<String>) {
        self.found.borrow_mut().push(self.reader.error(span, field, message.into()));
    }

    /// All mistakes in the order of the file.
    pub fn into_found(self) -> Vec<ManifestError> {
        let mut found = self.found.into_inner();
        found.sort_by_key(|error| (error.line, error.column));
        found
    }
}

/// A table of the file with its name. Every field is taken once; [`Fields::finish`] reports the rest.
pub(crate) struct Fields<'a, 't> {
    mistakes: &'a Mistakes<'t>,
    /// The dotted name; empty for the whole file.
    name: String,
    span: Range<usize>,
    table: &'a DeTable<'t>,
    taken: RefCell<Vec<&'static str>>,
}

type Item<'a, 't> = &'a Spanned<DeValue<'t>>;

impl<'a, 't> Fields<'a, 't> {
    pub fn new(mistakes: &'a Mistakes<'t>, name: &str, table: &'a Spanned<DeTable<'t>>) -> Self {
        Fields {
            mistakes,
            name: name.to_owned(),
            span: table.span(),
            table: table.get_ref(),
            taken: RefCell::default(),
        }
    }

    /// The value as a table, or a mistake.
    pub fn of(mistakes: &'a Mistakes<'t>, name: &str, value: Item<'a, 't>) -> Option<Self> {
        let DeValue::Table(table) = value.get_ref() else {
            mistakes.add(value.span(), name, "must be a table");
            return None;
        };
        let taken = RefCell::default();
        Some(Fields { mistakes, name: name.to_owned(), span: value.span(), table, taken })
    }

    /// The dotted name of a field.
    pub fn path(&self, field: &str) -> String {
        if self.name.is_empty() { field.to_owned() } else { format!("{}.{field}", self.name) }
    }

    pub fn mistake(&self, field: &str, message: impl Into<String>) {
        let span = self.table.get(field).map_or(self.span.clone(), Spanned::span);
        self.mistakes.add(span, &self.path(field), message);
    }

    pub fn item(&self, field: &'static str) -> Option<Item<'a, 't>> {
        self.taken.borrow_mut().push(field);
        self.table.get(field)
    }

    pub fn required(&self, field: &'static str) -> Option<Item<'a, 't>> {
        let item = self.item(field);
        if item.is_none() {
            self.mistakes.add(self.span.clone(), &self.path(field), "is missing");
        }
        item
    }

    /// The field as a text.
    pub fn text(&self, field: &'static str) -> Option<String> {
        let item = self.item(field)?;
        let text = item.get_ref().as_str();
        if text.is_none() {
            self.mistake(field, format!("must be a text, not {}", item.get_ref().type_str()));
        }
        text.map(str::to_owned)
    }

    /// The field as a list of texts. One text is a list of one.
    pub fn texts(&self, field: &'static str) -> Vec<String> {
        let Some(item) = self.item(field) else { return Vec::new() };
        let Some(list) = item.get_ref().as_array() else { return self.text(field).into_iter().collect() };
        let texts = list.iter().filter_map(|each| each.get_ref().as_str().map(str::to_owned));
        let texts: Vec<String> = texts.collect();
        if texts.len() < list.len() {
            self.mistake(field, "must be a text or a list of texts");
        }
        texts
    }

    pub fn required_text(&self, field: &'static str) -> Option<String> {
        self.required(field)?;
        self.text(field)
    }

    /// The field as true or false.
    pub fn truth(&self, field: &'static str) -> Option<bool> {
        let truth = self.item(field)?.get_ref().as_bool();
        if truth.is_none() {
            self.mistake(field, "must be true or false");
        }
        truth
    }

    /// The field as an integer.
    pub fn integer(&self, field: &'static str) -> Option<i64> {
        let item = self.item(field)?;
        let number = integer(item.get_ref());
        if number.is_none() {
            self.mistake(field, "must be a whole number of 64 bits");
        }
        number
    }

    /// The field as a number.
    pub fn number(&self, field: &'static str) -> Option<f64> {
        let item = self.item(field)?;
        let found = number(item.get_ref()).filter(|number| number.is_finite());
        if found.is_none() {
            self.mistake(field, "must be a finite number");
        }
        found
    }

    /// The items of an array.
    pub fn items(&self, field: &'static str) -> Option<Vec<Item<'a, 't>>> {
        let item = self.item(field)?;
        let DeValue::Array(items) = item.get_ref() else {
            self.mistake(field, format!("must be an array, not {}", item.get_ref().type_str()));
            return None;
        };
        Some(items.iter().collect())
    }

    /// The named entries of a table.
    pub fn entries(&self, field: &'static str) -> Vec<(String, Item<'a, 't>)> {
        let Some(item) = self.item(field) else { return Vec::new() };
        let DeValue::Table(table) = item.get_ref() else {
            self.mistake(field, format!("must be a table, not {}", item.get_ref().type_str()));
            return Vec::new();
        };
        table.iter().map(|(name, value)| (name.get_ref().to_string(), value)).collect()
    }

    /// An expression over `names`, written as a text or a number.
    pub fn expression(&self, field: &'static str, names: &[String]) -> Option<Expression> {
        let item = self.item(field)?;
        expression(self.mistakes, &self.path(field), item, names)
    }

    /// Reports the fields that nobody took.
    pub fn finish(self) {
        let taken = self.taken.borrow();
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if !taken.contains(&name) {
                let near = nearest(name, taken.iter().copied());
                let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                let known = taken.join(", ");
                let message = format!("there is no such field (fields: {known}){hint}");
                self.mistakes.add(key.span(), &self.path(name), message);
            }
        }
    }
}

/// Parses an expression over `names`, written as a text or a whole number.
pub(crate) fn expression(
    mistakes: &Mistakes<'_>,
    field: &str,
    item: &Spanned<DeValue<'_>>,
    names: &[String],
) -> Option<Expression> {
    let text = match item.get_ref() {
        DeValue::String(text) => text.to_string(),
        other => {
            let Some(number) = integer(other) else {
                mistakes.add(item.span(), field, "must be an expression: a text or a whole number");
                return None;
            };
            number.to_string()
        }
    };
    let parsed = match Expression::parse(&text) {
        Ok(parsed) => parsed,
        Err(reason) => {
            mistakes.add(item.span(), field, format!("`{text}`: {reason}"));
            return None;
        }
    };
    for name in parsed.variables() {
        if !names.contains(&name) {
            let near = nearest(&name, names.iter().map(String::as_str));
            let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            let message = format!("`{text}`: there is no `{name}` here (known: {}){hint}", names.join(", "));
            mistakes.add(item.span(), field, message);
            return None;
        }
    }
    Some(parsed)
}

/// A whole number.
pub(crate) fn integer(value: &DeValue<'_>) -> Option<i64> {
    let number = value.as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// A whole number or a fraction.
pub(crate) fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Float(number) => number.as_str().parse().ok(),
        other => integer(other).map(|number| number as f64),
    }
}

/// A value of an axis.
pub(crate) fn axis_value(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::String(text) => Some(Value::Text(text.to_string())),
        DeValue::Boolean(truth) => Some(Value::Bool(*truth)),
        other => integer(other).map(Value::Int),
    }
}
