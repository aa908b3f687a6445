//! A query whose target is a team: its members answer one after the other, each in a query of its own.
//!
//! The journal is that of any other query: a turn of a member is a call, and [`TeamPlan::next`] derives from the calls so
//! far which one is next. Only a selector asks a model, and its answer becomes the call. If a member fails, so does the
//! team: there is no model that could react to the failure.

use std::sync::Arc;

use bosun_core::{
    Content, Outcome, Transcript,
    machine::failure_code,
    result_rendering::ResultRenderer,
    team::{TeamPlan, TeamStep},
    template::Template,
    tool::toolset::Toolset,
    transcript::{Call, Message},
};

use crate::model::{ModelCall, ModelReply};

/// The prompt of a selector that has none of its own.
const SELECTOR_PROMPT: &str = "You choose who speaks next in a conversation.\n\nThe participants are:\n{{.Roles}}\n\nThe \
                               conversation so far:\n{{.History}}\n\nAnswer with the name of the participant who speaks \
                               next, and nothing else. The names are: {{.Participants}}";

/// How much of the input a member's call repeats: the query of the call has all of it.
const INPUT_REPEATED: usize = 4 * 1024;

/// How much of a conversation members read.
const EARLIER_BYTES: usize = 256 * 1024;

/// What a team does in its turn.
pub(crate) enum TeamTurn {
    Reply(ModelReply),
    /// A model chooses one of these members.
    Ask {
        choices: Vec<String>,
        messages: Vec<Message>,
    },
    Failed {
        code: String,
        message: String,
    },
}

/// The conversation before the query of a team, as text: what its members and its selector read before its input. Inputs
/// and answers only, the latest of them up to [`EARLIER_BYTES`]; empty if there is none.
#[derive(Debug, Default)]
pub(crate) struct EarlierText(String);

impl EarlierText {
    pub(crate) fn new(history: &[Message]) -> Self {
        let as_text = |message: &Message| match message {
            Message::User(text) => Some(format!("user: {text}\n\n")),
            Message::Assistant { text: Some(text), .. } if !text.is_empty() => Some(format!("answer: {text}\n\n")),
            Message::Assistant { .. } | Message::System(_) | Message::Tool { .. } => None,
        };
        let mut left = EARLIER_BYTES;
        let fits = |text: &String| {
            left = left.saturating_sub(text.len());
            left > 0
        };
        let mut latest: Vec<_> = history.iter().rev().filter_map(as_text).take_while(fits).collect();
        latest.reverse();
        Self(latest.concat())
    }

    /// The input of the team, after the conversation.
    fn before(&self, input: &str) -> String {
        match self.0.as_str() {
            "" => input.to_owned(),
            earlier => format!("The conversation so far:\n\n{earlier}Now the user says:\n\n{input}"),
        }
    }
}

/// The turn that is due.
pub(crate) fn turn(
    plan: &TeamPlan,
    transcript: &Transcript,
    earlier: &EarlierText,
    toolset: &Toolset,
    renderer: &ResultRenderer,
) -> TeamTurn {
    let spoken: Vec<&str> = transcript.calls().map(|call| &*call.asked.tool).collect();
    let last = transcript.calls().last();
    match last.and_then(|call| Some((call, &*call.result.as_ref()?.outcome))) {
        Some((call, Outcome::Failure { code, message, .. })) => {
            let message = format!("member `{}` failed ({code}): {message}", call.asked.tool);
            return TeamTurn::Failed { code: failure_code::MEMBER_FAILED.into(), message };
        }
        Some((call, Outcome::Success { .. })) if call.terminated => return reply(answer_of(call, Some(renderer))),
        _ => {}
    }
    match plan.next(&spoken) {
        TeamStep::Member(member) => TeamTurn::Reply(call_of(toolset, member, transcript, ModelReply::default())),
        TeamStep::Choose(choices) => {
            let choices: Vec<_> = choices.into_iter().map(str::to_owned).collect();
            match selection(plan, &choices, transcript, earlier) {
                Ok(messages) => TeamTurn::Ask { choices, messages },
                Err(message) => TeamTurn::Failed { code: failure_code::NO_SUCH_MEMBER.into(), message },
            }
        }
        TeamStep::Done => reply(last.map(|call| answer_of(call, Some(renderer))).unwrap_or_default()),
    }
}

