//! What a call asks of the records: conditions, order, fields and a page.
//!
//! Nango's own `filter` knows only added, updated and deleted records, so all of this is applied here. Everything that is
//! not understood is refused: an operator or a parameter that was ignored would return records that were not asked for.

use std::{cmp::Ordering, collections::BTreeSet};

use bosun_core::{
    ceiling::NANGO_ORDER_FIELDS,
    text::{clip, closest},
};
use serde_json::{Map, Value};

use super::condition::{RecordFilter, field_of};

/// Records of one answer, where a call does not say.
const DEFAULT_LIMIT: usize = 15;
/// Records of one answer, at most.
pub(super) const LARGEST_LIMIT: usize = 1_000;
/// Nango's own limit of an id.
const LONGEST_ID: usize = 256;

/// The parameters that are understood.
const KNOWN: &[&str] =
    &["operation", "identifier", "filters", "orderBy", "includeFields", "excludeFields", "offset", "limit"];

/// Why a call cannot be answered, in words for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct QueryFault(pub(super) String);

impl QueryFault {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// The query of one call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RecordQuery {
    /// The id of the only record that is wanted.
    pub(super) identifier: Option<String>,
    filter: RecordFilter,
    /// Newest first if empty.
    order: Vec<RecordOrder>,
    fields: Projection,
    offset: usize,
    limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RecordOrder {
    field: String,
    is_descending: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Projection {
    All,
    Only(BTreeSet<String>),
    Without(BTreeSet<String>),
}

/// The page of records that a query asks for.
#[derive(Debug, PartialEq)]
pub(super) struct RecordPage {
    pub(super) records: Vec<Value>,
    /// Records that match, on all pages.
    pub(super) matched: usize,
    /// Records with a value that a condition cannot be compared with: they do not match.
    pub(super) incomparable: usize,
    /// Fields of conditions that no record has.
    pub(super) unknown_fields: Vec<String>,
}

impl RecordQuery {
    /// Reads the validated arguments of a call, without their wrapper. `routing` are the parameters that choose the model.
    ///
    /// # Errors
    /// With the first parameter that is not understood.
    pub(super) fn read(arguments: &Value, routing: &[&str]) -> Result<Self, QueryFault> {
        let empty = Map::new();
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            Value::Null => &empty,
            _ => return Err(QueryFault::new("the arguments must be an object")),
        };
        let is_known = |name: &String| KNOWN.contains(&name.as_str()) || routing.contains(&name.as_str());
        if let Some(name) = arguments.keys().find(|name| !is_known(name)) {
            let guess = closest(name, KNOWN.iter().copied()).map(|known| format!("; did you mean `{known}`?"));
            let known = KNOWN.iter().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
            let hint = guess.unwrap_or_else(|| format!("; the parameters of a read are {known}"));
            return Err(QueryFault::new(format!("`{}` cannot be applied to records{hint}", clip(name, 80))));
        }
        if let Some(other) = arguments.get("operation").filter(|operation| *operation != "fetch") {
            return Err(QueryFault::new(format!("`operation` must be `fetch`, not {}", clip(&other.to_string(), 80))));
        }
        let list = |name: &str| names(arguments.get(name), name);
        let fields = match (list("includeFields")?, list("excludeFields")?) {
            (Some(_), Some(_)) => return Err(QueryFault::new("use either `includeFields` or `excludeFields`")),
            (Some(only), None) => Projection::Only(only),
            (None, Some(without)) => Projection::Without(without),
            (None, None) => Projection::All,
        };
        Ok(Self {
            identifier: identifier(arguments.get("identifier"))?,
            filter: RecordFilter::read(arguments.get("filters"))?,
            order: order(arguments.get("orderBy"))?,
            fields,
            offset: number(arguments, "offset", 0, usize::MAX)?.unwrap_or(0),
            limit: number(arguments, "limit", 1, LARGEST_LIMIT)?.unwrap_or(DEFAULT_LIMIT),
        })
    }

    /// Whether the newest records come first, as they do without `orderBy`.
    pub(super) fn is_newest_first(&self) -> bool {
        self.order.is_empty()
    }

    /// The page of `records`, which Nango returns oldest first.
    pub(super) fn apply(&self, records: Vec<Value>) -> RecordPage {
        let mut incomparable = 0;
        let mut unseen: BTreeSet<&str> = self.filter.fields().collect();
        let mut matching = Vec::new();
        for record in records {
            unseen.retain(|field| field_of(&record, field).is_none());
            match self.filter.matches(&record) {
                Some(true) => matching.push(record),
                Some(false) => {}
                None => incomparable += 1,
            }
        }
        matching.reverse();
        if !self.order.is_empty() {
            matching.sort_by(|left, right| self.compare(left, right));
        }
        let matched = matching.len();
        let page = matching.into_iter().skip(self.offset).take(self.limit).map(|record| self.project(record));
        let unknown_fields = unseen.into_iter().map(str::to_owned).collect();
        RecordPage { records: page.collect(), matched, incomparable, unknown_fields }
    }

    /// Records without the field come last, in either direction.
    fn compare(&self, left: &Value, right: &Value) -> Ordering {
        for RecordOrder { field, is_descending } in &self.order {
            let values = (field_of(left, field), field_of(right, field));
            let ordering = match values {
                (None | Some(Value::Null), None | Some(Value::Null)) => Ordering::Equal,
                (None | Some(Value::Null), Some(_)) => Ordering::Greater,
                (Some(_), None | Some(Value::Null)) => Ordering::Less,
                (Some(left), Some(right)) => {
                    let ordering = super::condition::compare(left, right).unwrap_or(Ordering::Equal);
                    if *is_descending { ordering.reverse() } else { ordering }
                }
            };
            if ordering != Ordering::Equal {
                return ordering;
            }
        }
        Ordering::Equal
    }

    /// The record with the fields that are wanted; it always keeps its id.
    fn project(&self, record: Value) -> Value {
        let Value::Object(mut members) = record else { return record };
        members.retain(|name, _| match &self.fields {
            Projection::All => true,
            Projection::Only(only) => name == "id" || only.contains(name),
            Projection::Without(without) => name == "id" || !without.contains(name),
        });
        Value::Object(members)
    }
}

fn identifier(value: Option<&Value>) -> Result<Option<String>, QueryFault> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id)) if id.is_empty() => Ok(None),
        Some(Value::String(id)) if id.len() <= LONGEST_ID => Ok(Some(id.clone())),
        Some(_) => {
            Err(QueryFault::new(format!("`identifier` must be the id of a record, of at most {LONGEST_ID} bytes")))
        }
    }
}

