//! TOML files, read key by key, with the place of everything.
//!
//! Nothing stops at the first fault: each key is taken out once, by name and type; what is left at the
//! end is unknown, and said so with its line and column. Only what is not TOML at all ends at once.

use std::{collections::BTreeMap, ops::Range, path::Path};

use bosun_adapters::fault::{Fault, Place};
use bosun_core::Timestamp;
use toml::de::{DeTable, DeValue};

/// The file that is being read, and what was found to be wrong with it so far.
#[derive(Debug)]
pub(crate) struct Reader<'t> {
    file: &'t Path,
    text: &'t str,
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
        Self { file, text, faults: Vec::new() }
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
        let before = &self.text[..offset.min(self.text.len())];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Place { line: count(before.matches('\n').count() + 1), column: count(before[line_start..].chars().count() + 1) }
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
            DeValue::Datetime(datetime) => read_moment(&datetime.to_string()),
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

/// Reads RFC 3339 as TOML writes it.
fn read_moment(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let (time, minutes) = match rest.strip_suffix(['Z', 'z']) {
        Some(time) => (time, 0),
        None => {
            let (time, offset) = rest.split_at(rest.rfind(['+', '-'])?);
            let (hours, minutes) = offset[1..].split_once(':')?;
            let sign = if offset.starts_with('-') { -1 } else { 1 };
            (time, sign * (hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?))
        }
    };
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut time = time.splitn(3, ':');
    let (hour, minute) = (time.next()?.parse::<i64>().ok()?, time.next()?.parse::<i64>().ok()?);
    let second = time.next().and_then(|second| second.split('.').next()).map_or(Some(0), |text| text.parse().ok())?;
    let days = days_from_civil(year, month, day);
    Some(Timestamp((((days * 24 + hour) * 60 + minute - minutes) * 60 + second) * 1_000))
}

/// The day number of a proleptic Gregorian date; Howard Hinnant's `days_from_civil`.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_rfc_3339() {
        for (text, expect) in [
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
            ("2027-01-31T12:30:15Z", "2027-01-31T12:30:15.000Z"),
            ("2024-02-29 23:59:59.75Z", "2024-02-29T23:59:59.000Z"),
            ("2027-01-01T01:00:00+02:00", "2026-12-31T23:00:00.000Z"),
            ("2027-01-01T01:00:00-00:30", "2027-01-01T01:30:00.000Z"),
        ] {
            assert_eq!(read_moment(text).unwrap().to_rfc3339(), expect, "{text}");
        }
        for text in ["2027-01-31", "12:00:00", "2027-01-31T12:00:00"] {
            assert_eq!(read_moment(text), None, "{text}");
        }
    }

    #[test]
    fn a_misspelt_key_finds_its_neighbour() {
        let known = ["listen", "data", "manifests"];
        assert_eq!(nearest("lisen", &known), Some("listen"));
        assert_eq!(nearest("manifest", &known), Some("manifests"));
        assert_eq!(nearest("port", &known), None);
    }
}
