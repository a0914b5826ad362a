//! Is a history linearizable? The search of Wing and Gong with Lowe's memory of configurations.
//!
//! A history is a list of operations with the times of call and return. It is linearizable if there
//! is an order of the operations in which each has the answer that a sequential store gives, and in
//! which none comes before one that had returned before it was called. The search takes any operation
//! that no other must precede, lets the model do it, goes on, and takes it back when stuck; a set of
//! operations done together with the state it led to is tried once only. Few operations overlap, so
//! the search is nearly linear for a history that is right. One thread, no I/O.

use std::collections::HashSet;
use std::hash::Hash;

/// What a sequential store does.
pub(crate) trait Model {
    type State: Clone + Eq + Hash;
    type Operation;

    /// The state after an operation that answered as it did; none if it cannot have answered so.
    fn step(state: &Self::State, operation: &Self::Operation) -> Option<Self::State>;
}

/// An operation and when it was under way.
#[derive(Clone, Debug)]
pub(crate) struct Span<O> {
    pub(crate) called: u64,
    pub(crate) returned: u64,
    pub(crate) operation: O,
}

/// What a search found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict<S> {
    /// There is such an order; it can end in this state.
    Linearizable(S),
    /// There is none. The longest beginning that can be explained, as indices into the history.
    Broken(Vec<usize>),
    /// More configurations than were allowed.
    Undecided,
}

/// Searches an order that explains the history; at most so many configurations are tried.
pub(crate) fn check<M: Model>(
    start: &M::State,
    history: &[Span<M::Operation>],
    most: usize,
) -> Verdict<M::State> {
    let mut search = Search::<M>::new(history);
    let mut state = start.clone();
    let mut at = search.first();
    loop {
        if search.path.len() == history.len() {
            return Verdict::Linearizable(state);
        }
        match search.try_from(at, &state) {
            Some((index, next)) => {
                search.take(index, std::mem::replace(&mut state, next));
                at = search.first();
            }
            None => match search.take_back() {
                Some((index, before)) => {
                    state = before;
                    at = search.next_of(index);
                }
                None => return Verdict::Broken(search.longest),
            },
        }
        if search.seen.len() > most {
            return Verdict::Undecided;
        }
    }
}

/// Indices by time of call; `next[i]` and `previous[i]` link those not yet taken, with a sentinel at
/// the end.
struct Search<'a, M: Model> {
    history: &'a [Span<M::Operation>],
    /// Order of calls: position to index in the history.
    order: Vec<usize>,
    next: Vec<usize>,
    previous: Vec<usize>,
    taken: Vec<u64>,
    path: Vec<(usize, M::State)>,
    longest: Vec<usize>,
    seen: HashSet<(Vec<u64>, M::State)>,
}

impl<'a, M: Model> Search<'a, M> {
    fn new(history: &'a [Span<M::Operation>]) -> Search<'a, M> {
        let count = history.len();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|index| history.get(*index).map(|span| span.called));
        // Position `count` is the sentinel on both ends.
        Search {
            history,
            order,
            next: (0..count).map(|at| at + 1).chain([0]).collect(),
            previous: (0..count)
                .map(|at| at.checked_sub(1).unwrap_or(count))
                .chain([count.saturating_sub(1)])
                .collect(),
            taken: vec![0; count.div_ceil(64)],
            path: Vec::new(),
            longest: Vec::new(),
            seen: HashSet::new(),
        }
    }

    fn end(&self) -> usize {
        self.history.len()
    }

    fn first(&self) -> usize {
        self.next_of(self.end())
    }

    fn next_of(&self, position: usize) -> usize {
        self.next.get(position).copied().unwrap_or(self.end())
    }