fn number(
    arguments: &Map<String, Value>,
    name: &str,
    smallest: usize,
    largest: usize,
) -> Result<Option<usize>, QueryFault> {
    let Some(value) = arguments.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
    match number.filter(|number| (smallest..=largest).contains(number)) {
        Some(number) => Ok(Some(number)),
        None if largest == usize::MAX => {
            Err(QueryFault::new(format!("`{name}` must be a whole number from {smallest}")))
        }
        None => Err(QueryFault::new(format!("`{name}` must be a whole number from {smallest} to {largest}"))),
    }
}

fn names(value: Option<&Value>, name: &str) -> Result<Option<BTreeSet<String>>, QueryFault> {
    let fault = || QueryFault::new(format!("`{name}` must be a list of the names of fields"));
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => {
            let names = items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(fault));
            names.collect::<Result<_, _>>().map(Some)
        }
        Some(_) => Err(fault()),
    }
}

/// `"date"`, `"-date"`, `{field, direction}`, or a list of these.
fn order(value: Option<&Value>) -> Result<Vec<RecordOrder>, QueryFault> {
    let fault = || {
        QueryFault::new(
            "`orderBy` must be the name of a field, with `-` before it for descending, or `{field, direction}`",
        )
    };
    let one = |value: &Value| match value {
        Value::String(text) if !text.trim_start_matches('-').is_empty() => Ok(RecordOrder {
            field: text.strip_prefix('-').unwrap_or(text).to_owned(),
            is_descending: text.starts_with('-'),
        }),
        Value::Object(members) => {
            let field = members.get("field").and_then(Value::as_str).ok_or_else(fault)?.to_owned();
            let direction = members.get("direction").map(|direction| direction.as_str().map(str::to_ascii_lowercase));
            let is_descending = match direction.as_ref().map(|direction| direction.as_deref()) {
                None | Some(Some("asc")) => false,
                Some(Some("desc")) => true,
                Some(_) => return Err(QueryFault::new("`direction` of `orderBy` must be `asc` or `desc`")),
            };
            match members.keys().find(|name| !matches!(name.as_str(), "field" | "direction")) {
                Some(_) => Err(fault()),
                None => Ok(RecordOrder { field, is_descending }),
            }
        }
        _ => Err(fault()),
    };
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        // Each is compared in every step of the sort.
        Some(Value::Array(items)) if items.len() > NANGO_ORDER_FIELDS => {
            Err(QueryFault::new(format!("`orderBy` has more than {NANGO_ORDER_FIELDS} fields")))
        }
        Some(Value::Array(items)) => items.iter().map(one).collect(),
        Some(value) => one(value).map(|order| vec![order]),
    }
}

