//! Reads a script from YAML.
//!
//! ```yaml
//! scenes:
//!   - when: "25% of"                  # the input contains it; or `when: {exactly: "…"}`
//!     turns:
//!       - say: Let me see.
//!         call:
//!           - tool: calculator
//!             arguments: {expression: "0.25 * 8432"}
//!       - delay: 50ms
//!         words: 20ms                 # word by word, with this pause; `true` for none
//!         say: "That is {{ result.calculator }}."
//!         wire: {fail: {status: 429, retryAfter: 1s}, times: 1}   # for `bosun models serve`
//! otherwise:
//!   - fail: {status: 400, message: "I only know one thing"}
//! ```

use std::{path::Path, time::Duration};

use bosun_core::query::Usage;
use bosun_reading::{Data, Fault, Faults, Fields, Node, Report, Syntax, yaml};

use super::{
    script::{Script, ScriptAct, ScriptScene, ScriptTurn, ScriptWhen, ScriptedAnswer, WireFailure, WireFaults},
    template::ScriptTemplate,
};

pub(super) fn script(file: &Path, text: &str) -> Result<Script, Faults> {
    let mut documents = yaml::parse(file, text)?;
    if documents.len() != 1 {
        let message = format!("a script is one document, and this file has {}", documents.len());
        let fault = Fault::of_file(file, "bad_script", message).hint("write `scenes:` with a list of scenes");
        return Err(Faults::from(Fault { place: documents.get(1).map(|document| document.place), ..fault }));
    }
    let document = documents.remove(0);
    let report = Report::of_file(file, Syntax::Yaml);
    let script = report.fields(&document, "the script").map(|fields| read_script(&fields)).unwrap_or_default();
    Faults::none_or(report.into_faults(), script)
}

fn read_script(fields: &Fields<'_>) -> Script {
    let scenes = fields.entries("scenes").iter().filter_map(read_scene).collect();
    let otherwise = turns(fields, "otherwise");
    if fields.get("scenes").is_none() && fields.get("otherwise").is_none() {
        fields.fault(fields.place(), "bad_script", "the script has no scenes", "write `scenes:` with a list of scenes");
    }
    fields.finish();
    Script { scenes, otherwise }
}

fn read_scene(fields: &Fields<'_>) -> Option<ScriptScene> {
    let when = fields.require("when", "the text that the input contains, or `{exactly: …}`").and_then(|node| {
        if let Data::Text(text) = &node.data {
            return Some(ScriptWhen::Contains(text.clone()));
        }
        let when = fields.inner(node, "when")?;
        let exactly = when.required_text("exactly", "or write the text itself, if the input need only contain it");
        when.finish();
        exactly.map(|text| ScriptWhen::Exactly(text.value.to_owned()))
    });
    if fields.require("turns", "a list of what the model answers").is_some_and(is_empty_list) {
        fields.fault(
            fields.place(),
            "bad_script",
            "a scene has no turn",
            "give it at least one `say`, `call` or `fail`",
        );
    }
    let turns = turns(fields, "turns");
    fields.finish();
    Some(ScriptScene { when: when?, turns })
}

fn is_empty_list(node: &Node) -> bool {
    matches!(&node.data, Data::List(items) if items.is_empty())
}

fn turns(fields: &Fields<'_>, name: &'static str) -> Vec<ScriptTurn> {
    fields.entries(name).iter().filter_map(read_turn).collect()
}

