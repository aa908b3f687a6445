//! Which events of queries are listed.

use serde_json::json;

use super::{ParamGroup, QueryParameter, non_empty, text_schema};

#[derive(Clone, Debug, Default)]
pub(crate) struct EventFilter {
    /// `Normal` or `Warning`.
    pub(crate) kind: Option<String>,
    pub(crate) reason: Option<String>,
    /// The kind of the object that they are about.
    pub(crate) object: Option<String>,
    /// A part of its name.
    pub(crate) name: Option<String>,
    /// Which page; the first is 1.
    page: Option<usize>,
}

impl ParamGroup for EventFilter {
    const QUERY: &'static [QueryParameter<Self>] = &[
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
    /// How many events are on earlier pages, of which each has `limit`.
    pub(crate) fn earlier(&self, limit: usize) -> usize {
        (self.page.unwrap_or(1) - 1).saturating_mul(limit)
    }
}
