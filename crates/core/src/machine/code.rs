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
        /// The API of an HTTP tool answered with an error status.
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
        /// `read_result` was called with an invalid handle.
        UNKNOWN_HANDLE = "unknown_handle";
        OUTCOME_UNKNOWN = "outcome_unknown";
        UNKNOWN_TOOL = "unknown_tool";
        INVALID_ARGUMENTS = "invalid_arguments";
        INVALID_SCHEMA = "invalid_schema";
        /// This version runs no tools of its kind.
        NO_RUNNER = "no_runner";
        /// A person rejected the call.
        APPROVAL_REJECTED = "approval_rejected";
        /// No person decided about the call in time.
        APPROVAL_EXPIRED = "approval_expired";
        /// Required parameters have no value; the message lists them.
        MISSING_PARAMETERS = "missing_parameters";
        /// There is no session with the MCP server of the tool, and none could be opened.
        MCP_SERVER_UNAVAILABLE = "mcp_server_unavailable";
        /// A filter that the agent applies to the result failed.
        FUNCTION_FAILED = "function_failed";
        /// The user has not connected the provider of the tool.
        PROVIDER_NOT_CONNECTED = "provider_not_connected";
        /// The user's login at the provider has expired.
        PROVIDER_AUTH_EXPIRED = "provider_auth_expired";
        /// A rate limit of the provider, or of what is between, was reached.
        RATE_LIMITED = "rate_limited";
        /// The API of the provider answered with a failure.
        UPSTREAM_ERROR = "upstream_error";
        /// The action ran and failed.
        ACTION_FAILED = "action_failed";
        /// The records of the tool have not been synced yet.
        SYNC_NOT_READY = "sync_not_ready";
        /// The agent or the team of the tool could not be asked.
        CHILD_REFUSED = "child_refused";
        /// The query of the agent or the team failed or was cancelled.
        CHILD_FAILED = "child_failed";
        /// Agents have called agents too many levels deep.
        DEPTH_LIMIT = "depth_limit";
    }
}

codes! {
    /// Codes of failed queries. A query of a tool fails with the code of its call.
    failure_code {
        QUERY_TIMEOUT = "query_timeout";
        TOKEN_LIMIT = "token_limit";
        /// A client did not deliver in time, and the query is not to continue without the result.
        CALL_EXPIRED = "call_expired";
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
        /// The selector of a team did not name one of its members.
        NO_SUCH_MEMBER = "no_such_member";
        /// A member of a team failed.
        MEMBER_FAILED = "member_failed";
    }
}

codes! {
    /// Codes of results and decisions that are not accepted, for the caller and for the audit log.
    refusal_code {
        /// The call has another result.
        ALREADY_RESOLVED = "already_resolved";
        CALL_EXPIRED = "call_expired";
        /// The query has ended.
        CALL_CANCELLED = "call_cancelled";
        CALL_NOT_FOUND = "call_not_found";
        /// Several calls of the tool wait.
        AMBIGUOUS_CALL = "ambiguous_call";
        CALL_NOT_WAITING = "call_not_waiting";
        /// The call is no longer the worker's.
        LEASE_LOST = "lease_lost";
        /// Another decision was made before.
        ALREADY_DECIDED = "already_decided";
        /// The person has seen other arguments than those of the call.
        ARGUMENTS_CHANGED = "arguments_changed";
        APPROVAL_EXPIRED = "approval_expired";
        /// The call does not wait for approval.
        APPROVAL_NOT_OPEN = "approval_not_open";
    }
}

codes! {
    /// Codes of requests that are not done and that no other table has. The edges give each of them its HTTP status.
    request_code {
        INVALID_JSON = "invalid_json";
        DUPLICATE_KEY = "duplicate_key";
        JSON_TOO_DEEP = "json_too_deep";
        INVALID_PARAMETER = "invalid_parameter";
        INVALID_EVENT_ID = "invalid_event_id";
        REQUEST_TIMEOUT = "request_timeout";
        PAYLOAD_TOO_LARGE = "payload_too_large";
        UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type";
        UNAUTHORIZED = "unauthorized";
        RIGHT_MISSING = "right_missing";
        NAMESPACE_FORBIDDEN = "namespace_forbidden";
        END_USER_FORBIDDEN = "end_user_forbidden";
        HOST_NOT_ALLOWED = "host_not_allowed";
        ORIGIN_NOT_ALLOWED = "origin_not_allowed";
        ROUTE_NOT_FOUND = "route_not_found";
        METHOD_NOT_ALLOWED = "method_not_allowed";
        NOT_IMPLEMENTED = "not_implemented";
        INVALID_REQUEST = "invalid_request";
        UNSUPPORTED_FIELD = "unsupported_field";
        FROZEN_FIELD = "frozen_field";
        UNSUPPORTED_TARGET = "unsupported_target";
        INVALID_TOOL_DEFINITIONS = "invalid_tool_definitions";
        INVALID_TOOL_RESULT = "invalid_tool_result";
        TOO_MANY_RESULTS = "too_many_results";
        INVALID_TOOL_ARGUMENTS = "invalid_tool_arguments";
        INVALID_DECISION = "invalid_decision";
        INVALID_OUTPUT_SCHEMA = "invalid_output_schema";
        INVALID_TEMPLATE = "invalid_template";
        INPUT_TOO_LARGE = "input_too_large";
        IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused";
        AGENT_NOT_FOUND = "agent_not_found";
        TEAM_NOT_FOUND = "team_not_found";
        MODEL_NOT_FOUND = "model_not_found";
        TOOLS_NOT_FOUND = "tools_not_found";
        INVALID_RESOURCE = "invalid_resource";
        INVALID_CONFIGURATION = "invalid_configuration";
        NAMESPACE_NOT_FOUND = "namespace_not_found";
        QUERY_NOT_FOUND = "query_not_found";
        MEMORY_NOT_FOUND = "memory_not_found";
        CONVERSATION_NOT_FOUND = "conversation_not_found";
        RESOURCE_NOT_FOUND = "resource_not_found";
        RESULT_NOT_FOUND = "result_not_found";
        RANGE_NOT_SATISFIABLE = "range_not_satisfiable";
        QUERY_EXISTS = "query_exists";
        RESOURCE_EXISTS = "resource_exists";
        MANAGED_BY_FILE = "managed_by_file";
        MANAGED_BY_SERVER = "managed_by_server";
        NOT_WITHHELD = "not_withheld";
        QUERY_CHANGED = "query_changed";
        QUERY_NOT_HELD = "query_not_held";
        QUERY_NOT_COMPLETED = "query_not_completed";
        CONVERSATION_BUSY = "conversation_busy";
        QUERY_DELETED = "query_deleted";
        TOO_MANY_UPLOADS = "too_many_uploads";
        MODEL_FAILED = "model_failed";
        QUERY_UNREADABLE = "query_unreadable";
        RESULT_LOST = "result_lost";
        STORE_UNAVAILABLE = "store_unavailable";
        OVERLOADED = "overloaded";
        SHUTTING_DOWN = "shutting_down";
    }
}