fn read_turn(fields: &Fields<'_>) -> Option<ScriptTurn> {
    let delay = fields.duration("delay").unwrap_or_default();
    let speech = ScriptedAnswer {
        think: fields.text("think").map(|text| text.value.to_owned()),
        say: fields.text("say").and_then(|text| match ScriptTemplate::parse(text.value) {
            Ok(template) => Some(template),
            Err(problem) => {
                fields.fault(text.place, "bad_script", problem, "");
                None
            }
        }),
        calls: fields.entries("call").iter().filter_map(read_call).collect(),
        words: fields.get("words").and_then(|node| read_words(fields, node)),
        usage: fields.fields("usage").map(|fields| read_usage(&fields)).unwrap_or_default(),
    };
    let faults = fields.fields("wire").map(|fields| Box::new(read_faults(&fields)));
    let fail = fields.fields("fail").map(|fields| read_failure(&fields));
    let speaks = fields.get("say").is_some() || fields.get("call").is_some_and(|node| !is_empty_list(node));
    let act = match fail {
        Some(_) if speaks => {
            let hint = "make two turns of them, or leave one out";
            fields.fault(fields.place(), "bad_script", "a turn that fails cannot also `say` or `call`", hint);
            None
        }
        Some(act) => Some(act),
        None if !speaks => {
            fields.fault(fields.place(), "bad_script", "a turn does nothing", "give it a `say`, a `call` or a `fail`");
            None
        }
        None => Some(ScriptAct::Speak(Box::new(speech))),
    };
    fields.finish();
    Some(ScriptTurn { act: act?, delay, faults })
}

fn read_call(fields: &Fields<'_>) -> Option<(String, Box<str>)> {
    let tool = fields.required_text("tool", "the name of the tool to ask for");
    // Any arguments are allowed, also invalid ones: a script may play a confused model.
    let arguments = fields.get("arguments").map_or_else(
        || "{}".to_owned(),
        |node| match &node.data {
            Data::Text(text) => text.clone(),
            _ => node.to_json().to_string(),
        },
    );
    fields.finish();
    Some((tool?.value.to_owned(), arguments.into()))
}

fn read_words(fields: &Fields<'_>, node: &Node) -> Option<Duration> {
    match node.data {
        Data::Bool(by_words) => by_words.then_some(Duration::ZERO),
        _ => fields.duration_of(node, "words"),
    }
}

fn read_usage(fields: &Fields<'_>) -> Usage {
    let usage = Usage {
        prompt_tokens: fields.whole_number("promptTokens").unwrap_or_default(),
        completion_tokens: fields.whole_number("completionTokens").unwrap_or_default(),
        cached_tokens: fields.whole_number("cachedTokens").unwrap_or_default(),
        cache_write_tokens: fields.whole_number("cacheWriteTokens").unwrap_or_default(),
    };
    fields.finish();
    usage
}

fn read_failure(fields: &Fields<'_>) -> ScriptAct {
    let (status, message) = read_error(fields);
    fields.finish();
    ScriptAct::Fail { status, message }
}

fn read_error(fields: &Fields<'_>) -> (u16, String) {
    let status = match fields.whole_number("status").map(u16::try_from) {
        Some(Ok(status @ 400..=599)) => status,
        Some(_) => {
            fields.fault(fields.place(), "bad_script", "`status` of a failure is 400 to 599", "");
            500
        }
        None => 500,
    };
    let message = fields.text("message").map_or("scripted failure", |text| text.value).to_owned();
    (status, message)
}

fn read_faults(fields: &Fields<'_>) -> WireFaults {
    let number = |name| fields.whole_number(name).map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    let faults = WireFaults {
        times: fields.whole_number("times").map(|times| u32::try_from(times).unwrap_or(u32::MAX)),
        fail: fields.fields("fail").map(|fields| {
            let (status, message) = read_error(&fields);
            let retry_after = fields.duration("retryAfter");
            fields.finish();
            WireFailure { status, message, retry_after }
        }),
        cut_at: number("cutAt"),
        silent_at: number("silentAt"),
        drip: fields.duration("drip"),
        garbage: number("garbage"),
        finish: fields.text("finish").map(|text| text.value.to_owned()),
        same_ids: fields.bool("sameIds").unwrap_or_default(),
        no_usage: fields.bool("noUsage").unwrap_or_default(),
    };
    fields.finish();
    faults
}
