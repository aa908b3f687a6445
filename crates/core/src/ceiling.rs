//! Price ceilings: what one request, model reply, journal, page or cache may cost at most.
//!
//! Each ceiling is a constant that the code compares with, and a row of [`ALL`], from which
//! `docs/limits.md` is generated. What a ceiling refuses has a stable code; where there is none, the
//! surplus is cut and counted, or the oldest is evicted. Limits that a query, an agent or the operator
//! may choose are not here: they are [`Limits`](crate::Limits) and the settings of the server.

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
    pub above: Above,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Above {
    /// The request is refused, or the query fails, with this code.
    Code(&'static str),
    /// The surplus is left out and counted.
    Counted,
    /// The rest comes with the next page.
    NextPage,
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
    /// An input or a prompt, once its parameters are filled in
    RENDERED_BYTES: Request = MIB, Bytes, Above::Code("input_too_large");
    /// Faults that one answer lists; the others are counted
    FAULTS_LISTED: Request = 100, Count, Above::Counted;
    /// Warnings that one request leaves behind; the others are counted
    WARNINGS_KEPT: Request = 100, Count, Above::Counted;
    /// Results in one delivery
    RESULTS_DELIVERED: Request = 128, Count, Above::Code("too_many_results");

    /// Compiled patterns of one schema
    SCHEMA_PATTERN_BYTES: Schema = 4 * MIB, Bytes, Above::Code("schema_too_large");
    /// Compiled patterns of all schemas of one request
    REQUEST_PATTERN_BYTES: Schema = 8 * MIB, Bytes, Above::Code("schema_too_large");

    /// Tool calls in one reply of a model
    REPLY_CALLS: Model = 128, Count, Above::Code("model_malformed");
    /// Text of one reply of a model
    REPLY_TEXT_BYTES: Model = MIB, Bytes, Above::Code("model_output_limit");

    /// One entry of a journal
    ENTRY_BYTES: Journal = 8 * MIB, Bytes, Above::Code("entry_too_large");
    /// The journal of one query
    JOURNAL_BYTES: Journal = 64 * MIB, Bytes, Above::Code("journal_full");

    /// One page of a list
    PAGE_BYTES: Answer = 16 * MIB, Bytes, Above::NextPage;

    /// Compiled schemas that are kept
    SCHEMA_CACHE_BYTES: Cache = 64 * MIB, Bytes, Above::Evicted;
    /// Toolsets that are kept
    TOOLSET_CACHE_BYTES: Cache = 64 * MIB, Bytes, Above::Evicted;

    /// Unfinished uploads of one call
    CALL_DRAFTS: Upload = 2, Count, Above::Code("too_many_uploads");
    /// Unfinished uploads of one namespace together
    NAMESPACE_DRAFT_BYTES: Upload = 512 * MIB, Bytes, Above::Code("too_many_uploads");
}
