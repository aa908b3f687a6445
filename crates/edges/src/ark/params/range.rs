//! Where reading begins: bytes of a result, or the last event that a client has seen.

use axum::http::HeaderValue;

use super::{HeaderParameter, ParamGroup, QueryParameter, non_empty, text_schema};

/// `Range` and `If-Range`
#[derive(Clone, Debug, Default)]
pub(crate) struct ByteRange {
    pub(crate) range: Option<HeaderValue>,
    pub(crate) if_range: Option<HeaderValue>,
}

impl ParamGroup for ByteRange {
    const HEADERS: &'static [HeaderParameter<Self>] = &[
        HeaderParameter {
            name: "Range",
            description: "One range of bytes",
            schema: text_schema,
            read: |this, value| {
                this.range = Some(value.clone());
                Ok(())
            },
        },
        HeaderParameter {
            name: "If-Range",
            description: "The `ETag` of the result that the range is of",
            schema: text_schema,
            read: |this, value| {
                this.if_range = Some(value.clone());
                Ok(())
            },
        },
    ];
}

/// `Last-Event-ID`, or `lastEventId` for clients that cannot set a header
#[derive(Clone, Debug, Default)]
pub(crate) struct LastEventId {
    pub(crate) id: Option<String>,
}

impl ParamGroup for LastEventId {
    const QUERY: &'static [QueryParameter<Self>] = &[QueryParameter {
        names: &["lastEventId"],
        description: "The same as the header, for clients that cannot set one",
        schema: text_schema,
        read: |this, value, _| {
            this.id = non_empty(value);
            Ok(())
        },
    }];
    const HEADERS: &'static [HeaderParameter<Self>] = &[HeaderParameter {
        name: "Last-Event-ID",
        description: "The id of the last event that the client has seen",
        schema: text_schema,
        read: |this, value| {
            if !value.is_empty() {
                // A value that is not text is not an id of this server, and is refused as such later.
                this.id = Some(String::from_utf8_lossy(value.as_bytes()).into_owned());
            }
            Ok(())
        },
    }];
}
