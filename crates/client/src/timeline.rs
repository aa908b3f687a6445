//! A query and all queries below it as one timeline.
//!
//! Each query of a tree has its own stream with its own ids, so each is resumed exactly. `child_started` (or `child_ended`, if a
//! crash has prevented the first) subscribes to the child's stream. A `child_ended` is held back until the streams of that
//! child and of all queries below it have been read to their end. The server records ends from the leaves to the root, so an event is
//! never reported before one that caused it; independent queries are interleaved as their events arrive.

use std::collections::{HashMap, HashSet, VecDeque};

use bosun_reading::sse::Event;
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use serde_json::Value;

use crate::{Client, ClientError, Following, Seen};

pub(crate) struct Timeline<'a> {
    client: &'a Client,
    /// One read for each stream that is not held back. They are kept across calls of [`Timeline::next`]: a connection that
    /// is being made is not dropped because another stream has an event.
    reading: FuturesUnordered<BoxFuture<'a, Read<'a>>>,
    /// The streams whose next event is held back.
    held: VecDeque<HeldBack<'a>>,
    /// The parent of each child that was ever followed.
    parents: HashMap<String, String>,
    /// The children whose streams have not ended.
    open: HashSet<String>,
}

/// The result of one read of a stream.
struct Read<'a> {
    query: String,
    following: Following<'a>,
    seen: Result<Seen, ClientError>,
}

/// The end of `child`, which its parent's stream reports.
struct HeldBack<'a> {
    child: String,
    query: String,
    following: Following<'a>,
    event: Event,
    data: Value,
}

/// What a reader of the timeline receives.
#[derive(Debug)]
pub(crate) enum TimelineItem {
    Event {
        event: Event,
        data: Value,
        is_of_child: bool,
    },
    /// The connection of the root broke, and will be retried.
    Lost(ClientError),
    /// It is back.
    Back,
}

impl<'a> Timeline<'a> {
    pub(crate) fn new(client: &'a Client, root: Following<'a>) -> Self {
        let timeline = Self {
            client,
            reading: FuturesUnordered::new(),
            held: VecDeque::new(),
            parents: HashMap::new(),
            open: HashSet::new(),
        };
        timeline.read(root.name().to_owned(), root);
        timeline
    }

    /// The next item. To be called until an event says that the root has ended.
    ///
    /// # Errors
    /// If the server refuses a stream, or has failed too often.
    pub(crate) async fn next(&mut self) -> Result<TimelineItem, ClientError> {
        loop {
            if let Some(released) = self.held.iter().position(|held| !self.is_followed(&held.child))
                && let Some(HeldBack { query, following, event, data, .. }) = self.held.remove(released)
            {
                return Ok(self.report(query, following, event, data));
            }
            let Some(Read { query, following, seen }) = self.reading.next().await else {
                // The root's stream is read until its end, and a child that is awaited is read.
                return Err(ClientError::Unreadable("the stream has no events after its end".to_owned()));
            };
            let is_of_child = self.parents.contains_key(&query);
            let event = match seen {
                Ok(Seen::Event(event)) => event,
                // The reader is told of the root's connection; that of a child is to the same server.
                Ok(Seen::Lost(_) | Seen::Back) if is_of_child => {
                    self.read(query, following);
                    continue;
                }
                Ok(Seen::Lost(error)) => {
                    self.read(query, following);
                    return Ok(TimelineItem::Lost(error));
                }
                Ok(Seen::Back) => {
                    self.read(query, following);
                    return Ok(TimelineItem::Back);
                }
                // It was deleted: nothing more is known of it.
                Err(error) if is_of_child && error.code() == Some("query_not_found") => {
                    self.open.remove(&query);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let data: Value = serde_json::from_str(&event.data)
                .map_err(|error| ClientError::Unreadable(format!("event `{}` is not JSON: {error}", event.name)))?;
            let Some(child) = data["childName"].as_str().map(str::to_owned) else {
                return Ok(self.report(query, following, event, data));
            };
            match event.name.as_str() {
                "child_started" => {
                    self.follow(&child, &query);
                    return Ok(self.report(query, following, event, data));
                }
                "child_ended" => {
                    self.follow(&child, &query);
                    self.held.push_back(HeldBack { child, query, following, event, data });
                }
                // An open call of a query below. The stream of that query has it in its place.
                _ => self.read(query, following),
            }
        }
    }

    /// Subscribes to the stream of a child, once.
    fn follow(&mut self, child: &str, parent: &str) {
        if self.parents.contains_key(child) {
            return;
        }
        self.parents.insert(child.to_owned(), parent.to_owned());
        self.open.insert(child.to_owned());
        self.read(child.to_owned(), Following::resume(self.client, child));
    }

    fn read(&self, query: String, mut following: Following<'a>) {
        let read = async move {
            let seen = following.next().await;
            Read { query, following, seen }
        };
        self.reading.push(read.boxed());
    }

    /// Hands out an event, and reads on unless it is the last one of its stream.
    fn report(&mut self, query: String, following: Following<'a>, event: Event, data: Value) -> TimelineItem {
        let is_of_child = self.parents.contains_key(&query);
        if event.name == "complete" {
            self.open.remove(&query);
        } else {
            self.read(query, following);
        }
        TimelineItem::Event { event, data, is_of_child }
    }

    /// Whether the stream of a child, or of a query below it, has not ended.
    fn is_followed(&self, child: &str) -> bool {
        self.open.iter().any(|open| {
            let mut query = Some(open);
            while let Some(name) = query {
                if name == child {
                    return true;
                }
                query = self.parents.get(name);
            }
            false
        })
    }
}
