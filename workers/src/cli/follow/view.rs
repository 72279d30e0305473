//! The terminal view of a run and its child runs, with prompts.

use std::collections::HashMap;

use windlass_core::{
    awaits::AwaitView,
    envelope::{AnswerReply, AnswerStatus},
    event::{Event, EventBody},
    ids::{AwaitId, RunId},
};

use super::{
    prompt::{Prompter, Typed},
    screen::Screen,
};
use crate::render::{EventView, Hint, how_to_answer, one_line};

pub(super) struct View {
    root: RunId,
    hint: Hint,
    screen: Screen,
    views: HashMap<RunId, EventView>,
    prompter: Option<Prompter>,
}

impl View {
    pub(super) fn new(root: &RunId, hint: Hint, prompter: Option<Prompter>) -> Self {
        let screen = Screen::new();
        screen.doing("starting".to_owned());
        Self { root: root.clone(), hint, screen, views: HashMap::new(), prompter }
    }

    pub(super) fn show_event(&mut self, run: &RunId, depth: usize, event: &Event) {
        let (paint, asks_directly) = (self.screen.paint(), self.prompter.is_some());
        let body = event.body();
        // A question that another client answered is removed before the event is shown.
        if let (Ok(EventBody::AwaitClosed { await_id, .. }), Some(prompter)) = (&body, &mut self.prompter)
            && prompter.closed(run, await_id)
        {
            self.screen.stop_asking(false);
        }
        let view = self
            .views
            .entry(run.clone())
            .or_insert_with(|| EventView::new(run.clone(), depth, self.hint.clone(), paint, asks_directly));
        for show in view.apply(event) {
            self.screen.show(show);
        }
        if *run == self.root {
            self.screen.doing(view.doing());
        }
        if let (Ok(EventBody::AwaitOpened { item }), Some(prompter)) = (body, &mut self.prompter) {
            prompter.opened(run, item);
        }
    }

    /// Asks the next question, if there is one. Returns whether a question is being asked.
    pub(super) fn ask(&mut self) -> bool {
        let Some(prompter) = &mut self.prompter else { return false };
        if let Some(question) = prompter.next_question() {
            self.screen.ask(&question);
        }
        prompter.is_asking()
    }

    pub(super) fn typed(&mut self, line: &str) -> Typed {
        self.screen.stop_asking(true);
        self.prompter.as_mut().map_or(Typed::Again(None), |prompter| prompter.typed(line))
    }

    /// Handles the run's reply to an answer. An invalid answer is asked for again.
    pub(super) fn replied(&mut self, run: &RunId, id: &AwaitId, reply: &AnswerReply) {
        if !reply.accepted() {
            self.note(&reply.message);
        }
        if reply.status == AnswerStatus::Invalid {
            self.ask_again(run, id);
        } else if let Some(prompter) = &mut self.prompter {
            prompter.closed(run, id);
        }
    }

    pub(super) fn ask_again(&mut self, run: &RunId, id: &AwaitId) {
        if let Some(prompter) = &mut self.prompter {
            prompter.reopen(run, id);
        }
    }

    /// Shows how to answer a question that was left open.
    pub(super) fn left_open(&mut self, run: &RunId, item: &AwaitView) {
        self.note(&format!("{} stays open; answer it with:", item.id));
        for command in how_to_answer(&self.hint, run, item) {
            self.screen.line(&format!("  $ {command}"));
        }
    }

    pub(super) fn server_gone(&mut self) {
        self.note("server gone, waiting for it…");
        self.screen.doing("waiting for the server".to_owned());
    }

    pub(super) fn server_back(&mut self) {
        self.note("server is back");
        let doing = self.views.get(&self.root).map_or_else(|| "starting".to_owned(), EventView::doing);
        self.screen.doing(doing);
    }

    pub(super) fn note(&mut self, text: &str) {
        let line = self.screen.paint().attention(&format!("! {}", one_line(text, 1000)));
        self.screen.line(&line);
    }

    pub(super) fn failed(&mut self, message: &str) {
        let line = self.screen.paint().bad(&format!("✗ failed: {}", one_line(message, 1000)));
        self.screen.line(&line);
    }

    pub(super) fn close(&mut self) {
        self.screen.close();
    }
}
