//! TOML files, read key by key, with the place of everything.
//!
//! Nothing stops at the first fault: each key is taken out once, by name and type; what is left at the
//! end is unknown, and said so with its line and column. Only what is not TOML at all ends at once.

use std::{cell::OnceCell, collections::BTreeMap, ops::Range, path::Path};

use bosun_adapters::fault::{Fault, Place};
use bosun_convert::source::Locator;
use bosun_core::Timestamp;
use toml::de::{DeTable, DeValue};

/// The file that is being read, and what was found to be wrong with it so far.
#[derive(Debug)]
pub(crate) struct Reader<'t> {
    file: &'t Path,
    text: &'t str,
    /// Made with the first place that is asked for.
    locator: OnceCell<Locator<'t>>,
    pub(crate) faults: Vec<Fault>,
}

/// A table of which some keys have been taken.
#[derive(Debug)]
pub(crate) struct Table<'t> {
    /// Where it stands.
    span: Range<usize>,
    entries: BTreeMap<String, Entry<'t>>,
}

/// A value with the places of its key and of itself.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'t> {
    pub(crate) key_span: Range<usize>,
    pub(crate) span: Range<usize>,
    pub(crate) value: DeValue<'t>,
}

impl<'t> Reader<'t> {
    pub(crate) fn new(file: &'t Path, text: &'t str) -> Self {
        Self { file, text, locator: OnceCell::new(), faults: Vec::new() }
    }

    /// The whole file as a table; an empty one if it is not TOML.
    pub(crate) fn root(&mut self) -> Table<'t> {
        match DeTable::parse(self.text) {
            Ok(table) => Table::new(table.span(), table.into_inner()),
            Err(error) => {
                let span = error.span().unwrap_or_default();
                self.fault(&span, "invalid_toml", error.message().trim_end().to_owned(), None);
                Table { span: 0..0, entries: BTreeMap::new() }
            }
        }
    }

    pub(crate) fn fault(&mut self, span: &Range<usize>, code: &'static str, message: String, hint: Option<String>) {
        let place = Some(self.place(span.start));
        self.faults.push(Fault { file: self.file.to_owned(), place, code, message, hint });
    }

    pub(crate) fn place(&self, offset: usize) -> Place {
        let place = self.locator.get_or_init(|| Locator::new(self.text)).place(offset);
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Place { line: count(place.line), column: count(place.column) }
    }

    fn wrong_type(&mut self, name: &str, entry: &Entry<'_>, expected: &str) {
        let found = entry.value.type_str();
        self.fault(&entry.span, "wrong_type", format!("`{name}` must be {expected}, not {found}"), None);
    }
}

impl<'t> Table<'t> {
    fn new(span: Range<usize>, table: DeTable<'t>) -> Self {
        let entry = |(key, value): (toml::Spanned<std::borrow::Cow<'t, str>>, toml::Spanned<DeValue<'t>>)| {
            let (key_span, span) = (key.span(), value.span());
            (key.into_inner().into_owned(), Entry { key_span, span, value: value.into_inner() })
        };
        Self { span, entries: table.into_iter().map(entry).collect() }
    }

    pub(crate) fn span(&self) -> &Range<usize> {
        &self.span
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Entry<'t>> {
        self.entries.remove(name)
    }

    pub(crate) fn text(&mut self, name: &str, reader: &mut Reader<'t>) -> Option<(String, Range<usize>)> {
        let entry = self.take(name)?;
        match &entry.value {
            DeValue::String(text) => Some((text.to_string(), entry.span)),
            _ => {
                reader.wrong_type(name, &entry, "a string");
                None
            }
        }
    }

    /// A text that must be there.
    pub(crate) fn required(&mut self, name: &str, reader: &mut Reader<'t>) -> (String, Range<usize>) {
        if !self.entries.contains_key(name) {
            reader.fault(&self.span, "missing_key", format!("`{name}` is missing"), None);
        }
        self.text(name, reader).unwrap_or_else(|| (String::new(), self.span.clone()))
    }

