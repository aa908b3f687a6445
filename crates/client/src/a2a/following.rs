//! Following a task to its end, across reconnects.
//!
//! A stream begins with the task as it is, so a reconnect misses no status; a server that gives its events ids gets the
//! last one back, and continues after it. Servers may close a stream while a task waits: then the task is subscribed
//! to. An agent that does not stream is polled.

use std::{collections::VecDeque, time::Duration};

use bosun_wire::a2a::{SendMessageRequest, SendMessageResponse, StreamEvent};

use super::{
    A2aAgent,
    reader::{ReadEvent, TaskReader},
};
use crate::{
    ClientError, ClientTools, Event, EventStream,
    retry::{MAX_FAILURES, backoff, pause},
    timeline::TimelineItem,
    transport::Asked,
};

/// The events of one task, over as many connections as it takes.
pub(crate) struct TaskEvents<'a> {
    agent: &'a A2aAgent,
    task: String,
    stream: Option<EventStream>,
    last_id: Option<String>,
    reader: TaskReader,
    ready: VecDeque<TimelineItem>,
    /// Consecutive failures without a new event in between.
    failures: u32,
    /// Consecutive connections, or polls, without a new event, which the server has ended as the protocol lets it.
    endings: u32,
    pause: Duration,
    /// Whether the next connection is worth mentioning.
    is_lost: bool,
}

impl<'a> TaskEvents<'a> {
    /// Sends the message of a question, and follows its task.
    ///
    /// An unreachable server is an error at once. If the connection breaks later, the same message is sent again to an
    /// agent with the client-tools extension, which makes it the same task.
    pub(crate) async fn create(
        agent: &'a A2aAgent,
        message_id: &str,
        asked: Asked,
        tools: Option<&ClientTools>,
    ) -> Result<Self, ClientError> {
        let replied_to = asked.task.clone();
        let request = agent.creation(message_id, asked, tools)?;
        let mut events = Self { is_lost: false, ..Self::resume(agent, String::new()) };
        loop {
            match events.send(&request).await {
                Ok(()) => {
                    events.failures = 0;
                    return Ok(events);
                }
                Err(error @ ClientError::Unreachable { .. }) if events.failures == 0 => return Err(error),
                Err(error @ ClientError::Broken { .. }) if !agent.has_client_tools => return Err(error),
                // A reply whose answer was lost has arrived: the task no longer waits.
                Err(error) if events.failures > 0 && error.code() == Some("unsupported_operation") => {
                    return replied_to.map(|task| Self::resume(agent, task)).ok_or(error);
                }
                Err(error) => events.failed(error).map(drop)?,
            }
            tokio::time::sleep(events.pause).await;
        }
    }

    /// Sends the message, and reads the first event: it names the task.
    async fn send(&mut self, request: &SendMessageRequest) -> Result<(), ClientError> {
        let first = if self.agent.is_streaming {
            let mut stream = self.agent.stream(request).await?;
            let Some(event) = stream.next().await? else {
                let server = self.agent.connection.server().to_owned();
                return Err(ClientError::Broken { server, reason: "the server ended the stream".into() });
            };
            self.stream = Some(stream);
            self.last_id.clone_from(&event.id);
            self.agent.event(&event.data)?
        } else {
            match self.agent.send(request).await? {
                SendMessageResponse::Task(task) => StreamEvent::Task(task),
                SendMessageResponse::Message(message) => StreamEvent::Message(message),
            }
        };
        match &first {
            StreamEvent::Task(task) => self.task.clone_from(&task.id),
            // It has no task, or continues one.
            StreamEvent::Message(message) => self.task.clone_from(&message.task_id),
            StreamEvent::StatusUpdate(_) | StreamEvent::ArtifactUpdate(_) => {
                return Err(ClientError::Unreadable("a stream must begin with a task or a message".to_owned()));
            }
        }
        let id = self.last_id.clone();
        let read = self.reader.read(first)?;
        self.report(id, read);
        Ok(())
    }

