//! PARSEC's own barrier (`parsec_barrier.cpp`, with its default `ENABLE_SPIN_BARRIER`): a mutex, a condition, and two
//! phases. All threads arrive, then all leave, and only after that can a thread arrive for the next use. A waiting
//! thread first polls the phase, then polls the mutex without sleeping, and sleeps only if the phase has not changed
//! when it has the mutex.

use workload::{CondId, Env, MutexId, Op};

#[derive(Clone, Copy)]
pub(super) struct Barrier {
    pub(super) mutex: MutexId,
    pub(super) cond: CondId,
    /// The first of two shared words: the number of threads inside, and whether they are leaving
    /// (the original's `is_arrival_phase`, negated so that it starts at 0).
    pub(super) words: usize,
    /// The number of threads for which the barrier waits.
    pub(super) parties: u64,
    /// The duration of polling the phase, as work in ns at the reference speed.
    pub(super) spin: u64,
}

pub(super) const WORDS: usize = 2;

pub(super) struct Wait {
    barrier: Barrier,
    at: At,
}

#[derive(Clone, Copy)]
enum At {
    Outside,
    /// The thread holds the mutex, and checks whether the last use of the barrier is over.
    Enter,
    /// The last thread of the previous use has not left yet, so the thread polls until it has left, then takes the
    /// mutex.
    PollLeft,
    TakeToEnter,
    /// The thread holds the mutex.
    Arrive,
    PollArrived,
    TakeToLeave,
    Leave,
    Unlock,
}

impl Wait {
    pub(super) fn new(barrier: Barrier) -> Wait {
        Wait {
            barrier,
            at: At::Outside,
        }
    }

    /// The next op of the passage; `None` once the thread is through.
    pub(super) fn next(&mut self, env: &mut Env) -> Option<Op> {
        let Barrier {
            mutex,
            cond,
            words,
            parties,
            spin,
        } = self.barrier;
        let (inside, leaving) = (words, words + 1);
        let poll = |value| Op::SpinWhile {
            word: leaving,
            value,
            work: spin,
        };
        let (at, op) = match self.at {
            At::Outside => (At::Enter, Op::Lock(mutex)),
            At::Enter if env.shared[leaving] == 1 => (At::PollLeft, Op::Unlock(mutex)),
            At::PollLeft => (At::TakeToEnter, poll(1)),
            At::TakeToEnter => (At::Arrive, Op::SpinLock(mutex)),
            At::Arrive if env.shared[leaving] == 1 => (At::Arrive, Op::Wait { cond, mutex }),
            At::Enter | At::Arrive => {
                env.shared[inside] += 1;
                if env.shared[inside] >= parties {
                    env.shared[leaving] = 1;
                    (At::Leave, Op::BroadcastRequeue(cond))
                } else {
                    (At::PollArrived, Op::Unlock(mutex))
                }
            }
            At::PollArrived => (At::TakeToLeave, poll(0)),
            At::TakeToLeave => (At::Leave, Op::SpinLock(mutex)),
            At::Leave if env.shared[leaving] == 0 => (At::Leave, Op::Wait { cond, mutex }),
            At::Leave => {
                env.shared[inside] -= 1;
                if env.shared[inside] == 0 {
                    env.shared[leaving] = 0;
                    (At::Unlock, Op::BroadcastRequeue(cond))
                } else {
                    self.at = At::Unlock;
                    return self.next(env);
                }
            }
            At::Unlock => {
                self.at = At::Outside;
                return None;
            }
        };
        self.at = at;
        Some(op)
    }

    /// The op to execute after [`Wait::next`] has returned `None`.
    pub(super) fn unlock(&self) -> Op {
        Op::Unlock(self.barrier.mutex)
    }
}
