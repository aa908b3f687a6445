//! Stable codes with which calls and queries fail.
//!
//! Each table is in the order of `docs/errors.md`, whose headings are checked against it.

macro_rules! codes {
    ($(#[doc = $about:literal])+ $table:ident { $($(#[doc = $doc:literal])* $name:ident = $code:literal;)+ }) => {
        $(#[doc = $about])+
        pub mod $table {
            $($(#[doc = $doc])* pub const $name: &str = $code;)+

            /// Every code, in the order of the documentation.
            pub const ALL: &[&str] = &[$($name),+];
        }
    };
}

codes! {
    /// Codes of failed calls, for the model and for the history. A client's failure may have a code of its own.
    outcome_code {
        CALL_EXPIRED = "call_expired";
        /// The tool ran and failed.
        TOOL_FAILED = "tool_failed";
        /// The API of an HTTP tool answered with a status of failure.
        HTTP_STATUS = "http_status";
        /// The server of a tool cannot be connected to.
        TOOL_UNREACHABLE = "tool_unreachable";
        /// A secret, a setting or a parameter that the tool needs is missing.
        TOOL_MISCONFIGURED = "tool_misconfigured";
        /// The tool is at an address that its definition may not reach.
        ADDRESS_NOT_ALLOWED = "address_not_allowed";
        /// The secret may not be sent where the tool would send it.
        SECRET_NOT_ALLOWED = "secret_not_allowed";
        /// The result is neither JSON nor text, an image or sound.
        UNSUPPORTED_CONTENT = "unsupported_content";
        TOOL_CALL_LIMIT = "tool_call_limit";
        TOOL_TIMEOUT = "tool_timeout";
        RESULT_TOO_LARGE = "result_too_large";
        /// `read_result` was called with a handle that is none.
        UNKNOWN_HANDLE = "unknown_handle";
        OUTCOME_UNKNOWN = "outcome_unknown";
        UNKNOWN_TOOL = "unknown_tool";
        INVALID_ARGUMENTS = "invalid_arguments";
        INVALID_SCHEMA = "invalid_schema";
        /// This version runs no tools of its kind.
        NO_RUNNER = "no_runner";
        /// There is no session with the MCP server of the tool, and none could be made.
        MCP_SERVER_UNAVAILABLE = "mcp_server_unavailable";
    }
}

codes! {
    /// Codes of failed queries. A query of a tool fails with the code of its call.
    failure_code {
        QUERY_TIMEOUT = "query_timeout";
        TOKEN_LIMIT = "token_limit";
        HOLD_EXPIRED = "hold_expired";
        TOOL_CALL_LIMIT = "tool_call_limit";
        TOOL_LOOP = "tool_loop";
        OUTPUT_INVALID = "output_invalid";
        POISONED = "poisoned";
        JOURNAL_FULL = "journal_full";
        ENTRY_TOO_LARGE = "entry_too_large";
        INTERNAL_ERROR = "internal_error";
        MODEL_REFUSED = "model_refused";
        MODEL_UNAVAILABLE = "model_unavailable";
        MODEL_CIRCUIT_OPEN = "model_circuit_open";
        MODEL_INCOMPLETE = "model_incomplete";
        MODEL_OUTPUT_LIMIT = "model_output_limit";
        MODEL_MALFORMED = "model_malformed";
        MODEL_MISCONFIGURED = "model_misconfigured";
        /// The secret may not be sent where the model would send it.
        SECRET_NOT_ALLOWED = "secret_not_allowed";
        /// The model is at an address that its manifest may not reach.
        ADDRESS_NOT_ALLOWED = "address_not_allowed";
    }
}
