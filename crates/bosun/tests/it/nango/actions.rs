//! `source: action`: what is sent, what a failure is called, and when an outcome is not known.

use bosun_standin::nango::NangoStandIn;
use serde_json::{Value, json};

use super::{action, approve, call, email, ended, outcome, state, world};
use crate::{
    resources::{api, send},
    support::{
        server::{ProcessExit, Server, Started},
        until,
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_gets_its_input_unwrapped_once_and_validated_here() {
    let (world, nango) = world(state(), &[]).await;
    let server = world.start().await;
    let sent = call(&server, "send_email", email()).await.unwrap();
    assert_eq!(sent, json!({"id": "msg-1", "threadId": "thread-9"}));
    let [run] = &nango.runs()[..] else { panic!("{:?}", nango.runs()) };
    assert_eq!((run.action.as_str(), run.connection.as_str(), &run.input), ("send-email", "my-connection", &email()));
    let (code, _) = call(&server, "send_email", json!({"to": "ada@example.com"})).await.unwrap_err();
    assert_eq!(code, "invalid_tool_arguments");
    assert_eq!(nango.runs().len(), 1, "nothing was sent for arguments that are not valid");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_of_actions_have_their_own_codes() {
    let (world, nango) = world(state(), &[]).await;
    let server = world.start().await;
    let upstream = |status: u16| json!({"code": "script_http_error", "payload": null, "upstream": {"status": status, "headers": {}, "body": {"why": "quota"}}});
    let cases = [
        (
            Some((500, json!({"code": "action_script_runtime_error", "payload": {"message": "no such label"}}))),
            "action_failed",
        ),
        (Some((424, upstream(401))), "provider_auth_expired"),
        (Some((424, upstream(503))), "upstream_error"),
        (Some((424, upstream(429))), "rate_limited"),
        (Some((424, json!({"code": "script_api_rate_limit_error"}))), "rate_limited"),
    ];
    for (fails, expect) in cases {
        nango.change(|state| state.integrations[0].actions = vec![action("send-email", 0, fails)]);
        let before = nango.runs().len();
        let (code, message) = call(&server, "send_email", email()).await.unwrap_err();
        assert_eq!(code, expect, "{message}");
        assert_eq!(nango.runs().len(), before + 1, "{expect}: an action is never repeated");
    }
    nango.change(|state| state.integrations[0].actions = vec![action("send-mail", 0, None)]);
    let (code, message) = call(&server, "send_email", email()).await.unwrap_err();
    assert_eq!(code, "tool_misconfigured");
    assert!(message.contains("the action `send-email` is not deployed for `google-mail-ynxw`"), "{message}");
    // A 5xx of Nango itself after the request was sent.
    nango.change(|state| {
        state.integrations[0].actions = vec![action("send-email", 0, None)];
        (state.faults.fail_next, state.faults.fail_status) = (1, Some(502));
    });
    let (code, message) = call(&server, "send_email", email()).await.unwrap_err();
    assert_eq!(code, "outcome_unknown", "{message}");
}

/// Asks for a mail, and approves it; further fields of the query are in `more`.
async fn begin(server: &Server, name: &str, more: Value) {
    let input = json!({"input": email()}).to_string();
    let mut body = json!({"name": name, "input": input, "target": {"type": "tool", "name": "send_email"}});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let asked = api(server, "POST", "/v1/queries?wait=20s&view=rfc", Some(&body)).await;
    assert_eq!(asked.body["status"], "approval_required", "{}", asked.text);
    approve(server, name, &[]).await;
}

/// Waits for a poll after the first `requests`.
async fn polled(nango: &NangoStandIn, requests: usize) {
    let is_poll = |request: &String| request.starts_with("GET /action/");
    until("a poll", || nango.requests()[requests..].iter().any(is_poll)).await;
}

/// The handle of an action is durable before it is polled: a later process asks for its result, and it runs once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_that_takes_long_survives_kill_9() {
    let mut slow = state();
    slow.integrations[0].actions = vec![action("send-email", 3_000, None)];
    let (world, nango) = world(slow, &[]).await;
    let mut server = world.start().await;
    begin(&server, "slow", json!({})).await;
    polled(&nango, 0).await;
    server.kill().await;
    let server = world.start().await;
    let result = outcome(&ended(&server, "slow", &[]).await);
    assert_eq!(result, Ok(email()), "the action gives its input back");
    assert_eq!(nango.runs().len(), 1, "{:?}", nango.runs());
}

/// Between the answer of Nango and the entry of the journal: whether the action ran is not known, and it is not repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_before_the_handle_is_durable_leaves_an_unknown_outcome_and_one_run() {
    let (world, nango) = world(state(), &[]).await;
    let Started::Ready(mut server) = world.spawn(Some("call.pending")).ready().await else {
        panic!("the server starts")
    };
    let input = json!({"input": email()}).to_string();
    let body = json!({"name": "once", "input": input, "target": {"type": "tool", "name": "send_email"}});
    let asked = api(&server, "POST", "/v1/queries?wait=20s&view=rfc", Some(&body)).await;
    assert_eq!(asked.body["status"], "approval_required", "{}", asked.text);
    // The process dies before or after it has answered.
    let decision = json!({"decision": "approved"});
    let _ = send(&server, "POST", "/v1/queries/once/approval?wait=0", Some(&decision), &[]).await;
    assert_eq!(server.exit().await, ProcessExit::AtFaultPoint);
    let server = world.start().await;
    let answer = ended(&server, "once", &[]).await;
    let (code, _) = outcome(&answer).unwrap_err();
    assert_eq!(code, "outcome_unknown", "{}", answer.text);
    assert_eq!(nango.runs().len(), 1);
}

/// What was sent and has no answer in time may have taken effect, wherever the call is when its time is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_that_may_have_run_is_never_reported_as_one_that_has_not() {
    let mut endless = state();
    endless.integrations[0].actions = vec![action("send-email", 600_000, None)];
    let (world, nango) = world(endless, &["--tool-timeout", "3s"]).await;
    let server = world.start().await;
    let result = async |name: &str| outcome(&ended(&server, name, &[]).await).unwrap_err();
    let is_unknown = |message: &str| message.contains("whether it took effect is not known");

    // Its deadline passes while it is polled.
    begin(&server, "expires", json!({"externalTimeout": "2s"})).await;
    let (code, message) = result("expires").await;
    assert_eq!((code.as_str(), is_unknown(&message)), ("call_expired", true), "{message}");

    // Nango refuses the polls: its key was changed after the action had been triggered.
    let before = nango.requests().len();
    begin(&server, "refused", json!({})).await;
    polled(&nango, before).await;
    nango.change(|state| state.key = "11111111-2222-4333-8444-555555555555".into());
    let (code, message) = result("refused").await;
    assert_eq!((code.as_str(), is_unknown(&message)), ("outcome_unknown", true), "{message}");
    assert!(message.contains("check the secret `nango`"), "{message}");
    nango.change(|environment| environment.key = state().key);

    // The trigger is not answered within the timeout of the tool.
    nango.change(|state| state.faults.latency_ms = 600_000);
    begin(&server, "silent", json!({})).await;
    let (code, message) = result("silent").await;
    assert_eq!((code.as_str(), is_unknown(&message)), ("outcome_unknown", true), "{message}");
    assert_eq!(nango.runs().len(), 3, "each of them has run");
}

/// A poll that is not answered says nothing of the action: it is repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_outlives_a_poll_without_an_answer() {
    let mut slow = state();
    slow.integrations[0].actions = vec![action("send-email", 5_000, None)];
    let (world, nango) = world(slow, &["--tool-timeout", "2s"]).await;
    let server = world.start().await;
    begin(&server, "slow", json!({})).await;
    polled(&nango, 0).await;
    nango.change(|state| state.faults.latency_ms = 600_000);
    polled(&nango, nango.requests().len()).await;
    nango.change(|state| state.faults.latency_ms = 0);
    assert_eq!(outcome(&ended(&server, "slow", &[]).await), Ok(email()));
    assert_eq!(nango.runs().len(), 1);
}
