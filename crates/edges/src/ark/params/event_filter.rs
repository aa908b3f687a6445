//! Which events of queries are listed.

use bosun_core::QueryName;
use serde_json::json;

use super::{
    ParamGroup, QueryParameter, name_schema, non_empty,
    paging::{LIMIT, limit_or_default, limit_schema, read_limit},
    text_schema,
};

#[derive(Clone, Debug, Default)]
pub(crate) struct EventFilter {
    pub(crate) query: Option<QueryName>,
    /// `Normal` or `Warning`.
    pub(crate) kind: Option<String>,
    pub(crate) reason: Option<String>,
    /// The kind of the object that they happened to.
    pub(crate) object: Option<String>,
    /// A part of its name.
    pub(crate) name: Option<String>,
    limit: Option<usize>,
    /// Which page; the first is 1.
    page: Option<usize>,
}

impl ParamGroup for EventFilter {
    const QUERY: &'static [QueryParameter<Self>] = &[
        QueryParameter {
            names: &["query"],
            description: "Only events of this query",
            schema: name_schema,
            read: |this, value, _| {
                this.query = Some(value.parse().map_err(|_| "the name of a query")?);
                Ok(())
            },
        },
        QueryParameter {
            names: &["type"],
            description: "Only events of this type",
            schema: || json!({"enum": ["Normal", "Warning"]}),
            read: |this, value, _| {
                this.kind = Some(value.to_owned());
                Ok(())
            },
        },
        QueryParameter {
            names: &["reason"],
            description: "Only events with this reason",
            schema: text_schema,
            read: |this, value, _| {
                this.reason = Some(value.to_owned());
                Ok(())
            },
        },
        QueryParameter {
            names: &["kind"],
            description: "Only events of objects of this kind",
            schema: || json!({"type": "string", "examples": ["Query"]}),
            read: |this, value, _| {
                this.object = non_empty(value);
                Ok(())
            },
        },
        QueryParameter {
            names: &["name"],
            description: "Only events of objects whose name contains this",
            schema: text_schema,
            read: |this, value, _| {
                this.name = non_empty(value);
                Ok(())
            },
        },
        QueryParameter {
            names: &["limit"],
            description: LIMIT,
            schema: limit_schema,
            read: |this, value, _| {
                this.limit = Some(read_limit(value)?);
                Ok(())
            },
        },
        QueryParameter {
            names: &["page"],
            description: "Which page; the first is 1",
            schema: || json!({"type": "integer", "minimum": 1}),
            read: |this, value, _| {
                let page = value.parse().ok().filter(|page| *page > 0);
                this.page = Some(page.ok_or("the number of a page; the first is 1")?);
                Ok(())
            },
        },
    ];
}

impl EventFilter {
    pub(crate) fn limit(&self) -> usize {
        limit_or_default(self.limit)
    }

    /// How many events are on earlier pages.
    pub(crate) fn earlier(&self) -> usize {
        (self.page.unwrap_or(1) - 1).saturating_mul(self.limit())
    }
}
