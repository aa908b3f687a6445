use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::{
    Namespace, QueryLimits, Spec,
    machine::{self, AskedByModel, CallDisposition, Delivery, ModelTurnReply},
    query::EdgeNote,
};

#[track_caller]
fn check(arguments: Value, expect: Value) {
    let arguments = Arc::new(arguments);
    let shown = redact(&arguments, SHOWN_BYTES);
    assert_eq!(*shown, expect);
    assert_eq!(Arc::ptr_eq(&shown, &arguments), *arguments == expect, "a value without secrets is not copied");
}

#[test]
fn keys_in_messages_are_redacted_also_where_they_are_partly_masked() {
    for (text, expect) in [
        (
            "Incorrect API key provided: sk-abcde***************WXYZ. You can find it",
            "Incorrect API key provided: [redacted]. You can find it",
        ),
        ("key sk-...WXYZ is wrong", "key [redacted] is wrong"),
        ("the key `****WXYZ` was disabled", "the key `[redacted]` was disabled"),
        ("key AIza…WXYZ", "key [redacted]"),
        ("(••••WXYZ)", "([redacted])"),
        ("key=xxxxxxxxWXYZ&a=1", "key=[redacted]&a=1"),
        ("key sk-proj-abcdefgh0123456789!", "key [redacted]!"),
        ("your key ghp_0123456789abcdef", "your key [redacted]"),
    ] {
        assert_eq!(redact_keys(text), expect, "{text}");
    }
    for harmless in [
        "",
        "You exceeded your current quota, please check your plan... and billing details.",
        "model `gpt-4o-mini` does not exist",
        "max_tokens: 5000 > 4096, **which** is the limit",
        "Wait...",
        "messages.0.content.1: expected text",
        "see https://platform.openai.com/docs/guides/error-codes/api-errors.",
        "request req_011CSHoEeqs5C35K2UUqR7Fy",
        "überlastet – später … versuchen",
    ] {
        assert_eq!(redact_keys(harmless), harmless);
    }
}

#[test]
fn a_value_with_the_name_of_a_secret_is_redacted() {
    for name in [
        "password",
        "Password",
        "user_password",
        "db-passwd",
        "apiKey",
        "api_key",
        "API-KEY",
        "x-api-key",
        "token",
        "accessToken",
        "refresh_token",
        "Authorization",
        "client_secret",
        "clientSecret",
        "privateKey",
        "cookie",
        "Set-Cookie",
        "credentials",
        "auth",
        "pin",
        "cvv",
        "ssn",
        "sessionId",
        "aws_secret_access_key",
        "signature",
    ] {
        check(json!({name: "hunter2"}), json!({name: REDACTED}));
        check(json!({"deep": [{name: {"even": ["nested"]}}]}), json!({"deep": [{name: REDACTED}]}));
        check(json!({name: 4711}), json!({name: REDACTED}));
        // Null is not a secret.
        check(json!({name: null}), json!({name: null}));
    }
}

#[test]
fn harmless_names_and_values_stay() {
    for arguments in [
        json!({"expression": "0.25 * 8432"}),
        json!({"max_tokens": 100, "tokenCount": 7, "author": "Ann", "authority": "x", "spin": 1, "secretary": "Bob"}),
        json!({"path": "/usr/local/share/documentation/of/everything/index.html"}),
        json!({"url": "https://example.com/a/b?page=2&sort=asc"}),
        json!({"id": "018f2b6a-7c3d-7e1f-9a2b-3c4d5e6f7a8b"}),
        json!({"text": "The quick brown fox jumps over the lazy dog, 12 times."}),
        json!({"skill": "sk-1", "word": "asiatic", "region": "asia-northeast1", "note": "basically fine", "colon": "note: done"}),
        json!({"unicode": "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft2"}),
        json!([1, 2.5, true, null, "x"]),
        json!("a text"),
        json!(null),
    ] {
        check(arguments.clone(), arguments);
    }
}

#[test]
fn values_that_look_like_keys_are_redacted_everywhere() {
    for secret in [
        "sk-proj-Abc123def456",
        "sk_live_51H8xyzABCDEF",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "github_pat_11ABCDEFG0abcdefghij",
        "glpat-abcdefghij1234567890",
        "xoxb-123456789012-abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
        "0123456789abcdef0123456789abcdef",
        "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY1",
        "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkw==",
    ] {
        check(json!({"note": secret}), json!({"note": REDACTED}));
        check(json!(format!("use {secret}, please")), json!(format!("use {REDACTED}, please")));
        check(json!({secret: 1}), json!({REDACTED: 1}));
    }
}

