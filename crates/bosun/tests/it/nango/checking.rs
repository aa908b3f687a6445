//! `bosun check --live`: tools of files against what is deployed.

use std::process::Output;

use bosun_standin::nango::{NangoStandIn, NangoState};
use serde_json::{Value, json};

use super::{state, world};
use crate::{
    program::{bosun, run, stderr, stdout},
    support::server::World,
};

/// A change of what is deployed.
type Change = fn(&mut NangoState);

async fn check(world: &World, nango: &NangoStandIn) -> Output {
    let mut command = bosun();
    command.args(["check", "--live", "--nango-url", &nango.url(), "--secrets"]).arg(world.path("secrets"));
    run(command.arg(world.path("tool-config.json"))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_live_finds_what_is_not_deployed_and_a_key_that_nango_refuses() {
    let (world, nango) = world(state(), &[]).await;
    let same = check(&world, &nango).await;
    assert!(same.status.success(), "{}{}", stdout(&same), stderr(&same));
    let changes: [(Change, &str, &str); 4] = [
        (
            |state| state.integrations[0].unique_key = "google-mail-ynxv".into(),
            "provider_not_deployed",
            "Nango has no integration `google-mail-ynxw`; did you mean `google-mail-ynxv`?",
        ),
        (
            |state| state.integrations[0].actions[0].name = "send-mail".into(),
            "action_not_deployed",
            "`google-mail-ynxw` has no action `send-email` at Nango; did you mean `send-mail`?",
        ),
        (
            |state| state.integrations[0].syncs[0].models = vec!["GmailThreads".into()],
            "model_not_synced",
            "no sync of `google-mail-ynxw` writes `GmailThread` at Nango; did you mean `GmailThreads`?",
        ),
        (
            |state| state.key = "11111111-2222-4333-8444-555555555555".into(),
            "the tools cannot be compared with Nango",
            "check the secret `nango`",
        ),
    ];
    for (change, code, message) in changes {
        nango.change(change);
        let differs = check(&world, &nango).await;
        let printed = stdout(&differs) + &stderr(&differs);
        assert_eq!(differs.status.code(), Some(1), "{code}: {printed}");
        assert!(printed.contains(code) && printed.contains(message), "{code}: {printed}");
        nango.change(|environment| *environment = state());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_live_compares_the_input_of_actions_and_the_fields_of_models() {
    let (world, nango) = world(state(), &[]).await;
    let schemas = |input: Value, model: Value| {
        nango.change(|state| {
            state.integrations[0].actions[0].input_schema = Some(input);
            state.integrations[0].syncs[0].schemas = [("GmailThread".to_owned(), model)].into();
        });
    };
    let text = json!({"type": "string"});
    let message = json!({"to": text, "subject": text, "body": text, "cc": text});
    let thread = json!({"sender": text, "subject": text, "dateRange": {}, "hasAttachment": {"type": "boolean"}});
    schemas(
        json!({"type": "object", "properties": message, "required": ["to", "subject", "body"]}),
        json!({"type": "object", "properties": thread}),
    );
    let same = check(&world, &nango).await;
    assert!(same.status.success(), "{}{}", stdout(&same), stderr(&same));
    let changed = json!({"to": text, "subject": {"type": "array"}, "body": text, "copy": text, "html": text});
    schemas(
        json!({"type": "object", "properties": changed, "required": ["to", "html"]}),
        json!({"type": "object", "properties": {"sender": text, "subject": text, "sent": text}}),
    );
    let differs = check(&world, &nango).await;
    assert_eq!(differs.status.code(), Some(1), "{}", stdout(&differs));
    let printed = stdout(&differs) + &stderr(&differs);
    for expected in [
        "requires `html`, which the tool does not have",
        "`subject` is `string` in the tool and `array` in the action `send-email`",
        "takes no `cc`",
        "the model `GmailThread` has no field `dateRange` to filter by",
        "the model `GmailThread` has no field `hasAttachment` to filter by",
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
}
