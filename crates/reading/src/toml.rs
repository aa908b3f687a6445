//! TOML as [`Node`]s.

use std::path::Path;

use serde_json::Number;
use toml::de::{DeTable, DeValue};

use crate::{Data, Fault, Faults, Locator, Member, Node};

/// Parses a file, which is a mapping.
///
/// # Errors
/// With the first fault of the syntax: what follows it cannot be trusted.
pub fn parse(file: &Path, text: &str) -> Result<Node, Faults> {
    let locator = Locator::new(text);
    match DeTable::parse(text) {
        Ok(table) => {
            let place = locator.place(table.span().start);
            Ok(Node { data: map(table.into_inner(), &locator), place })
        }
        Err(error) => {
            let place = locator.place(error.span().unwrap_or_default().start);
            Err(Fault::of_file(file, "invalid_toml", error.message().trim_end()).at(place).into())
        }
    }
}

fn map(table: DeTable<'_>, locator: &Locator<'_>) -> Data {
    let members = table.into_iter().map(|(key, value)| Member {
        place: locator.place(key.span().start),
        name: key.into_inner().into_owned(),
        value: node(value, locator),
    });
    let mut members: Vec<Member> = members.collect();
    // The parser sorts keys by name; faults are reported in the order of the text.
    members.sort_by_key(|member| member.place);
    Data::Map(members)
}

fn node(value: toml::Spanned<DeValue<'_>>, locator: &Locator<'_>) -> Node {
    let place = locator.place(value.span().start);
    let data = match value.into_inner() {
        DeValue::String(text) => Data::Text(text.into_owned()),
        DeValue::Boolean(value) => Data::Bool(value),
        DeValue::Datetime(moment) => Data::Moment(moment.to_string()),
        DeValue::Integer(integer) => {
            let digits = integer.as_str().replace('_', "");
            let value = i128::from_str_radix(&digits, integer.radix()).ok().and_then(Number::from_i128);
            number(value, digits)
        }
        DeValue::Float(float) => {
            number(float.as_str().parse().ok().and_then(Number::from_f64), float.as_str().to_owned())
        }
        DeValue::Array(items) => Data::List(items.into_iter().map(|item| node(item, locator)).collect()),
        DeValue::Table(table) => map(table, locator),
    };
    Node { data, place }
}

/// A number that is not finite or has more than 64 bits is not a value that a setting could have.
fn number(value: Option<Number>, written: String) -> Data {
    value.map_or(Data::Text(written), Data::Number)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::parse;
    use crate::{Report, Syntax, yaml};

    const FILE: &str = "settings.toml";

    #[test]
    fn values_keep_their_types_and_their_order() {
        let text = "b = 1_000\na = [\"x\", 0x10]\n[t]\nat = 2027-01-31T12:00:00Z\nf = 1.5\nhuge = 99999999999999999999\nno = nan\n";
        let expect = json!({
            "b": 1000, "a": ["x", 16],
            "t": {"at": "2027-01-31T12:00:00Z", "f": 1.5, "huge": "99999999999999999999", "no": "nan"},
        });
        assert_eq!(parse(Path::new(FILE), text).unwrap().to_json().to_string(), expect.to_string());
    }

    /// The same fields, the same faults: only the words for the types are those of the syntax.
    #[test]
    fn toml_and_yaml_are_read_by_the_same_rules() {
        let toml = parse(Path::new(FILE), "name = 5\nsize = \"0s\"\ncolour = \"red\"\nlist = \"x\"\n").unwrap();
        let yaml = yaml::parse(Path::new(FILE), "name: 5\nsize: 0s\ncolour: red\nlist: x\n").unwrap().remove(0);
        let faults = |node, syntax| {
            let report = Report::of_file(Path::new(FILE), syntax);
            let fields = report.fields(node, "").unwrap();
            fields.text("name");
            fields.positive_duration("size");
            fields.list("list");
            fields.required_text("colours", "");
            fields.finish();
            report.into_faults().into_iter().map(|fault| (fault.path.to_string(), fault.code, fault.message)).collect()
        };
        let of_toml: Vec<(String, &str, String)> = faults(&toml, Syntax::Toml);
        let of_yaml: Vec<(String, &str, String)> = faults(&yaml, Syntax::Yaml);
        let fault = |path: &str, code, message: &str| (path.to_owned(), code, message.to_owned());
        assert_eq!(
            of_toml,
            [
                fault("name", "wrong_type", "`name` must be a string, not a number"),
                fault("size", "bad_value", "`size` is `0s`, which is not a duration above zero"),
                fault("list", "wrong_type", "`list` must be a list, not a string"),
                fault("", "missing_field", "`colours` is missing"),
                fault("colour", "unknown_field", "unknown field `colour`"),
            ]
        );
        for ((path, code, _), (of_path, of_code, _)) in of_toml.iter().zip(&of_yaml) {
            assert_eq!((path, code), (of_path, of_code));
        }
        assert_eq!(of_toml.len(), of_yaml.len());
    }

    #[test]
    fn broken_toml_names_the_place() {
        let fault = parse(Path::new(FILE), "a = 1\nb = \n").unwrap_err();
        assert!(fault.to_string().starts_with("settings.toml:2:"), "{fault}");
    }
}