#[test]
fn secrets_in_the_middle_of_a_text_are_redacted() {
    for (text, expect) in [
        ("curl -H 'Authorization: Bearer abc'", "curl -H 'Authorization: [redacted] [redacted]'"),
        ("Bearer abc.def", "Bearer [redacted]"),
        ("basic dXNlcjpwYXNz", "basic [redacted]"),
        ("password=hunter2 and more", "password=[redacted] and more"),
        ("https://example.com/x?api_key=abc&page=2", "https://example.com/x?api_key=[redacted]&page=2"),
        ("postgres://ann:hunter2@db.example.com/x", "postgres://ann:[redacted]@db.example.com/x"),
        ("{\"token\": \"abc\"}", "{\"token\": \"[redacted]\"}"),
        ("{\\\"token\\\":\\\"abc\\\"}", "{\\\"token\\\":\\\"[redacted]\\\"}"),
        ("export API_TOKEN='abc'", "export API_TOKEN='[redacted]'"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "[redacted]"),
        ("ein Schlüssel: täglich", "ein Schlüssel: täglich"),
    ] {
        check(json!(text), json!(expect));
    }
}

#[test]
fn copies_are_bounded() {
    let long = "wörd ".repeat(400);
    let Value::String(cut) = &*redact(&Arc::new(json!(long)), SHOWN_BYTES) else { unreachable!("a text stays a text") };
    assert!(cut.len() < 560 && cut.ends_with(&format!("… [{} bytes]", long.len())), "{cut}");
    let many: Vec<_> = (0..3_000).collect();
    let size = json!(many).to_string().len();
    check(json!(many), json!(format!("[{size} bytes]")));
}

fn by() -> Actor {
    Actor::of_key("ci").unwrap().acting_for("alice").unwrap()
}

fn query(ways: Vec<CallDisposition>) -> (Head, Transcript, Vec<Entry>) {
    let spec = Spec {
        target: "helper".into(),
        target_kind: Default::default(),
        selector: None,
        model: "default".into(),
        prompt: None,
        input: "secret question".into(),
        template: None,
        messages: Vec::new(),
        parameters: Default::default(),
        options: Default::default(),
        output_schema: None,
        conversation: None,
        toolset: ContentHash::of(b""),
        limits: QueryLimits::default(),
        edge_note: EdgeNote::new("note"),
        session_id: None,
        labels: Default::default(),
        annotations: Default::default(),
        warnings: Vec::new(),
        request: None,
        on_expired: Default::default(),
        trace: None,
        lineage: None,
        team: None,
    };
    let created = Entry { seq: 1, at: Timestamp(1_000), event: Event::Created { spec: Arc::new(spec), by: by() } };
    let uid = QueryUid::new(1, [1; 10]);
    let mut head = Head::new(uid, Namespace::default(), "q".parse().unwrap(), &created).unwrap();
    let mut transcript = Transcript::new(&created).unwrap();
    let mut entries = vec![created];
    let started = machine::advance(&head);
    push(&mut head, &mut transcript, &mut entries, 1_100, started);
    let calls = ways
        .into_iter()
        .map(|way| AskedByModel {
            provider_id: "p".into(),
            tool: "lookup".into(),
            alias: "lookup".into(),
            arguments: json!({"query": "x", "password": "hunter2"}).into(),
            written: None,
            dropped: Vec::new(),
            deprecated: None,
            on_expired: None,
            way,
        })
        .collect();
    let reply = ModelTurnReply { text: Some("secret thought".into()), calls, ..ModelTurnReply::default() };
    let ended = machine::end_turn(&head, Timestamp(1_200), reply);
    push(&mut head, &mut transcript, &mut entries, 1_200, ended);
    (head, transcript, entries)
}

fn push(head: &mut Head, transcript: &mut Transcript, entries: &mut Vec<Entry>, at: i64, events: Vec<Event>) {
    for event in events {
        let entry = Entry { seq: head.seq + 1, at: Timestamp(at), event };
        head.apply(&entry).unwrap();
        transcript.apply(&entry);
        entries.push(entry);
    }
}

fn actions(records: &[AuditRecord]) -> Vec<Value> {
    records.iter().map(|record| serde_json::to_value(record.action).unwrap()).collect()
}

