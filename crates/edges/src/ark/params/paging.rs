//! Pages of a list: how long they are, where one begins, and the state or the name of the queries in it.

use std::marker::PhantomData;

use bosun_core::{QueryName, QueryUid, Status, ceiling};
use bosun_reading::table::name_schema;
use serde_json::{Value, json};

use super::{Expected, ParamGroup, QueryParameter};
use crate::http::error::{ApiError, Code, clip};

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = ceiling::PAGE_ENTRIES;
const TOKEN: &str = "the `continue_token` of an earlier page";

/// `limit` and `continue_token`; `T` says how the token is described.
#[derive(Debug)]
pub(crate) struct Paging<T> {
    /// How many entries the client wants at once, if it says so.
    pub(crate) asked_limit: Option<usize>,
    /// Where the previous page ended: the token of its last entry.
    pub(crate) continue_token: Option<String>,
    token: PhantomData<T>,
}

impl<T> Default for Paging<T> {
    fn default() -> Self {
        Self { asked_limit: None, continue_token: None, token: PhantomData }
    }
}

/// How a list identifies the last entry of a page.
pub(crate) trait PageToken: Send + 'static {
    const NAMES: &'static [&'static str] = &["continue_token", "continueToken", "continue"];
    const DESCRIPTION: &'static str = "The token of the previous page";

    fn schema() -> Value {
        json!({"type": "string", "minLength": 1})
    }
}

/// The uid of a query.
#[derive(Debug)]
pub(crate) struct QueryToken;

/// The name of a resource.
#[derive(Debug)]
pub(crate) struct NameToken;

/// Either, under the name that Kubernetes gives it.
#[derive(Debug)]
pub(crate) struct KubernetesToken;

impl PageToken for QueryToken {
    fn schema() -> Value {
        json!({"type": "string", "format": "uuid"})
    }
}

impl PageToken for NameToken {}

impl PageToken for KubernetesToken {
    const NAMES: &'static [&'static str] = &["continue", "continue_token", "continueToken"];
    const DESCRIPTION: &'static str = "`metadata.continue` of the previous page";
}

impl<T: PageToken> ParamGroup for Paging<T> {
    const QUERY: &'static [QueryParameter<Self>] = &[
        QueryParameter {
            names: &["limit"],
            description: LIMIT,
            schema: limit_schema,
            read: |this, value, _| {
                this.asked_limit = Some(read_limit(value)?);
                Ok(())
            },
        },
        QueryParameter {
            names: T::NAMES,
            description: T::DESCRIPTION,
            schema: T::schema,
            read: |this, value, _| {
                this.continue_token = Some(super::non_empty(value).ok_or(TOKEN)?);
                Ok(())
            },
        },
    ];
}

impl<T> Paging<T> {
    /// How long a page is.
    pub(crate) fn limit(&self) -> usize {
        self.asked_limit.unwrap_or(DEFAULT_LIMIT)
    }

    /// The last query of the previous page, where pages are of queries.
    pub(crate) fn before(&self) -> Result<Option<QueryUid>, ApiError> {
        let Some(token) = &self.continue_token else { return Ok(None) };
        token.parse().map(Some).map_err(|_| {
            let message = format!("continue_token: `{}` is not {TOKEN}", clip(token));
            ApiError::new(Code::InvalidParameter, message)
        })
    }
}

const LIMIT: &str = "The number of entries on one page";

fn limit_schema() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": MAX_LIMIT})
}

fn read_limit(value: &str) -> Result<usize, Expected> {
    match value.parse() {
        Ok(limit) if (1..=MAX_LIMIT).contains(&limit) => Ok(limit),
        _ => Err(format!("a number from 1 to {MAX_LIMIT}").into()),
    }
}

/// `limit` of a list that another parameter continues
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageLimit {
    limit: Option<usize>,
}

impl ParamGroup for PageLimit {
    const QUERY: &'static [QueryParameter<Self>] = &[QueryParameter {
        names: &["limit"],
        description: LIMIT,
        schema: limit_schema,
        read: |this, value, _| {
            this.limit = Some(read_limit(value)?);
            Ok(())
        },
    }];
}

impl PageLimit {
    /// How long a page is.
    pub(crate) fn get(self) -> usize {
        self.limit.unwrap_or(DEFAULT_LIMIT)
    }
}

/// `query`
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryFilter {
    pub(crate) query: Option<QueryName>,
}

impl ParamGroup for QueryFilter {
    const QUERY: &'static [QueryParameter<Self>] = &[QueryParameter {
        names: &["query"],
        description: "Only what concerns this query",
        schema: name_schema,
        read: |this, value, _| {
            this.query = Some(value.parse().map_err(|_| "the name of a query")?);
            Ok(())
        },
    }];
}

/// `state`
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StateFilter {
    pub(crate) state: Option<Status>,
}

impl ParamGroup for StateFilter {
    const QUERY: &'static [QueryParameter<Self>] = &[QueryParameter {
        names: &["state"],
        description: "Only queries in this state",
        schema: || json!({"enum": Status::ALL.map(|state| state.as_str())}),
        read: |this, value, _| {
            let state = Status::ALL.iter().find(|state| state.as_str() == value);
            this.state = Some(*state.ok_or("a state of a query")?);
            Ok(())
        },
    }];
}
