//! Parts of ARK's API that are not served, each by name and with what to use instead.
//!
//! A client that calls one of them learns that it is known and missing, and not that it has mistyped
//! something. `docs/ark.md` shows this table.

use axum::http::Uri;

use crate::http::error::{ApiError, Code, clip};

/// The first parts of a path below `/v1` or `/v1/namespaces/{namespace}`, and what to do instead.
pub(crate) const NOT_SERVED: &[(&str, &str)] = &[
    ("a2a-tasks", "tool calls that wait are in the `toolCalls` of their query; post results to `…/tool-result`"),
    ("tool-approvals", "list open approvals with `GET …/approvals`; decide with `POST …/queries/{name}/approval`"),
    ("broker", "follow a query with `GET …/queries/{name}/events`, which can be resumed"),
    ("secrets", "secrets are files or variables of the server, and not part of the API; see docs/operations.md"),
    ("api-keys", "keys are made on the server, with `bosun keys`"),
    ("arkconfig", "settings are in the server's config file; `GET /v1/capabilities` shows the limits"),
    ("configurations", "settings are in the server's config file; `GET /v1/capabilities` shows the limits"),
    ("ark-services", "there are no services other than this server"),
    ("export", "read resources with `GET /v1/resources/…` and `Accept: application/yaml`"),
    ("marketplace", "there is no marketplace"),
    ("marketplace-items", "there is no marketplace"),
    ("marketplace-sources", "there is no marketplace"),
    ("proxy", "nothing is proxied"),
    ("files", "large results are at `…/queries/{name}/tool-calls/{id}/result`"),
    ("execution-engines", "agents run in this server"),
    ("workflows", "workflows belong to the client that calls this server"),
    ("mcp", "tools of MCP servers are called by queries, and their browser flow of OAuth is not served"),
];

/// Paths outside of `/v1`.
const ELSEWHERE: &[(&str, &str)] = &[
    ("/apis/", "there is no Kubernetes here; change agents with `PUT /v1/agents/{name}`, or per query"),
    ("/api/", "there is no Kubernetes here; resources are at `/v1`"),
    ("/openai/", "ask with `POST /v1/queries`"),
];

/// The refusal of a request that matches no route.
pub(super) async fn no_route(uri: Uri) -> ApiError {
    let path = uri.path();
    match instead_of(path) {
        Some(instead) => ApiError::new(Code::NotImplemented, format!("{} is not served: {instead}", clip(path))),
        None => ApiError::new(Code::RouteNotFound, "there is no such route; docs/api.md lists them"),
    }
}

fn instead_of(path: &str) -> Option<&'static str> {
    if let Some((_, instead)) = ELSEWHERE.iter().find(|(prefix, _)| path.starts_with(prefix)) {
        return Some(instead);
    }
    let mut parts = path.strip_prefix("/v1/")?.split('/');
    let mut part = parts.next()?;
    if part == "namespaces" {
        parts.next()?;
        part = parts.next()?;
    }
    if part == "mcp-servers" && parts.nth(1) == Some("auth") {
        part = "mcp";
    }
    NOT_SERVED.iter().find(|(name, _)| *name == part).map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use bosun_core::{query::AskedLimits, tool::BindingKind};

    use super::*;

    #[test]
    fn what_ark_has_and_we_do_not_is_known_by_name() {
        for path in [
            "/v1/a2a-tasks/t",
            "/v1/namespaces/x/a2a-tasks/y",
            "/v1/broker/chunks",
            "/v1/mcp-servers/s/auth/start",
            "/v1/export/resources",
            "/apis/ark.mckinsey.com/v1alpha1/namespaces/default/agents/a",
            "/openai/v1/models",
        ] {
            assert!(instead_of(path).is_some(), "{path}");
        }
        for path in ["/", "/v1", "/v1/", "/v1/namespaces", "/v1/nothing", "/v1/agents/broker", "/broker", "/apis"] {
            assert!(instead_of(path).is_none(), "{path}");
        }
    }

    #[test]
    fn the_page_on_ark_names_all_of_them() {
        let page = include_str!("../../../../docs/ark.md");
        for (name, _) in NOT_SERVED {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn the_page_on_ark_names_every_type_of_a_tool_and_every_limit_of_an_agent() {
        let page = include_str!("../../../../docs/ark.md");
        let rows: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()).collect();
        for kind in BindingKind::of_manifests() {
            let row = rows.iter().find(|row| row.contains(&format!("`type: {kind}`")));
            assert!(row.is_some(), "{kind}");
        }
        let limits = rows.iter().find(|row| row.starts_with("annotations `bosun.dev/query-timeout`")).unwrap();
        for name in AskedLimits::OPTIONS {
            assert!(limits.replace("bosun.dev/", "").contains(&format!("`{name}`")), "{name}");
        }
    }
}