fn reply(text: String) -> TeamTurn {
    TeamTurn::Reply(ModelReply { text: Some(text), ..ModelReply::default() })
}

/// The turn of a member, as the answer of a model that calls it.
fn call_of(toolset: &Toolset, member: &str, transcript: &Transcript, reply: ModelReply) -> ModelReply {
    let alias = toolset.get(member).map_or_else(|| member.to_owned(), |member| member.alias.to_string());
    let mut input = transcript.spec.input.clone();
    if input.len() > INPUT_REPEATED {
        input.truncate(input.floor_char_boundary(INPUT_REPEATED));
        input.push('…');
    }
    let arguments = serde_json::json!({ "input": input }).to_string();
    ModelReply { calls: vec![ModelCall { provider_id: "turn".into(), alias, arguments }], ..reply }
}

/// Turns the answer of a selector into the call of the member that it names.
pub(crate) fn chosen(
    reply: ModelReply,
    choices: &[String],
    transcript: &Transcript,
    toolset: &Toolset,
) -> Result<ModelReply, String> {
    let answer = reply.text.clone().unwrap_or_default();
    let choices: Vec<&str> = choices.iter().map(String::as_str).collect();
    let Some(member) = TeamPlan::chosen(&answer, &choices) else {
        let shown: String = answer.chars().take(200).collect();
        return Err(format!("the selector answered `{shown}`, and not one of {}", choices.join(", ")));
    };
    Ok(call_of(toolset, member, transcript, reply))
}

/// What a selector is asked.
fn selection(
    plan: &TeamPlan,
    choices: &[String],
    transcript: &Transcript,
    earlier: &EarlierText,
) -> Result<Vec<Message>, String> {
    let template = plan.selector_prompt.as_deref().unwrap_or(SELECTOR_PROMPT);
    let template = Template::parse(template).map_err(|error| format!("`selectorPrompt` is not a template: {error}"))?;
    let participants = choices.join(", ");
    let role = |(member, role): (&String, &String)| format!("{member}: {role}");
    let roles = plan.members.iter().zip(&plan.roles).filter(|(member, _)| choices.contains(member));
    let roles = roles.map(role).collect::<Vec<_>>().join("\n");
    let mut history = format!("{}user: {}", earlier.0, transcript.spec.input);
    for call in transcript.calls() {
        history.push_str(&format!("\n\n{}: {}", call.asked.tool, answer_of(call, None)));
    }
    let filled = template.render(|name| match name {
        "Participants" => Some(participants.as_str()),
        "Roles" => Some(roles.as_str()),
        "History" => Some(history.as_str()),
        _ => None,
    });
    let filled = filled.map_err(|error| format!("`selectorPrompt` cannot be rendered: {error}"))?;
    let prompt = transcript.spec.prompt.clone().map(Message::System);
    Ok(prompt.into_iter().chain([Message::User(filled)]).collect())
}

/// What the next member reads: the conversation, the input of the team, and what the members before it have answered.
pub(crate) fn input_of_member(transcript: &Transcript, earlier: &EarlierText) -> String {
    let mut input = earlier.before(&transcript.spec.input);
    let answered: Vec<&Call> = transcript.calls().filter(|call| call.result.is_some()).collect();
    if answered.is_empty() {
        return input;
    }
    input.push_str("\n\nThe other members of the team have answered so far:");
    for call in answered {
        input.push_str(&format!("\n\n{}:\n{}", call.asked.tool, answer_of(call, None)));
    }
    input
}

/// The answer of a member. One that is too large for the journal is shown as far as a model would be.
fn answer_of(call: &Call, renderer: Option<&ResultRenderer>) -> String {
    let Some(outcome) = call.result.as_ref().map(|recorded| Arc::clone(&recorded.outcome)) else {
        return String::new();
    };
    let whole = outcome.content().and_then(Content::inline_text).map(std::borrow::Cow::into_owned);
    let shown = || {
        renderer
            .map_or_else(|| "(too long to be shown)".to_owned(), |renderer| renderer.render(call.asked.call, &outcome))
    };
    whole.unwrap_or_else(shown)
}