#[test]
fn the_lifetime_of_a_query_becomes_its_records() {
    let outside = CallDisposition::Outside { timeout: std::time::Duration::from_secs(60) };
    let (mut head, mut transcript, mut entries) = query(vec![outside]);
    let call = head.calls[0].id;
    let outcome = Outcome::success("secret result");
    let delivery = Delivery { target: DeliveryTarget::Call(call), outcome, took: None };
    let delivered = machine::deliver(&head, Timestamp(3_200), vec![delivery], false, &by());
    push(&mut head, &mut transcript, &mut entries, 3_200, delivered.events);
    let started = machine::advance(&head);
    push(&mut head, &mut transcript, &mut entries, 3_300, started);
    let reply = ModelTurnReply { text: Some("secret answer".into()), ..ModelTurnReply::default() };
    let ended = machine::end_turn(&head, Timestamp(3_400), reply);
    push(&mut head, &mut transcript, &mut entries, 3_400, ended);
    let records = of_entries(&head, &transcript, entries.iter(), ArgumentsInAudit::Redacted);
    assert_eq!(actions(&records), ["query.created", "call.handed_out", "call.delivered", "query.completed"]);
    assert_eq!(
        records.iter().map(|record| record.actor.as_deref()).collect::<Vec<_>>(),
        [Some("ci/alice"), Some("ci/alice"), Some("ci/alice"), None]
    );
    let handed_out = &records[1];
    assert_eq!(handed_out.arguments.as_deref(), Some(&json!({"query": "x", "password": REDACTED})));
    assert_eq!(handed_out.arguments_hash, Some(head.calls[0].arguments));
    assert_eq!((handed_out.tool.as_deref(), handed_out.source), (Some("lookup"), Some(CallSource::Outside)));
    assert_eq!((records[2].outcome.as_deref(), records[2].duration_ms), (Some(SUCCESS), Some(2_000)));
    assert_eq!(records[3].calls, Some(Calls { outside: 1, tools: 1, ..Calls::default() }));
    assert_eq!(records[3].duration_ms, Some(2_400));
    for record in &records {
        let text = serde_json::to_string(record).unwrap();
        assert!(!text.contains("secret") && !text.contains("hunter2"), "{text}");
        assert_eq!(serde_json::from_str::<AuditRecord>(&text).unwrap(), *record, "a record is read back as it was");
    }
}

#[test]
fn arguments_are_recorded_as_configured() {
    let (head, transcript, entries) = query(vec![CallDisposition::Inside { repeatable: true }]);
    for (wanted, expect) in [
        (ArgumentsInAudit::Hash, None),
        (ArgumentsInAudit::Redacted, Some(json!({"query": "x", "password": REDACTED}))),
        (ArgumentsInAudit::Full, Some(json!({"query": "x", "password": "hunter2"}))),
    ] {
        let records = of_entries(&head, &transcript, entries.iter(), wanted);
        assert_eq!(records[1].arguments.as_deref(), expect.as_ref(), "{wanted:?}");
        assert!(records[1].arguments_hash.is_some());
    }
}

#[test]
fn inside_and_refused_calls_have_records() {
    let refused = CallDisposition::Refused { code: "unknown_tool".into(), message: "secret".into(), details: None };
    let (mut head, mut transcript, mut entries) = query(vec![CallDisposition::Inside { repeatable: true }, refused]);
    let call = head.calls[0].id;
    let started = machine::start_call(&head, call);
    push(&mut head, &mut transcript, &mut entries, 1_300, started);
    let finished = machine::finish_call(&head, call, Outcome::failure("boom", "secret"));
    push(&mut head, &mut transcript, &mut entries, 1_350, finished);
    let cancelled = machine::cancel(&head, Some("secret".into()), &by());
    push(&mut head, &mut transcript, &mut entries, 1_400, cancelled);
    let records = of_entries(&head, &transcript, entries.iter(), ArgumentsInAudit::Redacted);
    assert_eq!(
        actions(&records),
        ["query.created", "call.asked", "call.refused", "call.started", "call.finished", "query.cancelled"]
    );
    assert!(records.iter().all(|record| record.actor.as_deref() == Some("ci/alice")), "whose calls they are");
    assert_eq!(records[2].outcome.as_deref(), Some("unknown_tool"));
    assert_eq!((records[4].outcome.as_deref(), records[4].duration_ms), (Some("boom"), Some(50)));
    assert_eq!(records[5].calls, Some(Calls { inside: 1, refused: 1, tools: 1, ..Calls::default() }));
    assert!(!serde_json::to_string(&records).unwrap().contains("secret"));
}

