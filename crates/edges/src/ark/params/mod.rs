//! Extractors of what a request says outside its body: path, query string and headers.
//!
//! A handler names the groups of parameters that it takes, as in `Params<(WaitTime, ViewChoice)>`. Each group is a
//! table ([`ParamGroup::QUERY`], [`ParamGroup::HEADERS`]) that reads its parameters and describes them in the
//! OpenAPI document. A parameter that no group of the route has is ignored with a warning, whatever its value; all
//! faults of the others are reported at once. Names in the path have extractors of their own, in [`path`].

mod claim;
mod conversation;
mod event_filter;
mod idempotency;
mod lookup;
mod paging;
pub(crate) mod path;
mod range;
mod result;
mod view;
mod waiting;

use std::borrow::Cow;

use axum::{
    extract::{FromRequestParts, Query},
    http::{HeaderMap, HeaderValue, request::Parts},
};
use bosun_reading::{
    Report,
    table::{flag_schema, text_schema},
};
use serde_json::{Value, json};

pub(crate) use self::{
    claim::{ClaimOptions, DEFAULT_LEASE, LEASE, clamp_lease},
    conversation::{ConversationFilter, MemoryFilter, MessageFilter},
    event_filter::EventFilter,
    idempotency::IdempotencyKey,
    lookup::{AuditFilter, QuerySearch, ToolFilter, ToolSearch, UsageFilter},
    paging::{KubernetesToken, NameToken, PageLimit, Paging, QueryFilter, QueryToken, StateFilter},
    range::{ByteRange, LastEventId},
    result::ResultOptions,
    view::{ArkView, Streaming, ViewChoice},
    waiting::{DEFAULT_WAIT, MAX_WAIT, WaitTime, clamp_wait, read_wait},
};
use crate::{
    auth::gate::Caller,
    http::{
        error::{ApiError, Code, clip},
        report::RequestReport,
    },
};

/// The expected value, in the words of the fault: `value` is not this.
pub(crate) type Expected = Cow<'static, str>;

/// One parameter of the query string: how it is read into its group, and how it is described.
pub(crate) struct QueryParameter<G> {
    /// Its names, of which the first is described.
    pub(crate) names: &'static [&'static str],
    pub(crate) description: &'static str,
    pub(crate) schema: fn() -> Value,
    pub(crate) read: fn(&mut G, &str, &Report) -> Result<(), Expected>,
}

/// One header, likewise. Its fault is a whole message.
pub(crate) struct HeaderParameter<G> {
    name: &'static str,
    description: &'static str,
    schema: fn() -> Value,
    read: fn(&mut G, &HeaderValue) -> Result<(), Expected>,
}

/// Parameters that belong together.
pub(crate) trait ParamGroup: Default + Send + 'static {
    const QUERY: &'static [QueryParameter<Self>] = &[];
    const HEADERS: &'static [HeaderParameter<Self>] = &[];

    /// Validates the group as a whole, once each of its parameters has been read.
    fn finish(&mut self, _: &HeaderMap, _: &Report) {}
}

/// The parameters of a route: a group, or several.
pub(crate) trait ParamGroups: Default + Send + 'static {
    /// Reads a parameter of the query string; `false` if none has this name.
    fn read(&mut self, name: &str, value: &str, report: &Report) -> bool;

    fn finish(&mut self, headers: &HeaderMap, report: &Report);

    /// The parameters as OpenAPI describes them.
    fn describe() -> Vec<Value>;
}

impl<G: ParamGroup> ParamGroups for G {
    fn read(&mut self, name: &str, value: &str, report: &Report) -> bool {
        let Some(parameter) = G::QUERY.iter().find(|parameter| parameter.names.contains(&name)) else { return false };
        if let Err(expected) = (parameter.read)(self, value, report) {
            report.fault(clip(name), "invalid", format!("`{}` is not {expected}", clip(value)));
        }
        true
    }

    fn finish(&mut self, headers: &HeaderMap, report: &Report) {
        for header in G::HEADERS {
            let read = headers.get(header.name).map(|value| (header.read)(self, value));
            if let Some(Err(message)) = read {
                report.fault(header.name, "invalid", message);
            }
        }
        ParamGroup::finish(self, headers, report);
    }

    fn describe() -> Vec<Value> {
        let in_query = G::QUERY.iter().map(|parameter| {
            let QueryParameter { names, description, schema, .. } = parameter;
            json!({"name": names[0], "in": "query", "schema": schema(), "description": description})
        });
        let in_header = G::HEADERS.iter().map(|header| {
            let HeaderParameter { name, description, schema, .. } = header;
            json!({"name": name, "in": "header", "schema": schema(), "description": description})
        });
        in_query.chain(in_header).collect()
    }
}

macro_rules! groups {
    ($($group:ident $field:tt),*) => {
        impl<$($group: ParamGroup),*> ParamGroups for ($($group,)*) {
            fn read(&mut self, _name: &str, _value: &str, _report: &Report) -> bool {
                $(if ParamGroups::read(&mut self.$field, _name, _value, _report) {
                    return true;
                })*
                false
            }

            fn finish(&mut self, _headers: &HeaderMap, _report: &Report) {
                $(ParamGroups::finish(&mut self.$field, _headers, _report);)*
            }

            fn describe() -> Vec<Value> {
                [$($group::describe(),)*].concat()
            }
        }
    };
}

impl ParamGroups for () {
    fn read(&mut self, _: &str, _: &str, _: &Report) -> bool {
        false
    }

    fn finish(&mut self, _: &HeaderMap, _: &Report) {}

    fn describe() -> Vec<Value> {
        Vec::new()
    }
}

groups!(A 0, B 1);
groups!(A 0, B 1, C 2);
groups!(A 0, B 1, C 2, D 3);

/// The parameters of a request, and what the client should know about how they were read.
#[derive(Debug)]
pub(crate) struct Params<G = ()> {
    pub(crate) given: G,
    pub(crate) warnings: Vec<String>,
}

impl<S: Send + Sync, G: ParamGroups> FromRequestParts<S> for Params<G> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Query(query) = Query::<Vec<(String, String)>>::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::new(Code::InvalidParameter, "the query string cannot be decoded"))?;
        let caller = Caller::from_request_parts(parts, state).await?;
        read(&query, &parts.headers, caller.warning)
    }
}

fn read<G: ParamGroups>(
    query: &[(String, String)],
    headers: &HeaderMap,
    warning: Option<&str>,
) -> Result<Params<G>, ApiError> {
    let report = RequestReport::new(Code::InvalidParameter, Vec::new());
    if let Some(warning) = warning {
        report.note(warning);
    }
    let mut given = G::default();
    let mut seen: Vec<&str> = Vec::new();
    for (name, value) in query {
        if seen.contains(&name.as_str()) {
            report.fault(clip(name), "invalid", "appears twice");
        }
        seen.push(name);
        // The gate has read the namespace.
        if name != "namespace" && !given.read(name, value, &report) {
            report.note(format!("unknown parameter `{}` was ignored", clip(name)));
        }
    }
    given.finish(headers, &report);
    Ok(Params { given, warnings: report.conclude()? })
}

/// A text, unless it is empty.
fn non_empty(value: &str) -> Option<String> {
    Some(value.to_owned()).filter(|text| !text.is_empty())
}

fn flag(value: &str) -> Result<bool, Expected> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("true or false".into()),
    }
}