#[cfg(test)]
mod tests {
    use bosun_core::ceiling::{NANGO_CONDITIONS, NANGO_LOGIC_NUMBERS, NANGO_OPERANDS};
    use serde_json::json;

    use super::*;

    fn threads() -> Vec<Value> {
        vec![
            json!({"id": "t1", "sender": "bob@example.com", "subject": "Invoice 7", "size": 10, "labels": ["paid"], "at": "2026-01-05T10:00:00Z"}),
            json!({"id": "t2", "sender": "sarah@example.com", "subject": "Lunch?", "size": 3, "labels": [], "at": "2026-02-01T08:00:00+01:00"}),
            json!({"id": "t3", "sender": "sarah@example.com", "subject": "Re: invoice 7", "size": 40, "labels": ["open", "VIP"], "at": "2026-02-01T08:00:00Z"}),
            json!({"id": "t4", "sender": null, "subject": "no sender", "from": {"name": "Zoë"}, "at": "2026-03-01T00:00:00Z"}),
        ]
    }

    fn page(arguments: &Value) -> RecordPage {
        RecordQuery::read(arguments, &["entityType"])
            .unwrap_or_else(|fault| panic!("{arguments}: {fault}"))
            .apply(threads())
    }

    #[track_caller]
    fn check(arguments: Value, expect: &[&str]) {
        let page = page(&arguments);
        let ids: Vec<_> = page.records.iter().map(|record| record["id"].as_str().unwrap()).collect();
        assert_eq!(ids, expect, "{arguments}");
    }

    #[track_caller]
    fn refuses(arguments: Value, expect: &str) {
        let fault = RecordQuery::read(&arguments, &["entityType"]).expect_err(&arguments.to_string());
        assert!(fault.0.contains(expect), "{arguments}: {fault}");
    }

    #[test]
    fn newest_first_unless_asked_otherwise() {
        check(json!({}), &["t4", "t3", "t2", "t1"]);
        check(json!({"operation": "fetch", "entityType": "Deal"}), &["t4", "t3", "t2", "t1"]);
        check(json!({"orderBy": "size"}), &["t2", "t1", "t3", "t4"]);
        check(json!({"orderBy": "-size"}), &["t3", "t1", "t2", "t4"]);
        check(json!({"orderBy": [{"field": "sender", "direction": "ASC"}, "-size"]}), &["t1", "t3", "t2", "t4"]);
        // By time, and not by spelling: 08:00+01:00 is an hour before 08:00Z.
        check(json!({"orderBy": "at"}), &["t1", "t2", "t3", "t4"]);
    }

    #[test]
    fn pages_and_fields() {
        check(json!({"limit": 2}), &["t4", "t3"]);
        check(json!({"limit": 2, "offset": 3}), &["t1"]);
        check(json!({"offset": 9}), &[]);
        assert_eq!(page(&json!({"limit": 1})).matched, 4);
        let only = page(&json!({"includeFields": ["subject"], "limit": 1})).records;
        assert_eq!(only, [json!({"id": "t4", "subject": "no sender"})]);
        let without = page(&json!({"excludeFields": ["subject", "at", "id"], "limit": 1})).records;
        assert_eq!(without, [json!({"id": "t4", "sender": null, "from": {"name": "Zoë"}})]);
    }