    /// Follows a task that exists.
    pub(crate) fn resume(agent: &'a A2aAgent, task: String) -> Self {
        Self {
            agent,
            task,
            stream: None,
            last_id: None,
            reader: TaskReader::default(),
            ready: VecDeque::new(),
            failures: 0,
            endings: 0,
            pause: Duration::ZERO,
            is_lost: true,
        }
    }

    /// The id of the task.
    pub(crate) fn task(&self) -> &str {
        &self.task
    }

    /// The next item. To be called until an event says that the task has ended. May be dropped at any time.
    pub(crate) async fn next(&mut self) -> Result<TimelineItem, ClientError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(item);
            }
            let Some(stream) = &mut self.stream else {
                tokio::time::sleep(self.pause).await;
                self.connect().await?;
                continue;
            };
            let lost = match stream.next().await {
                Ok(Some(event)) => {
                    self.take(event)?;
                    continue;
                }
                Ok(None) if self.reader.is_interrupted() => {
                    self.stream = None;
                    self.pause = backoff(self.endings);
                    self.endings += 1;
                    continue;
                }
                Ok(None) => {
                    let server = self.agent.connection.server().to_owned();
                    ClientError::Broken { server, reason: "the server ended the stream".into() }
                }
                Err(error) => error,
            };
            self.stream = None;
            self.lose(lost)?;
        }
    }

    async fn connect(&mut self) -> Result<(), ClientError> {
        if !self.agent.is_streaming || self.reader.lacks_answer() {
            return self.poll().await;
        }
        match self.agent.subscribe(&self.task, self.last_id.as_deref()).await {
            Ok(stream) => {
                self.stream = Some(stream);
                self.found();
                Ok(())
            }
            // It has ended, or the agent does not stream tasks that exist.
            Err(error) if error.code() == Some("unsupported_operation") => self.poll().await,
            Err(error) => self.lose(error),
        }
    }

    async fn poll(&mut self) -> Result<(), ClientError> {
        match self.agent.get(&self.task).await {
            Ok(task) => {
                self.found();
                self.endings += 1;
                let read = self.reader.task(task)?;
                self.report(None, read);
                self.pause = backoff(self.endings.max(1));
                Ok(())
            }
            Err(error) => self.lose(error),
        }
    }

    /// Reads an event of the stream.
    fn take(&mut self, event: Event) -> Result<(), ClientError> {
        let read = self.reader.read(self.agent.event(&event.data)?)?;
        if event.id.is_some() && event.id != self.last_id {
            self.failures = 0;
            self.last_id.clone_from(&event.id);
        }
        self.report(event.id, read);
        if self.reader.lacks_answer() {
            self.stream = None;
            self.pause = Duration::ZERO;
        }
        Ok(())
    }

    fn report(&mut self, id: Option<String>, read: Vec<ReadEvent>) {
        if !read.is_empty() {
            (self.failures, self.endings) = (0, 0);
        }
        self.ready.extend(read.into_iter().map(|(name, data)| {
            let event = Event { id: id.clone(), name: name.to_owned(), data: data.to_string() };
            TimelineItem::Event { event, data, is_of_child: false }
        }));
    }

    fn found(&mut self) {
        if std::mem::take(&mut self.is_lost) {
            self.ready.push_back(TimelineItem::Back);
        }
    }

    fn lose(&mut self, error: ClientError) -> Result<(), ClientError> {
        let lost = self.failed(error)?;
        self.is_lost = true;
        self.ready.push_back(TimelineItem::Lost(lost));
        Ok(())
    }

    /// Counts a failure; returns it as an error if it is permanent, or one too many.
    fn failed(&mut self, error: ClientError) -> Result<ClientError, ClientError> {
        self.failures += 1;
        self.pause = pause(self.failures, Some(&error));
        if error.is_passing() && self.failures <= MAX_FAILURES { Ok(error) } else { Err(error) }
    }
}
