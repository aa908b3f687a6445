//! Handlers of the audit log and of the usage counts.

use axum::{extract::State, http::HeaderMap, response::Response};

use crate::{
    AppState,
    ark::{
        answering::{audit, usage},
        params::{AuditFilter, PageLimit, Params, QueryFilter, UsageFilter},
    },
    auth::gate::RequestNamespace,
    http::{answer::Json, error::ApiError, warning::with_warnings},
};

pub(crate) type AuditParams = (QueryFilter, AuditFilter, PageLimit);

/// `GET …/audit`
pub(crate) async fn get_audit(
    State(app): State<AppState>,
    namespace: RequestNamespace,
    Params { given: (query, filter, limit), warnings }: Params<AuditParams>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let found = app.engine.audit(&namespace, &filter.search(&query, limit, app.engine.now())).await?;
    Ok(with_warnings(audit::answer(&namespace, found, &headers), &warnings))
}

/// `GET …/tools/usage`
pub(crate) async fn get_usage(
    State(app): State<AppState>,
    namespace: RequestNamespace,
    Params { given: filter, warnings }: Params<UsageFilter>,
) -> Result<Response, ApiError> {
    let since = filter.since(app.engine.now());
    let usage = app.engine.usage(&namespace, since).await?;
    Ok(with_warnings(Json(usage::report(&usage, since, filter.top())), &warnings))
}