    #[test]
    fn every_operator() {
        let of = |operator: &str, value: Value| json!({"filters": {"conditions": [{"field": "size", "operator": operator, "value": value}]}});
        check(of("equals", json!(10.0)), &["t1"]);
        check(of("notEquals", json!(10)), &["t4", "t3", "t2"]);
        check(of("greaterThan", json!(3)), &["t3", "t1"]);
        check(of("greaterOrEqual", json!(3)), &["t3", "t2", "t1"]);
        check(of("lessThan", json!(10)), &["t2"]);
        check(of("lessOrEqual", json!(10)), &["t2", "t1"]);
        let text = |operator: &str, value: Value| json!({"filters": {"conditions": [{"field": "subject", "operator": operator, "value": value}]}});
        check(text("contains", json!("INVOICE")), &["t3", "t1"]);
        check(text("notContains", json!("invoice")), &["t4", "t2"]);
        check(text("startsWith", json!("re: ")), &["t3"]);
        check(text("endsWith", json!("7")), &["t3", "t1"]);
        let many = |field: &str, operator: &str, values: Value| json!({"filters": {"conditions": [{"field": field, "operator": operator, "values": values}]}});
        check(many("size", "in", json!([3, 40])), &["t3", "t2"]);
        check(many("size", "notIn", json!([3, 40])), &["t4", "t1"]);
        check(many("size", "between", json!([3, 10])), &["t2", "t1"]);
        check(many("at", "between", json!(["2026-02-01T07:30:00Z", "2026-02-28"])), &["t3"]);
        let null = |operator: &str| json!({"filters": {"conditions": [{"field": "sender", "operator": operator}]}});
        check(null("isNull"), &["t4"]);
        check(null("isNotNull"), &["t3", "t2", "t1"]);
        check(json!({"filters": {"labels": {"contains": "vip"}}}), &["t3"]);
        check(json!({"filters": {"from.name": "Zoë"}}), &["t4"]);
    }

    #[test]
    fn plain_filters_are_equality_lists_and_operators() {
        check(json!({"filters": {"sender": "sarah@example.com"}}), &["t3", "t2"]);
        check(json!({"filters": {"sender": ["bob@example.com", "x"]}}), &["t1"]);
        check(json!({"filters": {"sender": null}}), &["t4"]);
        check(json!({"filters": {"sender": "sarah@example.com", "subject": {"contains": "invoice"}}}), &["t3"]);
        check(json!({"filters": {"size": {"greaterThan": 2, "lessThan": 20}}}), &["t2", "t1"]);
        check(json!({"filters": {}}), &["t4", "t3", "t2", "t1"]);
    }

    #[test]
    fn conditions_are_combined_by_logic() {
        let conditions = json!([
            {"field": "sender", "operator": "equals", "value": "sarah@example.com"},
            {"field": "size", "operator": "greaterThan", "value": 5},
            {"field": "subject", "operator": "contains", "value": "invoice"},
        ]);
        let with = |logic: &str| json!({"filters": {"conditions": conditions, "logic": logic}});
        check(json!({"filters": {"conditions": conditions}}), &["t3"]);
        check(with("AND"), &["t3"]);
        check(with("or"), &["t3", "t2", "t1"]);
        check(with("1 AND (2 OR 3)"), &["t3"]);
        check(with("(1 OR 2) AND NOT 3"), &["t2"]);
        check(with("1 OR 2 AND 3"), &["t3", "t2", "t1"]);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        refuses(json!({"filter": {}}), "`filter` cannot be applied to records; did you mean `filters`?");
        refuses(json!({"query": "x"}), "the parameters of a read are `operation`");
        refuses(json!({"operation": "delete"}), "`operation` must be `fetch`");
        refuses(json!({"limit": 0}), "`limit` must be a whole number from 1 to 1000");
        refuses(json!({"offset": -1}), "`offset` must be a whole number from 0");
        refuses(json!({"identifier": 5}), "`identifier` must be the id of a record");
        refuses(json!({"includeFields": ["a"], "excludeFields": ["b"]}), "use either");
        refuses(json!({"orderBy": {"field": "a", "direction": "up"}}), "must be `asc` or `desc`");
        refuses(json!({"orderBy": 5}), "`orderBy` must be");
        refuses(json!({"filters": "sender = x"}), "`filters` must be an object");
        refuses(json!({"filters": {"dateRange": {"from": "2026-01-01"}}}), "`from` is not an operator");
        refuses(json!({"filters": {"subject": {}}}), "`subject` has no operator");
        let with = |condition: Value| json!({"filters": {"conditions": [condition]}});
        refuses(
            with(json!({"field": "a", "operator": "like", "value": 1})),
            "`like` is not an operator; use one of `equals`",
        );
        refuses(with(json!({"operator": "equals", "value": 1})), "needs a `field`");
        refuses(with(json!({"field": "a", "operator": "equals"})), "`equals` needs a `value`");
        refuses(with(json!({"field": "a", "operator": "in", "value": 1})), "`in` needs `values`");
        refuses(with(json!({"field": "a", "operator": "between", "values": [1]})), "`between` needs two `values`");
        refuses(with(json!({"field": "a", "operator": "isNull", "value": 1})), "`isNull` takes no `value`");
        refuses(
            with(json!({"field": "a", "operator": "contains", "value": {"b": 1}})),
            "`contains` needs a text, a number or a boolean",
        );
        refuses(with(json!({"field": "a", "operator": "equals", "value": 1, "not": true})), "has no `not`");
        refuses(json!({"filters": {"conditions": [], "sender": "x"}}), "`sender` is not part of");
        let logic = |logic: &str| json!({"filters": {"conditions": [{"field": "a", "operator": "isNull"}, {"field": "b", "operator": "isNull"}], "logic": logic}});
        refuses(logic("1 AND 3"), "there is no condition 3");
        refuses(logic("1 AND 0"), "there is no condition 0");
        refuses(logic("1"), "condition 2 is not used");
        refuses(logic("1 XOR 2"), "`XOR`");
        refuses(logic("(1 AND 2"), "`logic` ends too early");
        refuses(logic("1 2"), "`logic`");
        refuses(logic(&"(".repeat(500)), "`logic`");
    }

