//! The form of an answer: the view of the query, and JSON or a stream.

use axum::http::{HeaderMap, header};
use bosun_core::query::EdgeNote;
use bosun_reading::Report;
use serde_json::json;

use super::{ParamGroup, QueryParameter, flag, flag_schema};

/// The two shapes in which ARK's API shows a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArkView {
    /// `status` is a string and open tool calls are listed: for clients that bring their own tools.
    Rfc,
    /// `status` is an object with a `phase`, as ARK's own clients read it.
    Ark,
}

impl ArkView {
    /// The view that a query was created with; ARK's own for queries of other edges.
    pub(crate) fn of(note: &EdgeNote) -> Self {
        if note.as_str() == "rfc" { Self::Rfc } else { Self::Ark }
    }
}

impl From<ArkView> for EdgeNote {
    fn from(view: ArkView) -> Self {
        match view {
            ArkView::Rfc => Self::new("rfc"),
            ArkView::Ark => Self::new("ark"),
        }
    }
}

/// `view`
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ViewChoice {
    pub(crate) view: Option<ArkView>,
}

impl ParamGroup for ViewChoice {
    const QUERY: &'static [QueryParameter<Self>] = &[QueryParameter {
        names: &["view"],
        description: "In which shape the query is shown",
        schema: || json!({"enum": ["rfc", "ark"]}),
        read: |this, value, _| {
            this.view = Some(match value {
                "rfc" => ArkView::Rfc,
                "ark" => ArkView::Ark,
                _ => return Err("`rfc` or `ark`".into()),
            });
            Ok(())
        },
    }];
}

/// `stream`, or `Accept: text/event-stream`
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Streaming {
    pub(crate) stream: Option<bool>,
}

impl ParamGroup for Streaming {
    const QUERY: &'static [QueryParameter<Self>] = &[QueryParameter {
        names: &["stream"],
        description: "Answer with server-sent events",
        schema: flag_schema,
        read: |this, value, _| {
            this.stream = Some(flag(value)?);
            Ok(())
        },
    }];

    fn finish(&mut self, headers: &HeaderMap, _: &Report) {
        self.stream = self.stream.or_else(|| accepts_only_events(headers).then_some(true));
    }
}

/// Whether `Accept` asks for a stream. A client that accepts JSON as well gets JSON.
fn accepts_only_events(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges: Vec<&str> = accept
        .flat_map(|value| value.split(','))
        .map(|range| range.split(';').next().unwrap_or_default().trim())
        .collect();
    let accepts = |wanted: &str| ranges.iter().any(|range| range.eq_ignore_ascii_case(wanted));
    accepts("text/event-stream") && !accepts("application/json")
}