    fn span(&self, position: usize) -> Option<&'a Span<M::Operation>> {
        self.history.get(*self.order.get(position)?)
    }

    /// The next operation from a position on that may come now and leads to something new.
    fn try_from(&mut self, from: usize, state: &M::State) -> Option<(usize, M::State)> {
        // Whatever was called after one of the open ones had returned must come after that one.
        let earliest_return = self
            .open()
            .filter_map(|p| self.span(p))
            .map(|s| s.returned)
            .min()?;
        let mut at = from;
        while at != self.end() {
            let span = self.span(at)?;
            if span.called > earliest_return {
                return None;
            }
            if let Some(next) = M::step(state, &span.operation) {
                let mut taken = self.taken.clone();
                flip(&mut taken, at);
                if self.seen.insert((taken, next.clone())) {
                    return Some((at, next));
                }
            }
            at = self.next_of(at);
        }
        None
    }

    /// Operations not yet taken, in order of their calls, as far as they can matter: once one was
    /// called after another had returned, so were all that follow.
    fn open(&self) -> impl Iterator<Item = usize> + '_ {
        let mut at = self.first();
        let mut earliest = u64::MAX;
        std::iter::from_fn(move || {
            let span = self.span(at)?;
            if span.called > earliest {
                return None;
            }
            earliest = earliest.min(span.returned);
            let this = at;
            at = self.next_of(at);
            Some(this)
        })
    }

    fn take(&mut self, position: usize, before: M::State) {
        let (next, previous) = (
            self.next_of(position),
            self.previous.get(position).copied().unwrap_or(0),
        );
        set(&mut self.next, previous, next);
        set(&mut self.previous, next, previous);
        flip(&mut self.taken, position);
        self.path.push((position, before));
        if self.path.len() > self.longest.len() {
            let index = |(position, _): &(usize, M::State)| self.order.get(*position).copied();
            self.longest = self.path.iter().filter_map(index).collect();
        }
    }

    fn take_back(&mut self) -> Option<(usize, M::State)> {
        let (position, before) = self.path.pop()?;
        let (next, previous) = (
            self.next_of(position),
            self.previous.get(position).copied().unwrap_or(0),
        );
        set(&mut self.next, previous, position);
        set(&mut self.previous, next, position);
        flip(&mut self.taken, position);
        Some((position, before))
    }
}

fn set(links: &mut [usize], at: usize, to: usize) {
    if let Some(link) = links.get_mut(at) {
        *link = to;
    }
}

fn flip(taken: &mut [u64], position: usize) {
    if let Some(word) = taken.get_mut(position / 64) {
        *word ^= 1 << (position % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A register.
    struct Register;

    enum Op {
        Write(u8),
        Read(u8),
    }

    impl Model for Register {
        type State = u8;
        type Operation = Op;

        fn step(state: &u8, operation: &Op) -> Option<u8> {
            match operation {
                Op::Write(value) => Some(*value),
                Op::Read(value) => (value == state).then_some(*state),
            }
        }
    }

    fn verdict(spans: &[(u64, u64, Op)]) -> Verdict<u8> {
        let copy = |op: &Op| match op {
            Op::Write(v) => Op::Write(*v),
            Op::Read(v) => Op::Read(*v),
        };
        let span = |(called, returned, op): &(u64, u64, Op)| Span {
            called: *called,
            returned: *returned,
            operation: copy(op),
        };
        check::<Register>(&0, &spans.iter().map(span).collect::<Vec<_>>(), 1000)
    }

    #[test]
    fn overlapping_operations_may_come_in_any_order() {
        use Op::{Read, Write};
        assert_eq!(verdict(&[]), Verdict::Linearizable(0));
        assert_eq!(
            verdict(&[(0, 10, Write(1)), (1, 2, Read(0)), (3, 4, Read(1))]),
            Verdict::Linearizable(1)
        );
        // The reader that comes later must not see less.
        assert_eq!(
            verdict(&[(0, 10, Write(1)), (1, 2, Read(1)), (3, 4, Read(0))]),
            Verdict::Broken(vec![0, 1])
        );
        // Two writers that overlap, and readers who disagree on their order.
        let agreed = [
            (0, 9, Write(1)),
            (0, 9, Write(2)),
            (10, 11, Read(1)),
            (12, 13, Read(1)),
        ];
        assert_eq!(verdict(&agreed), Verdict::Linearizable(1));
        let disagreed = [
            (0, 9, Write(1)),
            (0, 9, Write(2)),
            (10, 11, Read(1)),
            (12, 13, Read(2)),
        ];
        assert!(matches!(verdict(&disagreed), Verdict::Broken(_)));
    }

    #[test]
    fn a_search_that_is_too_long_says_so() {
        let mut spans: Vec<(u64, u64, Op)> = (0..24).map(|n| (0, 100, Op::Write(n))).collect();
        spans.push((200, 201, Op::Read(77)));
        assert_eq!(verdict(&spans), Verdict::Undecided);
    }
}
