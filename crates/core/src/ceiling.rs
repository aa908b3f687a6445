//! Ceilings: the maximum cost of one request, model reply, journal, page or cache.
//!
//! Each ceiling is a constant that the code compares with, and a row of [`ALL`], from which `docs/limits.md` is
//! generated. A rejection has a stable code; where there is none, the excess is dropped and counted, or the least
//! recently used is evicted. Limits that a query, an agent or the operator may choose are not here: they are
//! [`QueryLimits`](crate::QueryLimits) and the settings of the server.

use crate::machine::{failure_code, outcome_code, request_code};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// One row of the table of ceilings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling {
    pub name: &'static str,
    pub area: Area,
    pub value: usize,
    pub unit: Unit,
    /// What the ceiling bounds, as the documentation says it.
    pub bounds: &'static str,
    /// What happens above it: a stable error code, or what is done instead.
    pub above: Excess,
}

/// What a ceiling belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    Request,
    Schema,
    Model,
    Journal,
    Answer,
    Cache,
    Upload,
}

impl Area {
    pub const ALL: [Self; 7] =
        [Self::Request, Self::Schema, Self::Model, Self::Journal, Self::Answer, Self::Cache, Self::Upload];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Count,
    Seconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// The request is rejected, or the query fails, with this code.
    Code(&'static str),
    /// The request is rejected, with this code among the faults in `error.details`.
    Fault(&'static str),
    /// The request is rejected with this status before any of it is read, so there is no code.
    Status(u16),
    /// The call is refused with this code, which the model reads; the query continues.
    ReportedToModel(&'static str),
    /// The excess is dropped and counted.
    Counted,
    /// The value is lowered to the ceiling, with a warning.
    Lowered,
    /// The rest is cut, with a mark that says so.
    Cut,
    /// A mark with type and size replaces it.
    Marked,
    /// The rest comes with the next page.
    NextPage,
    /// The oldest are left out of the list.
    OldestLeftOut,
    /// It is deleted.
    Deleted,
    /// A reference replaces it.
    Referenced,
    /// The least recently used entries are evicted.
    Evicted,
}

macro_rules! ceilings {
    ($($(#[doc = $doc:literal])+ $name:ident: $area:ident = $value:expr, $unit:ident, $above:expr;)+) => {
        $($(#[doc = $doc])+ pub const $name: usize = $value;)+

        /// Every ceiling, in the order of the documentation.
        pub const ALL: &[Ceiling] = &[$(Ceiling {
            name: stringify!($name),
            area: Area::$area,
            value: $name,
            unit: Unit::$unit,
            bounds: concat!($($doc),+),
            above: $above,
        }),+];
    };
}

ceilings! {
    /// A body that is read as JSON
    BODY_BYTES: Request = MIB, Bytes, Excess::Code(request_code::PAYLOAD_TOO_LARGE);
    /// Memory that the values of a body take, once it is parsed
    JSON_MEMORY_BYTES: Request = 16 * MIB, Bytes, Excess::Code(request_code::PAYLOAD_TOO_LARGE);
    /// Nesting of objects and arrays, in a body or in arguments
    JSON_DEPTH: Request = 64, Count, Excess::Code(request_code::JSON_TOO_DEEP);
    /// The request line and all headers
    HEADER_BYTES: Request = 32 * KIB, Bytes, Excess::Status(431);
    /// An `Idempotency-Key`
    IDEMPOTENCY_KEY_BYTES: Request = 255, Bytes, Excess::Code(request_code::INVALID_PARAMETER);
    /// The time that one request may wait for a query
    WAIT_SECONDS: Request = 60, Seconds, Excess::Lowered;
    /// The name of a conversation
    CONVERSATION_ID_BYTES: Request = 253, Bytes, Excess::Fault("invalid_id");
    /// The reason of a cancellation
    REASON_BYTES: Request = 16 * KIB, Bytes, Excess::Fault("too_large");
    /// The labels of a query, and its annotations
    LABELS_BYTES: Request = 256 * KIB, Bytes, Excess::Fault("too_large");
    /// Labels of a query, each of which is indexed
    LABELS: Request = 256, Count, Excess::Fault("too_many");
    /// A stored resource, including every field that was ever set
    RESOURCE_BYTES: Request = MIB, Bytes, Excess::Fault("too_large");
    /// Memory that the values of a stored resource take
    RESOURCE_MEMORY_BYTES: Request = 4 * MIB, Bytes, Excess::Fault("too_large");
    /// Stored MCP servers of one namespace, and stored A2A servers: each is connected to and asked again at intervals
    SERVERS_STORED: Request = 100, Count, Excess::Fault("too_many");
    /// The values of all parameters of a query, once config maps are read
    PARAMETERS_BYTES: Request = MIB, Bytes, Excess::Code(request_code::INPUT_TOO_LARGE);
    /// An input or a prompt, once its parameters are filled in
    RENDERED_BYTES: Request = MIB, Bytes, Excess::Code(request_code::INPUT_TOO_LARGE);
    /// Faults that one answer lists; further ones are counted
    FAULTS_LISTED: Request = 100, Count, Excess::Counted;
    /// Warnings of one request; further ones are counted
    WARNINGS_KEPT: Request = 100, Count, Excess::Counted;
    /// Results in one delivery
    RESULTS_DELIVERED: Request = 128, Count, Excess::Code(request_code::TOO_MANY_RESULTS);
    /// Tools that one worker names
    WORKER_TOOLS: Request = 100, Count, Excess::Code(request_code::INVALID_PARAMETER);
    /// Calls that a worker claims at once
    CALLS_CLAIMED: Request = 32, Count, Excess::Code(request_code::INVALID_PARAMETER);
    /// The time that a worker has a call without a heartbeat
    LEASE_SECONDS: Request = 600, Seconds, Excess::Lowered;

    /// The id of a JSON-RPC request (A2A), as JSON: every event of a stream repeats it
    RPC_ID_BYTES: Request = 1_024, Bytes, Excess::Code(request_code::INVALID_REQUEST);
    /// The id of a message (A2A)
    MESSAGE_ID_BYTES: Request = 1_024, Bytes, Excess::Fault("too_large");
    /// Push notification configs of one task (A2A)
    PUSH_CONFIGS: Request = 10, Count, Excess::Code(request_code::INVALID_REQUEST);
    /// The id, the address, the token, and the credentials of a push notification config, each (A2A)
    PUSH_FIELD_BYTES: Request = 2 * KIB, Bytes, Excess::Fault("too_large");

    /// Tools that one request brings
    TOOLS: Schema = 1_000, Count, Excess::Fault("too_big");
    /// The name of a tool, in characters
    TOOL_NAME_LENGTH: Schema = 128, Count, Excess::Fault("too_big");
    /// The description of a tool
    TOOL_DESCRIPTION_BYTES: Schema = 16 * KIB, Bytes, Excess::Fault("too_big");
    /// One schema
    SCHEMA_BYTES: Schema = 256 * KIB, Bytes, Excess::Fault("schema_too_large");
    /// Nesting of objects and arrays, in a schema
    SCHEMA_DEPTH: Schema = 64, Count, Excess::Fault("schema_too_deep");
    /// Subschemas of one schema
    SUBSCHEMAS: Schema = 2_000, Count, Excess::Fault("schema_too_many_subschemas");
    /// Values of one `enum`
    ENUM_VALUES: Schema = 1_000, Count, Excess::Fault("enum_too_long");
    /// One `pattern`, as it is written
    PATTERN_BYTES: Schema = 2_000, Bytes, Excess::Fault("pattern_too_long");
    /// One `pattern`, compiled
    PATTERN_COMPILED_BYTES: Schema = 512 * KIB, Bytes, Excess::Fault("pattern_invalid");
    /// Compiled patterns of one schema
    SCHEMA_PATTERN_BYTES: Schema = 4 * MIB, Bytes, Excess::Fault("patterns_too_large");
    /// Compiled patterns of all schemas of one request
    REQUEST_PATTERN_BYTES: Schema = 16 * MIB, Bytes, Excess::Fault("patterns_too_large");

    /// The arguments of one call
    ARGUMENT_BYTES: Model = 256 * KIB, Bytes, Excess::ReportedToModel(outcome_code::INVALID_ARGUMENTS);
    /// Tool calls in one reply
    REPLY_CALLS: Model = 128, Count, Excess::Code(failure_code::MODEL_MALFORMED);
    /// The id and the name of a call in a reply, each
    CALL_NAME_BYTES: Model = 512, Bytes, Excess::Code(failure_code::MODEL_MALFORMED);
    /// Text of one reply, as a string of JSON: with its envelope it is an event of at most 1 MiB
    REPLY_TEXT_BYTES: Model = MIB - 4 * KIB, Bytes, Excess::Code(failure_code::MODEL_OUTPUT_LIMIT);
    /// Text, calls and opaque provider data of one reply
    REPLY_BYTES: Model = 4 * MIB, Bytes, Excess::Code(failure_code::MODEL_OUTPUT_LIMIT);
    /// The answer to an HTTP tool, after decompression
    HTTP_RESPONSE_BYTES: Model = 8 * MIB, Bytes, Excess::ReportedToModel(outcome_code::RESULT_TOO_LARGE);
    /// Records of Nango that one call reads; the newest where there are more
    NANGO_RECORDS: Model = 10_000, Count, Excess::Cut;
    /// The same, in bytes of JSON
    NANGO_BYTES: Model = 32 * MIB, Bytes, Excess::Cut;
    /// Conditions in the `filters` of one read of Nango's records
    NANGO_CONDITIONS: Model = 50, Count, Excess::ReportedToModel(outcome_code::INVALID_ARGUMENTS);
    /// Values that all conditions of one read together compare with
    NANGO_OPERANDS: Model = 1_000, Count, Excess::ReportedToModel(outcome_code::INVALID_ARGUMENTS);
    /// Numbers in the `logic` of its conditions
    NANGO_LOGIC_NUMBERS: Model = 200, Count, Excess::ReportedToModel(outcome_code::INVALID_ARGUMENTS);
    /// Fields in its `orderBy`
    NANGO_ORDER_FIELDS: Model = 10, Count, Excess::ReportedToModel(outcome_code::INVALID_ARGUMENTS);
    /// Time of the jq filters of one result
    JQ_SECONDS: Model = 5, Seconds, Excess::ReportedToModel(outcome_code::FUNCTION_FAILED);
    /// Memory of the jq filters of one result
    JQ_MEMORY_BYTES: Model = 256 * MIB, Bytes, Excess::ReportedToModel(outcome_code::FUNCTION_FAILED);
    /// One result, as the model reads it
    RESULT_SHOWN_BYTES: Model = 256 * KIB, Bytes, Excess::Cut;
    /// A result of content blocks whose texts and images are shown to the model
    BLOCKS_SHOWN_BYTES: Model = 8 * MIB, Bytes, Excess::Marked;
    /// Images in one request, the newest first
    IMAGES_SHOWN: Model = 20, Count, Excess::Marked;
    /// Images in one request together, in base64
    IMAGES_SHOWN_BYTES: Model = 20 * MIB, Bytes, Excess::Marked;

    /// One entry of a journal
    ENTRY_BYTES: Journal = 8 * MIB, Bytes, Excess::Code(failure_code::ENTRY_TOO_LARGE);
    /// The journal of one query
    JOURNAL_BYTES: Journal = 64 * MIB, Bytes, Excess::Code(failure_code::JOURNAL_FULL);
    /// Changes (`PUT`) in the journal of one query
    CHANGES_BYTES: Journal = 16 * MIB, Bytes, Excess::Code(failure_code::JOURNAL_FULL);
    /// A result that is stored inline in the journal; a larger one is a blob, and the journal refers to it
    INLINE_RESULT_BYTES: Journal = 256 * KIB, Bytes, Excess::Referenced;

    /// One event of a stream; larger results are replaced by a reference
    EVENT_BYTES: Answer = MIB, Bytes, Excess::Referenced;
    /// Entries of one page of a list
    PAGE_ENTRIES: Answer = 1_000, Count, Excess::Code(request_code::INVALID_PARAMETER);
    /// One page of a list
    PAGE_BYTES: Answer = 4 * MIB, Bytes, Excess::NextPage;
    /// Entries of one page of tasks (A2A)
    TASK_PAGE_ENTRIES: Answer = 100, Count, Excess::Fault("invalid_number");
    /// Queries of a namespace, newest first, among which the tasks of an agent are listed (A2A)
    TASKS_LISTED: Answer = 2_000, Count, Excess::OldestLeftOut;
    /// Attempts in a row to post a push notification; then its config is deleted (A2A)
    PUSH_ATTEMPTS: Answer = 12, Count, Excess::Deleted;

    /// Cached compiled schemas
    SCHEMA_CACHE_BYTES: Cache = 64 * MIB, Bytes, Excess::Evicted;
    /// Cached toolsets
    TOOLSET_CACHE_BYTES: Cache = 64 * MIB, Bytes, Excess::Evicted;
    /// Cached catalogues of agents, with the search index that `toolFilter` uses
    CATALOG_CACHE_BYTES: Cache = 256 * MIB, Bytes, Excess::Evicted;
    /// Cached lists of validated tool definitions
    DEFINITION_CACHE_BYTES: Cache = 32 * MIB, Bytes, Excess::Evicted;
    /// Waiting queries that are kept in memory
    WAITING_CACHE_BYTES: Cache = 64 * MIB, Bytes, Excess::Evicted;
    /// Cached results of tools, of all namespaces together
    RESULT_CACHE_BYTES: Cache = 64 * MIB, Bytes, Excess::Evicted;
    /// Cached entries of one query, for its readers
    RECENT_ENTRIES_BYTES: Cache = MIB, Bytes, Excess::Evicted;

    /// One result
    RESULT_BYTES: Upload = 64 * MIB, Bytes, Excess::Code(request_code::PAYLOAD_TOO_LARGE);
    /// Unfinished uploads of one call
    CALL_DRAFTS: Upload = 2, Count, Excess::Code(request_code::TOO_MANY_UPLOADS);
    /// Unfinished uploads of one namespace together
    NAMESPACE_DRAFT_BYTES: Upload = 512 * MIB, Bytes, Excess::Code(request_code::TOO_MANY_UPLOADS);
}