    /// A list of texts, each with its place.
    pub(crate) fn texts(&mut self, name: &str, reader: &mut Reader<'t>) -> Option<Vec<(String, Range<usize>)>> {
        let entry = self.take(name)?;
        let DeValue::Array(items) = &entry.value else {
            reader.wrong_type(name, &entry, "a list of strings");
            return None;
        };
        let mut texts = Vec::new();
        for item in items {
            match item.get_ref() {
                DeValue::String(text) => texts.push((text.to_string(), item.span())),
                other => {
                    let entry = Entry { key_span: entry.key_span.clone(), span: item.span(), value: other.clone() };
                    reader.wrong_type(name, &entry, "a list of strings");
                }
            }
        }
        Some(texts)
    }

    /// A moment with its offset from UTC: without one it would mean another moment on every machine.
    pub(crate) fn moment(&mut self, name: &str, reader: &mut Reader<'t>) -> Option<Timestamp> {
        let entry = self.take(name)?;
        let moment = match &entry.value {
            DeValue::Datetime(datetime) if datetime.offset.is_some() => Timestamp::from_rfc3339(&datetime.to_string()),
            _ => None,
        };
        if moment.is_none() {
            reader.wrong_type(name, &entry, "a date with a time and an offset, for instance 2027-01-31T12:00:00Z");
        }
        moment
    }

    /// The tables of a list of them: `[[name]]`.
    pub(crate) fn tables(&mut self, name: &str, reader: &mut Reader<'t>) -> Vec<Table<'t>> {
        let Some(entry) = self.take(name) else { return Vec::new() };
        let DeValue::Array(items) = entry.value else {
            reader.wrong_type(name, &entry, &format!("a list of tables, `[[{name}]]`"));
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in items {
            let span = item.span();
            match item.into_inner() {
                DeValue::Table(table) => tables.push(Table::new(span, table)),
                value => {
                    let entry = Entry { key_span: entry.key_span.clone(), span, value };
                    reader.wrong_type(name, &entry, &format!("a list of tables, `[[{name}]]`"));
                }
            }
        }
        tables
    }

    pub(crate) fn table(&mut self, name: &str, reader: &mut Reader<'t>) -> Option<Table<'t>> {
        let entry = self.take(name)?;
        match entry.value {
            DeValue::Table(table) => Some(Table::new(entry.span, table)),
            _ => {
                reader.wrong_type(name, &entry, &format!("a table, `[{name}]`"));
                None
            }
        }
    }

    /// Whatever was not taken is unknown.
    pub(crate) fn finish(self, known: &[&str], reader: &mut Reader<'t>) {
        for (name, entry) in self.entries {
            let hint = nearest(&name, known).map(|near| format!("did you mean `{near}`?"));
            reader.fault(&entry.key_span, "unknown_key", format!("there is no `{name}` here"), hint);
        }
    }
}

/// The known word that is most like `name`, if any is.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |word: &str| {
        let (left, right): (Vec<char>, Vec<char>) = (name.chars().collect(), word.chars().collect());
        let mut row: Vec<usize> = (0..=right.len()).collect();
        for (index, letter) in left.iter().enumerate() {
            let mut diagonal = std::mem::replace(&mut row[0], index + 1);
            for (column, other) in right.iter().enumerate() {
                let replaced = diagonal + usize::from(letter != other);
                diagonal = row[column + 1];
                row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
            }
        }
        row[right.len()]
    };
    known.iter().copied().map(|word| (distance(word), word)).filter(|(far, _)| *far <= 2).min().map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_finds_its_neighbour() {
        let known = ["listen", "data", "manifests"];
        assert_eq!(nearest("lisen", &known), Some("listen"));
        assert_eq!(nearest("manifest", &known), Some("manifests"));
        assert_eq!(nearest("port", &known), None);
    }
}
