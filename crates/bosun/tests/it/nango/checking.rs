//! `bosun check --live`: tools of files against what is deployed.

use bosun_standin::nango::NangoStandIn;
use serde_json::{Value, json};

use super::{state, world};
use crate::{
    program::{bosun, run, stderr, stdout},
    support::server::World,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_live_compares_the_input_of_actions_and_the_fields_of_models() {
    let (world, nango) = world(state(), &[]).await;
    let check = async || {
        let mut command = bosun();
        command.args(["check", "--live", "--nango-url", &nango.url(), "--secrets"]).arg(world.path("secrets"));
        run(command.arg(world.path("tool-config.json"))).await
    };
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
    let same = check().await;
    assert!(same.status.success(), "{}{}", stdout(&same), stderr(&same));
    let changed = json!({"to": text, "subject": {"type": "array"}, "body": text, "copy": text, "html": text});
    schemas(
        json!({"type": "object", "properties": changed, "required": ["to", "html"]}),
        json!({"type": "object", "properties": {"sender": text, "subject": text, "sent": text}}),
    );
    let differs = check().await;
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