    /// A small request must not cost more memory or time than its size lets expect.
    #[test]
    fn what_a_query_costs_is_bounded() {
        let any = |count: usize| json!({"field": "size", "operator": "in", "values": vec![3; count]});
        let with = |conditions: Vec<Value>, logic: &str| json!({"filters": {"conditions": conditions, "logic": logic}});
        let logic = |numbers: usize| vec!["1"; numbers].join(" or ");
        check(with(vec![any(1)], &logic(NANGO_LOGIC_NUMBERS)), &["t2"]);
        refuses(with(vec![any(1)], &logic(NANGO_LOGIC_NUMBERS + 1)), "`logic` has more than 200 numbers");
        refuses(with(vec![any(1)], &format!("{}1", "not ".repeat(4_000))), "nested deeper than 20 levels");

        let full = NANGO_OPERANDS / NANGO_CONDITIONS;
        check(with(vec![any(full); NANGO_CONDITIONS], "and"), &["t2"]);
        refuses(with(vec![any(full); NANGO_CONDITIONS + 1], "and"), "more than 50 conditions");
        let more_than_operands = "`filters` has more than 1000 values to compare with";
        let mut conditions = vec![any(full); NANGO_CONDITIONS];
        conditions[7] = any(full + 1);
        refuses(with(conditions, "and"), more_than_operands);
        check(json!({"filters": {"size": vec![3; NANGO_OPERANDS]}}), &["t2"]);
        refuses(json!({"filters": {"size": vec![3; NANGO_OPERANDS], "id": "t2"}}), more_than_operands);
        let plain = |count: usize| -> Value { (0..count).map(|field| (format!("f{field}"), Value::Null)).collect() };
        check(json!({"filters": plain(NANGO_CONDITIONS)}), &["t4", "t3", "t2", "t1"]);
        refuses(json!({"filters": plain(NANGO_CONDITIONS + 1)}), "more than 50 conditions");

        check(json!({"orderBy": vec!["size"; NANGO_ORDER_FIELDS]}), &["t2", "t1", "t3", "t4"]);
        refuses(json!({"orderBy": vec!["size"; NANGO_ORDER_FIELDS + 1]}), "`orderBy` has more than 10 fields");
    }

    #[test]
    fn a_value_that_cannot_be_compared_does_not_match_and_is_counted() {
        let page = page(&json!({"filters": {"subject": {"greaterThan": 5}, "colour": {"isNull": true}}}));
        assert_eq!((page.records.len(), page.incomparable), (0, 4));
        assert_eq!(page.unknown_fields, ["colour"]);
    }
}
