use temporalio_protos::temporal::api::{
    command::v1::{Command as WholeCommand, CompleteWorkflowExecutionCommandAttributes},
    enums::v1::EventType,
    taskqueue::v1::StickyExecutionAttributes,
};

use super::*;

fn run() -> Run {
    let request = StartWorkflowExecutionRequest {
        workflow_id: "run-1".to_owned(),
        task_queue: Some(normal("bench")),
        ..Default::default()
    };
    Run::start("run-1-0".to_owned(), request)
}

/// The ids and types of the events, and the event after which they begin.
fn events(task: PollWorkflowTaskQueueResponse) -> (i64, Vec<(i64, EventType)>) {
    let events = task.history.unwrap_or_default().events;
    (task.previous_started_event_id, events.iter().map(|event| (event.event_id, event.event_type())).collect())
}

fn commands(commands: Vec<Command>) -> RespondWorkflowTaskCompletedRequest {
    let sticky = StickyExecutionAttributes { worker_task_queue: Some(normal("sticky")), ..Default::default() };
    RespondWorkflowTaskCompletedRequest {
        commands: commands
            .into_iter()
            .map(|command| WholeCommand { attributes: Some(command), ..Default::default() })
            .collect(),
        sticky_attributes: Some(sticky),
        return_new_workflow_task: true,
        ..Default::default()
    }
}

fn call(request_eager_execution: bool) -> Command {
    Command::ScheduleActivityTaskCommandAttributes(ScheduleActivityTaskCommandAttributes {
        task_queue: Some(normal("bench")),
        request_eager_execution,
        ..Default::default()
    })
}

fn ended(scheduled: i64) -> Happened {
    Happened::ActivityEnded { scheduled, result: None }
}

#[test]
fn a_task_has_the_events_since_the_last_one() {
    use EventType as E;
    let run = run();
    assert_eq!(run.queue(), "bench");
    let first = vec![(1, E::WorkflowExecutionStarted), (2, E::WorkflowTaskScheduled), (3, E::WorkflowTaskStarted)];
    assert_eq!(run.take_task().map(events), Some((0, first)));
    assert!(run.take_task().is_none());

    let done = run.complete_task(commands(vec![call(true), call(false)])).unwrap();
    assert_eq!(read_activity_token(&done.response.activity_tasks[0].task_token), Some((5, "run-1")));
    assert_eq!(read_activity_token(&done.activities[0].1.task_token), Some((6, "run-1")));
    assert_eq!((done.activities[0].0.as_str(), done.due), ("bench", None));

    // The second result comes before the worker has the task for the first.
    assert_eq!(run.happens(ended(6)).as_deref(), Some("sticky"));
    assert_eq!(run.happens(ended(5)), None);
    let second = [
        E::WorkflowTaskCompleted,
        E::ActivityTaskScheduled,
        E::ActivityTaskScheduled,
        E::ActivityTaskStarted,
        E::ActivityTaskCompleted,
        E::WorkflowTaskScheduled,
        E::ActivityTaskStarted,
        E::ActivityTaskCompleted,
        E::WorkflowTaskStarted,
    ];
    assert_eq!(run.take_task().map(events), Some((3, (4..).zip(second).collect())));
}

#[test]
fn what_happens_during_a_task_is_in_the_next_one() {
    use EventType as E;
    let run = run();
    run.take_task().unwrap();
    assert_eq!(run.happens(Happened::Signaled { name: "answer".to_owned(), input: None }), None);
    let next = run.complete_task(commands(Vec::new())).unwrap().response.workflow_task;
    let expected =
        [E::WorkflowTaskCompleted, E::WorkflowExecutionSignaled, E::WorkflowTaskScheduled, E::WorkflowTaskStarted];
    assert_eq!(next.map(events), Some((3, (4..).zip(expected).collect())));
}

#[test]
fn a_closed_run_has_its_last_event_and_no_more_tasks() {
    let run = run();
    run.take_task().unwrap();
    let complete = CompleteWorkflowExecutionCommandAttributes::default();
    run.complete_task(commands(vec![Command::CompleteWorkflowExecutionCommandAttributes(complete)])).unwrap();
    let closed = run.closed.borrow().as_ref().map(HistoryEvent::event_type);
    assert_eq!(closed, Some(EventType::WorkflowExecutionCompleted));
    assert_eq!(run.happens(ended(5)), None);
    assert!(run.complete_task(commands(Vec::new())).is_err());
}