#[test]
fn a_change_records_the_fields_and_the_caller_and_no_values() {
    let (mut head, mut transcript, mut entries) = query(Vec::new());
    let changed = crate::event::Changed {
        limits: crate::query::AskedLimits { ttl: Some(std::time::Duration::from_secs(1)), ..Default::default() },
        labels: Some(Arc::new([("secret".to_owned(), "secret".to_owned())].into())),
        by: by(),
        ..Default::default()
    };
    push(&mut head, &mut transcript, &mut entries, 9_000, machine::change(changed));
    let records = of_entries(&head, &transcript, entries.iter(), ArgumentsInAudit::Full);
    assert_eq!(actions(&records), ["query.created", "query.completed", "query.changed"]);
    let record = &records[2];
    assert_eq!((record.actor.as_deref(), record.detail.as_deref()), (Some("ci/alice"), Some("ttl labels")));
    assert!(!serde_json::to_string(record).unwrap().contains("secret"));
}

#[test]
fn a_rejected_result_is_recorded_by_its_hash() {
    let outside = CallDisposition::Outside { timeout: std::time::Duration::from_secs(60) };
    let (head, ..) = query(vec![outside]);
    let (call, outcome) = (head.calls[0].id, Outcome::success("late secret"));
    let of = |target: DeliveryTarget, verdict| {
        AuditRecord::of_refusal(&head, Timestamp(9), &by(), &target, &outcome, verdict)
    };
    let late = of(DeliveryTarget::Call(call), DeliveryVerdict::Expired(call)).unwrap();
    assert_eq!((late.outcome.as_deref(), late.tool.as_deref()), (Some("call_expired"), Some("lookup")));
    assert_eq!((late.actor.as_deref(), late.outcome_hash), (Some("ci/alice"), Some(outcome.content_hash())));
    let unknown = of(DeliveryTarget::Tool("missing_tool".into()), DeliveryVerdict::NotWaiting).unwrap();
    assert_eq!((unknown.outcome.as_deref(), unknown.tool.as_deref()), (Some("call_not_waiting"), Some("missing_tool")));
    for counts in [DeliveryVerdict::Accepted(call), DeliveryVerdict::Replayed(call)] {
        assert!(of(DeliveryTarget::Call(call), counts).is_none());
    }
}

#[test]
fn keys_in_urls_are_masked() {
    for (url, shown) in [
        ("https://h/v1", "https://h/v1"),
        ("https://h:8080/v1/a.b?api-version=2024-10-21", "https://h:8080/v1/a.b?api-version=2024-10-21"),
        ("https://user:pw@h/v1", "https://[x]@h/v1"),
        ("https://token@h", "https://[x]@h"),
        ("https://a@b@h/p", "https://[x]@h/p"),
        ("https://h?api-key=k&page=2&sig=s", "https://h?api-key=[x]&page=2&sig=[x]"),
        ("https://h/?t=k", "https://h/?t=[x]"),
        ("https://h/?barekey", "https://h/?[x]"),
        ("https://h/?page=sk-0123456789abcdef", "https://h/?page=[x]"),
        ("https://h/?api%2Dkey=k", "https://h/?api%2Dkey=[x]"),
        ("https://h/p#access_token=k", "https://h/p#[x]"),
        ("https://h/weather?city={{.city}}&key={{.secret}}x", "https://h/weather?city={{.city}}&key=[x]"),
        ("https://h/bot/0123456789abcdef0123456789abcdef/send", "https://h/bot/[x]/send"),
        ("postgres://u:p@db/x?sslmode=require", "postgres://[x]@db/x?sslmode=[x]"),
        ("see https://u:p@h and `https://h?k=v`, or not", "see https://[x]@h and `https://h?k=[x]`, or not"),
        ("https://h?key=Token k with \"quotes\"", "https://h?key=[x]"),
        ("https://h?key=BEGIN\nk\nEND", "https://h?key=[x]"),
        ("no url", "no url"),
        ("://", "://"),
        ("https://", "https://"),
        ("https://h/?&a=b&", "https://h/?&a=[x]&"),
    ] {
        assert_eq!(hide_in_urls(url, "[x]"), shown);
        assert_eq!(hide_in_urls(shown, "[x]"), shown, "masking is idempotent");
    }
    for (text, begins) in [
        ("https://h?a=b", true),
        ("git+ssh://h", true),
        ("https://h?key=with a space", true),
        ("see https://h", false),
        ("://h", false),
        ("h", false),
    ] {
        assert_eq!(begins_with_url(text), begins, "{text}");
    }
}
