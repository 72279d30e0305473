//! What to do with the buffered actions: start, skip, keep, or end what runs.

use temporalio_protos::temporal::api::enums::v1::ScheduleOverlapPolicy as Policy;

use super::state::BufferedStart;

/// What becomes of a buffer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sorted {
    /// Started at once, whatever runs.
    pub(super) overlapping: Vec<BufferedStart>,
    /// Started now, because nothing runs.
    pub(super) alone: Option<BufferedStart>,
    /// Kept until what runs has ended.
    pub(super) kept: Vec<BufferedStart>,
    pub(super) skipped: i64,
    pub(super) cancels: bool,
    pub(super) terminates: bool,
}

/// `resolve` gives the policy of an action that has none of its own; it is applied late, so that an update of the
/// schedule's policy reaches buffered actions.
pub(super) fn sort(buffer: Vec<BufferedStart>, is_running: bool, resolve: impl Fn(Policy) -> Policy) -> Sorted {
    let mut sorted = Sorted::default();
    for start in buffer {
        let policy = resolve(start.overlap_policy());
        if policy == Policy::AllowAll {
            sorted.overlapping.push(start);
            continue;
        }
        if !is_running && sorted.alone.is_none() {
            sorted.alone = Some(start);
            continue;
        }
        match policy {
            Policy::BufferOne if sorted.kept.is_empty() => sorted.kept.push(start),
            Policy::Skip | Policy::BufferOne => sorted.skipped += 1,
            Policy::BufferAll => sorted.kept.push(start),
            // The other one has not started yet, so it is replaced.
            Policy::CancelOther | Policy::TerminateOther if !is_running => sorted.alone = Some(start),
            Policy::CancelOther => {
                sorted.cancels = true;
                sorted.kept.push(start);
            }
            Policy::TerminateOther => {
                sorted.terminates = true;
                sorted.kept.push(start);
            }
            Policy::Unspecified | Policy::AllowAll => {}
        }
    }
    if sorted.cancels || sorted.terminates {
        // They would be ended at once.
        sorted.overlapping.clear();
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(policy: Policy, times: &[i64]) -> Vec<BufferedStart> {
        let start = |at: &i64| BufferedStart { nominal: *at, actual: *at, policy: policy as i32, manual: false };
        times.iter().map(start).collect()
    }

    fn sorted(policy: Policy, is_running: bool) -> Sorted {
        sort(starts(policy, &[1, 2, 3]), is_running, |policy| policy)
    }

    #[test]
    fn each_policy_while_nothing_runs() {
        let first = |policy, at| starts(policy, &[at]).pop();
        for (policy, expected) in [
            (Policy::Skip, Sorted { alone: first(Policy::Skip, 1), skipped: 2, ..Sorted::default() }),
            (
                Policy::BufferOne,
                Sorted {
                    alone: first(Policy::BufferOne, 1),
                    kept: starts(Policy::BufferOne, &[2]),
                    skipped: 1,
                    ..Sorted::default()
                },
            ),
            (
                Policy::BufferAll,
                Sorted {
                    alone: first(Policy::BufferAll, 1),
                    kept: starts(Policy::BufferAll, &[2, 3]),
                    ..Sorted::default()
                },
            ),
            (Policy::CancelOther, Sorted { alone: first(Policy::CancelOther, 3), ..Sorted::default() }),
            (Policy::TerminateOther, Sorted { alone: first(Policy::TerminateOther, 3), ..Sorted::default() }),
            (Policy::AllowAll, Sorted { overlapping: starts(Policy::AllowAll, &[1, 2, 3]), ..Sorted::default() }),
        ] {
            assert_eq!(sorted(policy, false), expected, "{policy:?}");
        }
    }

    #[test]
    fn each_policy_while_a_workflow_runs() {
        let kept = |policy, times: &[i64]| Sorted { kept: starts(policy, times), ..Sorted::default() };
        for (policy, expected) in [
            (Policy::Skip, Sorted { skipped: 3, ..Sorted::default() }),
            (Policy::BufferOne, Sorted { skipped: 2, ..kept(Policy::BufferOne, &[1]) }),
            (Policy::BufferAll, kept(Policy::BufferAll, &[1, 2, 3])),
            (Policy::CancelOther, Sorted { cancels: true, ..kept(Policy::CancelOther, &[1, 2, 3]) }),
            (Policy::TerminateOther, Sorted { terminates: true, ..kept(Policy::TerminateOther, &[1, 2, 3]) }),
            (Policy::AllowAll, Sorted { overlapping: starts(Policy::AllowAll, &[1, 2, 3]), ..Sorted::default() }),
        ] {
            assert_eq!(sorted(policy, true), expected, "{policy:?}");
        }
    }

    #[test]
    fn what_would_be_ended_at_once_is_not_started() {
        let both = [starts(Policy::AllowAll, &[1]), starts(Policy::CancelOther, &[2])].concat();
        let expected = Sorted { cancels: true, kept: starts(Policy::CancelOther, &[2]), ..Sorted::default() };
        assert_eq!(sort(both, true, |policy| policy), expected);
    }
}
